"""The training loop of one run: epochs, scoring, checkpoints, resuming."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from speechctc.config.schema import Config, TrainConfig
from speechctc.core import files
from speechctc.core.devices import give_back_memory, is_out_of_memory, resident_memory
from speechctc.core.errors import RESUME, RUN_OPTION, InputError, first_few, plural
from speechctc.core.progress import Reporter
from speechctc.lm.model import PhoneLM
from speechctc.metrics.per import PER_MEANS
from speechctc.model.checkpoint import FREQUENCIES, Checkpoint, load_checkpoint, save_checkpoint
from speechctc.model.layers import reach
from speechctc.model.net import any_net_of, parameter_count
from speechctc.training.batches import Batch, TrainingData
from speechctc.training.dev_score import DevScore, constant_loss, score_dev
from speechctc.training.distributed import Ranks
from speechctc.training.epoch_plan import EpochPlan, Indices, Progress, ResumeState
from speechctc.training.initialise import first_lms, first_train_step
from speechctc.training.optimise import stages
from speechctc.training.records import BeginningRecord, Callbacks, EpochRecord, StepRecord, is_end
from speechctc.training.runs import Run, run_record
from speechctc.training.sentinel import NetFacts, new_warnings
from speechctc.training.step_costs import MemoryEstimate, estimate
from speechctc.training.train_step import TrainStep

WARMUP_SHARE = 10  # a warm-up is at most the tenth part of its stage, as `Stage.rate` has it
CHECK_INTERVAL = 16  # steps between two checks on a GPU, each of the 16 steps before the last 16: those are done


class Stopped(Exception):
    """Raised when training was asked to stop, after the state was saved; `status` is the exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"stopped with status {status}")
        self.status = status


