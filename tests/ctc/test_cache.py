"""Where compiled code is kept by users whose home cannot be written to."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from speechctc.ctc.cache import temporary_cache

CODE = """
import sys, numba
from numba.core.caching import InTreeCacheLocator, UserWideCacheLocator
from speechctc.ctc.compiler import with_cache

def refuse(self):
    raise OSError("read-only")

InTreeCacheLocator.ensure_cache_path = UserWideCacheLocator.ensure_cache_path = refuse
from tests.ctc.compiled import double
compiled = with_cache(numba.njit, double)
assert compiled(4) == 8
print(*compiled.stats.cache_hits.values(), not numba.config.CACHE_DIR)
"""


def test_without_a_home_code_is_compiled_once_for_a_user(tmp_path: Path) -> None:
    root = str(Path(__file__).parent.parent.parent)
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": root}
    environment.pop("NUMBA_CACHE_DIR", None)
    for hits in ("", "1"):
        done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True)
        assert done.stdout.split() == [*hits, "True"], done.stderr
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700 and any(folder.rglob("*.nbc"))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")
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
