"""Where compiled code is kept: only where nobody else may write, never in the working folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numba
import pytest
from numba.core.caching import CacheImpl

from speechctc.ctc.cache import cache_home, code_folder, temporary_cache
from speechctc.ctc.compiler import _settings, cache_chosen, with_cache
from tests.ctc.compiled import double

CODE = """
import numba
from speechctc.ctc.compiler import with_cache
from tests.ctc.compiled import double

compiled = with_cache(numba.njit, double)
assert compiled(4) == 8
print(*compiled.stats.cache_hits.values(), not numba.config.CACHE_DIR)
"""
on_posix = pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")


@on_posix
def test_without_a_home_code_is_compiled_once_for_a_user(tmp_path: Path) -> None:
    """A stranger's working folder has what numba would unpickle there."""
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    temporary.mkdir()
    for planted in ("~/.cache/numba", "cache/numba", "cache/speechctc/numba", ".cache/speechctc/numba"):
        (here / planted).mkdir(parents=True)
    root = str(Path(__file__).parent.parent.parent)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    environment = kept | {"TMPDIR": str(temporary), "PYTHONPATH": root, "HOME": ".", "XDG_CACHE_HOME": "cache"}
    for hits in ("", "1"):
        done = subprocess.run([sys.executable, "-c", CODE], cwd=here, env=environment, capture_output=True, text=True)
        assert done.stdout.split() == [*hits, "True"], done.stderr
    (folder,) = temporary.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700 and any(folder.rglob("*.nbc"))
    assert not [path for path in here.rglob("*") if path.is_file()]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with this user's cache in it, and nothing else where code could be kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "none"))
    return tmp_path


def open_to_all(folder: Path, *paths: Path, mode: int = 0o664) -> None:
    """Let others into a folder, and a group write to what is in it."""
    folder.chmod(0o755)
    for path in paths:
        path.chmod(mode)


def link(folder: Path, file: Path) -> None:
    file.rename(folder / "other")
    file.symlink_to(folder / "other")


def be_a_file(folder: Path) -> None:
    folder.rename(folder.parent / "other")
    folder.touch()


SPOIL: dict[str, Callable[[Path, Path], object]] = {
    "others may write to it": lambda folder, file: os.chmod(folder, 0o777),
    "a group may write to it": lambda folder, file: os.chmod(folder, 0o770),
    "others may write above it": lambda folder, file: os.chmod(folder.parent, 0o777),
    "a group may write above it": lambda folder, file: os.chmod(folder.parent, 0o775),
    "an index is of a group": open_to_all,
    "a folder in it is of a group": lambda folder, file: open_to_all(folder, file.parent, mode=0o775),
    "an index is a link": link,
    "it is a file": lambda folder, file: be_a_file(folder),
}


@on_posix
@pytest.mark.parametrize("spoil", SPOIL.values(), ids=SPOIL)
def test_code_is_not_loaded_from_where_others_may_write(
    places: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path, Path], object]
) -> None:
    folder = code_folder()
    assert folder == places / "cache" / "speechctc" / "numba" == code_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    with_cache(numba.njit, double)(4)
    index = next(folder.rglob("*.nbi"))
    spoil(folder, index)
    assert code_folder() is None
    before = {path: path.stat().st_mtime_ns for path in places.rglob("*")}
    assert with_cache(numba.njit, double)(4) == 8  # in memory
    assert {path: path.stat().st_mtime_ns for path in places.rglob("*")} == before
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(places))
    assert code_folder() == places / f"speechctc-{os.getuid()}" / "numba"


@on_posix
def test_code_of_another_user_is_not_loaded(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert code_folder() is not None
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    if Path("/").stat().st_uid != 0:
        pytest.skip("root owns nothing here")
    if os.geteuid() == 0:  # what is root's is trusted
        assert code_folder() is not None
        os.chown(places / "cache", 4243, -1)
    assert code_folder() is None


@on_posix
def test_a_private_folder_is_used_whatever_the_umask(places: Path) -> None:
    before = os.umask(0o002)
    try:
        (places / "cache").mkdir()
        (places / "cache").chmod(0o700)
        for _ in range(2):
            assert with_cache(numba.njit, double)(4) == 8
            assert code_folder() is not None
    finally:
        os.umask(before)


@on_posix
def test_a_folder_that_is_named_counts_if_it_is_safe(
    places: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    usual = code_folder()
    named = places / "named"
    (places / "link").symlink_to(named)
    monkeypatch.chdir(places)
    for name, found in ((named, named), (places / "link", named), ("named", usual), ("~", usual)):
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(name))
        assert code_folder() == found
    named.chmod(0o777)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(named))
    assert code_folder() == usual
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "NUMBA_CACHE_DIR=named", "NUMBA_CACHE_DIR=~", f"NUMBA_CACHE_DIR={named}"
    ]  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="has other variables")
def test_a_cache_is_never_relative(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert cache_home() == tmp_path / ".cache" / "speechctc"
    monkeypatch.setenv("HOME", "somewhere")
    assert cache_home() is None
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 987654)  # who is in no list of users
    assert cache_home() is None


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("left", [0.0, 0.5])
def test_code_whose_file_is_damaged_is_compiled_anew(places: Path, ending: str, left: float) -> None:
    """As after a power failure, or where several machines write to one folder."""
    assert with_cache(numba.njit, double)(4) == 8
    (file,) = (places / "cache").rglob(f"*.{ending}")
    whole = file.read_bytes()
    file.write_bytes(whole[: int(left * len(whole))])
    for hits in (0, 1):
        compiled = with_cache(numba.njit, double)
        assert compiled(4) == 8 and sum(compiled.stats.cache_hits.values()) == hits


def test_numba_looks_nowhere_else(places: Path) -> None:
    locators = CacheImpl._locator_classes
    with cache_chosen() as is_kept:
        assert is_kept and len(CacheImpl._locator_classes) == 1
        assert _settings.CACHE_DIR == str(code_folder())
    assert CacheImpl._locator_classes is locators and not _settings.CACHE_DIR


@on_posix
def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    folder = temporary_cache()
    assert folder is not None and temporary_cache() == folder
    folder.chmod(0o770)
    assert temporary_cache() is None
    folder.rename(tmp_path / "other")
    (tmp_path / "other").chmod(0o700)
    folder.symlink_to(tmp_path / "other")
    assert temporary_cache() is None
    folder.unlink()
    folder.touch()
    assert temporary_cache() is None
    folder.unlink()
    monkeypatch.chdir(tmp_path)  # Python takes the working folder where no other can be written to
    assert temporary_cache() is None and not any(path.name.startswith("speechctc") for path in tmp_path.iterdir())
