"""Several recordings in one file, FLAC without a length, MP3 in blocks, and formats read from the start only."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.sound_file import open_sound
from speechctc.core.errors import InputError

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


@pytest.mark.parametrize("ending", FORMATS)
def test_several_recordings_in_a_file_are_refused(tmp_path: Path, ending: str) -> None:
    pieces = [write(tmp_path / f"{k}.{ending}", 0.7 + 0.4 * k, k) for k in range(3)]
    for k, joined in enumerate((pieces, [pieces[0]] * 3)):  # copies of a stream have one serial number
        path = tmp_path / f"joined{k}.{ending}"
        path.write_bytes(b"".join(piece.read_bytes() for piece in joined))
        for act in (sound_file.info, sound_file.cut_short, read):
            with pytest.raises(
                InputError, match=rf"joined{k}.{ending}: 3 recordings in one file; divide it, or convert"
            ):
                act(path)


@pytest.mark.parametrize("ending", FORMATS)
def test_a_single_recording_is_opened_as_it_is(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"a.{ending}", 1.0)
    for content in (path.read_bytes(), path.read_bytes() + b"\0" * 5000, path.read_bytes() + b"TAG" + bytes(125)):
        path.write_bytes(content)
        with open_sound(path) as file:
            assert file.frames == RATE


@pytest.mark.parametrize("tag", [b"TAG" + bytes(125), b"ID3\4\0\0\0\0\1\0" + bytes(128)])
def test_tags_between_mp3s(tmp_path: Path, tag: bytes) -> None:
    one = write(tmp_path / "a.mp3", 1.0)
    joined = tmp_path / "joined.mp3"
    joined.write_bytes(one.read_bytes() + tag + one.read_bytes())
    with pytest.raises(InputError, match="2 recordings in one file"):
        read(joined)


def test_flac_without_a_length(tmp_path: Path) -> None:
    content = bytearray(write(tmp_path / "a.flac", 1.3).read_bytes())
    content[21] &= 0xF0
    content[22:26] = bytes(4)
    (tmp_path / "b.flac").write_bytes(content)
    with pytest.raises(InputError, match="b.flac: its header does not say how long it is; convert it, for example"):
        read(tmp_path / "b.flac")


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
