"""Steps by CUDA graphs against the same steps kernel by kernel: on a GPU, and on a stand-in for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from speechctc.config.load import load_config
from speechctc.core.devices import allow_tf32
from speechctc.training import train_step as steps
from speechctc.training.batches import Batch
from speechctc.training.distributed import Ranks
from speechctc.training.runs import Run
from speechctc.training.train_step import StepGraphs, TrainStep
from speechctc.training.trainer import Trainer
from tests.command import script
from tests.stand_in import GPU, Graph, gpu
from tests.train_helpers import Recorder

NET = ("features.mels=20", "model.convs=[6]", "model.kernel=[3,5]", "model.dense=[16,16]", "model.dropout=0.2")
TRAINING = ("train.device=cuda", "train.lr=0.01", "train.batch_size=8", "train.curves=false")
MASKS = ("augment.band_masks=1", "augment.time_masks=2", "augment.band_mask=6", "augment.time_mask_ms=100")
CHANGES = ("augment.speed=0.1", "augment.warp=0.1", "augment.gain_db=6", "augment.colour_db=3", "augment.reverb=0.5")
HOW = {
    "float32, context, average": ("train.precision=float32", "model.context=5", "train.ema=0.9", *MASKS),
    "bfloat16, two views": ("train.precision=bfloat16", "train.consistency=0.2", "model.norm=layer", *MASKS),
    "float16, changed, accumulated": (
        *("train.precision=float16", "model.norm=none", "train.accumulate=2", *MASKS, *CHANGES),
        *("augment.noise_db=[5,30]", "augment.telephone=0.5"),
    ),
    "plain gradient descent": ("train.precision=float32", "train.optimizer=sgd", "train.clip=0", "train.lr=0.05"),
}


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random features, of which a net learns something."""
    folder = tmp_path_factory.mktemp("graphs")
    config = load_config("demo", [f"data.dir={folder}", "corpus.phones=found", *NET])
    for seed, (split, hours) in enumerate({"train": 0.02, "dev": 0.004}.items()):
        script("synthetic.py").write_split(folder / split, config, hours, (100, 300), seed)
    return folder


