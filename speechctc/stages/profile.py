"""Profile some training steps: where their time goes. Saves nothing but a trace."""

from __future__ import annotations

from collections.abc import Iterator

from speechctc.config.schema import Config
from speechctc.core.devices import allow_tf32, choose_device
from speechctc.core.progress import Reporter
from speechctc.training.batches import Batch, TrainingData
from speechctc.training.distributed import Ranks
from speechctc.training.optimise import stages
from speechctc.training.profiling import Profile, StepTimes
from speechctc.training.trainer import first_learner

WARM_UP = 3  # steps before the profile begins


def profile(config: Config, steps: int, reporter: Reporter) -> StepTimes:
    """Take steps as the first of a run are taken, and time their parts.

    Parameters
    ----------
    config : Config
        Its run's folder is neither read nor written; the trace is written beside it.
    steps : int
        Steps to time, at least 1; some others are taken before.
    reporter : Reporter

    Raises
    ------
    InputError
        There are no features, or they are of another config.
    """
    device = choose_device(config.train.device)
    allow_tf32(config.train.tf32)
    data = TrainingData(config, device, reporter)
    stage = stages(config.train)[0]
    learner = first_learner(config, data, stage, Ranks(), reporter)
    learner.net.train()
    batches, clock, frames = _endless(data, config.train.seed), Profile(device), 0
    for number in range(WARM_UP):
        learner.step(batch := next(batches), int(batch.counts.sum()), stage.lr, number)
    learner.clock = clock
    trace = config.run.with_name(f"{config.run.name}.trace.json")
    with clock.recording(trace):
        for number in range(WARM_UP, WARM_UP + steps):
            waited = data.train.waited
            with clock("copy"):
                batch = next(batches)
            clock.move("copy", "data", data.train.waited - waited)
            learner.step(batch, int(batch.counts.sum()), stage.lr, number)
            frames += int(batch.lengths.sum())
    return StepTimes(steps, frames, clock.seconds, trace)


def _endless(data: TrainingData, seed: int) -> Iterator[Batch]:
    """Yield batches, epoch after epoch."""
    while True:
        yield from (batch for batch in data.train.batches(data.train.plan(seed, 1)) if batch is not None)
        seed += 1
