"""What a person made or changed is kept; what speechctc wrote is not mistaken for that, even after a kill."""

from __future__ import annotations

import errno
import multiprocessing
import os
import unicodedata
from pathlib import Path
from typing import Any, Literal

import pytest

from speechctc.core import files, written
from speechctc.core.errors import InputError
from tests.test_full_disk import full


def test_what_was_written_is_replaced_and_what_was_changed_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "new" / "a é.TextGrid"
    written.write_text(file, "one")
    written.write_text(file, "two")
    assert file.read_text() == "two"
    stamp = file.stat()
    file.write_text("TWO")  # as long, and as old
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with pytest.raises(InputError, match="a é.TextGrid: .*--overwrite"):
        written.write_text(file, "three")
    assert file.read_text() == "TWO"
    written.write_text(file, "three", overwrite=True)
    assert file.read_text() == "three"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig", "utf-8"])
def test_what_was_saved_again_without_a_change_is_not_changed(tmp_path: Path, encoding: str) -> None:
    written.write_text(file := tmp_path / "a.TextGrid", "ʃ\n")
    for text, is_changed in (("ʃ\r\n", False), ("s\r\n", True)):
        mark = "\ufeff" if encoding == "utf-16-be" else ""
        file.write_bytes((mark + text).encode(encoding))
        assert written.changed([file]) == [file] * is_changed


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_record_that_went_over_other_systems_is_read(tmp_path: Path, form: Literal["NFC", "NFD"]) -> None:
    given, listed = (unicodedata.normalize(each, "é ʃ̃.txt") for each in ("NFC" if form == "NFD" else "NFD", form))
    written.write_text(tmp_path / given, "one")
    (tmp_path / given).rename(tmp_path / listed)
    record = tmp_path / written.RECORD
    record.write_bytes(record.read_bytes().replace(b"\n", b"\r\n"))
    assert written.changed([tmp_path / listed]) == []
    written.write_text(tmp_path / listed, "two")
    assert (tmp_path / listed).read_text() == "two" and written.changed([tmp_path / listed]) == []


def test_a_draft_that_was_checked_or_put_back_is_a_persons(tmp_path: Path) -> None:
    file, other = tmp_path / "a.txt", tmp_path / "b.txt"
    for text in ("old", "new"):
        written.write_text(file, text)
        written.write_text(other, text)
    file.write_text("old")
    written.mark_checked([other])
    assert written.changed([file, other]) == [file, other] and written.unrecorded([file, other]) == []
    written.write_text(other, "new", overwrite=True)
    assert written.changed([other]) == []


def test_a_file_of_another_name_or_without_a_record_is_a_persons(tmp_path: Path) -> None:
    written.write_text(tmp_path / "a.txt", "phones")
    (tmp_path / "b.txt").write_text("phones")
    assert written.changed([tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "none"]) == [tmp_path / "b.txt"]
    (tmp_path / written.RECORD).unlink()
    assert written.changed([tmp_path / "a.txt"]) == [tmp_path / "a.txt"]


def test_many_are_counted_and_a_folder_is_never_replaced(tmp_path: Path) -> None:
    paths = [tmp_path / f"{k}.txt" for k in range(9)]
    for path in paths:
        path.write_text("mine")
    with pytest.raises(InputError, match=r"2.txt and 6 more: 9 files"):
        written.refuse_changed(paths, overwrite=False)
    written.refuse_changed(paths, overwrite=True)
    with pytest.raises(InputError, match="a folder, where a file"):
        written.refuse_changed([tmp_path], overwrite=True)


