"""Figures of the inside of a net."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speechctc.pages.figures import COLOURS, encode_figure, new_figure, tidy

Array = NDArray[Any]

MAX_MAPS = 16
MAX_UNITS = 12
MAX_FILTERS = 48
NAMED = 0.3  # posterior from which a phone gets its own line


def draw_filters(filters: Array) -> bytes:
    """Draw filters of shape (n, channels, bands, frames), a row for each channel."""
    shown = filters[:MAX_FILTERS]
    gaps = np.full((*shown.shape[:3], 1), np.nan, np.float32)  # between neighbours: a picture for each would take long
    rows = np.concatenate([shown, gaps], axis=3).transpose(1, 2, 0, 3).reshape(*shown.shape[1:3], -1)[:, :, :-1]
    figure = new_figure(min(0.42 * len(shown) + 1, 14), 0.7 * len(rows) + 0.8)
    most = float(np.abs(shown).max()) or 1.0
    for channel, axes in enumerate(figure.subplots(len(rows), 1, squeeze=False).flat):
        axes.imshow(rows[channel], cmap="RdBu_r", vmin=-most, vmax=most, origin="lower", aspect="auto")
        axes.set(xticks=[], yticks=[], facecolor="dimgrey")
        axes.set_ylabel(("static", "first\nderivative", "second\nderivative")[min(channel, 2)], fontsize=8)
    return encode_figure(figure, about="filters of the first layer")


def draw_wins(wins: Mapping[str, Array]) -> bytes:
    """Draw, for each layer, the share of each piece's wins in each unit; (pieces, units) counts by layer."""
    figure = new_figure(9, 0.55 * len(wins) + 1.2)
    rows = np.atleast_1d(figure.subplots(len(wins), 1, sharex=False, squeeze=False)[:, 0])
    for each, (name, counts) in zip(rows, wins.items(), strict=True):
        share = counts / np.maximum(counts.sum(0), 1)
        order, bottom = np.argsort(share[0]), np.zeros(share.shape[1])
        for piece, values in enumerate(share):
            colour = COLOURS[piece % len(COLOURS)]
            edges, top = np.arange(len(order) + 1) - 0.5, bottom + values
            each.stairs(top[order], edges, baseline=bottom[order], fill=True, color=colour)  # bars take long
            bottom = top
        each.set(xlim=(-0.5, len(order) - 0.5), ylim=(0, 1))
        each.set_xticks([])
        each.set_yticks([0, 1])
        each.set_ylabel(name, fontsize=8, rotation=0, ha="right", va="center")
    rows[-1].set_xlabel("units, by how often their first piece wins", fontsize=9)
    return encode_figure(figure, about="share of frames in which each piece of each maxout unit is the largest")


