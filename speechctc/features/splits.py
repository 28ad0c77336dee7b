"""The utterances of a split: a table of their ids, labels and languages, and where each has its features.

The table of a split is one safetensors file beside the store, ``train.safetensors`` for example, which each extraction
writes anew. Its header has the recipe: feature config, phone set, what is taken off dev; and a name that the tables of
one extraction share.

    texts           (n_bytes,)        uint8, JSON: the ids, the languages, the names of the shards
    shard, row      (n_utterances,)   int32, the shard and the entry of it that has the features
    labels          (total_labels,)   int32, phones counted from 1 (0 is the blank)
    label_counts    (n_utterances,)   int64
    sounds          (n_utterances, 8) uint8, a hash of what is heard: content of the recording, channel and stretch
"""

from __future__ import annotations

import hashlib
import json
import mmap
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speechctc.config.schema import FeatureConfig
from speechctc.config.section import with_defaults
from speechctc.core.errors import InputError
from speechctc.features.padded import Moments
from speechctc.features.shards import REMAKE, Shard, hexadecimal, read_checked, read_shard, release, write_checked
from speechctc.phones.inventory import check_labels

STORE = "store"  # the folder of the shards, beside the tables
OTHER_FOLDER = "give data.dir=ANOTHER, or move this folder aside and extract again"
SOUND_BYTES = 8
MOMENTS_AT_ONCE = 1024  # utterances whose moments are gathered in memory
Numbers = NDArray[np.int64]
Place = tuple[str, int]  # the name of a shard, and the number of an entry in it


@dataclass(frozen=True)
class Recipe:
    """What a table is made with: the feature config, the phone set, and what is taken off the recordings of dev.

    A key that the feature config lacks has its default. `extraction` is the name that the tables of one extraction
    share.
    """

    features: dict[str, Any]
    phone_set: str
    phones: tuple[str, ...]
    dereverb: str = "never"
    extraction: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.features, dict):  # `_check_whole` refuses others
            object.__setattr__(self, "features", comparable(self.features))

    def to_json(self) -> dict[str, str]:
        """Return the recipe as strings, for the header of a safetensors file."""
        features, phones = json.dumps(self.features, sort_keys=True), json.dumps(self.phones)
        texts = {"phone_set": self.phone_set, "dereverb": self.dereverb, "extraction": self.extraction}
        return {"features": features, "phones": phones, **texts}


@dataclass(frozen=True)
class Row:
    """An utterance of a table: labels as phone numbers, the place of its features, a hash of what is heard."""

    id: str
    labels: tuple[int, ...]
    place: Place
    language: str = ""
    sound: str = "00" * SOUND_BYTES


@dataclass(frozen=True)
class Table:
    """The table of a split, as its file has it; `shard` counts in `shards`, the names of files in the store."""

    path: Path
    recipe: Recipe
    ids: tuple[str, ...]
    languages: tuple[str, ...]
    shards: tuple[str, ...]
    shard: Numbers
    row: Numbers
    labels: Tensor
    label_counts: Tensor
    sounds: Tensor
    mapping: mmap.mmap

    def count_phones(self) -> Counter[str]:
        """Return how often each phone is a label; those that are none have no count."""
        phones = self.recipe.phones
        total = torch.bincount(self.labels, minlength=1 + len(phones))
        return +Counter(dict(zip(phones, total[1:].tolist(), strict=True)))

    def label_strings(self) -> list[bytes]:
        """Return the labels of each utterance as bytes, to compare."""
        return [each.tobytes() for each in self._labels_of_each()]

    def _labels_of_each(self) -> list[NDArray[Any]]:
        return np.split(self.labels.numpy(), self.label_counts.cumsum(0)[:-1].numpy()) if self.ids else []

    def spellings(self) -> list[str]:
        """Return the labels of each utterance as text, with its language: equal in any phone set."""
        phones = self.recipe.phones
        spelt = (" ".join(phones[label - 1] for label in each.tolist()) for each in self._labels_of_each())
        return [f"{language}\t{labels}" for language, labels in zip(self.languages, spelt, strict=True)]


