"""Recordings without labels: soft labels over a lattice, epochs that hold them, and training that leaves them again."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from speechctc.config.load import load_config
from speechctc.core.errors import InputError
from speechctc.decoding.search import collapse
from speechctc.ngram.automaton import END, PhoneLM
from speechctc.stages.extract import extract
from speechctc.training import batches, trainer
from speechctc.training.teacher import PhoneLattice, doubts_of
from speechctc.training.train_step import divergence
from speechctc.training.trainer import Stopped, Trainer
from tests.tones import write_config, write_table
from tests.train_helpers import Recorder, run_once, same, score_once, stopping, trainer_of

CLASSES, FRAMES = 4, 5
CPU = torch.device("cpu")


def every_path(log_probs: Tensor, bigram: PhoneLM, weight: float, bonus: float) -> Tensor:
    """Return the posterior of each class in each frame by a sum over all paths, one by one."""
    found = torch.zeros(log_probs.shape, dtype=torch.float64)
    for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        labels = collapse(path)
        score = sum(float(log_probs[t, k]) for t, k in enumerate(path))
        score += weight * bigram.log_prob(labels) + bonus * len(labels)
        for t, k in enumerate(path):
            found[t, k] += np.exp(score)
    return found / found.sum(1, keepdim=True)


@pytest.fixture
def bigram() -> PhoneLM:
    return PhoneLM.learn([[1, 2, 3], [2, 2, 1], [3, 1], [1, 2]], CLASSES, 2)


def test_posteriors_are_sums_over_all_paths(bigram: PhoneLM) -> None:
    torch.manual_seed(0)
    log_probs = torch.randn(2, FRAMES, CLASSES).mul(2).log_softmax(2)
    inside = torch.tensor([[True] * FRAMES, [True] * 3 + [False] * 2])
    found = PhoneLattice(bigram, 0.7, 1.2, CPU).posteriors(log_probs, inside)
    torch.testing.assert_close(found[0].double(), every_path(log_probs[0], bigram, 0.7, 1.2), atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(
        found[1, :3].double(), every_path(log_probs[1, :3], bigram, 0.7, 1.2), atol=1e-6, rtol=1e-4
    )
    assert found[1, 3:, END].tolist() == [1.0, 1.0]


def test_without_a_bigram_posteriors_are_those_of_the_net() -> None:
    log_probs = torch.randn(2, FRAMES, CLASSES).log_softmax(2)
    inside = torch.ones(2, FRAMES, dtype=torch.bool)
    for lattice in (PhoneLattice(None, 0.5, 1.5, CPU), PhoneLattice(PhoneLM.flat(CLASSES), 0.0, 1.5, CPU)):
        torch.testing.assert_close(lattice.posteriors(log_probs, inside), log_probs.exp())


def test_long_recordings_of_a_sure_net_do_not_underflow(bigram: PhoneLM) -> None:
    log_probs = (60 * torch.randn(1, 3000, CLASSES)).log_softmax(2)
    found = PhoneLattice(bigram, 0.5, 1.5, CPU).posteriors(log_probs, torch.ones(1, 3000, dtype=torch.bool))
    assert bool(found.isfinite().all())
    torch.testing.assert_close(found.sum(2), torch.ones(1, 3000))


def test_divergence_is_zero_where_both_agree_and_leaves_out_padding() -> None:
    logits = torch.randn(2, FRAMES, CLASSES)
    targets, frames = logits.softmax(2), torch.tensor([FRAMES, 2])
    assert float(divergence(logits, targets, frames)) == pytest.approx(0, abs=1e-5)
    other = targets.roll(1, dims=2)
    wanted = sum(float((other[n, :t] * (other[n, :t] / targets[n, :t]).log()).sum()) for n, t in enumerate([FRAMES, 2]))
    assert float(divergence(logits, other, frames)) == pytest.approx(wanted, rel=1e-4)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a config over 8 labelled utterances of tones and 40 recordings without labels, extracted."""
    folder = tmp_path_factory.mktemp("both")
    config = write_config(folder, train=8)
    write_table(folder / "more", 40, seed=7)
    text = config.read_text(encoding="utf-8").replace("data: {", f"data: {{unlabelled: {folder}/more/audio, ")
    config.write_text(text.replace("train: {", "decode: {lm_order: 2}\ntrain: {ema: 0.9, "), encoding="utf-8")
    extract(load_config(config), Recorder())
    return config


def test_an_epoch_has_all_labelled_and_some_of_the_others(both: Path, here: Path) -> None:
    data = trainer_of(both, here / "r").data
    split = data.train.split
    assert (split.labelled, len(split), len(data.unlabelled)) == (8, 48, 40)
    seen = set()
    for seed in range(20):
        members = data.members(seed)
        assert members[:8].tolist() == list(range(8))
        frames = split.frames[members]
        assert 0 < frames[8:].sum() <= batches.BESIDE * frames[:8].sum()
        seen |= set(members[8:].tolist())
    assert seen == set(range(8, 48))
    assert data.members(3).tolist() == data.members(3).tolist()
    assert data.members(3, unlabelled=False).tolist() == list(range(8))


