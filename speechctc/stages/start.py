"""The start stage: looks at a folder of recordings and writes a config to train on them. No torch."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from speechctc.config.load import load_config, read_yaml
from speechctc.config.schema import MARKS, CorpusConfig
from speechctc.core import files
from speechctc.core.bundled import MODELS
from speechctc.core.errors import InputError, printable, shortened, with_extra
from speechctc.core.parallel import attempt
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.survey import Survey, describe, survey
from speechctc.metrics.reliability import known_speakers
from speechctc.pages.page import render_text
from speechctc.phones.articulation import match_phones
from speechctc.phones.marks import without_marks

LANGUAGE = {"english": "en"}  # that of a bundled model of one
# Keys of the section corpus that a new config of the same folder takes over: how its labels are read.
KEPT = ("map", "ignore", "notation", "segment", *MARKS)
MIN_DEV_SPEAKERS = 3  # fewer speakers in dev say little about the score on other speakers


@dataclass(frozen=True)
class Advice:
    """Settings for an amount of labelled speech.

    Attributes
    ----------
    amount : str
        The amount in words.
    dev_share, epochs, minutes, lr : float
        Settings of the config; `minutes` is the longest duration of training.
    """

    amount: str
    dev_share: float
    epochs: int
    minutes: int
    lr: float


@dataclass(frozen=True)
class Start:
    """The report on a folder, the config that was written, and the commands to run next.

    Attributes
    ----------
    description : str
    config : Path or None
        None if there is nothing to train on.
    commands : tuple of str
    case : str
        What start.txt tells apart: ``"config"``, or ``"no torch"`` where torch is not installed; or why there is none:
        ``"unlabelled"``, the labels are ``"words"`` of no known language or ``"drafts"`` of `speechctc decode`, there
        is only ``"test"`` or ``"no dev"``, a table to ``"mend"``, labels ``"elsewhere"``, or ``"transcripts"`` that
        are not read.
    """

    description: str
    config: Path | None
    commands: tuple[str, ...]
    case: str = "config"

    def to_text(self) -> str:
        """Return the report."""
        return render_text("start.txt", vars(self) | {"torch": with_extra("train")}).rstrip()


def start(folder: Path, out: Path | None = None, settings: Sequence[str] = (), timed: bool = False) -> Start:
    """Look at a folder of recordings, and write a config to train on them.

    Parameters
    ----------
    folder : Path
        Nothing in it is changed.
    out : Path, optional
        The config to write; by default one in the working directory, named after the folder.
    settings : sequence of str
        Keys of the section ``corpus`` as ``corpus.key=value``, which replace what is found in the folder.
    timed : bool
        Take a few steps of training to say how long it takes on this machine.

    Raises
    ------
    InputError
        The folder has no recordings, `out` exists, or a setting is invalid.
    """
    if out is not None and os.path.lexists(out):
        raise InputError(f"{out}: exists already and is not overwritten", "give another name with --out")
    found = _divided(survey(folder, settings, *_earlier(folder)))
    again = shlex.join(["speechctc", "start", str(folder), *settings, *(["--out", str(out)] if out else [])])
    if found.config is None or found.corpus is None:
        if found.of_words:
            return Start(describe(found), None, (f"{again} corpus.language=CODE",), "words")
        todo = [again if found.to_test is None else _evaluation(found.to_test)]
        if found.case in ("unlabelled", "transcripts"):
            language, name = str(found.given.get("language", "en")), shlex.quote(str(folder))
            model = "english" if language.lower().startswith("en") else "ipa"
            todo.insert(0, f"speechctc decode {name} --model {model} --format textgrid --out {name}")
        return Start(describe(found), None, tuple(todo), found.case)
    splits = found.corpus.splits
    if not splits["dev"]:
        return Start(describe(found), None, (again, _evaluation(found.config)), "no dev")
    config, as_found = out or _free_name(folder), found.config
    begin = fitting_model({phone for utterance in found.utterances for phone in utterance.phones})
    found = _in_phones_of(begin[0], found)
    files.write_text(config, config_text(found, config.stem, begin))
    split = "test" if splits["test"] else "dev"
    name, run = shlex.quote(str(config)), shlex.quote(f"runs/{config.stem}")
    commands = (
        f"speechctc extract --config {name}",
        f"speechctc train --config {name}",
        f"speechctc evaluate --model {run} --split {split}",
    )
    description = f"{describe(found)}\n  training begins with the bundled model {begin[0]}: {begin[1]}"
    if find_spec("torch") is None:
        return Start(description, config, (_evaluation(as_found),), "no torch")
    if timed:
        description += f"\n  training time: {_training_time(config, found)}"
    return Start(description, config, commands)


def _training_time(path: Path, found: Survey) -> str:
    """Return what training takes on this machine by a few steps of the config that was written, in words."""
    from speechctc.stages.machine import epoch_seconds  # late: it loads torch

    assert found.corpus is not None
    config, train = load_config(str(path)), found.corpus.splits["train"]
    mean = found.sound.seconds / max(len(found.utterances), 1)
    try:
        epoch = epoch_seconds(config, found.corpus.inventory(), len(train), mean)
    except (InputError, MemoryError, RuntimeError) as error:  # torch's own, of memory among others
        return f"not known, as a step of it failed here: {shortened(printable(str(error)))}"
    limit, whole = config.train.minutes, config.train.epochs * epoch / 60
    ends = f"train.minutes ends it after {limit:g} minutes, of {whole:.0f}" if limit < whole else f"{whole:.0f} minutes"
    return f"an epoch is about {epoch:.0f} s on this machine, as a few steps tell; {config.train.epochs} epochs: {ends}"


def _evaluation(config: CorpusConfig) -> str:
    """Return the command that scores the bundled model that fits on the test split of a corpus, or on all of it."""
    own = {"phones", "dev_share", "tables", "uncorrected"}
    plain = config.model_dump(mode="json", exclude=own, exclude_defaults=True)
    tables = config.model_dump(mode="json")["tables"]
    if tables["test"] is not None and tables["test"] == tables["train"]:  # which is divided by its rows
        plain |= {f"tables.{split}": table for split, table in tables.items() if table}
    elif table := tables["test"] or tables["train"]:
        plain["tables.test"] = table
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in plain.items()}
    splits = read_corpus(config, "test").splits
    model, _ = fitting_model({phone for each in splits["test"] or splits["train"] for phone in each.phones})
    settings = [f"corpus.{key}={text}" for key, text in texts.items()]
    return shlex.join(["speechctc", "evaluate", "--model", model, "--split", "test", *settings])


def _earlier(folder: Path) -> tuple[dict[str, Any], str]:
    """Return how the newest config here reads the labels of a folder, and its name; nothing where there is none."""
    for path in reversed(list(_configs_here(folder))):
        values = attempt(read_yaml, path)
        corpus = values.get("corpus") if isinstance(values, dict) else None
        if isinstance(corpus, dict) and folder.resolve() in _folders_of(corpus):
            return {key: corpus[key] for key in KEPT if key in corpus}, str(path)
    return {}, ""


def _folders_of(corpus: Mapping[str, Any]) -> set[Path]:
    """Return the root of the section corpus of a config, and all folders around its tables."""
    root, tables = corpus.get("root"), corpus.get("tables")
    each_table = tables.values() if isinstance(tables, dict) else ()
    named = [Path(each).resolve() for each in each_table if isinstance(each, str)]
    roots = {Path(root).resolve()} if isinstance(root, str) else set()
    return roots | {parent for path in named for parent in path.parents}


def _configs_here(folder: Path) -> Iterator[Path]:
    """Yield the configs that have names as start gives them, in their order."""
    for name in files.numbered(_name_of(folder)):
        if not os.path.isfile(f"{name}.yaml"):
            return
        yield Path(f"{name}.yaml")


def _divided(found: Survey) -> Survey:
    """Return a survey with the share of dev that is advised, unless one was given."""
    if found.config is None or found.corpus is None or not found.corpus.dev_from_train or "dev_share" in found.given:
        return found
    known = known_speakers([utterance.speaker for utterance in found.utterances])
    share = advise(found.sound.seconds / 60, known).dev_share
    config = found.config.model_copy(update={"dev_share": share})
    return replace(found, config=config, corpus=read_corpus(config))


def _in_phones_of(model: str, found: Survey) -> Survey:
    """Return a survey in the named phone set of a model, where that reads every label of the same language.

    Then the model keeps its output and its n-gram: training does not begin with other phones.
    """
    config, name = found.config, _about(model)["phones"]["name"]
    if config is None or config.phones != "found" or "phones" in found.given or model not in LANGUAGE:
        return found
    if config.language is not None and str(config.language).lower().partition("-")[0] != LANGUAGE[model]:
        return found
    own = config.model_copy(update={"phones": name})
    with suppress(InputError):
        corpus = read_corpus(own)
        if sum(map(len, corpus.splits.values())) == len(found.utterances):
            return replace(found, config=own, corpus=corpus)
    return found


def _about(model: str) -> dict[str, Any]:
    """Return what a bundled model says of itself."""
    return dict(files.read_json(MODELS[model].folder / "checkpoint.json"))


def advise(minutes: float, speakers: int | None, is_known: bool = False) -> Advice:
    """Return settings for an amount of labelled speech.

    Parameters
    ----------
    minutes : float
    speakers : int or None
        None: not known.
    is_known : bool
        The phones are those of the model that training begins with.
    """
    if minutes < 10:
        amount, dev_share, epochs, limit = "a few minutes", 0.2, 60, 10
    elif minutes < 60:
        amount, dev_share, epochs, limit = "up to an hour", 0.15, 60, 45
    else:
        amount, dev_share, epochs, limit = "hours", 0.1, 40, 180
    if speakers and speakers > 1:
        dev_share = min(max(dev_share, MIN_DEV_SPEAKERS / speakers), 0.3)
    return Advice(amount, round(dev_share, 2), epochs, limit, 1e-4 if is_known else 1e-3)


def fitting_model(phones: Iterable[str]) -> tuple[str, str]:
    """Return the name of the bundled model that knows most of these phones, the first of equals; and why, in words.

    A phone is known by name or by the table of notations; its length, tone and diacritics are left aside.
    """
    labels = {without_marks(phone) or phone for phone in phones}
    known = {}
    for name, model in MODELS.items():
        own = _about(name)["phones"]["list"] if (model.folder / "checkpoint.json").is_file() else []
        known[name] = sum(match.how != "nearness" for match in match_phones(sorted(labels), own).values())
    best, *others = sorted(known, key=lambda name: -known[name])
    less = ", ".join(f"{name} {known[name]}" for name in others)
    return best, f"of {len(labels)} phones without their marks it knows {known[best]}; {less}"


def config_text(found: Survey, name: str, begin: tuple[str, str]) -> str:
    """Return the text of a config for the recordings found, with the reasons of the settings as comments.

    Parameters
    ----------
    found : Survey
    name : str
        Of the run and its features.
    begin : tuple of str
        The model to begin with, and why.
    """
    known = known_speakers([utterance.speaker for utterance in found.utterances])
    about = _about(begin[0])
    is_known = found.config is not None and found.config.phones == about["phones"]["name"]
    values = {
        "found": found,
        "config": found.config,
        "name": name,
        "speakers": known,
        "given": _given(found.given),
        "advice": advise(found.sound.seconds / 60, known, is_known),
        "decode": about["config"]["decode"] if is_known else None,
        "model": begin[0],
        "why": begin[1],
    }
    return render_text("start.yaml", values | {"quoted": _quoted, "shell": shlex.quote})


def _given(given: Mapping[str, Any]) -> dict[str, str]:
    """Return what was given or found in names and has no line of its own, as YAML."""
    written = ("kind", "tables", "root", "tier", "uncorrected", "phones", "dev_share")
    values = {key: json.dumps(value, ensure_ascii=False) for key, value in given.items() if key not in written}
    if values.get("segment") == '"ipa"':
        values["segment"] = "ipa         # labels are strings of IPA, which are divided into phones"
    if values.get("notation") == '"xsampa"':
        values["notation"] = "xsampa   # labels are X-SAMPA or SAMPA, which are read as IPA"
    return values


def _quoted(text: str | Path) -> str:
    """Return a string in quotes, so that YAML cannot read a name as something else."""
    return json.dumps(str(text), ensure_ascii=False)


def _name_of(folder: Path) -> str:
    return "-".join(Path(os.path.abspath(folder)).name.split()) or "recordings"


def _free_name(folder: Path) -> Path:
    """Return a name for the config that no config, run or features folder here has."""
    for name in files.numbered(_name_of(folder)):
        places = (Path(f"{name}.yaml"), Path("runs") / name, Path("data/features") / name)
        if not any(os.path.lexists(path) for path in places):
            return places[0]
    raise AssertionError("the names have no end")
