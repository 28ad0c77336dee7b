"""From the static features of one recording to the input of the net, with numpy alone: as recognition needs it.

`features.filterbank` computes the same of padded batches, on any device, as training needs it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from speechctc.config.schema import FeatureConfig
from speechctc.features.extractor import Rows, extractor

# The most that `local_cmn` raises quiet frames above what `sliding_cmn` does: nats of power, 30 dB.
MAX_GAIN = 7.0

Reals = NDArray[np.float64]


def sliding_cmn(static: Rows, config: FeatureConfig) -> Rows:
    """Subtract the power-weighted sliding mean, shape = (n_frames, static_dims); see `filterbank.sliding_cmn`."""
    if config.cmn_window_ms is None:
        return static
    known = static.astype(np.float64)
    return (known - _sliding_mean(known, _power(known, config), *config.cmn_frames)).astype(np.float32)


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
    return np.asarray(known - near - raised, np.float32)


def _power(known: Reals, config: FeatureConfig) -> Reals:
    """Return the weight of each frame in a mean, shape (n_frames, 1); see `filterbank.sliding_cmn`."""
    same = np.ones((len(known), 1))
    if not extractor(config).bands:
        return same
    loudness = np.maximum(known.mean(1, keepdims=True), 0)
    power = _sliding_mean(np.exp(loudness), same, config.power_window_frames, config.power_window_frames)
    return np.where(loudness > 0, power, 1.0)


def _sliding_mean(values: Reals, weights: Reals, before: int, after: int) -> Reals:
    """Return the weighted mean over `before` and `after` frames around each; weights >= 1."""
    steps = np.arange(len(values))
    ends = np.minimum(steps + after + 1, len(values))
    starts = np.maximum(np.minimum(steps - before, ends - 1), 0)
    sums = np.zeros((len(values) + 1, values.shape[1] + 1))
    np.cumsum(np.concatenate([weights * values, weights], 1), axis=0, out=sums[1:])
    inside = sums[ends] - sums[starts]
    return np.asarray(inside[:, :-1] / np.maximum(inside[:, -1:], 1))


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
