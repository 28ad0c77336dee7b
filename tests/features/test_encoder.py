"""Layers of pretrained encoders: against transformers itself, in windows, as shards, in a model, and bad folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray

import speechctc
from speechctc.config.encoder import ELSEWHERE, read_facts
from speechctc.config.load import load_config
from speechctc.config.schema import FeatureConfig
from speechctc.core.errors import InputError
from speechctc.features import encoder as encoders
from speechctc.features.extractor import extractor
from speechctc.model.net import net_of
from tests.tiny_encoder import DEPTH, FAMILIES, SIZE, write_encoder
from tests.tones import write_config
from tests.train_helpers import Recorder


def features_of(folder: Path, **encoder: Any) -> FeatureConfig:
    return FeatureConfig.model_validate({"kind": "encoder", "encoder": {"folder": folder, **encoder}})


def sound(seconds: float, seed: int = 0) -> NDArray[np.float32]:
    """Return noise whose level rises and falls by 30 dB, three times in a second."""
    count = int(16000 * seconds)
    level = 10 ** (-0.75 + 0.75 * torch.sin(torch.arange(count) * (2 * torch.pi * 3 / 16000)))
    return np.asarray(0.2 * level * torch.randn(count, generator=torch.Generator().manual_seed(seed)), np.float32)


@pytest.mark.parametrize(("family", "large"), [*((family, False) for family in FAMILIES), ("wav2vec2", True)])
def test_layers_are_those_of_transformers_and_windows_are_near_one_pass(
    tmp_path: Path, family: str, large: bool
) -> None:
    model = write_encoder(tmp_path, family, large)
    config = features_of(tmp_path, layers="all", seconds=16)
    assert (config.window_ms, config.shift_ms, config.deltas, config.static_dims) == (25, 20, 0, DEPTH * SIZE)
    kind, samples = extractor(config), sound(5.0)
    normalised = (samples - samples.mean()) / np.sqrt(samples.var() + 1e-7)
    with torch.inference_mode():
        outputs = model(torch.from_numpy(normalised)[None], output_hidden_states=True)
    found = kind.static(samples)
    assert found.shape == (kind.frames(len(samples)), DEPTH * SIZE)
    for layer in range(1, DEPTH):  # of the last, releases of transformers have it with the norm after it, or without
        part = found[:, (layer - 1) * SIZE : layer * SIZE]
        np.testing.assert_allclose(part, outputs.hidden_states[layer][0].numpy(), atol=1e-5, rtol=1e-5)

    long = sound(24.0)
    whole, once = kind.static(long), encoders.load(config.encoder)(long)
    assert whole.shape == once.shape
    error = np.square(whole - once).mean() / np.square(once - once.mean(0)).mean()
    assert np.sqrt(error) < 0.05  # of the deviation, as docs/guide/features.md says
    for size in (1600, 70_000):
        assert np.array_equal(np.concatenate(list(kind.blocks(np.split(long, range(size, len(long), size))))), whole)
    lengths = [len(each) for each in kind.blocks([long[:200_000], long[:0], long[200_000:]])]
    assert 0 in lengths and sum(lengths) == len(whole)


def test_the_default_layer_and_one_layer_need_no_more_of_the_encoder(tmp_path: Path) -> None:
    write_encoder(tmp_path)
    config = features_of(tmp_path)
    assert config.encoder.chosen == (2,) and config.static_dims == SIZE and extractor(config).layers == 1
    both = features_of(tmp_path, layers=[2, 3])
    np.testing.assert_allclose(
        extractor(config).static(sound(2.0)), extractor(both).static(sound(2.0))[:, :SIZE], atol=1e-5, rtol=0
    )


def test_weights_with_a_head_of_another_kind_give_the_same(tmp_path: Path) -> None:
    model = write_encoder(tmp_path / "plain")
    transformers = pytest.importorskip("transformers")
    with_head = transformers.Wav2Vec2ForCTC(model.config)
    with_head.wav2vec2.load_state_dict(model.state_dict())
    with_head.save_pretrained(tmp_path / "ctc")
    shutil.copy(tmp_path / "plain" / "preprocessor_config.json", tmp_path / "ctc")
    plain, other = (extractor(features_of(tmp_path / name)).static(sound(1.0)) for name in ("plain", "ctc"))
    np.testing.assert_allclose(plain, other)
    assert read_facts(tmp_path / "plain").sha256 != read_facts(tmp_path / "ctc").sha256


def test_a_model_on_an_encoder_is_extracted_trained_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_encoder(tmp_path / "encoder")
    base = write_config(tmp_path, train=32, held_out=6)
    settings = [
        "features.kind=encoder",
        f"features.encoder.folder={tmp_path / 'encoder'}",
        "features.encoder.layers=all",
        "features.encoder.seconds=4",
        "model.convs=[32, 32]",
        "model.time_stride=1",
        "model.kernel=[3, 3]",
        "train.epochs=10",
    ]
    recorder = Recorder()
    speechctc.extract(base, settings, recorder)
    again = Recorder()
    speechctc.extract(base, settings, again)
    assert any(text.startswith("0 utterances extracted, 44 there already") for text in again.said)
    trained = speechctc.train(base, settings, reporter=Recorder())
    assert trained.dev is not None and trained.dev.counts.per < 75  # 100: nothing is named; chance: above 75
    model = speechctc.load(trained.run, "cpu")
    mixed = net_of(model.checkpoint).mix
    assert mixed is not None and mixed.shape == (DEPTH,) and float(mixed.detach().abs().max()) > 0
    score = speechctc.evaluate(model, "test", reporter=Recorder())
    assert score.counts.per < 75

    files = sorted((tmp_path / "audio").glob("2-*.wav"))
    long = np.concatenate([soundfile.read(path, dtype="float32")[0] for path in 2 * files])
    assert len(long) > 10 * 16000
    whole = model.decode(long, 16000)
    assert len(whole.phones) > 10
    stream, found = model.stream(16000), []
    for start in range(0, len(long), 3000):
        found += stream.push(long[start : start + 3000])
    found += stream.finish()
    assert tuple(segment.phone for segment in found) == whole.phones
    rounding = 1000 * float(np.finfo(np.float32).eps)  # of sums of fewer than 1000 terms, taken in another order
    np.testing.assert_allclose([s[1:4] for s in found], [s[1:4] for s in whole.segments], atol=rounding)
    aligned = model.align(files[0], ["low", "top"])
    assert aligned.phones == ("low", "top") and 0 <= aligned.segments[0].start < aligned.segments[1].end

    shutil.move(tmp_path / "encoder", tmp_path / "moved")  # where shards, runs and models still know it by its content
    encoders._loaded.clear()
    with pytest.raises(InputError, match=f"the encoder of these features is not there any more; name .*{ELSEWHERE}="):
        speechctc.load(trained.run, "cpu")
    monkeypatch.setenv(ELSEWHERE, str(tmp_path / "none"))
    with pytest.raises(InputError, match=f"{tmp_path / 'encoder'}, {tmp_path / 'none'}: the encoder of these features"):
        speechctc.load(trained.run, "cpu")
    monkeypatch.setenv(ELSEWHERE, str(tmp_path / "moved"))
    gone = speechctc.load(trained.run, "cpu")
    assert gone.decode(files[0]).phones == model.decode(files[0]).phones
    settings[1] = f"features.encoder.folder={tmp_path / 'moved'}"
    speechctc.train(base, [*settings, "train.epochs=11"], resume=True, reporter=Recorder())

    write_encoder(tmp_path / "moved", seed=1)
    encoders._loaded.clear()
    with pytest.raises(InputError, match="not the encoder of these features: its content is"):
        gone.decode(files[0])
    with pytest.raises(InputError, match="made with another config: features.encoder.sha256="):
        speechctc.train(base, [*settings, f"run={tmp_path / 'another'}"], reporter=Recorder())
    recorder = Recorder()
    speechctc.extract(base, settings, recorder)  # by its content it is another, which has features of its own
    assert any(line.startswith("44 utterances extracted, 0 there already") for line in recorder.said)
    with pytest.raises(InputError, match="begun with another config: features.encoder.sha256="):
        speechctc.train(base, settings, resume=True, reporter=Recorder())


def test_each_bad_folder_has_its_line(tmp_path: Path) -> None:
    def said(folder: Path, *settings: str) -> str:
        with pytest.raises(InputError) as caught:
            load_config("demo", ["features.kind=encoder", f"features.encoder.folder={folder}", *settings])
        assert "\n" not in str(caught.value)
        return str(caught.value)

    with pytest.raises(InputError, match="features.encoder.folder is not set"):
        load_config("demo", ["features.kind=encoder"])
    assert "nothing is downloaded unless you ask for it" in said(tmp_path / "none")
    folder = tmp_path / "encoder"
    folder.mkdir()
    assert "config.json: cannot be read" in said(folder)
    write_encoder(folder)
    assert "the encoder has 3 layers, not 4" in said(folder, "features.encoder.layers=[1, 4]")
    weights = (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "weights only as a pickle, pytorch_model.bin, which is not opened" in said(folder)
    weights.rename(tmp_path / "away")
    assert "no weights, model.safetensors is missing" in said(folder)
    (tmp_path / "away").rename(folder / "model.safetensors")
    table = folder / "preprocessor_config.json"
    table.write_text(json.dumps({"sampling_rate": 8000, "do_normalize": True}), encoding="utf-8")
    assert "an encoder for 8000 Hz, and features.sample_rate is 16000; set features.sample_rate=8000" in said(folder)
    table.write_text(json.dumps({"do_normalize": True}), encoding="utf-8")
    assert "a size or the rate is missing" in said(folder)
    table.write_text("[", encoding="utf-8")
    assert "not the JSON of an encoder" in said(folder)
    table.unlink()
    assert "preprocessor_config.json: cannot be read" in said(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "whisper"}), encoding="utf-8")
    table.write_text(json.dumps({"sampling_rate": 16000, "do_normalize": True}), encoding="utf-8")
    assert "an encoder of the type 'whisper'" in said(folder)


def test_without_transformers_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_encoder(tmp_path, seed=5)
    config = features_of(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(InputError, match="transformers is not installed; pip install"):
        extractor(config).static(sound(1.0))
