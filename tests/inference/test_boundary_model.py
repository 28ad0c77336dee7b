"""A boundary model that learns tones whose boundaries are known; its lattice against all ways, one by one."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from speechctc.core.errors import InputError
from speechctc.inference import refinement
from speechctc.inference.boundary_model import (
    DIMS,
    EDGE,
    FILE,
    SHIFT_DIMS,
    SILENCE,
    SPREAD,
    BoundaryModel,
    durations_of,
    has_closures,
    phone_vectors,
    sides_of,
    spelled,
)
from speechctc.inference.refinement import Window, refined
from speechctc.inference.segmenter import Segment
from speechctc.inference.semi_crf import IMPOSSIBLE, RARE, Lattice, marginals
from speechctc.model.checkpoint import arrays_of
from speechctc.phones.inventory import CMU39, TIMIT61
from speechctc.stages import train_boundaries
from speechctc.stages.train_boundaries import BoundaryNet, _gradients, examples_of, joined, spread_for, train

RATE = 16000
HERTZ = {"a": 800.0, "i": 2400.0, "s": 5200.0, "m": 300.0}
Times = tuple[tuple[float, float], ...]
Floats = NDArray[np.float64]
Song = tuple[NDArray[np.float32], tuple[str, ...], Times]


def song(count: int, rng: np.random.Generator, pause: bool = False) -> Song:
    """Return tones that follow each other without a gap, between silences; in the middle a pause, if wanted."""
    labels = [str(rng.choice(list(HERTZ)))]
    while len(labels) < count:
        labels += [str(rng.choice([each for each in HERTZ if each != labels[-1]]))]
    at = 0.1
    parts: list[Floats] = [np.zeros(int(0.1 * RATE))]
    times: list[tuple[float, float]] = []
    for k, label in enumerate(labels):
        if pause and k == count // 2:
            parts.append(np.zeros(int(0.12 * RATE)))
            at += 0.12
        steps = np.arange(int(rng.uniform(0.05, 0.12) * RATE))
        parts.append(0.3 * np.sin(2 * np.pi * HERTZ[label] * steps / RATE))
        times.append((at, at + len(steps) / RATE))
        at = times[-1][1]
    samples = np.concatenate([*parts, np.zeros(int(0.1 * RATE))])
    return (samples + 1e-3 * rng.standard_normal(len(samples))).astype(np.float32), tuple(labels), tuple(times)


@pytest.fixture(scope="module")
def model() -> BoundaryModel:
    """A small model that has learned 80 songs, with weights as they are in a file."""
    torch.manual_seed(0)
    net, rng = BoundaryNet(48, 3), np.random.default_rng(0)
    songs = [song(int(rng.integers(4, 9)), rng, k % 2 == 0) for k in range(80)]
    train(net, [part for each in songs for part in examples_of(each[0], RATE, *each[1:], False)], noise=False)
    return BoundaryModel(arrays_of(net.half().float().state_dict()), RATE)


def rough_times(times: Times, rng: np.random.Generator, spread: float = 0.03) -> tuple[Floats, Floats]:
    starts = np.sort([start + rng.uniform(-spread, spread) for start, _ in times])
    return starts, np.append(starts[1:], times[-1][1] + 0.05)


def test_boundaries_of_tones_are_found(model: BoundaryModel) -> None:
    rng = np.random.default_rng(5)
    errors = []
    for _ in range(6):
        samples, labels, times = song(8, rng)
        placed = model.place(samples, labels, False, *rough_times(times, rng), pauses=True)
        errors += [*(placed.starts - [start for start, _ in times]), placed.ends[-1] - times[-1][1]]
        assert np.array_equal(placed.starts[1:], placed.ends[:-1])
    assert np.median(np.abs(errors)) < 0.004 and np.mean(np.abs(errors) < 0.02) > 0.95


def test_a_pause_that_no_label_stands_for_is_found(model: BoundaryModel) -> None:
    samples, labels, times = song(8, np.random.default_rng(9), pause=True)
    rough = rough_times(times, np.random.default_rng(1))
    placed = model.place(samples, labels, False, *rough, pauses=True)
    assert (placed.ends[3], placed.starts[4]) == pytest.approx((times[3][1], times[4][0]), abs=0.015)
    without = model.place(samples, labels, False, *rough, pauses=False)
    assert without.ends[3] == without.starts[4]


def test_what_sounds_like_the_first_or_last_phone_in_a_pause_does_not_draw_it_away(model: BoundaryModel) -> None:
    samples, labels, times = song(8, np.random.default_rng(3))
    steps = np.arange(RATE)
    noises = [(0.2 * np.sin(2 * np.pi * HERTZ[labels[k]] * steps / RATE)).astype(np.float32) for k in (0, -1)]
    starts, ends = (0.9 + np.array(each) for each in zip(*times, strict=True))
    sound = np.concatenate([noises[0], samples[RATE // 10 : -RATE // 10], noises[1]])
    placed = model.place(sound, labels, False, starts, ends, pauses=True)
    assert placed.starts[0] > starts[0] - EDGE - 0.006 and placed.ends[-1] < ends[-1] + EDGE + 0.006
    assert np.abs(placed.starts[1:-1] - starts[1:-1]).max() < 0.02


def test_boundaries_never_cross_however_rough_the_times(model: BoundaryModel) -> None:
    rng = np.random.default_rng(2)
    samples, labels, times = song(12, rng)
    placed = model.place(samples, labels, False, *rough_times(times, rng, 0.3), pauses=True)
    assert (np.diff(placed.starts) > 0.004).all() and (placed.ends > placed.starts).all()


def test_intervals_hold_boundaries_that_were_not_used_to_set_their_spread(model: BoundaryModel) -> None:
    errors: list[Floats] = []
    for seed in (20, 21):
        rng, found = np.random.default_rng(seed), []
        for _ in range(12):
            samples, labels, times = song(8, rng)
            samples += 0.1 * rng.standard_normal(len(samples)).astype(np.float32)
            placed = model.place(samples, labels, False, *rough_times(times, rng), pauses=False)
            true = np.array([start for start, _ in times])
            assert placed.start_intervals is not None and placed.end_intervals is not None
            assert (placed.start_intervals[:, 0] < placed.starts).all()
            assert (placed.start_intervals[:, 1] > placed.starts).all()
            assert np.allclose(placed.end_intervals[:-1], placed.start_intervals[1:])
            sides = np.abs(placed.start_intervals - placed.starts[:, None])
            found.append(np.column_stack([placed.starts - true, sides]))
        errors.append(np.concatenate(found))
    spread = spread_for(errors[0][:, 0], errors[0][:, 1:], model.spread)
    assert spread is not None and spread_for(errors[0][:10, 0], errors[0][:10, 1:], model.spread) is None
    late, sides = errors[1][:, 0], errors[1][:, 1:] * spread / model.spread
    assert 0.85 < np.mean((late <= sides[:, 0]) & (-late <= sides[:, 1])) <= 1.0


def test_too_short_a_sound_keeps_the_rough_times(model: BoundaryModel) -> None:
    starts, ends = np.array([0.0, 0.01, 0.02]), np.array([0.01, 0.02, 0.03])
    assert model.place(np.zeros(480, np.float32), "ais", False, starts, ends, False) == (starts, ends, None, None)


def test_a_long_recording_is_refined_in_parts_as_well_as_a_short_one(model: BoundaryModel) -> None:
    rng = np.random.default_rng(7)
    sounds, segments, true, at = [], [], [], 0.0
    for count in (90, 1, 40):
        samples, labels, times = song(count, rng)
        starts, ends = rough_times(times, rng, 0.02)
        segments += [Segment(*each, 1.0) for each in zip(labels, at + starts, at + ends, strict=True)]
        true += [at + start for start, _ in times]
        sounds += [samples, (1e-3 * rng.standard_normal(5 * RATE)).astype(np.float32)]
        at += len(samples) / RATE + 5.0
    whole = np.concatenate(sounds)
    blocks = [whole[k : k + 7000] for k in range(0, len(whole), 7000)]
    found = refined(segments, Window(blocks, model.rate), model, tuple(HERTZ))
    errors = np.abs([each.start - start for each, start in zip(found, true, strict=True)])
    assert np.median(errors) < 0.004 and np.mean(errors < 0.02) > 0.98
    assert all(a.start < a.end <= b.start for a, b in zip(found, found[1:], strict=False))
    assert [each.phone for each in found] == [each.phone for each in segments]


def test_boundaries_depend_little_on_where_a_recording_is_divided(
    model: BoundaryModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loudness and the colour of the sound change; what is subtracted from a frame must not depend on its part."""
    rng = np.random.default_rng(11)
    samples, labels, times = song(120, rng)
    samples *= np.interp(np.arange(len(samples)), [0, len(samples)], [0.02, 1.0]).astype(np.float32)
    segments = [Segment(*each, 1.0) for each in zip(labels, *rough_times(times, rng), strict=True)]
    ways = []
    for each in (60, 47, 30):
        monkeypatch.setattr(refinement, "EACH", each)
        found = refined(segments, Window([samples], model.rate), model, tuple(HERTZ))
        ways.append([segment.start for segment in found])
    assert np.ptp(ways, axis=0).max() < 1e-3


