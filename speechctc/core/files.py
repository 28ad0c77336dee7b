"""Writes files and folders completely or not at all, by drafts that are renamed; reads folders that others replace.

New content is written under another name, flushed to the disk, and renamed in one
step. A process that is killed at any moment leaves either the old or the new version. After the new name nothing fails:
what could not be done is logged, as the file is saved.

Drafts: files and folders with random, marked names until they are complete and renamed. A process holds a lock on each
of its drafts. One that nobody holds and that has not changed for a day was abandoned, and the next process that writes
into the same folder removes it; where there are no locks, its age alone tells. Files whose names are not marked as
drafts are never changed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from speechctc.core.errors import DRAFT, InputError, as_utf8, printable

if TYPE_CHECKING:
    from zipfile import ZipInfo

Read = TypeVar("Read")

LOGGER = logging.getLogger("speechctc")

MOST_JSON = 1 << 26  # bytes of a file of plain values, which take ten times as many in memory
MOST_RESULTS = 1 << 29  # bytes of such a file with the phones of a recording: 13 MB an hour
TRIES = 10  # attempts to read a folder that another process replaces
MIN_FILES_TO_SYNC = 64  # from this many files on, one flush of all disks is faster than one for each file
_NO_WAIT = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_MASK = os.umask(0o077)  # it can only be read by setting it
os.umask(_MASK)

TIMEOUT = 86400.0  # seconds without a change after which a draft is removed

# What a file system answers that cannot flush, or has no locks.
_UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)

_tidied: set[Path] = set()

if sys.platform == "win32":
    import msvcrt

    # Windows refuses others to read a byte that is locked, so the byte lies where hardly a file of ours reaches: at the
    # last place that its C library can lock.
    _PLACE = 2**31 - 2

    def try_lock(handle: int) -> bool | None:
        """Lock an open file; return False if another process holds it, None if the system has no locks."""
        return _at_place(handle, msvcrt.LK_NBLCK)

    def _wait_for(handle: int) -> bool:
        while (is_held := try_lock(handle)) is False:
            time.sleep(0.01)  # Windows gives no lock that is waited for longer than ten seconds
        return bool(is_held)

    def _unlock(handle: int) -> None:
        _at_place(handle, msvcrt.LK_UNLCK)

    def _at_place(handle: int, mode: int) -> bool | None:
        before = os.lseek(handle, 0, os.SEEK_CUR)
        os.lseek(handle, _PLACE, os.SEEK_SET)
        try:
            msvcrt.locking(handle, mode, 1)
        except OSError as error:
            return False if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK) else None
        finally:
            os.lseek(handle, before, os.SEEK_SET)
        return True

else:
    import fcntl

    def try_lock(handle: int) -> bool | None:
        """Lock an open file or folder; return False if another process holds it, None if the system has no locks."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return None
        return True

    def _wait_for(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            return False
        return True

    def _unlock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)


