"""Reads text files in UTF-8, UTF-16 or Windows-1252, with any line ends, also gzipped; writes tables as text."""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from speechctc.core.errors import InputError
from speechctc.core.files import readable

MOST_TEXT = 1 << 28  # bytes of labels or words
MOST_TABLE = 1 << 30  # bytes of a table, which may be of a whole corpus
_HEAD = 400  # bytes that are checked for UTF-16 without a byte order mark
_GZIP = b"\x1f\x8b"
_SMALL = 1 << 24  # bytes that a gzipped file may always have
_RATIO = 200  # times its packed size that a larger one may have; texts have about 5


class Text(NamedTuple):
    """The text of a file with newlines as line ends, and what the user should know about how it was read, or ``""``."""

    text: str
    note: str


def read_text(path: Path, most: int = MOST_TEXT) -> Text:
    """Read a text file in UTF-8 or UTF-16; any other is read as Windows-1252 or -1250, and the note says so.

    Raises
    ------
    InputError
        The file cannot be read, has more than `most` bytes, or is not text: it has NUL characters, or bytes or a
        script that Windows-1252 does not have.
    """
    return decode_text(read_bytes(path, most), path)


def read_bytes(path: Path, most: int = MOST_TEXT) -> bytes:
    """Return what a file holds.

    Raises
    ------
    InputError
        There is no such file, it cannot be read, or it has more than `most` bytes.
    """
    try:
        return readable(path, most).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", "check the path") from None
    except OSError as error:
        fix = "name another file, or divide it" if error.errno == errno.EINVAL else "check the path and its permissions"
        raise InputError(f"{path}: cannot be read ({error.strerror})", fix) from None


def decode_text(raw: bytes, path: Path) -> Text:
    """Decode the bytes of a text file, as `read_text`; `path` is named in messages."""
    encoding = _unicode(raw)
    if encoding == "utf-8-sig" and (place := raw.find(b"\0")) >= 0:  # before the memory for the text is taken
        raise _not_text(path, _line(raw, place))
    try:
        text, note = raw.decode(encoding), ""
    except UnicodeDecodeError as error:
        if encoding != "utf-8-sig":
            raise InputError(f"{path}: damaged UTF-16 ({error.reason})", "save it again as UTF-8") from None
        text, note = _windows(raw, path, error.start)
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\ufeff", "")  # it is where files were joined
    if "\0" in text:
        raise _not_text(path, text.count("\n", 0, text.index("\0")) + 1)
    return Text(text, note)


def _not_text(path: Path, line: int) -> InputError:
    return InputError(f"{path}, line {line}: a NUL character, so not a text file", "save it as UTF-8 text")


