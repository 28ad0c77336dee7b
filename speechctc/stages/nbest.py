"""Decode recordings into a table of the best sequences of phones, with their scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from speechctc.audio.recordings import Recording, find_recordings, left_out
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.inference.batch_decode import map_in_threads
from speechctc.inference.formats import Layout, RecordingName, Writer
from speechctc.inference.output import OutputOptions, Work, check_out
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.unsure import Doubt
from speechctc.inference.writer import ResultWriter, write_results

COLUMNS = ("file", "start", "rank", "total", "acoustic", "lm", "phones")
FORMATS = ("text", "tsv", "json")

Row = dict[str, Any]


def decode_nbest(
    recogniser: Recogniser,
    arguments: Sequence[Path],
    count: int,
    options: OutputOptions,
    reporter: Reporter,
    doubt: Doubt | None = None,
    work: Work = Work(),  # noqa: B008
) -> int:
    """Write a table of the best sequences; return the exit status: 0, 1 if some recordings failed, 2 if all failed.

    Parameters
    ----------
    recogniser : Recogniser
    arguments : sequence of Path
        Files, folders, patterns.
    count : int
        Number of sequences for each recording, or for each piece of one that is longer than half a minute.
    options : OutputOptions
        ``"text"`` and ``"tsv"`` give a table with a header, ``"json"`` a list.
    reporter : Reporter
        Receives the failures, at the end.
    doubt : Doubt, optional
        Hears the best paths, and its note is given to the reporter.
    work : Work

    Raises
    ------
    InputError
        A folder has no recordings; the output cannot hold the table; a file that a person made or changed would be
        replaced.
    """
    check_nbest(arguments, options, work)
    recordings = find_recordings(arguments, work.channel)
    check_out(recordings, options)
    for line in left_out(arguments):
        reporter.note(line)
    results = map_in_threads(partial(_rows, recogniser, count, options, doubt), recordings, work.jobs)
    writer = ResultWriter(recordings, results, options, _Table(options.form, ""))
    status = write_results(writer, "decoding", reporter)
    if doubt and (note := doubt.note()):
        reporter.warn(note)
    return status


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
