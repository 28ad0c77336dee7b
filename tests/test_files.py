import os
import sys
from pathlib import Path

import pytest

from speechctc import files


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


def test_a_folder_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "best"
    files.write_folder(path, lambda beside: files.write_text(beside / "w", "1"))

    def fail(beside: Path) -> None:
        (beside / "w").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write_folder(path, fail)
    assert (path / "w").read_text() == "1"
    files.write_folder(path, lambda beside: files.write_text(beside / "w", "2"))
    assert (path / "w").read_text() == "2"
    assert os.listdir(tmp_path) == ["best"]


@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_a_swap_cut_off_at_any_moment_is_settled(tmp_path: Path, moment: str) -> None:
    path, new, old = tmp_path / "best", tmp_path / "best.partial", tmp_path / "best.previous"
    for folder, text in ((path, "1"), (new, "2")):
        files.write_text(folder / "w", text)
    if moment != "before":
        os.rename(path, old)
    if moment == "after":
        os.rename(new, path)
    files.settle_folder(path)
    assert (path / "w").read_text() == ("2" if moment == "after" else "1")
    assert os.listdir(tmp_path) == ["best"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_files_can_be_read_by_those_who_may_read_new_ones(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        path.write_bytes(b"x")
        path.chmod(0o600)

    usual = tmp_path / "usual"
    usual.touch()
    files.write_file(tmp_path / "file", write)
    files.write_folder(tmp_path / "folder", lambda folder: write(folder / "file"))
    for path in (tmp_path / "file", tmp_path / "folder" / "file"):
        assert path.stat().st_mode == usual.stat().st_mode
