"""Folders of TextGrids (the round trip with Praat) and of ELAN's files: tiers, speakers, where recordings are cut."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile
from praatio import textgrid

from speechctc.audio.annotations import Interval, Tier, long_text, textgrid_text
from speechctc.config.schema import CorpusConfig
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.corpora.corpus_builder import doubtful_labels
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.survey import survey
from speechctc.corpora.tier_choice import phone_tier
from speechctc.corpora.tiers import MIN_SILENCE, PAD, Piece, Span, cut
from speechctc.corpora.transcripts import TranscriptOptions, read_transcript
from speechctc.inference.formats import audacity_text
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment
from speechctc.phones.label_rules import segment_ipa
from tests.corpora.eaf_files import letters, write_eaf


def write(folder: Path, name: str, labels: str, tier: str = "phones", seconds: float = 1.0) -> None:
    """Write a recording of a second and its TextGrid: a label each tenth of a second, ``.`` for none."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(folder / f"{name}.wav", np.zeros(int(seconds * 8000)), 8000)
    parts = enumerate(labels.split())
    intervals = [Interval(k / 10, (k + 1) / 10, label) for k, label in parts if label != "."]
    (folder / f"{name}.TextGrid").write_text(textgrid_text(1.0, {"words": [], tier: intervals}))


def read(root: Path, kind: str = "textgrid", **settings: object) -> Corpus:
    return read_corpus(CorpusConfig(kind=kind, root=root, **settings))


def test_folders_are_splits_and_speakers(tmp_path: Path) -> None:
    write(tmp_path, "Train/anna/x", "a . b")
    write(tmp_path, "train/otto/x", "b a")
    write(tmp_path, "dev/eva/y", "a")
    write(tmp_path, "test/ida/z", "b")
    corpus = read(tmp_path)
    first = corpus.splits["train"][0]
    assert (first.id, first.phones, first.speaker) == ("Train-anna-x", ("a", "b"), "anna")
    assert np.allclose(first.times or (), ((0.0, 0.1), (0.2, 0.3)))
    assert {split: len(part) for split, part in corpus.splits.items()} == {"train": 2, "dev": 1, "test": 1}
    assert corpus.phone_set == "found" and not any(corpus.rejected.values())


def test_tones_have_a_tier_of_their_own_and_come_back_from_it(tmp_path: Path) -> None:
    heard = [("m", 0.1, 0.2), ("a", 0.2, 0.3), ("˥˧", 0.3, 0.45), ("˩", 0.45, 0.5), ("k", 0.6, 0.7), ("˧", 0.9, 1.0)]
    result = Recognition("a.wav", 1.0, tuple(Segment(*each, 0.5) for each in heard))
    tiers = result.tiers()
    assert [tuple(each) for each in tiers["phones"]] == [(0.1, 0.2, "m"), (0.2, 0.5, "a"), (0.6, 0.7, "k")]
    assert [tuple(each) for each in tiers["tones"]] == [(0.2, 0.5, "˥˧ ˩"), (0.9, 1.0, "˧")]
    assert len(tiers["confidence"]) == 3 and "tones" not in result.tiers(tones=False)
    assert [line.split("\t")[2] for line in audacity_text(tiers).splitlines()] == ["m", "a", "˥˧ ˩", "k", "˧"]
    for name in "ab":
        write(tmp_path, name, "m a")
        (tmp_path / f"{name}.TextGrid").write_text(textgrid_text(1.0, {**tiers, "tones": tiers["tones"][:1]}))
    labels = {u.phones for u in read(tmp_path, tone="split").utterances()}
    assert labels == {("m", "a", "˥˧", "˩", "k")}
    assert {u.phones for u in read(tmp_path, tone="strip").utterances()} == {("m", "a", "k")}
    (tmp_path / "a.TextGrid").write_text(textgrid_text(1.0, {"phones": tiers["phones"], "tones": tiers["tones"]}))
    assert {len(u.phones) for u in read(tmp_path, tone="split").utterances()} == {3, 5}  # a person's tier is not read


def test_a_folder_in_another_unicode_form_is_the_same_speaker(tmp_path: Path) -> None:
    for form in ("jos\u00e9", "jose\u0301"):  # as Windows and as a Mac spell it
        write(tmp_path, f"{form}/x", "p q")
        write(tmp_path, f"ane/{form}", "p q")
    corpus = read(tmp_path, dev_share=0.5)
    assert {split: {u.speaker for u in corpus.splits[split]} for split in ("train", "dev")} in (
        {"train": {"jos\u00e9"}, "dev": {"ane"}},
        {"train": {"ane"}, "dev": {"jos\u00e9"}},
    )
    assert len({u.id for u in corpus.utterances()}) == 4


