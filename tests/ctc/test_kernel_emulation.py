"""The emulation itself: a wrong kernel must not pass for a right one."""

import multiprocessing
import struct

import pytest
import torch

from tests.ctc import emulation
from tests.ctc.emulation.guarded import Guarded

pytestmark = pytest.mark.skipif(emulation.WHY_NOT is not None, reason=str(emulation.WHY_NOT))
WARPS, BLOCKS = 4, 3
RIGHT = sum(range(32 * WARPS))


def run(mistake: int, seed: int) -> list[int]:
    result = Guarded().empty((BLOCKS,), torch.int32)
    arguments = struct.pack("=Q", result.data_ptr())
    emulation.launch("mistakes", (("MISTAKE", mistake),), arguments, BLOCKS, 32 * WARPS, 0, seed)
    return result.tolist()


def test_a_right_kernel_is_right_in_any_order() -> None:
    assert all(run(0, seed) == BLOCKS * [RIGHT] for seed in range(10))


@pytest.mark.parametrize(("mistake", "message"), [(1, "a shuffle that not all lanes"), (2, "a barrier that not all")])
def test_threads_that_stay_away_are_missed(mistake: int, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        run(mistake, seed=0)


def test_a_missing_barrier_shows_in_some_order() -> None:
    assert any(run(3, seed) != BLOCKS * [RIGHT] for seed in range(10))


def test_a_wild_write_cannot_go_unseen() -> None:
    emulation.build("mistakes", (("MISTAKE", 4),))
    process = multiprocessing.get_context("spawn").Process(target=run, args=(4, 0))
    process.start()
    process.join()
    assert process.exitcode == -11  # a segmentation fault
