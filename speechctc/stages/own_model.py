"""Where what is learned about a model is kept: in its folder, or in a copy if the model is part of the installation."""

from __future__ import annotations

import shutil
from pathlib import Path

from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.model.checkpoint import BUILT_IN

_PACKAGE = Path(__file__).resolve().parent.parent


def is_installed(folder: Path) -> bool:
    """Return whether a model is part of the installation, where nothing is written."""
    return folder.resolve().is_relative_to(_PACKAGE)


def own_folder(folder: Path) -> Path:
    """Return the folder to write into: that of the model, or its name in the working directory if it is installed.

    Raises
    ------
    InputError
        Something else is there.
    """
    if not is_installed(folder):
        return folder
    own = Path(folder.name)
    if own.is_symlink() or own.exists():
        what = f"{own}: is in the way of a copy of the bundled model, which is part of the installation and not changed"
        raise InputError(what, "move it away, or work in another folder")
    return own


def make_own(folder: Path, own: Path, reporter: Reporter) -> None:
    """Copy the model of `folder` to `own`, as `own_folder` returns it, unless they are one; say so."""
    if own == folder:
        return

    def copy(draft: Path) -> None:
        for path in folder.iterdir():
            if path.is_file():
                shutil.copyfile(path, draft / path.name)

    files.write_folder(own, copy)
    reporter.note(
        f"the bundled model is part of the installation and stays as it is; its copy is {own}/: in this folder,"
        f" --model {BUILT_IN.name} means the copy from now on"
    )
