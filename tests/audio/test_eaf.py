"""Files of ELAN that pympi-ling wrote are read: times, symbolic tiers, media; and damaged ones are one line."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from pympi import Elan

from speechctc.audio.annotations import choose_tier
from speechctc.audio.eaf import Media, find_media, origin_of, read_eaf
from speechctc.core.errors import InputError
from speechctc.corpora.transcripts import TranscriptOptions, read_transcript
from tests.corpora.eaf_files import letters, write_eaf


def symbolic(path: Path) -> Path:
    """Write a tier of utterances, its subdivision into phones, and an association with words."""
    eaf = Elan.Eaf()
    eaf.add_linguistic_type("parts", constraints="Symbolic_Subdivision", timealignable=False)
    eaf.add_linguistic_type("same", constraints="Symbolic_Association", timealignable=False)
    eaf.add_tier("said", part="Anna")
    eaf.add_tier("phones", ling="parts", parent="said", part="Anna")
    eaf.add_tier("words", ling="same", parent="said")
    for start, text in ((1000, "kat"), (5000, "a")):
        eaf.add_annotation("said", start, start + 900, text)
        eaf.add_ref_annotation("words", "said", start, text.upper())
        previous = None
        for letter in text:
            eaf.add_ref_annotation("phones", "said", start, letter, prev=previous)
            previous = max(eaf.tiers["phones"][1], key=lambda id: int(id[1:]))
    eaf.to_file(str(path))
    return path


def test_times_labels_and_participants_are_as_another_library_wrote_them(tmp_path: Path) -> None:
    path = write_eaf(tmp_path / "a.eaf", {"p": letters("xɡã", 250), "empty": []}, {"p": "Ana María"})
    tiers = {tier.name: tier for tier in read_eaf(path).tiers}
    assert [tuple(each) for each in sorted(tiers["p"].entries)] == [
        (0.25, 0.35, "x"),
        (0.35, 0.45, "ɡ"),
        (0.45, 0.55, "ã"),
    ]
    assert tiers["p"].speaker == "Ana María" and tiers["p"].timed and not tiers["empty"].entries


def test_symbolic_tiers_lie_in_the_time_of_their_parents(tmp_path: Path) -> None:
    tiers = {tier.name: tier for tier in read_eaf(symbolic(tmp_path / "a.eaf")).tiers}
    found = [(round(each.start, 3), round(each.end, 3), each.label) for each in sorted(tiers["phones"].entries)]
    assert found == [(1.0, 1.3, "k"), (1.3, 1.6, "a"), (1.6, 1.9, "t"), (5.0, 5.9, "a")]
    assert not tiers["phones"].timed and tiers["words"].timed
    assert [each.label for each in sorted(tiers["words"].entries)] == ["KAT", "A"]


def test_the_order_of_a_subdivision_is_that_of_its_chain(tmp_path: Path) -> None:
    path = symbolic(tmp_path / "a.eaf")
    text = path.read_text(encoding="utf-8")
    start, end = (
        text.index("<ANNOTATION>", text.index('TIER_ID="phones"')),
        text.index("</TIER>", text.index('"phones"')),
    )
    parts = text[start:end].split("</ANNOTATION>")
    path.write_text(text[:start] + "</ANNOTATION>".join(parts[-2::-1]) + "</ANNOTATION>" + text[end:], encoding="utf-8")
    phones = next(tier for tier in read_eaf(path).tiers if tier.name == "phones")
    assert [each.label for each in sorted(phones.entries)] == ["k", "a", "t", "a"]


def test_slots_without_a_time_are_spread_between_their_neighbours(tmp_path: Path) -> None:
    path = write_eaf(tmp_path / "a.eaf", {"p": [(0, 400, "a"), (400, 500, "b"), (500, 900, "c")]})
    text = path.read_text(encoding="utf-8")
    for old, new in (('REF1="ts4"', 'REF1="ts3"'), ('REF1="ts6"', 'REF1="ts5"')):
        text = text.replace(old, new)  # neighbours share a slot, as in ELAN
    path.write_text(text.replace(' TIME_VALUE="400"', "").replace(' TIME_VALUE="500"', ""), encoding="utf-8")
    (tier,) = read_eaf(path).tiers
    found = [(round(each.start, 3), round(each.end, 3), each.label) for each in sorted(tier.entries)]
    assert found == [(0.0, 0.3, "a"), (0.3, 0.6, "b"), (0.6, 0.9, "c")] and not tier.timed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text[:-30], "not a file of ELAN"),
        (lambda text: text.replace("ANNOTATION_DOCUMENT", "TEI"), "XML, but not a file of ELAN"),
        (lambda text: text.replace('TIME_SLOT_ID="ts2"', 'TIME_SLOT_ID="ts99"'), "refers to 'ts2', which it does not"),
        (
            lambda text: text.replace('TIME_VALUE="250"', 'TIME_VALUE="soon"'),
            "damaged: the time of ts2 is 'soon', which are no milli",
        ),
        (
            lambda text: text.replace('TIME_VALUE="250"', 'TIME_VALUE="nan"'),
            "the time of ts2 is 'nan', which are no mil",
        ),
        (
            lambda text: text.replace('TIME_VALUE="250"', ""),
            r"the first annotation of the tier has no time .*slot ts2 has",
        ),
        (
            lambda text: text.replace("MEDIA_URL=", 'TIME_ORIGIN="x" MEDIA_URL=', 1),
            "a.wav begins at 'x', which are no mil",
        ),
        (lambda text: text.replace("<HEADER", '<HEADER TIME_UNITS="PAL-frames"'), "times in PAL-frames"),
        (lambda text: "<!DOCTYPE x [<!ENTITY a 'b'>]>" + text[text.index("<ANN") :], "it has a document type"),
    ],
)
def test_damage_is_one_line_and_changes_nothing(tmp_path: Path, change: object, said: str) -> None:
    path = write_eaf(tmp_path / "a.eaf", {"p": letters("xy", 250)})
    assert callable(change)
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(InputError, match=said) as caught:
        read_eaf(path)
    assert "\n" not in str(caught.value) and path.read_bytes() == before


def test_annotations_in_a_circle_are_one_line(tmp_path: Path) -> None:
    path = symbolic(tmp_path / "a.eaf")
    text = path.read_text(encoding="utf-8").replace('ANNOTATION_REF="a2"', 'ANNOTATION_REF="a4"')
    path.write_text(text, encoding="utf-8")
    tiers = read_eaf(path).tiers
    assert [tier.name for tier in tiers if tier.problem] == ["phones", "words"]
    with pytest.raises(InputError, match="damaged: the tier 'words': .*circle"):
        choose_tier(tiers, path, "words")
    assert [each.label for each in choose_tier(tiers, path, "said").entries] == ["kat", "a"]


def test_media_are_found_where_they_are_now(tmp_path: Path) -> None:
    folder = tmp_path / "my talks"
    (folder / "sound").mkdir(parents=True)
    for name in ("a b.wav", "sound/c.wav", "STORY.WAV", "x.wav"):
        soundfile.write(folder / name, np.zeros(800), 8000)
    eaf = folder / "x.eaf"

    def found(*media: Media) -> tuple[str, float]:
        audio = find_media(eaf, media)
        return audio.relative_to(folder).as_posix(), origin_of(eaf, media, audio)[0]

    assert found(Media((folder / "a b.wav").as_uri(), "", 0.0)) == ("a b.wav", 0.0)
    assert found(Media("file:///D:/old/a%20b.wav", "", 1.5)) == ("a b.wav", 1.5)
    assert found(Media("file:///gone/c.wav", "./sound/c.wav", 0.0)) == ("sound/c.wav", 0.0)
    assert found(Media("file:///gone/story.mpg", "", 2.5)) == ("STORY.WAV", 2.5), "the sound of the video"
    assert found(Media("file:///gone/before.wav", "./sound/c.wav", 4.0)) == ("sound/c.wav", 4.0), "renamed since"
    (folder / "talk.mp4").touch()
    talk = Media("file:///gone/talk.mp4", "", 5.0), Media("file:///gone/talk.wav", "", 0.0)
    assert found(*talk) == ("talk.mp4", 5.0), "the origin is that of the file that is there"
    assert found(Media("file:///gone/v.mp4", "", 2.0), Media("file:///gone/a%20b.wav", "", 0.5)) == ("a b.wav", 0.5)
    assert found() == ("x.wav", 0.0) == found(Media("file:///gone/none.wav", "", 3.0)), "the file's own name"
    with pytest.raises(InputError, match=r"y.eaf: no recording: it names none.wav, which is not beside it"):
        find_media(folder / "y.eaf", [Media("file:///gone/none.wav", "", 0.0)])


def test_times_with_a_point_and_an_origin_with_one(tmp_path: Path) -> None:
    path = write_eaf(tmp_path / "a.eaf", {"p": letters("xy", 250)})
    text = path.read_text(encoding="utf-8").replace('TIME_VALUE="250"', 'TIME_VALUE="250.4"')
    path.write_text(text.replace("MEDIA_URL=", 'TIME_ORIGIN="1500.5" MEDIA_URL=', 1), encoding="utf-8")
    (tier,), (media,) = read_eaf(path)
    assert min(tier.entries).start == pytest.approx(0.2504) and media.origin == pytest.approx(1.5005)


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ('"SLOT"', "the last annotation of the tier has no time .its time slot SLOT has no TIME_VALUE"),
        ('"SLOT" TIME_VALUE="0,8"', "the time of SLOT is '0,8', which are no milliseconds"),
        ('"other" TIME_VALUE="800"', "refers to 'SLOT', which it does not have"),
    ],
)
def test_what_is_wrong_in_a_tier_is_no_reason_to_refuse_another(tmp_path: Path, new: str, said: str) -> None:
    path = write_eaf(tmp_path / "a.eaf", {"notes": [(700, 800, "hm")], "p": letters("xy", 100)})
    text = path.read_text(encoding="utf-8")
    found = re.search(r'"(ts\d+)" TIME_VALUE="800"', text)
    assert found
    path.write_text(text.replace(found[0], new.replace("SLOT", found[1])), encoding="utf-8")
    tiers = read_eaf(path).tiers
    assert [each.label for each in choose_tier(tiers, path, "p").entries] == ["x", "y"]
    with pytest.raises(InputError, match=f"a.eaf: damaged: the tier 'notes': .*{said.replace('SLOT', found[1])}"):
        choose_tier(tiers, path, "notes")


def test_the_times_that_nobody_set_are_named(tmp_path: Path) -> None:
    path = write_eaf(tmp_path / "a.eaf", {"p": [(0, 400, "a"), (400, 500, "b"), (500, 900, "c")]})
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(' TIME_VALUE="400"', "").replace(' TIME_VALUE="500"', ""), encoding="utf-8")
    (tier,) = read_eaf(path).tiers
    assert "'p' has 4 time slots without a time (ts" in tier.note and not tier.problem
    assert not read_eaf(symbolic(tmp_path / "b.eaf")).tiers[1].note  # symbolic tiers have none by their kind


def test_the_origin_is_that_of_the_recording_that_is_read() -> None:
    video, sound = Media("file:///gone/talk.mp4", "", 5.0), Media("file:///gone/talk.wav", "", 0.0)
    eaf = Path("talk.eaf")
    assert origin_of(eaf, [video, sound], Path("talk.wav")) == (0.0, "")
    assert origin_of(eaf, [video, sound], Path("talk.mp4")) == (5.0, "")
    origin, note = origin_of(eaf, [video, sound], Path("talk.flac"))  # made of one of them, and nobody says of which
    assert origin == 0.0 and "talk.wav from 0 s on, and to talk.mp4 from 5 s: the first is taken for talk.flac" in note
    assert origin_of(eaf, [video], Path("talk.flac")) == (5.0, "") == origin_of(eaf, [video], Path("TALK.MP4"))
    origin, note = origin_of(eaf, [video], Path("other.wav"))
    assert origin == 0.0 and "links to talk.mp4 from 5 s on, and not to other.wav" in note
    assert origin_of(eaf, [sound], Path("other.wav")) == (0.0, "")


@pytest.mark.parametrize("form", ["old", "new", "outside"])
def test_labels_of_a_vocabulary_are_read_or_named(tmp_path: Path, form: str) -> None:
    path = write_eaf(tmp_path / "a.eaf", {"p": letters("xyz", 0)})
    entries = {
        "old": '<CV_ENTRY CVE_ID="c1">why</CV_ENTRY>',
        "new": '<CV_ENTRY_ML CVE_ID="c1"><CVE_VALUE LANG_REF="und">why</CVE_VALUE></CV_ENTRY_ML>',
        "outside": "",
    }
    text = path.read_text(encoding="utf-8").replace("<ANNOTATION_VALUE>y</ANNOTATION_VALUE>", "<ANNOTATION_VALUE />")
    text = re.sub(
        r"<ALIGNABLE_ANNOTATION(?=[^>]*>\s*<ANNOTATION_VALUE />)", r'<ALIGNABLE_ANNOTATION CVE_REF="c1"', text
    )
    vocabulary = f'<CONTROLLED_VOCABULARY CV_ID="v">{entries[form]}</CONTROLLED_VOCABULARY>'
    path.write_text(text.replace("</ANNOTATION_DOCUMENT>", f"{vocabulary}</ANNOTATION_DOCUMENT>"), encoding="utf-8")
    (tier,) = read_eaf(path).tiers
    labels = [each.label for each in choose_tier([tier], path, "p").entries]
    named = "the tier 'p' has 1 label in a vocabulary outside of the file, left out (c1)"
    assert (labels, tier.note) == ((["x", "z"], named) if form == "outside" else (["x", "why", "z"], ""))
    note = read_transcript(path, path.with_suffix(".wav"), TranscriptOptions(tier="p")).note
    assert note == (f"{path}: {named}" if form == "outside" else "")


def test_times_that_a_script_wrote_in_seconds_are_refused(tmp_path: Path) -> None:
    path = write_eaf(tmp_path / "a.eaf", {"p": letters("xaga", 250), "q": letters("ta", 100)})
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r'TIME_VALUE="(\d+)"', lambda found: f'TIME_VALUE="{int(found[1]) / 1000}"', text))
    tiers = {tier.name: tier for tier in read_eaf(path).tiers}
    assert tiers["p"].problem == (
        "its 4 labels all lie before 0.65 ms: its times seem to be in seconds, not milliseconds"
    )
    assert not tiers["p"].entries and not tiers["q"].problem  # two labels tell nothing
    with pytest.raises(InputError, match="the tier 'p': its 4 labels all lie before"):
        read_transcript(path, path.with_suffix(".wav"), TranscriptOptions("p"))
