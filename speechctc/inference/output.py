"""Output: the options of a command, checked before any work; results written when they are ready; failures last."""

from __future__ import annotations

import errno
import io
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, cast

from speechctc.audio import sound_file
from speechctc.audio.dereverberation import TAKEN
from speechctc.audio.recordings import Recording, Siblings, ids, names_of
from speechctc.audio.sound_file import channels_differ
from speechctc.audio.tracks import Channel, number_of
from speechctc.core import links, written
from speechctc.core.errors import FULL, InputError, as_utf8, counted_alike, first_few, plural, printable
from speechctc.core.files import is_folder, is_special, named
from speechctc.core.parallel import WAIT_SECONDS
from speechctc.core.progress import Advance, Reporter
from speechctc.inference.decoder import Decoder
from speechctc.inference.formats import WRITERS, Kept, Layout, RecordingName, Writer

if TYPE_CHECKING:
    from speechctc.inference.manifest import Manifest


class Work(NamedTuple):
    """What is computed of recordings.

    Attributes
    ----------
    jobs : int
        Number of recordings to work on at a time; 0: the number of torch's threads.
    alternatives : int
        Number of other phones to name for each phone, in JSON and TextGrid.
    channel : int or Track, optional
        The channel to read, from 1, of recordings for which no table names one; None: the mean of all.
    live : bool
        Recognise standard input as `Recogniser.stream` does: phones come at once, and a few are others.
    raw_rate : int, optional
        Rate of raw 16-bit little-endian mono samples on standard input, Hz; None: it is a sound file. Only a WAV file
        is decoded while it is read.
    folder_cmn : bool
        Expect the common mean of the recordings of a folder in each of them; see `Decoder.centred_on`.
    cluster : str, optional
        The scheduler of a Dask cluster whose workers do it, ``tcp://host:8786``; None: the threads of this machine.
    cluster_wait : float
        Seconds without a worker after which the command ends.
    time_limit : float, optional
        Seconds that a recording may take.
    """

    jobs: int = 0
    alternatives: int = 0
    channel: Channel | None = None
    live: bool = False
    raw_rate: int | None = None
    folder_cmn: bool = False
    cluster: str | None = None
    cluster_wait: float = WAIT_SECONDS
    time_limit: float | None = None


@dataclass(frozen=True)
class OutputOptions:
    """How results are written.

    Attributes
    ----------
    form : str
        A name in `speechctc.inference.formats.WRITERS`.
    file : Path, optional
        One file for all results.
    folder : Path, optional
        A folder with one file for each recording. Without `file` and `folder`, results go to standard output.
    overwrite : bool
        Also replace files that a person made or changed.
    skip_existing : bool
        Skip recordings whose files in `folder` all exist.
    skip_changed : bool
        Skip recordings whose files in `folder` were all made or changed by a person; write the others again.
    also : tuple of str
        More formats, each with its own file in `folder`.
    symbols : mapping of str to str
        How phones are written; those that are not in it as the model names them.
    notation : str
        The name of `symbols`, as ``--symbols`` has it.
    scored : bool
        How well each phone was said is written too.
    spelled : mapping of Path to Path
        The files in `folder` that are there under another spelling; see `as_there`.
    manifest : Manifest, optional
        Gets a line for each recording.
    """

    form: str = "text"
    file: Path | None = None
    folder: Path | None = None
    overwrite: bool = False
    skip_existing: bool = False
    skip_changed: bool = False
    also: tuple[str, ...] = ()
    symbols: Mapping[str, str] = field(default_factory=dict)
    scored: bool = False
    notation: str = "own"
    spelled: Mapping[Path, Path] = field(default_factory=dict)
    manifest: Manifest | None = None

    @property
    def forms(self) -> tuple[str, ...]:
        """All formats that are written."""
        return (self.form, *self.also)

    def files_of(self, recording: Recording) -> dict[str, Path]:
        """Return the file in `folder` for a recording's results in each format."""
        assert self.folder is not None
        name = os.path.join(self.folder, recording.name)
        files = {form: Path(f"{name}{WRITERS[form].ending}") for form in self.forms}
        return {form: self.spelled.get(file, file) for form, file in files.items()} if self.spelled else files

    def keeps(self, file: Path) -> bool:
        """Return whether a file in `folder` is there and stays as it is."""
        return (self.skip_existing and os.path.exists(file)) or (self.skip_changed and bool(written.changed([file])))

    def is_done(self, recording: Recording) -> bool:
        """Return whether the manifest says that nothing is to be done of a recording."""
        return self.manifest is not None and self.manifest.is_done(recording)

    def as_there(self, recordings: Sequence[Recording]) -> OutputOptions:
        """Return the options with the results that are in `folder` under a name that readers take for theirs.

        It may differ by letter case or Unicode form, as `Siblings` finds it; another file beside it would hide it.
        """
        siblings, plain, named = Siblings(), replace(self, spelled={}), defaultdict[Path, list[str]](list)
        if self.folder is None or not self.folder.exists():
            return plain
        spelled: dict[Path, Path] = {}
        for recording in recordings:
            named[recording.name.parent].append(recording.name.name + recording.path.suffix)
        others = {folder: names_of(names) for folder, names in named.items()}
        for recording in (each for each in recordings if each.path.suffix):
            for form, file in plain.files_of(recording).items():
                beside = file.with_name(recording.name.name + recording.path.suffix)
                found = siblings.find(beside, [WRITERS[form].ending.lower()], others[recording.name.parent])
                spelled |= {file: found} if found else {}
        return replace(plain, spelled=spelled)

    def names(self, recordings: Sequence[Recording]) -> list[RecordingName]:
        """Return the names of the recordings in the results; bytes that are not UTF-8 become U+FFFD."""
        named = zip(recordings, ids(recordings), strict=True)
        return [
            RecordingName(as_utf8(each.place), as_utf8(id), each.channel, as_utf8(each.speaker)) for each, id in named
        ]


