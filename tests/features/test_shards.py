from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from speechctc.config.schema import FeatureConfig
from speechctc.core.errors import InputError
from speechctc.core.tensor_file import save_tensors
from speechctc.features.padded import Moments
from speechctc.features.shards import hexadecimal, read_shard, write_shard
from tests.split_files import Said, entry_of, key_of, random_said

CONFIG = FeatureConfig(mels=6)
SETTINGS = {"features": CONFIG.model_dump(mode="json"), "dtype": "float32"}


def write(path: Path, *made: Said) -> None:
    write_shard(path, [entry_of(said, CONFIG) for said in made], SETTINGS, torch.float32)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    made = [random_said("u1", 5, ()), random_said("ü2", 1, ()), random_said("u3", 130, ())]
    write(tmp_path / "s.safetensors", *made)
    shard = read_shard(tmp_path / "s.safetensors")
    assert hexadecimal(shard.keys) == [key_of(said.id) for said in made]
    assert shard.settings == SETTINGS
    assert torch.equal(shard.static, torch.cat([said.static for said in made]))
    assert shard.frames.tolist() == [5, 1, 130]
    assert shard.seconds.tolist() == [0.05, 0.01, 1.3]
    for row, said in enumerate(made):
        entry, moments = shard.entry(row), Moments.of(said.static, CONFIG)
        assert entry.key == key_of(said.id) and torch.equal(entry.static, said.static)
        assert entry.moments.count == len(said.static)
        assert torch.equal(entry.moments.total, moments.total) and torch.equal(entry.moments.square, moments.square)


def test_the_same_entries_give_the_same_bytes(tmp_path: Path) -> None:
    made = random_said("ü", 5, ())
    for number in range(4):
        write(tmp_path / f"{number}", made)
    assert len({(tmp_path / f"{number}").read_bytes() for number in range(4)}) == 1


def test_one_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    write(path, random_said("u", 20, ()))
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="checksum"):
        read_shard(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("settings", "[]"),
        ("settings", "{"),
        ("settings", "[" * 100_000),
        ("settings", None),
        ("format", "1"),
        ("speechctc", "split"),
        ("checksum", None),
    ],
)
def test_a_header_that_was_changed_is_one_line(tmp_path: Path, name: str, value: str | None) -> None:
    path = tmp_path / "s.safetensors"
    write(path, random_said("u", 20, ()))
    with safe_open(path, framework="pt") as file:
        header = {**file.metadata(), name: value}
    save_tensors(path, load_file(path), {key: text for key, text in header.items() if text is not None})
    with pytest.raises(InputError, match=r"s\.safetensors") as raised:
        read_shard(path)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize("name", ["static", "frames", "keys", "seconds", "moment_total", "moment_square"])
def test_parts_that_do_not_fit_are_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "s.safetensors"
    write(path, random_said("u", 20, ()))
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    whole = load_file(path)
    for changed in (whole[name][1:], torch.cat([whole[name]] * 2), whole[name] * float("nan"), None):
        if name == "static" and changed is not None and len(changed) == 20:
            continue  # of these numbers the checksum tells
        if name == "keys" and changed is not None and changed.shape == whole[name].shape:
            changed = changed.to(torch.bool)
        rest = {key: part for key, part in whole.items() if key != name}
        save_tensors(path, rest | ({name: changed.contiguous()} if changed is not None else {}), header)
        with pytest.raises(InputError, match=r"s\.safetensors"):
            read_shard(path, checked=True)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.safetensors: missing; run speechctc extract"):
        read_shard(tmp_path / "gone.safetensors")
