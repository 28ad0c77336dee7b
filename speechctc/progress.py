"""What a stage says while it works, on standard error: notes, and a bar with the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

Advance = Callable[..., None]


class Reporter:
    """Says what happens. One is made by the command line and handed to the stage it calls.

    Parameters
    ----------
    quiet : bool
        Show no bars, only notes (a log file, a test).
    """

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.quiet = quiet

    def note(self, text: str) -> None:
        """Say one line."""
        self.console.print(text, markup=False)

    def warn(self, text: str) -> None:
        """Say one line that must not be missed."""
        self.console.print(f"warning: {text}", style="yellow", markup=False)

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Advance]:
        """Show a bar; the function given back is called with the steps done and a text to show beside them."""
        if self.quiet or not self.console.is_terminal or total == 0:
            yield lambda steps=1, text="": None
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
        )
        with Progress(*columns, console=self.console, transient=True) as bar:
            task = bar.add_task(what, total=total, text="")

            def advance(steps: int = 1, text: str = "") -> None:
                bar.update(task, advance=steps, text=text)

            yield advance
