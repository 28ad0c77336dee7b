"""Compare the scores of phones with a person's ratings."""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from speechctc.audio.recordings import Recording, ids
from speechctc.core.errors import InputError, some
from speechctc.core.progress import Reporter
from speechctc.core.text_files import read_text
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition

COLUMNS = ("id", "ratings")
FEWEST = 3  # phones or utterances that a correlation needs


def say_if_untaught(recogniser: Recogniser, reporter: Reporter) -> None:
    """Note that scores are probabilities, if the model does not know right speech."""
    if recogniser.goodness.quantiles is None:
        reporter.note(
            "the model does not know yet how right speech scores: scores are the probabilities that phones were said as"
            " written; see speechctc calibrate --help"
        )


class Ratings:
    """Ratings of phones, and the scores of the same phones as they come.

    Parameters
    ----------
    file : Path
        The table, for errors.
    given : dict of Recording to tuple of float
        A rating for each phone.
    """

    def __init__(self, file: Path, given: dict[Recording, tuple[float, ...]]) -> None:
        self.file, self._given = file, given
        self._pairs: list[list[tuple[float, float]]] = []
        self._odd: list[str] = []

    @classmethod
    def read(cls, file: Path, recordings: Sequence[Recording]) -> Ratings:
        """Read the ratings of recordings from a table with the columns id and ratings.

        Raises
        ------
        InputError
            The table cannot be read, rates none of the recordings, or has an id that several have.
        """
        rows = _rows(file)
        own = ids(recordings)
        given, users = {}, defaultdict[str, list[str]](list)
        for recording, id in zip(recordings, own, strict=True):
            others = [each for each in (str(recording.name), recording.path.stem) if each not in own]
            key = next((each for each in (id, *others) if each in rows), None)
            if key is not None:
                given[recording] = rows[key]
                users[key].append(id)
        if shared := next((key for key, each in users.items() if len(each) > 1), None):
            what = f"{file}: the id {shared} fits {len(users[shared])} recordings"
            raise InputError(what, f"write which is meant: {some(users[shared], 3)}")
        if not given:
            what = f"{file}: ratings of other utterances ({some(list(rows), 3)}), of none of the recordings"
            raise InputError(
                what, "its ids must be the names of the recordings without their endings, or the table's ids"
            )
        return cls(file, given)

    def see(self, recording: Recording, result: Recognition) -> None:
        """Take the scores of a recording, whose channel may be another command's default."""
        ratings = self._given.get(recording, self._given.get(recording._replace(channel=None)))
        scores = [segment.goodness.score for segment in result.segments if segment.goodness]
        if ratings is not None and len(ratings) == len(scores):
            self._pairs.append(list(zip(scores, ratings, strict=True)))
        elif ratings is not None:
            self._odd.append(f"{result.file} has {len(scores)} phones, and {len(ratings)} ratings")

    def to_text(self) -> str:
        """Return the correlations (Pearson's), of phones and of the means of utterances.

        Raises
        ------
        InputError
            A recording has not as many phones as ratings.
        """
        if self._odd:
            what = f"{self.file}: ratings of other utterances: {some(self._odd, 2)}"
            raise InputError(what, "rate each phone of the transcript once")
        phones = [pair for pairs in self._pairs for pair in pairs]
        means = [tuple(map(fmean, zip(*pairs, strict=True))) for pairs in self._pairs if pairs]
        return "\n".join(
            f"correlation with the ratings of {len(pairs)} {what}: {_pearson(pairs)}"
            for what, pairs in (("phones", phones), ("utterances", means))
        )


def _rows(file: Path) -> dict[str, tuple[float, ...]]:
    """Return the ratings by id."""
    text = read_text(file).text
    head = text.partition("\n")[0]
    reader = csv.DictReader(io.StringIO(text), delimiter="\t" if "\t" in head else ",")
    if missing := [each for each in COLUMNS if each not in (reader.fieldnames or ())]:
        raise InputError(f"{file}: no column {missing[0]}", f"its first line names the columns: {' '.join(COLUMNS)}")
    rows = {}
    for row in reader:
        try:
            values = tuple(float(each) for each in (row["ratings"] or "").split())
        except ValueError:
            values = (math.nan,)
        if not values or not all(map(math.isfinite, values)):
            raise InputError(f"{file}, line {reader.line_num}: not numbers: {row['ratings']!r:.60}", "correct the line")
        if row["id"] in rows:
            raise InputError(f"{file}, line {reader.line_num}: the id {row['id']} is there twice", "leave one of them")
        rows[row["id"]] = values
    return rows


def _pearson(pairs: Sequence[tuple[float, ...]]) -> str:
    """Return a correlation in words."""
    if len(pairs) < FEWEST:
        return f"too few, {FEWEST} are needed"
    scores, ratings = np.array(pairs).T
    if not scores.std() or not ratings.std():
        return "none, for all are equal"
    return f"{np.corrcoef(scores, ratings)[0, 1]:.3f}"
