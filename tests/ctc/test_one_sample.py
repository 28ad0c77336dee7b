"""A single sample on the CPU: one call of compiled code checks and solves it, with the bits of a batch."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from speechctc.ctc import ctc_loss, loss
from speechctc.ctc.problem import problem_of
from tests.ctc.cases import Case, random_case

TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def refuse(*_: Any) -> None:
    raise AssertionError("this went the long way")


def one(frames: int, labels: int, classes: int, seed: int = 2) -> Case:
    return random_case(frames, 1, classes, labels, seed=seed, ragged=False)


def results(case: Case, **options: Any) -> tuple[Tensor, Tensor]:
    """The loss and its gradient by the logits."""
    leaf = case.logits.detach().clone().requires_grad_()
    value = ctc_loss(leaf, *case[1:], **options)
    return value.detach(), torch.autograd.grad(value.sum(), leaf)[0]


def twice(case: Case) -> Case:
    """The same sample two times, which is a batch."""
    logits, targets, *lengths = case
    return Case(logits.repeat(1, 2, 1), targets.repeat(2, 1), *(each.repeat(2) for each in lengths))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(9, 3, 5), (150, 40, 28), (6, 0, 4), (5, 5, 17), (3, 4, 6), (0, 0, 3), (0, 2, 3)])
def test_a_sample_alone_has_the_bits_of_a_batch(
    shape: tuple[int, int, int], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = one(*shape, seed=4)
    case = case._replace(logits=case.logits.to(dtype))
    losses, gradients = results(twice(case), reduction="none")
    if dtype != torch.float16:  # whose gradient waits for the backward pass
        monkeypatch.setattr(loss, "problem_of", refuse)
    for targets in (case.targets, case.targets[0]):
        found, gradient = results(case._replace(targets=targets), reduction="none")
        assert torch.equal(found[0], losses[0]) and torch.equal(gradient[:, 0], gradients[:, 0])
    single = Case(case.logits[:, 0], *case[1:])
    for packed in (False, True):
        found, gradient = results(single, reduction="sum", packed=packed)
        assert torch.equal(found, losses[0]) and torch.equal(gradient, gradients[:, 0])
    assert torch.equal(ctc_loss(*case, reduction="sum"), losses[0])  # without a gradient


@pytest.mark.parametrize("dtype", TYPES[:2])
def test_reductions_and_what_is_infinite(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "problem_of", refuse)
    fits, does_not = one(9, 3, 5, seed=1), one(2, 3, 5, seed=1)
    for case in (fits, does_not):
        case = case._replace(logits=case.logits.to(dtype))
        (plain,), slope = results(case, reduction="none")
        mean, share = results(case, reduction="mean")
        assert torch.equal(mean, plain * (1 / torch.tensor(3, dtype=dtype)))
        torch.testing.assert_close(share, slope / 3)
        without = results(case, reduction="mean", zero_infinity=True)[0]
        assert torch.equal(without, torch.where(mean.isinf(), 0, mean))
    assert plain.isinf() and not slope.any()
    broken = fits.logits.clone()
    broken[4, 0, 1] = torch.nan
    assert all(each.isnan().all() for each in results(fits._replace(logits=broken), zero_infinity=True))


def test_wrong_values_are_named_as_in_a_batch() -> None:
    case = one(9, 3, 5, seed=1)
    wrong: dict[str, dict[str, Any]] = {
        "input length 10 exceeds": {"input_lengths": [10]},
        "input length -1 is negative": {"input_lengths": [-1]},
        "target length 4 exceeds the 3 columns": {"target_lengths": [4]},
        "target length -2 is negative": {"target_lengths": [-2]},
        "label 5 at position 1 is outside": {"targets": torch.tensor([[1, 5, 2]])},
        "label -3 at position 2 is outside": {"targets": torch.tensor([[1, 2, -3]])},
        "label 2 at position 0 is the blank": {"targets": torch.tensor([[2, 1, 3]]), "blank": 2},
        "there are 3 labels, but target_lengths": {"targets": torch.tensor([1, 2, 3]), "target_lengths": [2]},
        "there are 9 frames in the packed": {"logits": case.logits[:, 0], "packed": True, "input_lengths": [8]},
        "there are 1 samples, but padded targets": {"targets": torch.ones(2, 3).long()},
        "there are 1 samples, but 2 input_lengths": {"input_lengths": [9, 9]},
    }
    for words, given in wrong.items():
        with pytest.raises(ValueError, match=words):
            ctc_loss(**(case._asdict() | given))
    padded = case._replace(targets=torch.tensor([[1, 2, 3, 99, -7]]))  # in the padding anything may stand
    without = case._replace(targets=torch.tensor([[1, 2, 3]]))
    assert torch.equal(ctc_loss(*padded), ctc_loss(*without))


def test_padded_frames_and_strides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "problem_of", refuse)
    case = one(9, 3, 20, seed=1)
    padded = torch.full((12, 1, 20), torch.nan)
    padded[:9] = case.logits
    wanted, slope = results(case)
    for logits in (padded, padded.permute(2, 1, 0).contiguous().permute(2, 1, 0)):
        leaf = logits.detach().requires_grad_()
        found = ctc_loss(leaf, *case[1:])
        (gradient,) = torch.autograd.grad(found, leaf)
        assert torch.equal(found, wanted) and torch.equal(gradient[:9], slope) and not gradient[9:].any()


def test_what_is_large_takes_the_long_way_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long sample whose lattice has no room, and one with many classes."""
    taken: list[Any] = []

    def noted(*given: Any) -> Any:
        taken.append(given)
        return problem_of(*given)

    monkeypatch.setattr(loss, "problem_of", noted)
    for shape in ((1500, 200, 30), (1000, 3, 400)):
        case = one(*shape)
        found, gradient = results(case, reduction="sum")
        assert len(taken) == 1
        losses, gradients = results(twice(case), reduction="none")
        assert torch.equal(found, losses[0]) and torch.equal(gradient[:, 0], gradients[:, 0])
        taken.clear()


def test_threads_have_memory_of_their_own() -> None:
    cases = [one(200, 30, 40, seed=seed) for seed in range(8)]
    wanted = [results(case) for case in cases]

    def run(k: int) -> bool:
        found = results(cases[k % 8])
        return all(torch.equal(*pair) for pair in zip(found, wanted[k % 8], strict=True))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(200)))


@pytest.mark.parametrize("times", [1, 2])
def test_a_wrong_length_that_changes_between_calls_is_seen(times: int) -> None:
    """Nothing of an earlier call is kept but memory."""
    case = one(9, 3, 5, seed=1)
    for _ in range(times):
        ctc_loss(*case)
    case.input_lengths[0] = 77
    with pytest.raises(ValueError, match="input length 77 exceeds the 9 frames"):
        ctc_loss(*case)
