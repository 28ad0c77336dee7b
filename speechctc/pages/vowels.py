"""Pictures of measured phones: a vowel chart, and durations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from speechctc.pages.figures import COLOURS, encoded, new_figure, tidy

Row = Mapping[str, Any]
MOST_SPEAKERS = 7  # that have a colour of their own
MOST_BARS = 60  # phones whose durations are shown, the most frequent


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
    groups = speakers if len(speakers) <= MOST_SPEAKERS else ["all speakers"]
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
    return encoded(figure, form, "vowels and durations of phones")


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
    phones = sorted(of, key=lambda phone: -sum(map(len, of[phone].values())))[:MOST_BARS]
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
