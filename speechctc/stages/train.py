"""Train a net on extracted features.

A run that was killed, or stopped by Ctrl-C or SIGTERM, can be resumed: ``last/`` holds the weights, the state of the
optimiser and the position in the epoch. On a CPU, a resumed run gives the same weights to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from speechctc import ctc
from speechctc.config.schema import Config
from speechctc.core.devices import allow_tf32, choose_device, is_out_of_memory
from speechctc.core.errors import InputError
from speechctc.core.parallel import only_training, stop_requests
from speechctc.core.progress import Reporter
from speechctc.training.dev_score import DevScore
from speechctc.training.distributed import process_group
from speechctc.training.records import Callbacks
from speechctc.training.runs import Draw, Run, draw_nothing
from speechctc.training.trainer import Stopped, Trainer

__all__ = ["Stopped", "train_net"]


def train_net(config: Config, resume: bool, reporter: Reporter) -> DevScore | None:
    """Train on the features in ``data.dir``; return the last score on dev, None if all epochs were done before.

    Raises
    ------
    InputError
        There are no features, or they are of another config; the run's folder is in use or of another config; the loss
        became NaN; another training is under way in this process.
    Stopped
        SIGINT or SIGTERM came; the state is saved in ``last/``.
    """
    return train_rank(config, resume, reporter)[0]


def train_rank(
    config: Config,
    resume: bool,
    reporter: Reporter,
    draw: Draw = draw_nothing,
    before: Callable[[Trainer], None] = lambda trainer: None,
    callbacks: Callbacks = Callbacks(),  # noqa: B008 - immutable
) -> tuple[DevScore | None, bool]:
    """Train as `train_net` does; return its score, and whether this is the main process.

    `draw` is as for `Run`; the main process calls `before` before the first step, and the `callbacks`.
    """
    run = Run(config.run, draw)
    device = choose_device(config.train.device)
    allow_tf32(config.train.tf32)
    with only_training(), process_group(device) as ranks, run.locked() if ranks.is_main else nullcontext():
        try:
            if ranks.is_main and (note := run.check(config, resume)):
                reporter.note(note)
            ranks.wait()
            own = reporter if ranks.is_main else _WarningsOnly(quiet=True)
            trainer = Trainer(config, run, device, ranks, own, callbacks)
            if ranks.is_main:
                before(trainer)
            if device.type == "cpu" and config.train.loss_backend in ("auto", "cpu"):
                ctc.warm_up()  # may compile it, which takes longer than some epochs
            with stop_requests(trainer.request_stop):
                return _explain_oom(trainer), ranks.is_main
        except BaseException:
            if ranks.is_main:
                run.abandon()
            raise


class _WarningsOnly(Reporter):
    """The reporter of all ranks but the first: prints warnings, no notes."""

    def note(self, *texts: str) -> None:
        """Print nothing."""


def _explain_oom(trainer: Trainer) -> DevScore | None:
    try:
        return trainer.train()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise InputError(
            f"out of memory ({str(error).splitlines()[0]})", "lower data.chunk_mib and train.batch_frames"
        ) from None
