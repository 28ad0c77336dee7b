"""A net of the user's own, in the place of `speechctc.model.net.ConvCTCNet`."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor, nn

from speechctc.config.schema import Config, ModelConfig
from speechctc.core import plugins
from speechctc.core.errors import InputError, first_few
from speechctc.core.own_net import OwnNet, build
from speechctc.features.padded import frame_mask
from speechctc.model.layers import OWN_PREFIX, longest_frames, output_frames

TYPES = (torch.float32, torch.int64, torch.int32, torch.uint8, torch.bool)  # of what is saved
TOLERANCE = 1e-3  # of the largest logit: what rounding may change
MOST_FRAMES = 4000  # that are tried of a net that sees very far


class OwnModule(nn.Module):
    """A net of the user's own, with what is asked of it checked.

    Parameters
    ----------
    net : OwnNet
    config : ModelConfig
    classes : int
        Phones and the blank.

    Raises
    ------
    InputError
        It has weights of a type that is not saved.
    """

    def __init__(self, net: OwnNet, config: ModelConfig, classes: int) -> None:
        super().__init__()
        self.config, self.classes, self.what = config, classes, f"model.kind={config.kind}"
        self.own = net.module
        self._takes_frames = _parameters(net.module) > 1
        for name, tensor in net.module.state_dict().items():
            floats = tensor.is_floating_point() or tensor.is_complex()
            if tensor.dtype not in TYPES or (floats and tensor.dtype != torch.float32):
                fix = "make it float32, or register_buffer(..., persistent=False) what is computed anew"
                raise InputError(f"{self.what}: {name} is {str(tensor.dtype).removeprefix('torch.')}", fix)

    def forward(self, features: Tensor, frames: Tensor, prior: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """As `ConvCTCNet.forward`; no `prior` is used.

        Raises
        ------
        InputError
            The user's code fails, or returns other shapes than it should.
        """
        x = features.flatten(1, 2).transpose(1, 2)
        x = x.masked_fill(~frame_mask(frames, x.shape[1])[:, :, None], 0.0)
        logits = plugins.guarded(self.what, self.own)(*((x, frames) if self._takes_frames else (x,)))
        self._check(logits, x)
        return logits, torch.as_tensor(output_frames(frames, self.config))

    def _check(self, logits: object, x: Tensor) -> None:
        if torch.compiler.is_exporting():  # which would take the lengths that are compared for constants
            return
        wanted = len(x), int(output_frames(x.shape[1], self.config)), self.classes
        found = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        if found != wanted:
            what = f"{self.what}: forward returned {found} for features of shape {tuple(x.shape)}, not {wanted}"
            raise InputError(what, "return logits as (n_batch, ceil(max_frames / stride), classes)")


def _parameters(module: nn.Module) -> int:
    """Return how many positional parameters a module's forward takes, those with a default aside; 2 if any number."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = inspect.signature(module.forward).parameters.values()
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in given):
        return 2
    named = [each for each in given if each.kind in kinds]
    return sum(each.default is inspect.Parameter.empty or each.name == "frames" for each in named)


def build_own(config: Config, classes: int) -> OwnModule:
    """Return the config's net of the user's own, with random weights from torch's default generator."""
    net = build(config.model.kind, config.features.inputs, classes, config.model.options)
    return OwnModule(net, config.model, classes)


@torch.no_grad()
def check_own(net: OwnModule, config: Config, device: torch.device) -> str:
    """Try on noise whether a net sees what it says, and not the padding, and whether all of it can learn.

    Returns
    -------
    str
        What is to be said, or ``""``.

    Raises
    ------
    InputError
        Frames of logits depend on others than the net says, are not finite, or have no gradient.
    """
    stride, sees, longest = config.model.time_stride, config.model.sees, longest_frames(config)
    size = min(4 * stride + (sum(sees) if isinstance(sees, tuple) else 160), longest or MOST_FRAMES)
    shorter = max(size // 2, 1)
    was_training, devices = net.training, [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        noise = torch.randn(2, config.features.channels, config.features.static_dims, size, device=device)
        frames = torch.tensor([size, shorter], device=device)
        net.eval()
        logits, counts = net(noise, frames)
        alone, _ = net(noise[1:, :, :, :shorter], frames[1:])
        change = _change_outside(net, noise[:1], logits[:1], sees) if isinstance(sees, tuple) else 0.0
        doubts = _untrained(net, noise, frames)
        net.train(was_training)
    if not bool(logits[0].isfinite().all()):
        raise InputError(f"{net.what}: logits of noise that are not finite", "look for a division by 0, or a full mask")
    scale = TOLERANCE * max(float(logits.abs().max()), 1e-3)
    if change > scale:
        what = f"{net.what}: logits change with frames outside of sees={sees} around frame t * stride"
        raise InputError(what, 'let sees be larger; or "whole", with longest')
    count = int(counts[1])
    if not float((logits[1, :count] - alone[0, :count]).abs().max()) <= scale:
        hint = "mask what is past `frames`, the second parameter of forward"
        doubts += [f"the logits of an utterance change with the padding behind it, and so with its batch; {hint}"]
    return f"{net.what}: {'; '.join(doubts)}" if doubts else ""


def _untrained(net: OwnModule, noise: Tensor, frames: Tensor) -> list[str]:
    """Return a line where logits do not depend on some parameters, which training would leave as they are.

    Raises
    ------
    InputError
        They depend on none, or torch cannot go back through the net.
    """
    named = {name: each for name, each in net.own.named_parameters() if each.requires_grad}
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # cuDNN's LSTM goes back in training only
        logits, _ = net(noise, frames)
        if named and not logits.requires_grad:
            raise InputError(f"{net.what}: logits without a gradient", "leave out detach, no_grad and inference_mode")
        going_back = plugins.guarded(f"{net.what}: going back through it", torch.autograd.grad)
        found = going_back(logits.sum(), [*named.values()], allow_unused=True) if named else ()
    unused = [name for name, each in zip(named, found, strict=True) if each is None]
    return [f"logits do not depend on {first_few(unused, 3)}, so training leaves that as it is"] if unused else []


def _change_outside(net: OwnModule, noise: Tensor, logits: Tensor, sees: tuple[int, int]) -> float:
    """Return how much logits in the middle change with frames that they do not see."""
    stride, size = net.config.time_stride, noise.shape[3]
    middle = min(-(-(sees[0] + stride) // stride), logits.shape[1] - 1)
    first, end = max(middle * stride - sees[0], 0), min(middle * stride + sees[1] + 1, size)
    other = torch.randn_like(noise)
    other[:, :, :, first:end] = noise[:, :, :, first:end]
    changed, _ = net(other, torch.tensor([size], device=noise.device))
    return float((changed[0, middle] - logits[0, middle]).abs().max())


def weights_by_class(config: Config, classes: int) -> list[str]:
    """Return the names of the weights whose first axis counts the classes: those of the output layer.

    Raises
    ------
    InputError
        Another axis of a weight counts them.
    """
    shapes = [
        {OWN_PREFIX + name: tuple(each.shape) for name, each in build_own(config, count).own.state_dict().items()}
        for count in (classes, classes + 1)
    ]
    found = [name for name, shape in shapes[0].items() if shapes[1].get(name) != shape]
    for name in found:
        if shapes[0][name][1:] != shapes[1].get(name, ())[1:] or shapes[0][name][:1] != (classes,):
            what = f"model.kind={config.model.kind}: {name} is not of one row for each class"
            raise InputError(what, "train.init_from begins only with models of the same phones, or set it to null")
    return found
