"""The calibration stage: what a model's posteriors and boundaries are worth, learned on dev and kept beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from speechctc.corpora.corpus import Utterance
from speechctc.errors import InputError
from speechctc.inference.batch_decode import in_order
from speechctc.inference.calibration import Calibration, cross_validated, expected_calibration_error, fit
from speechctc.inference.recogniser import Recogniser
from speechctc.model.checkpoint import find_checkpoint
from speechctc.progress import Reporter
from speechctc.stages.split_scoring import judge
from speechctc.storage import files

FEWEST = 50  # phones that two numbers can be learned from


def calibrate(
    model: Path | None, reporter: Reporter, split: str = "dev", overrides: Sequence[str] = (), device: str = "auto"
) -> Calibration:
    """Learn a model's calibration on a split and write it into the checkpoint's folder.

    Parameters
    ----------
    model : Path or None
        A checkpoint or a run's folder (its best); None: the latest run.
    reporter : Reporter
        Is told the PER of the split, with its interval.
    split : str
        Not one that it was trained on.
    overrides : sequence of str
        Laid over the model's own config: another corpus, another folding.
    device : str

    Raises
    ------
    InputError
        There is no such model, too little in the split to learn from, or another model in its place meanwhile.
    """
    folder = find_checkpoint(model)
    weights = _stamp(folder)
    recogniser = Recogniser.load(folder, device)
    recogniser.calibration = Calibration()
    judged = judge(recogniser, split, overrides, reporter, "calibrating on")
    reporter.note(f"PER on {split}: {judged.counts.per:.2f} % ({judged.reliability.to_text()})")
    if judged.reliability.caution:
        reporter.note(f"  {judged.reliability.caution}")
    posteriors, right = judged.confidences, judged.right
    if len(right) < FEWEST:
        raise InputError(f"{split}: the model finds {len(right)} phones in it, calibration needs {FEWEST}", "train on")
    slope, intercept = fit(posteriors, right)
    told = cross_validated(posteriors, right, judged.numbers)
    calibration = Calibration(
        slope,
        intercept,
        boundary_shift(recogniser, judged.utterances),
        len(right),
        expected_calibration_error(posteriors, right),
        expected_calibration_error(told, right),
        float(right.mean()),
        f"{split}; {judged.protocol}",
    )
    if _stamp(folder) != weights:
        raise InputError(f"{folder}: training saved another model there meanwhile", "calibrate again when it is done")
    calibration.save(folder)
    return calibration


def _stamp(folder: Path) -> tuple[int, ...]:
    """Return what tells a folder's weights from others that take their place."""
    try:
        status = (files.standing(folder) / "weights.safetensors").stat()
    except OSError:  # said by who reads the checkpoint
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def boundary_shift(recogniser: Recogniser, utterances: Sequence[Utterance]) -> float:
    """Return how much later the labellers' boundaries are than the net's, in the median over aligned utterances.

    Returns
    -------
    float
        Seconds, at most half an analysis window to either side; 0 where the corpus has no times.
    """
    timed = [utterance for utterance in utterances if utterance.times and len(utterance.phones) > 1]
    lags: list[float] = []
    results = in_order(lambda each: recogniser.align(each.audio, each.phones, channel=each.channel), timed)
    for utterance, result in zip(timed, results, strict=True):
        if not isinstance(result, InputError) and utterance.times:
            starts = zip(utterance.times[1:], result.segments[1:], strict=True)
            lags += [labelled - segment.start for (labelled, _), segment in starts]
    half = recogniser.clock.half
    return float(np.clip(np.median(lags), -half, half)) if lags else 0.0
