"""The YAML config: read in bounded time and memory, laid over its bases, overridden and checked against the schema.

A config file is a mapping of sections. It is laid over another file where ``base`` names one, and the command line
overrides single keys as ``section.key=value``, the value in YAML. An unknown key or a value out of range is an
`InputError` that names it.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from speechctc.config.schema import FILLED_IN, KEYS_OF_KIND, KEYS_OF_OWN, NO_RUN, Config
from speechctc.config.section import TYPED, Section
from speechctc.core.errors import InputError
from speechctc.core.files import readable

MAX_BASES = 20  # files in a chain of bases

MAX_CHARACTERS = 1 << 18  # characters of a file
MAX_VALUES = 20_000  # values of a file, each counted as often as aliases name it
MAX_DEPTH = 30  # levels of nesting
_NEXT_SETTING = re.compile(r"\s([a-z_]+(?:\.[a-z_]+)*)=")
_NO_YAML = ("*", "@", "`", "%")  # signs that no value of its own begins with in YAML: a pattern of tiers does
_SECTIONS = {
    name: kind
    for name, field in Config.model_fields.items()
    if isinstance(kind := field.annotation, type) and issubclass(kind, Section)
}
_CALLED_ELSEWHERE = {
    each: key
    for key, names in {
        "run": "output_dir out_dir run_dir log_dir save_dir exp_dir experiment default_root_dir",
        "train.lr": "learning_rate learningrate base_lr max_lr peak_lr initial_lr",
        "train.epochs": "max_epochs num_epochs n_epochs num_train_epochs nb_epochs",
        "train.minutes": "max_time time_limit",
        "train.batch_size": "batch batchsize per_device_train_batch_size train_batch_size max_batch_size",
        "train.batch_frames": "max_tokens batch_bins max_frames max_duration",
        "train.accumulate": "gradient_accumulation_steps accumulate_grad_batches accum_grad update_freq grad_accum",
        "train.optimizer": "optimiser optim opt solver",
        "train.weight_decay": "wd l2 decay",
        "train.warmup_steps": "warmup warmup_updates num_warmup_steps",
        "train.schedule": "scheduler lr_scheduler lr_schedule lr_scheduler_type",
        "train.clip": "max_grad_norm grad_clip clip_norm gradient_clip_val clip_grad_norm max_norm",
        "train.patience": "early_stopping early_stopping_patience",
        "train.precision": "fp16 bf16 amp mixed_precision use_amp",
        "train.seed": "random_seed random_state",
        "train.init_from": "pretrained resume_from init_from_checkpoint checkpoint warm_start finetune_from",
        "train.ema": "ema_decay weight_average polyak",
        "model.dropout": "dropout_rate dropout_prob p_dropout",
        "model.time_stride": "subsampling subsample subsampling_factor downsample",
        "features.sample_rate": "sampling_rate samplerate sr fs sample_frequency",
        "features.mels": "n_mels num_mels num_mel_bins n_mel mel_bins",
        "features.shift_ms": "frame_shift hop_length hop_ms frame_shift_ms hop_size",
        "features.window_ms": "frame_length win_length frame_length_ms n_fft window_size",
        "data.workers": "num_workers n_jobs jobs num_proc",
    }.items()
    for each in names.split()
}
"""What other toolkits call a key."""
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C, ten times as fast, where PyYAML was built with it


def load_config(source: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a config file, with its bases and the overrides.

    Parameters
    ----------
    source : str or Path
        A YAML file, or the name of a config of the package (``"demo"``).
    overrides : sequence of str
        For example ``"train.epochs=3"``; the value is read as YAML.

    Returns
    -------
    Config
        Its `run` is ``runs/<name of the file>`` where neither the file nor an override sets it.

    Raises
    ------
    InputError
        The file does not exist or is not YAML, a key is unknown (the nearest known one is named), a value is of the
        wrong type or out of range, or files name each other as base.
    """
    path = find_config(source)
    config = parse_config(override(_read(path, ()), overrides), str(path), overrides, TYPED)
    return config.model_copy(update={"run": Path("runs") / path.stem}) if config.run == NO_RUN else config


