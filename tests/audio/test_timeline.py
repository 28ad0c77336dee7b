"""Times of a recording are those of its container: sound that begins late, gaps, overlaps, and several sound tracks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from speechctc.audio import ffmpeg, sound_file
from speechctc.audio.timeline import Timeline
from speechctc.audio.tracks import Track
from speechctc.core.errors import InputError

RATE = 8000
PICTURE = "-f lavfi -i color=size=32x32:rate=10:duration=4".split()
needs_ffmpeg = pytest.mark.skipif(not shutil.which("ffmpeg"), reason="ffmpeg is not installed")


def placed(timeline: Timeline, total: int, *jumps: tuple[int, float]) -> list[float]:
    """Return when each of `total` decoded samples is heard, by the places of a timeline."""
    samples: list[int | None] = list(range(total))
    for at, more in reversed([timeline.place(decoded, lag, timeline.rate) for decoded, lag in jumps]):
        samples[at : at + max(-more, 0)] = [None] * max(more, 0)
    return [samples.index(k) / timeline.rate if k in samples else -1.0 for k in range(total)]


def test_silence_is_put_where_the_container_has_no_sound() -> None:
    timeline = Timeline(10, 60.0)
    times = placed(timeline, 8, (0, 20.0), (5, 50.0))
    assert times == [2.0, 2.1, 2.2, 2.3, 2.4, 5.5, 5.6, 5.7]
    assert timeline.begins == 2.0 and timeline.gaps == [(2.5, 3.0)]
    said = timeline.remark()
    assert "begins 2.00 s after" in said and "1 gap (at 2.50 s) of 3.00 s in all" in said


def test_an_overlap_is_left_out_and_times_that_go_far_back_are_not_followed() -> None:
    timeline = Timeline(10, 60.0)
    assert placed(timeline, 6, (0, 0.0), (3, -2.0)) == [0.0, 0.1, 0.2, -1.0, -1.0, 0.3]
    assert "1 overlap (at 0.30 s) of 0.20 s in all" in timeline.remark()
    again = Timeline(10, 60.0)
    assert placed(again, 60, (0, 0.0), (30, -30.0), (40, -20.0))[38:42] == [3.8, 3.9, 5.0, 5.1]
    assert again.returns == [(3.0, 3.0)] and again.gaps == [(4.0, 1.0)]


def test_a_start_of_less_than_a_millisecond_is_none_and_gaps_count_from_it() -> None:
    timeline = Timeline(10000)
    assert timeline.place(0, 5.0, 10000) == (0, 0) and timeline.remark() == ""
    assert timeline.place(100, 1005.0, 10000) == (100, 1000)


def test_times_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="its times jump by 95443.0 s at 0.30 s; convert it"):
        placed(Timeline(10, 60.0), 6, (0, 0.0), (3, 954430.0))
    with pytest.raises(InputError, match="its times jump"):
        placed(Timeline(10), 6, (0, 1e8))


def test_after_a_change_of_the_rate_gaps_are_still_filled() -> None:
    timeline = Timeline(10)
    places = [timeline.place(0, 0.0, 10), timeline.place(0, 60.0, 20), timeline.place(40, 80.0, 20)]
    assert places == [(0, 0), (30, 0), (50, 10)] and timeline.changes == [3.0]


def noise(seconds: float) -> NDArray[np.float32]:
    return np.random.default_rng(1).uniform(-0.5, 0.5, round(seconds * RATE)).astype(np.float32)


def make(folder: Path, name: str, *arguments: str) -> Path:
    """Make a recording of lossless sound by ffmpeg."""
    soundfile.write(folder / "noise.wav", noise(4.0), RATE, subtype="FLOAT")
    codecs = "-c:v mpeg4 -c:a pcm_f32le".split()
    path = folder / name
    subprocess.run(["ffmpeg", "-nostdin", "-v", "error", *arguments, *codecs, path], cwd=folder, check=True)
    return path


def pieces(path: Path, channel: Track | None = None) -> NDArray[np.float32]:
    """Return the whole, after checking that pieces in any order are samples of it."""
    whole, seconds = sound_file.read(path, RATE, channel)
    for start, end in [(0.0, 0.5), (2.5, 3.0), (1.0, 1.25), (2.75, 3.25), (0.001, 9.0), (seconds - 0.1, seconds)]:
        piece, _ = sound_file.read(path, RATE, channel, (start, end))
        np.testing.assert_array_equal(piece, whole[round(start * RATE) : round(end * RATE)])
    return whole


@needs_ffmpeg
@pytest.mark.parametrize("name", ["late.mkv", "late.mov"])
def test_sound_that_begins_after_the_picture_is_where_players_have_it(tmp_path: Path, name: str) -> None:
    path = make(tmp_path, name, *PICTURE, "-itsoffset", "1.5", "-i", "noise.wav", "-map", "0:v", "-map", "1:a")
    whole = pieces(path)
    assert not whole[: round(1.48 * RATE)].any()
    np.testing.assert_array_equal(whole[len(whole) - 4 * RATE :], noise(4.0))
    assert abs(len(whole) - 5.5 * RATE) < 0.02 * RATE and sound_file.info(path).frames == len(whole)
    assert "its sound begins 1.5" in sound_file.remark(path)


@needs_ffmpeg
def test_sound_of_a_camera_begins_where_its_picture_says(tmp_path: Path) -> None:
    """ffmpeg lets such a file begin with the track that is read; its packets have times of day."""
    soundfile.write(tmp_path / "noise.wav", noise(4.0), RATE)
    path = tmp_path / "camera.mts"
    late = [
        *PICTURE,
        "-itsoffset",
        "1.5",
        "-i",
        "noise.wav",
        "-map",
        "0:v",
        "-map",
        "1:a",
        "-output_ts_offset",
        "36000",
    ]
    codecs = "-r 25 -c:v mpeg2video -ar 16000 -c:a mp2 -f mpegts".split()
    subprocess.run(["ffmpeg", "-nostdin", "-v", "error", *late, *codecs, path], cwd=tmp_path, check=True)
    whole, _ = sound_file.read(path, RATE)
    begins = np.flatnonzero(np.abs(whole) > 0.01)[0] / RATE
    assert 1.4 < begins < 1.6 and 5.3 < len(whole) / RATE < 5.7
    assert "its sound begins 1.4" in sound_file.remark(path)


@needs_ffmpeg
def test_a_gap_of_lost_packets_is_silence(tmp_path: Path) -> None:
    path = make(tmp_path, "gap.mkv", "-i", "noise.wav", "-af", "asetnsamples=160,aselect=not(between(t\\,1\\,1.9999))")
    whole = pieces(path)
    expected = noise(4.0)
    expected[RATE : 2 * RATE] = 0
    np.testing.assert_array_equal(whole, expected)
    assert "1 gap (at 1.00 s) of 1.00 s in all, filled with silence" in sound_file.remark(path)


@needs_ffmpeg
def test_one_of_several_sound_tracks_is_chosen(tmp_path: Path) -> None:
    tone = "-f lavfi -i sine=frequency=440:sample_rate=8000:duration=4".split()
    path = make(tmp_path, "two.mkv", *tone, "-i", "noise.wav", "-map", "0:a", "-map", "1:a")
    first, second = pieces(path), pieces(path, Track(2))
    np.testing.assert_array_equal(second, noise(4.0))
    np.testing.assert_array_equal(first, pieces(path, Track(1, 1)))
    assert np.abs(np.fft.rfft(first)).argmax() == 440 * 4
    assert "it has 2 sound tracks; the first is read" in sound_file.remark(path)
    assert sound_file.remark(path, Track(1)) == sound_file.remark(path, Track(2)) == ""
    with pytest.raises(InputError, match="no track 3, it has 2 sound tracks; choose one of its tracks"):
        sound_file.read(path, RATE, Track(3))
    with pytest.raises(InputError, match="no channel 2, it has 1 channel"):
        sound_file.read(path, RATE, Track(2, 2))
    with pytest.raises(InputError, match="no track 2, it has 1 sound track"):
        sound_file.info(tmp_path / "noise.wav", Track(2))


@needs_ffmpeg
def test_pieces_in_order_are_decoded_by_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path, "a.mkv", "-i", "noise.wav")
    started: list[Path] = []
    start = ffmpeg._start

    def counted(path: Path, track: int, errors: int) -> subprocess.Popen[bytes]:
        started.append(path)
        return start(path, track, errors)

    monkeypatch.setattr(ffmpeg, "_start", counted)
    for begin in (0.5, 1.0, 2.0, 1.5, 3.0):
        sound_file.read(path, RATE, None, (begin, begin + 0.25))
    assert len(started) == 1
    path.write_bytes(path.read_bytes())
    sound_file.read(path, RATE, None, (3.5, 3.75))
    assert len(started) == 2, "it was written anew"
