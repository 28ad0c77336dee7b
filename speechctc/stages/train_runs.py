"""Training runs: one with curves, warnings and calibration, as ``speechctc train`` makes it, and sweeps of several."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from speechctc.audio.recordings import TIERS, files_below
from speechctc.config.load import load_config
from speechctc.config.schema import Config
from speechctc.core import files, written
from speechctc.core.errors import InputError, columns, first_few
from speechctc.core.parallel import attempt
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import PHONES_FILE, SPLITS, repeats_note
from speechctc.corpora.label_tracks import BESIDE
from speechctc.features.splits import read_table
from speechctc.inference.segmenter import Calibration
from speechctc.stages.calibrate import calibrate_run
from speechctc.stages.doctor import check_counts, check_disk
from speechctc.stages.plot import CurvesFile
from speechctc.stages.train import train_rank
from speechctc.training.dev_score import DevScore
from speechctc.training.records import Callbacks
from speechctc.training.runs import point_latest
from speechctc.training.trainer import Trainer


class Trained(NamedTuple):
    """The result of training.

    Attributes
    ----------
    dev : DevScore or None
        The last score on dev; None if all epochs were done before.
    calibration : Calibration or None
        The new calibration of ``best/``; None if there was one already, dev is too small, or another process of several
        computes it.
    run : Path
        The folder of the run.
    """

    dev: DevScore | None
    calibration: Calibration | None
    run: Path


def train(
    config: Config,
    resume: bool,
    reporter: Reporter,
    callbacks: Callbacks = Callbacks(),  # noqa: B008 - immutable
) -> Trained:
    """Train the config's net on the features in ``data.dir``, and calibrate ``best/`` on dev.

    Raises as `stages.train.train_net` does.
    """
    curves = CurvesFile(config.run / "curves.png", config.train.curves)

    def before(trainer: Trainer) -> None:
        warn(trainer)
        reporter.note(*filter(None, [curves.note]))

    dev, is_main = train_rank(config, resume, reporter, curves.update, before, callbacks)
    return Trained(dev, calibrate_run(config.run, reporter) if is_main else None, config.run)


def warn(trainer: Trainer) -> None:
    """Say in a line each what the doctor finds at once."""
    data = trainer.data
    test = attempt(read_table, trainer.config.data.dir / "test")
    tables = {split: each.table for split, each in data.features.items()}
    tables |= {} if isinstance(test, InputError) else {"test": test}
    counts = {split: table.count_phones() for split, table in tables.items()}
    found = [*check_counts(counts), *check_disk((trainer.config.run,))]
    trainer.reporter.warn(*(finding.to_line() for finding in found))
    if repeated := repeats_note("dev", *data.repeated):
        trainer.reporter.warn(repeated)
    if newer := _changed_labels(trainer.config):
        what = f"newer than the features: {first_few(newer, 3)}; the net learns the labels of before"
        trainer.reporter.warn(f"{what}; if any changed, run speechctc extract first, which makes only what is new")
    if found:
        trainer.reporter.note("speechctc doctor with this config says why that matters, and looks further")


def _changed_labels(config: Config) -> list[str]:
    """Return the tables and files of tiers that are newer than the features."""
    corpus, made = config.corpus, config.data.dir / PHONES_FILE
    if not made.exists():
        return []
    paths = [path for split in SPLITS for path in corpus.tables.of(split)]
    if corpus.root and corpus.kind in ("textgrid", "elan", "labels"):
        endings = BESIDE if corpus.kind == "labels" else TIERS
        paths += [path for path in files_below(corpus.root) if path.suffix.lower() in endings]
    extracted = made.stat().st_mtime
    return sorted(str(path) for path in paths if path.exists() and path.stat().st_mtime > extracted)


@dataclass(frozen=True)
class Trial:
    """One combination of the settings.

    Attributes
    ----------
    settings : tuple of str
        ``key=value``, those that differ between trials.
    run : Path
    """

    settings: tuple[str, ...]
    run: Path

    @property
    def name(self) -> str:
        """Return the settings in one line."""
        return " ".join(self.settings)


class Outcome(NamedTuple):
    """How a trial ended: its lowest dev PER and the epoch of it, or why there is none."""

    trial: Trial
    per: float | None
    epoch: int | None
    problem: str | None


def sweep(config: str, settings: Sequence[str], folder: Path, reporter: Reporter) -> list[Outcome]:
    """Train every combination, one after the other; return the outcomes, lowest dev PER first.

    Trials of an earlier sweep go on where they stopped; those that were finished keep their result.

    Parameters
    ----------
    config : str
        As for ``--config``.
    settings : sequence of str
        ``key=value`` for all trials, ``key=value,value`` for one of each.
    folder : Path
        The run folders lie in it.
    reporter : Reporter

    Raises
    ------
    InputError
        A setting that the config does not know; nothing varies.
    Stopped
        SIGINT or SIGTERM came; the state of the trial is saved.
    """
    common, trials = plan_trials(settings, folder)
    configs = {trial: load_config(config, [*common, *trial.settings, f"run={trial.run}"]) for trial in trials}
    outcomes = []
    for number, (trial, own) in enumerate(configs.items(), start=1):
        written.refuse_linked_folder(trial.run)
        reporter.note(f"trial {number} of {len(trials)}: {trial.name}")
        problem = attempt(lambda own: train(own, True, reporter), own)
        per, epoch = _best(trial.run / "best")
        why = str(problem) if isinstance(problem, InputError) else None
        why = why or (None if per is not None else "ended before an epoch was scored")
        outcomes.append(Outcome(trial, per, epoch, why))
        reporter.note(f"{trial.name}: {why or f'dev PER {per:.2f} %'}")
    outcomes.sort(key=lambda outcome: (outcome.per is None, outcome.per or 0.0))
    rows = [
        {"dev_per": per, "epoch": epoch, "settings": trial.settings, "run": str(trial.run), "problem": problem}
        for trial, per, epoch, problem in outcomes
    ]
    files.write_json(folder / "sweep.json", rows)
    if outcomes[0].per is not None:
        point_latest(outcomes[0].trial.run)
    return outcomes


def plan_trials(settings: Sequence[str], folder: Path) -> tuple[list[str], list[Trial]]:
    """Return the settings that all trials share, and the trials."""
    common, axes = [], []
    for setting in settings:
        key, equals, value = setting.partition("=")
        values = split_values(value)
        if equals and len(values) > 1:
            axes.append([f"{key}={one}" for one in values])
        else:
            common.append(setting)
    if not axes:
        raise InputError("nothing varies in this sweep", "give some key several values: train.lr=1e-4,3e-4")
    combinations = list(itertools.product(*axes))
    trials = [Trial(each, folder / _folder_name(each)) for each in combinations]
    for one, other in itertools.combinations(trials, 2):
        if one.run == other.run:
            raise InputError(f"{one.name!r} and {other.name!r} would both be trained in {one.run}", "leave one out")
    return common, trials


def split_values(text: str) -> list[str]:
    """Split at the commas that divide values of YAML: ``[8,8],[16]`` is two values."""
    whole = f"[{text}]"
    try:
        node: Any = yaml.compose(whole, yaml.SafeLoader)
    except yaml.YAMLError:  # said where the value is read
        return [text]
    return [whole[each.start_mark.index : each.end_mark.index] for each in node.value]


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes for people, a line each."""
    rows = [("dev PER", "epoch", "settings", "run")]
    for outcome in outcomes:
        per = f"{outcome.per:.2f} %" if outcome.per is not None else "-"
        problem = f"  ({outcome.problem})" if outcome.problem else ""
        rows.append((per, str(outcome.epoch or "-"), outcome.trial.name, f"{outcome.trial.run}{problem}"))
    return "\n".join(columns(rows, "rrll"))


def _folder_name(settings: Sequence[str]) -> str:
    """Name a folder after the settings, by the last part of their keys where that is enough."""
    short = [re.sub(r"^[^=]*\.", "", setting) for setting in settings]
    keys = {each.partition("=")[0] for each in short}
    return re.sub(r"[^\w.=,+-]+", "_", "_".join(short if len(keys) == len(short) else settings)).strip("_")


def _best(folder: Path) -> tuple[float | None, int | None]:
    """Return the dev PER and the epoch of a checkpoint; None where it has no such number."""
    try:
        facts = files.read_json(files.standing(folder) / "checkpoint.json")
        return float(facts["dev_per"]), int(facts["epoch"])
    except (OSError, ValueError, LookupError, TypeError, OverflowError):
        return None, None
