"""The files of docs/guide/own: features, a corpus and an augmentation of one's own, registered or installed."""

from __future__ import annotations

import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile
import torch

import speechctc
from speechctc.config.load import load_config, parse_config
from speechctc.core import plugins
from speechctc.core.errors import InputError
from speechctc.corpora.registry import read_corpus
from speechctc.features.filterbank import static_features
from speechctc.training.augment import Augmenter
from tests.tones import write_config
from tests.train_helpers import Recorder

OWN = Path(__file__).resolve().parent.parent / "docs" / "guide" / "own"


@pytest.fixture(autouse=True)
def nothing_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "registered", {})


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package that names the three files as entry points."""
    site = tmp_path / "site"
    about = site / "own_phones-1.0.dist-info"
    shutil.copytree(OWN, site / "own_phones")
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-phones\nVersion: 1.0\n")
    named = (("features", "bands", "features:Spectrum"), ("corpus", "labs", "corpus:read_labs"))
    text = "".join(f"[speechctc.{group}]\n{name} = own_phones.{place}\n" for group, name, place in named)
    (about / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(site)
    yield


def write_labs(folder: Path) -> Path:
    """Write recordings of silence with labels beside them."""
    for speaker in ("anna", "ben", "kim"):
        (folder / speaker).mkdir(parents=True)
        for number in range(3):
            soundfile.write(folder / speaker / f"u{number}.wav", torch.zeros(8000).numpy(), 16000)
            (folder / speaker / f"u{number}.lab").write_text("a b a")
    (folder / "ben" / "u2.lab").unlink()
    return folder


def test_features_of_ones_own_are_extracted_trained_on_and_decoded(tmp_path: Path) -> None:
    base = write_config(tmp_path)
    settings = ["features.kind=spectrum", "features.options.bands=20", "augment.gain_db=3"]
    with pytest.raises(InputError, match="'mfcc' or 'encoder', or one that speechctc.register_features"):
        speechctc.extract(base, settings, Recorder())
    runpy.run_path(str(OWN / "features.py"))
    speechctc.extract(base, settings, Recorder())
    trained = speechctc.train(base, settings, reporter=Recorder())
    assert trained.dev is not None and trained.dev.counts.per < 60
    model = speechctc.load(trained.run, "cpu")
    assert model.config.features.static_dims == 20 and model.checkpoint.net.has_bands
    assert model.decode(sorted((tmp_path / "audio").glob("2-*.wav"))[0]).phones
    plugins.registered.clear()
    with pytest.raises(InputError, match="features.kind='spectrum' is invalid: it should be .*; name another model"):
        speechctc.load(trained.run, "cpu")


def test_a_corpus_of_ones_own_is_read(tmp_path: Path) -> None:
    values: dict[str, Any] = {"corpus": {"kind": "lab", "root": write_labs(tmp_path), "options": {"test": ["kim"]}}}
    config = parse_config(values, "a model")  # which is used where its corpus is not known
    with pytest.raises(InputError, match="no corpus 'lab' here"):
        read_corpus(config.corpus)
    with pytest.raises(InputError, match="corpus.kind=lab is invalid"):
        load_config("demo", ["corpus.kind=lab"])
    runpy.run_path(str(OWN / "corpus.py"))
    corpus = read_corpus(load_config("demo", ["corpus.kind=lab", f"corpus.root={tmp_path}"]).corpus)
    assert sum(map(len, corpus.splits.values())) == 8 and len(corpus.rejected["train"]) == 1
    corpus = read_corpus(config.corpus)
    assert {each.speaker for each in corpus.splits["test"]} == {"kim"} and len(corpus.splits["dev"]) > 0


def test_an_augmentation_of_ones_own_changes_training_utterances() -> None:
    settings = ["augment.own.hum.share=1", "augment.own.hum.level=12"]
    with pytest.raises(InputError, match="registered|register_augmentation"):
        load_config("demo", settings)
    runpy.run_path(str(OWN / "augmentation.py"))
    config = load_config("demo", settings)
    static = static_features(0.01 * torch.randn(16000), config.features)[None].repeat(3, 1, 1)
    frames = torch.full((3,), static.shape[1])
    augmenter = Augmenter(config, torch.device("cpu"))
    torch.manual_seed(1)
    found = augmenter.disguise(static, frames)
    changed = (found != static).any(1)
    assert changed.sum(1).tolist() == [1, 1, 1] and float(found[changed.unsqueeze(1).expand_as(found)].min()) > 12
    torch.manual_seed(1)
    again = augmenter.disguise(static, frames)
    assert torch.equal(found, again)
    plugins.registered.clear()
    with pytest.raises(InputError, match="no augmentation 'hum' here"):
        Augmenter(config, torch.device("cpu"))


def test_what_an_installed_package_names_is_found(tmp_path: Path, installed: None) -> None:
    config = load_config("demo", ["features.kind=bands", "corpus.kind=labs", f"corpus.root={tmp_path / 'labs'}"])
    assert config.features.static_dims == 32
    write_labs(tmp_path / "labs")
    assert len(read_corpus(config.corpus).splits["train"]) > 0
