"""A model scored on a corpus that is only a test, and whose labels are in another notation than the model's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.audio.annotations import Interval, read_textgrid, textgrid_text
from speechctc.core import written
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Utterance
from speechctc.corpora.tiers import UNCORRECTED, UNCORRECTED_FIX
from speechctc.inference.recogniser import Recogniser
from speechctc.model.checkpoint import write_about
from speechctc.phones.inventory import CMU39
from speechctc.stages.evaluate import Evaluation, evaluation_of
from speechctc.stages.open_model import open_model
from speechctc.stages.split_scoring import in_notation_of, score_split
from tests.tiny_model import write_song
from tests.train_helpers import Recorder

SONGS = [["low", "mid", "top"], ["high", "low"], ["mid", "high", "mid", "low"], ["top", "top", "high", "low"]]
ARPABET = {"low": "aa", "mid": "iy", "high": "sh", "top": "y"}
IPA = {"low": "ɑ", "mid": "i", "high": "ʃ", "top": "j"}


def write_grids(folder: Path, names: dict[str, str]) -> Path:
    """Write songs with TextGrids, whose labels are those names."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, song in enumerate(SONGS):
        times = write_song(folder / f"{k}.wav", song, seed=k)
        intervals = [Interval(*time, names.get(phone, phone)) for time, phone in zip(times, song, strict=True)]
        text = textgrid_text(times[-1][1] + 0.04, {"phones": intervals})
        (folder / f"{k}.TextGrid").write_text(text, encoding="utf-8")
    return folder


def renamed(model: Path, folder: Path, names: dict[str, str]) -> Path:
    """Return a copy of a model with other names of its phones."""
    shutil.copytree(model / "best", folder)
    header = json.loads((folder / "checkpoint.json").read_text(encoding="utf-8"))
    header["phones"]["list"] = [names[phone] for phone in header["phones"]["list"]]
    write_about(folder, header)
    return folder


def scored(model: Path, *settings: str, symbols: str = "own") -> Evaluation:
    from speechctc.stages.evaluate import score

    return score(open_model(model, Recogniser), "test", settings, Reporter(quiet=True), symbols)[1]


@pytest.mark.parametrize("place", ["", "test"])
def test_a_folder_that_is_only_a_test_is_scored(tiny_model: Path, tmp_path: Path, place: str) -> None:
    write_grids(tmp_path / "unseen" / place, {})
    found = scored(tiny_model, "corpus.kind=textgrid", f"corpus.root={tmp_path}/unseen")
    assert found.counts.utterances == len(SONGS) and found.counts.reference_phones == sum(map(len, SONGS))
    assert any("not divided" in note for note in found.notes) == (place == "")


@pytest.mark.parametrize("tones", ["", "˥˧"])
def test_strings_of_ipa_are_divided_unless_it_is_told_not_to(tiny_model: Path, tmp_path: Path, tones: str) -> None:
    model = renamed(tiny_model, tmp_path / "model", IPA)
    write_grids(tmp_path / "songs", {})
    strings = ["".join(IPA[phone] + tones * (phone == "low") for phone in song) for song in SONGS]
    rows = [f"{k},songs/{k}.wav,{string}" for k, string in enumerate(strings)]
    (tmp_path / "t.csv").write_text("\n".join(["id,audio,phones", *rows]), encoding="utf-8")
    table = f"corpus.tables.test={tmp_path}/t.csv"
    given = ("corpus.tables.train=null", "corpus.tables.dev=null", table, "corpus.tone=split")
    found = scored(model, *given)
    assert found.counts.reference_phones == sum(map(len, SONGS)) + 4 * bool(tones)
    assert found.counts.per < 40 and any("corpus.segment: ipa" in note for note in found.notes)
    assert scored(model, *given, "corpus.segment=labels").counts.reference_phones == 4 + 4 * bool(tones)