@pytest.mark.parametrize("moment", ["record", "replace"])
def test_a_kill_while_writing_leaves_nothing_that_looks_like_a_persons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    file = tmp_path / "a.txt"
    written.write_text(file, "before")

    def killed(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        for place, name in {"record": [(os, "write")], "replace": [(os, "replace"), (files, "exchange")]}[moment]:
            patched.setattr(place, name, killed)
        written.write_text(file, "after")
    assert file.read_text() == "before" and written.changed([file]) == []
    written.write_text(file, "again")
    assert file.read_text() == "again" and [path.name for path in tmp_path.glob("a*")] == ["a.txt"]


def test_what_ctrl_c_leaves_is_in_place_and_known(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), written.opened(tmp_path / "a.txt") as file:
        file.write("some phones")
        raise KeyboardInterrupt
    assert (tmp_path / "a.txt").read_text() == "some phones" and written.changed([tmp_path / "a.txt"]) == []


def test_what_is_changed_while_it_is_made_is_kept(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the new content is in .*a.new1.txt"):
        with written.opened(tmp_path / "a.txt") as file:
            file.write("phones")
            (tmp_path / "a.txt").write_text("mine")
    assert (tmp_path / "a.txt").read_text() == "mine" and (tmp_path / "a.new1.txt").read_text() == "phones"


@pytest.mark.parametrize("earlier", ["", "older"])
def test_what_another_run_writes_meanwhile_is_kept(tmp_path: Path, earlier: str) -> None:
    path = tmp_path / "a.txt"
    if earlier:
        written.write_text(path, earlier)
    with pytest.raises(InputError, match=r"another run wrote it meanwhile; the new content is in .*a.new1.txt"):
        with written.opened(path) as file:
            file.write("phones")
            written.write_text(path, "phones of others")
    assert path.read_text() == "phones of others" and (tmp_path / "a.new1.txt").read_text() == "phones"
    assert written.changed([path]) == []


@pytest.mark.parametrize("target", ["real.txt", "nowhere.txt", "folder", os.devnull])
def test_a_link_is_refused_or_gives_way_to_a_file(tmp_path: Path, target: str) -> None:
    """What it leads to stays as it is, or is not made."""
    (tmp_path / "real.txt").write_text("mine")
    (tmp_path / "folder").mkdir()
    link = tmp_path / "link.txt"
    link.symlink_to(target)
    assert written.changed([link]) == [link]
    with pytest.raises(InputError, match="a link, and no link is followed"):
        written.write_text(link, "one")
    assert link.is_symlink()
    written.write_text(link, "two", overwrite=True)
    written.write_bytes(link, b"three")
    assert not link.is_symlink() and link.read_text() == "three"
    assert (tmp_path / "real.txt").read_text() == "mine" and not (tmp_path / "nowhere.txt").exists()


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_record_is_no_link_and_no_pipe(tmp_path: Path, kind: str) -> None:
    shell, record = tmp_path / ".bashrc", tmp_path / "out" / written.RECORD
    shell.write_text("mine")
    record.parent.mkdir()
    record.symlink_to(shell) if kind == "link" else os.mkfifo(record)
    with pytest.raises(InputError, match=f"{written.RECORD}: a {kind}"):
        written.write_text(tmp_path / "out" / "a.txt", "phones")
    assert shell.read_text() == "mine" and os.listdir(record.parent) == [written.RECORD]
    (tmp_path / "out" / "b.txt").write_text("b")
    assert written.changed([tmp_path / "out" / "b.txt"]) == [tmp_path / "out" / "b.txt"]


def _write(folder: Path, number: int) -> None:
    for k in range(20):
        written.write_text(folder / f"{number}-{k}.txt", f"{number} {k}")


def test_processes_that_write_to_one_folder_keep_each_others_record(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_write, args=(tmp_path, number)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    made = sorted(tmp_path.glob("*.txt"))
    assert len(made) == 60 and written.changed(made) == []


def test_a_full_disk_tears_no_line_of_the_record(tmp_path: Path) -> None:
    """Half a line of a record would make a file of ours look like a person's, and the next one too."""
    written.write_text(tmp_path / "a.txt", "one")
    with full(100), pytest.raises(OSError):  # there is space for the file, not for its line
        written.write_text(tmp_path / "b.txt", "two")
    assert written.changed([tmp_path / "a.txt"]) == [] and not (tmp_path / "b.txt").exists()
    for text in ("two", "three"):
        written.write_text(tmp_path / "b.txt", text)


SAVES = [
    ("flush", "exchanges names", "by a rename"),
    ("flush", "has neither", "into the file"),
    ("rename", "exchanges names", "into the file"),
    ("rename", "exchanges names", "by a rename"),
    ("rename", "has hard links", "into the file"),
]


@pytest.mark.parametrize(("moment", "system", "how"), SAVES)
def test_what_a_person_saves_while_a_result_gets_its_name_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, system: str, how: str
) -> None:
    file = tmp_path / "talk.TextGrid"
    written.write_text(file, "ours")
    without(monkeypatch, system)

    def saved_by_a_person() -> None:
        place = tmp_path / "mine" if how == "by a rename" else file
        place.write_text("corrected by hand")
        if place != file:
            os.rename(place, file)

    name = {"flush": "fsync", "rename": "displace"}[moment]
    owner = os if moment == "flush" else files
    real, left = getattr(owner, name), [None]

    def slow(*arguments: Any) -> Any:
        if left:
            left.pop()
            saved_by_a_person()
        return real(*arguments)

    monkeypatch.setattr(owner, name, slow)
    with pytest.raises(InputError, match=r"by hand.*the new content is in .*talk.new1.TextGrid"):
        written.write_text(file, "newer")
    assert file.read_text() == "corrected by hand" and written.changed([file]) == [file]
    assert (tmp_path / "talk.new1.TextGrid").read_text() == "newer"
    assert sorted(os.listdir(tmp_path)) == [written.RECORD, "talk.TextGrid", "talk.new1.TextGrid"]


def without(patch: pytest.MonkeyPatch, system: str) -> None:
    """Take from the file system what another lacks."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if system == "exchanges names":
        if files._exchanger() is None:
            pytest.skip("this system cannot")
        return
    patch.setattr(files, "exchange", lambda one, other: False)
    if system == "has neither":
        patch.setattr(os, "link", refuse)


@pytest.mark.parametrize("system", ["exchanges names", "has hard links"])
def test_what_a_person_makes_while_a_result_gets_its_name_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    without(monkeypatch, system)
    file, real = tmp_path / "a.txt", os.link

    def link(one: Path, other: Path) -> None:
        if not file.exists():
            file.write_text("mine")
        real(one, other)

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(InputError, match=r"the new content is in .*a.new1.txt"):
        written.write_text(file, "phones")
    assert file.read_text() == "mine" and (tmp_path / "a.new1.txt").read_text() == "phones"
    assert sorted(os.listdir(tmp_path)) == [written.RECORD, "a.new1.txt", "a.txt"]


@pytest.mark.parametrize("system", ["exchanges names", "has hard links", "has neither"])
def test_a_result_replaces_an_older_one_on_any_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    without(monkeypatch, system)
    for text in ("one", "two", "three"):
        written.write_text(tmp_path / "a.txt", text)
        assert (tmp_path / "a.txt").read_text() == text
    assert sorted(os.listdir(tmp_path)) == [written.RECORD, "a.txt"]


def test_a_record_that_fails_after_the_name_is_given_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.txt"
    written.write_text(file, "one")
    real = files.append

    def append(handle: int, content: bytes) -> None:
        if file.read_text() == "two":
            raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / written.RECORD))
        real(handle, content)

    monkeypatch.setattr(files, "append", append)
    written.write_text(file, "two")
    assert file.read_text() == "two" and written.changed([file]) == []
    assert "a.txt: saved, but" in caplog.text and "No space left on device" in caplog.text


def test_what_a_person_saved_is_kept_even_where_it_cannot_be_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "exchanges names")
    file, real, left = tmp_path / "a.txt", files.exchange, [True, False]
    written.write_text(file, "ours")

    def exchange(one: Path, other: Path) -> bool:
        file.write_text("mine") if left[0] else None
        return left.pop(0) and real(one, other)

    monkeypatch.setattr(files, "exchange", exchange)
    with pytest.raises(OSError, match=r"what it saved is in a\.txt\.saved"):
        written.write_text(file, "newer")
    assert (tmp_path / "a.txt.saved").read_text() == "mine" and file.read_text() == "newer"


def test_a_record_is_read_once_however_many_files_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, normalize = 0, unicodedata.normalize

    def counted(form: Any, text: str) -> str:
        nonlocal read
        read += len(text)
        return normalize(form, text)

    monkeypatch.setattr(unicodedata, "normalize", counted)  # of each line that is read
    paths = [tmp_path / f"{k:03d}" for k in range(200)]
    for text in ("old", "new"):
        for path in paths:
            written.write_text(path, text)
    assert not written.changed(paths)
    assert read < 4 * (tmp_path / written.RECORD).stat().st_size


def test_a_record_that_others_append_to_or_replace_is_read_again(tmp_path: Path) -> None:
    one, other, record = tmp_path / "one", tmp_path / "other", tmp_path / written.RECORD
    written.write_text(one, "text")
    line = record.read_bytes()
    other.write_text("text")
    assert written.changed([one, other]) == [other]
    with open(record, "ab") as file:  # half a line first, as another process may be seen to write it
        file.write(line.replace(b"one", b"oth").rstrip())
        file.flush()
        assert written.changed([one, other]) == [other]
        file.write(b"er\n")
    assert not written.changed([one, other])
    record.write_bytes(line.replace(b"one", b"longer") + line.replace(b"one", b"other"))  # in place
    assert written.changed([one, other]) == [one]
    record.unlink()
    assert written.changed([one, other]) == [one, other]
    record.write_bytes(line)
    assert written.changed([one, other]) == [other]