class Trainer:
    """One run: the train step, its data and its progress.

    Parameters
    ----------
    config : Config
    run : Run
        If it holds a ``last/`` checkpoint, training resumes from it.
    device : torch.device
    ranks : Ranks
    reporter : Reporter
    callbacks : Callbacks
        Called by the main process.
    """

    def __init__(
        self,
        config: Config,
        run: Run,
        device: torch.device,
        ranks: Ranks,
        reporter: Reporter,
        callbacks: Callbacks = Callbacks(),  # noqa: B008 - immutable
    ) -> None:
        self.callbacks = callbacks if ranks.is_main else Callbacks()
        self.ended_by = ""  # the callback that ended the training
        self.config, self.run, self.device, self.ranks, self.reporter = config, run, device, ranks, reporter
        self.data = TrainingData(config, device, reporter)
        self._is_saved = resumed = (run.last / "checkpoint.json").exists()
        if resumed:
            run.check_data(self.data.features)
        self.ended = [0, 0]  # of each stage, its epochs if train.patience ended it
        self.stages = stages(config.train, ranks.world_size)
        self.stage = self.stages[0]
        self.train_step, source = first_train_step(config, self.data, self.stage, ranks, reporter, resumed)
        self.progress = Progress()
        self.remaining = self._members()  # utterances that the current epoch's plan covers
        self._planned: tuple[int, Indices, EpochPlan] | None = None  # by the seed and the utterances of its epoch
        self._whole = len(self.remaining)  # each epoch has as many, even where they are drawn
        self.stop_status: int | None = None
        self.net_facts = NetFacts.of(config.model, self.data.inventory, constant_loss(self.data, config.model))
        self.lm: PhoneLM | None = None
        self.lm_share = 0.0  # of the n-gram of the model that training begins with
        self._session_began = self._saved_at = time.monotonic()
        self._elapsed_before = 0.0
        self._estimate: MemoryEstimate | None = None
        if resumed:
            self._restore()
        self._lms = [(self.lm, self.lm_share)] if self.lm_share else first_lms(self.data, source, config.decode)
        self.lm, self.lm_share = self._lms[0]
        self.frequencies = {} if self.lm else {FREQUENCIES: self.data.frequencies()}

    def train(self) -> DevScore | None:
        """Train until the last stage or ``train.minutes`` ends."""
        self._describe_run()
        if self.ranks.is_main:
            record = run_record(self.config, self.data.features, self.device, self.ranks.world_size)
            self.run.begin(self.config, record, {name: each.marks() for name, each in self.data.features.items()})
        dev = None
        if self.config.train.init_from is not None and not self.progress.step and math.isinf(self.progress.best_per):
            self._score_beginning()
            self._share_end()
        while self.progress.epoch < self.last_epoch and not (
            self._is_over() and self.progress.scored == self.progress.step  # not if it was stopped while scoring
        ):
            self._enter_stage()
            self._epoch()
            dev = self._finish_epoch()
            self._share_end()
        self.run.close()
        if self.ranks.is_main and dev and min(each["dev_per"] for each in self.run.epochs()) > self.progress.best_per:
            what = f"no epoch was better on dev than {self.config.train.init_from} as it is"
            self.reporter.warn(
                f"{what}: {self.run.best} has its weights; a lower train.lr, or more speech, may do better"
            )
        if self.progress.epoch < self.last_epoch:
            self.reporter.note(f"{self.run.folder}: {self._ended_early()}")
        elif dev is None:
            self.reporter.note(f"{self.run.folder}: all of it is done already; more train.epochs go on ({RESUME})")
        return dev

    def _score_beginning(self) -> None:
        """Score the model that training begins with, as epoch 0: `best/` is never worse on dev than that.

        Of several n-grams, the run keeps the one with the lowest PER. If it is stopped meanwhile, nothing was trained,
        and nothing is saved.
        """
        scores: list[DevScore] = []
        for lms in self._lms:
            self.lm, self.lm_share = lms
            if (one := self._evaluate()) is None:
                raise Stopped(self._asked_status())
            scores.append(one)
        best = min(range(len(scores)), key=lambda k: scores[k].counts.rank)
        (self.lm, self.lm_share), dev = self._lms[best], scores[best]
        self._lms = [self._lms[best]]  # the others are not held in memory
        self.progress.score(dev.counts.rank, dev.loss, dev.blank_share)
        line = {"epoch": 0, "step": 0, "dev_per": dev.counts.rank}
        self._save_last(line)  # before best/: a run that has best/ alone has lost it
        if self.ranks.is_main:
            with self.train_step.ema_weights():
                save_checkpoint(self.run.best, self._checkpoint(line))
        told = f"epoch   0: {self.config.train.init_from} as it is: dev loss {dev.loss:.3f}"
        mixed = f"; with its n-gram, mixed with one of these labels ({self.lm_share:.0%} and {1 - self.lm_share:.0%})"
        given = "" if not self.lm_share else "; with its n-gram" if self.lm_share == 1 else mixed
        self.reporter.note(f"{told}  dev PER {dev.counts.per:.2f} % *{given}")
        if self.callbacks.on_beginning is not None and is_end(
            "on_beginning", self.callbacks.on_beginning(dev_record(dev))
        ):
            self.ended_by = "on_beginning"

    def _ended_early(self) -> str:
        """Say what ended the training before the last epoch, and what goes on."""
        after = f"ended it after {plural(self.progress.epoch, 'whole epoch')} of {self.last_epoch}"
        if self.ended_by:
            return f"{self.ended_by} {after}; to go on: {RESUME}"
        minutes = self.config.train.minutes
        end = f"train.minutes={minutes:g} {after}; to go on"
        return f"{end}: more, as train.minutes={2 * minutes:g}, or 0 for no limit ({RESUME})"

    def _asked_status(self) -> int:
        """Return the exit status with which a rank was asked to stop."""
        (status,) = self.ranks.max([self.stop_status or 0])
        return int(status)

    def request_stop(self, status: int) -> None:
        """Save and stop after the current step."""
        self.stop_status = status

    def plan(self) -> EpochPlan:
        """Return the plan of the current epoch, which is made once."""
        seed, remaining = self._epoch_seed(), self.remaining
        if self._planned is None or self._planned[0] != seed or self._planned[1] is not remaining:
            self._planned = seed, remaining, self.data.train.plan(seed, self.ranks.world_size, remaining)
        return self._planned[2]

    def _epoch_seed(self) -> int:
        return self.config.train.seed * 1_000_003 + self.progress.epoch

    def _members(self) -> Indices:
        """Return the utterances of the epoch."""
        return self.data.members(self._epoch_seed())

    @property
    def last_epoch(self) -> int:
        """The number of epochs of all stages."""
        return self.stages[-1].end

    def _epoch(self) -> None:
        """Train to the end of the epoch or of ``train.minutes``."""
        if self._is_over():
            return
        self.train_step.net.train()
        progress, plan = self.progress, self.plan()
        split = self.data.train.split
        phones, frames = plan.totals(split.label_counts), plan.totals(split.frames)
        watch = LossWatch(split.ids, self.device)
        batches = self.data.train.batches(plan, self.ranks.rank, skip=progress.batch)
        began, waited = time.perf_counter(), self.data.train.waited
        with self.reporter.progress(f"epoch {progress.epoch + 1}", plan.steps) as advance:
            advance(progress.batch)
            while progress.batch < plan.steps:
                rate = self.stage.rate(progress.stage_step, self._share_done(plan))
                where = f"epoch {progress.epoch + 1}, step {progress.step + 1}"
                group = list(islice(batches, self.config.train.accumulate))
                these, own = slice(progress.batch, progress.batch + len(group)), [each for each in group if each]
                loss = self.train_step.step(own, int(phones[these].sum()), rate, progress.step)
                self._trim_heap()
                progress.next_step(len(group), float(phones[these].sum()), float(frames[these].sum()), rate)
                told = watch.add(where, own, loss)
                now = time.perf_counter()
                progress.seconds, took, began = progress.seconds + now - began, now - began, now
                progress.loss += told + self._tell_step(own, told, watch, rate, took)
                progress.waited, waited = progress.waited + self.data.train.waited - waited, self.data.train.waited
                advance(len(group), bar_text(progress, rate))
                if self._between_steps(watch):
                    break
        progress.loss += watch.flush()
        self.train_step.check_labels()

    def _tell_step(self, batches: Sequence[Batch], told: float, watch: LossWatch, rate: float, seconds: float) -> float:
        """Call `on_step`; return the sum of the losses that were waited for because of it."""
        if self.callbacks.on_step is None:
            return 0.0
        waited_for = watch.flush()
        phones = sum(int(batch.counts.sum()) for batch in batches)
        record: StepRecord = {
            "epoch": self.progress.epoch + 1,
            "step": self.progress.step,
            "loss": (told + waited_for) / max(phones, 1),
            "lr": rate,
            "phones": phones,
            "frames": sum(int(batch.lengths.sum()) for batch in batches),
            "seconds": seconds,
        }
        if is_end("on_step", self.callbacks.on_step(record)):
            self.ended_by = "on_step"
        return waited_for

    def _trim_heap(self) -> None:
        """Return free heap to the system where the process is above its estimate; it would grow for hours."""
        if self._estimate and self.device.type == "cpu" and resident_memory() > self._estimate.host:
            give_back_memory()

    def _between_steps(self, watch: LossWatch) -> bool:
        """Save or stop if it is time, at the same step on all ranks; return whether the run is out of time.

        An epoch goes on to its first batch with labels, so that it has a loss.
        """
        elapsed = self._elapsed_before + time.monotonic() - self._session_began
        due = time.monotonic() - self._saved_at >= 60 * self.config.train.save_minutes
        wanted = [self.stop_status or 0, due, elapsed, bool(self.ended_by)]
        status, save, self.progress.elapsed, ended = self.ranks.max(wanted)
        self._hear_end(ended)
        if status:
            self.progress.loss += watch.flush()
            self._stop(int(status))
        if save:
            self.progress.loss += watch.flush()
            self._save_last()
        return self._is_over() and self.progress.phones > 0

    def _share_end(self) -> None:
        """Tell all ranks whether a callback ended the training."""
        self._hear_end(*self.ranks.max([bool(self.ended_by)]))

    def _hear_end(self, ended: float) -> None:
        """Take note that a callback ended the training, perhaps of another rank."""
        if ended:
            self.ended_by = self.ended_by or "the first process"

    def _is_over(self) -> bool:
        """Return whether the training ends after this step."""
        return bool(self.ended_by) or self._out_of_time()

    def _stop(self, status: int) -> NoReturn:
        self._save_last()
        raise Stopped(status)

    def _out_of_time(self) -> bool:
        return self.progress.is_out_of_time(self.config.train.minutes)

    def _cut_warmup(self) -> str:
        """Say where the training that is planned is too short for its warm-up; "" where it is not."""
        steps = math.ceil(self.plan().steps / self.config.train.accumulate) * self.stage.epochs
        if self.progress.step or self.stage.warmup_steps <= steps / WARMUP_SHARE:
            return ""
        what = f"train.warmup_steps={self.stage.warmup_steps}: the learning rate rises over {steps // WARMUP_SHARE}"
        return f"{what} steps instead, a tenth of all {steps}; more train.epochs lengthen it"

    def _share_done(self, plan: EpochPlan) -> float:
        """Return the fraction of the stage that is done, by epochs or by time, whichever is larger."""
        before = 1 - len(self.remaining) / self._whole  # of the epoch, before it was planned again
        of_epoch = before + (1 - before) * self.progress.batch / plan.steps
        share = (self.progress.epoch - self.stage.first_epoch + of_epoch) / self.stage.epochs
        minutes = self.config.train.minutes
        return min(max(share, self.progress.elapsed / (60 * minutes) if minutes else 0.0), 1.0)

    def _evaluate(self) -> DevScore | None:
        with self.train_step.ema_weights():
            return score_dev(self.train_step, self.data, self.lm, self._is_stopped)

    def _is_stopped(self) -> bool:
        self._trim_heap()  # between two batches of dev
        return self.stop_status is not None

    def _finish_epoch(self) -> DevScore:
        progress, last = self.progress, self.last_epoch
        if not self._is_saved:  # there is no best/ without a last/: a run that lost it does not begin again
            self._save_last()
        dev = self._evaluate()
        if dev is None:  # stopped: the saved epoch has no batch left, so that resuming begins with scoring it
            self._stop(self._asked_status())
        (loss,) = self.ranks.sum([progress.loss])
        record = epoch_record(progress, dev, loss, self.train_step)
        line = {**record}  # as the log and checkpoints have it
        alarms = new_warnings(self.run.epochs() if self.ranks.is_main else [], line, self.net_facts)
        record["alarms"] = line["alarms"] = " ".join(alarm.kind for alarm in alarms)
        better = progress.score(dev.counts.rank, dev.loss, dev.blank_share)
        if progress.batch >= self.plan().steps:
            progress.next_epoch()
            self.train_step.norms.reset()
            self.remaining = self._members()
        if self.ranks.is_main:
            self._record_epoch(line, better)  # before last/: if killed in between, the end of the epoch is repeated
        self._end_stage_early()
        self._save_last(line)
        self.reporter.note(*epoch_text(line, last, better).splitlines())
        for alarm in alarms:
            (self.reporter.note if alarm.expected else self.reporter.warn)(alarm.text)
        if self.callbacks.on_epoch is not None and is_end("on_epoch", self.callbacks.on_epoch(record)):
            self.ended_by = "on_epoch"
        return dev

    def _record_epoch(self, line: dict[str, Any], better: bool) -> None:
        self.run.log(line)
        with self.train_step.ema_weights():
            if better:
                save_checkpoint(self.run.best, self._checkpoint(line))

    def _load_best(self) -> None:
        """Go on from the best weights, with a new optimiser and a new average."""
        self.ranks.wait()
        self.train_step.net.load_state_dict(any_net_of(load_checkpoint(self.run.best)).state_dict())
        self.train_step.start_stage(self.stage)

    def _end_stage_early(self) -> None:
        patience = self.config.train.patience
        if patience and self.progress.stale >= patience and self.progress.epoch < self.stage.end:
            self.reporter.note(f"dev PER has not fallen for {patience} epochs: the {self.stage.name} stage ends here")
            place = self.stages.index(self.stage)
            self.ended[place] = self.progress.epoch - self.stage.first_epoch
            self._place_stages(place)

    def _place_stages(self, place: int) -> None:
        """Plan the stages with those that ended early, and be in one of them."""
        self.stages = stages(self.config.train, self.ranks.world_size, self.ended)
        self.stage = self.stages[place]

    def _enter_stage(self) -> None:
        stage = max((s for s in self.stages if s.first_epoch <= self.progress.epoch), key=lambda s: s.first_epoch)
        if stage is self.stage:
            return
        self.reporter.note(f"{stage.name}: {stage.optimizer} at {stage.lr:g} from the best weights so far")
        self.stage = stage
        self._load_best()
        self.progress.stage_step = self.progress.stale = 0

    def _checkpoint(self, line: dict[str, Any], state: dict[str, Tensor] | None = None) -> Checkpoint:
        facts = {"seed": self.config.train.seed, "fold": self.data.folding.name, **self.frequencies, **line}
        corpus = self.config.corpus
        facts["dev_repeated"] = self.data.repeated
        if self.lm_share:
            facts["lm_share"] = self.lm_share
        if corpus.kind != "table" or not corpus.tables.of("dev"):  # dev may be chosen otherwise when it is scored
            facts["dev_utterances"] = list(self.data.dev.split.ids)
        net, mean, std = self.train_step.net, self.train_step.mean, self.train_step.std
        return Checkpoint.of(self.config, self.data.inventory, net, mean, std, facts, state, self.lm)

    def _save_last(self, line: dict[str, Any] | None = None) -> None:
        """Save everything needed to resume; all ranks call this, the main one writes."""
        if not self.train_step.weights_are_finite():
            fix = ANOTHER_RUN.replace("RUN", str(self.run.folder))
            raise InputError(f"a weight became infinite or no number by step {self.progress.step}", fix)
        (loss,) = self.ranks.sum([self.progress.loss])
        if self.ranks.is_main:
            self.run.check_place()
            state = ResumeState(
                progress=replace(self.progress, loss=loss),
                stage=self.stages.index(self.stage),
                remaining=self.remaining,
                limits=self.data.train.limits,
                ranks=self.ranks.world_size,
                ended=tuple(self.ended),
            )
            facts = line or {"epoch": self.progress.epoch, "step": self.progress.step}
            tensors = self.train_step.to_tensors() | state.to_tensors(len(self.data.train.split))
            save_checkpoint(self.run.last, self._checkpoint(facts, tensors))
        self._saved_at, self._is_saved = time.monotonic(), True

    def _restore(self) -> None:
        checkpoint = load_checkpoint(self.run.last, with_state=True)
        if checkpoint.inventory != self.data.inventory:
            what = f"{self.run.folder}: begun with another phone set"
            raise InputError(what, f"name another folder with {RUN_OPTION}")
        try:
            self._load_state(checkpoint)
        except (LookupError, ValueError, TypeError, RuntimeError, ArithmeticError) as error:
            if is_out_of_memory(error):
                raise
            reason = " ".join(str(error).split())[:200]
            raise InputError(
                f"{self.run.last}: its training state is damaged ({reason})",
                f"name another folder with {RUN_OPTION}; train.init_from={self.run.best} begins with its weights",
            ) from None
        self._check_best()

    def _check_best(self) -> None:
        """Check that the best epoch so far is still there, whole: no later one may be better.

        That of the model that training begins with may not have been saved before a kill, and is scored again.
        """
        progress, best = self.progress, self.run.best
        if not progress.step and not files.standing(best).exists():
            progress.best_per = progress.best_loss = math.inf
        if math.isinf(progress.best_per):
            return
        try:
            load_checkpoint(best)
        except InputError as error:
            fix = f"restore it, or begin another run with {RUN_OPTION}: train.init_from={self.run.last} begins with the"
            raise InputError(f"{error.what}; it had the best epoch so far", f"{fix} last weights") from None

    def _load_state(self, checkpoint: Checkpoint) -> None:
        """Set weights, optimizer, and place in the run to those of a checkpoint."""
        self.train_step.net.load_state_dict(any_net_of(checkpoint).state_dict())
        self.train_step.normalise_as(checkpoint)
        if (
            share := checkpoint.facts.get("lm_share")
        ) and checkpoint.config.decode.lm_order == self.config.decode.lm_order:
            self.lm, self.lm_share = checkpoint.lm, float(share)
        tensors = {name: torch.from_numpy(value) for name, value in checkpoint.state.items()}
        state = ResumeState.of(tensors, len(self.data.train.split))
        self.progress = state.progress
        self._resume_stage(state, checkpoint.config.train)
        self.train_step.start_stage(self.stage)
        self.train_step.restore(tensors)
        self._elapsed_before = self.progress.elapsed
        if not self.ranks.is_main:
            self.progress.loss = 0.0  # the saved value is the sum over all ranks
        self.remaining = state.remaining
        if (state.limits, state.ranks) != (self.data.train.limits, self.ranks.world_size):
            self.remaining = state.not_done(self.data.train.split.frames, self._epoch_seed())
            self.progress.batch = 0

    def _resume_stage(self, state: ResumeState, before: TrainConfig) -> None:
        """Be in the stage that was saved; one that ended early goes on if it may have more epochs now, or patience."""
        place, now = min(state.stage, len(self.stages) - 1), self.config.train
        self.ended[: len(state.ended)] = state.ended
        planned = [each.epochs for each in stages(before)]
        more = self.stages[place].epochs > (planned[place] if place < len(planned) else 0)
        if self.ended[place] and (more or not 0 < now.patience <= self.progress.stale):
            done = f"{self.progress.epoch} epochs, after which train.patience={before.patience} had ended it"
            self.reporter.note(f"{self.run.folder}: the {self.stages[place].name} stage goes on after {done}")
            self.ended[place] = 0
            self.progress.stale = 0 if more else self.progress.stale
        self._place_stages(place)

    def _describe_run(self) -> None:
        self.reporter.note(*describe_run(self.train_step, self.data).splitlines())
        largest = self.data.largest_batch(self.plan(), self.ranks.rank)
        self._estimate = estimate(self.train_step, largest, self.data.bytes_held)
        self.reporter.note(self._estimate.to_text())
        if not self.reporter.quiet:
            self.reporter.note(LEGEND)
        if cut := self._cut_warmup():
            self.reporter.note(cut)
        if self.progress.step and self.progress.epoch < self.last_epoch:
            where = f"epoch {self.progress.epoch + 1} of {self.last_epoch}, batch {self.progress.batch + 1}"
            self.reporter.note(f"going on from {self.run.last}: {where}")