class SplitFeatures:
    """The table of a split with the shards that it names, which are open and verified.

    Parameters
    ----------
    table : Table
    shards : sequence of Shard
        Those of ``table.shards``.

    Attributes
    ----------
    frames : ndarray, shape = (n_utterances,)
    starts : ndarray, shape = (n_utterances,)
        The first frame of each in its shard.

    Raises
    ------
    InputError
        The table names an entry that its shard lacks.
    """

    def __init__(self, table: Table, shards: Sequence[Shard]) -> None:
        self.table, self.shards = table, shards
        sizes = np.array([len(shard.frames) for shard in shards], dtype=np.int64)
        if len(table.ids) and not (table.row < sizes[table.shard]).all():
            raise InputError(f"{table.path}: it names an entry that its shard lacks", REMAKE)
        self.frames, self.starts = np.zeros((2, len(table.ids)), dtype=np.int64)
        for number, shard in enumerate(shards):
            of_shard = table.shard == number
            frames = shard.frames.numpy()
            self.frames[of_shard] = frames[table.row[of_shard]]
            self.starts[of_shard] = (np.cumsum(frames) - frames)[table.row[of_shard]]

    @property
    def seconds(self) -> float:
        """Seconds of speech."""
        return float(sum(self._gathered("seconds", np.arange(len(self.frames)), ()).tolist()))

    def moments(self) -> Moments:
        """Return the sums over all utterances, in their order: whatever shard has them, to the bit."""
        shape = self.shards[0].moment_total.shape[1:] if self.shards else (0, 0)
        parts = [torch.zeros(shape, dtype=torch.float64)] * 2
        for first in range(0, len(self.frames), MOMENTS_AT_ONCE):
            these = np.arange(first, min(first + MOMENTS_AT_ONCE, len(self.frames)))
            for k, name in enumerate(("moment_total", "moment_square")):
                parts[k] = parts[k] + torch.from_numpy(self._gathered(name, these, shape)).sum(0)
        for shard in self.shards:
            shard.release()
        return Moments(float(self.frames.sum()), parts[0], parts[1])

    def _gathered(self, name: str, these: Numbers, shape: Sequence[int]) -> NDArray[np.float64]:
        """Return values of these utterances, out of their shards."""
        values = np.empty((len(these), *shape))
        for number in np.unique(self.table.shard[these]).tolist():
            of_shard = self.table.shard[these] == number
            values[of_shard] = getattr(self.shards[number], name).numpy()[self.table.row[these[of_shard]]]
        return values

    def keys(self) -> list[str]:
        """Return the key of each utterance's features."""
        known = [hexadecimal(shard.keys) for shard in self.shards]
        pairs = zip(self.table.shard.tolist(), self.table.row.tolist(), strict=True)
        return [known[shard][row] for shard, row in pairs]

    def marks(self) -> dict[str, str]:
        """Return by the id of each utterance hashes of what is heard, of its features, and of its labels."""
        heard = self.table.sounds.numpy().tobytes().hex()
        sounds = [heard[first : first + 2 * SOUND_BYTES] for first in range(0, len(heard), 2 * SOUND_BYTES)]
        spellings = (zlib.crc32(each.encode("utf-8", "surrogatepass")) for each in self.table.spellings())
        parts = zip(self.table.ids, sounds, self.keys(), spellings, strict=True)
        return {id: f"{sound} {key[:12]} {labels:08x}" for id, sound, key, labels in parts}

    def fingerprint(self) -> dict[str, Any]:
        """Return a checksum of features, labels and languages, with their amount."""
        digest = hashlib.sha256(json.dumps(self.table.recipe.phones).encode())
        for part in (self.table.ids, self.keys(), self.table.spellings()):
            digest.update(json.dumps(part).encode())
        return {
            "sha256": digest.hexdigest(),
            "utterances": len(self.table.ids),
            "hours": round(self.seconds / 3600, 4),
        }


def write_table(folder: Path, rows: Sequence[Row], recipe: Recipe) -> None:
    """Write the table of a split, `folder` being its file without the ending; whole or not at all."""
    names = sorted({row.place[0] for row in rows})
    numbers = {name: number for number, name in enumerate(names)}
    texts = json.dumps({"ids": [r.id for r in rows], "languages": [r.language for r in rows], "shards": names})
    tensors = {
        "texts": torch.from_numpy(np.frombuffer(texts.encode(), np.uint8).copy()),
        "shard": torch.tensor([numbers[row.place[0]] for row in rows], dtype=torch.int32),
        "row": torch.tensor([row.place[1] for row in rows], dtype=torch.int32),
        "labels": torch.tensor([label for row in rows for label in row.labels], dtype=torch.int32),
        "label_counts": torch.tensor([len(row.labels) for row in rows], dtype=torch.int64),
    }
    sounds = np.frombuffer(bytes.fromhex("".join(row.sound for row in rows)), np.uint8).copy()
    tensors["sounds"] = torch.from_numpy(sounds).reshape(len(rows), SOUND_BYTES)
    write_checked(table_path(folder), "split", tensors, recipe.to_json())


def table_path(folder: Path) -> Path:
    """Return the file of a split's table: ``train.safetensors`` for the folder of features and ``train``."""
    return folder.with_name(f"{folder.name}.safetensors")


def read_table(folder: Path) -> Table:
    """Read the table of a split.

    Raises
    ------
    InputError
        It is not there, or damaged; or there are features of an earlier layout.
    """
    path = table_path(folder)
    refuse_earlier(folder)
    if not path.exists():
        raise InputError(f"{folder}: no features there", "run speechctc extract with this config first")
    return read_checked(path, "split", partial(_assemble, path))


