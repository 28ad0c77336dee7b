"""Recordings that only ffmpeg reads: a stand-in program on PATH, and the real one where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.ffmpeg import Decoded, missing_for
from speechctc.audio.sound_file import channels_differ, open_sound
from speechctc.core.errors import InputError
from tests.programs import write_program

RATE = 44100
Sound = NDArray[np.float32]


@pytest.fixture
def sound(tmp_path: Path) -> Sound:
    """Return two channels of noise, which the stand-in will write whatever it is asked to read."""
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, (RATE, 2)).astype(np.float32)
    soundfile.write(tmp_path / "decoded", noise, RATE, subtype="FLOAT", format="AU", endian="BIG")
    (tmp_path / "a.m4a").write_bytes(b"\0\0\0 ftypM4A ")
    return noise


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program named ffmpeg alone on PATH; its standard output is what the Python script writes."""
    (folder / "bin").mkdir()
    write_program(folder / "bin" / "ffmpeg", f"import sys, pathlib\nhere = pathlib.Path({str(folder)!r})\n{script}\n")
    monkeypatch.setenv("PATH", str(folder / "bin"))


WRITE = "sys.stdout.buffer.write((here / 'decoded').read_bytes())"


def test_what_ffmpeg_writes_is_what_is_read(tmp_path: Path, sound: Sound, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, f"(here / 'arguments').write_text('\\n'.join(sys.argv[1:]))\n{WRITE}")
    path = tmp_path / "a.m4a"
    assert sound_file.info(path) == (RATE, RATE, 2) and sound_file.remark(path) == ""
    np.testing.assert_array_equal(sound_file.read(path, RATE, 2)[0], sound[:, 1])
    samples, seconds = sound_file.read(path, 16000)
    assert len(samples) == 16000 and seconds == 1.0
    with sound_file.opened(path, 16000) as blocks:
        np.testing.assert_array_equal(np.concatenate(list(blocks)), samples)
    assert channels_differ(path)
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert "-nostdin" in arguments and f"file:{path}" in arguments
    assert arguments[arguments.index("-protocol_whitelist") + 1] == "file,pipe"
    assert arguments[arguments.index("-f") + 1] == "au", "WAV ends at 4 GiB"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("sys.exit('a.m4a: moov atom not found')", "a.m4a: ffmpeg cannot decode it .*moov atom not found"),
        ("", "a.m4a: ffmpeg cannot decode it .it has no sound"),
        (f"{WRITE[:-1]}[:200000])\nsys.exit(1)", "a.m4a: ffmpeg cannot decode it .it is cut off after 0.6 s"),
    ],
)
def test_what_ffmpeg_cannot_decode_is_said_in_a_line(
    tmp_path: Path, sound: Sound, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    stand_in(tmp_path, monkeypatch, script)
    with pytest.raises(InputError, match=message) as caught:
        sound_file.read(tmp_path / "a.m4a", 16000)
    assert "\n" not in str(caught.value)


def test_a_recording_is_decoded_once_to_be_measured(
    tmp_path: Path, sound: Sound, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, f"(here / 'calls').open('a').write('x')\n{WRITE}")
    for _ in range(3):
        assert sound_file.info(tmp_path / "a.m4a") == (RATE, RATE, 2)
    assert (tmp_path / "calls").read_text() == "x"


def test_ffmpeg_is_ended_when_reading_stops(tmp_path: Path, sound: Sound, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, f"{WRITE}\nsys.stdout.flush()\nwhile True: sys.stdout.buffer.write(bytes(4096))")
    with open_sound(tmp_path / "a.m4a") as file:
        assert file.read(10, dtype="float32", always_2d=True).shape == (10, 2)
        assert isinstance(file, Decoded)
        process = file._decoder._ffmpeg
    assert process.poll() is not None


def test_without_ffmpeg_the_advice_is_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("a.m4a", "b.AMR", "c.m4a", "d.wav"):
        (tmp_path / name).write_bytes(b"\0\0\0 ftypM4A ")  # a.wav is m4a inside, as telephones name them
        with pytest.raises(InputError, match=f"{name}: .* ffmpeg is not installed; install ffmpeg .*or convert"):
            sound_file.info(tmp_path / name)
    said = missing_for(sorted(tmp_path.iterdir()))
    assert said.startswith("3 recordings cannot be read without ffmpeg, which is not installed (1 .amr, 2 .m4a)")
    assert missing_for([tmp_path / "d.wav"]) == ""


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="ffmpeg is not installed")
@pytest.mark.parametrize("ending", ["m4a", "mp4", "mov", "3gp", "webm", "mka", "mkv", "wma", "aac"])
def test_real_files_are_decoded(tmp_path: Path, ending: str) -> None:
    times = np.arange(48000) / 48000
    soundfile.write(tmp_path / "a.wav", 0.5 * np.sin(2 * np.pi * 440 * times), 48000)
    path = tmp_path / f"a tone, 'é'.{ending}"
    codec = ["-c:a", "aac"] if ending == "3gp" else []
    made = subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-i", tmp_path / "a.wav", *codec, path], check=False)
    if made.returncode:
        pytest.skip(f"this ffmpeg does not write .{ending}")
    samples, seconds = sound_file.read(path, 16000)
    assert seconds == pytest.approx(1.0, abs=0.1) and sound_file.info(path).seconds == seconds
    spectrum = np.abs(np.fft.rfft(samples[4000:12000]))
    assert spectrum.argmax() * 16000 / 8000 == 440
    assert np.sqrt(np.mean(samples[4000:12000] ** 2)) == pytest.approx(0.354, abs=0.02)
