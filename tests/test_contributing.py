"""CONTRIBUTING.md names files and parts of the code that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROWS = [line for line in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines() if line.startswith("| a")]


def defined(path: Path) -> set[str]:
    """Return the names that a module defines, those of its classes as ``Class.name``."""
    found: set[str] = set()

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                collect(node.body, f"{prefix}{node.name}.")
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            found.update(prefix + each.id for each in targets if isinstance(each, ast.Name))

    collect(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return found


def test_the_table_is_read() -> None:
    assert len(ROWS) >= 7 and any("an output format" in row for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_the_files_and_names_of_the_table_exist(row: str) -> None:
    quoted = re.findall(r"`([^`]+)`", row)
    places = [each for each in quoted if "/" in each]
    assert places and not [each for each in places if not (ROOT / "speechctc" / each).exists()]
    known = {name for each in places if each.endswith(".py") for name in defined(ROOT / "speechctc" / each)}
    assert not [each for each in quoted if "/" not in each and each not in known]


def test_the_extra_all_is_every_extra_but_those_of_developers() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = text.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    (named,) = re.findall(r'^all = \[\n    "speechctc\[([\w,]+)\]"', section, re.MULTILINE)
    assert set(named.split(",")) == set(re.findall(r"^(\w+) = \[", section, re.MULTILINE)) - {"all", "dev", "docs"}


def test_the_extras_that_messages_name_are_there() -> None:
    named = {
        extra
        for path in (ROOT / "speechctc").rglob("*.py")
        for extra in re.findall(r"with_extra\(.(\w+).\)", path.read_text(encoding="utf-8"))
    }
    extras = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE))
    assert len(named) >= 8 and named <= extras


def test_no_test_patches_a_private_name() -> None:
    """It would hold the package to how it is written inside."""
    patches = re.compile(r"(setattr|patch|patch\.object)\([^\n]*[\"'.]_[A-Za-z]")
    found = {path.name: patches.findall(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("*.py")}
    assert not {name for name, each in found.items() if each}
