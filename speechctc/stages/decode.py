"""Decode recordings or standard input: write the phones, or a table of the best sequences with their scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from speechctc.audio import sound_file
from speechctc.audio.annotations import Interval
from speechctc.audio.recordings import Recording, find_recordings, left_out
from speechctc.audio.sound_file import Blocks
from speechctc.core import workers
from speechctc.core.cores import map_in_threads, shared_among, threads
from speechctc.core.errors import InputError, counted_alike
from speechctc.core.progress import Reporter
from speechctc.core.workers import WorkerEnded, on_cluster, shared_recording
from speechctc.corpora.transcripts import (
    Choice,
    Task,
    Transcript,
    TranscriptOrError,
    beside_each,
    in_folder,
    read_transcript,
)
from speechctc.inference.formats import WRITERS, Layout, RecordingName, Writer
from speechctc.inference.output import (
    STDIN,
    OutputOptions,
    ResultWriter,
    Work,
    check_out,
    left_to_do,
    say_if_uncalibrated,
    write_results,
)
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment
from speechctc.inference.streaming import BLOCK_FRAMES, LIVE_FRAMES, LOOKAHEAD
from speechctc.inference.unsure import Doubt


@dataclass(frozen=True)
class LivePhones:
    """The phones of a recording that is being decoded, one by one; see `speechctc.inference.formats.Phones`."""

    segments: Iterator[Segment]
    log_probability: None = None

    def renamed(self, symbols: Mapping[str, str]) -> LivePhones:
        """As `Recognition.renamed`."""
        return replace(self, segments=(segment.renamed(symbols) for segment in self.segments))


def decode(
    recogniser: Recogniser,
    arguments: Sequence[Path],
    options: OutputOptions,
    reporter: Reporter,
    cluster: str | None = None,
    raw_rate: int | None = None,
    doubt: Doubt | None = None,
    work: Work = Work(),  # noqa: B008
    nbest: int = 0,
    inside: Tier | None = None,
) -> int:
    """Decode recordings and write each result when it is ready; return the exit status.

    A single recording, and standard input while it is read, are written phone by phone in the formats that can be. The
    status is 0 if all recordings were decoded, 1 if some failed, 2 if all failed.

    Parameters
    ----------
    recogniser : Recogniser
    arguments : sequence of Path
        Files, folders, patterns; or ``-`` alone: standard input.
    options : OutputOptions
    reporter : Reporter
        Receives the failures, at the end.
    cluster : str, optional
        Address of the scheduler of a Dask cluster that decodes.
    raw_rate : int, optional
        Rate of raw 16-bit little-endian mono samples on standard input, Hz; None: it is a sound file. Only a WAV file
        is decoded while it is read.
    doubt : Doubt, optional
        Counts the phones, or hears the best paths, and its note is given to the reporter.
    work : Work
    nbest : int
        Write a table (``"text"``, ``"tsv"``) or a list (``"json"``) of so many of the best sequences of each recording,
        or of each piece of one that is longer than half a minute; `check_nbest` says for which options. 0: do not.
    inside : Tier, optional
        Recognise only inside the labelled intervals of this tier.

    Raises
    ------
    InputError
        A folder has no recordings, standard input is not sound, the output cannot hold the results, or files that a
        person made or changed would be replaced.
    """
    if list(map(str, arguments)) == ["-"]:
        _check_stdin(options)
        recordings, arguments = [STDIN._replace(channel=work.channel)], ()
    else:
        recordings = find_recordings(arguments, work.channel)
    options = check_out(recordings, options)
    reporter.note(*left_out(arguments))
    empty: list[Path] = []
    if nbest:
        rows = map_in_threads(partial(_rows, recogniser, nbest, options, doubt), recordings, work.jobs)
        found, table = _watched(recordings, rows, empty), _Table(options.form, "")
        status = write_results(ResultWriter(recordings, found, options, table), "decoding", reporter)
    else:
        say_if_uncalibrated(recogniser, options, reporter)
        recordings = left_to_do(recordings, options, reporter)
        opening: AbstractContextManager[Iterator[Any]]
        if inside:
            there = inside.read(recordings, reporter)
            opening = nullcontext(map_in_threads(partial(_inside, recogniser, work, inside.name), there, work.jobs))
        else:
            opening = _results(recogniser, recordings, options, work, cluster, raw_rate, reporter)
        with opening as results:
            found = _watched(recordings, doubt.watched(results) if doubt else results, empty)
            status = write_results(ResultWriter(recordings, found, options), "decoding", reporter)
    why = "nothing was recognised: it may be silence, or only steady or faint sound"
    reporter.warn(*counted_alike([(path, f"{path}: {why}") for path in empty]))
    if doubt and (note := doubt.note()):
        reporter.warn(note)
    return status


class Tier(NamedTuple):
    """A tier of TextGrids or files of ELAN: its name, and where the files are; None: beside the recordings."""

    name: str
    place: Path | None = None

    def read(self, recordings: Sequence[Recording], reporter: Reporter) -> list[Task]:
        """Return the labelled intervals of the tier for each recording, or the error that says why there are none."""
        choice = Choice(self.name, limits=True)
        if self.place and not self.place.is_dir():
            if len(recordings) > 1:
                raise InputError(f"{self.place} is of one recording, and {len(recordings)} are named", "name a folder")
            found: Sequence[TranscriptOrError] = [read_transcript(self.place, recordings[0].path, choice)]
        else:
            found = in_folder(self.place, recordings, choice) if self.place else beside_each(recordings, choice)
        reporter.warn(*dict.fromkeys(each.note for each in found if isinstance(each, Transcript) and each.note))
        return [Task(*pair) for pair in zip(recordings, found, strict=True)]


def _inside(recogniser: Recogniser, work: Work, tier: str, task: Task) -> Recognition:
    """Decode a recording inside the intervals of a tier."""
    if isinstance(task.transcript, InputError):
        raise task.transcript
    intervals = [Interval(each.start, each.end, " ".join(each.labels)) for each in task.transcript.phrases]
    path, channel = task.recording.path, task.recording.channel
    return replace(recogniser.decode_inside(path, intervals, work.alternatives, channel), tier=tier)


def _watched(recordings: Sequence[Recording], results: Iterable[Any], empty: list[Path]) -> Iterator[Any]:
    """Yield results, errors, or lists of rows; add the recordings that have no phones to `empty`."""
    for recording, result in zip(recordings, results, strict=True):
        phones: Iterable[Any] = ()
        if isinstance(result, LivePhones):
            phones = list(islice(result.segments, 1))
            result = replace(result, segments=chain(phones, result.segments))
        elif isinstance(result, Recognition):
            phones = result.segments
        elif isinstance(result, list):
            phones = [row for row in result if row["phones"]]
        if not phones and not isinstance(result, InputError):
            empty.append(recording.path)
        yield result


def _check_stdin(options: OutputOptions) -> None:
    """Check that the options suit standard input."""
    if options.folder is not None:
        raise InputError(
            f"--out {options.folder}: a folder, and standard input gives one file", "name a file: a.TextGrid"
        )
    if WRITERS[options.form].shows_sound:
        raise InputError(
            f"--format {options.form} shows the recording, and standard input is not kept", "save it to a file"
        )
    if options.also:
        raise InputError("several formats at once, and standard input gives one file", "name one format")


def _results(
    recogniser: Recogniser,
    recordings: Sequence[Recording],
    options: OutputOptions,
    work: Work,
    cluster: str | None,
    raw_rate: int | None,
    reporter: Reporter,
) -> AbstractContextManager[Iterator[Any]]:
    """Offer the results in order: while one recording is read, or from this machine's threads, or from a cluster."""
    paths, rate = [recording.path for recording in recordings], recogniser.config.features.sample_rate
    form, (jobs, alternatives, channel, live) = options.form, work
    if paths == [STDIN.path]:
        opening = sound_file.opened_stdin(rate, raw_rate, channel, say=reporter.note)
        return _while_read(recogniser, opening, form, alternatives, LOOKAHEAD if live else None)
    if cluster is not None and paths:
        return decoded_on(cluster, recogniser, paths, alternatives, channel)
    if len(paths) == 1 and options.folder is None and WRITERS[form].is_live:
        opening = sound_file.opened(paths[0], rate, channel)
        return _while_read(recogniser, opening, form, alternatives, None, BLOCK_FRAMES)
    return nullcontext(recogniser.decode_all(paths, jobs, alternatives, channel))


