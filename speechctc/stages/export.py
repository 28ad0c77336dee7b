"""The export stage: a model to give away, with what decoding and alignment need and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from speechctc.config.schema import Config, CorpusConfig
from speechctc.errors import InputError
from speechctc.inference.calibration import Calibration
from speechctc.model.checkpoint import find_checkpoint, load_checkpoint, save_checkpoint
from speechctc.stages.export_onnx import export_onnx
from speechctc.storage import files

KEPT = ("epoch", "dev_per", "fold")
WRITTEN = ("weights.safetensors", "checkpoint.json", "lm.safetensors", "calibration.json")


def check_out(out: Path, overwrite: bool = False) -> None:
    """See that a model can be written to a folder without loss.

    Parameters
    ----------
    out : Path
    overwrite : bool
        It may exist, if it is empty, or an exported model and nothing else.

    Raises
    ------
    InputError
        Something else is there.
    """
    if not out.exists():
        return
    if not overwrite:
        raise InputError(
            f"{out}: exists already", "name a folder that does not, or give --overwrite to replace a model"
        )
    if not out.is_dir():
        raise InputError(f"{out}: a file, not a folder", "name another place")
    names = {path.name for path in out.iterdir()}
    if other := sorted(names - set(WRITTEN)):
        raise InputError(f"{out}: holds more than an exported model ({', '.join(other[:3])})", "name another folder")
    if names and not _is_export(out):
        raise InputError(f"{out}: not an exported model, but one in training or of a run", "name another folder")


def _is_export(folder: Path) -> bool:
    """Tell whether a checkpoint was exported: its config then names no run."""
    try:
        about = files.read_json(folder / "checkpoint.json")
        return about["config"]["run"] is None
    except (OSError, ValueError, KeyError, TypeError):
        return False


def export(model: Path | None, out: Path, overwrite: bool = False) -> int:
    """Write a model in half precision, without paths and training state; or, to a name in ``.onnx``, as ONNX.

    Parameters
    ----------
    model : Path or None
        A checkpoint or a run's folder (its best); None: the latest run.
    out : Path
        A folder that is not there yet; or a file that is not, whose name ends in ``.onnx``.
    overwrite : bool
        It may be there; see `check_out`.

    Returns
    -------
    int
        Bytes written.

    Raises
    ------
    InputError
        There is no such model, or something is at `out` already.
    """
    check_out(out, overwrite)
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
