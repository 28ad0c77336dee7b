"""Recordings without labels: labels that the teacher finds, epochs that hold them, training that leaves them again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray

from speechctc.config.load import load_config
from speechctc.core.errors import InputError
from speechctc.decoding.search import best_labels
from speechctc.lm.rescore import choose_search
from speechctc.stages.extract import extract
from speechctc.training import trainer
from speechctc.training.batches import Batch
from speechctc.training.epoch_plan import BESIDE
from speechctc.training.train_step import TrainStep, doubts_of
from speechctc.training.trainer import Stopped, Trainer
from tests.tones import RATE, write_config, write_table
from tests.train_helpers import Recorder, run_once, same, score_once, stopping, trainer_of

NOISE = "augment.noise_db=[0, 0]"


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
        assert 0 < frames[8:].sum() <= BESIDE * frames[:8].sum()
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


def test_a_run_with_unlabelled_speech_goes_on_to_the_bit(
    both: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_once(both, here / "whole", "train.epochs=4")
    monkeypatch.setattr(TrainStep, "step", stopping(TrainStep.step, {2, 6}))
    for _ in range(2):
        with pytest.raises(Stopped):
            run_once(both, here / "parts", "train.epochs=4", resume=True)
    assert same(whole, run_once(both, here / "parts", "train.epochs=4", resume=True))


def batches_of(one: Trainer, *, mixed: bool) -> list[Batch]:
    """Return the batches of an epoch of recordings without labels; or those of labelled ones beside them."""
    data = one.data
    members = data.members(1) if mixed else data.unlabelled
    found = [each for each in data.train.batches(data.train.plan(1, members=members)) if each is not None]
    return [each for each in found if each.unlabelled is not None and mixed != bool(each.unlabelled.all())]


@pytest.mark.parametrize("views", ["train.consistency=0", "train.consistency=0.2"])
def test_labels_of_the_teacher_count_beside_consistency(both: Path, here: Path, views: str) -> None:
    weights = []
    for trust in (0.0, 1.0):
        one = trainer_of(both, here / "r", views, "augment.time_masks=2", "train.clip=0")
        one.learner.trust = trust
        one.learner.net.train()
        one.learner.step(batches_of(one, mixed=False)[0], 30, 0.01, 0)
        weights.append(torch.cat([value.detach().flatten() for value in one.learner.net.parameters()]))
    assert not torch.equal(*weights)


def test_the_teacher_labels_what_has_no_labels_as_dev_is_decoded(both: Path, here: Path) -> None:
    score_once(both, here / "taught", "train.epochs=25", "data.unlabelled=null")
    one = trainer_of(both, here / "r", f"train.init_from={here}/taught", "train.precision=float32")
    learner, split = one.learner, one.data.train.split
    mixed = batches_of(one, mixed=True)[0]
    taught = learner.teach(mixed)
    assert mixed.unlabelled is not None and learner.net.training
    learner.net.eval()
    for number, index in enumerate(mixed.indices.tolist()):
        labels = taught.labels[number, : int(taught.label_counts[number])].tolist()
        assert len(labels) == taught.counts[number]
        alone = mixed.rows(np.array([number]))
        with torch.inference_mode():
            ((logits,), _) = learner.forward(alone)
        own = split.labels(index).tolist()
        search = choose_search(one.lm, None, one.config, logits.shape[1])
        wanted = best_labels(search, logits.log_softmax(1).numpy()) if mixed.unlabelled[number] else own
        assert labels == wanted and wanted


def test_a_step_adds_the_losses_of_both_kinds(both: Path, here: Path) -> None:
    """The loss that is told is of labelled speech alone."""
    losses = []
    for trust in (0.0, 1.0):
        one = trainer_of(both, here / "r")
        one.learner.trust = trust
        losses.append(float(one.learner.step(batches_of(one, mixed=True)[0], 30, 0.0, 0)))
    assert losses[0] == losses[1] > 0


def test_the_student_comes_to_say_what_the_teacher_found(both: Path, here: Path) -> None:
    """The average hardly moves; from its labels alone the net learns to find the same in noise."""
    score_once(both, here / "taught", "train.epochs=25", "data.unlabelled=null")
    one = trainer_of(both, here / "r", f"train.init_from={here}/taught", "train.ema=0.9999", NOISE)
    learner, batch = one.learner, batches_of(one, mixed=False)[0]
    taught = learner.teach(batch)
    assert taught.counts.min() > 1

    def distance() -> float:
        torch.manual_seed(0)
        with torch.no_grad():
            (logits,), frames = learner.forward_varied(taught)
            return float(learner.losses(logits, frames, taught).sum())

    learner.net.train()
    learner.trust = 1.0
    before = distance()
    for number in range(3000, 3020):  # the average follows closely in the first steps of a run alone
        assert float(learner.step(batch, 30, 0.002, number)) == 0.0  # of labelled speech there is none
    assert distance() < before - 1.0


def test_what_does_harm_is_left_out_and_said(both: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "HARM", -1.0)  # each epoch is harm, but the lowest PER is 0 in none of them
    recorder = Recorder()
    score_once(both, here / "r", "train.epochs=12", recorder=recorder)
    said = [text for text in recorder.said if "do not help" in text]
    assert len(said) == 1 and "go" in said[0]
    frames = [json.loads(line) for line in (here / "r" / "metrics.jsonl").read_text().splitlines()]
    assert len(frames) == 12
    resumed = trainer_of(both, here / "r", "train.epochs=13")
    assert resumed.progress.unlabelled == trainer.REFUSED
    assert resumed.data.members(1, unlabelled=False).tolist() == resumed.remaining.tolist()


def test_doubt_is_entropy_by_expected_phones() -> None:
    probs = torch.tensor([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.2, 0.4, 0.4]]])
    nats, phones = doubts_of(probs, torch.tensor([[True, True, False]]))[0].tolist()
    assert (nats, phones) == (pytest.approx(np.log(2)), 0.5)


def music(rng: np.random.Generator) -> NDArray[np.float64]:
    """Return 4 s of chords of plucked strings."""
    steps = np.arange(RATE // 4) / RATE
    chords = 110 * 2 ** (rng.integers(0, 40, (16, 4, 1)) / 12)
    strings = [np.exp(-6 * steps) * np.sin(2 * np.pi * k * chords * steps) / k for k in (1, 2, 3, 4)]
    whole: NDArray[np.float64] = 0.1 * np.concatenate(np.sum(strings, axis=(0, 2)))
    return whole


def other_phones(rng: np.random.Generator) -> NDArray[np.float64]:
    """Return 2 s of tones that no label of the corpus names."""
    steps = np.arange(RATE // 10) / RATE
    hertz = rng.choice([250, 650, 1100, 1900, 3100, 4300], (20, 1))
    return np.concatenate(0.3 * np.sin(2 * np.pi * hertz * steps) * np.hanning(len(steps)))


def test_speech_alike_is_not_doubted(both: Path, here: Path) -> None:
    recorder = Recorder()
    score_once(both, here / "r", "train.epochs=4", recorder=recorder)
    assert not any("less sure" in text for text in recorder.said)


@pytest.mark.parametrize("sound", [music, other_phones])
def test_music_and_another_language_are_said(
    both: Path, here: Path, sound: Callable[[np.random.Generator], NDArray[np.float64]]
) -> None:
    rng, recorder = np.random.default_rng(5), Recorder()
    (here / "more").mkdir()
    for number in range(12):
        soundfile.write(here / "more" / f"m{number}.wav", sound(rng), RATE)
    settings = (f"data.unlabelled={here}/more", f"data.dir={here}/features")
    extract(load_config(both, settings), recorder)
    score_once(both, here / "r", "train.epochs=30", *settings, recorder=recorder)
    (said,) = [text for text in recorder.said if "less sure" in text]
    assert "nats a phone" in said and "The least sure: m" in said


def test_features_are_asked_for_where_they_lack(both: Path, here: Path, extracted: Path) -> None:
    with pytest.raises(InputError, match="unlabelled: no features there"):
        trainer_of(extracted, here / "r", f"data.unlabelled={both.parent}/more/audio")


def test_recordings_other_than_the_extracted_ones_are_refused(
    both: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(both.parent)
    trainer_of(both, here / "r", "data.unlabelled=more/audio")  # the same, named in another way
    with pytest.raises(InputError, match="=new.csv: the features in .*unlabelled are of .*more/audio; run .*extract"):
        trainer_of(both, here / "r", "data.unlabelled=new.csv")


def test_an_epoch_that_time_ends_has_a_loss(both: Path, here: Path) -> None:
    settings = ("train.batch_size=1", "train.minutes=1e-9")
    for seed in range(20):
        one = trainer_of(both, here / f"r{seed}", *settings, f"train.seed={seed}")
        one.progress.unlabelled, one.remaining = trainer.JOINED, one.data.members(one._epoch_seed())
        first = one.plan().totals(one.data.train.split.label_counts)[:2]
        if not first.any():  # the first batches have no labels
            break
    one.train()
    (line,) = (json.loads(each) for each in (here / f"r{seed}" / "metrics.jsonl").read_text().splitlines())
    assert line["loss"] > 0 and line["step"] > 2 and one.progress.epoch == 0
