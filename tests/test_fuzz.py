"""Broken files for every reader, some thousands of them, and what the hunt takes for a finding."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzzing import judge
from tests.fuzzing.judge import Finding, run, try_reader, workplace
from tests.fuzzing.readers import READERS, Reader, line_fault

MANY, FEW = 100, 10  # inputs of a cheap reader, and of another


@pytest.mark.parametrize("name", READERS)
def test_a_broken_file_is_read_or_refused_in_a_line(name: str) -> None:
    try_reader(name, MANY if READERS[name].cheap else FEW)


def _work_on() -> None:
    while True:
        pass


FAULTS: dict[str, Callable[[], object]] = {
    "raises FileNotFoundError": lambda: Path("gone").read_bytes(),
    "raises UserWarning": lambda: warnings.warn("careful", stacklevel=1),
    "changes the input": lambda: Path("a").write_bytes(b"changed"),
    "writes elsewhere": lambda: Path(__file__).open("a").close(),
    "takes more than": _work_on,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_reader_must_not_do_is_a_finding(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setattr(judge, "SECONDS", 0.05)
    with workplace(), pytest.raises(Finding, match=f"^{fault}"):
        run(Reader(list, FAULTS[fault]), {"a": b"1"})


def test_a_line_for_the_user_is_one_short_line_without_control_characters() -> None:
    assert not line_fault("a.wav: ə is not a phone")
    assert all(line_fault(each) for each in ("a\nb", "a\x1bb", "a\x9bb", "a\u2028b", "a" * 2001))


def test_a_fault_on_one_kind_of_broken_file_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> None:
        if len(Path("a").read_bytes()) < 3:
            raise ValueError

    monkeypatch.setitem(READERS, "careless", Reader(lambda: [{"a": b"12345"}], read))
    with pytest.raises(Finding, match="raises ValueError"):
        try_reader("careless", MANY)
