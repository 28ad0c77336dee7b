"""What the loss takes, and what it says of what it does not take."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from speechctc.ctc import CTCLoss, ctc_loss
from speechctc.ctc.problem import make_problem
from tests.ctc.cases import Case, random_case, reference
from tests.ctc.conftest import Backend


@pytest.fixture(scope="module")
def case() -> Case:
    """Three samples of unequal lengths."""
    return random_case(12, 3, 6, 4, seed=1)


def flat(case: Case) -> Tensor:
    """Targets of the samples, one after the other."""
    return torch.cat([row[:length] for row, length in zip(case.targets, case.target_lengths, strict=True)])


# ---------------------------------------------------------------------------------------- layouts


def test_concatenated_targets(backend: Backend, case: Case) -> None:
    padded, joined = backend.both(*case), backend.both(case.logits, flat(case), *case[2:])
    assert torch.equal(padded[0], joined[0]) and torch.equal(padded[1], joined[1])


@pytest.mark.parametrize("kind", [list, tuple, torch.Tensor.int, torch.Tensor.long, torch.Tensor.short])
def test_kinds_of_lengths(case: Case, kind: Any) -> None:
    plain = ctc_loss(*case)
    made = [kind(x.tolist()) if kind in (list, tuple) else kind(x) for x in case[2:]]
    assert torch.equal(plain, ctc_loss(*case[:2], *made))
    assert torch.equal(plain, ctc_loss(case.logits, case.targets.int(), made[0], case.target_lengths.int()))


@pytest.mark.parametrize("classes", [6, 150])
def test_strides(backend: Backend, classes: int) -> None:
    case = random_case(12, 3, classes, 4, seed=1)
    plain = backend.both(*case)
    for order in ((1, 0, 2), (2, 1, 0), (2, 0, 1)):
        back = [order.index(axis) for axis in range(3)]
        turned = case.logits.permute(order).contiguous().permute(back)
        assert turned.stride() != case.logits.stride()
        losses, gradient = backend.both(turned, *case[1:])
        torch.testing.assert_close(losses, plain[0])
        torch.testing.assert_close(gradient, plain[1])


def test_a_slice_of_logits(backend: Backend) -> None:
    case = random_case(20, 3, 40, 5)
    around = torch.full((24, 7, 60), torch.nan)
    around[2:22, 1:7:2, 3:43] = case.logits
    part = around[2:22, 1:7:2, 3:43]
    losses, gradient = backend.both(part, *case[1:])
    plain = backend.both(*case)
    torch.testing.assert_close(losses, plain[0])
    torch.testing.assert_close(gradient, plain[1])


def test_one_sample_without_a_batch(backend: Backend, case: Case) -> None:
    logits, targets = case.logits[:, 0], case.targets[0, :3]
    batched = backend.both(logits[:, None], targets[None], [12], [3])
    for lengths in ((12, 3), ([12], [3]), (torch.tensor(12), torch.tensor([3]))):
        losses, gradient = backend.both(logits, targets, *lengths)
        assert losses.shape == () and gradient.shape == logits.shape
        assert losses == batched[0][0] and torch.equal(gradient, batched[1][:, 0])


@pytest.mark.parametrize("classes", [6, 200])
def test_packed_frames(backend: Backend, classes: int) -> None:
    case = random_case(12, 3, classes, 4, seed=1)
    padded = backend.both(*case)
    pieces = [case.logits[:length, sample] for sample, length in enumerate(case.input_lengths)]
    losses, gradient = backend.both(torch.cat(pieces), *case[1:], packed=True)
    torch.testing.assert_close(losses, padded[0], rtol=0, atol=0)
    for sample, rows in enumerate(gradient.split(case.input_lengths.tolist())):
        torch.testing.assert_close(rows, padded[1][: len(rows), sample], rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_types_of_logits(fast: Backend, dtype: torch.dtype) -> None:
    for classes in (9, 40):  # fewer than a block of 16, and more
        case = random_case(30, 3, classes, 6, dtype=dtype)
        losses, gradient = fast.both(*case)
        wanted = reference(case)
        assert gradient.dtype == dtype
        assert losses.dtype == (dtype if dtype == torch.float64 else torch.float32)
        # A half is rounded once, to the nearest.
        rounding = {torch.bfloat16: 2**-8, torch.float16: 2**-11}.get(dtype, 0.0)
        error = (gradient.double() - wanted[1]).abs() - rounding * wanted[1].abs()
        assert error.max() < (1e-12 if dtype == torch.float64 else 1e-6)
        torch.testing.assert_close(losses.double(), wanted[0], rtol=1e-6, atol=0)


# -------------------------------------------------------------------------------------- reductions


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_reductions_are_pytorchs(backend: Backend, case: Case, reduction: str, zero_infinity: bool) -> None:
    lengths = torch.tensor([12, 1, 9])  # the second sample does not fit
    options = {"reduction": reduction, "zero_infinity": zero_infinity}
    found = backend.loss(case.logits, case.targets, lengths, case.target_lengths, **options).cpu()
    log_p = case.logits.log_softmax(-1)
    wanted = functional.ctc_loss(log_p, case.targets, lengths, case.target_lengths, 0, reduction, zero_infinity)
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_gradient_of_reductions(fast: Backend, case: Case, reduction: str) -> None:
    shares = 1 / (3 * case.target_lengths.clamp(min=1)) if reduction == "mean" else torch.ones(3)
    leaf = case.logits.clone().to(fast.device).requires_grad_()
    fast.loss(leaf, *case[1:], reduction=reduction).mul(2).backward()
    assert leaf.grad is not None
    wanted = reference(case)[1] * shares[:, None] * 2
    torch.testing.assert_close(leaf.grad.cpu().double(), wanted, rtol=0, atol=1e-6)


def test_module(case: Case) -> None:
    module = CTCLoss(blank=5, reduction="sum", zero_infinity=True)
    targets = case.targets - 1
    assert torch.equal(
        module(case.logits, targets, *case[2:]), ctc_loss(case.logits, targets, *case[2:], 5, "sum", True)
    )
    assert "blank=5" in repr(module)


# ------------------------------------------------------------------------------------------ errors

LOGITS = torch.zeros(10, 3, 6)
TARGETS = torch.tensor([[1, 2, 3, 4], [1, 1, 0, 0], [5, 4, 3, 0]])


def test_the_keywords_of_pytorch_are_taken(case: Case) -> None:
    given = {"targets": case.targets, "input_lengths": case.input_lengths, "target_lengths": case.target_lengths}
    named: Any = {"log_probs": case.logits.log_softmax(-1), **given}
    wanted = functional.ctc_loss(**named)
    for found in (ctc_loss(**named), CTCLoss()(**named), torch.nn.CTCLoss()(**named)):
        torch.testing.assert_close(found, wanted)
    for loss in (ctc_loss, CTCLoss()):
        with pytest.raises(TypeError, match="both 'logits' and 'log_probs'"):
            loss(logits=case.logits, **named)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"input_lengths": [10, 11, 10]}, "sample 1: input length 11 exceeds the 10 frames"),
        ({"input_lengths": [10, 10, -1]}, "sample 2: input length -1 is negative"),
        ({"target_lengths": [4, 5, 3]}, "sample 1: target length 5 exceeds the 4 columns"),
        ({"target_lengths": [-4, 2, 3]}, "sample 0: target length -4 is negative"),
        ({"target_lengths": [4, 2, 4]}, "sample 2: label 0 at position 3 is the blank"),
        ({"targets": TARGETS + 1}, "sample 2: label 6 at position 0 is outside 0..5"),
        ({"targets": TARGETS - 9}, "sample 0: label -8 at position 0 is outside 0..5"),
        ({"targets": torch.tensor([1, 2, 3])}, "sample 0: target length 4 exceeds the 3 labels"),
        ({"targets": TARGETS.flatten()}, "there are 12 labels, but target_lengths add up to 9"),
        ({"targets": TARGETS[:2]}, r"there are 3 samples, but padded targets of shape \(2, 4\)"),
        ({"targets": TARGETS.float()}, "targets are torch.float32; they must be integers"),
        ({"targets": TARGETS[None]}, r"targets have shape \(1, 3, 4\)"),
        ({"input_lengths": [10, 10]}, "there are 3 samples, but 2 input_lengths and 3 target_lengths"),
        ({"input_lengths": torch.ones(3)}, "input_lengths are torch.float32; they must be integers"),
        ({"target_lengths": torch.ones(3, 1).long()}, r"target_lengths have shape \(3, 1\)"),
        ({"logits": LOGITS.int()}, "logits are torch.int32"),
        ({"logits": LOGITS[0, 0]}, r"logits have shape \(6,\)"),
        ({"logits": LOGITS[:, :0]}, "there are 0 samples"),
        (
            {"logits": LOGITS[:, :0], "targets": TARGETS[:0], "input_lengths": [], "target_lengths": []},
            "batch is empty",
        ),
        ({"blank": 6}, r"blank 6 is outside 0\.\.5"),
        ({"blank": -1}, r"blank -1 is outside 0\.\.5"),
        ({"reduction": "max"}, "reduction is 'max'; it must be one of none, mean, sum"),
        ({"backend": "gpu"}, "backend is 'gpu'; it must be one of auto, cpu, cuda, torch, reference"),
        ({"packed": True}, "packed"),
        (
            {"packed": True, "logits": LOGITS[:, 0]},
            "there are 10 frames in the packed logits, but input_lengths add up to 30",
        ),
    ],
)
def test_what_does_not_fit_is_named(changed: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "logits": LOGITS,
        "targets": TARGETS,
        "input_lengths": [10, 10, 10],
        "target_lengths": [4, 2, 3],
    }
    with pytest.raises(ValueError, match=message):
        ctc_loss(**(arguments | changed))


def test_bad_labels_in_padding_are_fine() -> None:
    wild = TARGETS.clone()
    wild[1, 2:] = 10**9
    wild[2, 3] = -5
    assert torch.equal(ctc_loss(LOGITS, wild, [10] * 3, [4, 2, 3]), ctc_loss(LOGITS, TARGETS, [10] * 3, [4, 2, 3]))


def test_no_silent_replacement() -> None:
    with pytest.raises(ValueError, match="the CPU backend takes logits on the CPU; these are on meta"):
        from speechctc.ctc import cpu

        cpu.loss_and_gradient(make_problem(LOGITS.to("meta"), TARGETS, [10] * 3, [4, 2, 3]), want_gradient=False)
    if not torch.cuda.is_available():
        with pytest.raises((RuntimeError, ValueError), match="CUDA"):
            ctc_loss(LOGITS, TARGETS, [10] * 3, [4, 2, 3], backend="cuda")
