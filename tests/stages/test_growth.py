"""A corpus that grows: what is there is not extracted again, dev stays dev, and what changed is said."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import speechctc
from speechctc.config.load import load_config
from speechctc.core import files
from speechctc.core.dispatch import ClusterRun, LostItem
from speechctc.core.errors import InputError
from speechctc.features.extractor import FeatureExtractor
from speechctc.features.splits import SplitFeatures, read_split
from speechctc.features.store import Digests
from speechctc.stages import extract as extract_stage
from speechctc.stages.extract import Job, Result, extract
from tests.tones import RATE, speak, write_config, write_table
from tests.train_helpers import Recorder, run_once, same

Rows = list[dict[str, Any]]


def grown(config: Path, *settings: str, prune: bool = False) -> tuple[int, list[str]]:
    """Extract; return how many utterances were, and what was said."""
    recorder = Recorder()
    extract(load_config(config, settings), recorder, prune)
    (line,) = [line for line in recorder.said if " extracted, " in line]
    return int(line.split()[0]), recorder.said


def edit(table: Path, change: Callable[[Rows], Rows]) -> None:
    rows = [json.loads(line) for line in table.read_text(encoding="utf-8").splitlines()]
    table.write_text("".join(json.dumps(row) + "\n" for row in change(rows)), encoding="utf-8")


def relabel(rows: Rows, number: int = 3) -> Rows:
    rows[number]["phones"] = rows[number]["phones"][1:] + ["low", "top"]
    return rows


def add(folder: Path, count: int, seed: int = 7) -> Callable[[Rows], Rows]:
    new = write_table(folder, count, seed).read_text(encoding="utf-8").splitlines()
    return lambda rows: rows + [json.loads(line) for line in new]


def split_of(config: Path, split: str = "train", *settings: str) -> SplitFeatures:
    loaded = load_config(config, settings)
    return read_split(loaded.data.dir / split, loaded.features.model_dump(mode="json"))


def without_dev(config: Path) -> Path:
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace(f"dev: {config.parent}/table1.jsonl", "dev: null"), encoding="utf-8")
    return config


def test_only_what_is_new_is_extracted(tmp_path: Path) -> None:
    config, table = write_config(tmp_path, train=40, held_out=6), tmp_path / "table0.jsonl"
    assert grown(config)[0] == 52
    assert grown(config)[0] == 0
    edit(table, add(tmp_path, 10))
    assert grown(config)[0] == 10
    edit(table, lambda rows: rows[3:])
    assert grown(config)[0] == 0
    edit(table, relabel)
    assert grown(config)[0] == 0 and split_of(config).table.spellings()[3].endswith("low top")
    edit(table, lambda rows: rows[::-1])
    assert grown(config)[0] == 0
    edit(table, lambda rows: [row | {"id": f"new-{row['id']}"} for row in rows])
    assert grown(config)[0] == 0 and split_of(config).table.ids[0].startswith("new-")
    for each in tmp_path.glob("table?.jsonl"):  # another phone set
        edit(each, lambda rows: [r | {"phones": ["x" if p == "low" else p for p in r["phones"]]} for r in rows])
    assert grown(config)[0] == 0 and "x" in split_of(config).table.recipe.phones
    (tmp_path / "audio").rename(tmp_path / "moved")
    for each in tmp_path.glob("table?.jsonl"):
        each.write_text(each.read_text(encoding="utf-8").replace("audio/", "moved/"), encoding="utf-8")
    assert grown(config)[0] == 0


def test_what_no_worker_could_read_is_named_and_extracted_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def losing(address: str, work: Callable[[Job], Result], jobs: Sequence[Job], *more: Any, run: ClusterRun) -> Any:
        yield (LostItem(f"{run.name(job)}: lost", "look") if k == 1 else work(job) for k, job in enumerate(jobs))

    config = write_config(tmp_path, train=6, held_out=2)
    monkeypatch.setattr(extract_stage, "on_cluster", losing)
    train, *others = extract(load_config(config, ["data.cluster=tcp://127.0.0.1:1"]), Recorder())
    lost = tmp_path / "audio/0-001.wav"
    assert [why for _, why in train.skipped] == [f"{lost}: lost; look"] and train.utterances == 5
    assert not any(each.skipped for each in others)
    monkeypatch.undo()
    assert grown(config)[0] == 1
    assert grown(config)[0] == 0 and len(split_of(config).table.ids) == 6


def test_another_split_extracts_nothing_of_recordings_without_reverberation(tmp_path: Path) -> None:
    config = write_config(tmp_path, train=10, held_out=4)
    grown(config)
    for a, b in (("0", "1"), ("1", "2"), ("0", "2")):
        one, two = (tmp_path / f"table{k}.jsonl" for k in (a, b))
        first, second = one.read_text(encoding="utf-8"), two.read_text(encoding="utf-8")
        one.write_text(second, encoding="utf-8")
        two.write_text(first, encoding="utf-8")
        assert grown(config)[0] == 0
        assert grown(config)[0] == 0


def test_dev_that_is_dereverberated_has_entries_of_its_own(tmp_path: Path) -> None:
    config = write_config(tmp_path, train=6, held_out=4)
    assert grown(config)[0] == 14
    assert grown(config, "decode.dereverb=never")[0] == 0
    assert grown(config, "decode.dereverb=always")[0] == 4
    assert grown(config)[0] == grown(config, "decode.dereverb=always")[0] == 0
    recorder = Recorder()
    speechctc.train(config, ["train.epochs=1", f"run={tmp_path}/run"], reporter=recorder)
    (said,) = [line for line in recorder.said if "decode.dereverb" in line]
    assert said.startswith(
        "warning: dev was extracted with decode.dereverb=always, now it is auto: run speechctc extract"
    )


def test_a_corpus_that_grew_is_to_the_bit_one_that_was_there_at_once(tmp_path: Path) -> None:
    """Neither the order in which utterances came nor the shards that they lie in change a weight."""
    config, table = write_config(tmp_path, train=20, held_out=6), tmp_path / "table0.jsonl"
    text = table.read_text(encoding="utf-8").splitlines(keepends=True)
    for count in (7, 13, 20):
        table.write_text("".join(text[20 - count :]), encoding="utf-8")
        grown(config)
    at_once = f"data.dir={tmp_path}/at-once"
    grown(config, at_once, "data.shard_mib=1")
    assert len({*split_of(config).table.shards}) == 3 and len(split_of(config, "train", at_once).table.shards) == 1
    weights = [run_once(config, tmp_path / f"r{k}", "train.epochs=2", *each) for k, each in enumerate(((), (at_once,)))]
    assert same(*weights)


def test_what_is_old_is_named_and_goes_on_request_alone(tmp_path: Path) -> None:
    config, table = write_config(tmp_path, train=12, held_out=4), tmp_path / "table0.jsonl"
    grown(config)
    grown(config, "features.mels=10")
    edit(table, lambda rows: rows[5:])
    _, said = grown(config)
    (line,) = [line for line in said if "old entries" in line]
    assert line.startswith("25 old entries (")
    assert "5 of recordings, stretches or a dev of before, 20 of other settings; speechctc extract --prune" in line
    assert line.endswith(", or prune=True in Python, removes them")
    before = {path: path.read_bytes() for path in (tmp_path / "features" / "store").glob("*.safetensors")}
    kept = split_of(config)
    static = [kept.marks(), kept.fingerprint()]
    done, said = grown(config, prune=True)
    assert done == 0 and any("25 old entries" in line and "removed" in line for line in said)
    after = {*(tmp_path / "features" / "store").glob("*.safetensors")}
    assert len(before) == 2 and len(after) == 1 and not after & {*before}
    assert [split_of(config).marks(), split_of(config).fingerprint()] == static
    done, said = grown(config)
    assert done == 0 and not any("old entr" in line for line in said)
    assert grown(config, "features.mels=10")[0] == 15


def test_features_of_the_earlier_layout_are_refused_in_one_line(tmp_path: Path) -> None:
    config = write_config(tmp_path, train=4, held_out=2)
    (tmp_path / "features" / "train").mkdir(parents=True)
    (tmp_path / "features" / "train" / "00000-of-00001.safetensors").write_bytes(b"of before")
    for work in (lambda: grown(config), lambda: run_once(config, tmp_path / "r")):
        with pytest.raises(InputError, match="features of an earlier layout.*give data.dir=ANOTHER"):
            work()
    assert os.listdir(tmp_path / "features") == ["train"]


def test_an_interrupted_extraction_goes_on_to_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, work, count = write_config(tmp_path, train=30, held_out=3), extract_stage.extract_one, 0
    small = ("features.mels=200", "data.dtype=float32", "data.shard_mib=1")  # about a dozen utterances a shard

    def stopped(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == 28:
            raise KeyboardInterrupt
        return work(*arguments)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(extract_stage, "extract_one", stopped)
        grown(config, *small)
    assert not list((tmp_path / "features").glob("*.safetensors")), "no table of a part"
    assert 36 - 27 < grown(config, *small)[0] < 36 - 12
    grown(config, f"data.dir={tmp_path}/whole", *small)
    names = [
        sorted(path.name for path in tmp_path.glob(f"{folder}/**/*.safetensors")) for folder in ("features", "whole")
    ]
    assert names[0] == names[1] and len(names[0]) > 5


def test_a_recording_that_changes_meanwhile_is_not_kept_as_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, work = write_config(tmp_path, train=6, held_out=2), extract_stage.extract_one
    changed, rng = tmp_path / "audio" / "0-002.wav", np.random.default_rng(1)
    original = changed.read_bytes()

    def and_change(job: Any, *rest: Any) -> Any:
        if job.utterance.audio.name == changed.name:
            soundfile.write(changed, speak(["low"] * 6, rng), RATE)
        return work(job, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(extract_stage, "extract_one", and_change)
        _, said = grown(config)
    assert "u0-002" in (tmp_path / "features" / "skipped.tsv").read_text(encoding="utf-8")
    changed.write_bytes(original)
    assert grown(config)[0] == 1
    fresh = f"data.dir={tmp_path}/fresh"
    grown(config, fresh)
    assert split_of(config).fingerprint() == split_of(config, "train", fresh).fingerprint()


def test_a_digest_is_taken_once_and_again_where_anything_of_the_file_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "1.wav", tmp_path / "2.wav"
    one.write_bytes(b"1" * 100)
    two.write_bytes(b"2" * 100)
    monkeypatch.setattr("speechctc.features.store.RECENT", 0.0)
    taken: list[str] = []
    sha256 = files.sha256

    def noted(path: Path) -> str:
        taken.append(path.name)
        return sha256(path)

    monkeypatch.setattr(files, "sha256", noted)

    def take() -> list[str | None]:
        digests = Digests(tmp_path)
        digests.take([one, two])
        return [digests.of(one), digests.of(two)]

    first = take()
    assert take() == first and sorted(taken) == ["1.wav", "2.wav"]
    for path in (one, two):  # of one length and one time
        os.utime(path, (10**9, 10**9))
    take()
    taken.clear()
    assert take() == first and not taken
    one.rename(tmp_path / "x")
    two.rename(one)
    (tmp_path / "x").rename(two)
    assert take() == first[::-1]
    monkeypatch.setattr("speechctc.features.store.RECENT", 1e6)
    one.write_bytes(b"3" * 100)
    take()
    taken.clear()
    take()
    assert taken == ["1.wav"] or sorted(taken) == ["1.wav", "2.wav"], "a file of this moment may change again"
    two.unlink()
    assert take()[1] is None


def test_settings_of_ones_own_extractor_and_the_type_are_in_the_key(tmp_path: Path) -> None:
    config = write_config(tmp_path, train=3, held_out=1)

    class Own(FeatureExtractor):
        version = "1"

        @classmethod
        def dims(cls, config: Any) -> int:
            return 2

        def static(self, samples: Any) -> Any:
            rows = self.frames(len(samples))
            return np.full((rows, 2), float(self.config.options.get("x", 0)), np.float32) + np.arange(rows)[:, None]

    speechctc.register_features("growing", Own)
    own = "features.kind=growing"
    assert [grown(config, own)[0], grown(config, own)[0]] == [5, 0]
    assert grown(config, own, "features.options={x: 2}")[0] == 5
    assert grown(config, own, "data.dtype=float32")[0] == 5
    Own.version = "2"
    assert [grown(config, own)[0], grown(config, own)[0]] == [5, 0]
    Own.version = "1"
    assert grown(config, own)[0] == 0


def test_resuming_after_the_corpus_changed_says_what_did(tmp_path: Path) -> None:
    config, table = write_config(tmp_path, train=12, held_out=4), tmp_path / "table0.jsonl"
    grown(config)
    run_once(config, tmp_path / "run", "train.epochs=1")
    text = table.read_text(encoding="utf-8")

    def said(change: Callable[[Rows], Rows], path: Path = table) -> str:
        before = path.read_text(encoding="utf-8")
        edit(path, change)
        grown(config)
        with pytest.raises(InputError) as caught:
            run_once(config, tmp_path / "run", "train.epochs=2", resume=True)
        path.write_text(before, encoding="utf-8")
        assert f"train.init_from={tmp_path}/run/best begins with these weights" in str(caught.value)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    everything = said(lambda rows: add(tmp_path, 5)(relabel(rows)[2:]))
    assert "train: 5 added (u7-000, u7-001, u7-002 and 2 more), 2 removed (u0-000, u0-001), 1 relabelled (u0-003)" in (
        everything
    )
    assert "dev: as before" in everything
    assert "train: as before; dev: 1 relabelled (u1-003)" in said(relabel, tmp_path / "table1.jsonl")
    assert "train: 1 with other sound (u0-000)" in said(lambda rows: [rows[0] | {"audio": rows[1]["audio"]}, *rows[1:]])
    assert table.read_text(encoding="utf-8") == text and grown(config)[0] == 0
    run_once(config, tmp_path / "run", "train.epochs=2", resume=True)  # as it was: it goes on


def test_dev_stays_dev_while_the_corpus_grows(tmp_path: Path) -> None:
    config, table = without_dev(write_config(tmp_path, train=24, held_out=2)), tmp_path / "table0.jsonl"
    edit(table, lambda rows: [row | {"speaker": ""} for row in rows])
    grown(config)
    dev = split_of(config, "dev").table.ids
    run_once(config, tmp_path / "run", "train.epochs=1")
    for seed in (7, 8, 9):
        edit(table, add(tmp_path, 30, seed))
        edit(table, lambda rows: [row | {"speaker": ""} for row in rows])
        done, said = grown(config)
        assert done == 30 and split_of(config, "dev").table.ids == dev
        (line,) = [line for line in said if line.startswith("dev: ")]
        last = f"{tmp_path}/run{seed - 1 if seed > 7 else ''}"
        assert f"of dev in {last} again; another corpus.dev_share chooses anew" in line
        assert not any("comparable" in line for line in said)
        run_once(config, tmp_path / f"run{seed}", "train.epochs=1")
    edit(table, lambda rows: [row for row in rows if row["id"] != dev[0]])
    _, said = grown(config)
    (line,) = [line for line in said if "comparable" in line]
    assert f"dev is not that of {tmp_path}/run9: 1 removed ({dev[0]})" in line
    _, said = grown(config, "corpus.dev_share=0.2")
    (line,) = [line for line in said if "comparable" in line]
    assert "added" in line and len(split_of(config, "dev").table.ids) > 10


def test_dev_stays_dev_in_another_folder_of_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other settings change no PER's dev; another corpus has its own."""
    monkeypatch.chdir(tmp_path)
    config, table = without_dev(write_config(tmp_path, train=24, held_out=2)), tmp_path / "table0.jsonl"
    edit(table, lambda rows: [row | {"speaker": ""} for row in rows])
    grown(config)
    dev = split_of(config, "dev").table.ids
    run_once(config, Path("runs/one"), "train.epochs=1")
    edit(table, add(tmp_path, 60))
    edit(table, lambda rows: [row | {"speaker": ""} for row in rows])
    other = (f"data.dir={tmp_path}/other", "features.mels=10")
    for settings in (other, ("features.mels=10", "decode.dereverb=always")):
        _, said = grown(config, *settings)
        assert split_of(config, "dev", *settings).table.ids == dev
        assert any("of dev in runs/one again" in line for line in said)
        assert not any("comparable" in line for line in said)
    copy = table.with_name("another.jsonl")
    shutil.copy(table, copy)
    _, said = grown(config, *other, f"corpus.tables.train={copy}")
    assert not any("runs/one" in line for line in said)


