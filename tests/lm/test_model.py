"""The n-gram against a straightforward one: counts in dictionaries, the recursion as it is written in the papers."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache

import numpy as np
import pytest

from speechctc.lm.model import NgramModel, PhoneLM, sample
from speechctc.phones.inventory import Inventory
from speechctc.stages.lm_texts import perplexity, table

START, END = -1, 0
Gram = tuple[int, ...]


class Plain:
    """Interpolated Kneser-Ney with dictionaries, for any context."""

    def __init__(self, sequences: list[list[int]], classes: int, order: int) -> None:
        self.classes, self.order = classes, order
        self.raw: Counter[Gram] = Counter()
        for sequence in sequences:
            tokens = [START, *sequence, END]
            for length in range(1, order + 1):
                for k in range(len(tokens) - length + 1):
                    if (gram := tuple(tokens[k : k + length])) != (START,):
                        self.raw[gram] += 1
        self.left: dict[Gram, set[int]] = {}
        for gram in self.raw:
            self.left.setdefault(gram[1:], set()).add(gram[0])
        self.discounts = {length: self.discount(length) for length in range(1, order + 1)}
        self.p = cache(self._p)

    def count(self, gram: Gram) -> int:
        if len(gram) == self.order or gram[0] == START:
            return self.raw[gram]
        return len(self.left.get(gram, ()))

    def discount(self, length: int) -> list[float]:
        found = Counter(self.count(gram) for gram in self.raw if len(gram) == length)
        n1, n2, n3, n4 = (found[k] for k in (1, 2, 3, 4))
        single = n1 / (n1 + 2 * n2) if n1 and n2 else 0.5
        if n1 and n2 and n3 and n4:
            three = [1 - 2 * single * n2 / n1, 2 - 3 * single * n3 / n2, 3 - 4 * single * n4 / n3]
            if all(0 < d < k for k, d in enumerate(three, 1)):
                return [0.0, *three]
        return [0.0, single, single, single]

    def _p(self, context: Gram, token: int) -> float:
        context = context[max(len(context) - self.order + 1, 0) :]
        after = {v: n for v in range(self.classes) if (n := self.count((*context, v)))}
        shorter = self.p(context[1:], token) if context else 1 / self.classes
        if not after:
            return shorter
        discount = self.discounts[len(context) + 1]
        n, total = after.get(token, 0), sum(after.values())
        freed = sum(discount[min(k, 3)] for k in after.values())
        return (n - discount[min(n, 3)]) / total + freed / total * shorter


def zipfian(seed: int, classes: int, count: int) -> list[list[int]]:
    """Return sequences in which what follows depends on what was."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(classes - 1, 0.2), size=classes)
    found = []
    for _ in range(count):
        labels = [0]
        for _ in range(rng.integers(0, 12)):
            labels.append(1 + int(rng.choice(classes - 1, p=table[labels[-1]])))
        found.append(labels[1:])
    return found


CASES: dict[str, tuple[list[list[int]], int]] = {
    "much": (zipfian(1, 9, 400), 9),
    "little": (zipfian(2, 6, 7), 6),
    "one": ([[1, 2, 1, 2, 3]], 5),
    "one phone": ([[2]], 3),
    "one phone, over and over": ([[1] * 9, [1] * 4], 3),
    "empty ones": ([[], [], [1, 1]], 4),
    "only empty ones": ([[]], 4),
    "nothing": ([], 4),
}


