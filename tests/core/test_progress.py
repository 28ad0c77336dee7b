"""Progress bars beside results on standard output."""

from __future__ import annotations

import io
import logging
import sys

import pytest
from rich.console import Console

import speechctc
from speechctc.cli.options import new_reporter
from speechctc.core.progress import Reporter


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


def test_the_command_line_prints_and_logs_nothing(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "speechctc")
    reporter = new_reporter()
    reporter.note("a note")
    reporter.warn("odd")
    assert capsys.readouterr().err == "a note\nwarning: odd\n" and not caplog.records


def on_a_terminal() -> tuple[Reporter, io.StringIO]:
    shown, reporter = io.StringIO(), Reporter()
    reporter.console = Console(file=shown, force_terminal=True, width=120)
    return reporter, shown


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
    for item in reporter.track("drawing", "abc", 3):
        seen.append(item)
        reporter.status(f"{item} now")
        if item == "b":
            break
    reporter.status("too late")
    assert seen == ["a", "b"] and "1/3" in shown.getvalue() and "b now" in shown.getvalue()
    assert "too late" not in shown.getvalue()


def test_a_text_is_shown_beside_the_bar_while_there_is_one() -> None:
    reporter, shown = on_a_terminal()
    reporter.status("too early")
    with reporter.progress("aligning", 1):
        reporter.status("a.wav: path 50 %")
    reporter.status("too late")
    assert "a.wav: path 50 %" in shown.getvalue() and "too" not in shown.getvalue()
