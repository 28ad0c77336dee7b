"""State of training that lies on a GPU, by a stand-in for one."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from speechctc.core.devices import allow_tf32
from speechctc.core.errors import InputError
from speechctc.core.optimizers import AdamW
from speechctc.inference.load import load_lm
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition
from speechctc.lm.lstm import LstmConfig
from speechctc.model.net import Layer
from speechctc.stages.lm_lstm import LstmTraining
from speechctc.stages.open_model import ModelChoice, net_on, open_model
from speechctc.stages.train import Stopped
from speechctc.training.batches import BatchGatherer
from speechctc.training.train_step import TrainStep
from tests.stand_in import GPU, Graph, OnGpu, gpu
from tests.tones import write_table
from tests.train_helpers import Recorder, run_once, same, stopping

WHOLE = ("train.device=cuda", "train.epochs=2", "train.batch_size=16", "model.convs=[4]", "model.dense=[8,8]")
HOW = {
    "context, n-gram": (
        *("train.precision=float32", "model.norm=none", "model.context=5", "model.dropout=0.2"),
        *("train.ema=0.9", "decode.lm_order=2"),
    ),
    "two views, changed, float16": (
        *("train.precision=float16", "train.consistency=0.2", "model.norm=none"),
        *("augment.speed=0.1", "augment.warp=0.1", "augment.gain_db=6", "augment.colour_db=3", "augment.reverb=0.5"),
        *("augment.noise_db=[5,30]", "augment.telephone=0.5", "augment.band_masks=1", "augment.time_masks=1"),
    ),
}


@pytest.mark.parametrize("how", HOW.values(), ids=list(HOW))
def test_a_training_on_a_gpu_is_saved_resumed_and_waits_in_no_step(
    how: tuple[str, ...], extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, gather, layer = TrainStep.step, BatchGatherer.gather, Layer.forward
    waits: list[int] = []
    between: set[int] = set()

    def watched(do: Callable[..., Any]) -> Callable[..., Any]:
        def done(*arguments: Any) -> Any:
            before = OnGpu.waits
            found = do(*arguments)
            waits.append(OnGpu.waits - before)
            return found

        return done

    def laid_out(self: Layer, x: Tensor, mask: Tensor) -> Tensor:
        between.add(x.stride(1))
        return layer(self, x, mask)

    monkeypatch.setattr(Layer, "forward", laid_out)
    monkeypatch.setattr(BatchGatherer, "gather", watched(gather))
    monkeypatch.setattr(TrainStep, "step", watched(step))
    with gpu():
        whole = run_once(extracted, here / "whole", *WHOLE, *how)
        monkeypatch.setattr(TrainStep, "step", stopping(TrainStep.step, {2}))
        with pytest.raises(Stopped):
            run_once(extracted, here / "parts", *WHOLE, *how)
        assert same(whole, run_once(extracted, here / "parts", *WHOLE, *how, resume=True))
        assert 0 < Graph.made < Graph.replays
    assert len(waits) > 20 and not any(waits)
    assert between == {1}  # channels lie side by side, as cuDNN wants them


def heard(one: Recognition | InputError) -> list[str]:
    assert isinstance(one, Recognition)
    return [segment.phone for segment in one.segments]


def test_a_language_model_on_a_gpu_is_saved_resumed_and_decodes(
    tiny_model: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recogniser = open_model(tiny_model, Recogniser, ModelChoice("cpu"))
    texts = [[1, 2, 3, 4], [2, 2], [4, 1, 3]] * 4, [[1, 2, 3], [4]]
    config = LstmConfig(embedding=3, hidden=4, epochs=2, batch_size=4, precision="float32", device="cuda")

    def train(name: str, resume: bool = False) -> LstmTraining:
        training = LstmTraining(here / name, recogniser.checkpoint.inventory, config, texts, resume, Recorder())
        training.train()
        return training

    step = AdamW.step
    with gpu():
        train("whole")
        with monkeypatch.context() as patch:
            patch.setattr(AdamW, "step", lambda self: [step(self), signal.raise_signal(signal.SIGINT)])  # type: ignore[func-returns-value]
            assert train("parts").status
        assert train("parts", resume=True).trainer.model.device == GPU
        assert same(*(load_file(here / name / "last" / "state.safetensors") for name in ("whole", "parts")))
        lm = load_lm(here / "whole", device="cuda:0")
        write_table(here, 3, 7)
        allow_tf32(True)
        for here_lm, there_lm in ((None, None), (load_lm(here / "whole"), lm)):
            on_cpu = recogniser.replaced(lstm=here_lm)
            both = on_cpu, on_cpu.replaced(device="cuda:0", net=partial(net_on, "cuda:0"), lstm=there_lm)
            wanted, found = ([heard(one) for one in each.decode_all(sorted(here.rglob("*.wav")))] for each in both)
            assert found == wanted and all(found)
        assert not torch.backends.cudnn.allow_tf32  # convolutions of recognition are of float32
