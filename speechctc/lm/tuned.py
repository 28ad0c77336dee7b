"""Settings of a model for its language models: tuned to the fewest errors, and saved in the model's folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.config.schema import Config
from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.decoding.search import Rows, best_labels, collapse
from speechctc.lm.model import LanguageModel, Sequences
from speechctc.lm.rescore import Ranker, choose_search
from speechctc.ngram.automaton import PhoneLM
from speechctc.ngram.ngram import Reals

FILE = "tuned.json"
CHECK = "digest"  # digest of the rest of the file, which reveals changes made by hand
KEYS = ("lm_weight", "lm_bonus", "lm_share", "beam")

Counts = NDArray[np.int64]

WEIGHTS, BONUSES = (0.2, 0.5, 0.8, 1.1, 1.4), (0.0, 1.0, 2.0, 3.0)
SHARES = (0.25, 0.5, 0.75)
FINE = (-0.15, -0.075, 0.0, 0.075, 0.15)  # around the best weight; four times as far for bonuses
RESAMPLES = 2000


def identity(ngram: PhoneLM | None, lstm: LanguageModel | None) -> str:
    """Return a digest of the tables and weights of language models, which does not depend on file names."""
    digest = hashlib.sha256()
    if ngram is not None:
        digest.update(b"n-gram" + ngram.log_probs.tobytes() + ngram.next_state.tobytes())
    if (net := getattr(lstm, "net", None)) is not None:
        digest.update(b"lstm")
        for name, value in sorted(net.state_dict().items()):
            digest.update(name.encode() + value.cpu().numpy().tobytes())
    return digest.hexdigest()


def read_tuned(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a file of tuned weights, none if there is no file.

    Raises
    ------
    InputError
        It cannot be read.
    """
    if not path.exists():
        return []
    try:
        entries = files.read_json(path)["entries"]
        if not all(isinstance(entry["lms"], str) and all(key in entry for key in KEYS) for entry in entries):
            raise ValueError("an entry without its keys")
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: not a file of tuned weights ({reason})", "mend it or move it away") from None
    return list(entries)


def find_tuned(folder: Path, ngram: PhoneLM | None, lstm: LanguageModel | None) -> dict[str, Any] | None:
    """Return the entry for these language models in a checkpoint's folder, None if there is none.

    Raises
    ------
    InputError
        The file cannot be read.
    """
    entries = read_tuned(folder / FILE)
    if not entries or (ngram is None and lstm is None):
        return None
    lms = identity(ngram, lstm)
    return next((entry for entry in entries if entry["lms"] == lms), None)


def lm_settings(
    folder: Path,
    ngram: PhoneLM | None,
    lstm: LanguageModel | None,
    weight: float | None,
    note: Callable[[str], None] = lambda line: None,
) -> list[str]:
    """Return the settings of the search with language models: a given weight, or else what was tuned for them.

    Parameters
    ----------
    folder : Path
        The folder of the checkpoint.
    ngram, lstm
        The language models.
    weight : float, optional
    note : callable
        Receives a line on the tuned settings that are used.

    Raises
    ------
    InputError
        A weight is given and there is no language model; or the file of tuned settings cannot be read.
    """
    if weight is not None:
        if weight and ngram is None and lstm is None:
            fix = "train one with decode.lm_order=4, name one with --lm, or give no weight"
            raise InputError(f"{folder}: the model has no n-gram", fix)
        return [f"decode.lm_weight={weight}"]
    entry = find_tuned(folder, ngram, lstm)
    if entry is not None:
        share = "" if lstm is None else f", share {entry['lm_share']:g}"
        shown = f"weight {entry['lm_weight']:g}, bonus {entry['lm_bonus']:g}{share}"
        note(f"language model: {shown}, tuned on {entry.get('split', 'dev')} ({folder / FILE})")
    return tuned_settings(entry)


def tuned_settings(entry: dict[str, Any] | None) -> list[str]:
    """Return an entry as settings of a config; none for None."""
    return [] if entry is None else [f"decode.{key}={entry[key]}" for key in KEYS]


def check_untouched(path: Path) -> None:
    """Check that a file of tuned weights is unchanged since `write_tuned`, or does not exist.

    Raises
    ------
    InputError
        It was changed by hand.
    """
    entries = read_tuned(path)
    if entries and files.read_json(path).get(CHECK) != _digest(entries):
        raise InputError(
            f"{path}: was changed by hand", "move it away to tune again, or write to another place with --out"
        )


