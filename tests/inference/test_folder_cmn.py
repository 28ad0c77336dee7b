"""CMN by folder: one mean for the recordings of a speaker, from Python and by decode --folder-cmn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from speechctc.core.errors import InputError
from speechctc.features.extractor import extractor, sliding_cmn
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.streaming import cmn_blocks, context_sums
from speechctc.model.layers import weight_shapes
from speechctc.model.net import TorchNet
from speechctc.model.numpy_net import NumpyNet
from speechctc.stages.open_model import ModelChoice, open_model
from tests.command import Command, one_line_error
from tests.tiny_model import sing, write_song
from tests.tones import RATE

SONGS = {"ab/a.wav": ["low", "mid", "top"], "ab/b.wav": ["top", "high"], "c/c.wav": ["mid", "low", "mid", "high"]}


@pytest.fixture
def model(tiny_model: Path) -> Recogniser:
    """Return a model that subtracts a mean, though it was taught without."""
    plain = open_model(tiny_model / "best", Recogniser, ModelChoice("cpu"))
    features = plain.config.features.model_copy(update={"cmn_window_ms": (3000.0, 3000.0)})
    config = plain.config.model_copy(update={"features": features})
    return plain.replaced(checkpoint=replace(plain.checkpoint, config=config))


@pytest.fixture
def hearing(model: Recogniser) -> Recogniser:
    """Return a model that also hears what is around each frame."""
    config = model.config.model_copy(update={"model": model.config.model.model_copy(update={"context": 4})})
    rng, shapes = np.random.default_rng(3), weight_shapes(config, len(model.phones) + 1)
    fresh = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    return model.replaced(
        checkpoint=replace(model.checkpoint, config=config, weights={**fresh, **model.checkpoint.weights})
    )


def write_songs(folder: Path) -> list[Path]:
    for seed, (name, song) in enumerate(SONGS.items()):
        (folder / name).parent.mkdir(exist_ok=True)
        write_song(folder / name, song, seed)
    return [folder / name for name in SONGS]


def samples_of(path: Path) -> NDArray[np.float32]:
    samples: NDArray[np.float32] = soundfile.read(path, dtype="float32")[0]
    return samples


def test_of_one_short_recording_it_is_the_mean_that_is_subtracted_anyway(model: Recogniser, tmp_path: Path) -> None:
    (first, *_) = write_songs(tmp_path)
    own, same = model.logits(samples_of(first), RATE), model.centred_on([first]).logits(samples_of(first), RATE)
    np.testing.assert_allclose(same, own, atol=2e-4 * np.abs(own).max())


def test_of_one_short_recording_it_is_the_context_that_is_heard_anyway(hearing: Recogniser, tmp_path: Path) -> None:
    (first, *_) = write_songs(tmp_path)
    own, same = hearing.logits(samples_of(first), RATE), hearing.centred_on([first]).logits(samples_of(first), RATE)
    np.testing.assert_allclose(same, own, atol=2e-4 * np.abs(own).max())


def test_the_common_context_is_the_mean_of_the_first_dense_layer(hearing: Recogniser, tmp_path: Path) -> None:
    paths, features = write_songs(tmp_path), hearing.config.features
    made, net, seen = hearing.centred_on(paths), TorchNet(hearing.checkpoint, "cpu"), list[NDArray[np.float32]]()
    net.net.get_submodule("dense.0").register_forward_hook(lambda _, given, out: seen.append(out[0, :, 0].numpy()))
    assert made.prior is not None and made.prior.context is not None
    for path in paths:
        net(sliding_cmn(extractor(features).static(samples_of(path)), features, made.prior.cmn))
    np.testing.assert_allclose(made.prior.context, np.concatenate(seen, axis=1).mean(1), rtol=1e-3, atol=1e-4)
    assert np.abs(made.logits(samples_of(paths[0]), RATE) - hearing.logits(samples_of(paths[0]), RATE)).max() > 1e-2


def test_a_long_recording_counts_as_one_span(hearing: Recogniser) -> None:
    net = NumpyNet(hearing.checkpoint)
    static = extractor(net.config.features).static(sing(["low", "top", "mid"] * 30, np.random.default_rng(0))[0])
    counted = context_sums(np.array_split(static, 7), net, static.mean(0))[-1]
    assert counted == net.config.model.context_span


def test_it_leans_to_the_mean_of_all_frames_weighted_by_the_power_around_each(
    model: Recogniser, tmp_path: Path
) -> None:
    paths, features = write_songs(tmp_path), model.config.features
    total, weights, statics = np.zeros(features.static_dims), 0.0, []
    for path in paths:
        static = extractor(features).static(samples_of(path)).astype(np.float64)
        statics.append(static.astype(np.float32))
        for at, frame in enumerate(static):
            near = static[max(at - features.power_window_frames, 0) : at + features.power_window_frames + 1].mean(1)
            weight = np.exp(np.maximum(near, 0)).mean() if frame.mean() > 0 else 1.0
            total, weights = total + weight * frame, weights + weight
    soundfile.write(tmp_path / "noise.wav", np.random.default_rng(0).normal(0, 0.2, 5 * RATE), RATE)
    made = model.centred_on([*paths, tmp_path / "noise.wav"])  # without speech it counts as nothing
    assert made.prior is not None and model.prior is None
    np.testing.assert_allclose(made.prior.cmn, total / weights, rtol=1e-5)
    shares = [200 / (200 + len(static)) for static in statics]  # 2 s of 10 ms a frame, and less than the window
    own = [static - sliding_cmn(static, features) for static in statics]
    means = [(1 - share) * mean + share * made.prior.cmn for share, mean in zip(shares, own, strict=True)]
    for path, frames, mean in zip(paths, statics, means, strict=True):
        expected = NumpyNet(made.checkpoint)((frames - mean).astype(np.float32))
        np.testing.assert_allclose(made.logits(samples_of(path), RATE), expected, atol=1e-4)
    assert made.with_settings(["decode.beam=3"]).prior is made.prior


def test_of_a_model_that_subtracts_no_mean_it_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="subtracts no mean"):
        open_model(tiny_model / "best", Recogniser, ModelChoice("cpu")).centred_on(write_songs(tmp_path))


def test_each_folder_has_its_own_and_what_is_there_already_counts(speechctc: Command, here: Path) -> None:
    write_songs(here)
    command = ("decode", "--folder-cmn", "--out", "made", "--skip-existing", "ab", "c")
    assert speechctc(*command).status == 0
    (there,) = (here / "made").rglob("b.txt")
    whole = there.read_text()
    there.unlink()
    assert speechctc(*command).status == 0 and there.read_text() == whole
    alone = speechctc("decode", "ab", "--folder-cmn").out.splitlines()
    assert alone[1].partition("\t")[2] == whole.strip()
    for folders, alone_in in (("ab",), ""), (("ab", "c"), str((here / "c").resolve())):
        (*said,) = [
            line for line in speechctc("decode", *folders, "--folder-cmn").err.splitlines() if "nothing" in line
        ]
        assert [line.endswith(f"one recording of a folder is named: {alone_in}") for line in said] == [True] * bool(
            alone_in
        )
    (here / "ab" / "d.wav").write_bytes(b"no sound")
    done = speechctc("decode", "ab", "--folder-cmn")
    assert done.status == 1 and "d.wav" in done.err and len(done.out.splitlines()) == 2


@pytest.mark.parametrize("arguments", [["-"], ["a.wav", "--tier", "turns"], ["a.wav", "--cluster", "tcp://here:1"]])
def test_where_it_cannot_be_it_is_refused(speechctc: Command, here: Path, arguments: list[str]) -> None:
    soundfile.write(here / "a.wav", sing(["low"], np.random.default_rng(0))[0], RATE)
    assert "--folder-cmn" in one_line_error(speechctc("decode", *arguments, "--folder-cmn"))


def test_while_a_long_recording_is_read_it_is_as_of_the_whole(model: Recogniser, tmp_path: Path) -> None:
    paths, features = write_songs(tmp_path), model.config.features
    static = extractor(features).static(sing(["low", "top", "mid"] * 30, np.random.default_rng(0))[0])
    assert len(static) > sum(features.cmn_frames)
    prior = model.centred_on(paths).prior
    assert prior is not None
    blocks = cmn_blocks(iter(np.array_split(static, 7)), features, prior=prior.cmn)
    np.testing.assert_allclose(np.concatenate(list(blocks)), sliding_cmn(static, features, prior.cmn), atol=1e-4)
