"""A strategy of broken files: valid ones in which bytes, words, values of JSON or tensors are others."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

Files = dict[str, bytes]
"""An input: the contents of files, by their names; a name may have folders in it."""

LARGEST = 1 << 17  # bytes of a broken file
NUMBERS = (
    *"0 -1 1e308 1e999 nan -inf 1e-320 0x10 2147483648 18446744073709551616 1_000 ٣ --1 99999999".split(),
    "9" * 4301,
)
WORDS = (
    *("\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\0", "\n", "\r", "\t", "\u2028", "\u202e", "\ufeff", "\ud800"),
    *("", " ", "'", '"', "a" * 3000, "ə", "a\u0303", "\U0001f600", "../..", "/etc/passwd", "null", "\\", "[/bold]"),
    *(
        "[" * 2000,
        '{"a":' * 2000,
        "<exists>",
        "!!python/object:os.system",
        "<!DOCTYPE",
        "base: c.yaml",
        "&a",
        "*a",
        "%",
    ),
)
WORD = st.sampled_from(NUMBERS + WORDS)
PACKED = st.builds(
    struct.pack, st.sampled_from(["<i", ">i", "<q", ">q"]), st.sampled_from([0, 1, -1, 1 << 30, 1 - (1 << 31)])
)
FLOATS = st.builds(
    struct.pack, st.sampled_from(["<f", ">f", "<d"]), st.sampled_from([-1.0, 1e30, float("nan"), float("inf")])
)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([2**63, 10**400]) | st.floats() | st.text() | WORD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "format"]), inner, max_size=2),
    max_leaves=4,
)
ENCODING = st.sampled_from(("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "cp1252", "utf-32"))


@st.composite
def broken(draw: st.DrawFn, valid: Sequence[Files]) -> Files:
    """Draw an input of which one or two files are changed; a recording beside others stays as it is."""
    files = dict(draw(st.sampled_from(valid)))
    names = [name for name in files if len(files) == 1 or not name.endswith("a.wav")]
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)):
        files[name] = _changed(draw, name, files[name])
    if len(names) > 1 and draw(st.integers(0, 99)) == 99:
        del files[names[-1]]
    return files


def _changed(draw: st.DrawFn, name: str, raw: bytes) -> bytes:
    if draw(st.booleans()):
        if name.endswith(".safetensors"):
            return _changed_tensors(draw, raw)
        if name.endswith((".json", ".jsonl", ".journal")):
            lines = [raw] if name.endswith(".json") else raw.splitlines()
            at = draw(st.integers(0, len(lines) - 1))
            return b"\n".join((*lines[:at], _changed_json(draw, lines[at]), *lines[at + 1 :]))
    for _ in range(draw(st.integers(1, 4))):
        raw = _changed_bytes(draw, raw)[:LARGEST]
    return raw


def _changed_bytes(draw: st.DrawFn, raw: bytes) -> bytes:
    """Change one place of a file: a number, a word or any bytes become others, or the whole is encoded anew."""
    at = round(draw(st.floats(0, 1)) * len(raw))
    token = re.compile(rb"-?\d+(\.\d+)?|\w+|[^\w\s]+|\s+").search(raw, at)
    if token and draw(st.booleans()):
        at, end = token.span()
    else:
        end = at + draw(st.sampled_from((0, 1, 4, 16, 64, 1000, len(raw))))
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return raw.decode("utf-8", "replace").encode(draw(ENCODING), "replace")
    if kind == 1:
        return raw[:end] + raw[at:end] * draw(st.sampled_from((1, 2, 200))) + raw[end:]
    if kind == 2:
        return raw[:at] + draw(st.sampled_from(raw.split() or [b""])) + raw[end:]
    new = draw(st.binary(max_size=4) | PACKED | FLOATS | WORD.map(lambda word: word.encode("utf-8", "surrogatepass")))
    return raw[:at] + new + raw[end:]


def _changed_json(draw: st.DrawFn, raw: bytes) -> bytes:
    tree = json.loads(raw)
    for _ in range(draw(st.integers(1, 3))):
        tree = _changed_value(draw, tree)
    return json.dumps(tree, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")


def _changed_value(draw: st.DrawFn, tree: Any) -> Any:
    """Change one value of a tree, or the tree itself."""
    if isinstance(tree, dict | list) and tree and draw(st.integers(0, 19)):
        key = draw(st.sampled_from(list(tree) if isinstance(tree, dict) else range(len(tree))))
        if draw(st.integers(0, 9)) == 9:
            del tree[key]
        else:
            tree[key] = _changed_value(draw, tree[key])
        return tree
    return draw(VALUE)


def _changed_tensors(draw: st.DrawFn, raw: bytes) -> bytes:
    """Change the header of a safetensors file, or its tensors, under a right length and checksum."""
    length = int.from_bytes(raw[:8], "little")
    header, body = raw[8 : 8 + length], raw[8 + length :]
    if draw(st.booleans()):
        header = _changed_json(draw, header)
    else:
        tree = json.loads(header)
        body = _changed_bytes(draw, body)[: len(body)].ljust(len(body), b"\0")
        if "checksum" in (about := tree.get("__metadata__", {})):
            places = [tree[name]["data_offsets"] for name in sorted(tree.keys() - {"__metadata__"})]
            about["checksum"] = f"{zlib.crc32(b''.join(body[first:end] for first, end in places)):08x}"
            header = json.dumps(tree).encode()
    return len(header).to_bytes(8, "little") + header + body
