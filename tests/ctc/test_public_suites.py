"""Cases and values that other CTC losses are tested with in public; each checked by the sum over all paths, too.

TensorFlow: kernel_tests/nn_ops/ctc_loss_op_test.py (from Graves's own program), Keras: src/ops/nn_test.py and
src/losses/losses_test.py, warp-ctc: tests/test_cpu.cpp and torch_binding/TUTORIAL.md, k2: ctc_gradients_test.py,
optax: losses/_classification_test.py, PyTorch: test/test_nn.py.
"""

import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from speechctc.ctc import CTCLoss, ctc_loss
from speechctc.ctc.loss import Reduction
from tests.ctc.conftest import Backend
from tests.ctc.test_reference import all_paths


class Known(NamedTuple):
    """A sample with a loss that was published, to the digits that were, and a gradient where that was."""

    logits: list[list[float]]
    labels: list[int]
    blank: int
    loss: float
    gradient: list[list[float]] | None = None


def logs(rows: list[list[float]]) -> list[list[float]]:
    return [[math.log(p) for p in row] for row in rows]


GRAVES_0 = [
    [0.633766, 0.221185, 0.0917319, 0.0129757, 0.0142857, 0.0260553],
    [0.111121, 0.588392, 0.278779, 0.0055756, 0.00569609, 0.010436],
    [0.0357786, 0.633813, 0.321418, 0.00249248, 0.00272882, 0.0037688],
    [0.0663296, 0.643849, 0.280111, 0.00283995, 0.0035545, 0.00331533],
    [0.458235, 0.396634, 0.123377, 0.00648837, 0.00903441, 0.00623107],
]
GRAVES_1 = [
    [0.30176, 0.28562, 0.0831517, 0.0862751, 0.0816851, 0.161508],
    [0.24082, 0.397533, 0.0557226, 0.0546814, 0.0557528, 0.19549],
    [0.230246, 0.450868, 0.0389607, 0.038309, 0.0391602, 0.202456],
    [0.280884, 0.429522, 0.0326593, 0.0339046, 0.0326856, 0.190345],
    [0.423286, 0.315517, 0.0338439, 0.0393744, 0.0339315, 0.154046],
]


def less_one(rows: list[list[float]], path: list[int]) -> list[list[float]]:
    """The gradient where only one path fits: the probabilities, less 1 where the path goes."""
    return [[p - (k == at) for k, p in enumerate(row)] for row, at in zip(rows, path, strict=True)]


KNOWN = {
    "tensorflow, first of the batch": Known(
        logs(GRAVES_0), [0, 1, 2, 1, 0], 5, 3.34211, less_one(GRAVES_0, [0, 1, 2, 1, 0])
    ),
    "tensorflow, second of the batch": Known(
        logs(GRAVES_1), [0, 1, 1, 0], 5, 5.42262, less_one(GRAVES_1, [0, 1, 5, 1, 0])
    ),
    "warp-ctc, small": Known([[0.1, 0.6, 0.1, 0.1, 0.1], [0.1, 0.1, 0.6, 0.1, 0.1]], [1, 2], 0, 2.4628584),
    "warp-ctc and k2, one frame": Known([[0.0] * 5], [1], 0, 1.6094379),
    "warp-ctc and k2, a label twice": Known(
        [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12, 13, 14, 15]], [3, 3], 0, 7.3557429
    ),
    "warp-ctc and k2, below zero": Known(
        [[-5, -4, -3, -2, -1], [-10, -9, -8, -7, -6], [-15, -14, -13, -12, -11]], [2, 3], 0, 4.9388504
    ),
    "keras, three labels": Known([[0.4, 0.8, 0.4], [0.2, 0.8, 0.3], [0.9, 0.4, 0.5]], [1, 2, 1], 0, 3.4411672),
    "keras, two labels": Known([[0.4, 0.8, 0.4], [0.2, 0.3, 0.3]], [1, 2], 0, 1.9168019),
}


def by_paths(known: Known) -> tuple[float, NDArray[np.float64]]:
    """The loss and its gradient, from all classes ** frames paths."""
    logits = np.array(known.logits, np.float64)
    mass, occupied = all_paths(logits, np.array(known.labels), known.blank)
    return -math.log(mass), np.exp(logits) / np.exp(logits).sum(1, keepdims=True) - occupied


@pytest.mark.parametrize("name", KNOWN)
def test_what_others_publish(backend: Backend, name: str) -> None:
    known = KNOWN[name]
    loss, gradient = by_paths(known)
    assert loss == pytest.approx(known.loss, rel=2e-6)
    if known.gradient is not None:
        np.testing.assert_allclose(gradient, known.gradient, atol=2e-6)
    sizes = [len(known.logits)], [len(known.labels)]
    logits = torch.tensor(known.logits, dtype=torch.float32)[:, None]
    found = backend.both(logits, torch.tensor(known.labels), *sizes, blank=known.blank)
    assert found[0].item() == pytest.approx(loss, rel=1e-6)
    np.testing.assert_allclose(found[1][:, 0], gradient, atol=1e-6)


