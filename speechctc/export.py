"""The export stage: a model to give away, with what decoding and alignment need and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from speechctc.checkpoint import find_checkpoint, load_checkpoint, save_checkpoint
from speechctc.config import Config, CorpusConfig
from speechctc.errors import InputError
from speechctc.export_onnx import export_onnx
from speechctc.recognition.calibration import Calibration

KEPT = ("epoch", "dev_per", "fold")


def export(model: Path | None, out: Path) -> int:
    """Write a model in half precision, without paths and training state; or, to a name in ``.onnx``, as ONNX.

    Parameters
    ----------
    model : Path or None
        A checkpoint or a run's folder (its best); None: the latest run.
    out : Path
        A folder that is not there yet; or a file that is not there yet, whose name ends in ``.onnx``.

    Returns
    -------
    int
        Bytes written.

    Raises
    ------
    InputError
        There is no such model, or something is at `out` already.
    """
    if out.exists():
        raise InputError(f"{out}: exists already", "name a folder that does not")
    folder = find_checkpoint(model)
    checkpoint = load_checkpoint(folder)
    if out.suffix.lower() == ".onnx":
        return export_onnx(checkpoint, out)
    facts = {key: checkpoint.facts[key] for key in KEPT if key in checkpoint.facts}
    save_checkpoint(out, replace(checkpoint, config=_portable(checkpoint.config), facts=facts, state={}), half=True)
    calibration = Calibration.load(folder)
    if calibration.phones:
        calibration.save(out)
    return sum(file.stat().st_size for file in out.iterdir())


def _portable(config: Config) -> Config:
    """Leave out what lies on this machine alone: the corpus, its features, the run."""
    plain = Config(corpus=CorpusConfig(kind=config.corpus.kind, phones=config.corpus.phones))
    train = config.train.model_copy(update={"init_from": None})
    return config.model_copy(update={"run": None, "corpus": plain.corpus, "data": plain.data, "train": train})
