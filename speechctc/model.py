"""The net: convolutions over frequency and time, then dense layers on each frame (Zhang et al. 2016, section 3).

Frequency is padded to keep its size, time is padded with zeros as the recording's own ends are, and whatever lies past
an utterance's end is set to zero after every layer: an utterance's output does not depend on its neighbours in a batch.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from speechctc.config import FeatureConfig, ModelConfig
from speechctc.features import frame_mask
from speechctc.maxout import Maxout


def output_frames(frames: int | Tensor, config: ModelConfig) -> int | Tensor:
    """Return how many output frames so many input frames become: ``ceil(frames / time_stride)``."""
    return (frames + config.time_stride - 1) // config.time_stride


def receptive_field(model: ModelConfig, features: FeatureConfig) -> int:
    """Return the static frames that one output frame depends on, derivatives included.

    41 for the ten 3 x 5 convolutions of the paper; each order of derivative adds ``delta_window - 1``.
    """
    _, width = model.kernel
    first = width - 1
    later = (len(model.convs) - 1) * (width - 1) * model.time_stride
    return 1 + first + later + features.deltas * (features.delta_window - 1)


def parameter_count(net: nn.Module) -> int:
    """Return the trainable numbers of a net."""
    return sum(parameter.numel() for parameter in net.parameters() if parameter.requires_grad)


class MaxoutNet(nn.Module):
    """Frames of features to unnormalised log probabilities of the phones and the blank.

    Parameters
    ----------
    config : ModelConfig
        Layers, activation, regularisation.
    channels, dims : int
        Of the input: static features and derivatives; bands a frame.
    classes : int
        Phones and the blank.
    """

    def __init__(self, config: ModelConfig, channels: int, dims: int, classes: int) -> None:
        super().__init__()
        self.config = config
        strides = [config.time_stride] + [1] * (len(config.convs) - 1)
        inputs = [channels, *config.convs[:-1]]
        self.convs = nn.ModuleList(
            Layer(n_in, n_out, config.kernel, stride, config)
            for n_in, n_out, stride in zip(inputs, config.convs, strides, strict=True)
        )
        self.pool = nn.MaxPool2d((config.pool, 1)) if config.pool > 1 else nn.Identity()
        bands = dims // config.pool
        if bands == 0:
            raise ValueError(f"pooling {config.pool} bands leaves nothing of {dims}")
        inputs = [config.convs[-1] * bands, *config.dense[:-1]]
        self.dense = nn.ModuleList(
            Layer(n_in, n_out, (1, 1), 1, config) for n_in, n_out in zip(inputs, config.dense, strict=False)
        )
        last = config.dense[-1] if config.dense else config.convs[-1] * bands
        self.output = nn.Conv2d(last, classes, 1)
        _initialise(self.output, config.init, gain=1.0)

    def forward(self, features: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits and how many of their frames belong to each utterance.

        Parameters
        ----------
        features : Tensor, shape = (n_batch, channels, dims, max_frames)
            From `features.net_input`.
        frames : Tensor, shape = (n_batch,)
            Frames of each utterance.

        Returns
        -------
        logits : Tensor, shape = (n_batch, max_output_frames, classes)
            Meaningless past an utterance's end.
        frames : Tensor, shape = (n_batch,)
        """
        frames = torch.as_tensor(output_frames(frames, self.config))
        x = features.contiguous(memory_format=torch.channels_last)
        mask = frame_mask(frames, int(output_frames(x.shape[3], self.config)))[:, None, None, :]
        for number, conv in enumerate(self.convs):
            x = conv(x, mask)
            if number == 0:
                x = self.pool(x)
        x = x.flatten(1, 2).unsqueeze(2)  # (n_batch, maps x bands, 1, frames)
        for dense in self.dense:
            x = dense(x, mask)
        logits: Tensor = self.output(x)
        return logits.squeeze(2).transpose(1, 2), frames


class Layer(nn.Module):
    """Convolution, normalisation if wanted, activation, dropout; a dense layer is a convolution of one position."""

    def __init__(self, n_in: int, n_out: int, kernel: tuple[int, int], stride: int, config: ModelConfig) -> None:
        super().__init__()
        pieces = config.pieces if config.activation == "maxout" else 1
        padding = (kernel[0] // 2, kernel[1] // 2)
        self.conv = nn.Conv2d(n_in, n_out * pieces, kernel, (1, stride), padding)
        self.norm = nn.LayerNorm(n_out * pieces) if config.norm == "channel" else None
        self.activation = _activation(config.activation, pieces, n_out)
        self.dropout = nn.Dropout(config.dropout)
        self.residual = config.residual and n_in == n_out and stride == 1
        _initialise(self.conv, config.init, gain=1.0 if pieces > 1 else math.sqrt(2.0))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map (n_batch, n_in, bands, frames) to (n_batch, n_out, bands, frames), zero where `mask` is false."""
        y: Tensor = self.conv(x)
        if self.norm is not None:
            y = self.norm(y.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        y = self.dropout(self.activation(y))
        if self.residual:
            y = y + x
        return y * mask


def _activation(name: str, pieces: int, maps: int) -> nn.Module:
    if name == "maxout":
        return Maxout(pieces)
    return {"relu": nn.ReLU(), "prelu": nn.PReLU(maps), "silu": nn.SiLU()}[name]


def _initialise(conv: nn.Conv2d, how: str, gain: float) -> None:
    """He's rule keeps the second moment from layer to layer; the larger of two standard normals has second moment 1."""
    if how == "uniform":
        nn.init.uniform_(conv.weight, -0.05, 0.05)
    else:
        nn.init.normal_(conv.weight, 0.0, gain / math.sqrt(conv.weight[0].numel()))
    assert conv.bias is not None
    nn.init.zeros_(conv.bias)
