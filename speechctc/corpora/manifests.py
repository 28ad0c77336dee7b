"""The rows of other toolkits' corpora: LibriSpeech, Kaldi, VCTK; lhotse, NeMo, SpeechBrain; fairseq, LJSpeech."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path, PurePath
from typing import Any

from speechctc.audio.folders import ENDINGS as SOUNDS
from speechctc.audio.folders import walk
from speechctc.core.errors import InputError
from speechctc.core.text_files import MOST_TABLE, read_text, read_unpacked

TRANS = ".trans.txt"
SCP = "wav.scp"
OF_FAIRSEQ = (".phn", ".wrd", ".ltr")  # labels beside a manifest of fairseq; of several, the first is read
TO_THE_END = "inf"  # the end of a row that lasts as long as its recording
PERTURBED = "a perturbed copy"  # what the problem of a row begins with that is no recording of its own
Values = dict[str, Any]

_FILE = r"""(?P<file>'[^']+'|"[^"$`\\]+"|(?!-)[^\s'"|<>;&$`\\()*?\[]+)"""
# The commands of wav.scp that unpack a recording, whole or one channel of it, and do not change how long it is.
_UNPACK = [
    re.compile(each.replace(" ", r"\s+").replace("FILE", _FILE))
    for each in (
        r"(?:\S*/)?flac (?:(?:-[cds]+|--decode|--stdout|--silent) )+FILE",
        r"(?:\S*/)?sph2pipe (?:(?:-f (?:wav|rif)|-p|-c (?P<channel>[12])) )+FILE(?: -)?",
        r"(?:\S*/)?sox (?:-t \w+ )?FILE (?:-[rbe] \S+ )*-t wav (?:-[rbe] \S+ )*-(?: remix (?P<channel>\d+))?",
        r"cat FILE",
        r"(?:\S*/)?ffmpeg (?:-nostdin |-hide_banner |-(?:v|loglevel) \w+ )*-i FILE"
        r"(?: -vn| -(?:f|ar|acodec|c:a|sample_fmt) \w+| -ac 1)* (?:-|pipe:1)",
    )
]
_ARCHIVE = re.compile(r".*\.ark:\d+(\[.*\])?")


