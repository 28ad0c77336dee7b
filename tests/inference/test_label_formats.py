"""Results in the formats of ELAN and Audacity, opened again by other libraries."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pandas
import pytest
import soundfile
from pympi import Elan

from speechctc.audio.annotations import Interval
from speechctc.audio.eaf import find_media, read_eaf
from speechctc.audio.eaf_writer import eaf_text
from speechctc.inference.formats import WRITERS, RecordingName
from speechctc.inference.result import Recognition, Word
from speechctc.inference.segmenter import Segment

PHONES = ("t͡ʃ", "ã", '<&">', "ɡʰ")


def result(audio: Path) -> Recognition:
    """Return four phones: two that touch, a gap, two that touch; the last is named by one alternative less."""
    soundfile.write(audio, np.zeros(22050 * 2), 22050)
    times = ((0.0, 0.1234), (0.1234, 0.5), (1.0, 1.25), (1.25, 2.0))
    segments = [Segment(p, *t, 0.5, (("a", 0.3),)) for p, t in zip(PHONES, times, strict=True)]
    return Recognition(str(audio), 2.0, (*segments[:3], segments[3]._replace(alternatives=())), log_probability=-1.0)


def written(form: str, audio: Path, place: Path) -> str:
    found = result(audio)
    return WRITERS[form].whole(RecordingName(found.file, "id"), found, place)


def test_pympi_opens_a_file_for_elan_with_its_tiers_times_and_media(tmp_path: Path) -> None:
    (tmp_path / "my talks").mkdir()
    place, audio = tmp_path / "a.eaf", tmp_path / "my talks" / "ä b.wav"
    place.write_text(written("eaf", audio, place), encoding="utf-8")
    eaf = Elan.Eaf(str(place))
    assert list(eaf.get_tier_names()) == ["phones", "confidence", "alternative 1", "log probability"]
    found = eaf.get_annotation_data_for_tier("phones")
    expected = [(0, 123, "t͡ʃ"), (123, 500, "ã"), (1000, 1250, '<&">'), (1250, 2000, "ɡʰ")]
    assert [row[:3] for row in sorted(found)] == expected
    beside = eaf.get_ref_annotation_data_for_tier("alternative 1")
    assert [(row[0], row[2]) for row in sorted(beside)] == [(0, "a 0.30"), (123, "a 0.30"), (1000, "a 0.30")]
    assert eaf.get_parameters_for_tier("confidence")["PARENT_REF"] == "phones"
    (media,) = eaf.get_linked_files()
    assert media["MIME_TYPE"] in ("audio/x-wav", "audio/wav")
    assert media["RELATIVE_MEDIA_URL"] == "./my%20talks/%C3%A4%20b.wav"
    moved = tmp_path / "away"
    (tmp_path / "my talks").rename(moved)
    audio = moved / audio.name
    assert find_media(moved / "a.eaf", read_eaf(place).media) == audio


def test_a_file_for_elan_keeps_the_rules_of_its_schema(tmp_path: Path) -> None:
    root = ElementTree.fromstring(written("eaf", tmp_path / "a.wav", tmp_path / "a.eaf"))
    order = ["HEADER", "TIME_ORDER", "TIER", "LINGUISTIC_TYPE", "CONSTRAINT"]
    assert [tag for k, tag in enumerate(each.tag for each in root) if k == 0 or root[k - 1].tag != tag] == order
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+]00:00", root.attrib["DATE"])
    assert {"AUTHOR", "VERSION", "FORMAT"} < set(root.attrib)
    slots = [slot.attrib for slot in root.iter("TIME_SLOT")]
    times = [int(slot["TIME_VALUE"]) for slot in slots]
    assert times == sorted(times) and len({slot["TIME_SLOT_ID"] for slot in slots}) == len(slots)
    aligned = list(root.iter("ALIGNABLE_ANNOTATION"))
    used = {each.attrib[f"TIME_SLOT_REF{k}"] for each in aligned for k in (1, 2)}
    assert used == {slot["TIME_SLOT_ID"] for slot in slots}
    ids = [each.attrib["ANNOTATION_ID"] for each in root.findall("TIER/ANNOTATION/*")]
    assert len(set(ids)) == len(ids)
    assert {each.attrib["ANNOTATION_REF"] for each in root.iter("REF_ANNOTATION")} <= {
        e.attrib["ANNOTATION_ID"] for e in aligned
    }
    types = {each.attrib["LINGUISTIC_TYPE_ID"]: each.get("CONSTRAINTS") for each in root.iter("LINGUISTIC_TYPE")}
    assert {tier.attrib["LINGUISTIC_TYPE_REF"] for tier in root.iter("TIER")} <= set(types)
    assert set(types.values()) - {None} <= {each.attrib["STEREOTYPE"] for each in root.iter("CONSTRAINT")}


ALIGNED_WORDS = Recognition(
    "none.wav",
    1.0,
    tuple(
        Segment(phone, start / 10, end / 10, 0.5)
        for phone, start, end in (("pau", 0, 1), ("k", 1, 2), ("a", 2, 4), ("pau", 4, 6), ("o", 6, 8), ("sil", 8, 10))
    ),
    log_probability=-1.0,
    words=(Word("ka", 0.1, 0.4, -0.1, 0), Word("o", 0.6, 0.8, -0.1, 1)),
)


def test_phones_are_children_of_words_in_elan(tmp_path: Path) -> None:
    """Those of pauses lie in annotations without a label, because each child has a parent that holds its time."""
    place = tmp_path / "a.eaf"
    place.write_text(WRITERS["eaf"].whole(RecordingName("none.wav", "id"), ALIGNED_WORDS, place), encoding="utf-8")
    eaf = Elan.Eaf(str(place))
    parameters = {name: eaf.get_parameters_for_tier(name) for name in eaf.get_tier_names()}
    assert parameters["phones"]["PARENT_REF"] == "words" and parameters["confidence"]["PARENT_REF"] == "phones"
    assert eaf.get_parameters_for_linguistic_type(parameters["phones"]["LINGUISTIC_TYPE_REF"])["CONSTRAINTS"] == (
        "Included_In"
    )
    words, phones = (sorted(eaf.get_annotation_data_for_tier(name)) for name in ("words", "phones"))
    assert words == [(0, 100, ""), (100, 400, "ka"), (400, 600, ""), (600, 800, "o"), (800, 1000, "")]
    assert [label for *_, label in phones] == list(ALIGNED_WORDS.phones)
    for start, end, _ in phones:
        assert sum(first <= start and end <= last for first, last, _ in words) == 1
    ours = {tier.name: sorted(each for each in tier.entries if each.label) for tier in read_eaf(place).tiers}
    assert [tuple(each) for each in ours["phones"]] == [
        tuple(each)[1:3] + (each.phone,) for each in ALIGNED_WORDS.segments
    ]
    assert [each.label for each in ours["words"]] == ["ka", "o"] and len(ours["confidence"]) == 6


def test_phones_that_cross_the_edge_of_a_word_stay_a_tier_of_their_own(tmp_path: Path) -> None:
    tiers = {"phones": [Interval(0, 0.2, "a"), Interval(0.2, 1, "b")], "words": [Interval(0, 0.5, "ab")]}
    (tmp_path / "a.eaf").write_text(eaf_text(tiers, None))
    eaf = Elan.Eaf(str(tmp_path / "a.eaf"))
    assert "PARENT_REF" not in eaf.get_parameters_for_tier("phones") and len(eaf.get_tier_names()) == 2
    assert eaf.get_annotation_data_for_tier("words") == [(0, 500, "ab")]


def test_labels_of_audacity_are_a_table(tmp_path: Path) -> None:
    text = written("audacity", tmp_path / "a.wav", tmp_path)
    table = pandas.read_csv(io.StringIO(text), sep="\t", header=None, quoting=3)
    assert tuple(table[2]) == PHONES and list(table[0]) == [0.0, 0.1234, 1.0, 1.25] and list(table[1])[-1] == 2.0


def test_every_format_writes_every_result(tmp_path: Path) -> None:
    for form in set(WRITERS) - {"html"}:  # which shows the recording, and needs it
        for each in (Recognition("-", 0.0, ()), Recognition("gone.wav", 1.0, (Segment("a", 0.0, 1.0, 1.0),))):
            assert isinstance(WRITERS[form].content(RecordingName(each.file, "id"), each, tmp_path / "x"), bytes)


@pytest.mark.parametrize("sign", ["\t", "\n", "\r\n", "\u2028", "\x85", "\x0b"])
def test_a_label_with_a_line_end_or_a_tab_stays_on_its_line(tmp_path: Path, sign: str) -> None:
    """As a TextGrid may have them."""
    label = f"a{sign}b"
    segments = (Segment(label, 0.0, 0.5, 0.5), Segment("c", 0.5, 1.0, 0.5))
    found = Recognition("none.wav", 1.0, segments)
    name = RecordingName("none.wav", f"an{sign}id", 1)
    fields = {"ctm": (None, 6, 2), "tsv": ("\t", 5, 3), "audacity": ("\t", 3, 2), "text": (None, 2, 1)}
    for form, (separator, count, lines) in fields.items():
        text = WRITERS[form].whole(name, found)
        rows = [line.split(separator) for line in text.splitlines()]
        assert len(rows) == lines and text.count("\n") == len(rows), (form, text)
        assert all(len(row) == count for row in rows), (form, text)
        assert any("a_b" in row or "a b" in row for row in rows), (form, text)
