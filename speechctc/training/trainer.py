"""The training loop of one run: epochs, scoring, checkpoints, resuming."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from speechctc.config.schema import Config
from speechctc.core.devices import is_out_of_memory
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.model.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from speechctc.training.chunks import Batch
from speechctc.training.data import TrainingData
from speechctc.training.dev_score import DevScore, score_dev
from speechctc.training.distributed import Ranks
from speechctc.training.epoch_plan import EpochPlan, Indices
from speechctc.training.initialise import first_net
from speechctc.training.loss_watch import LossWatch
from speechctc.training.memory_estimate import estimate
from speechctc.training.optimise import Stage, stages
from speechctc.training.report import LEGEND, bar_text, epoch_record, epoch_text, introduction
from speechctc.training.run_record import run_record
from speechctc.training.run_state import Progress, ResumeState
from speechctc.training.runs import Run
from speechctc.training.sentinel import Net, news
from speechctc.training.train_step import Learner


class Stopped(Exception):
    """Raised when training was asked to stop, after the state was saved; `status` is the exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"stopped with status {status}")
        self.status = status


def first_learner(
    config: Config, data: TrainingData, stage: Stage, ranks: Ranks, reporter: Reporter, resumed: bool = False
) -> Learner:
    """Return the learner at the start of a stage; in a resumed run without the weights of ``train.init_from``."""
    net = first_net(config, data.inventory, None if resumed else config.train.init_from, reporter)
    net = net.to(data.mean.device)
    ranks.share_weights(net)
    learner = Learner(config, net, data.mean, data.std, ranks, reporter)
    learner.start_stage(stage)
    return learner


