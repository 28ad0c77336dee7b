"""Broken files for every reader, some thousands of them, and what the hunt takes for a finding."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from speechctc.audio import sound_file
from tests.fuzzing import judge as judging
from tests.fuzzing.judge import Finding, Judge, try_reader
from tests.fuzzing.lines import line_fault
from tests.fuzzing.readers import READERS, Reader

MANY, FEW = 100, 10  # inputs of a cheap reader, and of another


@pytest.mark.parametrize("name", READERS)
def test_a_broken_file_is_read_or_refused_in_a_line(name: str) -> None:
    try_reader(name, MANY if READERS[name].cheap else FEW)


def _raise() -> None:
    raise ValueError


def _say() -> None:
    os.write(2, b"found something")


def _leave() -> None:
    Path("more").touch()


def _change() -> None:
    Path("a").write_bytes(b"changed")


def _write_outside() -> None:
    (Path(__file__).parent / "fuzzing" / "nowhere" / "x").open("w")


def _work_on() -> None:
    while True:
        pass


FAULTS: dict[str, Callable[[], object]] = {
    "raises ValueError": _raise,
    "warns": lambda: warnings.warn("careful", stacklevel=1),
    "says something": _say,
    "changes the input: .*more": _leave,
    "changes the input: .*a": _change,
    "raises FileNotFoundError": _write_outside,
    "takes more than": _work_on,
}


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    monkeypatch.setattr(judging, "SECONDS", 0.05)
    made = Judge()
    yield made
    made.close()


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_reader_must_not_do_is_a_finding(judge: Judge, fault: str) -> None:
    with pytest.raises(Finding, match=f"^{fault}"):
        judge.run(Reader(list, FAULTS[fault]), {"a": b"1"})


def test_writing_elsewhere_is_a_finding_and_a_refusal_is_none(tmp_path: Path, judge: Judge) -> None:
    with pytest.raises(Finding, match=f"writes outside its folder: open {tmp_path / 'x'}"):
        judge.run(Reader(list, lambda: (tmp_path / "x").write_text("x")), {"a": b"1"})
    judge.run(Reader(list, lambda: sound_file.info(Path("a"))), {"a": b"1"})


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
