import importlib.util
import itertools
from typing import Any

import pytest
import torch
from numba.core.caching import FunctionCache
from numba.core.registry import cpu_target
from torch import Tensor

from speechctc.model.net import Maxout

LAYOUTS = [torch.contiguous_format, torch.channels_last]
TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]  # compiled code has two of them


def largest(x: Tensor, pieces: int) -> Tensor:
    result: Tensor = x.unflatten(1, (pieces, -1)).amax(1)
    return result


@pytest.mark.parametrize("pieces", [2, 3, 5])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TYPES)
def test_values_and_gradients_are_those_of_torchs_maximum(
    pieces: int, layout: torch.memory_format, dtype: torch.dtype
) -> None:
    x = torch.randn(3, 7 * pieces, 5, 11, dtype=dtype).contiguous(memory_format=layout)
    weight = torch.randn(3, 7, 5, 11, dtype=dtype)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    y = Maxout(pieces)(ours)
    expected = largest(theirs, pieces)
    assert torch.equal(y, expected)
    assert y.is_contiguous(memory_format=layout)
    for result in (y, expected):
        result.backward(weight)
    assert ours.grad is not None and theirs.grad is not None
    if dtype in (torch.bfloat16, torch.float16):  # equal pieces are common there: amax shares the gradient, we do not
        sums = [grad.unflatten(1, (pieces, 7)).sum(1) for grad in (ours.grad, theirs.grad)]
        torch.testing.assert_close(*sums, rtol=2e-2, atol=1e-2)
    else:
        assert torch.equal(ours.grad, theirs.grad)
    with torch.no_grad():
        assert torch.equal(Maxout(pieces)(x), expected)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x[:, :, 1:4, ::2],
        lambda x: x.transpose(2, 3),
        lambda x: x.expand(2, -1, -1, -1),
        lambda x: x[:, :, :1, :1],
        lambda x: x[:, :, 0, 0],
        lambda x: x[:, :, :0],
        lambda x: x[:0],
        lambda x: x.unsqueeze(4),
    ],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_shape_and_order_in_memory_will_do(view: Any, layout: torch.memory_format) -> None:
    x = torch.randn(1, 6, 5, 11).contiguous(memory_format=layout)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    y, expected = Maxout(3)(view(ours)), largest(view(theirs), 3)
    assert torch.equal(y, expected)
    weight = torch.randn_like(expected).transpose(0, 1).contiguous().transpose(0, 1)  # gradients come in any order too
    y.backward(weight)
    expected.backward(weight)
    assert torch.equal(torch.as_tensor(ours.grad), torch.as_tensor(theirs.grad))


@pytest.mark.parametrize("dtype", TYPES)
def test_of_equal_pieces_the_first_gets_the_gradient(dtype: torch.dtype) -> None:
    x = torch.ones(1, 4, 1, 2, requires_grad=True, dtype=dtype)
    Maxout(2)(x).sum().backward()
    assert x.grad is not None and x.grad[0, :, 0, 0].tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_no_number_is_passed_on(dtype: torch.dtype, place: int) -> None:
    x = torch.randn(1, 3, 1, 40, dtype=dtype)
    x[0, place, 0, 17] = torch.nan
    x[0, place, 0, 18], x[0, place, 0, 19] = torch.inf, -torch.inf
    y = Maxout(3)(x.clone().requires_grad_()).detach()
    assert y[0, 0, 0].isnan().nonzero().flatten().tolist() == [17]
    assert y[0, 0, 0, 18] == torch.inf and y[0, 0, 0, 19].isfinite()


def test_it_keeps_a_byte_a_unit() -> None:
    kept = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.untyped_storage().nbytes())
        return tensor

    for dropout in (0.0, 0.3):
        x = torch.randn(2, 8, 3, 5, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            Maxout(2, dropout)(x)
        assert sum(kept) == x.numel() // 2
        kept.clear()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_units_are_dropped_and_the_rest_made_larger(
    layout: torch.memory_format, dtype: torch.dtype, rate: float
) -> None:
    x = torch.randn(4, 30, 20, 50, dtype=dtype)
    x = x.masked_fill(x == 0, 1).contiguous(memory_format=layout).requires_grad_()  # 0 is for those dropped
    y = Maxout(2, rate)(x)
    stays = y.detach() != 0
    assert abs(float(stays.double().mean()) - (1 - rate)) < 0.02  # 60,000 units: ten standard deviations
    for axis in range(4):  # nowhere are there more or fewer
        rest = [other for other in range(4) if other != axis]
        share, count = stays.double().mean(rest), stays.numel() / stays.shape[axis]
        assert float((share - (1 - rate)).abs().max()) < 5 * (rate * (1 - rate) / count) ** 0.5
    whole = largest(x.detach(), 2)
    torch.testing.assert_close(y.detach(), torch.where(stays, whole / (1 - rate), 0), rtol=1e-2, atol=0)
    weight = torch.randn_like(y)
    y.backward(weight)
    assert x.grad is not None
    pieces = x.grad.unflatten(1, (2, 15))
    torch.testing.assert_close(pieces.sum(1), torch.where(stays, weight / (1 - rate), 0), rtol=1e-2, atol=0)
    assert int((pieces != 0).sum(1).max()) == 1


def test_dropout_follows_torchs_seed_and_not_the_threads() -> None:
    x = torch.randn(8, 64, 13, 90).contiguous(memory_format=torch.channels_last).requires_grad_()
    threads = torch.get_num_threads()
    results = []
    try:
        for count, seed in ((1, 5), (2, 5), (3, 5), (1, 6)):
            torch.set_num_threads(count)
            torch.manual_seed(seed)
            layer = Maxout(2, 0.3)
            results.append((layer(x).detach(), layer(x).detach()))
    finally:
        torch.set_num_threads(threads)
    assert not torch.equal(*results[0])  # each call draws anew
    for other in results[1:3]:
        assert all(map(torch.equal, results[0], other))
    assert not torch.equal(results[0][0], results[3][0])


def keys_in_cache() -> list[object]:
    """Load the module anew, as another process does, and return the keys of its functions in numba's cache."""
    spec = importlib.util.find_spec("speechctc.model.maxout_cpu")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kinds = itertools.product((True, False), (torch.float32, torch.bfloat16))
    codegen = cpu_target.target_context.codegen()
    caches: list[Any] = [FunctionCache(module._source(*kind)) for kind in kinds]  # type: ignore[no-untyped-call, unused-ignore]
    return [cache._index_key(None, codegen) for cache in caches]


def test_the_next_process_finds_what_this_one_compiled() -> None:
    keys = keys_in_cache()
    assert keys == keys_in_cache() and len({str(key) for key in keys}) == 4