def write_tuned(path: Path, entry: dict[str, Any]) -> None:
    """Write an entry, which replaces the one for the same language models; the others are kept.

    Raises
    ------
    InputError
        The file was changed by hand.
    """
    check_untouched(path)
    entries = [other for other in read_tuned(path) if other["lms"] != entry["lms"]] + [entry]
    files.write_json(path, {"entries": entries, CHECK: _digest(entries)})


def _digest(entries: Sequence[dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()


class Point(NamedTuple):
    """Settings of the search."""

    weight: float
    bonus: float
    share: float


@dataclass(frozen=True)
class Speech:
    """The log posteriors of a recording, and a function that counts errors.

    Attributes
    ----------
    log_probs : ndarray, shape = (n_frames, classes)
    errors : callable
        Maps labels to the number of edits between them and the reference.
    """

    log_probs: Rows
    errors: Callable[[Sequence[int]], int]


class Remembered:
    """A language model that remembers the scores of sequences."""

    def __init__(self, lm: LanguageModel) -> None:
        self._lm = lm
        self._scores: dict[tuple[int, ...], float] = {}
        self.inventory, self.kind = lm.inventory, lm.kind
        self.begin, self.step = lm.begin, lm.step

    def score(self, sequences: Sequences) -> Reals:
        """Return the log probability of each sequence, including its end; shape = (n_sequences,)."""
        keys = [tuple(labels) for labels in sequences]
        new = [key for key in dict.fromkeys(keys) if key not in self._scores]
        if new:
            self._scores |= dict(zip(new, self._lm.score(new).tolist(), strict=True))
        return np.array([self._scores[key] for key in keys])


def point_config(config: Config, point: Point) -> Config:
    """Return the config with the point's settings."""
    values: dict[str, Any] = {"lm_weight": point.weight, "lm_bonus": point.bonus, "lm_share": point.share}
    return config.model_copy(update={"decode": config.decode.model_copy(update={**values, "search": "auto"})})


def errors_at(
    speech: Speech, points: Sequence[Point], ngram: PhoneLM | None, lstm: LanguageModel | None, config: Config
) -> list[int]:
    """Return the errors in one recording, decoded with each of the points.

    All of them have one weight and one bonus: the search is done once, and ranked with each share.
    """
    hypotheses, found = None, []
    for point in points:
        ranker = Ranker(ngram, lstm, point_config(config, point))
        if ranker.lstm is None:
            search = choose_search(ngram, None, point_config(config, point), speech.log_probs.shape[1])
            return [speech.errors(best_labels(search, speech.log_probs))] * len(points)
        if hypotheses is None:
            hypotheses = [ranker.hypotheses(piece) for piece in ranker.pieces(speech.log_probs)]
        best = [ranker.ranked(piece)[0].path for piece in hypotheses]
        found.append(speech.errors(collapse(np.concatenate(best).tolist())))
    return found


def coarse_points(shares: Sequence[float]) -> Iterator[list[Point]]:
    """Yield the first points to try, those of one weight and bonus together."""
    for weight in WEIGHTS:
        for bonus in BONUSES:
            yield [Point(weight, bonus, share) for share in shares]


def fine_points(best: Point, shares: Sequence[float]) -> Iterator[list[Point]]:
    """Yield points around the best, those of one weight and bonus together."""
    near = {round(best.share + step, 3) for step in (-0.125, 0.0, 0.125)} if len(shares) > 1 else {best.share}
    for step in FINE:
        for other in FINE:
            weight, bonus = round(best.weight + step, 3), round(best.bonus + 4 * other, 3)
            if weight > 0:
                yield [Point(weight, bonus, share) for share in sorted(near)]


def best_point(errors: dict[Point, Counts]) -> Point:
    """Return the point with the fewest errors; of equal ones that with the lowest weight, bonus and share."""
    return min(errors, key=lambda point: (int(errors[point].sum()), point))


def interval(errors: Counts, phones: Counts, other: Counts | None = None) -> tuple[float, float]:
    """Return the 95 % bootstrap interval over utterances of an error rate, or of its difference to another's.

    Parameters
    ----------
    errors, phones : ndarray, shape = (n_utterances,)
        Phones are those of the references.
    other : ndarray, optional
        Errors to subtract.

    Returns
    -------
    low, high : float
        Per cent.
    """
    draws = np.random.default_rng(0).integers(len(errors), size=(RESAMPLES, len(errors)))
    difference = errors if other is None else errors - other
    low, high = np.percentile(100 * difference[draws].sum(1) / np.maximum(phones[draws].sum(1), 1), [2.5, 97.5])
    return float(low), float(high)
