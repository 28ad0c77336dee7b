"""Recordings that the command line names, the names of their results, and files of the same name beside others."""

from __future__ import annotations

import glob
import os
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from speechctc.audio.addresses import address_of, name_of_address
from speechctc.audio.folders import CONTAINERS, ENDINGS, NOT_READ, SOUND, files_below, is_hidden, is_made
from speechctc.audio.tracks import Channel, named
from speechctc.core.errors import InputError, first_few, printable
from speechctc.core.files import numbered

_SPLITS = ("train", "dev", "test")  # folders of these names are nobody's


class Recording(NamedTuple):
    """A recording.

    Attributes
    ----------
    path : Path
    name : Path
        The name of its results: its path relative to the folder that was named, without the ending.
    channel : int or Track, optional
        The channel to read, counted from 1; None: the mean of all.
    speaker : str
        ``""`` where that is not known.
    address : str
        Where it was read from, if not from its path.
    """

    path: Path
    name: Path
    channel: Channel | None = None
    speaker: str = ""
    address: str = ""

    @property
    def place(self) -> str:
        """Its path or address, as the user named it."""
        return self.address or str(self.path)

    @property
    def source(self) -> str:
        """What is read, in words."""
        return named(self.place, self.channel)

    @property
    def called(self) -> Path:
        """The path whose last part others are named by: of its address, if it was read from one."""
        return Path(name_of_address(self.address)) if self.address else self.path

    def told(self, text: str) -> str:
        """Return a text about its file as one about its address, if it was read from one."""
        if not self.address:
            return text
        told = text.replace(str(self.path), self.address)
        return told if self.path.name in self.address else told.replace(self.path.name, self.called.name)


class Found(NamedTuple):
    """A recording that was named, the name of its results with the ending, the folder named or its own, an address."""

    path: Path
    name: Path
    place: Path
    address: str = ""


class Listed(NamedTuple):
    """Recordings named one by one; the names of their results begin below the folder that all are in."""

    entries: tuple[Found, ...]

    @classmethod
    def of(cls, named: Iterable[str]) -> Listed:
        """Return recordings of these paths and addresses."""
        entries, taken = list[tuple[Path, str]](), set[str]()
        for text in named:
            address = address_of(text)
            path = Path(name_of_address(address) if address else text)
            if address and str(path) in taken:  # it asks a server for something else under the same name
                path = next(each for each in map(path.with_stem, numbered(path.stem)) if str(each) not in taken)
            taken.add(str(path))
            entries.append((path, address))
        whole = [os.path.abspath(path) for path, _ in entries]
        root = os.path.commonpath(set(map(os.path.dirname, whole))) if whole else ""
        start, place = len(os.path.join(root, "")), Path(root)
        names = (Path(each[start:]) for each in whole)
        return cls(tuple(Found(path, name, place, at) for (path, at), name in zip(entries, names, strict=True)))


# What a command names: a file, a folder or a pattern; several recordings of a list; or one that was found.
Named = Path | Listed | Recording


def find_recordings(arguments: Iterable[Named], channel: Channel | None = None) -> list[Recording]:
    """Return the recordings that files, folders (at any depth) and patterns name, each once, in order.

    Files that do not exist are included; reading them gives the error. Where two files of a folder differ only in the
    ending, the names of their results keep it. `channel` is that of all of them. The folder below the one named is the
    speaker; where that tells nothing, and several folders or files of several are named, the one named.

    Raises
    ------
    InputError
        A folder without recordings, or a pattern that no file matches.
    """
    arguments = list(arguments)
    if known := [each for each in arguments if isinstance(each, Recording)]:
        return known
    entries: dict[Path, Found] = {}
    for argument in (each for each in arguments if not isinstance(each, Recording)):
        for entry in _expand(argument):
            entries.setdefault(entry.path, entry)
    speakers = _speakers(list(entries.values()))
    kinds = [_kind(path) for path in entries]
    stems = Counter(kinds)
    recordings = list[Recording]()
    for entry, (stem, is_sound), speaker in zip(entries.values(), kinds, speakers, strict=True):
        is_shared = stems[stem, is_sound] > 1 or (not is_sound and stems[stem, True] > 0)
        name = entry.name if is_shared or not entry.name.suffix else entry.name.with_suffix("")
        recordings.append(Recording(entry.path, name, channel, speaker, entry.address))
    return recordings


