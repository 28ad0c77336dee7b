"""The threads of a recording, while several share them."""

import gc
from collections.abc import Iterator

import pytest

from speechctc.core import parallel
from speechctc.core.errors import InputError
from speechctc.core.training_process import only_training


@pytest.fixture(autouse=True)
def eight_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in which the rows of a recording are shared by up to eight threads."""
    monkeypatch.setenv(parallel.BLAS_THREADS, "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "8")


def begun(jobs: int) -> Iterator[object]:
    iterator = iter(parallel.map_in_threads(lambda item: item, range(4), jobs))
    next(iterator)
    return iterator


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_iterators_side_by_side_give_the_threads_back_in_any_order(first_ends_first: bool) -> None:
    assert parallel.threads_per_recording() == 8
    first = begun(2)
    assert parallel.threads_per_recording() == 4
    second = begun(4)
    assert parallel.threads_per_recording() == 1
    ends, stays, left = (first, second, 2) if first_ends_first else (second, first, 4)
    assert len(list(ends)) == 3
    assert parallel.threads_per_recording() == left
    assert len(list(stays)) == 3
    assert parallel.threads_per_recording() == 8


def test_an_iterator_that_nobody_ends_gives_them_back_too() -> None:
    kept, dropped = begun(2), begun(2)
    assert parallel.threads_per_recording() == 2
    del dropped
    gc.collect()
    assert parallel.threads_per_recording() == 4
    del kept
    gc.collect()
    assert parallel.threads_per_recording() == 8


def test_one_training_at_a_time_and_the_next_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), only_training():
        with pytest.raises(InputError, match="another training is under way in this process"):
            only_training().__enter__()
        raise ZeroDivisionError
    with only_training():
        pass
