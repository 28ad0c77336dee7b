"""The training stage: shards to checkpoints.

A run can be cut off at any instant, or stopped by Ctrl-C or a cluster's SIGTERM, and taken up again: `last/` then holds
the weights, the optimiser's state and the place in the epoch, and on a CPU the run goes on bit for bit.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType

from speechctc import ctc
from speechctc.config.schema import Config
from speechctc.devices import allow_tf32, choose_device, is_out_of_memory
from speechctc.errors import InputError
from speechctc.progress import Reporter
from speechctc.training.chunks import Batch
from speechctc.training.dev_score import DevScore
from speechctc.training.distributed import Ranks, process_group
from speechctc.training.profiling import Profile, StepTimes
from speechctc.training.runs import Run
from speechctc.training.trainer import Stopped, Trainer

__all__ = ["Stopped", "profile", "train"]

WARM_UP = 3  # steps before a profile begins


def train(config: Config, resume: bool, reporter: Reporter) -> DevScore | None:
    """Train the config's net on the features in ``data.dir``; return the last dev score, None if none was left to do.

    Raises
    ------
    InputError
        No features, or of another config; a run folder in use or of another config; the loss became NaN.
    Stopped
        SIGINT or SIGTERM: the state is saved in ``last/``.
    """
    run = Run(config.run)
    device = choose_device(config.train.device)
    allow_tf32(config.train.tf32)
    with process_group(device) as ranks, run.locked() if ranks.is_main else nullcontext():
        try:
            if ranks.is_main:
                run.check(config, resume)
            ranks.wait()
            trainer = Trainer(config, run, device, ranks, reporter if ranks.is_main else _WarningsOnly())
            _compile_loss(trainer)
            with _stop_signals(trainer):
                return _explain_oom(trainer)
        except BaseException:
            if ranks.is_main:
                run.abandon()
            raise


def profile(config: Config, steps: int, reporter: Reporter) -> StepTimes:
    """Take some steps and say where their time went; nothing is saved but a trace beside the run's folder."""
    device = choose_device(config.train.device)
    allow_tf32(config.train.tf32)
    trace = config.run.with_name(f"{config.run.name}.trace.json")
    trainer = Trainer(config, Run(trace.with_suffix(".none")), device, Ranks(), reporter)
    learner, clock, frames = trainer.learner, Profile(device), 0
    learner.net.train()
    batches = _endless(trainer)
    for number in range(WARM_UP):
        learner.step(batch := next(batches), int(batch.counts.sum()), trainer.stage.lr, number)
    learner.clock = clock
    with clock.recording(trace):
        for number in range(WARM_UP, WARM_UP + steps):
            waited = trainer.data.train.waited
            with clock("copy"):
                batch = next(batches)
            clock.move("copy", "data", trainer.data.train.waited - waited)
            learner.step(batch, int(batch.counts.sum()), trainer.stage.lr, number)
            frames += int(batch.lengths.sum())
    return StepTimes(steps, frames, clock.seconds, trace)


def _compile_loss(trainer: Trainer) -> None:
    """Compile the CPU's CTC loss where that has not been done on this machine, and say what takes the time."""
    if trainer.device.type == "cpu" and trainer.config.train.loss_backend in ("auto", "cpu") and not ctc.is_compiled():
        trainer.reporter.note("compiling the CTC loss for this machine; this happens once")
        ctc.warm_up()


def _endless(trainer: Trainer) -> Iterator[Batch]:
    """Yield batches, epoch after epoch."""
    while True:
        yield from (batch for batch in trainer.data.train.batches(trainer.plan()) if batch is not None)
        trainer.progress.next_epoch()


class _WarningsOnly(Reporter):
    """What a rank says that is not the first."""

    def __init__(self) -> None:
        super().__init__(quiet=True)

    def note(self, text: str) -> None:
        """Say nothing: the first rank does."""


def _explain_oom(trainer: Trainer) -> DevScore | None:
    try:
        return trainer.train()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise InputError(
            f"out of memory ({str(error).splitlines()[0]})", "lower data.chunk_mib and train.batch_frames"
        ) from None


@contextmanager
def _stop_signals(trainer: Trainer) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into a request to save and leave; a second Ctrl-C leaves at once."""

    def handle(number: int, frame: FrameType | None) -> None:
        if trainer.stop_status is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        trainer.request_stop(128 + number)

    try:
        previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: signals are someone else's
        yield
        return
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
