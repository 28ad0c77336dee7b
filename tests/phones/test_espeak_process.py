"""Texts that eSpeak NG fails at: its process dies, the one that asks goes on."""

from __future__ import annotations

import multiprocessing
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from speechctc.core.errors import InputError
from speechctc.phones import espeak_process
from speechctc.phones.espeak import LONGEST, Reader, Synthesiser, _pieces, _process, ipa_phones
from speechctc.phones.pronouncer import Pronouncer, check_length

pytest.importorskip("espeakng_loader")

BREAKS_ENGLISH = "'s" * 80  # a buffer of eSpeak NG 1.52 overflows


@pytest.fixture
def reader() -> Reader:
    return Reader("en-us")


def phones(reader: Reader, text: str) -> list[str]:
    return [phone for word in reader.read(text) for phone in word.phones]


def test_a_text_that_ends_espeak_is_an_error_in_a_line_and_the_next_is_read(
    reader: Reader, capfd: pytest.CaptureFixture[str]
) -> None:
    before = phones(reader, "three small ships")
    for _ in range(2):
        with pytest.raises(InputError, match=r"eSpeak NG failed at .*'s's's.* \.\.\.'?\"?; correct or shorten"):
            reader.read(BREAKS_ENGLISH)
    assert phones(reader, "three small ships") == before
    with pytest.raises(InputError, match="eSpeak NG failed"):
        Pronouncer(None, "en-us").read(f"three {BREAKS_ENGLISH} ships")
    assert capfd.readouterr().err == ""


def test_a_process_that_was_killed_is_started_again(reader: Reader) -> None:
    before = phones(reader, "sheep")
    process = _process()._process
    assert process is not None
    process.kill()
    process.wait()
    assert phones(reader, "goats")[0] == "ɡ" and phones(reader, "sheep") == before


def test_a_process_that_may_be_damaged_reads_nothing_more(reader: Reader) -> None:
    started = []
    for text in ("don't go, Mr. A.B.C. Smith... 1.5", "sheep", "'s" * 20, "sheep", "A." * 12, "sheep"):
        reader.read(text)
        started.append(_process()._process)
    assert started[0] is started[1] is not None and started[2] is None is started[4]
    assert started[3] is not None is not started[5] and len({*started}) == 4


def test_a_text_that_takes_too_long_is_given_up(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, pytest.raises(InputError, match="did not end within 0 s"):
        patch.setattr(espeak_process, "SECONDS", 0.2)
        _process().read("gmw/en-US", "<break/>" * 4000)  # at once, it takes half a minute
    assert phones(reader, "sheep") == ["ʃ", "iː", "p"]


def test_a_text_in_pieces_is_whole_and_read_alike(reader: Reader) -> None:
    rng = random.Random(1)
    words = "the ships of a small town sail north, and Mr. Smith's 12 sheep are here. Are they? Yes! Not now.".split()
    text = " ".join(rng.choices(words, k=1500)) + " end."
    pieces = [*_pieces(text)]
    assert "".join(pieces) == text and len(pieces) > 3 and max(map(len, pieces)) <= LONGEST
    for each in ("a" * 5000, "<break/>" * 4000, "", "short"):
        assert "".join(_pieces(each)) == each and max(map(len, _pieces(each))) <= LONGEST
    synthesiser = Synthesiser(ipa=True)
    synthesiser.choose("", 400, 50, "gmw/en-US")
    speech = synthesiser.speak(text, keep=False)
    found = reader.read(text)
    whole = [piece.label for piece in ipa_phones([each.name for each in speech.phonemes], "en-us")]
    assert [phone for word in found for phone in word.phones] == whole
    characters = {word.character for word in found}
    assert len(characters) == len(found) and all(text[k - 1 : k] in ("", " ", "-", ".") for k in characters)


def _in_english(word: str) -> list[str]:
    return phones(Reader("en-us"), word)


def test_threads_and_forks_ask_in_turn(reader: Reader) -> None:
    words = ["sheep", "ships", "town", "north"] * 10
    alone = [phones(reader, word) for word in words]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda word: phones(reader, word), words)) == alone
    if sys.platform != "win32":
        with multiprocessing.get_context("fork").Pool(2) as workers:
            assert workers.map(_in_english, words[:8]) == alone[:8]
    assert phones(reader, "sheep") == alone[0]


def test_it_reads_in_its_own_voice_whatever_another_reader_chose() -> None:
    german, english = Reader("de"), Reader("en-us")
    for _ in range(3):
        assert phones(german, "ich") == ["ɪ", "ç"] and phones(english, "ship")[0] == "ʃ"


@pytest.mark.parametrize(("count", "seconds", "fits"), [(700, 3.0, True), (900, 3.0, False), (400, 0.1, True)])
def test_a_text_is_no_longer_than_its_sound_can_hold(count: int, seconds: float, fits: bool) -> None:
    text = "x " * count
    if fits:
        check_length(text, seconds)
    else:
        with pytest.raises(InputError, match=r"its words have 900 characters, too many for 3\.00 s; check that"):
            check_length(text, seconds)
