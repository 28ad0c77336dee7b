import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from speechctc.config.load import load_config
from speechctc.config.schema import Config
from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.lm.model import PhoneLM
from speechctc.model.checkpoint import (
    Checkpoint,
    fill_checkpoint,
    find_checkpoint,
    load_checkpoint,
    read_inventory,
    save_checkpoint,
)
from speechctc.model.net import build_net, net_of
from speechctc.phones.inventory import Inventory


@pytest.fixture
def checkpoint() -> Checkpoint:
    config: Config = load_config("demo", ["model.convs=[4, 4]", "model.dense=[8]"])
    inventory = Inventory("found", ("a", "ü"))
    return Checkpoint.of(
        config, inventory, build_net(config, inventory), torch.randn(3, 41), torch.rand(3, 41), {"epoch": 3}
    )


def test_what_is_saved_is_loaded(tmp_path: Path, checkpoint: Checkpoint) -> None:
    save_checkpoint(tmp_path / "best", checkpoint)
    loaded = load_checkpoint(tmp_path / "best")
    assert loaded.config == checkpoint.config
    assert loaded.inventory == checkpoint.inventory
    assert np.array_equal(loaded.mean, checkpoint.mean) and np.array_equal(loaded.std, checkpoint.std)
    for name, tensor in net_of(checkpoint).state_dict().items():
        assert torch.equal(net_of(loaded).state_dict()[name], tensor)
    assert loaded.facts["epoch"] == 3
    assert {"speechctc", "torch", "python"} <= set(loaded.facts["versions"])


def everything(folder: Path) -> list[tuple[Path, int]]:
    return sorted((path, path.lstat().st_mtime_ns) for path in [folder, *folder.rglob("*")])


@pytest.mark.parametrize("interrupted", [False, True])
def test_reading_changes_nothing_around_it(tmp_path: Path, checkpoint: Checkpoint, interrupted: bool) -> None:
    model = tmp_path / "mod"
    save_checkpoint(model / "best", checkpoint)
    save_checkpoint(model / "last", checkpoint)
    for theirs in ("mod.previous", "mod.partial", "mod/best.previous", "mod/last.partial"):
        (tmp_path / theirs).mkdir()
        (tmp_path / theirs / "thesis.txt").write_text("all of it")
    if interrupted:  # killed between the two renames of a replacement
        (model / "best").rename(files.draft_name(model / "best", "previous"))
    before = everything(tmp_path)
    assert find_checkpoint(model) == model / "best"
    assert load_checkpoint(find_checkpoint(model)).facts["epoch"] == 3
    assert everything(tmp_path) == before


def test_another_format_is_refused_with_the_version_that_made_it(tmp_path: Path, checkpoint: Checkpoint) -> None:
    save_checkpoint(tmp_path, checkpoint)
    about = json.loads((tmp_path / "checkpoint.json").read_text())
    (tmp_path / "checkpoint.json").write_text(json.dumps({**about, "format": 99}))
    with pytest.raises(InputError, match=r"format 99 \(speechctc .*\); this version reads format 1"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"phones": ["a"]}, "phones"),
        ({"phones": {"name": "found", "list": ["a", "b\n"]}}, "control character"),
        ({"phones": {"name": "found", "list": ["a", "\x1b[2J"]}}, "control character"),
        ({"phones": {"name": "found", "list": ["a", "a"]}}, "twice"),
        ({"phones": {"name": "found", "list": ["a", 3]}}, "phones.list"),
        ({"phones": {"name": "found", "list": ["a"]}}, "has the shape"),
        ({"config": None}, "config"),
        ({"frequencies": [1]}, "1 frequencies of"),
        ({"frequencies": [-1, 2, "x"]}, "frequencies"),
        ({"config": []}, "config"),
        ({"format": [1]}, "format"),
        ({"format": 2, "versions": 3}, "format"),
    ],
)
def test_a_damaged_description_is_said_in_one_line(
    tmp_path: Path, checkpoint: Checkpoint, change: dict[str, object], said: str
) -> None:
    save_checkpoint(tmp_path, checkpoint)
    about = json.loads((tmp_path / "checkpoint.json").read_text())
    (tmp_path / "checkpoint.json").write_text(json.dumps(about | change))
    with pytest.raises(InputError, match=said) as raised:
        load_checkpoint(tmp_path)
    assert "\n" not in str(raised.value) and "\x1b" not in str(raised.value) and len(str(raised.value)) < 500