@pytest.fixture(params=["a stand-in", pytest.param("a GPU", marks=pytest.mark.cuda)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    if request.param == "a GPU":
        monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)  # its float32 sums in any order otherwise
        allow_tf32(False)
        yield torch.device("cuda", 0)
        return
    with gpu():
        yield GPU


def settings_of(features: Path, run: Path, *settings: str) -> list[str]:
    return [f"data.dir={features}", f"run={run}", "corpus.phones=found", *NET, *TRAINING, *settings]


def trainer_of(features: Path, run: Path, device: torch.device, *settings: str) -> Trainer:
    config = load_config("demo", settings_of(features, run, *settings))
    return Trainer(config, Run(run), device, Ranks(), Recorder())


def steps_of(trainer: Trainer, count: int) -> Iterator[tuple[list[Batch], int, float, int]]:
    """Yield the arguments of so many steps: three groups of batches, again and again, at rates that change."""
    batches = [each for each in trainer.data.train.batches(trainer.plan()) if each is not None]
    size = trainer.config.train.accumulate
    groups = [batches[k : k + size] for k in range(0, 3 * size, size)]
    for number in range(count):
        group = groups[number % 3]
        phones = sum(int(each.counts.sum()) for each in group)
        yield group, phones, trainer.config.train.lr / (1 + number), number


def trained(trainer: Trainer, count: int = 14) -> tuple[list[float], dict[str, Tensor]]:
    """Take steps; return the loss of each, and all that they changed."""
    train_step = trainer.train_step
    train_step.net.train()
    losses = [train_step.step(*each) for each in steps_of(trainer, count)]
    state = {name: value.detach().cpu() for name, value in train_step.net.named_parameters()}
    state |= {name: value.cpu() for name, value in train_step.to_tensors().items()}
    return [float(each) for each in losses], state


def differing(state: dict[str, Tensor], wanted: dict[str, Tensor]) -> dict[str, float]:
    """Return by how much values differ, of the tensors that are not the same to the bit."""
    pairs = {name: (value, wanted[name]) for name, value in state.items()}
    return {name: float((a - b).abs().max()) for name, (a, b) in pairs.items() if not torch.equal(a, b)}


@pytest.mark.parametrize("how", HOW.values(), ids=list(HOW))
def test_graphs_take_the_same_steps(
    how: tuple[str, ...], features: Path, here: Path, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit: losses, weights, the optimiser's state, the average, norms of gradients, the scale of float16."""
    one, two = (trainer_of(features, here / name, device, *how) for name in ("graphs", "eager"))
    two.train_step.graphs = None
    replayed: list[Any] = []
    replay = torch.cuda.CUDAGraph.replay

    def noted(graph: Any) -> None:
        replayed.append(graph)
        replay(graph)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", noted)
    (losses, state), (wanted, eager) = trained(one), trained(two)
    assert losses == wanted and len(set(losses)) == len(losses)
    assert state.keys() == eager.keys()
    assert differing(state, eager) == {}
    assert len(replayed) > 14 and len(set(map(id, replayed))) >= 3
    assert not one.train_step.reporter.said  # type: ignore[attr-defined]


def test_a_capture_that_fails_leaves_training_as_it_was(
    features: Path, here: Path, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that waits for the device cannot be captured: one line says so, and the steps are the same."""
    forward = TrainStep.forward_varied

    def waiting(train_step: TrainStep, batch: Batch) -> Any:
        assert float(batch.frames.sum()) > 0
        return forward(train_step, batch)

    monkeypatch.setattr(TrainStep, "forward_varied", waiting)
    how = HOW["float32, context, average"]
    one, two = (trainer_of(features, here / name, device, *how) for name in ("graphs", "eager"))
    two.train_step.graphs = None
    (losses, state), (wanted, eager) = trained(one), trained(two)
    assert losses == wanted
    assert differing(state, eager) == {}
    (said,) = one.train_step.reporter.said  # type: ignore[attr-defined]
    assert said.startswith("warning: no CUDA graphs from here on (") and "captur" in said
    torch.cuda.empty_cache()


def test_short_memory_takes_the_graphs_first(features: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch fits without them, and goes as a whole."""
    forward, refused = TrainStep.forward_varied, [False, True]

    def once(train_step: TrainStep, batch: Batch) -> Any:
        if refused and refused.pop():
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return forward(train_step, batch)

    with gpu():
        one, two = (trainer_of(features, here / name, GPU, *HOW["plain gradient descent"]) for name in ("one", "two"))
        two.train_step.graphs = None
        losses, _ = trained(one)
        assert Graph.made > 2 and one.train_step.graphs is not None
        one.train_step.graphs._seen.clear()  # so that the next goes kernel by kernel, where memory is refused
        monkeypatch.setattr(TrainStep, "forward_varied", once)
        further = list(steps_of(one, 15))[-1]
        losses.append(float(one.train_step.step(*further)))
        assert refused == []
        assert losses == trained(two, 15)[0]
    (said,) = one.train_step.reporter.said  # type: ignore[attr-defined]
    assert "no CUDA graphs from here on (memory is short)" in said


def test_no_more_graphs_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MAX_GRAPHS", 2)

    def double(values: Tensor) -> Tensor:
        return values * 2

    with gpu():
        graphs = StepGraphs(GPU, Recorder())
        for value in (1.0, 2.0, 3.0, 4.0):
            for length in (3, 5, 7):
                found = graphs.run(double, torch.full((length,), value, device=GPU))
                assert found is not None and found.tolist() == [2 * value] * length
        assert (Graph.made, Graph.replays) == (2, 4)


def test_who_trains_without_graphs(features: Path, here: Path) -> None:
    on_cpu = trainer_of(features, here / "cpu", torch.device("cpu"))
    assert on_cpu.train_step.graphs is None
    with gpu():
        assert trainer_of(features, here / "a", GPU).train_step.graphs is not None
        assert trainer_of(features, here / "b", GPU, "train.loss_backend=torch").train_step.graphs is None
        of_two = trainer_of(features, here / "c", GPU)
        of_two.train_step.ranks, of_two.train_step.graphs = Ranks(0, 2), None
        of_two.train_step.start_stage(of_two.stage)
        assert of_two.train_step.graphs is None
