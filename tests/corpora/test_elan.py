"""A folder of ELAN's files as a corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from speechctc.config.schema import CorpusConfig
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import Corpus
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.survey import survey
from tests.corpora.eaf_files import letters, write_eaf


def read(root: Path, **settings: object) -> Corpus:
    return read_corpus(CorpusConfig(kind="elan", root=root, **settings))


def test_speakers_are_participants_else_stars_else_folders(tmp_path: Path) -> None:
    write_eaf(tmp_path / "train/x/a.eaf", {"phones@A": letters("kat", 1500)}, {"phones@A": "Anna"})
    write_eaf(tmp_path / "train/x/b.eaf", {"phones@A": letters("tak", 0), "phones@B": letters("at", 9000)})
    write_eaf(tmp_path / "train/y/c.eaf", {"phones@": letters("ta", 0)}, seconds=0.2)
    write_eaf(tmp_path / "test/z/d.eaf", {"phones@Q": letters("ta", 0)}, seconds=0.2)
    corpus = read(tmp_path, tier="phones@*", dev_share=0.3)
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
    assert any(f"1 outside of {tmp_path / 'in'}: {tmp_path / 'a.wav'}" in note for note in read(tmp_path / "in").notes)


def test_what_is_wrong_is_told_by_file(tmp_path: Path) -> None:
    write_eaf(tmp_path / "good.eaf", {"phones": letters("kat", 0)})
    write_eaf(tmp_path / "gone.eaf", {"phones": letters("kat", 0)})
    (tmp_path / "gone.wav").unlink()
    write_eaf(tmp_path / "other.eaf", {"sounds": letters("kat", 0), "gloss": []})
    write_eaf(tmp_path / "late.eaf", {"phones": letters("kat", 25000)})
    write_eaf(tmp_path / "twice.eaf", {"phones": [(0, 500, "a"), (300, 900, "b")]})
    (tmp_path / "bad.eaf").write_text("<ANNOTATION_DOCUMENT>")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    corpus = read(tmp_path)
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
        read(tmp_path, tier="x")


def test_start_finds_the_tiers_of_several_speakers(tmp_path: Path) -> None:
    tiers = {"said@A": [(0, 900, "a cat")], "phones@A": letters("kat", 0), "phones@B": letters("tak", 4000)}
    write_eaf(tmp_path / "a.eaf", tiers)
    write_eaf(tmp_path / "b.eaf", {"phones@B": letters("katta", 4000)})
    found = survey(tmp_path)
    assert found.config is not None and (found.config.kind, found.config.tier) == ("elan", "phones@*")
    assert {u.speaker for u in found.utterances} == {"A", "B"}
