"""Find the model that a command uses, and describe it in one line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from speechctc.core import files
from speechctc.core.bundled import MODELS, bundled_folder
from speechctc.core.errors import InputError, plural, printable, shortened
from speechctc.core.progress import Reporter
from speechctc.model import checkpoint

PACKAGE = Path(__file__).resolve().parent.parent


def find_and_describe(model: Path | None, or_bundled: bool = False) -> tuple[Path, str]:
    """Return the checkpoint folder that ``--model`` names, and a line that describes it.

    Parameters
    ----------
    model : Path or None
        See `find_checkpoint`.
    or_bundled : bool
        See `find_checkpoint`.

    Raises
    ------
    InputError
        There is no such model.
    """
    folder = checkpoint.find_checkpoint(model, or_bundled)
    facts = shortened(printable(", ".join(_facts(folder))))
    why = ""
    if model is None:
        why = "no --model and no run here: " if folder == checkpoint.BUILT_IN else "no --model, so the latest run: "
    if name := next((name for name, each in MODELS.items() if each.folder == folder), ""):
        return folder, f"{why}using the bundled model {name} ({MODELS[name].about}): {facts}"
    note = " (in this folder; not the bundled model)" if bundled_folder(model) else ""
    return folder, f"{why}using {files.short(folder)}{note}" + (f": {facts}" if facts else "")


def _facts(folder: Path) -> list[str]:
    """Return facts of the checkpoint's record; none if it is damaged, which loading reports."""
    try:
        about = files.read_json(folder / "checkpoint.json")
        phones = about["phones"]
        facts = [f"{plural(len(phones['list']), 'phone')} ({phones['name']})"]
        trained = _corpus(about["config"]["corpus"])
        facts += [f"trained on {trained}"] if trained else []
        per = about.get("dev_per")
        return [*facts, f"dev PER {per:.1f} %"] if isinstance(per, (int, float)) else facts
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return []


def _corpus(corpus: dict[str, Any]) -> str:
    """Return the training corpus in words; empty for an exported model without paths."""
    if corpus["kind"] == "demo":
        return "the demo corpus"
    place = (corpus.get("tables") or {}).get("train") if corpus["kind"] == "table" else corpus.get("root")
    return str(place) if place else "TIMIT" if corpus["kind"] == "timit" else ""


def own_folder(folder: Path) -> Path:
    """Return the folder to write into: that of the model, or its name in the working directory if it is installed.

    Raises
    ------
    InputError
        Something else is there, or it cannot be written to.
    """
    from speechctc.inference.output import check_folder

    is_installed = folder.resolve().is_relative_to(PACKAGE)  # nothing is written there
    check_folder(Path() if is_installed else folder)
    if not is_installed:
        return folder
    own = Path(folder.name)
    if own.is_symlink() or own.exists():
        what = f"{own}: is in the way of a copy of the bundled model, which is part of the installation and not changed"
        raise InputError(what, "move it away, or work in another folder")
    return own


def write_learned(folder: Path, own: Path, write: Callable[[Path], object], reporter: Reporter) -> None:
    """Write what was learned of the model in `folder` into `own`, as `own_folder` returns it.

    If they are not one, the model is copied with it, both or neither, and the copy is said.
    """
    if own == folder:
        write(own)
        return

    def copy(draft: Path) -> None:
        for path in folder.iterdir():
            if path.is_file():
                shutil.copyfile(path, draft / path.name)
        write(draft)

    files.write_folder(own, copy)
    reporter.note(
        f"the bundled model is part of the installation and stays as it is; its copy is {own}/: in this folder,"
        f" --model {own.name} means the copy from now on"
    )