def test_corrected_drafts_beside_recordings_whose_tier_has_another_name(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path, name, "p q r", tier="ħsejjes")
        write(tmp_path, f"new/{name}", "p q")
        tiers = {"phones": [Interval(0, 0.1, "p"), Interval(0.1, 0.2, "q")], "confidence": [Interval(0, 0.1, "0.5")]}
        (tmp_path / f"new/{name}.TextGrid").write_text(textgrid_text(1.0, tiers))
    found, *_ = phone_tier(sorted(tmp_path.rglob("*.TextGrid")))
    assert found == "phones|ħsejjes"
    assert len(list(read(tmp_path, tier=found).utterances())) == 4


def test_what_cannot_be_used_is_left_out_and_why(tmp_path: Path) -> None:
    write(tmp_path, "train/good", "a b")
    write(tmp_path, "train/other", "b a")
    write(tmp_path, "train/short", "a b a b a b a b", seconds=0.3)
    write(tmp_path, "dev/new", "c")
    write(tmp_path, "dev/fine", "a")
    write(tmp_path, "train/none", "a")
    (tmp_path / "train" / "none.TextGrid").unlink()
    (tmp_path / "train" / "broken.TextGrid").write_text("File type")
    soundfile.write(tmp_path / "train" / "broken.wav", np.zeros(8000), 8000)
    (tmp_path / "train" / "space.TextGrid").write_text(textgrid_text(1.0, {"phones": [Interval(0, 1, "a b")]}))
    soundfile.write(tmp_path / "train" / "space.wav", np.zeros(8000), 8000)
    corpus = read(tmp_path)
    assert [u.id for u in corpus.splits["train"]] == ["train-good", "train-other"]
    reasons = {entry.id: entry.reason for part in corpus.rejected.values() for entry in part}
    assert "0.80 s for a recording of 0.30 s" in reasons["train-short"]
    assert "no TextGrid beside it" in reasons["train-none"]
    assert (
        "not a TextGrid" in reasons["train-broken"]
        and "labels with a space in them: 'a b' at 0.00 s" in reasons["train-space"]
    )
    assert reasons["dev-new"].endswith(": c") and len(reasons) == 5
    assert "recordings left out, because no TextGrid is beside them (1): train/none.wav" in corpus.warnings


def test_names_that_meet_are_kept_apart(tmp_path: Path) -> None:
    write(tmp_path, "a/b-c", "x")
    write(tmp_path, "a-b/c", "x")
    soundfile.write(tmp_path / "a" / "b-c.flac", np.zeros(8000), 8000)
    corpus = read(tmp_path)
    utterances = {u.id: u.audio.name for part in corpus.splits.values() for u in part}
    assert utterances == {"a-b-c": "b-c.wav", "a-b/c": "c.wav"}
    (twin,) = corpus.rejected["train"]
    assert "has the same name, and is used" in twin.reason


def test_a_tier_without_labels_is_not_taken_for_silence(tmp_path: Path) -> None:
    write(tmp_path, "a", "x y")
    write(tmp_path, "b", "x sil")
    write(tmp_path, "c", ". .")
    write(tmp_path, "d", "sil")
    corpus = read(tmp_path, ignore=("sil",))
    phones = {u.id: u.phones for part in corpus.splits.values() for u in part}
    assert phones == {"a": ("x", "y"), "b": ("x",), "d": ()}
    assert "no label in the tier 'phones'" in corpus.rejected["train"][0].reason


def test_long_stretches_without_labels_and_long_recordings_are_told(tmp_path: Path) -> None:
    write(tmp_path, "a", "x y")
    write(tmp_path, "b", "x y", seconds=61.0)
    text = " ".join(read(tmp_path, max_gap=None).warnings)
    assert "recordings with 10 s or more without a label" in text and "ignore it (1): b.wav" in text
    assert "recordings with utterances longer than 60 s and no silence" in text and "(1): b.wav" in text
    cut = read(tmp_path)
    (length,) = cut.warnings
    assert length.endswith("goes from 0.00 to 1.00 s, and the recording has 61.00 s; check that they belong together")
    assert any("1 recordings of 1.0 minutes are cut into 1 utterances" in n for n in cut.notes)
    stretches = {u.id: u.stretch for part in cut.splits.values() for u in part}
    assert stretches == {"a": None, "b-0000000": (0.0, 0.45)}, "speech that may be behind the labels is not learned"


