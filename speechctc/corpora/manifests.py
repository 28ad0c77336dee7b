"""Reads the corpora of other programs as rows of tables: LibriSpeech, Kaldi, lhotse and NeMo.

A row is a dict whose keys are the columns of a table (see `speechctc.corpora.table_rows`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from speechctc.audio.recordings import ENDINGS, walk
from speechctc.core.errors import InputError
from speechctc.core.text_files import read_text
from speechctc.phones.texts import read_unpacked

TRANS = ".trans.txt"
SCP = "wav.scp"
Values = dict[str, Any]

_FILE = r"""(?P<file>'[^']+'|"[^"$`\\]+"|(?!-)[^\s'"|<>;&$`\\()*?\[]+)"""
# The commands of wav.scp that unpack a recording, whole or one channel of it, and do not change how long it is.
_UNPACK = [
    re.compile(each.replace(" ", r"\s+").replace("FILE", _FILE))
    for each in (
        r"(?:\S*/)?flac (?:(?:-[cds]+|--decode|--stdout|--silent) )+FILE",
        r"(?:\S*/)?sph2pipe (?:(?:-f (?:wav|rif)|-p|-c (?P<channel>[12])) )+FILE(?: -)?",
        r"(?:\S*/)?sox (?:-t \w+ )?FILE (?:-[rbe] \S+ )*-t wav (?:-[rbe] \S+ )*-(?: remix (?P<channel>\d+))?",
        r"(?:\S*/)?cat FILE",
    )
]


def corpora_in(folder: Path, names: Iterable[Path]) -> list[Path]:
    """Return the folders in a folder, or itself, that are a table: Kaldi's data folders, and splits of LibriSpeech.

    Parameters
    ----------
    folder : Path
    names : iterable of Path
        The files below it.
    """
    found: dict[Path, None] = {}
    for path in names:
        if path.name == SCP and (path.parent / "text").is_file():
            found[path.parent] = None
        elif path.name.endswith(TRANS):  # split/speaker/chapter/file
            found[next(each for each in path.parents[2::-1] if each == folder or folder in each.parents)] = None
    return list(found)


def read_folder(folder: Path) -> Iterator[Values] | None:
    """Return the rows of a corpus of Kaldi or LibriSpeech; None if a folder is none."""
    if (folder / SCP).is_file():
        return _kaldi(folder)
    files = sorted(Path(where, name) for where, _, names in walk(folder) for name in names if name.endswith(TRANS))
    return _librispeech(folder, files) if files else None


def _librispeech(folder: Path, files: Iterable[Path]) -> Iterator[Values]:
    """Yield the rows of lines ``ID WORDS`` in files beside recordings, whose names begin with that of the speaker."""
    for path in files:
        beside = {Path(name).stem: name for name in os.listdir(path.parent) if name.lower().endswith(ENDINGS)}
        place = path.parent.relative_to(folder)
        for id, words in _pairs(path):
            audio = str(place / beside.get(id, f"{id}.flac"))
            yield {"id": id, "audio": audio, "words": words, "speaker": id.partition("-")[0]}


def _kaldi(folder: Path) -> Iterator[Values]:
    """Yield the rows of ``text``, whose recordings are those of ``segments`` in ``wav.scp``, or have the same id."""
    recordings = {id: _recording(place) for id, place in _pairs(folder / SCP)}
    segments = {id: rest.split() for id, rest in _pairs(folder / "segments")}
    speakers, sexes = dict(_pairs(folder / "utt2spk")), dict(_pairs(folder / "spk2gender"))
    for id, words in _pairs(folder / "text", needed=True):
        recording, *fields = segments.get(id, [id])
        speaker = speakers.get(id, "")
        traits = {"words": words, "speaker": speaker, "sex": sexes.get(speaker, "")}
        yield {"id": id, **traits, **_stretch(fields, recordings.get(recording, {"audio": ""}))}


def _stretch(fields: list[str], recording: Values) -> Values:
    """Return the columns of a recording of which ``segments`` names start, end and perhaps a channel, from 0."""
    if not fields:
        return recording
    start, end, *channel = fields if len(fields) in (2, 3) else ("", "", "")
    if channel and not (channel[0].isdecimal() and not (recording.get("channel") and int(channel[0]))):
        return {
            "problem": f"a line of segments that has not times, or a channel of its recording: {' '.join(fields)!r}"
        }
    number = {"channel": int(channel[0]) + 1} if channel and not recording.get("channel") else {}
    return {**recording, **number, "start": start, "end": end}


def _recording(place: str) -> Values:
    """Return the columns of an entry of ``wav.scp``: of a command that only unpacks a recording, those of that one."""
    if not place.endswith("|"):
        return {"audio": place}
    found = next(filter(None, (each.fullmatch(place[:-1].strip()) for each in _UNPACK)), None)
    if found is None:
        return {"problem": f"a command of {SCP} that may change the sound: {place[:80]!r}"}
    named = found.groupdict()
    return {"audio": named["file"].strip("'\""), "channel": named.get("channel")}


def _pairs(path: Path, needed: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the first word of each line and the rest; nothing if there is no such file."""
    if not needed and not path.is_file():
        return
    for line in read_text(path).text.split("\n"):
        first, *rest = line.split(None, 1) or [""]
        if first:
            yield first, rest[0].strip() if rest else ""


def of_object(values: Mapping[str, Any], path: Path) -> list[Mapping[str, Any]]:
    """Return the rows of an object of a JSON manifest: a cut or a supervision of lhotse, an entry of NeMo, or itself.

    Parameters
    ----------
    values : mapping
    path : Path
        The manifest. Supervisions name recordings, which the manifest of that name beside it has.

    Raises
    ------
    InputError
        There is no such manifest of recordings.
    """
    if "supervisions" in values and isinstance(values.get("recording"), dict):
        start, recording = float(values.get("start") or 0), values["recording"]
        return [_supervision(each, recording, start) for each in values["supervisions"]]
    if "recording_id" in values and "text" in values and "audio" not in values:
        return [_supervision(values, _recordings(path).get(values["recording_id"], {}), 0.0)]
    if "offset" in values and "start" not in values and "duration" in values:
        start = float(values["offset"] or 0)
        return [{**values, "start": start, "end": round(start + float(values["duration"]), 6)}]
    return [values]


def _supervision(each: Mapping[str, Any], recording: Mapping[str, Any], offset: float) -> Values:
    """Return the row of a stretch of a recording, in lhotse's fields; its channels count from 0."""
    sources = recording.get("sources") or [{}]
    start = offset + float(each.get("start") or 0)
    channels = [channel for source in sources for channel in source.get("channels", [])]
    channel = each.get("channel", 0)
    return {
        **{name: each[name] for name in ("id", "speaker", "language") if each.get(name)},
        "audio": sources[0].get("source", ""),
        "words": each.get("text", ""),
        "sex": each.get("gender") or "",
        "start": start,
        "end": round(start + float(each.get("duration") or 0), 6),
        **({"channel": channel + 1} if len(channels) > 1 and isinstance(channel, int) else {}),
    }


@cache
def _recordings(path: Path) -> dict[str, Any]:
    """Return the recordings of the manifest beside one of supervisions, by their ids."""
    beside = path.with_name(path.name.replace("supervisions", "recordings"))
    if beside == path or not beside.is_file():
        raise InputError(f"{path}: the manifest of its recordings, {beside.name}, is not there", "put it there")
    lines = read_unpacked(beside, "a manifest").split("\n")
    return {each["id"]: each for each in map(json.loads, filter(str.strip, lines))}