def _kind(path: Path) -> tuple[str, bool]:
    """Return a path without its ending, and whether that is of sound."""
    ending, text = path.suffix, str(path)
    return text.removesuffix(ending), ending.lower() in ENDINGS


def _speakers(entries: Sequence[Found]) -> list[str]:
    """Return the speaker of each recording."""
    own = [speaker_of(each.name) for each in entries]
    whole = {place: Path(os.path.abspath(place)) for place in {each.place for each in entries}}
    shared = Counter(place.name for place in set(whole.values()))
    users = defaultdict[str, set[Path]](set)
    for entry, speaker in zip(entries, own, strict=True):
        users[speaker].add(whole[entry.place])

    def named(entry: Found, speaker: str) -> str:
        if len(users[speaker]) == 1:
            return speaker
        name = whole[entry.place].name
        return speaker_of(Path(name if shared[name] == 1 else entry.place, speaker, entry.path.name))

    return list(map(named, entries, own))


def speaker_of(name: Path) -> str:
    """Return the speaker of a file by its path below the corpus: its folders, composed, without the split."""
    return unicodedata.normalize("NFC", "/".join(part for part in name.parts[:-1] if part.lower() not in _SPLITS))


def check_some(arguments: Sequence[Named]) -> None:
    """Check that one of the files, folders and patterns is there, before a model is loaded, which takes seconds.

    Raises
    ------
    InputError
        None of them is.
    """
    if not any(not isinstance(argument, Path) or os.path.exists(argument) for argument in arguments):
        found = find_recordings(arguments)
        if not any(os.path.exists(recording.path) for recording in found):
            raise InputError(f"{first_few([str(argument) for argument in arguments])}: no such file", "check the path")


def chosen_outside(file: Path, folder: Path, recordings: Iterable[str | Path]) -> list[str]:
    """Return a line on recordings outside of a folder that a table or a file of ELAN, maybe a stranger's, names."""
    inside = os.path.join(os.path.abspath(folder), "")
    found = [each for each in dict.fromkeys(map(str, recordings)) if not os.path.abspath(each).startswith(inside)]
    return (
        [f"{file} chooses what is read, and {len(found)} outside of {folder}: {first_few(found, 3)}"] if found else []
    )


def left_out(arguments: Iterable[Named]) -> list[str]:
    """Return lines on files and links in the named folders that look like sound and are not among the recordings."""
    folders = [argument for argument in arguments if isinstance(argument, Path) and os.path.isdir(argument)]
    return [printable(f"{folder}: {line}") for folder in folders for line in _scan(folder)[1]]


