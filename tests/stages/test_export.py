"""A model given away: smaller, without what lies on this machine, and as good."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

import speechctc
from speechctc.cli.app import app
from speechctc.config.load import load_config
from speechctc.core.bundled import MODELS
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.corpora.registry import read_corpus
from speechctc.inference.load import load_lm, with_lms
from speechctc.inference.recogniser import Recogniser
from speechctc.lm import tuned
from speechctc.lm.arpa import write_arpa
from speechctc.lm.model import NgramModel
from speechctc.lm.ngram import estimate
from speechctc.model.checkpoint import load_checkpoint, write_about
from speechctc.model.net import net_of
from speechctc.stages.export import export
from speechctc.stages.open_model import ModelChoice, open_model
from tests.train_helpers import run_once

LM = ("train.epochs=2", "train.lr=0.01", "decode.lm_order=3", "train.ema=0.9")


@pytest.fixture(scope="module")
def trained(extracted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run with an n-gram, trained once."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run_once(extracted, folder / "run", *LM)
    return folder / "run"


@pytest.fixture
def run(trained: Path, here: Path) -> Path:
    """Return a copy of the run, the latest here."""
    shutil.copytree(trained, here / "run")
    (here / "runs").mkdir()
    (here / "runs" / "latest").symlink_to(here / "run")
    return here / "run"


def test_it_is_half_as_large_and_says_nothing_of_this_machine(run: Path, trained: Path, here: Path) -> None:
    written = export(run, here / "given")
    assert written == sum(file.stat().st_size for file in (here / "given").iterdir())
    for name in ("weights.safetensors", "lm.safetensors"):
        sizes = [(folder / name).stat().st_size for folder in (run / "best", here / "given")]
        assert sizes[1] < 0.85 * sizes[0]
    about = (here / "given" / "checkpoint.json").read_text()
    assert str(here) not in about and str(trained.parent) not in about and "tones" not in about
    assert json.loads(about)["phones"] == json.loads((run / "best" / "checkpoint.json").read_text())["phones"]


def test_a_model_card_is_written(run: Path, here: Path) -> None:
    export(run, here / "given")
    card = (here / "given" / "README.md").read_text(encoding="utf-8")
    net = net_of(load_checkpoint(here / "given"))
    assert f"{sum(each.numel() for each in net.parameters()):,} parameters" in card
    assert "| an n-gram of phones" in card and "--model given" in card and "{" not in card


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_a_card_of_a_person_is_kept_and_a_link_in_its_place_refused(run: Path, here: Path) -> None:
    export(run, here / "given")
    card = here / "given" / "README.md"
    card.write_bytes(b"Caf\xe9\r\nmine\r\n")
    export(run, here / "given", overwrite=True)
    assert card.read_bytes() == b"Caf\xe9\r\nmine\r\n"
    card.unlink()
    (here / "secret").write_text("a key")
    card.symlink_to(here / "secret")
    with pytest.raises(InputError, match="README.md: a link"):
        export(run, here / "given", overwrite=True)
    assert (here / "secret").read_text() == "a key"


def test_a_file_that_export_did_not_write_is_kept_though_a_model_may_have_one(run: Path, here: Path) -> None:
    export(run, here / "given")
    mine = here / "given" / "calibration.json"
    assert not mine.exists()
    mine.write_text("mine")
    with pytest.raises(InputError, match=r"not an exported model and nothing else \(calibration.json\)"):
        export(run, here / "given", overwrite=True)
    assert mine.read_text() == "mine"


def test_the_rules_of_its_labels_go_along(run: Path, here: Path) -> None:
    about = json.loads((run / "best" / "checkpoint.json").read_text())
    about["config"]["corpus"] |= {"tone": "strip", "diphthongs": "split"}
    write_about(run / "best", about)
    export(run, here / "given")
    corpus = load_checkpoint(here / "given").config.corpus
    assert (corpus.tone, corpus.diphthongs, corpus.length, corpus.tables.train) == ("strip", "split", "keep", None)


def test_it_gives_what_the_run_gives(run: Path, here: Path) -> None:
    export(run, here / "given")
    whole, given = speechctc.load(run), speechctc.load(here / "given")
    noise = np.random.default_rng(0).standard_normal(16000).astype(np.float32) * 0.1
    np.testing.assert_allclose(given.logits(noise, 16000), whole.logits(noise, 16000), atol=0.05)
    ours, theirs = whole.checkpoint.lm, given.checkpoint.lm
    assert ours is not None and theirs is not None
    np.testing.assert_allclose(theirs.log_probs, ours.log_probs, atol=0.01)
    np.testing.assert_array_equal(theirs.next_state, ours.next_state)


def test_tuned_weights_are_exported_for_the_rounded_ngram(run: Path, here: Path) -> None:
    entry = dict(lm_weight=0.7, lm_bonus=1.25, lm_share=0.5, beam=16)
    own = tuned.identity(load_checkpoint(run / "best").lm, None)
    tuned.write_tuned(run / "best" / tuned.TUNED_FILE, entry | {"lms": own})
    tuned.write_tuned(run / "best" / tuned.TUNED_FILE, entry | {"lms": "of another", "beam": 8})
    export(run, here / "given")
    given = speechctc.load(here / "given")
    assert given.config.decode.lm_weight == 0.7 and given.config.decode.beam == 16
    assert len(tuned.read_tuned(here / "given" / tuned.TUNED_FILE)) == 2
    assert export(run, here / "given", overwrite=True)


def test_another_ngram_goes_along_with_the_weights_tuned_for_it(
    run: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = load_checkpoint(run / "best").inventory
    labels = [[1, 2, 3, 4], [2, 2, 4]]
    write_arpa(here / "other.arpa", estimate(labels, len(inventory.phones) + 1, 3), inventory)
    export(run, here / "untuned", lm=here / "other.arpa", reporter=Reporter())
    assert "speechctc lm tune --lm" in capsys.readouterr().err
    ngram = load_lm(here / "other.arpa", inventory)
    assert isinstance(ngram, NgramModel)
    entry = dict(lm_weight=0.7, lm_bonus=1.25, lm_share=0.0, beam=16, lms=tuned.identity(ngram.lm, None))
    tuned.write_tuned(run / "best" / tuned.TUNED_FILE, entry | {"split": "dev", "per": 12.5})
    export(run, here / "given", lm=here / "other.arpa", reporter=Reporter())
    given = load_checkpoint(here / "given")
    assert given.facts["dev_per"] == 12.5 and given.config.decode.lm_share == 0.5
    assert given.lm is not None and (given.config.decode.lm_weight, given.config.decode.lm_bonus) == (0.7, 1.25)
    np.testing.assert_allclose(given.lm.log_probs, ngram.lm.log_probs, atol=0.02, rtol=1e-3)
    with pytest.raises(InputError, match="holds no language model"):
        export(run, here / "m.onnx", lm=here / "other.arpa")


def test_a_model_without_an_ngram_takes_one_relative_to_its_own_frequencies(extracted: Path, here: Path) -> None:
    run_once(extracted, here / "run", "train.epochs=1")
    model = load_checkpoint(here / "run" / "best")
    counts = model.facts["frequencies"]
    labels = [
        each for utterance in read_corpus(load_config(extracted).corpus).splits["train"] for each in utterance.phones
    ]
    assert counts == [labels.count(phone) for phone in model.inventory.phones] and min(counts) > 0
    write_arpa(here / "a.arpa", estimate([[1, 2, 3, 4], [2, 2, 4]], 5, 3), model.inventory)
    quiet, less = Reporter(quiet=True), np.log(np.array(counts) / sum(counts))
    less -= (np.exp(less) * less).sum()
    plain = load_lm(here / "a.arpa")
    assert isinstance(plain, NgramModel)
    expected = plain.lm.log_probs - np.array([0, *less])
    export(here / "run", here / "given", lm=here / "a.arpa", reporter=quiet)
    for folder, lms in (
        (here / "run" / "best", [here / "a.arpa"]),
        (here / "given", []),
        (here / "given", [here / "a.arpa"]),
    ):
        used = with_lms(open_model(folder, Recogniser, ModelChoice("cpu", is_tuned=False)), lms, quiet).checkpoint.lm
        assert used is not None
        np.testing.assert_allclose(used.log_probs, expected, atol=0.02, rtol=1e-3)
    alone = load_lm(here / "given")  # as a language model of its own it has probabilities
    assert isinstance(alone, NgramModel)
    np.testing.assert_allclose(np.exp(alone.lm.log_probs).sum(axis=1), 1, atol=0.01)


@pytest.mark.parametrize(("name", "phones", "with_ngram"), [("english", "aa", True), ("ipa", "ɲ", False)])
def test_a_model_that_comes_along_is_whole(name: str, phones: str, with_ngram: bool, here: Path) -> None:
    folder = MODELS[name].folder
    model = load_checkpoint(folder)
    assert (model.lm is not None) == with_ngram and phones in model.inventory.phones
    assert {"README.md", "calibration.json"} <= {path.name for path in folder.iterdir()}
    assert speechctc.load(name, "cpu").phones == model.inventory.phones
    soundfile.write("a.wav", np.random.default_rng(0).normal(0, 0.01, 16000), 16000)
    asked = CliRunner().invoke(app, ["decode", "a.wav", "--model", name])
    assert asked.exit_code == 0 and f"using the bundled model {name} ({MODELS[name].about}): " in asked.stderr
