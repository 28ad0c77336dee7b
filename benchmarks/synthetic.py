"""Corpora of random features, written into a store without any audio: for benchmarks and proofs, in any amount."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch

from speechctc.config.schema import Config
from speechctc.features.padded import Moments
from speechctc.features.shards import KEY_BYTES, Entry
from speechctc.features.splits import Recipe, Row, write_table
from speechctc.features.store import Store, settings_of

PHONES = tuple(f"p{number:02d}" for number in range(1, 40))
FRAMES_PER_PHONE = 9


def write_split(folder: Path, config: Config, hours: float, lengths: tuple[int, int], seed: int) -> None:
    """Write `hours` of utterances of `lengths` frames (shortest, longest) whose labels can be learned.

    `folder` ends with the name of the split; the store is beside it.

    A phone's frames are its own random vector plus noise. Utterances are cut from one long stretch, so that a hundred
    hours take seconds to make.
    """
    rng = np.random.default_rng(seed)
    dims = config.features.static_dims
    means = np.random.default_rng(0).normal(0, 1, (len(PHONES), dims)).astype(np.float32)
    total = round(hours * 3600 * 1000 / config.features.shift_ms)
    labels = rng.integers(0, len(PHONES), size=200_000 // FRAMES_PER_PHONE)
    stretch = torch.from_numpy(np.repeat(means[labels], FRAMES_PER_PHONE, axis=0))
    stretch += 0.5 * torch.randn(stretch.shape, generator=torch.Generator().manual_seed(seed))
    zero = Moments.zero(config.features)
    whole = Moments.of(stretch[:2000], config.features)
    recipe = Recipe(config.features.model_dump(mode="json"), "found", PHONES, config.decode.dereverb)
    store, rows, settings = Store(folder.parent), list[Row](), settings_of(recipe.features, config.data.dtype, None)
    shards, left, number = max(1, round(total * dims * 2 / (config.data.shard_mib * 2**20))), total, 0
    for shard in range(shards):
        made: list[Entry] = []
        said: list[tuple[int, ...]] = []
        room = left // (shards - shard)
        while room >= lengths[0]:
            frames = min(int(rng.integers(lengths[0], lengths[1] + 1)), room)
            first = int(rng.integers(0, len(labels) - lengths[1] // FRAMES_PER_PHONE - 2)) * FRAMES_PER_PHONE
            numbers = labels[first // FRAMES_PER_PHONE : (first + frames) // FRAMES_PER_PHONE] + 1
            spoken = tuple(int(n) for n, before in zip(numbers, [0, *numbers[:-1]], strict=True) if n != before)
            static = stretch[first : first + frames]
            seconds = frames * config.features.shift_ms / 1000
            key = hashlib.sha256(f"{folder.name} {seed} {number}".encode()).hexdigest()[: 2 * KEY_BYTES]
            made.append(Entry(key, static, whole if not number else zero, seconds))
            said.append(spoken)
            room, left, number = room - frames, left - frames, number + 1
        places = store.add(made, settings)
        rows += [
            Row(f"u{len(rows) + k:06d}", spoken, places[entry.key])
            for k, (entry, spoken) in enumerate(zip(made, said, strict=True))
        ]
    write_table(folder, rows, recipe)
