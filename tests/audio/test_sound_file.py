from __future__ import annotations

import re
import subprocess
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from speechctc.audio import ffmpeg, sound_file
from speechctc.audio.sound_file import channels_differ, open_sound
from speechctc.core.errors import InputError


def tone(seconds: float, rate: int, hertz: float = 440.0, amplitude: float = 0.5) -> NDArray[np.float32]:
    times = np.arange(round(seconds * rate)) / rate
    return np.asarray(amplitude * np.sin(2 * np.pi * hertz * times), dtype=np.float32)


@pytest.mark.parametrize(
    ("ending", "format", "subtype", "tolerance"),
    [
        ("wav", "WAV", "PCM_16", 4e-5),
        ("wav", "WAV", "PCM_24", 1e-6),
        ("wav", "WAV", "FLOAT", 0.0),
        ("WAV", "NIST", "PCM_16", 4e-5),
        ("flac", "FLAC", "PCM_16", 4e-5),
        ("aiff", "AIFF", "PCM_16", 4e-5),
        ("ogg", "OGG", "VORBIS", 2e-2),
        ("mp3", "MP3", "MPEG_LAYER_III", 5e-2),
    ],
)
def test_formats_read_as_what_was_written(
    tmp_path: Path, ending: str, format: str, subtype: str, tolerance: float
) -> None:
    wanted = tone(0.5, 16000)
    path = tmp_path / f"a.{ending}"
    soundfile.write(path, wanted, 16000, format=format, subtype=subtype)
    samples, seconds = sound_file.read(path, 16000)
    assert samples.dtype == np.float32 and samples.shape == wanted.shape
    assert seconds == 0.5
    inner = slice(800, -800)  # lossy codecs ring at the ends
    np.testing.assert_allclose(samples[inner], wanted[inner], atol=tolerance)


def test_channels_are_averaged(tmp_path: Path) -> None:
    left, middle, right = tone(0.1, 16000, 200), tone(0.1, 16000, 300), tone(0.1, 16000, 400)
    soundfile.write(tmp_path / "a.wav", np.stack([left, middle, right], axis=1), 16000, subtype="FLOAT")
    samples, _ = sound_file.read(tmp_path / "a.wav", 16000)
    np.testing.assert_allclose(samples, (left + middle + right) / 3, atol=1e-7)


@pytest.mark.parametrize("channels", [1, 2])
def test_blocks_join_without_seams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, channels: int) -> None:
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, (1001, channels)).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", noise, 16000, subtype="FLOAT")
    monkeypatch.setattr(sound_file, "BLOCK", 130)
    samples, _ = sound_file.read(tmp_path / "a.wav", 16000)
    np.testing.assert_allclose(samples, noise.mean(axis=1), atol=1e-7)


def test_the_header_is_read_without_samples(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.flac", np.zeros((441, 2)), 44100)
    assert sound_file.info(tmp_path / "a.flac") == (441, 44100, 2)
    assert sound_file.info(tmp_path / "a.flac").seconds == 0.01


def write_broken(folder: Path, kind: str) -> Path:
    path = folder / f"{kind}.wav"
    if kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    elif kind == "no samples":
        soundfile.write(path, np.zeros(0), 16000)
    elif kind == "text":
        path.write_text("see the other folder\n")
    elif kind == "pointer":
        path.write_text("version https://git-lfs.github.com/spec/v1\n")
    elif kind == "junk":
        path.write_bytes(bytes(range(256)) * 8)
    elif kind == "shorten":
        soundfile.write(path, tone(0.1, 16000), 16000, format="NIST")
        raw = path.read_bytes()
        header = raw[:1024].replace(b"-s3 pcm", b"-s26 pcm,embedded-shorten-v2.00")[:1024]
        path.write_bytes(header + raw[1024:])
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "no such file"),
        ("folder", "a folder, not a recording"),
        ("empty", "the file is empty"),
        ("no samples", "it has no samples"),
        ("text", "text, not audio; check what was copied there$"),
        ("pointer", "a pointer file of git-lfs, not the recording; fetch it with: git lfs pull"),
        ("junk", "not audio that can be read.*ffmpeg"),
        ("shorten", "SPHERE compressed with shorten.*sph2pipe"),
    ],
)
def test_what_is_no_recording_is_said_with_its_path(tmp_path: Path, kind: str, message: str) -> None:
    path = write_broken(tmp_path, kind)
    for attempt in (lambda: sound_file.read(path, 16000), lambda: sound_file.info(path)):
        with pytest.raises(InputError, match=f"{kind}.wav: {message}"):
            attempt()


