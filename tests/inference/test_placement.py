"""Placing transcripts in posteriors: bands against all states, what does not fit, and posteriors on disk."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from speechctc.inference import placement
from speechctc.inference.alignment import amiss
from speechctc.inference.placement import Placement, Posteriors, place
from speechctc.inference.transcript import AnyStretch, Fits, Items, Unit, learned_costs, phone_units

PHONES = "abcdefgh"
STEP = 0.02  # seconds from frame to frame
Rows = NDArray[np.float32]


def encode(phones: Sequence[str]) -> list[int]:
    return [PHONES.index(phone) + 1 for phone in phones]


def spoken(labels: str, rng: np.random.Generator, doubt: float = 3.0) -> Rows:
    """Return log posteriors in which each phone has a spike of 2 frames after 2 to 5 blanks."""
    classes = [0, 0]
    for label in labels:
        classes += [*encode(label) * 2, *[0] * int(rng.integers(2, 6))]
    logits = rng.normal(size=(len(classes), len(PHONES) + 1))
    logits[range(len(classes)), classes] += 2 * doubt
    result: Rows = (logits - np.log(np.exp(logits).sum(1, keepdims=True))).astype(np.float32)
    return result


def words(text: str) -> Items:
    return tuple(Unit(word, (tuple(word),)) for word in text.split())


def placed(items: Items, rows: Rows, find_misfits: bool = False) -> Placement:
    with Posteriors(len(PHONES) + 1) as kept:
        for start in range(0, len(rows), 70):
            kept.append(rows[start : start + 70])
        return place(items, encode, kept, STEP, find_misfits)


def random_words(rng: np.random.Generator, count: int) -> list[str]:
    return ["".join(rng.choice(list(PHONES), size=rng.integers(2, 7))) for _ in range(count)]


@pytest.mark.parametrize("find_misfits", [False, True])
def test_a_band_around_anchors_finds_what_all_states_do(monkeypatch: pytest.MonkeyPatch, find_misfits: bool) -> None:
    rng = np.random.default_rng(4)
    given = random_words(rng, 150)
    said = given[:50] + random_words(rng, 12) + given[50:90] + given[110:]  # 12 more, 20 fewer
    rows = spoken("".join(said), rng, 2.5)
    whole = placed(words(" ".join(given)), rows, find_misfits)
    assert whole.is_exact and whole.touched is None
    monkeypatch.setattr(placement, "EXACT_CELLS", 10)
    monkeypatch.setattr(placement, "MAX_CELLS", 10**9)
    monkeypatch.setattr(placement, "REACH", (60, 150))
    monkeypatch.setattr(placement, "IN_MEMORY", 1000)  # the rest in a file
    inside = placed(words(" ".join(given)), rows, find_misfits)
    assert not inside.is_exact and inside.touched is None
    assert inside.score == pytest.approx(whole.score) and inside.visits == whole.visits
    assert inside.missing == whole.missing and inside.stretches == whole.stretches
    if find_misfits:
        left_out = {unit for _, unit in whole.missing}
        assert len(left_out & set(range(90, 110))) >= 18 and len(left_out) <= 22
        assert sum(stretch.end - stretch.first for stretch in whole.stretches) > 100


def test_a_band_is_widened_until_the_path_keeps_away_from_its_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    given = "".join(random_words(rng, 60))
    rows = spoken(given[:40] + given[120:] + given[40:120], rng)  # the path has to leave the anchors
    whole = placed(phone_units(given), rows)
    monkeypatch.setattr(placement, "EXACT_CELLS", 10)
    monkeypatch.setattr(placement, "REACH", (3, 8))
    assert placed(phone_units(given), rows).visits == whole.visits
    monkeypatch.setattr(placement, "MAX_CELLS", 10)
    narrow = placed(phone_units(given), rows)
    assert narrow.touched is not None or narrow.score == -np.inf
    assert not narrow.is_exact and narrow.score < whole.score


def test_misfits_in_a_long_transcript(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs are learned; of untouched words nothing is said."""
    rng = np.random.default_rng(6)
    given = random_words(rng, 80)
    rows = spoken("".join(given), rng, 2.5)
    clean = placed(words(" ".join(given)), rows, True)
    assert not clean.missing and not clean.stretches
    assert [visit.unit for visit in clean.visits] == [k for k, word in enumerate(given) for _ in word]
    damaged = [*given[:10], "hahaha", *given[10:30], *given[31:]]  # one more, one fewer
    found = placed(words(" ".join(damaged)), rows, True)
    assert [unit for _, unit in found.missing] == [10] and len(found.stretches) == 1
    frames = [visit for visit in clean.visits if visit.unit == 30]
    (stretch,) = found.stretches
    assert stretch.first <= frames[1].first and stretch.end >= frames[-1].first and not stretch.wanted


