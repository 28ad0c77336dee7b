"""One test for each fault by which this project's forerunner never learned."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from speechctc.config.corpus_config import CorpusConfig
from speechctc.config.schema import FeatureConfig
from speechctc.corpora.registry import read_corpus
from speechctc.ctc import ctc_loss
from speechctc.features.filterbank import Moments, derivatives, net_input, static_features
from speechctc.features.shards import Extracted, Recipe, read_split, shard_path, write_shard
from speechctc.lm.search import collapse
from speechctc.metrics.per import edit_counts
from speechctc.training.epoch_plan import Limits, plan_epoch

CONFIG = FeatureConfig()


def test_mels_are_logged() -> None:
    samples = 0.1 * torch.randn(8000, generator=torch.Generator().manual_seed(1))
    quiet, loud = (static_features(gain * samples, CONFIG) for gain in (0.5, 1.0))
    torch.testing.assert_close(loud - quiet, torch.full_like(loud, 2 * np.log(2)), atol=1e-3, rtol=0)


def test_normalisation_is_per_dimension_over_the_corpus_not_inside_a_frame() -> None:
    config = FeatureConfig(mels=5, deltas=0)
    static = torch.randn(400, 6) * torch.tensor([1.0, 2, 3, 4, 5, 6]) + torch.arange(6)
    mean, std = Moments.of(static, config).normalisation()
    normalised = net_input(static[None], torch.tensor([400]), mean, std, config)[0, 0]
    torch.testing.assert_close(normalised.mean(1), torch.zeros(6), atol=1e-4, rtol=0)
    torch.testing.assert_close(normalised.std(1), torch.ones(6), atol=1e-2, rtol=0)
    assert float(normalised.mean(0).abs().max()) > 0.1


def test_what_extraction_writes_the_loader_reads(tmp_path: Path) -> None:
    static = torch.randn(17, 41)
    recipe = Recipe(CONFIG.model_dump(mode="json"), "found", ("a",), "")
    made = Extracted("u", static, (1, 1), Moments.of(static, CONFIG), 0.2)
    write_shard(shard_path(tmp_path, 0, 1), [made], [], recipe, torch.float32)
    (shard,) = read_split(tmp_path, recipe.features)
    assert torch.equal(shard.static, static) and shard.labels.tolist() == [1, 1]


def test_scores_are_of_collapsed_paths() -> None:
    path = [0, 7, 7, 7, 0, 0, 3, 3, 0]
    assert edit_counts(["7", "3"], [str(label) for label in collapse(path)]).per == 0.0


def test_a_blank_a_is_two_phones() -> None:
    assert collapse([5, 5, 0, 5]) == [5, 5]


def test_seconds_are_not_compared_with_samples(tmp_path: Path) -> None:
    import soundfile

    for split, speaker in (("TRAIN", "FABC0"), ("TRAIN", "MABC0"), ("TEST", "MXYZ0")):
        folder = tmp_path / split / "DR1" / speaker
        folder.mkdir(parents=True)
        soundfile.write(folder / "SX1.WAV", np.zeros(16000, np.float32), 16000, format="WAV")
        (folder / "SX1.PHN").write_text("0 8000 h#\n8000 12000 aa\n12000 16000 h#\n")
    corpus = read_corpus(CorpusConfig(kind="timit", root=tmp_path, dev_share=0.5))
    (utterance,) = corpus.splits["test"]
    assert utterance.times == ((0.0, 0.5), (0.5, 0.75), (0.75, 1.0))


def test_the_batch_size_is_used() -> None:
    lengths = np.full(40, 10)
    for size in (1, 7, 20):
        (plan,) = plan_epoch(lengths, np.arange(40), Limits(size, 10**6, 10**6), 1)
        assert [len(batch) for batch in plan.batches].count(size) == 40 // size


def test_no_validation_utterance_is_trained_on(tmp_path: Path) -> None:
    import soundfile

    (tmp_path / "a.wav").parent.mkdir(exist_ok=True)
    soundfile.write(tmp_path / "a.wav", np.zeros(16000, np.float32), 16000)
    rows = "".join(f"u{k}\ta.wav\taa b\ts{k % 10}\n" for k in range(50))
    (tmp_path / "train.tsv").write_text("id\taudio\tphones\tspeaker\n" + rows)
    corpus = read_corpus(CorpusConfig(kind="table", tables={"train": tmp_path / "train.tsv"}))
    speakers = {split: {u.speaker for u in corpus.splits[split]} for split in ("train", "dev")}
    assert speakers["dev"] and not speakers["dev"] & speakers["train"]


@pytest.mark.parametrize("labels", [[1], [1, 2], [1, 1], [2, 1, 2]])
def test_backward_recursion_agrees_with_every_path_summed(labels: list[int]) -> None:
    """The loss's gradient needs beta; a sum over all paths, differentiated numerically by autograd, does not."""
    logits = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    by_hand = logits.clone().requires_grad_()
    log_probs = by_hand.log_softmax(1)
    paths = [p for p in itertools.product(range(3), repeat=5) if collapse(p) == labels]
    scores = torch.stack([sum((log_probs[t, k] for t, k in enumerate(p)), torch.zeros(())) for p in paths])
    torch.logsumexp(scores, 0).neg().backward()
    ours = logits.clone().requires_grad_()
    loss = ctc_loss(
        ours[:, None], torch.tensor([labels]), torch.tensor([5]), torch.tensor([len(labels)]), reduction="sum"
    )
    loss.backward()
    assert by_hand.grad is not None and ours.grad is not None
    torch.testing.assert_close(ours.grad, by_hand.grad, rtol=1e-5, atol=1e-6)


def test_deltas_are_along_time_not_along_frequency() -> None:
    static = torch.arange(20.0)[:, None].repeat(1, 6) + 100 * torch.arange(6.0)
    delta = derivatives(static[None], torch.tensor([20]), FeatureConfig(mels=5, deltas=1))[1][0]
    torch.testing.assert_close(delta[2:-2], torch.ones(16, 6))
