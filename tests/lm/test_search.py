from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from speechctc.lm.beam import INTERPRETED_WORK, Compiled, best_by_loops, best_of
from speechctc.lm.model import PhoneLM
from speechctc.lm.search import GreedySearch, LmSearch, Rows, best_labels, collapse


@pytest.mark.parametrize(
    ("path", "labels"),
    [
        ([], []),
        ([0, 0], []),
        ([1, 1, 1], [1]),
        ([1, 0, 1], [1, 1]),
        ([0, 1, 1, 0, 0, 1, 2, 2, 1, 0], [1, 1, 2, 1]),
        ([2, 2, 0, 2, 2], [2, 2]),
    ],
)
def test_collapse_merges_repeats_and_then_drops_blanks(path: list[int], labels: list[int]) -> None:
    assert collapse(path) == labels


def test_the_greedy_search_takes_the_best_class_of_each_frame() -> None:
    log_probs = np.eye(3, dtype=np.float32)[[1, 1, 0, 1, 2]]
    assert best_labels(GreedySearch(), log_probs) == [1, 1, 2]
    assert best_labels(GreedySearch(), log_probs[:0]) == []


def learned(classes: int, order: int, seed: int = 0) -> PhoneLM:
    """Return an n-gram of phones at random, some of which it never saw."""
    rng = np.random.default_rng(seed)
    sequences = [rng.integers(1, max(classes - 1, 2), size=rng.integers(0, 8)).tolist() for _ in range(12)]
    return PhoneLM.learn(sequences, classes, order)


