"""Compute features and logits in blocks, equal to those of one pass over the whole recording.

The net sees a limited number of frames around each (`model.receptive_field`). A window of frames therefore passes
through the net as if it were a recording, and only the output at least half a receptive field away from a cut is kept.
At the true ends of the recording, derivatives and convolutions pad as in one pass. In the same way sliding CMN
(`features.sliding_cmn`) waits for the frames that its window needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from speechctc.config.schema import Config, FeatureConfig, ModelConfig
from speechctc.features.extractor import extractor
from speechctc.features.filterbank import local_cmn, sliding_cmn_one
from speechctc.inference.activity import ActivityDetector, Flags, Rows, without_phones
from speechctc.model.net import receptive_field
from speechctc.phones.inventory import SILENCES

BLOCK_FRAMES = 2000  # static frames in one pass of the net: 20 s of speech at 10 ms a frame


def cmn_blocks(static: Iterable[Tensor], config: FeatureConfig) -> Iterator[Tensor]:
    """Yield static features after sliding CMN, as soon as the frames that it needs are known.

    Parameters
    ----------
    static : iterable of Tensor, shape = (n, static_dims)
        A recording, cut anywhere.
    config : FeatureConfig

    Yields
    ------
    Tensor, shape = (n_frames, static_dims)
        Concatenated: `sliding_cmn` of the whole.
    """
    return _in_windows(static, lambda frames: sliding_cmn_one(frames, config), config.center_reach)


def local_cmn_blocks(static: Iterable[Tensor], config: FeatureConfig) -> Iterator[Tensor]:
    """Yield static features after local CMN (`features.local_cmn`) if the recording is longer than the sliding mean.

    The mean of a shorter one is that of all of it, as of the utterances that nets are trained on.

    Parameters
    ----------
    static : iterable of Tensor, shape = (n, static_dims)
        A recording, cut anywhere.
    config : FeatureConfig
    """
    pieces, start, most = iter(static), list[Tensor](), sum(config.center_frames)
    for piece in pieces:
        start.append(piece)
        if config.center_ms is not None and sum(map(len, start)) > most:
            behind, ahead = (max(each, 2 * config.stretch_frames) for each in config.center_reach)
            yield from _in_windows(chain(start, pieces), lambda frames: local_cmn(frames, config), (behind, ahead))
            return
    yield from cmn_blocks(start, config)


def _in_windows(
    static: Iterable[Tensor], apply: Callable[[Tensor], Tensor], reach: tuple[int, int]
) -> Iterator[Tensor]:
    """Yield what `apply` makes of frames that come in blocks; it looks so many frames behind and ahead."""
    behind, ahead = reach
    waiting = torch.zeros(0)
    before = 0  # done frames at the start of `waiting`, kept as context of the next
    for piece in static:
        waiting = torch.cat([waiting, piece]) if len(waiting) else piece
        done = len(waiting) - ahead
        if done > before:
            yield apply(waiting)[before:done]
            before = min(behind, done)
            waiting = waiting[done - before :]
    if len(waiting) > before:
        yield apply(waiting)[before:]


def logit_blocks(
    centred: Iterable[Tensor],
    apply: Callable[[Tensor], Tensor],
    model: ModelConfig,
    features: FeatureConfig,
    block_frames: int = BLOCK_FRAMES,
) -> Iterator[Tensor]:
    """Yield the logits of a recording whose features, after sliding CMN, come in blocks.

    Parameters
    ----------
    centred : iterable of Tensor, shape = (n, static_dims)
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
    Tensor, shape = (n, classes)
        Concatenated: ``apply`` of the whole, except for rounding.
    """
    stride = model.time_stride
    context = _to_multiple((receptive_field(model, features) - 1) // 2, stride)
    block = _to_multiple(block_frames, stride)
    waiting = torch.zeros(0, features.static_dims)
    before = 0  # done frames at the start of `waiting`, kept as context of the next
    for piece in centred:
        waiting = torch.cat([waiting, piece])
        while len(waiting) >= before + block + context:
            logits = apply(waiting[: before + block + context])
            yield logits[before // stride : (before + block) // stride]
            done = before + block
            before = min(context, done)
            waiting = waiting[done - before :]
    if len(waiting) > before:
        yield apply(waiting)[before // stride :]


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

    def whole(self, static: Tensor, logits: Rows) -> Rows:
        """Gate the logits, shape (n_output_frames, classes), of all static features, (n_frames, static_dims)."""
        if (detector := self._new_detector()) is None:
            return logits
        flags = np.concatenate([detector.push(static.numpy()), detector.finish()])
        return without_phones(logits, flags[:: self._stride], self._phones)

    def watch(self, static: Iterable[Tensor]) -> Iterator[Tensor]:
        """Yield static features, cut anywhere, as they are, and find where they are active."""
        for piece in static:
            if self._detector is not None:
                self._flags = np.concatenate([self._flags, self._detector.push(piece.numpy())])
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
