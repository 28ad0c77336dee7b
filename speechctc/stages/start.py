"""The start stage: looks at a folder of recordings and writes a config to train on them. No torch."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from speechctc.corpora.survey import Survey, survey
from speechctc.corpora.survey_report import describe
from speechctc.errors import InputError
from speechctc.storage import files

FEW_SPEAKERS = 3  # fewer speakers in dev say little about the score on other speakers


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
        None if no recording is labelled.
    commands : tuple of str
    """

    description: str
    config: Path | None
    commands: tuple[str, ...]

    def to_text(self) -> str:
        """Return the report."""
        lines = [self.description, ""]
        if self.config:
            lines += [f"wrote {self.config}; comments in it give the reason of each setting; change what you like", ""]
            lines += ["Next, run in this folder:", ""]
        else:
            lines += ["There are no labels to train on. The bundled model can write labels to correct in Praat:", ""]
        lines += [f"    {command}" for command in self.commands]
        if not self.config:
            lines += [
                "",
                "It is a model of English and makes many errors. Correct the tier 'phones', and delete the TextGrids",
                "that you did not correct. Then run the last command, which takes all remaining labels as correct.",
            ]
        return "\n".join(lines)


def start(folder: Path, out: Path | None = None) -> Start:
    """Look at a folder of recordings, and write a config to train on them.

    Parameters
    ----------
    folder : Path
        Nothing in it is changed.
    out : Path, optional
        The config to write; by default one in the working directory, named after the folder.

    Raises
    ------
    InputError
        The folder has no recordings, or `out` exists.
    """
    if out is not None and os.path.lexists(out):
        raise InputError(f"{out}: exists already and is not overwritten", "give another name with --out")
    found = survey(folder)
    if found.config is None or found.corpus is None:
        name = shlex.quote(str(folder))
        decode = f"speechctc decode {name} --format textgrid --out {name}"
        return Start(describe(found), None, (decode, f"speechctc start {name}"))
    config = out or _free_name(folder)
    text = config_text(found, config.stem)
    files.write_text(config, text)
    split = "test" if found.corpus.splits["test"] else "dev"
    name, run = shlex.quote(str(config)), shlex.quote(f"runs/{config.stem}")
    commands = (
        f"speechctc extract --config {name}",
        f"speechctc train --config {name}",
        f"speechctc evaluate --model {run} --split {split}",
    )
    return Start(describe(found), config, commands)


def advise(minutes: float, speakers: int | None) -> Advice:
    """Return settings for an amount of labelled speech, in minutes, and a number of speakers; None: not known."""
    if minutes < 10:
        amount, dev_share, epochs, limit, lr = "a few minutes", 0.2, 60, 10, 1e-3
    elif minutes < 60:
        amount, dev_share, epochs, limit, lr = "up to an hour", 0.15, 60, 45, 1e-3
    else:
        amount, dev_share, epochs, limit, lr = "hours", 0.1, 40, 180, 1e-3
    if speakers and speakers > 1:
        dev_share = min(max(dev_share, FEW_SPEAKERS / speakers), 0.3)
    return Advice(amount, round(dev_share, 2), epochs, limit, lr)


def config_text(found: Survey, name: str) -> str:
    """Return the text of a config for the recordings found, with the reasons of the settings as comments."""
    corpus, config = found.corpus, found.config
    assert corpus is not None and config is not None
    speakers = {utterance.speaker for utterance in found.utterances}
    known = len(speakers) if "" not in speakers else None
    minutes = found.sound.seconds / 60
    advice = advise(minutes, known)
    of = f" of {known} speaker{'s' if known != 1 else ''}" if known else ""
    lines = [
        f"# Written by: speechctc start {shlex.quote(str(found.folder))}",
        f"# for {minutes:.1f} minutes of labelled speech{of}.",
        "# Paths are relative to the folder where you run the commands.",
        "",
        "base: finetune          # training starts from the bundled model, with its net and its features",
        f"run: {_quoted(f'runs/{name}')}",
        "",
        "corpus:",
        f"  kind: {config.kind}",
    ]
    if config.kind == "table":
        lines += ["  tables:"]
        tables = ((split, getattr(config.tables, split)) for split in ("train", "dev", "test"))
        lines += [f"    {split}: {_quoted(str(path))}" for split, path in tables if path]
    if config.root is not None:
        lines += [f"  root: {_quoted(str(config.root))}"]
    if config.kind in ("textgrid", "elan"):
        lines += [f"  tier: {_quoted(config.tier)}        # the tier whose labels look like phones"]
    why = "TIMIT's labels" if config.kind == "timit" else "the phones are the labels found in the training split"
    lines += [f"  phones: {config.phones}         # {why}"]
    if corpus.dev_from_train:
        what = "speakers" if known and known > 1 else "utterances"
        why = f"share of the {what} for dev, which chooses the best epoch and is not trained on"
        lines += [f"  dev_share: {advice.dev_share}        # {why}"]
    lines += ["", "data:", f"  dir: {_quoted(f'data/features/{name}')}", "", "train:"]
    lines += [
        f"  epochs: {advice.epochs}            # for {advice.amount} of labelled speech",
        f"  minutes: {advice.minutes}           # longest training; the learning rate falls to 0 by its end",
        f"  lr: {advice.lr}             # the learning rate of the recipe for little data",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a string in quotes, so that YAML cannot read a name as something else."""
    return json.dumps(text, ensure_ascii=False)


def _free_name(folder: Path) -> Path:
    """Return a name for the config that no config, run or features folder here has."""
    stem = "-".join(folder.resolve().name.split()) or "recordings"
    for number in range(1, 1000):
        name = stem if number == 1 else f"{stem}-{number}"
        taken = (Path(f"{name}.yaml"), Path("runs") / name, Path("data/features") / name)
        if not any(os.path.lexists(path) for path in taken):
            return taken[0]
    raise InputError(f"{stem}.yaml: exists, as do {stem}-2 to {stem}-999", "give another name with --out")
