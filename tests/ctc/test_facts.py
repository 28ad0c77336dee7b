"""Known answers and awkward inputs, for every backend."""

import math

import pytest
import torch
from torch import Tensor

from tests.ctc.cases import LOSS, assert_close, random_case, reference
from tests.ctc.conftest import Backend

CLASSES = [17, 150]  # one CUDA kernel, and another that first reads rows


def labels(*values: int) -> Tensor:
    return torch.tensor([values])


def rows(*values: list[float]) -> Tensor:
    """Logits of one sample, frame by frame."""
    return torch.tensor(values).unsqueeze(1)


def test_two_frames(backend: Backend) -> None:
    logits = rows([0.1, 0.6, 0.1, 0.1, 0.1], [0.1, 0.1, 0.6, 0.1, 0.1])
    losses, gradient = backend.both(logits, labels(1, 2), [2], [2])
    assert losses.item() == pytest.approx(2.46286, rel=1e-5)
    expected = torch.full((2, 1, 5), 0.177031)
    expected[0, 0, 1] = expected[1, 0, 2] = -0.708125
    torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("logits", "target", "loss"),
    [
        (torch.zeros(1, 1, 5), (1,), 1.609438),
        (torch.arange(1.0, 16).reshape(3, 1, 5), (3, 3), 7.355743),
        (
            torch.tensor([[-5.0, -4, -3, -2, -1], [-10, -9, -8, -7, -6], [-15, -14, -13, -12, -11]])[:, None],
            (2, 3),
            4.938850,
        ),
    ],
)
def test_known_losses(backend: Backend, logits: Tensor, target: tuple[int, ...], loss: float) -> None:
    losses, _ = backend.both(logits, labels(*target), [len(logits)], [len(target)])
    assert losses.item() == pytest.approx(loss, rel=1e-6)


def test_probability_too_small_for_a_float(backend: Backend) -> None:
    losses, gradient = backend.both(rows([0.0, -150, 0, 0, 0]), labels(1), [1], [1])
    assert losses.item() == pytest.approx(151.386294, rel=1e-7)
    torch.testing.assert_close(gradient.flatten(), torch.tensor([0.25, -1, 0.25, 0.25, 0.25]))


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_infeasible(backend: Backend, zero_infinity: bool, classes: int) -> None:
    # A repeat takes a frame more than there is; the sample beside it must not notice.
    case = random_case(2, 2, classes, 2, ragged=False)
    targets = torch.tensor([[1, 1], [2, 3]])
    losses, gradient = backend.both(case.logits, targets, [2, 2], [2, 2], zero_infinity=zero_infinity)
    assert losses[0] == (0 if zero_infinity else math.inf) and losses[1].isfinite()
    assert not gradient[:, 0].any() and gradient[:, 1].any() and gradient.isfinite().all()


@pytest.mark.parametrize("classes", CLASSES)
def test_impossible_label(backend: Backend, classes: int) -> None:
    case = random_case(6, 2, classes, 2, ragged=False)
    case.logits[:, 0, 3] = -1e30
    losses, gradient = backend.both(case.logits, torch.tensor([[3, 1], [3, 1]]), [6, 6], [2, 2])
    assert losses[0] == math.inf and losses[1].isfinite()
    assert not gradient[:, 0].any() and gradient.isfinite().all()


@pytest.mark.parametrize("value", [-math.inf, -1e30])
@pytest.mark.parametrize("classes", CLASSES)
def test_excluded_class_off_the_path(fast: Backend, value: float, classes: int) -> None:
    case = random_case(12, 3, classes, 3)
    targets = case.targets % (classes - 2) + 1
    case.logits[:, :, -1] = value
    losses, gradient = fast.both(case.logits, targets, *case[2:])
    assert losses.isfinite().all() and gradient.isfinite().all()
    assert not gradient[:, :, -1].any()
    without = case._replace(logits=case.logits[:, :, :-1], targets=targets)
    assert_close((losses, gradient[:, :, :-1]), reference(without))


@pytest.mark.parametrize("classes", CLASSES)
def test_nothing_leaks_from_padding(backend: Backend, classes: int) -> None:
    case = random_case(20, 4, classes, 6)
    clean = backend.both(*case)
    for sample, (frames, count) in enumerate(zip(case.input_lengths, case.target_lengths, strict=True)):
        case.logits[frames:, sample] = math.nan
        case.targets[sample, count:] = -7
    dirty = backend.both(*case)
    assert torch.equal(clean[0], dirty[0]) and torch.equal(clean[1], dirty[1])
    for sample, frames in enumerate(case.input_lengths):
        assert not dirty[1][frames:, sample].any()


