"""Several recordings in one file, FLAC without a length, MP3 in blocks, and formats read from the start only."""

import multiprocessing
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.damage import Joined
from speechctc.audio.sound_file import channels_differ, open_sound
from speechctc.core.errors import InputError
from speechctc.studio.sound import Waveform

RATE = 16000
FORMATS = {"ogg": ("OGG", "VORBIS"), "opus": ("OGG", "OPUS"), "mp3": ("MP3", "MPEG_LAYER_III"), "flac": ("FLAC", None)}


def write(path: Path, seconds: float, seed: int = 0, rate: int = RATE, channels: int = 1, **options: object) -> Path:
    """Write a sweep in noise, which bits of one frame do not suffice for."""
    rng, t = np.random.default_rng(seed), np.arange(round(seconds * rate)) / rate
    sweep = 0.3 * np.sin(2 * np.pi * 440 * t * (1 + 0.1 * np.sin(t))) * (1 + np.sin(8 * t)) / 2
    sound = np.repeat((sweep + 0.02 * rng.standard_normal(len(t)))[:, None], channels, axis=1)
    form, subtype = FORMATS.get(path.suffix[1:], (None, None))
    with soundfile.SoundFile(path, "w", rate, channels, subtype, format=form, **options) as file:
        file.write(sound)
    return path


def read(path: Path, start: float | None = None, end: float = 0.0) -> NDArray[np.float32]:
    return sound_file.read(path, RATE, None, None if start is None else (start, end))[0]


def without_length(path: Path) -> Path:
    content = bytearray(path.read_bytes())
    content[21] &= 0xF0
    content[22:26] = bytes(4)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("ending", FORMATS)
def test_all_recordings_of_a_file_are_read(tmp_path: Path, ending: str) -> None:
    pieces = [write(tmp_path / f"{k}.{ending}", 0.7 + 0.4 * k, k) for k in range(3)]
    joined = tmp_path / f"joined.{ending}"
    joined.write_bytes(b"".join(piece.read_bytes() for piece in pieces))
    wanted = np.concatenate([read(piece) for piece in pieces])
    assert sound_file.info(joined).frames == len(wanted) == round(3.3 * RATE)
    np.testing.assert_array_equal(read(joined), wanted)
    np.testing.assert_allclose(read(joined, 0.5, 2.5), wanted[8000:40000], atol=1e-6)
    assert sound_file.cut_short(joined) == "" and not channels_differ(joined)
    with sound_file.opened(joined, RATE) as blocks:
        np.testing.assert_array_equal(np.concatenate([block.copy() for block in blocks]), wanted)
    with closing(Waveform(joined)) as sound:
        assert sound.frames == len(wanted)
        assert np.abs(sound.read(30000, 31000) - wanted[30000:31000]).max() < 1e-3


@pytest.mark.parametrize("ending", ["ogg", "opus"])
def test_copies_of_a_recording_have_one_serial_number(tmp_path: Path, ending: str) -> None:
    """libsndfile does not say that more follows."""
    path = write(tmp_path / f"a.{ending}", 1.0)
    wanted = read(path)
    path.write_bytes(path.read_bytes() * 3)
    np.testing.assert_array_equal(read(path), np.tile(wanted, 3))
    assert sound_file.cut_short(path) == ""


@pytest.mark.parametrize("ending", FORMATS)
def test_a_single_recording_is_opened_as_it_is(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"a.{ending}", 1.0)
    for content in (path.read_bytes(), path.read_bytes() + b"\0" * 5000, path.read_bytes() + b"TAG" + bytes(125)):
        path.write_bytes(content)
        with open_sound(path) as file:
            assert not isinstance(file, Joined) and file.frames == RATE


