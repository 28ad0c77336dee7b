"""How recognised and aligned phones are written: text, JSON, CTM, Praat TextGrid, TSV."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal, TextIO

from speechctc import files
from speechctc.recognition.recognition import Recognition
from speechctc.recognition.recordings import Recording
from speechctc.recognition.segments import Segment

Format = Literal["text", "json", "ctm", "textgrid", "tsv"]
ENDINGS: dict[str, str] = {"text": ".txt", "json": ".json", "ctm": ".ctm", "textgrid": ".TextGrid", "tsv": ".tsv"}
TSV_HEADER = "file\tstart\tend\tphone\tconfidence\n"


def row(form: Format, file: str, segment: Segment) -> str:
    """Return one phone as a line of TSV, or of NIST's CTM: file, channel, start, duration, phone, confidence."""
    phone, start, end, confidence = segment.phone, round(segment.start, 4), round(segment.end, 4), segment.confidence
    if form == "ctm":
        name = "_".join(Path(file).stem.split()) or "-"
        return f"{name} 1 {start:.4f} {end - start:.4f} {phone} {confidence:.4f}\n"
    return f"{file}\t{start:.4f}\t{end:.4f}\t{phone}\t{confidence:.4f}\n"


def lines(form: Format, result: Recognition) -> Iterator[str]:
    """Yield a recording's results in text, CTM or TSV (less its header)."""
    if form != "text":
        if result.score is not None:
            yield f"{';;' if form == 'ctm' else '#'} {result.file}: log probability {result.score:.4f} per phone\n"
        yield from (row(form, result.file, segment) for segment in result.segments)
    elif result.score is None:
        yield " ".join(result.phones) + "\n"
    else:
        yield f"{result.file}: log probability {result.score:.4f} per phone\n"
        for segment in result.segments:
            yield f"{segment.start:9.3f} {segment.end:9.3f}  {segment.phone:<6} {segment.confidence:.2f}\n"


def textgrid(result: Recognition) -> str:
    """Return a recording's results as a TextGrid."""
    return result.to_textgrid()


def json_pieces(result: Recognition) -> Iterator[str]:
    """Yield a recording's results as one JSON object, piece by piece: an hour has some 40,000 phones."""
    head = replace(result, segments=()).to_dict() | {"phones": list(result.phones)}
    yield json.dumps(head, ensure_ascii=False).removesuffix("]}")
    for number, segment in enumerate(result.segments):
        yield (", " if number else "") + json.dumps(segment.to_dict(), ensure_ascii=False)
    yield "]}"


def write_stream(results: Iterable[Recognition], form: Format, out: TextIO) -> None:
    """Write results one after the other, each as it comes; JSON is one list."""
    if form == "json":
        _write_list(results, out)
        return
    if form == "tsv":
        out.write(TSV_HEADER)
    for result in results:
        if form == "textgrid":
            out.write(textgrid(result))
        else:
            out.writelines(lines(form, result))
        out.flush()


def _write_list(results: Iterable[Recognition], out: TextIO) -> None:
    """Write a JSON list whose end is written in any case, so that what is there can be read."""
    between = "[\n"
    try:
        for result in results:
            out.write(between)
            out.writelines(json_pieces(result))
            out.flush()
            between = ",\n"
    finally:
        out.write("]\n" if between == ",\n" else "[]\n")
        out.flush()


def write_folder(results: Iterable[tuple[Recording, Recognition]], form: Format, folder: Path) -> None:
    """Write a file for each recording, named like it."""
    for recording, result in results:
        if form == "textgrid":
            text = textgrid(result)
        elif form == "json":
            text = "".join(json_pieces(result)) + "\n"
        else:
            text = (TSV_HEADER if form == "tsv" else "") + "".join(lines(form, result))
        files.write_text(folder_file(folder, recording, form), text)


def folder_file(folder: Path, recording: Recording, form: Format) -> Path:
    """Return the file in `folder` that a recording's results have."""
    return folder / recording.name.with_name(recording.name.name + ENDINGS[form])