def test_tensorflows_batch_with_nan_behind_its_ends(backend: Backend) -> None:
    """Two samples of five frames, in seven; and each in the place of the other classes' order (time_major, blank)."""
    first, second = KNOWN["tensorflow, first of the batch"], KNOWN["tensorflow, second of the batch"]
    logits = torch.full((7, 2, 6), math.nan)
    logits[:5] = torch.tensor([first.logits, second.logits]).transpose(0, 1)
    targets = torch.tensor([[*first.labels], [*second.labels, 0]])
    losses, gradient = backend.both(logits, targets, [5, 5], [5, 4], blank=5)
    np.testing.assert_allclose(losses, [first.loss, second.loss], rtol=2e-6)
    assert first.gradient is not None and second.gradient is not None
    np.testing.assert_allclose(gradient[:5, 0], first.gradient, atol=2e-6)
    np.testing.assert_allclose(gradient[:5, 1], second.gradient, atol=2e-6)
    assert not gradient[5:].any()
    rolled = logits.roll(1, dims=2).transpose(0, 1).contiguous().transpose(0, 1)
    torch.testing.assert_close(backend.both(rolled, targets + 1, [5, 5], [5, 4])[0], losses)
    between = logits[..., [0, 1, 5, 2, 3, 4]]
    shifted = torch.where(targets < 2, targets, targets + 1)
    torch.testing.assert_close(backend.both(between, shifted, [5, 5], [5, 4], blank=2)[0], losses)


def test_k2s_batch_of_three_lengths_with_factors(backend: Backend) -> None:
    names = ("warp-ctc and k2, below zero", "warp-ctc and k2, a label twice", "warp-ctc and k2, one frame")
    known = [KNOWN[name] for name in names]
    logits = torch.nn.utils.rnn.pad_sequence([torch.tensor(each.logits, dtype=torch.float32) for each in known])
    leaf = logits.to(backend.device).requires_grad_()
    targets = torch.tensor([2, 3, 3, 3, 1])
    losses = backend.loss(leaf, targets, [3, 3, 1], [2, 2, 1], reduction="none")
    np.testing.assert_allclose(losses.detach().cpu(), [each.loss for each in known], rtol=1e-6)
    factors = torch.tensor([1.0, -2.0, 3.5])
    (gradient,) = torch.autograd.grad(losses, leaf, factors.to(backend.device))
    for k, each in enumerate(known):
        wanted = float(factors[k]) * by_paths(each)[1]
        np.testing.assert_allclose(gradient[: len(wanted), k].cpu(), wanted, atol=2e-6)


REPEATS = [  # optax: labels, and the only path of so few frames
    ([1, 2, 2, 3], [1, 2, 0, 2, 3]),
    ([2, 3, 4, 4], [2, 3, 4, 0, 4]),
    ([1, 1, 1, 1], [1, 0, 1, 0, 1, 0, 1]),
    ([1, 1, 2, 3], [1, 0, 1, 2, 3]),
    ([1, 1, 1, 2], [1, 0, 1, 0, 1, 2]),
]


def test_optaxs_alignments_of_which_there_is_one(backend: Backend) -> None:
    random = torch.Generator().manual_seed(1234)
    logits = torch.randn(7, len(REPEATS), 5, generator=random)
    lengths = torch.tensor([len(path) for _, path in REPEATS])
    losses, gradient = backend.both(logits, torch.tensor([labels for labels, _ in REPEATS]), lengths, [4] * 5)
    log_p = logits.double().log_softmax(2)
    for k, (_, path) in enumerate(REPEATS):
        frames = torch.arange(len(path))
        assert losses[k].item() == pytest.approx(-log_p[frames, k, path].sum().item(), rel=1e-6)
        wanted = less_one(log_p[: len(path), k].exp().tolist(), path)
        np.testing.assert_allclose(gradient[: len(path), k], wanted, atol=1e-6)
    one_short = backend.both(logits, torch.tensor([labels for labels, _ in REPEATS]), lengths - 1, [4] * 5)
    assert one_short[0].isinf().all() and not one_short[1].any()


def test_warp_ctcs_impossible_label(fast: Backend) -> None:
    """A label at -1e30 in every frame: the loss is infinite, and no gradient is NaN."""
    random = torch.Generator().manual_seed(0)
    logits = torch.rand(50, 1, 15, generator=random)
    logits[..., 2] = -1e30
    losses, gradient = fast.both(logits, torch.tensor([2, *range(3, 12)]), [50], [10])
    assert losses.isinf().all() and gradient.isfinite().all()


# ---------------------------------------------------------------------------------------- PyTorch's


