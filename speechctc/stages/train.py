"""Train a net on extracted features.

A run that was killed, or stopped by Ctrl-C or SIGTERM, can be resumed: ``last/`` holds the weights, the state of the
optimiser and the position in the epoch. On a CPU, a resumed run gives the same weights to the bit.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from speechctc.audio.folders import LABEL_TRACKS, TIERS, files_below
from speechctc.config.schema import Config
from speechctc.core import files
from speechctc.core.devices import allow_tf32, choose_device, is_out_of_memory
from speechctc.core.errors import InputError, first_few, with_extra
from speechctc.core.parallel import attempt
from speechctc.core.progress import Reporter
from speechctc.core.training_process import only_training, stop_requests
from speechctc.corpora.corpus import PHONES_FILE, SPLITS, repeats_note
from speechctc.corpora.findings import check_counts, check_disk
from speechctc.ctc.entry import warm_up
from speechctc.features.splits import read_table
from speechctc.pages import figures
from speechctc.training.dev_score import DevScore
from speechctc.training.distributed import Ranks, process_group
from speechctc.training.records import Callbacks
from speechctc.training.runs import Run
from speechctc.training.trainer import Stopped, Trainer

__all__ = ["Stopped", "Trained", "train"]

SHARE = 0.02  # of the time, at most, for drawing
MIN_EPOCHS = 2  # epochs


class Trained(NamedTuple):
    """The result of training.

    Attributes
    ----------
    dev : DevScore or None
        The score of the last epoch on dev, not of the best one; None if there was none to do.
    run : Path
        The folder of the run.
    is_main : bool
        Whether this is the process that wrote it; the others of several compute a share of each step.
    """

    dev: DevScore | None
    run: Path
    is_main: bool


def train(
    config: Config,
    resume: bool,
    reporter: Reporter,
    callbacks: Callbacks = Callbacks(),  # noqa: B008 - immutable
) -> Trained:
    """Train the config's net on the features in ``data.dir``; `speechctc.stages.calibrate.calibrate_run` comes next.

    Raises
    ------
    InputError
        There are no features, or they are of another config; the run's folder is in use or of another config; the loss
        became NaN; another training is under way in this process.
    Stopped
        SIGINT or SIGTERM came; the state is saved in ``last/``.
    """
    callbacks.check()
    curves = CurvesFile(config.run / "curves.png", config.train.curves)
    run = Run(config.run, curves.update)
    device = choose_device(config.train.device)
    allow_tf32(config.train.tf32)
    with only_training(), process_group(device) as ranks, run.locked() if ranks.is_main else nullcontext():
        try:
            if ranks.is_main and (note := run.check(config, resume)):
                reporter.note(note)
            ranks.wait()
            own = reporter if ranks.is_main else _Other(reporter, ranks)
            trainer = Trainer(config, run, device, ranks, own, callbacks)
            if ranks.is_main:
                _warn(trainer)
                reporter.note(*filter(None, [curves.note]))
            if device.type == "cpu" and config.train.loss_backend in ("auto", "cpu"):
                warm_up()  # may compile it, which takes longer than some epochs
            with stop_requests(trainer.request_stop):
                return Trained(_explain_oom(trainer), config.run, ranks.is_main)
        except BaseException:
            if ranks.is_main:
                run.abandon()
            raise


class _Other(Reporter):
    """The reporter of all ranks but the first: what that one says too is not said again."""

    def __init__(self, given: Reporter, ranks: Ranks) -> None:
        super().__init__(quiet=True)
        self._given, self._who = given, f"process {ranks.rank + 1} of {ranks.world_size}"

    def note(self, *texts: str) -> None:
        """Print nothing."""

    def warn(self, *texts: str) -> None:
        """Print nothing."""

    def warn_of_this_process(self, *texts: str) -> None:
        """Print a warning for each text, and which process it is."""
        self._given.warn(*(f"{self._who}: {text}" for text in texts))


def _explain_oom(trainer: Trainer) -> DevScore | None:
    try:
        return trainer.train()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise InputError(
            f"out of memory ({str(error).splitlines()[0]})", "lower data.chunk_mib and train.batch_frames"
        ) from None


def _warn(trainer: Trainer) -> None:
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
        endings = LABEL_TRACKS if corpus.kind == "labels" else TIERS
        paths += [path for path in files_below(corpus.root) if path.suffix.lower() in endings]
    extracted = made.stat().st_mtime
    return sorted(str(path) for path in paths if path.exists() and path.stat().st_mtime > extracted)


class CurvesFile:
    """Draws the epochs of a run; without matplotlib, or with ``train.curves=false``, it draws nothing.

    Parameters
    ----------
    path : Path
        The picture.
    wanted : bool
    """

    def __init__(self, path: Path, wanted: bool) -> None:
        self.path, self.note, self._draws = path, "", wanted and figures.is_available()
        self._next, self._drawn = 0.0, 0
        if self._draws:
            self.note = f"curves of this run, from the second epoch on: {path}"
        elif wanted:
            why = f"because matplotlib is not installed ({with_extra('report')})"
            self.note = f"no {path.name} is drawn, {why}; speechctc plot {path.parent} draws it later"

    def update(self, epochs: Sequence[dict[str, Any]], last: bool = False) -> None:
        """Draw the epochs, unless they are drawn or the last drawing is too recent; if it is the `last`, draw anyway.

        A picture must not end a training: if it cannot be drawn, it is not.
        """
        if not self._draws or len(epochs) < MIN_EPOCHS or len(epochs) == self._drawn:
            return
        began = time.monotonic()
        if began < self._next and not last:
            return
        try:
            files.write_bytes(self.path, figures.draw_curves({str(self.path.parent): epochs}))
        except Exception:  # whatever matplotlib raises, of damaged fonts or folders that it cannot write to
            self._draws = False
            return
        self._drawn, now = len(epochs), time.monotonic()
        self._next = now + (now - began) / SHARE
