"""Results of many recordings: each written when it is ready, failures reported last."""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TextIO, cast

from speechctc.audio import sound_file
from speechctc.audio.channels import channels_differ
from speechctc.audio.recordings import Recording
from speechctc.errors import InputError, printable
from speechctc.inference.formats import ENDINGS, Source, whole, write_stream
from speechctc.inference.output import Wanted
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition
from speechctc.progress import Advance, Reporter
from speechctc.storage import written

MOST_HINTS = 3  # recordings whose channels are said to differ


class Delivery:
    """Recordings and their results, in their order, with what is to be told when all are done.

    Parameters
    ----------
    recordings : sequence of Recording
    results : iterable of Recognition or InputError
    wanted : Wanted
        Checked by `check_out` before the work began.
    """

    def __init__(
        self, recordings: Sequence[Recording], results: Iterable[Recognition | InputError], wanted: Wanted
    ) -> None:
        self.recordings, self.results, self.wanted = recordings, results, wanted
        self.notes: list[str] = []
        self.failures: list[InputError] = []
        self._hints = 0

    def to_stream(self, out: TextIO, aligned: bool, advance: Advance) -> None:
        """Write all to one stream."""
        results = ((source, result) for _, source, result in self._good(advance))
        write_stream(results, self.wanted.form, out, len(self.recordings) > 1, aligned)

    def to_folder(self, advance: Advance) -> None:
        """Write a file for each recording; one that was changed meanwhile is kept, and counts as a failure."""
        for recording, source, result in self._good(advance):
            text = whole(self.wanted.form, source, result)
            try:
                written.write_text(self.wanted.file_of(recording), text, self.wanted.overwrite)
            except InputError as error:
                self.failures.append(error)

    def _good(self, advance: Advance) -> Iterator[tuple[Recording, Source, Recognition]]:
        """Yield what did not fail, and note what did, or what was read only as far as it goes."""
        sources = self.wanted.sources(self.recordings)
        for recording, source, result in zip(self.recordings, sources, self.results, strict=True):
            if isinstance(result, InputError):
                self.failures.append(result)
            else:
                self.notes += [
                    note for note in (sound_file.cut_short(recording.path), self._hint(recording.path)) if note
                ]
                yield recording, source, result
            advance(1)

    def _hint(self, path: Path) -> str:
        hint = channel_hint(path, self.wanted) if self._hints < MOST_HINTS else ""
        self._hints += bool(hint)
        return hint + (
            " (further recordings were not looked at for this)" if hint and self._hints == MOST_HINTS else ""
        )


def deliver(delivery: Delivery, what: str, reporter: Reporter, aligned: bool = False) -> int:
    """Write the results of recordings; return the exit status: 0, 1 if some failed, 2 if all did.

    Parameters
    ----------
    delivery : Delivery
    what : str
        What is being done, for the progress bar.
    reporter : Reporter
        Hears of the failures, at the end.
    aligned : bool
        The results are alignments.
    """
    wanted, total = delivery.wanted, len(delivery.recordings)
    is_seen = wanted.file is None and wanted.folder is None and sys.stdout.isatty()
    with nullcontext(_nothing) if is_seen else reporter.progress(what, total) as advance:
        if wanted.folder is not None:
            delivery.to_folder(advance)
        else:
            with opened_out(wanted) as out:
                delivery.to_stream(out, aligned, advance)
    for line in [*delivery.notes, *map(str, delivery.failures)]:
        reporter.warn(line)
    return 0 if not delivery.failures else 2 if len(delivery.failures) == total else 1


def to_do(recordings: Sequence[Recording], wanted: Wanted, reporter: Reporter) -> list[Recording]:
    """Return the recordings to work on; say which are left out, and which results have unusual names."""
    if wanted.folder is None:
        return list(recordings)
    left = [each for each in recordings if not (wanted.skip_existing and wanted.file_of(each).exists())]
    if len(left) < len(recordings):
        reporter.note(f"{len(recordings) - len(left)} recordings left out: their results are in {wanted.folder}")
    stems = Counter(each.path.with_suffix("") for each in recordings)
    if named := [each for each in left if each.name.name == each.path.name and stems[each.path.with_suffix("")] > 1]:
        first = named[0].name.name + ENDINGS[wanted.form]
        reporter.note(
            f"the results of {len(named)} recordings are named with the ending, as {first}: others share theirs"
        )
    return left


def say_if_uncalibrated(recogniser: Recogniser, wanted: Wanted, reporter: Reporter) -> None:
    """Tell those who are about to read confidences what they are not."""
    if wanted.form != "text" and not recogniser.calibration.phones:
        reporter.note("not calibrated: confidences are the net's own posteriors; see speechctc calibrate --help")


def channel_hint(path: Path, wanted: Wanted) -> str:
    """Say that the mean of a recording's channels mixes different sounds; ``""`` if it does not."""
    if wanted.channel is not None or not channels_differ(path):
        return ""
    return f"{path}: its channels hold different sounds, which were mixed; --channel 1 reads the first alone"


class _Terminal(io.TextIOBase):
    """Standard output where it is a terminal: what file names and labels hold does not move its cursor."""

    def write(self, text: str) -> int:
        return sys.stdout.write(printable(text, keep="\n\t\r"))

    def flush(self) -> None:
        sys.stdout.flush()


@contextmanager
def opened_out(wanted: Wanted) -> Iterator[TextIO]:
    """Open the file to write to; standard output if there is none."""
    if wanted.file is None:
        yield cast(TextIO, _Terminal()) if sys.stdout.isatty() else sys.stdout
        return
    with written.opened(wanted.file, wanted.overwrite) as file:
        yield file


def _nothing(steps: int = 1, text: str = "") -> None:
    """Stand in for a progress bar where results themselves show progress."""
