"""Results of many recordings on their way out: written as they come, failures told at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from speechctc import audio
from speechctc.errors import InputError
from speechctc.progress import Advance, Reporter
from speechctc.recognition.formats import Format, folder_file, write_folder, write_stream
from speechctc.recognition.recogniser import Recogniser
from speechctc.recognition.recognition import Recognition
from speechctc.recognition.recordings import Recording


@dataclass(frozen=True)
class Wanted:
    """How results are to be made and written.

    Attributes
    ----------
    form : str
        ``"text"``, ``"json"``, ``"ctm"``, ``"textgrid"`` or ``"tsv"``.
    out : Path, optional
        A file for all, or (a folder that is there, or a name without an ending) a folder for a file of each; without
        it standard output.
    jobs : int
        Recordings worked on at a time; 0: as many as torch has threads.
    alternatives : int
        How many other phones to name for each, in JSON and TextGrid.
    """

    form: Format = "text"
    out: Path | None = None
    jobs: int = 0
    alternatives: int = 0

    @property
    def folder(self) -> Path | None:
        """Where each recording has a file of its own."""
        return self.out if self.out is not None and (self.out.is_dir() or not self.out.suffix) else None


def deliver(
    recordings: Sequence[Recording],
    results: Iterable[Recognition | InputError],
    wanted: Wanted,
    what: str,
    reporter: Reporter,
) -> int:
    """Write the results of recordings; return the exit status: 0, 1 if some failed, 2 if all did.

    Parameters
    ----------
    recordings : sequence of Recording
    results : iterable
        Of each recording, in their order.
    wanted : Wanted
        Checked by `check_out` before the work began.
    what : str
        What is being done, for the progress bar.
    reporter : Reporter
        Hears of the failures, at the end.
    """
    failures: list[InputError] = []
    cut: list[str] = []
    bar = reporter.progress(what, len(recordings)) if wanted.out or not sys.stdout.isatty() else nullcontext(_nothing)
    with bar as advance:
        good = _good(zip(recordings, results, strict=True), failures, cut, advance)
        if wanted.folder is not None:
            write_folder(good, wanted.form, wanted.folder)
        else:
            with opened_out(wanted.out) as out:
                write_stream((result for _, result in good), wanted.form, out)
    for line in [*cut, *map(str, failures)]:
        reporter.warn(line)
    return 0 if not failures else 2 if len(failures) == len(recordings) else 1


def check_out(recordings: Sequence[Recording], wanted: Wanted) -> None:
    """See that there is a place for each result before any is made.

    Raises
    ------
    InputError
        Several TextGrids in one file, or two results of one name.
    """
    if wanted.form == "textgrid" and len(recordings) > 1 and wanted.folder is None:
        raise InputError(f"{len(recordings)} TextGrids do not go into one file", "name a folder with --out FOLDER")
    if wanted.folder is None:
        return
    owner: dict[Path, Path] = {}
    for recording in recordings:
        file = folder_file(wanted.folder, recording, wanted.form)
        other = owner.setdefault(file, recording.path)
        if other != recording.path:
            fix = "name the folder above them, whose structure is kept, or do one at a time"
            raise InputError(f"both {other} and {recording.path} would be written to {file}", fix)


def say_if_uncalibrated(recogniser: Recogniser, form: Format, reporter: Reporter) -> None:
    """Tell those who are about to read confidences what they are not."""
    if form != "text" and not recogniser.calibration.phones:
        reporter.note("not calibrated: confidences are the net's own posteriors; see speechctc calibrate --help")


@contextmanager
def opened_out(path: Path | None) -> Iterator[TextIO]:
    """Open the file to write to; standard output if there is none."""
    if path is None:
        yield sys.stdout
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        yield file


def _good(
    pairs: Iterable[tuple[Recording, Recognition | InputError]],
    failures: list[InputError],
    cut: list[str],
    advance: Advance,
) -> Iterator[tuple[Recording, Recognition]]:
    """Yield what did not fail, and note what did, or what was read only as far as it goes."""
    for recording, result in pairs:
        if isinstance(result, InputError):
            failures.append(result)
        else:
            if note := audio.cut_short(recording.path):
                cut.append(note)
            yield recording, result
        advance(1)


def _nothing(steps: int = 1, text: str = "") -> None:
    """Stand in for a progress bar where results themselves show progress."""
