"""Figures of matplotlib, drawn in memory without global state: curves of training, the inside of a net, vowels."""

from __future__ import annotations

import io
import warnings
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import InputError, with_extra
from speechctc.ctc.cache import without

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = {".png": "png", ".svg": "svg", ".pdf": "pdf"}
# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
DPI = 120

Records: TypeAlias = Sequence[Mapping[str, Any]]  # the lines of a `metrics.jsonl`

# Title, unit, keys, factor, and whether the axis is logarithmic.
PANELS: tuple[tuple[str, str, tuple[str, ...], float, bool], ...] = (
    ("loss per phone (solid: train, dashed: dev)", "", ("loss", "dev_loss"), 1, True),
    ("phone error rate of dev", "%", ("dev_per",), 1, False),
    ("frames of dev that are blank", "%", ("blank_share",), 100, False),
    ("entropy of the output on dev", "nats", ("entropy",), 1, False),
    ("mean norm of the gradient", "", ("gradient_norm",), 1, True),
    ("learning rate", "", ("lr",), 1, True),
)
STYLES = ("-", "--")
MAX_DRAWN = 1e100  # of what is drawn; matplotlib's logarithmic axes overflow near the largest floats

Array = NDArray[Any]
MAX_MAPS = 16
MAX_UNITS = 12
MAX_FILTERS = 48
NAMED = 0.3  # posterior from which a phone gets its own line


def is_available() -> bool:
    """Return whether matplotlib is installed; it is not loaded."""
    return find_spec("matplotlib") is not None


def require_matplotlib() -> None:
    """Raise an `InputError` if matplotlib is not installed."""
    if not is_available():
        raise InputError("pictures are drawn by matplotlib, which is not installed", with_extra("report"))