def test_tiers_are_found_in_any_case_and_unicode_form_and_points_have_no_times(tmp_path: Path) -> None:
    write(tmp_path, "a", "x y", tier="Phone\u0302mes")
    write(tmp_path, "b", "y x", tier="ph\u00f4nemes")
    entries = [(0.2, "x"), (0.4, "y")]
    grid = textgrid.Textgrid(0, 1)
    grid.addTier(textgrid.PointTier("PH\u00d4NEMES", entries, 0, 1))
    write(tmp_path, "c", "x")
    grid.save(str(tmp_path / "c.TextGrid"), "short_textgrid", includeBlankSpaces=True)
    (tmp_path / "a.TextGrid").rename(tmp_path / "A.textgrid")
    (tmp_path / "a.wav").rename(tmp_path / "A.wav")
    corpus = read(tmp_path, tier="ph\u00f4nemes")
    utterances = {u.id: u for part in corpus.splits.values() for u in part}
    wanted = {"b": ("y", "x"), "c": ("x", "y")}
    assert {id: u.phones for id, u in utterances.items() if id != "A"} == wanted and utterances["c"].times is None
    assert corpus.rejected["train"][0].id == "A", "phonêmes is not phônemes"


def test_the_tier_of_phones_is_found_in_misspelt_textgrids(tmp_path: Path) -> None:
    write(tmp_path, "a", "a b", tier="SEGM")
    write(tmp_path, "b", "s aa", tier="segm")
    (tmp_path / "c.TextGrid").write_text("nothing")
    tier, note, *_ = phone_tier([tmp_path / f"{name}.TextGrid" for name in "abc"])
    assert tier == "SEGM" and "'SEGM' (4 labels" in note