def refuse_earlier(folder: Path) -> None:
    """Raise an `InputError` if a split has shards of the layout in which they held the labels."""
    if not table_path(folder).exists() and (found := next(folder.glob("*-of-*.safetensors"), None)):
        raise InputError(f"{found}: features of an earlier layout, which are not read", OTHER_FOLDER)


def read_split(folder: Path, features: dict[str, Any], checked: bool = False) -> SplitFeatures:
    """Read the table of a split, and open and verify its shards.

    Parameters
    ----------
    folder : Path
        The folder of features, and the name of the split.
    features : dict
        The section of the config.
    checked : bool
        The shards were verified before.

    Raises
    ------
    InputError
        There are no features, a file is missing or damaged, or they were made with other settings.
    """
    table = read_table(folder)
    check_features(table, features)
    paths = [folder.parent / STORE / f"{name}.safetensors" for name in table.shards]
    with ThreadPoolExecutor(2) as readers:  # the checksums of a large corpus take seconds
        return SplitFeatures(table, list(readers.map(partial(read_shard, checked=checked), paths)))


def check_features(table: Table, features: dict[str, Any]) -> None:
    """Raise an `InputError` that names the differing keys if the table is of another feature config."""
    made, features = table.recipe.features, comparable(features)
    differing = sorted(key for key in {*made, *features} if made.get(key) != features.get(key))
    if differing == ["encoder"] and isinstance(made["encoder"], dict):
        keys, both = list(made["encoder"]), (made, features)
        made, features = ({f"encoder.{key}": each["encoder"][key] for key in keys} for each in both)
        differing = sorted(key for key in made if made[key] != features[key])
    if differing:
        changes = ", ".join(f"features.{key}={made.get(key)} (now {features.get(key)})" for key in differing)
        fix = "extract with this config, which keeps the other features too; or give the data.dir that it had"
        raise InputError(f"{table.path}: made with another config: {changes}", fix)


def comparable(features: Mapping[str, Any]) -> dict[str, Any]:
    """Return all keys of a feature config but the folder of its encoder, which is known by its content."""
    filled = with_defaults(FeatureConfig, dict(features))
    inner = filled["encoder"]
    return {**filled, "encoder": {**inner, "folder": None} if isinstance(inner, dict) else inner}


def _assemble(path: Path, header: dict[str, str], tensors: dict[str, Tensor], mapping: mmap.mmap) -> Table:
    texts = json.loads(tensors["texts"].numpy().tobytes())
    recipe = Recipe(
        json.loads(header["features"]),
        header["phone_set"],
        tuple(json.loads(header["phones"])),
        header["dereverb"],
        header["extraction"],
    )
    ids, languages, shards = (tuple(texts[name]) for name in ("ids", "languages", "shards"))
    shard, row = (tensors[name].numpy().astype(np.int64) for name in ("shard", "row"))
    labels, counts, sounds = tensors["labels"], tensors["label_counts"].clone(), tensors["sounds"].clone()
    table = Table(path, recipe, ids, languages, shards, shard, row, labels, counts, sounds, mapping)
    _check_whole(table)
    release(mapping)
    return table


def _check_whole(table: Table) -> None:
    """Check that the parts of a table agree.

    Raises
    ------
    ValueError
        The parts disagree, or a number is out of range.
    """
    check_labels(table.recipe.phones)
    count = (len(table.ids),)
    if any(part.shape != count for part in (table.label_counts, table.shard, table.row)):
        raise ValueError("its counts are not those of its utterances")
    if len(table.languages) != len(table.ids) or bool((table.label_counts < 0).any()) or table.labels.ndim != 1:
        raise ValueError("its counts are not those of its utterances")
    if table.sounds.shape != (*count, SOUND_BYTES) or table.sounds.dtype != torch.uint8:
        raise ValueError("its sounds are not those of its utterances")
    if int(table.label_counts.sum()) != len(table.labels):
        raise ValueError("its counts are not those of its labels")
    if len(table.labels) and not 1 <= int(table.labels.min()) <= int(table.labels.max()) <= len(table.recipe.phones):
        raise ValueError("a label is not of its phone set")
    if len(table.ids) and not (
        0 <= table.shard.min() and table.shard.max() < len(table.shards) and table.row.min() >= 0
    ):
        raise ValueError("it names a shard that it does not have")
    texts: Iterable[Any] = (*table.ids, *table.languages, *table.shards, *table.recipe.to_json().values())
    if not all(isinstance(text, str) for text in texts) or not isinstance(table.recipe.features, dict):
        raise ValueError("its header is not that of a split")
    if any(not name.isalnum() for name in table.shards):
        raise ValueError("it names a shard outside the store")
