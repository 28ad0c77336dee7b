"""The decoding stage with several answers: the best sequences of phones of each recording, and their scores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from speechctc.errors import InputError
from speechctc.progress import Reporter
from speechctc.recognition.many import in_order
from speechctc.recognition.recogniser import Recogniser
from speechctc.recognition.recordings import find_recordings
from speechctc.recognition.results import opened_out

COLUMNS = ("file", "start", "rank", "total", "acoustic", "lm", "phones")


def decode_nbest(
    recogniser: Recogniser, arguments: Sequence[Path], count: int, form: str, out: Path | None, reporter: Reporter
) -> int:
    """Write a table of the best sequences; return the exit status: 0, 1 if some recordings failed, 2 if all did.

    Parameters
    ----------
    recogniser : Recogniser
    arguments : sequence of Path
        Files, folders, patterns.
    count : int
        Sequences of each recording, or of each piece of one that is longer than half a minute.
    form : str
        ``"text"`` and ``"tsv"`` give a table with a header, ``"json"`` a list.
    out : Path, optional
        Without it standard output.
    reporter : Reporter
        Hears of recordings that failed, at the end.

    Raises
    ------
    InputError
        A folder without recordings, standard input, or a format that has no place for several answers.
    """
    if form not in ("text", "tsv", "json"):
        raise InputError(f"--nbest has no --format {form}", "choose tsv or json")
    if any(str(argument) == "-" for argument in arguments):
        raise InputError("--nbest does not read standard input", "name a file")
    paths = [recording.path for recording in find_recordings(arguments)]
    failures: list[InputError] = []
    entries: list[dict[str, Any]] = []
    results = in_order(lambda path: _rows(recogniser, path, count), paths)
    with opened_out(out) as file, reporter.progress("decoding", len(paths)) as advance:
        if form != "json":
            file.write("\t".join(COLUMNS) + "\n")
        for result in results:
            advance(1)
            if isinstance(result, InputError):
                failures.append(result)
            elif form == "json":
                entries += result
            else:
                file.writelines("\t".join(map(str, row.values())) + "\n" for row in result)
        if form == "json":
            whole = [{**entry, "phones": entry["phones"].split()} for entry in entries]
            file.write(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    for line in failures:
        reporter.warn(str(line))
    return 0 if not failures else 2 if len(failures) == len(paths) else 1


def _rows(recogniser: Recogniser, path: Path, count: int) -> list[dict[str, Any]]:
    rows = []
    for start, ranked in recogniser.nbest(path):
        for rank, each in enumerate(ranked[:count], start=1):
            scores = (round(value, 4) for value in (each.total, each.acoustic, each.lm))
            phones = " ".join(recogniser.inventory.decode(each.labels))
            rows.append(dict(zip(COLUMNS, (str(path), round(start, 4), rank, *scores, phones), strict=True)))
    return rows
