"""The machine operations under the lattice, against numpy."""

from typing import Any

import numba
import numpy as np
import pytest

from speechctc.ctc.lattice import exponent, exponential, power, significand, softened
from speechctc.ctc.pointers import load, memory, store
from speechctc.ctc.simd import after, before, largest, maximum, minimum, splat, total

FLOATS = [np.float32, np.float64]


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _softened(x: int, top: Any, scale: Any, m: int, e: int, integer: Any) -> None:
    p, q = softened(load(memory(x, top), 0), top, scale)
    store(memory(m, top), 0, p)
    store(memory(e, integer), 0, q)


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _exponential(x: int, y: int, like: Any) -> None:
    store(memory(y, like), 0, exponential(load(memory(x, like), 0)))


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _rebuilt(x: int, y: int, like: Any) -> None:
    lanes = load(memory(x, like), 0)
    store(memory(y, like), 0, significand(lanes) * power(exponent(lanes)))


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _power(e: int, y: int, integer: Any, like: Any) -> None:
    store(memory(y, like), 0, power(load(memory(e, integer), 0)))


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _mixed(x: int, y: int, like: Any) -> Any:
    low, high = load(memory(x, like), 0), load(memory(x, like), 16)
    store(memory(y, like), 0, before(low, high))
    store(memory(y, like), 16, after(low, high))
    store(memory(y, like), 32, maximum(low, high) - minimum(low, high) * 2 + splat(like))
    return total(low), largest(low)


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _copied(x: int, y: int, like: Any) -> None:
    store(memory(y, like), 0, load(memory(x, like), 0))
    memory(y, like)[16] = memory(x, like)[16]


@pytest.mark.parametrize("kind", FLOATS)
def test_exponential(kind: Any) -> None:
    for start in (0.0, -0.5, -3, -20, -60, -80):
        x = np.linspace(start, start - 6, 16).astype(kind)
        y = np.empty_like(x)
        _exponential(x.ctypes.data, y.ctypes.data, kind(0))
        np.testing.assert_allclose(y, np.exp(x.astype(np.longdouble)), rtol=3 * np.finfo(kind).eps)


@pytest.mark.parametrize("kind", FLOATS)
def test_exponential_of_extremes(kind: Any) -> None:
    x = np.full(16, -1e4, kind)
    x[:4] = [0, -np.inf, np.nan, -1e30]
    y = np.empty_like(x)
    _exponential(x.ctypes.data, y.ctypes.data, kind(0))
    assert y[0] == 1 and np.isnan(y[2]) and not y[[1, 3]].any() and not y[4:].any()


@pytest.mark.parametrize(("kind", "integer"), [(np.float32, np.int32), (np.float64, np.int64)])
@pytest.mark.parametrize("top", [0.0, 3.7, -88.0, 120.5, 5000.0])
def test_softened(kind: Any, integer: Any, top: float) -> None:
    x = (top - np.geomspace(1e-6, 900, 16)).astype(kind)
    m, e = np.empty_like(x), np.empty(16, integer)
    _softened(x.ctypes.data, kind(top), kind(0.3), m.ctypes.data, e.ctypes.data, integer(0))
    assert (m >= 1).all() and (m < 2).all()
    exact = np.longdouble(kind(0.3)) * np.exp(x.astype(np.longdouble) - np.longdouble(kind(top)))
    np.testing.assert_allclose(np.ldexp(m.astype(np.longdouble), e), exact, rtol=4 * np.finfo(kind).eps)


@pytest.mark.parametrize("excluded", [-np.inf, np.nan, -1e30])
def test_softened_to_nothing(excluded: float) -> None:
    x = np.full(16, excluded, np.float32)
    m, e = np.empty_like(x), np.empty(16, np.int32)
    _softened(x.ctypes.data, np.float32(1), np.float32(1), m.ctypes.data, e.ctypes.data, np.int32(0))
    assert (e < -(2**28)).all() and np.isfinite(m).all()


@pytest.mark.parametrize("kind", FLOATS)
def test_significand_and_exponent(kind: Any) -> None:
    x = np.geomspace(1e-30, 1e30, 16).astype(kind)
    y = np.empty_like(x)
    _rebuilt(x.ctypes.data, y.ctypes.data, kind(0))
    assert np.array_equal(x, y)


@pytest.mark.parametrize(("kind", "integer"), [(np.float32, np.int32), (np.float64, np.int64)])
def test_power_is_exact_and_zero_where_it_underflows(kind: Any, integer: Any) -> None:
    least = int(np.log2(np.finfo(kind).tiny))
    e = np.array([0, 1, -1, 100, least, least - 1, least - 2, -(2**20), *range(-8, 0)], integer)
    y = np.empty(16, kind)
    _power(e.ctypes.data, y.ctypes.data, integer(0), kind(0))
    assert np.array_equal(y, np.where(e < least, kind(0), np.exp2(np.maximum(e, least)).astype(kind)))


@pytest.mark.parametrize("kind", FLOATS)
def test_neighbours_choices_and_folds(kind: Any) -> None:
    x = np.random.default_rng(0).normal(size=32).astype(kind)
    y = np.empty(48, kind)
    added, most = _mixed(x.ctypes.data, y.ctypes.data, kind(0.5))
    assert np.array_equal(y[:16], x[15:31]) and np.array_equal(y[16:32], x[1:17])
    np.testing.assert_allclose(y[32:], np.maximum(x[:16], x[16:]) - 2 * np.minimum(x[:16], x[16:]) + 0.5, rtol=1e-6)
    assert added == pytest.approx(x[:16].sum(), abs=1e-5) and most == x[:16].max()


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
