"""Features and logits of a recording that comes in blocks, equal to those of one pass over the whole.

The net sees a finite stretch around each frame (`model.receptive_field`). A window of frames is therefore run through
the net as if it were a recording of its own, and of the output only what lies at least half a receptive field away
from an artificial end is kept; at the recording's true ends derivatives repeat and convolutions pad as they always do.
In the same way the mean that is taken from a frame (`features.sliding_cmn`) waits for the frames after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from speechctc.config.feature_config import FeatureConfig
from speechctc.config.model_config import ModelConfig
from speechctc.config.schema import Config
from speechctc.features.filterbank import frame_count, shift_samples, sliding_cmn_one, static_features
from speechctc.inference.activity import ActivityDetector, Flags, Rows, without_phones
from speechctc.model.net import receptive_field
from speechctc.phones.inventory import SILENCES

BLOCK_FRAMES = 2000  # of static features in one pass of the net: 20 s of speech at the usual 10 ms a frame


def static_blocks(samples: Iterable[Tensor], config: FeatureConfig) -> Iterator[Tensor]:
    """Yield static features as soon as the samples of a frame are there.

    Parameters
    ----------
    samples : iterable of Tensor, shape = (n,)
        A recording, mono at ``config.sample_rate``, cut anywhere.
    config : FeatureConfig

    Yields
    ------
    Tensor, shape = (n_frames, static_dims)
        Put together they are the `static_features` of the whole.
    """
    shift = shift_samples(config)
    waiting = torch.zeros(0)
    for block in samples:
        waiting = torch.cat([waiting, block])
        frames = frame_count(len(waiting), config)
        if frames:
            yield static_features(waiting, config)
            waiting = waiting[frames * shift :]


def cmn_blocks(static: Iterable[Tensor], config: FeatureConfig) -> Iterator[Tensor]:
    """Yield static features less the mean around each frame, as soon as the frames that it takes are there.

    Parameters
    ----------
    static : iterable of Tensor, shape = (n, static_dims)
        Of a recording, cut anywhere.
    config : FeatureConfig

    Yields
    ------
    Tensor, shape = (n_frames, static_dims)
        Put together they are the features of the whole, `sliding_cmn`.
    """
    behind, ahead = config.center_reach
    waiting = torch.zeros(0, config.static_dims)
    before = 0  # frames at the head of `waiting` that are done: context of those that follow
    for piece in static:
        waiting = torch.cat([waiting, piece])
        done = len(waiting) - ahead
        if done > before:
            yield sliding_cmn_one(waiting, config)[before:done]
            before = min(behind, done)
            waiting = waiting[done - before :]
    if len(waiting) > before:
        yield sliding_cmn_one(waiting, config)[before:]


def logit_blocks(
    centred: Iterable[Tensor],
    apply: Callable[[Tensor], Tensor],
    model: ModelConfig,
    features: FeatureConfig,
    block_frames: int = BLOCK_FRAMES,
) -> Iterator[Tensor]:
    """Yield the logits of a recording whose features, centred, come in blocks.

    Parameters
    ----------
    centred : iterable of Tensor, shape = (n, static_dims)
        Cut anywhere.
    apply : callable
        (n_frames, static_dims) of a whole recording to its logits, (n_output_frames, classes).
    model, features : ModelConfig, FeatureConfig
        Whose receptive field and stride `apply` has.
    block_frames : int
        Input frames whose logits are made at a time: bounds memory, and how late logits come. A recording that is
        hardly longer is done in one pass.

    Yields
    ------
    Tensor, shape = (n, classes)
        Put together they are ``apply`` of the whole, but for rounding.
    """
    stride = model.time_stride
    context = _to_multiple((receptive_field(model, features) - 1) // 2, stride)
    block = _to_multiple(block_frames, stride)
    waiting = torch.zeros(0, features.static_dims)
    before = 0  # frames at the head of `waiting` whose logits are done: context of those that follow
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
    """Takes the phones out of the logits of a recording where it is not active (see `ActivityDetector`).

    Parameters
    ----------
    config : Config
        Its features, the stride of its model, and ``decode.min_modulation_db``: with 0 all frames are active.
    phones : sequence of str
        Those of the model. Labels of silence may be found anywhere.
    """

    def __init__(self, config: Config, phones: Sequence[str]) -> None:
        self._features, self._threshold = config.features, config.decode.min_modulation_db
        self._stride = config.model.time_stride
        self._phones = np.array([k for k, phone in enumerate(phones, start=1) if phone not in SILENCES], np.int64)

    def whole(self, static: Tensor, logits: Rows) -> Rows:
        """Gate the logits, shape (n_output_frames, classes), of all static features, (n_frames, static_dims)."""
        return np.concatenate([logits[:0], *self.blocks([static], lambda watched: [logits for _ in watched])])

    def blocks(self, static: Iterable[Tensor], logits: Callable[[Iterable[Tensor]], Iterable[Rows]]) -> Iterator[Rows]:
        """Yield the logits that a callable makes of static features cut anywhere; up to half a second later."""
        if not self._threshold:
            yield from logits(static)
            return
        detector = ActivityDetector(self._features, self._threshold)
        flags: Flags = np.zeros(0, np.bool_)

        def watched() -> Iterator[Tensor]:
            nonlocal flags
            for piece in static:
                flags = np.concatenate([flags, detector.push(piece.numpy())])
                yield piece
            flags = np.concatenate([flags, detector.finish()])

        waiting: list[Rows] = []
        for block in logits(watched()):
            waiting = [np.concatenate([*waiting, block])]
            count = min(len(flags) // self._stride, len(waiting[0]))
            frames = count * self._stride
            yield without_phones(waiting[0][:count], flags[: frames : self._stride], self._phones)
            waiting, flags = [waiting[0][count:]], flags[frames:]
        for rest in waiting:
            yield without_phones(rest, flags[:: self._stride], self._phones)


def _to_multiple(frames: int, stride: int) -> int:
    """Round up, so that windows begin where a convolution with this stride would step."""
    return -(-frames // stride) * stride