def corpora_in(folder: Path, names: Iterable[Path]) -> list[Path]:
    """Return the folders in a folder, or itself, that are a table: Kaldi's, VCTK's, and splits of LibriSpeech.

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
        elif path.suffix.lower() == ".txt" and TEXTS in path.relative_to(folder).parts[:-1]:
            above = next(each.parent for each in path.parents if each.name == TEXTS)
            found |= dict.fromkeys([above] if above not in found and _sound_folders(above) else [])
    return list(found)


def read_folder(folder: Path) -> Callable[[], Iterator[Values]] | None:
    """Return what reads the rows of a corpus of Kaldi, LibriSpeech or VCTK; None if a folder is none.

    Its files are found once, however often the rows are read; VCTK's, which are many, when they are first read.
    """
    if (folder / SCP).is_file() and (folder / "text").is_file():
        return partial(_kaldi, folder)
    if (folder / TEXTS).is_dir() and _sound_folders(folder):
        found = cache(lambda: (_sounds_of_vctk(folder), _files_below(folder / TEXTS, ".txt")))
        return lambda: _vctk(folder, *found())
    files = _files_below(folder, TRANS)
    return partial(_librispeech, folder, files) if files else None


def _files_below(folder: Path, ending: str) -> list[Path]:
    """Return the files at any depth whose names end so, in order."""
    named = (Path(where, name) for where, _, names in walk(folder) for name in names if name.lower().endswith(ending))
    return sorted(named)


def _librispeech(folder: Path, files: Iterable[Path]) -> Iterator[Values]:
    """Yield the rows of lines ``ID WORDS`` in files beside recordings, whose names begin with that of the speaker."""
    for path in files:
        beside = {Path(name).stem: name for name in os.listdir(path.parent) if name.lower().endswith(SOUNDS)}
        place = path.parent.relative_to(folder)
        of_file = {"file": str(path.relative_to(folder))}
        for line, id, words in _lines(path):
            audio = str(place / beside.pop(id, f"{id}.flac"))
            yield {**of_file, "line": line, "id": id, "audio": audio, "words": words, "speaker": id.partition("-")[0]}
        for id, name in sorted(beside.items()):
            problem = f"no line of it for the recording {place / name}"
            yield {**of_file, "line": 1, "id": id, "problem": problem, "fix": "write its words into it"}


def _kaldi(folder: Path) -> Iterator[Values]:
    """Yield the rows of ``text``, whose recordings are those of ``segments`` in ``wav.scp``, or have the same id.

    Utterances that have no line there are rows with a problem.
    """
    places, segments = _by_id(folder / SCP), _by_id(folder / "segments")
    speakers, sexes, languages = (dict(_by_id(folder / name)) for name in ("utt2spk", "spk2gender", "utt2lang"))
    has_segments = (folder / "segments").is_file()
    said = set[str]()
    for line, id, words in _lines(folder / "text"):
        said.add(id)
        _, speaker = speakers.get(id, (0, ""))
        traits = {"speaker": speaker, "sex": sexes.get(speaker, (0, ""))[1], "language": languages.get(id, (0, ""))[1]}
        row = {"file": "text", "line": line, "id": id, "words": words, **traits}
        if has_segments and id not in segments:
            yield {**row, "problem": f"no line of segments for the utterance {id!r}"}
            continue
        recording, *times = segments[id][1].split() if has_segments else [id]
        if recording not in places:
            yield {**row, "problem": f"no line of {SCP} for the recording {recording!r}"}
            continue
        yield {**row, **_stretch(times, _recording(places[recording][1]))}
    name, utterances = ("segments", segments) if has_segments else (SCP, places)
    for id, (line, _) in utterances.items():
        if id not in said:
            problem = f"no line of text for the utterance {id!r}"
            yield {"file": name, "line": line, "id": id, "problem": problem, "fix": "write its words there"}


def _stretch(times: list[str], recording: Values) -> Values:
    """Return the columns of a recording of which ``segments`` names start, end (-1: its end), and perhaps a channel.

    Channels are counted from 0.
    """
    if len(times) not in (0, 2, 3):
        return {"problem": f"a line of segments that has not two times, and perhaps a channel: {' '.join(times)!r}"}
    if "problem" in recording or not times:
        return recording
    columns = {**recording, "start": times[0], "end": TO_THE_END if _is_end(times[1]) else times[1]}
    if times[2:]:
        named, alone = times[2], recording.get("channel")
        if not named.isdecimal() or (alone and named != "0"):
            among = f" of the one that {SCP} takes" if alone else ""
            return {"problem": f"the channel {named!r}{among}, counted from 0, in a line of segments"}
        columns["channel"] = alone or int(named) + 1
    return columns


def _is_end(time: str) -> bool:
    try:
        return float(time) == -1.0
    except ValueError:
        return False


def _recording(place: str) -> Values:
    """Return the columns of an entry of ``wav.scp``: of a command that only unpacks a recording, those of that one."""
    if _ARCHIVE.fullmatch(place):
        fix = f"unpack it (wav-copy), and name its files in {SCP}"
        return {"problem": f"a recording in an archive of Kaldi, which is not read: {place[:80]!r}", "fix": fix}
    if not place.endswith("|"):
        return {"audio": place}
    for command in _UNPACK:
        if found := command.fullmatch(place[:-1].strip()):
            named = found.groupdict()
            return {"audio": named["file"].strip("'\""), "channel": named.get("channel")}
    return {"problem": f"a command of {SCP} that may change the sound: {place[:80]!r}"}


def _lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield of each line that is not empty its number, its first word and the rest."""
    for number, line in enumerate(read_text(path, MOST_TABLE).text.split("\n"), start=1):
        first, *rest = line.split(None, 1) or [""]
        if first:
            yield number, first, rest[0].strip() if rest else ""


def _by_id(path: Path) -> dict[str, tuple[int, str]]:
    """Return by the first word of each line its number and the rest; nothing if there is no such file.

    Raises
    ------
    InputError
        Two lines say different things of one.
    """
    found: dict[str, tuple[int, str]] = {}
    for line, id, rest in _lines(path) if path.is_file() else ():
        before, known = found.setdefault(id, (line, rest))
        if known != rest:
            raise InputError(f"{path}, line {line}: {id!r} has another entry in line {before}", "leave one of them")
    return found


TEXTS = "txt"  # the folder of texts named like the recordings, which are below folders such as wav48
_MICROPHONES = ("", "_mic1", "_mic2")


