"""Nets of a user's own: trained, resumed, exported and decoded as the package's own, or refused in one line."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import speechctc
from speechctc.config.load import load_config
from speechctc.core import plugins
from speechctc.core.errors import InputError
from speechctc.features.extractor import extractor
from speechctc.inference import streaming
from speechctc.inference.recogniser import Recogniser
from speechctc.model.checkpoint import load_checkpoint
from speechctc.model.net import any_net_of
from speechctc.stages.export import export
from speechctc.stages.export_onnx import export_onnx
from speechctc.training.train_step import TrainStep
from tests.own_nets import Recurrent, Windowed, recurrent, windowed
from tests.tones import PHONES, speak
from tests.train_helpers import Recorder, run_once, same, score_once, stopping, trainer_of

WINDOWED = ("model.kind=windowed", "train.lr=0.01")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "registered", {})
    speechctc.register_model("windowed", windowed)
    speechctc.register_model("recurrent", recurrent)


def song(seconds: float, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return np.concatenate([speak([*rng.permutation(PHONES)], rng) for _ in range(round(2 * seconds))])[
        : round(16000 * seconds)
    ]


@pytest.fixture
def trained(extracted: Path, here: Path) -> Recogniser:
    speechctc.train(extracted, [*WINDOWED, "run=own", "train.epochs=6"], reporter=Recorder())
    return speechctc.load("own", "cpu")


def test_it_is_trained_scored_and_told_apart(trained: Recogniser, here: Path) -> None:
    model = trained.config.model
    assert (model.time_stride, model.sees, model.longest, model.version) == (2, (5, 5), None, "")
    dev = json.loads((here / "own" / "metrics.jsonl").read_text().splitlines()[-1])["dev_per"]
    best = json.loads((here / "own" / "best" / "checkpoint.json").read_text())["dev_per"]
    assert best < 60 and best <= dev
    assert speechctc.evaluate("own", "dev", reporter=Recorder()).counts.per == pytest.approx(best)


def test_blocks_and_live_sound_give_what_one_pass_gives(trained: Recogniser, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = song(12)
    whole = trained.logits(sound, 16000)
    net = any_net_of(trained.checkpoint).eval()
    static = extractor(trained.config.features).static(sound)
    assert len(whole) == -(-len(static) // 2)
    blocks = np.concatenate([*trained.forward.in_blocks(streaming.SampleBlocks(sound, 16000, 16000), block_frames=64)])
    np.testing.assert_allclose(blocks, whole, atol=1e-4)
    stream = trained.stream(16000, lookahead=None)
    live = [each for k in range(0, len(sound), 1000) for each in stream.push(sound[k : k + 1000])] + stream.finish()
    assert [each.phone for each in live] == [*trained.decode(sound, 16000).phones]
    assert sum(each.numel() for each in net.parameters()) > 0


def test_a_killed_training_goes_on_to_the_same_bits(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (*WINDOWED, "model.options.statistics=true", "train.epochs=2", "train.ema=0.9")
    whole = run_once(extracted, here / "whole", *settings)
    assert {"net.own.norm.running_mean", "net.own.norm.num_batches_tracked"} <= whole.keys()
    with monkeypatch.context() as patch:
        patch.setattr(TrainStep, "step", stopping(TrainStep.step, {3, 8}))
        for resume in (False, True):
            with pytest.raises(speechctc.stages.train.Stopped):
                run_once(extracted, here / "parts", *settings, resume=resume)
    assert same(whole, run_once(extracted, here / "parts", *settings, resume=True))


def test_the_estimate_of_memory_leaves_statistics_as_they_were(extracted: Path, here: Path) -> None:
    trainer = trainer_of(extracted, here / "r", *WINDOWED, "model.options.statistics=true")
    before = copy.deepcopy(trainer.train_step.net.state_dict())
    trainer._describe_run()
    assert same(before, trainer.train_step.net.state_dict())


def test_copies_exports_and_onnx_compute_the_same(trained: Recogniser, here: Path) -> None:
    sound = song(2)
    expected = trained.logits(sound, 16000)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(trained)).logits(sound, 16000), expected)
    export(Path("own"), Path("given"), reporter=Recorder())
    np.testing.assert_allclose(speechctc.load("given", "cpu").logits(sound, 16000), expected, atol=0.3)
    export_onnx(load_checkpoint(Path("own/best")), Path("own.onnx"))
    static = extractor(trained.config.features).static(sound)
    given = {"features": static[None], "frames": np.array([len(static)])}
    logits, lengths = onnxruntime.InferenceSession("own.onnx").run(None, given)
    assert lengths.tolist() == [len(expected)]
    np.testing.assert_allclose(logits[0], expected, atol=1e-3)


def test_what_torch_cannot_export_is_one_line(extracted: Path, here: Path) -> None:
    class Packed(Recurrent):
        def forward(self, x: Tensor, frames: Tensor | None = None) -> Tensor:
            assert frames is not None
            packed = nn.utils.rnn.pack_padded_sequence(x, frames.cpu(), batch_first=True, enforce_sorted=False)
            hidden, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], True, total_length=x.shape[1])
            logits: Tensor = self.output(hidden)
            return logits

    speechctc.register_model("packed", lambda inputs, classes: speechctc.OwnNet(Packed(inputs, classes, 3), longest=9))
    run_once(extracted, here / "r", "model.kind=packed", "train.epochs=1")
    with pytest.raises(
        InputError, match=r"model.kind=packed: torch.onnx cannot export it: .*; export a folder"
    ) as raised:
        export_onnx(load_checkpoint(here / "r" / "best"), here / "r.onnx")
    assert "\n" not in str(raised.value) and not (here / "r.onnx").exists()


def test_the_card_of_an_export_names_the_net_and_its_code(trained: Recogniser, here: Path) -> None:
    export(trained.folder, here / "given")
    card = (here / "given" / "README.md").read_text(encoding="utf-8")
    assert "in 8 bits; `windowed`, features" in card and "maxout" not in card
    assert "It needs code of its maker's own: `model.kind=windowed`." in card


def test_phones_are_placed(trained: Recogniser) -> None:
    found = trained.align(song(2), "low mid", 16000)
    assert found.phones == ("low", "mid")


def test_a_net_that_hears_the_whole_takes_no_more(extracted: Path, here: Path) -> None:
    recorder, settings = Recorder(), ["model.kind=recurrent", "run=whole", "train.epochs=1"]
    speechctc.train(extracted, settings, reporter=recorder)
    said = "\n".join(recorder.said)
    assert "hears all of at most 5 s at once: no live sound, no blocks" in said
    assert "warning: model.kind=recurrent: the logits of an utterance change with the padding behind it" in said
    model = speechctc.load("whole", "cpu")
    assert len(model.logits(song(4.9), 16000)) == 488
    with pytest.raises(
        InputError, match="^a recording longer than 5 s, and model.kind=recurrent hears at most that at"
    ):
        model.decode(song(5.2), 16000)
    with pytest.raises(
        InputError, match="model.kind=recurrent hears a whole recording at once: there are no live phones"
    ):
        model.stream(16000)


def test_utterances_that_are_too_long_are_left_out_and_named(extracted: Path, here: Path) -> None:
    recorder, lengths = Recorder(), trainer_of(extracted, here / "a").data.train.split.frames
    longest = float(np.median(lengths)) / 100
    settings = ("model.kind=recurrent", f"model.options.longest={longest}")
    data = trainer_of(extracted, here / "r", *settings, recorder=recorder).data
    assert len(data.train.members) == (lengths <= int(longest * 100)).sum()
    number = len(lengths) - len(data.train.members)
    assert any(
        f"warning: {number} utterances of train left out, longer than the net takes" in line for line in recorder.said
    )
    slower = trainer_of(extracted, here / "s", *settings, "augment.speed=0.2").data
    assert (slower.train.split.frames[slower.train.members] / 0.8).max() <= longest * 100
    with pytest.raises(InputError, match="every utterance of dev is longer than the net takes"):
        trainer_of(extracted, here / "t", "model.kind=recurrent", "model.options.longest=0.1")


def test_another_set_of_phones_begins_with_its_weights(trained: Recogniser, extracted: Path, here: Path) -> None:
    trainer = trainer_of(extracted, here / "b", *WINDOWED, "train.init_from=own")
    assert same(
        {name: torch.from_numpy(each) for name, each in load_checkpoint(Path("own/best")).weights.items()},
        trainer.train_step.net.state_dict(),
    )
    with pytest.raises(
        InputError, match="train.init_from=english: another kind of net: model.kind=conv there, windowed here"
    ):
        trainer_of(extracted, here / "c", *WINDOWED, "train.init_from=english")


def test_it_is_refused_where_nothing_has_its_name(trained: Recogniser, extracted: Path) -> None:
    plugins.registered.clear()
    with pytest.raises(
        InputError, match="model.kind='windowed' is invalid: it should be 'conv', or one that speechctc.reg"
    ):
        speechctc.load("own", "cpu")
    with pytest.raises(
        InputError, match="model.kind=windowed is invalid: it should be 'conv', or one that speechctc.regi"
    ):
        load_config(extracted, ["model.kind=windowed"])


def test_another_version_or_stride_is_refused(trained: Recogniser, monkeypatch: pytest.MonkeyPatch) -> None:
    def newer(inputs: int, classes: int) -> speechctc.OwnNet:
        return speechctc.OwnNet(Windowed(inputs, classes, 24), stride=2, sees=(5, 5), version="2")

    plugins.registered.clear()
    speechctc.register_model("windowed", newer)
    with pytest.raises(
        InputError, match="^model.version='', and the function of model.kind=windowed says '2'; register"
    ):
        speechctc.load("own", "cpu")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model.dense=[8]", r"model.dense is of kind conv, and windowed has its settings in model.options"),
        ("model.options.wide=3", r"model.kind=windowed: TypeError: .*unexpected keyword argument 'wide'"),
        ("model.time_stride=3", "model.time_stride=3, and the function of model.kind=windowed says 2"),
        ("model.options.before=2", r"logits change with frames outside of sees=\(2, 5\) around frame t \* stride"),
    ],
)
def test_what_does_not_fit_is_one_line(extracted: Path, here: Path, setting: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        trainer_of(extracted, here / "r", "model.kind=windowed", setting)
    assert "\n" not in str(raised.value)


def test_options_of_the_packages_net_are_refused(extracted: Path) -> None:
    with pytest.raises(InputError, match="model.options is of nets of one's own"):
        load_config(extracted, ["model.options.width=3"])


class Odd(nn.Module):
    """Fails, or returns what it should not."""

    def __init__(self, classes: int, how: str) -> None:
        super().__init__()
        self.weight, self.classes, self.how = nn.Parameter(torch.ones(1)), classes, how
        if how == "double":
            self.register_buffer("table", torch.zeros(3, dtype=torch.float64))

    def forward(self, features: Tensor, frames: Tensor) -> Any:
        if self.how == "fails":
            return features[:, :, 10**6]
        if self.how == "nan":
            return self.weight.log().log() * features.new_ones(*features.shape[:2], self.classes) * torch.inf
        if self.how == "detached":
            return (self.weight * features.new_ones(*features.shape[:2], self.classes)).detach()
        return self.weight * features.new_zeros(len(features), features.shape[1] + 1, self.classes)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            lambda _, classes: Odd(classes, "bare"),
            "its function returned Odd, not speechctc.OwnNet; return speechctc.Own",
        ),
        (
            lambda _, classes: speechctc.OwnNet(Odd(classes, "long"), sees=(0, 0)),
            r"returned \(2, 5, 5\) for features of",
        ),
        (lambda _, classes: speechctc.OwnNet(Odd(classes, "fails"), sees=(0, 0)), r"line \d+, in forward: IndexError"),
        (lambda _, classes: speechctc.OwnNet(Odd(classes, "nan"), sees=(0, 0)), "logits of noise that are not finite"),
        (lambda _, classes: speechctc.OwnNet(Odd(classes, "double"), sees=(0, 0)), "table is float64; make it float32"),
        (lambda _, classes: speechctc.OwnNet(Odd(classes, "detached"), sees=(0, 0)), "logits without a gradient"),
        (lambda _, classes: speechctc.OwnNet("net", sees=(0, 0)), "OwnNet: module='net'; give a torch.nn.Module"),  # type: ignore[arg-type]
        (lambda _, classes: speechctc.OwnNet(Odd, sees=(0, 0)), "OwnNet: module=<class .*; give a torch.nn.Module"),  # type: ignore[arg-type]
        (lambda _, classes: speechctc.OwnNet(Odd(classes, "x"), stride=0), "OwnNet: stride=0; give frames"),
        (lambda _, classes: speechctc.OwnNet(Odd(classes, "x"), sees=(1, -1)), r"OwnNet: sees=\(1, -1\); give frames"),
        (
            lambda _, classes: speechctc.OwnNet(Odd(classes, "x")),
            "a net that sees the whole, and longest=None; give it",
        ),
        (lambda _, classes: 1 / 0, r"line \d+, in <lambda>: ZeroDivisionError"),
    ],
)
def test_a_net_that_cannot_be_is_one_line(
    extracted: Path, here: Path, made: Callable[[int, int], Any], said: str
) -> None:
    speechctc.register_model("odd", made)
    with pytest.raises(InputError, match=said) as raised:
        trainer_of(extracted, here / "r", "model.kind=odd")
    assert "\n" not in str(raised.value)


def test_parameters_that_are_not_trained_are_named(extracted: Path, here: Path) -> None:
    """One that the logits do not depend on; not one that is frozen."""

    class Forgets(nn.Linear):
        def __init__(self, inputs: int, classes: int) -> None:
            super().__init__(inputs, classes)
            self.forgotten = nn.Linear(3, 3, bias=False)
            self.constant = nn.Parameter(torch.ones(1), requires_grad=False)

    def made(inputs: int, classes: int) -> speechctc.OwnNet:
        return speechctc.OwnNet(Forgets(inputs, classes), sees=(0, 0))

    speechctc.register_model("forgets", made)
    recorder = Recorder()
    score_once(extracted, here / "r", "model.kind=forgets", "train.epochs=1", recorder=recorder)
    assert [line for line in recorder.said if "depend on" in line] == [
        "warning: model.kind=forgets: logits do not depend on forgotten.weight, so training leaves that as it is"
    ]


@pytest.mark.parametrize(
    ("register", "name", "made", "said"),
    [
        (speechctc.register_model, "x", 3, "register_model: x is 3; give a function"),
        (speechctc.register_optimizer, "x", None, "register_optimizer: x is None; give a function"),
        (speechctc.register_schedule, 3, len, "register_schedule: the name 3; give a text"),
    ],
)
def test_what_cannot_be_called_is_not_registered(
    register: Callable[[Any, Any], None], name: Any, made: Any, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        register(name, made)


def test_no_random_number_is_drawn_to_learn_of_a_net(extracted: Path) -> None:
    speechctc.register_model(
        "again", lambda inputs, classes: speechctc.OwnNet(Recurrent(inputs, classes, 3), longest=1)
    )
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    load_config(extracted, ["model.kind=again"])
    assert torch.equal(torch.rand(1), expected)
