"""Labels of words that the model does not have: kept, and placed as the phones that they are heard as."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from statistics import fmean

import pytest

from speechctc.audio.recordings import Recording
from speechctc.core.errors import InputError
from speechctc.corpora.transcripts import Task, Transcript
from speechctc.inference.alignment import AlignOptions
from speechctc.inference.formats import WRITERS, RecordingName
from speechctc.inference.hearing import Hearing
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import PhoneScore, Segment
from speechctc.inference.transcript import phone_units, units_of
from speechctc.phones.inventory import Inventory, named_inventory
from speechctc.stages.open_model import ModelChoice, open_model
from speechctc.stages.transcript_reader import ReadingOptions, TranscriptReader
from tests.stages.test_scored_corpus import ARPABET, IPA, renamed
from tests.tiny_model import write_song

CMU = named_inventory("cmu39")


def test_labels_are_kept_and_placed_as_their_phones(tiny_model: Path, tmp_path: Path) -> None:
    """The times are those of the model's phones; IPA's y is placed as uw, not as the y of ARPABET."""
    model = open_model(
        renamed(tiny_model, tmp_path / "model", {**ARPABET, "mid": "uw"}), Recogniser, ModelChoice("cpu")
    )
    song = ["low", "mid", "top", "high", "low", "mid"]
    write_song(tmp_path / "a.wav", song, seed=3)
    own = [{**ARPABET, "mid": "uw"}[tone] for tone in song]
    ipa = [{**IPA, "mid": "y"}[tone] for tone in song]
    hearing = Hearing(model.inventory)
    assert hearing.knows(ipa)
    heard = hearing.of(ipa)
    assert heard.labels["y"] == "uw" and heard.labels["j"] == "y"
    expected = model.place(tmp_path / "a.wav", phone_units(own))
    found = model.place(tmp_path / "a.wav", phone_units(ipa), options=AlignOptions(heard=heard))
    assert [each.phone for each in found.segments] == ipa and [each.phone for each in expected.segments] == own
    for ours, theirs in zip(found.segments, expected.segments, strict=True):
        assert ours[1:4] == pytest.approx(theirs[1:4], abs=1e-6)
    assert "j as y" in hearing.note() and "y as uw" in hearing.note()


@pytest.mark.parametrize(
    ("language", "keep", "text", "phones"),
    [
        ("pl", True, "mam", ["m", "a", "m"]),
        ("pl", False, "mam", ["m", "ae", "m"]),
        ("en-us", True, "mat", ["m", "ae", "t"]),
    ],
)
def test_what_becomes_of_the_labels_of_words(language: str, keep: bool, text: str, phones: list[str]) -> None:
    reader = TranscriptReader(CMU, ReadingOptions("words", None, language, keep=keep))
    assert reader.pronouncer is not None
    (word,) = reader.pronouncer.read(text)
    assert list(word.pronunciations[0]) == phones
    if reader.hearing:
        assert reader.hearing.knows(phones) and "a as ae" in reader.hearing.note()


@pytest.mark.parametrize(("keep", "phones"), [(True, ("kʰ", "a")), (False, ("k", "a"))])
def test_a_dictionary_in_narrow_ipa_is_heard_as_the_nearest(tmp_path: Path, keep: bool, phones: tuple[str]) -> None:
    (tmp_path / "own.dict").write_text("ka\tkʰ a\n", encoding="utf-8")
    own = Inventory("found", ("k", "a", "t"))
    reader = TranscriptReader(own, ReadingOptions("words", tmp_path / "own.dict", keep=keep))
    assert reader.pronouncer is not None and reader.pronouncer.read("ka")[0].pronunciations == (phones,)
    assert not reader.hearing or (reader.hearing.knows(phones) and "kʰ as k" in reader.hearing.note())


def test_the_same_words_of_a_transcript_are_held_once(tmp_path: Path) -> None:
    (tmp_path / "own.dict").write_text("ka\tk a\nta\tt a\n", encoding="utf-8")
    reader = TranscriptReader(named_inventory("cmu39"), ReadingOptions("words", tmp_path / "own.dict", "en-us"))
    path = tmp_path / "a.wav"
    job = reader.read(Task(Recording(path, path), Transcript(("ka", "ta", "ka"))))
    assert not isinstance(job.phrases, InputError)
    first, other, again = job.phrases[0].items
    assert first is again and first != other


def test_a_diphthong_is_heard_as_its_vowels_and_is_one_phone_again(tiny_model: Path, tmp_path: Path) -> None:
    names = {"low": "h", "mid": "a", "high": "ʊ", "top": "s"}
    model = open_model(renamed(tiny_model, tmp_path / "model", names), Recogniser, ModelChoice("cpu"))
    write_song(tmp_path / "a.wav", ["low", "mid", "high", "top", "mid"], seed=3)
    hearing = Hearing(model.inventory)
    labels = ["h", "aʊ", "s", "a"]
    assert hearing.knows(labels) and hearing.note().endswith("aʊ as a ʊ")
    judge = model.goodness.scores
    whole = model.place(tmp_path / "a.wav", phone_units(list("haʊsa")), options=AlignOptions(judge=judge))
    options = AlignOptions(heard=hearing.of(labels), judge=judge)
    found = model.place(tmp_path / "a.wav", phone_units(hearing.parts(labels)), options=options)
    joined = hearing.joined(found.segments)
    h, a, u, s, last = whole.segments
    assert [each.phone for each in joined] == labels
    assert [(each.start, each.end) for each in joined] == [
        (one.start, two.end) for one, two in ((h, h), (a, u), (s, s), (last, last))
    ]
    assert joined[1].confidence == pytest.approx(a.confidence * u.confidence)
    assert a.goodness and u.goodness and joined[1].goodness
    assert joined[1].goodness.probability == pytest.approx(a.goodness.probability * u.goodness.probability)


@pytest.mark.parametrize(
    ("label", "parts"),
    [("u˥˧", ("u", "˥˧")), ("u˥", ("u˥",)), ("a˥˧", ("a˥˧",)), ("y˥˧", ("y", "˥˧")), ("u˩", ("u˩",))],
)
def test_a_tone_is_kept_where_the_model_has_it(label: str, parts: tuple[str, ...]) -> None:
    hearing = Hearing(Inventory("found", ("a", "a˥˧", "i", "u", "˥˧", "˩˧", "u˩")))
    assert hearing.knows([label]) and hearing.parts([label]) == parts


IPA_SET = Inventory("found", tuple("a b d e h i j k l m n o s t u y z ð ŋ ə ɛ ɪ ɹ ʃ ʊ".split()))


def read(labels: str, phones: Inventory = IPA_SET) -> tuple[TranscriptReader, list[tuple[str, tuple[str, ...]]]]:
    """Return the reader of a transcript of phones, and its labels with the phones of the model for each."""
    reader = TranscriptReader(phones, ReadingOptions())
    (task,), _ = reader.prepare(
        [Task(Recording(Path("a.wav"), Path("a.wav")), Transcript(tuple(labels.split()), None))]
    )
    job = reader.read(task)
    assert not isinstance(job.phrases, InputError) and reader.hearing
    units = list(units_of(job.phrases[0].items))
    heard = reader.hearing.of([label for unit in units for label in unit.pronunciations[0]])
    return reader, [(unit.text, tuple(map(heard.phone, unit.pronunciations[0]))) for unit in units]


def test_a_label_of_two_phones_among_others_is_placed_as_these_and_is_one_label_again() -> None:
    reader, found = read("n ɪɹ ð ə h ɑːɹ b ə d aɪɹ əl t")
    heard = dict(found)
    assert heard["ɪɹ"] == ("ɪ", "ɹ") and heard["əl"] == ("ə", "l")
    assert heard["ɑːɹ"] == ("a", "ɹ") and heard["aɪɹ"] == ("a", "ɪ", "ɹ")
    assert reader.hearing and "ɪɹ as ɪ ɹ" in reader.hearing.note()
    parts = [Segment(label, k / 10, (k + 1) / 10, 0.5) for k, label in enumerate(reader.hearing.parts(["n", "ɪɹ"]))]
    (_, whole) = reader.hearing.joined(parts)
    assert (whole.phone, whole.start, whole.end, whole.confidence) == ("ɪɹ", 0.1, 0.3, 0.25)


@pytest.mark.parametrize("labels", ["kat n a", "ka ta ma n"])
def test_labels_that_may_be_words_are_not_taken_for_phones(labels: str) -> None:
    first = labels.split()[0]
    assert dict(read(labels)[1])[first] == (first,)


def test_labels_in_arpabet_are_heard_by_a_model_in_ipa() -> None:
    reader, found = read("sil Y UW1 HH AY0 sp D EY1 IH0 NG SH Y OW1")
    heard = dict(found)
    assert heard["Y"] == ("j",) and heard["UW1"] == ("u",) and heard["AY0"] == ("a", "ɪ") and heard["SH"] == ("ʃ",)
    assert heard["OW1"] == ("o", "ʊ") and heard["EY1"] == ("e", "ɪ") and "sil" not in heard
    lower = dict(read("y uw hh ay d ey ih ng sh")[1])
    assert lower["y"] == ("j",) and lower["ay"] == ("a", "ɪ")
    _, found = read("y u h a d", IPA_SET)
    assert dict(found)["y"] == ("y",)


def test_a_word_in_ipa_whose_diphthong_is_spelt_like_arpabet_is_heard_in_ipa() -> None:
    """As eSpeak NG reads Finnish; where a dictionary is in ARPABET, its labels tell."""
    for others, iy, ey in (((), ("i", "y"), ("e", "y")), (("iy", "sh", "s"), ("i",), ("e", "ɪ"))):
        hearing = Hearing(IPA_SET, others)
        assert hearing.knows(["s", "iy", "n", "t"]) and hearing.knows(["ey"])
        heard = hearing.of(hearing.parts(["iy", "ey"]))
        found = [tuple(map(heard.phone, hearing.parts([label]))) for label in ("iy", "ey")]
        assert found == [iy, ey]


def test_what_is_said_instead_of_a_vowel_of_a_diphthong_is_said_with_the_other() -> None:
    hearing = Hearing(Inventory("found", ("a", "e", "ʊ")))
    assert hearing.knows(["aʊ"])
    first, second = hearing.parts(["aʊ"])
    parts = [
        Segment(first, 0.0, 0.1, 0.9, goodness=PhoneScore(0.1, 0.2, (("e", 0.7), ("-", 0.1)))),
        Segment(second, 0.1, 0.3, 0.8, goodness=PhoneScore(0.7, 0.9, (("-", 0.1),))),
    ]
    (one,) = hearing.joined(parts)
    assert one.phone == "aʊ" and one.goodness == PhoneScore(fmean((0.1, 0.7)), 0.2 * 0.9, (("e ʊ", 0.7 * 0.9),))
    assert one.goodness.instead == "e ʊ 0.63"


def test_sounds_that_are_heard_as_one_are_named_as_not_told_apart() -> None:
    """Aspiration, length, nasality and palatalisation have no labels in the set; one that has its own is told apart."""
    own = Inventory("found", ("k", "a", "b", "s", "m", "t", "tʲ", "i"))
    merged = Hearing(own).merged(["k", "kʰ", "a", "aː", "ã", "b", "s̺", "s̻", "m", "mʲ", "t", "tʲ", "i"])
    assert merged.pop("a") == ("aː", "ã") and merged.pop("aː") == ("a", "ã") and merged.pop("ã") == ("a", "aː")
    pairs = {"k": "kʰ", "s̺": "s̻", "m": "mʲ"}
    assert merged == {one: (other,) for pair in pairs.items() for one, other in (pair, pair[::-1])}
    assert Hearing(own).merged(["kʰ", "t"]) == {} and Hearing(own).merged(["pʲ"]) == {}


def test_every_output_names_what_a_score_does_not_tell_apart() -> None:
    score = PhoneScore(0.7, 0.9, not_told=("kʰ",))
    segments = (Segment("k", 0.0, 0.1, 0.9, goodness=score), Segment("a", 0.1, 0.2, 0.9, goodness=PhoneScore(0.6, 0.8)))
    result = Recognition("a.wav", 0.2, segments, -1.0, about="Scores.")
    name = RecordingName("a.wav", "a")
    first, second = json.loads(WRITERS["json"].whole(name, result))["segments"]
    assert first["not_told_from"] == ["kʰ"] and "not_told_from" not in second
    rows = list(csv.DictReader(WRITERS["csv"].whole(name, result).splitlines()))
    assert [row["not_told_from"] for row in rows] == ["kʰ", ""]
    renamed = result.renamed({"kʰ": "k_h"}).segments[0].goodness
    assert renamed and renamed.not_told == ("k_h",)
