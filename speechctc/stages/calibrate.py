"""Calibrate a model's confidences and boundaries on a split it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.core.parallel import map_in_threads
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Utterance
from speechctc.inference.alignment import AlignOptions
from speechctc.inference.goodness import Evidence, Goodness, Spoken, collect
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.segmenter import Calibration, cross_validated, expected_calibration_error, fit
from speechctc.inference.transcript import phone_units
from speechctc.model.checkpoint import find_checkpoint
from speechctc.stages.split_scoring import aligned_starts, score_split, sound_of
from speechctc.stages.used_model import own_folder, write_learned

MIN_CALIBRATION_PHONES = 50  # phones, to estimate two numbers from


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
    recogniser = Recogniser.load(folder, device).uncalibrated()
    scored = score_split(recogniser, split, overrides, reporter, "calibrating on")
    reporter.note(f"PER on {split}: {scored.counts.per:.2f} % ({scored.reliability.to_text()})")
    if scored.reliability.caution:
        reporter.note(f"  {scored.reliability.caution}")
    posteriors, right, numbers = scored.marks
    if len(right) < MIN_CALIBRATION_PHONES:
        raise InputError(
            f"{split}: the model finds {len(right)} phones in it, calibration needs {MIN_CALIBRATION_PHONES}",
            "train on",
        )
    slope, intercept = fit(posteriors, right)
    unseen = cross_validated(posteriors, right, numbers)
    calibration = Calibration(
        slope,
        intercept,
        boundary_shift(recogniser, scored.utterances),
        len(right),
        expected_calibration_error(posteriors, right),
        expected_calibration_error(unseen, right),
        float(right.mean()),
        f"{split}; {scored.protocol}",
    )
    language = recogniser.config.corpus.language
    usual = right_speech(recogniser, scored.utterances, language if isinstance(language, str) else "")
    if _stamp(folder) != weights:
        raise InputError(f"{folder}: training saved another model there meanwhile", "calibrate again when it is done")

    def save(place: Path) -> None:
        if usual:
            usual.save(place)
        calibration.save(place)  # last: it says that all is done

    write_learned(folder, own, save, reporter)
    return calibration


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
