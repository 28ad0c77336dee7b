"""Rows of figures, kept in benchmarks/ with what they were measured on."""

from __future__ import annotations

import csv
import platform
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from speechctc import __version__

FOLDER = Path(__file__).resolve().parent


def load_script(name: str) -> ModuleType:
    """Return a script beside this one as a module."""
    loader = SourceFileLoader(name, str(FOLDER / name))
    module = ModuleType(name)
    module.__file__ = loader.path
    loader.exec_module(module)
    return module


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, or none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_corpus(table: Path) -> list[dict[str, str]]:
    """Return the rows of a table of recordings, separated by tabs, with the place of the audio."""
    with table.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [line | {"audio": str(table.parent / line["audio"])} for line in lines]


def write_corpus(table: Path, columns: Sequence[str], lines: Sequence[dict[str, str]]) -> None:
    """Write a table of recordings, separated by tabs, in place of what is there."""
    with table.open("w", encoding="utf-8", newline="") as file:
        file.write("\t".join(columns) + "\n")
        file.writelines("\t".join(line[name] for name in columns) + "\n" for line in lines)


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows that have the same columns, in place of what is there."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def put(path: Path, rows: Sequence[dict[str, Any]], *key: str) -> None:
    """Write rows in place of those of a file that have the same in the columns `key`; other rows stay, before them."""
    anew = {tuple(str(row[name]) for name in key) for row in rows}
    kept = [row for row in read(path) if tuple(row[name] for name in key) not in anew]
    write(path, [*kept, *rows])


def append(path: Path | None, row: dict[str, object]) -> None:
    """Add a row to a CSV file, with the names of the columns where it begins."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, row.keys(), lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(row)


def machine(device: str = "cpu") -> str:
    """Name the processor and the number of its cores, or the GPU."""
    import torch  # late here and below: what is measured in other processes has at least this one's memory

    if device == "cuda":
        return torch.cuda.get_device_name()
    from speechctc.training.runs import hardware  # late: a machine with a GPU may lack what it imports

    return "{processor}, {cores} cores".format(**hardware(torch.device("cpu")))


def versions() -> str:
    """Name what was measured."""
    import torch

    return f"speechctc {__version__}, torch {torch.__version__}, Python {platform.python_version()}"
