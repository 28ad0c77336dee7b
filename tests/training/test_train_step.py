"""A step in whatever memory there is, and over whatever number of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.hooks import RemovableHandle

from speechctc.core.errors import InputError
from speechctc.training.batches import Batch
from speechctc.training.distributed import Ranks
from speechctc.training.train_step import TrainStep, consistency
from speechctc.training.trainer import Trainer
from tests.train_helpers import Recorder, trainer_of

SGD = ("train.optimizer=sgd", "train.lr=0.05", "train.clip=1.0")


def batches_of(trainer: Trainer) -> list[Batch]:
    return [batch for batch in trainer.data.train.batches(trainer.plan()) if batch is not None]


def weights_after(trainer: Trainer, batches: list[Batch], accumulate: int = 1) -> list[Tensor]:
    trainer.train_step.net.train()
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        trainer.train_step.step(group, sum(int(batch.counts.sum()) for batch in group), 0.05, first)
    return [value.detach().clone() for value in trainer.train_step.net.parameters()]


class Refusing:
    """An allocator that refuses whatever has more padded frames than it has room for; in the backward pass late."""

    def __init__(self, room: int, error: Callable[[], BaseException], late: bool) -> None:
        self.room, self.error, self.late, self.refusals = room, error, late, 0
        self.hook: RemovableHandle | None = None

    def check(self, batch: Batch) -> None:
        if batch.padded_frames > self.room:
            self.refusals += 1
            raise self.error()

    def put_into(self, patch: pytest.MonkeyPatch) -> None:
        forward = TrainStep.forward_varied

        def limited(train_step: TrainStep, batch: Batch) -> Any:
            if not self.late:
                self.check(batch)
            logits, frames = forward(train_step, batch)
            if self.hook is not None:
                self.hook.remove()
            if self.late:  # the layers behind the first then have their gradients of the refused attempt already
                first = next(train_step.net.parameters())
                self.hook = first.register_hook(lambda gradient: self.check(batch))
            return logits, frames

        patch.setattr(TrainStep, "forward_varied", limited)


def cuda_refuses() -> BaseException:
    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


def cpu_refuses() -> BaseException:
    return RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")


def test_the_first_step_of_a_process_may_have_no_batch(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only other ranks have one: their gradients come, and must be unscaled."""
    one = trainer_of(extracted, here / "r", "train.precision=float16")

    def receive(self: Ranks, parameters: Iterable[nn.Parameter]) -> None:
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)

    monkeypatch.setattr(Ranks, "sum_gradients", receive)
    before = [each.detach().clone() for each in one.train_step.net.parameters()]
    assert one.train_step.step([], 30, 0.01, 0) == 0
    assert not any(map(torch.equal, before, one.train_step.net.parameters()))


def test_logits_are_gone_when_the_net_computes_its_gradients(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient by them is as large."""
    one, forward = trainer_of(extracted, here / "r"), TrainStep.forward_varied
    logits: list[StorageWeakRef] = []
    gone: list[bool] = []

    def noted(self: TrainStep, batch: Batch) -> Any:
        found = forward(self, batch)
        logits.append(StorageWeakRef(found[0][0].untyped_storage()))
        return found

    monkeypatch.setattr(TrainStep, "forward_varied", noted)
    one.train_step.net.get_parameter("convs.0.conv.weight").register_hook(lambda _: gone.append(logits[0].expired()))
    one.train_step.step(batches_of(one)[:1], 30, 0.01, 0)
    assert gone == [True]


@pytest.mark.parametrize(
    ("error", "late", "accumulate"),
    [(cuda_refuses, False, 1), (cuda_refuses, True, 2), (cpu_refuses, False, 2), (cpu_refuses, True, 1)],
)
def test_out_of_memory_ends_in_the_same_weights(
    extracted: Path,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Callable[[], BaseException],
    late: bool,
    accumulate: int,
) -> None:
    whole = trainer_of(extracted, here / "whole", *SGD)
    batches = batches_of(whole)
    wanted = weights_after(whole, batches, accumulate)
    recorder = Recorder()
    short = trainer_of(extracted, here / "short", *SGD, recorder=recorder)
    allocator = Refusing(max(batch.padded_frames for batch in batches) // 3, error, late)
    with monkeypatch.context() as patch:
        allocator.put_into(patch)
        found = weights_after(short, batches, accumulate)
    for a, b in zip(wanted, found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    assert allocator.refusals
    assert sum("out of memory" in line for line in recorder.said) == 1


def test_no_room_for_one_utterance_is_said(extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(extracted, here / "r")
    Refusing(0, cuda_refuses, late=False).put_into(monkeypatch)
    with pytest.raises(InputError, match=r"even one utterance of \d+ frames.*smaller model"):
        weights_after(trainer, batches_of(trainer)[:1])


def test_dropout_depends_on_the_step_alone(extracted: Path, here: Path) -> None:
    trainer = trainer_of(extracted, here / "r", "model.dropout=0.5")
    batch = batches_of(trainer)[0]
    trainer.train_step.net.train()
    losses = []
    for number in (3, 4, 3):
        torch.rand(number)  # whatever random numbers others have used
        losses.append(float(trainer.train_step.step([batch], 100, 0.0, number)))
    assert losses[0] == losses[2] != losses[1]


def test_two_views_count_half_each_and_are_drawn_together(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("model.dense=[8,8]", "model.dropout=0", "augment.time_masks=9", *SGD)
    train_step = trainer_of(extracted, here / "a", *settings, "train.consistency=0.4").train_step
    batch = batches_of(trainer_of(extracted, here / "b", *settings))[0]
    torch.manual_seed(3)
    views, frames = train_step.forward_varied(batch)
    first, second = (view.detach() for view in views)
    assert not torch.equal(first, second)
    p, q = (each.detach().double().softmax(2) for each in (first, second))
    far = 0.0
    for row, count in enumerate(frames.tolist()):
        a, b = p[row, :count], q[row, :count]
        far += 0.5 * float((a * (a / b).log() + b * (b / a).log()).sum())
    losses = [float(train_step.losses(each, frames, batch).sum()) for each in (first, second)]
    torch.testing.assert_close(float(consistency(first, second, frames)), far, rtol=1e-4, atol=1e-4)
    torch.manual_seed(3)
    scaled: list[Tensor] = []
    monkeypatch.setattr(train_step.scaler, "scale", lambda loss: scaled.append(loss.detach()) or loss)  # type: ignore[func-returns-value]
    reported = train_step._backward(batch, 1)
    torch.testing.assert_close(float(reported), sum(losses) / 2, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(float(scaled[0]), sum(losses) / 2 + 0.4 * far, rtol=1e-4, atol=1e-3)


def test_no_gradient_goes_through_what_the_other_view_is_drawn_to() -> None:
    torch.manual_seed(0)
    logits, others = torch.randn(2, 5, 4, requires_grad=True), torch.randn(2, 5, 4)
    frames = torch.tensor([5, 3])
    consistency(logits, others, frames).backward()
    wanted = 0.5 * (logits.softmax(2) - others.softmax(2)).detach()  # of KL(others || softmax(logits)) alone
    wanted[1, 3:] = 0
    torch.testing.assert_close(logits.grad, wanted)
