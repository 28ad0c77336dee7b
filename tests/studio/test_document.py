"""Documents: journal and TextGrid agree, a user's TextGrid is kept, undo reaches back over a restart."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from speechctc.audio.annotations import Interval, Tier, long_text, read_textgrid, read_tiers, textgrid_text
from speechctc.config.schema import CorpusConfig
from speechctc.core import files, written
from speechctc.core.errors import InputError
from speechctc.corpora.registry import read_corpus
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment
from speechctc.studio.document import Conflict, Document
from tests.studio.folders import write_labelled
from tests.tiny_model import write_song

WORDS = [Interval(0.0, 0.1, 'a "word"'), Interval(0.1, 0.25, "two words")]


def seen(document: Document) -> list[tuple[float, float, str]]:
    return [(phone.start, phone.end, phone.label) for phone in document.phones]


def grid(document: Document) -> list[tuple[float, float, str]]:
    return [(each.start, each.end, each.label) for each in read_textgrid(document.grid_path, "phones")]


def relabel(document: Document, phone: int, label: str) -> None:
    document.edit(document.revision, {"what": "relabel", "phone": phone, "label": label})


def recognised(path: Path) -> Recognition:
    times = write_song(path, ["low", "top"])
    segments = (
        Segment(n, *t, 0.62, (("mid", 0.25), ("high", 0.1))) for n, t in zip(("low", "top"), times, strict=True)
    )
    return Recognition(str(path), times[-1][1] + 0.04, tuple(segments))


def test_opening_changes_nothing(tmp_path: Path) -> None:
    phones = write_labelled(tmp_path / "a.wav", ["ʃ", "a"], words=WORDS)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    document = Document(tmp_path / "a.wav")
    document.write_grid()
    assert seen(document) == [phone[:3] for phone in phones]
    assert (document.state, document.undoable()) == ("corrected", (False, False))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_users_textgrid_is_kept_and_its_other_tiers_stay(tmp_path: Path) -> None:
    write_labelled(tmp_path / "a.wav", ["ʃ", "a"], words=WORDS)
    brought = (tmp_path / "a.TextGrid").read_bytes()
    document = Document(tmp_path / "a.wav")
    relabel(document, 1, "ã")
    document.write_grid()
    assert (tmp_path / "a.TextGrid.original").read_bytes() == brought
    assert grid(document) == seen(document) and seen(document)[1][2] == "ã"
    tiers = read_tiers(document.grid_path).tiers
    assert [tier.name for tier in tiers] == ["words", "phones"]
    assert [tuple(entry) for entry in tiers[0].entries if entry.label] == [tuple(word) for word in WORDS]
    relabel(document, 0, "s")
    document.write_grid()
    assert [path.name for path in tmp_path.glob("*.original*")] == ["a.TextGrid.original"]


def test_a_kill_before_the_textgrid_is_written_loses_nothing(tmp_path: Path) -> None:
    write_labelled(tmp_path / "a.wav", ["ʃ", "a", "b"])
    document = Document(tmp_path / "a.wav")
    for label in ("x", "y", "z"):
        relabel(document, 1, label)
    with open(document.journal.path, "ab") as file:
        file.write(b'{"what": "relabel", "at": 0, "ol')
    again = Document(tmp_path / "a.wav")
    assert seen(again) == seen(document) and seen(again)[1][2] == "z" and not again.note
    again.write_grid()
    assert grid(again) == seen(again)


def test_undo_and_redo_reach_back_over_restarts(tmp_path: Path) -> None:
    write_labelled(tmp_path / "a.wav", ["ʃ", "a", "b"])
    states = [seen(document := Document(tmp_path / "a.wav"))]
    for number, label in enumerate("xyz"):
        relabel(document, number, label)
        states.append(seen(document))
        document.write_grid()
    for state in reversed(states[:-1]):
        document = Document(tmp_path / "a.wav")
        document.step(document.revision, "undo")
        assert seen(document) == state
    assert document.undoable() == (False, True)
    with pytest.raises(InputError, match="nothing to undo"):
        document.step(document.revision, "undo")
    for state in states[1:]:
        document = Document(tmp_path / "a.wav")
        document.step(document.revision, "redo")
        assert seen(document) == state


def test_what_changes_nothing_is_no_step(tmp_path: Path) -> None:
    write_labelled(tmp_path / "a.wav", ["ʃ", "a", "b"])
    document = Document(tmp_path / "a.wav")
    document.edit(document.revision, {"what": "confirm_all"})
    revision, journal = document.revision, document.journal.path.read_bytes()
    for again in (
        {"what": "confirm_all"},
        {"what": "confirm", "phone": 1},
        {"what": "relabel", "phone": 1, "label": "a"},
    ):
        document.edit(revision, again)
    assert (document.revision, document.journal.path.read_bytes()) == (revision, journal)
    document.step(revision, "undo")
    assert not any(phone.checked for phone in document.phones)


def test_recognised_labels_stay_replaceable_until_someone_corrects_them(tmp_path: Path) -> None:
    result = recognised(tmp_path / "a.wav")
    document = Document(tmp_path / "a.wav")
    assert document.state == "new"
    document.put_recognised(result)
    assert document.state == "recognised" and not written.changed([document.grid_path])
    assert document.phones[0].confidence == 0.62 and document.phones[0].alternatives == (("mid", 0.25), ("high", 0.1))
    document.put_recognised(result)
    document.edit(document.revision, {"what": "confirm", "phone": 0})
    document.write_grid()
    assert document.state == "corrected" and written.changed([document.grid_path])
    assert not list(tmp_path.glob("*.original*"))
    with pytest.raises(InputError, match="corrected by hand"):
        document.put_recognised(result)
    assert Document(tmp_path / "a.wav").phones[0].checked


def test_what_nobody_moves_stays_to_the_sample(tmp_path: Path) -> None:
    """As other programs write times, of samples at 44.1 kHz; boundaries of words and phones stay one."""
    write_song(tmp_path / "a.wav", ["low", "top"])
    at = [number / 44100 for number in (0, 4411, 9001, 13007)]
    phones = [Interval(at[k], at[k + 1], label) for k, label in enumerate("abc")]
    words = [Interval(at[0], at[2], "one"), Interval(at[2], at[3], "two")]
    (tmp_path / "a.TextGrid").write_text(long_text(0.34, [Tier("phones", False, phones), Tier("words", False, words)]))
    document = Document(tmp_path / "a.wav")
    relabel(document, 1, "x")
    document.edit(document.revision, {"what": "move", "phone": 0, "edge": "end", "time": 0.11})
    document.write_grid()
    for label in "yz":
        document = Document(tmp_path / "a.wav")
        relabel(document, 2, label)
        document.write_grid()
        found = read_tiers(document.grid_path).tiers
        tiers = {tier.name: [each for each in tier.entries if each.label] for tier in found}
        assert tiers["words"] == words
        assert [(each.start, each.end) for each in tiers["phones"]] == [(at[0], 0.11), (0.11, at[2]), (at[2], at[3])]


def kept(folder: Path) -> list[str]:
    """Return the recordings whose labels a corpus of the folder takes as a person's."""
    config = CorpusConfig(kind="textgrid", root=folder, tier="phones", uncorrected=False)
    return sorted(each.audio.name for split in read_corpus(config).splits.values() for each in split)