def choose_output(form: str | None, out: str | None) -> tuple[str, Path | None, Path | None]:
    """Return the format, and the file or the folder, from ``--format`` and ``--out``.

    The ending of a file decides the format. A name is a folder if it exists as one, ends in a slash, or has no ending.

    Raises
    ------
    InputError
        The ending belongs to another format, or to none and `form` is None.
    """
    if out is None:
        return form or "text", None, None
    path, ending = Path(out), Path(out).suffix
    if is_folder(out):
        return form or "text", None, path
    if path.exists() and not path.is_file():  # a device or a pipe
        return form or "text", path, None
    meant = _format_of(path.name)
    if meant is None and form is None:
        known = " ".join(writer.ending for writer in WRITERS.values())
        fix = f"end a file in one of {known}, or give --format; end a folder's name in a slash: {out}/"
        raise InputError(f"--out {out}: no format has the ending {ending}", fix)
    if meant is not None and form not in (None, meant) and not _may_end_in(form, ending):
        raise InputError(f"--out {out} is a file of format {meant}, and --format says {form}", "leave one of them out")
    return form or meant or "text", path, None


def parse_formats(given: Sequence[str] | None) -> tuple[str | None, tuple[str, ...]]:
    """Return the first format of ``--format`` and the others: names separated by commas, or given several times.

    Raises
    ------
    InputError
        There is no format of that name.
    """
    names = [name.strip().lower() for text in given or () for name in text.split(",")]
    for name in names:
        if name not in WRITERS:
            raise InputError(f"--format {name}: there is no such format", f"choose from: {', '.join(WRITERS)}")
    forms = tuple(dict.fromkeys(names))
    return (forms[0] if forms else None), forms[1:]


def _format_of(name: str) -> str | None:
    """Return the format of a file by the longest ending that its name has."""
    fits = [writer for writer in WRITERS.values() if name.lower().endswith(writer.ending.lower())]
    return max(fits, key=lambda writer: len(writer.ending)).name if fits else None


def _may_end_in(form: str | None, ending: str) -> bool:
    """Return whether files of a format have this ending, after another sign: labels of Audacity end in .txt."""
    return form is not None and WRITERS[form].ending.lower().endswith(ending.lower())


def check_out(
    recordings: Sequence[Recording],
    options: OutputOptions,
    given: Callable[[Recording], str] = lambda recording: "",
) -> OutputOptions:
    """Check before any work that each result can be written; return the options with the results that are there.

    The manifest is opened; `given` is as for `Manifest.begin`.

    Raises
    ------
    InputError
        Several TextGrids for one file, two results of the same name, a folder without permission to write, files that
        a person made or changed, or links below the folder.
    """
    for form in options.forms:
        WRITERS[form].check()
    if options.folder is None:
        _check_one(recordings, options)
        if options.manifest:
            options.manifest.begin(recordings, given, None)
        return options
    if options.skip_changed and options.overwrite:
        raise InputError("--skip-changed keeps what --overwrite replaces", "give one of them")
    folder, options = options.folder, options.as_there(recordings)
    owner: dict[Path, Recording] = {}
    for recording, file in ((each, file) for each in recordings for file in options.files_of(each).values()):
        other = owner.setdefault(file, recording)
        if other is not recording and other.source != recording.source:
            fix = "name the folder above them, whose structure is kept, or do one at a time"
            if other.path.parent == recording.path.parent:
                fix = "rename one of them, or do one at a time"
            if other.path == recording.path:
                fix = "give the rows ids that are different file names"
            raise InputError(f"both {other.source} and {recording.source} would be written to {file}", fix)
    check_folder(folder)
    _check_letter_case(owner, folder)
    _check_owners(owner)
    for below in {each.name.parent for each in recordings}:
        links.refuse_links_below(folder, below)
    if odd := next((file for file in owner if is_special(file)), None):
        raise InputError(f"{odd}: a pipe or a device, where a file is to be written", "name another folder")
    if options.manifest:
        options.manifest.begin(recordings, given, lambda recording: options.files_of(recording).values())
    if not (options.skip_existing or options.skip_changed):
        advice = ", or --skip-changed to do only the others" if len(recordings) > 1 else ""
        left = [file for file, recording in owner.items() if not options.is_done(recording)]
        written.refuse_changed(left, options.overwrite, advice)
    return options


