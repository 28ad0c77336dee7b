"""Mutations of files: bytes, numbers, words and repeated parts; values of JSON and safetensors files."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

LARGEST = 1 << 17  # bytes of a mutated file
NUMBERS = (
    *("0", "-1", "1", "1e308", "1e999", "-1e999", "nan", "NaN", "inf", "-inf", "Infinity", "0.5", "1e-320", "0x10"),
    *("2147483647", "2147483648", "-2147483648", "4294967296", "9223372036854775807", "18446744073709551616"),
    *("9" * 40, "9" * 4301, "-0", "1_000", "٣", "--1", "1e5", "99999999"),
)
WORDS = (
    *(
        "\x1b[2J",
        "\x1b]0;title\x07",
        "\x9b31m",
        "\0",
        "\n",
        "\r",
        "\t",
        "\u2028",
        "\u202e",
        "\ufeff",
        "\ud800",
        "'",
        '"',
    ),
    *(
        "",
        " ",
        "a" * 3000,
        "ə",
        "a\u0303",
        "\U0001f600",
        "../..",
        "/etc/passwd",
        "null",
        "true",
        "[",
        "{",
        "]",
        "}",
        "\\",
    ),
    *("[" * 2000, '{"a":' * 2000, "-", ":", ",", "<exists>", "!", "&a", "*a", "%", "[/bold]", "[red]"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.5, 1e308, float("nan"), float("inf")),
    *("", "a", "a\nb", "a\x1b[2Jb", "a\0b", "\ud800", "x" * 3000, [], {}, [[]], [{}], {"a": 1}, ["a", "a"], [None]),
    *([1, 2], [1e999], {"format": 1}, ["a"] * 300, "1", "nan"),
)


def mutate(data: bytes, random: Random, others: Sequence[bytes], words: Sequence[str]) -> bytes:
    """Return a file with one to four mutations; `others` are files to take parts from, `words` belong to its format."""
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
        data = random.choice(_MUTATIONS)(data, random, others, words)[:LARGEST]
    return data


def _flip(data: bytes, random: Random, *_: Any) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    for _count in range(random.choice((1, 1, 2, 8))):
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _set(data: bytes, random: Random, *_: Any) -> bytes:
    at = _place(data, random)
    return data[:at] + bytes([random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))]) + data[at + 1 :]


def _integer(data: bytes, random: Random, *_: Any) -> bytes:
    """Overwrite a binary number by an extreme one."""
    form = random.choice("bhiqfd")
    order = random.choice("<>")
    if form in "fd":
        packed = struct.pack(order + form, random.choice((0.0, -1.0, 1e30, float("nan"), float("inf"), float("-inf"))))
    else:
        bits = 8 * struct.calcsize(order + form)
        value = random.choice((0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), random.randrange(64)))
        packed = struct.pack(order + form, value)
    at = random.choice((_place(data, random), random.randrange(min(len(data), 64) + 1)))
    return data[:at] + packed + data[at + len(packed) :]


def _number(data: bytes, random: Random, *_: Any) -> bytes:
    """Replace a number that is written in digits."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", data))
    if not found:
        return data
    match = random.choice(found)
    return data[: match.start()] + random.choice(NUMBERS).encode() + data[match.end() :]


def _word(data: bytes, random: Random, _: Sequence[bytes], words: Sequence[str]) -> bytes:
    """Insert a word, or put it in the place of some bytes."""
    at = _place(data, random)
    word = random.choice([*words, random.choice(WORDS), random.choice(NUMBERS)])
    return data[:at] + word.encode("utf-8", "surrogatepass") + data[at + random.choice((0, 0, len(word))) :]


def _repeat(data: bytes, random: Random, *_: Any) -> bytes:
    start, end = _stretch(data, random)
    return data[:end] + data[start:end] * random.choice((1, 1, 2, 10, 200)) + data[end:]


def _delete(data: bytes, random: Random, *_: Any) -> bytes:
    start, end = _stretch(data, random)
    return data[:start] + data[end:]


def _truncate(data: bytes, random: Random, *_: Any) -> bytes:
    return data[: _place(data, random)]