def test_the_record_tells_labels_that_someone_saw_to_from_drafts(tmp_path: Path) -> None:
    for name in ("again", "beside", "right", "undone"):
        result = replace(recognised(tmp_path / f"{name}.wav"), seconds=0.34)  # which every writer writes alike
        if name == "beside":
            (tmp_path / "beside.TextGrid").write_text(textgrid_text(0.34, {"words": WORDS}))
        document = Document(tmp_path / f"{name}.wav")
        document.put_recognised(result)
        if name in ("right", "undone", "again"):
            document.edit(document.revision, {"what": "confirm_all"})
            document.write_grid()
            assert not kept_by_decode(document.grid_path)
        if name in ("undone", "again"):
            document.step(document.revision, "undo")
            document.write_grid()
        if name == "again":
            document.put_recognised(replace(result, segments=result.segments[:1]))
            document.write_grid()
    assert kept(tmp_path) == ["right.wav"]
    assert "words" in (tmp_path / "beside.TextGrid").read_text() and not kept_by_decode(tmp_path / "beside.TextGrid")


def kept_by_decode(path: Path) -> bool:
    """Return whether `speechctc decode` may write over a file."""
    return not written.changed([path])


def test_another_programs_textgrid_is_shown_and_undo_brings_the_corrections_back(tmp_path: Path) -> None:
    write_labelled(tmp_path / "a.wav", ["ʃ", "a"])
    document = Document(tmp_path / "a.wav")
    relabel(document, 0, "x")
    document.write_grid()
    mine = seen(document)
    other = textgrid_text(0.4, {"phones": [Interval(0.1, 0.2, "praat")]})
    document.grid_path.write_text(other, encoding="utf-8")
    relabel(document, 0, "y")
    with pytest.raises(InputError, match="changed by another program"):
        document.write_grid()
    assert document.grid_path.read_text(encoding="utf-8") == other
    again = Document(tmp_path / "a.wav")
    assert seen(again) == [(0.1, 0.2, "praat")] and "undo brings yours" in again.note
    again.step(again.revision, "undo")
    assert seen(again) == [(mine[0][0], mine[0][1], "y"), mine[1]]
    again.write_grid()
    assert (tmp_path / "a.TextGrid.original-2").read_text(encoding="utf-8") == other


