"""Shards: the features and labels of utterances on disk, memory-mapped when read.

A shard is a safetensors file. It holds the static features of some utterances one after the other, their labels, and
in its header the recipe (feature config, phone set, hash of the sources) and a checksum of its tensors.

    static          (total_frames, static_dims)  float16 or float32
    frames          (n_utterances,)              int64
    labels          (total_labels,)              int32, phones counted from 1 (0 is the blank)
    label_counts    (n_utterances,)              int64
    moment_total, moment_square (channels, static_dims), moment_count (1,)   float64: see `features.Moments`
"""

from __future__ import annotations

import json
import mmap
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from speechctc.config.schema import FeatureConfig
from speechctc.config.section import with_defaults
from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.core.tensor_file import save_tensors
from speechctc.features.filterbank import Moments
from speechctc.phones.inventory import check_labels

FORMAT = 1
REMAKE = "run speechctc extract with this config again"
OTHER_FOLDER = "give data.dir=ANOTHER, or move this folder aside and extract again"


@dataclass(frozen=True)
class Extracted:
    """The features and labels of one utterance: static (n_frames, static_dims), labels as phone numbers."""

    id: str
    static: Tensor
    labels: tuple[int, ...]
    moments: Moments
    seconds: float


@dataclass(frozen=True)
class Recipe:
    """What a shard is made from: the feature config, the phone set, and a hash of the recordings and labels.

    A key that the feature config lacks has its default.
    """

    features: dict[str, Any]
    phone_set: str
    phones: tuple[str, ...]
    sources: str

    def __post_init__(self) -> None:
        if isinstance(self.features, dict):  # `_check_whole` refuses others
            object.__setattr__(self, "features", _comparable(self.features))

    def to_json(self) -> dict[str, str]:
        """Return the recipe as strings, for the header of a safetensors file."""
        features, phones = json.dumps(self.features, sort_keys=True), json.dumps(self.phones)
        return {"features": features, "phone_set": self.phone_set, "phones": phones, "sources": self.sources}


@dataclass(frozen=True)
class Shard:
    """One shard, its tensors memory-mapped."""

    path: Path
    recipe: Recipe
    ids: tuple[str, ...]
    static: Tensor
    frames: Tensor
    labels: Tensor
    label_counts: Tensor
    moments: Moments
    seconds: float
    skipped: tuple[tuple[str, str], ...]
    checksum: str
    mapping: mmap.mmap

    def release(self) -> None:
        """Free the mapped pages; the next access reads them from the file again."""
        if sys.platform != "win32":  # which frees mapped pages by itself
            self.mapping.madvise(mmap.MADV_DONTNEED)


def write_shard(
    path: Path, utterances: Sequence[Extracted], skipped: Sequence[tuple[str, str]], recipe: Recipe, dtype: torch.dtype
) -> None:
    """Write utterances, and the ids and reasons of the skipped ones, as one file; whole or not at all."""
    dims = FeatureConfig(**recipe.features).static_dims
    moments = [utterance.moments for utterance in utterances]
    empty = torch.zeros(0, dims)
    tensors = {
        "static": torch.cat([empty, *(utterance.static for utterance in utterances)]).to(dtype),
        "frames": torch.tensor([u.static.shape[0] for u in utterances], dtype=torch.int64),
        "labels": torch.tensor([label for u in utterances for label in u.labels], dtype=torch.int32),
        "label_counts": torch.tensor([len(u.labels) for u in utterances], dtype=torch.int64),
    }
    if moments:
        whole = sum(moments[1:], start=moments[0])
        tensors["moment_total"], tensors["moment_square"] = whole.total, whole.square
        tensors["moment_count"] = torch.tensor([whole.count], dtype=torch.float64)
    header = {
        "speechctc": "shard",
        "format": str(FORMAT),
        "ids": json.dumps([u.id for u in utterances]),
        "seconds": str(sum(u.seconds for u in utterances)),
        "skipped": json.dumps(list(skipped)),
        "checksum": checksum(tensors),
        **recipe.to_json(),
    }
    files.write_file(path, lambda draft: save_tensors(draft, tensors, header))


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
    try:
        with safe_open(files.readable(path), framework="pt") as file:
            header = file.metadata() or {}
        if header.get("speechctc") != "shard" or header.get("format") != str(FORMAT):
            raise InputError(f"{path}: not a shard of format {FORMAT}", REMAKE)
        mapping, tensors = _map(path)
        if not checked and header["checksum"] != checksum(tensors):
            raise InputError(f"{path}: damaged, its checksum does not match", REMAKE)
        shard = _assemble(path, header, tensors, mapping)
        _check_whole(shard)
    except (OSError, SafetensorError, LookupError, ValueError, TypeError, RuntimeError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: cannot be read as a shard ({reason})", REMAKE) from None
    shard.release()
    return shard


def _map(path: Path) -> tuple[mmap.mmap, dict[str, Tensor]]:
    """Map a valid safetensors file: 8 bytes with the header's length, the header in JSON, then the tensors."""
    dtypes = {"F16": torch.float16, "F32": torch.float32, "F64": torch.float64, "I32": torch.int32, "I64": torch.int64}
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


def check_features(shard: Shard, features: dict[str, Any]) -> None:
    """Raise an `InputError` that names the differing keys if the shard was made with another feature config."""
    made, features = shard.recipe.features, _comparable(features)
    differing = sorted(key for key in {*made, *features} if made.get(key) != features.get(key))
    if differing == ["encoder"] and isinstance(made["encoder"], dict):
        keys, both = list(made["encoder"]), (made, features)
        made, features = ({f"encoder.{key}": each["encoder"][key] for key in keys} for each in both)
        differing = sorted(key for key in made if made[key] != features[key])
    if differing:
        changes = ", ".join(f"features.{key}={made.get(key)} (now {features.get(key)})" for key in differing)
        raise InputError(f"{shard.path}: made with another config: {changes}", OTHER_FOLDER)


def _comparable(features: dict[str, Any]) -> dict[str, Any]:
    """Return all keys of a feature config but the folder of its encoder, which is known by its content."""
    filled = with_defaults(FeatureConfig, features)
    inner = filled["encoder"]
    return {**filled, "encoder": {**inner, "folder": None} if isinstance(inner, dict) else inner}


def read_split(folder: Path, features: dict[str, Any]) -> list[Shard]:
    """Open every shard of a split, in order.

    Raises
    ------
    InputError
        There are no shards, one of the numbered sequence is missing or damaged, or they were made with different
        features or phone sets.
    """
    paths = sorted(folder.glob("*-of-*.safetensors"))
    if not paths:
        raise InputError(f"{folder}: no features there", "run speechctc extract with this config first")
    total = int(paths[0].stem.rpartition("-of-")[2])
    paths = [shard_path(folder, number, total) for number in range(total)]
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path}: missing", REMAKE)
    with ThreadPoolExecutor(2) as readers:  # the checksums of a large corpus take seconds
        shards = list(readers.map(read_shard, paths))
    for shard in shards:
        check_features(shard, features)
        if shard.recipe.phones != shards[0].recipe.phones:
            raise InputError(f"{shard.path}: made with another phone set than {shards[0].path.name}", REMAKE)
    return shards