ANOTHER_RUN = (
    f"begin another run ({RUN_OPTION}) with a lower train.lr; train.init_from=RUN/last lets it begin with the last good"
    " weights of this one, if they were saved"
)
"""A run keeps its learning rate, so that going on with it cannot have a lower one."""


class LossWatch:
    """Collects each step's loss; checks it at once on a CPU, some steps later on a GPU.

    Parameters
    ----------
    ids : list of str
        Names of the utterances.
    device : torch.device
    """

    def __init__(self, ids: list[str], device: torch.device) -> None:
        self.ids = ids
        self._every = CHECK_INTERVAL if device.type == "cuda" else 1
        self._new: list[tuple[str, Indices, Tensor]] = []
        self._sent: list[tuple[str, Indices, Tensor]] = []
        self._values: Tensor | None = None
        self._arrived: torch.cuda.Event | None = None

    def add(self, where: str, batches: Sequence[Batch], loss: Tensor) -> float:
        """Add a step's loss; return the sum of the losses checked by this call.

        Raises
        ------
        InputError
            If a loss is infinite or NaN; the message names the batch and `where`.
        """
        if not batches:
            return 0.0
        self._new.append((where, np.concatenate([batch.indices for batch in batches]), loss))
        if len(self._new) < self._every:
            return 0.0
        if self._every == 1:
            return self.flush()
        checked = self._check_sent()
        self._send()
        return checked

    def flush(self) -> float:
        """Check the remaining losses and return their sum. On a GPU this waits for the device.

        Raises
        ------
        InputError
            As `add`.
        """
        checked = self._check_sent()
        self._send()
        return checked + self._check_sent()

    def _send(self) -> None:
        self._sent, self._new = self._new, []
        if not self._sent:
            return
        values = torch.stack([loss for _, _, loss in self._sent])
        self._values = values
        if values.device.type == "cuda":
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record()

    def _check_sent(self) -> float:
        if not self._sent or self._values is None:
            return 0.0
        if self._arrived is not None:
            self._arrived.synchronize()
        total = 0.0
        for (where, indices, _), value in zip(self._sent, self._values.tolist(), strict=True):
            if not math.isfinite(value):
                names = first_few([self.ids[k] for k in indices], 5)
                fix = f"look at these recordings, or {ANOTHER_RUN} (docs/guide/symptoms.md#the-loss-is-nan)"
                raise InputError(f"the loss became {value} at {where}, in the batch of {names}", fix)
            total += value
        self._sent = []
        return total