def test_a_dev_of_ones_own_that_changed_names_the_run(tmp_path: Path) -> None:
    config = write_config(tmp_path, train=8, held_out=4)
    grown(config)
    run_once(config, tmp_path / "run", "train.epochs=1")
    assert not any("comparable" in line for line in grown(config)[1])
    edit(tmp_path / "table1.jsonl", lambda rows: relabel(rows, 0)[:3])
    (line,) = [line for line in grown(config)[1] if "comparable" in line]
    assert f"dev is not that of {tmp_path}/run: 1 removed (u1-003), 1 relabelled (u1-000)" in line


def test_wholly_another_dev_names_the_run_and_what_is_trained_on_of_the_dev_of_before(tmp_path: Path) -> None:
    config = write_config(tmp_path, train=8, held_out=4)
    grown(config)
    run_once(config, tmp_path / "run", "train.epochs=1")
    old, new = (tmp_path / f"table{number}.jsonl" for number in (1, 0))
    rows = [json.loads(line) for line in new.read_text(encoding="utf-8").splitlines()]
    moved = [json.loads(line) for line in old.read_text(encoding="utf-8").splitlines()]
    edit(old, lambda _: rows[:4])
    edit(new, lambda _: [*rows[4:], *moved])
    lines = [line for line in grown(config)[1] if "warning" in line and f"{tmp_path}/run" in line]
    assert len(lines) == 2 and "4 added" in lines[0] and "4 removed" in lines[0] and "not comparable" in lines[0]
    assert "4 utterances of dev in" in lines[1] and "are trained on now" in lines[1]