def test_labels_that_a_model_wrote_and_nobody_corrected_do_not_score_one(tiny_model: Path, tmp_path: Path) -> None:
    folder, model = write_grids(tmp_path / "drafts", {}), open_model(tiny_model, Recogniser)
    for grid in folder.glob("[123].TextGrid"):
        grid.unlink()
        written.write_text(grid, model.decode(grid.with_suffix(".wav")).to_textgrid())
    reporter, settings = Recorder(), ["corpus.kind=textgrid", f"corpus.root={folder}"]
    scores = [
        score_split(model, "test", [*settings, *more], reporter, "") for more in ([], ["corpus.uncorrected=true"])
    ]
    text = evaluation_of(scores[0], "test", model).to_text()
    (left_out,) = [line for line in text.splitlines() if "not scored" in line]
    assert f"not scored: 1: {folder}/1.TextGrid: as speechctc decode wrote it" in left_out
    assert left_out.endswith("(3 times, also for 2, 3)")
    assert [each.counts.utterances for each in scores] == [1, 4] and len(scores[0].skipped) == 3
    assert [said for said in reporter.said if said.startswith("warning: ")] == [
        f"warning: {UNCORRECTED} ({UNCORRECTED_FIX}) (3): 1.TextGrid, 2.TextGrid, 3.TextGrid"
    ]
    (folder / "0.TextGrid").unlink()
    with pytest.raises(InputError, match=r"1.TextGrid: as speechctc decode wrote it, nobody has corrected it.*=true"):
        score_split(model, "test", settings, reporter, "")