def describe_run(train_step: TrainStep, data: TrainingData) -> str:
    """Return one line on the net, the data and the device; a second on languages, if there are several."""
    config, together = train_step.config, train_step.ranks.world_size
    frozen = sum(each.numel() for each in train_step.net.parameters() if not each.requires_grad)
    hours = data.train.frames * config.features.shift_ms / 3.6e6
    languages = data.languages.describe(data.train.members, config.train.balance)
    return (
        f"{parameter_count(train_step.net):,} parameters{f' and {frozen:,} frozen' if frozen else ''},"
        f" {_hears(config)}; {len(data.inventory.phones)} phones;"
        f" {len(data.train.members)} utterances, {hours:.2f} h; dev {len(data.dev.members)};"
        f" {train_step.device}{f', {together} processes' if together > 1 else ''}, {train_step.precision}"
        + (f"\n{languages}" if languages else "")
    )


def _hears(config: Config) -> str:
    """Say how much of a recording an output frame depends on."""
    if config.model.sees == "whole":
        return f"hears all of at most {config.model.longest:g} s at once: no live sound, no blocks"
    before, after = reach(config.model, config.features)
    return f"sees {(before + 1 + after) * config.features.shift_ms:.0f} ms"


LEGEND = (
    f"{PER_MEANS}; dev: utterances that are not trained on and that tell which epoch is the best (*);"
    " blank: frames of dev for which the net names no phone"
)