def _unicode(raw: bytes) -> str:
    """Return the Unicode encoding that the first bytes of a file indicate."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = raw[0:_HEAD:2], raw[1:_HEAD:2]
    if len(raw) % 2 == 0 and odd.count(0) > 0.7 * len(odd) and not even.count(0):
        return "utf-16-le"
    if len(raw) % 2 == 0 and even.count(0) > 0.7 * len(even) and not odd.count(0):
        return "utf-16-be"
    return "utf-8-sig"


_CONVERT = "or convert it, for example with: iconv -f ENCODING -t UTF-8 FILE"
MAX_WORDS = 5  # of a text in an unknown encoding that a warning shows
_NOT_ASCII = re.compile(r"\w*[^\x00-\x7f]\w*")
_HIGH, _SHARE = 6, 0.7  # letters, and the share of them beside another, of texts in other scripts
_LETTERS = re.compile(rb"[\xa2-\xaa\xac-\xba\xbc-\xbe\xc0-\xff]+")  # that are not ASCII, and signs but for ¡ ¿ « »
_OF_1250 = re.compile(r"[^\W\d_][\u00b3\u00b9\u00bf][^\W\d_]")  # 3, 1 and ? inside of a word are Polish letters
_OTHERS = {"Windows-1250": "cp1250", "Windows-1254": "cp1254"}  # of Central Europe and of Turkish: they have all bytes


def _windows(raw: bytes, path: Path, start: int) -> tuple[str, str]:
    """Decode as Windows-1252, or where letters are surely of it, as Windows-1250.

    `start` is the first byte that is not UTF-8. A text of another script, most of whose letters are not ASCII, is
    refused.
    """
    runs = [len(run) for run in _LETTERS.findall(raw)]
    if sum(runs) >= _HIGH and sum(run for run in runs if run > 1) > _SHARE * sum(runs):
        what = f"{path}, line {_line(raw, start)}: not UTF-8, and of a script that Windows-1252 does not have"
        raise InputError(what, f"save it as UTF-8, {_CONVERT}")
    try:
        text = raw.decode("cp1252")
    except UnicodeDecodeError as error:
        line = _line(raw, error.start)
        what = f"{path}, line {line}: neither UTF-8 nor Windows-1252 (byte 0x{raw[error.start]:02x})"
        raise InputError(what, "save it as UTF-8") from None
    name, pages = "Windows-1252", {page: raw.decode(code, "replace") for page, code in _OTHERS.items()}
    if _OF_1250.search(text) and "\ufffd" not in pages["Windows-1250"]:
        name = "Windows-1250"
        text = pages.pop(name)
    places = _telling(text)
    says = ", ".join(repr(text[each]) for each in places)
    where = f"{path}, line {_line(raw, start)}: not UTF-8, read as {name} (it says {says}"
    for page, other in pages.items():
        if changed := [
            repr(other[each]) for each in places if other[each] != text[each] and "\ufffd" not in other[each]
        ]:
            where = f"{where}; in {page} it would say {', '.join(changed)}"
    return text, f"{where}); if that is wrong, save the file as UTF-8, {_CONVERT}"


def _telling(text: str) -> list[slice]:
    """Return where words are by whose letters a reader sees whether a text was decoded rightly.

    Each has letters that are new.
    """
    seen, places = set[str](), list[slice]()
    for match in _NOT_ASCII.finditer(text):
        letters = {sign for sign in match[0] if not sign.isascii()}
        if not letters <= seen:
            places.append(slice(*match.span()))
            seen |= letters
        if len(places) == MAX_WORDS:
            break
    return places


def _line(raw: bytes, place: int) -> int:
    """Return the number of the line that a byte is in, for any line ends."""
    return len((raw[:place] + b".").splitlines())


def read_unpacked(path: Path, what: str) -> str:
    """Return a file's text, unpacked if it is gzipped; `what` says in messages what the file should be.

    Raises
    ------
    InputError
        There is no such file, it is cut off, neither UTF-8 nor UTF-16, or larger than its packed size makes plausible.
    """
    try:
        data = readable(path, MOST_TABLE).read_bytes()
        text, odd = decode_text(_unpacked(data) if data.startswith(_GZIP) else data, path)
        if odd:
            raise ValueError("not UTF-8")
        return text
    except (EOFError, OSError, ValueError, zlib.error, InputError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(getattr(error, "what", error)).split())
        raise InputError(f"{path}: cannot be read as {what} ({reason})", f"name {what}, plain or .gz") from None


def most_unpacked(size: int) -> int:
    """Return the bytes that a packed file of so many may plausibly unpack to."""
    return min(max(_SMALL, _RATIO * size), MOST_TABLE)


def _unpacked(data: bytes) -> bytes:
    most = most_unpacked(len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        unpacked = file.read(most + 1)
    if len(unpacked) > most:
        raise ValueError(f"{len(data)} bytes unpack to more than {most}")
    return unpacked


def tsv(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as the lines of a table; tabs and line ends in a field become spaces."""
    return "".join("\t".join(re.sub(r"[\t\n\r]", " ", str(field)) for field in row) + "\n" for row in rows)
