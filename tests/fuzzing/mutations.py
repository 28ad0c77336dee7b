"""Strategies of broken files: valid ones with bytes, numbers, words, parts, or values of JSON changed."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from tests.fuzzing.readers import Reader
from tests.fuzzing.seeds import Files

LARGEST = 1 << 17  # bytes of a broken file
NUMBERS = tuple(
    "0 -1 1 1e308 1e999 -1e999 nan NaN inf -inf Infinity 0.5 1e-320 0x10 2147483647 2147483648 -2147483648 4294967296 "
    "9223372036854775807 18446744073709551616 -0 1_000 ٣ --1 1e5 99999999".split()
) + ("9" * 40, "9" * 4301)
WORDS = (
    *("\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\0", "\n", "\r", "\t", "\u2028", "\u202e", "\ufeff", "\ud800"),
    *("", " ", "'", '"', "a" * 3000, "ə", "a\u0303", "\U0001f600", "../..", "/etc/passwd", "null", "true", "\\"),
    *("[", "{", "]", "}", "[" * 2000, '{"a":' * 2000, "-", ":", ",", "<exists>", "!", "&a", "*a", "%", "[/bold]"),
)
PACKED = tuple(
    struct.pack(order + form, value)
    for order in "<>"
    for form, values in (
        *(
            (form, (0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))))
            for form, bits in (("h", 16), ("i", 32), ("q", 64))
        ),
        *((form, (0.0, -1.0, 1e30, float("nan"), float("inf"))) for form in "fd"),
    )
    for value in values
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.5, 1e308, float("nan"), float("inf")),
    *("", "a", "a\nb", "a\x1b[2Jb", "a\0b", "\ud800", "x" * 3000, [], {}, [[]], [{}], {"a": 1}, ["a", "a"], [None]),
    *([1, 2], [1e999], {"format": 1}, ["a"] * 300, "1", "nan"),
)
ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "cp1252", "utf-32")
_SHARES = st.floats(0, 1)  # of a file's length: where


@st.composite
def broken(draw: st.DrawFn, reader: Reader, valid: Sequence[Files]) -> Files:
    """Draw an input of which one or two files are changed."""
    files = dict(draw(st.sampled_from(valid)))
    names = [name for name in files if name not in reader.given]
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=2)) if names else ():
        files[name] = _changed(draw, name, files[name], reader.words)
    if len(names) > 1 and draw(st.integers(0, 99)) == 99:
        del files[names[-1]]
    return files


def _changed(draw: st.DrawFn, name: str, raw: bytes, words: tuple[str, ...]) -> bytes:
    if name.endswith((".json", ".jsonl", ".journal")) and draw(st.booleans()):
        return _changed_json(draw, raw, words)
    if name.endswith(".safetensors") and draw(st.booleans()):
        return _changed_tensors(draw, raw, words)
    for _ in range(draw(st.integers(1, 4))):
        raw = _changed_bytes(draw, raw, words)[:LARGEST]
    return raw


def _changed_bytes(draw: st.DrawFn, raw: bytes, words: tuple[str, ...]) -> bytes:
    """Change one place of a file."""
    at = round(draw(_SHARES) * len(raw))
    end = min(len(raw), at + draw(st.sampled_from((1, 4, 16, 64, 1000))))
    kind = draw(st.sampled_from(("byte", "packed", "number", "word", "repeat", "delete", "cut", "swap", "encode")))
    if kind == "byte":
        return raw[:at] + draw(st.binary(min_size=1, max_size=1)) + raw[at + 1 :]
    if kind == "packed":
        packed, at = draw(st.sampled_from(PACKED)), min(at, draw(st.sampled_from((at, 64))))
        return raw[:at] + packed + raw[at + len(packed) :]
    if kind == "number" and (found := list(re.finditer(rb"-?\d+(\.\d+)?", raw))):
        match = found[min(round(draw(_SHARES) * len(found)), len(found) - 1)]
        return raw[: match.start()] + draw(st.sampled_from(NUMBERS)).encode() + raw[match.end() :]
    if kind == "repeat":
        return raw[:end] + raw[at:end] * draw(st.sampled_from((1, 2, 10, 200))) + raw[end:]
    if kind in ("delete", "cut"):
        return raw[:at] + raw[end:] * (kind == "delete")
    if kind == "swap":
        lines = raw.split(b"\n")
        one, two = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        lines[one], lines[two] = lines[two], lines[one]
        return b"\n".join(lines)
    if kind == "encode":
        return raw.decode("utf-8", "replace").encode(draw(st.sampled_from(ENCODINGS)), "replace")
    word = draw(st.sampled_from((*words, *WORDS, *NUMBERS)))
    return raw[:at] + word.encode("utf-8", "surrogatepass") + raw[at + draw(st.sampled_from((0, len(word)))) :]


def _changed_json(draw: st.DrawFn, raw: bytes, words: tuple[str, ...]) -> bytes:
    """Change values of a JSON file."""
    try:
        tree = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    for _ in range(draw(st.integers(1, 3))):
        tree = _changed_value(draw, tree, words)
    return json.dumps(tree, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")


def _changed_value(draw: st.DrawFn, tree: Any, words: tuple[str, ...]) -> Any:
    """Change one value of a tree, or the tree itself."""
    if isinstance(tree, (dict, list)) and tree and draw(st.integers(0, 19)):
        key = draw(st.sampled_from(list(tree) if isinstance(tree, dict) else range(len(tree))))
        if draw(st.integers(0, 9)) == 9:
            del tree[key]
        else:
            tree[key] = _changed_value(draw, tree[key], words)
        return tree
    return deepcopy(draw(st.sampled_from((*VALUES, *words, *WORDS))))


def _changed_tensors(draw: st.DrawFn, raw: bytes, words: tuple[str, ...]) -> bytes:
    """Change the header of a safetensors file, or its tensors, under a right length and checksum."""
    length = int.from_bytes(raw[:8], "little")
    header, body = raw[8 : 8 + length], raw[8 + length :]
    if length > len(raw):
        return raw
    if draw(st.booleans()):
        body = _changed_bytes(draw, body, ())[: len(body)].ljust(len(body), b"\0")
    else:
        header = _changed_json(draw, header, words)
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
