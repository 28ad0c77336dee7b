"""Beginning with another model's weights."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from speechctc.config.load import load_config
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.model.checkpoint import BUILT_IN, Checkpoint, load_checkpoint, save_checkpoint
from speechctc.model.net import build_net, net_of
from speechctc.phones.inventory import Inventory
from speechctc.training.initialise import find_pretrained, first_lms, first_net, load_pretrained
from speechctc.training.records import Callbacks
from speechctc.training.trainer import Stopped
from tests.train_helpers import Recorder, run_once, same, score_once, trainer_of


def test_weights_go_over_and_phones_keep_their_rows(extracted: Path, here: Path) -> None:
    run_once(extracted, here / "a", "train.epochs=1")
    source = load_checkpoint(here / "a" / "last")
    known = source.inventory.phones
    inventory = Inventory("found", ("new", *reversed(known)))
    config = load_config(extracted)
    net = build_net(config, inventory)
    fresh = net.output.weight.detach().clone()
    assert set(load_pretrained(net, config, inventory, source)) == set(known)
    for ours, theirs in zip(net.convs.parameters(), net_of(source).convs.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(net.output.weight[1], fresh[1])
    assert torch.equal(net.output.weight[0], net_of(source).output.weight[0])
    assert torch.equal(net.output.weight[2:], net_of(source).output.weight[1:].flip(0))
    given = net_of(source).output.bias
    assert net.output.bias is not None and given is not None
    assert torch.equal(net.output.bias[2:], given[1:].flip(0))


def test_a_phone_unknown_by_name_begins_as_its_class(extracted: Path, here: Path) -> None:
    run_once(extracted, here / "a", "train.epochs=1")
    source = load_checkpoint(here / "a" / "last")
    count = len(source.inventory.phones)
    source = replace(source, inventory=Inventory("found", ("sh", "aa", *"xyz"[: count - 2])))
    config, inventory = load_config(extracted), Inventory("found", ("zh", "ao", "q"))
    net = build_net(config, inventory)
    matches = load_pretrained(net, config, inventory, source)
    assert (matches["zh"].phone, matches["ao"].phone) == ("sh", "aa")
    assert torch.equal(net.output.weight[:3], net_of(source).output.weight[:3])


@pytest.mark.parametrize(("setting", "is_uniform"), [("none", True), ("layer", False)])
def test_a_residual_net_without_normalisation_begins_with_equal_outputs(
    extracted: Path, here: Path, setting: str, is_uniform: bool
) -> None:
    settings = ("model.residual=true", "model.convs=[8,8,8]", f"model.norm={setting}")
    train_step = trainer_of(extracted, here / "a", *settings).train_step
    assert bool((train_step.net.get_parameter("output.weight") == 0).all()) == is_uniform


def test_a_run_begins_where_another_ended(extracted: Path, here: Path) -> None:
    settings = ("train.epochs=4", "train.lr=0.01")
    learned = score_once(extracted, here / "a", *settings)
    recorder = Recorder()
    slow = ("train.epochs=1", "train.lr=1e-9", "model.dropout=0.1")
    again = score_once(extracted, here / "b", *slow, f"train.init_from={here / 'a'}", recorder=recorder)
    fresh = score_once(extracted, here / "c", *slow)
    assert again.counts.per <= learned.counts.per + 1 < fresh.counts.per
    assert any(
        "begins with the weights of" in line and "of the 4 phones here it knows 4 by name" in line
        for line in recorder.said
    ), recorder.said


def test_a_run_taken_up_again_does_not_need_the_other_any_more(extracted: Path, here: Path) -> None:
    run_once(extracted, here / "a", "train.epochs=1")
    settings = (f"train.init_from={here / 'a'}",)
    run_once(extracted, here / "b", "train.epochs=1", *settings)
    (here / "a").rename(here / "gone")
    run_once(extracted, here / "b", "train.epochs=2", *settings, resume=True)
    with pytest.raises(InputError, match="^train.init_from=.*a: no such folder; "):
        trainer_of(extracted, here / "c", *settings)


@pytest.mark.parametrize("other", ["model.dense=[16]", "model.convs=[12,10]", "features.preemphasis=0.9"])
def test_another_kind_of_net_is_refused(extracted: Path, here: Path, other: str) -> None:
    run_once(extracted, here / "a", "train.epochs=1")
    source = load_checkpoint(here / "a" / "last")
    config = load_config(extracted, [other, f"train.init_from={here / 'a'}"])
    with pytest.raises(
        InputError, match=f"another kind of net: {other.partition('=')[0]}=.* there.*; set train.init_from=null"
    ):
        first_net(config, replace(source).inventory, here / "a", Reporter(quiet=True))


def test_a_net_goes_on_with_a_context_and_not_without(extracted: Path, here: Path) -> None:
    """The context changes nothing at first, and is trained."""
    model = ("model.dense=[12,12]", "model.context=3", "model.context_span=21")
    run_once(extracted, here / "b", "train.epochs=1", model[0])
    source = load_checkpoint(here / "b" / "last")
    settings = (*model, f"train.init_from={here / 'b'}")
    net, _ = first_net(load_config(extracted, settings), source.inventory, here / "b", Recorder())
    features, frames = torch.randn(1, 3, source.config.features.static_dims, 50), torch.tensor([50])
    assert torch.equal(net.eval()(features, frames)[0], net_of(source).eval()(features, frames)[0])
    run_once(extracted, here / "c", "train.epochs=1", *settings)
    learned = load_checkpoint(here / "c" / "last")
    assert float(np.abs(learned.weights["context.up.0.weight"]).max()) > 0
    with pytest.raises(InputError, match=r"another kind of net: model\.context=3 there, 0 here"):
        load_pretrained(net_of(source), source.config, source.inventory, learned)


def test_the_bundled_model_is_taken_by_name_for_phones_in_ipa(here: Path) -> None:
    config, recorder = load_config("finetune"), Recorder()
    inventory = Inventory("found", ("T1", "iː", "k", "t͡ʃ", "y"))
    net, _ = first_net(config, inventory, Path("english"), recorder)
    source = load_checkpoint(BUILT_IN)
    rows = [source.inventory.phones.index(phone) + 1 for phone in ("iy", "k", "ch", "iy")]
    assert torch.equal(net.get_parameter("output.weight")[2:], net_of(source).output.weight[rows])
    (said,) = recorder.said
    for part in ("bundled model english (39 phones, cmu39)", "1 by name, 2 by table", "y as iy", "afresh (T1)"):
        assert part in said, said


def test_a_folder_of_the_bundled_models_name_is_not_overlooked(here: Path, tiny_model: Path) -> None:
    (here / "english").mkdir()
    recorder = Recorder()
    assert find_pretrained(Path("english"), recorder) == BUILT_IN
    assert "holds no model" in recorder.said[0]
    save_checkpoint(here / "english" / "best", load_checkpoint(tiny_model / "best"))
    assert find_pretrained(Path("english"), recorder) == Path("english/best")
    assert "not the bundled model" in recorder.said[1]


def test_another_corpus_of_the_model_begun_with_is_said(extracted: Path, here: Path) -> None:
    run_once(extracted, here / "a", "train.epochs=1")
    inventory = load_checkpoint(here / "a" / "last").inventory
    same, other = Recorder(), Recorder()
    first_net(load_config(extracted), inventory, here / "a", same)
    first_net(load_config(extracted, ["corpus.dev_share=0.3"]), inventory, here / "a", other)
    assert len(same.said) == 1 and "among its training speakers" in other.said[1]


@pytest.mark.parametrize(
    ("config", "settings", "fits"),
    [
        ("finetune", [], True),
        ("start", ["model.dense=[240, 240, 240, 240, 240, 240, 240, 240, 240]", "model.context=64"], True),
        ("start", ["model.dense=[240, 240, 240, 240, 240, 240, 240, 240, 240]"], False),
        ("start", [], False),
        ("small-data", [], False),
    ],
)
def test_which_configs_can_begin_with_the_bundled_model(config: str, settings: list[str], fits: bool) -> None:
    """As docs/guide/languages.md says."""
    corpus = ["corpus.language=cy"] if config == "start" else []
    loaded, inventory = load_config(config, [*settings, *corpus]), Inventory("found", ("a", "b", "ɬ"))
    recorder = Recorder()
    if fits:
        first_net(loaded, inventory, Path("english"), recorder)
        assert "begins with the bundled model" in recorder.said[0]
    else:
        with pytest.raises(InputError, match="the config finetune"):
            first_net(loaded, inventory, Path("english"), recorder)


def test_the_model_that_one_begins_with_is_epoch_0_and_stays_where_training_makes_it_worse(
    extracted: Path, here: Path
) -> None:
    lm = "decode.lm_order=3"
    run_once(extracted, here / "a", "train.epochs=6", "train.lr=0.004", lm)
    source, recorder = load_checkpoint(here / "a" / "best"), Recorder()
    destroyed = (
        f"train.init_from={here / 'a'}",
        "train.epochs=1",
        "train.lr=3",
        "train.ema=0",
        "train.curves=false",
        lm,
    )
    score = score_once(extracted, here / "b", *destroyed, recorder=recorder)
    best = load_checkpoint(here / "b" / "best")
    assert score.counts.per > source.facts["dev_per"] == best.facts["dev_per"] and best.facts["epoch"] == 0
    assert all(np.array_equal(best.weights[name], value) for name, value in source.weights.items())
    assert np.array_equal(best.mean, source.mean) and np.array_equal(best.std, source.std)
    assert any(line.startswith("epoch   0: ") and "as it is" in line for line in recorder.said)
    (warned,) = [line for line in recorder.said if line.startswith("warning: no epoch was better on dev")]
    assert f"{here / 'a'}" in warned


def test_the_per_that_one_begins_with_is_told_before_the_first_step(extracted: Path, here: Path) -> None:
    run_once(extracted, here / "a", "train.epochs=1")
    told = list[tuple[float, int]]()
    trainer = trainer_of(extracted, here / "b", f"train.init_from={here / 'a'}", "train.epochs=1")
    trainer.callbacks = Callbacks(on_beginning=lambda record: told.append((record["dev_per"], trainer.progress.step)))
    trainer.train()
    (per, steps), *others = told
    assert per == pytest.approx(load_checkpoint(here / "a" / "best").facts["dev_per"]) and steps == 0 and not others


def test_the_ngram_of_the_same_phones_is_mixed_and_one_of_others_is_not(extracted: Path, here: Path) -> None:
    run_once(extracted, here / "a", "train.epochs=1", "decode.lm_order=4")
    source = load_checkpoint(here / "a" / "best")
    turned = Inventory(source.inventory.name, tuple(reversed(source.inventory.phones)))
    settings = ("decode.lm_order=2", "train.epochs=1")
    trainer = trainer_of(extracted, here / "b", *settings)
    own = trainer.data.phone_lm(2, 1)
    for inventory in (source.inventory, turned):
        (lm, share), (given, whole) = first_lms(
            trainer.data, replace(source, inventory=inventory), trainer.config.decode
        )
        assert lm is not None and lm.ngram is not None and 0 < share < 1 and lm.ngram.order == 4
        assert given is not None and given.ngram is not None and whole == 1 and given.ngram.order == 4
    fewer = Inventory("found", source.inventory.phones[1:])
    ((lm, share),) = first_lms(trainer.data, replace(source, inventory=fewer), trainer.config.decode)
    assert lm is not None and own is not None and share == 0
    assert np.array_equal(lm.log_probs, own.log_probs)


def test_a_run_from_a_model_goes_on_with_its_normalisation_and_its_ngram(extracted: Path, here: Path) -> None:
    run_once(extracted, here / "a", "train.epochs=1", "decode.lm_order=3")
    settings = (f"train.init_from={here / 'a'}", "decode.lm_order=3", "train.schedule=constant", "train.warmup_steps=0")
    whole = run_once(extracted, here / "whole", *settings, "train.epochs=2")
    run_once(extracted, here / "parts", *settings, "train.epochs=1")
    assert load_checkpoint(here / "parts" / "last").facts["lm_share"] > 0
    parts = run_once(extracted, here / "parts", *settings, "train.epochs=2", resume=True)
    one, other = (load_checkpoint(here / name / "last") for name in ("whole", "parts"))
    assert (
        same(whole, parts) and np.array_equal(one.std, other.std) and one.facts["lm_share"] == other.facts["lm_share"]
    )
    assert one.lm is not None and other.lm is not None and np.array_equal(one.lm.log_probs, other.lm.log_probs)


def test_a_stop_before_the_first_step_leaves_nothing_so_that_the_run_begins_with_its_model_again(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_once(extracted, here / "a", "train.epochs=1", "decode.lm_order=3")
    settings = (f"train.init_from={here / 'a'}", "train.epochs=1", "decode.lm_order=3")
    whole = run_once(extracted, here / "whole", *settings)
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr("speechctc.training.trainer.score_dev", lambda *_: signal.raise_signal(signal.SIGINT))
        run_once(extracted, here / "stopped", *settings)
    assert not (here / "stopped").exists()
    assert same(whole, run_once(extracted, here / "stopped", *settings, resume=True))
    one, other = (load_checkpoint(here / name / "best") for name in ("whole", "stopped"))
    assert one.facts["lm_share"] == other.facts["lm_share"] > 0


def test_a_kill_before_the_best_of_the_model_that_it_begins_with_is_saved_does_not_lose_it(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_once(extracted, here / "a", "train.epochs=1", "decode.lm_order=3")
    settings = (f"train.init_from={here / 'a'}", "train.epochs=1", "decode.lm_order=3", "train.lr=1e-9")
    whole = run_once(extracted, here / "whole", *settings)

    def save(folder: Path, checkpoint: Checkpoint) -> None:
        if folder.name == "best":
            raise KeyboardInterrupt
        save_checkpoint(folder, checkpoint)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("speechctc.training.trainer.save_checkpoint", save)
        run_once(extracted, here / "killed", *settings)
    assert (here / "killed" / "last").exists() and not (here / "killed" / "best").exists()
    assert same(whole, run_once(extracted, here / "killed", *settings, resume=True))
    one, other = (load_checkpoint(here / name / "best") for name in ("whole", "killed"))
    assert (one.facts["epoch"], one.facts["dev_per"]) == (other.facts["epoch"], other.facts["dev_per"])