@pytest.mark.parametrize("copy", [shutil.copyfile, shutil.copy2], ids=["cp", "cp -p"])
@pytest.mark.parametrize("older", ["brought", "own", "recognised"])
@pytest.mark.parametrize("changed", [False, True], ids=["as it was", "edited"])
def test_a_restored_textgrid_is_the_latest_word(tmp_path: Path, copy: Any, older: str, changed: bool) -> None:
    """Whoever made it: a person, the studio before, `decode`."""
    backup = tmp_path / "backup"
    if older == "recognised":
        result = recognised(tmp_path / "a.wav")
        Document(tmp_path / "a.wav").put_recognised(result)
    else:
        write_labelled(tmp_path / "a.wav", ["low", "top"])
    document = Document(tmp_path / "a.wav")
    if older == "own":
        relabel(document, 1, "mid")
        document.write_grid()
    before = seen(document)
    copy(document.grid_path, backup)
    relabel(document, 0, "x")
    document.write_grid()
    corrected, lines = seen(document), document.journal.path.read_bytes()
    copy(backup, document.grid_path)
    if changed:
        document.grid_path.write_bytes(long_text(1.0, [Tier("phones", False, [Interval(0, 0.3, "e")])]).encode())
        before = [(0, 0.3, "e")]
    restored = document.grid_path.read_bytes()
    relabel(document, 1, "y")
    with pytest.raises(InputError, match="was restored"):
        document.write_grid()
    document.journal.path.write_bytes(lines)
    again = Document(tmp_path / "a.wav")
    again.write_grid()
    assert seen(again) == before and "restored" in again.note
    assert document.grid_path.read_bytes() == restored and document.journal.path.read_bytes() == lines
    assert again.state == ("recognised" if older == "recognised" and not changed else "corrected")
    again.step(again.revision, "undo")
    again.write_grid()
    assert seen(again) == corrected == grid(again) and seen(Document(tmp_path / "a.wav")) == corrected
    assert not Document(tmp_path / "a.wav").note


@pytest.mark.parametrize("written_already", [False, True])
def test_a_kill_beside_the_writing_of_the_textgrid_is_no_restoring(tmp_path: Path, written_already: bool) -> None:
    write_labelled(tmp_path / "a.wav", ["low", "top"])
    document = Document(tmp_path / "a.wav")
    relabel(document, 0, "x")
    document.write_grid()
    before = document.grid_path.read_bytes()
    relabel(document, 0, "y")
    document.write_grid()
    lines = document.journal.path.read_bytes().splitlines(keepends=True)
    assert b"wrote" in lines[-1] and b"writes" in lines[-2]
    document.journal.path.write_bytes(b"".join(lines[:-1]))
    if not written_already:
        document.grid_path.write_bytes(before)
    again = Document(tmp_path / "a.wav")
    again.write_grid()
    assert not again.note and seen(again) == seen(document) == grid(again)
    again.grid_path.write_bytes(before)
    assert seen(Document(tmp_path / "a.wav"))[0][2] == "x"


