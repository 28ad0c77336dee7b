"""One run in progress: epochs, what is done at their ends, and what is saved so that nothing is lost."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from speechctc.checkpoint import Checkpoint, load_checkpoint, mean_weights, save_checkpoint
from speechctc.config import Config
from speechctc.errors import InputError
from speechctc.progress import Reporter
from speechctc.training.chunks import Batch
from speechctc.training.data import TrainingData
from speechctc.training.dev_score import BlankWatch, DevScore, score_dev
from speechctc.training.learner import Learner
from speechctc.training.loss_watch import LossWatch
from speechctc.training.memory import estimate
from speechctc.training.optimise import stages
from speechctc.training.place import Place, State
from speechctc.training.plan import EpochPlan, Indices
from speechctc.training.ranks import Ranks
from speechctc.training.report import LEGEND, beside_bar, epoch_record, epoch_text, introduction
from speechctc.training.run_record import run_record
from speechctc.training.runs import Run
from speechctc.training.start import first_net


class Stopped(Exception):
    """Training was asked to stop and has saved its state; `status` is the exit status to leave with."""

    def __init__(self, status: int) -> None:
        super().__init__(f"stopped with status {status}")
        self.status = status


class Trainer:
    """One run in progress: the learner, its data, and where it stands.

    Parameters
    ----------
    config : Config
    run : Run
        If it holds a ``last/`` checkpoint, training goes on from there.
    device : torch.device
    ranks : Ranks
    reporter : Reporter
    """

    def __init__(self, config: Config, run: Run, device: torch.device, ranks: Ranks, reporter: Reporter) -> None:
        self.config, self.run, self.device, self.ranks, self.reporter = config, run, device, ranks, reporter
        self.data = TrainingData(config, device, reporter)
        resumed = (run.last / "checkpoint.json").exists()
        net = first_net(config, self.data.inventory, None if resumed else config.train.init_from, reporter).to(device)
        ranks.share_weights(net)
        self.learner = Learner(config, net, self.data.mean, self.data.std, ranks, reporter)
        self.stages = stages(config.train, ranks.count)
        self.stage = self.stages[0]
        self.learner.begin(self.stage)
        self.place = Place()
        self.left: Indices = self.data.train.members  # what the plan of the epoch in hand is made of
        self.stop_status: int | None = None
        self.blanks = BlankWatch(reporter)
        self.lm = self.data.phone_lm(config.decode.lm_order)
        self._session_began = self._saved_at = time.monotonic()
        self._elapsed_before = 0.0
        if resumed:
            self._restore()

    def train(self) -> DevScore | None:
        """Train to the end of the last stage, or of the time."""
        self._introduce()
        record = run_record(self.config, self.data.shards, self.device, self.ranks.count)
        if self.ranks.first:
            self.run.begin(self.config, record)
        dev = None
        while self.place.epoch < self.last_epoch and not (self._out_of_time() and self._is_scored()):
            self._enter_stage()
            self._epoch()
            dev = self._finish_epoch()
        if dev is not None and self.config.train.average_best:
            dev = self._average_best() or dev
        self.run.close()
        if dev is None:
            self.reporter.note(f"{self.run.folder}: all of it is done already; train.epochs and train.minutes end it")
        return dev

    def request_stop(self, status: int) -> None:
        """Save and leave after the step in hand."""
        self.stop_status = status

    def plan(self) -> EpochPlan:
        """Return the order of what is left of the epoch in hand, as it was planned."""
        return self.data.train.plan(self._epoch_seed(), self.ranks.count, self.left)

    def _epoch_seed(self) -> int:
        return self.config.train.seed * 1_000_003 + self.place.epoch

    @property
    def last_epoch(self) -> int:
        """The number of epochs of all stages."""
        return self.stages[-1].end

    def _epoch(self) -> None:
        """Do what is left of the epoch, or of the time."""
        if self._out_of_time():
            return
        self.learner.net.train()
        place, plan = self.place, self.plan()
        phones, frames = plan.totals(self.data.train.split.label_counts), plan.totals(self.data.train.split.frames)
        watch = LossWatch(self.data.train.split.ids, self.device)
        batches = self.data.train.batches(plan, self.ranks.number, skip=place.batch)
        began, waited = time.perf_counter(), self.data.train.waited
        with self.reporter.progress(f"epoch {place.epoch + 1}", plan.steps) as advance:
            advance(place.batch)
            while place.batch < plan.steps:
                rate = self.stage.rate(place.stage_step, self._share_done(plan))
                where = f"epoch {place.epoch + 1}, step {place.step + 1}"
                loss = self._step(next(batches), int(phones[place.batch]), rate)
                place.next_step(float(phones[place.batch]), float(frames[place.batch]))
                place.loss += watch.add(where, *loss)
                now = time.perf_counter()
                place.seconds, began = place.seconds + now - began, now
                place.waited, waited = place.waited + self.data.train.waited - waited, self.data.train.waited
                advance(1, beside_bar(place, rate))
                if self._between_steps(watch):
                    break
        place.loss += watch.settle()

    def _step(self, batch: Batch | None, phones: int, rate: float) -> tuple[Batch | None, Tensor]:
        return batch, self.learner.step(batch, phones, rate, self.place.step)

    def _between_steps(self, watch: LossWatch) -> bool:
        """Save or stop where it is time, on all ranks at the same step; return whether the time of the run is over."""
        elapsed = self._elapsed_before + time.monotonic() - self._session_began
        due = time.monotonic() - self._saved_at >= 60 * self.config.train.save_minutes
        status, save, self.place.elapsed = self.ranks.max([self.stop_status or 0, due, elapsed])
        if status:
            self.place.loss += watch.settle()
            self._stop(int(status))
        if save:
            self.place.loss += watch.settle()
            self._save_last()
        return self._out_of_time()

    def _stop(self, status: int) -> None:
        self._save_last()
        raise Stopped(status)

    def _out_of_time(self) -> bool:
        return self.place.is_out_of_time(self.config.train.minutes)

    def _is_scored(self) -> bool:
        """Tell whether dev was scored since the last step; a run stopped while that was done has yet to do it."""
        return self.place.scored == self.place.step

    def _share_done(self, plan: EpochPlan) -> float:
        """Return the share of the stage that is over, by epochs or by time, whichever is further."""
        before = 1 - len(self.left) / len(self.data.train.members)  # of this epoch, before it was planned anew
        of_epoch = before + (1 - before) * self.place.batch / plan.steps
        share = (self.place.epoch - self.stage.first_epoch + of_epoch) / self.stage.epochs
        minutes = self.config.train.minutes
        return min(max(share, self.place.elapsed / (60 * minutes) if minutes else 0.0), 1.0)

    def _evaluate(self) -> DevScore | None:
        data = self.data
        with self.learner.averaged():
            return score_dev(
                self.learner, data.dev, data.inventory, data.folding, self.lm, lambda: self.stop_status is not None
            )

    def _finish_epoch(self) -> DevScore:
        place = self.place
        dev = self._evaluate()
        if dev is None:  # stopped: what is saved is an epoch with no batch left, and scoring it comes first next time
            (status,) = self.ranks.max([self.stop_status or 0])
            self._stop(int(status))
        assert dev is not None
        (loss,) = self.ranks.sum([place.loss])
        line = epoch_record(place, dev, loss, self.learner.optimizer.param_groups[0]["lr"])
        better = place.score(dev.counts.per)
        if place.batch >= self.plan().steps:
            place.next_epoch()
            self.left = self.data.train.members
        if self.ranks.first:
            self._record_epoch(line, better)  # before last/: cut off in between, the epoch's end is done again
        self._end_stage_early()
        self._save_last(line)
        self.reporter.note(epoch_text(line, self.last_epoch, better))
        self.blanks.see(dev)
        return dev

    def _record_epoch(self, line: dict[str, Any], better: bool) -> None:
        self.run.log(line)
        with self.learner.averaged():
            checkpoint = self._checkpoint(line)
            if better:
                save_checkpoint(self.run.best, checkpoint)
            self.run.keep_top(self.config.train.keep_best, line, lambda folder: save_checkpoint(folder, checkpoint))

    def _average_best(self) -> DevScore | None:
        """Score the mean of the best few checkpoints' weights; if it is better than each, keep it as the best."""
        self.ranks.wait()
        folders = self.run.top_checkpoints()
        if len(folders) < 2:
            return None
        self.learner.net.load_state_dict(mean_weights(folders, self.device))
        self.learner.average = None  # the mean is not to be scored in another's stead
        dev = self._evaluate()
        if dev is None:
            return None
        better = self.place.score(dev.counts.per)
        self.reporter.note(
            f"mean of the best {len(folders)}: dev PER {dev.counts.per:.2f} %{', kept as the best' if better else ''}"
        )
        if self.ranks.first and better:
            facts = {"epoch": self.place.epoch, "step": self.place.step, "dev_per": dev.counts.per}
            save_checkpoint(self.run.best, self._checkpoint({**facts, "mean_of": [path.name for path in folders]}))
        return dev if better else None

    def _end_stage_early(self) -> None:
        patience = self.config.train.patience
        if patience and self.place.stale >= patience and self.place.epoch < self.stage.end:
            self.reporter.note(f"dev PER has not fallen for {patience} epochs: the {self.stage.name} stage ends here")
            self.place.epoch = self.stage.end

    def _enter_stage(self) -> None:
        stage = max((s for s in self.stages if s.first_epoch <= self.place.epoch), key=lambda s: s.first_epoch)
        if stage is self.stage:
            return
        self.reporter.note(f"{stage.name}: {stage.optimizer} at {stage.lr:g} from the best weights so far")
        self.ranks.wait()
        self.learner.net.load_state_dict(load_checkpoint(self.run.best, self.device).net.state_dict())
        self.stage = stage
        self.learner.begin(stage)
        self.place.stage_step = self.place.stale = 0

    def _checkpoint(self, line: dict[str, Any], state: dict[str, Tensor] | None = None) -> Checkpoint:
        facts = {"seed": self.config.train.seed, "fold": self.data.folding.name, **line}
        net, mean, std = self.learner.net, self.learner.mean, self.learner.std
        return Checkpoint(self.config, self.data.inventory, net, mean, std, facts, state or {}, self.lm)

    def _save_last(self, line: dict[str, Any] | None = None) -> None:
        """Save all that going on takes; every rank comes here, the first one writes."""
        if not self.learner.weights_are_finite():
            raise InputError(
                f"a weight became infinite or no number by step {self.place.step}",
                f"lower train.lr; {self.run.last} holds the last good state, if any was saved",
            )
        (loss,) = self.ranks.sum([self.place.loss])
        if self.ranks.first:
            state = State(
                place=replace(self.place, loss=loss),
                stage=self.stages.index(self.stage),
                left=self.left,
                limits=self.data.train.limits,
                ranks=self.ranks.count,
            )
            facts = line or {"epoch": self.place.epoch, "step": self.place.step}
            tensors = self.learner.to_tensors() | state.to_tensors(len(self.data.train.split))
            save_checkpoint(self.run.last, self._checkpoint(facts, tensors))
        self._saved_at = time.monotonic()

    def _restore(self) -> None:
        checkpoint = load_checkpoint(self.run.last, self.device)
        if checkpoint.inventory != self.data.inventory:
            raise InputError(f"{self.run.folder}: begun with another phone set", "name another folder with --run")
        self.learner.net.load_state_dict(checkpoint.net.state_dict())
        state = State.of(checkpoint.state)
        self.place = state.place
        self._elapsed_before = self.place.elapsed
        self.stage = self.stages[min(state.stage, len(self.stages) - 1)]
        self.learner.begin(self.stage)
        self.learner.restore(dict(checkpoint.state))
        if not self.ranks.first:
            self.place.loss = 0.0  # what was saved is the sum over all ranks
        self.left = state.left
        if (state.limits, state.ranks) != (self.data.train.limits, self.ranks.count):
            self.left = state.not_done(self.data.train.split.frames, self._epoch_seed())
            self.place.batch = 0

    def _introduce(self) -> None:
        self.reporter.note(introduction(self.learner, self.data))
        largest = self.data.largest_batch(self.plan(), self.ranks.number)
        self.reporter.note(estimate(self.learner, largest, self.data.bytes_held).to_text())
        if not self.reporter.quiet:
            self.reporter.note(LEGEND)
        if self.place.step and self.place.epoch < self.last_epoch:
            where = f"epoch {self.place.epoch + 1} of {self.last_epoch}, batch {self.place.batch + 1}"
            self.reporter.note(f"going on from {self.run.last}: {where}")
