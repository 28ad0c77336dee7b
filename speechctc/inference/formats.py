"""The formats of results: `WRITERS` is the table of all.

To add a format, add its writer here: ``--format`` and its help, the endings of files and the studio's downloads come
from the table. The module loads nothing but the standard library until something is written, because the help needs it.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TextIO, cast

from speechctc.audio.tracks import Channel, fields, named, number_of
from speechctc.core.errors import InputError, optional, with_extra

if TYPE_CHECKING:
    from speechctc.audio.annotations import Interval
    from speechctc.inference.result import Recognition, Word
    from speechctc.inference.segmenter import Segment


Tiers = Mapping[str, Sequence["Interval"]]

COLUMNS = ("file", "start", "end", "phone", "confidence")
ALIGNED = ("word", "file_log_probability")  # columns after those of alignments
# Columns after those where phones were scored; they take the place of the score of an alignment.
SCORED = tuple(
    "word score probability said_instead said_instead_probability word_score file_score speaker variant".split()
    + ["not_told_from", "contrast", "contrast_probability"]
)
SHEET_ROWS = 1_048_576  # most rows of a sheet in Excel


def one_field(text: str) -> str:
    """Return a text on one line without tabs, for formats that cannot hold them."""
    return " ".join(text.splitlines()).replace("\t", " ")


def one_token(text: str) -> str:
    """Return a text without white space, for formats whose fields are separated by it; never an empty one."""
    return "_".join(text.split()) or "_"


def audacity_text(tiers: Tiers) -> str:
    """Return phones and tones as a label track of Audacity: start and end in seconds and the label, between tabs."""
    entries = sorted((*tiers["phones"], *tiers.get("tones", ())))
    return "".join(f"{start:.6f}\t{end:.6f}\t{one_field(label)}\n" for start, end, label in entries)


class RecordingName(NamedTuple):
    """The name of a recording in the results.

    Attributes
    ----------
    file : str
        As the user named it; see `shown`.
    id : str
        Unique, without spaces; in CTM.
    channel : int or Track, optional
        The channel that was read, from 1; None: the mean of all.
    speaker : str
        ``""`` where that is not known.
    """

    file: str
    id: str
    channel: Channel | None = None
    speaker: str = ""

    @property
    def shown(self) -> str:
        """The file, with the channel or track if one was chosen, in formats that have no other place for it."""
        return named(self.file, self.channel)


class Phones(Protocol):
    """The phones of a recording, which may come one by one while it is decoded, and how probable an alignment is."""

    @property
    def segments(self) -> Iterable[Segment]:
        """The phones in order."""

    @property
    def log_probability(self) -> float | None:
        """See `Recognition`."""


# A recording's name and its `Recognition`, or, where the format is live, its `Phones`.
Named = tuple[RecordingName, Any]


class Kept(NamedTuple):
    """A result whose text is known: it is written as it is."""

    text: str
    segments: tuple[()] = ()


class Layout(NamedTuple):
    """What a writer should know beside the results.

    Attributes
    ----------
    named : bool
        Lines of text begin with the file and a tab.
    aligned : bool
        The results are alignments.
    place : Path, optional
        The file that is written.
    scored : bool
        How well each phone was said is known.
    """

    named: bool = False
    aligned: bool = False
    place: Path | None = None
    scored: bool = False


@dataclass(frozen=True)
class Writer:
    """A format; this base class writes one result after the other.

    Attributes
    ----------
    name, ending : str
        Of the format, and of its files.
    about : str
        What the help says beside the name, or ``""``.
    reason : str
        Why a file holds one recording, if that is not plain.
    """

    name: str
    ending: str
    about: str = ""
    reason: str = ""

    holds_one: ClassVar[bool] = False  # a file holds one recording
    # A file is text; else `whole` is not there, and `write` needs a stream with a ``buffer`` for bytes.
    is_text: ClassVar[bool] = True
    is_kept: ClassVar[bool] = False  # the text of a result is that of `pieces`, whatever is written before and after it
    is_incremental: ClassVar[bool] = False  # a phone is written when it is known: `pieces` needs only `Phones`
    shows_sound: ClassVar[bool] = False  # the recording is read again, to be shown

    def head(self, layout: Layout = Layout()) -> str:  # noqa: B008
        """Return what a file begins with."""
        return ""

    def pieces(self, name: RecordingName, result: Recognition, layout: Layout) -> Iterator[str]:
        """Yield the text of a result, piece by piece."""
        raise NotImplementedError

    def write(self, results: Iterable[Named], out: TextIO, layout: Layout = Layout()) -> None:  # noqa: B008
        """Write results to one stream, each piece as soon as it is known."""
        out.write(self.head(layout))
        for name, result in results:
            for piece in [result.text] if isinstance(result, Kept) else self.pieces(name, result, layout):
                out.write(piece)
                if isinstance(result.segments, Iterator):  # they come one by one
                    out.flush()
            out.flush()

    def whole(self, name: RecordingName, result: Recognition, place: Path | None = None) -> str:
        """Return the text of a file with one result, to be written to `place`."""
        layout = Layout(aligned=result.log_probability is not None, place=place, scored=result.score is not None)
        return self.head(layout) + "".join(self.pieces(name, result, layout))

    def content(self, name: RecordingName, result: Recognition, place: Path | None = None) -> bytes:
        """Return a file with one result, as `whole` does."""
        return self.whole(name, result, place).encode("utf-8", "backslashreplace")

    def check(self) -> None:
        """Check that files of the format can be written.

        Raises
        ------
        InputError
            A package is missing.
        """


class Text(Writer):
    """A line of phones; of an alignment a line for each phone."""

    is_kept = True
    is_incremental = True

    def pieces(self, name: RecordingName, result: Phones, layout: Layout) -> Iterator[str]:
        """Yield phones and spaces; the line is ended even after an error."""
        if result.log_probability is not None:
            yield _probability_line(name, result.log_probability)
            width = 10 if any(segment.goodness for segment in result.segments) else 4
            if width > 4:
                yield f"{cast('Recognition', result).about}\n"
                contrast = f"{'contrast':<12}  " if any(segment.contrast for segment in result.segments) else ""
                yield f"{'start':>9} {'end':>9}  phone  confidence  score  {'said instead':<14}  {contrast}word\n"
            for segment in result.segments:
                scored, times = segment.goodness, f"{segment.start:9.3f} {segment.end:9.3f}"
                line = f"{times}  {one_field(segment.phone):<6} {segment.confidence:{width}.2f}"
                if scored:
                    word = cast("Recognition", result).word_of(segment)
                    line += f"  {scored.score:5.2f}  {scored.instead:<14}  "
                    line = f"{line}{f'{segment.contrast_text:<12}  ' if contrast else ''}{_word_text(word)}".rstrip()
                yield line + "\n"
            return
        before = start = one_field(name.shown) + "\t" if layout.named else ""
        try:
            for segment in result.segments:
                yield before + one_token(segment.phone)
                before = " "
        except InputError:
            yield "\n" if before == " " else ""
            raise
        yield ("" if before == " " else start) + "\n"


def _word_text(word: Word | None) -> str:
    """Return a word, and which of its pronunciations was taken."""
    if word is None or word.variant is None:
        return word.word if word else ""
    return f"{word.word} ({word.variant.number} of {word.variant.of})"


def _columns(aligned: bool, scored: bool) -> tuple[str, ...]:
    """Return the names of the columns of tables."""
    return COLUMNS + (SCORED if scored else ALIGNED if aligned else ())


def _rows(name: RecordingName, result: Phones, aligned: bool, scored: bool) -> Iterator[tuple[str | float, ...]]:
    """Yield the values of the columns for each phone, numbers rounded to 0.0001."""
    for each in result.segments:
        last = _score_columns(name, cast("Recognition", result), each, scored) if scored or aligned else ()
        values = (name.shown, each.start, each.end, each.phone, each.confidence, *last)
        yield tuple(value if isinstance(value, str) else round(value, 4) for value in values)


def _score_columns(name: RecordingName, result: Recognition, segment: Segment, scored: bool) -> tuple[str | float, ...]:
    """Return the values of the columns `ALIGNED` or `SCORED`; scores of pauses are empty."""
    word, found = result.word_of(segment), segment.goodness
    text, variant = (word.word, str(word.variant or "")) if word else ("", "")
    if not scored:
        return text, "" if result.log_probability is None else result.log_probability
    instead, probability = found.said_instead[0] if found and found.instead else ("", "")
    score: tuple[str | float, ...] = (found.score, found.probability) if found else ("", "")
    means = ("" if each is None or not found else each for each in (word and word.score, result.score))
    not_told = " ".join(found.not_told) if found else ""
    return text, *score, instead, probability, *means, name.speaker, variant, not_told, *(segment.contrast or ("", ""))


FORMULA = re.compile("'*[=+@\\t\\r-]")  # with apostrophes: without the first of them, each text is as it was


@dataclass(frozen=True)
class Table(Writer):
    """A table with a line for each phone: CSV (RFC 4180), or fields between tabs with scores of alignments in comments.

    Attributes
    ----------
    mark : str
        What a file for spreadsheets begins with; a text that they would take for a formula begins with an apostrophe.
    """

    mark: str = ""

    is_kept = True
    is_incremental = True

    @property
    def _has_tabs(self) -> bool:
        return self.ending == ".tsv"

    def head(self, layout: Layout = Layout()) -> str:  # noqa: B008
        """Return the names of the columns."""
        return self.mark + self.line(_columns(layout.aligned, layout.scored))

    def pieces(self, name: RecordingName, result: Phones, layout: Layout) -> Iterator[str]:
        """Yield the lines."""
        if result.log_probability is not None and self._has_tabs:
            yield f"# {_probability_line(name, result.log_probability)}"
        yield from map(self.line, _rows(name, result, layout.aligned, layout.scored))

    def line(self, values: Sequence[Any], texts: Sequence[str] | None = None) -> str:
        """Return a line of these values; `texts` are they as they are written, by default with four decimals."""
        texts = texts or [f"{value:.4f}" if isinstance(value, float) else str(value) for value in values]
        if self._has_tabs:
            return "\t".join(map(one_field, texts)) + "\n"
        if self.mark:
            pairs = zip(texts, values, strict=True)
            texts = [f"'{text}" if isinstance(value, str) and FORMULA.match(text) else text for text, value in pairs]
        line = io.StringIO()
        csv.writer(line).writerow(texts)
        return line.getvalue()


class Ctm(Writer):
    """NIST's format: lines of id, channel, start, duration, phone, confidence."""

    is_kept = True
    is_incremental = True

    def pieces(self, name: RecordingName, result: Phones, layout: Layout) -> Iterator[str]:
        """Yield the lines."""
        if result.log_probability is not None:
            yield f";; {_probability_line(name, result.log_probability)}"
        for _, start, end, phone, confidence in _rows(name, result, False, False):
            times = f"{start:.4f} {float(end) - float(start):.4f}"
            place = f"{one_token(name.id)} {number_of(name.channel) or 1}"
            yield f"{place} {times} {one_token(str(phone))} {confidence:.4f}\n"