def test_what_has_no_labels_teaches_no_phonotactics_and_counts_by_its_length(both: Path, here: Path) -> None:
    data = trainer_of(both, here / "r").data
    assert data.phones[:8].tolist() == data.train.split.label_counts[:8].tolist()
    rate = data.phones[:8].sum() / data.train.split.frames[:8].sum()
    np.testing.assert_allclose(data.phones[8:], rate * data.train.split.frames[8:], atol=0.5)
    lm = data.phone_lm(2, 1)
    assert lm is not None
    assert lm.log_prob(data.train.split.labels(0).tolist()) < 0


def test_unlabelled_speech_changes_the_weights_and_a_batch_of_it_alone_does_too(both: Path, here: Path) -> None:
    learner = trainer_of(both, here / "r").learner
    learner.trust = 1.0
    data = trainer_of(both, here / "r").data
    plan = data.train.plan(1, members=data.unlabelled)
    batch = next(each for each in data.train.batches(plan) if each is not None)
    assert batch.unlabelled is not None and batch.unlabelled.all()
    before = [value.detach().clone() for value in learner.net.parameters()]
    assert float(learner.step(batch, 30, 0.01, 0)) == 0.0
    assert any(not torch.equal(a, b) for a, b in zip(before, learner.net.parameters(), strict=True))


def test_a_run_with_unlabelled_speech_goes_on_to_the_bit(
    both: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_once(both, here / "whole", "train.epochs=4")
    monkeypatch.setattr(Trainer, "_step", stopping(Trainer._step, {4, 9}))
    for _ in range(2):
        with pytest.raises(Stopped):
            run_once(both, here / "parts", "train.epochs=4", resume=True)
    assert same(whole, run_once(both, here / "parts", "train.epochs=4", resume=True))


def test_the_student_comes_to_say_what_the_teacher_says(both: Path, here: Path) -> None:
    """With masks on the student's side the two differ at first; the average, which hardly moves, stays as it was."""
    learner = trainer_of(both, here / "r", "train.ema=0.9999", "augment.noise_db=[0, 0]").learner
    data = trainer_of(both, here / "r").data
    batch = next(each for each in data.train.batches(data.train.plan(1, members=data.unlabelled)) if each is not None)
    learner.net.train()
    learner.trust = 1.0

    def distance() -> float:
        torch.manual_seed(0)
        with torch.no_grad():
            (logits,), frames = learner.forward_varied(batch)
            return float(divergence(logits, learner.soft_labels(batch.static, batch.frames, batch.indices), frames))

    for number in range(3000, 3003):  # the average follows closely in the first steps
        learner.step(batch, 30, 0.0, number)
    before = distance()
    for number in range(3003, 3033):
        learner.step(batch, 30, 0.002, number)
    assert distance() < 0.7 * before


def test_what_does_harm_is_left_out_and_said(both: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "HARM", -1.0)  # each epoch is harm, but the lowest PER is 0 in none of them
    recorder = Recorder()
    score_once(both, here / "r", "train.epochs=6", recorder=recorder)
    said = [text for text in recorder.said if "do harm" in text]
    assert len(said) == 1 and "go" in said[0]
    frames = [json.loads(line) for line in (here / "r" / "metrics.jsonl").read_text().splitlines()]
    assert len(frames) == 6
    resumed = trainer_of(both, here / "r", "train.epochs=7")
    assert resumed.progress.refused == 1
    assert resumed.data.members(1, unlabelled=False).tolist() == resumed.remaining.tolist()


def test_doubt_is_entropy_by_expected_phones() -> None:
    probs = torch.tensor([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.2, 0.4, 0.4]]])
    nats, phones = doubts_of(probs, torch.tensor([[True, True, False]]))[0].tolist()
    assert (nats, phones) == (pytest.approx(np.log(2)), 0.5)


def test_speech_of_another_kind_is_said(both: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    score_once(both, here / "alike", "train.epochs=3", recorder=recorder)
    assert not any("less sure" in text for text in recorder.said)
    monkeypatch.setattr(trainer, "DOUBT", 0.0)
    score_once(both, here / "other", "train.epochs=3", recorder=recorder)
    (said,) = [text for text in recorder.said if "less sure" in text]
    assert "nats a phone" in said and said.count("7-0") >= 5


def test_features_are_asked_for_where_they_lack(both: Path, here: Path, extracted: Path) -> None:
    with pytest.raises(InputError, match="unlabelled: no features there"):
        trainer_of(extracted, here / "r", f"data.unlabelled={both.parent}/more/audio")
