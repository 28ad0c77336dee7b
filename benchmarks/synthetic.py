"""Corpora of random features, written as shards without any audio: for benchmarks and proofs, in any amount."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from speechctc.config.schema import Config
from speechctc.features.filterbank import Moments
from speechctc.features.shards import Extracted, Recipe, shard_path, write_shard

PHONES = tuple(f"p{number:02d}" for number in range(1, 40))
FRAMES_PER_PHONE = 9


def write_split(folder: Path, config: Config, hours: float, lengths: tuple[int, int], seed: int) -> None:
    """Write `hours` of utterances of `lengths` frames (shortest, longest) whose labels can be learned.

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
    recipe = Recipe(config.features.model_dump(mode="json"), "found", PHONES, f"synthetic {seed}")
    shards, left, number = max(1, round(total * dims * 2 / (config.data.shard_mib * 2**20))), total, 0
    for shard in range(shards):
        made: list[Extracted] = []
        room = left // (shards - shard)
        while room >= lengths[0]:
            frames = min(int(rng.integers(lengths[0], lengths[1] + 1)), room)
            first = int(rng.integers(0, len(labels) - lengths[1] // FRAMES_PER_PHONE - 2)) * FRAMES_PER_PHONE
            numbers = labels[first // FRAMES_PER_PHONE : (first + frames) // FRAMES_PER_PHONE] + 1
            spoken = tuple(int(n) for n, before in zip(numbers, [0, *numbers[:-1]], strict=True) if n != before)
            static = stretch[first : first + frames]
            seconds = frames * config.features.shift_ms / 1000
            made.append(Extracted(f"u{number:06d}", static, spoken, whole if not number else zero, seconds))
            room, left, number = room - frames, left - frames, number + 1
        write_shard(shard_path(folder, shard, shards), made, [], recipe, getattr(torch, config.data.dtype))
