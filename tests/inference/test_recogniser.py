"""The typed way to decode and align, from Python."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import threading
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray

import speechctc
from speechctc.audio import sound_file
from speechctc.core.errors import InputError
from speechctc.core.parallel import map_in_threads
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment
from speechctc.inference.streaming import LOOKAHEAD
from tests.tiny_model import sing, write_song
from tests.tones import PHONES

SONG = ["low", "mid", "mid", "high", "low", "top"]


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Recogniser:
    return speechctc.load(tiny_model, "cpu")


@pytest.fixture(scope="module")
def english() -> Recogniser:
    return speechctc.load("english", "cpu")


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, speechctc; assert not {'torch', 'numpy', 'pydantic'} & set(sys.modules); speechctc.load"
    subprocess.run([sys.executable, "-c", code], check=True)


def pushed(
    model: Recogniser, samples: NDArray[np.float32], rate: int, sizes: list[int], lookahead: float | None = None
) -> list[list[Segment]]:
    """Push samples in blocks of these sizes, over and over; return the phones of each call."""
    stream, found, start = model.stream(rate, 1, lookahead), [], 0
    for size in itertools.cycle(sizes):
        if start >= len(samples):
            break
        found.append(stream.push(samples[start : start + size]))
        start += size
    assert stream.seconds == len(samples) / rate
    return [*found, stream.finish()]


@pytest.mark.parametrize("rate", [16000, 44100, 22254])
@pytest.mark.parametrize("which", ["tiny", "bundled"])
def test_pushed_blocks_give_what_the_whole_gives(model: Recogniser, english: Recogniser, rate: int, which: str) -> None:
    """Of a net without and with a sliding mean and an n-gram, at rates that both resamplers take."""
    one = model if which == "tiny" else english
    song = [PHONES[k] for k in np.random.default_rng(3).integers(4, size=60)]
    samples, _ = sing(song, np.random.default_rng(4), rate)
    whole = one.decode(samples, rate, alternatives=1)
    calls = pushed(one, samples, rate, [1, 333, 0, 4410, 20_000])
    found = [segment for call in calls for segment in call]
    assert found and [segment.phone for segment in found] == list(whole.phones)
    for ours, expected in zip(found, whole.segments, strict=True):
        np.testing.assert_allclose(ours[1:4], expected[1:4], atol=1e-4)
        assert [phone for phone, _ in ours.alternatives] == [phone for phone, _ in expected.alternatives]


@pytest.mark.parametrize("which", ["tiny", "bundled"])
def test_live_phones_come_soon_and_from_any_blocks_alike(model: Recogniser, english: Recogniser, which: str) -> None:
    """Of a net without and with means over seconds and an n-gram; each at most 2 s after its end."""
    one = model if which == "tiny" else english
    rng = np.random.default_rng(0)
    samples = np.concatenate([sing(SONG * 8, rng)[0], np.zeros(40_000, np.float32)])
    calls = pushed(one, samples, 16000, [800], lookahead=LOOKAHEAD)
    found = [segment for call in calls for segment in call]
    assert len(found) > 20 and not calls[-1]
    for number, call in enumerate(calls, start=1):
        assert all(number * 0.05 - segment.end <= 2 for segment in call)
    again = pushed(one, samples, 16000, [12_345, 1, 160], lookahead=LOOKAHEAD)
    assert [each.phone for call in again for each in call] == [each.phone for each in found]


def test_a_stream_takes_what_a_microphone_gives_and_says_what_it_cannot_take(model: Recogniser) -> None:
    samples, _ = sing(SONG, np.random.default_rng(0))
    ints = (samples * 32767).astype(np.int16)[:, None]
    stream = model.stream(16000)
    found = stream.push(ints[:9000])
    with pytest.raises(InputError, match="finite"):
        stream.push(np.full(100, np.nan))
    found += stream.push(torch.from_numpy(ints[9000:])) + stream.finish()
    assert [segment.phone for segment in found] == SONG and stream.seconds == len(samples) / 16000
    assert stream.finish() == []
    with pytest.raises(InputError, match="finished"):
        stream.push(ints)
    assert model.stream(16000).finish() == []
    with pytest.raises(InputError, match="rate in Hz"):
        model.stream(16)
    for wrong in (-0.1, np.nan):
        with pytest.raises(InputError, match="lookahead"):
            model.stream(16000, lookahead=wrong)


def test_a_stream_needs_no_more_memory_as_it_goes_on(english: Recogniser) -> None:
    """What is kept of a song does not grow with the length of the song, in numpy's arrays or in torch's tensors."""
    rng, held, stream = np.random.default_rng(0), [], english.stream(16000)
    tracemalloc.start()
    try:
        for number in range(11):  # 22 s; the sliding mean needs 15 s
            stream.push(np.concatenate([sing(SONG[:4], rng)[0][:8000] for _ in range(4)]))
            if number in (7, 10):
                gc.collect()
                tensors = sum(each.nbytes for each in gc.get_objects() if type(each) is torch.Tensor)
                held.append(tracemalloc.get_traced_memory()[0] + tensors)
    finally:
        tracemalloc.stop()
    assert held[1] < held[0] + 48_000, held  # of 6 s; a second of samples has 64,000 bytes


def test_align_places_known_phones(model: Recogniser, tmp_path: Path) -> None:
    times = write_song(tmp_path / "a.wav", SONG)
    result = model.align(tmp_path / "a.wav", SONG)
    assert result.segments == model.decode(tmp_path / "a.wav").segments  # the best path is theirs
    assert result.log_probability is not None and -0.5 < result.log_probability <= 0
    wrong = model.align(tmp_path / "a.wav", ["low", "mid", "mid", "top", "low", "top"])
    assert wrong.log_probability is not None and wrong.log_probability < result.log_probability - 0.5
    assert wrong.segments[3].confidence < 0.1 < min(s.confidence for s in wrong.segments[:3])
    assert all(a.end <= b.start for a, b in pairwise(wrong.segments))
    middle = sum(times[3]) / 2
    assert wrong.segments[3].start - 0.06 < middle < wrong.segments[3].end + 0.06


def test_many_are_decoded_in_order_and_failures_are_values(model: Recogniser, tmp_path: Path) -> None:
    paths = [tmp_path / f"{k}.wav" for k in range(9)]
    for k, path in enumerate(paths):
        write_song(path, SONG[: k + 1], seed=k)
    paths[4].write_bytes(b"")
    soundfile.write(paths[6], np.zeros(100, np.float32), 16000)
    for results in (model.decode_all(paths, jobs=1), model.decode_all(paths, 3)):
        for k, result in enumerate(results):
            if k == 4:
                assert isinstance(result, InputError) and "empty" in result.what
            else:
                assert isinstance(result, Recognition) and result.file == str(paths[k])
                assert result.phones == (() if k == 6 else tuple(SONG[: k + 1]))
                assert result.seconds == sound_file.info(paths[k]).seconds


def test_a_list_of_files_or_samples_is_decoded_in_order(model: Recogniser, tmp_path: Path) -> None:
    songs = [SONG[: k + 1] for k in range(5)]
    for k, song in enumerate(songs):
        write_song(tmp_path / f"{k}.wav", song, seed=k)
    (tmp_path / "2.wav").write_bytes(b"")
    paths = sorted(tmp_path.glob("*.wav"))
    for several in (paths, [str(path) for path in paths], tuple(paths), iter(paths)):
        found = list(model.decode(several, alternatives=1))
        assert isinstance(found.pop(2), InputError)
        assert found == [model.decode(path, alternatives=1) for path in paths if path.name != "2.wav"]
    sounds = [sing(song, np.random.default_rng(k))[0] for k, song in enumerate(songs)]
    tensors = [torch.from_numpy(sound) for sound in sounds]
    columns = [np.stack([sound, sound], axis=1) for sound in sounds]
    kinds: tuple[list[Any], ...] = (sounds, tensors, columns)
    for samples in kinds:
        results = list(model.decode(samples, 16000))
        assert [each.phones for each in results if isinstance(each, Recognition)] == [tuple(song) for song in songs]
    (no_rate,) = model.decode([sounds[0]])
    assert isinstance(no_rate, InputError) and "without a rate" in no_rate.what
    (odd,) = model.decode([paths[0]], 16000)
    assert isinstance(odd, InputError) and "leave rate out" in odd.fix
    assert list(model.decode(tmp_path.glob("*.none"))) == []


def test_numbers_and_moments_in_a_list_are_one_recording(model: Recogniser) -> None:
    sound = sing(SONG, np.random.default_rng(0))[0]
    one = model.decode(sound, 16000)
    assert model.decode(sound.tolist(), 16000) == one
    assert model.decode(list(sound), 16000) == one
    assert model.decode(list(np.stack([sound, sound], axis=1)), 16000) == one
    assert isinstance(empty := model.decode([], 16000), Recognition) and empty.phones == ()


def test_work_in_order_stops_when_no_one_wants_more() -> None:
    begun: list[int] = []

    def work(k: int) -> int:
        begun.append(k)
        if k == 2:
            raise InputError("two", "skip it")
        return k

    results = map_in_threads(work, range(1000), jobs=2)
    found = [next(results) for _ in range(4)]
    results.close()  # type: ignore[attr-defined]
    assert found[:2] == [0, 1] and isinstance(found[2], InputError) and found[3] == 3
    assert len(begun) < 50


def test_results_may_be_collected_as_garbage_in_any_thread() -> None:
    """An iterator in a cycle of references is closed where the garbage collector happens to run."""
    ready, ended = threading.Event(), threading.Event()
    errors: list[Exception] = []

    def work(number: int) -> int:
        if number == 1:
            ready.wait()
            try:
                results.close()  # type: ignore[attr-defined]
            except RuntimeError as error:
                errors.append(error)
            ended.set()
        return number

    results = map_in_threads(work, range(100), jobs=1)
    assert next(results) == 0
    ready.set()
    assert ended.wait(600) and not errors and list(results) == []


def test_what_cannot_be_aligned_is_said(model: Recogniser, tmp_path: Path) -> None:
    write_song(tmp_path / "a.wav", ["low"])
    with pytest.raises(InputError, match="'lwo' is not in the phone set found; the model's are: high low"):
        model.align(tmp_path / "a.wav", ["lwo"])
    with pytest.raises(InputError, match=r"a\.wav: 40 phones .* 39 .* 79 frames"):
        model.align(tmp_path / "a.wav", ["low"] * 40)
    assert model.align(tmp_path / "a.wav", []).segments == ()
