from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from speechctc.model.convolution import Convolution, weight_gradient


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


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize(("utterances", "frames"), [(1, 1), (1, 2), (3, 4), (2, 5), (5, 23), (4, 186)])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (7, 10), (64, 48)])
@pytest.mark.parametrize("span", [1, 3, 5, 9])
def test_products_for_each_frame_are_the_gradient_by_the_weights(
    span: int, inputs: int, outputs: int, utterances: int, frames: int, layout: torch.memory_format
) -> None:
    torch.manual_seed(frames)
    x = torch.randn(utterances, inputs, 1, frames).contiguous(memory_format=layout)
    gradient = torch.randn(utterances, outputs, 1, frames).contiguous(memory_format=layout)
    weight = torch.randn(outputs, inputs, 1, span)
    geometry = ((1, 1), (0, span // 2), (1, 1), False, (0, 0), 1, (False, True, False))
    exact = torch.ops.aten.convolution_backward(gradient.double(), x.double(), weight.double(), None, *geometry)[1]
    found = weight_gradient(gradient, x, weight, span // 2)
    assert found.shape == weight.shape and found.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=2e-6 * float(exact.abs().max()))


@pytest.mark.parametrize("capability", ["AVX2", "AVX512"])
@pytest.mark.parametrize("wants_x", [True, False])
def test_layers_over_frames_alone_have_the_gradients_of_float64(
    wants_x: bool, capability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: capability)
    layer = Convolution(6, 10, (1, 5), padding=(0, 2))
    exact = torch.nn.Conv2d(6, 10, (1, 5), padding=(0, 2), dtype=torch.float64)
    exact.load_state_dict(layer.state_dict())
    x = torch.randn(3, 6, 1, 23).contiguous(memory_format=torch.channels_last).requires_grad_(wants_x)
    reference = x.detach().double().requires_grad_(wants_x)
    with Calls() as calls:
        y = layer(x)
        weights = torch.randn_like(y)
        (y * weights).sum().backward()
    assert bool(calls.by_weight) is (capability != "AVX2")
    assert torch.equal(y, torch.nn.functional.conv2d(x, layer.weight, layer.bias, padding=(0, 2)))
    (exact(reference) * weights).sum().backward()
    pairs = [(getattr(layer, name).grad, getattr(exact, name).grad) for name in ("weight", "bias")]
    pairs += [(x.grad, reference.grad)] * wants_x
    for ours, theirs in pairs:
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=2e-6 * float(theirs.abs().max()))


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
from speechctc.model.convolution import Convolution, weight_gradient
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
