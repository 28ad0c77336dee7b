"""Recordings that are not as they should be: cut off; copied as text, which can be mended; or several in one file.

Radio streams and ``cat a.ogg b.ogg`` make the last; libsndfile would read one recording and stop in silence. Programs
that write FLAC to a pipe leave its length at zero.

A copy in text mode (FTP in ASCII mode, a version control system that converts line ends) writes CR LF as LF, and often
CR alone as LF. In 16-bit samples the bytes of CR and LF, 13 and 10, occur by chance. Where CR LF became LF a byte is
gone, and all samples after it are made of the halves of two: loud noise. The header says how many bytes are gone. Where
they were is found from the sound: with the right bytes put back, it is smooth.

What cannot be undone is a CR alone that became LF: a sample is then wrong by 3, or by 768 where it was its higher byte.
"""

from __future__ import annotations

import io
import mmap
import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio import mp3
from speechctc.core.errors import InputError

CR, LF = 13, 10
MIN_SOUND_BYTES = 20_000  # bytes of sound; in fewer there may be no CR by chance
MAX_SOUND_BYTES = 1 << 25  # bytes of sound that are mended; MAX_PAIRS is usually reached earlier
MIN_BYTES_PER_GONE = 5000  # bytes of sound for each that is gone, at least: by chance, one of 65,536 pairs is CR LF
MAX_PAIRS = 1 << 27  # bytes that are gone, times places where one may have been: bounds the memory
GAIN = 100.0  # nats of roughness: what each byte that is put back must save; a loud sample of noise costs 10
NEAR = 400  # bytes

MIN_REPORTED_BYTES = 1000  # bytes behind the sound that are worth a word
CONVERT = "convert it, for example with: ffmpeg -i FILE FILE.wav"
MEND = "mend the header, for example with: ffmpeg -ignore_length 1 -i FILE NEW.wav"

Bytes = NDArray[np.uint8]

_OPEN_END = 0x7FFFFFFF - 8  # bytes; larger lengths were written before the length was known
_TAIL = 1 << 16  # bytes that are looked at behind the sound
_LAST_PAGE = 1 << 17  # bytes at the end of an OGG file that contain its last page, of at most 65,307
_END_OF_STREAM = 4  # flag of an OGG page


class Mended(soundfile.SoundFile):  # type: ignore[misc]  # soundfile has no types
    """A recording that is read with the bytes that were put back.

    Attributes
    ----------
    bytes_back : int
        How many.
    """

    def __init__(self, content: bytes, bytes_back: int) -> None:
        super().__init__(io.BytesIO(content))
        self.bytes_back = bytes_back


