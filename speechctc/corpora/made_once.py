"""Corpora that are made by this package: made once, completely or not at all, and kept with the settings they have."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, FiniteFloat

from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.core.text_files import read_text
from speechctc.corpora.corpus import SPLITS
from speechctc.corpora.synthetic_sound import one_thread

Row = dict[str, Any]


class _Spoken(BaseModel):
    """An utterance that a synthesiser spoke."""

    id: str
    audio: str
    phones: list[str]
    speaker: str
    times: list[tuple[FiniteFloat, FiniteFloat]]


def make_once(
    root: Path, marker: str, name: str, wanted: dict[str, Any], make: Callable[[Path], None]
) -> dict[str, Any]:
    """Make a corpus where the folder is empty or not there; return the content of its marker.

    Parameters
    ----------
    root : Path
    marker : str
        Name of the JSON file in the folder that says what the corpus was made with.
    name : str
        What messages call the corpus.
    wanted : dict
        Keys and values that the marker must have; ``config`` has the settings.
    make : callable
        Takes a folder, and writes the corpus and the marker into it.

    Raises
    ------
    InputError
        As `make`; or the folder is a file, or has other files, or a corpus made with something else.
    """
    if not (root.is_dir() and any(root.iterdir())):
        if root.exists() and not root.is_dir():
            raise InputError(f"{root}: a file, not a folder", f"set corpus.root to a folder for the {name}")
        with one_thread():
            files.write_folder(root, make)
    return _made_before(root, marker, name, wanted)


def write_rows(folder: Path, rows: Mapping[str, Sequence[Row]]) -> int:
    """Write the table of each split, ``<split>.jsonl``; return the number of all rows."""
    for split, each in rows.items():
        files.write_text(
            folder / f"{split}.jsonl", "\n".join(json.dumps(row, ensure_ascii=False) for row in each) + "\n"
        )
    return sum(map(len, rows.values()))


def read_rows(root: Path, about: dict[str, Any]) -> dict[str, list[Row]]:
    """Read the tables that `write_rows` wrote.

    Raises
    ------
    InputError
        A row is damaged; or utterances are missing: the marker `about` says how many were made.
    """
    rows = {split: _read_table(root / f"{split}.jsonl") for split in SPLITS}
    count = sum(map(len, rows.values()))
    if count != about["utterances"]:
        raise InputError(
            f"{root}: {count} utterances of the {about['utterances']} that were made",
            "move the folder aside; the corpus is then made again",
        )
    return rows


def _read_table(path: Path) -> list[Row]:
    rows = []
    for number, line in enumerate(read_text(path).text.splitlines(), start=1):
        try:
            row = _Spoken.model_validate_json(line)
        except ValueError:
            row = None
        if row is None or len(row.times) != len(row.phones):
            raise InputError(
                f"{path}, line {number}: not an utterance that was made here",
                "move the folder aside; the corpus is then made again",
            )
        rows.append(row.model_dump())
    return rows


def _made_before(root: Path, marker: str, name: str, wanted: dict[str, Any]) -> dict[str, Any]:
    path = root / marker
    if not path.is_file():
        raise InputError(f"{root}: not a {name}, but other files", "set corpus.root to a new folder")
    try:
        about = dict(files.read_json(path))
        there = dict(about.get("config", {}))
    except (ValueError, TypeError):
        raise InputError(f"{path}: damaged", "delete the folder, or set corpus.root to another") from None
    if all(about.get(key) == value for key, value in wanted.items()):
        return about
    settings = wanted["config"]
    changed = [f"{key}={there.get(key)} instead of {here}" for key, here in settings.items() if there.get(key) != here]
    if about.get("languages") != wanted.get("languages"):
        changed.insert(0, f"language {about.get('languages')} instead of {wanted['languages']}")
    what = ", ".join(changed) or "other sentences or labels, or by another version"
    raise InputError(f"{root}: a {name} made with {what}", "move it aside, or set corpus.root to another folder")
