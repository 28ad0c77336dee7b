"""The start stage: looks at a folder of recordings and writes a config to train on them. No torch."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from speechctc.config.schema import CorpusConfig
from speechctc.core import files
from speechctc.core.bundled import MODELS
from speechctc.core.errors import InputError, with_extra
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.survey import Survey, describe, survey
from speechctc.metrics.per import known_speakers
from speechctc.pages.page import render_text
from speechctc.phones.articulation import match_phones
from speechctc.phones.label_rules import without_marks

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
        is only ``"test"`` or ``"no dev"``, a table to ``"mend"``, or ``"transcripts"`` that are not read.
    """

    description: str
    config: Path | None
    commands: tuple[str, ...]
    case: str = "config"

    def to_text(self) -> str:
        """Return the report."""
        return render_text("start.txt", vars(self) | {"torch": with_extra("train")}).rstrip()


def start(folder: Path, out: Path | None = None, settings: Sequence[str] = ()) -> Start:
    """Look at a folder of recordings, and write a config to train on them.

    Parameters
    ----------
    folder : Path
        Nothing in it is changed.
    out : Path, optional
        The config to write; by default one in the working directory, named after the folder.
    settings : sequence of str
        Keys of the section ``corpus`` as ``corpus.key=value``, which replace what is found in the folder.

    Raises
    ------
    InputError
        The folder has no recordings, `out` exists, or a setting is invalid.
    """
    if out is not None and os.path.lexists(out):
        raise InputError(f"{out}: exists already and is not overwritten", "give another name with --out")
    found = _divided(survey(folder, settings))
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
    config = out or _free_name(folder)
    begin = fitting_model({phone for utterance in found.utterances for phone in utterance.phones})
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
        return Start(description, config, (_evaluation(found.config),), "no torch")
    return Start(description, config, commands)


def _evaluation(config: CorpusConfig) -> str:
    """Return the command that scores the bundled model that fits on the test split of a corpus, or on all of it."""
    own = {"phones", "dev_share", "tables", "uncorrected"}
    plain = config.model_dump(mode="json", exclude=own, exclude_defaults=True)
    tables = config.model_dump(mode="json")["tables"]
    if table := tables["test"] or tables["train"]:
        plain["tables.test"] = table
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in plain.items()}
    splits = read_corpus(config, "test").splits
    model, _ = fitting_model({phone for each in splits["test"] or splits["train"] for phone in each.phones})
    settings = [f"corpus.{key}={text}" for key, text in texts.items()]
    return shlex.join(["speechctc", "evaluate", "--model", model, "--split", "test", *settings])


def _divided(found: Survey) -> Survey:
    """Return a survey with the share of dev that is advised, unless one was given."""
    if found.config is None or found.corpus is None or not found.corpus.dev_from_train or "dev_share" in found.given:
        return found
    known = known_speakers([utterance.speaker for utterance in found.utterances])
    share = advise(found.sound.seconds / 60, known).dev_share
    config = found.config.model_copy(update={"dev_share": share})
    return replace(found, config=config, corpus=read_corpus(config))


def advise(minutes: float, speakers: int | None) -> Advice:
    """Return settings for an amount of labelled speech, in minutes, and a number of speakers; None: not known."""
    if minutes < 10:
        amount, dev_share, epochs, limit, lr = "a few minutes", 0.2, 60, 10, 1e-3
    elif minutes < 60:
        amount, dev_share, epochs, limit, lr = "up to an hour", 0.15, 60, 45, 1e-3
    else:
        amount, dev_share, epochs, limit, lr = "hours", 0.1, 40, 180, 1e-3
    if speakers and speakers > 1:
        dev_share = min(max(dev_share, MIN_DEV_SPEAKERS / speakers), 0.3)
    return Advice(amount, round(dev_share, 2), epochs, limit, lr)


def fitting_model(phones: Iterable[str]) -> tuple[str, str]:
    """Return the name of the bundled model that knows most of these phones, the first of equals; and why, in words.

    A phone is known by name or by the table of notations; its length, tone and diacritics are left aside.
    """
    labels = {without_marks(phone) or phone for phone in phones}
    known = {}
    for name, model in MODELS.items():
        about = model.folder / "checkpoint.json"
        own = files.read_json(about)["phones"]["list"] if about.is_file() else []
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
    values = {
        "found": found,
        "config": found.config,
        "name": name,
        "speakers": known,
        "given": _given(found.given),
        "advice": advise(found.sound.seconds / 60, known),
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
    return values


def _quoted(text: str | Path) -> str:
    """Return a string in quotes, so that YAML cannot read a name as something else."""
    return json.dumps(str(text), ensure_ascii=False)


def _free_name(folder: Path) -> Path:
    """Return a name for the config that no config, run or features folder here has."""
    for name in files.numbered("-".join(Path(os.path.abspath(folder)).name.split()) or "recordings"):
        places = (Path(f"{name}.yaml"), Path("runs") / name, Path("data/features") / name)
        if not any(os.path.lexists(path) for path in places):
            return places[0]
    raise AssertionError("the names have no end")
