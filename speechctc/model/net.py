"""The net: convolutions over frequency and time, then dense layers (Zhang et al. 2016, section 3).

A dense layer sees one frame, as in the paper, or several (`model.dense_span`), as a convolution over time. Frequency is
zero-padded to keep its size. Everything past an utterance's end is set to zero before each layer, which equals the zero
padding in time: an utterance's output does not depend on the others in its batch.

Conv2d that works around a bug of oneDNN in bfloat16. On CPUs with AMX, oneDNN's weight gradient of a 2-D convolution
reads uninitialised memory when several threads share an utterance, that is, when the batch size is not a multiple of
the number of threads; only at some lengths (3 x 5 over 14 bands: 154 frames, 185 frames). The values read are
multiplied by 0, which does no harm unless they are NaN or infinite (seen in torch 2.11). Here, the utterances beyond
the largest such multiple are computed in float32.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from speechctc.config.schema import FeatureConfig, ModelConfig
from speechctc.features.filterbank import frame_mask
from speechctc.model.maxout import Maxout

BIAS = 0.3
"""Standard deviation of the first biases of the first normalised layer.

A masked frame is zero in all bands, and without biases it stays zero up to the logits. The normalisation of a zero
vector multiplies the gradient by ``1 / sqrt(eps)``, 316, in every layer: the gradient overflows. With these biases, a
masked frame has the scale of any other from here on, and its gradient is multiplied by ``1 / BIAS`` once.
"""

Pair = tuple[int, ...]


def output_frames(frames: int | Tensor, config: ModelConfig) -> int | Tensor:
    """Return the number of output frames for a number of input frames: ``ceil(frames / time_stride)``."""
    return (frames + config.time_stride - 1) // config.time_stride


def receptive_field(model: ModelConfig, features: FeatureConfig) -> int:
    """Return the number of static frames that one output frame depends on, derivatives included.

    41 for the ten 3 x 5 convolutions of the paper; each order of derivative adds ``delta_window - 1``.
    """
    _, width = model.kernel
    first = width - 1
    later = (len(model.convs) - 1) * (width - 1) + sum(span - 1 for span in model.dense_spans)
    return 1 + first + later * model.time_stride + features.deltas * (features.delta_window - 1)


def parameter_count(net: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in net.parameters() if parameter.requires_grad)


class ConvCTCNet(nn.Module):
    """Maps features to logits of the phones and the blank.

    Parameters
    ----------
    config : ModelConfig
        Layers, activation, regularisation.
    channels, dims : int
        Channels of the input (static features and derivatives), and values per frame.
    classes : int
        Phones and the blank.
    has_bands : bool
        The values are of neighbouring bands, and the convolutions cover several, as they cover frames. Otherwise each
        value is a channel of its own.
    layers : int
        The values are so many vectors of one size, one after the other, whose learned mean the net takes.
    """

    def __init__(
        self, config: ModelConfig, channels: int, dims: int, classes: int, has_bands: bool = True, layers: int = 1
    ) -> None:
        super().__init__()
        self.config, self.has_bands = config, has_bands
        self.mix = nn.Parameter(torch.zeros(layers)) if layers > 1 else None
        kernel, pool = (config.kernel, config.pool) if has_bands else ((1, config.kernel[1]), 1)
        if not has_bands:
            channels, dims = channels * dims // layers, 1
        rates = iter(config.dropout_rates)
        strides = [config.time_stride] + [1] * (len(config.convs) - 1)
        inputs = [channels, *config.convs[:-1]]
        self.convs = nn.ModuleList(
            Layer(n_in, n_out, kernel, stride, next(rates), False, config)
            for n_in, n_out, stride in zip(inputs, config.convs, strides, strict=True)
        )
        self.pool = nn.MaxPool2d((pool, 1)) if pool > 1 else nn.Identity()
        bands = dims // pool
        if bands == 0:
            raise ValueError(f"pooling {pool} bands leaves nothing of {dims}")
        inputs = [config.convs[-1] * bands, *config.dense]
        self.dense = nn.ModuleList(
            Layer(n_in, n_out, (1, span), 1, next(rates), config.norm == "layer", config)
            for n_in, n_out, span in zip(inputs[:-1], config.dense, config.dense_spans, strict=True)
        )
        # The sum over residual layers has no fixed scale: it is normalised before the output layer.
        self.norm = ChannelNorm(inputs[-1]) if config.norm == "layer" and config.residual else None
        self.output = nn.Conv2d(inputs[-1], classes, 1)
        _initialise(self.output, config.init, gain=1.0)
        if config.norm == "layer" and self.dense and not self.output.weight.is_meta:
            nn.init.normal_(self.dense[0].get_parameter("conv.bias"), 0.0, BIAS)

    def forward(self, features: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits, and the number of output frames of each utterance.

        Parameters
        ----------
        features : Tensor, shape = (n_batch, channels, dims, max_frames)
            From `features.net_input`.
        frames : Tensor, shape = (n_batch,)
            Frames of each utterance.

        Returns
        -------
        logits : Tensor, shape = (n_batch, max_output_frames, classes)
            Arbitrary past an utterance's end.
        frames : Tensor, shape = (n_batch,)
        """
        x = self._as_channels(features).contiguous(memory_format=torch.channels_last)
        mask = frame_mask(frames, x.shape[3])[:, None, None, :]
        for number, conv in enumerate(self.convs):
            x = conv(x, mask)
            if number == 0:
                x = self.pool(x)
                mask = frame_mask(torch.as_tensor(output_frames(frames, self.config)), x.shape[3])[:, None, None, :]
        x = x.flatten(1, 2).unsqueeze(2)  # (n_batch, maps x bands, 1, frames)
        for dense in self.dense:
            x = dense(x, mask)
        logits: Tensor = self.output(x if self.norm is None else self.norm(x))
        return logits.squeeze(2).transpose(1, 2), torch.as_tensor(output_frames(frames, self.config))

    def _as_channels(self, features: Tensor) -> Tensor:
        """Return features without bands as (n_batch, channels x dims, 1, max_frames), of the mean of their layers."""
        if self.mix is not None:
            apart = features.unflatten(2, (len(self.mix), -1))
            features = torch.einsum("bclst,l->bcst", apart, self.mix.softmax(0).to(apart.dtype))
        return features if self.has_bands else features.flatten(1, 2).unsqueeze(2)


