from pathlib import Path

import pytest
import yaml

from speechctc.config import find_config, known_keys, load_config, override
from speechctc.errors import InputError

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_config_that_comes_along_is_valid(path: Path) -> None:
    assert load_config(path).run is not None


def test_the_papers_config_is_the_papers() -> None:
    config = load_config("zhang2016")
    assert config.model.convs == (128,) * 4 + (256,) * 6
    assert config.model.dense == (1024,) * 3
    assert (config.model.kernel, config.model.pool, config.model.dropout) == ((3, 5), 3, 0.3)
    assert (config.features.static_dims, config.features.channels) == (41, 3)
    assert (config.train.lr, config.train.batch_size, config.train.finetune.lr) == (1e-4, 20, 1e-5)


def test_overrides_are_read_as_yaml_and_laid_in_order() -> None:
    config = load_config("demo", ["train.epochs=3", "train.lr=1e-3", "train.epochs=4", "model.convs=[8, 8]", "run=x/y"])
    assert (config.train.epochs, config.train.lr, config.model.convs, config.run) == (4, 1e-3, (8, 8), Path("x/y"))


def test_override_leaves_the_original_alone() -> None:
    values = {"train": {"epochs": 1}}
    assert override(values, ["train.epochs=2", "data.dir=d"]) == {"train": {"epochs": 2}, "data": {"dir": "d"}}
    assert values == {"train": {"epochs": 1}}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("train.epoch=3", "did you mean 'train.epochs'?"),
        ("trian.epochs=3", "did you mean"),
        ("corpus.lr=3", "did you mean 'train.lr'?"),
        ("quux=3", "the sections are: run, corpus, data"),
        ("train.epochs=0", "train.epochs=0 will not do"),
        ("train.epochs=many", "train.epochs='many' will not do"),
        ("model.kernel=[2, 5]", "odd"),
        ("features.high_hz=9000", "8000 Hz"),
        ("corpus.kind=disk", "'textgrid' or 'demo'"),
        ("train.epochs", "key=value"),
        ("model.convs=[1,", "not YAML"),
    ],
)
def test_a_bad_setting_is_one_line_that_says_what_to_do(setting: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        load_config("demo", [setting])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "just words", "[1, 2]", "corpus: [", "{}"])
def test_a_file_that_is_no_config_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"c\.yaml"):
        load_config(path)


def test_a_missing_file_names_the_configs_there_are() -> None:
    with pytest.raises(InputError, match="demo"):
        load_config("nowhere.yaml")
    assert find_config("demo").name == "demo.yaml"


def test_a_config_without_run_is_named_after_its_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("corpus: {kind: demo}")
    assert load_config(path).run == Path("runs/mine")


def test_a_config_survives_its_own_dump(tmp_path: Path) -> None:
    config = load_config("demo", ["score.fold={ao: aa}"])
    path = tmp_path / "again.yaml"
    path.write_text(yaml.safe_dump(config.to_dict()))
    assert load_config(path) == config


def test_known_keys_reach_the_leaves() -> None:
    assert {"run", "corpus.tables.train", "train.finetune.lr", "corpus.demo.voices"} <= set(known_keys())
