"""The commands studio and plugins: a page to listen, correct and train again, and speechctc inside other programs."""

from __future__ import annotations

from pathlib import Path

from speechctc.cli.streams import say, show
from speechctc.core.bundled import bundled_folder
from speechctc.core.errors import InputError, optional, with_extra


def studio_command(
    folder: Path = Path("."),
    at: float = 0.0,
    model: Path | None = None,
    inventory: str | None = None,
    language: str | None = None,
    port: int = 0,
    browser: bool = True,
) -> None:
    """Listen, correct phones and train again in a page.

    Corrections are saved at once, in a journal beside each recording and in its TextGrid. Of a TextGrid that you
    made, a copy is kept. Nothing is sent to another machine.
    """
    for name in ("starlette", "uvicorn"):
        optional(name, f"the studio needs {name}, which is not installed", with_extra("studio"))
    from speechctc.studio.server import serve

    wanted = None
    if inventory or language:
        from speechctc.inference.wanted import find_wanted

        wanted = find_wanted(inventory, language)
    serve(folder, at, model, port, browser, show, say, wanted)


def plugins_command(folder: Path, model: Path | None = None, overwrite: bool = False) -> None:
    """Write plugins for ELAN and Praat.

    ELAN gets a recogniser, Praat a command for sounds; both run this installation.
    """
    from speechctc.studio.plugins import ELAN, PRAAT, install

    own = model is not None and model.exists()
    if model is not None and not own and bundled_folder(model) is None:
        raise InputError(f"{model}: no such model", "name the folder of a run or of an exported model")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: a file, not a folder", "name a folder")
    install(folder, str(model.resolve()) if model is not None and own else str(model or "english"), overwrite)
    show(f"{folder / ELAN}: copy it into the folder 'extensions' of ELAN; see docs/guide/elan.md")
    show(f"{folder / PRAAT}: copy it into the preferences folder of Praat; see docs/guide/praat.md")
