"""Tables of splits: what is written is read, what is damaged is said, and the place of features changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from speechctc.config.schema import FeatureConfig
from speechctc.core.errors import InputError
from speechctc.core.tensor_file import save_tensors
from speechctc.features import splits
from speechctc.features.padded import Moments
from speechctc.features.shards import checksum
from speechctc.features.splits import Row, SplitFeatures, read_split, read_table, table_path, write_table
from speechctc.training.batches import Languages, Split
from tests.split_files import Said, key_of, random_said, recipe_of, write_split

CONFIG = FeatureConfig(mels=6)
RECIPE = recipe_of(CONFIG, "a", "b")
MADE = [random_said("u1", 5, (1, 2, 2)), random_said("ü2", 1, ()), random_said("u3", 130, (2,))]


def read(folder: Path) -> SplitFeatures:
    return read_split(folder, RECIPE.features)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_split(tmp_path / "train", [MADE[:2], MADE[2:]], RECIPE, CONFIG)
    features = read(tmp_path / "train")
    split = Split(features)
    assert split.ids == ["u1", "ü2", "u3"] and features.table.recipe == RECIPE
    assert split.frames.tolist() == [5, 1, 130] and split.label_counts.tolist() == [3, 0, 1]
    for index, said in enumerate(MADE):
        assert torch.equal(split.static(index), said.static) and split.labels(index).tolist() == list(said.labels)
    assert features.keys() == [key_of(said.id) for said in MADE]
    assert features.seconds == pytest.approx(1.36)
    assert features.table.count_phones() == {"a": 1, "b": 3}
    assert features.table.label_strings() == [bytes([1, 0, 0, 0, *[2, 0, 0, 0] * 2]), b"", bytes([2, 0, 0, 0])]
    assert features.fingerprint()["utterances"] == 3


def test_an_empty_split_is_read(tmp_path: Path) -> None:
    write_split(tmp_path / "test", [[]], RECIPE, CONFIG)
    features = read(tmp_path / "test")
    assert len(Split(features)) == 0 and features.seconds == 0 and features.marks() == {}


def test_moments_and_fingerprint_are_those_of_any_place_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Utterances lie in the store as they came; what is learned depends on the table alone."""
    monkeypatch.setattr(splits, "MOMENTS_AT_ONCE", 16)
    made = [random_said(f"u{k:04d}", 3 + k % 5, (1 + k % 2,)) for k in range(50)]
    ways = {
        "one": [made],
        "three": [made[30:], made[:7], made[7:30]],
        "reversed": [made[::-1]],
    }
    found = []
    for name, shards in ways.items():
        write_split(tmp_path / name / "train", shards, RECIPE, CONFIG)
        table = read_table(tmp_path / name / "train")
        places = dict(zip(table.ids, zip(table.shard.tolist(), table.row.tolist(), strict=True), strict=True))
        rows = [Row(s.id, s.labels, (table.shards[places[s.id][0]], places[s.id][1])) for s in made]
        write_table(tmp_path / name / "train", rows, RECIPE)
        features = read(tmp_path / name / "train")
        found.append((features.moments(), features.fingerprint()["sha256"], features.marks()))
    for moments, sha256, marks in found[1:]:
        assert torch.equal(moments.total, found[0][0].total) and torch.equal(moments.square, found[0][0].square)
        assert (sha256, marks) == found[0][1:]
    exact = Moments.of(made[0].static, CONFIG)
    for said in made[1:]:
        exact += Moments.of(said.static, CONFIG)
    torch.testing.assert_close(found[0][0].total, exact.total)
    assert found[0][0].count == exact.count


def test_another_label_language_or_sound_is_another_fingerprint(tmp_path: Path) -> None:
    said = MADE[0]
    ways = [said, said._replace(labels=(1, 2, 1)), said._replace(language="cy"), said._replace(id="u9")]
    found = []
    for number, each in enumerate(ways):
        write_split(tmp_path / str(number) / "train", [[each]], RECIPE, CONFIG)
        found.append(read(tmp_path / str(number) / "train").fingerprint()["sha256"])
    assert len({*found}) == len(ways)