@pytest.mark.parametrize("classes", CLASSES)
def test_a_nan_stays_in_its_sample(backend: Backend, classes: int) -> None:
    case = random_case(20, 3, classes, 6, ragged=False)
    clean = backend.both(*case)
    case.logits[7, 1, 3] = math.nan
    losses, gradient = backend.both(*case)
    assert losses[1].isnan() and gradient[:, 1].isnan().any()
    for sample in (0, 2):
        assert losses[sample] == clean[0][sample]
        assert torch.equal(gradient[:, sample], clean[1][:, sample])


def test_empty_target(fast: Backend) -> None:
    case = random_case(9, 2, 4, 0, ragged=False)
    assert_close(fast.both(*case), reference(case))
    alone = -case.logits.log_softmax(-1)[:, :, 0].sum(0)
    torch.testing.assert_close(fast.both(*case)[0], alone)


def test_no_frames(backend: Backend) -> None:
    case = random_case(5, 3, 4, 2, ragged=False)
    losses, gradient = backend.both(case.logits, case.targets, [0, 0, 5], [0, 2, 2])
    assert losses[0] == 0 and losses[1] == math.inf and losses[2].isfinite()
    assert not gradient[:, :2].any()


@pytest.mark.parametrize(
    ("frames", "samples", "classes", "longest"),
    [
        (1, 3, 2, 1),
        (2, 2, 3, 2),
        (17, 3, 2, 8),
        (33, 2, 15, 16),
        (33, 2, 16, 15),
        (31, 2, 17, 31),
        (40, 5, 33, 17),
        (64, 1, 80, 32),
        (20, 1, 300, 5),
    ],
)
@pytest.mark.parametrize("blank", ["first", "last"])
def test_awkward_shapes(fast: Backend, frames: int, samples: int, classes: int, longest: int, blank: str) -> None:
    case = random_case(frames, samples, classes, longest, temperature=3)
    index = 0
    if blank == "last":
        index = classes - 1
        case = case._replace(targets=case.targets - 1)
    assert_close(fast.both(*case, blank=index), reference(case, blank=index))


def test_repeats(fast: Backend) -> None:
    case = random_case(41, 2, 5, 20, ragged=False)
    case.targets[0] = 3
    case.targets[1] = torch.tensor([1, 1, 2, 2, 2, 1, 4, 4, 3, 1] * 2)
    assert_close(fast.both(*case), reference(case))


@pytest.mark.parametrize("temperature", [1, 10, 20])
def test_many_batches_at_once(fast: Backend, temperature: float) -> None:
    fast.afford(257 * 30 * 21)
    case = random_case(30, 257, 12, 10, temperature=temperature)
    assert_close(fast.both(*case), reference(case))


@pytest.mark.parametrize("temperature", [1, 10, 20])
def test_many_classes(fast: Backend, temperature: float) -> None:
    fast.afford(30 * 5 * 3001)
    case = random_case(30, 2, 3001, 5, temperature=temperature)
    assert_close(fast.both(*case), reference(case))


@pytest.mark.parametrize(
    ("frames", "classes", "longest", "temperature"),
    [(4000, 3, 750, 1), (4000, 3, 750, 20), (20000, 5, 40, 3), (2600, 40, 1280, 1)],
)
def test_long(fast: Backend, frames: int, classes: int, longest: int, temperature: float) -> None:
    fast.afford(frames * (2 * longest + 1))
    case = random_case(frames, 1, classes, longest, temperature=temperature, ragged=False)
    assert_close(fast.both(*case), reference(case))


def test_wide_logits(fast: Backend) -> None:
    case = random_case(50, 2, 9, 7, ragged=False)
    logits = case.logits / case.logits.abs().max() * 168  # from -168 to 168
    logits[0, 0, 0], logits[0, 0, 1] = -168, 168
    assert_close(fast.both(logits, *case[1:]), reference(case._replace(logits=logits)))


def test_log_probabilities_are_logits_too(fast: Backend) -> None:
    case = random_case(40, 3, 30, 12)
    loss, _ = fast.both(*case)
    again, gradient = fast.both(case.logits.log_softmax(-1), *case[1:])
    torch.testing.assert_close(again, loss, rtol=LOSS, atol=0)
    assert_close((again, gradient), reference(case))


def test_same_input_same_bits(backend: Backend) -> None:
    case = random_case(60, 5, 40, 20, temperature=4)
    first, second = backend.both(*case), backend.both(*case)
    assert torch.equal(first[0], second[0]) and torch.equal(first[1], second[1])
