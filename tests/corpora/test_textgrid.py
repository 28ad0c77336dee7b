"""The Praat round trip: folders of recordings and TextGrids as a corpus."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
from praatio import textgrid

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.config.schema import CorpusConfig
from speechctc.corpora.corpus import Corpus
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.survey import phone_tier
from speechctc.inference.formats import audacity_text
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment


def write(folder: Path, name: str, labels: str, tier: str = "phones", seconds: float = 1.0) -> None:
    """Write a recording of a second and its TextGrid: a label each tenth of a second, ``.`` for none."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(folder / f"{name}.wav", np.zeros(int(seconds * 8000)), 8000)
    parts = enumerate(labels.split())
    intervals = [Interval(k / 10, (k + 1) / 10, label) for k, label in parts if label != "."]
    (folder / f"{name}.TextGrid").write_text(textgrid_text(1.0, {"words": [], tier: intervals}))


def read(root: Path, **settings: object) -> Corpus:
    return read_corpus(CorpusConfig(kind="textgrid", root=root, **settings))


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
    found, _ = phone_tier(sorted(tmp_path.rglob("*.TextGrid")))
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
    assert not cut.warnings and any("1 recordings of 1.0 minutes are cut into 1 utterances" in n for n in cut.notes)
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
    tier, note = phone_tier([tmp_path / f"{name}.TextGrid" for name in "abc"])
    assert tier == "SEGM" and "'SEGM' (4 labels" in note
