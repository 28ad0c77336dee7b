"""Figures of matplotlib, drawn in memory: no window, no global state. matplotlib is loaded when first needed."""

from __future__ import annotations

import io
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from speechctc.core.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INSTALL = "pip install 'speechctc[report]'"
FORMATS = {".png": "png", ".svg": "svg", ".pdf": "pdf"}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's colours, which colour-blind readers can tell apart."""
DPI = 120


def is_available() -> bool:
    """Return whether matplotlib is installed; it is not loaded."""
    return find_spec("matplotlib") is not None


def require_matplotlib() -> None:
    """Raise an `InputError` if matplotlib is not installed."""
    if not is_available():
        raise InputError("pictures are drawn by matplotlib, which is not installed", INSTALL)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches.

    Raises
    ------
    InputError
        matplotlib is not installed.
    """
    require_matplotlib()
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


def encoded(figure: Figure, form: str = "png", about: str = "") -> bytes:
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
