"""The net: convolutions over frequency and time, then dense layers (Zhang et al. 2016, section 3).

A dense layer sees one frame, as in the paper, or several (`model.dense_span`), as a convolution over time. Frequency is
zero-padded to keep its size. Everything past an utterance's end is set to zero before each layer, which equals the zero
padding in time: an utterance's output does not depend on the others in its batch.

Maxout with fused dropout keeps one byte per unit for the backward pass: the number of the winning piece, or a mark for
a dropped unit. torch.maximum would save both its inputs, and its gradient takes three passes and a concatenation; here
the gradient is written once, in the memory layout of the convolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from speechctc.config.schema import Config, ModelConfig
from speechctc.core.devices import allow_tf32
from speechctc.core.errors import InputError
from speechctc.features.extractor import Rows
from speechctc.features.padded import frame_mask, net_input_after_cmn
from speechctc.model.checkpoint import Checkpoint
from speechctc.model.convolution import Convolution
from speechctc.model.layers import ContextPlan, LayerPlan, NetPlan, is_own, output_frames, plan_of
from speechctc.model.own import OwnModule, build_own
from speechctc.phones.inventory import Inventory

# Standard deviation of the first biases of the first normalised layer.
#
# A masked frame is zero in all bands, and without biases it stays zero up to the logits. The normalisation of a zero
# vector multiplies the gradient by ``1 / sqrt(eps)``, 316, in every layer: the gradient overflows. With these biases, a
# masked frame has the scale of any other from here on, and its gradient is multiplied by ``1 / BIAS`` once.
BIAS = 0.3

COUNTED_UTTERANCES = 4  # utterances of a batch that are looked at; more take memory, and say little more


def parameter_count(net: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in net.parameters() if parameter.requires_grad)


class ConvCTCNet(nn.Module):
    """Maps features to logits of the phones and the blank.

    Parameters
    ----------
    config : ModelConfig
        Layers, activation, regularisation.
    net : NetPlan
        Its layers in numbers.
    classes : int
        Phones and the blank.
    """

    def __init__(self, config: ModelConfig, net: NetPlan, classes: int) -> None:
        super().__init__()
        self.config, self.classes, self.has_bands = config, classes, net.has_bands
        self.mix = nn.Parameter(torch.zeros(net.mixed)) if net.mixed else None
        self.convs = nn.ModuleList(Layer(each, config) for each in net.convs)
        self.pool = nn.MaxPool2d((net.pool, 1)) if net.pool > 1 else nn.Identity()
        self.dense = nn.ModuleList(Layer(each, config) for each in net.dense)
        self.context = Context(net.context) if net.context else None
        self.norm = ChannelNorm(net.normed) if net.normed else None
        self.output = nn.Conv2d(net.inputs, classes, 1)
        _initialise(self.output, config.init, gain=1.0)
        if config.norm == "layer" and self.dense and not self.output.weight.is_meta:
            nn.init.normal_(self.dense[0].get_parameter("conv.bias"), 0.0, BIAS)

    def forward(self, features: Tensor, frames: Tensor, prior: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the logits, and the number of output frames of each utterance.

        Parameters
        ----------
        features : Tensor, shape = (n_batch, channels, dims, max_frames)
            From `features.net_input`.
        frames : Tensor, shape = (n_batch,)
            Frames of each utterance.
        prior : Tensor, shape = (units,), optional
            As for `speechctc.model.numpy_net.NumpyNet`.

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
        if x.requires_grad and not x.is_cuda:  # else the layers below copy their gradients
            x.register_hook(_channels_last)
        x = x.flatten(1, 2).unsqueeze(2)  # (n_batch, maps x bands, 1, frames)
        if x.is_cuda:  # what cuDNN computes with; and the logits of a frame come to lie side by side
            x = x.contiguous(memory_format=torch.channels_last)
        changes = None
        for number, dense in enumerate(self.dense):
            if changes is not None:
                x = changes(number - 1, x)
            x = dense(x, mask)
            if number == 0 and self.context is not None:
                changes = self.context(x, mask, prior)
        logits: Tensor = self.output(x if self.norm is None else self.norm(x))
        return logits.squeeze(2).transpose(1, 2), torch.as_tensor(output_frames(frames, self.config))

    def _as_channels(self, features: Tensor) -> Tensor:
        """Return features without bands as (n_batch, channels x dims, 1, max_frames), of the mean of their layers."""
        if self.mix is not None:
            apart = features.unflatten(2, (len(self.mix), -1))
            features = torch.einsum("bclst,l->bcst", apart, self.mix.softmax(0).to(apart.dtype))
        return features if self.has_bands else features.flatten(1, 2).unsqueeze(2)


def _channels_last(gradient: Tensor) -> Tensor:
    return gradient.contiguous(memory_format=torch.channels_last)


CTCNet: TypeAlias = ConvCTCNet | OwnModule
"""Maps features to logits: the net of the package, or one of the user's own."""
Net = TypeVar("Net", bound=ConvCTCNet | OwnModule)


