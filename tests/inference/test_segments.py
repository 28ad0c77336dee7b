"""Spikes to segments, against brute force and from any cut of the frames; calibration."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from speechctc.config.schema import FeatureConfig, ModelConfig
from speechctc.core.errors import InputError
from speechctc.inference.result import Variant, Word, Words
from speechctc.inference.segmenter import (
    EDGE,
    REACH,
    Calibration,
    FrameClock,
    PhoneScore,
    Segment,
    Segmenter,
    Segments,
    change_point,
    lasting,
)
from speechctc.phones.inventory import inventory_of, named_inventory

PHONES = inventory_of("abc")
CLOCK = FrameClock.of(FeatureConfig(), ModelConfig(time_stride=2))


def log_posteriors(frames: int, seed: int, classes: int = 4) -> NDArray[np.float32]:
    """Return peaky random log posteriors, mostly blank."""
    rng = np.random.default_rng(seed)
    logits = 4 * rng.standard_normal((frames, classes))
    logits[:, 0] += rng.choice([6, -3], size=frames, p=[0.7, 0.3])
    return np.asarray(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True), dtype=np.float32)


def spiked(path: str, certain: float = 0.97) -> NDArray[np.float32]:
    """Return log posteriors whose best path is ``path``: letters, ``-`` for the blank."""
    rows = np.full((len(path), 4), (1 - certain) / 3)
    rows[np.arange(len(path)), ["-abc".index(sign) for sign in path]] = certain
    return np.asarray(np.log(rows), dtype=np.float32)


def segments(rows: NDArray[np.float32], cuts: list[int] | None = None, seconds: float | None = None) -> list[Segment]:
    segmenter = Segmenter(PHONES, CLOCK, Calibration(), alternatives=2)
    done: list[Segment] = []
    for piece in np.split(rows, sorted(cuts or [])):
        done += segmenter.push(piece)
    return done + list(segmenter.finish(seconds or CLOCK.seconds(len(rows))))


def test_the_clock_counts_from_the_middle_of_the_first_window() -> None:
    assert CLOCK.step == pytest.approx(0.02) and CLOCK.seconds(0) == pytest.approx(0.0125)
    odd = FrameClock.of(FeatureConfig(sample_rate=11025, shift_ms=10), ModelConfig(time_stride=1))
    assert odd.step == 110 / 11025  # whole samples


def test_the_frame_of_a_time_is_the_first_that_is_not_before_it() -> None:
    times = np.random.default_rng(1).uniform(-0.1, 3.0, 500)
    centres = [CLOCK.seconds(k) for k in range(200)]
    assert [CLOCK.frame(time) for time in times] == np.searchsorted(centres, times).tolist()


@pytest.mark.parametrize("seed", range(12))
def test_change_point_is_the_best_of_all_splits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.log(rng.dirichlet(np.ones(4), size=rng.integers(2, 12))).astype(np.float32)
    rows[0, [1, 2]], rows[-1, [1, 2]] = [-0.1, -5.0], [-5.0, -0.1]
    totals = [rows[:k, 1].sum() + rows[k:, 2].sum() for k in range(1, len(rows))]
    split = 1 + int(np.argmax(totals))
    place = change_point(rows, 1, 2)
    assert split - 1 <= place <= split
    contrast = rows[:, 1] - rows[:, 2]
    crossing = np.interp(place, np.arange(len(rows)), contrast)
    assert abs(crossing) < 1e-4  # between the two frames the classes are equally probable there


def test_a_boundary_between_like_phones_is_half_way() -> None:
    assert change_point(spiked("a----a"), 1, 1) == 2.5
    first, second = segments(spiked("--a---a--"))
    assert first.end == second.start == pytest.approx(CLOCK.seconds(4))


@given(st.integers(0, 10_000), st.integers(1, 120), st.lists(st.integers(1, 119), max_size=8))
@settings(max_examples=80, deadline=None)
def test_segments_are_the_same_from_any_cut_in_order_and_inside(seed: int, frames: int, cuts: list[int]) -> None:
    rows = log_posteriors(frames, seed)
    whole = segments(rows)
    assert segments(rows, [cut for cut in cuts if cut < frames]) == whole
    path = rows.argmax(axis=1)
    starts = [k for k in range(frames) if path[k] and (k == 0 or path[k] != path[k - 1])]
    assert [each.phone for each in whole] == [PHONES.phones[path[k] - 1] for k in starts]
    last = 0.0
    for each, start in zip(whole, starts, strict=True):
        assert last <= each.start < each.end <= CLOCK.seconds(frames)
        assert each.start < CLOCK.seconds(start) < each.end
        assert 0 < each.confidence <= 1 and each.phone not in dict(each.alternatives)
        last = each.end


def test_frames_that_lean_to_one_phone_go_to_it() -> None:
    rows = spiked("a----b", 0.9)
    rows[1:4, 1] = np.log(0.05)  # a, under the blank
    rows[4, 2] = np.log(0.05)
    first, second = segments(rows)
    assert CLOCK.seconds(3) < first.end == second.start < CLOCK.seconds(4)


def test_a_phone_ends_at_a_pause_and_a_silence_fills_it() -> None:
    rows = spiked("-" * 100 + "a" + "-" * 200 + "b" + "-" * 100)
    first, second = segments(rows)
    for each, frame in ((first, 100), (second, 301)):
        assert each.end - CLOCK.seconds(frame) == pytest.approx(EDGE)
        assert CLOCK.seconds(frame) - each.start == pytest.approx(EDGE)
    silent = Segmenter(inventory_of(["h#", "a", "b"]), CLOCK, Calibration())
    order = {phone: k for k, phone in enumerate(["-", "a", "b", "h#"])}
    path = ["-"] * 50 + ["h#"] + ["-"] * 90 + ["a"] + ["-"] * 90 + ["h#"] + ["-"] * 50
    rows = np.log(np.full((len(path), 4), 0.01, np.float32))
    rows[np.arange(len(path)), [order[sign] for sign in path]] = np.log(0.97)
    before, phone, after = [*silent.push(rows), *silent.finish(9.0)]
    assert before.start == 0 and after.end == 9.0
    assert before.end == phone.start and phone.end == after.start
    assert phone.end - phone.start < 2 * REACH + 2 * CLOCK.step


def test_a_phone_before_a_pause_does_not_wait_for_the_next() -> None:
    rows = np.full((40, 3), -9.0, np.float32)
    rows[:, 0], rows[2, 1] = -0.01, 0.0
    found = list(Segmenter(inventory_of(["a", "b"]), CLOCK, Calibration()).push(rows))
    assert [each.phone for each in found] == ["a"]
    assert not list(Segmenter(inventory_of(["h#", "a"]), CLOCK, Calibration()).push(rows))


def test_hours_of_silence_take_no_memory() -> None:
    segmenter = Segmenter(PHONES, CLOCK, Calibration())
    silent = Segmenter(inventory_of(["h#", "a", "b"]), CLOCK, Calibration())
    for each in (segmenter, silent):
        found = [*each.push(spiked("a")), *(phone for _ in range(50) for phone in each.push(spiked("-" * 1000)))]
        assert len(found) == (each is segmenter) and len(each._gap) <= 2 * (REACH / CLOCK.step + 1)
        list(each.push(spiked("b")))
    (second,) = segmenter.finish(2000.0)
    assert second.start == pytest.approx(CLOCK.seconds(50_001) - EDGE)


def test_alternatives_are_the_next_best_at_the_peak() -> None:
    rows = np.log(np.array([[0.1, 0.5, 0.3, 0.1], [0.05, 0.6, 0.1, 0.25]], np.float32))
    (only,) = segments(rows)
    assert [phone for phone, _ in only.alternatives] == ["c", "b"]
    assert only.confidence == pytest.approx(0.6) and only.alternatives[0][1] == pytest.approx(0.25)


def test_a_shift_moves_boundaries_and_stays_inside() -> None:
    rows = spiked("a--b--c")
    seconds = CLOCK.seconds(7)
    still, moved = (
        [*each.push(rows), *each.finish(seconds)]
        for each in (Segmenter(PHONES, CLOCK, Calibration(shift=shift)) for shift in (0.0, 0.01))
    )
    assert moved[1].start == pytest.approx(still[1].start + 0.01)
    assert moved[-1].end <= seconds


def test_no_frames_and_nothing_but_blanks_have_no_phones() -> None:
    assert segments(spiked("")) == [] == segments(spiked("-----"))
    assert list(Segmenter(named_inventory("timit61"), CLOCK, Calibration()).finish(1.0)) == []


@given(st.lists(st.tuples(st.floats(-0.1, 1.2), st.floats(-0.1, 1.2)), max_size=60), st.floats(0.0, 0.4))
def test_however_rough_the_times_each_segment_lasts_in_order_and_inside(
    times: list[tuple[float, float]], begin: float
) -> None:
    found = lasting([Segment("a", *each, 1.0) for each in times], 0.005, begin, 1.0)
    least = min(0.005, (1.0 - begin) / max(len(times), 1))
    assert [each.phone for each in found] == ["a"] * len(times)
    edges = [begin, *(time for each in found for time in (each.start, each.end)), 1.0]
    assert all(right >= left - 1e-12 for left, right in zip(edges, edges[1:], strict=False))
    assert all(each.end - each.start > least - 1e-9 for each in found)


def test_it_is_kept_beside_the_weights(tmp_path: Path) -> None:
    plain = Calibration.load(tmp_path)
    assert repr(plain) == repr(Calibration()) and plain.probability(0.7) == 0.7  # NaN: no == from 3.13 on
    kept = Calibration(0.5, 0.1, 0.004, 100, 0.2, 0.1, 0.9, "dev")
    kept.save(tmp_path)
    assert Calibration.load(tmp_path) == kept
    assert kept.probability(0.5) == pytest.approx(1 / (1 + np.exp(-0.1)))
    values = json.loads((tmp_path / "calibration.json").read_text())
    changes: list[dict[str, object]] = [{"format": 2}, {"extra": 1}, {"slope": "1"}, {"slope": None}, {"shift": 1e9}]
    changes += [{"slope": 10**400}, {"slope": 1e300}, {"correct": 10**400}, {"correct": -1}, {"protocol": "x" * 3000}]
    changes += [{"slope": float("nan")}, {"intercept": float("inf")}, {"phones": -1}, {"protocol": "a\n\x1b[2J"}]
    for damaged in ("{", "[]", "[" * 100_000, *(json.dumps(values | change) for change in changes)):
        (tmp_path / "calibration.json").write_text(damaged)
        with pytest.raises(InputError, match="speechctc calibrate"):
            Calibration.load(tmp_path)


def test_probabilities_of_any_slope_are_finite() -> None:
    told = Calibration(1e5, 1e5, phones=1).probabilities(np.array([0.0, 0.5, 1.0]))
    assert np.isfinite(told).all() and (told >= 0).all() and (told <= 1).all()


def test_phones_in_little_memory_are_what_was_put_in() -> None:
    score = PhoneScore(0.25, 0.5, (("b", 0.5),))
    items = [
        Segment("a", 0.1, 0.3, 0.7),
        Segment("", 0.3, float(np.nextafter(0.3, 1)), 0.0, (("b", 0.5),), None, None, (0.2, 0.5)),
        Segment("a", 0.5, np.inf, 1.0, (), score, (0.4, np.inf), None),
        Segment("tʃ", 1e300, -0.0, 1.0, (("b", 0.5), ("a", 0.1)), score, (0.4, 0.6), (0.7, 0.8)),
    ]
    for count in range(len(items) + 1):
        packed, some = Segments(items[:count]), items[:count]
        assert packed == some and pickle.loads(pickle.dumps(packed)) == packed and hash(packed) == hash(tuple(some))
        assert packed[1:-1] == tuple(some[1:-1]) and len(packed) == count and list(reversed(packed)) == some[::-1]
        assert packed != [*some, items[0]] and packed[-1:] == tuple(some[-1:])
        with pytest.raises(IndexError):
            packed[count]
        for place in range(-count, count):
            some[place] = packed[place] = items[(place - 1) % len(items)]
            assert packed == some


def test_words_in_little_memory_are_what_was_put_in() -> None:
    items = [
        Word("so", 0.1, 0.3, -0.5, 0),
        Word("", 0.3, np.inf, -1e300, 2**31 - 1, 0.25, Variant("s o", 1, 2)),
        Word("so", 0.5, 0.5, 0.0, -1, 0.0),
    ]
    for count in range(len(items) + 1):
        packed, some = Words(items[:count]), items[:count]
        assert packed == some and pickle.loads(pickle.dumps(packed)) == packed and hash(packed) == hash(tuple(some))
        assert packed[1:] == tuple(some[1:]) and bool(packed) == bool(some)
        for place in range(count):
            some[place] = packed[place] = items[place - 1]
            assert packed == some


def test_a_word_takes_some_hundred_bytes() -> None:
    """As tuples of Python's numbers they take 230."""
    numbers = np.random.default_rng(0).random((10_000, 3)).tolist()
    tracemalloc.start()
    packed = Words(Word("so", start, end, ratio, 1000 + k) for k, (start, end, ratio) in enumerate(numbers))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(packed) == 10_000 and held < 100 * len(packed)


def test_a_phone_takes_some_hundred_bytes() -> None:
    """As tuples of Python's numbers they take 400: of ten hours, 150 MB."""
    numbers = np.random.default_rng(0).random((10_000, 7)).tolist()
    tracemalloc.start()
    packed = Segments(
        Segment("a", start, end, confidence, (), None, (a, b), (c, d)) for start, end, confidence, a, b, c, d in numbers
    )
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(packed) == 10_000 and held < 100 * len(packed)
