from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from speechctc.batches import Limits, Loader, Split, plan_epoch
from speechctc.config import FeatureConfig
from speechctc.features import Moments
from speechctc.shards import Extracted, Recipe, read_shard, write_shard

CONFIG = FeatureConfig(mels=4)
RNG = np.random.default_rng(3)
LENGTHS = RNG.integers(1, 90, 61)


@pytest.fixture
def split(tmp_path: Path) -> Split:
    """Sixty-one utterances over three shards; frame t of utterance u holds the values u, t, t, t, t."""
    recipe = Recipe(CONFIG.model_dump(mode="json"), "found", ("a", "b", "c"), "")
    shards = []
    for number, group in enumerate(np.array_split(np.arange(61), 3)):
        made = []
        for u in group:
            static = torch.arange(LENGTHS[u], dtype=torch.float32)[:, None].repeat(1, 5)
            static[:, 0] = float(u)
            labels = tuple(int(u + k) % 3 + 1 for k in range(u % 4))
            made.append(Extracted(f"u{u:02d}", static, labels, Moments.none(CONFIG), 1.0))
        path = tmp_path / f"{number}.safetensors"
        write_shard(path, made, [], recipe, torch.float16)
        shards.append(read_shard(path))
    return Split(shards)


def limits(batch_size: int = 7, batch_frames: int = 300, chunk_frames: int = 10**9) -> Limits:
    return Limits(batch_size, batch_frames, chunk_frames)


@pytest.mark.parametrize("chunk_frames", [10**9, 700, 1])
@pytest.mark.parametrize("seed", [None, 5])
def test_an_epoch_holds_every_utterance_once_within_the_limits(chunk_frames: int, seed: int | None) -> None:
    plans = plan_epoch(LENGTHS, np.arange(61), limits(chunk_frames=chunk_frames), seed)
    seen = Counter(int(u) for plan in plans for batch in plan.batches for u in batch)
    assert seen == Counter(range(61))
    for plan in plans:
        assert sorted(np.concatenate(plan.batches)) == sorted(plan.utterances)
        assert LENGTHS[plan.utterances].sum() <= chunk_frames or len(plan.utterances) == 1
        for batch in plan.batches:
            assert len(batch) <= 7
            assert LENGTHS[batch].max() * len(batch) <= 300 or len(batch) == 1


def test_the_batch_size_is_used() -> None:
    for size in (1, 3, 20):
        plans = plan_epoch(LENGTHS, np.arange(61), limits(size, 10**9), 1)
        assert max(len(batch) for plan in plans for batch in plan.batches) == size


def test_padding_is_small() -> None:
    lengths = np.random.default_rng(0).integers(150, 800, 600)
    (plan,) = plan_epoch(lengths, np.arange(600), limits(20, 20_000), 1)
    padded = sum(lengths[batch].max() * len(batch) for batch in plan.batches)
    assert padded / lengths.sum() < 1.05


def test_order_depends_on_the_seed_alone() -> None:
    orders = [
        [batch.tolist() for plan in plan_epoch(LENGTHS, np.arange(61), limits(), seed) for batch in plan.batches]
        for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("chunk_frames", [10**9, 700])
def test_batches_carry_their_utterances(split: Split, chunk_frames: int) -> None:
    loader = Loader(split, limits(chunk_frames=chunk_frames), torch.device("cpu"))
    for batch in loader.batches(1):
        assert batch.frames.tolist() == LENGTHS[batch.indices].tolist()
        labels = batch.labels.split(batch.label_counts.tolist())
        for row, u in enumerate(batch.indices):
            steps = torch.minimum(torch.arange(batch.static.shape[1]), torch.tensor(LENGTHS[u] - 1))
            assert torch.equal(batch.static[row, :, 1].float(), steps.float())
            assert (batch.static[row, :, 0] == u).all()
            assert labels[row].tolist() == [int(u + k) % 3 + 1 for k in range(u % 4)]


@pytest.mark.parametrize("chunk_frames", [10**9, 700])
def test_an_epoch_taken_up_again_goes_on_where_it_was(split: Split, chunk_frames: int) -> None:
    loader = Loader(split, limits(chunk_frames=chunk_frames), torch.device("cpu"))
    whole = [batch.indices.tolist() for batch in loader.batches(4)]
    for skip in (0, 1, len(whole) // 2, len(whole)):
        assert [batch.indices.tolist() for batch in loader.batches(4, skip=skip)] == whole[skip:]


def test_infeasible_names_those_too_short_for_their_phones(split: Split) -> None:
    for stride in (1, 2, 40):
        wanted = [u for u in range(61) if -(-int(LENGTHS[u]) // stride) < u % 4]
        assert split.infeasible(stride) == wanted
