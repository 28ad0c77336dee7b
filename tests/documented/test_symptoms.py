"""The faults that trainers of phone recognisers ask about, made on purpose: what is seen, and that the cure helps."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from speechctc.config.load import load_config
from speechctc.core.errors import InputError
from speechctc.corpora.registry import read_corpus
from speechctc.inference.recogniser import Recogniser
from speechctc.metrics.per import protocols_for, score_by_protocols
from speechctc.phones.inventory import TIMIT61, Inventory
from speechctc.phones.label_rules import parse_folding
from speechctc.phones.pronouncer import Pronouncer
from speechctc.stages.doctor import analyse_sounds, check_corpus
from speechctc.stages.evaluate import evaluate
from speechctc.stages.extract import extract
from speechctc.stages.train import train_net
from tests.documented.reading import ROOT
from tests.stages.spoilt import FAULTS, Tones, clean
from tests.tones import PHONES, RATE, speak
from tests.train_helpers import Recorder, run_once, score_once

PAGE = ROOT / "docs/guide/symptoms.md"


def section(heading: str) -> str:
    """Return the section of the page under a heading, on one line."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, heading
    return " ".join(found[1].split())


def kinds(tones: Tones, *settings: str) -> set[str]:
    """Return what the doctor finds in a corpus."""
    config = load_config(tones.write(), settings)
    corpus = read_corpus(config.corpus)
    return {each.kind for each in check_corpus(config, corpus, analyse_sounds(corpus, Recorder()))}


def test_the_loss_stays_where_it_is(extracted: Path, here: Path) -> None:
    told = section("The loss stays at 2.9, or at another number")
    recorder = Recorder()
    steps = ["train.lr=1", "train.warmup_steps=0", "train.schedule=constant"]
    score_once(extracted, here / "stuck", "train.epochs=3", *steps, recorder=recorder)
    (alarm,) = [line for line in recorder.said if line.startswith("warning: stuck: ")]
    assert "above the 1.692 of a net that gives every frame the same answer" in alarm
    assert "begin another run with a third of train.lr" in alarm
    assert "of a net that gives every frame the same answer" in told and "train.lr" in told
    score_once(extracted, here / "cured", "train.epochs=5", recorder=(cured := Recorder()))
    assert per_of_first(here / "cured", load_config(extracted).corpus.tables.test) < 30
    assert not any("stuck" in line for line in cured.said)


def test_the_per_is_far_above_the_papers() -> None:
    told = section("The PER is far above the paper's")
    said = "h# sh iy hv ae dcl d ax h#".split()
    heard = "h# sh ix hh ae dcl d ah h#".split()
    scores = score_by_protocols(
        protocols_for(Inventory("timit61", TIMIT61), parse_folding("timit39")), [(said, heard)], ["a"]
    )
    rates = {each.name: each.counts.per for each in scores}
    assert rates["raw"] > 30 and rates["strict39"] < 15
    assert all(f"`{name}`" in told for name in ("raw", "strict39")) and {"kaldi", "speechbrain"} <= set(rates)


@pytest.mark.parametrize("fault", ["two notations", "two spellings", "a phone that is never scored"])
def test_phone_sets_are_mixed(fault: str, tmp_path: Path) -> None:
    told = section("Two phone sets, or two pronouncers, are mixed")
    plant, kind, _ = FAULTS[fault]
    tones = clean(tmp_path)
    plant(tones)
    assert kind in kinds(tones)
    same = {"aa": "ɑ", "iy": "i", "sh": "ʃ", "y": "j", "g": "ɡ", "hidden": "low"}
    (tmp_path / "same.tsv").write_text("".join(f"{label}\t{to}\n" for label, to in same.items()), encoding="utf-8")
    assert kind not in kinds(tones, f"corpus.map={tmp_path / 'same.tsv'}")
    assert "corpus.map=" in told and "speechctc doctor" in told


