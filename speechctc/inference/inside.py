"""The inside of a net: its first filters, feature maps, the wins and functions of maxout pieces, saliency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speechctc.core.errors import InputError
from speechctc.features.filterbank import frame_mask, net_input, static_features
from speechctc.model.checkpoint import Checkpoint
from speechctc.model.maxout import Maxout, PieceWins
from speechctc.model.net import Layer, output_frames

Array = NDArray[np.float32]
FLAT = 0.1  # a piece is flat whose slope is less than this share of the other's


@dataclass(frozen=True)
class Unit:
    """A maxout unit as a function of one number: its input along the difference of the weights of two pieces.

    In all other directions, the input has its mean. Along this line each piece is a straight line.

    Attributes
    ----------
    number : int
    slopes, means : (float, float)
        Of the two pieces: the slope, for an input in standard deviations, and the value at the mean input.
    inputs : ndarray, shape = (n,)
        Inputs that occurred, in standard deviations from their mean.
    """

    number: int
    slopes: tuple[float, float]
    means: tuple[float, float]
    inputs: Array

    @property
    def shape(self) -> str:
        """Return what function it is: one piece flat, both rising or both falling, or one of each."""
        small, large = sorted(self.slopes, key=abs)
        if abs(small) < FLAT * abs(large):
            return "rectifier"
        return "leaky rectifier" if small * large > 0 else "valley"


@dataclass(frozen=True)
class Inside:
    """What a net computed of one recording.

    Attributes
    ----------
    features : ndarray, shape = (channels, bands, frames)
        Its normalised input.
    log_posteriors : ndarray, shape = (n_output_frames, classes)
    maps : dict of str to ndarray, shape = (maps, bands, n_output_frames)
        The output of each layer.
    wins : dict of str to ndarray, shape = (pieces, units)
        How often each piece was the largest; empty for a net without maxout.
    units : dict of str to tuple of Unit
        Of each maxout layer without normalisation: the functions of its units.
    """

    features: Array
    log_posteriors: Array
    maps: dict[str, Array]
    wins: dict[str, NDArray[np.int64]]
    units: dict[str, tuple[Unit, ...]]


def layers_of(checkpoint: Checkpoint) -> dict[str, Layer]:
    """Return the hidden layers by name: conv1, conv2, ..., dense1, ..."""
    net = checkpoint.net
    named = [
        (kind, number, layer)
        for kind, part in (("conv", net.convs), ("dense", net.dense))
        for number, layer in enumerate(part, start=1)
    ]
    return {f"{kind}{number}": layer for kind, number, layer in named if isinstance(layer, Layer)}


def first_filters(checkpoint: Checkpoint) -> Array:
    """Return the weights of the first convolution, (pieces x maps, channels, bands, frames)."""
    return _array(layers_of(checkpoint)["conv1"].conv.weight)


@torch.no_grad()
def look_inside(checkpoint: Checkpoint, samples: Array) -> Inside:
    """Compute everything that `Inside` has, of a recording at the model's rate.

    Raises
    ------
    InputError
        The recording is shorter than one frame.
    """
    net, features, frames = checkpoint.net.eval(), *net_input_of(checkpoint, samples)
    last = int(output_frames(int(frames), checkpoint.config.model))
    mask = frame_mask(torch.tensor([last], device=features.device), last)
    maps, units, wins, hooks = {}, {}, PieceWins(), []
    for name, layer in layers_of(checkpoint).items():

        def see(layer: Layer, args: tuple[Tensor, ...], result: Tensor, name: str = name) -> None:
            maps[name] = _array(result[0])

        def see_pieces(maxout: Maxout, args: tuple[Tensor, ...], name: str = name, layer: Layer = layer) -> None:
            wins.add(name, args[0], maxout.pieces, mask)
            if layer.norm is None or layer.residual:
                units[name] = _units(layer, args[0][0], maxout.pieces, wins.layers[name])

        hooks.append(layer.register_forward_hook(see))
        if isinstance(layer.activation, Maxout):
            hooks.append(layer.activation.register_forward_pre_hook(see_pieces))
    try:
        logits, _ = net(features, frames)
    finally:
        for hook in hooks:
            hook.remove()
    counts = {name: each.cpu().numpy() for name, each in wins.layers.items()}
    return Inside(_array(features[0]), _array(logits[0].log_softmax(1)), maps, counts, units)


def saliency(checkpoint: Checkpoint, samples: Array, phone: int, frame: int) -> Array:
    """Return how much each value of the input matters for a phone in an output frame, (bands, frames).

    It is the size of the derivative of the phone's log posterior by the input, times the input, summed over the
    channels.
    """
    features, frames = net_input_of(checkpoint, samples)
    features.requires_grad_()
    logits, _ = checkpoint.net.eval()(features, frames)
    (gradient,) = torch.autograd.grad(logits[0].log_softmax(1)[frame, phone], features)
    return _array((gradient * features).abs().sum(1)[0])


def net_input_of(checkpoint: Checkpoint, samples: Array) -> tuple[Tensor, Tensor]:
    """Return a recording as the input of the net, (1, channels, bands, frames), and its number of frames."""
    config = checkpoint.config.features
    static = static_features(torch.from_numpy(samples), config).to(checkpoint.mean.device)
    if not len(static):
        raise InputError("the recording is shorter than one frame", "give a longer one")
    frames = torch.tensor([len(static)], device=static.device)
    return net_input(static[None], frames, checkpoint.mean, checkpoint.std, config), frames


def _units(layer: Layer, values: Tensor, pieces: int, wins: Tensor) -> tuple[Unit, ...]:
    """Return the functions of a layer's units; `values` are those of its pieces, (pieces x units, bands, frames)."""
    weight = layer.conv.weight.flatten(1).unflatten(0, (pieces, -1)).double()
    values = values.double().flatten(1).unflatten(0, (pieces, -1))
    found = []
    for number in range(weight.shape[1]):
        first, second = wins[:, number].argsort(descending=True)[:2].tolist()
        one, other = weight[first, number], weight[second, number]
        length = float((one - other).norm()) or 1.0
        along = (one - other) / length
        inputs = (values[first, number] - values[second, number]) / length
        spread = float(inputs.std()) or 1.0
        slopes = (spread * float(one @ along), spread * float(other @ along))
        means = (float(values[first, number].mean()), float(values[second, number].mean()))
        found.append(Unit(number, slopes, means, _array((inputs - inputs.mean()) / spread)))
    return tuple(found)


def _array(tensor: Tensor) -> Array:
    return tensor.detach().float().cpu().numpy()
