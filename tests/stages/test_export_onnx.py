"""A model as ONNX computes what torch computes, for awkward lengths, without torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from speechctc.config.schema import FeatureConfig
from speechctc.core.errors import InputError
from speechctc.features.extractor import extractor
from speechctc.features.padded import net_input
from speechctc.lm.search import GreedySearch, best_labels
from speechctc.model.checkpoint import BUILT_IN, load_checkpoint
from speechctc.model.net import net_of
from speechctc.stages import export_onnx
from speechctc.stages.export import export
from tests.command import Command


def test_logits_and_phones_are_torchs(speechctc: Command, tmp_path: Path) -> None:
    """The bundled model has a time stride, maxout, spans, centring and two orders of derivatives."""
    for name in ("onnx", "onnxscript"):
        pytest.importorskip(name)
    onnxruntime = pytest.importorskip("onnxruntime")
    assert speechctc("export", tmp_path / "m.onnx", "--model", "english").status == 0
    checkpoint = load_checkpoint(BUILT_IN)
    features = checkpoint.config.features
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map
    assert tuple(json.loads(about["phones"])) == checkpoint.inventory.phones
    assert json.loads(about["features"])["sample_rate"] == features.sample_rate
    assert float(about["sample_scale"]) == 32768
    assert json.loads(about["feature_order"]) == export_onnx.order(features)
    rng, net = np.random.default_rng(0), net_of(checkpoint).eval()
    for lengths in ([1], [2], [7], [61, 1, 40], [300, 299], [1234]):
        static = rng.normal(8, 4, (len(lengths), max(lengths), features.static_dims)).astype(np.float32)
        found, counts = session.run(None, {"features": static, "frames": np.array(lengths)})
        frames = torch.tensor(lengths)
        mean, std = torch.from_numpy(checkpoint.mean), torch.from_numpy(checkpoint.std)
        inputs = net_input(torch.from_numpy(static), frames, mean, std, features)
        with torch.inference_mode():
            expected, outputs = net(inputs, frames)
        assert counts.tolist() == outputs.tolist() and found.shape == expected.shape
        for ours, theirs, count in zip(found, expected, counts, strict=True):
            np.testing.assert_allclose(ours[:count], theirs[:count], atol=1e-4)
            labels = [best_labels(GreedySearch(), each[:count]) for each in (ours, theirs.numpy())]
            assert labels[0] == labels[1]


@pytest.mark.parametrize("energy", [True, False])
def test_values_are_named_in_their_order(energy: bool) -> None:
    """A tone is loudest in the band at its place; digital silence has the energy 0; all other log powers are lower."""
    mel = FeatureConfig(kind="mel", mels=20, energy=energy)
    assert [order[:1] + order[19:] for order in [export_onnx.order(mel)]] == [["mel1", "mel20", *["energy"] * energy]]
    tones = [np.sin(2 * np.pi * hz * np.arange(16000) / 16000).astype(np.float32) for hz in (100, 7000)]
    low, high = (extractor(mel).static(tone).mean(0)[:20].argmax() for tone in tones)
    assert low < 3 and high > 16
    mfcc = FeatureConfig(kind="mfcc", mels=20, ceps=5, energy=energy)
    assert export_onnx.order(mfcc) == ["c1", "c2", "c3", "c4", "energy" if energy else "c0"]
    # in silence all bands are equal: coefficients of cosines vanish, all but the one of order 0
    silent = extractor(mfcc).static(np.zeros(16000, np.float32)).mean(0)
    np.testing.assert_allclose(silent[:4], 0, atol=1e-3)
    assert silent[4] == 0 if energy else silent[4] < -50


def test_without_its_packages_it_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_onnx, "NEEDED", ("no_such_package",))
    with pytest.raises(InputError, match=r"m\.onnx: .*no_such_package, .*pip install"):
        export(Path("english"), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
    (tmp_path / "m.onnx").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        export(Path("english"), tmp_path / "m.onnx")