class Layer(nn.Module):
    """Convolution, optional normalisation, activation, dropout; a dense layer is a 1 x span convolution."""

    def __init__(
        self,
        n_in: int,
        n_out: int,
        kernel: tuple[int, int],
        stride: int,
        dropout: float,
        norm: bool,
        config: ModelConfig,
    ) -> None:
        super().__init__()
        pieces = config.pieces if config.activation == "maxout" else 1
        padding = (kernel[0] // 2, kernel[1] // 2)
        self.residual = config.residual and n_in == n_out and stride == 1
        normed = n_in if self.residual else n_out * pieces
        self.norm = ChannelNorm(normed) if norm else None
        self.conv = Convolution(n_in, n_out * pieces, kernel, (1, stride), padding)
        self.activation = _activation(config.activation, pieces, n_out, dropout)
        self.dropout = nn.Identity() if pieces > 1 else nn.Dropout(dropout)
        _initialise(self.conv, config.init, gain=1.0 if pieces > 1 else math.sqrt(2.0))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map (n_batch, n_in, bands, frames) to (n_batch, n_out, bands, frames); ignores `x` where `mask` is false.

        The output of the convolution is normalised; in a residual layer its input (Xiong et al. 2020), so that the sum
        over the layers is not.
        """
        y: Tensor = x if self.norm is None or not self.residual else self.norm(x)
        y = self.conv(y * mask)
        if self.norm is not None and not self.residual:
            y = self.norm(y)
        y = self.dropout(self.activation(y))
        return y + x if self.residual else y


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the maps of each frame (Ba et al. 2016), of (n_batch, maps, 1, frames).

    Not for layers with bands: normalising the maps of each band removes its energy, and nets learn slowly or not at
    all.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalise, scale and shift; same shape."""
        normed: Tensor = super().forward(x.permute(0, 2, 3, 1))
        return normed.permute(0, 3, 1, 2)


def _activation(name: str, pieces: int, maps: int, dropout: float) -> nn.Module:
    if name == "maxout":
        return Maxout(pieces, dropout)
    if name == "prelu":
        return nn.PReLU(maps)
    kinds = {each.lower(): each for each in torch.nn.modules.activation.__all__}
    module: nn.Module = getattr(nn, kinds[name])()
    return module


def _initialise(conv: nn.Conv2d, how: str, gain: float) -> None:
    """He's rule: keeps the second moment over layers; the larger of two standard normals has second moment 1."""
    if conv.weight.is_meta:  # a net that is made for its shapes; torch takes long to draw no numbers
        return
    if how == "uniform":
        nn.init.uniform_(conv.weight, -0.05, 0.05)
    else:
        nn.init.normal_(conv.weight, 0.0, gain / math.sqrt(conv.weight[0].numel()))
    assert conv.bias is not None
    nn.init.zeros_(conv.bias)


class Convolution(nn.Conv2d):
    """A convolution over bands and frames, of (n_batch, maps, bands, frames), without dilation or groups."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (n_batch, maps, bands, frames)."""
        if not _threads_share_utterances(x) or self.kernel_size[0] == 1:
            return super().forward(x)
        assert self.bias is not None and not isinstance(self.padding, str)
        weight, bias = self.weight.bfloat16(), self.bias.bfloat16()
        result: Tensor = _InParts.apply(x.bfloat16(), weight, bias, self.stride, self.padding)  # type: ignore[no-untyped-call]
        return result


def _threads_share_utterances(x: Tensor) -> bool:
    if x.device.type != "cpu" or not torch.is_grad_enabled() or not torch.is_autocast_enabled("cpu"):
        return False
    return torch.get_autocast_dtype("cpu") == torch.bfloat16 and len(x) % torch.get_num_threads() != 0


class _InParts(torch.autograd.Function):
    """A bfloat16 convolution that computes the weight gradient in two parts of the batch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, stride: Pair, padding: Pair) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding = stride, padding
        return functional.conv2d(x, weight, bias, stride, padding)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None, None]:
        x, weight = ctx.saved_tensors

        def gradients(gradient: Tensor, x: Tensor, weight: Tensor, *wanted: bool) -> tuple[Tensor, Tensor, Tensor]:
            geometry = (ctx.stride, ctx.padding, (1, 1), False, (0, 0), 1)
            found: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward(
                gradient, x, weight, (len(weight),), *geometry, wanted
            )
            return found

        by_x, _, by_bias = gradients(gradient, x, weight, ctx.needs_input_grad[0], False, True)
        even = len(x) - len(x) % torch.get_num_threads()
        _, by_weight, _ = gradients(gradient[even:].float(), x[even:].float(), weight.float(), False, True, False)
        if even:
            by_weight += gradients(gradient[:even], x[:even], weight, False, True, False)[1]
        return by_x, by_weight.to(weight.dtype), by_bias, None, None
