"""What a model learns after training: its confidences, its boundaries' shift, right speech, and raters' scores."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.core import files
from speechctc.core.errors import InputError, plural
from speechctc.core.parallel import map_in_threads
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Utterance
from speechctc.corpora.table_rows import read_cells
from speechctc.inference.alignment import AlignOptions
from speechctc.inference.goodness import Evidence, Goodness, Spoken, collect
from speechctc.inference.ratings import FOLDS, Ratings, features
from speechctc.inference.ratings import cross_validated as rated_by_others
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.segmenter import CALIBRATION_FILE, Calibration, Floats, PhoneScore, log_odds
from speechctc.inference.transcript import phone_units
from speechctc.metrics.reliability import expected_calibration_error
from speechctc.model.checkpoint import find_checkpoint, read_inventory
from speechctc.stages.open_model import ModelChoice, open_model
from speechctc.stages.split_scoring import aligned_starts, score_split, sound_of
from speechctc.stages.used_model import own_folder, write_learned

MIN_CALIBRATION_PHONES = 50  # phones, to estimate two numbers from
RATED = ("file", "phone", "rating")
PARTS = 5  # of the utterances, each calibrated by the others
DRAWS = 2000  # of speakers, for the interval of a correlation


def calibrate(
    model: Path | None, reporter: Reporter, split: str = "dev", overrides: Sequence[str] = (), device: str = "auto"
) -> Calibration:
    """Estimate a model's calibration on a split and write it into the checkpoint's folder, or the user's own copy.

    Parameters
    ----------
    model : Path or None
        A checkpoint or a run's folder (its best); None: the latest run.
    reporter : Reporter
        Receives the PER of the split, with its interval.
    split : str
        One that the model was not trained on.
    overrides : sequence of str
        Settings that replace those of the model's config: another corpus, another folding.
    device : str

    Raises
    ------
    InputError
        There is no such model, the split has too few phones, or training saved another model there meanwhile.
    """
    folder = find_checkpoint(model)
    own = own_folder(folder)
    weights = _stamp(folder)
    recogniser = open_model(folder, Recogniser, ModelChoice(device)).uncalibrated()
    scored = score_split(recogniser, split, overrides, reporter, "calibrating on")
    reporter.note(f"PER on {split}: {scored.counts.to_text()} ({scored.reliability.to_text()})")
    if scored.reliability.caution:
        reporter.note(f"  {scored.reliability.caution}")
    posteriors, right, numbers = scored.marks
    if len(right) < MIN_CALIBRATION_PHONES:
        raise InputError(
            f"{split}: the model finds {plural(len(right), 'phone')} in it, calibration needs {MIN_CALIBRATION_PHONES}",
            "put more recordings into it, or train on",
        )
    shift, protocol = boundary_shift(recogniser, scored.utterances), f"{split}; {scored.protocol}"
    calibration = calibration_of(posteriors, right, numbers, shift, protocol)
    language = recogniser.config.corpus.language
    usual = right_speech(recogniser, scored.utterances, language if isinstance(language, str) else "")
    if _stamp(folder) != weights:
        raise InputError(f"{folder}: training saved another model there meanwhile", "calibrate again when it is done")

    def save(place: Path) -> None:
        if usual:
            usual.save(place)
        if calibration.helps:
            calibration.save(place)  # last: it says that all is done

    if usual or calibration.helps:
        write_learned(folder, own, save, reporter)
    name = f"{own}/{CALIBRATION_FILE}"
    reporter.note(f"written: {name}" if calibration.helps else f"not written: {name}, which would not help")
    return calibration


def calibration_of(
    posteriors: NDArray[np.float64],
    right: NDArray[np.float64],
    utterances: NDArray[np.int64],
    shift: float,
    protocol: str,
) -> Calibration:
    """Return the calibration of phones with these posteriors; where it makes them less right, one that keeps them.

    Parameters
    ----------
    posteriors, right, utterances : ndarray, shape = (n,)
        Of each phone: its posterior, whether it is right, and the number of its utterance.
    shift, protocol
        As of `Calibration`.
    """
    before = expected_calibration_error(posteriors, right)
    after = expected_calibration_error(cross_validated(posteriors, right, utterances), right)
    slope, intercept = fit(posteriors, right) if after <= before else (1.0, 0.0)
    return Calibration(slope, intercept, shift, len(right), before, after, float(right.mean()), protocol)


def calibrate_run(run: Path, reporter: Reporter) -> Calibration | None:
    """Calibrate a run's best checkpoint on dev.

    Returns
    -------
    Calibration or None
        None if the checkpoint is calibrated already, or cannot be calibrated; the reporter receives the reason.
    """
    if Calibration.load(run / "best").phones:
        return None
    try:
        return calibrate(run, reporter)
    except InputError as error:
        reporter.note(f"not calibrated: {error}")
        return None


def _stamp(folder: Path) -> tuple[int, ...]:
    """Return what tells a folder's weights from others that take their place."""
    try:
        status = (files.standing(folder) / "weights.safetensors").stat()
    except OSError:  # said by who reads the checkpoint
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def right_speech(recogniser: Recogniser, utterances: Sequence[Utterance], language: str) -> Goodness | None:
    """Return what is usual in the utterances, whose labels count as right; None: they have too few phones."""

    def hear(each: Utterance) -> list[Spoken]:
        seen: list[Evidence] = []
        options = AlignOptions(judge=partial(collect, seen, recogniser.phones))
        recogniser.place(items=phone_units(each.phones), options=options, **sound_of(each, recogniser))
        own = each.trait("language") or language
        return [Spoken(one, each.speaker, own.partition("-")[0]) for one in seen]

    heard = [one for each in map_in_threads(hear, utterances) if not isinstance(each, InputError) for one in each]
    enough = sum(len(each.seen.labels) for each in heard) >= MIN_CALIBRATION_PHONES
    return Goodness.learn(recogniser.phones, heard) if enough else None