def talk(path: Path, tiers: dict[str, list[tuple[float, float, str]]], points: str = "", seconds: float = 12.0) -> None:
    """Write a recording and its TextGrid, by praatio, with a tier of points."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path.with_suffix(".wav"), np.zeros(int(seconds * 8000)), 8000)
    grid = textgrid.Textgrid(0, seconds)
    if points:
        grid.addTier(textgrid.PointTier(points, [(1.0, "H*")], 0, seconds))
    for name, entries in tiers.items():
        grid.addTier(textgrid.IntervalTier(name, entries or [(0, 1, "")], 0, seconds))
    grid.save(str(path.with_suffix(".TextGrid")), "long_textgrid", includeBlankSpaces=True)


def spell(text: str, start: float) -> list[tuple[float, float, str]]:
    return [(start + k / 10, start + (k + 1) / 10, letter) for k, letter in enumerate(text)]


def all_of(corpus: Corpus) -> dict[str, Utterance]:
    return {u.id: u for part in corpus.splits.values() for u in part}


def dialogue(root: Path) -> None:
    anna, otto = spell("abc", 0.5) + spell("ca", 5.0), spell("bca", 8.0)
    words = {"anna - words": [(0.5, 0.8, "ABC"), (5.0, 5.2, "CA")], "otto - words": [(8.0, 8.3, "BCA")]}
    talk(root / "talk.wav", {"anna - phones": anna, "otto - phones": otto, "eva - phones": [], **words}, "x - phones")


def test_each_speaker_has_the_stretches_of_their_tier_with_its_words(tmp_path: Path) -> None:
    dialogue(tmp_path)
    corpus = read(tmp_path, tier="* - Phones", words="* - words")
    found = all_of(corpus)
    assert {id: ("".join(u.phones), u.speaker, u.words, u.stretch) for id, u in found.items()} == {
        "talk-anna-0000000": ("abc", "anna", ("ABC",), (0.0, 1.05)),
        "talk-anna-0004750": ("ca", "anna", ("CA",), (4.75, 5.45)),
        "talk-otto-0007750": ("bca", "otto", ("BCA",), (7.75, 8.55)),
    }
    times = found["talk-anna-0004750"].times
    assert times is not None and np.allclose(times, [(0.25, 0.35), (0.35, 0.45)])
    assert any("2 of them named by tiers (anna, otto)" in note for note in corpus.notes) and not corpus.warnings
    assert len({u.speaker for u in corpus.splits["dev"]}) == 1


def test_speech_of_two_at_a_time_is_told(tmp_path: Path) -> None:
    talk(tmp_path / "a.wav", {"anna-phones": spell("abc", 1.0), "otto-phones": spell("cab", 1.2) + spell("bac", 6.0)})
    text = " ".join(read(tmp_path, tier="*-phones").warnings)
    assert "2 of 3 utterances have labels of another speaker at the same time" in text


def test_a_tier_that_cannot_be_used_leaves_the_others(tmp_path: Path) -> None:
    talk(tmp_path / "a.wav", {"anna-phones": [(1, 2, "a b")], "otto-phones": spell("cab", 4.0) + spell("bac", 8.0)})
    corpus = read(tmp_path, tier="*-phones")
    assert {u.speaker for u in all_of(corpus).values()} == {"otto"}
    (entry,) = corpus.rejected["train"]
    assert entry.id == "a-anna-phones" and "labels with a space in them" in entry.reason


def test_an_unknown_tier_names_those_that_are_there(tmp_path: Path) -> None:
    dialogue(tmp_path)
    with pytest.raises(InputError, match=r"no tier '\*-segments', only 'x - phones', 'anna - phones', 'otto - phones'"):
        read(tmp_path, tier="*-segments")


def test_labels_that_are_ignored_are_gaps(tmp_path: Path) -> None:
    talk(tmp_path / "a.wav", {"phones": [*spell("ab", 0.0), (0.2, 5.0, "sil"), *spell("ba", 5.0), (5.2, 12.0, "sil")]})
    stretches = [u.stretch for u in all_of(read(tmp_path, ignore=["sil"])).values()]
    assert sorted(each or (-1, -1) for each in stretches) == [(0.0, 0.45), (4.75, 5.45)]
    (whole,) = all_of(read(tmp_path)).values()
    assert whole.stretch is None and whole.phones == ("a", "b", "sil", "b", "a", "sil")


def test_a_long_recording_whose_pauses_are_labelled_is_cut_at_them(tmp_path: Path) -> None:
    said = [(float(k), k + 1.0, "<p:>" if k % 10 == 9 else "a") for k in range(100)]
    talk(tmp_path / "a.wav", {"phones": said}, seconds=100.0)
    found = all_of(read(tmp_path, max_seconds=30.0))
    assert len(found) > 3 and all(u.stretch and u.stretch[1] - u.stretch[0] <= 30 for u in found.values())
    assert sum(u.phones.count("a") for u in found.values()) == 90, "no phone is lost or said twice"


def test_strings_of_ipa_are_segmented_where_asked(tmp_path: Path) -> None:
    talk(tmp_path / "a.wav", {"phones": [(1.0, 2.0, "ˈt͡ʃiːz ã"), (2.0, 3.0, "kʰæt")]})
    with pytest.raises(InputError, match=r"labels with a space in them: 'ˈt͡ʃiːz ã' at 1.00 s; .*corpus.segment"):
        read(tmp_path)
    (found,) = all_of(read(tmp_path, segment="ipa", length="strip", stress="strip")).values()
    assert found.phones == ("t͡ʃ", "i", "z", "ã", "kʰ", "æ", "t") and found.times is None


SPANS = [Span(2.0, 3.0), Span(3.0, 4.0), Span(6.0, 7.0), Span(7.6, 8.0)]


def test_gaps_longer_than_the_limit_separate_utterances_that_keep_a_little_silence() -> None:
    assert cut(SPANS, 20.0, 1.0, 60.0) == [Piece(0, 1, 2 - PAD, 4 + PAD), Piece(2, 3, 6 - PAD, 8 + PAD)]
    assert cut(SPANS, 20.0, 0.5, 60.0)[1:] == [Piece(2, 2, 6 - PAD, 7.25), Piece(3, 3, 7.35, 8 + PAD)]
    assert cut(SPANS, 8.2, 2.0, 60.0) == [Piece(0, 3, 0.0, 8.2)], "whole: no silence is too long"
    assert cut(SPANS, 99.0, None, 100.0) == [Piece(0, 3, 0.0, 99.0)]


def test_what_is_too_long_is_cut_at_its_longest_silence_and_at_labelled_pauses() -> None:
    words = [Span(0.0, 9.0), Span(9.1, 12.0), Span(12.0, 13.0, True), Span(13.0, 20.0)]
    assert cut(words, 20.0, 1.0, 15.0) == [Piece(0, 2, 0.0, 12.5), Piece(2, 3, 12.5, 20.0)]
    assert cut(words, 20.0, 1.0, 10.0)[0] == Piece(0, 0, 0.0, 9.05)
    solid = [Span(0.0, 9.0), Span(9.0, 12.0)]
    assert cut(solid, 12.0, 1.0, 5.0) == [Piece(0, 1, 0.0, 12.0)]
    assert cut(solid, 12.0, 1.0, 5.0, anywhere=True) == [Piece(0, 0, 0.0, 9.0), Piece(1, 1, 9.0, 12.0)]


def test_no_label_is_lost_and_no_two_utterances_overlap() -> None:
    rng = np.random.default_rng(4)
    for limit in (0.0, 0.3, 2.0, None):
        edges = np.cumsum(rng.exponential(0.4, size=400))
        spans = [Span(float(a), float(b), bool(rng.random() < 0.1)) for a, b in edges.reshape(-1, 2)]
        pieces = cut(spans, float(edges[-1]) + 3.0, limit, 12.0)
        covered = [k for piece in pieces for k in range(piece.first, piece.last + 1)]
        assert sorted(set(covered)) == list(range(200))
        assert all(spans[k].pause for k in covered if covered.count(k) > 1), "only a pause belongs to two"
        assert all(a.end <= b.start for a, b in zip(pieces, pieces[1:], strict=False))
        for piece in pieces:
            gaps = [spans[k + 1].start - spans[k].end for k in range(piece.first, piece.last)]
            assert limit is None or max(gaps, default=0.0) <= limit
            assert piece.end - piece.start <= 12.0 or max(gaps, default=0.0) < MIN_SILENCE


def test_speakers_are_participants_else_stars_else_folders(tmp_path: Path) -> None:
    write_eaf(tmp_path / "train/x/a.eaf", {"phones@A": letters("kat", 1500)}, {"phones@A": "Anna"})
    write_eaf(tmp_path / "train/x/b.eaf", {"phones@A": letters("tak", 0), "phones@B": letters("at", 9000)})
    write_eaf(tmp_path / "train/y/c.eaf", {"phones@": letters("ta", 0)}, seconds=0.2)
    write_eaf(tmp_path / "test/z/d.eaf", {"phones@Q": letters("ta", 0)}, seconds=0.2)
    corpus = read(tmp_path, "elan", tier="phones@*", dev_share=0.3)
    found = {u.id: (u.speaker, "".join(u.phones), u.stretch) for part in corpus.splits.values() for u in part}
    assert found == {
        "train-x-a-0001250": ("Anna", "kat", (1.25, 2.05)),
        "train-x-b-A-0000000": ("A", "tak", (0.0, 0.55)),
        "train-x-b-B-0008750": ("B", "at", (8.75, 9.45)),
        "train-y-c": ("y", "ta", None),
        "test-z-d": ("Q", "ta", None),
    }
    assert [u.id for u in corpus.splits["test"]] == ["test-z-d"] and len(corpus.splits["dev"]) == 1


def test_a_link_to_a_recording_elsewhere_is_named(tmp_path: Path) -> None:
    write_eaf(tmp_path / "a.eaf", {"phones": letters("kat", 0)})
    (tmp_path / "in").mkdir()
    text = (tmp_path / "a.eaf").read_text().replace("/C:/talks", str(tmp_path))
    (tmp_path / "in" / "a.eaf").write_text(text)
    assert any(
        f"1 outside of {tmp_path / 'in'}: {tmp_path / 'a.wav'}" in note for note in read(tmp_path / "in", "elan").notes
    )


def test_what_is_wrong_is_told_by_file(tmp_path: Path) -> None:
    write_eaf(tmp_path / "good.eaf", {"phones": letters("kat", 0)})
    write_eaf(tmp_path / "gone.eaf", {"phones": letters("kat", 0)})
    (tmp_path / "gone.wav").unlink()
    write_eaf(tmp_path / "other.eaf", {"sounds": letters("kat", 0), "gloss": []})
    write_eaf(tmp_path / "late.eaf", {"phones": letters("kat", 25000)})
    write_eaf(tmp_path / "twice.eaf", {"phones": [(0, 500, "a"), (300, 900, "b")]})
    (tmp_path / "bad.eaf").write_text("<ANNOTATION_DOCUMENT>")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    corpus = read(tmp_path, "elan")
    reasons = {entry.id: entry.reason for entry in corpus.rejected["train"]}
    assert "it names gone.wav, which is not beside it" in reasons["gone"]
    assert "no tier 'phones', only 'sounds', 'gloss'; name one of those" in reasons["other"]
    assert "labels up to 25.30 s for a recording of 20.00 s" in reasons["late"]
    assert "labels of the tier 'phones' overlap" in reasons["twice"] and "correct it in ELAN" in reasons["twice"]
    assert "not a file of ELAN" in reasons["bad"] and len(reasons) == 5
    assert "files of ELAN left out, because their recordings are not there (1): gone.eaf" in corpus.warnings
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "bad.eaf").unlink()
    with pytest.raises(InputError, match=r"no file of ELAN can be used.*it names gone.wav"):
        read(tmp_path, "elan", tier="x")


def test_the_origin_of_the_recording_that_is_there_counts_for_training_as_for_aligning(tmp_path: Path) -> None:
    file = write_eaf(tmp_path / "a.eaf", {"phones": letters("kat", 0)}, audio="talk.wav")
    soundfile.write(tmp_path / "talk.flac", np.zeros(160000), 8000)
    (tmp_path / "a.wav").unlink()
    also = '<MEDIA_DESCRIPTOR MEDIA_URL="file:///C:/Talk.FLAC" MIME_TYPE="audio/flac" TIME_ORIGIN="5000" />'
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("<MEDIA_DESCRIPTOR", also + "<MEDIA_DESCRIPTOR", 1), encoding="utf-8")
    (utterance,) = read(tmp_path, "elan").splits["train"]
    begin = (utterance.stretch or (0.0, 0.0))[0]
    transcript = read_transcript(file, utterance.audio, TranscriptOptions(limits=True))
    assert utterance.times and begin + utterance.times[0][0] == pytest.approx(5.0) == transcript.phrases[0].start


def test_start_finds_the_tiers_of_several_speakers(tmp_path: Path) -> None:
    tiers = {"said@A": [(0, 900, "a cat")], "phones@A": letters("kat", 0), "phones@B": letters("tak", 4000)}
    write_eaf(tmp_path / "a.eaf", tiers)
    write_eaf(tmp_path / "b.eaf", {"phones@B": letters("katta", 4000)})
    found = survey(tmp_path)
    assert found.config is not None and (found.config.kind, found.config.tier) == ("elan", "phones@*")
    assert {u.speaker for u in found.utterances} == {"A", "B"}


def tiers_of(path: Path, *tiers: tuple[str, str]) -> None:
    """Write a recording and a TextGrid of tiers, each a name and labels of 0.1 s; ``.``: none."""
    soundfile.write(path.with_suffix(".wav"), np.zeros(8000), 8000)
    made = [
        Tier(
            name, False, [Interval(k / 10, (k + 1) / 10, each) for k, each in enumerate(labels.split()) if each != "."]
        )
        for name, labels in tiers
    ]
    path.write_text(long_text(1.0, made))


@pytest.mark.parametrize("second", ["phones", "phones "])
def test_all_tiers_of_one_name_are_read_each_with_its_words(tmp_path: Path, second: str) -> None:
    tiers_of(
        tmp_path / "a.TextGrid", ("phones", "p q r"), ("words", "pqr"), (second, ". . . . s t"), ("words", ". . . . st")
    )
    corpus = read(tmp_path)
    found = {u.id: (u.phones, u.words) for u in corpus.utterances()}
    assert sorted(found.values()) == [(("p", "q", "r"), ("pqr",)), (("s", "t"), ("st",))]
    assert len(found) == 2 and any("several tiers of one name" in each for each in corpus.warnings)


def test_tiers_that_were_met_are_those_used_and_those_named(tmp_path: Path) -> None:
    tiers_of(tmp_path / "a.TextGrid", ("phones", "p q"), ("words", "pq"), ("notes", "x"), ("empty", "."))
    tiers_of(tmp_path / "b.TextGrid", ("phones", "q p"), ("Phones", "r"), ("notes", "x"))
    tiers_of(tmp_path / "c.TextGrid", ("segments", "q p"))
    corpus = read(tmp_path)
    (note,) = [each for each in corpus.notes if each.startswith("tiers: ")]
    assert note.startswith(
        "tiers: 7 in 2 files with labels that are used: 2 of phones, 1 of words beside them; 4 not used"
    )
    assert "'notes' (2)" in note and "'Phones' (1)" in note and "without a label (1)" in note
    assert len({u.audio for u in corpus.utterances()}) + sum(map(len, corpus.rejected.values())) == 3


def test_start_finds_the_tiers_of_files_of_one_and_of_several_speakers(tmp_path: Path) -> None:
    tiers_of(tmp_path / "both.TextGrid", ("anna - phones", "p q"), ("otto - phones", ". . . r p"))
    tiers_of(tmp_path / "one.TextGrid", ("phones", "q p r"), ("words", "qpr"))
    name, *_ = phone_tier(sorted(tmp_path.glob("*.TextGrid")))
    assert sorted(name.split("|")) == ["* phones", "phones"]
    found = read(tmp_path, tier=name).utterances()
    assert sum(len(u.phones) for u in found) == 7
    assert {u.speaker for u in found} == {"anna", "otto", ""}


IPA = ["səkvɯ", "ʔut͡ɕʰiboɹa", "kɕiefɯ", "bor̥o", "tʰɯŋə", "məsi", "xapi", "ləʔu", "pinɯ", "ŋəka"]


def strings(folder: Path, tier: str = "ipa", spaces: bool = False) -> list[str]:
    """Write recordings of a second with one string of IPA each; return their phones."""
    folder.mkdir(exist_ok=True)
    for number, word in enumerate(IPA):
        label = " ".join(segment_ipa(word)) if spaces else word
        soundfile.write(folder / f"{number}.wav", np.zeros(8000), 8000)
        (folder / f"{number}.TextGrid").write_text(textgrid_text(1.0, {tier: [Interval(0, 1, label)]}))
    return sorted({phone for word in IPA for phone in segment_ipa(word)})


@pytest.mark.parametrize(("tier", "spaces"), [("ipa", False), ("phones", False), ("Mary", False), ("Mary", True)])
def test_a_string_of_ipa_for_each_recording_is_read_as_a_table_of_them(tmp_path: Path, tier: str, spaces: bool) -> None:
    phones = strings(tmp_path, tier, spaces)
    found = survey(tmp_path)
    assert sorted({phone for u in found.utterances for phone in u.phones}) == phones
    assert found.config is not None and found.config.segment == ("spaces" if spaces else "ipa")
    assert len(found.utterances) == len(IPA) and not any(u.times for u in found.utterances)


@pytest.mark.parametrize(
    ("tier", "drafts"), [("ipa", 1), ("ipa", 9), ("phones", 1), ("phones", 5), ("phones", 9), ("Mary", 1), ("Mary", 5)]
)
def test_phones_with_times_beside_strings_of_ipa_do_not_make_these_phones(
    tmp_path: Path, tier: str, drafts: int
) -> None:
    phones = strings(tmp_path, tier)
    for number in range(drafts):
        parts = [Interval(k / 20, (k + 1) / 20, each) for k, each in enumerate(segment_ipa(IPA[number]))]
        (tmp_path / f"{number}.TextGrid").write_text(textgrid_text(1.0, {"phones": parts}))
    found = survey(tmp_path)
    assert sorted({phone for u in found.utterances for phone in u.phones}) == phones
    assert len(found.utterances) == len(IPA)
    if tier == "phones":  # read as the config of drafts alone would say
        assert any("look like strings of IPA" in each for each in read(tmp_path).warnings)


@pytest.mark.parametrize(
    ("tier", "labels"), [("words", "ɖeka ɣeyiɣi ʋuʋu"), ("Mary", "salam la bei"), ("gloss", "dog")]
)
def test_words_are_no_strings_of_ipa(tmp_path: Path, tier: str, labels: str) -> None:
    for name, word in enumerate(labels.split()):
        soundfile.write(tmp_path / f"{name}.wav", np.zeros(8000), 8000)
        (tmp_path / f"{name}.TextGrid").write_text(textgrid_text(1.0, {tier: [Interval(0, 1, word)]}))
    assert phone_tier(sorted(tmp_path.glob("*.TextGrid"))).name == ""


def test_labels_with_a_space_that_hide_a_tier_are_named(tmp_path: Path) -> None:
    parts = [Interval(k / 20, (k + 1) / 20, "t, sil, d" if k == 4 else each) for k, each in enumerate("abcdefghijkl")]
    (tmp_path / "a.TextGrid").write_text(textgrid_text(1.0, {"phones": parts}))
    found = phone_tier([tmp_path / "a.TextGrid"])
    assert found.name == "" and found.to_mend and "1 of 12 with a space: 't, sil, d' (1)" in found.note


def test_labels_with_commas_are_told(tmp_path: Path) -> None:
    write(tmp_path, "a", "t,d,s a s a")
    write(tmp_path, "b", "a s aɪ? t,d,s")
    (warning,) = [each for each in read(tmp_path).warnings if "comma" in each]
    assert "t,d,s (2)" in warning and "aɪ? (1)" in warning


@pytest.mark.parametrize(
    ("tiers", "words"),
    [
        ({"anna - phone": "p q", "anna - word": "pq"}, "anna - word"),
        ({"phones_A": "p q", "phones_B": "r s", "words_A": "pq", "words_B": "rs"}, "words_*"),
        ({"MAU": "p q", "ORT-MAU": "pq"}, "ORT-MAU"),
        ({"phones": "p q", "words": "pq"}, ""),
    ],
)
def test_tiers_of_words_are_found_beside_those_of_phones(tmp_path: Path, tiers: dict[str, str], words: str) -> None:
    tiers_of(tmp_path / "a.TextGrid", *tiers.items())
    assert phone_tier([tmp_path / "a.TextGrid"]).words == words
    assert all(u.words for u in survey(tmp_path).utterances)


def test_what_start_leaves_unread_is_named(tmp_path: Path) -> None:
    points = [Tier("phones", True, [Interval(0.1, 0.1, "p")]), Tier("notes", False, [Interval(0, 1, "a long remark")])]
    (tmp_path / "a.TextGrid").write_text(long_text(1.0, points))
    assert "corpus.tier=NAME reads without times: phones (1)" in phone_tier([tmp_path / "a.TextGrid"]).note
    tiers_of(tmp_path / "b.TextGrid", ("A", "p q"), ("B", "r s"))
    assert "not taken, though they look like phones: 'B'" in phone_tier([tmp_path / "b.TextGrid"]).note
    write_eaf(tmp_path / "c.eaf", {"phones": letters("pq", 0)})
    assert "not used: 1 ELAN file; read by corpus.kind=elan" in survey(tmp_path).notes


@pytest.mark.parametrize(
    ("labels", "name"),
    [("m 2 s I s t @ p 1 n t s 5 # $ J", "DISC"), ("m aI s I s t @ p eI n t & D d A O o a", "Kirshenbaum")],
)
def test_notations_that_are_not_read_are_named(labels: str, name: str) -> None:
    counts = Counter(labels.split())
    assert any(name in each for each in doubtful_labels(counts, counts))


NAMES = {
    "ph@*": ["ph@Anna", "ph@Otto"],
    "phones[*]": ["phones[Anna]", "phones[Otto]"],
    "phones (*)": ["phones (Anna)", "phones (Otto)"],
    "* phones": ["Anna - phones", "Otto - phones"],
}


@pytest.mark.parametrize("pattern", NAMES)
def test_tiers_of_speakers_in_other_fashions_are_one_pattern(tmp_path: Path, pattern: str) -> None:
    first, second = NAMES[pattern]
    talk(tmp_path / "a.TextGrid", {first: spell("kat", 0.5), second: spell("tak", 2.5), "wd": spell("xy", 1.0)})
    found = survey(tmp_path)
    assert found.config is not None and found.config.tier == pattern
    assert {each.speaker for each in found.utterances} == {"Anna", "Otto"}


def test_pauses_do_not_make_phones_look_long(tmp_path: Path) -> None:
    spans, at = [], 0.0
    for phone in "kataka":
        spans += [(at, at + 1.5, "sil"), (at + 1.5, at + 1.6, phone)]
        at += 1.6
    talk(tmp_path / "a.TextGrid", {"x": spans})
    assert phone_tier([tmp_path / "a.TextGrid"]).name == "x"


@pytest.mark.parametrize(
    ("tier", "labels", "seconds", "found"),
    [
        ("phones", ["a", "p", "o"], 0.7, ("phones", "labels")),  # slow speech
        ("Laute (IPA)", ["a", "i"], 0.7, ("Laute (IPA)", "labels")),
        ("syllables", ["a", "p", "o"], 0.7, ("", "labels")),
        ("phones", ["kʰata", "piʃu", "maŋo"], 0.7, ("phones", "ipa")),
        ("phones", ["a", "p"], 1.5, ("", "labels")),  # turns of speakers called a and p?
    ],
)
def test_slow_phones_are_known_by_the_name_of_their_tier(
    tmp_path: Path, tier: str, labels: list[str], seconds: float, found: tuple[str, str]
) -> None:
    spans = [(k * seconds, (k + 1) * seconds, label) for k, label in enumerate(labels * 3)]
    talk(tmp_path / "a.TextGrid", {tier: spans}, seconds=14)
    chosen = phone_tier([tmp_path / "a.TextGrid"])
    assert (chosen.name, chosen.segment) == found


def test_signs_that_are_not_seen_do_not_make_other_phones(tmp_path: Path) -> None:
    talk(tmp_path / "a.TextGrid", {"phones": [(0.1, 0.3, "a\u200b"), (0.3, 0.5, "\ufefft\u200d"), (0.5, 0.7, "a")]})
    corpus = read(tmp_path)
    assert [each.phones for each in corpus.utterances()] == [("a", "t", "a")]
    assert any("not seen" in each and "(2): a, t" in each for each in corpus.warnings)


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        ("SIL AH0_B T_E b_B ae_I th_E", "AH0_B (1), T_E (1), ae_I (1), b_B (1), th_E (1)"),
        ("a_B a t a_H", ""),
        ("a_B e_B t", ""),
    ],
)
def test_places_in_words_are_named(labels: str, named: str) -> None:
    counts = Counter(labels.split())
    found = [each for each in doubtful_labels(counts, counts) if "as Kaldi writes them" in each]
    assert len(found) == bool(named) and all(named in each for each in found)