def image_format(path: Path) -> str:
    """Return the format of a picture by its ending.

    Raises
    ------
    InputError
        It is another ending than .png, .svg or .pdf, or matplotlib is not installed.
    """
    form = FORMATS.get(path.suffix.lower())
    if form is None:
        raise InputError(f"{path}: not the ending of a picture", f"use one of {', '.join(FORMATS)}")
    require_matplotlib()
    return form


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches; who draws has checked that matplotlib is installed."""
    with without("matplotlibrc"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def tidy(axes: Any, title: str = "", xlabel: str = "", ylabel: str = "") -> None:
    """Label axes and remove the lines that say nothing."""
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(xlabel, fontsize=9)
    axes.set_ylabel(ylabel, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def encode_figure(figure: Figure, form: str = "png", about: str = "") -> bytes:
    """Return a figure as a file.

    Parameters
    ----------
    figure : Figure
    form : {"png", "svg", "pdf"}
    about : str
        What it shows, for the file's title.
    """
    metadata: dict[str, Any] = {"Title": about} if about else {}
    metadata |= {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[form]
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a box in place of a rare sign
        figure.savefig(out, format=form, dpi=DPI, metadata=metadata)
    return out.getvalue()


def draw_curves(runs: Mapping[str, Records], form: str = "png") -> bytes:
    """Draw runs over one another.

    Parameters
    ----------
    runs : mapping of str to sequence of mapping
        The records of each run, by the name to show. A value that a record lacks is left out.
    form : {"png", "svg", "pdf"}

    Returns
    -------
    bytes
        The picture. A circle marks the lowest PER; of a single run, lines mark the epochs in which the sentinel gave an
        alarm.
    """
    figure = new_figure(11, 6.2)
    for axes, (title, unit, keys, factor, is_log) in zip(figure.subplots(2, 3).flat, PANELS, strict=True):
        for number, records in enumerate(runs.values()):
            colour = COLOURS[number % len(COLOURS)]
            for key, style in zip(keys, STYLES, strict=False):
                _line(axes, records, key, factor, style, colour)
            if keys == ("dev_per",):
                _mark_best(axes, records, colour)
            if len(runs) == 1:
                _mark_alarms(axes, records, keys == ("blank_share",))
        if is_log and all(line.get_ydata().min() > 0 for line in axes.get_lines() if line.get_gid() == "value"):
            axes.set_yscale("log")
        tidy(axes, title, "epoch", unit)
        axes.xaxis.get_major_locator().set_params(integer=True)
    figure.suptitle(next(iter(runs))) if len(runs) == 1 else _legend(figure, list(runs))
    return encode_figure(figure, form, f"curves of {', '.join(runs)}")


def _line(axes: Any, records: Records, key: str, factor: float, style: str, colour: str) -> None:
    there = [(each["epoch"], factor * each[key]) for each in records if _is_shown(each.get(key))]
    if there:
        marker = "o" if len(there) == 1 else ""
        axes.plot(*zip(*there, strict=True), style, marker=marker, color=colour, linewidth=1.3, gid="value")


def _is_shown(value: Any) -> bool:
    """Return whether a value can be drawn: those of a run that diverged may be too large for an axis."""
    return isinstance(value, int | float) and abs(value) < MAX_DRAWN


def _mark_best(axes: Any, records: Records, colour: str) -> None:
    best = min(records, key=lambda each: (float(each["dev_per"]), float(each["dev_loss"])))
    if not _is_shown(best["dev_per"]):
        return
    axes.plot([best["epoch"]], [best["dev_per"]], "o", markersize=5, color=colour)
    axes.annotate(
        f"{best['dev_per']:.1f}", (best["epoch"], best["dev_per"]), (3, 5), textcoords="offset points", fontsize=8
    )


def _mark_alarms(axes: Any, records: Records, named: bool) -> None:
    for each in records:
        if each.get("alarms"):
            axes.axvline(each["epoch"], color="grey", linestyle=":", linewidth=1)
            if named:
                at = axes.get_xaxis_transform()
                axes.text(each["epoch"], 0.02, f" {each['alarms']}", rotation=90, fontsize=7, transform=at)


def _legend(figure: Any, names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=COLOURS[number % len(COLOURS)]) for number in range(len(names))]
    figure.legend(lines, names, loc="outside upper left", ncols=min(len(names), 4), fontsize=9, frameon=False)


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


Row = Mapping[str, Any]
MAX_SPEAKERS = 7  # that have a colour of their own
MAX_BARS = 60  # phones whose durations are shown, the most frequent


def draw_measures(rows: Sequence[Row], vowels: Collection[str], form: str) -> bytes:
    """Draw a vowel chart and durations, by speaker.

    Parameters
    ----------
    rows : sequence of mapping
        With phone, speaker, duration, f1_mid and f2_mid.
    vowels : collection of str
        The labels of vowels.
    form : str
        ``"png"``, ``"svg"`` or ``"pdf"``.

    Raises
    ------
    InputError
        matplotlib is not installed.
    """
    speakers = list(dict.fromkeys(row["speaker"] for row in rows))
    groups = speakers if len(speakers) <= MAX_SPEAKERS else ["all speakers"]
    colour = dict(zip(groups, COLOURS, strict=False))
    figure = new_figure(9.0, 10.0)
    chart, bars = figure.subplots(2, 1, height_ratios=(3, 2))
    for group in groups:
        own = [row for row in rows if group == "all speakers" or row["speaker"] == group]
        _chart(chart, [row for row in own if row["phone"] in vowels], group, colour[group])
    chart.invert_xaxis()
    chart.invert_yaxis()
    tidy(chart, "vowels at their middle: points, and the median of each", "F2, Hz", "F1, Hz")
    if len(groups) > 1 and chart.has_data():
        for text in chart.legend(fontsize=8, frameon=False).get_texts():
            text.set_parse_math(False)
    _durations(bars, rows, groups, colour)
    return encode_figure(figure, form, "vowels and durations of phones")


def _chart(axes: Any, rows: Sequence[Row], name: str, colour: str) -> None:
    """Draw the vowels of a speaker."""
    places: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row["f1_mid"] is not None and row["f2_mid"] is not None:
            places[row["phone"]].append((row["f2_mid"], row["f1_mid"]))
    if not places:
        return
    every = np.array([place for each in places.values() for place in each])
    axes.scatter(*every.T, s=6, alpha=0.3, color=colour, linewidths=0, label=name or "speaker not known")
    for phone, each in places.items():
        x, y = np.median(each, axis=0)
        look = {"color": colour, "ha": "center", "va": "center", "fontsize": 12, "fontweight": "bold"}
        axes.text(x, y, phone, parse_math=False, **look)  # a pair of $ is no formula


def _durations(axes: Any, rows: Sequence[Row], groups: Sequence[str], colour: Mapping[str, str]) -> None:
    """Draw the median duration of each phone and its quartiles, by speaker."""
    of: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        of[row["phone"]][row["speaker"] if len(groups) > 1 else groups[0]].append(1000 * row["duration"])
    phones = sorted(of, key=lambda phone: -sum(map(len, of[phone].values())))[:MAX_BARS]
    phones.sort(key=lambda phone: float(np.median([value for each in of[phone].values() for value in each])))
    for number, group in enumerate(groups):
        shift = (number - (len(groups) - 1) / 2) * 0.8 / max(len(groups), 1)
        there = [
            (k + shift, np.percentile(of[phone][group], (25, 50, 75)))
            for k, phone in enumerate(phones)
            if of[phone][group]
        ]
        if there:
            x, (low, middle, high) = [place for place, _ in there], np.array([each for _, each in there]).T
            reach = [(middle - low).tolist(), (high - middle).tolist()]
            axes.errorbar(x, middle, reach, fmt="o", ms=3, lw=1, color=colour[group])
    axes.set_xticks(range(len(phones)), phones, fontsize=8, parse_math=False)
    tidy(axes, "duration: median and quartiles", "", "ms")
