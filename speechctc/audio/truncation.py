"""Tells by how much a recording that was cut off is shorter than its header says."""

from __future__ import annotations

import re
from pathlib import Path

import soundfile

_OPEN_END = 0x7FFFFFFF - 8  # bytes; larger lengths were written before the length was known
_LAST_PAGE = 1 << 17  # bytes at the end of an OGG file that contain its last page, of at most 65,307
_END_OF_STREAM = 4  # flag of an OGG page


def cut_short(path: Path, file: soundfile.SoundFile) -> str:
    """Return in words by how much an open recording is too short; ``""`` if it is not, or if that is not known."""
    if file.format == "OGG":
        return "" if _ogg_ends(path) else f"{path}: cut short: the file ends before its stream does"
    promised, there = promised_and_there(path, file)
    if there >= promised:
        return ""
    return f"{path}: cut short: the header says {promised:,} bytes of sound, the file has {there:,}"


def promised_and_there(path: Path, file: soundfile.SoundFile) -> tuple[int, int]:
    """Return the bytes of sound by the header of a WAV, AIFF or SPHERE file and in the file; 0 and 0 if not known."""
    promised, there = _nist(path) if file.format == "NIST" else _chunk(file.extra_info)
    return (0, 0) if promised >= _OPEN_END else (promised, there)


def _chunk(log: str) -> tuple[int, int]:
    """Return the bytes of sound by the header of a WAV or AIFF file and in the file, from libsndfile's log."""
    found = re.search(r"^ *(?:data|SSND) : (\d+) \(should be (\d+)\)", log, re.MULTILINE)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _nist(path: Path) -> tuple[int, int]:
    """Return the bytes of sound by the header of a SPHERE file and in the file."""
    with path.open("rb") as file:
        first = file.read(16).split()  # NIST_1A and the length of the header
        header = int(first[1]) if len(first) > 1 and first[1].isdigit() else 1024
        fields = dict(re.findall(rb"^(\w+) -i (\d+)", file.read(max(header - 16, 0)), re.MULTILINE))
    sizes = [int(fields.get(name, b"0")) for name in (b"sample_count", b"sample_n_bytes", b"channel_count")]
    promised = sizes[0] * sizes[1] * max(sizes[2], 1)
    return promised, path.stat().st_size - header


def _ogg_ends(path: Path) -> bool:
    """Return whether the last page of an OGG file is complete and marked as the end of the stream."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - _LAST_PAGE, 0))
        tail = file.read()
    page = tail[tail.rfind(b"OggS") :]
    if len(page) < 27 or len(page) < 27 + page[26]:
        return False
    return bool(page[5] & _END_OF_STREAM) and len(page) >= 27 + page[26] + sum(page[27 : 27 + page[26]])