class Layer(nn.Module):
    """Convolution, optional normalisation, activation, dropout; a dense layer is a 1 x span convolution."""

    def __init__(self, layer: LayerPlan, config: ModelConfig) -> None:
        super().__init__()
        self.residual, maps = layer.residual, layer.outputs * layer.pieces
        padding = (layer.kernel[0] // 2, layer.kernel[1] // 2)
        self.norm = ChannelNorm(layer.normed) if layer.normed else None
        self.conv = Convolution(layer.inputs, maps, layer.kernel, (1, layer.stride), padding)
        self.activation = _activation(config.activation, layer.pieces, layer.outputs, layer.dropout)
        self.dropout = nn.Identity() if layer.pieces > 1 else nn.Dropout(layer.dropout)
        _initialise(self.conv, config.init, gain=1.0 if layer.pieces > 1 else math.sqrt(2.0))

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


class Context(nn.Module):
    """Scales and shifts the input of dense layers by what is heard around each frame; at first by nothing."""

    def __init__(self, plan: ContextPlan) -> None:
        super().__init__()
        self.span, self.reach = plan.span, plan.span // 2
        self.norm = nn.LayerNorm(plan.inputs)
        self.down = nn.Linear(plan.inputs, plan.values)
        self.up = nn.ModuleList(nn.Linear(plan.values, 2 * inputs) for inputs in plan.layers)
        for each in self.up.parameters():
            nn.init.zeros_(each)

    def forward(self, x: Tensor, mask: Tensor, prior: Tensor | None = None) -> Callable[[int, Tensor], Tensor]:
        """Return a function that changes the input of a layer, by its number.

        Parameters
        ----------
        x : Tensor, shape = (n_batch, n_units, 1, frames)
        mask : Tensor of bool, shape = (n_batch, 1, 1, frames)
            Only frames where it is true are heard.
        prior : Tensor, shape = (n_units,), optional
            A mean of `x` that counts as one span.
        """
        heard = torch.cat([x * mask, mask.to(x.dtype)], dim=1).squeeze(2)
        sums = moving_sum(heard, self.reach)
        if prior is not None:
            sums = sums + self.span * torch.cat([prior, prior.new_ones(1)])[:, None]
        values = torch.relu(self.down(self.norm((sums[:, :-1] / sums[:, -1:].clamp(min=1)).transpose(1, 2))))

        def change(number: int, x: Tensor) -> Tensor:
            factor, shift = self.up[number](values).transpose(1, 2).unsqueeze(2).chunk(2, dim=1)
            changed: Tensor = x * (1 + factor) + shift
            return changed

        return change


def moving_sum(x: Tensor, half: int) -> Tensor:
    """Return sums over `half` frames before and after each, and itself; (n_batch, n, frames), float32 or wider."""
    sums = functional.pad(x.double(), (half + 1, half)).cumsum(2)  # slices of it: a gather's gradient is slow on a GPU
    return (sums[:, :, 2 * half + 1 :] - sums[:, :, : x.shape[2]]).to(torch.promote_types(x.dtype, torch.float32))


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the maps of each frame (Ba et al. 2016), of (n_batch, maps, 1, frames).

    Not for layers with bands: normalising the maps of each band removes its energy, and nets learn slowly or not at
    all.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalise, scale and shift; same shape."""
        normed: Tensor = super().forward(x.permute(0, 2, 3, 1))
        return normed.permute(0, 3, 1, 2)


class Maxout(nn.Module):
    """The maximum of each unit's linear pieces (Goodfellow et al. 2013): maps (pieces x n) to n.

    Parameters
    ----------
    pieces : int
    dropout : float
        Probability that a unit is set to 0 in training (Srivastava et al. 2014).
    """

    def __init__(self, pieces: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.pieces, self.dropout = pieces, dropout

    def forward(self, x: Tensor) -> Tensor:
        """Map (n_batch, pieces x n, ...) to (n_batch, n, ...)."""
        rate = self.dropout if self.training else 0.0
        if not (torch.is_grad_enabled() and x.requires_grad):
            first, *others = x.chunk(self.pieces, dim=1)
            for other in others:
                first = torch.maximum(first, other)
            return functional.dropout(first, rate)
        result: Tensor
        if x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16):
            result = _OnCpu.apply(x, self.pieces, rate)  # type: ignore[no-untyped-call]
            return result
        result = _Anywhere.apply(x, self.pieces)  # type: ignore[no-untyped-call]
        return functional.dropout(result, rate)


class _OnCpu(torch.autograd.Function):
    """Maxout by compiled code, in one pass each way; of equal pieces, the first gets the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, pieces: int, rate: float) -> Tensor:
        from speechctc.model import maxout_cpu  # loads numba, which only training needs

        layout = _layout(x)
        x = x.contiguous(memory_format=layout)
        ctx.pieces, ctx.rate, ctx.layout = pieces, rate, layout
        ctx.shape = (x.shape[0], x.shape[1] // pieces, *x.shape[2:])
        seed = int(torch.randint(2**32, ())) if rate else 0
        result, winner = maxout_cpu.forward(_rows(x, pieces, layout), rate, seed)
        ctx.save_for_backward(winner)
        return _unrows(result, ctx.shape, layout)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        from speechctc.model import maxout_cpu

        (winner,) = ctx.saved_tensors
        rows = _rows(gradient.contiguous(memory_format=ctx.layout), 1, ctx.layout).squeeze(1)
        whole = maxout_cpu.backward(rows, winner, ctx.pieces, ctx.rate)
        shape = (ctx.shape[0], ctx.pieces * ctx.shape[1], *ctx.shape[2:])
        return _unrows(whole, shape, ctx.layout), None, None


def _layout(x: Tensor) -> torch.memory_format:
    last = x.dim() == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format


def _rows(x: Tensor, pieces: int, layout: torch.memory_format) -> Tensor:
    """View maps as (rows, pieces, units), in memory order."""
    if layout is torch.channels_last:
        return x.permute(0, 2, 3, 1).reshape(-1, pieces, x.shape[1] // pieces)
    return x.reshape(len(x), pieces, math.prod(x.shape[1:]) // pieces)


def _unrows(rows: Tensor, shape: tuple[int, ...], layout: torch.memory_format) -> Tensor:
    """Undo `_rows`."""
    if layout is torch.channels_last:
        batch, maps, *inner = shape
        return rows.view(batch, *inner, maps).permute(0, 3, 1, 2)
    return rows.view(shape)


class _Anywhere(torch.autograd.Function):
    """Maxout by torch operators; of equal pieces, the first gets the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, pieces: int) -> Tensor:
        first, *others = x.chunk(pieces, dim=1)
        winner = torch.zeros_like(first, dtype=torch.uint8) if pieces > 2 else None
        for number, other in enumerate(others, start=1):
            if winner is not None:
                winner.masked_fill_(other > first, number)
            else:
                ctx.save_for_backward(other > first)
            first = torch.maximum(first, other)
        if winner is not None:
            ctx.save_for_backward(winner)
        ctx.pieces = pieces
        return first

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (winner,) = ctx.saved_tensors
        shape = (gradient.shape[0], ctx.pieces * gradient.shape[1], *gradient.shape[2:])
        layout = torch.channels_last if gradient.dim() == 4 else torch.contiguous_format
        whole = torch.empty(shape, dtype=gradient.dtype, device=gradient.device, memory_format=layout)
        zero = gradient.new_zeros(())
        if ctx.pieces == 2:  # `winner` is boolean: whether the second piece won
            first, second = whole.chunk(2, dim=1)
            torch.where(winner, zero, gradient, out=first)
            torch.where(winner, gradient, zero, out=second)
            return whole, None
        for number, part in enumerate(whole.chunk(ctx.pieces, dim=1)):
            torch.where(winner == number, gradient, zero, out=part)
        return whole, None


def _activation(name: str, pieces: int, maps: int, dropout: float) -> nn.Module:
    if name == "maxout":
        return Maxout(pieces, dropout)
    if name == "prelu":
        return nn.PReLU(maps)
    kind: type[nn.Module] = {each.lower(): getattr(nn, each) for each in nn.modules.activation.__all__}[name]
    return kind()


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


def build_any(config: Config, inventory: Inventory) -> CTCNet:
    """Return the config's net for these phones, with random weights from torch's default generator."""
    return build_own(config, len(inventory.phones) + 1) if is_own(config.model) else build_net(config, inventory)


def build_net(config: Config, inventory: Inventory) -> ConvCTCNet:
    """As `build_any`, of the package's own kind.

    Raises
    ------
    InputError
        The net is one of the user's own.
    """
    if is_own(config.model):
        what = f"model.kind={config.model.kind}: this looks into the layers of the package's own nets"
        raise InputError(what, "use a model of the kind conv")
    net = ConvCTCNet(config.model, plan_of(config.model, config.features), len(inventory.phones) + 1)
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def any_net_of(checkpoint: Checkpoint) -> CTCNet:
    """Return a checkpoint's net as torch has it, a copy; on the CPU."""
    return _with_weights(build_any(checkpoint.config, checkpoint.inventory), checkpoint)


def net_of(checkpoint: Checkpoint) -> ConvCTCNet:
    """As `any_net_of`, of the package's own kind; raises as `build_net`."""
    return _with_weights(build_net(checkpoint.config, checkpoint.inventory), checkpoint)


def _with_weights(net: Net, checkpoint: Checkpoint) -> Net:
    net.load_state_dict({name: torch.from_numpy(value) for name, value in checkpoint.weights.items()})
    return net


class TorchNet:
    """As `speechctc.model.numpy_net.NumpyNet`, with torch, on a device.

    Parameters
    ----------
    checkpoint : Checkpoint
    device : str
        As torch names it.
    """

    def __init__(self, checkpoint: Checkpoint, device: str) -> None:
        self.config, self.device = checkpoint.config.features, torch.device(device)
        self.classes = len(checkpoint.inventory.phones) + 1
        self.net = any_net_of(checkpoint).eval().to(self.device)
        self.mean, self.std = (torch.from_numpy(each).to(self.device) for each in (checkpoint.mean, checkpoint.std))

    @torch.inference_mode()
    def __call__(self, centred: Rows, last: int | None = None, prior: Rows | None = None) -> Rows:
        """Return the logits of a recording, (n_output_frames, classes), of features after CMN, (n_frames, dims)."""
        if not len(centred):  # shorter than a window
            return np.zeros((0, self.classes), np.float32)
        if self.device.type == "cuda":
            allow_tf32(False)  # torch allows it for convolutions, and a training in this process may have
        frames = torch.tensor([len(centred)], device=self.device)
        static = torch.from_numpy(centred)[None].to(self.device)
        expected = None if prior is None else torch.from_numpy(prior).to(self.device)
        logits, _ = self.net(net_input_after_cmn(static, frames, self.mean, self.std, self.config), frames, expected)
        return np.asarray(logits[0].float().cpu().numpy())


class PieceWins:
    """Counts of the wins of each piece, layer by layer.

    Attributes
    ----------
    layers : dict of str to Tensor
        By the name of the layer in the net, counts of shape (pieces, units), int64, on the net's device.
    """

    def __init__(self) -> None:
        self.layers: dict[str, Tensor] = {}

    def add(self, name: str, x: Tensor, pieces: int, mask: Tensor) -> None:
        """Count the winners of a layer's input, (n_batch, pieces x units, ..., frames), where `mask` is true."""
        winner = x[:COUNTED_UTTERANCES].unflatten(1, (pieces, -1)).argmax(1)
        inside = mask[:COUNTED_UTTERANCES].view(len(winner), *[1] * (winner.dim() - 2), -1)
        dims = [0, *range(2, winner.dim())]
        counts = torch.stack([((winner == piece) & inside).sum(dims) for piece in range(pieces)])
        self.layers[name] = self.layers[name] + counts if name in self.layers else counts

    def dead_share(self) -> Tensor:
        """Return the share of the pieces of all layers that never won, on the net's device."""
        return torch.cat([(counts == 0).flatten() for counts in self.layers.values()]).double().mean()


@contextmanager
def counted_wins(net: nn.Module, mask: Tensor) -> Iterator[PieceWins]:
    """Count the wins of all maxout layers of a net while it is used; it computes the same.

    Parameters
    ----------
    net : Module
    mask : Tensor, shape = (n_batch, n_output_frames)
        True where a frame is inside its utterance.
    """
    wins, hooks = PieceWins(), []
    for name, module in net.named_modules():
        if isinstance(module, Maxout):

            def see(module: Maxout, args: tuple[Any, ...], name: str = name) -> None:
                wins.add(name, args[0].detach(), module.pieces, mask)

            hooks.append(module.register_forward_pre_hook(see))
    try:
        yield wins
    finally:
        for hook in hooks:
            hook.remove()
