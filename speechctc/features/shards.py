"""Shards: the features of stretches of recordings on disk, memory-mapped when read.

A shard is a safetensors file that never changes. It holds the static features of some entries one after the other, and
in its header the settings that they were made with and a checksum of its tensors. What an entry is made from is in its
key: see `features.store`.

    static          (total_frames, static_dims)  float16 or float32
    frames          (n_entries,)                 int64
    keys            (n_entries, 16)              uint8
    seconds         (n_entries,)                 float64
    moment_total, moment_square (n_entries, channels, static_dims)   float64: see `features.Moments`
"""

from __future__ import annotations

import json
import mmap
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.core.tensor_file import save_tensors
from speechctc.features.padded import Moments

FORMAT = 2
REMAKE = "run speechctc extract with this config again"
KEY_BYTES = 16
Read = TypeVar("Read")


@dataclass(frozen=True)
class Entry:
    """The features of one stretch of a recording: static (n_frames, static_dims); its key in hexadecimal digits."""

    key: str
    static: Tensor
    moments: Moments
    seconds: float


@dataclass(frozen=True)
class Shard:
    """One shard, its tensors memory-mapped; `settings` are the features' section of the config and the type."""

    path: Path
    settings: dict[str, Any]
    static: Tensor
    frames: Tensor
    keys: Tensor
    seconds: Tensor
    moment_total: Tensor
    moment_square: Tensor
    mapping: mmap.mmap

    def release(self) -> None:
        """Free the mapped pages; the next access reads them from the file again."""
        release(self.mapping)

    def entry(self, row: int) -> Entry:
        """Return an entry, its features a view of the file."""
        start, count = int(self.frames[:row].sum()), int(self.frames[row])
        moments = Moments(float(count), self.moment_total[row], self.moment_square[row])
        static = self.static[start : start + count]
        return Entry(hexadecimal(self.keys[row])[0], static, moments, float(self.seconds[row]))


def write_shard(path: Path, entries: Sequence[Entry], settings: Mapping[str, Any], dtype: torch.dtype) -> None:
    """Write entries, at least one, as one file; whole or not at all."""
    tensors = {
        "static": torch.cat([entry.static for entry in entries]).to(dtype),
        "frames": torch.tensor([len(entry.static) for entry in entries], dtype=torch.int64),
        "keys": torch.from_numpy(np.frombuffer(bytes.fromhex("".join(e.key for e in entries)), np.uint8).copy()),
        "seconds": torch.tensor([entry.seconds for entry in entries], dtype=torch.float64),
        "moment_total": torch.stack([entry.moments.total for entry in entries]),
        "moment_square": torch.stack([entry.moments.square for entry in entries]),
    }
    tensors["keys"] = tensors["keys"].reshape(len(entries), KEY_BYTES)
    write_checked(path, "shard", tensors, {"settings": json.dumps(settings, sort_keys=True)})


def read_shard(path: Path, checked: bool = False) -> Shard:
    """Open a shard and verify it.

    Parameters
    ----------
    path : Path
    checked : bool
        The checksum was verified before; do not compute it again.

    Raises
    ------
    InputError
        The file is missing, cut off, damaged, or of another format.
    """

    def assembled(header: dict[str, str], tensors: dict[str, Tensor], mapping: mmap.mmap) -> Shard:
        shard = Shard(path=path, settings=json.loads(header["settings"]), **tensors, mapping=mapping)
        _check_whole(shard)
        return shard

    shard = read_checked(path, "shard", assembled, checked)
    shard.release()
    return shard


def hexadecimal(keys: Tensor) -> list[str]:
    """Return keys, (n, 16), or one, (16,), as text."""
    text = keys.numpy().tobytes().hex()
    return [text[start : start + 2 * KEY_BYTES] for start in range(0, len(text), 2 * KEY_BYTES)]


def release(mapping: mmap.mmap) -> None:
    """Free the pages of a mapped file."""
    if sys.platform != "win32":  # which frees mapped pages by itself
        mapping.madvise(mmap.MADV_DONTNEED)


