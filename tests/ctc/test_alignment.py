"""State posteriors and best paths, against the reference, the gradient, brute force and torchaudio."""

import itertools
import math

import pytest
import torch
import torchaudio
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from speechctc.ctc import posteriors, viterbi
from speechctc.ctc.problem import make_problem
from speechctc.ctc.reference import forward_backward, sample_of
from tests.ctc.cases import random_case

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


def path_of(states: Tensor, labels: Tensor, blank: int) -> Tensor:
    """The class of each frame."""
    classes = torch.full((2 * len(labels) + 1,), blank)
    classes[1::2] = labels
    return classes[states]


@pytest.mark.parametrize("temperature", [1, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_posteriors_agree_with_float64(temperature: float, dtype: torch.dtype) -> None:
    case = random_case(80, 5, 20, 33, temperature=temperature, dtype=dtype)
    case.target_lengths[1] = 0
    case.input_lengths[2] = 3  # does not fit
    case.target_lengths[2] = 10
    found = posteriors(*case)
    problem = make_problem(case.logits.double(), *case[1:])
    wanted = torch.zeros(problem.samples, problem.longest_input, 2 * problem.longest_target + 1).double()
    for sample in range(problem.samples):
        frames, labels = sample_of(problem, sample)
        _, _, gamma = forward_backward(frames.numpy(), labels, problem.blank)
        wanted[sample, : gamma.shape[0], : gamma.shape[1]] = torch.from_numpy(gamma)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=5e-6)
    assert not found[2].any()


def test_posteriors_of_packed_frames() -> None:
    case = random_case(20, 3, 8, 5)
    packed = torch.cat([case.logits[:frames, sample] for sample, frames in enumerate(case.input_lengths)])
    assert torch.equal(posteriors(packed, *case[1:], packed=True), posteriors(*case))


@QUICK
@given(st.integers(1, 60), st.integers(0, 12), st.integers(2, 12), st.integers(0, 2**31))
def test_the_viterbi_path_is_torchaudios(frames: int, labels: int, classes: int, seed: int) -> None:
    case = random_case(frames, 3, classes, labels, temperature=3, seed=seed)
    found = viterbi(*case)
    for sample, (length, count) in enumerate(
        zip(case.input_lengths.tolist(), case.target_lengths.tolist(), strict=True)
    ):
        target = case.targets[sample, :count]
        repeats = int((target[1:] == target[:-1]).sum())
        if count + repeats > length:
            assert found.scores[sample] == -math.inf and (found.states[sample] == -1).all()
            assert (found.spans[sample] == -1).all()
            continue
        states = found.states[sample, :length]
        assert (found.states[sample, length:] == -1).all()
        path = path_of(states, target, 0)
        log_p = case.logits[:length, sample].double().log_softmax(-1)
        score = log_p[range(length), path].sum()
        torch.testing.assert_close(found.scores[sample], score)
        if count and length:  # torchaudio takes no empty ones
            theirs, _ = torchaudio.functional.forced_align(log_p[None], target[None], blank=0)
            assert torch.equal(path, theirs[0].long())
        for label in range(count):
            first, end = found.spans[sample, label].tolist()
            assert (states[first:end] == 2 * label + 1).all() and end > first
            assert (states == 2 * label + 1).sum() == end - first


def test_the_viterbi_path_is_the_best_of_all() -> None:
    case = random_case(6, 1, 3, 2, temperature=2, ragged=False)
    log_p = case.logits[:, 0].double().log_softmax(-1)
    best = max(
        (float(log_p[range(6), list(path)].sum()), path)
        for path in itertools.product(range(3), repeat=6)
        if [c for c, _ in itertools.groupby(path) if c] == case.targets[0].tolist()
    )
    found = viterbi(*case)
    assert found.scores.item() == pytest.approx(best[0], rel=1e-12)
    assert path_of(found.states[0], case.targets[0], 0).tolist() == list(best[1])


def test_blank_anywhere() -> None:
    case = random_case(20, 2, 7, 5)
    moved = case.logits.roll(3, dims=-1)
    targets = (case.targets + 3) % 7
    plain, other = viterbi(*case), viterbi(moved, targets, *case[2:], blank=3)
    assert torch.equal(plain.states, other.states)
    torch.testing.assert_close(posteriors(moved, targets, *case[2:], blank=3), posteriors(*case))