TORN = ("", "{", "[" * 100_000, '{"format": ' + "9" * 5000 + "}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((text, "not a checkpoint") for text in ("[]", "3", '"x"', "{}")),
        *((text, r"the checkpoint is damaged \(checkpoint.json: no JSON") for text in TORN),
    ],
)
def test_a_description_of_nothing_is_no_checkpoint_and_a_torn_one_is_damaged(
    tmp_path: Path, checkpoint: Checkpoint, text: str, said: str
) -> None:
    save_checkpoint(tmp_path, checkpoint)
    (tmp_path / "checkpoint.json").write_text(text)
    with pytest.raises(InputError, match=said):
        load_checkpoint(tmp_path)


def test_a_description_that_was_cut_off_anywhere_is_damaged(tmp_path: Path, checkpoint: Checkpoint) -> None:
    save_checkpoint(tmp_path, checkpoint)
    whole = (tmp_path / "checkpoint.json").read_bytes()
    for length in range(0, len(whole) - 2, 101):
        (tmp_path / "checkpoint.json").write_bytes(whole[:length])
        with pytest.raises(InputError, match="the checkpoint is damaged"):
            load_checkpoint(tmp_path)
        with pytest.raises(InputError, match="the checkpoint is damaged"):
            read_inventory(tmp_path)


@pytest.mark.parametrize("name", ["weights", "state", "lm"])
def test_changed_bytes_of_any_tensors_are_noticed(tmp_path: Path, checkpoint: Checkpoint, name: str) -> None:
    lm = PhoneLM.learn([[1, 2, 1], [2, 1]], len(checkpoint.inventory.phones) + 1, 2)
    save_checkpoint(tmp_path, replace(checkpoint, state={"step": np.arange(9, dtype=np.float32)}, lm=lm))
    assert load_checkpoint(tmp_path).lm is not None
    path = tmp_path / f"{name}.safetensors"
    whole = path.read_bytes()
    begin = 8 + int.from_bytes(whole[:8], "little")
    for place in np.linspace(begin, len(whole) - 1, 7, dtype=int):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(InputError, match=f"the checkpoint is damaged .*{name}.safetensors: its checksum"):
            load_checkpoint(tmp_path, with_state=True)


@pytest.mark.parametrize("name", ["weights", "state", "lm"])
def test_parts_of_two_saves_are_no_checkpoint(tmp_path: Path, checkpoint: Checkpoint, name: str) -> None:
    """As a folder has them that was copied while a training replaced it."""
    lm = [PhoneLM.learn([[1, 2, 1], text], len(checkpoint.inventory.phones) + 1, 2) for text in ([2, 1], [1, 1])]
    moved = {key: value + 1 for key, value in checkpoint.weights.items()}
    one, other = tmp_path / "one", tmp_path / "other"
    save_checkpoint(one, replace(checkpoint, state={"step": np.arange(9, dtype=np.float32)}, lm=lm[0]))
    save_checkpoint(
        other, replace(checkpoint, weights=moved, state={"step": np.arange(1, 10, dtype=np.float32)}, lm=lm[1])
    )
    assert load_checkpoint(one, with_state=True).state and load_checkpoint(other, with_state=True).state
    shutil.copy(other / f"{name}.safetensors", one)
    with pytest.raises(InputError, match=f"{name}.safetensors is of another save .* copy the folder again"):
        load_checkpoint(one, with_state=True)
    assert name != "state" or load_checkpoint(one).lm is not None  # which needs no state
    (one / f"{name}.safetensors").unlink()
    with pytest.raises(InputError, match="damaged"):
        load_checkpoint(one, with_state=True)