def count_phones(shards: Iterable[Shard], phones: Sequence[str]) -> Counter[str]:
    """Return how often each phone is a label of these shards; those that are none have no count."""
    total = torch.zeros(1 + len(phones), dtype=torch.int64)
    for shard in shards:
        total += torch.bincount(shard.labels, minlength=len(total))
        shard.release()
    return +Counter(dict(zip(phones, total[1:].tolist(), strict=True)))


def label_strings(shards: Iterable[Shard]) -> list[bytes]:
    """Return the labels of each utterance as bytes, to compare."""
    pieces = (np.split(shard.labels.numpy(), shard.label_counts.cumsum(0)[:-1]) for shard in shards if shard.ids)
    return [labels.tobytes() for each in pieces for labels in each]


def shard_path(folder: Path, number: int, total: int) -> Path:
    """Return the file of shard `number` (from 0) of `total`."""
    return folder / f"{number:05d}-of-{total:05d}.safetensors"


def _assemble(path: Path, header: dict[str, str], tensors: dict[str, Tensor], mapping: mmap.mmap) -> Shard:
    features = json.loads(header["features"])
    if "moment_count" in tensors:
        count = float(tensors["moment_count"])
        moments = Moments(count, tensors["moment_total"].clone(), tensors["moment_square"].clone())
    else:  # every utterance was skipped
        zero = torch.zeros(1 + features["deltas"], tensors["static"].shape[1], dtype=torch.float64)
        moments = Moments(0.0, zero, zero)
    recipe = Recipe(features, header["phone_set"], tuple(json.loads(header["phones"])), header["sources"])
    return Shard(
        path=path,
        recipe=recipe,
        ids=tuple(json.loads(header["ids"])),
        **{name: tensors[name] for name in ("static", "frames", "labels", "label_counts")},
        moments=moments,
        seconds=float(header["seconds"]),
        skipped=tuple((id, reason) for id, reason in json.loads(header["skipped"])),
        checksum=header["checksum"],
        mapping=mapping,
    )


def _check_whole(shard: Shard) -> None:
    """Check that the parts of a shard agree.

    Raises
    ------
    ValueError
        The parts disagree, or a number is out of range.
    """
    check_labels(shard.recipe.phones)
    counts = (shard.frames, 1), (shard.label_counts, 0)
    if any(part.shape != (len(shard.ids),) or bool((part < least).any()) for part, least in counts):
        raise ValueError("its counts are not those of its utterances")
    if shard.static.ndim != 2 or not shard.static.is_floating_point() or shard.labels.ndim != 1:
        raise ValueError("its features or labels have another shape")
    if (int(shard.frames.sum()), int(shard.label_counts.sum())) != (len(shard.static), len(shard.labels)):
        raise ValueError("its counts are not those of its features and labels")
    if len(shard.labels) and not 1 <= int(shard.labels.min()) <= int(shard.labels.max()) <= len(shard.recipe.phones):
        raise ValueError("a label is not of its phone set")
    texts = (*shard.ids, shard.recipe.phone_set, shard.recipe.sources)
    well_formed = all(isinstance(text, str) for text in texts) and isinstance(shard.recipe.features, dict)
    if not well_formed or not isfinite(shard.seconds):
        raise ValueError("its header is not that of a shard")
    if not bool(torch.isfinite(shard.moments.total).all() and torch.isfinite(shard.moments.square).all()):
        raise ValueError("its moments are no numbers")


def checksum(tensors: dict[str, Tensor]) -> str:
    """Return the CRC-32 of the tensors, in the order of their names."""
    value = 0
    for name in sorted(tensors):
        value = zlib.crc32(tensors[name].contiguous().flatten().view(torch.uint8).numpy().data, value)
    return f"{value:08x}"
