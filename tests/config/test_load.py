import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from speechctc.config.load import find_config, load_config, parse_config
from speechctc.config.schema import KEYS_OF_KIND, KEYS_OF_OWN, NO_RUN, Config, CorpusConfig
from speechctc.core.errors import InputError

ROOT = Path(__file__).parent.parent.parent


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


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "train.epoch=3",
            "the setting train.epoch=3: there is no key 'train.epoch'; did you mean 'train.epochs'?",
        ),
        ("trian.epochs=3", "the setting trian.epochs=3: there is no key 'trian'; did you mean"),
        ("corpus.lr=3", "did you mean 'train.lr'?"),
        ("quux=3", "the sections are: run, corpus, data"),
        ("train.epochs=0", "the setting train.epochs=0 is invalid"),
        ("train=3", "train is a section of the config, not a key; set one of its keys: train.init_from"),
        ("model.convs=[8, 0.5]", "the setting model.convs=[8, 0.5]: model.convs.1=0.5 is invalid"),
        ("train.epochs=many", "train.epochs=many is invalid"),
        ("model.kernel=[2, 5]", "odd"),
        ("features.high_hz=9000", "8000 Hz"),
        ("corpus.kind=disk", "'demo' or 'espeak'"),
        ("train.epochs", "key=value"),
        ("model.convs=[1,", "not YAML"),
        ("features.window_ms=0.1", "window_ms 0.1 must be at least 1 ms"),
        ("features.shift_ms=0.01", "shift_ms 0.01 must be at least 0.5 ms"),
        ("features.window_ms=true", "true is not a value of it"),
        ("model.time_stride=true", "true is not a value of it"),
        ("model.convs=[8, true]", "true is not a value of it"),
        ('data.dir="x\\0y"', "it has a NUL character"),
        ('run="r\\0z"', "it has a NUL character"),
    ],
)
def test_a_bad_setting_is_one_line_that_says_what_to_do(setting: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        load_config("demo", [setting])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value) and "demo.yaml" not in str(caught.value)


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


def test_a_config_is_laid_over_its_base(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "first.yaml").write_text("base: zhang2016\nrun: runs/first\ntrain: {lr: 0.5, finetune: {epochs: 7}}")
    (tmp_path / "inner" / "second.yaml").write_text("base: ../first.yaml\nmodel: {convs: [4, 4]}\ntrain: {epochs: 3}")
    paper, config = load_config("zhang2016"), load_config(tmp_path / "inner" / "second.yaml", ["train.seed=9"])
    assert (config.train.lr, config.train.finetune.epochs, config.train.epochs, config.train.seed) == (0.5, 7, 3, 9)
    assert config.train.finetune.lr == paper.train.finetune.lr
    assert (config.model.convs, config.model.dense) == ((4, 4), paper.model.dense)
    assert config.run == Path("runs/second")  # its own, and not its base's


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("base: elsewhere", "no such config"),
        ("base: [demo]", "base=['demo'] is invalid"),
        ("base: here.yaml", "its own base"),
        ("base: demo\nbaze: 3", "no key 'baze'"),
    ],
)
def test_a_base_that_will_not_do_is_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "here.yaml").write_text(text)
    with pytest.raises(InputError, match=re.escape(said)):
        load_config(tmp_path / "here.yaml")


def test_another_kind_of_corpus_inherits_nothing_of_the_old_kind(tmp_path: Path) -> None:
    own = load_config("demo", ["corpus.kind=table", "corpus.tables.train=train.tsv"])
    assert (own.corpus.root, own.corpus.tables.train) == (None, Path("train.tsv"))
    order = load_config("demo", ["corpus.root=here", "corpus.phones=cmu39", "corpus.kind=table"])
    assert (order.corpus.root, order.corpus.phones) == (Path("here"), "cmu39")  # the same layer keeps what it says
    (tmp_path / "own.yaml").write_text("base: timit\ncorpus: {kind: textgrid, root: grids, dev_share: 0.2}")
    own = load_config(tmp_path / "own.yaml")
    assert (own.corpus.root, own.corpus.phones, own.corpus.dev_share) == (Path("grids"), "auto", 0.2)
    (tmp_path / "a.yaml").write_text("corpus: {kind: table, channel: 2, ignore: [sil]}")
    kept, other = (load_config(tmp_path / "a.yaml", [f"corpus.kind={kind}"]).corpus for kind in ("table", "timit"))
    assert (kept.channel, kept.ignore, other.channel, other.ignore) == (2, ("sil",), None, ())


