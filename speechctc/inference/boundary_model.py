"""A boundary model: places the boundaries between known phones in a stretch of sound, from rough times of them.

Kept beside a recogniser's weights as ``boundaries.safetensors``. The boundaries of all phones are placed together, so
they cannot cross, and every phone lasts at least one frame of 5 ms. A net scores phones, as vectors of features, in
frames, and boundaries between two at frames. How long a phone lasts is scored too: the logarithm of its duration is
normally distributed around what is usual for its features and for the speaker's rate. `speechctc.inference.semi_crf`
divides the frames among the phones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from speechctc.config.schema import FeatureConfig
from speechctc.core.errors import InputError
from speechctc.core.files import readable
from speechctc.core.tensor_file import load_weights, save_tensors
from speechctc.features.extractor import extractor, sliding_cmn
from speechctc.inference.semi_crf import IMPOSSIBLE, Lattice, Marginals, marginals
from speechctc.phones.articulation import PhoneFeatures, ipa, is_arpabet, sounds_of
from speechctc.phones.inventory import SILENCES

MELS = 32
SHIFT_MS = 5.0
WINDOW_MS = 16.0
CENTER_MS = 1500.0  # how far before and after a frame the mean reaches that is subtracted from it
# Seconds of sound before and after a frame that it depends on: those of the mean, and of the weights in it.
CONTEXT = 2.5
SCALE = 3.0  # nats; the deviation of log energies is of this size
CHANNELS, LAYERS, RANK = 72, 4, 24  # of a net from random weights; a file may have another number of the first two

Floats = NDArray[np.float64]

Vectors = NDArray[np.float32]
Weights = Mapping[str, Vectors]
Times = tuple[tuple[float, float], ...]

SILENCE = "sil"
UNRELEASED = "\u031a"  # the mark of a closure without release, in IPA; TIMIT's `tcl` is `t̚`
_STOP = 6.0  # closeness of the mouth from which a consonant is a stop
_MARKS = 4
_EACH = 12  # numbers for a sound
DIMS = _MARKS + 2 * _EACH + 1
SHIFT, SHIFT_DIMS = "shift", 2 * _EACH + 3  # in a file: times `sides_of`, how much later people set boundaries
# In a file: times a phone's vector and 1, the mean of log s; deviation.
DURATIONS, DURATION_DIMS = "durations", DIMS + 2
NARROWEST = 0.2  # deviation of durations; of few phones less would be chance
LONGEST = 100  # frames that a phone lasts whose duration is scored


def feature_config(rate: int) -> FeatureConfig:
    """Return the analysis of the net's input, for samples at `rate`, Hz."""
    return FeatureConfig(
        sample_rate=rate,
        window_ms=WINDOW_MS,
        shift_ms=SHIFT_MS,
        mels=MELS,
        energy=False,
        deltas=0,
        cmn_window_ms=(CENTER_MS, CENTER_MS),
    )


def frames_of(samples: NDArray[np.float32], rate: int, context: tuple[float, float] = (0.0, 0.0)) -> Vectors:
    """Return log mel energies less their sliding mean, shape (n_frames, MELS), of samples in [-1, 1].

    Parameters
    ----------
    samples : ndarray, shape = (n,), float32
    rate : int
        Hz.
    context : (float, float)
        Seconds at the start and at the end whose frames count for the mean only, and are not returned.
    """
    config = feature_config(rate)
    frames = sliding_cmn(extractor(config).static(samples), config) / np.float32(SCALE)
    before, after = (round(seconds / step_of(rate)) for seconds in context)
    return frames[before : len(frames) - after]


def step_of(rate: int) -> float:
    """Return the seconds from one frame to the next of samples at `rate`, Hz."""
    return extractor(feature_config(rate)).shift / rate


def time_of(frame: Floats | NDArray[np.int64]) -> Floats:
    """Return when a state begins whose first frame this is, seconds: half way from the middle of the frame before."""
    times: Floats = np.asarray((frame - 0.5) * (SHIFT_MS / 1000) + WINDOW_MS / 2000, np.float64)
    return times