def _scan(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the recordings of a folder, and lines on what is left out.

    Hidden files and folders are left out without a line: drafts, what macOS stores under ``._`` names, waste baskets.
    """
    closed: list[OSError] = []
    paths = [path for path in files_below(folder, closed.append) if not is_hidden(path, folder)]
    refused = {Path(error.filename) for error in closed if isinstance(error, PermissionError)}
    sound = [path for path in paths if path.suffix.lower() in ENDINGS and path.is_file()]
    plain = {path.with_suffix("") for path in sound if path.suffix.lower() in SOUND}
    doubles = [path for path in sound if path.suffix.lower() in CONTAINERS and path.with_suffix("") in plain]
    links = [path for path in paths if path.is_symlink()]
    unread = [path for path in paths if path.suffix.lower() in NOT_READ and path.is_file()]
    made = [path for path in paths if is_made(path) and _has_sound(path)]
    reasons = {
        "the same sound is beside it with another ending": doubles,
        "this format is not read; convert it to WAV": unread,
        "a link that leads nowhere": [path for path in links if path.suffix.lower() in ENDINGS and not path.exists()],
        "a link to a folder, which may lead in a circle; name that folder itself": [*filter(Path.is_dir, links)],
        "this user may not look into it; change its permissions": [path for path in paths if path in refused],
        "speechctc made this folder, such as a round of the studio, with copies of recordings; name it itself": made,
    }
    left = set(doubles)
    lines = [
        f"{first_few([path.name for path in found], 1)} left out: {why}" for why, found in reasons.items() if found
    ]
    return [path for path in sound if path not in left], lines


def _has_sound(folder: Path) -> bool:
    return any(name.lower().endswith(ENDINGS) for *_, names in os.walk(folder) for name in names)


def _expand(argument: Path | Listed) -> Sequence[Found]:
    """Return the files that an argument names."""
    if isinstance(argument, Listed):
        return argument.entries
    if os.path.isdir(argument):
        files, others = _scan(argument)
        if not files:
            looked = f"(looked for {'; '.join([' '.join(ENDINGS), *others])})"
            raise InputError(f"{argument}: no recordings in this folder {looked}", "name another folder, or files")
        return [Found(path, path.relative_to(argument), argument) for path in files]
    if glob.has_magic(str(argument)) and not os.path.exists(argument):
        matches = sorted(glob.glob(str(argument), recursive=True))
        if not matches:
            raise InputError(f"{argument}: no file matches this pattern", "check the path, and where you are")
        return [entry for match in matches for entry in _expand(Path(match))]
    return [Found(argument, Path(argument.name), argument.parent)]


def ids(recordings: Sequence[Recording]) -> list[str]:
    """Return a distinct name without spaces for each recording, as CTM requires.

    It is the name of the results, or the path where two results have the same name; a number is appended where names
    are still the same.
    """
    names = Counter(recording.name for recording in recordings)
    taken: set[str] = set()
    found = []
    for path, name, *_ in recordings:
        whole = (name if names[name] == 1 else path.with_suffix("") if path.suffix else path).as_posix()
        id = next(each for each in numbered("_".join(whole.split()) or "-") if each not in taken)
        taken.add(id)
        found.append(id)
    return found


def name_of(id: str) -> Path:
    """Return the name of results for an id of a table: a name, never a path, whatever signs the id has."""
    separators = {os.sep, os.altsep or os.sep, "\0", *(":" if os.name == "nt" else "")}
    name = "".join("_" if sign in separators else sign for sign in id)
    return Path(name if name.strip(". ") else f"_{name}")


class Names(NamedTuple):
    """Names of files by what their spellings in other letter case or Unicode form share: whole, and without ending."""

    whole: Mapping[str, Sequence[str]]
    stems: Mapping[str, Sequence[str]]


def names_of(names: Iterable[str]) -> Names:
    """Return names of files, which are found by their spelling."""
    whole: defaultdict[str, list[str]] = defaultdict(list)
    stems: defaultdict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys(names):
        whole[_key(name)].append(name)
        stems[_key(_stem(name))].append(name)
    return Names(whole, stems)


class Siblings:
    """Finds files beside others; a folder is listed once, so make another where files may have come since.

    Names match exactly, apart from the letter case of the ending. Only where none does, one whose name differs by
    letter case or Unicode form (``é`` as one character or two) is taken: if no other file could be meant. Of ``s.wav``
    and ``S.wav``, ``s.TextGrid`` belongs to the first; of ``ab.lab`` and ``Ab.lab``, none is taken for ``AB.wav``.
    ``a.wav.TextGrid`` belongs to ``a.wav.mp3``, and to ``a.wav`` only where no recording is called ``a.wav`` and an
    ending.

    Parameters
    ----------
    passed_over : callable, optional
        Tells for a file whether it counts as not there.
    """

    def __init__(self, passed_over: Callable[[Path], bool] | None = None) -> None:
        self._passed_over = passed_over
        self._folders: dict[str, Names] = {}

    def find(self, path: Path, endings: Iterable[str], others: Names | None = None) -> Path | None:
        """Return the file in the same folder with the same name and another ending; None if none is.

        The first of `endings` that exists counts. For ``a.mp3``, ``a.mp3.TextGrid`` is preferred to ``a.TextGrid``.

        Parameters
        ----------
        path : Path
            Need not exist.
        endings : iterable of str
            In lower case.
        others : Names, optional
            Of files elsewhere that something is looked for, too, beside those of this kind in the folder.
        """
        there = self._listing(path.parent)
        seekers = (there, others) if others else (there,)
        alike = self._alike(path, tuple(endings), there)
        for spelling, found in alike:
            if spelling == path.stem or (spelling == path.name and not _has_stem(spelling, path, seekers)):
                return found
        free = [each for each in alike if each[0] != path.name and not _has_rival(each[0], path, seekers)]
        names = {_stem(each) if _key(each) == _key(path.name) else each for each, _ in free}
        return free[0][1] if len(names) == 1 else None

    def recording_of(self, labels: Path) -> Path | None:
        """Return the recording that a file of labels beside it belongs to; None if none is.

        Of several with its name, that with the first of `ENDINGS`; ``a.wav.PHN`` may be that of ``a.wav``, too.
        """
        there = self._listing(labels.parent)
        sounds = [name for name in there.stems.get(_key(labels.stem), ()) if name.lower().endswith(ENDINGS)]
        exact = [name for name in sounds if _stem(name) == labels.stem]
        exact.sort(key=lambda name: ENDINGS.index(os.path.splitext(name)[1].lower()))
        if labels.stem.lower().endswith(ENDINGS) and labels.stem in there.whole.get(_key(labels.stem), ()):
            exact.append(labels.stem)
        return labels.with_name(exact[0]) if exact else self.find(labels, ENDINGS)

    def around(self, recordings: Iterable[Path]) -> Names:
        """Return the names of recordings, and of those in their folders."""
        named = list(recordings)
        folders = dict.fromkeys(path.parent for path in named)
        beside = (name for folder in folders for names in self._listing(folder).whole.values() for name in names)
        return names_of([*(path.name for path in named), *(name for name in beside if name.lower().endswith(ENDINGS))])

    def _alike(self, path: Path, endings: tuple[str, ...], there: Names) -> list[tuple[str, Path]]:
        """Return the files that may be meant, the preferred ones first, each with its name without the ending."""
        keys = [(ending, _key(f"{name}{ending}")) for ending in endings for name in (path.name, path.stem)]
        found = [(name[: -len(end)], path.parent / name) for end, key in keys for name in there.whole.get(key, ())]
        return [each for each in found if self._passed_over is None or not self._passed_over(each[1])]

    def _listing(self, folder: Path) -> Names:
        if (found := self._folders.get(str(folder))) is None:
            try:
                names = sorted(os.listdir(folder))
            except OSError:
                names = []
            found = self._folders[str(folder)] = names_of(names)
        return found


def _has_stem(stem: str, path: Path, seekers: Iterable[Names]) -> bool:
    """Tell whether another file of a path's kind has exactly this name and an ending."""
    return any(
        _stem(name) == stem and name != path.name and _is_alike(name, path)
        for names in seekers
        for name in names.stems.get(_key(stem), ())
    )


def _has_rival(spelling: str, path: Path, seekers: Iterable[Names]) -> bool:
    """Tell whether a file whose name differs from a path's by more than the ending may look for the same."""
    key = _key(spelling)
    return any(
        _stem(name) != path.stem and _is_alike(name, path)
        for names in seekers
        for name in (*names.stems.get(key, ()), *names.whole.get(key, ()))
    )


def _is_alike(name: str, path: Path) -> bool:
    """Tell whether a file is of a path's kind: both are recordings, or have the same ending."""
    kind = ENDINGS if path.suffix.lower() in ENDINGS else (path.suffix.lower(),)
    return os.path.splitext(name)[1].lower() in kind


def _stem(name: str) -> str:
    return os.path.splitext(name)[0]


def _key(name: str) -> str:
    """Return what spellings of a name in other letter case or Unicode form share."""
    return unicodedata.normalize("NFC", name).lower()