def _json_pieces(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the text of an object as `json.dumps` writes it, that of its iterators, as lists, item by item."""
    between = "{"
    for key, value in values.items():
        yield f"{between}{json.dumps(key)}: "
        between = ", "
        if isinstance(value, Iterator):
            yield "["
            for number, each in enumerate(value):
                yield (", " if number else "") + json.dumps(each, ensure_ascii=False)
            yield "]"
        else:
            yield json.dumps(value, ensure_ascii=False)
    yield "}"


class Json(Writer):
    """A list of results; a file for one recording has the result alone."""

    is_kept = True

    def pieces(self, name: RecordingName, result: Recognition, layout: Layout) -> Iterator[str]:
        """Yield the text of an object, phone by phone: an hour has some 40,000 phones."""
        source = {"file": name.file} | fields(name.channel)
        source |= {"speaker": name.speaker} if name.speaker else {}
        yield from _json_pieces(source | replace(result, file=name.file).values())

    def write(self, results: Iterable[Named], out: TextIO, layout: Layout = Layout()) -> None:  # noqa: B008
        """Write a list; its end is written even after an error, so that the file can be read."""
        between = "[\n"
        try:
            for name, result in results:
                out.write(between)
                out.writelines([result.text] if isinstance(result, Kept) else self.pieces(name, result, layout))
                out.flush()
                between = ",\n"
        finally:
            out.write("]\n" if between == ",\n" else "[]\n")
            out.flush()

    def whole(self, name: RecordingName, result: Recognition, place: Path | None = None) -> str:
        """Return the text of a file with one result."""
        return super().whole(name, result, place) + "\n"


class Html(Writer):
    """One page with all results; their recordings are read again, for the pictures and the sound."""

    shows_sound = True

    def write(self, results: Iterable[Named], out: TextIO, layout: Layout = Layout()) -> None:  # noqa: B008
        """Write the page when all results are known."""
        from speechctc.inference.page import recordings_page  # late: other formats need no templates

        out.write(recordings_page((Path(each.file), name.shown, name.channel, each) for name, each in results))

    def whole(self, name: RecordingName, result: Recognition, place: Path | None = None) -> str:
        """Return the page of one result."""
        out = io.StringIO(newline="")
        self.write([(name, result)], out)
        return out.getvalue()


class Workbook(Writer):
    """A workbook of Excel with a sheet of phones, and sheets of words and misfits if there are any."""

    is_text = False

    def check(self) -> None:
        """Check that openpyxl is installed."""
        fix = f"{with_extra('xlsx')}, or choose --format csv-bom"
        optional("openpyxl", "--format xlsx needs openpyxl, which is not installed", fix)

    def write(self, results: Iterable[Named], out: TextIO, layout: Layout = Layout()) -> None:  # noqa: B008
        """Write a workbook of all results; it is complete even after an error."""
        self._write(results, cast(Any, out).buffer, layout.aligned, layout.scored)

    def content(self, name: RecordingName, result: Recognition, place: Path | None = None) -> bytes:
        """Return a workbook of one result."""
        out = io.BytesIO()
        self._write([(name, result)], out, result.log_probability is not None, result.score is not None)
        return out.getvalue()

    def _write(self, results: Iterable[Named], out: IO[bytes], aligned: bool, scored: bool) -> None:
        with new_workbook(out) as book:
            self._fill(book, results, aligned, scored)

    def _fill(self, book: Any, results: Iterable[Named], aligned: bool, scored: bool) -> None:
        """Add the sheets of results."""
        phones = Sheet(book, "phones", _columns(aligned, scored))
        words = Sheet(
            book, "words", ("file", "start", "end", "word", "log_ratio", *(["score", "variant"] if scored else []))
        )
        misfits = Sheet(book, "misfits", ("file", "start", "end", "kind", "text"))
        about, told = Sheet(book, "about", ("about",)), set[str]()
        phones.begin()
        for name, result in results:
            for row in _rows(name, result, aligned, scored):
                phones.add(*row)
            for word in result.words:
                score = ("" if word.score is None else word.score, str(word.variant or "")) if scored else ()
                words.add(name.shown, word.start, word.end, word.word, word.log_ratio, *score)
            for misfit in result.misfits:
                misfits.add(name.shown, *misfit)
            if result.about and result.about not in told:
                told.add(result.about)
                about.add(result.about)


@contextmanager
def new_workbook(out: IO[bytes]) -> Iterator[Any]:
    """Offer a new workbook, whose rows go to temporary files, and write it to a stream, even after an error."""
    import zipfile

    import openpyxl
    from openpyxl.writer.excel import ExcelWriter

    from speechctc.core.files import zip_entry

    book = openpyxl.Workbook(write_only=True)
    try:
        yield book
    finally:
        archive: Any = zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False)
        with archive:
            put = archive.writestr
            archive.writestr = lambda name, content: put(zip_entry(name), content)
            ExcelWriter(book, archive).save()


class Sheet:
    """Rows of a workbook, on as many sheets as they need, of which the first is made with its first row."""

    def __init__(self, book: Any, title: str, columns: Sequence[str]) -> None:
        self._book, self._title, self._columns = book, title, columns
        self._sheet: Any = None
        self._rows = self._sheets = 0

    def begin(self) -> None:
        """Begin a sheet with its header."""
        self._sheets += 1
        self._sheet = self._book.create_sheet(f"{self._title} {self._sheets}" if self._sheets > 1 else self._title)
        self._sheet.freeze_panes = "A2"
        self._sheet.append(self._columns)
        self._rows = 1

    def add(self, *values: str | float | None) -> None:
        """Append a row."""
        if self._sheet is None or self._rows == SHEET_ROWS:
            self.begin()
        self._rows += 1
        self._sheet.append([self._cell(each) for each in values])

    def _cell(self, value: str | float | None) -> Any:
        """Return a number, nothing, or a text that is no formula, without signs that Excel cannot hold."""
        if value is None:
            return None
        if not isinstance(value, str):
            return round(value, 4)
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

        cell = WriteOnlyCell(self._sheet, ILLEGAL_CHARACTERS_RE.sub("\N{REPLACEMENT CHARACTER}", value))
        cell.data_type = "s"
        return cell


@dataclass(frozen=True)
class Annotation(Writer):
    """A file of an annotation program, with one recording.

    Attributes
    ----------
    text : callable
        Takes the recording's name, the result, and the file that is written, if known; returns its text.
    """

    text: Callable[[RecordingName, Recognition, Path | None], str] = field(kw_only=True)

    holds_one = True

    def pieces(self, name: RecordingName, result: Recognition, layout: Layout) -> Iterator[str]:
        """Yield the whole text."""
        yield self.text(name, result, layout.place)


def _eaf(name: RecordingName, result: Recognition, place: Path | None) -> str:
    from speechctc.audio.eaf_writer import eaf_text

    audio = Path(name.file)
    return eaf_text(result.tiers(), audio if audio.is_file() else None, place)


CSV = Table("csv", ".csv")
CSV_BOM = Table("csv-bom", ".bom.csv", "for Excel", mark="\ufeff")
_ALL: Sequence[Writer] = (
    Text("text", ".txt"),
    Json("json", ".json"),
    Ctm("ctm", ".ctm"),
    Annotation("textgrid", ".TextGrid", text=lambda name, result, place: result.to_textgrid()),
    Table("tsv", ".tsv"),
    CSV,
    CSV_BOM,
    Workbook("xlsx", ".xlsx", "Excel"),
    Annotation("eaf", ".eaf", "ELAN", "ELAN plays all recordings of a file at once, on one time line", text=_eaf),
    Annotation("audacity", ".labels.txt", "labels", text=lambda name, result, place: audacity_text(result.tiers())),
    Html("html", ".html", "a page"),
)
# The writers by the names of their formats, in the order of the help.
WRITERS = {writer.name: writer for writer in _ALL}


def help_text() -> str:
    """Return the names of all formats, for the help."""
    *first, last = (each.name + (f" ({each.about})" if each.about else "") for each in WRITERS.values())
    return f"{', '.join(first)} or {last}"


def _probability_line(name: RecordingName, log_probability: float) -> str:
    return f"{one_field(name.shown)}: log probability {log_probability:.4f} per phone\n"