def test_the_gradient_is_that_of_the_loss() -> None:
    samples, labels, times = song(4, np.random.default_rng(1), pause=True)
    (example,) = examples_of(samples, RATE, labels, times, False)
    rng = np.random.default_rng(0)
    shape = (3, len(example.state), len(example.optional))
    first, second, third = torch.from_numpy(rng.normal(size=shape))
    scores = (first, second, third)
    gradients, loss = _gradients(scores, example)
    assert loss > 0
    for kind, (frame, state) in ((0, (30, 3)), (1, (25, 3)), (2, (26, 3))):
        scores[kind][frame, state] += 1e-4
        _, more = _gradients(scores, example)
        scores[kind][frame, state] -= 1e-4
        assert (more - loss) / 1e-4 == pytest.approx(float(gradients[kind][frame, state]), abs=1e-3)


def test_examples_leave_out_phones_without_duration_and_divide_long_utterances() -> None:
    samples, labels, times = song(150, np.random.default_rng(4))
    parts = list(examples_of(samples, RATE, labels, times, False))
    assert len(parts) == 2 and sum(len(part.frames) for part in parts) == pytest.approx(len(samples) / 80, abs=4)
    assert sum(int((~part.optional).sum()) for part in parts) == 150
    (left,) = examples_of(samples, RATE, labels, ((0.1, 0.1), *times[1:]), False)
    assert len(left.optional) == len(parts[1].optional)