def write_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file with `write`, which gets the path of a draft; the draft then replaces `path`.

    A link at `path` is replaced, not followed. A device or a pipe (``/dev/stdout``) is written to directly.

    Raises
    ------
    OSError
        From the disk; `path` is then unchanged.
    """
    if is_special(path):
        write(path)
        return
    with draft_file(path) as draft, named(path):
        write(draft)
        put_in_place(draft, path)


def put_in_place(draft: Path, path: Path) -> None:
    """Rename a draft to its final name, in one step."""
    with named(path):
        commit(draft, path)
        os.replace(draft, path)
    with saved(path):
        flush(path.parent)


def put_if_known(draft: Path, path: Path, is_known: Callable[[Path], bool]) -> bool:
    """Rename a draft that was committed, unless what has its name is of another: return whether it was renamed.

    What is displaced is kept until `is_known`, which gets its path, said that it may go; else it has its name again.
    Nothing is lost that another program saves meanwhile, where the file system can exchange two names, or where that
    program writes into the file and there are hard links. Elsewhere a moment remains in which it is.

    Raises
    ------
    OSError
        From the disk. If it is after the new name, what was displaced has a name of its own, which the error tells.
    """
    displaced = displace(draft, path)
    if displaced is None or _is_known(displaced, is_known):
        if displaced not in (None, draft):
            _remove(displaced)
        with saved(path):
            flush(path.parent)
        return True
    if displaced != draft:
        os.link(path, draft)
        os.replace(displaced, path)
    elif not exchange(draft, path):
        theirs = next(each for each in map(path.with_name, numbered(f"{path.name}.saved")) if not os.path.lexists(each))
        os.rename(draft, theirs)
        reason = f"another program saved this file while it was replaced; what it saved is in {theirs.name}"
        raise OSError(errno.EBUSY, reason, str(path))
    return False


def _is_known(displaced: Path, is_known: Callable[[Path], bool]) -> bool:
    try:
        return is_known(displaced)
    except OSError:
        return False


def displace(draft: Path, path: Path) -> Path | None:
    """Rename a draft to `path`, and return where that is which had the name; None if there was nothing, or it is lost.

    After an exchange, it has the draft's name.
    """
    for _ in range(TRIES):
        if exchange(draft, path):
            return draft
        if os.path.lexists(path):
            break
        try:
            os.link(draft, path)  # which does not replace what another program makes meanwhile
            return None
        except FileExistsError:
            continue
        except OSError:
            break
    aside = draft_name(path, "partial")
    try:
        os.link(path, aside)
    except OSError:  # no links, or nothing there
        os.replace(draft, path)
        return None
    os.replace(draft, path)
    return aside


def exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two files in one step; return whether the system could."""
    swap = _exchanger()
    return swap is not None and swap(os.fsencode(one), os.fsencode(other)) == 0


@cache
def _exchanger() -> Callable[[bytes, bytes], int] | None:
    """Return the function of Linux or macOS that exchanges two names; None on other systems."""
    import ctypes

    try:
        library = ctypes.CDLL(None)
        if sys.platform == "darwin":
            rename = library.renamex_np
            return lambda one, other: int(rename(one, other, 2))  # RENAME_SWAP
        else:
            rename = library.renameat2
            return lambda one, other: int(rename(-100, one, -100, other, 2))  # AT_FDCWD, RENAME_EXCHANGE
    except (AttributeError, OSError, TypeError):
        return None


@contextmanager
def saved(path: Path) -> Iterator[None]:
    """Log what fails after a file has its new name: it is saved, and whoever wrote it must not believe otherwise."""
    try:
        yield
    except OSError as error:
        _log(f"{path}: saved, but a power failure may still lose it: {error.strerror} ({error.filename or path})")
    except InputError as error:
        _log(f"{path}: saved, but {error}")


@cache  # once for each
def _log(text: str) -> None:
    LOGGER.warning("%s", printable(as_utf8(text)))


@contextmanager
def named(path: Path, numbers: Sequence[int] = ()) -> Iterator[None]:
    """Let errors of the disk, or those of some numbers, name the file that is written, not a draft of it or nothing."""
    try:
        yield
    except OSError as error:
        name = error.filename2 or error.filename
        is_draft = isinstance(name, str | bytes) and DRAFT.fullmatch(os.path.basename(os.fsdecode(name)))
        if (name is None or is_draft) and error.errno is not None and (not numbers or error.errno in numbers):
            error.filename = str(path)
        raise


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8; bytes of file names in it that are not UTF-8 are kept."""
    write_bytes(path, text.encode("utf-8", "surrogateescape"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, as `write_file` does."""
    write_file(path, lambda draft: draft.write_bytes(content))


def write_json(path: Path, value: Any) -> None:
    """Write plain values as JSON; bytes of file names that are not UTF-8 are escaped as lone surrogates."""
    write_bytes(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))