def _sound_folders(folder: Path) -> list[str]:
    """Return the folders of recordings beside that of texts."""
    return sorted(each.name for each in os.scandir(folder) if each.is_dir() and each.name.lower().startswith("wav"))


def _sounds_of_vctk(folder: Path) -> dict[Path, str]:
    """Return the recordings by the folder inside of the place where they are, and the stem."""
    sounds: dict[Path, str] = {}
    for place in (folder / name for name in reversed(_sound_folders(folder))):
        for where, _, names in walk(place):
            below = Path(where).relative_to(place)
            sounds |= {below / Path(name).stem: os.path.join(where, name) for name in names if _is_sound(name)}
    return sounds


def _vctk(folder: Path, sounds: Mapping[Path, str], texts: Iterable[Path]) -> Iterator[Values]:
    """Yield the rows of texts that are each a file, named like its recording, in folders named like the speakers.

    Of a recording with two microphones the first is read.
    """
    first = folder / _sound_folders(folder)[0]  # where one that is not there should be
    for file in texts:
        inside = file.parent.relative_to(folder / TEXTS)
        found = [sounds.get(inside / f"{file.stem}{which}") for which in _MICROPHONES]
        audio = next(filter(None, found), None) or os.path.join(first, inside, f"{file.stem}.wav")
        row = {
            "id": file.stem,
            "audio": os.path.relpath(audio, folder),
            "words": " ".join(read_text(file).text.split()),
        }
        yield {**row, "speaker": inside.name, "file": str(file.relative_to(folder)), "line": 1}


def _is_sound(name: str) -> bool:
    return name.lower().endswith(SOUNDS)


def of_object(values: Mapping[str, Any], path: Path) -> list[Mapping[str, Any]]:
    """Return the rows of an object of a JSON manifest: a cut or a supervision of lhotse, an entry of NeMo, or itself.

    Parameters
    ----------
    values : mapping
    path : Path
        The manifest. Supervisions name recordings, which the manifest of that name beside it has.

    Returns
    -------
    rows : list of mapping
        At least one: what has no labels, or no recording that can be read, is a row with a problem.

    Raises
    ------
    InputError
        There is no such manifest of recordings.
    """
    if "tracks" in values or "supervisions" in values or values.get("type") == "PaddingCut":
        return _cut(values)
    if "recording_id" in values and "text" in values and "audio" not in values:
        id = values["recording_id"]
        if id not in (recordings := _recordings(path)):
            problem = f"no recording {id!r} in {beside(path).name}"
            return [{"id": values.get("id"), "problem": problem}]
        return [_supervision(values, recordings[id], 0.0)]
    if isinstance(values.get("audio_filepath"), list):
        fix = "name one of them"
        return [{"id": values.get("id"), "problem": f"several files: {values['audio_filepath']!r:.80}", "fix": fix}]
    return [with_end(_unfolded(values))]


