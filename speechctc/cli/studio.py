"""The commands studio and plugins: a page to listen, correct and train again, and speechctc inside other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from speechctc.cli import options as opt
from speechctc.cli.streams import say, show
from speechctc.core.bundled import NAMES, bundled_folder
from speechctc.core.errors import InputError, optional, with_extra


def studio_command(
    folder: Annotated[
        Path, Argument(help="The folder of your recordings, or one recording to open in its folder.")
    ] = Path("."),
    at: Annotated[float, Option(metavar="SECONDS", min=0.0, help="Where to open that recording.")] = 0.0,
    model: opt.ModelOrBundled = None,
    inventory: opt.Inventory = None,
    language: opt.PhonesOf = None,
    port: Annotated[int, Option(metavar="N", min=0, max=65535, help="The port of the page; 0: any free one.")] = 0,
    browser: Annotated[bool, Option("--browser/--no-browser", help="Open the page in your browser.")] = True,
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


def plugins_command(
    folder: Annotated[Path | None, Argument(help="The folder to write the plugins into, for you to copy.")] = None,
    install: Annotated[
        bool,
        Option(
            "--install",
            help="Write them into the preferences folders of Praat (6 and 7) and the folder extensions of ELAN, where "
            "they are found.",
        ),
    ] = False,
    model: Annotated[
        Path | None, Option(metavar="DIR", help=f"The model that they use; bundled are {NAMES}. Default: english.")
    ] = None,
    overwrite: opt.Overwrite = False,
) -> None:
    """Write plugins for ELAN and Praat.

    ELAN gets a recogniser, Praat commands for sounds and for the intervals of TextGrids; both run this installation.
    """
    from speechctc.studio import plugins

    own = model is not None and model.exists()
    if model is not None and not own and bundled_folder(model) is None:
        raise InputError(f"{model}: no such model", "name the folder of a run or of an exported model")
    if (folder is None) != install:
        raise InputError("either a folder or --install", "name a folder to copy the plugins from, or give --install")
    if folder and folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: a file, not a folder", "name a folder")
    places = plugins.in_folder(folder) if folder else plugins.in_programs()
    if not places:
        raise InputError("no preferences folder of Praat and no ELAN found", "start Praat once, or name a folder")
    plugins.write(places, str(model.resolve()) if model is not None and own else str(model or "english"), overwrite)
    for place in places:
        page = f"see docs/guide/{'elan' if place.name == plugins.ELAN else 'praat'}.md"
        if folder is None:
            show(f"{place}: written; start the program again; {page}")
        elif place.name == plugins.ELAN:
            show(f"{place}: copy it into the folder 'extensions' of ELAN; {page}")
        else:
            show(f"{place}: copy it into the preferences folder of Praat; {page}")
    if any(place.name == plugins.PRAAT for place in places):
        show("Praat 7 asks whether you trust the script: choose its last answer, which lasts until Praat ends")
