"""Compute features and logits in blocks, equal to those of one pass over the whole recording.

The net sees a limited number of frames around each (`model.receptive_field`). A window of frames therefore passes
through the net as if it were a recording, and only the output at least half a receptive field away from a cut is kept.
At the true ends of the recording, derivatives and convolutions pad as in one pass. In the same way sliding CMN
(`features.sliding_cmn`) waits for the frames that its window needs. An empty block of samples passes through all of
this at once, as an empty block: `Stream` learns by it that all samples given so far have been worked on.

Detect where a recording may hold speech, by how much its level changes. After CMN, the level no longer separates noise
from speech, and a search with an n-gram finds phones in any noise. Speech differs from noise by its modulation:
syllables and pauses change the level of some frequency band by tens of dB within a second, while background noise, hum
and digital silence are steady.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.resampling import in_windows
from speechctc.config.schema import Config, FeatureConfig, ModelConfig
from speechctc.core.errors import InputError
from speechctc.features.extractor import extractor
from speechctc.features.one_recording import local_cmn, sliding_cmn
from speechctc.inference.samples import PushedSamples, Samples
from speechctc.inference.segmenter import Segment
from speechctc.model.checkpoint import Checkpoint
from speechctc.model.layers import receptive_field
from speechctc.model.numpy_net import NumpyNet
from speechctc.phones.inventory import SILENCES

BLOCK_FRAMES = 8000  # static frames in one pass of the net: 80 s of speech at 10 ms a frame
LIVE_FRAMES = 50  # the same while samples come: delays phones by half a second

Levels = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.float32]
Logits = NDArray[np.float32]

BEHIND, AHEAD = 1.0, 0.5  # seconds before and after a frame in which levels are compared
# Seconds. In a shorter recording only digital silence is inactive: a vowel cut from a word is steady too.
MIN_SECONDS = 1.0
# Seconds of the median filter, which removes clicks, and of the mean after it, which smooths the level of noise.
SMOOTHING = 0.09
GROUPS = 5  # groups of mel bands: the mean over several bands is steady in noise, and speech changes at least one
# Smallest log mel energy; lower ones are raised to it. White noise in the last of 16 bits is above it.
FLOOR = 5.0
DB = 10 / np.log(10)
FAR_BELOW = 30.0  # distance of a phone's log probability below that of the blank, in an inactive frame


def cmn_blocks(static: Iterable[Rows], config: FeatureConfig) -> Iterator[Rows]:
    """Yield static features after sliding CMN, as soon as the frames that it needs are known.

    Parameters
    ----------
    static : iterable of ndarray, shape = (n, static_dims)
        A recording, cut anywhere.
    config : FeatureConfig

    Yields
    ------
    ndarray, shape = (n_frames, static_dims)
        Concatenated: `sliding_cmn` of the whole.
    """
    return in_windows(static, lambda frames: sliding_cmn(frames, config), *config.cmn_reach)


def local_cmn_blocks(static: Iterable[Rows], config: FeatureConfig) -> Iterator[Rows]:
    """Yield static features after local CMN (`features.local_cmn`) if the recording is longer than the sliding mean.

    The mean of a shorter one is that of all of it, as of the utterances that nets are trained on.

    Parameters
    ----------
    static : iterable of ndarray, shape = (n, static_dims)
        A recording, cut anywhere.
    config : FeatureConfig
    """
    pieces, start, most = iter(static), list[Rows](), sum(config.cmn_frames)
    for piece in pieces:
        start.append(piece)
        if config.cmn_window_ms is not None and sum(map(len, start)) > most:
            behind, ahead = (max(each, 2 * config.power_window_frames) for each in config.cmn_reach)
            yield from in_windows(chain(start, pieces), lambda frames: local_cmn(frames, config), behind, ahead)
            return
    yield from cmn_blocks(start, config)


def logit_blocks(
    centred: Iterable[Rows],
    apply: Callable[[Rows], Rows],
    model: ModelConfig,
    features: FeatureConfig,
    block_frames: int = BLOCK_FRAMES,
) -> Iterator[Rows]:
    """Yield the logits of a recording whose features, after sliding CMN, come in blocks.

    Parameters
    ----------
    centred : iterable of ndarray, shape = (n, static_dims)
        Cut anywhere.
    apply : callable
        (n_frames, static_dims) of a whole recording to its logits, (n_output_frames, classes).
    model, features : ModelConfig, FeatureConfig
        The receptive field and the stride of `apply`.
    block_frames : int
        Input frames in a window, without context: bounds memory and delay. A recording that is hardly longer takes
        one pass.

    Yields
    ------
    ndarray, shape = (n, classes)
        Concatenated: ``apply`` of the whole, except for rounding.
    """
    stride = model.time_stride
    context = _to_multiple((receptive_field(model, features) - 1) // 2, stride)
    return in_windows(centred, apply, context, context, _to_multiple(block_frames, stride), (stride, 1))


class ActivityGate:
    """Removes the phones from the logits where a recording is not active (see `ActivityDetector`).

    A gate in blocks is for one recording: `watch` looks at the static features on their way to the net, and `apply`
    takes the logits that the net makes of them. `whole` is for any number of recordings.

    Parameters
    ----------
    config : Config
        Features, time stride, and ``decode.min_modulation_db``; if that is 0, or the features have no bands of
        frequency, all frames are active.
    phones : sequence of str
        The phones of the model. Labels of silence are never removed.
    """

    def __init__(self, config: Config, phones: Sequence[str]) -> None:
        self.config, self._stride = config, config.model.time_stride
        self._phones = np.array([k for k, phone in enumerate(phones, start=1) if phone not in SILENCES], np.int64)
        self._detector = self._new_detector()
        self._flags: Flags = np.zeros(0, np.bool_)  # of the frames whose logits have not come yet

    def _new_detector(self) -> ActivityDetector | None:
        threshold, features = self.config.decode.min_modulation_db, self.config.features
        return ActivityDetector(features, threshold) if threshold and extractor(features).bands else None

    def whole(self, static: Rows, logits: Rows) -> Rows:
        """Gate the logits, shape (n_output_frames, classes), of all static features, (n_frames, static_dims)."""
        if (detector := self._new_detector()) is None:
            return logits
        flags = np.concatenate([detector.push(static), detector.finish()])
        return without_phones(logits, flags[:: self._stride], self._phones)

    def watch(self, static: Iterable[Rows]) -> Iterator[Rows]:
        """Yield static features, cut anywhere, as they are, and find where they are active."""
        for piece in static:
            if self._detector is not None:
                self._flags = np.concatenate([self._flags, self._detector.push(piece)])
            yield piece
        if self._detector is not None:
            self._flags = np.concatenate([self._flags, self._detector.finish()])

    def apply(self, logits: Iterable[Rows]) -> Iterator[Rows]:
        """Yield the gated logits of the features that `watch` yields, at most half a second later than they come."""
        if self._detector is None:
            yield from logits
            return
        waiting: Rows | None = None
        for block in logits:
            waiting = block if waiting is None else np.concatenate([waiting, block])
            count = min(len(self._flags) // self._stride, len(waiting))
            done, waiting = waiting[:count], waiting[count:]
            flags, self._flags = np.split(self._flags, [count * self._stride])
            yield without_phones(done, flags[:: self._stride], self._phones)
        if waiting is not None:
            yield without_phones(waiting, self._flags[:: self._stride], self._phones)


def _to_multiple(frames: int, stride: int) -> int:
    """Round up to a multiple of the stride, so that windows start at an output frame."""
    return -(-frames // stride) * stride


class ActivityDetector:
    """Finds the frames of a recording that may hold speech; they may come in blocks, cut anywhere.

    Parameters
    ----------
    config : FeatureConfig
    min_modulation_db : float
        A frame is active where the smoothed level of any group of mel bands changes by more than this within 1.5 s:
        1 s before it and 0.5 s after it, or the first or last 1.5 s of the recording.
    """

    def __init__(self, config: FeatureConfig, min_modulation_db: float) -> None:
        step = config.shift_ms / 1000
        bands = extractor(config).bands
        self._bands = np.array_split(np.arange(bands), min(GROUPS, bands))
        self._half = round(SMOOTHING / step) // 2
        self._behind = round(BEHIND / step)
        self._window = self._behind + round(AHEAD / step) + 1
        self._shortest = round(MIN_SECONDS / step)
        self._threshold = min_modulation_db
        self._first: Levels | None = None
        self._raw: Levels = np.zeros((0, len(self._bands)))  # levels to be smoothed, and their context
        self._smooth: Levels = np.zeros((0, len(self._bands)))  # smoothed levels that undecided frames need
        self._start = 0  # frame of the first row of `_smooth`
        self._decided = 0

    def push(self, static: Rows) -> Flags:
        """Process the next static features, (n, static_dims); return the flags of the frames now decided."""
        levels = self._levels(static)
        if len(levels) and self._first is None:
            self._first = levels[0]
            levels = np.concatenate([np.repeat(levels[:1], 2 * self._half, axis=0), levels])
        self._take(levels)
        windows = max(self._start + len(self._smooth) - self._window + 1, 0)
        return self._decide(windows, windows + self._behind if windows else 0)

    def finish(self) -> Flags:
        """End the recording; return the flags of the remaining frames."""
        if self._first is None:
            return np.zeros(0, np.bool_)
        self._take(np.repeat(self._raw[-1:], 2 * self._half, axis=0))
        frames = self._start + len(self._smooth)
        if frames < self._shortest:
            self._threshold = 0.0
        windows = max(frames - self._window, 0) + 1
        return self._decide(windows, frames)

    def _levels(self, static: Rows) -> Levels:
        """Return the mean log energy of each group of mel bands, dB, shape (n, groups)."""
        columns = static.astype(np.float64).T
        groups = [sum(columns[band] for band in bands) / len(bands) for bands in self._bands]
        return np.asarray(DB * np.maximum(np.stack(groups, axis=1), FLOOR))

    def _take(self, levels: Levels) -> None:
        """Append levels, and smooth those whose context is known."""
        self._raw = np.concatenate([self._raw, levels])
        width = 2 * self._half + 1
        count = len(self._raw) - 2 * (width - 1)
        if count <= 0:
            return
        median = np.median(_windows(self._raw, width), axis=-1)
        # Not numpy's sum, whose rounding depends on the length of the block.
        mean = sum(median[k : k + count] for k in range(width)) / width
        self._smooth = np.concatenate([self._smooth, mean])
        self._raw = self._raw[count:]

    def _decide(self, windows: int, until: int) -> Flags:
        """Return the flags of the undecided frames before `until`; `windows`: windows known since the start."""
        if until <= self._decided:
            return np.zeros(0, np.bool_)
        begins = np.clip(np.arange(self._decided, until) - self._behind, 0, windows - 1) - self._start
        levels = _windows(self._smooth[begins[0] :], min(self._window, len(self._smooth)))
        modulation = (levels.max(axis=-1) - levels.min(axis=-1)).max(axis=-1)
        self._decided = until
        # The last window of the recording may start before the next frame's.
        done = max(min(until - self._behind - self._start, len(self._smooth) - self._window), 0)
        self._smooth, self._start = self._smooth[done:], self._start + done
        return np.asarray(modulation[begins - begins[0]] > self._threshold)


def _windows(values: Levels, width: int) -> Levels:
    """Return all windows of `width` rows, shape (n - width + 1, columns, width)."""
    return np.lib.stride_tricks.sliding_window_view(values, width, axis=0)


def without_phones(logits: Rows, active: Flags, phones: NDArray[np.int64]) -> Rows:
    """Return logits that leave only the blank and labels of silence in inactive frames.

    Parameters
    ----------
    logits : ndarray, shape = (n_frames, classes)
        Class 0 is the blank.
    active : ndarray of bool, shape = (n_frames,)
    phones : ndarray of int
        Classes other than the blank and labels of silence.
    """
    if active.all():
        return logits
    ceiling = np.where(active, np.inf, logits[:, 0] - FAR_BELOW).astype(np.float32)
    result = logits.copy()
    result[:, phones] = np.minimum(logits[:, phones], ceiling[:, None])
    return result


class Forward:
    """The net of a checkpoint with its features, on a device.

    Parameters
    ----------
    checkpoint : Checkpoint
    device : str
        Where the net computes, on the CPU with numpy, elsewhere with torch; and a pretrained encoder. Other features
        are computed on the CPU.
    """

    def __init__(self, checkpoint: Checkpoint, device: str = "cpu") -> None:
        self.checkpoint, self.config, self.device = checkpoint, checkpoint.config, device
        self.phones = checkpoint.inventory.phones
        mean, std = checkpoint.mean, checkpoint.std
        self._net: Callable[[Sequence[Rows]], list[Logits]]
        if device == "cpu":
            self._net = NumpyNet(self.config, checkpoint.weights, mean, std)
        else:
            from speechctc.model.net import TorchNet

            self._net = TorchNet(self.config, checkpoint.net, mean, std, device)

    def in_blocks(
        self, samples: Iterable[Samples], block_frames: int = BLOCK_FRAMES, gated: bool = False, local: bool = False
    ) -> Iterator[Logits]:
        """Yield the logits of one recording, each (n, classes), while its samples are read.

        Parameters
        ----------
        samples : iterable of ndarray, shape = (n,)
            Mono samples at the model's rate, cut anywhere.
        block_frames : int
            Input frames in one pass of the net.
        gated : bool
            Remove the phones where the recording holds no speech (see `ActivityGate`).
        local : bool
            Centre the frames of a long recording on the second around each (see `local_cmn_blocks`).
        """
        model, features = self.config.model, self.config.features
        gate = ActivityGate(self.config, self.phones)
        static = extractor(features, self.device).blocks(samples)
        watched = gate.watch(static) if gated else static
        centred = (local_cmn_blocks if local else cmn_blocks)(watched, features)
        logits = logit_blocks(centred, lambda rows: self._forward([rows])[0], model, features, block_frames)
        return gate.apply(logits) if gated else logits

    def batch(self, statics: Sequence[Rows]) -> list[Logits]:
        """Return the logits of several recordings from static features, each (n_frames, static_dims)."""
        return self._forward([sliding_cmn(static, self.config.features) for static in statics])

    def static(self, path: Path, most: int, channel: int | None = None) -> tuple[float, Rows | None]:
        """Return a recording's seconds and its static features; 0 and None if these exceed `most` frames.

        Raises
        ------
        InputError
            The file cannot be read as audio.
        """
        config = self.config.features
        if extractor(config).frames(int(sound_file.info(path).seconds * config.sample_rate)) > most:
            return 0.0, None
        samples, seconds = sound_file.read(path, config.sample_rate, channel)
        return seconds, extractor(config, self.device).static(samples)

    def _forward(self, features: Sequence[Rows]) -> list[Logits]:
        """Map features after CMN, each (n_frames, static_dims), to logits.

        Raises
        ------
        InputError
            A logit is not finite, as those of a net with huge weights are.
        """
        rows = self._net(features)
        if not all(bool(np.isfinite(each).all()) for each in rows):
            raise InputError("the model's output is not finite: NaN or inf", "use another model, or train it again")
        return rows


class Stream:
    """Recognises samples while they come; `Recogniser.stream` makes one.

    The phones are those of decoding the whole, for any way to cut it into blocks. Memory does not grow.

    Parameters
    ----------
    source : PushedSamples
    phones : iterator of list of Segment
        What is recognised in each block that is made of the source, an empty one too.
    """

    def __init__(self, source: PushedSamples, phones: Iterator[list[Segment]]) -> None:
        self._source, self._phones = source, phones

    @property
    def seconds(self) -> float:
        """Length of the samples so far."""
        return self._source.seconds

    def push(self, samples: Any) -> list[Segment]:
        """Take the next samples; return the phones that are known by now and were not before.

        Parameters
        ----------
        samples : array_like or Tensor, shape = (n,) or (n, channels)
            As for `Recogniser.decode`; any number.

        Raises
        ------
        InputError
            These are no samples, and nothing is changed; or `finish` was called.
        """
        self._source.put(samples)
        found: list[Segment] = []
        for phones in self._phones:
            found += phones
            if self._source.waits:
                break
        return found

    def finish(self) -> list[Segment]:
        """End the recording; return the phones that were not returned yet, none if it was ended before."""
        self._source.ended = True
        return [segment for phones in self._phones for segment in phones]
