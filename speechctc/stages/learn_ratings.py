"""Learn raters' scores of phones, from the files of `score-phones` and a table of ratings."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.corpora.table_rows import read_cells
from speechctc.inference.ratings import FOLDS, Ratings, cross_validated, features
from speechctc.inference.segmenter import PhoneScore
from speechctc.model.checkpoint import find_checkpoint, read_inventory
from speechctc.stages.used_model import own_folder, write_learned

COLUMNS = ("file", "phone", "rating")
DRAWS = 2000  # of speakers


class _Rated(NamedTuple):
    speaker: str
    phone: str
    score: PhoneScore
    rating: float


def learn_ratings(model: Path | None, table: Path, reporter: Reporter) -> str:
    """Learn from a table of ratings, and write what was learned into the model's folder, or the user's own copy.

    Parameters
    ----------
    model : Path or None
        A checkpoint or a run's folder (its best); None: the latest run.
    table : Path
        With tabs or commas, and the columns `COLUMNS`: the JSON of a recording, the number of the phone in it, from 1,
        and the rating, a number.
    reporter : Reporter

    Returns
    -------
    str
        How well ratings of other speakers are predicted, in words.

    Raises
    ------
    InputError
        There is no such model, the table or a file that it names cannot be read or are of other phones, or the
        speakers are too few.
    """
    folder = find_checkpoint(model)
    own, phones = own_folder(folder), read_inventory(folder).phones
    rated = _read(table)
    if strange := {name for each in rated for name, _ in each.score.log_odds} - {"-", *phones}:
        what = f"{table}: its scores are of other phones than the model's: {sorted(strange)[0]}"
        raise InputError(what, "score with this model, and without --symbols")
    speakers, said, scores, given = zip(*rated, strict=True)
    if len(set(speakers)) < FOLDS:
        what = f"{table}: ratings of {len(set(speakers))} speakers, {FOLDS} are needed"
        raise InputError(
            what, "the JSON of score-phones names the speaker: score folders or tables of several speakers"
        )
    values, ratings = features(phones, scores), np.array(given)
    penalty, unseen = cross_validated(phones, speakers, said, values, ratings)
    learned = Ratings.learn(phones, said, values, ratings, penalty)
    write_learned(folder, own, learned.save, reporter)
    alone = np.array([each.score for each in scores])
    told = f"{len(rated)} phones of {len(set(speakers))} speakers, each rated by what others taught"
    told = f"{told}; Pearson's correlation with the raters, by phone, 95 % interval over speakers"
    return f"{told}:\n  learned {_text(speakers, unseen, ratings)}\n  score alone {_text(speakers, alone, ratings)}"


def _read(table: Path) -> list[_Rated]:
    """Return the rated phones; those without a score are left out."""
    lines = read_cells(table, COLUMNS).text.splitlines()
    rows = list(csv.DictReader(lines, delimiter="\t" if lines and "\t" in lines[0] else ","))
    if not rows or not {*COLUMNS} <= {*rows[0]}:
        raise InputError(f"{table}: lacks a column of {', '.join(COLUMNS)}, or has no rows", "see calibrate --help")
    known, found = dict[Path, Any](), list[_Rated]()
    for line, row in enumerate(rows, start=2):
        try:
            path, rating = table.parent / row["file"], float(row["rating"])
            if path not in known:
                known[path] = json.loads(path.read_text(encoding="utf-8"))
            number = int(row["phone"])
            if number < 1 or not math.isfinite(rating):
                raise ValueError
            segment = known[path]["segments"][number - 1]
            if "score" in segment:
                score = PhoneScore(segment["score"], segment["probability"], (), tuple(segment["log_odds"].items()))
                found.append(_Rated(known[path]["speaker"] or str(path), segment["phone"], score, rating))
        except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError):
            what = f"{table}, line {line}: not a phone of a file of score-phones --format json, and a number"
            raise InputError(what, "score again with this version, and count all phones of a file from 1") from None
    return found


def _text(speakers: tuple[str, ...], found: NDArray[np.float64], ratings: NDArray[np.float64]) -> str:
    """Return Pearson's correlation and its interval, in words."""
    groups = [np.flatnonzero(np.array(speakers) == each) for each in sorted(set(speakers))]
    rng = np.random.default_rng(0)
    draws = [np.concatenate([groups[k] for k in rng.integers(len(groups), size=len(groups))]) for _ in range(DRAWS)]
    with np.errstate(invalid="ignore", divide="ignore"):
        values = [np.corrcoef(found[each], ratings[each])[0, 1] for each in (np.arange(len(ratings)), *draws)]
    low, high = np.nanpercentile(values[1:], (2.5, 97.5))
    return f"{values[0]:.2f} ({low:.2f} to {high:.2f})"
