import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Give up root's right to pass over permissions, where the tests run as root."""
    if os.getuid() != 0:
        yield
        return
    os.setegid(12345)
    os.seteuid(12345)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such users")
def test_an_ordinary_user_writes_nested_folders_over_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    monkeypatch.chdir(mine)  # another user may enter no folder above it
    if os.getuid() == 0:
        os.chown(mine, 12345, 12345)
    with ordinary_user():
        for _ in range(2):
            files.write_folder(Path("d"), write_for_its_owner_alone)
        assert Path("d/DR1/FABC0/b").read_text() == "x"
    assert os.listdir(mine) == ["d"]