def read_json(path: Path, most: int = MOST_JSON) -> Any:
    """Return the plain values of a JSON file.

    Raises
    ------
    ValueError
        The file is not JSON, or is nested too deeply.
    OSError
        The file cannot be read, or has more than `most` bytes.
    """
    try:
        return json.loads(readable(path, most).read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def write_folder(path: Path, write: Callable[[Path], object]) -> None:
    """Write a folder with `write`, which gets the path of a draft; the draft then replaces `path`.

    `path` has another name for a moment, under which `read_folder` finds it. If the process is killed in that moment,
    `settle_folder` restores the name.

    Raises
    ------
    OSError
        From the disk; `path` is then unchanged.
    """
    with draft_folder(path) as draft, named(path):
        write(draft)
        _commit_all(draft)
        _take_over(draft, path)
        previous = draft_name(path, "previous")
        with suppress(FileNotFoundError):
            os.rename(path, previous)
        try:
            os.rename(draft, path)
        except OSError:
            with suppress(OSError):
                os.rename(previous, path)
            raise
        with saved(path):
            _remove(previous)
            flush(path.parent)


def read_folder(path: Path, read: Callable[[Path], Read]) -> Read:
    """Return the result of `read` for a folder that another process may replace at the same time.

    Parameters
    ----------
    path : Path
        A folder that `write_folder` writes.
    read : callable
        Takes the path of the folder to read, and changes nothing. Called again after a replacement.
    """
    for _ in range(TRIES):
        place = standing(path)
        version = _version(place)
        try:
            result = read(place)
        except Exception:
            if (standing(path), _version(place)) == (place, version):
                raise
        else:
            if _version(standing(path)) == version:
                return result
    return read(standing(path))


def short(folder: Path) -> Path:
    """Return a folder relative to the working directory, if it is inside."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_absolute() and folder.is_relative_to(here) else folder


def standing(path: Path) -> Path:
    """Return the path of a folder: `path`, or the name of the old version while it is being replaced."""
    return path if path.exists() else _previous(path) or path


def _previous(path: Path) -> Path | None:
    """Return the old version of a folder, from a replacement that is not complete; None if there is none.

    A file or a link of that name is not one: `write_folder` makes neither.
    """
    found = (each for each in path.parent.glob(f"{_stem(path)}-*.previous") if each.is_dir() and not each.is_symlink())
    return max(found, key=_changed, default=None)


def _version(path: Path) -> tuple[int, ...]:
    """Return what differs between the versions of a folder that have the same name one after another."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_ctime_ns  # the inode alone may be reused


def settle_folder(path: Path) -> None:
    """Finish or undo a replacement that was interrupted, and remove all drafts beside the folder.

    Only the one process that may write to the folder may call this.
    """
    while (previous := _previous(path)) is not None:
        if path.exists():
            shutil.rmtree(previous)
        else:
            os.rename(previous, path)
    tidy(path.parent)


def zip_entry(name: str) -> ZipInfo:
    """Return the entry of a new file in a zip file, which has no dates before 1980: a clock may begin at 1970."""
    from zipfile import ZIP_DEFLATED, ZipInfo

    entry = ZipInfo(name, max(time.localtime()[:6], (1980, 1, 1, 0, 0, 0)))
    entry.external_attr, entry.compress_type = 0o644 << 16, ZIP_DEFLATED
    return entry


def content(path: Path) -> str:
    """Return the hash of a file's content, computed once while the file is unchanged.

    Raises
    ------
    OSError
        It cannot be read.
    """
    status = path.stat()
    return _cached_sha256(path, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))


@cache
def _cached_sha256(path: Path, stamp: tuple[int, ...]) -> str:
    return sha256(readable(path))


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def readable(path: Path, most: int | None = None) -> Path:
    """Return a path to read from, unless to open it may wait forever, or to read it may never end.

    Parameters
    ----------
    path : Path
    most : int, optional
        Bytes of the largest file of its kind. A file of a few blocks may say that it has terabytes.

    Raises
    ------
    OSError
        There is nothing; or a pipe or a device, or a link to one, that is not named as such: as in ``/dev``; or it is
        larger than its kind.
    """
    status = path.stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or _is_open_file(path)):
        raise OSError(errno.EINVAL, "a pipe or a device, not a file", str(path))
    if most is not None and stat.S_ISREG(status.st_mode) and status.st_size > most:
        reason = f"{status.st_size / 2**20:,.0f} MiB, where files of its kind have at most {most / 2**20:,.0f}"
        raise OSError(errno.EINVAL, reason, str(path))
    return path