def test_missing_features_and_a_missing_shard_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="speechctc extract"):
        read(tmp_path / "train")
    write_split(tmp_path / "train", [MADE], RECIPE, CONFIG)
    (shard,) = (tmp_path / "store").glob("*.safetensors")
    shard.unlink()
    with pytest.raises(InputError, match=rf"{shard.name}: missing; run speechctc extract"):
        read(tmp_path / "train")


def test_a_folder_of_the_earlier_layout_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "00000-of-00001.safetensors").touch()
    with pytest.raises(InputError, match=r"00000-of-00001\.safetensors: features of an earlier layout.*data\.dir"):
        read(tmp_path / "train")


@pytest.mark.parametrize("name", ["texts", "shard", "row", "labels", "label_counts"])
def test_parts_that_do_not_fit_are_one_line(tmp_path: Path, name: str) -> None:
    write_split(tmp_path / "train", [MADE[:2], MADE[2:]], RECIPE, CONFIG)
    path = table_path(tmp_path / "train")
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    whole = load_file(path)
    for changed in (whole[name][1:], whole[name] + 7, -whole[name], None):
        rest = {key: part for key, part in whole.items() if key != name}
        tensors = rest | ({name: changed.contiguous()} if changed is not None else {})
        save_tensors(path, tensors, header | {"checksum": checksum(tensors)})
        with pytest.raises(InputError, match=r"train\.safetensors"):
            read(tmp_path / "train")
    save_tensors(path, {**whole, "labels": whole["labels"].flip(0)}, header)
    with pytest.raises(InputError, match="checksum"):
        read(tmp_path / "train")


@pytest.mark.parametrize(
    ("name", "value"), [("phones", '["a", "b\\n"]'), ("phones", '["a"]'), ("features", "[]"), ("phone_set", None)]
)
def test_a_header_that_was_changed_is_one_line(tmp_path: Path, name: str, value: str | None) -> None:
    write_split(tmp_path / "train", [MADE], RECIPE, CONFIG)
    path = table_path(tmp_path / "train")
    with safe_open(path, framework="pt") as file:
        header = {**file.metadata(), name: value}
    save_tensors(path, load_file(path), {key: text for key, text in header.items() if text is not None})
    with pytest.raises(InputError, match=r"train\.safetensors") as raised:
        read(tmp_path / "train")
    assert len(str(raised.value)) < 500


def test_features_without_a_key_are_those_of_its_default(tmp_path: Path) -> None:
    fewer = {key: value for key, value in RECIPE.features.items() if key != "preemphasis"}
    write_split(tmp_path / "train", [MADE], RECIPE, CONFIG)
    path = table_path(tmp_path / "train")
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    save_tensors(path, load_file(path), {**header, "features": json.dumps(fewer)})
    assert read(tmp_path / "train").table.recipe == RECIPE
    with pytest.raises(InputError, match=r"features\.version=None \(now 2\)"):
        read_split(tmp_path / "train", {**RECIPE.features, "version": "2"})
    with pytest.raises(InputError, match=r"features\.preemphasis=0\.97 \(now 0\.5\)"):
        read_split(tmp_path / "train", {**RECIPE.features, "preemphasis": 0.5})


# By line ends and other ends of Unicode, tabs, quotes, and a byte of a file's name that is not UTF-8.
ODD = ("a\u2028b", "a\x85b", "a\x0cb", "a\x1cb", "a\tb", "a b", "a\nb", "a\rb", 'a"b', '"', " a ", "ä", "a\udcffb", "")


def test_no_id_loses_its_language(tmp_path: Path) -> None:
    made = [Said(id, torch.ones(2, 7), (), f"l{k}") for k, id in enumerate(ODD)]
    write_split(tmp_path / "dev", [made], RECIPE, CONFIG)
    table = read_table(tmp_path / "dev")
    assert table.ids == ODD and [*read(tmp_path / "dev").marks()] == [*ODD]
    found = Languages.of(table.languages)
    assert [found.names[k] for k in found.numbers] == [f"l{k}" for k in range(len(ODD))]
    assert Languages.of(["", "", ""]).names == ()
