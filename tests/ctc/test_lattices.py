"""Random lattices, from sure to undecided and short to long, against float64 and against PyTorch."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from speechctc.ctc import ctc_loss
from tests.ctc.cases import GRADIENT, Case, assert_close, random_case, reference

CPU = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def cases(draw: st.DrawFn, longest: int, most: int) -> Case:
    """Batches at temperatures 0.5 to 60, with up to `most` states times frames."""
    frames = int(math.exp(draw(st.floats(0, math.log(longest)))))
    labels = draw(st.integers(0, min(frames, most // (2 * frames) - 1, 300)))
    return random_case(
        frames,
        draw(st.integers(1, 3)),
        draw(st.integers(2, 70)),
        labels,
        temperature=draw(st.floats(0.5, 60)),
        seed=draw(st.integers(0, 2**31)),
        ragged=draw(st.booleans()),
    )


@CPU
@given(cases(longest=4000, most=200_000))
def test_cpu_agrees_with_float64(case: Case) -> None:
    leaf = case.logits.clone().requires_grad_()
    losses = ctc_loss(leaf, *case[1:], reduction="none", backend="cpu")
    (gradient,) = torch.autograd.grad(losses.sum(), leaf)
    assert_close((losses.detach(), gradient), reference(case))


@CPU
@given(cases(longest=60, most=10_000))
def test_float64_agrees_with_pytorch(case: Case) -> None:
    logits = case.logits.double() / 10  # where PyTorch does not overflow
    wanted = functional.ctc_loss(logits.log_softmax(-1), *case[1:], reduction="none")
    for backend in ("cpu", "reference"):
        found = ctc_loss(logits, *case[1:], reduction="none", backend=backend)
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@CPU
@given(cases(longest=300, most=20_000))
def test_float64_is_as_exact_as_float64(case: Case) -> None:
    leaf = case.logits.double().requires_grad_()
    losses = ctc_loss(leaf, *case[1:], reduction="none", backend="cpu")
    (gradient,) = torch.autograd.grad(losses.sum(), leaf)
    wanted = reference(case._replace(logits=leaf.detach()))
    torch.testing.assert_close(losses.detach(), wanted[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradient, wanted[1], rtol=0, atol=1e-9)


def test_more_exact_than_pytorch() -> None:
    # The claim of the docstring, on the shape of phoneme recognition.
    case = random_case(400, 4, 62, 40, temperature=10, ragged=False)
    wanted = reference(case)[1]
    leaf = case.logits.clone().requires_grad_()
    ours = ctc_loss(leaf, *case[1:], reduction="sum")
    theirs = functional.ctc_loss(leaf.log_softmax(-1), *case[1:], reduction="sum")
    errors = [(torch.autograd.grad(loss, leaf)[0].double() - wanted).abs().max() for loss in (ours, theirs)]
    assert errors[0] <= GRADIENT
    assert errors[1] > 1e-4