def config_of(values: Mapping[str, Any], overrides: Sequence[str] = ()) -> Config:
    """Check a config that is given as plain values, ``{"base": "demo", "train": {"epochs": 3}}``; see `load_config`.

    Its `run` is null where nothing sets it.
    """
    where = "the config given"
    return parse_config(override(_over_base(_copy(values), where, Path(), ()), overrides), where, overrides, TYPED)


def _read(path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    """Read a file and lay it over its base; `above` are the files that lead to it, from the first."""
    if path.resolve() in above:
        raise InputError(f"{path}: its own base, through other files", "let base: name a file that does not name it")
    if len(above) > MAX_BASES:
        raise InputError(f"{path}: {above[0]} has a chain of more than {MAX_BASES} bases", "use fewer files")
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise InputError(f"{path}: no settings in it", "a config is a mapping of sections; see configs/demo.yaml")
    return _over_base(values, str(path), path.parent, (*above, path.resolve()))


def _over_base(values: dict[str, Any], where: str, folder: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    """Lay values over the file that their ``base`` names, relative to a folder."""
    if "base" not in values:
        return values
    base = values.pop("base")
    if not isinstance(base, str):
        raise InputError(f"{where}: base={base!r} is invalid", "name a config: base: demo, or base: ../other.yaml")
    under = _read(find_config(base, folder), above)
    under.pop("run", None)  # two configs, two runs
    kind, net = (
        part.get("kind") if isinstance(part := values.get(name), dict) else None for name in ("corpus", "model")
    )
    under = _for_net(_for_kind(under, kind), net)
    return _laid_over(under, values)


def find_config(source: str | Path, folder: Path = Path()) -> Path:
    """Return the file that ``--config`` names: a path relative to `folder`, or a config of the package by its name."""
    path = Path(source)
    if os.path.isfile(folder / path):  # False where the name is too long for a file, too
        return folder / path
    package = Path(__file__).parent.parent
    folders = [package / "configs", package.parent / "configs"]
    if path.parent == Path("."):
        for folder in folders:
            candidate = folder / f"{path.stem if path.suffix == '.yaml' else path.name}.yaml"
            if os.path.isfile(candidate):
                return candidate
    known = sorted({file.stem for folder in folders for file in folder.glob("*.yaml")})
    raise InputError(f"{path}: no such config file", f"give a YAML file, or one of: {', '.join(known)}")


def parse_config(
    values: Mapping[str, Any], where: str, typed: Sequence[str] = (), context: str | None = None
) -> Config:
    """Check plain values against the schema.

    Parameters
    ----------
    values : mapping
    where : str
        Their source, named in messages.
    typed : sequence of str
        The settings among them that were typed on the command line, as ``key=value``.
    context : str, optional
        `TYPED`: the values are a user's, and name no corpus or augmentation that is not known here.

    Raises
    ------
    InputError
        A key is unknown, or a value is of the wrong type or out of range.
    """
    try:
        return Config.model_validate(values, context=context)
    except ValidationError as error:
        raise InputError(*explain(error, where, typed)) from None


def with_settings(config: Config, settings: Sequence[str]) -> Config:
    """Return a model's config with settings, ``section.key=value``, in place of its own.

    Raises
    ------
    InputError
        As `parse_config`.
    """
    return parse_config(override(config.to_dict(), settings), "the model's config with these settings")


def override(values: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return a copy of `values` with each ``dotted.key=value`` set, in order.

    Where they change ``corpus.kind`` or ``model.kind``, the keys of the old kind are removed from the copy first.
    """
    settings = [_setting(text) for text in overrides]
    kinds, nets = ([value for key, value in settings if key == f"{part}.kind"] for part in ("corpus", "model"))
    merged = _for_net(_for_kind(_copy(values), kinds[-1] if kinds else None), nets[-1] if nets else None)
    if any(key.startswith("model.options") for key, _ in settings) and isinstance(merged.get("model"), dict):
        merged["model"] = {key: value for key, value in merged["model"].items() if key not in FILLED_IN}
    for key, value in settings:
        *sections, last = key.split(".")
        place = merged
        for section in sections:
            if not isinstance(place.get(section), dict):
                place[section] = {}
            place = place[section]
        place[last] = value
    return merged


def _setting(text: str) -> tuple[str, Any]:
    """Read ``key=value``, the value as YAML; as text where it begins with a sign that YAML has for something else."""
    key, equals, raw = text.partition("=") if isinstance(text, str) else ("", "", "")
    if not equals or not key.strip():
        raise InputError(f"{text!r:.80}: not a setting", "write settings as key=value, for example train.epochs=3")
    second = _NEXT_SETTING.search(raw)
    if second and second[1].partition(".")[0] in Config.model_fields:
        raise InputError(f"{text!r:.80}: two settings in one text", f"give {second[1]} a text of its own")
    is_text = raw.strip().startswith(_NO_YAML)
    value = raw.strip() if is_text else parse_yaml(raw, f"{_abbreviated(text)}: the value is not YAML", "quote it")
    return key.strip(), value


def _for_kind(values: dict[str, Any], kind: object) -> dict[str, Any]:
    """Return `values` without the keys of its kind of corpus where `kind`, from a later layer, is another one."""
    corpus = values.get("corpus")
    if not isinstance(corpus, dict) or kind is None or corpus.get("kind") in (None, kind):
        return values
    old = KEYS_OF_KIND.get(str(corpus["kind"]), KEYS_OF_OWN)
    return {**values, "corpus": {key: value for key, value in corpus.items() if key not in old}}


def _for_net(values: dict[str, Any], kind: object) -> dict[str, Any]:
    """Return `values` without what describes their net where `kind`, from a later layer, is another one."""
    model = values.get("model")
    if not isinstance(model, dict) or kind is None or model.get("kind", "conv") == kind:
        return values
    return {key: value for key, value in values.items() if key != "model"}


def known_keys(section: type[BaseModel] = Config, prefix: str = "") -> list[str]:
    """Return every dotted key of the schema."""
    keys = []
    for name, field in section.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        inner = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        keys += known_keys(inner[0], f"{prefix}{name}.") if inner else [f"{prefix}{name}"]
    return keys


def _laid_over(under: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `under` with the keys of `values` set, section by section."""
    merged = _copy(under)
    for key, value in values.items():
        inner = merged.get(key)
        merged[key] = _laid_over(inner, value) if isinstance(inner, dict) and isinstance(value, Mapping) else value
    return merged


def _copy(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copy(value) if isinstance(value, Mapping) else value for key, value in values.items()}


def explain(
    error: ValidationError, where: str, typed: Sequence[str], schema: type[BaseModel] = Config, name: str = ""
) -> tuple[str, str]:
    """Return the first error of a schema in one line, and what to do about it; `name` is that of a single section."""
    first, known = error.errors()[0], known_keys(schema, name)
    key = name + ".".join(str(part) for part in first["loc"])
    setting = next((text for text in reversed(typed) if _concerns(text.partition("=")[0].strip(), key)), "")
    where = f"the setting {setting}" if setting else where
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if first["type"] == "extra_forbidden":
        return f"{where}: there is no key {key!r}{more}", _nearest(key, known)
    if first["type"] == "missing":
        return f"{where}: the key {key!r} is missing{more}", f"set it, for example {key}=..."
    if first["type"] in ("model_type", "model_attributes_type"):
        keys = ", ".join(each for each in known if each.startswith(f"{key}."))
        return f"{where}: {key} is a section of the config, not a key{more}", f"set one of its keys: {keys}"
    message = first["msg"].removeprefix("Value error, ").replace("Input should", "it should")
    if setting and setting.partition("=")[0].strip() == key:
        return f"{where} is invalid: {message}{more}", "change it"
    fix = "name another model, or install what made this one" if where.endswith(".json") else "change it"
    return f"{where}: {key}={_abbreviated(first['input'])} is invalid: {message}{more}", fix


def _concerns(setting: str, key: str) -> bool:
    """Return whether one of two dotted keys is the other, or is in it."""
    return f"{key}.".startswith(f"{setting}.") or f"{setting}.".startswith(f"{key}.")


def _abbreviated(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _nearest(key: str, keys: Sequence[str]) -> str:
    sections = sorted({name.rpartition(".")[0] for name in keys} - {""})
    by_name = {name.rpartition(".")[2]: name for name in reversed(keys)}  # the first of a name counts
    last = key.rpartition(".")[2]
    near = [by_name[last]] if last in by_name else []  # the right name in the wrong section
    near = near or [each for each in [_CALLED_ELSEWHERE.get(last.lower(), "")] if each in keys]
    near = near or difflib.get_close_matches(key, [*keys, *sections], n=1, cutoff=0.6)
    near = near or [by_name[name] for name in difflib.get_close_matches(last, by_name, n=1, cutoff=0.6)]
    if near:
        return f"did you mean {near[0]!r}?"
    return f"the sections are: {', '.join(dict.fromkeys(name.partition('.')[0] for name in keys))}"


def read_yaml(path: Path) -> Any:
    """Return the plain values of a YAML file.

    Raises
    ------
    InputError
        The file is not UTF-8, not YAML, or larger than any config.
    OSError
        The file cannot be read.
    """
    try:
        with readable(path).open(encoding="utf-8") as file:
            text = file.read(MAX_CHARACTERS + 1)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a YAML file ({error})", "correct the file") from None
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"{path}: longer than {MAX_CHARACTERS} characters, which no config is", "name a config")
    return parse_yaml(text, f"{path}: not a YAML file", "correct the file")


def parse_yaml(text: str, what: str, fix: str) -> Any:
    """Return the plain values of a text; if it is not YAML, `what` and `fix` begin the `InputError`."""
    try:
        _check_depth(text)
        loader = LOADER(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _measure(node, {}, 0)
        return loader.construct_document(node)
    except RecursionError:
        raise InputError(f"{what} (nested too deeply)", fix) from None
    except (yaml.YAMLError, ValueError, OverflowError, LookupError, AttributeError) as error:  # of values with a tag
        raise InputError(f"{what} ({' '.join(str(error).split())[:300]})", fix) from None


def _check_depth(text: str) -> None:
    """Read the events of a text, which takes no stack, unlike the loader in C: it ends the process where it lacks some.

    Raises
    ------
    ValueError
        They are nested too deeply.
    """
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH + 1:
                raise ValueError(f"nested more than {MAX_DEPTH} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _measure(node: yaml.Node, known: dict[int, tuple[int, int]], depth: int) -> tuple[int, int]:
    """Return the number of values in a node, and the depth of their nesting.

    Raises
    ------
    ValueError
        There are too many values, nested too deeply, or a key is there twice; a node within itself is too deep.
    """
    if id(node) not in known:
        inner: list[Any] = []
        if isinstance(node, yaml.SequenceNode):
            inner = node.value
        elif isinstance(node, yaml.MappingNode):
            _check_keys(node)
            inner = [each for pair in node.value for each in pair]
        if depth > MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} deep")
        parts = [_measure(each, known, depth + 1) for each in inner]
        known[id(node)] = 1 + sum(size for size, _ in parts), 1 + max((height for _, height in parts), default=0)
    size, height = known[id(node)]
    if size > MAX_VALUES or height > MAX_DEPTH:
        raise ValueError(f"more than {MAX_VALUES} values, or nested more than {MAX_DEPTH} deep")
    return size, height


def _check_keys(node: yaml.MappingNode) -> None:
    """Check that a mapping has no key twice, of which YAML would take the last; merge keys may repeat.

    Raises
    ------
    ValueError
        It has; the message says on which lines.
    """
    lines: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
            line, first = key.start_mark.line + 1, lines.get((key.tag, key.value))
            if first is not None:
                raise ValueError(f"line {line}: the key {key.value[:60]!r} again, which line {first} has; keep one")
            lines[key.tag, key.value] = line
