"""Tries a reader on broken files; hypothesis makes a finding small, and keeps it to be tried first the next time."""

from __future__ import annotations

import logging
import os
import sys

from hypothesis import HealthCheck, given, settings

from tests.fuzzing.judge import Judge
from tests.fuzzing.mutations import broken
from tests.fuzzing.readers import READERS
from tests.fuzzing.seeds import Files


def try_reader(name: str, inputs: int, seeded: bool = True) -> None:
    """Raise an AssertionError with the smallest input found on which a reader does what it must not.

    Parameters
    ----------
    name : str
    inputs : int
    seeded : bool
        The same inputs each time.
    """
    reader = READERS[name]
    valid, judge = reader.seeds(), Judge()
    before, sys.stdin = (os.dup(0), sys.stdin), open(0, closefd=False)  # pytest's own has no handle
    logging.getLogger("speechctc.jit.cache").setLevel(logging.ERROR)  # that numba compiles is no finding
    os.environ.setdefault("MPLCONFIGDIR", str(judge.root))  # matplotlib speaks where it may not write to the home

    @settings(
        max_examples=inputs,
        deadline=None,
        derandomize=seeded,
        print_blob=not seeded,
        suppress_health_check=list(HealthCheck),
    )
    @given(broken(reader, valid))
    def check(files: Files) -> None:
        verdict = judge.run(reader, files)
        assert not verdict.fault, f"{name}: {verdict.fault}\n{verdict.detail}"

    try:
        for files in valid:  # imports what it needs, and shows that seeds are valid
            verdict = judge.run(reader, files, first=True)
            assert verdict.outcome == "read", f"{name}: a seed is not read: {verdict}"
        with judge.limited_memory():
            check()
    finally:
        judge.close()
        os.dup2(before[0], 0)
        os.close(before[0])
        sys.stdin = before[1]