@contextmanager
def _while_read(
    recogniser: Recogniser,
    opening: AbstractContextManager[Blocks],
    form: str,
    alternatives: int,
    lookahead: float | None,
    block_frames: int = LIVE_FRAMES,
) -> Iterator[Iterator[LivePhones | Recognition]]:
    """Offer the result of a recording that is opened; phone by phone if the format can be written so."""
    with opening as blocks:
        segments = recogniser.segments(blocks, alternatives, block_frames, lookahead)
        if WRITERS[form].is_live:
            yield iter([LivePhones(segments)])
        else:
            yield (_complete(segments, blocks) for _ in range(1))


def _complete(segments: Iterator[Segment], blocks: Blocks) -> Recognition:
    phones = tuple(segments)  # first: the length is known at the end
    return Recognition(str(STDIN.path), blocks.seconds, phones)


@contextmanager
def decoded_on(
    address: str, recogniser: Recogniser, paths: Sequence[Path], alternatives: int = 0, channel: int | None = None
) -> Iterator[Iterator[Recognition | InputError]]:
    """Offer the result of each recording, in order, or the error of one that cannot be decoded.

    Parameters
    ----------
    address : str
        Of the scheduler: ``tcp://host:8786``.
    recogniser : Recogniser
        On the CPU; each worker gets a copy.
    paths : sequence of Path
        Relative ones from the working folder, which has the same path on each worker.
    alternatives, channel
        As for `Recogniser.decode`.

    Raises
    ------
    InputError
        As `on_cluster`; or a recording is not on a worker.
    """
    work = partial(_decode_shared, Path.cwd(), alternatives, channel)
    try:
        with on_cluster(address, work, paths, versions, shared=recogniser) as results:
            yield results
    except WorkerEnded:
        raise InputError(
            "a worker was ended from outside", "run it again with --skip-existing, when the cluster is up"
        ) from None


