"""Language models by themselves: scores, perplexities, samples."""

from __future__ import annotations

import math

import numpy as np
import pytest

from speechctc.lm.model import NgramModel, PhoneLM, sample
from speechctc.phones.inventory import Inventory
from speechctc.stages.lm_texts import perplexity, table

ABC = Inventory("found", ("a", "b", "c"))


def model(order: int = 2) -> NgramModel:
    return NgramModel(PhoneLM.learn([[1, 2, 3], [1, 2], [1, 2, 2, 3]] * 5, 4, order), ABC)


def test_perplexity_counts_phones_and_ends() -> None:
    flat = NgramModel(PhoneLM(np.full((1, 4), np.log(0.25), np.float32), np.zeros((1, 4), np.int32)), ABC)
    found = perplexity(flat, "flat", "text", [[1, 2], [], [3]])
    assert (found.utterances, found.phones) == (3, 3)
    assert found.perplexity == pytest.approx(4) == found.low == found.high
    assert found.to_dict()["bits_per_event"] == pytest.approx(2)
    sure = perplexity(model(), "sure", "a text", [[1, 2], [1, 2, 3], [3, 3]])
    events = 3 + 4 + 3
    assert sure.perplexity == pytest.approx(math.exp(-model().score([[1, 2], [1, 2, 3], [3, 3]]).sum() / events))
    assert sure.low < sure.perplexity < sure.high
    lines = table([found, sure]).splitlines()
    assert len(lines) == 3 and len({line.index("utt") for line in lines[:1]}) == 1 and "4.00" in lines[1]


def test_stepping_through_a_sequence_gives_its_score() -> None:
    lm, labels = model(3), [[1, 2, 3], [3, 1, 1]]
    log_probs, state = lm.step(lm.begin(2), None)
    total = np.zeros(2)
    for step in zip(*labels, strict=True):
        total += log_probs[[0, 1], list(step)]
        log_probs, state = lm.step(state, list(step))
    np.testing.assert_allclose(total + log_probs[:, 0], lm.score(labels), rtol=1e-6)


def test_samples_have_the_models_probabilities() -> None:
    """Of 2000 first phones, as many of each as the model says, within 4 standard deviations."""
    lm = model()
    drawn = list(sample(lm, 2000, 1, 1.0, [], 1))
    probs = np.exp(lm.lm.log_probs[0])
    for label in (1, 2, 3):
        expected = 2000 * probs[label]
        assert abs(sum(each == [label] for each in drawn) - expected) < 4 * math.sqrt(expected)


def test_samples_go_on_from_a_prefix_repeat_with_the_seed_and_end() -> None:
    lm = model()
    drawn = list(sample(lm, 20, 5, 1.0, [3, 2], 6))
    assert drawn == list(sample(lm, 20, 5, 1.0, [3, 2], 6)) != list(sample(lm, 20, 6, 1.0, [3, 2], 6))
    assert all(each[:2] == [3, 2] and len(each) <= 6 for each in drawn) and len({*map(len, drawn)}) > 2
    (surest,) = sample(lm, 1, 0, 0.0, [], 50)
    assert surest == next(iter(sample(lm, 1, 9, 0.0, [], 50)))[: len(surest)] and surest[0] == 1
