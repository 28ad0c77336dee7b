"""The machine operations under the lattice, against numpy."""

from typing import Any

import numba
import numpy as np
import pytest

from speechctc.ctc.lattice import softened
from speechctc.ctc.pointers import load, memory, store


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _softened(x: int, top: Any, scale: Any, m: int, e: int, integer: Any) -> None:
    p, q = softened(load(memory(x, top), 0), top, scale)
    store(memory(m, top), 0, p)
    store(memory(e, integer), 0, q)


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _copied(x: int, y: int, like: Any) -> None:
    store(memory(y, like), 0, load(memory(x, like), 0))
    memory(y, like)[16] = memory(x, like)[16]


@pytest.mark.parametrize(("kind", "integer"), [(np.float32, np.int32), (np.float64, np.int64)])
@pytest.mark.parametrize("top", [0.0, 3.7, -88.0, 120.5, 5000.0])
def test_softened(kind: Any, integer: Any, top: float) -> None:
    x = (top - np.geomspace(1e-6, 900, 16)).astype(kind)
    m, e = np.empty_like(x), np.empty(16, integer)
    _softened(x.ctypes.data, kind(top), kind(0.3), m.ctypes.data, e.ctypes.data, integer(0))
    assert (m >= 1).all() and (m < 2).all()
    exact = np.longdouble(kind(0.3)) * np.exp(x.astype(np.longdouble) - np.longdouble(kind(top)))
    np.testing.assert_allclose(np.ldexp(m.astype(np.longdouble), e), exact, rtol=4 * np.finfo(kind).eps)


@pytest.mark.parametrize(("stored", "like"), [("float16", np.int16(0)), ("bfloat16", np.uint16(0))])
def test_halves_round_to_the_nearest(stored: str, like: Any) -> None:
    import torch

    kind = getattr(torch, stored)
    bits = torch.arange(2**16, dtype=torch.int32).to(torch.int16)
    halves = bits.view(kind)
    floats = halves.float()
    # What lies between two halves, in the middle, and next to it; infinities, NaN, and what a half cannot hold.
    middle = (floats[1:] + floats[:-1]) / 2
    beside = [torch.nextafter(middle, middle * factor) for factor in (0.5, 2)]
    extreme = torch.tensor([65519.996, 65520, 1e38, -1e38, 1e-38, -1e-45, 2.0**-25, 1.5 * 2**-25])
    values = torch.cat([extreme, floats, floats * (1 + 2**-12), middle, *beside, floats * 1.0009765625])
    values = values[: len(values) // 17 * 17].reshape(-1, 17)
    wanted = values.to(kind)
    found = torch.empty_like(wanted)
    for row in range(0, len(values), 23):
        _narrowed(values[row].contiguous().data_ptr(), found[row].data_ptr(), np.float32(0), like)
        same = (found[row] == wanted[row]) | (found[row].isnan() & wanted[row].isnan())
        assert same.all()
        back = torch.empty_like(found[row])
        _copied(found[row].data_ptr(), back.data_ptr(), like)
        assert ((back == found[row]) | back.isnan()).all()


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _narrowed(x: int, y: int, like: Any, half: Any) -> None:
    store(memory(y, half), 0, load(memory(x, like), 0))
    memory(y, half)[16] = memory(x, like)[16]
