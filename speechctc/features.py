"""Samples to the net's input. Pure: no files, no state; the same code for one recording, a batch and a stream.

Static features are what is stored: log mel energies and the frame's log energy. `net_input` makes the net's input of
them, on the device, for training and decoding alike: less the mean around each frame if the config wants that, with
time derivatives, and normalised by the corpus.
"""

from __future__ import annotations

import torch
import torchaudio
from torch import Tensor

from speechctc.config import FeatureConfig

# Kaldi's filter bank takes samples at 16-bit scale; in [-1, 1] quiet frames would drown in its floor.
INT16_SCALE = 32768.0


def window_samples(config: FeatureConfig) -> int:
    """Samples in one analysis window."""
    return int(config.sample_rate * config.window_ms * 0.001)


def shift_samples(config: FeatureConfig) -> int:
    """Samples from the start of one frame to that of the next."""
    return int(config.sample_rate * config.shift_ms * 0.001)


def frame_count(samples: int, config: FeatureConfig) -> int:
    """Frames of a recording: only windows that lie wholly inside it."""
    window = window_samples(config)
    return 0 if samples < window else 1 + (samples - window) // shift_samples(config)


def static_features(samples: Tensor, config: FeatureConfig) -> Tensor:
    """Return log mel energies, then the log energy if the config wants it.

    Parameters
    ----------
    samples : Tensor, shape = (n_samples,)
        Mono, in [-1, 1], at ``config.sample_rate``.

    Returns
    -------
    Tensor, shape = (n_frames, static_dims), float32
    """
    if frame_count(samples.numel(), config) == 0:
        return samples.new_zeros((0, config.static_dims), dtype=torch.float32)
    bank = torchaudio.compliance.kaldi.fbank(
        samples.to(torch.float32)[None] * INT16_SCALE,
        sample_frequency=config.sample_rate,
        frame_length=config.window_ms,
        frame_shift=config.shift_ms,
        window_type=config.window,
        num_mel_bins=config.mels,
        low_freq=config.low_hz,
        high_freq=config.high_hz,
        preemphasis_coefficient=config.preemphasis,
        use_energy=config.energy,
        htk_compat=True,  # puts the energy last
        dither=0.0,
    )
    assert isinstance(bank, Tensor)
    return bank


