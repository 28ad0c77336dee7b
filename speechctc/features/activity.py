"""Detect where a recording may hold speech, by how much its level changes.

After CMN, the level no longer separates noise from speech, and a search with an n-gram finds phones in any noise.
Speech differs from noise by its modulation: syllables and pauses change the level of some frequency band by tens of dB
within a second, while background noise, hum and digital silence are steady.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from speechctc.config.schema import Config, FeatureConfig
from speechctc.features.extractor import Rows, extractor
from speechctc.phones.inventory import SILENCES

Levels = NDArray[np.float64]
Flags = NDArray[np.bool_]

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

    @property
    def is_active(self) -> bool:
        """Whether any frame that `watch` has yielded, and `apply` has not met, may hold speech."""
        return self._detector is None or bool(self._flags.any())

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