def _check_one(recordings: Sequence[Recording], options: OutputOptions) -> None:
    """Check that all results can be written to one file or to standard output."""
    if options.also:
        what = f"{len(options.forms)} formats at once are for a folder, with a file for each"
        raise InputError(what, "name a folder with --out FOLDER/")
    if WRITERS[options.form].holds_one and len(recordings) > 1:
        kind = "TextGrids" if options.form == "textgrid" else f"results in the format {options.form}"
        reason = WRITERS[options.form].reason
        what = f"{len(recordings)} {kind} do not go into one file" + (f": {reason}" if reason else "")
        raise InputError(what, "name a folder with --out FOLDER")
    if not WRITERS[options.form].is_text and options.file is None and sys.stdout.isatty():
        raise InputError(f"--format {options.form} is not text, which a terminal shows", "name a file with --out")
    if options.skip_existing or options.skip_changed:
        skip = "--skip-existing" if options.skip_existing else "--skip-changed"
        raise InputError(f"{skip} is for a file for each recording", "name a folder with --out FOLDER")
    if options.file is not None:
        refuse_input(options.file, (each.path for each in recordings))
        check_place(options.file, options.overwrite)


def _check_owners(owner: Mapping[Path, Recording]) -> None:
    """Check that readers would take no result for that of another recording, beside it or beside its own."""
    siblings = Siblings()
    for file, recording in owner.items():
        if recording.name.name == recording.path.name and recording.path.suffix:
            labels = f"{recording.name.name}.TextGrid"
            for taker in map(siblings.recording_of, (file.with_name(labels), recording.path.with_name(labels))):
                if taker is not None and taker.name != recording.path.name:
                    what = f"{recording.path}: its result {file} would be taken for that of {taker}"
                    raise InputError(what, "rename one of the recordings")


def _check_letter_case(owner: Mapping[Path, Recording], folder: Path) -> None:
    """Check that no two results have names that are one name where they are written."""
    spelled: dict[str, Path] = {}
    for file, recording in owner.items():
        other = spelled.setdefault(str(file).casefold(), file)
        if other != file and ignores_letter_case(_existing(folder)):
            both = f"{owner[other].source} and {recording.source}"
            what = f"the results of {both}, {other.name} and {file.name}, are one file there"
            raise InputError(what, f"write to a folder whose file system knows letter case; {folder} does not")


def ignores_letter_case(folder: Path) -> bool:
    """Return whether names that differ by letter case are one name in a folder; it is tried with an empty file."""
    with tempfile.NamedTemporaryFile(prefix=".speechctc-a-", suffix="-a", dir=folder) as file:
        return Path(file.name).with_name(Path(file.name).name.upper()).exists()


