"""Figures of matplotlib, drawn in memory without global state: curves of training, the inside of a net, vowels."""

from __future__ import annotations

import io
import warnings
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import InputError, plural, with_extra
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
    axes.set_title(title, fontsize=10, loc="left", parse_math=False)
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
MAX_SPEAKERS = 7  # that have a colour and a chart of their own
MAX_BARS = 60  # phones whose durations are shown, the most frequent
# Of vowels, the most frequent first: Okabe and Ito's, then Paul Tol's muted ones; more begin again.
VOWEL_COLOURS = (
    *COLOURS,
    *("#882255", "#117733", "#332288", "#999933", "#aa4499", "#44aa99", "#661100", "#6699cc", "#888888"),
)
LEAST_TOKENS = 5  # of a vowel, for an ellipse, and to tell outliers
FAR_OUT = 3.0  # interquartile ranges beyond the quartiles, from which a token is an outlier (Tukey, 1977)
RADIUS = float(np.sqrt(-2 * np.log(1 - 0.95)))  # in standard deviations, of 95 % of a normal distribution of two


class VowelPlace(NamedTuple):
    """Where the tokens of a vowel are, as (F2, F1).

    Attributes
    ----------
    tokens, outliers : ndarray, shape = (n, 2)
        Those that count, and those far from the others, in which a formant was probably missed.
    mean : ndarray, shape = (2,)
        Of `tokens`; not a number without any.
    axes : ndarray of shape = (2, 2), optional
        The semi-axes of the ellipse with 95 % of a normal distribution with their mean and covariance, one a row; None
        where they are fewer than `LEAST_TOKENS`.
    """

    tokens: Array
    outliers: Array
    mean: Array
    axes: Array | None

    def ellipse(self) -> Array:
        """Return points of the ellipse, (n, 2); none without one."""
        if self.axes is None:
            return np.zeros((0, 2))
        angle = np.linspace(0, 2 * np.pi, 101)
        return np.asarray(self.mean + np.stack([np.cos(angle), np.sin(angle)], 1) @ self.axes)


def bark(hertz: Array) -> Array:
    """Return frequencies in Bark, as H. Traunmueller, JASA 88, 1990, equation 6: 26.81 f / (1960 + f) - 0.53."""
    return np.asarray(26.81 * hertz / (1960.0 + hertz) - 0.53)


def vowel_places(rows: Iterable[Row], vowels: Collection[str], in_bark: bool = False) -> dict[str, VowelPlace]:
    """Return where vowels are at their middle, in Hz or Bark; tokens without F1 or F2 are left out."""
    places: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row["phone"] in vowels and row["f1_mid"] is not None and row["f2_mid"] is not None:
            places[row["phone"]].append((row["f2_mid"], row["f1_mid"]))
    scaled = {phone: bark(np.array(each)) if in_bark else np.array(each) for phone, each in places.items()}
    fence = _fence(np.concatenate([np.zeros((0, 2)), *scaled.values()]))
    return {phone: _place(tokens, fence) for phone, tokens in scaled.items()}


def _place(tokens: Array, fence: Array) -> VowelPlace:
    """Return the place of a vowel whose tokens lie in a fence, which is that of all vowels together."""
    low, high = np.maximum(fence[0], (own := _fence(tokens))[0]), np.minimum(fence[1], own[1])
    kept = ((tokens >= low) & (tokens <= high)).all(1)
    inside, axes = tokens[kept], None
    if len(inside) >= LEAST_TOKENS:
        variances, directions = np.linalg.eigh(np.cov(inside.T))
        axes = (RADIUS * np.sqrt(np.maximum(variances, 0)) * directions).T
    return VowelPlace(inside, tokens[~kept], inside.mean(0) if len(inside) else np.full(2, np.nan), axes)


def _fence(tokens: Array) -> Array:
    """Return the least and the largest F2 and F1 of tokens that are no outliers, shape = (2, 2)."""
    if len(tokens) < LEAST_TOKENS:
        return np.array([[-np.inf] * 2, [np.inf] * 2])
    low, high = np.percentile(tokens, (25, 75), axis=0)
    return np.stack([low - FAR_OUT * (high - low), high + FAR_OUT * (high - low)])


def draw_measures(rows: Sequence[Row], vowels: Collection[str], form: str, in_bark: bool = False) -> bytes:
    """Draw a vowel chart of each speaker and durations, by speaker.

    Parameters
    ----------
    rows : sequence of mapping
        With phone, speaker, duration, f1_mid and f2_mid.
    vowels : collection of str
        The labels of vowels.
    form : str
        ``"png"``, ``"svg"`` or ``"pdf"``.
    in_bark : bool
        The chart is in Bark, not in Hz.

    Raises
    ------
    InputError
        matplotlib is not installed.
    """
    return encode_figure(measures_figure(rows, vowels, in_bark), form, "vowels and durations of phones")