def test_what_was_checked_before_stays_so_in_a_restored_textgrid(tmp_path: Path) -> None:
    result = recognised(tmp_path / "a.wav")
    document = Document(tmp_path / "a.wav")
    document.put_recognised(result)
    document.edit(document.revision, {"what": "confirm", "phone": 0})
    document.write_grid()
    backup = document.grid_path.read_bytes()
    relabel(document, 1, "x")
    document.write_grid()
    document.grid_path.write_bytes(backup)
    again = Document(tmp_path / "a.wav")
    assert [phone.checked for phone in again.phones] == [True, False]
    assert (again.state, again.is_whole) == ("corrected", False)


def test_the_second_of_two_programs_is_told(tmp_path: Path) -> None:
    write_labelled(tmp_path / "a.wav", ["ʃ", "a"])
    one, other = Document(tmp_path / "a.wav"), Document(tmp_path / "a.wav")
    relabel(one, 0, "x")
    with pytest.raises(Conflict):
        relabel(other, 1, "y")
    assert seen(other) == seen(one)
    relabel(other, 1, "y")
    assert [label for *_, label in seen(Document(tmp_path / "a.wav"))] == ["x", "y"]


def test_a_journal_that_does_not_fit_is_said_and_left(tmp_path: Path) -> None:
    write_labelled(tmp_path / "a.wav", ["ʃ", "a"])
    relabel(Document(tmp_path / "a.wav"), 0, "x")
    journal = tmp_path / "a.wav.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[1:]))
    with pytest.raises(InputError, match="line 1: does not fit"):
        Document(tmp_path / "a.wav")
    assert journal.read_bytes() == b"".join(lines[1:])
    journal.write_bytes(lines[0].replace(b'"at": 0', b'"at": 1e999'))
    with pytest.raises(InputError, match="line 1: does not fit"):
        Document(tmp_path / "a.wav")
    journal.write_bytes(re.sub(rb'"new": \[\[[0-9.]+', b'"new": [[-1', lines[0]))
    with pytest.raises(InputError, match="line 1: does not fit"):
        Document(tmp_path / "a.wav")


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_journal_is_no_link_and_no_pipe(tmp_path: Path, kind: str) -> None:
    """A label of another's would become a line of a file that a shell runs."""
    write_labelled(tmp_path / "a.wav", ["a", "b"])
    shell, journal = tmp_path / ".bashrc", tmp_path / "a.wav.journal"
    shell.write_text("mine")
    document = Document(tmp_path / "a.wav")
    journal.symlink_to(shell) if kind == "link" else os.mkfifo(journal)
    with pytest.raises(InputError, match=rf"a\.wav\.journal: a {kind}"):
        relabel(document, 0, "$(reboot)")
    with pytest.raises(InputError, match=rf"a\.wav\.journal: a {kind}"):
        Document(tmp_path / "a.wav")
    assert shell.read_text() == "mine"


def test_a_linked_textgrid_gives_way_to_a_file(tmp_path: Path) -> None:
    """What it led to stays as it was, and the link is kept beside."""
    write_labelled(tmp_path / "a.wav", ["a", "b"])
    (tmp_path / "theirs").mkdir()
    real = (tmp_path / "a.TextGrid").rename(tmp_path / "theirs" / "labels.TextGrid")
    before = real.read_bytes()
    (tmp_path / "a.TextGrid").symlink_to(real)
    document = Document(tmp_path / "a.wav")
    relabel(document, 0, "x")
    document.write_grid()
    assert real.read_bytes() == before and [path.name for path in real.parent.iterdir()] == ["labels.TextGrid"]
    assert not (tmp_path / "a.TextGrid").is_symlink() and grid(document)[0][2] == "x"
    assert (tmp_path / "a.TextGrid.original").readlink() == real


