import itertools
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from speechctc.config.schema import FeatureConfig
from speechctc.core.errors import InputError
from speechctc.features.splits import read_split
from speechctc.training.batches import Batch, Loader, Split
from speechctc.training.epoch_plan import Indices, Limits
from tests.split_files import Said, recipe_of, write_split

CONFIG = FeatureConfig(mels=4)
RNG = np.random.default_rng(3)
LENGTHS = RNG.integers(1, 90, 61)


@pytest.fixture
def split(tmp_path: Path) -> Split:
    """Sixty-one utterances over three shards; frame t of utterance u holds the values u, t, t, t, t."""
    made = []
    for u in range(61):
        static = torch.arange(LENGTHS[u], dtype=torch.float32)[:, None].repeat(1, 5)
        static[:, 0] = float(u)
        made.append(Said(f"u{u:02d}", static, tuple(int(u + k) % 3 + 1 for k in range(u % 4))))
    return write_and_read(tmp_path, [made[:21], made[21:41], made[41:]])


def write_and_read(folder: Path, shards: list[list[Said]]) -> Split:
    recipe = recipe_of(CONFIG, "a", "b", "c")
    write_split(folder / "train", shards, recipe, CONFIG, "float16")
    return Split(read_split(folder / "train", recipe.features))


def limits(batch_size: int = 7, batch_frames: int = 300, chunk_frames: int = 10**9) -> Limits:
    return Limits(batch_size, batch_frames, chunk_frames)


def take(loader: Loader, seed: int, skip: int = 0) -> list[Batch]:
    return [batch for batch in loader.batches(loader.plan(seed), skip=skip) if batch is not None]


@pytest.mark.parametrize("chunk_frames", [10**9, 700])
def test_batches_carry_their_utterances(split: Split, chunk_frames: int) -> None:
    loader = Loader(split, limits(chunk_frames=chunk_frames), torch.device("cpu"))
    batches = take(loader, 1)
    assert sorted(int(u) for batch in batches for u in batch.indices) == list(range(61))
    for batch in batches:
        assert batch.frames.tolist() == LENGTHS[batch.indices].tolist() == batch.lengths.tolist()
        assert batch.counts.tolist() == batch.label_counts.tolist()
        for row, u in enumerate(batch.indices):
            steps = torch.minimum(torch.arange(batch.static.shape[1]), torch.tensor(LENGTHS[u] - 1))
            assert torch.equal(batch.static[row, :, 1].float(), steps.float())
            assert (batch.static[row, :, 0] == u).all()
            assert batch.labels[row, : batch.counts[row]].tolist() == [int(u + k) % 3 + 1 for k in range(u % 4)]


