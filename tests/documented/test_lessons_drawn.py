"""The pictures and the notebook of the lessons are those that the lessons' own code makes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.documented.reading import ROOT
from tests.forked import Forked

GUIDE = ROOT / "docs" / "guide"
NUMBER = re.compile(r"-?\d+(?:\.\d*)?")


def draw(here: Path, *arguments: object) -> None:
    program = ROOT / "scripts" / "drawings" / "draw_lessons"
    assert Forked(str(program), *arguments, cwd=here, log=here / "said").wait(600) == 0, (here / "said").read_text()


def test_the_notebook_is_the_lesson(tmp_path: Path) -> None:
    draw(tmp_path, "--out", GUIDE, "--check")


def test_the_notebook_runs_and_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cells in order and in one namespace, as Jupyter runs them; commands are run where the lesson is."""
    monkeypatch.chdir(tmp_path)
    book = json.loads((GUIDE / "student.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    ran = [cell for cell in cells if not cell["source"][0].startswith("!")]
    assert len(ran) == 4 and len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    known: dict[str, object] = {}
    for cell in ran:
        printed = _printed("".join(cell["source"]), known)
        shown = "".join("".join(output["text"]) for output in cell["outputs"])
        assert NUMBER.split(printed) == NUMBER.split(shown)
        numbers, expected = ([float(each) for each in NUMBER.findall(text)] for text in (printed, shown))
        assert numbers == pytest.approx(expected, abs=0.011)
    assert (tmp_path / "lattice.svg").exists()


def _printed(source: str, known: dict[str, object]) -> str:
    import io
    from contextlib import redirect_stdout

    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(source, "student.ipynb", "exec"), known)
    return out.getvalue()


def test_the_curves_of_the_lessons_are_drawn_by_their_code(tmp_path: Path) -> None:
    names = ("engineer-posteriors.svg", "student-lattice.svg")
    draw(tmp_path, "--out", tmp_path, *names)
    for name in names:
        drawn, kept = ((place / name).read_text(encoding="utf-8") for place in (tmp_path, GUIDE))
        texts = re.compile(r"<text[^>]*>(.*?)</text>", re.DOTALL)
        assert texts.findall(drawn) == texts.findall(kept) and len(texts.findall(drawn)) > 20
