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
from speechctc.features.padded import static_features
from speechctc.model.net import net_of
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
    assert model.config.features.static_dims == 20 and net_of(model.checkpoint).has_bands
    assert model.decode(sorted((tmp_path / "audio").glob("2-*.wav"))[0]).phones
    plugins.registered.clear()
    with pytest.raises(InputError, match="features.kind='spectrum' is invalid"):
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
    found = augmenter.perturb_spectrum(static, frames)
    changed = (found != static).any(1)
    assert changed.sum(1).tolist() == [1, 1, 1] and float(found[changed.unsqueeze(1).expand_as(found)].min()) > 12
    torch.manual_seed(1)
    again = augmenter.perturb_spectrum(static, frames)
    assert torch.equal(found, again)
    plugins.registered.clear()
    with pytest.raises(InputError, match="no augmentation 'hum' here"):
        Augmenter(config, torch.device("cpu"))


def own_code(folder: Path, text: str) -> str:
    """Write and run a module of a user's; return its path."""
    path = folder / "mine.py"
    path.write_text(f"import speechctc\nfrom speechctc.features.extractor import FeatureExtractor\n{text}")
    runpy.run_path(str(path))
    return str(path)


def test_errors_in_code_of_ones_own_name_its_line(tmp_path: Path) -> None:
    path = own_code(
        tmp_path,
        """def fail(*given, deep=0, **settings):
    return help_fail(deep)
def help_fail(deep):
    return None if deep else 1 / 0
class Mine(FeatureExtractor):
    dims = classmethod(lambda cls, config: config.options["bands"])
    def static(self, samples):
        return samples[:, None] if self.config.options.get("wide") else samples[0, 0]
speechctc.register_corpus("mine", fail)
speechctc.register_augmentation("mine", fail)
speechctc.register_features("mine", Mine)
""",
    )
    with pytest.raises(InputError, match=f"^corpus.kind=mine: {path}, line 6, in help_fail: ZeroDivisionError: div"):
        read_corpus(load_config("demo", ["corpus.kind=mine", f"corpus.root={tmp_path}"]).corpus)
    runpy.run_path(str(OWN / "augmentation.py"))
    for setting, said in [
        ("mine={}", f"{path}, line 6, in help_fail: ZeroDivisionError: division by zero; correct"),
        ("mine={deep: 1}", "augment.own.mine returned no features of the same shape"),
        ("hum={loud: 1}", r"^augment.own.hum: TypeError: hum\(\) got an unexpected .*'loud'"),
    ]:
        augmenter = Augmenter(load_config("demo", [f"augment.own.{setting}"]), torch.device("cpu"))
        with pytest.raises(InputError, match=said):
            augmenter.perturb_spectrum(torch.zeros(1, 3, 41), torch.full((1,), 3))
    for options, said in [
        ("{bands: 2}", f"features.kind=mine: {path}, line 10, in static: IndexError"),
        ("{bands: 2, wide: 1}", r"static returned the shape \(800, 1\), not \(n_frames, 2\)"),
        ("{wide: 1}", f"features.kind=mine: {path}, line 8, in <lambda>: KeyError: 'bands'"),
    ]:
        with pytest.raises(InputError, match=said):
            config = load_config("demo", ["features.kind=mine", f"features.options={options}"]).features
            static_features(torch.zeros(800), config)


def test_what_an_installed_package_names_is_found(tmp_path: Path, installed: None) -> None:
    config = load_config("demo", ["features.kind=bands", "corpus.kind=labs", f"corpus.root={tmp_path / 'labs'}"])
    assert config.features.static_dims == 32
    write_labs(tmp_path / "labs")
    assert len(read_corpus(config.corpus).splits["train"]) > 0


def spectrum(folder: Path, before: str = "", after: str = "") -> None:
    """Register the guide's features in a Python that knows none, with a change of their file."""
    plugins.registered.clear()
    text = (OWN / "features.py").read_text()
    assert before in text
    (folder / "spectrum.py").write_text(text.replace(before, after) if before else text)
    runpy.run_path(str(folder / "spectrum.py"))


def test_another_version_of_features_is_refused(tmp_path: Path) -> None:
    base = write_config(tmp_path)
    settings = ["features.kind=spectrum", "features.options.bands=20", "train.epochs=1"]
    spectrum(tmp_path)
    speechctc.extract(base, settings, Recorder())
    run = speechctc.train(base, settings, reporter=Recorder()).run
    longer = [*settings, "train.epochs=2"]
    spectrum(tmp_path, 'version = "1"', 'version = "2"')
    with pytest.raises(InputError, match=r"made with another config: features.version=1 \(now 2\)"):
        speechctc.train(base, [*settings, f"run={tmp_path / 'other'}"], reporter=Recorder())
    with pytest.raises(InputError, match=r"begun with another config: features.version=1 \(now 2\)"):
        speechctc.train(base, longer, resume=True, reporter=Recorder())
    for use in (speechctc.load, speechctc.evaluate):
        with pytest.raises(InputError, match="^features.kind=spectrum: features.version='1', and the class has .* '2'"):
            use(run)
    recorder = Recorder()
    speechctc.extract(base, settings, recorder)
    assert any(line.startswith("72 utterances extracted, 0 there already") for line in recorder.said)


def test_a_name_is_given_once(tmp_path: Path) -> None:
    spectrum(tmp_path)
    kind = plugins.find("features", "spectrum")
    speechctc.register_features("spectrum", kind)
    runpy.run_path(str(tmp_path / "spectrum.py"))  # the same class, defined again
    assert plugins.find("features", "spectrum") is not kind
    with pytest.raises(InputError, match="'spectrum' is that of .*Spectrum already"):
        speechctc.register_features("spectrum", type("Other", (kind,), {}))
    own: Any = speechctc
    for group, name in (("features", "mel"), ("corpus", "table"), ("augmentation", "speed")):
        with pytest.raises(InputError, match=f"^register_{group}: .*'{name}'"):
            getattr(own, f"register_{group}")(name, kind)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            ("return np.log", "return np.nan * np.log"),
            "^u0-000: features.kind=spectrum: static returned values that are no finite numbers",
        ),
        (
            ("return np.log", "return 1e6 * np.log"),
            "^u0-000: a feature of .*e.07, which data.dtype=float16 cannot hold; set data.dtype=float32",
        ),
        ((".astype(", "[:-2].astype("), r"static returned \d+ frames of \d+ samples, and frames says \d+; let"),
    ],
)
def test_features_that_no_net_can_use_name_the_utterance(tmp_path: Path, changed: tuple[str, str], said: str) -> None:
    base = write_config(tmp_path)
    spectrum(tmp_path, *changed)
    with pytest.raises(InputError, match=said):
        speechctc.extract(base, ["features.kind=spectrum", "features.options.bands=20"], Recorder())