def bar_text(progress: Progress, rate: float) -> str:
    """Return the text beside the progress bar: loss, PER, learning rate, speed."""
    loss = progress.loss / max(progress.phones, 1)
    per = f"  dev PER {progress.best_per:.1f} %" if math.isfinite(progress.best_per) else ""
    return f"loss {loss:.3f}{per}  lr {rate:.1e}  {progress.frames / max(progress.seconds, 1e-9):,.0f} frames/s"


def dev_record(dev: DevScore, epoch: int = 0, step: int = 0) -> BeginningRecord:
    """Return what a record says of a score on dev; by default of the model that training begins with."""
    record: BeginningRecord = {
        "epoch": epoch,
        "step": step,
        "dev_loss": dev.loss,
        "dev_per": dev.counts.rank,
        "blank_share": dev.blank_share,
        "entropy": dev.entropy,
        "dead_phones": len(dev.dead_phones),
        "dead_phone_names": " ".join(dev.dead_phones),
    }
    if dev.dead_pieces is not None:
        record["dead_pieces"] = dev.dead_pieces
    if dev.languages:
        record["dev_per_of"] = dev.languages
    return record


def epoch_record(progress: Progress, dev: DevScore, loss: float, train_step: TrainStep) -> EpochRecord:
    """Return an epoch's line for ``metrics.jsonl``; `loss` is the sum over all ranks."""
    mean, norms = loss / max(progress.phones, 1), train_step.norms.summary()
    return {
        **dev_record(dev, progress.epoch + 1, progress.step),
        "loss": mean,
        "dev_gap": dev.loss - mean,
        "gradient_norm": norms["gradient_norm"],
        "gradient_norm_max": norms["gradient_norm_max"],
        "clipped_share": norms["clipped_share"],
        "lr": progress.rate or float(train_step.optimizer.param_groups[0]["lr"]),
        "frames_per_second": progress.frames / max(progress.seconds, 1e-9),
        "seconds": progress.seconds,
        "waited": progress.waited,
        "minutes": progress.elapsed / 60,
        "alarms": "",
    }


def _languages_text(record: dict[str, Any]) -> str:
    """Return the mean PER of the languages of dev, and the best and the worst; ``""`` where there is one."""
    rates = sorted((per, name or "no language") for name, per in record.get("dev_per_of", {}).items())
    if not rates:
        return ""
    shown = [f"{name} {per:.1f}" for per, name in rates]
    ends = shown if len(shown) <= 6 else [*shown[:3], "...", *shown[-3:]]
    mean = sum(per for per, _ in rates) / len(rates)
    return f"\n  dev PER of {len(rates)} languages: mean {mean:.1f} %: {', '.join(ends)}"


def epoch_text(record: dict[str, Any], last: int, better: bool) -> str:
    """Return an epoch's line for the terminal, with a second one if dev has several languages."""
    return (
        f"epoch {record['epoch']:>3} of {last}  loss {record['loss']:.3f}  dev loss {record['dev_loss']:.3f}"
        f"  dev PER {record['dev_per']:.2f} %{' *' if better else '  '}  blank {100 * record['blank_share']:.0f} %"
        f"  {record['seconds']:.1f} s  {record['frames_per_second']:,.0f} frames/s" + _languages_text(record)
    )
