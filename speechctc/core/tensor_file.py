"""Writes safetensors files: equal tensors give equal bytes; a full disk is an `OSError`. Reads weights and shapes.

The header has a checksum of the tensors, so that bytes that changed on the disk are noticed. A description beside such
files, in JSON, has one of each, so that parts of two saves are noticed.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from speechctc.core.errors import InputError
from speechctc.core.files import readable

Arrays = dict[str, NDArray[Any]]

HALF = float(np.finfo(np.float16).max)
CHECKSUM = "crc32"  # its name in the header; files of other programs have none
CHECKSUMS = "checksums"  # the key of a description under which they are by the name of a file
SCALE = "_scale"  # ends the name of the factors, one for each row, of a matrix of 8 bits


def save_tensors(path: Path, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors to a file, with a checksum: arrays, or those of torch on any device.

    Raises
    ------
    OSError
        From the disk.
    """
    try:
        on_host = {name: each.cpu() if hasattr(each, "cpu") else each for name, each in tensors.items()}
        arrays = {name: np.asarray(each, order="C") for name, each in on_host.items()}
        save_file(arrays, path, metadata={CHECKSUM: checksum(arrays), **(metadata or {})})
    except SafetensorError as error:
        if (number := re.search(r"os error (\d+)", str(error))) is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None
    _sort_header(path)


def load_arrays(path: Path, most: int | None = None) -> Arrays:
    """Return the tensors of a file.

    Raises
    ------
    OSError, SafetensorError
        The file cannot be read, or has more than `most` bytes.
    ValueError
        A tensor is of a type that numpy lacks, or the checksum is not that of the tensors.
    """
    try:
        arrays = load_file(readable(path, most))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"a type of number that is not read: {error}") from None
    if stated_checksum(path) not in (None, checksum(arrays)):
        raise ValueError(f"{path.name}: its checksum does not match")
    return arrays


def stated_checksum(path: Path) -> str | None:
    """Return the checksum that a file states of its tensors; None of those of other programs.

    Raises
    ------
    OSError, SafetensorError
        The file cannot be read.
    """
    with safe_open(readable(path), framework="np") as file:
        return (file.metadata() or {}).get(CHECKSUM)


def checksum(arrays: Arrays) -> str:
    """Return the CRC-32 of the names and values of arrays, in the order of their names."""
    value = 0
    for name in sorted(arrays):
        value = zlib.crc32(name.encode(), value)
        value = zlib.crc32(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data, value)
    return f"{value:08x}"


def write_description(path: Path, about: Mapping[str, Any], beside: Iterable[str]) -> None:
    """Write plain values as JSON, with checksums of themselves and of the files of tensors `beside` that are there.

    The folder is one that no one reads yet: the file is not flushed.
    """
    plain = json.loads(json.dumps({key: value for key, value in about.items() if key != CHECKSUMS}))
    there = [each for each in map(path.with_name, beside) if each.exists()]
    checksums = {path.name: _checksum_of(plain)} | {each.name: stated_checksum(each) for each in there}
    text = json.dumps(plain | {CHECKSUMS: checksums}, indent=1, ensure_ascii=False) + "\n"
    path.write_bytes(text.encode("utf-8", "backslashreplace"))


def check_description(path: Path, about: Mapping[str, Any], beside: Iterable[str] = ()) -> None:
    """Check that what was read of a description, and files beside it, are as they were saved, together.

    Nothing is known of a description without checksums, as by another program.

    Raises
    ------
    ValueError
        One is damaged, missing, or of another save.
    """
    if (stated := about.get(CHECKSUMS)) is None:
        return
    own = _checksum_of({key: value for key, value in about.items() if key != CHECKSUMS})
    if not isinstance(stated, dict) or stated.get(path.name) != own:
        raise ValueError(f"{path.name}: its checksum does not match; who changes it by hand takes out {CHECKSUMS!r}")
    for each in map(path.with_name, beside):
        if (stated_checksum(each) if each.exists() else None) != stated.get(each.name):
            what = f"of another save than {path.name}" if each.exists() else "missing"
            raise ValueError(f"{each.name} is {what}: copy the folder again if it was trained meanwhile")