def test_every_key_of_the_corpus_is_known_to_belong_to_a_kind_or_to_all() -> None:
    assert set(CorpusConfig.model_fields) == {"kind", "dev_share"}.union(KEYS_OF_OWN, *KEYS_OF_KIND.values())


def test_a_config_without_a_run_is_stored_as_null() -> None:
    plain = Config(corpus=CorpusConfig(kind="demo")).to_dict()
    assert plain["run"] is None and parse_config(plain, "here").run == NO_RUN
    assert load_config("demo", ["run=null"]).run == Path("runs/demo")
    assert load_config("demo", ["corpus.kind=demo"]).corpus.root == Path("data/demo")
    assert load_config("small-data", ["corpus.kind=textgrid"]).corpus.phones == "cmu39"


def test_a_config_for_ones_own_recordings_has_the_bundled_models_net() -> None:
    from speechctc.model.checkpoint import BUILT_IN, load_checkpoint

    bundled, config = load_checkpoint(BUILT_IN).config, load_config("finetune")
    net = config.model.model_copy(update={"dropout": bundled.model.dropout})
    assert (net, config.features) == (bundled.model, bundled.features)
    assert (config.corpus.kind, config.corpus.phones, config.score.fold) == ("table", "found", "auto")
    assert config.train.init_from == Path("english")


def test_a_key_of_the_file_is_blamed_on_the_file(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("base: demo\ntrain: {lr: -1}")
    with pytest.raises(InputError, match=r"own\.yaml: train\.lr=-1 is invalid"):
        load_config(tmp_path / "own.yaml", ["train.epochs=3"])


def test_a_name_too_long_for_a_file_is_no_config(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"base: {'a' * 3000}\n")
    for source in (tmp_path / "c.yaml", "a" * 3000):
        with pytest.raises(InputError, match="no such config file"):
            load_config(source)


@pytest.mark.parametrize("value", ["* phones|phones", "*", "*-phones", "@anna"])
def test_a_value_that_begins_with_a_sign_of_yaml_is_text(value: str) -> None:
    config = load_config("demo", ["corpus.kind=textgrid", f"corpus.tier={value}", f"corpus.words='{value}'"])
    assert config.corpus.tier == config.corpus.words == value


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("no", "no"),
        ("[da, no]", ("da", "no")),
        ("[no]", ("no",)),
        ("{Bokmål: no, no: da}", {"Bokmål": "no", "no": "da"}),
    ],
)
def test_norwegian_is_a_language_and_no_truth_value(tmp_path: Path, given: str, found: object) -> None:
    settings = ["corpus.kind=espeak", "corpus.root=texts", "corpus.phones=ipa"]
    assert load_config("demo", [*settings, f"corpus.language={given}"]).corpus.language == found
    (tmp_path / "own.yaml").write_text(
        f"base: demo\ncorpus: {{kind: espeak, root: texts, language: {given}}}\n", "utf-8"
    )
    assert load_config(tmp_path / "own.yaml", []).corpus.language == found


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("run=runs/a train.epochs=1", "two settings in one text; give train.epochs a text of its own"),
        (3, "3: not a setting"),
        ("train.lr=.inf", "train.lr=.inf is invalid"),
        ("train.lr=.nan", "train.lr=.nan is invalid"),
        ("train.rates={convs: .inf}", "train.rates.convs=inf is invalid"),
    ],
)
def test_what_is_no_setting_is_one_line(setting: Any, said: str) -> None:
    with pytest.raises(InputError) as raised:
        load_config("demo", [setting])
    assert said in str(raised.value)


def test_a_folder_may_have_spaces_and_signs() -> None:
    assert load_config("demo", ["run=my runs/a b=c"]).run == Path("my runs/a b=c")