def net_input(static: Tensor, frames: Tensor, mean: Tensor, std: Tensor, config: FeatureConfig) -> Tensor:
    """Centre, add derivatives and normalise each dimension by the training corpus's mean and deviation.

    Parameters
    ----------
    static : Tensor, shape = (n_batch, max_frames, static_dims)
        Static features; what lies past an utterance's end is ignored.
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
    """Do what `net_input` does to features that are `sliding_cmn` already."""
    inside = frame_mask(frames, features.shape[1])
    stacked = torch.stack(derivatives(features, frames, config), dim=1)
    normalised = (stacked - mean[:, None]) / std[:, None]
    return (normalised * inside[:, None, :, None]).transpose(2, 3)


def sliding_cmn(static: Tensor, frames: Tensor, config: FeatureConfig) -> Tensor:
    """Take from each dimension its mean over the frames around: what level, room, microphone and voice have added.

    In the mean a frame counts by the power (the geometric mean over its dimensions) of the stretch it is in, so that
    all of speech does alike, short pauses included, and long pauses hardly do.

    Parameters
    ----------
    static : Tensor, shape = (n_batch, max_frames, static_dims)
    frames : Tensor, shape = (n_batch,)
        Near an utterance's ends, the mean is over what there is of it.

    Returns
    -------
    Tensor, shape = (n_batch, max_frames, static_dims)
        The features themselves without ``center_ms``.
    """
    if config.center_ms is None:
        return static
    frames, stretch = frames.to(static.device), config.stretch_frames
    inside = frame_mask(frames, static.shape[1])[:, :, None]
    known = torch.where(inside, static, 0.0).double()
    # What is quieter than the last bit of 16, as zeros are, counts as that bit, whatever is near: next to nothing, but
    # in a long silence there would be nothing else than the rounding errors of louder frames before it.
    loudness = known.mean(2, keepdim=True).clamp(min=0)
    power = _sliding_mean(loudness.exp(), inside.double(), frames, stretch, stretch)
    power = inside * torch.where(loudness > 0, power, 1.0)
    return (known - _sliding_mean(known, power, frames, *config.center_frames)).float()


def _sliding_mean(values: Tensor, weights: Tensor, frames: Tensor, before: int, after: int) -> Tensor:
    """Average over so many frames before and after each, inside the utterance; weights are at least 1 there.

    All in float64, as sums over a window are differences of those over all that came before.
    """
    steps = torch.arange(values.shape[1], device=values.device)
    ends = torch.minimum(steps + after + 1, frames[:, None])
    starts = torch.minimum(steps - before, ends - 1).clamp(min=0)
    sums = torch.nn.functional.pad(torch.cat([weights * values, weights], dim=2).cumsum(1), (0, 0, 1, 0))
    over, until = (sums.gather(1, at[:, :, None].expand(-1, -1, sums.shape[2])) for at in (starts, ends))
    total, weight = (until - over).split([values.shape[2], 1], dim=2)
    mean: Tensor = total / weight.clamp(min=1)
    return mean


def sliding_cmn_one(static: Tensor, config: FeatureConfig) -> Tensor:
    """Do the same to a single recording, shape = (n_frames, static_dims)."""
    return sliding_cmn(static.float()[None], torch.tensor([len(static)], device=static.device), config)[0]


def derivatives(static: Tensor, frames: Tensor, config: FeatureConfig) -> list[Tensor]:
    """Return the features and each order of derivative, all (n_batch, max_frames, static_dims).

    An utterance's first and last frame are repeated beyond its ends, as if it stood alone in its batch.
    """
    orders = [static]
    for _ in range(config.deltas):
        clamped = _repeat_last(orders[-1], frames)
        delta = torchaudio.functional.compute_deltas(clamped.transpose(1, 2), win_length=config.delta_window)
        orders.append(delta.transpose(1, 2))
    return orders


def frame_mask(frames: Tensor, max_frames: int) -> Tensor:
    """Return (n_batch, max_frames) booleans: true inside each utterance."""
    return torch.arange(max_frames, device=frames.device) < frames[:, None]


def _repeat_last(static: Tensor, frames: Tensor) -> Tensor:
    steps = torch.arange(static.shape[1], device=static.device)
    index = torch.minimum(steps, (frames.to(static.device) - 1)[:, None].clamp(min=0))
    return static.gather(1, index[:, :, None].expand_as(static))


class Moments:
    """Sums from which the corpus's per-dimension mean and deviation come; sums of parts add up to the whole's.

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
    def none(cls, config: FeatureConfig) -> Moments:
        """Return the sums over nothing."""
        zero = torch.zeros(config.channels, config.static_dims, dtype=torch.float64)
        return cls(0.0, zero, zero.clone())

    @classmethod
    def of(cls, static: Tensor, config: FeatureConfig) -> Moments:
        """Sum over one utterance: static features of shape (n_frames, static_dims)."""
        if static.shape[0] == 0:
            return cls.none(config)
        orders = derivatives(sliding_cmn_one(static, config)[None], torch.tensor([len(static)]), config)
        values = torch.cat(orders).to(torch.float64)  # (channels, n_frames, static_dims)
        return cls(float(static.shape[0]), values.sum(1), values.square().sum(1))

    def __add__(self, other: Moments) -> Moments:
        """Return the sums over both."""
        return Moments(self.count + other.count, self.total + other.total, self.square + other.square)

    def normalisation(self) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation, float32, shape = (channels, static_dims).

        A dimension that never varies gets a deviation of 1, so that it becomes 0 instead of infinite.
        """
        mean = self.total / max(self.count, 1.0)
        variance = (self.square / max(self.count, 1.0) - mean.square()).clamp(min=0)
        std = torch.where(variance > 1e-8, variance.sqrt(), torch.ones_like(variance))
        return mean.float(), std.float()
