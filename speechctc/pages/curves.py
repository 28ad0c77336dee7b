"""Curves of training runs: losses, PER, blank share, entropy, gradient norm and learning rate by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from speechctc.pages.figures import COLOURS, encoded, new_figure, tidy

Records: TypeAlias = Sequence[Mapping[str, Any]]
"""The lines of a ``metrics.jsonl``."""

PANELS: tuple[tuple[str, str, tuple[str, ...], float, bool], ...] = (
    ("loss per phone (solid: train, dashed: dev)", "", ("loss", "dev_loss"), 1, True),
    ("phone error rate of dev", "%", ("dev_per",), 1, False),
    ("frames of dev that are blank", "%", ("blank_share",), 100, False),
    ("entropy of the output on dev", "nats", ("entropy",), 1, False),
    ("mean norm of the gradient", "", ("gradient_norm",), 1, True),
    ("learning rate", "", ("lr",), 1, True),
)
"""Title, unit, keys, factor, and whether the axis is logarithmic."""
STYLES = ("-", "--")
LARGEST = 1e100  # of what is drawn; matplotlib's logarithmic axes overflow near the largest floats


def draw_curves(runs: Mapping[str, Records], form: str = "png") -> bytes:
    """Draw runs over one another.

    Parameters
    ----------
    runs : mapping of str to sequence of mapping
        The records of each run, by the name to show. A value that a record lacks, of an earlier version, is left out.
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
    return encoded(figure, form, f"curves of {', '.join(runs)}")


def _line(axes: Any, records: Records, key: str, factor: float, style: str, colour: str) -> None:
    there = [(each["epoch"], factor * each[key]) for each in records if _is_shown(each.get(key))]
    if there:
        marker = "o" if len(there) == 1 else ""
        axes.plot(*zip(*there, strict=True), style, marker=marker, color=colour, linewidth=1.3, gid="value")


def _is_shown(value: Any) -> bool:
    """Return whether a value can be drawn: those of a run that diverged may be too large for an axis."""
    return isinstance(value, int | float) and abs(value) < LARGEST


def _mark_best(axes: Any, records: Records, colour: str) -> None:
    best = min(records, key=lambda each: float(each["dev_per"]))
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
