"""The loss as a part of PyTorch: derivatives, autocast, torch.compile."""

from typing import Any

import pytest
import torch
from torch import Tensor

from speechctc.ctc import ctc_loss
from speechctc.ctc.loss import Reduction
from tests.ctc.cases import Case, random_case
from tests.ctc.conftest import Backend


@pytest.fixture(scope="module")
def case() -> Case:
    """Three samples of unequal lengths."""
    return random_case(9, 3, 5, 3, seed=2)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_gradcheck(backend: Backend, case: Case, reduction: Reduction) -> None:
    leaf = case.logits.double().to(backend.device).requires_grad_()
    torch.autograd.gradcheck(lambda x: backend.loss(x, *case[1:], reduction=reduction), leaf, fast_mode=True)


def test_each_loss_has_its_own_factor(backend: Backend, case: Case) -> None:
    plain = backend.both(*case)[1]
    leaf = case.logits.clone().to(backend.device).requires_grad_()
    factors = torch.tensor([2.0, 0.0, -0.5])
    losses = backend.loss(leaf, *case[1:], reduction="none")
    (gradient,) = torch.autograd.grad(losses, leaf, factors.to(backend.device))
    torch.testing.assert_close(gradient.cpu(), plain * factors[:, None])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_the_scale_multiplies_loss_and_gradient(backend: Backend, reduction: Reduction, packed: bool) -> None:
    """As a multiplication of the loss afterwards does; in float16 before the gradient is rounded."""
    case = random_case(6, 3, 5, 2, seed=2, ragged=False)
    logits = case.logits.transpose(0, 1).reshape(18, 5) if packed else case.logits
    found: list[list[Tensor]] = []
    for inside, outside in ((0.03, 1.0), (1.0, 0.03)):
        leaf = logits.clone().to(backend.device).requires_grad_()
        loss = backend.loss(leaf, *case[1:], reduction=reduction, packed=packed, scale=inside) * outside
        (gradient,) = torch.autograd.grad(2 * loss.sum(), leaf)
        found.append([loss.detach().cpu(), gradient.cpu()])
    torch.testing.assert_close(found[0], found[1], rtol=1e-6, atol=1e-7)
    short = logits.half().to(backend.device).requires_grad_()
    late = backend.loss(short, *case[1:], reduction=reduction, packed=packed, scale=0.03)
    (gradient,) = torch.autograd.grad(2 * late.sum(), short)
    torch.testing.assert_close(gradient.cpu().float(), found[0][1], rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_compiled_loss_has_a_scale_too(case: Case, dtype: torch.dtype) -> None:
    found = []
    for call in (ctc_loss, torch.compile(ctc_loss, fullgraph=True, backend="aot_eager")):
        leaf = case.logits.clone().to(dtype).requires_grad_()
        loss = call(leaf, *case[1:], scale=0.25)
        found.append((loss.detach(), *torch.autograd.grad(loss, leaf)))
    torch.testing.assert_close(found[1], found[0])
    by_func = torch.func.grad(lambda x: ctc_loss(x, *case[1:], scale=0.25))(case.logits.clone().to(dtype))
    torch.testing.assert_close(by_func, found[0][1])


def test_twice_through_one_graph(backend: Backend, case: Case) -> None:
    leaf = case.logits.clone().to(backend.device).requires_grad_()
    loss = backend.loss(leaf, *case[1:])
    (first,) = torch.autograd.grad(3 * loss, leaf, retain_graph=True)
    kept = first.clone()
    (second,) = torch.autograd.grad(loss, leaf)
    assert torch.equal(first, kept)
    torch.testing.assert_close(3 * second, first)


def test_no_second_derivative(case: Case) -> None:
    leaf = case.logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(ctc_loss(leaf, *case[1:]), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="first derivative only"):
        gradient.sum().backward()


def test_autocast(case: Case) -> None:
    layer = torch.nn.Linear(5, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = layer(case.logits)
        loss = ctc_loss(logits, *case[1:])
    assert logits.dtype == torch.bfloat16 and loss.dtype == torch.float32
    loss.backward()
    assert layer.weight.grad is not None and layer.weight.grad.dtype == torch.float32


def test_operator_is_well_made(case: Case) -> None:
    for leaf in (case.logits.clone(), case.logits.clone().requires_grad_()):
        arguments = (leaf, *case[1:], 0, False, "mean", False, "cpu", 1.0, leaf.requires_grad)
        tests = ("test_schema", "test_faketensor", "test_autograd_registration")
        torch.library.opcheck(torch.ops.speechctc.ctc_loss, arguments, test_utils=tests)


def test_packed_operator() -> None:
    case = random_case(6, 3, 5, 2, ragged=False)
    packed = case.logits.transpose(0, 1).reshape(18, 5)
    factors = torch.tensor([1.0, 2.0, 3.0])
    gradients: list[Tensor] = []
    for call in (ctc_loss, torch.compile(ctc_loss, fullgraph=True, backend="aot_eager")):
        leaf = packed.clone().requires_grad_()
        losses = call(leaf, *case[1:], reduction="none", packed=True)
        gradients += torch.autograd.grad(losses, leaf, factors)
    torch.testing.assert_close(gradients[1], gradients[0])


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_compiles_into_one_graph(case: Case, reduction: Reduction) -> None:
    def step(logits: Tensor) -> Tensor:
        losses = ctc_loss(logits * 2, case.targets, case.input_lengths, [3, 2, 1], reduction=reduction)
        return losses.square().sum()

    plain, compiled = (case.logits.clone().requires_grad_() for _ in range(2))
    expected = step(plain)
    expected.backward()
    found = torch.compile(step, fullgraph=True, backend="aot_eager")(compiled)
    found.backward()
    torch.testing.assert_close(found, expected)
    assert plain.grad is not None
    torch.testing.assert_close(compiled.grad, plain.grad)


def losses_of(case: Case, logits: Tensor, **others: Any) -> Tensor:
    return ctc_loss(logits, *case[1:], **others)


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_vmap_is_one_slice_after_the_other(case: Case, reduction: Reduction) -> None:
    several = torch.randn(4, *case.logits.shape, generator=torch.Generator().manual_seed(3))
    found = torch.func.vmap(lambda logits: losses_of(case, logits, reduction=reduction))(several)
    torch.testing.assert_close(found, torch.stack([losses_of(case, each, reduction=reduction) for each in several]))
    last = torch.func.vmap(lambda logits: losses_of(case, logits), in_dims=3)(several.movedim(0, 3))
    torch.testing.assert_close(last, torch.stack([losses_of(case, each) for each in several]))


def test_gradients_by_torch_func_are_those_of_autograd(case: Case) -> None:
    several = torch.randn(2, *case.logits.shape, generator=torch.Generator().manual_seed(4))
    leaf = several.clone().requires_grad_()
    sum(3 * losses_of(case, each) for each in leaf).backward()  # type: ignore[union-attr]
    for_each = torch.func.vmap(torch.func.grad(lambda logits: 3 * losses_of(case, logits)))
    of_all = torch.func.grad(lambda all: 3 * torch.func.vmap(lambda one: losses_of(case, one))(all).sum())
    assert leaf.grad is not None
    torch.testing.assert_close(for_each(several), leaf.grad)
    torch.testing.assert_close(of_all(several), leaf.grad)


@pytest.mark.parametrize("packed", [False, True])
def test_jacrev_has_a_row_for_each_sample(packed: bool) -> None:
    case = random_case(6, 3, 5, 2, ragged=False)
    logits = case.logits.transpose(0, 1).reshape(18, 5) if packed else case.logits
    rows = torch.func.jacrev(lambda logits: losses_of(case, logits, reduction="none", packed=packed))(logits)
    leaf = logits.clone().requires_grad_()
    for k, loss in enumerate(losses_of(case, leaf, reduction="none", packed=packed)):
        torch.testing.assert_close(rows[k], torch.autograd.grad(loss, leaf, retain_graph=True)[0])


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is ")  # torch's own, in forward mode; its kind goes by release
def test_derivatives_that_are_not_there_are_refused_in_words(case: Case) -> None:
    def loss(logits: Tensor) -> Tensor:
        return losses_of(case, logits, reduction="none")

    with pytest.raises(RuntimeError, match="no forward-mode derivative"):
        torch.func.jacfwd(loss)(case.logits)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match="no forward-mode derivative"):
        loss(torch.autograd.forward_ad.make_dual(case.logits, torch.ones_like(case.logits)))
    with pytest.raises(RuntimeError, match="first derivative only"):
        torch.func.grad(lambda x: torch.func.grad(lambda y: loss(y).sum())(x).sum())(case.logits)
    leaf = case.logits.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="no batched gradients"):
        torch.autograd.grad(loss(leaf), leaf, torch.eye(3), is_grads_batched=True)
