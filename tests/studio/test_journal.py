"""The journal: nothing acknowledged is lost, half a line is ignored, a second writer is refused."""

import errno
import json
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from speechctc.studio.journal import Journal, Outdated, Phone


@pytest.mark.parametrize("half", [b'{"n": 2', b"\xff\xfe", b"[1]\n", b'{"n": \xc3'])
def test_half_a_line_is_ignored_and_the_next_is_kept(tmp_path: Path, half: bytes) -> None:
    journal = Journal(tmp_path / "a.journal")
    journal.append({"n": 1})
    with open(journal.path, "ab") as file:
        file.write(half)
    again = Journal(journal.path)
    assert again.read() == [{"n": 1}]
    again.append({"n": 3})
    assert Journal(journal.path).read() == [{"n": 1}, {"n": 3}]


def test_every_cut_keeps_the_whole_lines(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a.journal")
    journal.append({"n": 1}, {"n": 2}, {"n": 3})
    content = journal.path.read_bytes()
    for size in range(len(content) + 1):
        journal.path.write_bytes(content[:size])
        found = Journal(journal.path).read()
        assert found == [{"n": k + 1} for k in range(len(found))]
        assert len(found) >= content[:size].count(b"\n")


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    one, other = Journal(tmp_path / "a.journal"), Journal(tmp_path / "a.journal")
    one.read(), other.read()
    one.append({"n": 1})
    with pytest.raises(Outdated):
        other.append({"n": 2})
    assert other.read() == [{"n": 1}]
    other.append({"n": 2})
    assert one.read() == [{"n": 1}, {"n": 2}]


def test_a_full_disk_takes_back_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "a.journal")
    journal.append({"n": 1})
    before = journal.path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left on device: '.*a.journal'"):
            journal.append({"n": 2})
    assert journal.path.read_bytes() == before
    journal.append({"n": 2})
    assert Journal(journal.path).read() == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    ("fault", "code", "told"),
    [
        ("fsync", errno.EIO, False),
        ("fsync", errno.EMFILE, False),
        ("fsync", errno.EINVAL, True),
        ("close", errno.EIO, True),
    ],
)
def test_a_line_that_is_on_the_disk_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, code: int, told: bool
) -> None:
    """Whatever fails beside the line: told that it failed, a page would send the change once more."""
    fsync, close = os.fsync, os.close

    def failing_fsync(handle: int) -> None:
        fsync(handle)
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(code, os.strerror(code))

    def failing_close(handle: int) -> None:
        is_file = stat.S_ISREG(os.fstat(handle).st_mode)
        close(handle)
        if is_file:
            raise OSError(code, os.strerror(code))

    journal, acknowledged = Journal(tmp_path / "a.journal"), False
    with monkeypatch.context() as patch:
        patch.setattr(f"os.{fault}", {"fsync": failing_fsync, "close": failing_close}[fault])
        with suppress(OSError):
            journal.append({"n": 1})
            acknowledged = True
    assert acknowledged == told
    assert Journal(journal.path).read() == [{"n": 1}] * acknowledged
    journal.append({"n": 2})
    assert Journal(journal.path).read() == [{"n": 1}] * acknowledged + [{"n": 2}]


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open cannot be replaced there")
def test_a_snapshot_by_hard_links_does_not_change(tmp_path: Path) -> None:
    """And another process, which appends to the file that was left, is told."""
    one, other = Journal(tmp_path / "a.journal"), Journal(tmp_path / "a.journal")
    one.append({"n": 1})
    other.read()
    os.link(one.path, tmp_path / "snapshot")
    left = os.open(one.path, os.O_RDWR | os.O_APPEND)
    one.append({"n": 2})
    assert Journal(tmp_path / "snapshot").read() == [{"n": 1}] and one.read() == [{"n": 1}, {"n": 2}]
    with pytest.raises(Outdated):
        other._append(left, b"{}\n")
    os.close(left)
    one.append({"n": 3})
    assert other.read() == [{"n": 1}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize(
    "wrong",
    [
        '[0, 1, "a", NaN, [], false]',
        '[0, 1, "a", 1e999, [], false]',
        '[0, 1, "a", 0.5, [["b", Infinity]], false]',
        '[0, 1, "a", 0.5, [["b", 1e999]], false]',
        '[0, 1, "\\ud800", 0.5, [], false]',
        '[0, 1, "a", 0.5, [["\\udfff", 0.1]], false]',
        '[0, Infinity, "a", 0.5, [], false]',
        '[NaN, 1, "a", 0.5, [], false]',
        '[0, 1, "a", 0.5, [], false, "\\ud800"]',
    ],
)
def test_no_phone_has_what_no_answer_can_hold(wrong: str) -> None:
    with pytest.raises(ValueError):
        Phone.from_list(json.loads(wrong))
