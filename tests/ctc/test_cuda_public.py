"""`ctc_loss` on a GPU that is emulated: what it asks of torch besides the kernels, and what it answers."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from speechctc.ctc import ctc_loss, cuda, loss, problem
from speechctc.ctc.loss import Reduction
from tests.ctc import emulation
from tests.ctc.cases import Case, random_case, reference
from tests.ctc.test_cuda_launch import gpu  # noqa: F401  a fixture that every test here uses

pytestmark = pytest.mark.skipif(emulation.WHY_NOT is not None, reason=str(emulation.WHY_NOT))

HARMLESS = {"aten.empty", "aten.empty_like", "aten.empty_strided", "aten.detach", "aten.alias", "aten.view"}
HARMLESS |= {"aten.unsqueeze", "aten.squeeze", "aten.new_empty", "aten.reshape", "aten.ones_like"}
LOOKS = {"item", "tolist", "numpy", "cpu", "cuda", "to", "__bool__", "__int__", "__float__", "__len__", "nonzero"}


class Operators(TorchDispatchMode):
    """Counts the operators that a GPU would have to run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.run: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.run[str(func).rpartition(".")[0]] += 1
        return func(*args, **(kwargs or {}))


class NoLooks(TorchFunctionMode):
    """Counts what would make the host look at values."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in LOOKS:
            self.looks.append(name)
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything pass for a tensor on a GPU: no values are at hand, and derivatives are scaled there."""
    for module in (loss, cuda, problem):
        monkeypatch.setattr(module, "is_on_cpu", lambda tensor: False)
    monkeypatch.setattr(loss, "is_seen", lambda *tensors: False)  # `Operators` looks on
    monkeypatch.setattr(loss, "is_scaled_on_gpu", lambda gradient, grad_output: grad_output.dim() == 0)


def loss_of(case: Case, leaf: Tensor, **options: Any) -> Tensor:
    return ctc_loss(leaf, *case[1:], backend="cuda", **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nothing_but_kernels_and_room_for_results(
    reduction: Reduction, zero_infinity: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No copy, no fill, no reduction, no look at a value: a CUDA graph can hold the call, and the host never waits."""
    case = random_case(20, 3, 9, 4, dtype=dtype)
    leaf = case.logits.clone().requires_grad_()
    ones = torch.ones(())
    monkeypatch.setattr("speechctc.ctc.loss.is_seen", lambda *tensors: False)  # else one operator is all they see
    with NoLooks() as host, Operators() as device:
        loss = loss_of(case, leaf, reduction=reduction, zero_infinity=zero_infinity)
        loss_of(case, leaf.detach(), reduction=reduction, zero_infinity=zero_infinity)
        if reduction != "none":  # else torch multiplies the gradient, sample by sample
            torch.autograd.grad(loss, leaf, ones)
    assert set(device.run) <= HARMLESS, device.run
    assert host.looks == []


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_kernel_reduces(reduction: Reduction) -> None:
    """Over more samples than a warp has lanes, in any order of blocks; with the gradient and without."""
    case = random_case(9, 40, 5, 3)
    leaf = case.logits.clone().requires_grad_()
    loss = loss_of(case, leaf, reduction=reduction)
    exact = case.logits.double().requires_grad_()
    wanted = ctc_loss(exact, *case[1:], reduction=reduction, backend="reference")
    torch.testing.assert_close(loss.double(), wanted, rtol=1e-6, atol=1e-6)
    assert torch.equal(loss_of(case, case.logits, reduction=reduction), loss)
    (gradient,) = torch.autograd.grad(3 * loss, leaf)
    (by_book,) = torch.autograd.grad(3 * wanted, exact)
    torch.testing.assert_close(gradient.double(), by_book, rtol=0, atol=5e-6)


def test_infinite_losses_are_zeroed_by_the_kernel_but_faults_are_not() -> None:
    case = random_case(12, 3, 6, 4, ragged=False)
    short = case._replace(input_lengths=torch.tensor([12, 1, 0]))
    losses = loss_of(short, case.logits, reduction="none", zero_infinity=True)
    assert losses[1:].tolist() == [0, 0] and losses[0] > 0
    mean = loss_of(short, case.logits, zero_infinity=True)
    torch.testing.assert_close(mean, losses[0] / 4 / 3)
    targets = case.targets.clone()
    targets[1, 2] = 6
    assert loss_of(case._replace(targets=targets), case.logits, zero_infinity=True).isinf()
    with pytest.raises(ValueError, match=r"sample 1: label 6 is the blank or outside 0\.\.5"):
        cuda.check()


def test_float16_keeps_what_a_gradient_scaler_lifts() -> None:
    """Entries of the mean's gradient below 6e-8, which a float16 cannot hold, times 65536."""
    case = random_case(60, 8, 30, 20, dtype=torch.float16, temperature=4)
    leaf = case.logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(65536 * loss_of(case, leaf), leaf)
    shares = 1 / (8 * case.target_lengths.clamp(min=1))
    wanted = reference(case)[1] * shares[:, None] * 65536
    tiny = (wanted.abs() > 6e-5) & (wanted.abs() < 65536 * 3e-8)
    assert tiny.sum() > 100
    error = (gradient.double() - wanted).abs()
    assert (error <= 2**-11 * wanted.abs() + 65536 * 5e-6 / 160).all()
    assert (error[tiny] < 0.01 * wanted[tiny].abs()).all()


def test_each_sample_has_its_own_factor_in_float16() -> None:
    case = random_case(20, 3, 9, 4, dtype=torch.float16)
    leaf = case.logits.clone().requires_grad_()
    factors = torch.tensor([2.0, 0.0, -0.5])
    (gradient,) = torch.autograd.grad(loss_of(case, leaf, reduction="none"), leaf, factors)
    torch.testing.assert_close(gradient.double(), reference(case)[1] * factors[:, None], rtol=2**-11, atol=5e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("count", [1, 3, 16, 17, 1001, 100_003])
def test_a_gradient_is_scaled_to_its_last_element(count: int, dtype: torch.dtype) -> None:
    """By vectors, and what is left by itself; nothing beside it is touched."""
    whole = torch.randn(count + 32, generator=torch.Generator().manual_seed(count)).to(dtype)
    wanted = whole.clone()
    wanted[:count] = (wanted[:count].to(torch.float64) * -0.3).to(dtype)
    cuda.scale_(whole[:count], torch.tensor(-0.3))
    torch.testing.assert_close(whole, wanted)
    assert torch.equal(whole[count:], wanted[count:])


def test_counters_of_samples_are_not_shared() -> None:
    """One to a stream, one to each captured launch, and a fresh one where all are taken."""
    tickets = cuda.Tickets(torch.device("cpu"))
    first, second = tickets.take(1), tickets.take(2)
    assert tickets.take(1) is first and first.data_ptr() != second.data_ptr()
    captured = {tickets.take(None).data_ptr() for _ in range(tickets.COUNT - 2)}
    assert len(captured | {first.data_ptr(), second.data_ptr()}) == tickets.COUNT
    late = tickets.take(3)
    assert late.item() == 0 and late.data_ptr() not in captured
    assert tickets.take(1) is first