@pytest.mark.parametrize("order", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("name", CASES)
def test_every_probability_is_that_of_the_plain_one(name: str, order: int) -> None:
    sequences, classes = CASES[name]
    lm, plain = PhoneLM.learn(sequences, classes, order), Plain(sequences, classes, order)
    rng = np.random.default_rng(order)
    histories = [*sequences[:20], *(rng.integers(1, classes, size=7).tolist() for _ in range(20))]
    for history in histories:
        state, context = 0, (START,) if sequences else ()
        for label in [*history, END]:
            expected = [plain.p(context, v) for v in range(classes)]
            np.testing.assert_allclose(np.exp(lm.log_probs[state]), expected, rtol=1e-5)
            state, context = int(lm.next_state[state, label]), (*context, label)


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_the_same_whichever_is_asked_for_first(name: str) -> None:
    sequences, classes = CASES[name]
    whole, lm = PhoneLM.learn(sequences, classes, 4), PhoneLM.learn(sequences, classes, 4)
    for states in np.array_split(np.random.default_rng(1).permutation(len(whole.log_probs)), 3):
        log_probs, next_state = lm.tables(np.append(states, states[:1]))
        np.testing.assert_array_equal(log_probs[states], whole.log_probs[states])
        np.testing.assert_array_equal(next_state[states], whole.next_state[states])
    np.testing.assert_array_equal(lm.log_probs, whole.log_probs)


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("name", CASES)
def test_it_survives_as_tensors(name: str, order: int) -> None:
    sequences, classes = CASES[name]
    lm = PhoneLM.learn(sequences, classes, order)
    tensors = lm.to_tensors()
    again = PhoneLM.from_tensors(tensors, classes)
    np.testing.assert_array_equal(again.log_probs, lm.log_probs)
    np.testing.assert_array_equal(again.next_state, lm.next_state)
    half = {name: values.astype(np.float16) if values.dtype.kind == "f" else values for name, values in tensors.items()}
    np.testing.assert_allclose(PhoneLM.from_tensors(half, classes).log_probs, lm.log_probs, atol=0.02, rtol=1e-3)
    assert again.to_tensors().keys() == tensors.keys()


@pytest.mark.parametrize("name", CASES)
def test_relative_to_frequencies_each_phone_loses_how_frequent_it_is(name: str) -> None:
    sequences, classes = CASES[name]
    plain = PhoneLM.learn(sequences, classes, 3)
    assert plain.ngram is not None
    counts = [7 * k % 5 * 100 for k in range(1, classes)]  # some 0
    lm = PhoneLM.of(plain.ngram.relative_to(counts))
    logs = [np.log(max(count, 1) / sum(max(each, 1) for each in counts)) for count in counts]
    mean = sum(np.exp(log) * log for log in logs)
    for phone, log in enumerate(logs, start=1):  # also those that the n-gram has not seen
        np.testing.assert_allclose(lm.log_probs[:, phone], plain.log_probs[:, phone] - log + mean, atol=1e-4)
    np.testing.assert_array_equal(lm.log_probs[:, END], plain.log_probs[:, END])
    np.testing.assert_array_equal(lm.next_state, plain.next_state)
    again = PhoneLM.from_tensors(lm.to_tensors(), classes)
    np.testing.assert_array_equal(again.log_probs, lm.log_probs)
    for wrong in (np.zeros(classes + 1), np.full(classes, np.nan), np.full(classes, 1e300)):
        with pytest.raises(ValueError, match="do not fit together"):
            PhoneLM.from_tensors(lm.to_tensors() | {"ngram.less": wrong}, classes)


def test_broken_strings_are_refused() -> None:
    tensors = PhoneLM.learn([[1, 2], [2, 3, 3]], 4, 3).to_tensors()
    token, children, starts = (tensors[f"ngram.{name}"].copy() for name in ("token", "children", "starts"))
    moved = children.copy()
    moved[[1, 2]] = moved[[2, 1]] + np.array([1, -1]).astype(moved.dtype)
    swapped = token.copy()
    swapped[[1, 2]] = swapped[[2, 1]]
    for wrong in (
        {"token": token[:-1]},
        {"token": swapped},
        {"children": children * 0},
        {"children": moved.astype(np.int64) * 2**61},
        {"starts": starts[:2]},
        {"starts": np.concatenate([starts, starts[-1:].repeat(99)])},
        {"log_prob": tensors["ngram.log_prob"] * np.nan},
        {"unseen": np.array([0.0, 1.0])},
        {"log_prob": tensors["ngram.log_prob"].astype(np.complex128)},
        {"classes": np.array(5)},
    ):
        with pytest.raises(ValueError, match="n-gram"):
            PhoneLM.from_tensors({**tensors, **{f"ngram.{name}": values for name, values in wrong.items()}}, 4)
    with pytest.raises(ValueError, match="n-gram"):
        PhoneLM.from_tensors(tensors, 3)
    with pytest.raises(KeyError):
        PhoneLM.from_tensors({}, 4)


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
