"""Use from several threads at a time, as servers and pools do: results are those of one thread."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch

import speechctc
from speechctc.ctc import ctc_loss
from speechctc.model.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from tests.tiny_model import write_song
from tests.tones import PHONES

THREADS = 8
Result = TypeVar("Result")


def at_once(work: Callable[[int], Result], count: int) -> list[Result]:
    """Return ``work`` of the numbers below `count`, from threads that begin together."""
    start = threading.Barrier(THREADS)
    with ThreadPoolExecutor(THREADS, initializer=start.wait) as pool:
        return list(pool.map(work, range(count)))


def loss_and_gradient(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the losses of a random problem, whose shape depends on the seed, and the gradient."""
    generator = torch.Generator().manual_seed(seed)
    frames, batch, classes = 20 + 37 * (seed % 5), 1 + seed % 4, 5 + 20 * (seed % 3)
    logits = torch.randn(frames, batch, classes, generator=generator).requires_grad_()
    targets = torch.randint(1, classes, (batch, 8), generator=generator)
    lengths = torch.randint(1, 9, (batch,), generator=generator)
    losses = ctc_loss(logits, targets, torch.full((batch,), frames), lengths, reduction="none")
    losses.sum().backward()
    assert logits.grad is not None
    return losses.detach(), logits.grad


def test_losses_and_gradients() -> None:
    alone = [loss_and_gradient(seed) for seed in range(64)]
    for found, wanted in zip(at_once(loss_and_gradient, 64), alone, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_one_recogniser(tiny_model: Path, tmp_path: Path) -> None:
    model = speechctc.load(tiny_model, "cpu")
    for k in range(4):
        write_song(tmp_path / f"{k}.wav", [PHONES[(k + j * j) % 4] for j in range(3 + 5 * k)], seed=k)
    alone = [model.decode(tmp_path / f"{k}.wav") for k in range(4)]
    assert [len(result.phones) for result in alone] == [3, 8, 13, 18]
    for k, found in enumerate(at_once(lambda k: model.decode(tmp_path / f"{k % 4}.wav"), 32)):
        assert found == alone[k % 4]


def test_models_that_are_replaced_while_others_load_them(tiny_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "best"
    shutil.copytree(tiny_model / "best", folder)
    first = load_checkpoint(folder)
    second = load_checkpoint(folder)
    for weights in second.weights.values():
        weights *= -1
    song = tmp_path / "a.wav"
    write_song(song, ["low", "mid", "high"])
    whole = [_decoded(folder, song, checkpoint) for checkpoint in (first, second)]
    assert whole[0] != whole[1]
    over = threading.Event()

    def replace() -> None:
        turn = 0
        while not over.wait(0.02):  # less than it takes to load a model
            turn += 1
            save_checkpoint(folder, (first, second)[turn % 2])

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        found = at_once(lambda _: speechctc.load(folder.parent, "cpu").decode(song).to_dict(), 2 * THREADS)
    finally:
        over.set()
        writer.join()
    assert all(result in whole for result in found)


def _decoded(folder: Path, song: Path, checkpoint: Checkpoint) -> dict[str, object]:
    save_checkpoint(folder, checkpoint)
    return speechctc.load(folder.parent, "cpu").decode(song).to_dict()
