import random
from pathlib import Path

import pytest

from speechctc.corpora.corpus import Utterance
from speechctc.corpora.dev_split import choose_dev


def utterances(speakers: list[str], each: int = 3) -> list[Utterance]:
    return [Utterance(f"{name}-{k}", Path("a.wav"), ("a",), name) for name in speakers for k in range(each)]


@pytest.mark.parametrize(("share", "count"), [(0.1, 2), (0.01, 1), (0.5, 10), (0.99, 19)])
def test_whole_speakers_are_held_out_by_share(share: float, count: int) -> None:
    everyone = utterances([f"s{k}" for k in range(20)])
    held, note = choose_dev(everyone, share)
    assert len(held) == 3 * count
    assert len({utterance.speaker for utterance in everyone if utterance.id in held}) == count
    assert f"dev: {count} of 20 training speakers" in note


def test_the_choice_does_not_hang_on_the_order() -> None:
    everyone = utterances([f"s{k}" for k in range(20)])
    shuffled = random.Random(1).sample(everyone, len(everyone))
    assert choose_dev(everyone, 0.2) == choose_dev(shuffled, 0.2)


@pytest.mark.parametrize(("speakers", "why"), [(["one"], "all are by one speaker"), (["one", ""], "not all name")])
def test_without_several_known_speakers_single_utterances_are_held_out(speakers: list[str], why: str) -> None:
    held, note = choose_dev(utterances(speakers, 10), 0.1)
    assert len(held) == len(speakers)
    assert why in note


def test_a_single_utterance_stays_in_training() -> None:
    held, note = choose_dev(utterances(["one"], 1), 0.5)
    assert not held and "dev: none" in note