@pytest.mark.parametrize(
    ("fault", "heard"), [("a file cut short", "are shorter than"), ("too few frames", "too few frames")]
)
def test_phones_are_missing_at_the_end(fault: str, heard: str, tmp_path: Path) -> None:
    told = section("Phones are missing at the end")
    tones = clean(tmp_path)
    FAULTS[fault][0](tones)
    assert FAULTS[fault][1] in kinds(tones) and "shorter than" in told and "too few frames" in told
    tones.rows["train"].pop()
    assert not kinds(tones)


def test_shapes_do_not_fit(extracted: Path, here: Path) -> None:
    told = section("Shapes or sizes do not fit, when training goes on from a model")
    run_once(extracted, here / "first", "train.epochs=1")
    begin = f"train.init_from={here / 'first'}"
    with pytest.raises(
        InputError, match="another kind of net: model.dense=.* there, .* here; set train.init_from=null"
    ):
        run_once(extracted, here / "second", "train.epochs=1", "model.dense=[16]", begin)
    assert "another kind of net" in told
    run_once(extracted, here / "second", "train.epochs=1", begin)


def test_weights_do_not_load(here: Path) -> None:
    told = section("Weights do not load")
    torch.save({"weight": torch.zeros(3)}, "model.pt")
    with pytest.raises(InputError, match="model.pt: neither a checkpoint nor a run that has saved one; name a run's"):
        Recogniser.load(Path("model.pt"))
    assert "neither a checkpoint nor a run" in told


def test_capitals_are_read_as_letters() -> None:
    told = section("Words in capitals come out as letters")
    reader = Pronouncer(None, "en-us")

    def first(text: str) -> list[tuple[str, ...]]:
        return [word[1][0] for word in reader.read(text)]

    assert first("WE GAVE IT TO US") == first("we gave it to us")
    assert first("he saw the US")[-1] != first("he saw the us")[-1] and "small letters" in told


def test_the_first_language_is_forgotten(extracted: Path, here: Path) -> None:
    """The second has two of the four phones, as another language has others; the first is scored on its own."""
    told = section("After training on one language the other is forgotten")
    rng = np.random.default_rng(5)
    first = load_config(extracted).corpus.tables
    rows = []
    for number in range(32):
        phones = [PHONES[2 + k] for k in rng.integers(2, size=6)]
        soundfile.write(f"{number}.wav", speak(phones, rng), RATE)
        rows.append(f"other{number}\t{here / f'{number}.wav'}\t{' '.join(phones)}\ts{number % 4}\n")
    soundfile.write("rest.wav", speak([*PHONES], rng), RATE)
    rows.insert(0, f"other\t{here / 'rest.wav'}\t{' '.join(PHONES)}\ts0\n")  # else the set lacks two phones
    for split, part in (("train", rows[:24]), ("dev", rows[24:])):
        Path(f"{split}.tsv").write_text("id\taudio\tphones\tspeaker\n" + "".join(part), encoding="utf-8")
    run_once(extracted, here / "known", "train.epochs=8")
    rates = {"known": per_of_first(here / "known", first.test)}
    for name, train in (("alone", "train.tsv"), ("both", f"[train.tsv,{first.train}]")):
        tables = [f"corpus.tables.train={train}", "corpus.tables.dev=dev.tsv", f"data.dir=features-{name}"]
        config = load_config(
            extracted, [*tables, f"run={name}", "train.epochs=12", "train.lr=0.02", f"train.init_from={here / 'known'}"]
        )
        extract(config, Recorder())
        train_net(config, False, Recorder())
        rates[name] = per_of_first(Path(name), first.test)
    assert rates["known"] < 10 and rates["both"] < 10 and rates["alone"] > 15, rates
    assert "corpus.tables.train='[" in told


def per_of_first(run: Path, test: object) -> float:
    recogniser = Recogniser.load(run)
    return evaluate(recogniser, "test", [f"corpus.tables.test={test}"], Recorder()).counts.per
