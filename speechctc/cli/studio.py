"""The command studio: a page to listen, correct and train again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from speechctc.cli.options import ModelOrBundledOption
from speechctc.cli.streams import say, show


def studio_command(
    folder: Annotated[
        Path, typer.Argument(help="The folder of your recordings, or one recording to open in its folder.")
    ] = Path("."),
    at: Annotated[float, typer.Option("--at", metavar="SECONDS", min=0.0, help="Where to open that recording.")] = 0.0,
    model: ModelOrBundledOption = None,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="The port of the page; 0: any free one.")
    ] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in your browser.")] = True,
) -> None:
    """Listen, correct phones and train again in a page.

    Corrections are saved at once, in a journal beside each recording and in its TextGrid. Of a TextGrid that you
    made, a copy is kept. Nothing is sent to another machine.
    """
    from speechctc.studio.serve import serve

    serve(folder, at, model, port, browser, show, say)