def _is_open_file(path: Path) -> bool:
    if not str(path).startswith(("/dev", "/proc")):  # soon told: it is asked of each file of many
        return False
    return path.parent in (Path("/dev"), Path("/dev/fd")) or path.parts[:2] == ("/", "proc")


def is_folder(out: str) -> bool:
    """Return whether a place for results is a folder: it is one, ends in a slash, or is nothing and has no ending."""
    path = Path(out)
    is_file = path.suffix or (path.exists() and not path.is_file())  # a device or a pipe has no ending
    return path.is_dir() or out.endswith(("/", os.sep)) or not is_file


def is_special(path: Path) -> bool:
    """Return whether a path is a device, a pipe, or the name of an open file; a link to one elsewhere is not."""
    if _is_open_file(path):
        return True
    try:
        mode = path.lstat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISLNK(mode) or stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _commit_all(folder: Path) -> None:
    """Commit a folder and its contents, the innermost first."""
    paths = [Path(place, name) for place, _, names in os.walk(folder, topdown=False) for name in (*names, "")]
    together = len(paths) > MIN_FILES_TO_SYNC and sys.platform != "win32"  # Windows has no os.sync
    for path in paths:
        commit(path, at_once=not together)
    if sys.platform != "win32" and together:
        os.sync()


def commit(path: Path, instead_of: Path | None = None, at_once: bool = True) -> None:
    """Set the mode of new files or folders (safetensors sets another one), and flush to the disk.

    What will take the place of another file has the mode of that one. A mode that the file system refuses to set, as
    some mounts do, is left as it is.
    """
    with suppress(OSError):
        group_of_folder = path.stat().st_mode & stat.S_ISGID  # what is made in a folder gets the folder's group
        path.chmod((0o777 & ~_MASK) | group_of_folder if path.is_dir() else 0o666 & ~_MASK)
    if instead_of is not None:
        _take_over(path, instead_of)
    if at_once:
        flush(path)


def _take_over(draft: Path, path: Path) -> None:
    """Give a draft the mode of what it replaces, and the owner and the group, as far as this user may.

    Where the group is another one, it may no more than all others.
    """
    with suppress(OSError):
        old, new = path.lstat(), draft.lstat()
        if stat.S_IFMT(old.st_mode) != stat.S_IFMT(new.st_mode):
            return
        mode = stat.S_IMODE(old.st_mode) | stat.S_IRUSR | stat.S_IWUSR
        if sys.platform != "win32":
            for owner in (old.st_uid, -1):
                with suppress(OSError):
                    os.chown(draft, owner, old.st_gid)
                    break
            if draft.lstat().st_gid != old.st_gid:
                mode = mode & ~stat.S_IRWXG & ~stat.S_ISGID | (mode & stat.S_IRWXO) << 3
        draft.chmod(mode)


def flush(path: Path) -> None:
    """Wait until a file or folder is on the disk; Windows flushes what is open for writing, and no folder.

    A file system that cannot flush it, and a folder that may be written to but not read, are no errors.

    Raises
    ------
    OSError
        From the disk; it names the file.
    """
    is_folder = path.is_dir()
    if is_folder and sys.platform == "win32":
        return
    try:
        handle = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    except PermissionError:
        if is_folder:
            return
        raise
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(handle)


