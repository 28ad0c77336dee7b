"""Notes, warnings and progress bars, on standard error."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from speechctc.core.errors import as_utf8, printable

if TYPE_CHECKING:
    from typing_extensions import Self

LINE_SECONDS = 60.0  # between two lines of a log
Advance = Callable[..., None]
Item = TypeVar("Item")
LOGGER = logging.getLogger("speechctc")


class Reporter:
    """Prints notes, warnings and progress bars. The command line makes one and passes it to the stage it calls.

    Parameters
    ----------
    quiet : bool
        Show no bars and no lines on progress, only notes (a test).

    Attributes
    ----------
    failed : int
        How many steps failed; whoever calls `progress` sets it.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
        self.quiet = quiet
        self.failed = 0
        self._status: Callable[[str], None] | None = None

    def note(self, *texts: str) -> None:
        """Print a line for each text: line ends in it, from names of files or labels, are escaped."""
        for text in texts:
            self._print(text)

    def warn(self, *texts: str) -> None:
        """Print a warning for each text, in one line."""
        for text in texts:
            self._print(f"warning: {text}", style="yellow")

    def warn_of_this_process(self, *texts: str) -> None:
        """As `warn`, of what may be so in one only of several processes that train together: each says it."""
        self.warn(*texts)

    def _print(self, text: str, style: str | None = None) -> None:
        """Print a line as it is: no ``:ok:`` in a name becomes a picture, no ``[b]`` a style."""
        self.console.print(_printable(text, keep="\t"), style=style, markup=False, emoji=False)

    def track(self, what: str, items: Iterable[Item], total: int) -> Iterator[Item]:
        """Yield items, and show a progress bar of how many of them were worked on."""
        with self.progress(what, total) as advance:
            for item in items:
                yield item
                advance()

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Advance]:
        """Show a progress bar; yield a function to call with the steps done and a text to show beside the bar.

        Where there is no terminal, a line is printed each minute, with `failed` if that was set.
        """
        self.failed = 0
        if self.quiet or total == 0:
            yield lambda steps=1, text="": None
            return
        if not self.console.is_terminal:
            with _Log(self, what, total) as log:
                self._status = log.tell
                try:
                    yield log.advance
                finally:
                    self._status = None
            return
        name, beside = (TextColumn(form, markup=False) for form in ("{task.description}", "{task.fields[text]}"))
        columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        # rich would else write to standard error what the work writes to standard output
        with Progress(name, *columns, beside, console=self.console, transient=True, redirect_stdout=False) as bar:
            task = bar.add_task(_printable(what), total=total, text="")

            def advance(steps: int = 1, text: str = "") -> None:
                bar.update(task, advance=steps, text=_printable(text))

            self._status = lambda text: advance(0, text)
            try:
                yield advance
            finally:
                self._status = None

    def status(self, text: str) -> None:
        """Show a text beside the progress bar, if there is one; from any thread."""
        if (show := self._status) is not None:
            show(text)


class _Log:
    """Prints a line a minute on how far the work is, from a thread of its own: also while nothing gets done."""

    def __init__(self, reporter: Reporter, what: str, total: int) -> None:
        self.reporter, self.what, self.total, self.done, self.text = reporter, what, total, 0, ""
        self.began, self.ended = time.monotonic(), threading.Event()
        self.thread = threading.Thread(target=self._print, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()

    def advance(self, steps: int = 1, text: str = "") -> None:
        self.done += steps

    def tell(self, text: str) -> None:
        self.text = text

    def _print(self) -> None:
        while not self.ended.wait(LINE_SECONDS):
            self.reporter.note(self.line(time.monotonic() - self.began))

    def line(self, seconds: float) -> str:
        rate, left = self.done / seconds, self.total - self.done
        parts = [f"{self.what}: {self.done:,} of {self.total:,} done", f"{left:,} left", f"{rate:.3g} a second"]
        parts += [f"about {_clock(left / rate)} to go"] if rate and left else []
        parts += [f"{self.reporter.failed:,} failed"] if self.reporter.failed else []
        memory = resident_mib()
        parts += [f"{memory:,.0f} MiB"] if memory else []
        return ", ".join([*parts, self.text] if self.text else parts)


def _clock(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{max(seconds / 60, 1):.0f} min"


def resident_mib() -> float:
    """Return the memory that this process has now, MiB; on macOS the most that it had; elsewhere 0."""
    memory = 0.0
    if sys.platform == "linux":
        with suppress(OSError, ValueError, IndexError):
            memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    elif sys.platform == "darwin":
        import resource

        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return memory


class LogReporter(Reporter):
    """The reporter of calls from Python: where a program has set up logging, notes and warnings go to `LOGGER`."""

    def note(self, *texts: str) -> None:
        """Log each text as information."""
        self._log(logging.INFO, texts, super().note)

    def warn(self, *texts: str) -> None:
        """Log each text as a warning."""
        self._log(logging.WARNING, texts, super().warn)

    def _log(self, level: int, texts: Sequence[str], otherwise: Callable[..., None]) -> None:
        if not LOGGER.hasHandlers():
            otherwise(*texts)
            return
        for text in texts:
            LOGGER.log(level, "%s", _printable(text, keep="\t"))


def _printable(text: str, keep: str = "") -> str:
    """Return `printable` text; bytes of file names that are not UTF-8 become U+FFFD, as in the results."""
    return printable(as_utf8(text), keep)
