"""Pictures of the inside of a model: filters, maxout pieces, feature maps, posteriors, saliency; and a page of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speechctc.audio import sound_file
from speechctc.audio.tracks import Channel
from speechctc.core import written
from speechctc.core.errors import InputError
from speechctc.features.filterbank import frame_mask, net_input, static_features
from speechctc.inference.recogniser import Recogniser
from speechctc.model.checkpoint import Checkpoint
from speechctc.model.layers import output_frames
from speechctc.model.net import ConvCTCNet, Layer, Maxout, PieceWins, net_of
from speechctc.pages import net_figures as pictures
from speechctc.pages.figures import require_matplotlib
from speechctc.pages.page import data_url, render_page
from speechctc.pages.timeline import SpectrogramSettings, levels_db

MAX_SECONDS = 20.0  # s of a recording that are looked at
COLUMNS, ROWS = 900, 160  # of the spectrogram
PAGE = "inside.html"

Array = NDArray[np.float32]
FLAT = 0.1  # a piece is flat whose slope is less than this share of the other's


class Picture(NamedTuple):
    """A picture: the name of its file, its PNG, its kind, and the values in the words that inside.html has for it."""

    name: str
    png: bytes
    kind: str
    values: dict[str, Any]


def inspect(
    recogniser: Recogniser, audio: Path | None, layer: str, phone: str | None, channel: Channel | None = None
) -> list[Picture]:
    """Draw the inside of a model.

    Parameters
    ----------
    recogniser : Recogniser
    audio : Path or None
        A recording, of which the first 20 s are looked at; None: only what does not depend on one is drawn.
    layer : str
        The layer whose feature maps and units are drawn: ``"conv1"``.
    phone : str or None
        The phone whose saliency is drawn; None: the one with the highest posterior.
    channel : int or Track, optional
        The channel of the recording to read, from 1; None: the mean of all.

    Raises
    ------
    InputError
        matplotlib is not installed, there is no such layer or phone, or the recording cannot be used.
    """
    require_matplotlib()
    layers = layers_of(net_of(recogniser.checkpoint))
    if layer not in layers:
        raise InputError(f"--layer {layer}: the model has no such layer", f"name one of: {' '.join(layers)}")
    number = None if phone is None else recogniser.inventory.encode([phone])[0]
    filters = _array(layers["conv1"].conv.weight)  # (pieces x maps, channels, bands, frames)
    count, _, bands, frames = filters.shape
    values = {"count": count, "most": pictures.MAX_FILTERS, "bands": bands, "frames": frames}
    found = [Picture("filters", pictures.draw_filters(filters), "filters", values)]
    if audio is None:
        return found
    rate = recogniser.config.features.sample_rate
    samples = sound_file.read(audio, rate, channel)[0][: round(MAX_SECONDS * rate)]
    seen = look_inside(recogniser.checkpoint, samples)
    found += _pieces(seen, layer)
    seconds = len(samples) / rate
    maps = pictures.draw_maps(seen.maps[layer], layer, seconds)
    found.append(Picture(f"maps-{layer}", maps, "maps", {"layer": layer, "recording": audio.name}))
    return [*found, _posteriors(recogniser, seen, samples), _saliency(recogniser, seen, samples, number)]


def _pieces(seen: Inside, layer: str) -> list[Picture]:
    if not seen.wins:
        return []
    dead = {name: float((counts == 0).mean()) for name, counts in seen.wins.items()}
    found = [Picture("wins", pictures.draw_wins(seen.wins), "wins", {"dead": dead})]
    name = layer if layer in seen.units else next(iter(seen.units), None)
    if name is not None:
        shapes = {each: Counter(unit.shape for unit in units) for each, units in seen.units.items()}
        png = pictures.draw_functions(seen.units[name], name)
        found.append(Picture("functions", png, "functions", {"shapes": shapes}))
    return found


def _posteriors(recogniser: Recogniser, seen: Inside, samples: Array) -> Picture:
    rate, settings = recogniser.config.features.sample_rate, SpectrogramSettings()
    levels = levels_db(samples, rate, settings, COLUMNS, ROWS)
    posteriors = np.exp(seen.log_posteriors)
    blank = float((posteriors.argmax(1) == 0).mean())
    png = pictures.draw_posteriors(levels, posteriors, recogniser.phones, len(samples) / rate, settings.highest)
    return Picture("posteriors", png, "posteriors", {"blank": blank})


def _saliency(recogniser: Recogniser, seen: Inside, samples: Array, phone: int | None) -> Picture:
    scores = seen.log_posteriors[:, 1:]
    number = phone if phone is not None else 1 + int(scores.max(0).argmax())
    frame = int(seen.log_posteriors[:, number].argmax())
    name, seconds = recogniser.phones[number - 1], len(samples) / recogniser.config.features.sample_rate
    weight = saliency(recogniser.checkpoint, samples, number, frame)
    at = recogniser.clock.seconds(frame)
    png = pictures.draw_saliency(seen.features[0], weight, name, at, seconds)
    best = float(np.exp(seen.log_posteriors[frame, number]))
    return Picture("saliency", png, "saliency", {"phone": name, "best": best})


def write_pictures(found: list[Picture], out: Path, title: str, model: str, overwrite: bool) -> list[Path]:
    """Write the pictures into a folder, and a page with all of them; return the files.

    Raises
    ------
    InputError
        A file was made or changed by hand.
    """
    paths = [out / f"{picture.name}.png" for picture in found]
    written.refuse_changed([*paths, out / PAGE], overwrite)
    shown = [(picture, data_url(picture.png, "image/png")) for picture in found]
    page = render_page("inside.html", title, {"pictures": shown, "model": model})
    for path, picture in zip(paths, found, strict=True):
        written.write_bytes(path, picture.png, overwrite)
    written.write_text(out / PAGE, page, overwrite)
    return [*paths, out / PAGE]


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


def layers_of(net: ConvCTCNet) -> dict[str, Layer]:
    """Return the hidden layers by name: conv1, conv2, ..., dense1, ..."""
    parts = {"conv": net.convs, "dense": net.dense}
    named = {f"{kind}{number}": layer for kind in parts for number, layer in enumerate(parts[kind], start=1)}
    return {name: layer for name, layer in named.items() if isinstance(layer, Layer)}


@torch.no_grad()
def look_inside(checkpoint: Checkpoint, samples: Array) -> Inside:
    """Compute everything that `Inside` has, of a recording at the model's rate.

    Raises
    ------
    InputError
        The recording is shorter than one frame.
    """
    net, features, frames = net_of(checkpoint).eval(), *net_input_of(checkpoint, samples)
    last = int(output_frames(int(frames), checkpoint.config.model))
    mask = frame_mask(torch.tensor([last], device=features.device), last)
    maps, units, wins, hooks = {}, {}, PieceWins(), []
    for name, layer in layers_of(net).items():

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
    logits, _ = net_of(checkpoint).eval()(features, frames)
    (gradient,) = torch.autograd.grad(logits[0].log_softmax(1)[frame, phone], features)
    return _array((gradient * features).abs().sum(1)[0])


def net_input_of(checkpoint: Checkpoint, samples: Array) -> tuple[Tensor, Tensor]:
    """Return a recording as the input of the net, (1, channels, bands, frames), and its number of frames."""
    config = checkpoint.config.features
    static = static_features(torch.from_numpy(samples), config)
    if not len(static):
        raise InputError("the recording is shorter than one frame", "give a longer one")
    frames = torch.tensor([len(static)], device=static.device)
    mean, std = torch.from_numpy(checkpoint.mean), torch.from_numpy(checkpoint.std)
    return net_input(static[None], frames, mean, std, config), frames


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
