"""Figures of measured phones: vowels by their formants, and durations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import plural
from speechctc.pages.figures import COLOURS, encode_figure, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[Any]

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