def test_silences_in_a_row_are_one_state_and_alone_no_example() -> None:
    samples, times = np.zeros(RATE, np.float32), ((0.0, 0.2), (0.2, 0.3), (0.3, 0.6), (0.6, 1.0))
    (example,) = examples_of(samples, RATE, (SILENCE, SILENCE, "a", SILENCE), times, False)
    assert not [*examples_of(samples, RATE, [SILENCE] * 4, times, False)]
    assert example.optional.tolist() == [True, False, True]
    assert (np.flatnonzero(np.diff(example.state)) * 0.005 + 0.0105).tolist() == pytest.approx([0.3, 0.6], abs=0.0026)


def test_a_model_is_read_as_it_was_written(model: BoundaryModel, tmp_path: Path) -> None:
    assert BoundaryModel.load(tmp_path) is None
    model.save(tmp_path / FILE)
    again = BoundaryModel.load(tmp_path)
    assert again and (again.rate, again.spread) == (RATE, SPREAD)
    assert all(np.array_equal(again.weights[name], each) for name, each in model.weights.items())
    usual = durations_of(phone_vectors("aismasim", False), np.linspace(1, 8, 8), np.arange(8) // 4)
    BoundaryModel(model.weights, RATE, 2.5, durations=usual).save(tmp_path / FILE)
    wide = BoundaryModel.load(tmp_path)
    assert wide and wide.spread == 2.5 and np.array_equal(np.asarray(wide.durations), usual)


def test_durations_are_learned_apart_from_the_rate_of_a_recording() -> None:
    rng, labels = np.random.default_rng(0), list("aismut") * 200
    vectors, recordings = phone_vectors(labels, False), np.repeat(np.arange(60), 20)
    usual = np.array([{"a": -2.0, "m": -3.0}.get(each, -2.5) for each in labels])
    rates = rng.normal(0, 0.5, 60)[recordings]
    found = durations_of(vectors, np.exp(usual + rates + rng.normal(0, 0.3, len(labels))), recordings)
    means = vectors @ found[:-2] + found[-2]
    assert np.abs(means - usual - means.mean() + usual.mean()).max() < 0.1 and found[-1] == pytest.approx(0.3, abs=0.02)


def test_sound_that_says_nothing_is_divided_as_is_usual_at_its_rate(model: BoundaryModel) -> None:
    """The net's scores are all 0; the first phone lasts three times as long as the second; silence as it likes."""
    silent = {name: np.zeros_like(each) for name, each in model.weights.items()}
    slope = phone_vectors(["a", "i"], False)[0] - phone_vectors(["a", "i"], False)[1]
    usual = np.array([*(np.log(3) * slope / (slope @ slope)), -2.0, 0.2], np.float32)
    rough, sound = (np.array([0.0, 0.2]), np.array([0.2, 0.4])), np.zeros(round(0.4 * RATE), np.float32)
    even, uneven = (BoundaryModel(silent, RATE, durations=each) for each in (None, usual))
    ways = (even, "ai"), (uneven, "ai"), (uneven, ("i", SILENCE))
    placed = [each.place(sound, labels, False, *rough, False, (False, False)).starts[1] for each, labels in ways]
    assert placed[::2] == pytest.approx([0.2, 0.2], abs=0.02) and 0.24 < placed[1] < 0.3


def test_a_shift_moves_boundaries_by_the_sounds_beside_them(model: BoundaryModel, tmp_path: Path) -> None:
    """Later by 4 ms, after silence by 9, and earlier before s; phones keep a frame. Labels that are no sounds stay."""
    shift = np.zeros(SHIFT_DIMS, np.float32)
    shift[[0, 1]] = 0.004, 0.005
    before_s = phone_vectors(["s"], False)[0, 4:16] - phone_vectors(["m"], False)[0, 4:16]
    shift[15:] = -0.012 * before_s / (before_s @ before_s)
    BoundaryModel(model.weights, RATE, shift=shift).save(tmp_path / FILE)
    moved = BoundaryModel.load(tmp_path)
    assert moved is not None
    for seed in range(5):
        samples, labels, times = song(7, np.random.default_rng(seed), pause=True)
        rough = rough_times(times, np.random.default_rng(seed))
        plain, found = (each.place(samples, labels, False, *rough, pauses=True) for each in (model, moved))
        vectors = phone_vectors([SILENCE, *labels], False)
        late = sides_of(vectors) @ shift
        room = (plain.ends[0] - plain.starts[0] - 0.005) / 2
        assert found.starts[0] - plain.starts[0] == pytest.approx(min(late[0], room), abs=1e-6)
        touch = plain.ends[:-1] == plain.starts[1:]
        assert (np.abs(found.starts[1:] - plain.starts[1:])[touch] <= np.abs(late[1:])[touch] + 1e-9).all()
        assert ((found.starts[1:] - plain.starts[1:])[touch] * late[1:][touch] >= 0).all()
        assert (found.ends - found.starts >= 0.005 - 1e-9).all() and (found.starts[1:] >= found.ends[:-1]).all()
        assert plain.start_intervals is not None and found.start_intervals is not None
        np.testing.assert_allclose(np.diff(plain.start_intervals), np.diff(found.start_intervals), atol=1e-9)
        one, other = (each.place(samples, labels, True, *rough, pauses=True).starts for each in (model, moved))
        np.testing.assert_array_equal(one, other)
    assert not sides_of(phone_vectors(["s", "7?", "m"], False)).any()


def test_what_a_net_knew_is_kept_in_part_when_it_learns_further(
    model: BoundaryModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {name: torch.from_numpy(each) for name, each in model.weights.items()}
    samples, labels, times = song(6, np.random.default_rng(7))
    examples = [*examples_of(samples, RATE, labels, times, False)]
    found = []
    for kept in (0.0, 0.3):
        monkeypatch.setattr(train_boundaries, "KEPT", kept)
        net = BoundaryNet(48, 3)
        net.load_state_dict(before)
        train(net, examples, further=True)
        found.append(net.state_dict())
    for name, old in before.items():
        assert not torch.equal(found[0][name], old)
        torch.testing.assert_close(found[1][name], 0.7 * found[0][name] + 0.3 * old)


def test_a_damaged_model_is_refused(model: BoundaryModel, tmp_path: Path) -> None:
    model.save(tmp_path / FILE)
    content = (tmp_path / FILE).read_bytes()
    for damaged in (content[: len(content) // 2], content.replace(b'"format":"1"', b'"format":"9"')):
        (tmp_path / FILE).write_bytes(damaged)
        with pytest.raises(InputError, match="not a boundary model"):
            BoundaryModel.load(tmp_path)
    last = np.eye(1, DIMS + 2, DIMS + 1, dtype=np.float32)[0]
    wrong = [np.zeros(5, np.float32), *(each * last for each in (-0.5, 0.0, np.nan, 1e9))]
    cases: Any = (0, 1.0), (RATE, np.nan), (RATE, 1.0, wrong[0]), *((RATE, 1.0, None, each) for each in wrong)
    for others in cases:
        BoundaryModel(model.weights, *others).save(tmp_path / FILE)
        with pytest.raises(InputError, match="not a boundary model"):
            BoundaryModel.load(tmp_path)


def random_lattice(frames: int, optional: str, seed: int) -> Lattice:
    """Return a lattice of as many states as there are digits; two of three have scores of up to three frames."""
    rng, shape = np.random.default_rng(seed), (frames, len(optional))
    low, high = np.zeros(shape[1], np.int64), np.full(shape[1], frames)
    inside, entered, skipped = (rng.normal(0, 2, shape) for _ in range(3))
    skipped[:, [k for k in range(1, shape[1]) if optional[k - 1] == "0"]] = 2000.0  # no way leaves such a state out
    lasting = rng.normal(0, 2, (4, shape[1]))
    lasting[:, ::3] = np.nan
    return Lattice(inside, entered, skipped, np.array([*optional]) == "1", low, high, lasting)


def all_ways(lattice: Lattice) -> dict[tuple[int, ...], float]:
    """Return the score of every way by its state in each frame."""
    frames, states = lattice.inside.shape
    ways = {}
    for way in product(range(states), repeat=frames):
        steps = np.diff(way)
        begins = way[0] == 0 or (way[0] == 1 and lattice.optional[0])
        ends = way[-1] == states - 1 or (way[-1] == states - 2 and lattice.optional[-1])
        allowed = all(b - a in (0, 1) or (b - a == 2 and lattice.optional[a + 1]) for a, b in pairwise(way))
        inside = all(lattice.low[s] <= t < lattice.high[s] for t, s in enumerate(way))
        if begins and ends and allowed and inside:
            score = sum(lattice.inside[t, s] for t, s in enumerate(way))
            for t, step in enumerate(steps, start=1):
                score += (0.0, lattice.entered[t, way[t]], lattice.skipped[t, way[t]])[step]
            for s, count in Counter(way).items():
                if not np.isnan(lattice.lasting[0, s]):
                    own = lattice.lasting[count, s] if count < len(lattice.lasting) else -np.inf
                    score += np.logaddexp(own, -RARE)
            ways[way] = score
    return ways


@pytest.mark.parametrize(
    ("frames", "optional"), [(5, "10101"), (6, "0010"), (4, "0"), (3, "10"), (6, "1001"), (1, "101")]
)
def test_probabilities_are_those_of_all_ways(frames: int, optional: str) -> None:
    lattice = random_lattice(frames, optional, frames)
    ways = all_ways(lattice)
    total = np.logaddexp.reduce(list(ways.values()))
    inside, entered, skipped = (np.zeros(lattice.inside.shape) for _ in range(3))
    for way, score in ways.items():
        share = np.exp(score - total)
        for t, s in enumerate(way):
            inside[t, s] += share
            step = s - way[t - 1] if t else 0
            entered[t, s] += share * (step == 1)
            skipped[t, s] += share * (step == 2)
    found = marginals(lattice)
    assert found.total == pytest.approx(total)
    for one, other in zip(found[1:], (inside, entered, skipped), strict=True):
        assert np.allclose(one, other, atol=1e-12)


def test_a_band_is_kept_and_too_few_frames_have_no_way() -> None:
    assert marginals(random_lattice(2, "000", 1)).total < IMPOSSIBLE
    lattice = random_lattice(6, "10101", 3)
    lattice.low[:], lattice.high[:] = (0, 0, 2, 3, 4), (2, 4, 5, 6, 6)
    ways = all_ways(lattice)
    found = marginals(lattice)
    assert found.total == pytest.approx(np.logaddexp.reduce(list(ways.values())))
    assert 0 < len(ways) < len(all_ways(random_lattice(6, "10101", 3)))
    assert np.allclose(found.inside.sum(1), 1)


def test_vectors_of_phones() -> None:
    """TIMIT's silences are one, hh and hv and a few vowels are near; a set with closures has releases."""
    vectors = phone_vectors(spelled(TIMIT61, True), True)
    assert vectors.shape == (61, DIMS) and np.isfinite(vectors).all() and not vectors[:, 2].any()
    assert len(np.unique(vectors, axis=0)) >= 52
    arpabet, ipa = ("t", "sh", "iy", "aw", "ch"), ("t", "ʃ", "i", "aʊ", "tʃ")
    assert np.array_equal(phone_vectors(spelled(arpabet, True), False), phone_vectors(ipa, False))
    unknown = phone_vectors(["X1", "X2"], False)
    assert unknown[:, 2].tolist() == [1, 1] and not np.array_equal(*unknown)
    assert has_closures(TIMIT61) and not has_closures(CMU39)
    assert (phone_vectors(["t", "a"], False) != phone_vectors(["t", "a"], True)).sum(1).tolist() == [1, 0]


def test_closures_are_joined_with_the_stops_that_touch_them() -> None:
    phones = spelled(["h#", "tcl", "t", "iy", "kcl", "m", "tcl", "ch", "pau", "bcl", "b"], True)
    times = *((k / 10, (k + 1) / 10) for k in range(10)), (1.05, 1.1)  # b begins later than bcl ends
    labels, spans = joined(phones, times)
    assert labels == (SILENCE, "t", "i", "k", "m", "tʃ", SILENCE, "b", "b")
    assert spans[1] == (0.1, 0.3) and spans[5] == (0.6, 0.8) and spans[3] == (0.4, 0.5)
