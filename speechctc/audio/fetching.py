"""Fetches recordings from stores and servers: each is read once, and kept by its content in a folder of the user's."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from speechctc.audio.addresses import LOST, name_of_address, unescaped
from speechctc.audio.recordings import Recording
from speechctc.core import files
from speechctc.core.errors import InputError, optional, with_extra
from speechctc.core.parallel import map_in_threads

AT_A_TIME = 8  # recordings that are fetched
PIECE = 1 << 20  # bytes read at a time
FOLDER = "recordings"
_NAME_ONE = "name a folder of your own in SPEECHCTC_CACHE"
# What a store says of a file, which changes with its content.
VERSION = (
    "ETag etag Content-MD5 md5Hash contentMd5 generation versionId VersionId mtime LastModified last_modified".split()
)


def cache_folder() -> Path:
    """Return the folder in which recordings are kept: ``SPEECHCTC_CACHE``, or one in the user's cache.

    Raises
    ------
    InputError
        Others may write to it, it cannot be made, or the user has no home.
    """
    folder = Path(os.environ.get("SPEECHCTC_CACHE") or _users_cache() / "speechctc") / FOLDER
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise InputError(f"{folder}: recordings cannot be kept there: {error.strerror}", _NAME_ONE) from None
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        raise InputError(f"{folder}: of another user, or others may write to it", _NAME_ONE)
    return folder


def _users_cache() -> Path:
    """Return where this user's programs keep what they can make again."""
    named = Path(os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", ""))
    try:  # a relative one is to be ignored: it would lie in the working folder, maybe a stranger's
        folder = named if named.is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        folder = Path()
    if not folder.is_absolute():
        raise InputError("this user has no home folder, in which recordings could be kept", _NAME_ONE)
    return folder


def fetch(addresses: Sequence[str], advance: Callable[[int], object]) -> dict[str, Path | InputError]:
    """Return the file of each address, read from its store if it is not kept, or the error.

    Raises
    ------
    InputError
        fsspec or the package of the store is not installed, or the folder cannot be used.
    """
    folder, systems = cache_folder(), dict[str, Any]()
    for address in addresses:
        if (scheme := address.partition(":")[0]) not in systems:
            systems[scheme] = system_of(address)
    found = {}
    results = map_in_threads(partial(_fetched, systems, folder), addresses, AT_A_TIME)
    for address, result in zip(addresses, results, strict=True):
        found[address] = result
        advance(1)
    LOST.update({address: result for address, result in found.items() if isinstance(result, InputError)})
    return found


def fetched(
    recordings: Sequence[Recording], progress: Callable[[str, int], AbstractContextManager[Callable[[int], object]]]
) -> list[Recording]:
    """Return recordings, those at addresses as the files that were read from there.

    Those that were not have paths that no file has: `speechctc.audio.addresses.why_lost` says why.
    """
    far = [each.address for each in recordings if each.address]
    if not far:
        return list(recordings)
    with progress("fetching", len(far)) as advance:
        found = fetch(far, advance)
    here = list[Recording]()
    for each in recordings:
        file = found[each.address] if each.address else each.path
        here.append(each._replace(path=Path(each.address) if isinstance(file, InputError) else file))
    return here


def system_of(address: str) -> Any:
    """Return fsspec's file system of an address."""
    scheme = address.partition(":")[0]
    fsspec = optional("fsspec", f"{address}: fsspec is not installed, which reads it", with_extra("stores"))
    try:
        return fsspec.filesystem(scheme)
    except ImportError as error:
        raise InputError(f"{address}: {error}", f"{with_extra('stores')}, and the package that this names") from None


def _fetched(systems: dict[str, Any], folder: Path, address: str) -> Path:
    """Return the file that is kept of an address."""
    system = systems[address.partition(":")[0]]
    try:
        place = address if address.startswith("http") else system._strip_protocol(unescaped(address))
        if "::" in address:
            raise InputError(f"{address}: an address inside another", "name the recording itself")
        said = _said(system, place)
        note = folder / f"{hashlib.sha256(json.dumps([address, *said]).encode()).hexdigest()}.address"
        if said[1] and (kept := _kept(folder, note)) is not None:
            return kept
        read = partial(_read, system, place, folder, name_of_address(address).suffix)
        found = read()
        # Pieces of two files may have been read, and no more than the first one's size; or the store's machines differ
        # in what they say of one.
        if _said(system, place) != said and read() != found:
            raise ValueError("it changed meanwhile")
        files.write_text(note, f"{found.name}\n")
        return found
    except InputError:
        raise
    except Exception as error:  # each store has errors of its own
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        why = " ".join(why.split()) or type(error).__name__
        if isinstance(error, FileNotFoundError) and why.strip("/") in address:  # stores say no more than the name
            why = "no such file"
        raise InputError(
            f"{address}: cannot be read: {why}", "check the address, the network and your rights"
        ) from None


def _said(system: Any, place: str) -> tuple[object, dict[str, str]]:
    """Return what a store says of a file that changes with its content: its size, and marks of its version."""
    system.invalidate_cache()
    about = system.info(place)
    return about.get("size"), {key: str(about[key]) for key in VERSION if about.get(key)}


def _kept(folder: Path, note: Path) -> Path | None:
    """Return the recording that a note names, if it is there and as it was."""
    try:
        name = note.read_text(encoding="ascii").strip()
        path = folder / Path(name).name
        return path if files.sha256(path) == path.stem else None
    except (OSError, ValueError):
        return None


def _read(system: Any, place: str, folder: Path, ending: str) -> Path:
    """Read a recording, and keep it by its content."""
    ending = ending if re.fullmatch(r"\.\w{1,8}", ending) else ""
    digest = hashlib.sha256()
    with files.draft_file(folder / f"recording{ending}") as draft:
        with system.open(place, "rb") as source, open(draft, "wb") as target:
            while piece := source.read(PIECE):
                digest.update(piece)
                target.write(piece)
        found = folder / f"{digest.hexdigest()}{ending}"
        files.put_in_place(draft, found)
    return found