def test_a_word_that_stands_twice_is_said_once_unless_it_was_said_twice() -> None:
    rng = np.random.default_rng(10)
    given = random_words(rng, 60)
    said = [*given[:20], *given[19:]]
    rows = spoken("".join(said), rng, 2.5)
    doubled = [*said[:40], *said[39:]]
    found = placed(words(" ".join(doubled)), rows, True)
    assert len(found.missing) == 1 and found.missing[0][1] in (39, 40) and not found.stretches
    assert not placed(words(" ".join(said)), rows, True).missing


@pytest.mark.parametrize("sure", [2.5, 12.0])
def test_one_phone_that_was_said_otherwise_makes_no_word_another(sure: float) -> None:
    """However sure the net is of the other phone; a word of other phones is another, and so is one that is not said."""
    rng = np.random.default_rng(11)
    given = ["abcd", "efgh", "cdab", "ghef"] * 6
    for word, is_other in (("efch", False), ("ebgh", False), ("bacd", True), ("", True)):
        rows = spoken("".join([*given[:9], word, *given[10:]]), rng, sure)
        found = placed(words(" ".join(given)), rows, True)
        assert [unit for _, unit in found.missing] == ([9] if is_other else []), (word, found.missing)


def test_a_sound_that_is_not_heard_is_placed_beside_its_word_and_not_across_a_pause() -> None:
    """The last sound of a word is not said, then there is a long pause; the log probability is as without the cost."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rows, gap = spoken("abefghabcd", rng), spoken("", rng)
        at = int(np.flatnonzero(rows.argmax(axis=1) == encode("b")[0])[1]) + 1  # after ab
        rows = np.concatenate([rows[:at], *[gap] * 50, rows[at:]])
        found = placed(words("abc efgh abcd"), rows)
        last, following = found.visits[2:4]
        assert last.place == 2 and following.unit == 1 and last.first - at < 30 < following.first - last.end, seed
        best = rows[np.arange(len(rows)), found.classes].sum(dtype=np.float64)
        assert found.score == pytest.approx(best, abs=1e-3)


def test_stretches_that_are_wanted_are_no_misfits() -> None:
    rng = np.random.default_rng(7)
    rows = spoken("abcdefghabc", rng)
    found = placed((*words("ab"), AnyStretch(), *words("gh abc")), rows, True)
    assert [stretch.wanted for stretch in found.stretches] == [True] and not found.missing
    assert [visit.place for visit in found.visits] == [0, 1, 0, 1, 0, 1, 2]


def test_what_does_not_fit_has_no_path() -> None:
    rows = spoken("a", np.random.default_rng(8))
    assert placed(phone_units("ab" * 20), rows).score == -np.inf
    assert placed(phone_units("ab" * 20), rows, True).missing  # but units may be left out


def fits(deficits: Sequence[float], length: float = 20) -> Fits:
    """Return units one after the other, each of two phones."""
    begin = length * np.arange(len(deficits), dtype=np.float64)
    none = np.zeros(len(deficits), bool)
    return Fits(np.arange(len(deficits)), begin, begin + length, np.array(deficits, np.float64), none)


def two_phones(count: int) -> Items:
    return words(" ".join(["ab"] * count))


TWO = 1.5 * 2**0.7  # unusual deficits that a unit of two phones costs


def test_costs_are_those_of_what_fits_worse_than_its_neighbours() -> None:
    units = [unit for unit in two_phones(60) if isinstance(unit, Unit)]
    usual = [1.0 + 0.5 * (number % 5) for number in range(60)]  # quartiles 2.0 and 2.5
    costs = learned_costs(fits(usual), units, STEP)
    inside = slice(10, 50)
    assert costs.missing[inside] == pytest.approx(TWO * 3.5) and costs.gap[inside] == pytest.approx(3 * 3.5)
    assert costs.repeat[inside] == pytest.approx(2 * 2.5)
    odd = [30.0 if number == 25 else deficit for number, deficit in enumerate(usual)]
    assert learned_costs(fits(odd), units, STEP).missing[25] == pytest.approx(TWO * 3.5, abs=2.5)
    worse = [deficit + 6 * (number >= 30) for number, deficit in enumerate(usual)]  # from there on the net fails
    costs = learned_costs(fits(worse), units, STEP)
    assert costs.missing[10] == pytest.approx(TWO * 3.5) and costs.missing[50] == pytest.approx(TWO * 9.5)
    longer_frames = learned_costs(fits(worse, 10), units, 2 * STEP)
    assert longer_frames.missing == pytest.approx(costs.missing)
    assert (learned_costs(fits(usual[:5]), units[:5], STEP).missing == TWO * 2.5).all()


def test_words_without_room_do_not_seem_usual() -> None:
    """Forty words that were not said lie in the frames of two."""
    deficits = np.array([1.0] * 30 + [12.0] * 40 + [1.0] * 30)
    lengths = np.array([20.0] * 30 + [1.0] * 40 + [20.0] * 30)
    ends = np.cumsum(lengths)
    units = [unit for unit in two_phones(100) if isinstance(unit, Unit)]
    costs = learned_costs(Fits(np.arange(100), ends - lengths, ends, deficits, np.zeros(100, bool)), units, STEP)
    assert costs.missing == pytest.approx(TWO * 2.5)  # the least


@pytest.mark.parametrize("limit", [10, 10**9])
def test_posteriors_come_back_from_memory_and_from_disk(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(placement, "IN_MEMORY", limit)
    rows = spoken("abba", np.random.default_rng(9))
    with Posteriors(len(PHONES) + 1) as kept:
        for start in range(0, len(rows), 5):
            kept.append(rows[start : start + 5])
        assert np.array_equal(kept.read(3, 8), rows[3:8]) and np.array_equal(np.concatenate(list(kept.blocks())), rows)
        assert kept.onsets.sum() == 4 and np.array_equal(kept.best, rows.max(1))
        emissions = kept.with_any(0.5)(3, 8)
        assert np.array_equal(emissions[:, :-3], rows[3:8])
        assert emissions[:, -2] == pytest.approx(rows[3:8, 0] - placement.INSIDE)
        assert np.array_equal(emissions[:, -1], rows[3:8, 0])
        assert emissions[:, -3] == pytest.approx(kept.best[3:8] - 0.5 * kept.onsets[3:8])


def said(text: str) -> Rows:
    """Return log posteriors of classes that are almost certain, a blank where there is a space."""
    rows = np.full((len(text), len(PHONES) + 1), -20.0, np.float32)
    rows[range(len(text)), [PHONES.find(each) + 1 for each in text]] = 0
    return rows


def test_phones_of_a_word_that_was_said_twice_stay_together() -> None:
    """The first time its last phone is hardly heard; the second time a little better, as all of it."""
    rows = said("  a b c" + 70 * " " + "c  ")
    rows[6, [0, 3]], rows[77, [0, 3]] = (-0.05, -3.0), (-0.7, -0.7)
    found = placed(phone_units("abc"), rows)
    assert [visit.first for visit in found.visits] == [2, 4, 6]
    assert found.score == pytest.approx(-3.7)  # without what blanks between phones cost


@pytest.mark.parametrize("pause", [20, 3000])
def test_phones_stay_on_their_side_of_a_pause(pause: int) -> None:
    rows = said("  a b" + pause * " " + "c  ")
    assert [visit.first for visit in placed(phone_units("abc"), rows).visits] == [2, 4, 5 + pause]


def test_a_blank_between_phones_is_dear_in_the_first_second_of_a_pause() -> None:
    first, last = placement.PAUSE
    with Posteriors(len(PHONES) + 1) as kept:
        kept.append(said(" a" + 2 * last * " "))
        dear = kept.with_any(0.5)(0, kept.frames)[:, -1] < 0
        assert np.flatnonzero(kept.pausing).tolist() == [*range(first + 2, last + 2)]
        assert np.array_equal(kept.pausing, dear & (kept.greedy == 0))


def test_no_frames_at_all() -> None:
    with Posteriors(3) as kept:
        assert kept.read(0, 0).shape == (0, 3) and not len(kept.onsets) and not list(kept.blocks())


def test_of_a_long_recording_only_the_part_is_searched_wider_that_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A swap of words in the middle, as in the test above; the ends of the band stay as narrow as they were."""
    rng = np.random.default_rng(8)
    given = "".join(random_words(rng, 700))
    middle = len(given) // 2
    moved = given[middle + 400 : middle + 600] + given[middle : middle + 400]
    rows = spoken(given[:middle] + moved + given[middle + 600 :], rng)
    bands = []
    real = placement.anchored_band

    def watched(*given: object) -> object:
        bands.append(real(*given))  # type: ignore[arg-type]
        return bands[-1]

    monkeypatch.setattr(placement, "anchored_band", watched)
    monkeypatch.setattr(placement, "EXACT_CELLS", 10)
    monkeypatch.setattr(placement, "REACH", (52, 130))
    monkeypatch.setattr(placement, "WIDER", 1500)
    found = placed(phone_units(given), rows)
    first, last = bands[0], bands[-1]
    assert found.touched is None and len(bands) > 1
    wider = (last.high - last.low) > (first.high - first.low)
    assert wider.any() and not wider[:4000].any() and not wider[-2000:].any()
    assert (np.diff(last.low) >= 0).all() and (np.diff(last.high) >= 0).all()


def test_what_is_amiss_is_told_without_all_posteriors_in_memory() -> None:
    """In one hour they have 30 MB."""
    frames, classes = 20_000, 100
    rng = np.random.default_rng(0)
    with Posteriors(classes) as posteriors:
        rows = np.zeros((1000, classes), np.float32)
        rows[np.arange(1000), rng.integers(classes, size=1000)] = 5.0
        for _ in range(frames // 1000):
            posteriors.append(rows)
        found = place(phone_units([f"{k}" for k in range(1, 40)]), lambda each: list(map(int, each)), posteriors, 0.02)
        tracemalloc.start()
        amiss(found, posteriors, [0])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < frames * classes * 4 / 2
