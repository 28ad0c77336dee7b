"""The store: features by what they are made from, so that none is made twice.

The key of an entry is a hash of the content of a recording, the stretch, the channel, what is taken off it first, the
settings of the features and the version of their extractor. Labels, languages, ids and paths are not in it. An entry is
a row of a shard (`features.shards`); shards are named by their keys and never change, so that several processes and
machines may read and write the same store.

Beside the shards: ``recordings.json`` has the digest of each recording with the size and times of its file, and
``same.json`` the entries that are another one: of recordings from which there was nothing to take off.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open

from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.core.parallel import attempt
from speechctc.features.shards import FORMAT, KEY_BYTES, Entry, hexadecimal, read_shard, write_shard
from speechctc.features.splits import SOUND_BYTES, STORE, Place

DIGESTS, SAME = "recordings.json", "same.json"
LARGEST = 1 << 32  # bytes of such a file
RECENT = 2.0  # seconds; a file that changed so short a time ago may change again and keep its time
READERS = 4  # threads that hash recordings


def settings_of(features: Mapping[str, Any], dtype: str, version: object) -> dict[str, Any]:
    """Return the settings that features depend on: their section of the config, their type, and their version."""
    return {"features": dict(features), "dtype": dtype, "version": version}


def entry_key(content: str, cut: Sequence[Any], settings: Mapping[str, Any]) -> str:
    """Return the key of the features of a recording.

    Parameters
    ----------
    content : str
        The digest of the recording.
    cut : sequence
        What is taken of it: channel, stretch, and when reverberation is taken off.
    settings : dict
        See `settings_of`.
    """
    made_from = json.dumps([FORMAT, content, list(cut), settings], sort_keys=True)
    return hashlib.sha256(made_from.encode()).hexdigest()[: 2 * KEY_BYTES]


def sound_of(content: str, cut: Sequence[Any]) -> str:
    """Return the hash of what is heard of a recording: its content, channel and stretch."""
    return hashlib.sha256(json.dumps([content, list(cut)]).encode()).hexdigest()[: 2 * SOUND_BYTES]


class Old(NamedTuple):
    """Entries of a store that nothing of a corpus uses: their number, bytes, and how many have the same settings."""

    entries: int
    size: int
    same_settings: int


@dataclass(frozen=True)
class _Listed:
    """What a shard has, by its header and small tensors."""

    keys: list[str]
    frames: list[int]
    settings: Any
    size: int

    def bytes_of(self, rows: Iterable[int]) -> int:
        """Return about how many bytes these entries take."""
        return round(self.size * sum(self.frames[row] for row in rows) / max(sum(self.frames), 1))


class Store:
    """The store of a folder of features.

    Parameters
    ----------
    folder : Path
        The folder of features, ``data.dir``.

    Attributes
    ----------
    damaged : list of str
        Names of shards that were found damaged.
    same : dict of str to str
        Keys of entries that are those of another key.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / STORE
        self.damaged: list[str] = []
        self._listed: dict[str, _Listed] = {}
        for path in sorted(self.folder.glob("*.safetensors")):
            try:
                listed = _list(path)
            except (OSError, SafetensorError, LookupError, ValueError, TypeError, RuntimeError, AttributeError):
                self.damaged.append(path.stem)
                continue
            if listed is not None:
                self._listed[path.stem] = listed
        self.same: dict[str, str] = _read_texts(self.folder / SAME)

    def path(self, name: str) -> Path:
        """Return the file of a shard."""
        return self.folder / f"{name}.safetensors"

    def find(self, keys: Collection[str]) -> dict[str, Place]:
        """Return the places of the entries that are there. Their shards are verified; those that fail are `damaged`."""
        wanted = set(keys)
        names = [name for name, listed in self._listed.items() if not wanted.isdisjoint(listed.keys)]
        with ThreadPoolExecutor(2) as readers:
            read = list(readers.map(lambda name: attempt(read_shard, self.path(name)), names))
        found: dict[str, Place] = {}
        for name, shard in zip(names, read, strict=True):
            if isinstance(shard, InputError):
                self.damaged.append(name)
                del self._listed[name]
                continue
            found |= {
                key: (name, row)
                for row, key in enumerate(self._listed[name].keys)
                if key in wanted and key not in found
            }
        return found

    def add(self, entries: Sequence[Entry], settings: Mapping[str, Any]) -> dict[str, Place]:
        """Write entries, at least one, as a shard; return their places."""
        keys = [entry.key for entry in entries]
        name = hashlib.sha256("".join(keys).encode()).hexdigest()[: 2 * KEY_BYTES]
        write_shard(self.path(name), entries, settings, getattr(torch, settings["dtype"]))
        size = self.path(name).stat().st_size
        self._listed[name] = _Listed(keys, [len(entry.static) for entry in entries], dict(settings), size)
        self.damaged = [each for each in self.damaged if each != name]
        return {key: (name, row) for row, key in enumerate(keys)}

    def save_same(self) -> None:
        """Write `same`."""
        if self.same != _read_texts(self.folder / SAME):
            files.write_json(self.folder / SAME, self.same)

    def old(self, used: Collection[Place], settings: Mapping[str, Any]) -> Old:
        """Return what is there beside the entries that are used."""
        entries = size = same = 0
        wanted, own = set(used), json.loads(json.dumps(settings))  # as a header has them
        for name, listed in self._listed.items():
            rows = [row for row in range(len(listed.keys)) if (name, row) not in wanted]
            entries, size = entries + len(rows), size + listed.bytes_of(rows)
            same += len(rows) if json.loads(json.dumps(listed.settings)) == own else 0
        return Old(entries, size, same)

    def without_old(self, used: Collection[Place]) -> tuple[dict[Place, Place], list[Path]]:
        """Copy the entries that are used out of shards with others.

        Returns
        -------
        dict of place to place
            Where entries are now that had another place.
        list of Path
            The shards of which nothing is used any more, and those that are damaged.
        """
        by_shard: dict[str, list[int]] = {name: [] for name in self._listed}
        for name, row in sorted(used):
            by_shard[name].append(row)
        moved, left = dict[Place, Place](), [self.path(name) for name in self.damaged]
        for name, rows in by_shard.items():
            if len(rows) == len(self._listed[name].keys):
                continue
            left.append(self.path(name))
            if rows:
                shard = read_shard(self.path(name), checked=True)
                places = self.add([shard.entry(row) for row in rows], shard.settings)
                moved |= {(name, row): places[self._listed[name].keys[row]] for row in rows}
        return moved, left


