"""Recordings that were copied as text: read as they were before, as far as that can be known."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.damage import Mended
from speechctc.audio.sound_file import open_with_libsndfile
from speechctc.core.errors import InputError

RATE = 16000


def song(seconds: float, seed: int, channels: int = 1) -> NDArray[np.int16]:
    """Return tones that come and go, with a little noise; shape = (n, channels)."""
    rng = np.random.default_rng(seed)
    time = np.arange(int(seconds * RATE)) / RATE
    voices = [np.sin(2 * np.pi * f * time) * np.sin(2 * np.pi * 1.3 * time + f) for f in rng.uniform(150, 900, 3)]
    sound = 2500 * np.sum(voices, axis=0)[:, None] + rng.standard_normal((len(time), channels)) * 30
    return np.asarray(np.round(sound), np.int16)


def write(path: Path, sound: NDArray[np.int16], format: str, endian: str = "LITTLE") -> bytes:
    """Write a recording, and return its bytes of sound."""
    soundfile.write(path, sound, RATE, subtype="PCM_16", format=format, endian=endian)
    return sound.astype(">i2" if endian == "BIG" else "<i2").tobytes()


def as_text(path: Path, sound: bytes) -> int:
    """Copy a recording as text, all but its header; return the number of bytes that are lost."""
    whole = path.read_bytes()
    at = whole.index(sound)
    text = sound.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    path.write_bytes(whole[:at] + text + whole[at + len(sound) :])
    return len(sound) - len(text)


@pytest.mark.parametrize(
    ("format", "channels", "endian"),
    [("WAV", 1, "LITTLE"), ("WAV", 2, "LITTLE"), ("NIST", 1, "LITTLE"), ("NIST", 1, "BIG"), ("NIST", 3, "BIG")],
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_a_copy_as_text_took_is_put_back(
    tmp_path: Path, format: str, channels: int, endian: str, seed: int
) -> None:
    path = tmp_path / "a.sound"
    sound = write(path, song(8 / channels, seed, channels), format, endian)
    lost = as_text(path, sound)
    assert lost > 0, "else the test shows nothing"
    damaged = path.read_bytes()
    with open_with_libsndfile(path) or pytest.fail("no file") as file:
        assert isinstance(file, Mended) and file.bytes_back == lost
        found = file.read(dtype="int16", always_2d=True)
    wanted = np.frombuffer(re.sub(rb"\r(?!\n)", b"\n", sound), ">i2" if endian == "BIG" else "<i2")
    assert np.count_nonzero(found.ravel() != wanted) <= 2 * channels * lost
    assert path.read_bytes() == damaged
    note = sound_file.remark(path)
    assert f"copied as text, with line ends changed, and {lost} of its bytes are gone" in note
    assert sound_file.info(path).frames == len(found) and len(sound_file.read(path, RATE)[0]) == len(found)


def test_two_losses_close_together_are_found(tmp_path: Path) -> None:
    """Nearly all of the sound is right without them."""
    path = tmp_path / "a.wav"
    sound = song(4, 5)
    data = np.frombuffer(sound.tobytes(), "<i2").copy()
    data[(data & 255) == 13] += 1
    data[(data >> 8) == 13] -= 256
    data[[20000, 20400]] = 0x0A0D
    assert as_text(path, write(path, data[:, None], "WAV")) == 2
    with open_with_libsndfile(path) or pytest.fail("no file") as file:
        assert np.count_nonzero(file.read(dtype="int16") != data) <= 4


def test_what_is_cut_off_is_not_mended(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    sound = song(4, 6)
    whole = write(path, sound, "WAV")
    path.write_bytes(path.read_bytes()[:-3])
    assert ": cut short: " in sound_file.remark(path)  # it has CRs
    without = np.frombuffer(whole.replace(b"\r", b"\x0e"), "<i2")
    write(path, without[:, None], "WAV")
    for cut in (1, 2, 5):
        path.write_bytes(path.read_bytes()[:-cut])
        assert ": cut short: " in sound_file.remark(path)  # it has none, but no place makes it smoother


def test_a_whole_recording_without_the_byte_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    without = np.frombuffer(song(4, 7).tobytes().replace(b"\r", b"\x0e"), "<i2")
    write(path, without[:, None], "WAV")
    with open_with_libsndfile(path) or pytest.fail("no file") as file:
        assert not isinstance(file, Mended)
        np.testing.assert_array_equal(file.read(dtype="int16"), without)
    assert sound_file.remark(path) == ""


@pytest.mark.shared
def test_real_recordings_have_the_length_and_the_peaks_of_their_headers(shared_data: Path) -> None:
    """Each header gives the number of samples, the lowest and the highest."""
    mended = 0
    for path in sorted((shared_data / "timit-sample").rglob("*.WAV")):
        header = path.read_bytes()[:1024]
        count, low, high = (
            int(re.findall(rf"sample_{name} -i (-?\d+)".encode(), header)[0]) for name in ("count", "min", "max")
        )
        with open_with_libsndfile(path) or pytest.fail("no file") as file:
            mended += isinstance(file, Mended)
            found = file.read(dtype="int16").astype(int)
        # a CR that became LF makes a sample smaller, by 3, or by 768 where it was the higher byte
        assert len(found) == count and 0 <= low - found.min() <= 3 and 0 <= high - found.max() <= 771
    assert mended > 0


def test_an_mp3_that_is_cut_off_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.mp3"
    soundfile.write(path, 0.1 * np.random.default_rng(0).standard_normal(32000), 16000)
    whole = path.read_bytes()
    assert sound_file.remark(path) == ""
    for tag in (b"", b"TAG" + bytes(125)):
        path.write_bytes(whole + tag)
        assert sound_file.remark(path) == ""
    (tmp_path / "b.mp3").write_bytes(whole[: len(whole) // 2])
    said = f"b.mp3: cut short: the header says {len(whole):,} bytes, the file has {len(whole) // 2:,}"
    assert said in sound_file.remark(tmp_path / "b.mp3")
    assert len(sound_file.read(tmp_path / "b.mp3", 16000)[0]) < 32000


def wav_that_says(path: Path, said: int | None, behind: bytes = b"") -> Path:
    """Write half a second of noise, a header that says another number of bytes, and what follows the sound."""
    soundfile.write(path, np.random.default_rng(4).normal(0, 0.1, 8000), 16000)
    content = bytearray(path.read_bytes() + behind)
    if said is not None:
        at = content.index(b"data") + 4
        content[at : at + 4] = said.to_bytes(4, "little")
    path.write_bytes(content)
    return path


def test_sound_that_the_header_leaves_out_is_said(tmp_path: Path) -> None:
    short = wav_that_says(tmp_path / "short.wav", 6000)
    assert "not read whole: the header leaves out 10,000 bytes" in sound_file.remark(short)
    none = wav_that_says(tmp_path / "none.wav", 0)
    with pytest.raises(InputError, match="says no samples, and 16,000 bytes follow it; mend the header"):
        sound_file.read(none, 16000)


@pytest.mark.parametrize(
    "behind",
    [
        b"",
        b"LIST" + (4000).to_bytes(4, "little") + b"INFO" + b"x" * 3996,
        b"id3 " + (2001).to_bytes(4, "little") + b"ID3" + b"y" * 1999 + b"LIST" + (4).to_bytes(4, "little") + b"INFO",
        b"ID3\x04" + b"z" * 3000,
        b"TAG" + b"t" * 125,
        bytes(5000),
        b"odd",
    ],
)
def test_chunks_tags_and_filling_behind_the_sound_are_no_sound(tmp_path: Path, behind: bytes) -> None:
    assert sound_file.remark(wav_that_says(tmp_path / "a.wav", None, behind)) == ""