def measures_figure(rows: Sequence[Row], vowels: Collection[str], in_bark: bool = False) -> Figure:
    """Return the figure of `draw_measures`: charts, all with the same axes, and below them the durations."""
    speakers = list(dict.fromkeys(row["speaker"] for row in rows))
    groups = speakers if len(speakers) <= MAX_SPEAKERS else ["all speakers"]
    own = {group: [row for row in rows if group == "all speakers" or row["speaker"] == group] for group in groups}
    places = {group: vowel_places(own[group], vowels, in_bark) for group in groups}
    wide = min(len(groups), 2 if len(groups) < 5 else 3)
    high = -(-len(groups) // wide)
    figure = new_figure(9.0 if wide < 3 else 12.0, (6.0 if wide == 1 else 4.2) * high + 4.0)
    parts: Any = figure.subfigures(2, 1, height_ratios=((6.0 if wide == 1 else 4.2) * high, 4.0))
    upper, lower = parts
    charts = upper.subplots(high, wide, squeeze=False, sharex=True, sharey=True).flatten()
    counts = Counter(row["phone"] for row in rows if row["phone"] in vowels)
    colours = {phone: VOWEL_COLOURS[k % len(VOWEL_COLOURS)] for k, (phone, _) in enumerate(counts.most_common())}
    for group, chart in zip(groups, charts, strict=False):
        _chart(chart, places[group], colours)
        name = group or "speaker not known"
        outside = sum(len(each.outliers) for each in places[group].values())
        tidy(chart, f"{name}: {plural(outside, 'outlier')} not counted" if outside else name)
        chart.tick_params(labelbottom=True)
    for chart in charts[len(groups) :]:
        chart.set_axis_off()
    _set_axes(charts[0], [place for each in places.values() for place in each.values()])
    unit = "Bark" if in_bark else "Hz"
    upper.supxlabel(f"F2, {unit}", fontsize=9)
    upper.supylabel(f"F1, {unit}", fontsize=9)
    what = f"vowels at their middle: tokens, mean, and ellipse of 95 % ({LEAST_TOKENS} tokens or more)"
    upper.suptitle(what, fontsize=10, x=0.01, ha="left")
    _durations(lower.subplots(), rows, groups, dict(zip(groups, COLOURS, strict=False)))
    return figure


def _chart(axes: Any, places: Mapping[str, VowelPlace], colours: Mapping[str, str]) -> None:
    """Draw the vowels of a speaker."""
    for phone, place in places.items():
        colour = colours[phone]
        axes.scatter(*place.tokens.T, s=6, alpha=0.35, color=colour, linewidths=0)
        axes.scatter(*place.outliers.T, s=14, alpha=0.6, color=colour, marker="x", linewidths=0.8)
        axes.plot(*place.ellipse().T, color=colour, linewidth=1.2)
    for phone, place in ((phone, place) for phone, place in places.items() if len(place.tokens)):  # over all tokens
        look = {"color": colours[phone], "ha": "center", "va": "center", "fontsize": 12, "fontweight": "bold"}
        axes.text(*place.mean, phone, parse_math=False, clip_on=True, **look)  # a pair of $ is no formula


def _set_axes(axes: Any, places: Sequence[VowelPlace]) -> None:
    """Let the axes run as on the chart of the IPA, around all tokens and ellipses but outliers."""
    shown = np.concatenate([np.zeros((0, 2)), *(part for each in places for part in (each.tokens, each.ellipse()))])
    if len(shown):
        low, high = shown.min(0), shown.max(0)
        margin = np.maximum(0.05 * (high - low), 0.02 * high)
        (left, lower), (right, upper) = (low - margin).tolist(), (high + margin).tolist()
        axes.set(xlim=(left, right), ylim=(lower, upper))
    axes.invert_xaxis()
    axes.invert_yaxis()


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
            name = group or "speaker not known"
            axes.errorbar(x, middle, reach, fmt="o", ms=3, lw=1, color=colour[group], label=name)
    if len(groups) > 1 and axes.has_data():
        for text in axes.legend(fontsize=8, frameon=False).get_texts():
            text.set_parse_math(False)
    axes.set_xticks(range(len(phones)), phones, fontsize=8, parse_math=False)
    tidy(axes, "duration: median and quartiles", "", "ms")