def mended(path: Path, file: soundfile.SoundFile) -> Mended | None:
    """Return an opened recording of 16-bit samples with the bytes that a copy as text took away.

    None if the recording has all its bytes, or if they are missing for another reason.
    """
    if file.subtype != "PCM_16" or file.format not in ("NIST", "WAV", "WAVEX"):
        return None
    promised, there = promised_and_there(path, file)
    gone = promised - there
    if not (0 < gone <= there // MIN_BYTES_PER_GONE and MIN_SOUND_BYTES <= there <= MAX_SOUND_BYTES):
        return None
    content = path.read_bytes()
    header, sound = content[:-there], np.frombuffer(content[-there:], np.uint8)
    if (sound == CR).any():
        return None
    places = _places(sound, gone, file.channels, big_endian=file.endian == "BIG")
    if places is None:
        return None
    return Mended(header + np.insert(sound, places, CR).tobytes(), gone)


def _places(sound: Bytes, gone: int, channels: int, big_endian: bool) -> NDArray[np.int64] | None:
    """Return before which bytes a CR was; None if no places make the sound much smoother.

    Dynamic programming: after s bytes are put back, samples begin at the bytes of one parity. The roughness of the
    sound between two places is that of the samples of this parity. So the best last place for each s follows from the
    best places for s - 1.
    """
    feeds = np.flatnonzero(sound == LF)
    if not gone <= len(feeds) <= MAX_PAIRS // gone:
        return None
    ends = np.append(feeds, len(sound))
    rough = [_roughness(sound, parity, channels, big_endian)[ends] for parity in (0, 1)]
    entered = rough[0][:-1]  # of all sound before each place, the best with s - 1 bytes back
    last = []
    for s in range(1, gone + 1):
        own = rough[s % 2]
        least = np.minimum.accumulate(gain := entered - own[:-1])
        last.append(np.maximum.accumulate(np.where(gain <= least, np.arange(len(feeds), dtype=np.int32), 0)))
        total = float(least[-1] + own[-1])
        entered = np.concatenate([[np.inf], least[:-1] + own[1:-1]])
    if total > rough[0][-1] - GAIN * gone:
        return None
    places = [0] * gone
    at = len(feeds)
    for s in range(gone, 0, -1):
        at = int(last[s - 1][at - 1])
        places[s - 1] = int(feeds[at])
    return _refined(sound, feeds, places, channels, big_endian)


def _refined(
    sound: Bytes, feeds: NDArray[np.int64], places: list[int], channels: int, big_endian: bool
) -> NDArray[np.int64]:
    """Move each place a little where the sound becomes smoother, the samples that the byte itself is in included."""
    edges = [0, *places, len(sound)]
    for s in range(1, len(edges) - 1):
        first, last = max(edges[s - 1] + 1, edges[s] - NEAR), min(edges[s + 1], edges[s] + NEAR)
        near = feeds[(feeds >= first) & (feeds < last)]
        parity = (first + s - 1) % 2
        tried = (np.insert(sound[first:last], place - first, CR) for place in near)
        costs = [_roughness(each, parity, channels, big_endian)[-1] for each in tried]
        edges[s] = int(near[int(np.argmin(costs))])
    return np.array(edges[1:-1], np.int64)


def _roughness(sound: Bytes, parity: int, channels: int, big_endian: bool) -> NDArray[np.float64]:
    """Return by byte the roughness of the sound before it, if samples begin at bytes of this parity.

    It is the sum of the logarithms of the steps from sample to sample of a channel.
    """
    length = (len(sound) - parity) // 2
    samples = sound[parity : parity + 2 * length].view(">i2" if big_endian else "<i2").astype(np.int32)
    steps = np.log1p(np.abs(samples[channels:] - samples[:-channels]), dtype=np.float32)
    total = np.zeros(len(sound) + 1)
    total[parity + 2 * (channels + 1) :: 2][: len(steps)] = steps
    return np.cumsum(total, out=total)


def cut_short(path: Path, file: soundfile.SoundFile) -> str:
    """Return in words by how much an open recording is too short; ``""`` if it is not, or if that is not known."""
    if file.format == "MP3":
        status = path.stat()
        promised, there = mp3.parts(path, status.st_size, status.st_mtime_ns)[1], status.st_size
        is_short = there < 0.99 * promised  # encoders count with or without tags
        return f"{path}: cut short: the header says {promised:,} bytes, the file has {there:,}" * is_short
    if file.format == "OGG":
        return "" if _ogg_ends(path) else f"{path}: cut short: the file ends before its stream does"
    if more := unread(path):
        what = f"not read whole: the header leaves out {more:,} bytes behind the sound"
        return f"{path}: {what}; if they are sound, {MEND}"
    promised, there = promised_and_there(path, file)
    if there >= promised:
        return ""
    return f"{path}: cut short: the header says {promised:,} bytes of sound, the file has {there:,}"


def unread(path: Path) -> int:
    """Return the bytes behind the sound of a WAV file that belong to no chunk, and may be sound; 0 if there are few.

    Tags that programs append and zeros that fill a block are none.
    """
    with path.open("rb") as file:
        if not re.match(rb"RIFF....WAVE", file.read(12), re.DOTALL):
            return 0
        size, at, has_sound = file.seek(0, io.SEEK_END), 12, False
        while at < size:
            file.seek(at)
            head = file.read(8)
            length = int.from_bytes(head[4:], "little")
            is_sound = head.startswith(b"data") and not has_sound
            is_chunk = re.fullmatch(rb"[\x20-\x7e]{4}", head[:4]) and (is_sound or at + 8 + length <= size)
            if len(head) < 8 or not is_chunk:
                break
            has_sound |= is_sound
            at += 8 + length + length % 2
        file.seek(min(at, size))
        rest = file.read(_TAIL) if has_sound else b""
    is_tag = rest.startswith((b"TAG", b"ID3", b"APETAGEX"))
    return size - at if len(rest) >= MIN_REPORTED_BYTES and rest.strip(b"\0") and not is_tag else 0


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


UNKNOWN = 2**62  # frames of a FLAC file that does not say how many, at least
_FLAC = b"fLaC\0\0\0\x22"  # the mark, and the header of the first block, which is of 34 bytes
_OGG_FIRST = b"OggS\0\2"  # the mark, version and flags of the first page of a stream


def refuse_parts(path: Path, file: soundfile.SoundFile) -> None:
    """Check that an opened file holds one recording, whose length is known.

    Raises
    ------
    InputError
        It holds several, or does not say how long it is.
    """
    status = path.stat()
    state = path, status.st_size, status.st_mtime_ns
    find = {"FLAC": _flac_starts, "OGG": _ogg_starts}.get(file.format)
    starts = mp3.parts(*state)[0] if file.format == "MP3" else find(*state) if find else []
    if len(starts) > 1:
        raise InputError(f"{path}: {len(starts)} recordings in one file", f"divide it, or {CONVERT}")
    if file.frames >= UNKNOWN:
        raise InputError(f"{path}: its header does not say how long it is", CONVERT)


@lru_cache(maxsize=1 << 16)
def _flac_starts(path: Path, size: int, changed: int) -> list[int]:
    """Find the marks of FLAC in a file, all of which is read: going to its last sample may end in another recording."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        starts = [found.start() for found in re.finditer(re.escape(_FLAC), content)]
    return starts if starts[:1] == [0] else []


@lru_cache(maxsize=1 << 16)
def _ogg_starts(path: Path, size: int, changed: int) -> list[int]:
    """Find the first page of each stream of an OGG file; of streams side by side, that of the first.

    libsndfile says of some files that more follows, not of copies of one recording, whose serial number is the same.
    """
    starts: list[int] = []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at, was_first = 0, False
        has_more = content.find(_OGG_FIRST, 1) > 0  # it is quick to find; whether it is a page, the pages before it say
        while has_more and content[at : at + 4] == b"OggS" and at + 27 <= size:
            is_first = bool(content[at + 5] & 2)
            if is_first and not was_first:
                starts.append(at)
            was_first = is_first
            at += 27 + content[at + 26] + sum(content[at + 27 : at + 27 + content[at + 26]])
    return starts