def size_of(weights: Weights) -> tuple[int, int]:
    """Return the channels and the convolutions of a net."""
    return len(weights["convs.0.bias"]), sum(name.startswith("convs.") for name in weights) // 2


def weight_shapes(channels: int, convolutions: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight of a net."""
    layers: dict[str, tuple[int, ...]] = {
        f"convs.{k}": (channels, channels if k else MELS, 5) for k in range(convolutions)
    }
    layers |= {"inside": (RANK, channels, 1), "change": (RANK, channels, 3)}
    layers |= {"phone.0": (32, DIMS), "phone.2": (RANK + 1, 32), "pair.0": (48, 2 * DIMS), "pair.2": (RANK + 1, 48)}
    biases = {f"{name}.bias": shape[:1] for name, shape in layers.items()}
    return {**{f"{name}.weight": shape for name, shape in layers.items()}, **biases}


def scores(weights: Weights, frames: Vectors, vectors: Vectors) -> tuple[Vectors, Vectors, Vectors]:
    """Return the scores of a `speechctc.inference.semi_crf.Lattice`, each (n_frames, n_states).

    Convolutions, four over 305 ms, and two bilinear forms: frame by phone, and frame by pair of phones. A phone is
    given as a vector, so there are no weights of any phone set. `train_boundaries.BoundaryNet` is what is trained.

    Parameters
    ----------
    weights : mapping of str to ndarray
        Of `weight_shapes`.
    frames : ndarray, shape = (n_frames, MELS)
    vectors : ndarray, shape = (n_states, DIMS)
        Of the phones in order.
    """
    hidden = frames
    for k in range(size_of(weights)[1]):
        above = np.maximum(_convolved(hidden, weights, f"convs.{k}", 2**k), 0)
        hidden = hidden + above if k else above
    inside, change = (_convolved(hidden, weights, name, 1) for name in ("inside", "change"))
    phones = _perceptron(vectors, weights, "phone")
    pairs = [_perceptron(np.concatenate([later(vectors, by), vectors], 1), weights, "pair") for by in (1, 2)]
    first, second = (change @ pair[:, :-1].T + pair[:, -1] for pair in pairs)
    return inside @ phones[:, :-1].T + phones[:, -1], first, second


def sides_of(vectors: Vectors) -> Floats:
    """Return what of two phones in a row a boundary's shift is linear in, shape = (n - 1, SHIFT_DIMS).

    That is the last sound of the one and the first sound of the other; all is 0 beside unknown labels.
    """
    left, right = vectors[:-1].astype(np.float64), vectors[1:].astype(np.float64)
    known = (left[:, 2:3] + right[:, 2:3] == 0).astype(np.float64)
    last, first = range(_MARKS + _EACH, _MARKS + 2 * _EACH), range(_MARKS, _MARKS + _EACH)
    sides: Floats = known * np.hstack([known, left[:, [0, *last]], right[:, [0, *first]]])
    return sides


def _convolved(x: Vectors, weights: Weights, name: str, dilation: int) -> Vectors:
    weight, result = weights[f"{name}.weight"], np.tile(weights[f"{name}.bias"], (len(x), 1))
    reach = weight.shape[2] // 2 * dilation
    padded = np.pad(x, ((reach, reach), (0, 0)))
    for k, tap in enumerate(weight.transpose(2, 1, 0).copy()):  # BLAS takes only contiguous numbers
        result += padded[k * dilation : k * dilation + len(x)] @ tap
    return result


def _perceptron(x: Vectors, weights: Weights, name: str) -> Vectors:
    hidden = np.maximum(x @ weights[f"{name}.0.weight"].T + weights[f"{name}.0.bias"], 0)
    result: Vectors = hidden @ weights[f"{name}.2.weight"].T + weights[f"{name}.2.bias"]
    return result


def later(vectors: Vectors, by: int) -> Vectors:
    """Return the vectors moved to later places; the first are repeated, and no arc uses them."""
    return np.concatenate([vectors[:by], vectors[:-by]])[: len(vectors)]


def spelled(phones: Sequence[str], arpabet: bool) -> tuple[str, ...]:
    """Return labels in IPA, and every silence as `SILENCE`; labels that are neither stay as they are."""
    return tuple(SILENCE if phone in SILENCES else ipa(phone, arpabet)[0] for phone in phones)


def has_closures(phones: Sequence[str]) -> bool:
    """Return whether a phone set tells the closure of a stop from its release, as TIMIT's does."""
    return any(UNRELEASED in phone for phone in spelled(phones, is_arpabet(phones)))


def phone_vectors(phones: Sequence[str], closures: bool) -> Vectors:
    """Return a vector for each phone.

    Parameters
    ----------
    phones : sequence of str
        In IPA, as `spelled` returns them.
    closures : bool
        The set has closures (see `has_closures`), so that its other stops are releases.

    Returns
    -------
    ndarray, shape = (n, DIMS), float32
        Silence, closure, unknown and release; the features of the first and of the last sound; length.
    """
    return np.array([_vector(phone, closures) for phone in phones], np.float32).reshape(-1, DIMS)


def _vector(phone: str, closures: bool) -> list[float]:
    sounds = () if phone == SILENCE else sounds_of(phone)
    closure = UNRELEASED in phone
    release = closures and not closure and is_stop(phone)
    marks = [phone == SILENCE, closure, phone != SILENCE and not sounds, release]
    features = [number for sound in sounds for number in _features(sound)] or _signature(phone)
    return [*map(float, marks), *features, float("ː" in phone)]


def _signature(phone: str) -> list[float]:
    """Return numbers that tell a label that is not IPA from others; silence has none."""
    digest = hashlib.sha256(phone.encode()).digest()[: 2 * _EACH]
    return [0.0 if phone == SILENCE else 1.0 if byte % 2 else -1.0 for byte in digest]


def _features(sound: PhoneFeatures) -> list[float]:
    """Return the features of a sound, each about from -3 to 3."""
    closeness = sound.closeness / 3
    place = (0.0, sound.place - 7.0, closeness) if sound.vowel else (sound.place / 5, 0.0, 0.0)
    names = ("voiced", "rounded", "nasal", "lateral", "rhotic", "sibilant", "other")
    return [float(sound.vowel), closeness, *place, *(float(getattr(sound, name)) for name in names)]


def is_stop(phone: str) -> bool:
    """Return whether a phone begins with a stop that has a release."""
    sounds = sounds_of(phone)
    return bool(sounds) and UNRELEASED not in phone and not sounds[0].vowel and sounds[0].closeness >= _STOP


FILE = "boundaries.safetensors"
FORMAT = "1"
_MOST = 1 << 26  # bytes of a file; it has 200 kB
REACH, EDGE = 0.3, 0.15  # farthest that a boundary is moved, seconds; where silence begins or ends before or after all
PRIOR = 0.04  # scale of the Laplace distribution of true boundaries around the rough ones, seconds


SHARE = 0.95  # of the boundaries, those that are to lie in their intervals
SPREAD = 1.2  # how much wider an interval is than the lattice says, where the boundary model has no figure of its own
PAUSE_SPREAD = 1.2  # how much wider still it is beside silence, from half of TIMIT's speakers
MIN_HALF_WIDTH = 0.0025  # seconds that an interval reaches at least to each side before it is spread: half a frame


class Placed(NamedTuple):
    """Start and end of each phone, seconds; where the start is not the end of the phone before, there is a pause.

    `start_intervals` and `end_intervals`, shape (n_phones, 2), are where each lies with a probability of `SHARE`; None
    where nothing is known of it.
    """

    starts: Floats
    ends: Floats
    start_intervals: Floats | None = None
    end_intervals: Floats | None = None


class _States(NamedTuple):
    """Phones in order, perhaps with silences between them.

    Attributes
    ----------
    labels : list of str
    optional : ndarray of bool
        The silences that may be left out.
    rough : ndarray
        When each state begins, roughly, seconds.
    known : ndarray of bool
        Whether that is where two phones touch: only such times are near to the true ones.
    place : ndarray of int
        The state of each phone.
    """

    labels: list[str]
    optional: NDArray[np.bool_]
    rough: Floats
    known: NDArray[np.bool_]
    place: NDArray[np.int64]


class BoundaryModel:
    """Places boundaries.

    Parameters
    ----------
    weights : mapping of str to ndarray
        Of `speechctc.inference.boundary_model.weight_shapes`.
    rate : int
        Of the samples that it was trained on, Hz.
    spread : float
        By how much intervals are wider than the lattice says, so that `SHARE` of the boundaries lie in theirs.
    shift : ndarray, shape = (SHIFT_DIMS,), optional
        Times `sides_of`: how much later than the net people set boundaries, seconds; not in sets with closures.
    durations : ndarray, shape = (DURATION_DIMS,), optional
        What `durations_of` returns.
    """

    def __init__(
        self,
        weights: Weights,
        rate: int,
        spread: float = SPREAD,
        shift: Vectors | None = None,
        durations: Vectors | None = None,
    ) -> None:
        self.weights, self.rate, self.spread, self.shift, self.durations = weights, rate, spread, shift, durations

    def place(
        self,
        samples: NDArray[np.float32],
        phones: Sequence[str],
        closures: bool,
        starts: Floats,
        ends: Floats,
        pauses: bool,
        edges: tuple[bool, bool] = (True, True),
        context: tuple[float, float] = (0.0, 0.0),
    ) -> Placed:
        """Return the times of phones.

        Parameters
        ----------
        samples : ndarray, shape = (n,), float32
            At the model's rate.
        phones : sequence of str
            In IPA, as `speechctc.inference.boundary_model.spelled` returns them.
        closures : bool
            Their set tells closures from releases.
        starts, ends : ndarray, shape = (n_phones,)
            Rough times, seconds from the first sample after the context.
        pauses : bool
            There may be pauses between phones that no label stands for.
        edges : (bool, bool)
            Whether silence may stand before the first phone, and after the last. Without, that edge is not moved.
        context : (float, float)
            Seconds of sound at the start and at the end of the samples in which no phone is placed. Frames less than
            `speechctc.inference.boundary_model.CONTEXT` from an end without context depend on where the sound was cut.

        Returns
        -------
        Placed
            The rough times where the sound is too short for so many phones.
        """
        frames = frames_of(samples, self.rate, context)
        states = _states(phones, starts, ends, pauses, edges)
        if len(frames) <= len(states.labels):
            return Placed(starts, ends)
        vectors = phone_vectors(states.labels, closures)
        found = marginals(self._lattice(frames, vectors, states, ends - starts))
        if found.total < IMPOSSIBLE:
            return Placed(starts, ends)
        return _placed(found, states, Placed(starts, ends), self.spread, vectors, None if closures else self.shift)

    def unshifted(self) -> BoundaryModel:
        """Return the model without its shift: boundaries lie where the lattice has them."""
        return BoundaryModel(self.weights, self.rate, self.spread, durations=self.durations)

    def _lattice(self, frames: Vectors, vectors: Vectors, states: _States, seconds: Floats) -> Lattice:
        """Return the lattice of phones that roughly last these seconds."""
        inside, entered, skipped = (each.astype(np.float64) for each in scores(self.weights, frames, vectors))
        times = time_of(np.arange(len(frames)))
        apart = states.known * np.abs(times[:, None] - states.rough) / PRIOR
        reach = np.full(len(states.rough), REACH)
        reach[1:2] = EDGE if states.optional[0] else REACH
        reach[-1] = EDGE if states.optional[-1] else REACH
        low, high = (np.searchsorted(times, states.rough + sign * reach) for sign in (-1, 1))
        low[0], high = 0, np.append(high[1:], len(frames))
        return Lattice(
            inside,
            entered - apart,
            skipped - apart,
            states.optional,
            np.maximum.accumulate(low).astype(np.int64),
            np.minimum.accumulate(high[::-1])[::-1].astype(np.int64),
            self._lasting(vectors, states, seconds),
        )

    def _lasting(self, vectors: Vectors, states: _States, seconds: Floats) -> Floats:
        """Return the scores of durations, at the rate of speech that the rough durations tell; silences have none."""
        sounding = vectors[states.place, 0] == 0
        place, logs = states.place[sounding], np.log(np.maximum(seconds[sounding], SHIFT_MS / 1000))
        if self.durations is None or not len(place):
            return untimed(len(vectors))
        usual, deviation = vectors[place] @ self.durations[:-2] + self.durations[-2], self.durations[-1]
        lasting = np.full((LONGEST + 1, len(vectors)), np.nan)
        log_seconds = np.log(np.maximum(np.arange(LONGEST + 1), 1) * SHIFT_MS / 1000)
        lasting[:, place] = -(((log_seconds[:, None] - usual - np.mean(logs - usual)) / deviation) ** 2) / 2
        return lasting

    def save(self, path: Path) -> None:
        """Write the model, the net's weights in half precision, to a name that no one reads yet."""
        about = {"format": FORMAT, "rate": str(self.rate), "spread": f"{self.spread:.4f}"}
        half = {name: each.astype(np.float16) for name, each in self.weights.items()}
        more = {SHIFT: self.shift, DURATIONS: self.durations}
        save_tensors(path, half | {name: each for name, each in more.items() if each is not None}, about)

    @classmethod
    def load(cls, folder: Path) -> BoundaryModel | None:
        """Read the boundary model in a checkpoint's folder; None if there is none.

        Raises
        ------
        InputError
            The file is damaged, or of another version.
        """
        path = folder / FILE
        if not path.exists():
            return None
        try:
            with safe_open(readable(path), framework="np") as file:
                about = file.metadata() or {}
            if about.get("format") != FORMAT:
                raise ValueError
            rate = int(about["rate"])
            feature_config(rate)  # refuses a rate that is none
            spread = float(about.get("spread", SPREAD))
            weights = load_weights(path, _MOST)
            shift, durations = weights.pop(SHIFT, None), weights.pop(DURATIONS, None)
            named = {name: value.shape for name, value in weights.items()}
            if not 0 < spread < 1000 or named != weight_shapes(*size_of(weights)):
                raise ValueError
            for own, dims in ((shift, SHIFT_DIMS), (durations, DURATION_DIMS)):
                if own is not None and own.shape != (dims,):
                    raise ValueError
            if durations is not None and (durations[-1] < NARROWEST or np.abs(durations).max() > 1000):
                raise ValueError
            return cls(weights, rate, spread, shift, durations)
        except (SafetensorError, KeyError, TypeError, ValueError):
            fix = "delete it; speechctc train-boundaries makes it again"
            raise InputError(f"{path}: not a boundary model that this version reads", fix) from None


def durations_of(vectors: Vectors, seconds: NDArray[np.floating[Any]], recordings: NDArray[np.int64]) -> Vectors:
    """Return what is usual of durations, shape (DURATION_DIMS,).

    That is, linear in a phone's vector, the mean logarithm of its seconds, by least squares with a small ridge; last,
    the standard deviation from it. Both within a recording: rates of speech differ.

    Parameters
    ----------
    vectors : ndarray, shape = (n_phones, DIMS)
    seconds : ndarray, shape = (n_phones,)
        How long each lasts; more than 0.
    recordings : ndarray, shape = (n_phones,), int64
        The number of the recording of each.
    """
    values = np.column_stack([vectors, np.log(seconds)]).astype(np.float64)
    count = np.maximum(np.bincount(recordings), 1)[:, None]
    means = np.stack([np.bincount(recordings, each) for each in values.T], 1) / count
    within = values - means[recordings]
    sides, logs = within[:, :-1], within[:, -1]
    slopes = np.linalg.solve(sides.T @ sides + 10.0 * np.eye(DIMS), sides.T @ logs)
    mean, deviation = (values[:, -1] - values[:, :-1] @ slopes).mean(), max((logs - sides @ slopes).std(), NARROWEST)
    return np.array([*slopes, mean, deviation], np.float32)


def untimed(states: int) -> Floats:
    """Return the scores of durations of a lattice whose states may last as long as they like."""
    return np.full((1, states), np.nan)


def _states(phones: Sequence[str], starts: Floats, ends: Floats, pauses: bool, edges: tuple[bool, bool]) -> _States:
    labels: list[str] = []
    rough: list[float] = []
    known: list[bool] = []
    place: list[int] = []
    for k, phone in enumerate(phones):
        touch = k > 0 and starts[k] <= ends[k - 1]
        silent = phone == SILENCE or labels[-1:] == [SILENCE]
        if not silent and (edges[0] if k == 0 else pauses or not touch):
            labels.append(SILENCE)
            rough.append(ends[k - 1] if k else 0.0)
            known.append(False)
        place.append(len(labels))
        labels.append(phone)
        rough.append(starts[k])
        known.append(touch)
    if edges[1] and labels[-1] != SILENCE:
        labels.append(SILENCE)
        rough.append(ends[-1])
        known.append(False)
    optional = np.ones(len(labels), bool)
    optional[place] = False
    return _States(labels, optional, np.array(rough), np.array(known), np.array(place, np.int64))


def _placed(
    found: Marginals, states: _States, rough: Placed, spread: float, vectors: Vectors, shift: Vectors | None
) -> Placed:
    """Return the medians of the boundaries, and intervals; a pause is there if it is more probable than not."""
    begins, silences = _shares(found.entered + found.skipped), _shares(found.entered)
    left_out = np.append(found.skipped.sum(0)[1:] > 0.5, False)
    pauses = np.array([label == SILENCE for label in states.labels]) & ~left_out
    if shift is not None:
        there = np.flatnonzero(pauses | ~states.optional)
        later = _shifts(np.where(pauses, silences[:, 1], begins[:, 1])[there], vectors[there], shift)
        begins[there] += later
        silences[there] += later
    starts, ends = (np.repeat(each[:, None], 3, 1) for each in (rough.starts, rough.ends))
    spreads = np.full((2, len(states.place)), spread)
    for k, state in enumerate(states.place):
        after = state + 1
        if state > 0:
            starts[k] = begins[state]
            spreads[0, k] *= PAUSE_SPREAD if pauses[state - 1] else 1.0
        if after < len(states.labels):
            ends[k] = silences[after] if pauses[after] else begins[after + states.optional[after]]
            spreads[1, k] *= PAUSE_SPREAD if pauses[after] else 1.0
    start, end = np.maximum.accumulate(starts[:, 1]), ends[:, 1]
    end[:-1] = np.minimum(end[:-1], start[1:])
    end = np.maximum(end, start)
    return Placed(start, end, _interval(starts, start, spreads[0]), _interval(ends, end, spreads[1]))


def _shifts(begun: Floats, vectors: Vectors, shift: Vectors) -> Floats:
    """Return by how much later the states begin, (n_states, 1), none shorter than half a frame more than a frame."""
    room = np.maximum(np.diff(begun, append=np.inf) - SHIFT_MS / 1000, 0.0) / 2
    return np.append(0.0, (sides_of(vectors) @ shift).clip(-room[:-1], room[1:]))[:, None]


def _interval(times: Floats, placed: Floats, spread: Floats) -> Floats:
    """Return the intervals around boundaries, from the times that `_shares` gives."""
    low = np.minimum(times[:, 0], placed) - MIN_HALF_WIDTH
    high = np.maximum(times[:, 2], placed) + MIN_HALF_WIDTH
    return placed[:, None] + spread[:, None] * (np.stack([low, high], 1) - placed[:, None])


def _shares(probabilities: NDArray[np.float64]) -> Floats:
    """Return the times before which each state begins with a low, an even and a high probability, (n_states, 3).

    Between the low and the high lies `SHARE`. Between frames they are interpolated.
    """
    total = probabilities.cumsum(0)
    found = []
    for share in ((1 - SHARE) / 2, 0.5, (1 + SHARE) / 2):
        wanted = total[-1] * share
        frame = (total < wanted).sum(0).clip(0, len(total) - 1)
        each = np.arange(total.shape[1])
        here = probabilities[frame, each]
        part = (wanted - (total[frame, each] - here)) / np.maximum(here, 1e-12)
        found.append(time_of(frame - 0.5 + part.clip(0.0, 1.0)))
    return np.stack(found, 1)