def _decode_shared(
    folder: Path, alternatives: int, channel: int | None, recogniser: Recogniser, given: Path
) -> Recognition | InputError:
    """Decode on another machine, which has the recordings under the same path; relative ones from `folder`."""
    path = shared_recording(folder, given, "recordings")
    try:
        with shared_among(threads()):
            result = recogniser.decode(path, alternatives=alternatives, channel=channel)
    except InputError as error:
        return InputError(error.what.replace(str(path), str(given)), error.fix)
    return replace(result, file=str(given))


def versions() -> dict[str, str]:
    """Return what must be alike on all machines for their results to be."""
    return {**workers.versions(), "numba": version("numba")}


COLUMNS = ("file", "start", "rank", "total", "acoustic", "lm", "phones")
FORMATS = ("text", "tsv", "json")

Row = dict[str, Any]


def check_nbest(arguments: Sequence[Path], options: OutputOptions, work: Work) -> None:
    """Check that the options suit a table of sequences.

    Raises
    ------
    InputError
        Another format, a folder for the results, alternatives, or standard input.
    """
    if options.form not in FORMATS:
        raise InputError(f"--nbest does not write the format {options.form}", f"choose one of {' '.join(FORMATS)}")
    if options.folder is not None:
        raise InputError("--nbest writes one table, not a folder", f"name a file: --out {options.folder}/nbest.tsv")
    if work.alternatives:
        raise InputError(
            "--alternatives is for single phones, and --nbest for whole sequences", "leave one of them out"
        )
    if any(str(argument) == "-" for argument in arguments):
        raise InputError("--nbest does not read standard input", "name a file")


class _Table(Writer):
    """A list as JSON, or a table with a line for each sequence."""

    def write(
        self,
        results: Iterable[tuple[RecordingName, Any]],
        out: TextIO,
        layout: Layout = Layout(),  # noqa: B008
    ) -> None:
        """Write the rows of all recordings, those of a table as soon as they are known."""
        rows: Iterator[Row] = (row for _, rows in results for row in rows)
        if self.name == "json":
            entries = [{**row, "phones": row["phones"].split()} for row in rows]
            out.write(json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
            return
        out.write("\t".join(COLUMNS) + "\n")
        for row in rows:
            out.write("\t".join(map(str, row.values())) + "\n")


def _rows(
    recogniser: Recogniser, count: int, options: OutputOptions, doubt: Doubt | None, recording: Recording
) -> list[Row]:
    (name,) = options.names([recording])
    rows = []
    watch = doubt.hear if doubt else None
    for each in recogniser.nbest(recording.path, count, channel=recording.channel, watch=watch):
        scores = (round(value, 4) for value in (each.total, each.acoustic, each.lm))
        values = (name.file, round(each.start, 4), each.rank, *scores, " ".join(each.phones))
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows
