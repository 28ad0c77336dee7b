"""Features of one recording, with numpy alone: static ones of several kinds, and from them the input of the net.

`features.padded` computes the input of the net for padded batches, on any device, as training needs it.

To add a kind: its name and keys in `FeatureConfig`, whose ``static_dims`` counts its values, and a subclass of
`FeatureExtractor` in `KINDS`. Without a change to the package: a subclass with `FeatureExtractor.dims`, and
`speechctc.register_features`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from speechctc.config.schema import AugmentConfig, Config, FeatureConfig
from speechctc.core import plugins
from speechctc.core.bundled import bundled_folder
from speechctc.core.errors import InputError

# Kaldi's filter bank expects samples at 16-bit scale; in [-1, 1] quiet frames would fall below its floor.
INT16_SCALE = 32768.0
Rows = NDArray[np.float32]
# The least energy of a band whose logarithm is taken, as in Kaldi; a frame's own is raised to 1.
EPSILON = float(np.finfo(np.float32).eps)
PIECE = 192  # frames that are transformed at a time; they stay in the processor's cache
_GROUP = 16  # rows of one matrix product, or fewer
_ALONE = 2**18  # multiplications up to which OpenBLAS uses one thread; more would wait for each other, and burn a core
LIFTER = 22  # Kaldi's and HTK's
VALUES = 1  # the version of the kinds below: another one with each change of the values that they compute
# Augmentation that suits all features: it changes only their times, or is a user's own.
ANY_KIND = ("speed", "time_masks", "time_mask_ms", "own")


class FeatureExtractor(ABC):
    """Static features of one kind.

    Parameters
    ----------
    config : FeatureConfig

    Attributes
    ----------
    window, shift : int
        Samples of a frame, and samples from the start of a frame to that of the next.
    bands : int
        So many values of a frame, the first, are log powers of neighbouring bands of frequency; 0: none are. They tell
        where a recording is active, and allow the augmentation of `BANDS`. Where there are none, the values have no
        order, and the net takes each as a channel of its own.
    layers : int
        The values are so many vectors of one size after each other, and the net takes their learned mean.
    alone : bool
        It uses all processor cores, or a GPU, by itself, so that one process extracts.
    version : str
        Of a kind of one's own: change it with each change of the values. Features and models of another version are
        refused.
    """

    version: ClassVar[str] = ""

    BANDS: ClassVar[tuple[str, ...]] = tuple(key for key in AugmentConfig.model_fields if key not in ANY_KIND)

    def __init__(self, config: FeatureConfig) -> None:
        self.config = config
        self.window = int(config.sample_rate * config.window_ms * 0.001)
        self.shift = int(config.sample_rate * config.shift_ms * 0.001)
        self.bands, self.layers, self.alone = 0, 1, False

    @classmethod
    def dims(cls, config: FeatureConfig) -> int:
        """Return the number of values of a frame. Only a kind of one's own needs it: the config knows the others."""
        raise NotImplementedError

    @abstractmethod
    def static(self, samples: Rows) -> Rows:
        """Return the static features of a recording.

        Parameters
        ----------
        samples : ndarray, shape = (n_samples,)
            Mono, in [-1, 1], at ``config.sample_rate``.

        Returns
        -------
        ndarray, shape = (n_frames, config.static_dims), float32
        """

    def frames(self, samples: int) -> int:
        """Return the number of frames of a recording; each window is wholly inside it."""
        return 0 if samples < self.window else 1 + (samples - self.window) // self.shift

    def blocks(self, samples: Iterable[Rows]) -> Iterator[Rows]:
        """Yield static features as soon as the samples of a frame are known.

        Parameters
        ----------
        samples : iterable of ndarray, shape = (n,)
            A recording, as for `static`, cut anywhere. An empty block gives an empty one at once.

        Yields
        ------
        ndarray, shape = (n_frames, static_dims)
            Concatenated: `static` of the whole.
        """
        waiting: Rows = np.zeros(0, np.float32)
        for block in samples:
            if not len(block):
                yield np.zeros((0, self.config.static_dims), np.float32)
                continue
            waiting = np.concatenate([waiting, block])
            if frames := self.frames(len(waiting)):
                yield self.static(waiting)
                waiting = waiting[frames * self.shift :]

    def check(self, config: Config) -> None:
        """Check that these features allow the augmentation of a config, and its bundled model to begin with.

        Raises
        ------
        InputError
            They are not log powers of bands, and it changes such; or one of a user's own is not there.
        """
        for name in config.augment.own:
            plugins.need("augmentation", name)
        if self.bands:
            return
        given, plain = config.augment.model_dump(), AugmentConfig().model_dump()
        cures = {f"augment.{key}": plain[key] for key in self.BANDS if given[key] != plain[key]}
        first = config.train.init_from
        if first is not None and bundled_folder(first) and not first.exists():
            cures["train.init_from"] = None
        if cures:
            kind = f"features.kind={self.config.kind}: its values are no log powers of bands"
            values = " ".join(f"{key}={'null' if value is None else f'{value:g}'}" for key, value in cures.items())
            raise InputError(f"{kind}, for which {', '.join(cures)} are", f"set {values}")


class LogMel(FeatureExtractor):
    """Log mel energies, followed by the log energy if configured: the filter bank of Kaldi."""

    def __init__(self, config: FeatureConfig) -> None:
        super().__init__(config)
        self.bands = config.mels
        high = config.high_hz if config.high_hz > 0 else config.sample_rate / 2 + config.high_hz
        self.bank = mel_bank(config.sample_rate, config.mels, config.low_hz, high, self.window)

    def static(self, samples: Rows) -> Rows:
        """Return log mel energies; the frame's log energy is the last value."""
        count = self.frames(len(samples))
        result = np.empty((count, self.bank.shape[1] + int(self.config.energy)), np.float32)
        for first in range(0, count, PIECE):
            until = min(first + PIECE, count)
            part = samples[first * self.shift : (until - 1) * self.shift + self.window]
            frames = np.lib.stride_tricks.sliding_window_view(np.asarray(part, np.float32) * INT16_SCALE, self.window)
            result[first:until] = self._of_frames(frames[:: self.shift])
        return result

    def _of_frames(self, frames: Rows) -> Rows:
        """Return the features of (n_frames, window) samples at 16-bit scale."""
        padded = np.zeros((len(frames), 2 * (len(self.bank) - 1)), np.float32)
        emphasised = padded[:, : self.window]
        frames = frames - frames.mean(1, keepdims=True)
        np.multiply(frames[:, :1], -self.config.preemphasis, out=emphasised[:, :1])  # before the first is the first
        np.multiply(frames[:, :-1], -self.config.preemphasis, out=emphasised[:, 1:])
        emphasised += frames
        emphasised *= _window(self.config.window, self.window)
        spectrum = np.fft.rfft(padded, axis=1)
        power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32, copy=False)  # numpy 1 computes in float64
        mels: Rows = np.log(np.maximum(product(power, self.bank), EPSILON))
        if not self.config.energy:
            return mels
        energy = np.log(np.maximum(np.einsum("ij,ij->i", frames, frames), 1.0))
        return np.concatenate([mels, energy[:, None]], 1)


