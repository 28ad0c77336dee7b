import errno
import itertools
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from speechctc.audio.annotations import read_phn, read_tiers
from speechctc.audio.eaf import read_eaf
from speechctc.config.load import read_yaml
from speechctc.core import files, written
from speechctc.core import files as drafts
from speechctc.core.errors import InputError, of_disk
from speechctc.core.tensor_file import load_arrays, shapes
from speechctc.core.text_files import read_bytes
from speechctc.features.shards import read_shard
from speechctc.stages.lm_texts import read_phone_text
from speechctc.studio.journal import Journal
from speechctc.training.runs import Run

READERS: list[Callable[[Path], object]] = [
    files.read_json,
    read_bytes,
    read_phone_text,
    load_arrays,
    shapes,
    read_shard,
    read_yaml,
    read_tiers,
    read_phn,
    read_eaf,
]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.parametrize("read", READERS)
def test_a_pipe_or_a_device_among_files_is_refused_and_not_waited_for(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for name, target in (("to-pipe", pipe), ("to-device", Path("/dev/zero"))):
        (tmp_path / name).symlink_to(target)
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises((OSError, InputError), match="a pipe or a device, not a file"):
            read(path)


def test_what_the_shell_hands_over_is_read(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"low mid")
    os.close(writing)
    assert files.readable(Path("/dev/null")) == Path("/dev/null")
    assert read_bytes(Path(f"/dev/fd/{reading}")) == b"low mid"
    os.close(reading)
    assert files.readable(tmp_path) == tmp_path
    with pytest.raises(FileNotFoundError):
        files.readable(tmp_path / "none")


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a" / "f.txt"
    files.write_text(path, "first")

    def fail(beside: Path) -> None:
        beside.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        files.write_file(path, fail)
    assert path.read_text() == "first"
    assert os.listdir(path.parent) == ["f.txt"]


KILLED = """
import os, signal, sys
from pathlib import Path
from speechctc.core import files

CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree", "open")
left = 0

def kill_at_a_change(event, arguments):
    global left
    if event in CHANGES and (event != "open" or arguments[2] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR)):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

def write(folder):
    (folder / "a").write_text("new")
    (folder / "inner").mkdir()
    (folder / "inner" / "b").write_text("new")

sys.addaudithook(kill_at_a_change)
for point in range(1, 100):
    place = Path(f"{point:02d}")
    for name in ("a", "inner/b"):
        (place / "best" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "best" / name).write_text("old")
    if (child := os.fork()) == 0:
        left = point
        files.write_folder(place / "best", write)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


def versions(folder: Path) -> str:
    return " ".join((folder / name).read_text() for name in ("a", "inner/b"))


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_a_writer_killed_at_any_change_leaves_the_old_or_the_new(here: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED], check=True, timeout=600)
    points = sorted(here.iterdir())
    found = []
    for point in points:
        before = sorted(point.rglob("*"))
        found.append(files.read_folder(point / "best", versions))
        assert sorted(point.rglob("*")) == before, "a reader changes nothing"
        files.settle_folder(point / "best")
        assert os.listdir(point) == ["best"] and versions(point / "best") == found[-1]
    assert len(points) > 8 and found == sorted(found, reverse=True) and set(found) == {"old old", "new new"}


def test_a_reader_never_sees_two_versions_mixed(tmp_path: Path) -> None:
    path, stop = tmp_path / "best", threading.Event()

    def write(number: int) -> None:
        def fill(folder: Path) -> None:
            (folder / "inner").mkdir()
            for name in ("a", "inner/b"):
                (folder / name).write_text(str(number))

        files.write_folder(path, fill)

    def write_on() -> None:
        for number in itertools.takewhile(lambda _: not stop.is_set(), itertools.count(1)):
            write(number)
            time.sleep(0.002)  # less than a reader takes, now and then

    write(0)
    writer = threading.Thread(target=write_on)
    writer.start()
    seen: set[str] = set()
    try:
        while len(seen) < 30:
            seen.add(files.read_folder(path, versions))
    finally:
        stop.set()
        writer.join()
    assert all(one == other for one, other in map(str.split, seen))
    assert os.listdir(tmp_path) == ["best"]


@pytest.mark.parametrize("exists", [False, True])
def test_a_file_or_a_link_is_no_old_version_of_a_folder(tmp_path: Path, exists: bool) -> None:
    path, theirs = tmp_path / "best", tmp_path / "theirs"
    theirs.mkdir()
    if exists:
        path.mkdir()
    planted = [files.draft_name(path, "previous") for _ in range(2)]
    planted[0].symlink_to(theirs)
    planted[1].write_text("x")
    assert files.standing(path) == path
    files.settle_folder(path)
    assert path.exists() == exists and theirs.exists() and planted[1].read_text() == "x"


def test_what_another_program_named_alike_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mod"
    theirs = ["mod.previous/thesis.txt", "mod.partial/thesis.txt", "x.partial", ".speechctc-mine.partial", ".mod.tmp"]
    for name in theirs:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    for _ in range(2):
        files.write_folder(path, lambda folder: None)
        files.write_text(tmp_path / "x", "text")
    files.settle_folder(path)
    assert all((tmp_path / name).read_text() == "mine" for name in theirs)
    assert len(os.listdir(tmp_path)) == len(theirs) + 2


def test_abandoned_drafts_are_removed_and_those_in_work_are_not(tmp_path: Path) -> None:
    with drafts.draft_file(tmp_path / "f") as file, drafts.draft_folder(tmp_path / "d") as folder:
        (folder / "x").touch()
        old_file = tmp_path / f".speechctc-{'0' * 12}-{'1' * 16}.partial"
        old_folder = tmp_path / f".speechctc-{'0' * 12}-{'2' * 16}.partial"
        shutil.copy(file, old_file)
        shutil.copytree(folder, old_folder)
        for old in (old_file, old_folder):
            os.utime(old, (time.time() - drafts.TIMEOUT - 60,) * 2)
        drafts.tidy(tmp_path, patience=2 * drafts.TIMEOUT)
        assert len(os.listdir(tmp_path)) == 4
        drafts.tidy(tmp_path, drafts.TIMEOUT)
        assert {path.name for path in tmp_path.iterdir()} == {file.name, folder.name} and (folder / "x").exists()
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("age", [90000, -90000])
def test_a_clock_that_was_set_back_keeps_no_draft(tmp_path: Path, age: int) -> None:
    draft = tmp_path / f".speechctc-{'0' * 12}-{'1' * 16}.partial"
    draft.touch()
    os.utime(draft, (time.time() - age, time.time() - age))
    drafts.tidy(tmp_path, drafts.TIMEOUT)
    assert not draft.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such devices")
def test_a_device_or_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        heard = pool.submit((tmp_path / "pipe").read_text)
        files.write_text(tmp_path / "pipe", "text")
        assert heard.result(10) == "text"
    files.write_text(Path("/dev/null"), "text")
    assert not Path("/dev/null").is_file() and os.listdir(tmp_path) == ["pipe"]


def test_names_that_are_not_utf8_and_very_long_ones(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    path = tmp_path / ("n" * 255)
    files.write_text(path, name)
    assert path.read_bytes() == b"caf\xe9"
    files.write_json(path, [name, "é"])
    assert json.loads(path.read_text(encoding="utf-8")) == [name, "é"]


def write_for_its_owner_alone(folder: Path) -> None:
    """As safetensors and temporary folders do, two folders deep."""
    inner = folder / "DR1" / "FABC0"
    inner.mkdir(parents=True)
    for path in (folder / "a", inner / "b", inner.parent, inner):
        if not path.exists():
            path.write_bytes(b"x")
        path.chmod(0o700 if path.is_dir() else 0o600)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_files_and_folders_have_the_modes_of_new_ones(tmp_path: Path) -> None:
    usual_file, usual_folder = tmp_path / "usual", tmp_path / "usual folder"
    usual_file.touch()
    usual_folder.mkdir()
    files.write_file(tmp_path / "file", lambda path: path.touch(0o600))
    files.write_folder(tmp_path / "folder", write_for_its_owner_alone)
    written = [tmp_path / "file", tmp_path / "folder", *(tmp_path / "folder").rglob("*")]
    assert len(written) == 6
    for path in written:
        usual = usual_folder if path.is_dir() else usual_file
        assert path.stat().st_mode == usual.stat().st_mode, path


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_what_takes_the_place_of_a_file_has_its_mode(tmp_path: Path, mode: int) -> None:
    """Else a private file could be read by all, and one for a group not be written by others of it."""
    text, binary, folder = tmp_path / "text", tmp_path / "binary", tmp_path / "folder"
    written.write_text(text, "old")
    files.write_bytes(binary, b"old")
    files.write_folder(folder, lambda draft: (draft / "a").touch())
    for path in (text, binary):
        path.chmod(mode)
    folder.chmod(mode | 0o100)
    written.write_text(text, "new")
    files.write_bytes(binary, b"new")
    files.write_folder(folder, lambda draft: (draft / "b").touch())
    assert text.read_bytes() == binary.read_bytes() == b"new" and (folder / "b").exists()
    kept = [stat.S_IMODE(path.stat().st_mode) for path in (text, binary, folder)]
    assert kept == [mode | 0o600, mode | 0o600, mode | 0o700]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no groups of files")
def test_folders_keep_the_group_of_the_folder_that_they_are_in(tmp_path: Path) -> None:
    tmp_path.chmod(0o2755)
    files.write_folder(tmp_path / "run", lambda draft: (draft / "best").mkdir())
    for path in (tmp_path / "run", tmp_path / "run" / "best"):
        assert path.stat().st_mode & stat.S_ISGID and path.stat().st_gid == tmp_path.stat().st_gid


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no groups of files")
def test_a_group_that_may_not_be_given_gets_no_rights(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.touch()
    path.chmod(0o664)
    if os.getuid() == 0:
        os.chown(path, 4242, 4242)
        files.write_text(path, "by root")
        assert (path.stat().st_uid, path.stat().st_gid) == (4242, 4242)
    real = path.lstat()
    other = os.stat_result((*real[:5], real.st_gid + 1, *real[6:]))
    with pytest.MonkeyPatch.context() as patch, failing("chown", errno.EPERM):
        lstat = Path.lstat
        patch.setattr(Path, "lstat", lambda given: other if given == path else lstat(given))
        files.write_text(path, "by another")
    assert path.read_text() == "by another" and stat.S_IMODE(path.stat().st_mode) == 0o644


@contextmanager
def failing(name: str, number: int, on: Callable[[int | Path], bool] = lambda given: True) -> Iterator[None]:
    """Let a function of `os` fail with an error, where it is called with what `on` says."""
    real = getattr(os, name)

    def fail(given: Any, *arguments: Any, **options: Any) -> Any:
        if on(given):
            raise OSError(number, os.strerror(number))
        return real(given, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, name, fail)
        yield


def is_folder(handle: int | Path) -> bool:
    return stat.S_ISDIR(os.stat(handle).st_mode)


WRITERS: list[Callable[[Path], object]] = [
    lambda path: files.write_text(path, "text"),
    lambda path: files.write_folder(path, lambda folder: (folder / "a").touch()),
    lambda path: written.write_text(path, "text"),
]


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS])
def test_a_folder_that_cannot_be_flushed_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, write: Callable[[Path], object], number: int
) -> None:
    with failing("fsync", number, is_folder):
        write(tmp_path / "result")
        write(tmp_path / "result")
    assert (tmp_path / "result").exists() and not caplog.text


@pytest.mark.parametrize("write", [WRITERS[0], WRITERS[2]])
def test_what_fails_after_a_file_has_its_name_is_said_and_fails_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, write: Callable[[Path], object]
) -> None:
    with failing("fsync", errno.EIO, is_folder):
        write(tmp_path / "talk.TextGrid")
        write(tmp_path / "talk.TextGrid")
    assert (tmp_path / "talk.TextGrid").read_text() == "text"
    assert len(caplog.messages) == 1, "once for a file"
    assert "talk.TextGrid: saved, but" in caplog.text and "Input/output error" in caplog.text


@pytest.mark.parametrize("write", WRITERS)
def test_an_error_before_a_file_has_its_name_names_it_and_not_its_draft(
    tmp_path: Path, write: Callable[[Path], object]
) -> None:
    with failing("fsync", errno.EIO), pytest.raises(OSError) as caught:
        write(tmp_path / "talk")
    told = str(of_disk(caught.value))
    assert told.startswith(str(tmp_path)) and "Input/output error" in told and ".speechctc-" not in told
    assert [name for name in os.listdir(tmp_path) if name != written.RECORD] == []


def test_a_folder_that_cannot_get_its_name_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = tmp_path / "best", os.rename
    files.write_folder(path, lambda folder: (folder / "old").touch())

    def rename(one: Path, other: Path) -> None:
        if one.name.endswith(".partial"):
            raise OSError(errno.EIO, "Input/output error", str(one))
        real(one, other)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(OSError):
        files.write_folder(path, lambda folder: (folder / "new").touch())
    assert os.listdir(tmp_path) == ["best"] and os.listdir(path) == ["old"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.EROFS])
def test_a_mode_that_may_not_be_set_is_left(tmp_path: Path, number: int) -> None:
    with failing("chmod", number):
        for write in WRITERS[:2]:
            shutil.rmtree(tmp_path / "result", ignore_errors=True) if (tmp_path / "result").is_dir() else None
            (tmp_path / "result").unlink(missing_ok=True)
            write(tmp_path / "result")
    assert (tmp_path / "result" / "a").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows gives a draft no lock")
@pytest.mark.parametrize("kind", [drafts.draft_file, drafts.draft_folder])
def test_a_draft_that_a_process_holds_outlasts_days_of_sleep(
    tmp_path: Path, kind: Callable[[Path], AbstractContextManager[Path]]
) -> None:
    days_ago = time.time() - 2 * drafts.TIMEOUT
    with kind(tmp_path / "result") as draft:
        os.utime(draft, (days_ago, days_ago))
        drafts.tidy(tmp_path, drafts.TIMEOUT)
        drafts.settle_folder(tmp_path / "other")
        assert draft.exists()
        with failing_flock(errno.ENOLCK):  # there age alone tells
            drafts.tidy(tmp_path, 3 * drafts.TIMEOUT)
            assert draft.exists()
            drafts.tidy(tmp_path, drafts.TIMEOUT)
            assert not draft.exists()


@contextmanager
def failing_flock(number: int) -> Iterator[None]:
    import fcntl

    def flock(handle: int, how: int) -> None:
        raise OSError(number, os.strerror(number))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "flock", flock)
        yield


@pytest.mark.skipif(sys.platform == "win32", reason="has other locks")
def test_without_locks_work_goes_on_and_that_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files.warn_of_no_locks.cache_clear()
    with failing_flock(errno.ENOLCK):
        for _ in range(2):
            Journal(tmp_path / "a.journal").append({"what": "x"})
            (tmp_path / "a.journal").unlink()
            with Run(tmp_path / "run").locked():
                pass
        files.write_text(tmp_path / "b.txt", "b")
    assert len(caplog.messages) == 1 and "has no locks" in caplog.text
    with Run(tmp_path / "run").locked(), pytest.raises(InputError, match="another process"):
        with Run(tmp_path / "run").locked():
            pass
