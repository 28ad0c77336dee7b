"""Figures of matplotlib, drawn in memory without global state, and the curves of training."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

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