MINE = {
    "confidence": [Interval(0.0, 0.2, "sure"), Interval(0.2, 0.3, "not")],
    "alternative 1": [Interval(0.05, 0.15, "a 0.50"), Interval(0.2, 0.3, "b 0.25")],
    "Confidence": [Interval(0.0, 0.2, "0.50")],
}


def test_a_persons_tiers_of_the_models_names_stay(tmp_path: Path) -> None:
    """Other labels than `decode` writes, or elsewhere than the phones."""
    write_labelled(tmp_path / "a.wav", ["a", "b", "c"], 0, **MINE)
    before = {tier.name: tier.entries for tier in read_tiers(tmp_path / "a.TextGrid").tiers}
    document = Document(tmp_path / "a.wav")
    relabel(document, 0, "x")
    document.write_grid()
    after = {tier.name: tier.entries for tier in read_tiers(tmp_path / "a.TextGrid").tiers}
    assert after.keys() == before.keys() and grid(document)[0][2] == "x"
    assert all(_labelled(after[name]) == _labelled(before[name]) for name in before if name != "phones")


def _labelled(entries: list[Interval]) -> list[Interval]:
    return [entry for entry in entries if entry.label]


def test_a_second_tier_of_phones_stays(tmp_path: Path) -> None:
    write_song(tmp_path / "a.wav", ["low", "mid"])
    tiers = [Tier("phones", False, [Interval(0.04, 0.1, "a")]), Tier("phones", False, [Interval(0.05, 0.12, "anna's")])]
    points = Tier("phones", True, [Interval(0.07, 0.07, "a point")])
    (tmp_path / "a.TextGrid").write_text(long_text(0.3, [points, *tiers]))
    document = Document(tmp_path / "a.wav")
    assert [phone.label for phone in document.phones] == ["a"]
    relabel(document, 0, "x")
    document.write_grid()
    found = [[entry.label for entry in _labelled(tier.entries)] for tier in read_tiers(document.grid_path).tiers]
    assert found == [["a point"], ["x"], ["anna's"]]


def test_what_decode_wrote_is_still_written_anew(tmp_path: Path) -> None:
    """Also after a boundary was moved in Praat, where confidences keep the old one."""
    found = recognised(tmp_path / "a.wav")
    text = found.to_textgrid()
    (tmp_path / "a.TextGrid").write_text(text.replace(str(round(found.segments[1].end, 4)), "0.2999"))
    document = Document(tmp_path / "a.wav")
    assert document.grid.others == [] and document.phones[0].confidence == 0.62
    assert document.phones[0].alternatives == (("mid", 0.25), ("high", 0.1))