def boundary_shift(recogniser: Recogniser, utterances: Sequence[Utterance]) -> float:
    """Return the median difference between labelled and aligned boundaries; positive where the labels are later.

    Returns
    -------
    float
        Seconds, at most half an analysis window in size; 0 where the corpus has no times.
    """
    timed = [utterance for utterance in utterances if len(utterance.phones) > 1]
    lags = [labelled - segment.start for labelled, segment in aligned_starts(recogniser, timed)]
    half = recogniser.clock.half
    return float(np.clip(np.median(lags), -half, half)) if lags else 0.0


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
        With tabs or commas, and the columns `RATED`: the JSON of a recording, the number of the phone in it, from 1,
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
    rated = _read_ratings(table)
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
    penalty, unseen = rated_by_others(phones, speakers, said, values, ratings)
    learned = Ratings.learn(phones, said, values, ratings, penalty)
    write_learned(folder, own, learned.save, reporter)
    alone = np.array([each.score for each in scores])
    told = f"{len(rated)} phones of {len(set(speakers))} speakers, each rated by what others taught"
    told = f"{told}; Pearson's correlation with the raters, by phone, 95 % interval over speakers"
    learned_so, alone_so = (_correlation(speakers, each, ratings) for each in (unseen, alone))
    return f"{told}:\n  learned {learned_so}\n  score alone {alone_so}"


def _read_ratings(table: Path) -> list[_Rated]:
    """Return the rated phones; those without a score are left out."""
    lines = read_cells(table, RATED).text.splitlines()
    rows = list(csv.DictReader(lines, delimiter="\t" if lines and "\t" in lines[0] else ","))
    if not rows or not {*RATED} <= {*rows[0]}:
        raise InputError(f"{table}: lacks a column of {', '.join(RATED)}, or has no rows", "see calibrate --help")
    known, found = dict[Path, Any](), list[_Rated]()
    for line, row in enumerate(rows, start=2):
        try:
            path, rating = table.parent / row["file"], float(row["rating"])
            if path not in known:
                known[path] = files.read_json(path, files.MOST_RESULTS)
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


def _correlation(speakers: tuple[str, ...], found: NDArray[np.float64], ratings: NDArray[np.float64]) -> str:
    """Return Pearson's correlation and its interval, in words."""
    groups = [np.flatnonzero(np.array(speakers) == each) for each in sorted(set(speakers))]
    rng = np.random.default_rng(0)
    draws = [np.concatenate([groups[k] for k in rng.integers(len(groups), size=len(groups))]) for _ in range(DRAWS)]
    with np.errstate(invalid="ignore", divide="ignore"):
        values = [np.corrcoef(found[each], ratings[each])[0, 1] for each in (np.arange(len(ratings)), *draws)]
    low, high = np.nanpercentile(values[1:], (2.5, 97.5))
    return f"{values[0]:.2f} ({low:.2f} to {high:.2f})"


def fit(posteriors: Floats, correct: Floats) -> tuple[float, float]:
    """Return slope and intercept of the logistic regression, by Newton's method.

    Parameters
    ----------
    posteriors, correct : ndarray, shape = (n,)
        Each phone's posterior, and 1 if it is right, else 0. As in Platt, the targets are not 0 and 1: one imagined
        phone of each kind is added, so that no phone becomes certain if all are right.
    """
    right = float(correct.sum())
    high, low = (right + 1) / (right + 2), 1 / (len(correct) - right + 2)
    targets = np.where(correct > 0, high, low)
    inputs = np.column_stack([log_odds(posteriors), np.ones(len(posteriors))])
    weights = np.array([1.0, 0.0])
    for _ in range(50):
        fitted = 1.0 / (1.0 + np.exp(-inputs @ weights))
        curvature = (inputs * (fitted * (1 - fitted))[:, None]).T @ inputs + 1e-6 * np.eye(2)
        step = np.linalg.solve(curvature, inputs.T @ (targets - fitted))
        weights = weights + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-8:
            break
    return float(weights[0]), float(weights[1])


def cross_validated(posteriors: Floats, correct: Floats, utterances: NDArray[np.int64]) -> Floats:
    """Return each phone's probability, fitted on the phones of other utterances."""
    probabilities = np.zeros(len(posteriors))
    for fold in range(PARTS):
        left_out = utterances % PARTS == fold
        if left_out.any() and not left_out.all():
            slope, intercept = fit(posteriors[~left_out], correct[~left_out])
            probabilities[left_out] = Calibration(slope, intercept).probabilities(posteriors[left_out])
        elif left_out.all():
            probabilities[left_out] = posteriors[left_out]
    return probabilities
