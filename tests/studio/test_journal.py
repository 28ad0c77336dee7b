"""The journal: nothing acknowledged is lost, half a line is ignored, a second writer is refused."""

from pathlib import Path

import pytest

from speechctc.studio.journal import Journal, Outdated


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
        with pytest.raises(OSError, match="No space"):
            journal.append({"n": 2})
    assert journal.path.read_bytes() == before
    journal.append({"n": 2})
    assert Journal(journal.path).read() == [{"n": 1}, {"n": 2}]