def test_a_description_that_changed_is_noticed(tmp_path: Path, checkpoint: Checkpoint) -> None:
    """Another number or label is valid, and gives other phones."""
    save_checkpoint(tmp_path, replace(checkpoint, facts={"dev_per_of": {1: 2.5}, "path": "\udcff", "loss": math.inf}))
    assert "checksums" not in load_checkpoint(tmp_path).facts
    text = (tmp_path / "checkpoint.json").read_text(encoding="utf-8")
    about = json.loads(text)
    (tmp_path / "checkpoint.json").write_text(json.dumps(about, sort_keys=True))  # in another form
    assert load_checkpoint(tmp_path).facts["path"] == "\udcff"
    about["config"]["features"]["preemphasis"] = 0.98
    (tmp_path / "checkpoint.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match=r"damaged \(checkpoint.json: its checksum"):
        load_checkpoint(tmp_path)
    (tmp_path / "checkpoint.json").write_text(text.replace(f'"{checkpoint.inventory.phones[0]}"', '"zz"'))
    for read in (load_checkpoint, read_inventory):
        with pytest.raises(InputError, match=r"damaged \(checkpoint.json: its checksum"):
            read(tmp_path)
    del about["checksums"]  # as one has it that another program made
    (tmp_path / "checkpoint.json").write_text(json.dumps(about))
    assert load_checkpoint(tmp_path).config.features.preemphasis == 0.98


@pytest.mark.parametrize("convs", [[1 << 20, 1 << 20], [4] * 500, [4, 5]])
def test_no_memory_is_taken_for_weights_that_are_not_there(
    tmp_path: Path, checkpoint: Checkpoint, convs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path, checkpoint)
    about = json.loads((tmp_path / "checkpoint.json").read_text())
    about["config"]["model"]["convs"] = convs
    (tmp_path / "checkpoint.json").write_text(json.dumps(about))
    monkeypatch.setattr("speechctc.model.checkpoint.load_weights", lambda path: pytest.fail("read"))
    with pytest.raises(InputError, match="damaged"):
        load_checkpoint(tmp_path)


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, checkpoint: Checkpoint) -> None:
    checkpoint.mean[1, 2] = float("nan")
    save_checkpoint(tmp_path, checkpoint)
    with pytest.raises(InputError, match="infinite or NaN"):
        load_checkpoint(tmp_path)


def test_a_standard_deviation_of_0_is_refused(tmp_path: Path, checkpoint: Checkpoint) -> None:
    checkpoint.std[1, 2] = 0.0
    save_checkpoint(tmp_path, checkpoint)
    with pytest.raises(InputError, match="normalisation.std has a value that is not above 0"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("weight", [1e5, float("nan"), float("-inf")])
def test_weights_beyond_half_precision_are_refused(tmp_path: Path, checkpoint: Checkpoint, weight: float) -> None:
    checkpoint.weights["output.weight"][0] = weight
    with pytest.raises(InputError, match=r"net.output.weight: a weight is beyond half precision"):
        files.write_folder(tmp_path / "half", lambda draft: fill_checkpoint(draft, checkpoint, small=True))
    assert not (tmp_path / "half").exists()


def test_a_model_is_a_checkpoint_a_run_or_the_latest_run(
    tmp_path: Path, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place, said in ((None, "speechctc train"), ("nowhere", "no such folder"), ("IPA", "did you mean ipa")):
        with pytest.raises(InputError, match=said):
            find_checkpoint(Path(place) if place else None)
    run = tmp_path / "runs" / "r"
    run.mkdir(parents=True)
    with pytest.raises(InputError, match="neither a checkpoint nor a run"):
        find_checkpoint(run)
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "run.json").write_text("{}")
    with pytest.raises(InputError, match="begun: its training has saved no model yet"):
        find_checkpoint(tmp_path / "begun")
    save_checkpoint(run / "last", checkpoint)
    assert find_checkpoint(run) == run / "last"
    save_checkpoint(run / "best", checkpoint)
    assert find_checkpoint(run) == run / "best"
    assert find_checkpoint(run / "last") == run / "last"
    (tmp_path / "runs" / "latest").symlink_to("r")
    assert find_checkpoint(None) == run / "best"
