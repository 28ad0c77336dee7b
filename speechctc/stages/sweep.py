"""Train every combination of some settings, one after the other."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from speechctc.config.load import load_config
from speechctc.config.schema import Config
from speechctc.core import files, links
from speechctc.core.errors import InputError, columns
from speechctc.core.latest_run import point_latest
from speechctc.core.parallel import attempt
from speechctc.core.progress import Reporter
from speechctc.stages.calibrate import calibrate_run
from speechctc.stages.train import train
from speechctc.training.runs import locked_folder


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
        A setting that the config does not know; nothing varies; another process sweeps in the folder.
    Stopped
        SIGINT or SIGTERM came; the state of the trial is saved.
    """
    common, trials = plan_trials(settings, folder)
    configs = {trial: load_config(config, [*common, *trial.settings, f"run={trial.run}"]) for trial in trials}
    with locked_folder(folder, "sweeping"):
        outcomes = []
        for number, (trial, own) in enumerate(configs.items(), start=1):
            reporter.note(f"trial {number} of {len(trials)}: {trial.name}")
            outcomes.append(_outcome(trial, own, reporter))
        outcomes.sort(key=lambda outcome: (outcome.per is None, outcome.per or 0.0))
        rows = [
            {"dev_per": per, "epoch": epoch, "settings": trial.settings, "run": str(trial.run), "problem": problem}
            for trial, per, epoch, problem in outcomes
        ]
        files.write_json(folder / "sweep.json", rows)
        if outcomes[0].per is not None:
            point_latest(outcomes[0].trial.run)
    return outcomes


def _outcome(trial: Trial, config: Config, reporter: Reporter) -> Outcome:
    """Train a trial, as far as it is not, and say how it ended."""
    links.refuse_linked_folder(trial.run)
    problem = attempt(lambda own: _train(own, reporter), config)
    per, epoch = _best(trial.run / "best")
    why = str(problem) if isinstance(problem, InputError) else None
    why = why or (None if per is not None else "ended before an epoch was scored")
    reporter.note(f"{trial.name}: {why or f'dev PER {per:.2f} %'}")
    return Outcome(trial, per, epoch, why)


def _train(config: Config, reporter: Reporter) -> None:
    """Train and calibrate a trial."""
    if train(config, True, reporter).is_main:
        calibrate_run(config.run, reporter)


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
