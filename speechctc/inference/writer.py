"""Write each result when it is ready; report failures last."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TextIO, cast

from speechctc.audio import sound_file
from speechctc.audio.recordings import Recording
from speechctc.audio.sound_file import channels_differ
from speechctc.core import written
from speechctc.core.errors import InputError, printable
from speechctc.core.progress import Advance, Reporter
from speechctc.inference.formats import WRITERS, Layout, RecordingName, Writer
from speechctc.inference.output import OutputOptions
from speechctc.inference.recogniser import Recogniser

MOST_HINTS = 3  # recordings to report as having different sounds in their channels


STDIN = Recording(Path("-"), Path("-"))


class ResultWriter:
    """Recordings and their results in the same order; collects the failures and notes.

    Parameters
    ----------
    recordings : sequence of Recording
    results : iterable of Recognition or InputError
        In a live format, also `speechctc.inference.formats.Phones`.
    options : OutputOptions
        After `check_out`.
    writer : Writer, optional
        Writes the results to one file or to standard output; by default that of the format.
    """

    def __init__(
        self,
        recordings: Sequence[Recording],
        results: Iterable[Any],
        options: OutputOptions,
        writer: Writer | None = None,
    ) -> None:
        self.recordings, self.results, self.options = recordings, results, options
        self.writer = writer or WRITERS[options.form]
        self.notes: list[str] = []
        self.failures: list[InputError] = []
        self._hints = 0

    def to_stream(self, out: TextIO, aligned: bool, advance: Advance) -> None:
        """Write all results to one stream."""
        results = ((name, result) for _, name, result in self._good(advance))
        place = self.options.file or self.options.place
        self.writer.write(results, out, Layout(len(self.recordings) > 1, aligned, place, self.options.scored))

    def to_folder(self, advance: Advance) -> None:
        """Write a file for each recording and format.

        A file that a person changed meanwhile is kept, and counts as a failure. So does a recording that cannot be
        written in a format, or whose name is too long with the ending of one.
        """
        for recording, name, result in self._good(advance):
            try:
                for form, file in self.options.files_of(recording).items():
                    if not (self.options.skip_existing and os.path.exists(file)):
                        written.write_bytes(file, WRITERS[form].content(name, result, file), self.options.overwrite)
            except InputError as error:
                self.failures.append(error)
            except OSError as error:
                if error.errno != errno.ENAMETOOLONG:
                    raise
                what = f"{recording.path}: left out: its name is too long for a file of results"
                self.failures.append(InputError(what, "rename it"))

    def _good(self, advance: Advance) -> Iterator[tuple[Recording, RecordingName, Any]]:
        """Yield the results; collect the failures, and notes on recordings that are cut short or have odd channels."""
        names = self.options.names(self.recordings)
        for recording, name, result in zip(self.recordings, names, self.results, strict=True):
            if isinstance(result, InputError):
                self.failures.append(result)
            else:
                if recording.path != STDIN.path:
                    self.notes += filter(None, (sound_file.cut_short(recording.path), self._hint(recording)))
                yield recording, name, result.renamed(self.options.symbols) if self.options.symbols else result
            advance(1)

    def _hint(self, recording: Recording) -> str:
        is_mixed = recording.channel is None and self._hints < MOST_HINTS and channels_differ(recording.path)
        what = (
            f"{recording.path}: its channels hold different sounds, which were mixed; --channel 1 reads the first alone"
        )
        hint = what if is_mixed else ""
        self._hints += bool(hint)
        return hint + (" (not checked in further recordings)" if hint and self._hints == MOST_HINTS else "")


def write_results(writer: ResultWriter, what: str, reporter: Reporter, aligned: bool = False) -> int:
    """Write the results of recordings; return the exit status: 0, 1 if some failed, 2 if all failed.

    Parameters
    ----------
    writer : ResultWriter
    what : str
        The text of the progress bar.
    reporter : Reporter
        Receives the failures, at the end.
    aligned : bool
        The results are alignments.
    """
    options, total = writer.options, len(writer.recordings)
    is_seen = options.file is None and options.folder is None and sys.stdout.isatty()
    if is_seen and total == 1:  # nothing is seen until it is done
        with reporter.progress(what, total):
            writer.results = list(writer.results)
    with nullcontext(_nothing) if is_seen else reporter.progress(what, total) as advance:
        if options.folder is not None:
            writer.to_folder(advance)
        else:
            with opened_out(options) as out:
                writer.to_stream(out, aligned, advance)
    for line in [*writer.notes, *map(str, writer.failures)]:
        reporter.warn(line)
    return 0 if not writer.failures else 2 if len(writer.failures) == total else 1


def left_to_do(recordings: Sequence[Recording], options: OutputOptions, reporter: Reporter) -> list[Recording]:
    """Return the recordings to work on; report those left out, and results with unusual names."""
    if options.folder is None:
        return list(recordings)
    left = [each for each in recordings if not (options.skip_existing and _is_done(each, options))]
    if len(left) < len(recordings):
        reporter.note(f"{len(recordings) - len(left)} recordings left out: their results are in {options.folder}")
    stems = Counter(each.path.with_suffix("") for each in recordings)
    if named := [each for each in left if each.name.name == each.path.name and stems[each.path.with_suffix("")] > 1]:
        first = named[0].name.name + WRITERS[options.form].ending
        reporter.note(
            f"the results of {len(named)} recordings keep their endings ({first}), to differ from those of others"
        )
    return left


def _is_done(recording: Recording, options: OutputOptions) -> bool:
    return all(os.path.exists(file) for file in options.files_of(recording).values())


def say_if_uncalibrated(recogniser: Recogniser, options: OutputOptions, reporter: Reporter) -> None:
    """Note that confidences are posteriors, if the model is not calibrated and the format has confidences."""
    if options.forms != ("text",) and not recogniser.calibration.phones:
        reporter.note("not calibrated: confidences are the net's own posteriors; see speechctc calibrate --help")


class _Terminal(io.TextIOBase):
    """Standard output on a terminal: control characters in file names and labels are escaped."""

    def write(self, text: str) -> int:
        return sys.stdout.write(printable(text, keep="\n\t\r"))

    def flush(self) -> None:
        sys.stdout.flush()


@contextmanager
def opened_out(options: OutputOptions) -> Iterator[TextIO]:
    """Open the output file, or standard output if there is none."""
    if options.file is None:
        yield cast(TextIO, _Terminal()) if sys.stdout.isatty() else sys.stdout
        return
    with written.opened(options.file, options.overwrite) as file:
        yield file


def _nothing(steps: int = 1, text: str = "") -> None:
    """Replace a progress bar where the results are seen on the terminal."""