def pytorchs(case: str) -> tuple[Tensor, Tensor, list[int], list[int]]:
    """Log-probabilities, targets and lengths of tests of test_nn.py, with another seed."""
    random = torch.Generator().manual_seed(5)
    frames, classes, samples, lengths, labels = {
        "empty targets": (50, 15, 3, [50, 50, 50], [0, 0, 0]),
        "two empty targets": (50, 15, 3, [50, 50, 50], [0, 5, 0]),
        "a length of zero": (50, 15, 3, [50, 0, 50], [5, 0, 7]),
        "critical target length": (64, 10, 1, [64], [33]),
        "long targets": (257, 10, 2, [257, 200], [70, 90]),
        "too long for its frames": (50, 15, 3, [6, 25, 50], [30, 25, 20]),
    }[case]
    longest = max(*labels, 1)
    targets = torch.stack([torch.arange(longest) * 3 + k for k in range(samples)]) % (classes - 1) + 1
    return torch.randn(frames, samples, classes, generator=random).log_softmax(2), targets, lengths, labels


CASES = ("empty targets", "two empty targets", "a length of zero", "critical target length", "long targets")


@pytest.mark.parametrize("case", [*CASES, "too long for its frames"])
@pytest.mark.parametrize("concatenated", [False, True])
def test_pytorchs_cases(fast: Backend, case: str, concatenated: bool) -> None:
    """By PyTorch's own loss in float64, of which a gradient counts where the loss is finite."""
    log_p, targets, lengths, labels = pytorchs(case)
    if concatenated:
        targets = torch.cat([row[:count] for row, count in zip(targets, labels, strict=True)])
    losses, gradient = fast.both(log_p, targets, lengths, labels)
    leaf = log_p.double().requires_grad_()
    sizes = torch.tensor(lengths), torch.tensor(labels)
    wanted = functional.ctc_loss(leaf.log_softmax(2), targets, *sizes, reduction="none", zero_infinity=True)
    torch.testing.assert_close(torch.where(losses.isinf(), 0.0, losses.double()), wanted.detach(), rtol=1e-6, atol=1e-6)
    by_logits = torch.autograd.grad(wanted.sum(), leaf)[0]
    torch.testing.assert_close(gradient.double(), by_logits, rtol=0, atol=2e-6)
    for k, count in enumerate(labels):
        if not count:
            assert losses[k].item() == pytest.approx(-log_p[: lengths[k], k, 0].sum().item(), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_pytorchs_zero_infinity(reduction: Reduction) -> None:
    log_p, targets, lengths, labels = pytorchs("too long for its frames")
    found, wanted = log_p.clone().requires_grad_(), log_p.clone().requires_grad_()
    ours = CTCLoss(reduction=reduction, zero_infinity=True)(found, targets, lengths, labels)
    theirs = torch.nn.CTCLoss(reduction=reduction, zero_infinity=True)(
        wanted.log_softmax(2), targets, torch.tensor(lengths), torch.tensor(labels)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    ours.sum().backward()
    theirs.sum().backward()
    torch.testing.assert_close(found.grad, wanted.grad, rtol=0, atol=2e-4)
    assert found.grad is not None and found.grad.isfinite().all()


def test_what_others_refuse_or_count_otherwise() -> None:
    """TensorFlow, Keras and PyTorch take a blank of -1, a blank among the labels, or an empty batch: here, words."""
    row = torch.zeros(4, 2, 3)
    with pytest.raises(ValueError, match=r"blank -1 is outside 0\.\.2"):
        ctc_loss(row, torch.tensor([[1], [2]]), [4, 4], [1, 1], blank=-1)
    with pytest.raises(ValueError, match="sample 0: label 0 at position 3 is the blank"):  # of Keras' losses_test
        ctc_loss(row, torch.tensor([[1, 2, 1, 0], [1, 2, 0, 2]]), [4, 4], [4, 4])
    with pytest.raises(ValueError, match="batch is empty"):
        ctc_loss(row[:, :0], torch.zeros(0, 1).long(), [], [])
    only_blank = ctc_loss(torch.full((1, 1, 1), -1.0), torch.zeros(1, 0).long(), [1], [0])
    assert only_blank.item() == 0
    with pytest.raises(ValueError, match="must be integers"):  # of test_CTCLoss_typechecks
        ctc_loss(row, torch.tensor([[1], [2]]), torch.tensor([4.0, 4.0]), [1, 1])
    with pytest.raises(ValueError, match="input length 5 exceeds the 4 frames"):  # of test_CTCLoss_lengthchecks
        ctc_loss(row, torch.tensor([[1], [2]]), [4, 5], [1, 1])
    with pytest.raises(ValueError, match="target length 2 exceeds the 1 columns"):
        ctc_loss(row, torch.tensor([[1], [2]]), [4, 4], [1, 2])
