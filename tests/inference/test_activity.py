"""Where a recording may hold speech: steady sound of any kind is none, and blocks make no difference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import speechctc
from speechctc.audio import sound_file
from speechctc.config.schema import FeatureConfig
from speechctc.features.activity import FAR_BELOW, ActivityDetector, Flags, without_phones
from speechctc.features.padded import static_features
from speechctc.inference.recogniser import Recogniser
from speechctc.stages.open_model import ModelChoice, open_model
from tests.tiny_model import sing
from tests.tones import PHONES

RATE = 16000
Wave = NDArray[np.float32]


def steady(kind: str, seconds: float = 6.0) -> Wave:
    """Return sound that is no speech."""
    rng, count = np.random.default_rng(0), int(seconds * RATE)
    white = rng.standard_normal(count)
    spectrum = np.fft.rfft(white)
    spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
    spectrum[:5] = 0
    pink = np.fft.irfft(spectrum, count)
    t = np.arange(count) / RATE
    hum = sum(np.sin(2 * np.pi * 50 * h * t + h) / h for h in range(1, 12))
    clicks = np.zeros(count)
    clicks[[count // 3, count // 2]] = 0.9
    waves = {
        "zeros": 0 * t,
        "last bit": rng.choice([-1, 0, 0, 0, 0, 1], count) / 32768,
        "white, -80 dB": 1e-4 * white,
        "white, speech level": 0.05 * white,
        "pink, -60 dB": 1e-3 * pink / pink.std(),
        "pink, speech level": 0.05 * pink / pink.std(),
        "hum": 0.02 * hum + 3e-4 * white,
        "clicks": clicks + 3e-4 * white,
        "clicks in zeros": clicks,
    }
    return np.asarray(waves[kind], dtype=np.float32)


STEADY = (
    *("zeros", "last bit", "white, -80 dB", "white, speech level", "pink, -60 dB", "pink, speech level"),
    *("hum", "clicks", "clicks in zeros"),
)


def flags(wave: Wave, cut: list[int] | None = None, db: float = 6.0, **features: float) -> Flags:
    """Return the flags of a recording whose static features come in pieces of these sizes, over and over."""
    config = FeatureConfig(**{"mels": 20, **features})
    static = static_features(torch.from_numpy(wave), config).numpy()
    found: list[Flags] = []
    detector, start, k = ActivityDetector(config, db), 0, 0
    while start < len(static):
        size = (cut or [len(static)])[k % len(cut or [1])]
        found.append(detector.push(static[start : start + size]))
        start, k = start + size, k + 1
    result: Flags = np.concatenate([*found, detector.finish()])
    assert len(result) == len(static)
    return result


def speech_between(silence: float, seed: int = 1) -> Wave:
    """Return a song with seconds of faint noise before and after it."""
    rng = np.random.default_rng(seed)
    song, _ = sing([PHONES[k] for k in rng.integers(4, size=12)], rng)
    quiet = (1e-3 * rng.standard_normal((2, int(silence * RATE)))).astype(np.float32)
    return np.concatenate([quiet[0], song, quiet[1]])


@pytest.mark.parametrize("kind", STEADY)
def test_steady_sound_is_not_active(kind: str) -> None:
    assert not flags(steady(kind)).any()
    assert not flags(steady(kind), shift_ms=12.5, window_ms=32.0).any()
    assert not flags(steady(kind), mels=4, sample_rate=8000).any()


def test_speech_is_active_with_what_is_around_it() -> None:
    wave = speech_between(4.0)
    for scale in (1.0, 1e-2):
        active = flags(scale * wave)
        edges = np.flatnonzero(np.diff(active.astype(int)))
        assert len(edges) == 2 and active[edges[0] + 1 : edges[1] + 1].all()
        assert 3.3 < edges[0] / 100 < 3.6 and len(active) / 100 - 3.1 < edges[1] / 100 < len(active) / 100 - 2.9


@pytest.mark.parametrize("cut", [[1], [7, 0, 3], [50], [151, 1], [400]])
@pytest.mark.parametrize("silence", [0.0, 0.7, 3.0])
def test_blocks_make_no_difference(silence: float, cut: list[int]) -> None:
    stationary = (steady("pink, speech level", 2.0), steady("clicks", 1.4))
    for wave in (speech_between(silence), *stationary, speech_between(1.9, 5)):
        for features in ({}, {"shift_ms": 12.5}):
            np.testing.assert_array_equal(flags(wave, cut, 3.3, **features), flags(wave, None, 3.3, **features))


def test_labels_of_silence_and_the_blank_stay() -> None:
    logits = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    active = np.array([True, False, True, True, False])
    found = without_phones(logits, active, np.array([1, 3]))
    np.testing.assert_array_equal(found[active], logits[active])
    np.testing.assert_array_equal(found[:, [0, 2]], logits[:, [0, 2]])
    assert (found[~active][:, [1, 3]] <= logits[~active][:, :1] - FAR_BELOW + 1e-5).all()
    assert without_phones(logits, np.ones(5, np.bool_), np.array([1, 3])) is logits


@pytest.fixture(scope="module")
def english() -> Recogniser:
    return open_model("english", Recogniser, ModelChoice("cpu"))


@pytest.mark.parametrize("kind", ["zeros", "white, -80 dB", "pink, speech level", "hum", "clicks"])
def test_the_bundled_model_finds_no_phones_in_noise(english: Recogniser, kind: str) -> None:
    assert english.decode(steady(kind, 20.0), RATE).phones == ()


def test_without_the_detector_it_finds_phones_in_a_hum(english: Recogniser) -> None:
    off = english.config.decode.model_copy(update={"min_modulation_db": 0.0})
    without = english.configured(english.config.model_copy(update={"decode": off}))
    assert without.decode(steady("hum", 20.0), RATE).phones != ()


def test_what_is_decoded_in_blocks_and_at_once_is_alike(tiny_model: Path, tmp_path: Path) -> None:
    import soundfile

    from speechctc.inference.streaming import SampleBlocks

    model = speechctc.load(tiny_model, "cpu")
    wave = np.concatenate([speech_between(3.0), speech_between(2.0, 7), steady("hum", 4.0)])
    soundfile.write(tmp_path / "a.wav", wave, RATE, subtype="FLOAT")
    whole = model.decode(tmp_path / "a.wav")
    assert whole.segments == model.decode(wave, RATE).segments and len(whole.phones) > 15
    for frames in (7, 50, 333):
        found = list(model.segments(SampleBlocks(wave, RATE, RATE), block_frames=frames))
        assert [segment.phone for segment in found] == list(whole.phones)
        np.testing.assert_allclose([s[1:4] for s in found], [s[1:4] for s in whole.segments], atol=1e-4)


@pytest.mark.shared
def test_no_frame_of_real_utterances_is_taken_away(shared_data: Path) -> None:
    for path in sorted((shared_data / "speechocean-adults" / "dev" / "audio").rglob("*.flac"))[::4]:
        samples, _ = sound_file.read(path, RATE)
        assert flags(samples).all()