def _existing(folder: Path) -> Path:
    """Return a folder, or the nearest above it that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def refuse_input(file: Path, read: Iterable[Path]) -> None:
    """Refuse to write, even with ``--overwrite``, to a file that the same command reads."""
    if file.exists() and any(file.samefile(each) for each in read if each.exists()):
        raise InputError(f"{file}: this command reads it, and would write its results over it", "name another file")


def check_place(file: Path | None, overwrite: bool = False) -> None:
    """Check that a file can be written, and that no work of a person is lost; None: no file.

    Raises
    ------
    InputError
        There is no permission to write in its folder, or a person made or changed the file.
    """
    if file is not None:
        check_folder(file.parent)
        written.refuse_changed([file], overwrite)


def check_folder(folder: Path) -> None:
    """Check that files can be created in a folder, which need not exist.

    Raises
    ------
    InputError
        A file is in its place, or there is no permission.
    """
    there = _existing(folder)
    if not there.is_dir():
        raise InputError(f"{there}: a file, where a folder is needed", "name another place with --out")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{there}: no permission to write there", "name another place, or change its permissions")


MAX_HINTS = 3  # recordings to report as having different sounds in their channels


STDIN = Recording(Path("-"), Path("-"))


class ResultWriter:
    """Recordings and their results in the same order; collects the failures and notes.

    Parameters
    ----------
    recordings : sequence of Recording
    results : iterable of Recognition or InputError
        In a live format, also `speechctc.inference.formats.Phones`.
    options : OutputOptions
        Of `check_out`.
    writers : mapping of str to Writer, optional
        Those that write the results, by the names of their formats.
    """

    def __init__(
        self,
        recordings: Sequence[Recording],
        results: Iterable[Any],
        options: OutputOptions,
        writers: Mapping[str, Writer] = WRITERS,
    ) -> None:
        self.recordings, self.results, self.options = recordings, results, options
        self.writers, self.writer = writers, writers[options.form]
        self.notes: list[str] = []
        self.failures: list[tuple[Path | str, str]] = []
        self.rooms: list[str] = []  # recordings that were dereverberated
        self.made = 0  # files in a folder
        self._hints = 0
        self._notes: list[str] = []  # on the last recording

    def to_stream(self, aligned: bool, advance: Advance) -> None:
        """Write all results to one stream; no file is made where all recordings failed."""
        writer, options = self.writer, self.options
        every = options.manifest.recordings if options.manifest else self.recordings
        layout = Layout(len(every) > 1, aligned, options.file, options.scored)
        results = self._rows(layout, advance) if options.manifest else self._named(advance)
        first = list(islice(results, 1))
        if not first and options.file is not None and not is_special(options.file):
            return
        with opened_out(options) as out:
            writer.write(chain(first, results), out, layout)

    def _named(self, advance: Advance) -> Iterator[tuple[RecordingName, Any]]:
        return ((name, result) for _, name, result in self._successes(advance))

    def _rows(self, layout: Layout, advance: Advance) -> Iterator[tuple[RecordingName, Any]]:
        """Yield all results in order: those that are done from the manifest, which gets the others."""
        manifest, news = self.options.manifest, self._successes(advance)
        assert manifest is not None
        names, new = self.options.names(manifest.recordings), next(news, None)
        for recording, name in zip(manifest.recordings, names, strict=True):
            if manifest.is_done(recording):
                yield name, manifest.kept(recording)
            elif new is not None and new[0] is recording:
                result = new[2]
                if self.writer.is_kept:
                    result = Kept("".join(self.writer.pieces(name, result, layout)))
                self._keep(recording, new[2], rows=result.text if self.writer.is_kept else None)
                yield name, result
                new = next(news, None)

    def to_folder(self, advance: Advance) -> None:
        """Write a file for each recording and format.

        A file that a person changed meanwhile is kept, and counts as a failure. So does a recording that cannot be
        written in a format, or whose name is too long with the ending of one.
        """
        for recording, name, result in self._successes(advance):
            outputs: dict[Path, bytes] = {}
            try:
                for form, file in self.options.files_of(recording).items():
                    if not self.options.keeps(file):
                        outputs[file] = self.writers[form].content(name, result, file)
                        written.write_bytes(file, outputs[file], self.options.overwrite)
                        self.made += 1
                self._keep(recording, result, outputs=outputs)
            except InputError as error:
                self._fail(recording, str(error))
            except OSError as error:
                if error.errno != errno.ENAMETOOLONG:
                    raise
                what = f"{recording.path}: left out: its name is too long for a file of results"
                self._fail(recording, f"{what}; rename it")

    def _successes(self, advance: Advance) -> Iterator[tuple[Recording, RecordingName, Any]]:
        """Yield the results; collect the failures, and notes on how recordings are read, and on odd channels."""
        names = self.options.names(self.recordings)
        for recording, name, result in zip(self.recordings, names, self.results, strict=True):
            if isinstance(result, InputError):
                self._fail(recording, str(result))
            else:
                self._notes = []
                if recording.address and getattr(result, "note", ""):
                    result = replace(result, note=recording.told(result.note))
                if recording.path != STDIN.path:
                    remark = sound_file.remark(recording.path, recording.channel)
                    self._notes += map(recording.told, filter(None, (remark, self._hint(recording))))
                self.notes += self._notes
                yield recording, name, result.renamed(self.options.symbols) if self.options.symbols else result
                if getattr(result, "is_dereverberated", False):  # what is measured is not
                    self.rooms.append(recording.place)
            advance(1)

    def _fail(self, recording: Recording, error: str) -> None:
        """Keep why a recording has no results."""
        error = recording.told(error)
        self.failures.append((recording.place, error))
        if self.options.manifest:
            self.options.manifest.add(recording, error=error)

    def _keep(
        self, recording: Recording, result: Any, outputs: Mapping[Path, bytes] | None = None, rows: str | None = None
    ) -> None:
        """Add a recording that has results to the manifest."""
        if self.options.manifest:
            warnings = [*self._notes, *filter(None, [getattr(result, "note", "")])]
            seconds = getattr(result, "seconds", None)
            self.options.manifest.add(recording, outputs, rows, seconds, warnings)

    def _hint(self, recording: Recording) -> str:
        is_mean = number_of(recording.channel) is None and self._hints < MAX_HINTS
        is_mixed = is_mean and channels_differ(recording.path, recording.channel)
        self._hints += is_mixed
        what = "its channels hold different sounds, which were mixed; --channel 1 reads the first alone"
        last = " (not checked in further recordings)" if self._hints == MAX_HINTS else ""
        return f"{recording.path}: {what}{last}" if is_mixed else ""


def write_results(writer: ResultWriter, what: str, reporter: Reporter, aligned: bool = False) -> int:
    """Write the results of recordings; return the exit status: 0, 1 if some failed, 2 if all failed.

    Those that are done by the manifest count as recordings that did not fail.

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
    with reporter.progress(what, 0 if is_seen else total) as step:  # of no steps, none is shown

        def advance(steps: int) -> None:
            reporter.failed = len(writer.failures)
            step(steps)

        if options.folder is not None:
            writer.to_folder(advance)
        else:
            writer.to_stream(aligned, advance)
    n_done = len(options.manifest.done) if options.manifest else 0
    failed, is_error = counted_alike(writer.failures), 0 < total == len(writer.failures) and not n_done
    reporter.warn(*writer.notes)
    if failed and not is_error:
        reporter.note(f"{len(writer.failures):,} of {total + n_done:,} recordings failed:")
        reporter.warn(*failed)
    reporter.note(*(f"speechctc: {each}" for each in failed if is_error))  # as the command line says errors
    reporter.note(*counted_alike([(each, f"{each}: {TAKEN}; --dereverb never leaves it") for each in writer.rooms]))
    if writer.made:
        reporter.note(f"wrote {plural(writer.made, 'file')} into {options.folder}")
    elif options.file is not None and not is_special(options.file) and not is_error:
        reporter.note(f"wrote {options.file}")
    return 0 if not failed else 2 if is_error else 1


