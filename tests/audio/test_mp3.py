"""MP3s: damage is told in our words, not in libmpg123's, and other content under this name is read right or refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.audio import sound_file
from speechctc.audio.mp3 import Forward, frames, unheard
from speechctc.core.errors import InputError

RATE = 16000


def write(path: Path, seconds: float = 4.0, rate: int = RATE) -> bytes:
    """Write tones that come and go in noise as MP3; return its content."""
    time = np.arange(round(seconds * rate)) / rate
    noise = np.random.default_rng(3).normal(0, 0.02, len(time))
    sound = 0.3 * np.sin(2 * np.pi * (200 + 300 * time) * time) * (np.sin(9 * time) > 0) + noise
    soundfile.write(path, sound, rate, format="MP3", bitrate_mode="VARIABLE", compression_level=0.5)
    return path.read_bytes()


def followed(path: Path) -> tuple[int, tuple[tuple[float, int], ...]]:
    return frames(path, path.stat().st_size, path.stat().st_mtime_ns)[:2]


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 32000, 44100, 48000])
def test_frames_are_followed_to_the_end_at_each_rate(tmp_path: Path, rate: int) -> None:
    path = tmp_path / "a.mp3"
    write(path, 3.0, rate)
    samples, breaks = followed(path)
    assert 3.0 * rate <= samples < 3.2 * rate and breaks == ()


def test_pieces_of_a_good_file_are_read_without_a_word(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.mp3"
    write(path, 6.0)
    whole, _ = sound_file.read(path, RATE)
    for start in (0.8, 1.7, 2.3, 3.1, 4.4, 5.2):
        piece, _ = sound_file.read(path, RATE, None, (start, start + 0.5))
        np.testing.assert_allclose(piece, whole[round(start * RATE) :][: RATE // 2], atol=1e-6)
    assert sound_file.remark(path) == "" and capfd.readouterr() == ("", "")


def test_a_file_without_a_header_of_its_length_is_as_long_as_its_frames(tmp_path: Path) -> None:
    path = tmp_path / "a.mp3"
    whole = write(path)
    starts = [found.start() for found in re.finditer(re.escape(whole[:2]), whole)]
    (tmp_path / "whole.mp3").write_bytes(whole)
    path.write_bytes(whole[starts[1] :])  # the first frame has the length
    count = len(sound_file.read(path, RATE)[0])
    assert sound_file.info(path).frames == count and 4.0 * RATE <= count < 4.3 * RATE
    late = 1105  # an encoder's and a decoder's delay, which a file keeps whose header does not say them
    assert count == followed(path)[0]
    expected, _ = sound_file.read(tmp_path / "whole.mp3", RATE)
    np.testing.assert_allclose(sound_file.read(path, RATE)[0][RATE + late :][:RATE], expected[RATE:][:RATE], atol=1e-6)


def test_damage_is_said_in_a_line_and_not_by_libmpg123(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole = bytearray(write(tmp_path / "a.mp3"))
    path, middle = tmp_path / "flipped.mp3", len(whole) // 2
    for found in re.finditer(re.escape(bytes(whole[:2])), bytes(whole[middle : middle + 1000])):
        start = middle + found.start() + 4
        whole[start : start + 9] = b"\xff" * 9  # the side information of a frame
    path.write_bytes(whole)
    assert len(sound_file.read(path, RATE)[0]) == 4 * RATE
    said = sound_file.remark(path)
    assert "flipped.mp3: damaged: " in said and "errors of decoding, the first after " in said
    (tmp_path / "copy.mp3").write_bytes(whole)
    assert sound_file.remark(tmp_path / "copy.mp3").partition(": ")[2] == said.partition(": ")[2], "it was not read"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("bytes_between", "readable"), [(100, True), (4000, False)])
def test_what_is_no_mp3_between_frames_is_told(
    tmp_path: Path, bytes_between: int, readable: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    whole, path = write(tmp_path / "a.mp3"), tmp_path / "b.mp3"
    sync = whole.index(bytes([0xFF, whole[1]]), len(whole) // 2)
    path.write_bytes(whole[:sync] + b"U" * bytes_between + whole[sync:])
    said = f"damaged at 2.* s: {bytes_between:,} bytes between its frames are no MP3"
    if readable:
        sound_file.read(path, RATE)
    else:
        with pytest.raises(InputError, match=f"{said}, and it cannot be decoded to its end"):
            sound_file.read(path, RATE)
    assert f"{bytes_between:,} bytes between its frames are no MP3" in sound_file.remark(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["a.mp3", "a.wav", "a.sound"])
def test_other_content_under_this_name_is_refused_in_a_line(
    tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    page = b"<!DOCTYPE html><html><title>404 Not Found</title>" + b"x" * 3000
    for content in (page, bytes(40000), np.random.default_rng(5).bytes(40000)):
        path.write_bytes(content)
        with pytest.raises(InputError, match="text, not audio|not audio that can be read") as caught:
            sound_file.read(path, RATE)
        assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("tag", [b"", b"ID3\4\0\0\0\0\1\0" + bytes(128)])
def test_aac_is_none(tmp_path: Path, tag: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.mp3"
    path.write_bytes(tag + b"\xff\xf1\x50\x80" * 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="a.mp3: .* ffmpeg is not installed"):
        sound_file.read(path, RATE)


def test_wav_and_flac_are_read_under_this_name(tmp_path: Path) -> None:
    sound = np.random.default_rng(6).uniform(-0.5, 0.5, RATE).astype(np.float32)
    for form, subtype in (("WAV", "FLOAT"), ("FLAC", "PCM_24")):
        soundfile.write(tmp_path / "a.mp3", sound, RATE, format=form, subtype=subtype)
        np.testing.assert_allclose(sound_file.read(tmp_path / "a.mp3", RATE)[0], sound, atol=1e-6)


def test_what_others_write_meanwhile_is_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    with unheard() as said:
        os.write(2, b"[src/libmpg123/layer3.c:1774] error: x\nours\nNote: Trying to resync...\n")
    assert capfd.readouterr().err == "ours\n"
    assert said == [b"[src/libmpg123/layer3.c:1774] error: x\n", b"Note: Trying to resync...\n"]


def test_a_seek_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.mp3"
    write(path, 6.0)
    with sound_file.open_sound(path) as file:
        assert isinstance(file, Forward)
        for start in range(RATE, 5 * RATE, RATE // 3):
            file.seek(start)
            file.read(1000)
        assert file.damage() == ""