def draw_functions(units: Sequence[Any], name: str) -> bytes:
    """Draw units of `speechctc.stages.inspect` as functions, with the inputs that occurred as a grey histogram."""
    shapes = ("rectifier", "leaky rectifier", "valley")
    by_shape = [[unit for unit in units if unit.shape == shape] for shape in shapes]
    chosen = [unit for part in by_shape for unit in part[: MAX_UNITS // 3]]
    chosen = (chosen + [unit for unit in units if unit not in chosen])[:MAX_UNITS]
    figure = new_figure(10, 2.2 * -(-len(chosen) // 4))
    grid = np.linspace(-3, 3, 121)
    for each, unit in zip(figure.subplots(-(-len(chosen) // 4), 4, squeeze=False).flat, chosen, strict=False):
        lines = [mean + slope * grid for slope, mean in zip(unit.slopes, unit.means, strict=True)]
        for line, colour in zip(lines, COLOURS, strict=False):
            each.plot(grid, line, "--", linewidth=0.9, color=colour)
        each.plot(grid, np.maximum(*lines), linewidth=2, color="black")
        histogram = each.twinx()
        histogram.hist(np.clip(unit.inputs, -3, 3), 40, histtype="stepfilled", color="lightgrey", zorder=0)
        histogram.set_yticks([])
        histogram.spines[:].set_visible(False)
        each.set_zorder(1)
        each.patch.set_visible(False)
        tidy(each, f"{name}, unit {unit.number + 1}: {unit.shape}")
        each.title.set_fontsize(8)
    return encode_figure(figure, about=f"functions of maxout units of {name}")


def draw_maps(maps: Array, name: str, seconds: float) -> bytes:
    """Draw feature maps, (maps, bands, frames); those of a layer without bands as one picture."""
    if maps.shape[1] == 1:
        figure = new_figure(9, 4)
        axes = figure.subplots()
        axes.imshow(maps[:, 0], aspect="auto", origin="lower", extent=(0, seconds, 0, len(maps)), cmap="magma")
        tidy(axes, f"{name}: output of its {len(maps)} units", "s", "unit")
        return encode_figure(figure, about=f"outputs of {name}")
    shown = maps[:MAX_MAPS]
    figure = new_figure(10, 1.4 * -(-len(shown) // 4) + 0.4)
    for number, each in enumerate(figure.subplots(-(-len(shown) // 4), 4, squeeze=False).flat):
        each.axis("off")
        if number < len(shown):
            each.imshow(shown[number], aspect="auto", origin="lower", cmap="magma")
            each.set_title(f"map {number + 1}", fontsize=7, loc="left", pad=2)
    return encode_figure(figure, about=f"feature maps of {name}")


def draw_posteriors(levels: Array, posteriors: Array, phones: Sequence[str], seconds: float, highest: float) -> bytes:
    """Draw a spectrogram, (rows, columns) in dB from the top, and the posteriors below it, (frames, 1 + phones)."""
    figure = new_figure(12, 5)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.2))
    finite = np.where(np.isfinite(levels), levels, levels[np.isfinite(levels)].min(initial=0.0))
    upper.imshow(finite, cmap="Greys", vmin=finite.max() - 50, aspect="auto", extent=(0, seconds, 0, highest / 1000))
    tidy(upper, "spectrogram", "", "kHz")
    times = (np.arange(len(posteriors)) + 0.5) * seconds / max(len(posteriors), 1)
    lower.fill_between(times, posteriors[:, 0], color="lightgrey", label="blank")
    for number, k in enumerate(np.flatnonzero((posteriors > NAMED).any(0) & (np.arange(posteriors.shape[1]) > 0))):
        colour, values = COLOURS[number % (len(COLOURS) - 1)], posteriors[:, k]
        lower.plot(times, values, color=colour, linewidth=1)
        peaks = (values > NAMED) & (values >= np.roll(values, 1)) & (values > np.roll(values, -1))
        for at in np.flatnonzero(peaks):
            lower.text(times[at], values[at] + 0.02, phones[k - 1], ha="center", fontsize=8, color=colour)
    lower.set_ylim(0, 1.12)
    tidy(lower, "posteriors of the phones; grey: the blank", "s", "probability")
    return encode_figure(figure, about="posteriors of phones over time, under the spectrogram")


def draw_saliency(features: Array, weight: Array, phone: str, at: float, seconds: float) -> bytes:
    """Draw the static features, (bands, frames), and what matters in them for a phone at a moment."""
    figure = new_figure(10, 4.6)
    for each, values, title, colours in zip(
        figure.subplots(2, 1, sharex=True),
        (features, weight),
        ("input: static features, normalised", f"what matters for [{phone}] at {at:.2f} s"),
        ("Greys", "inferno"),
        strict=True,
    ):
        each.imshow(values, cmap=colours, origin="lower", aspect="auto", extent=(0, seconds, 0, len(values)))
        each.axvline(at, color=COLOURS[0], linewidth=1)
        tidy(each, title, "", "band")
    each.set_xlabel("s", fontsize=9)
    return encode_figure(figure, about=f"saliency of the phone {phone}")
