"""Compute features of padded batches: from samples to the input of the net.

Static features (`features.extractor`) are stored. `net_input` computes the rest on the device, in training: sliding
cepstral mean normalisation (CMN) if configured, time derivatives, and normalisation by the mean and deviation of the
training split. `features.extractor` computes the same of one recording, without torch.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from speechctc.config.schema import FeatureConfig
from speechctc.features.extractor import DEPTH, extractor


def static_features(samples: Tensor, config: FeatureConfig) -> Tensor:
    """Return the static features of samples, (n_frames, static_dims), as tensors; see `FeatureExtractor.static`."""
    return torch.from_numpy(extractor(config).static(samples.numpy()))


def delta(values: Tensor, frames: Tensor, config: FeatureConfig) -> Tensor:
    """Return the time derivative of (n_batch, max_frames, static_dims) by a regression over ``delta_window`` frames.

    The first and the last frame of an utterance are repeated beyond its ends. The values are those of
    `torchaudio.functional.compute_deltas`, to the bit on a CPU; here the number of groups is fixed, as ONNX needs it.
    """
    reach, dims = config.delta_window // 2, values.shape[2]
    padded = functional.pad(_repeat_last(values, frames).transpose(1, 2), (reach, reach), mode="replicate")
    steps = torch.arange(-reach, reach + 1, device=values.device, dtype=values.dtype).repeat(dims, 1, 1)
    return functional.conv1d(padded, steps, groups=dims).transpose(1, 2) / (reach * (reach + 1) * (2 * reach + 1) / 3)


def net_input(static: Tensor, frames: Tensor, mean: Tensor, std: Tensor, config: FeatureConfig) -> Tensor:
    """Apply sliding CMN, append derivatives, and normalise by the training split's mean and deviation.

    Parameters
    ----------
    static : Tensor, shape = (n_batch, max_frames, static_dims)
        Static features; values past an utterance's end are ignored.
    frames : Tensor, shape = (n_batch,)
        Frames of each utterance, at least 1.
    mean, std : Tensor, shape = (channels, static_dims)
        From `Moments.normalisation`.

    Returns
    -------
    Tensor, shape = (n_batch, channels, static_dims, max_frames), float32
        Zero past each utterance's end.
    """
    return net_input_after_cmn(sliding_cmn(static.float(), frames, config), frames, mean, std, config)


def net_input_after_cmn(features: Tensor, frames: Tensor, mean: Tensor, std: Tensor, config: FeatureConfig) -> Tensor:
    """Append derivatives and normalise, as `net_input` does after sliding CMN."""
    inside = frame_mask(frames, features.shape[1])
    stacked = torch.stack(derivatives(features, frames, config), dim=1)
    normalised = (stacked - mean[:, None]) / std[:, None]
    return (normalised * inside[:, None, :, None]).transpose(2, 3)


def sliding_cmn(static: Tensor, frames: Tensor, config: FeatureConfig) -> Tensor:
    """Subtract from each dimension a power-weighted sliding mean: removes level, room, microphone and voice.

    The weight of a frame is the mean power (geometric mean over its dimensions) of two seconds around it. Speech and
    short pauses have similar weights; long pauses have little. Frames below the last of 16 bits, zeros for example, are
    raised to `DEPTH` below the mean.

    Parameters
    ----------
    static : Tensor, shape = (n_batch, max_frames, static_dims)
    frames : Tensor, shape = (n_batch,)
        Numbers of frames; the sliding window is cut at the ends of an utterance.

    Returns
    -------
    Tensor, shape = (n_batch, max_frames, static_dims)
        The input itself if ``cmn_window_ms`` is None.
    """
    if config.cmn_window_ms is None:
        return static
    frames = frames.to(static.device)
    inside = frame_mask(frames, static.shape[1])[:, :, None]
    known = torch.where(inside, static, 0.0).double()
    mean = _sliding_mean(known, _power(known, inside, frames, config), frames, *config.cmn_frames)
    centred = (known - mean).float()
    if not extractor(config).bands:
        return centred
    return torch.where(known.mean(2, keepdim=True) > 0, centred, centred.clamp(min=-DEPTH))


def _power(known: Tensor, inside: Tensor, frames: Tensor, config: FeatureConfig) -> Tensor:
    """Return the weight of each frame in a mean, shape (n_batch, max_frames, 1); without bands, all weigh alike."""
    if not extractor(config).bands:
        return inside.double()
    # Frames below the last of 16 bits, zeros for example, get the weight of that bit. With smaller weights, the mean in
    # a long silence would consist of rounding errors of louder frames before it.
    loudness, stretch = known.mean(2, keepdim=True).clamp(min=0), config.power_window_frames
    power = _sliding_mean(loudness.exp(), inside.double(), frames, stretch, stretch)
    return inside * torch.where(loudness > 0, power, 1.0)


def _sliding_mean(values: Tensor, weights: Tensor, frames: Tensor, before: int, after: int) -> Tensor:
    """Return the weighted mean over `before` and `after` frames around each, inside the utterance; weights >= 1.

    In float64, because a window's sum is the difference of two cumulative sums.
    """
    steps = torch.arange(values.shape[1], device=values.device)
    ends = torch.minimum(steps + after + 1, frames[:, None])
    starts = torch.minimum(steps - before, ends - 1).clamp(min=0)
    sums = torch.nn.functional.pad(torch.cat([weights * values, weights], dim=2).cumsum(1), (0, 0, 1, 0))
    over, until = (sums.gather(1, at[:, :, None].expand(-1, -1, sums.shape[2])) for at in (starts, ends))
    total, weight = (until - over).split([values.shape[2], 1], dim=2)
    return torch.div(total, weight.clamp(min=1))


def sliding_cmn_one(static: Tensor, config: FeatureConfig) -> Tensor:
    """Apply `sliding_cmn` to one recording, shape = (n_frames, static_dims)."""
    return sliding_cmn(static.float()[None], torch.tensor([len(static)], device=static.device), config)[0]


def derivatives(static: Tensor, frames: Tensor, config: FeatureConfig) -> list[Tensor]:
    """Return the features and each order of derivative, each (n_batch, max_frames, static_dims)."""
    orders = [static]
    for _ in range(config.deltas):
        orders.append(delta(orders[-1], frames, config))
    return orders


def frame_mask(frames: Tensor, max_frames: int) -> Tensor:
    """Return (n_batch, max_frames) booleans: true inside each utterance."""
    return torch.arange(max_frames, device=frames.device) < frames[:, None]


def _repeat_last(static: Tensor, frames: Tensor) -> Tensor:
    steps = torch.arange(static.shape[1], device=static.device)
    index = torch.minimum(steps, (frames.to(static.device) - 1)[:, None].clamp(min=0))
    return static.gather(1, index[:, :, None].expand_as(static))


class Moments:
    """Sums of values and squares, for mean and deviation; the sums of parts add up.

    Parameters
    ----------
    count : float
        Frames summed over.
    total, square : Tensor, shape = (channels, static_dims), float64
        Sum of the values and of their squares.
    """

    def __init__(self, count: float, total: Tensor, square: Tensor) -> None:
        self.count, self.total, self.square = count, total, square

    @classmethod
    def zero(cls, config: FeatureConfig) -> Moments:
        """Return empty sums."""
        zero = torch.zeros(config.channels, config.static_dims, dtype=torch.float64)
        return cls(0.0, zero, zero.clone())

    @classmethod
    def of(cls, static: Tensor, config: FeatureConfig) -> Moments:
        """Return the sums over one utterance, of static features (n_frames, static_dims)."""
        if static.shape[0] == 0:
            return cls.zero(config)
        orders = derivatives(sliding_cmn_one(static, config)[None], torch.tensor([len(static)]), config)
        values = torch.cat(orders).to(torch.float64)  # (channels, n_frames, static_dims)
        return cls(float(static.shape[0]), values.sum(1), values.square().sum(1))

    def __add__(self, other: Moments) -> Moments:
        """Add the sums of both."""
        return Moments(self.count + other.count, self.total + other.total, self.square + other.square)

    def normalisation(self) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation, float32, shape = (channels, static_dims).

        The deviation of a constant dimension is set to 1.
        """
        mean = self.total / max(self.count, 1.0)
        variance = (self.square / max(self.count, 1.0) - mean.square()).clamp(min=0)
        std = torch.where(variance > 1e-8, variance.sqrt(), torch.ones_like(variance))
        return mean.float(), std.float()