def test_new_recordings_of_speakers_of_dev_are_trained_on_and_that_is_said(tmp_path: Path) -> None:
    config, table = without_dev(write_config(tmp_path, train=24, held_out=2)), tmp_path / "table0.jsonl"
    grown(config)
    dev = split_of(config, "dev").table.ids
    run_once(config, tmp_path / "run", "train.epochs=1")
    edit(table, add(tmp_path, 8))
    _, said = grown(config)
    assert split_of(config, "dev").table.ids == dev
    assert any(line.startswith("warning: 2 utterances of speakers of dev (s") for line in said)


def test_another_corpus_in_the_same_folder_is_divided_as_ever(tmp_path: Path) -> None:
    config = without_dev(write_config(tmp_path, train=24, held_out=2))
    grown(config)
    run_once(config, tmp_path / "run", "train.epochs=1")
    edit(tmp_path / "table0.jsonl", lambda rows: [row | {"id": f"v{row['id']}"} for row in rows])
    _, said = grown(config)
    assert not any("comparable" in line or f"{tmp_path}/run" in line for line in said)


def test_tables_of_two_extractions_are_not_mixed(tmp_path: Path) -> None:
    config = write_config(tmp_path, train=8, held_out=4)
    grown(config)
    shutil.copy(tmp_path / "features" / "dev.safetensors", tmp_path / "old")
    edit(tmp_path / "table0.jsonl", lambda rows: rows[1:])
    grown(config)
    shutil.copy(tmp_path / "old", tmp_path / "features" / "dev.safetensors")
    with pytest.raises(InputError, match="train and dev are of two extractions; run speechctc extract"):
        run_once(config, tmp_path / "run")
