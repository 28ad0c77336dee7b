import json
from pathlib import Path

import pytest
import torch

from speechctc import drafts
from speechctc.checkpoint import Checkpoint, build_net, find_checkpoint, load_checkpoint, save_checkpoint
from speechctc.config import Config, load_config
from speechctc.errors import InputError
from speechctc.phones import Inventory


@pytest.fixture
def checkpoint() -> Checkpoint:
    config: Config = load_config("demo", ["model.convs=[4, 4]", "model.dense=[8]"])
    inventory = Inventory("found", ("a", "ü"))
    return Checkpoint(
        config, inventory, build_net(config, inventory), torch.randn(3, 41), torch.rand(3, 41), {"epoch": 3}
    )


def test_what_is_saved_is_loaded(tmp_path: Path, checkpoint: Checkpoint) -> None:
    save_checkpoint(tmp_path / "best", checkpoint)
    loaded = load_checkpoint(tmp_path / "best")
    assert loaded.config == checkpoint.config
    assert loaded.inventory == checkpoint.inventory
    assert torch.equal(loaded.mean, checkpoint.mean) and torch.equal(loaded.std, checkpoint.std)
    for name, tensor in checkpoint.net.state_dict().items():
        assert torch.equal(loaded.net.state_dict()[name], tensor)
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
        (model / "best").rename(drafts.previous_name(model / "best"))
    before = everything(tmp_path)
    assert find_checkpoint(model) == model / "best"
    assert load_checkpoint(find_checkpoint(model)).facts["epoch"] == 3
    assert everything(tmp_path) == before


def test_it_holds_no_pickle(tmp_path: Path, checkpoint: Checkpoint) -> None:
    save_checkpoint(tmp_path / "best", checkpoint)
    assert {path.suffix for path in (tmp_path / "best").iterdir()} == {".json", ".safetensors"}


def test_another_format_is_refused_with_the_version_that_made_it(tmp_path: Path, checkpoint: Checkpoint) -> None:
    save_checkpoint(tmp_path, checkpoint)
    about = json.loads((tmp_path / "checkpoint.json").read_text())
    (tmp_path / "checkpoint.json").write_text(json.dumps({**about, "format": 99}))
    with pytest.raises(InputError, match=r"format 99 \(speechctc .*\); this version reads format 1"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("cut", [0, 50, -4])
def test_weights_cut_short_are_said(tmp_path: Path, checkpoint: Checkpoint, cut: int) -> None:
    save_checkpoint(tmp_path, checkpoint)
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:cut])
    with pytest.raises(InputError, match="damaged"):
        load_checkpoint(tmp_path)


def test_a_model_is_a_checkpoint_a_run_or_the_latest_run(
    tmp_path: Path, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="speechctc train"):
        find_checkpoint(None)
    with pytest.raises(InputError, match="no such folder"):
        find_checkpoint(Path("nowhere"))
    run = tmp_path / "runs" / "r"
    run.mkdir(parents=True)
    with pytest.raises(InputError, match="neither a checkpoint nor a run"):
        find_checkpoint(run)
    save_checkpoint(run / "last", checkpoint)
    assert find_checkpoint(run) == run / "last"
    save_checkpoint(run / "best", checkpoint)
    assert find_checkpoint(run) == run / "best"
    assert find_checkpoint(run / "last") == run / "last"
    (tmp_path / "runs" / "latest").symlink_to("r")
    assert find_checkpoint(None) == run / "best"
