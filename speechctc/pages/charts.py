"""What the charts of a page show: bars, a matrix of counts, a reliability diagram; templates draw them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SHADES = 45  # per cent of the colour in the darkest cell: text on it can be read
BINS = 10


@dataclass(frozen=True)
class Bar:
    """A row of a table of rates.

    Attributes
    ----------
    name : str
    rate : float
        Per cent.
    interval : str
        Its 95 % interval in words, or ``""``.
    utterances, phones, errors : int
    """

    name: str
    rate: float
    interval: str
    utterances: int
    phones: int
    errors: int


@dataclass(frozen=True)
class MatrixCell:
    """A cell: its count, its share of the row in per cent, and the per cent of colour in it."""

    count: int
    share: float
    shade: int


@dataclass(frozen=True)
class Matrix:
    """Counts of pairs: rows are of the reference, columns of what was recognised.

    Attributes
    ----------
    rows, columns : tuple of str
    cells : tuple of tuple of MatrixCell
        By row.
    totals : tuple of int
        The sum of each row.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[MatrixCell, ...], ...]
    totals: tuple[int, ...]


def matrix(counts: Counter[tuple[str, str]], rows: Sequence[str], columns: Sequence[str]) -> Matrix:
    """Return the matrix of counts in this order of rows and columns; cells are shaded by their share of the row."""
    totals = tuple(sum(counts[row, column] for column in columns) for row in rows)
    cells = tuple(
        tuple(_cell(counts[row, column], total) for column in columns) for row, total in zip(rows, totals, strict=True)
    )
    return Matrix(tuple(rows), tuple(columns), cells, totals)


def _cell(count: int, total: int) -> MatrixCell:
    share = count / total if total else 0.0
    return MatrixCell(count, 100 * share, round(SHADES * share**0.5))  # the root: rare confusions are seen too


@dataclass(frozen=True)
class ReliabilityBin:
    """The phones whose confidence is in a range.

    Attributes
    ----------
    low, high : float
        The range, 0 to 1.
    count : int
    confidence : float
        Mean confidence.
    right : float
        Share of the phones that are right.
    """

    low: float
    high: float
    count: int
    confidence: float
    right: float


def reliability_bins(confidences: NDArray[np.float64], right: NDArray[np.float64]) -> list[ReliabilityBin]:
    """Return ten bins of equal width; bins without phones have a count of 0.

    Parameters
    ----------
    confidences, right : ndarray, shape = (n_phones,)
        The confidence of each phone, and 1 if it is right, else 0.
    """
    numbers = np.minimum((confidences * BINS).astype(int), BINS - 1)
    bins = []
    for k in range(BINS):
        inside = numbers == k
        count = int(inside.sum())
        mean, share = (float(each[inside].mean()) if count else 0.0 for each in (confidences, right))
        bins.append(ReliabilityBin(k / BINS, (k + 1) / BINS, count, mean, share))
    return bins