class Trainer:
    """One run: the learner, its data and its progress.

    Parameters
    ----------
    config : Config
    run : Run
        If it holds a ``last/`` checkpoint, training resumes from it.
    device : torch.device
    ranks : Ranks
    reporter : Reporter
    """

    def __init__(self, config: Config, run: Run, device: torch.device, ranks: Ranks, reporter: Reporter) -> None:
        self.config, self.run, self.device, self.ranks, self.reporter = config, run, device, ranks, reporter
        self.data = TrainingData(config, device, reporter)
        resumed = (run.last / "checkpoint.json").exists()
        self.stages = stages(config.train, ranks.world_size)
        self.stage = self.stages[0]
        self.learner = first_learner(config, self.data, self.stage, ranks, reporter, resumed)
        self.progress = Progress()
        self.remaining: Indices = self.data.members(
            self._epoch_seed()
        )  # utterances that the current epoch's plan covers
        self.stop_status: int | None = None
        self.net_facts = Net.of(config.model, self.data.inventory)
        self.lm = self.data.phone_lm(config.decode.lm_order, config.decode.lm_cutoff)
        self._session_began = self._saved_at = time.monotonic()
        self._elapsed_before = 0.0
        if resumed:
            self._restore()

    def train(self) -> DevScore | None:
        """Train until the last stage or ``train.minutes`` ends."""
        self._introduce()
        record = run_record(self.config, self.data.shards, self.device, self.ranks.world_size)
        if self.ranks.is_main and (note := self.run.begin(self.config, record)):
            self.reporter.note(note)
        dev = None
        while self.progress.epoch < self.last_epoch and not (self._out_of_time() and self._is_scored()):
            self._enter_stage()
            self._epoch()
            dev = self._finish_epoch()
        self.run.close()
        if dev is None:
            self.reporter.note(f"{self.run.folder}: all of it is done already; train.epochs and train.minutes end it")
        return dev

    def request_stop(self, status: int) -> None:
        """Save and stop after the current step."""
        self.stop_status = status

    def plan(self) -> EpochPlan:
        """Return the plan of the current epoch."""
        return self.data.train.plan(self._epoch_seed(), self.ranks.world_size, self.remaining)

    def _epoch_seed(self) -> int:
        return self.config.train.seed * 1_000_003 + self.progress.epoch

    @property
    def last_epoch(self) -> int:
        """The number of epochs of all stages."""
        return self.stages[-1].end

    def _epoch(self) -> None:
        """Train to the end of the epoch or of ``train.minutes``."""
        if self._out_of_time():
            return
        self.learner.net.train()
        progress, plan = self.progress, self.plan()
        phones, frames = plan.totals(self.data.train.split.label_counts), plan.totals(self.data.train.split.frames)
        watch = LossWatch(self.data.train.split.ids, self.device)
        batches = self.data.train.batches(plan, self.ranks.rank, skip=progress.batch)
        began, waited = time.perf_counter(), self.data.train.waited
        with self.reporter.progress(f"epoch {progress.epoch + 1}", plan.steps) as advance:
            advance(progress.batch)
            while progress.batch < plan.steps:
                rate = self.stage.rate(progress.stage_step, self._share_done(plan))
                where = f"epoch {progress.epoch + 1}, step {progress.step + 1}"
                loss = self._step(next(batches), int(phones[progress.batch]), rate)
                progress.next_step(float(phones[progress.batch]), float(frames[progress.batch]), rate)
                progress.loss += watch.add(where, *loss)
                now = time.perf_counter()
                progress.seconds, began = progress.seconds + now - began, now
                progress.waited, waited = progress.waited + self.data.train.waited - waited, self.data.train.waited
                advance(1, bar_text(progress, rate))
                if self._between_steps(watch):
                    break
        progress.loss += watch.flush()
        self.learner.check_labels()

    def _step(self, batch: Batch | None, phones: int, rate: float) -> tuple[Batch | None, Tensor]:
        return batch, self.learner.step(batch, phones, rate, self.progress.step)

    def _between_steps(self, watch: LossWatch) -> bool:
        """Save or stop if it is time, at the same step on all ranks; return whether the run is out of time."""
        elapsed = self._elapsed_before + time.monotonic() - self._session_began
        due = time.monotonic() - self._saved_at >= 60 * self.config.train.save_minutes
        status, save, self.progress.elapsed = self.ranks.max([self.stop_status or 0, due, elapsed])
        if status:
            self.progress.loss += watch.flush()
            self._stop(int(status))
        if save:
            self.progress.loss += watch.flush()
            self._save_last()
        return self._out_of_time()

    def _stop(self, status: int) -> None:
        self._save_last()
        raise Stopped(status)

    def _out_of_time(self) -> bool:
        return self.progress.is_out_of_time(self.config.train.minutes)

    def _is_scored(self) -> bool:
        """Return whether dev was scored after the last step; it was not if the run was stopped while scoring."""
        return self.progress.scored == self.progress.step

    def _share_done(self, plan: EpochPlan) -> float:
        """Return the fraction of the stage that is done, by epochs or by time, whichever is larger."""
        whole = len(self.data.members(self._epoch_seed()))
        before = 1 - len(self.remaining) / whole  # of the epoch, before it was planned again
        of_epoch = before + (1 - before) * self.progress.batch / plan.steps
        share = (self.progress.epoch - self.stage.first_epoch + of_epoch) / self.stage.epochs
        minutes = self.config.train.minutes
        return min(max(share, self.progress.elapsed / (60 * minutes) if minutes else 0.0), 1.0)

    def _evaluate(self) -> DevScore | None:
        with self.learner.ema_weights():
            return score_dev(self.learner, self.data, self.lm, lambda: self.stop_status is not None)

    def _finish_epoch(self) -> DevScore:
        progress = self.progress
        dev = self._evaluate()
        if dev is None:  # stopped: the saved epoch has no batch left, so that resuming begins with scoring it
            (status,) = self.ranks.max([self.stop_status or 0])
            self._stop(int(status))
        assert dev is not None
        (loss,) = self.ranks.sum([progress.loss])
        line = epoch_record(progress, dev, loss, self.learner)
        alarms = news(self.run.epochs() if self.ranks.is_main else [], line, self.net_facts)
        line["alarms"] = " ".join(alarm.kind for alarm in alarms)
        better = progress.score(dev.counts.per)
        if progress.batch >= self.plan().steps:
            progress.next_epoch()
            self.learner.norms.reset()
            self.remaining = self.data.members(self._epoch_seed())
        if self.ranks.is_main:
            self._record_epoch(line, better)  # before last/: if killed in between, the end of the epoch is repeated
        self._end_stage_early()
        self._save_last(line)
        self.reporter.note(epoch_text(line, self.last_epoch, better))
        for alarm in alarms:
            (self.reporter.note if alarm.expected else self.reporter.warn)(alarm.text)
        return dev

    def _record_epoch(self, line: dict[str, Any], better: bool) -> None:
        self.run.log(line)
        with self.learner.ema_weights():
            if better:
                save_checkpoint(self.run.best, self._checkpoint(line))

    def _end_stage_early(self) -> None:
        patience = self.config.train.patience
        if patience and self.progress.stale >= patience and self.progress.epoch < self.stage.end:
            self.reporter.note(f"dev PER has not fallen for {patience} epochs: the {self.stage.name} stage ends here")
            self.progress.epoch = self.stage.end

    def _enter_stage(self) -> None:
        stage = max((s for s in self.stages if s.first_epoch <= self.progress.epoch), key=lambda s: s.first_epoch)
        if stage is self.stage:
            return
        self.reporter.note(f"{stage.name}: {stage.optimizer} at {stage.lr:g} from the best weights so far")
        self.ranks.wait()
        self.learner.net.load_state_dict(load_checkpoint(self.run.best, self.device).net.state_dict())
        self.stage = stage
        self.learner.start_stage(stage)
        self.progress.stage_step = self.progress.stale = 0

    def _checkpoint(self, line: dict[str, Any], state: dict[str, Tensor] | None = None) -> Checkpoint:
        facts = {"seed": self.config.train.seed, "fold": self.data.folding.name, **line}
        net, mean, std = self.learner.net, self.learner.mean, self.learner.std
        return Checkpoint(self.config, self.data.inventory, net, mean, std, facts, state or {}, self.lm)

    def _save_last(self, line: dict[str, Any] | None = None) -> None:
        """Save everything needed to resume; all ranks call this, the main one writes."""
        if not self.learner.weights_are_finite():
            raise InputError(
                f"a weight became infinite or no number by step {self.progress.step}",
                f"lower train.lr; {self.run.last} holds the last good state, if any was saved",
            )
        (loss,) = self.ranks.sum([self.progress.loss])
        if self.ranks.is_main:
            state = ResumeState(
                progress=replace(self.progress, loss=loss),
                stage=self.stages.index(self.stage),
                remaining=self.remaining,
                limits=self.data.train.limits,
                ranks=self.ranks.world_size,
            )
            facts = line or {"epoch": self.progress.epoch, "step": self.progress.step}
            tensors = self.learner.to_tensors() | state.to_tensors(len(self.data.train.split))
            save_checkpoint(self.run.last, self._checkpoint(facts, tensors))
        self._saved_at = time.monotonic()

    def _restore(self) -> None:
        checkpoint = load_checkpoint(self.run.last, self.device)
        if checkpoint.inventory != self.data.inventory:
            raise InputError(f"{self.run.folder}: begun with another phone set", "name another folder with --run")
        try:
            self._take_up(checkpoint)
        except (LookupError, ValueError, TypeError, RuntimeError, ArithmeticError) as error:
            if is_out_of_memory(error):
                raise
            reason = " ".join(str(error).split())[:200]
            raise InputError(
                f"{self.run.last}: its training state is damaged ({reason})",
                f"name another folder with --run DIR; {self.run.best} can be used",
            ) from None

    def _take_up(self, checkpoint: Checkpoint) -> None:
        """Set weights, optimizer, and place in the run to those of a checkpoint."""
        self.learner.net.load_state_dict(checkpoint.net.state_dict())
        state = ResumeState.of(checkpoint.state, len(self.data.train.split))
        self.stage = self.stages[min(state.stage, len(self.stages) - 1)]
        self.learner.start_stage(self.stage)
        self.learner.restore(dict(checkpoint.state))
        self.progress = state.progress
        self._elapsed_before = self.progress.elapsed
        if not self.ranks.is_main:
            self.progress.loss = 0.0  # the saved value is the sum over all ranks
        self.remaining = state.remaining
        if (state.limits, state.ranks) != (self.data.train.limits, self.ranks.world_size):
            self.remaining = state.not_done(self.data.train.split.frames, self._epoch_seed())
            self.progress.batch = 0

    def _introduce(self) -> None:
        self.reporter.note(introduction(self.learner, self.data))
        largest = self.data.largest_batch(self.plan(), self.ranks.rank)
        self.reporter.note(estimate(self.learner, largest, self.data.bytes_held).to_text())
        if not self.reporter.quiet:
            self.reporter.note(LEGEND)
        if self.progress.step and self.progress.epoch < self.last_epoch:
            where = f"epoch {self.progress.epoch + 1} of {self.last_epoch}, batch {self.progress.batch + 1}"
            self.reporter.note(f"going on from {self.run.last}: {where}")