def test_the_corpus_that_was_trained_on_is_not_taken_for_a_test(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no test split"):
        scored(tiny_model, "corpus.tables.test=null", "corpus.tables.dev=null")


def test_a_table_of_test_alone_is_scored(tiny_model: Path, tmp_path: Path) -> None:
    config = json.loads((tiny_model / "best" / "checkpoint.json").read_text())["config"]
    tables = config["corpus"]["tables"]
    for gone in ("null", str(tmp_path / "moved-away.jsonl")):
        others = [f"corpus.tables.{split}={gone}" for split in ("train", "dev")]
        found = scored(tiny_model, *others, f"corpus.tables.test={tables['test']}")
        assert found.counts.utterances == 24
    with pytest.raises(InputError, match="no such file"):
        scored(tiny_model, f"corpus.tables.test={tmp_path}/no.jsonl")


def test_of_labels_without_phones_there_is_no_rate(tiny_model: Path, tmp_path: Path) -> None:
    write_grids(tmp_path / "songs", {})
    (tmp_path / "t.tsv").write_text("audio\tphones\n" + "".join(f"songs/{k}.wav\t[]\n" for k in range(2)))
    given = ("corpus.tables.train=null", "corpus.tables.dev=null", f"corpus.tables.test={tmp_path}/t.tsv")
    found = scored(tiny_model, *given)
    assert found.counts.insertions > 0 and f"no PER on test: {found.counts.insertions} phones found" in found.to_text()
    told = found.to_dict()
    assert told["per"] is None and {each["per"] for each in told["protocols"]} == {None}
    assert (
        "%" not in found.to_text().partition("expected calibration")[0] and "from one utterance" not in found.to_text()
    )


def test_scores_are_split_by_language(tiny_model: Path, tmp_path: Path) -> None:
    rows = []
    for k, (song, language) in enumerate(zip(SONGS, ("tus", "pl", "tus", ""), strict=True)):
        write_song(tmp_path / f"{k}.wav", song, seed=k)
        wrong = ["mid" if phone == "low" else phone for phone in song] if language == "pl" else song
        row = {"id": f"{k}", "audio": f"{tmp_path}/{k}.wav", "phones": " ".join(wrong), "speaker": f"s{k}"}
        rows.append(json.dumps(row | {"language": language}))
    (tmp_path / "test.jsonl").write_text("\n".join(rows), encoding="utf-8")
    found = scored(tiny_model, f"corpus.tables.test={tmp_path}/test.jsonl")
    by_name = {score.name: score for score in found.languages}
    assert list(by_name) == ["not known", "pl", "tus"]
    assert sum(score.counts.errors for score in found.languages) == found.counts.errors
    assert by_name["pl"].counts.reference_phones == 2 and by_name["tus"].counts.utterances == 2
    assert by_name["pl"].counts.errors >= 1  # its label says mid where low is heard
    mean = sum(score.counts.per for score in found.languages) / 3
    assert f"mean of the 3 languages {mean:.2f} %" in found.to_text()
    assert [entry["language"] for entry in found.to_dict()["languages"]] == list(by_name)


def test_labels_in_ipa_score_as_those_in_arpabet(tiny_model: Path, tmp_path: Path) -> None:
    model = renamed(tiny_model, tmp_path / "model", ARPABET)
    results = []
    for kind, names in (("arpabet", ARPABET), ("ipa", IPA)):
        root = write_grids(tmp_path / kind, names)
        results.append(scored(model, "corpus.kind=textgrid", f"corpus.root={root}"))
    assert results[0].counts == results[1].counts and results[0].counts.per < 50
    assert not any("notation" in note for note in results[0].notes)
    assert any("j as y" in note and "ʃ as sh" in note for note in results[1].notes)
    assert "model's notation" in results[1].protocol


SCHWA = {"low": "ə", "mid": "æ", "high": "ʃ", "top": "s"}
SPELLED = {
    "xsampa": {"low": "@", "mid": "{", "high": "S", "top": "s"},
    "praat": {"low": "\\sw", "mid": "\\ae", "high": "\\sh", "top": "s"},
}


@pytest.mark.parametrize("kind", SPELLED)
def test_labels_in_other_letters_score_as_those_in_ipa(tiny_model: Path, tmp_path: Path, kind: str) -> None:
    model = renamed(tiny_model, tmp_path / "model", SCHWA)
    ours, theirs = (
        scored(model, "corpus.kind=textgrid", f"corpus.root={write_grids(tmp_path / str(k), names)}")
        for k, names in enumerate((SCHWA, SPELLED[kind]))
    )
    assert ours.counts == theirs.counts and ours.counts.per < 50
    assert any("X-SAMPA" in note for note in theirs.notes) == (kind == "xsampa")
    root = f"corpus.root={tmp_path / '1'}"
    kept = scored(model, "corpus.kind=textgrid", root, "corpus.notation=own")
    assert (kept.counts.per > 50) == (kind == "xsampa"), "as it is told"


def test_phones_are_scored_as_the_symbols_of_a_table(tiny_model: Path, tmp_path: Path) -> None:
    names = {"low": "L1", "mid": "M1", "high": "H1", "top": "T1"}
    root = write_grids(tmp_path / "own", names)
    table = tmp_path / "symbols.tsv"
    table.write_text("".join(f"{phone}\t{symbol}\n" for phone, symbol in names.items()))
    settings = ("corpus.kind=textgrid", f"corpus.root={root}")
    plain = scored(tiny_model, "corpus.kind=textgrid", f"corpus.root={write_grids(tmp_path / 'plain', {})}")
    assert scored(tiny_model, *settings, symbols=str(table)).counts == plain.counts
    without = scored(tiny_model, *settings)
    assert without.counts.per >= 100 and any("are errors (100 % of all)" in note for note in without.notes)


def test_letters_that_mean_other_phones_and_pauses_without_a_match() -> None:
    """IPA's y is not the y of ARPABET (j), and a model without silence has no pause to find."""
    said = Utterance("a", Path("a.wav"), ("sil", "y", "j", "ʌ", "ɑ", "ɬ"), times=tuple((k, k + 1.0) for k in range(6)))
    model = ["aa", "ah", "iy", "uw", "y", "sh", "l"]
    (written,), notes = in_notation_of(model, [said])
    assert written.phones[1:4] == ("y", "ah", "aa") and written.phones[0] != "y" and written.phones[-1] == "ɬ"
    assert written.times == tuple((k, k + 1.0) for k in range(1, 6))
    assert "j as y" in notes[0] and "y as" in notes[0] and "pauses" in notes[1]
    assert "(33 % of all): y (1), ɬ (1)" in notes[2]


def test_marks_are_read_as_the_models_were_in_any_kind_of_corpus(tiny_model: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_model / "best", model := tmp_path / "model")
    header = json.loads((model / "checkpoint.json").read_text(encoding="utf-8"))
    header["config"]["corpus"] |= {"length": "strip"}
    write_about(model, header)
    place = ("corpus.kind=textgrid", f"corpus.root={write_grids(tmp_path / 'long', {'low': 'lowː'})}")
    plain, kept = scored(model, *place), scored(model, *place, "corpus.length=keep")
    assert any("length: strip" in note for note in plain.notes) and plain.counts.per < kept.counts.per
    assert any("lowː (" in note and "score.fold can leave marks out" in note for note in kept.notes)
    assert scored(model, *place, "corpus.length=keep", "score.fold=strip:length").counts == plain.counts


def test_labels_in_ipa_that_a_model_of_arpabet_lacks_name_the_other_model() -> None:
    said = "labels are IPA: the model ipa"
    for labels, is_said in (("ʃ iː x ø", True), ("sh iy q ax-h", False), ("ʃ iː", False)):
        utterance = Utterance("a", Path("a.wav"), tuple(labels.split()), "")
        assert any(said in note for note in in_notation_of(CMU39, [utterance])[1]) is is_said, labels


def test_a_closure_of_timit_and_its_burst_are_one_phone() -> None:
    said = Utterance("a", Path("a.wav"), ("h#", "tcl", "t", "ix", "tcl", "ch", "bcl", "l", "dcl", "d"))
    model = ["t", "ih", "ch", "b", "l", "d", "iy"]
    assert in_notation_of(model, [said])[0][0].phones == ("t", "ih", "ch", "b", "l", "d")


def test_labels_of_noise_are_no_errors_of_a_model(tiny_model: Path, tmp_path: Path) -> None:
    plain = write_grids(tmp_path / "plain/test", {})
    marked = write_grids(tmp_path / "marked/test", {})
    for file in marked.glob("*.TextGrid"):
        tier = [*read_textgrid(file, "phones"), Interval(5.0, 5.1, "sp"), Interval(5.1, 5.2, "[laugh]")]
        file.write_text(textgrid_text(5.3, {"phones": tier}))
        samples, rate = soundfile.read(marked / f"{file.stem}.wav")
        for folder in (plain, marked):
            soundfile.write(folder / f"{file.stem}.wav", np.concatenate([samples, np.zeros(6 * rate)]), rate)
    for phones in ("auto", "found"):
        first, other = (
            scored(tiny_model, "corpus.kind=textgrid", f"corpus.root={folder.parent}", "corpus.max_gap=null", *more)
            for folder, more in ((plain, ()), (marked, (f"corpus.phones={phones}",)))
        )
        assert (other.counts.errors, other.counts.reference_phones) == (
            first.counts.errors,
            first.counts.reference_phones,
        )
        assert any("[laugh]" in note for note in other.notes), other.notes


def test_channels_with_two_speakers_are_named_where_a_model_is_scored(tiny_model: Path, tmp_path: Path) -> None:
    """Extraction said so, and scores of the mean of both did not."""
    folder = write_grids(tmp_path / "songs", {})
    first, rate = soundfile.read(folder / "0.wav")
    second = np.resize(soundfile.read(folder / "1.wav")[0], first.shape)
    soundfile.write(folder / "0.wav", np.column_stack([first, second]), rate)
    said = Recorder()
    settings = ("corpus.kind=textgrid", f"corpus.root={folder}")
    score_split(open_model(tiny_model, Recogniser), "test", settings, said, "scoring")
    assert any("different sounds in their channels" in line and "(0.wav)" in line for line in said.said)
    said = Recorder()
    score_split(open_model(tiny_model, Recogniser), "test", (*settings, "corpus.channel=1"), said, "scoring")
    assert not any("channels" in line for line in said.said)