@contextmanager
def draft_file(path: Path) -> Iterator[Path]:
    """Create an empty file in the folder of `path`; it is removed at the end if it still exists."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL  # this neither follows a link nor opens an existing file
    with _draft(path, lambda draft: os.open(draft, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)) as draft:
        yield draft


@contextmanager
def draft_folder(path: Path) -> Iterator[Path]:
    """Create an empty folder in the folder of `path`; it is removed at the end if it still exists."""
    with _draft(path, _make_folder) as draft:
        yield draft


def _make_folder(draft: Path) -> int | None:
    draft.mkdir(mode=0o700)
    return None if sys.platform == "win32" else os.open(draft, os.O_RDONLY)


@contextmanager
def _draft(path: Path, make: Callable[[Path], int | None]) -> Iterator[Path]:
    """Make a draft, and hold its lock meanwhile: Windows, which renames nothing that is open, gives none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.parent.absolute() not in _tidied:  # once in a process, as it lists the folder
        _tidied.add(path.parent.absolute())
        tidy(path.parent, TIMEOUT)
    draft, handle = draft_name(path, "partial"), None
    try:
        handle = make(draft)
        if handle is not None and sys.platform == "win32":
            os.close(handle)
            handle = None
        elif handle is not None:
            try_lock(handle)
        yield draft
    finally:
        with suppress(OSError):  # of a network's disk, which says so at any end of a file; what counts was flushed
            if handle is not None:
                os.close(handle)
        _remove(draft)


def tidy(folder: Path, patience: float = 0.0) -> None:
    """Remove the drafts in a folder that no process holds and that have not changed for `patience` seconds.

    Times in the future, after a clock was set back, count as long past. What cannot be opened may be held, and stays.
    """
    for entry in list(folder.iterdir()) if folder.is_dir() else []:
        named = DRAFT.fullmatch(entry.name)
        if named and named[1] == "partial" and abs(time.time() - _changed(entry)) >= patience and not _is_held(entry):
            _remove(entry)


def _is_held(draft: Path) -> bool:
    """Return whether a process holds a draft, or may: it cannot be opened. Without locks, none is known to."""
    if sys.platform == "win32":  # nothing that is open is renamed there
        return False
    else:
        if draft.is_symlink():  # no draft of ours
            return False
        try:
            handle = os.open(draft, os.O_RDONLY | _NO_WAIT)
        except OSError:
            return draft.exists()
        try:
            return try_lock(handle) is False
        finally:
            os.close(handle)


def _stem(path: Path) -> str:
    """Return the common start of the names of all drafts of a target, short for any length of its name."""
    return f".speechctc-{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:12]}"


def numbered(name: str) -> Iterator[str]:
    """Yield a name, and it with ``-2``, ``-3`` and so on, of which the first that is free can be taken."""
    return (f"{name}-{number}" if number > 1 else name for number in count(1))


def draft_name(path: Path, kind: str) -> Path:
    """Return a new name for a draft of `path` (``"partial"``), or for its old version (``"previous"``)."""
    return path.with_name(f"{_stem(path)}-{secrets.token_hex(8)}.{kind}")


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:  # removed meanwhile
        return 0.0


def _remove(path: Path) -> None:
    """Remove a file, a link or a folder; errors are ignored."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def append(handle: int, content: bytes, flush: bool = False) -> None:
    """Append bytes to an open file, all or none of them; with `flush`, wait until they are on the disk."""
    before, view = os.fstat(handle).st_size, memoryview(content)
    try:
        while view:
            view = view[os.write(handle, view) :]
        if flush:
            os.fsync(handle)
    except OSError:
        os.ftruncate(handle, before)
        raise


@contextmanager
def locked(handle: int) -> Iterator[None]:
    """Wait for an open file's lock and hold it; without locks, see `warn_of_no_locks`."""
    if not _wait_for(handle):
        warn_of_no_locks()
        yield
        return
    try:
        yield
    finally:
        _unlock(handle)


@cache  # once
def warn_of_no_locks() -> None:
    """Log that the file system has no locks. Work goes on, and the user sees to it that it is alone."""
    LOGGER.warning(
        "this file system has no locks: let no second speechctc write to the same run or recording meanwhile"
    )


def is_at(handle: int, path: Path) -> bool:
    """Return whether an open file has this name, or still has it."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def is_free(path: Path) -> bool | None:
    """Return whether no process holds a file or a folder; None if that is not known. No link is followed."""
    try:
        handle = os.open(path, os.O_RDONLY | _NO_WAIT)
    except OSError:
        return None
    try:
        return try_lock(handle)
    finally:
        os.close(handle)
