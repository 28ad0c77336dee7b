"""benchmarks/README.md names the data of each script; scripts name parts of each other that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_contributing import defined

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"
SCRIPTS = {path.name: path for path in FOLDER.iterdir() if path.is_file() and not path.suffix}
LOADED = re.compile(r'^(\w+) = rows\.load_script\("(\w+)"\)', re.MULTILINE)


def test_the_table_of_data_names_every_script_and_no_other() -> None:
    table = re.findall(r"^\|.*\|$", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for row in table for name in re.findall(r"`(?:scripts/)?(\w+)`", row.split("|")[2])}
    assert len(named) > 50 and named == set(SCRIPTS)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_what_a_script_takes_from_another_is_there(name: str) -> None:
    """Types do not tell: a script without an ending is loaded as a module of any names."""
    text = SCRIPTS[name].read_text(encoding="utf-8")
    for variable, other in LOADED.findall(text):
        known = re.findall(r"^(?:from .* import |import )(.*)$", SCRIPTS[other].read_text("utf-8"), re.MULTILINE)
        names = defined(SCRIPTS[other]) | {each for line in known for each in re.findall(r"\w+", line)}
        assert set(re.findall(rf"\b{variable}\.(\w+)", text)) <= names
