"""Requests to stop, as POSIX and Windows make them."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from speechctc.cli import app as cli
from speechctc.core import training_process
from speechctc.core.parallel import program
from speechctc.core.training_process import STOP, stop_requests
from tests.programs import write_program


@pytest.mark.parametrize("number", [signal.SIGINT, STOP])
def test_a_request_is_heard_once_and_the_handlers_return(number: int) -> None:
    before, heard = signal.getsignal(number), list[int]()
    with stop_requests(heard.append):
        signal.raise_signal(number)
    assert heard == [128 + number] and signal.getsignal(number) is before


def test_a_second_interrupt_does_not_wait() -> None:
    heard: list[int] = []
    with pytest.raises(KeyboardInterrupt), stop_requests(heard.append):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert heard == [130]


def test_an_interrupted_command_says_so_and_another_interrupt_ends_it_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second Ctrl-C while torch leaves would print a traceback of its."""
    small = typer.Typer()

    @small.command()
    def wait() -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(cli, "app", small)
    monkeypatch.setattr(sys, "argv", ["speechctc"])
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.value.code == 130 and "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize("first", ["", ".", "bin"])
def test_no_program_of_the_working_folder_is_run(first: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "bin").mkdir()
    (here / "apart").mkdir()
    for folder in (here / first, here / "apart"):
        write_program(folder / "tool", "")
    monkeypatch.setenv("PATH", os.pathsep.join((first, str(here / "apart"))))
    found = program("tool")
    assert found is not None and Path(found).parent == here / "apart"
    monkeypatch.setenv("PATH", first)
    assert program("tool") is None


def test_on_windows_a_process_leads_a_group_and_is_asked_by_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(signal, "CTRL_BREAK_EVENT", 1, raising=False)
    monkeypatch.setattr(signal, "SIGBREAK", 21, raising=False)
    monkeypatch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0x200, raising=False)
    spec = importlib.util.spec_from_file_location("processes_of_windows", training_process.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.STOP == 1 and {"creationflags": 0x200} == module.OWN_GROUP
    heard: list[int] = []
    with module.stop_requests(heard.append):
        signal.raise_signal(21)
    assert heard == [149]