@pytest.mark.parametrize("edits", [1, 2])
@pytest.mark.parametrize("fault", ["fsync of the folder", "close", "stat"])
def test_a_fault_beside_the_saving_doubles_no_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, edits: int
) -> None:
    """What is shown is what is found when the recording is opened again, told as saved or not."""
    write_labelled(tmp_path / "a.wav", ["b", "ah", "t"])
    document = Document(tmp_path / "a.wav")
    fsync, close, stat = os.fsync, os.close, Path.stat

    def failing(real: Any, when: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            found = real(*arguments, **more)
            if when(*arguments):
                raise OSError(5, "Input/output error")
            return found

        return call

    with monkeypatch.context() as patch:
        if fault == "fsync of the folder":
            patch.setattr("os.fsync", failing(fsync, lambda handle: os.path.isdir(f"/proc/self/fd/{handle}")))
        elif fault == "close":
            patch.setattr("os.close", failing(close, lambda handle: True))
        else:
            patch.setattr(Path, "stat", failing(stat, lambda path, **_: path.suffix == ".journal"))
        for label in ("ao", "aa")[:edits]:
            with suppress(OSError, Conflict):
                relabel(document, 1, label)
    again = Document(tmp_path / "a.wav")
    assert len(again.phones) == 3 and seen(again) == seen(document)
    relabel(document, 0, "p")
    assert seen(Document(tmp_path / "a.wav")) == seen(document) and not Document(tmp_path / "a.wav").note


def test_what_cannot_be_read_again_leaves_the_labels_as_they_were(tmp_path: Path) -> None:
    """Another program changed the journal, and the TextGrid is no longer one: its other tiers are not forgotten."""
    write_labelled(tmp_path / "a.wav", ["a", "b"], words=WORDS)
    document = Document(tmp_path / "a.wav")
    relabel(document, 0, "x")
    document.write_grid()
    good, before = document.grid_path.read_bytes(), seen(document)
    relabel(Document(tmp_path / "a.wav"), 1, "y")
    document.grid_path.write_bytes(b"File type = nonsense")
    for _ in range(2):
        with pytest.raises(InputError, match="not a TextGrid"):
            relabel(document, 1, "z")
        assert seen(document) == before and [tier.name for tier in document.grid.others] == ["words"]
    document.grid_path.write_bytes(good)
    with pytest.raises(Conflict):
        relabel(document, 1, "z")
    assert [label for *_, label in seen(document)] == ["x", "y"]


@pytest.mark.parametrize("before", ["nothing", "recognised", "recognised twice"])
def test_an_edit_of_the_labels_before_a_recognition_is_kept(tmp_path: Path, before: str) -> None:
    """The page sent it before it saw what was recognised; it is of the labels that the person saw."""
    result = recognised(tmp_path / "a.wav")
    document = Document(tmp_path / "a.wav")
    for _ in range(["nothing", "recognised", "recognised twice"].index(before)):
        document.put_recognised(result)
    shown, revision = seen(document), document.revision
    other = Recognition("a.wav", result.seconds, result.segments[:1])
    document.put_recognised(other)
    now = seen(document)
    with pytest.raises(InputError, match="no room|is there already"):
        document.edit(revision, {"what": "insert", "start": 9.0, "label": "x"})
    with pytest.raises(Conflict):  # what was computed from the newest labels is not of those before
        document.replace(revision, 0, 0, (), "place again")
    assert seen(document) == now and document.state == "recognised"
    splice = document.edit(revision, {"what": "insert", "start": 0.0, "end": 0.02, "label": "x"})
    shown[splice.at : splice.at + len(splice.old)] = [phone[:3] for phone in splice.new]
    assert seen(document) == shown and document.state == "corrected"
    document.write_grid()
    assert seen(Document(tmp_path / "a.wav")) == shown == grid(document)
    with pytest.raises(Conflict):
        document.edit(revision, {"what": "confirm", "phone": 0})


@pytest.mark.parametrize("kind", ["pipe", "folder"])
@pytest.mark.parametrize("when", ["at first", "later"])
def test_a_textgrid_is_no_pipe_and_no_folder(tmp_path: Path, kind: str, when: str) -> None:
    write_labelled(tmp_path / "a.wav", ["a", "b"])
    path = tmp_path / "a.TextGrid"
    document = Document(tmp_path / "a.wav")
    relabel(document, 0, "x")
    path.unlink()
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    with pytest.raises(InputError, match=rf"a\.TextGrid: a {kind}"):
        Document(tmp_path / "a.wav") if when == "at first" else document.write_grid()
    assert not path.is_file()


@pytest.mark.parametrize("moment", [(os, "fsync"), (files, "displace")], ids=["flush", "rename"])
def test_what_another_program_saves_while_the_textgrid_is_written_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: tuple[Any, str]
) -> None:
    write_labelled(tmp_path / "a.wav", ["ʃ", "a"])
    document = Document(tmp_path / "a.wav")
    relabel(document, 1, "ã")
    document.write_grid()
    relabel(document, 0, "s")
    theirs, real = document.grid_path.read_text().replace("ã", "by Praat"), getattr(*moment)

    def slow(*arguments: Any) -> Any:
        (tmp_path / "saved").write_text(theirs)
        os.rename(tmp_path / "saved", document.grid_path)
        return real(*arguments)

    monkeypatch.setattr(*moment, slow)
    with pytest.raises(InputError, match="changed by another program, and is left as it is"):
        document.write_grid()
    assert document.grid_path.read_text() == theirs
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".partial"]
    monkeypatch.undo()
    again = Document(tmp_path / "a.wav")
    assert seen(again)[1][2] == "by Praat" and again.note
