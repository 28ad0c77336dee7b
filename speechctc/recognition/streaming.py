"""Features and logits of a recording that comes in blocks, equal to those of one pass over the whole.

The net sees a finite stretch around each frame (`model.receptive_field`). A window of frames is therefore run through
the net as if it were a recording of its own, and of the output only what lies at least half a receptive field away
from an artificial end is kept; at the recording's true ends derivatives repeat and convolutions pad as they always do.
In the same way the mean that is taken from a frame (`features.sliding_cmn`) waits for the frames after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from speechctc.config import FeatureConfig, ModelConfig
from speechctc.features import frame_count, shift_samples, sliding_cmn_one, static_features
from speechctc.model import receptive_field

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


def _to_multiple(frames: int, stride: int) -> int:
    """Round up, so that windows begin where a convolution with this stride would step."""
    return -(-frames // stride) * stride