def _checksum_of(plain: Mapping[str, Any]) -> str:
    """Return the CRC-32 of plain values, whatever their order in the file."""
    return f"{zlib.crc32(json.dumps(plain, sort_keys=True).encode()):08x}"


def rounded(tensors: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return weights for a small file: matrices in 8 bits, with a factor for each row, vectors in half precision.

    A row has what one output is computed from. Its largest weight becomes 127 or -127.

    Raises
    ------
    InputError
        A weight is beyond half precision, or not finite.
    """
    small: Arrays = {}
    for name, value in tensors.items():
        if value.dtype.kind != "f":
            small[name] = value
            continue
        if not np.abs(value).max(initial=0) <= HALF:
            raise InputError(f"{name}: a weight is beyond half precision ({HALF:g}), or NaN", "train the model again")
        if value.ndim > 1:
            scale = np.abs(value).max(axis=tuple(range(1, value.ndim)), initial=0).astype(np.float32) / 127
            small[name + SCALE] = scale
            small[name] = np.rint(value / _by_row(np.where(scale > 0, scale, 1), value)).astype(np.int8)
        else:
            small[name] = value.astype(np.float16)
    return small


def packed(tensors: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return weights as small as keeps them to the bit, for `unpacked`: those that were `rounded` before, as then."""
    small: Arrays = {}
    for name, value in tensors.items():
        try:
            one = rounded({name: value})
        except InputError:  # beyond half precision
            one = {}
        is_same = bool(one) and np.array_equal(_wide(one)[name], value) and value.dtype == np.float32
        small |= one if is_same else {name: value}
    return small


def unpacked(arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Undo `packed`."""
    return _wide({name: each.astype(np.float32) if each.dtype == np.float16 else each for name, each in arrays.items()})


def _wide(arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return matrices of 8 bits, of which each has its factors, as float32.

    Raises
    ------
    ValueError
        A matrix has no factors for its rows.
    """
    wide = dict(arrays)
    for name in [name for name, each in arrays.items() if each.dtype == np.int8]:
        factors = wide.pop(name + SCALE, np.zeros(0))
        if factors.dtype != np.float32 or factors.shape != wide[name].shape[:1] or not (factors >= 0).all():
            raise ValueError(f"{name} has no factors of its rows")
        with np.errstate(over="ignore", invalid="ignore"):  # who reads weights looks whether they are finite
            wide[name] = wide[name] * _by_row(factors, wide[name])
    return wide


def load_weights(path: Path, most: int | None = None) -> Arrays:
    """Return the tensors of a file as float32, all finite, those that were `rounded` too.

    Raises
    ------
    OSError, SafetensorError
        The file cannot be read, or has more than `most` bytes.
    ValueError
        A weight is infinite or NaN, or a matrix of 8 bits has no factors for its rows.
    """
    arrays = _wide(load_arrays(path, most))
    tensors = {name: each.astype(np.float32, copy=False) for name, each in arrays.items()}
    if not all(bool(np.isfinite(tensor).all()) for tensor in tensors.values()):
        raise ValueError("a weight is infinite or NaN")
    return tensors


def shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a file's weights, without reading these.

    Raises
    ------
    OSError, SafetensorError
        The file cannot be read.
    """
    with safe_open(readable(path), framework="np") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}
        factors = {name + SCALE for name, each in slices.items() if each.get_dtype() == "I8"}
        return {name: tuple(each.get_shape()) for name, each in slices.items() if name not in factors}


def _by_row(factors: NDArray[np.float32], matrix: NDArray[Any]) -> NDArray[np.float32]:
    """Return factors of rows so that they multiply a matrix or, of a convolution, an array."""
    return factors.reshape(len(matrix), *[1] * (matrix.ndim - 1))


def _sort_header(path: Path) -> None:
    """Sort the header, because safetensors writes the metadata in a different order each time."""
    with open(path, "r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        entries = json.loads(file.read(length))
        header = json.dumps(entries, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        if len(header) <= length:
            file.seek(8)
            file.write(header.ljust(length))
