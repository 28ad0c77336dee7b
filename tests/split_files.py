"""Writes made-up features of a split: shards in the store, and the table."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from speechctc.config.schema import FeatureConfig
from speechctc.features.padded import Moments
from speechctc.features.shards import Entry
from speechctc.features.splits import Recipe, Row, write_table
from speechctc.features.store import Store


class Said(NamedTuple):
    """An utterance: static (n_frames, static_dims), labels as numbers."""

    id: str
    static: Tensor
    labels: tuple[int, ...] = ()
    language: str = ""


def key_of(text: str) -> str:
    return hashlib.md5(text.encode("utf-8", "surrogatepass")).hexdigest()


def entry_of(said: Said, config: FeatureConfig) -> Entry:
    return Entry(key_of(said.id), said.static, Moments.of(said.static, config), len(said.static) / 100)


def recipe_of(config: FeatureConfig, *phones: str) -> Recipe:
    return Recipe(config.model_dump(mode="json"), "found", phones)


def write_split(
    folder: Path, shards: Sequence[Sequence[Said]], recipe: Recipe, config: FeatureConfig, dtype: str = "float32"
) -> None:
    """Write utterances, by shards; `folder` ends with the name of the split."""
    store, rows = Store(folder.parent), []
    for group in shards:
        entries = [entry_of(said, config) for said in group]
        places = store.add(entries, {"features": recipe.features, "dtype": dtype}) if entries else {}
        rows += [Row(said.id, said.labels, places[key_of(said.id)], said.language) for said in group]
    write_table(folder, rows, recipe)


def random_said(name: str, frames: int, labels: tuple[int, ...], dims: int = 7) -> Said:
    return Said(name, torch.randn(frames, dims), labels)
