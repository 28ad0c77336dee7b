from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from speechctc.model.net import Convolution


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("utterances", [1, 2, 3, 5])
@pytest.mark.parametrize(("kernel", "stride"), [((3, 5), 1), ((3, 5), 2), ((3, 3), 1), ((1, 5), 1)])
def test_gradients_in_bfloat16_are_those_in_float64_but_for_rounding(
    utterances: int, kernel: tuple[int, int], stride: int, threads: int
) -> None:
    torch.manual_seed(utterances)
    layer = Convolution(6, 10, kernel, (1, stride), (kernel[0] // 2, kernel[1] // 2))
    exact = torch.nn.Conv2d(6, 10, kernel, (1, stride), (kernel[0] // 2, kernel[1] // 2), dtype=torch.float64)
    exact.load_state_dict(layer.state_dict())
    x = torch.randn(utterances, 6, 7, 23).contiguous(memory_format=torch.channels_last).requires_grad_()
    reference = x.detach().double().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    expected = exact(reference)
    weights = torch.randn_like(expected)
    assert y.dtype == torch.bfloat16 and y.shape == expected.shape
    (y.float() * weights.float()).sum().backward()
    (expected * weights).sum().backward()
    pairs = [(y, expected), (x.grad, reference.grad)]
    pairs += [(getattr(layer, name).grad, getattr(exact, name).grad) for name in ("weight", "bias")]
    for ours, theirs in pairs:
        assert ours is not None and theirs is not None
        assert (ours.double() - theirs).norm() < 0.01 * theirs.norm()


def test_without_autocast_it_is_torchs_own_to_the_bit() -> None:
    layer = Convolution(3, 4, (3, 5), padding=(1, 2))
    x = torch.randn(3, 3, 7, 20)
    assert torch.equal(layer(x), torch.nn.functional.conv2d(x, layer.weight, layer.bias, padding=(1, 2)))


class Calls(TorchDispatchMode):
    """Records the batch size and the type of each convolution whose gradient by the weights is computed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.by_weight: list[tuple[int, torch.dtype]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten.convolution_backward.default and args[-1][1]:
            self.by_weight.append((len(args[1]), args[1].dtype))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("utterances", [1, 2, 3, 5, 6])
def test_threads_never_share_an_utterance_in_bfloat16(utterances: int, threads: int) -> None:
    layer = Convolution(3, 4, (3, 5), padding=(1, 2))
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(torch.randn(utterances, 3, 7, 20))
    with Calls() as calls:
        y.float().sum().backward()
    even = utterances - utterances % threads
    assert sum(count for count, _ in calls.by_weight) == utterances
    assert [count for count, dtype in calls.by_weight if dtype == torch.bfloat16] == ([even] if even else [])


POISONED = """
import ctypes, torch
from speechctc.model.net import Convolution
libc = ctypes.CDLL(None)
libc.mallopt(-3, 1 << 30), libc.mallopt(-1, 1 << 40)  # memory that was freed is used again
torch.set_num_threads(2)
layer = Convolution(32, 64, (3, 5), padding=(1, 2))
for frames in (91, 123, 154, 181, 185, 188) * 6:
    for utterances in (1, 3):
        x = torch.randn(utterances, 32, 14, frames).contiguous(memory_format=torch.channels_last)
        for size in (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000):
            torch.full((size,), float("nan"))
        layer.weight.grad = None
        with torch.autocast("cpu", torch.bfloat16):
            y = layer(x)
        y.float().sum().backward()
        assert layer.weight.grad.isfinite().all(), (utterances, frames)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's settings of malloc are used")
@pytest.mark.skipif(not torch.cpu.get_capabilities().get("amx_bf16"), reason="the fault is in oneDNN's code for AMX")
def test_what_lies_in_memory_that_nobody_wrote_does_not_matter() -> None:
    subprocess.run([sys.executable, "-c", POISONED], check=True)
