"""Write phones in the formats of other programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple, TextIO

from speechctc.audio import sound_file
from speechctc.audio.eaf_text import eaf_text
from speechctc.errors import InputError
from speechctc.inference.label_formats import audacity_text, emu_text, one_field, one_token, par_text
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment

Format = Literal["text", "json", "ctm", "textgrid", "tsv", "csv", "eaf", "audacity", "emu", "par", "html"]
ENDINGS: dict[Format, str] = {
    "text": ".txt",
    "json": ".json",
    "ctm": ".ctm",
    "textgrid": ".TextGrid",
    "tsv": ".tsv",
    "csv": ".csv",
    "eaf": ".eaf",
    "audacity": ".labels.txt",
    "emu": "_annot.json",
    "par": ".par",
    "html": ".html",
}
ONE_RECORDING: tuple[Format, ...] = ("textgrid", "eaf", "audacity", "emu", "par")
"""Formats whose files hold one recording each."""
NO_FILE = (16000, 1)  # rate in Hz and channels of a recording without a file
COLUMNS = ("file", "start", "end", "phone", "confidence")


class Source(NamedTuple):
    """The name of a recording in the results.

    Attributes
    ----------
    file : str
        As the user named it; in TSV, CSV, JSON and text.
    id : str
        Unique, without spaces; in CTM.
    channel : int, optional
        The channel that was read, from 1; None: the mean of all.
    """

    file: str
    id: str
    channel: int | None = None


def header(form: Format, aligned: bool = False) -> str:
    """Return the header of TSV and CSV, else ``""``; in CSV an alignment has a column for its score."""
    if form == "csv":
        return _csv((*COLUMNS, "score") if aligned else COLUMNS)
    return "\t".join(COLUMNS) + "\n" if form == "tsv" else ""


def row(form: Format, source: Source, segment: Segment, score: float | None = None) -> str:
    """Return one phone as a line of TSV, of CSV, or of NIST's CTM: id, channel, start, duration, phone, confidence."""
    phone, start, end = segment.phone, round(segment.start, 4), round(segment.end, 4)
    confidence = f"{segment.confidence:.4f}"
    if form == "ctm":
        id, phone = one_token(source.id), one_token(phone)
        return f"{id} {source.channel or 1} {start:.4f} {end - start:.4f} {phone} {confidence}\n"
    fields = (source.file, f"{start:.4f}", f"{end:.4f}", phone, confidence)
    if form == "csv":
        return _csv(fields if score is None else (*fields, f"{score:.4f}"))
    return "\t".join(map(one_field, fields)) + "\n"


def _csv(fields: Iterable[str]) -> str:
    """Return a line of CSV (RFC 4180)."""
    line = io.StringIO()
    csv.writer(line).writerow(fields)
    return line.getvalue()


def lines(form: Format, source: Source, result: Recognition, named: bool = False) -> Iterator[str]:
    """Yield the lines of a result in text, CTM, TSV or CSV, without the header; `named` text begins with the file."""
    if form != "text":
        if result.score is not None and form != "csv":
            sign = ";;" if form == "ctm" else "#"
            yield f"{sign} {one_field(source.file)}: log probability {result.score:.4f} per phone\n"
        yield from (row(form, source, segment, result.score) for segment in result.segments)
    elif result.score is None:
        yield (one_field(source.file) + "\t" if named else "") + " ".join(map(one_token, result.phones)) + "\n"
    else:
        yield f"{one_field(source.file)}: log probability {result.score:.4f} per phone\n"
        for segment in result.segments:
            yield f"{segment.start:9.3f} {segment.end:9.3f}  {one_field(segment.phone):<6} {segment.confidence:.2f}\n"


def textgrid(result: Recognition) -> str:
    """Return a result as a TextGrid."""
    return result.to_textgrid()


def annotation(form: Format, source: Source, result: Recognition, place: Path | None = None) -> str:
    """Return a result in a format of `ONE_RECORDING`, to be written to `place`.

    Samples are counted at the rate of the recording; where it has no file, at 16 kHz.
    """
    if form == "textgrid":
        return textgrid(result)
    audio, tiers = Path(source.file), result.tiers()
    if form == "eaf":
        return eaf_text(tiers, audio if audio.is_file() else None, place)
    if form == "audacity":
        return audacity_text(tiers)
    try:
        _, rate, channels = sound_file.info(audio)
    except InputError:
        rate, channels = NO_FILE
    return emu_text(tiers, audio, rate, result.seconds) if form == "emu" else par_text(tiers, rate, channels)


def json_pieces(result: Recognition, channel: int | None = None) -> Iterator[str]:
    """Yield the text of a result as a JSON object, phone by phone: an hour has some 40,000 phones."""
    head = replace(result, segments=()).to_dict() | {"phones": list(result.phones)}
    if channel is not None:
        head = {"file": result.file, "channel": channel} | head
    yield json.dumps(head, ensure_ascii=False).removesuffix("]}")
    for number, segment in enumerate(result.segments):
        yield (", " if number else "") + json.dumps(segment.to_dict(), ensure_ascii=False)
    yield "]}"


def write_stream(
    results: Iterable[tuple[Source, Recognition]],
    form: Format,
    out: TextIO,
    named: bool = False,
    aligned: bool = False,
    place: Path | None = None,
) -> None:
    """Write results to one stream, each when it is ready; in JSON as one list, in HTML as one page at the end.

    Parameters
    ----------
    results : iterable of (Source, Recognition)
    form : str
    out : TextIO
    named : bool
        Lines of text begin with the file and a tab.
    aligned : bool
        The results are alignments.
    place : Path, optional
        The file that is written.
    """
    if form == "json":
        _write_list(results, out)
        return
    if form == "html":
        out.write(_page(results))
        return
    out.write(header(form, aligned))
    for source, result in results:
        if form in ONE_RECORDING:
            out.write(annotation(form, source, result, place))
        else:
            out.writelines(lines(form, source, result, named))
        out.flush()


def _page(results: Iterable[tuple[Source, Recognition]]) -> str:
    """Return one page with all results; their recordings are read again, for the pictures and the sound."""
    from speechctc.inference.page import recordings_page  # late: other formats need no templates

    return recordings_page((Path(result.file), source.file, source.channel, result) for source, result in results)


def _write_list(results: Iterable[tuple[Source, Recognition]], out: TextIO) -> None:
    """Write a JSON list; its end is written even after an error, so that the file can be read."""
    between = "[\n"
    try:
        for source, result in results:
            out.write(between)
            out.writelines(json_pieces(replace(result, file=source.file), source.channel))
            out.flush()
            between = ",\n"
    finally:
        out.write("]\n" if between == ",\n" else "[]\n")
        out.flush()


def whole(form: Format, source: Source, result: Recognition, place: Path | None = None) -> str:
    """Return the text of a file with one result, to be written to `place`."""
    if form in ONE_RECORDING:
        return annotation(form, source, result, place)
    if form == "html":
        return _page([(source, result)])
    if form == "json":
        return "".join(json_pieces(replace(result, file=source.file), source.channel)) + "\n"
    return header(form, result.score is not None) + "".join(lines(form, source, result))
