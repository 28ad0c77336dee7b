"""The command that installs plugins for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from speechctc.cli.options import OverwriteOption
from speechctc.cli.streams import show
from speechctc.core.errors import InputError


def plugins_command(
    folder: Annotated[Path, typer.Argument(help="The folder to write the plugins into.")],
    model: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--model", metavar="DIR", help="The model that they use. Default: the bundled model."),
    ] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Write plugins for ELAN and Praat.

    ELAN gets a recogniser, Praat a command for sounds; both run this installation.
    """
    from speechctc.studio.plugins import ELAN, PRAAT, install

    if model is not None and not model.exists():
        raise InputError(f"{model}: no such model", "name the folder of a run or of an exported model")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: a file, not a folder", "name a folder")
    install(folder, "english" if model is None else str(model.resolve()), overwrite)
    show(f"{folder / ELAN}: copy it into the folder 'extensions' of ELAN; see docs/elan.md")
    show(f"{folder / PRAAT}: copy it into the preferences folder of Praat; see docs/praat.md")
