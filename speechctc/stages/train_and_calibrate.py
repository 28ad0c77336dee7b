"""Train a net, then calibrate its best checkpoint: what ``speechctc train`` does."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from speechctc.config.schema import Config
from speechctc.core.progress import Reporter
from speechctc.inference.calibration import Calibration
from speechctc.stages.calibrate import calibrate_run
from speechctc.stages.train import train_rank
from speechctc.training.dev_score import DevScore


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
    dev, is_main = train_rank(config, resume, reporter)
    return Trained(dev, calibrate_run(config.run, reporter) if is_main else None, config.run)
