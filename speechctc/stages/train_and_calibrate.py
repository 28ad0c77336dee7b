"""Train a net with curves and warnings, then calibrate its best checkpoint: what ``speechctc train`` does."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

from speechctc.audio.recordings import TIERS, files_below
from speechctc.config.schema import Config
from speechctc.core.cores import attempt
from speechctc.core.errors import InputError, first_few
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import PHONES_FILE, SPLITS, repeats_note
from speechctc.features.shards import count_phones, read_split
from speechctc.inference.calibration import Calibration
from speechctc.stages.calibrate import calibrate_run
from speechctc.stages.doctor.quick_checks import check_counts, check_disk
from speechctc.stages.plot import CurvesFile
from speechctc.stages.train import train_rank
from speechctc.training.dev_score import DevScore
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


def train(config: Config, resume: bool, reporter: Reporter) -> Trained:
    """Train the config's net on the features in ``data.dir``, and calibrate ``best/`` on dev.

    Raises as `stages.train.train_net` does.
    """
    curves = CurvesFile(config.run / "curves.png", config.train.curves)

    def before(trainer: Trainer) -> None:
        warn(trainer)
        reporter.note(*filter(None, [curves.note]))

    dev, is_main = train_rank(config, resume, reporter, curves.update, before)
    return Trained(dev, calibrate_run(config.run, reporter) if is_main else None, config.run)


def warn(trainer: Trainer) -> None:
    """Say in a line each what the doctor finds at once."""
    data = trainer.data
    reading = partial(read_split, features=trainer.config.features.model_dump(mode="json"))
    test = attempt(reading, trainer.config.data.dir / "test")
    shards = {split: data.shards[split] for split in ("train", "dev")}
    shards |= {} if isinstance(test, InputError) else {"test": test}
    counts = {split: count_phones(each, data.inventory.phones) for split, each in shards.items()}
    found = [*check_counts(counts), *check_disk((trainer.config.run,))]
    trainer.reporter.warn(*(finding.to_line() for finding in found))
    if repeated := repeats_note("dev", *data.repeated):
        trainer.reporter.warn(repeated)
    if newer := _changed_labels(trainer.config):
        what = f"newer than the features: {first_few(newer, 3)}; the net learns the labels of before"
        trainer.reporter.warn(f"{what}; if any changed, run speechctc extract first")
    if found:
        trainer.reporter.note("speechctc doctor with this config says why that matters, and looks further")


def _changed_labels(config: Config) -> list[str]:
    """Return the tables and files of tiers that are newer than the features."""
    corpus, made = config.corpus, config.data.dir / PHONES_FILE
    if not made.exists():
        return []
    paths = [path for split in SPLITS for path in corpus.tables.of(split)]
    if corpus.root and corpus.kind in ("textgrid", "elan"):
        paths += [path for path in files_below(corpus.root) if path.suffix.lower() in TIERS]
    extracted = made.stat().st_mtime
    return sorted(str(path) for path in paths if path.exists() and path.stat().st_mtime > extracted)