@pytest.mark.parametrize("chunk_frames", [10**9, 700])
def test_an_epoch_taken_up_again_goes_on_where_it_was(split: Split, chunk_frames: int) -> None:
    loader = Loader(split, limits(chunk_frames=chunk_frames), torch.device("cpu"))
    whole = [batch.indices.tolist() for batch in take(loader, 4)]
    for skip in (0, 1, len(whole) // 2, len(whole)):
        assert [batch.indices.tolist() for batch in take(loader, 4, skip)] == whole[skip:]


@pytest.mark.parametrize(("stride", "wanted"), [(1, [2]), (2, [1, 2, 3]), (4, [1, 2, 3, 5])])
def test_infeasible_names_those_too_short_for_their_phones(tmp_path: Path, stride: int, wanted: list[int]) -> None:
    """A blank is needed between equal labels, but not between the last of an utterance and the first of the next."""
    contents = [(1, ()), (3, (1, 2, 3)), (3, (3, 3, 1)), (4, (1, 1, 2)), (1, (2,)), (4, (2, 1)), (9, (1, 2, 1))]
    made = [Said(str(k), torch.zeros(n, 5), labels) for k, (n, labels) in enumerate(contents)]
    assert write_and_read(tmp_path, [made[:3], made[3:]]).infeasible(stride) == wanted


def test_a_chunk_smaller_than_the_longest_utterance_is_said_with_the_smallest_that_works(split: Split) -> None:
    longest = int(LENGTHS.max())
    Loader(split, limits(chunk_frames=2 * longest), torch.device("cpu"))
    with pytest.raises(InputError, match=rf"u{LENGTHS.argmax():02d} has {longest}; give data\.chunk_mib=1 or more"):
        Loader(split, limits(chunk_frames=2 * longest - 1), torch.device("cpu"))


def test_a_chunk_is_read_once_and_a_small_corpus_only_once_in_all(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    original = Split.read

    def counting(self: Split, utterances: Indices, into: torch.Tensor) -> Indices:
        reads.append(int(self.frames[utterances].sum()))
        return original(self, utterances, into)

    monkeypatch.setattr(Split, "read", counting)
    small = Loader(split, limits(), torch.device("cpu"))
    for seed in (1, 2, 3):
        take(small, seed)
    assert reads == [LENGTHS.sum()]
    reads.clear()
    chunked = Loader(split, limits(chunk_frames=700), torch.device("cpu"))
    for seed in (1, 2):
        take(chunked, seed)
    assert sum(reads) == 2 * LENGTHS.sum() and max(reads) <= 350
    reads.clear()
    total = int(LENGTHS.sum())
    for other, times in ((0, 1), (1, 4)):
        loader = Loader(split, limits(chunk_frames=total), torch.device("cpu"), other_frames=other)
        for seed in (1, 2):
            take(loader, seed)
        assert sum(reads) == (2 if other else 1) * total and len(reads) >= times
        reads.clear()


def test_the_next_chunk_is_read_while_the_net_works(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = [threading.Event() for _ in range(20)]
    original, count = Split.read, itertools.count()

    def announced(self: Split, utterances: Indices, into: torch.Tensor) -> Indices:
        starts = original(self, utterances, into)
        reads[next(count)].set()
        return starts

    monkeypatch.setattr(Split, "read", announced)
    loader = Loader(split, limits(chunk_frames=700), torch.device("cpu"))
    plan = loader.plan(1)
    batches = loader.batches(plan)
    for number, chunk in enumerate(plan.shares[0]):
        next(batches)  # the net has a batch of this chunk, and asks for no other until the next chunk is there
        last = number + 1 == len(plan.shares[0])
        assert last or reads[number + 1].wait(600)
        assert len(list(itertools.islice(batches, len(chunk.batches) - 1))) == len(chunk.batches) - 1


def test_only_other_ranks_have_a_batch_in_the_last_steps(split: Split) -> None:
    loader = Loader(split, limits(1), torch.device("cpu"))
    plan = loader.plan(1, ranks=2)
    batches = [list(loader.batches(plan, rank)) for rank in (0, 1)]
    assert [len(each) for each in batches] == [31, 31]
    assert sum(batch is None for each in batches for batch in each) == 1
    assert list(loader.batches(plan, 1, skip=31)) == []


@pytest.mark.parametrize("parts", [2, 3, 100])
def test_a_batch_in_parts_is_the_same_batch(split: Split, parts: int) -> None:
    loader = Loader(split, limits(), torch.device("cpu"))
    batch = max(take(loader, 1), key=lambda batch: len(batch.indices))
    pieces = batch.split(parts)
    assert len(pieces) == min(parts, len(batch.indices))
    assert np.concatenate([piece.indices for piece in pieces]).tolist() == batch.indices.tolist()
    row = 0
    for piece in pieces:
        assert piece.static.shape[1] == piece.lengths.max() and piece.labels.shape[1] == piece.counts.max()
        for k in range(len(piece.indices)):
            frames, labels = int(piece.lengths[k]), int(piece.counts[k])
            assert torch.equal(piece.static[k, :frames], batch.static[row, :frames])
            assert torch.equal(piece.labels[k, :labels], batch.labels[row, :labels])
            row += 1
    assert sum(piece.padded_frames for piece in pieces) <= batch.padded_frames


@pytest.mark.cuda
@pytest.mark.parametrize("scoring", [False, True])
@pytest.mark.parametrize("chunk_frames", [10**9, 700])
def test_batches_on_a_gpu_are_those_of_a_cpu(split: Split, chunk_frames: int, scoring: bool) -> None:
    wanted = take(Loader(split, limits(chunk_frames=chunk_frames), torch.device("cpu")), 3)
    with torch.inference_mode(scoring):
        loader = Loader(split, limits(chunk_frames=chunk_frames), torch.device("cuda", 0))
        for _ in range(3):
            for ours, theirs in zip(take(loader, 3), wanted, strict=True):
                assert torch.equal(ours.static.cpu(), theirs.static)
                assert torch.equal(ours.labels.cpu(), theirs.labels)
        batches = loader.batches(loader.plan(1))
        next(batches)
        batches.close()  # type: ignore[attr-defined]
