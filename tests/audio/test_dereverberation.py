"""Dereverberation, against the definition in double precision and on rooms that are made here."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from speechctc.audio import dereverberation
from speechctc.audio.dereverberation import (
    DELAY,
    TAPS,
    Dereverberated,
    as_decoded,
    dereverberate,
    measured_bands,
    reverberation_db,
)
from speechctc.inference.streaming import PushedSamples

RATE = 8000


def speech(seconds: float = 6.0) -> NDArray[np.float32]:
    """Return noise in bursts of 0.2 s every half a second, above a little noise."""
    times = np.arange(round(seconds * RATE)) / RATE
    noise = np.random.default_rng(0).standard_normal(len(times))
    return np.asarray(noise * np.where(times % 0.5 < 0.2, 0.1, 1e-4), np.float32)


def in_room(dry: NDArray[np.float32], seconds: float = 0.5) -> NDArray[np.float32]:
    """Return sound in a room, as loud as the voice, whose reverberation decays by 60 dB."""
    times = np.arange(round(seconds * RATE)) / RATE
    tail = np.random.default_rng(1).standard_normal(len(times)) * 10 ** (-3 * times / seconds)
    tail /= np.sqrt((tail**2).sum())
    return np.asarray(dry + np.convolve(dry, tail)[: len(dry)], np.float32)


@pytest.mark.parametrize("smoothing", [1, 3])
def test_the_filter_is_that_of_the_definition(smoothing: int) -> None:
    """Weighted least squares by `numpy.linalg.lstsq`, frame by frame; two turns."""
    shape, rng = (2, 90), np.random.default_rng(2)
    bands = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) * rng.gamma(2.0, size=shape)
    found = dereverberation._late(bands.astype(np.complex64), smoothing, 2)
    for band, late in zip(bands, found, strict=True):
        past = np.zeros((len(band), TAPS), complex)
        for frame in range(len(band)):
            for tap in range(TAPS):
                past[frame, tap] = band[frame - DELAY - tap] if frame >= DELAY + tap else 0
        said = band
        for _ in range(2):
            near = [said[max(k - smoothing // 2, 0) : k + smoothing // 2 + 1] for k in range(len(said))]
            scale = 1 / np.sqrt([(np.abs(each) ** 2).sum() / smoothing for each in near])
            said = band - past @ np.linalg.lstsq(past * scale[:, None], band * scale, rcond=None)[0]
        assert np.linalg.norm(late - (band - said)) < 0.01 * np.linalg.norm(late)  # it loads the diagonal


def test_what_lingers_in_a_room_is_taken_off_and_the_voice_stays() -> None:
    dry = speech()
    wet = in_room(dry)
    clean = dereverberate(wet, RATE)
    times = np.arange(len(dry)) / RATE
    lingers, spoken = (times % 0.5 > 0.28) & (times > 1), times % 0.5 < 0.2

    def level(sound: NDArray[np.float32], where: NDArray[np.bool_]) -> float:
        return 10 * float(np.log10(np.mean(sound[where] ** 2)))

    assert level(clean, lingers) < level(wet, lingers) - 4
    assert level(clean, spoken) == pytest.approx(level(wet, spoken), abs=0.5)


def cleaned(sound: NDArray[np.float32], when: dereverberation.When = "auto", cut: int = 1000) -> tuple[bytes, bool]:
    """Return what becomes of a recording that comes in blocks, and whether it says that it was changed."""
    blocks = PushedSamples(RATE, RATE)
    for k in range(0, len(sound), cut):
        blocks.put(sound[k : k + cut])
    blocks.ended = True
    found = Dereverberated(blocks, RATE, when)
    return np.concatenate([sound[:0], *found]).tobytes(), found.changed


def test_only_rooms_are_changed() -> None:
    """Not dry sound, one with an offset, tones, noise, silence or a word, to the bit; nor any where that is wanted."""
    times, noise = np.arange(4 * RATE) / RATE, np.random.default_rng(3).standard_normal(4 * RATE).astype(np.float32)
    tone = np.sin(np.arange(4 * RATE, dtype=np.float32))
    siren = np.where(times % 1 < 0.5, tone, np.sin(5000 * times)).astype(np.float32) + 0.01 * noise
    steady = (tone, siren, noise, 0 * noise, tone[:0])
    for sound in (speech(), speech() + np.float32(0.5), in_room(speech(1.5)), *steady):
        assert cleaned(sound) == (sound.tobytes(), False)
    wet = in_room(speech())
    levels = [reverberation_db(measured_bands(sound, RATE)) for sound in (wet, speech())]
    assert 5 < levels[0] < 19 < 25 < levels[1]
    assert cleaned(wet) == (dereverberate(wet, RATE).tobytes(), True)
    assert cleaned(wet, "never") == (wet.tobytes(), False)
    assert cleaned(tone, "always")[1]


def test_long_recordings_are_worked_on_in_windows_however_they_are_cut() -> None:
    wet = in_room(speech(47.0))
    whole, changed = cleaned(wet, cut=len(wet))
    assert changed and len(whole) == wet.nbytes
    assert cleaned(wet, cut=777) == (whole, True)
    first = dereverberate(wet[: 21 * RATE], RATE)[: 20 * RATE]
    assert whole[: first.nbytes] == first.tobytes()


class Waiting:
    """A recording of which no more has come yet."""

    seconds = 0.0

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        """Yield the little that has come, and an empty block."""
        yield np.zeros(100, np.float32)
        yield np.zeros(0, np.float32)
        raise AssertionError("read on")


def test_an_empty_block_passes_at_once() -> None:
    assert len(next(iter(Dereverberated(Waiting(), RATE, "auto")))) == 0


@pytest.mark.parametrize("when", ["auto", "always", "never"])
def test_samples_in_memory_are_heard_as_a_file_that_is_decoded(when: dereverberation.When) -> None:
    wet = in_room(speech(45), 0.6)
    assert as_decoded(wet, RATE, when).tobytes() == cleaned(wet, when)[0]
    assert len(as_decoded(wet[:0], RATE, when)) == 0
