"""Messages are one line that a terminal can show, whatever the names and labels in them hold."""

from __future__ import annotations

import copy
import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from speechctc.core import files
from speechctc.core.errors import InputError, of_disk, printable, with_extra
from speechctc.core.progress import Reporter

NAME = "a\x1b[2J\r\n\x9b31m\u2028\x7f.wav"
SHOWN = "a\\x1b[2J\\r\\n\\x9b31m\\u2028\\x7f.wav"


def test_control_characters_are_escaped_and_phones_are_not() -> None:
    assert printable(NAME) == SHOWN
    assert printable("ɡ͡b ã ʔ\u200d [red]\\") == "ɡ͡b ã ʔ\u200d [red]\\"
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"


def test_a_message_is_one_line_and_its_ends_are_kept() -> None:
    error = InputError(f"{NAME}: {'x' * 5000} the end", f"rename {NAME}")
    assert str(error).startswith(f"{SHOWN}: xxx") and " ... " in error.what and error.what.endswith("the end")
    assert len(error.what) <= 900 and str(error).isprintable()
    assert str(copy.copy(error)) == str(error)


def test_an_error_of_the_disk_names_no_draft(tmp_path: Path) -> None:
    with pytest.raises(OSError) as caught:
        files.write_text(tmp_path / ("x" * 256), "too long")
    assert str(of_disk(caught.value)) == f"{tmp_path / ('x' * 256)}: File name too long; choose a shorter name"
    with pytest.raises(OSError) as caught, files.draft_folder(tmp_path / "out") as draft:
        (draft / "weights" / "none").write_text("")
    assert str(of_disk(caught.value)).startswith(f"{tmp_path}: No such file")
    assert str(of_disk(OSError(5, "odd"))) == "disk: odd; check the path and the disk"


@pytest.mark.parametrize("say", ["note", "warn"])
def test_notes_and_warnings_are_lines_and_do_not_reach_the_terminal_raw(say: str) -> None:
    reporter = Reporter()
    reporter.console = Console(file=io.StringIO(), force_terminal=True, soft_wrap=True, color_system=None)
    getattr(reporter, say)(f"{NAME} [bold]", "and another")
    said = reporter.console.file.getvalue()  # type: ignore[attr-defined]
    assert [line.removeprefix("warning: ") for line in said.splitlines()] == [f"{SHOWN} [bold]", "and another"]


@pytest.mark.parametrize(("installed", "name"), [("clone", "."), ("index", "speechctc"), ("", ".")])
def test_an_extra_is_that_of_a_clone_unless_the_package_came_from_an_index(
    installed: str, name: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = here / "speechctc-0.1.0.dist-info"
    if installed:
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.4\nName: speechctc\nVersion: 0.1.0\n")
    if installed == "clone":  # what pip writes of a folder, and of no index
        (about / "direct_url.json").write_text('{"dir_info": {}, "url": "file:///there"}')
    monkeypatch.setattr(sys, "path", [str(here)])
    assert with_extra("words") == f"pip install '{name}[words]'"
