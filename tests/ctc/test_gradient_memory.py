"""Memory of large gradients: whose it is, and that nobody else gets it before its time."""

import gc
import sys
from collections.abc import Iterator

import pytest
import torch

from speechctc.ctc import cpu

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is kept on Linux only")
SHAPE = (130, 2, 9001)  # above `gradient_memory.LARGE`


@pytest.fixture(scope="module", autouse=True)
def frozen() -> Iterator[None]:
    """Let the collector pass over all that was there before: to look through it takes 0.3 s each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin and end with no blocks."""
    gc.collect()
    cpu._kept.clear()
    yield
    gc.collect()
    cpu._kept.clear()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_shape_type_and_strides(dtype: torch.dtype) -> None:
    for like in (
        torch.empty(*SHAPE, dtype=dtype).expand(*SHAPE),
        torch.empty(SHAPE[::-1], dtype=dtype).permute(2, 1, 0),
        torch.empty(SHAPE[0], 1, SHAPE[2], dtype=dtype).expand(*SHAPE),
    ):
        made, usual = cpu.empty_like(like), torch.empty_like(like)
        assert made.shape == usual.shape and made.stride() == usual.stride() and made.dtype == dtype
        assert not made._is_view()
        made.fill_(1.5)
        assert bool((made == 1.5).all())


def test_memory_is_used_again_once_it_is_free() -> None:
    like = torch.empty(SHAPE)
    first = cpu.empty_like(like)
    place = first.data_ptr()
    second = cpu.empty_like(like)
    assert second.data_ptr() != place
    view = first[3:5]
    del first
    assert not cpu._kept  # the view still needs it
    view.fill_(7)
    third = cpu.empty_like(like)
    assert third.data_ptr() != place and bool((view == 7).all())
    del view
    assert len(cpu._kept) == 1
    assert cpu.empty_like(like).data_ptr() == place


def test_no_more_is_kept_than_said() -> None:
    held = [cpu.empty_like(torch.empty(SHAPE)) for _ in range(5)]
    held.clear()
    assert len(cpu._kept) == cpu._BLOCKS