def product(rows: Rows, matrix: Rows) -> Rows:
    """Return ``rows @ matrix`` of a small matrix, computed by one thread: in products that BLAS does not divide."""
    group = max(min(_GROUP, _ALONE // matrix.size), 1)
    whole = len(rows) // group * group
    result = np.empty((len(rows), matrix.shape[1]), np.float32)
    np.matmul(
        rows[:whole].reshape(-1, group, len(matrix)), matrix, out=result[:whole].reshape(-1, group, matrix.shape[1])
    )
    np.matmul(rows[whole:], matrix, out=result[whole:])
    return result


@lru_cache(maxsize=8)
def _window(kind: str, length: int) -> Rows:
    """Return the window that a frame is multiplied by."""
    turn = 2 * np.pi * np.arange(length) / max(length - 1, 1)
    hann = 0.5 - 0.5 * np.cos(turn)
    kinds = {
        "hamming": 0.54 - 0.46 * np.cos(turn),
        "hanning": hann,
        "povey": hann**0.85,
        "rectangular": np.ones(length),
        "blackman": 0.42 - 0.5 * np.cos(turn) + 0.08 * np.cos(2 * turn),
    }
    return kinds[kind].astype(np.float32)


def _mel(hz: NDArray[Any] | float) -> NDArray[np.float64]:
    return np.asarray(1127.0 * np.log1p(np.asarray(hz, np.float64) / 700.0))


@lru_cache(maxsize=8)
def mel_bank(rate: int, mels: int, low: float, high: float, window: int) -> Rows:
    """Return the triangular filters, (frequencies, mels): equally wide in mel, each from the middle of the last.

    The frequencies are those of a transform of the frame, padded to a power of two; that of Nyquist counts for none.
    """
    padded = 1 << (window - 1).bit_length()
    edges = np.linspace(_mel(low), _mel(high), mels + 2)
    at = _mel(np.arange(padded // 2) * (rate / padded))[:, None]
    rising = (at - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - at) / (edges[2:] - edges[1:-1])
    bank = np.maximum(np.minimum(rising, falling), 0.0)
    return np.pad(bank, ((0, 1), (0, 0))).astype(np.float32)


class MFCC(LogMel):
    """Mel-frequency cepstral coefficients: the cosine transform of log mel energies, liftered as in Kaldi and HTK.

    Their order is HTK's: the first coefficient, or the log energy in its place, is the last value.
    """

    def __init__(self, config: FeatureConfig) -> None:
        super().__init__(config)
        self.bands = 0
        order = np.arange(config.ceps)
        angles = np.outer(np.arange(config.mels) + 0.5, order) * (math.pi / config.mels)
        transform = math.sqrt(2 / config.mels) * np.cos(angles)  # also of order 0, as HTK's; Kaldi's own is orthogonal
        lifter = 1 + LIFTER / 2 * np.sin(order * (math.pi / LIFTER))
        self._transform = np.roll(transform * lifter, -1, 1).astype(np.float32)

    def static(self, samples: Rows) -> Rows:
        """Return the coefficients."""
        bank = super().static(samples)
        values: Rows = product(bank[:, : self.config.mels], self._transform)
        if self.config.energy:
            values[:, -1] = bank[:, -1]
        return values


class Encoder(FeatureExtractor):
    """Layers of a pretrained encoder (`speechctc.features.encoder`), which torch computes.

    It hears a recording of at most ``encoder.seconds`` at once. A longer one goes through it in windows of that length:
    two thirds of each are new, and a sixth at either side is context. The last window ends with the recording. As
    attention sees all of its window, the result is near that of one pass, but not equal to it.
    """

    def __init__(self, config: FeatureConfig, device: str | None = None) -> None:
        super().__init__(config)
        self.window, self.shift = (
            round(config.sample_rate * each / 1000) for each in (config.window_ms, config.shift_ms)
        )
        self.layers, self.alone, self._device = len(config.encoder.chosen), True, device
        self._side = round(config.sample_rate * config.encoder.seconds / 6 / self.shift)  # frames of context

    def static(self, samples: Rows) -> Rows:
        """Return the layers, one after the other in each frame."""
        return np.concatenate([self._nothing(), *self.blocks([samples])])

    def blocks(self, samples: Iterable[Rows]) -> Iterator[Rows]:
        """Yield static features, a window at a time."""
        shift, side = self.shift, self._side
        size, waiting = 6 * side * shift + self.window, self._nothing()[:, 0]
        start, done = 0, 0  # of the next window in `waiting`, in samples; frames of it that were yielded before
        for block in samples:
            if not len(block):
                yield self._nothing()
                continue
            waiting = np.concatenate([waiting, block])
            while len(waiting) > start + size:  # more is to come: this is not the last window
                yield self._apply(waiting[start : start + size])[done : 5 * side]
                waiting, start, done = waiting[start:], 4 * side * shift, side
        if self.frames(len(waiting)):
            first = -(-max(len(waiting) - size, 0) // shift)
            yield self._apply(waiting[first * shift :])[start // shift + done - first :]

    def _nothing(self) -> Rows:
        return np.zeros((0, self.config.static_dims), np.float32)

    def _apply(self, samples: Rows) -> Rows:
        from speechctc.features import encoder  # it loads torch

        return encoder.load(self.config.encoder, self._device)(samples)


KINDS: dict[str, type[FeatureExtractor]] = {"mel": LogMel, "mfcc": MFCC}


def extractor(config: FeatureConfig, device: str | None = None) -> FeatureExtractor:
    """Return the extractor of a config's kind of features.

    Parameters
    ----------
    config : FeatureConfig
    device : str, optional
        Where an encoder computes; None: a GPU where there is one. Samples and features are on the CPU all the same.
    """
    if config.kind == "encoder":
        return Encoder(config, device)
    return KINDS[config.kind](config) if config.kind in KINDS else _own(config)


def _own(config: FeatureConfig) -> FeatureExtractor:
    """Return the extractor of a user's kind of features; what goes wrong in it is an `InputError`."""
    what = f"features.kind={config.kind}"
    if config.version != (now := plugins.version_of(config.kind)):
        was = f"{what}: features.version={config.version!r}, and the class has the version {now!r}"
        raise InputError(was, "use that version of the class, or extract and train again with this one")
    made: FeatureExtractor = plugins.guarded(what, plugins.find("features", config.kind))(config)
    static = plugins.guarded(what, made.static)

    def checked(samples: Rows) -> Rows:
        rows: Rows = static(samples)
        if np.shape(rows)[1:] != (config.static_dims,):
            wrong = f"{what}: static returned the shape {np.shape(rows)}, not (n_frames, {config.static_dims})"
            raise InputError(wrong, "let it return as many values a frame as dims says")
        if len(rows) != (promised := made.frames(len(samples))):
            wrong = f"{what}: static returned {len(rows)} frames of {len(samples)} samples, and frames says {promised}"
            raise InputError(wrong, "let both agree: return as many, or overwrite frames")
        if not np.isfinite(rows).all():
            wrong = f"{what}: static returned values that are no finite numbers (nan or inf)"
            raise InputError(wrong, "let it return finite numbers, for silence too")
        return rows

    vars(made)["static"] = checked
    return made


# The most that `local_cmn` raises quiet frames above what `sliding_cmn` does: nats of power, 30 dB.
MAX_GAIN = 7.0
# The most that a frame below the last of 16 bits lies under the mean, nats of power: 22 dB. As they are, zeros between
# words lie 30 nats under it. The net learned from rooms and microphones, and hears short words beside such zeros badly.
# On six persons 3, 5 and 7 nats gave like errors, 9 and 11 larger ones (benchmarks/bench_halting).
DEPTH = 5.0
PRIOR_SECONDS = 2.0  # of speech that a prior mean counts as: of 0.5, 1, 2 and 4 the best on words of 20 languages

Reals = NDArray[np.float64]


def sliding_cmn(static: Rows, config: FeatureConfig, prior: Rows | None = None) -> Rows:
    """Subtract the power-weighted sliding mean, shape = (n_frames, static_dims); see `padded.sliding_cmn`.

    A prior mean, shape = (static_dims,), counts as `PRIOR_SECONDS` of speech: the mean is the MAP estimate of that of a
    normal distribution (Gauvain and Lee 1994, eq. 25).
    """
    if config.cmn_window_ms is None:
        return static
    known = static.astype(np.float64)
    mean = _sliding_mean(known, _power(known, config), *config.cmn_frames)
    if prior is not None:
        starts, ends = _window_ends(len(known), *config.cmn_frames)
        frames = PRIOR_SECONDS * 1000 / config.shift_ms
        mean += (frames / (frames + ends - starts))[:, None] * (prior - mean)
    return _floored(known - mean, known, config)


def power_sums(static: Rows, config: FeatureConfig) -> Reals:
    """Return the power-weighted sum of frames and, behind it, that of their weights, shape = (static_dims + 1,).

    Of all recordings of a speaker they give a prior for `sliding_cmn`: what a voice, a microphone and a room add is
    better known from many short recordings than from each alone, whose own mean is that of its phones too.
    """
    known = static.astype(np.float64)
    power = _power(known, config)
    return np.append((power * known).sum(0), power.sum())


def local_cmn(static: Rows, config: FeatureConfig) -> Rows:
    """Subtract from a recording, shape = (n_frames, static_dims), the mean of a second before and after each frame.

    Speakers who alternate have each their own mean. It is power-weighted as that of `sliding_cmn`. Its level is at
    least that of `sliding_cmn` less `MAX_GAIN`, so that long pauses do not become as loud as speech.
    """
    known = static.astype(np.float64)
    power = _power(known, config)
    near = _sliding_mean(known, power, config.power_window_frames, config.power_window_frames)
    if not extractor(config).bands:
        return (known - near).astype(np.float32)
    level = _sliding_mean(known.mean(1, keepdims=True), power, *config.cmn_frames)
    raised = np.maximum(level - MAX_GAIN - near.mean(1, keepdims=True), 0)
    return _floored(known - near - raised, known, config)


def _floored(centred: Reals, known: Reals, config: FeatureConfig) -> Rows:
    """Return centred frames; those that are `known` to be below the last of 16 bits are raised to `DEPTH` below 0."""
    result: Rows = centred.astype(np.float32)
    if extractor(config).bands:
        is_silent = known.mean(1) <= 0
        result[is_silent] = np.maximum(result[is_silent], -DEPTH)
    return result


def _power(known: Reals, config: FeatureConfig) -> Reals:
    """Return the weight of each frame in a mean, shape (n_frames, 1); see `padded.sliding_cmn`."""
    same = np.ones((len(known), 1))
    if not extractor(config).bands:
        return same
    loudness = np.maximum(known.mean(1, keepdims=True), 0)
    power = _sliding_mean(np.exp(loudness), same, config.power_window_frames, config.power_window_frames)
    return np.where(loudness > 0, power, 1.0)


def _sliding_mean(values: Reals, weights: Reals, before: int, after: int) -> Reals:
    """Return the weighted mean over `before` and `after` frames around each; weights >= 1."""
    starts, ends = _window_ends(len(values), before, after)
    sums = np.zeros((len(values) + 1, values.shape[1] + 1))
    np.cumsum(np.concatenate([weights * values, weights], 1), axis=0, out=sums[1:])
    inside = sums[ends] - sums[starts]
    return np.asarray(inside[:, :-1] / np.maximum(inside[:, -1:], 1))


def _window_ends(count: int, before: int, after: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first frame of the window around each of `count` frames, and the one after its last."""
    steps = np.arange(count)
    ends = np.minimum(steps + after + 1, count)
    return np.maximum(np.minimum(steps - before, ends - 1), 0), ends


def net_input(centred: Rows, mean: Rows, std: Rows, config: FeatureConfig) -> Rows:
    """Append derivatives and normalise features after CMN; return (n_frames, static_dims, channels), float32."""
    orders = [centred]
    reach = config.delta_window // 2
    for _ in range(config.deltas):
        padded = np.pad(orders[-1], ((reach, reach), (0, 0)), mode="edge")
        count, total = len(centred), np.zeros_like(centred)
        for k in range(1, reach + 1):
            total += k * (padded[reach + k : reach + k + count] - padded[reach - k : reach - k + count])
        orders.append(total / np.float32(reach * (reach + 1) * (2 * reach + 1) / 3))
    stacked: Rows = np.stack(orders, 2)
    stacked -= mean.T
    stacked /= std.T
    return stacked
