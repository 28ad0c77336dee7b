"""Progress bars beside results on standard output."""

from __future__ import annotations

import io
import logging
import re
import sys

import pytest
from rich.console import Console

import speechctc
from speechctc.core import progress
from speechctc.core.progress import Reporter
from tests.waiting import wait_for


@pytest.mark.parametrize("set_up", [True, False])
def test_calls_from_python_log_where_logging_is_set_up(
    set_up: bool, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "speechctc")
    if not set_up:
        monkeypatch.setattr(logging.getLogger("speechctc"), "propagate", False)
    reporter = speechctc._reporter(None)
    reporter.note("80 % of %s\nhere")
    reporter.warn("odd")
    logged = [("speechctc", logging.INFO, "80 % of %s\\nhere"), ("speechctc", logging.WARNING, "odd")]
    assert caplog.record_tuples == (logged if set_up else [])
    assert capsys.readouterr().err == ("" if set_up else "80 % of %s\\nhere\nwarning: odd\n")


def on_a_terminal() -> tuple[Reporter, io.StringIO]:
    shown, reporter = io.StringIO(), Reporter()
    reporter.console = Console(file=shown, force_terminal=True, color_system=None, width=200)
    return reporter, shown


def test_names_and_labels_are_printed_as_they_are() -> None:
    reporter, shown = on_a_terminal()
    for name in ("talk:ok:1.wav", "a:o: :smile:", "[b]x[/b] [red]", "C:\\x\\[/]"):
        reporter.note(name)
        reporter.warn(name)
        with reporter.progress(name, 2) as advance:
            advance(1, name)
        assert shown.getvalue().count(name) >= 4
    reporter.note("talk\u202evaw.exe \u2067 \u200f\u061c")
    assert "talk\\u202evaw.exe \\u2067 \\u200f\\u061c" in shown.getvalue()


def test_results_go_to_standard_output_while_a_bar_is_shown() -> None:
    reporter, shown = on_a_terminal()
    out = sys.stdout
    with reporter.progress("decoding", 2) as advance:
        assert sys.stdout is out
        advance(1)
    assert "decoding" in shown.getvalue()


def test_a_bar_counts_the_items_that_were_worked_on_and_ends_with_them() -> None:
    reporter, shown = on_a_terminal()
    seen = []
    reporter.status("too early")
    for item in reporter.track("[bold]\x1b]0;t\x07", "abc", 3):
        seen.append(item)
        reporter.status(f"{item} [red]\x1b[2J")
        if item == "b":
            break
    reporter.status("too late")
    said = shown.getvalue()
    assert seen == ["a", "b"] and "1/3" in said and "too" not in said
    assert "[bold]\\x1b]0;t\\x07" in said and "b [red]\\x1b[2J" in said and "\x1b[2J" not in said


def test_a_log_gets_a_line_a_minute_also_while_nothing_gets_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.02)
    shown, reporter = io.StringIO(), Reporter()
    reporter.console = Console(file=shown, width=200)
    with reporter.progress("decoding", 2000) as advance:
        advance(1200)
        reporter.failed = 3
        wait_for(lambda: shown.getvalue().count("\n") >= 2)
    lines = shown.getvalue().splitlines()
    wanted = r"decoding: 1,200 of 2,000 done, 800 left, \S+ a second, about 1 min to go, 3 failed, [\d,]+ MiB"
    assert all(re.fullmatch(wanted, line) for line in lines)
    with reporter.progress("quick", 3) as advance:
        advance(3)
    assert "quick" not in shown.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(20, "1 min"), (600, "10 min"), (7200, "2.0 h")])
def test_how_long_it_goes_on_is_said_roughly(seconds: float, text: str) -> None:
    log = progress._Log(Reporter(quiet=True), "x", 100)
    log.advance(50)
    assert f"about {text} to go" in log.line(seconds)
