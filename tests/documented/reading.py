"""Finds the commands and the Python blocks of a document, and the commands that its sentences name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
SHELL = ("speechctc", "pip", "mv", "cp", "mkdir", "arecord", "torchrun", "python")  # and scripts/, benchmarks/
COMMAND = re.compile(rf"(?:{'|'.join(SHELL)}|(?:scripts|benchmarks)/\w+)(?: |$)")


class Block(NamedTuple):
    """A piece of a document to be run: commands, or a program in Python."""

    language: str
    lines: tuple[str, ...]


def documents() -> list[str]:
    """Return the documents whose commands are run, by their paths from the root."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "data" / "README.md"]
    found += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "configs").glob("*.yaml")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def blocks(document: str) -> Iterator[Block]:
    """Yield the blocks of a document, in order; output, tables of files and the like hold no commands."""
    text = (ROOT / document).read_text(encoding="utf-8")
    if document.endswith(".yaml"):
        comments = [line for line in text.splitlines() if line.startswith("#   ")]
        yield Block("shell", tuple(_commands([line[1:].strip() for line in comments])))
        return
    for lines in _code(text):
        if re.match(r"(import|from) \w+", lines[0]):
            yield Block("python", tuple(lines))
        elif commands := tuple(_commands(lines)):
            yield Block("shell", commands)


def _code(text: str) -> Iterator[list[str]]:
    """Yield the lines of each code block that is not marked as text."""
    fenced = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
    for match in fenced.finditer(text):
        assert match[1] == "text", f"a fenced block of {match[1] or 'no language'}: indent what is to be run"
    text = fenced.sub("\n.\n", text)
    glued = re.search(r"^[A-Za-z(`].*\n {4}\S.*", text, flags=re.MULTILINE)
    assert glued is None, f"no empty line before a block, so it is shown as prose: {glued and glued[0]}"
    for block in re.findall(r"(?:(?<=\n\n)|\A)((?: {4}.*\n| *\n)+)", text):
        lines = [line[4:].rstrip() for line in block.splitlines()]
        if any(lines):
            yield lines[next(k for k, line in enumerate(lines) if line) :]


def _commands(lines: list[str]) -> Iterator[str]:
    """Yield the commands among some lines: continued lines joined, prompts and comments left out."""
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        command = re.sub(r"(^|\s)#.*$", "", line.strip().removeprefix("$ ")).strip()
        if COMMAND.match(command):
            yield " ".join(command.split())


def named(document: str) -> Iterator[str]:
    """Yield the commands and scripts that sentences and tables name between backticks."""
    text = (ROOT / document).read_text(encoding="utf-8")
    for span in re.findall(r"`((?:speechctc|(?:scripts|benchmarks)/\w+)(?: [^`]*)?)`", text):
        yield " ".join(span.replace("\n#", "\n").split())