@pytest.mark.parametrize("tag", [b"TAG" + bytes(125), b"ID3\4\0\0\0\0\1\0" + bytes(128)])
def test_tags_between_mp3s(tmp_path: Path, tag: bytes) -> None:
    one = write(tmp_path / "a.mp3", 1.0)
    joined = tmp_path / "joined.mp3"
    joined.write_bytes(one.read_bytes() + tag + one.read_bytes())
    np.testing.assert_array_equal(read(joined), np.tile(read(one), 2))


@pytest.mark.parametrize("ending", ["ogg", "flac"])
def test_recordings_of_different_rates_are_refused(tmp_path: Path, ending: str) -> None:
    one, other = write(tmp_path / f"a.{ending}", 0.5), write(tmp_path / f"b.{ending}", 0.5, rate=8000, channels=2)
    joined = tmp_path / f"joined.{ending}"
    joined.write_bytes(one.read_bytes() + other.read_bytes())
    with pytest.raises(InputError, match="2 recordings in one file, of 16000 Hz with 1 channels and 8000 Hz with 2"):
        read(joined)


def test_flac_without_a_length(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.flac", 1.3)
    wanted = read(whole)
    path = without_length(Path(shutil.copy(whole, tmp_path / "b.flac")))
    assert sound_file.info(path).frames == len(wanted)
    np.testing.assert_array_equal(read(path), wanted)
    np.testing.assert_array_equal(read(path, 0.5, 1.2), wanted[8000:19200])
    path.write_bytes(path.read_bytes() * 2 + whole.read_bytes())
    np.testing.assert_array_equal(read(path), np.tile(wanted, 3))


def test_flac_without_a_length_that_is_damaged(tmp_path: Path) -> None:
    path = without_length(write(tmp_path / "a.flac", 1.3))
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(InputError, match="a.flac"):
        read(path)


@pytest.mark.parametrize("rate", [16000, 22050, 44100])
def test_mp3_of_variable_bit_rate(tmp_path: Path, rate: int) -> None:
    """Blocks and stretches are what the whole is; with a seek after each block they begin with noise, of up to 0.2."""
    path = write(tmp_path / "a.mp3", 30.0, rate=rate, bitrate_mode="VARIABLE", compression_level=0.5)
    with soundfile.SoundFile(path) as file:
        whole = file.read(dtype="float32")
    with open_sound(path) as file:
        blocks = np.concatenate(list(sound_file.mono_blocks(file, path, 5000)))
    assert len(blocks) == len(whole) and np.abs(blocks - whole).max() < 1e-6
    for start in np.random.default_rng(1).uniform(1, 28, 12):
        with open_sound(path) as file:
            segment = np.concatenate(list(sound_file.segment_blocks(file, path, None, (start, start + 0.3))))
        first = round(start * rate)
        assert np.abs(segment - whole[first : first + len(segment)]).max() < 1e-6


@pytest.mark.parametrize(
    ("form", "subtype"),
    [("WAV", "GSM610"), ("AIFF", "GSM610"), ("AU", "G721_32"), ("AU", "G723_24"), ("WAV", "NMS_ADPCM_16")],
)
def test_formats_that_are_read_from_the_start_only(tmp_path: Path, form: str, subtype: str) -> None:
    path = tmp_path / "a.wav"
    tone = 0.3 * np.sin(np.arange(3 * RATE) / 9)
    with soundfile.SoundFile(path, "w", RATE, 1, subtype, format=form) as file:
        file.write(tone)
    whole = read(path)
    for start, end in ((1.0, 2.0), (2.0, 3.0), (0.0, 1.0)):
        found = read(path, start, end)
        np.testing.assert_array_equal(found, whole[round(start * RATE) : round(start * RATE) + len(found)])
        assert len(found) == RATE


def _samples(path: Path) -> int:
    return len(read(path))


def test_no_copy_outlives_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = without_length(write(tmp_path / "a.flac", 1.3))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with ProcessPoolExecutor(1, multiprocessing.get_context("forkserver")) as pool:
        assert pool.submit(_samples, path).result() == round(1.3 * RATE)
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["a.flac"]
