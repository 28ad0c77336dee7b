"""Several speakers in one file: tiers by pattern, where recordings are cut, and the words of each stretch of speech."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from praatio import textgrid

from speechctc.config.schema import CorpusConfig
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.tiers import MIN_SILENCE, PAD, Piece, Span, cut


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


def read(root: Path, **settings: object) -> Corpus:
    return read_corpus(CorpusConfig(kind="textgrid", root=root, **settings))


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
