import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from speechctc.config.schema import FeatureConfig
from speechctc.core.errors import InputError
from speechctc.core.tensor_file import save_tensors
from speechctc.features.filterbank import Moments
from speechctc.features.shards import Extracted, Recipe, read_shard, read_split, shard_path, write_shard

CONFIG = FeatureConfig(mels=6)
RECIPE = Recipe(CONFIG.model_dump(mode="json"), "found", ("a", "b"), "sources")


def utterance(name: str, frames: int, labels: tuple[int, ...]) -> Extracted:
    static = torch.randn(frames, 7)
    return Extracted(name, static, labels, Moments.of(static, CONFIG), frames / 100)


def write(path: Path, *utterances: Extracted) -> None:
    write_shard(path, utterances, [("gone", "no such file")], RECIPE, torch.float32)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    made = [utterance("u1", 5, (1, 2, 2)), utterance("ü2", 1, ()), utterance("u3", 130, (2,))]
    write(tmp_path / "s.safetensors", *made)
    shard = read_shard(tmp_path / "s.safetensors")
    assert shard.ids == ("u1", "ü2", "u3")
    assert shard.recipe == RECIPE
    assert shard.skipped == (("gone", "no such file"),)
    assert torch.equal(shard.static, torch.cat([u.static for u in made]))
    assert shard.frames.tolist() == [5, 1, 130]
    assert shard.labels.tolist() == [1, 2, 2, 2]
    assert shard.label_counts.tolist() == [3, 0, 1]
    assert shard.moments.count == 136
    assert shard.seconds == pytest.approx(1.36)


def test_the_same_utterances_give_the_same_bytes(tmp_path: Path) -> None:
    made = utterance("ü", 5, (1, 2, 2))
    for number in range(4):
        write(tmp_path / f"{number}", made)
    assert len({(tmp_path / f"{number}").read_bytes() for number in range(4)}) == 1


def test_a_shard_of_skipped_utterances_alone_can_be_read(tmp_path: Path) -> None:
    write(tmp_path / "s.safetensors")
    shard = read_shard(tmp_path / "s.safetensors")
    assert shard.ids == () and shard.static.shape == (0, 7) and shard.moments.count == 0


def test_one_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    write(path, utterance("u", 20, (1,)))
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="checksum"):
        read_shard(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("phones", json.dumps(["a", "b\n"])),
        ("phones", json.dumps(["a"])),
        ("phones", "3"),
        ("features", "[]"),
        ("features", "{"),
        ("ids", json.dumps(["u", "v"])),
        ("ids", "null"),
        ("seconds", "nan"),
        ("seconds", "long"),
        ("skipped", "[3]"),
        ("skipped", "[" * 100_000),
        ("checksum", None),
        ("sources", None),
    ],
)
@pytest.mark.parametrize("checked", [False, True])
def test_a_header_that_was_changed_is_one_line(tmp_path: Path, name: str, value: str | None, checked: bool) -> None:
    path = tmp_path / "s.safetensors"
    write(path, utterance("u", 20, (1, 2)))
    with safe_open(path, framework="pt") as file:
        header = {**file.metadata(), name: value}
    save_tensors(path, load_file(path), {key: text for key, text in header.items() if text is not None})
    with pytest.raises(InputError, match=r"s\.safetensors") as raised:
        read_shard(path, checked=checked)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize("name", ["static", "frames", "labels", "label_counts", "moment_total"])
def test_parts_that_do_not_fit_are_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "s.safetensors"
    write(path, utterance("u", 20, (1, 2)))
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    whole = load_file(path)
    for changed in (whole[name][1:], whole[name] * 10**6, whole[name].to(torch.bool), None):
        if name == "static" and changed is not None and changed.dtype == torch.float32 and len(changed) == 20:
            continue  # loud, no more
        if name == "moment_total" and changed is not None and changed.dtype == torch.float64:
            continue
        rest = {key: part for key, part in whole.items() if key != name}
        save_tensors(path, rest | ({name: changed.contiguous()} if changed is not None else {}), header)
        with pytest.raises(InputError, match=r"s\.safetensors"):
            read_shard(path, checked=True)


def test_a_missing_shard_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="speechctc extract"):
        read_split(tmp_path, RECIPE.features)
    for number in (0, 2):
        write(shard_path(tmp_path, number, 3), utterance("u", 20, (1,)))
    with pytest.raises(InputError, match="00001-of-00003.*missing"):
        read_split(tmp_path, RECIPE.features)


def test_features_without_a_key_are_those_of_its_default(tmp_path: Path) -> None:
    fewer = {key: value for key, value in RECIPE.features.items() if key != "preemphasis"}
    path = shard_path(tmp_path, 0, 1)
    write(path, utterance("u", 20, (1,)))
    tensors = load_file(path)
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    save_tensors(path, tensors, {**header, "features": json.dumps(fewer)})
    (shard,) = read_split(tmp_path, RECIPE.features)
    assert shard.recipe == RECIPE
    with pytest.raises(InputError, match=r"features\.version=None \(now 2\)"):
        read_split(tmp_path, {**RECIPE.features, "version": "2"})
    with pytest.raises(InputError, match=r"features\.preemphasis=0\.97 \(now 0\.5\)"):
        read_split(tmp_path, {**RECIPE.features, "preemphasis": 0.5})
