"""Describe a folder of recordings, and write a config to train on it. Loads no torch."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from speechctc.corpora.survey import Survey, survey
from speechctc.corpora.survey_text import describe, is_held_out
from speechctc.errors import InputError
from speechctc.storage import files

FEW_SPEAKERS = 3  # in dev; a score on fewer says little about other speakers


@dataclass(frozen=True)
class Advice:
    """Settings for an amount of speech.

    Attributes
    ----------
    amount : str
    dev_share, epochs, minutes, lr : float
        Values for the config; training takes `minutes` at most.
    """

    amount: str
    dev_share: float
    epochs: int
    minutes: int
    lr: float


@dataclass(frozen=True)
class Start:
    """The result of `start`: what was found, the config that was written, and the next commands.

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
            lines += [f"wrote {self.config}; comments in it give the reason for each setting", ""]
            lines += ["Next, from this folder:", ""]
        else:
            lines += [
                "There are no labels to train on. The bundled model can write first ones, which you correct in Praat:",
                "",
            ]
        lines += [f"    {command}" for command in self.commands]
        if not self.config:
            lines += [
                "",
                "The model is for English and makes many errors. Correct the tier 'phones', and delete the TextGrids",
                "that you did not correct. Then run the last command: it takes all TextGrids in the folder as correct.",
            ]
        return "\n".join(lines)


def start(folder: Path, out: Path | None = None) -> Start:
    """Describe a folder of recordings, and write a config to train on them.

    Parameters
    ----------
    folder : Path
        Nothing in it is changed.
    out : Path, optional
        The config to write; by default in the working directory, named after the folder.

    Raises
    ------
    InputError
        There are no recordings in the folder, or `out` exists.
    """
    if out is not None and out.exists():
        raise InputError(f"{out}: exists already, and is not overwritten", "give another name with --out")
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
    """Choose settings for some minutes of labelled speech by some speakers; None: an unknown number."""
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
    """Return the text of the config, with the reasons as comments."""
    corpus, config = found.corpus, found.config
    assert corpus is not None and config is not None
    speakers = {utterance.speaker for utterance in found.utterances}
    known = len(speakers) if "" not in speakers else None
    minutes = found.sound.seconds / 60
    advice = advise(minutes, known)
    of = f" of {known} speaker{'s' if known != 1 else ''}" if known else ""
    lines = [
        f"# Made by: speechctc start {shlex.quote(str(found.folder))}",
        f"# for {minutes:.1f} minutes of labelled speech{of}. Paths begin in the folder where the commands are run.",
        "",
        "base: finetune          # on from the bundled model, with its net and its features",
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
    if config.kind == "textgrid":
        lines += [f"  tier: {_quoted(config.tier)}        # whose labels look like phones"]
    why = "TIMIT's labels" if config.kind == "timit" else "the labels of the training split are the phones"
    lines += [f"  phones: {config.phones}         # {why}"]
    if is_held_out(found):
        what = "speakers" if known and known > 1 else "utterances"
        lines += [
            f"  dev_share: {advice.dev_share}        # of the {what}: they choose the best epoch and are not trained on"
        ]
    lines += ["", "data:", f"  dir: {_quoted(f'data/features/{name}')}", "", "train:"]
    lines += [
        f"  epochs: {advice.epochs}            # for {advice.amount} of labelled speech",
        f"  minutes: {advice.minutes}           # ends it then if that is sooner; the rate falls to 0 by then",
        f"  lr: {advice.lr}             # of the recipe for little data",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Quote a string for YAML, so that it is not read as another type."""
    return json.dumps(text, ensure_ascii=False)


def _free_name(folder: Path) -> Path:
    """Return a name for the config that no config, run or features have here."""
    stem = "-".join(folder.resolve().name.split()) or "recordings"
    for number in range(1, 1000):
        name = stem if number == 1 else f"{stem}-{number}"
        taken = (Path(f"{name}.yaml"), Path("runs") / name, Path("data/features") / name)
        if not any(path.exists() for path in taken):
            return taken[0]
    raise InputError(f"{stem}.yaml: exists, as do {stem}-2 to {stem}-999", "give another name with --out")