def write_checked(path: Path, kind: str, tensors: dict[str, Tensor], about: Mapping[str, str]) -> None:
    """Write tensors with a header of texts and a checksum; whole or not at all."""
    header = {"speechctc": kind, "format": str(FORMAT), "checksum": checksum(tensors), **about}
    files.write_file(path, lambda draft: save_tensors(draft, tensors, header))


def read_checked(
    path: Path,
    kind: str,
    assembled: Callable[[dict[str, str], dict[str, Tensor], mmap.mmap], Read],
    checked: bool = False,
) -> Read:
    """Map a file of `write_checked`, verify its checksum unless it is `checked`, and return what is made of it.

    Parameters
    ----------
    path : Path
    kind : str
        What the file is: a ``"shard"``, for example.
    assembled : callable
        Takes the header, the mapped tensors and the mapping. What it raises for odd contents is an `InputError`.
    checked : bool
    """
    try:
        with safe_open(files.readable(path), framework="pt") as file:
            header = file.metadata() or {}
        if header.get("speechctc") != kind or header.get("format") != str(FORMAT):
            raise InputError(f"{path}: not a {kind} of format {FORMAT}", REMAKE)
        mapping, tensors = _map(path)
        if not checked and header["checksum"] != checksum(tensors):
            raise InputError(f"{path}: damaged, its checksum does not match", REMAKE)
        return assembled(header, tensors, mapping)
    except FileNotFoundError:
        raise InputError(f"{path}: missing", REMAKE) from None
    except (OSError, SafetensorError, LookupError, ValueError, TypeError, RuntimeError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: cannot be read as a {kind} ({reason})", REMAKE) from None


def _map(path: Path) -> tuple[mmap.mmap, dict[str, Tensor]]:
    """Map a valid safetensors file: 8 bytes with the header's length, the header in JSON, then the tensors."""
    dtypes = {"F16": torch.float16, "F32": torch.float32, "F64": torch.float64, "I32": torch.int32, "I64": torch.int64}
    dtypes["U8"] = torch.uint8
    with open(path, "rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    start = 8 + int.from_bytes(mapping[:8], "little")
    tensors = {}
    for name, entry in json.loads(mapping[8:start]).items():
        if name == "__metadata__":
            continue
        (first, end), dtype = entry["data_offsets"], dtypes[entry["dtype"]]
        flat = torch.empty(0, dtype=dtype)
        if first < end:
            flat = torch.frombuffer(mapping, dtype=dtype, count=(end - first) // dtype.itemsize, offset=start + first)
        tensors[name] = flat.reshape(entry["shape"])
    return mapping, tensors


def _check_whole(shard: Shard) -> None:
    """Check that the parts of a shard agree.

    Raises
    ------
    ValueError
        The parts disagree, or a number is out of range.
    """
    count = len(shard.frames)
    if shard.frames.shape != (count,) or bool((shard.frames < 1).any()) or shard.seconds.shape != (count,):
        raise ValueError("its counts are not those of its entries")
    if shard.keys.shape != (count, KEY_BYTES) or shard.keys.dtype != torch.uint8:
        raise ValueError("its keys are not those of its entries")
    if shard.static.ndim != 2 or not shard.static.is_floating_point():
        raise ValueError("its features have another shape")
    if int(shard.frames.sum()) != len(shard.static):
        raise ValueError("its counts are not those of its features")
    if not isinstance(shard.settings, dict):
        raise ValueError("its header is not that of a shard")
    for moments in (shard.moment_total, shard.moment_square):
        if moments.ndim != 3 or (moments.shape[0], moments.shape[2]) != (count, shard.static.shape[1]):
            raise ValueError("its moments are not those of its entries")
        if moments.shape[1] != shard.moment_total.shape[1] or not bool(torch.isfinite(moments).all()):
            raise ValueError("its moments are no numbers")
    if not bool(torch.isfinite(shard.seconds).all()):
        raise ValueError("its seconds are no numbers")


def checksum(tensors: dict[str, Tensor]) -> str:
    """Return the CRC-32 of the tensors, in the order of their names."""
    value = 0
    for name in sorted(tensors):
        value = zlib.crc32(tensors[name].contiguous().flatten().view(torch.uint8).numpy().data, value)
    return f"{value:08x}"
