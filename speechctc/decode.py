"""The decoding stage: recordings to phones, in the format asked for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from speechctc.errors import InputError
from speechctc.progress import Reporter
from speechctc.recogniser import Recogniser, Recognition

FORMATS = ("text", "json")


def decode(recogniser: Recogniser, paths: Sequence[Path], form: str, out: TextIO, reporter: Reporter) -> int:
    """Decode recordings one by one, writing each as it comes; return how many could not be decoded.

    Parameters
    ----------
    recogniser : Recogniser
    paths : sequence of Path
    form : str
        ``"text"``: a line of phones per recording; ``"json"``: one list of objects.
    out : text file
        Where results go; a recording that fails has a line in `reporter` instead.
    reporter : Reporter
    """
    results: list[Recognition] = []
    for path in paths:
        try:
            result = recogniser.decode(path)
        except InputError as error:
            reporter.warn(str(error))
            continue
        results.append(result)
        if form == "text":
            print(" ".join(result.phones), file=out, flush=True)
    if form == "json":
        rows = [{"file": each.file, "seconds": round(each.seconds, 6), "phones": list(each.phones)} for each in results]
        print(json.dumps(rows, ensure_ascii=False, indent=1), file=out)
    return len(paths) - len(results)