def test_a_copy_is_whole_though_rows_are_computed_while_it_is_made() -> None:
    """As on a cluster: a worker hands its copy on while it decodes."""
    lm, expected = learned(5, 3), learned(5, 3).log_probs.copy()
    make, parts = lm.__reduce__()
    lm.tables(np.arange(len(expected) // 2))
    copy = make(*(pickle.loads(pickle.dumps(part)) for part in parts))
    np.testing.assert_array_equal(copy.log_probs, expected)


def posteriors(frames: int, classes: int, seed: int, spread: float = 2.0) -> Rows:
    values = spread * np.random.default_rng(seed).standard_normal((frames, classes))
    rows: Rows = (values - np.log(np.exp(values).sum(axis=1, keepdims=True))).astype(np.float32)
    return rows


def searched(search: LmSearch, log_probs: Rows, cuts: Sequence[int] = ()) -> tuple[Rows, NDArray[np.int64]]:
    parts = [search.push(block) for block in np.split(log_probs, cuts)] + [search.finish()]
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([path for _, path in parts])


def by_hand(log_probs: Rows, lm: PhoneLM, weight: float, bonus: float) -> tuple[float, tuple[int, ...]]:
    """Return the best score of any sequence of phones and its best path, from all paths one by one."""
    frames, classes = log_probs.shape
    paths: dict[tuple[int, ...], list[tuple[float, tuple[int, ...]]]] = {}
    for path in itertools.product(range(classes), repeat=frames):
        total = sum(float(row[label]) for row, label in zip(log_probs, path, strict=True))
        paths.setdefault(tuple(collapse(path)), []).append((total, path))

    def score(phones: tuple[int, ...]) -> float:
        heard = float(np.logaddexp.reduce([total for total, _ in paths[phones]]))
        return heard + bonus * len(phones) + weight * lm.log_prob(phones)

    phones = max(paths, key=score)
    return score(phones), max(paths[phones])[1]


def score(phones: Sequence[int], log_probs: Rows, lm: PhoneLM, weight: float, bonus: float) -> float:
    """Return what the search is to make as large as can be, by torch's loss."""
    loss = torch.nn.functional.ctc_loss(
        torch.from_numpy(log_probs).double()[:, None],
        torch.tensor([phones]),
        torch.tensor([len(log_probs)]),
        torch.tensor([len(phones)]),
        reduction="sum",
    )
    return bonus * len(phones) + weight * lm.log_prob(phones) - float(loss)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(("frames", "classes"), [(1, 2), (2, 3), (6, 2), (6, 3), (5, 4), (6, 4)])
def test_with_an_ngram_it_finds_the_best_of_all_sequences(frames: int, classes: int, order: int) -> None:
    for seed in range(4):
        lm, log_probs = learned(classes, order, seed), posteriors(frames, classes, 10 * seed + order, 1.0)
        for weight, bonus in ((0.0, 0.0), (0.7, 1.5), (2.0, 0.0), (0.3, -1.0)):
            best, expected = by_hand(log_probs, lm, weight, bonus)
            rows, path = searched(LmSearch(lm, weight, bonus, 3000, np.inf), log_probs)
            assert path.dtype == np.int64 and tuple(path.tolist()) == expected
            assert best == pytest.approx(score(collapse(path.tolist()), log_probs, lm, weight, bonus), abs=1e-5)
            np.testing.assert_array_equal(rows, log_probs)


def test_paths_of_one_sequence_count_together() -> None:
    """The best path is of blanks alone, 0.36; all paths of one phone together have 0.64."""
    log_probs = np.log(np.array([[0.6, 0.4], [0.6, 0.4]], np.float32))
    _, path = searched(LmSearch(learned(2, 1), 0.0, 0.0), log_probs)
    assert collapse(path.tolist()) == [1] and collapse(log_probs.argmax(axis=1).tolist()) == []


@pytest.mark.parametrize(("beam", "limit"), [(1, 1), (5, 3), (16, 40), (200, 10), (30, 500)])
def test_the_search_goes_the_same_way_however_frames_are_cut(beam: int, limit: int) -> None:
    lm, log_probs = learned(6, 3), posteriors(701, 6, 5, 1.0)
    _, whole = searched(LmSearch(lm, 0.9, 1.0, beam, limit=limit), log_probs)
    for cuts in (range(1, 701), [0, 0, 350, 350, 701], [7, 8, 13, 500], range(0, 701, 8)):
        rows, path = searched(LmSearch(lm, 0.9, 1.0, beam, limit=limit), log_probs, list(cuts))
        np.testing.assert_array_equal(path, whole)
        np.testing.assert_array_equal(rows, log_probs)


def test_a_frame_is_settled_in_good_time_and_paths_stay_whole() -> None:
    """Two phones that sound alike, then a pause that never ends: no path is ever out of the running by itself."""
    lm = PhoneLM.learn([[1, 3], [2, 3]], 4, 2)
    log_probs = np.full((3000, 4), -20.0, np.float32)
    log_probs[:, 0] = -1e-3
    log_probs[3] = np.log([0.02, 0.48, 0.49, 0.01])
    search, settled = LmSearch(lm, 0.5, 0.0, limit=50), 0
    for k in range(3000):
        settled += len(search.push(log_probs[k : k + 1])[1])
        assert k + 1 - settled <= 50 + 8
    rows, path = search.finish()
    assert settled + len(path) == 3000 and len(rows) == len(path)
    _, whole = searched(LmSearch(lm, 0.5, 0.0, limit=50), log_probs)
    assert whole[3] == 2 and whole.sum() == 2


@pytest.mark.parametrize("beam", [2, 40])
def test_no_sooner_than_the_limit_is_anything_given_up(beam: int) -> None:
    """Recordings shorter than the limit are searched in full: a later phone decides between two long before it."""
    lm = PhoneLM.learn([[1, 3]] * 9 + [[2, 4]] * 9, 5, 2)
    log_probs = np.full((60, 5), -20.0, np.float32)
    log_probs[:, 0] = -1e-3
    log_probs[2] = np.log([0.01, 0.50, 0.47, 0.01, 0.01])
    log_probs[55, [0, 4]] = -20.0, -1e-3
    for limit, first in ((100, 2), (20, 1)):
        _, path = searched(LmSearch(lm, 1.0, 0.0, beam, limit=limit), log_probs)
        assert collapse(path.tolist()) == [first, 4]


def test_the_search_takes_what_a_net_gone_wrong_gives_it() -> None:
    lm, log_probs = learned(4, 2), posteriors(40, 4, 2)
    log_probs[5], log_probs[6, 1], log_probs[7], log_probs[8] = np.nan, np.nan, -np.inf, np.inf
    rows, path = searched(LmSearch(lm, 0.7, 1.0), log_probs)
    assert path.shape == (40,) and set(path.tolist()) <= set(range(4))
    np.testing.assert_array_equal(rows, log_probs)


@pytest.mark.parametrize(("classes", "beam", "limit", "spread"), [(6, 1, 3, 1.0), (9, 16, 30, 2.0), (40, 64, 100, 4.0)])
def test_the_interpreter_and_the_compiler_find_the_same(
    classes: int, beam: int, limit: int, spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one goes on with what the other began."""
    lm, log_probs = learned(classes, 3), posteriors(99, classes, beam, spread)
    found = []
    for turns in ([True], [False], [True, False], [False, False, True]):
        turn = itertools.cycle(turns)
        monkeypatch.setattr(Compiled, "is_worth_it", lambda work, turn=turn: next(turn))
        _, path = searched(LmSearch(lm, 0.7, 1.0, beam, limit=limit), log_probs, range(7, 99, 7))
        whole = LmSearch(lm, 0.7, 1.0, beam, limit=100)
        whole.push(log_probs[:50])
        whole.push(log_probs[50:90])
        found.append((path.tolist(), [(each.labels, each.total, each.acoustic) for each in whole.hypotheses()]))
    assert len(found[0][0]) == 99 and found[1:] == found[:1] * 3


@pytest.mark.parametrize("recordings", [1, 8, 9, 1000])
def test_only_a_long_search_loads_the_compiler(recordings: int) -> None:
    code = """
import sys
import numpy as np
from speechctc.lm.beam import INTERPRETED_WORK, expect
from speechctc.lm.search import LmSearch
from speechctc.lm.model import PhoneLM
def search(frames):
    LmSearch(PhoneLM.learn([[1, 2]], 3, 2), 1.0, 0.0, 8).push(np.zeros((frames, 3), np.float32))
expect(RECORDINGS)
search(INTERPRETED_WORK // 64)
assert ('numba' in sys.modules) == (RECORDINGS > 8)
search(INTERPRETED_WORK // 8)
assert 'numba' in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code.replace("RECORDINGS", str(recordings))], check=True)


def test_a_short_search_does_not_wait_for_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """While another thread loads it, a search goes on by the interpreter; a long one waits."""
    lm, log_probs = learned(6, 3), posteriors(99, 6, 16)
    monkeypatch.setattr(Compiled, "is_worth_it", lambda work: True)
    paths = [searched(LmSearch(lm, 0.7, 1.0), log_probs)[1].tolist()]
    monkeypatch.setattr(Compiled, "loaded", None)
    with Compiled.loading:
        paths.append(searched(LmSearch(lm, 0.7, 1.0), log_probs)[1].tolist())
        assert Compiled.function(1) is None
    assert paths[0] == paths[1] and Compiled.function(INTERPRETED_WORK + 1) is not None


@pytest.mark.parametrize(("count", "kept"), [(1, 1), (2, 1), (9, 9), (300, 20), (300, 299)])
@pytest.mark.parametrize("best", [best_of, best_by_loops])
def test_the_best_come_first_and_of_equal_ones_the_first(
    best: Callable[..., NDArray[np.int64]], count: int, kept: int
) -> None:
    scores = np.round(np.random.default_rng(count).normal(size=count), 1)
    assert best(scores, kept).tolist() == sorted(range(count), key=lambda n: (-scores[n], n))[:kept]
