"""Extraction, training and scoring called from Python do what the commands do."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

import speechctc
from speechctc.config.load import load_config
from speechctc.core.devices import recognition_device
from speechctc.core.errors import InputError
from speechctc.model.checkpoint import BUILT_IN
from tests.tones import write_config
from tests.train_helpers import Recorder


def test_a_corpus_becomes_a_scored_model(here: Path) -> None:
    config, recorder = write_config(here, 24, 6), Recorder()
    summaries = speechctc.extract(config, reporter=recorder)
    assert [(each.split, each.utterances) for each in summaries] == [("train", 24), ("dev", 6), ("test", 6)]
    trained = speechctc.train(config, ["train.epochs=8", "run=r"], reporter=recorder)
    assert trained.run == Path("r") and trained.dev is not None
    again = speechctc.train(str(config), ["train.epochs=8", "run=r"], resume=True, reporter=recorder)
    assert again.dev is None and any("done already" in line for line in recorder.said)
    model = speechctc.load(trained.run, "cpu")
    of_model, of_folder, of_latest = (
        speechctc.evaluate(each, reporter=recorder) for each in (model, trained.run, None)
    )
    assert of_model == of_folder == of_latest and of_model.split == "test" and of_model.counts.utterances == 6
    on_dev = speechctc.evaluate(model, "dev", ["decode.beam=4"], recorder)
    assert on_dev.counts.per == trained.dev.counts.per


def test_a_config_in_memory_may_be_given_and_changed(extracted: Path, here: Path) -> None:
    config = load_config(extracted, ["run=r"])
    trained = speechctc.train(config, ["train.epochs=1"], reporter=Recorder())
    assert trained.run == Path("r")
    assert load_config("r/config.yaml").train.epochs == 1 and config.train.epochs == 12


def test_errors_are_those_of_the_commands(extracted: Path, here: Path) -> None:
    with pytest.raises(InputError, match="no such config file"):
        speechctc.train("nowhere.yaml")
    with pytest.raises(InputError, match="train.epoch=3"):
        speechctc.train(load_config(extracted), ["train.epoch=3"])
    with pytest.raises(InputError, match="speechctc extract"):
        speechctc.train(extracted, ["data.dir=empty"], reporter=Recorder())
    with pytest.raises(InputError, match="nowhere"):
        speechctc.extract("demo", ["corpus.kind=textgrid", "corpus.root=nowhere"], Recorder())
    with pytest.raises(InputError, match="nothing: no such folder"):
        speechctc.evaluate("nothing")


def test_the_public_names_are_there() -> None:
    assert all(hasattr(speechctc, name) for name in speechctc.__all__)
    added = {f"register_{what}" for what in ("augmentation", "corpus", "features", "model", "optimizer", "schedule")}
    called, classes = {"evaluate", "extract", "load", "train"}, {"InputError", "OwnNet"}
    classes |= {"BeginningRecord", "EpochRecord", "StepRecord"}
    assert set(speechctc.__all__) == {"__version__"} | called | classes | added
    assert speechctc.InputError is InputError


def test_what_python_gives_wrongly_is_one_line(tiny_model: Path) -> None:
    model, samples = speechctc.load(tiny_model, "cpu"), np.zeros(1600)
    with pytest.raises(InputError, match="1 among the phones is not a text"):
        model.align(samples, [1, 2], 16000)  # type: ignore[list-item]
    with pytest.raises(InputError, match="-1 alternatives; ask for 0 or more"):
        model.decode(samples, 16000, alternatives=-1)
    with pytest.raises(InputError, match="-1 alternatives"):
        model.stream(16000, alternatives=-1)
    with pytest.raises(InputError, match="nix: no such folder") as raised:
        speechctc.load("nix")
    assert "--model" not in str(raised.value)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: speechctc.train("demo", "run=r", resume="yes"), "^resume='yes'; give True or False$"),  # type: ignore[arg-type]
        (lambda: speechctc.train("demo", "run=r", resume=1), "^resume=1; give True"),  # type: ignore[arg-type]
        (lambda: speechctc.train("demo", "run=r", reporter=True), "^reporter=True; give a .*Reporter"),  # type: ignore[arg-type]
        (lambda: speechctc.train("demo", 3), "^settings=3; give texts"),  # type: ignore[arg-type]
        (lambda: speechctc.extract("demo", prune="no"), "^prune='no'; give True or False$"),  # type: ignore[arg-type]
        (lambda: speechctc.evaluate("english", settings=None), "^settings=None; give texts"),  # type: ignore[arg-type]
        (lambda: speechctc.evaluate(3), "^3 is no model; name the folder of a run"),  # type: ignore[arg-type]
        (lambda: speechctc.load(["english"]), r"^\['english'\] is no model; name"),  # type: ignore[arg-type]
        (lambda: speechctc.load(True), "^True is no model; name"),  # type: ignore[arg-type]
    ],
)
def test_arguments_of_other_types_are_refused_before_work(here: Path, call: Callable[[], Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        call()
    assert not [*here.iterdir()]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda model, samples: model.decode(samples, 16000, alternatives="2"), "^alternatives='2'; give a whole"),
        (lambda model, samples: model.decode(samples, 16000, alternatives=True), "^alternatives=True; give a whole"),
        (lambda model, samples: model.stream(16000, alternatives=1.5), "^alternatives=1.5; give a whole number"),
        (lambda model, samples: model.stream(16000, lookahead="2"), "^lookahead='2'; give seconds"),
        (lambda model, samples: model.align(samples, 3, 16000), "^phones=3; give a text"),
    ],
)
def test_a_model_takes_numbers_for_numbers(tiny_model: Path, call: Callable[[Any, Any], Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        call(speechctc.load(tiny_model, "cpu"), np.zeros(1600))


def test_no_model_to_use_is_said_without_options(here: Path) -> None:
    with pytest.raises(InputError, match="no model to use") as raised:
        speechctc.evaluate()
    assert "--model" not in str(raised.value) and "english (" in str(raised.value)


@pytest.mark.parametrize("seed", [0, 15])
def test_refined_phones_last_even_where_the_transcript_is_wrong(seed: int) -> None:
    model, rng = speechctc.load("english", "cpu"), np.random.default_rng(seed)
    sound = rng.normal(size=8000) * 0.1 * np.abs(np.sin(np.arange(8000) / rng.uniform(300, 900)))
    said = list(rng.choice(model.phones, size=20))
    found = model.align(sound.astype(np.float32), said, 16000)
    assert model.boundaries is not None and list(found.phones) == said
    edges = [0.0, *(time for each in found.segments for time in (each.start, each.end)), 0.5]
    assert all(right >= left for left, right in zip(edges, edges[1:], strict=False))
    assert all(each.end - each.start > 0.005 - 1e-9 for each in found.segments)


@pytest.fixture
def recording(here: Path) -> Path:
    samples = 0.1 * np.random.default_rng(1).standard_normal(16000)
    soundfile.write("a.wav", samples, 16000)
    return Path("a.wav")


class Pipe:
    """What can be read once, and has no name."""

    def __init__(self, content: bytes) -> None:
        self._file = io.BytesIO(content)

    def read(self, size: int = -1, /) -> bytes:
        return self._file.read(size)


def test_open_files_are_read_as_files_by_name(tiny_model: Path, recording: Path) -> None:
    model = speechctc.load(tiny_model, "cpu")
    expected = model.decode(recording)
    phones = model.phones[:2]
    with recording.open("rb") as file:
        assert model.decode(file) == expected and file.tell() == 0
        assert model.align(file, phones).segments == model.align(recording, phones).segments
        (several,) = model.decode([file])
        assert several == expected
    content = recording.read_bytes()
    assert model.decode(io.BytesIO(content)).segments == model.decode(Pipe(content)).segments == expected.segments
    assert model.align(Pipe(content), phones).segments == model.align(recording, phones).segments
    np.testing.assert_array_equal(model.log_posteriors(io.BytesIO(content)), model.log_posteriors(recording))
    assert model.decode(io.BytesIO(content)).file == "file"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda file: io.BytesIO(), "^file: the file is empty"),
        (lambda file: file.seek(0, 2) and file, "^a.wav: nothing is left to read after byte 32,044; go to its start"),
        (lambda file: io.BytesIO(b"no sound at all"), "^file: "),
        (
            lambda file: io.TextIOWrapper(file, "latin-1"),
            r'^a.wav: opened as text; open it as bytes: open\(name, "rb"\)',
        ),
        (lambda file: file.close() or file, "^a.wav: the file is closed"),
        (lambda file: file.read(), r"^bytes are neither the name of a file nor samples; give io.BytesIO"),
        (lambda file: None, "^None is neither a file nor samples"),
        (lambda file: {"array": [0.0]}, "is neither a file nor samples"),
    ],
)
def test_what_is_no_recording_is_one_line(
    tiny_model: Path, recording: Path, given: Callable[[Any], Any], said: str
) -> None:
    with recording.open("rb") as file, pytest.raises(InputError, match=said) as raised:
        speechctc.load(tiny_model, "cpu").decode(given(file))
    assert "\n" not in str(raised.value) and "speechctc-" not in str(raised.value)


def test_tensors_of_all_floating_types_are_samples(tiny_model: Path) -> None:
    model, samples = speechctc.load(tiny_model, "cpu"), torch.linspace(-1, 1, 4000).bfloat16()
    expected = model.logits(samples.float().numpy(), 16000)
    for each in (samples, samples.double(), samples.half(), samples.clone().requires_grad_()):
        np.testing.assert_allclose(model.logits(each, 16000), expected, atol=1e-3)


@pytest.mark.parametrize("name", ["gpu", "GPU", "cuda:", "cuda:x", "mps", "tpu", "", "cuda:-1"])
def test_devices_of_no_name_are_refused(tiny_model: Path, name: str) -> None:
    with pytest.raises(
        InputError, match=rf"^device '{name}': there is none of that name; .*name auto, cpu, cuda or cuda:1"
    ):
        speechctc.load(tiny_model, name)


@pytest.mark.parametrize(("name", "gpus"), [("cuda", 0), ("cuda:0", 0), ("cuda:2", 2)])
def test_devices_that_are_not_here_are_refused(
    tiny_model: Path, name: str, gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpus > 0)
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    there = "there are 2, counted from 0" if gpus else "torch finds no CUDA GPU here"
    with pytest.raises(InputError, match=f"^device {name}: {there}"):
        speechctc.load(tiny_model, name)
    if gpus:
        assert recognition_device("cuda:1") == "cuda:1"
    assert speechctc.load(tiny_model, torch.device("cpu")).device == "cpu"


def test_a_config_may_be_plain_values(extracted: Path, here: Path) -> None:
    given: dict[str, Any] = {"base": str(extracted), "run": "r", "train": {"epochs": 2}}
    trained = speechctc.train(given, "train.epochs=1", reporter=Recorder())
    assert trained.run == Path("r") and load_config("r/config.yaml").train.epochs == 1
    assert given == {"base": str(extracted), "run": "r", "train": {"epochs": 2}}
    for wrong, said in [
        ({"base": "demo"}, "^the config names no folder for the run; set run"),
        ({"base": "demo", "trian": {}}, "^the config given: there is no key 'trian'"),
        ({"base": 3}, "^the config given: base=3 is invalid"),
        ({"base": "demo", "train": {"lr": "fast"}}, "^the config given: train.lr='fast' is invalid"),
        (None, "^None is no config; give a YAML file"),
    ]:
        with pytest.raises(InputError, match=said):
            speechctc.train(wrong, reporter=Recorder())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("train.learning_rate=1", "train.lr"),
        ("learning_rate=1", "train.lr"),
        ("train.max_epochs=1", "train.epochs"),
        ("train.optimiser=sgd", "train.optimizer"),
        ("train.scheduler=cosine", "train.schedule"),
        ("train.early_stopping=3", "train.patience"),
        ("features.n_mels=40", "features.mels"),
        ("features.sr=8000", "features.sample_rate"),
        ("data.num_workers=1", "data.workers"),
        ("train.epoch=3", "train.epochs"),
    ],
)
def test_keys_of_other_toolkits_name_ours(setting: str, key: str) -> None:
    with pytest.raises(InputError, match=f"there is no key .*; did you mean '{key}'"):
        load_config("demo", [setting])


def test_a_split_of_no_name_is_one_line(tiny_model: Path) -> None:
    with pytest.raises(InputError, match="^there is no split 'tset'; did you mean test"):
        speechctc.evaluate(tiny_model, "tset", reporter=Recorder())


def test_a_pickled_model_is_no_larger_than_its_files() -> None:
    model, samples = speechctc.load("english", "cpu"), np.zeros(1600, np.float32)
    files = sum(path.stat().st_size for path in BUILT_IN.iterdir())
    model.decode(samples, 16000)
    content = pickle.dumps(model)
    assert len(content) < files
    copy = pickle.loads(content)
    assert pickle.dumps(copy.goodness) == pickle.dumps(model.goodness) and copy.folder == model.folder
    np.testing.assert_array_equal(copy.logits(samples, 16000), model.logits(samples, 16000))
    for name, weight in model.checkpoint.weights.items():
        np.testing.assert_array_equal(copy.checkpoint.weights[name], weight)
    assert copy.checkpoint.lm is not None and model.checkpoint.lm is not None
    for one, other in zip(copy.checkpoint.lm.tables(), model.checkpoint.lm.tables(), strict=True):
        np.testing.assert_array_equal(one, other)


UNGUARDED = """
import speechctc
print("imported")
speechctc.extract(CONFIG, ["data.workers=2"])
"""


def test_a_script_without_a_guard_is_told_so_once(here: Path) -> None:
    config = write_config(here, 130, 4)
    Path("script.py").write_text(UNGUARDED.replace("CONFIG", repr(str(config))), encoding="utf-8")
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("Traceback") == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.endswith('calls it again in each process that works for it; call it under if __name__ == "__main__":')