def _splice(data: bytes, random: Random, others: Sequence[bytes], _: Sequence[str]) -> bytes:
    other = random.choice([*others, data])
    return data[: _place(data, random)] + other[_place(other, random) :]


def _swap_lines(data: bytes, random: Random, *_: Any) -> bytes:
    lines = data.split(b"\n")
    one, two = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]
    return b"\n".join(lines)


def _encode_again(data: bytes, random: Random, *_: Any) -> bytes:
    text = data.decode("utf-8", "replace")
    encoding = random.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "cp1252", "utf-32"))
    return text.encode(encoding, "replace")


def _place(data: bytes, random: Random) -> int:
    return random.randrange(len(data) + 1)


def _stretch(data: bytes, random: Random) -> tuple[int, int]:
    start = _place(data, random)
    return start, min(len(data), start + random.choice((1, 4, 16, 64, 1000)))


Mutation = Callable[[bytes, Random, Sequence[bytes], Sequence[str]], bytes]
_MUTATIONS: tuple[Mutation, ...] = (
    *(_flip, _set, _integer, _number, _number, _word, _word, _repeat, _delete, _truncate, _splice),
    *(_swap_lines, _encode_again),
)


def mutate_json(data: bytes, random: Random, words: Sequence[str]) -> bytes:
    """Return a JSON file, some of whose values are others."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return data
    for _ in range(random.choice((1, 1, 2, 3))):
        tree = _mutate_value(tree, random, words)
    return json.dumps(tree, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")


def _mutate_value(tree: Any, random: Random, words: Sequence[str]) -> Any:
    """Change one value of a tree, or the tree itself."""
    if isinstance(tree, (dict, list)) and tree and random.random() < 0.93:
        key = random.choice(list(tree)) if isinstance(tree, dict) else random.randrange(len(tree))
        way = random.random()
        if way < 0.1:
            del tree[key]
        elif way < 0.15:
            copy = deepcopy(tree[key])
            tree.update({random.choice([*words, *WORDS]): copy}) if isinstance(tree, dict) else tree.append(copy)
        else:
            tree[key] = _mutate_value(tree[key], random, words)
        return tree
    if isinstance(tree, str) and random.random() < 0.5:
        at = random.randrange(len(tree) + 1)
        return tree[:at] + random.choice([*words, *WORDS]) + tree[at:]
    return deepcopy(random.choice([*VALUES, random.choice([*words, *WORDS])]))


def mutate_tensors(data: bytes, random: Random, words: Sequence[str]) -> bytes:
    """Return a safetensors file with another header of the right length, or other tensors under a right checksum."""
    length = int.from_bytes(data[:8], "little")
    header, body = data[8 : 8 + length], data[8 + length :]
    if length > len(data):
        return data
    if random.random() < 0.5:
        body = _integer(body, random) if random.random() < 0.7 else _flip(body, random)
    else:
        header = _mutate_header(header, random, words)
    return _with_checksum(header, body)


def _mutate_header(header: bytes, random: Random, words: Sequence[str]) -> bytes:
    """Change the header, or a text of its metadata that is JSON itself."""
    try:
        tree = json.loads(header)
        inner = tree["__metadata__"]
        key = random.choice(list(inner))
        if random.random() < 0.7:
            inner[key] = mutate_json(inner[key].encode(), random, words).decode("utf-8", "replace")
            return json.dumps(tree).encode("utf-8", "replace")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass
    return mutate_json(header, random, words)


def _with_checksum(header: bytes, body: bytes) -> bytes:
    """Put a file together; the checksum of its tensors, if it has one, is made right, as an attacker would."""
    try:
        tree = json.loads(header)
        spans = {name: entry["data_offsets"] for name, entry in tree.items() if name != "__metadata__"}
        if "checksum" in tree["__metadata__"]:
            value = 0
            for name in sorted(spans):
                value = zlib.crc32(body[spans[name][0] : spans[name][1]], value)
            tree["__metadata__"]["checksum"] = f"{value:08x}"
            header = json.dumps(tree).encode()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass
    return len(header).to_bytes(8, "little") + header + body