def test_a_flac_that_breaks_off_is_refused(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 32000)
    soundfile.write(tmp_path / "a.flac", noise, 16000)
    whole = (tmp_path / "a.flac").read_bytes()
    (tmp_path / "half.flac").write_bytes(whole[: len(whole) // 2])
    assert sound_file.info(tmp_path / "half.flac").frames == 32000, "the header alone does not tell"
    with pytest.raises(InputError, match=r"half.flac: cut short or damaged: .* of 2.0 s"):
        sound_file.read(tmp_path / "half.flac", 16000)


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
@pytest.mark.parametrize("share", [0.6, 0.99])
def test_an_ogg_cut_short_can_be_told(tmp_path: Path, subtype: str, share: float) -> None:
    path, part = tmp_path / "a.ogg", tmp_path / "part.ogg"
    soundfile.write(path, np.random.default_rng(0).uniform(-0.3, 0.3, 192000), 48000, format="OGG", subtype=subtype)
    part.write_bytes(path.read_bytes()[: round(share * path.stat().st_size)])
    assert 0 < sound_file.read(part, 16000)[1] < 4
    assert "part.ogg: cut short" in sound_file.remark(part) and sound_file.remark(path) == ""


@pytest.mark.parametrize("format", ["WAV", "AIFF", "NIST"])
def test_a_wav_cut_short_is_read_as_far_as_it_goes_and_can_be_told(tmp_path: Path, format: str) -> None:
    path, half = tmp_path / "a.wav", tmp_path / "half.wav"
    soundfile.write(path, tone(1.0, 16000), 16000, format=format)
    half.write_bytes(path.read_bytes()[:16100])
    samples, seconds = sound_file.read(half, 16000)
    assert 7500 <= len(samples) <= 8050 and seconds == len(samples) / 16000
    assert "half.wav: cut short: the header says 32,0" in sound_file.remark(half)
    assert sound_file.remark(path) == ""


def test_a_streamed_wav_header_promises_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(0.1, 16000), 16000)
    raw = bytearray(path.read_bytes())
    raw[4:8] = raw[40:44] = b"\xff" * 4
    path.write_bytes(raw)
    assert sound_file.remark(path) == ""
    assert sound_file.read(path, 16000)[1] == 0.1


@pytest.mark.parametrize("value", [np.nan, -np.inf, 1e15, -1e20])
@pytest.mark.parametrize("place", [0, 7000, 15999])
def test_a_sample_that_no_recording_has_is_refused_with_its_place(tmp_path: Path, value: float, place: int) -> None:
    samples = np.stack([tone(1.0, 16000)] * 2, axis=1)
    samples[place, 1] = value
    soundfile.write(tmp_path / "a.wav", samples, 16000, subtype="FLOAT")
    what = (
        f"a sample of {abs(value):.3g} times full scale" if np.isfinite(value) else "not a finite number (NaN or inf)"
    )
    with pytest.raises(InputError, match=re.escape(f"a.wav: {what} at sample {place}, {place / 16000:.3f} s")):
        sound_file.read(tmp_path / "a.wav", 16000)


def test_floats_that_hold_unscaled_integers_are_read(tmp_path: Path) -> None:
    samples = (tone(1.0, 16000) * 2.0**31).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", samples, 16000, subtype="FLOAT")
    np.testing.assert_array_equal(sound_file.read(tmp_path / "a.wav", 16000)[0], samples)


def test_one_channel_is_read_alone_and_what_the_others_hold_does_not_matter(tmp_path: Path) -> None:
    left, right = tone(1.0, 16000, 300.0), tone(1.0, 16000, 900.0)
    broken = np.full(16000, np.nan, np.float32)
    soundfile.write(tmp_path / "a.wav", np.stack([left, right, broken], axis=1), 16000, subtype="FLOAT")
    np.testing.assert_array_equal(sound_file.read(tmp_path / "a.wav", 16000, channel=2)[0], right)
    with sound_file.opened(tmp_path / "a.wav", 16000, 1) as blocks:
        np.testing.assert_array_equal(np.concatenate(list(blocks)), left)
    for channel in (0, 4):
        with pytest.raises(InputError, match=f"a.wav: no channel {channel}, it has 3 channels"):
            sound_file.read(tmp_path / "a.wav", 16000, channel=channel)


@pytest.mark.shared
def test_timits_sphere_is_read_sample_by_sample(shared_data: Path) -> None:
    path = shared_data / "timit-sample/TEST/DR5/MBGT0/SX81.WAV"  # a whole one
    raw = np.frombuffer(path.read_bytes()[1024:], "<i2")
    samples, seconds = sound_file.read(path, 16000)
    np.testing.assert_array_equal(samples, raw.astype(np.float32) / 2**15)
    assert seconds == len(raw) / 16000


@pytest.mark.parametrize("ending", [".wav", ".flac", ".ogg", ".mp3", ".m4a", ".webm"])
def test_a_stretch_is_what_the_whole_has_there(tmp_path: Path, ending: str) -> None:
    samples = np.cumsum(np.random.default_rng(2).standard_normal(6 * 16000))
    soundfile.write(tmp_path / "a.wav", 0.1 * samples / np.abs(samples).max(), 16000)
    path = tmp_path / f"a{ending}"
    if ending in (".m4a", ".webm"):
        if not ffmpeg.installed():
            pytest.skip("ffmpeg is not installed")
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", tmp_path / "a.wav", path], check=True)
    elif ending != ".wav":
        soundfile.write(path, soundfile.read(tmp_path / "a.wav")[0], 16000)
    rate = sound_file.info(path).rate
    whole, _ = sound_file.read(path, rate)
    for start, end in ((0.0, 0.5), (0.25, 1.0), (3.123, 4.0), (5.5, 99.0)):
        part, seconds = sound_file.read(path, rate, segment=(start, end))
        wanted = whole[round(start * rate) : round(end * rate)]
        assert len(part) == len(wanted) and seconds == len(part) / rate
        assert np.allclose(part, wanted, atol=1e-6)
    with pytest.raises(InputError, match=r"no sound at 30.00 s|none of its samples"):
        sound_file.read(path, rate, segment=(30.0, 31.0))


@pytest.mark.parametrize("rate", [1, 999, 1_000_001, 2**31 - 1])
def test_a_rate_that_no_speech_has_is_refused(tmp_path: Path, rate: int) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(2000), rate)
    for read in (sound_file.info, lambda path: sound_file.read(path, 16000)):
        with pytest.raises(InputError, match=f"a.wav: its sample rate is {rate} Hz, too (low|high) for speech"):
            read(tmp_path / "a.wav")
    soundfile.write(tmp_path / "b.wav", np.zeros(2000), 1000)
    assert sound_file.read(tmp_path / "b.wav", 16000)[1] == 2.0
    soundfile.write(tmp_path / "c.wav", np.zeros(2000), 1_000_000)
    assert sound_file.read(tmp_path / "c.wav", 16000)[1] == 0.002


