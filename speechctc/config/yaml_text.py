"""Reads YAML in bounded time and memory, even where aliases multiply its values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from speechctc.core.errors import InputError

LONGEST = 1 << 18  # characters of a file
MOST = 20_000  # values of a file, each counted as often as aliases name it
DEEPEST = 30  # levels of nesting
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C, ten times as fast, where PyYAML was built with it


def read_yaml(path: Path) -> Any:
    """Return the plain values of a YAML file.

    Raises
    ------
    InputError
        The file is not UTF-8, not YAML, or larger than any config.
    OSError
        The file cannot be read.
    """
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(LONGEST + 1)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a YAML file ({error})", "correct the file") from None
    if len(text) > LONGEST:
        raise InputError(f"{path}: longer than {LONGEST} characters, which no config is", "name a config")
    return parse_yaml(text, f"{path}: not a YAML file", "correct the file")


def parse_yaml(text: str, what: str, fix: str) -> Any:
    """Return the plain values of a text; if it is not YAML, `what` and `fix` begin the `InputError`."""
    try:
        _check_depth(text)
        loader = LOADER(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _measure(node, {}, 0)
        return loader.construct_document(node)
    except RecursionError:
        raise InputError(f"{what} (nested too deeply)", fix) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise InputError(f"{what} ({' '.join(str(error).split())[:300]})", fix) from None


def _check_depth(text: str) -> None:
    """Read the events of a text, which takes no stack, unlike the loader in C: it ends the process where it lacks some.

    Raises
    ------
    ValueError
        They are nested too deeply.
    """
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST + 1:
                raise ValueError(f"nested more than {DEEPEST} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _measure(node: yaml.Node, known: dict[int, tuple[int, int]], depth: int) -> tuple[int, int]:
    """Return the number of values in a node, and the depth of their nesting.

    Raises
    ------
    ValueError
        There are too many values, or they are nested too deeply; a node within itself is too deep.
    """
    if id(node) not in known:
        inner: list[Any] = []
        if isinstance(node, yaml.SequenceNode):
            inner = node.value
        elif isinstance(node, yaml.MappingNode):
            inner = [each for pair in node.value for each in pair]
        if depth > DEEPEST:
            raise ValueError(f"nested more than {DEEPEST} deep")
        parts = [_measure(each, known, depth + 1) for each in inner]
        known[id(node)] = 1 + sum(size for size, _ in parts), 1 + max((height for _, height in parts), default=0)
    size, height = known[id(node)]
    if size > MOST or height > DEEPEST:
        raise ValueError(f"more than {MOST} values, or nested more than {DEEPEST} deep")
    return size, height
