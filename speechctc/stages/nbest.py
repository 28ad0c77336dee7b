"""Decode recordings into a table of the best sequences of phones, with their scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from speechctc.audio import sound_file
from speechctc.audio.recordings import Recording, find_recordings, left_out
from speechctc.errors import InputError
from speechctc.inference.batch_decode import map_in_threads
from speechctc.inference.nbest import nbest
from speechctc.inference.output import OutputOptions, check_out
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.writer import channel_hint, opened_out
from speechctc.progress import Advance, Reporter

COLUMNS = ("file", "start", "rank", "total", "acoustic", "lm", "phones")
FORMATS = ("text", "tsv", "json")

Row = dict[str, Any]


def decode_nbest(
    recogniser: Recogniser, arguments: Sequence[Path], count: int, options: OutputOptions, reporter: Reporter
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

    Raises
    ------
    InputError
        A folder has no recordings; the output cannot hold the table; a file that a person made or changed would be
        replaced.
    """
    check_nbest(arguments, options)
    recordings = find_recordings(arguments)
    check_out(recordings, options)
    for line in left_out(arguments):
        reporter.note(line)
    failures: list[InputError] = []
    notes: list[str] = []
    results = map_in_threads(partial(_rows, recogniser, count, options), recordings, options.jobs)

    def rows(advance: Advance) -> Iterator[Row]:
        for recording, result in zip(recordings, results, strict=True):
            advance(1)
            if isinstance(result, InputError):
                failures.append(result)
            else:
                hint = "" if recording.channel else channel_hint(recording.path, options)
                notes.extend(note for note in (sound_file.cut_short(recording.path), hint) if note)
                yield from result

    with opened_out(options) as file, reporter.progress("decoding", len(recordings)) as advance:
        _write(rows(advance), options.form, file)
    for line in [*notes, *map(str, failures)]:
        reporter.warn(line)
    return 0 if not failures else 2 if len(failures) == len(recordings) else 1


def check_nbest(arguments: Sequence[Path], options: OutputOptions) -> None:
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
    if options.alternatives:
        raise InputError(
            "--alternatives is for single phones, and --nbest for whole sequences", "leave one of them out"
        )
    if any(str(argument) == "-" for argument in arguments):
        raise InputError("--nbest does not read standard input", "name a file")


def _write(rows: Iterable[Row], form: str, file: TextIO) -> None:
    """Write a list as JSON, or each row as a line of a table as soon as it is known."""
    if form == "json":
        entries = [{**row, "phones": row["phones"].split()} for row in rows]
        file.write(json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
        return
    file.write("\t".join(COLUMNS) + "\n")
    for row in rows:
        file.write("\t".join(map(str, row.values())) + "\n")


def _rows(recogniser: Recogniser, count: int, options: OutputOptions, recording: Recording) -> list[Row]:
    (source,) = options.sources([recording])
    rows = []
    for start, ranked in nbest(recogniser, recording.path, recording.channel or options.channel):
        for rank, each in enumerate(ranked[:count], start=1):
            scores = (round(value, 4) for value in (each.total, each.acoustic, each.lm))
            phones = " ".join(recogniser.inventory.decode(each.labels))
            rows.append(dict(zip(COLUMNS, (source.file, round(start, 4), rank, *scores, phones), strict=True)))
    return rows