def left_to_do(recordings: Sequence[Recording], options: OutputOptions, reporter: Reporter) -> list[Recording]:
    """Return the recordings to work on; report those left out, and results with unusual names."""
    if options.manifest:
        reporter.note(*options.manifest.notes())
        recordings = [each for each in recordings if not options.is_done(each)]
    if options.folder is None:
        return list(recordings)
    left = list(recordings)
    if options.skip_existing or options.skip_changed:
        left = [each for each in recordings if not all(map(options.keeps, options.files_of(each).values()))]
    if len(left) < len(recordings):
        why = "are" if options.skip_existing else "were made or changed by hand"
        reporter.note(f"{plural(len(recordings) - len(left), 'recording')} left out: results {why} in {options.folder}")
        out = set(recordings) - set(left)
        files = [file for each in recordings if each in out for file in options.files_of(each).values()]
        if empty := list(map(str, written.changed([file for file in files if not os.path.getsize(file)]))):
            are = f"{plural(len(empty), 'file')} of these, with nothing in {'it' if len(empty) == 1 else 'them'}"
            reporter.warn(f"{are}: {first_few(empty, 3)}; without such a file its recording is done again")
    whole = [each for each in left if each.name.name == each.path.name]
    stems = Counter(each.path.with_suffix("") for each in recordings) if whole else Counter[Path]()
    if named := [each for each in whole if stems[each.path.with_suffix("")] > 1]:
        first = named[0].name.name + WRITERS[options.form].ending
        kept = f"the results of {plural(len(named), 'recording')} keep their endings ({first})"
        reporter.note(f"{kept}, to differ from those of others")
    return left


def note_if_uncalibrated(recogniser: Decoder, options: OutputOptions, reporter: Reporter) -> None:
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
        with named(Path("standard output"), FULL):
            yield cast(TextIO, _Terminal()) if sys.stdout.isatty() else sys.stdout
            sys.stdout.flush()
        return
    with written.opened(options.file, options.overwrite) as file:
        yield file