def _list(path: Path) -> _Listed | None:
    """Return what a shard has; None of a file of another format, which is not looked at."""
    with safe_open(files.readable(path), framework="pt") as file:
        header = file.metadata()
        if header["speechctc"] != "shard" or header["format"] != str(FORMAT):
            return None
        keys, frames = hexadecimal(file.get_tensor("keys")), file.get_tensor("frames").tolist()
    if len(keys) != len(frames):
        raise ValueError("its counts are not those of its entries")
    return _Listed(keys, frames, json.loads(header["settings"]), path.stat().st_size)


class Digests:
    """Digests of recordings, each taken once while the file is unchanged, and kept with its size and times.

    Parameters
    ----------
    folder : Path
        The folder of features, ``data.dir``.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / STORE / DIGESTS
        self._kept: dict[str, str] = _read_texts(self._path)
        self._now: dict[Path, tuple[str, str]] = {}  # the stamp, and the digest

    def take(self, recordings: Collection[Path]) -> None:
        """Take the digests of all recordings, and keep them; those that cannot be read have none."""
        with ThreadPoolExecutor(READERS) as readers:
            for path, found in zip(recordings, readers.map(self._take, recordings), strict=True):
                if found is not None:
                    self._now[path] = found
        now, kept = time.time_ns(), dict[str, str]()
        for path, (stamp, digest) in self._now.items():
            if now - max(map(int, stamp.split()[1:3])) > RECENT * 1e9:
                kept[_name(path)] = f"{stamp} {digest}"
        if kept != self._kept:
            files.write_json(self._path, kept)

    def _take(self, path: Path) -> tuple[str, str] | None:
        with suppress(OSError):
            stamp = _stamp(path)
            before, _, digest = self._kept.get(_name(path), "").rpartition(" ")
            digest = digest if before == stamp else files.sha256(files.readable(path))
            if _stamp(path) == stamp:
                return stamp, digest
        return None

    def of(self, path: Path) -> str | None:
        """Return the digest of a recording; None if it could not be read, or changed meanwhile."""
        found = self._now.get(path)
        return None if found is None else found[1]

    def is_unchanged(self, path: Path) -> bool:
        """Return whether a recording is as it was when its digest was taken."""
        with suppress(OSError):
            return path in self._now and _stamp(path) == self._now[path][0]
        return False


def _name(path: Path) -> str:
    return os.path.abspath(path)


def _stamp(path: Path) -> str:
    """Return what changes with a file's content: its size, its times, and its number in the file system."""
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def _read_texts(path: Path) -> dict[str, str]:
    """Return texts by name; none if the file is not there or damaged, as they can be made again."""
    try:
        found = files.read_json(path, LARGEST)
    except (OSError, ValueError):
        return {}
    is_whole = isinstance(found, dict) and all(isinstance(each, str) for each in found.values())
    return found if is_whole else {}