def _unfolded(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row whose recording is no object of its file and its times, as one of SpeechBrain may be."""
    for name, value in values.items():
        if isinstance(value, Mapping) and isinstance(value.get("file"), str):
            times = {each: value[each] for each in ("start", "stop") if each in value}
            others = {key: other for key, other in values.items() if key != name}
            return {**others, "audio": value["file"], **times, "of_speechbrain": True}
    return values


def with_end(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row with an end in place of a duration, where it names its start, or is of NeMo, where that is 0.

    Without a duration (None) such a row lasts to the end of its recording. A row with a stop stays as it is: its times
    may be SpeechBrain's, in samples.

    Raises
    ------
    TypeError, ValueError
        A time is no number.
    """
    begins = next((name for name in ("start", "offset") if name in values), None)
    if begins == "offset" and "onset" in values:  # beside an onset, an offset is an end
        return values
    if "end" in values or "stop" in values or ("duration" not in values and begins != "offset"):
        return values
    if begins is None and "audio_filepath" not in values:  # others tell how long the whole recording is
        return values
    start, duration = values[begins] if begins else 0, values.get("duration")
    if start in ("", None) and duration in ("", None):
        return values
    start = float(start or 0)
    end = TO_THE_END if duration in ("", None) else round(start + float(duration), 6)
    return {**values, "start": start, "end": end}


def _cut(cut: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the rows of a cut of lhotse, one for each supervision; padding after its only recording is left out."""
    if "tracks" in cut:
        inside = [each["cut"] for each in cut["tracks"] if each["cut"].get("type") != "PaddingCut"]
        if len(inside) == 1:
            return _cut(inside[0])
        fix = "leave it out, or write its parts as cuts"
        return [{"id": cut.get("id"), "problem": f"a cut mixed of {len(inside)} recordings", "fix": fix}]
    if not cut.get("supervisions"):
        return [{"id": cut.get("id"), "problem": "a cut without supervisions, that is, without words"}]
    if not isinstance(cut.get("recording"), dict):
        what = "a cut of features without its recording" if cut.get("features") else "a cut without a recording"
        return [{"id": cut.get("id"), "problem": what, "fix": "write the cuts with their recordings"}]
    return [_supervision(each, cut["recording"], float(cut.get("start") or 0)) for each in cut["supervisions"]]


def _supervision(each: Mapping[str, Any], recording: Mapping[str, Any], offset: float) -> Values:
    """Return the row of a segment in lhotse's fields; its channels are named in the sources of the recording."""
    start = offset + float(each.get("start") or 0)
    row = {
        **{name: each[name] for name in ("id", "speaker", "language") if each.get(name)},
        "words": each.get("text", ""),
        "sex": each.get("gender") or "",
        "start": start,
        "end": round(start + float(each["duration"]), 6) if each.get("duration") is not None else TO_THE_END,
    }
    if changes := _changes(recording):
        fix = "training makes its own: augment.speed, and the other keys of augment"
        return {**row, "problem": f"{PERTURBED} ({changes})", "fix": fix}
    return row | _source(recording.get("sources") or [], each.get("channel", 0))


def _changes(recording: Mapping[str, Any]) -> str:
    """Return in words how the sound of a recording of lhotse differs from that of its file, but for its rate."""
    named = []
    for each in recording.get("transforms") or []:
        name, kwargs = (each.get("name"), each.get("kwargs") or {}) if isinstance(each, Mapping) else (each, {})
        if name != "Resample":
            factor = kwargs.get("factor") if isinstance(kwargs, Mapping) else None
            named.append(f"{name} {factor:g}" if isinstance(factor, int | float) else str(name))
    return ", ".join(named)


def _source(sources: Sequence[Mapping[str, Any]], channel: object) -> Values:
    """Return the columns of the source that has a channel, and which of its channels that is, if it has several."""
    wanted = channel if isinstance(channel, list) else [channel]
    holds = [each for each in sources if set(wanted) <= set(each.get("channels", []))]
    if not sources or not wanted:
        return {"problem": "a recording without sources"}
    if not holds:
        there = sorted(number for each in sources for number in each.get("channels", []))
        split = "which are in several files" if set(wanted) <= set(there) else f"of a recording with {there}"
        return {"problem": f"channel {', '.join(map(str, wanted))}, {split}", "fix": "name one that is there"}
    source, channels = holds[0], list(holds[0].get("channels", []))
    kind, place = source.get("type", "file"), str(source.get("source", ""))
    if kind == "command":
        columns = _recording(f"{place} |")
    elif kind == "file":
        columns = {"audio": place}
    else:
        return {"problem": f"its sound is of lhotse's type {kind!r}, not in a file", "fix": "save it as a file"}
    if len(wanted) == 1 and len(channels) > 1:
        return {**columns, "channel": channels.index(wanted[0]) + 1}
    if 1 < len(wanted) < len(channels):
        problem = f"{len(wanted)} of the {len(channels)} channels of a file"
        return {"problem": problem, "fix": "name one of them, or all"}
    return columns


def beside(path: Path) -> Path:
    """Return the manifest of lhotse's recordings beside one of supervisions; another manifest as it is."""
    return path.with_name(path.name.replace("supervisions", "recordings"))


@cache
def _recordings(path: Path) -> dict[str, Any]:
    """Return the recordings of the manifest beside one of supervisions, by their ids."""
    manifest = beside(path)
    if manifest == path or not manifest.is_file():
        raise InputError(f"{path}: the manifest of its recordings, {manifest.name}, is not there", "put it there")
    lines = read_unpacked(manifest, "a manifest").split("\n")
    return {each["id"]: each for each in map(json.loads, filter(str.strip, lines))}


def fairseq_rows(text: str, path: Path) -> list[Values] | None:
    """Return the rows of a manifest of fairseq; None if a table is none.

    Its first line is the folder of the recordings, the others have names and lengths; the labels are the lines of a
    file of its name with the ending .phn, .wrd or .ltr.

    Raises
    ------
    InputError
        There are no labels, or not as many as recordings.
    """
    root, *lines = text.rstrip("\n").split("\n")
    if "\t" in root or not lines or not all(_SAMPLES.fullmatch(line) for line in lines[:9]):
        return None
    labelled = next(filter(Path.is_file, map(path.with_suffix, OF_FAIRSEQ)), None)
    if labelled is None:
        what = f"{path}: a manifest of fairseq without a file of labels beside it"
        raise InputError(what, f"add {path.stem}.phn, .wrd or .ltr")
    labels = read_text(labelled, MOST_TABLE).text.rstrip("\n").split("\n")
    if len(labels) != len(lines):
        what = f"{path}: {len(lines)} recordings, and {labelled.name} has {len(labels)} lines"
        raise InputError(what, "give each recording its line")
    rows = []
    for number, (line, said) in enumerate(zip(lines, labels, strict=True), start=2):
        name = line.partition("\t")[0]
        words = said.replace(" ", "").replace("|", " ") if labelled.suffix == ".ltr" else said
        own = {"phones": words} if labelled.suffix == ".phn" else {"words": words}
        id = str(PurePath(name).with_suffix(""))
        rows.append({"line": number, "id": id, "audio": os.path.join(root.strip(), name), **own})
    return rows


_SAMPLES = re.compile(r"[^\t]+\t\d+")
_MOSTLY = 0.9  # share of the cells of a column that tells what the column is


def without_header(rows: Iterable[list[str]], path: Path) -> tuple[list[str], str, tuple[str, ...]] | None:
    """Tell the columns of a table with ``|`` whose first line names none, as LJSpeech and its like have it.

    Parameters
    ----------
    rows : iterable of list of str
    path : Path

    Returns
    -------
    columns : list of str
        ``id`` or ``audio``, ``words`` (of two texts the second, which is normalised), ``written`` (the first), and
        perhaps ``speaker``.
    audio : str
        Where the recordings are, if rows have ids: ``"wavs/{}.wav"``; else ``""``.
    notes : tuple of str
        How it is read.

    None: that cannot be told.
    """
    cells = list(rows)
    width, count = Counter(map(len, cells)).most_common(1)[0] if cells else (0, 0)
    if width < 2 or count < _MOSTLY * len(cells):
        return None
    own = [
        [cell.strip() for cell in column]
        for column in zip(*(each for each in cells if len(each) == width), strict=True)
    ]
    first, others = own[0], own[1:]
    is_audio = sum(map(_is_sound, first)) >= _MOSTLY * len(first)
    texts = [
        k
        for k, column in enumerate(others, start=1)
        if sum(" " in cell for cell in column) >= _MOSTLY * len(column) / 2
    ]
    are_ids = len({cell for cell in first if " " not in cell}) >= _MOSTLY * len(first)
    if not (is_audio or are_ids) or not texts:
        return None
    columns = ["audio" if is_audio else "id", *[""] * len(others)]
    for k, name in zip(reversed(texts[:2]), ("words", "written"), strict=False):
        columns[k] = name
    named = [k for k, column in enumerate(own) if not columns[k] and not any(map(_is_decimal, column))]
    if len(named) == 1:
        columns[named[0]] = "speaker"
    audio = "" if is_audio else _place_of(path.parent, first)
    where = f"; the recordings are {audio.format('ID')}" if audio else ""
    told = ", ".join(name or "nothing" for name in columns)
    return columns, audio, (f"{path}: no line of names; its columns are read as {told}{where}",)


def _is_decimal(cell: str) -> bool:
    return re.fullmatch(r"\d*[.,]\d+", cell) is not None


def _place_of(folder: Path, ids: Sequence[str]) -> str:
    """Return where in a folder the recordings of ids are, by the first that is there."""
    for id in ids[:100]:
        for place in ("wavs", "wav", "audio", "clips", ""):
            for ending in SOUNDS:
                if os.path.isfile(os.path.join(folder, place, id + ending)):
                    return os.path.join(place, "{}" + ending)
    return os.path.join("wavs", "{}.wav")