def test_reading_a_recording_takes_little_more_memory_than_its_samples(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros((60 * 96000, 2)), 96000)
    sound_file.read(tmp_path / "a.wav", 16000)
    tracemalloc.start()
    samples, _ = sound_file.read(tmp_path / "a.wav", 16000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * samples.nbytes + 2**24, "at its own rate it would be 6 times as much, before it is joined"


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
        for act in (sound_file.info, sound_file.remark, read):
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
    with pytest.raises(InputError, match="b.flac: its header does not say how long it is"):
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


TELEPHONE = 8000
NOISES = np.random.default_rng(0).normal(0, 0.1, (2, 40 * TELEPHONE))
FIRST_HALF = np.arange(40 * TELEPHONE) < 20 * TELEPHONE


@pytest.mark.parametrize(
    ("channels", "differ"),
    [
        ([NOISES[0]], False),
        ([NOISES[0], NOISES[0]], False),
        ([NOISES[0], 0.3 * NOISES[0] + 0.1 * NOISES[1]], False),  # the same voice, farther away
        ([NOISES[0], 0.0001 * NOISES[1]], False),  # a channel where nobody speaks
        ([NOISES[0], np.zeros(40 * TELEPHONE)], False),
        ([NOISES[0], NOISES[1]], True),
        ([NOISES[0] * FIRST_HALF, NOISES[1] * ~FIRST_HALF], True),  # two who take turns
        ([NOISES[0], NOISES[0], NOISES[1]], True),
        ([np.full(3, 0.1), np.full(3, 0.2)], False),
        ([NOISES[0] * np.nan, NOISES[1]], False),
    ],
)
def test_channels_that_hold_different_sounds_are_told(
    tmp_path: Path, channels: list[NDArray[np.float64]], differ: bool
) -> None:
    soundfile.write(tmp_path / "a.wav", np.stack(channels, axis=1), TELEPHONE, subtype="FLOAT")
    assert channels_differ(tmp_path / "a.wav") is differ
