"""Recognition without torch: every command that needs none works where torch is not installed, and loads none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
import torchaudio
import yaml

import speechctc
from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.config.schema import Config, FeatureConfig, ModelConfig
from speechctc.features.extractor import EPSILON, INT16_SCALE, extractor, sliding_cmn
from speechctc.inference.streaming import Rows, logit_blocks
from speechctc.model.checkpoint import Checkpoint, load_checkpoint
from speechctc.model.net import TorchNet, build_net
from speechctc.model.numpy_net import NumpyNet
from speechctc.phones.inventory import Inventory
from tests.tiny_model import write_song

ROOT = Path(__file__).resolve().parent.parent
WITHOUT = """
import importlib.machinery, json, sys, traceback
class Without(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in ("torch", "torchaudio") else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Without
"""
COMMANDS = """
from speechctc.cli.app import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["speechctc", *arguments]
    print("==", arguments[0], flush=True)
    try:
        main()
        status = 0
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
        status = "raised"
    print("\\nstatus", status, flush=True)
print("loaded", sorted(name for name in sys.modules if name.partition(".")[0] in ("torch", "torchaudio")))
"""


def run(code: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=600)


def commands(cwd: Path, *lines: list[str]) -> tuple[list[Any], str, str]:
    """Run commands where torch is not installed; return their statuses, what they printed, and their messages."""
    done = run(WITHOUT + COMMANDS, json.dumps(lines), cwd=cwd)
    assert done.stdout.rstrip().endswith("loaded []"), done.stdout + done.stderr
    statuses = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("status ")]
    return statuses, done.stdout, done.stderr


@pytest.mark.slow
def test_what_recognises_works_without_torch(tiny_model: Path, here: Path) -> None:
    write_song(here / "a.wav", ["low", "top", "mid"])
    (here / "a.txt").write_text("low top mid\n")
    (here / "phones.txt").write_text("low top mid\nmid low\ntop low mid\n" * 3)
    corpus = load_checkpoint(tiny_model / "best").config.to_dict()["corpus"]
    (here / "tones.yaml").write_text(yaml.safe_dump({"corpus": corpus}))
    shutil.copytree(tiny_model, here / "copy")
    (here / "folder").mkdir()
    for k in range(4):
        times = write_song(here / "folder" / f"{k}.wav", ["low", "top", "mid"], seed=k)
        phones = [Interval(*time, label) for time, label in zip(times, ("a", "b", "c"), strict=True)]
        (here / "folder" / f"{k}.TextGrid").write_text(textgrid_text(times[-1][1] + 0.04, {"phones": phones}))
    use = ["--model", str(tiny_model)]
    assert speechctc.load(tiny_model, "cpu").decode(here / "a.wav").phones == ("low", "top", "mid")
    lines = [
        ["decode", "a.wav", *use, "--format", "json"],
        ["decode", "a.wav", "--model", "english"],
        ["align", "a.wav", *use, "--format", "textgrid", "--out", "grids/"],
        ["evaluate", *use],
        ["check-labels", "--config", "tones.yaml", *use],
        ["compare", str(tiny_model), "copy"],
        ["lm", "train", "--text", "phones.txt", "--out", "lm.arpa"],
        ["lm", "perplexity", "--lm", "lm.arpa", "--text", "phones.txt"],
        ["export", *use, "given"],
        ["decode", "a.wav", "--model", "given"],
        ["doctor"],
        ["start", "folder", "--out", "mine.yaml"],
    ]
    statuses, out, err = commands(here, *lines)
    failed = [" ".join(line) for line, status in zip(lines, statuses, strict=True) if status != "0"]
    assert not failed, f"{failed}\n{out}\n{err}"
    assert "Traceback" not in err, err
    assert out.count("low top mid") >= 1 and (here / "grids").exists() and (here / "lm.arpa").exists()
    assert "not installed: recognition does without" in out
    assert "Training needs torch" in out and "speechctc evaluate --model" in out and "speechctc train" not in out


@pytest.mark.slow
def test_what_needs_torch_says_so_in_one_line(tiny_model: Path, here: Path) -> None:
    (here / "phones.txt").write_text("low top mid\n" * 4)
    lines = [
        ["train", "--config", "demo"],
        ["export", "--model", str(tiny_model), "m.onnx"],
        ["lm", "train", "--kind", "lstm", "--text", "phones.txt", "--out", "lstm"],
        ["decode", "--device", "cuda", "no.wav", "--model", str(tiny_model)],
    ]
    statuses, out, err = commands(here, *lines)
    assert statuses == ["2"] * len(lines), out + err
    messages = [line for line in err.splitlines() if line.startswith("speechctc: ")]
    assert "Traceback" not in err and sum("pip install" in line for line in messages) >= len(lines) - 1, err
    last = run(WITHOUT + "from speechctc.ctc import ctc_loss", cwd=here).stderr.splitlines()[-1]
    assert "torch, which is not installed; pip install" in last
    code = WITHOUT + "import speechctc\ntry:\n    speechctc.train('demo')\nexcept speechctc.InputError as e: print(e)"
    assert "this needs torch, which is not installed" in run(code, cwd=here).stdout


def test_recognition_loads_no_torch_where_it_is_installed(tiny_model: Path, here: Path) -> None:
    write_song(here / "a.wav", ["low", "top", "mid"])
    code = (
        "import sys, speechctc\nprint(speechctc.load(sys.argv[1], 'cpu').decode('a.wav').phones)\n"
        "print('torch' in sys.modules)"
    )
    done = run(code, str(tiny_model), cwd=here)
    assert done.stdout.splitlines() == ["('low', 'top', 'mid')", "False"], done.stderr


def test_what_only_clusters_and_archives_need_is_not_loaded_by_others(here: Path) -> None:
    code = "import sys, speechctc.stages.decode, speechctc.stages.align, speechctc.stages.measure\n"
    code += "print({'asyncio', 'speechctc.core.dispatch', 'speechctc.core.cluster'} & set(sys.modules))"
    done = run(code, cwd=here)
    assert done.stdout == "set()\n", done.stderr


@pytest.mark.parametrize("window", ["hamming", "hanning", "povey", "rectangular", "blackman"])
@pytest.mark.parametrize("rate", [8000, 11025, 16000, 44100])
def test_features_are_torchaudios(window: Any, rate: int) -> None:
    config = FeatureConfig(sample_rate=rate, window=window, mels=23, high_hz=-100, shift_ms=9.7)
    least = extractor(config).window
    for length in (0, least - 1, least, least + 1, 513 * extractor(config).shift + least - 1, 2 * rate + 7):
        samples = np.random.default_rng(length).normal(0, 0.02, length).astype(np.float32)
        samples[length // 2 : length // 2 + 500] = 0
        found = extractor(config).static(samples)
        assert found.dtype == np.float32 and found.shape == (extractor(config).frames(length), 24)
        if not len(found):
            continue
        wanted = torchaudio.compliance.kaldi.fbank(
            torch.from_numpy(samples)[None] * INT16_SCALE,
            sample_frequency=rate,
            frame_length=config.window_ms,
            frame_shift=config.shift_ms,
            window_type=window,
            num_mel_bins=config.mels,
            low_freq=config.low_hz,
            high_freq=config.high_hz,
            use_energy=True,
            htk_compat=True,
            dither=0.0,
        )
        # Below 3 nats, far under the last of 16 bits, float32 rounds the two differently.
        np.testing.assert_allclose(np.maximum(found, 3.0), np.maximum(wanted.numpy(), 3.0), atol=1e-4)
        assert found[:, :23].min() >= np.log(EPSILON) - 1e-4


NETS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"convs": (6, 6), "dense": (10,)}, {}),
    ({"convs": (4, 5, 5), "dense": (8, 8), "time_stride": 2, "norm": "layer", "residual": True}, {"deltas": 1}),
    ({"convs": (4, 4), "dense": (), "time_stride": 3, "activation": "relu", "kernel": (3, 3)}, {"deltas": 0}),
    ({"convs": (4,), "dense": (8,), "time_stride": 4, "kernel": (1, 7)}, {"deltas": 3, "delta_window": 9}),
    ({"convs": (4, 4), "dense": (8,), "activation": "prelu", "kernel": (5, 1), "pool": 1}, {"energy": False}),
    ({"convs": (4, 4), "dense": (8, 9), "activation": "silu", "norm": "layer", "dense_span": 3}, {}),
    ({"convs": (4,), "dense": (8, 8, 6), "context": 3, "context_span": 41, "time_stride": 2, "residual": True}, {}),
    ({"convs": (3,), "dense": (8, 8), "pieces": 5, "norm": "layer", "residual": True, "dense_span": (1, 5)}, {}),
]


def test_every_activation_is_in_one_of_these_nets() -> None:
    names = get_args(ModelConfig.model_fields["activation"].annotation)
    assert {*names} == {model.get("activation", "maxout") for model, _ in NETS}


@pytest.mark.parametrize(("model", "features"), NETS)
@pytest.mark.parametrize("threads", ["1", "3"])
def test_the_net_is_torchs(
    model: dict[str, Any], features: dict[str, Any], threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One recording or several, shorter than the receptive field or none, in one thread or several."""
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setattr("speechctc.model.numpy_net.PIECE", 4000)
    config = Config(
        corpus={"kind": "demo"},
        model=ModelConfig(**model),
        features=FeatureConfig(mels=12, cmn_window_ms=(300, 200), **features),
    )
    torch.manual_seed(0)
    inventory = Inventory("found", ("a", "b", "c"))
    net = build_net(config, inventory)
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    shape = (config.features.channels, config.features.static_dims)
    checkpoint = Checkpoint.of(config, inventory, net, torch.randn(shape), torch.rand(shape) + 0.5)
    ours, theirs = NumpyNet(checkpoint), TorchNet(checkpoint, "cpu")
    rng = np.random.default_rng(1)
    statics = [rng.normal(8, 3, (n, shape[1])).astype(np.float32) for n in (0, 1, 2, 7, 61, 300)]
    recordings = [sliding_cmn(static, config.features) for static in statics]
    for found, wanted in zip(map(ours, recordings), map(theirs, recordings), strict=True):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, atol=1e-4)
    if config.model.context:
        prior = rng.normal(0, 3, config.model.dense[0]).astype(np.float32)
        for each in recordings:
            np.testing.assert_allclose(ours(each, None, prior), theirs(each, None, prior), atol=1e-4)
        assert np.abs(ours(recordings[-1], None, prior) - ours(recordings[-1])).max() > 1e-2

    # While somebody speaks, the one leaves out what serves the mean around a frame alone; the other never does.
    def live(net: NumpyNet | TorchNet) -> Rows:
        return np.concatenate([*logit_blocks(recordings[-1:], net, config.model, config.features, 20, False)])

    np.testing.assert_allclose(live(ours), live(theirs), atol=1e-4)
