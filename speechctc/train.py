"""The training stage: shards to checkpoints.

A run can be stopped at any step (Ctrl-C, a cluster's SIGTERM) and taken up again: `last/` then holds the weights, the
optimiser's and the random generators' state and the place in the epoch, and on a CPU the run goes on bit for bit.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speechctc.batches import Batch, Limits, Loader, Split
from speechctc.checkpoint import Checkpoint, build_net, load_checkpoint, save_checkpoint
from speechctc.config import Config
from speechctc.corpora import SPLITS
from speechctc.ctc import ctc_loss
from speechctc.devices import autocast, choose_device
from speechctc.errors import InputError
from speechctc.features import Moments, net_input
from speechctc.model import parameter_count, receptive_field
from speechctc.optimise import build_optimizer, optimizer_tensors, restore_optimizer, set_rate, stages
from speechctc.phones import Inventory, choose_folding
from speechctc.progress import Advance, Reporter
from speechctc.runs import Run
from speechctc.score import EditCounts, score
from speechctc.search import best_path
from speechctc.shards import Shard, read_split

BLANK_COLLAPSE = 0.995  # share of blank frames on dev from which the net says nothing worth the name
PATIENCE_WITH_BLANKS = 4  # epochs of it that are ordinary at the start


class Stopped(Exception):
    """Training was asked to stop and has saved its state; `status` is the exit status to leave with."""

    def __init__(self, status: int) -> None:
        super().__init__(f"stopped with status {status}")
        self.status = status


@dataclass
class Place:
    """Where a run stands: the next batch to do, and sums over the epoch so far.

    Attributes
    ----------
    epoch, batch, step : int
        The epoch (from 0), the next batch of it, and steps taken in all.
    stage_step : int
        Steps taken in the present stage.
    loss, phones : float
        Sum of the losses and of the labels of the epoch so far.
    frames, seconds : float
        Frames trained on in this epoch, and the time it took.
    best_per : float
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    stage_step: int = 0
    loss: float = 0.0
    phones: float = 0.0
    frames: float = 0.0
    seconds: float = 0.0
    best_per: float = math.inf

    def to_tensor(self) -> Tensor:
        """Return it as a row of float64."""
        return torch.tensor(list(vars(self).values()), dtype=torch.float64)

    @classmethod
    def of(cls, row: Tensor) -> Place:
        """Undo `to_tensor`."""
        whole = ("epoch", "batch", "step", "stage_step")
        values = dict(zip(cls().__dict__, row.tolist(), strict=True))
        return cls(**{name: int(value) if name in whole else value for name, value in values.items()})


@dataclass(frozen=True)
class DevScore:
    """How the net does on dev: edit counts, loss per phone, and the share of frames whose best class is the blank."""

    counts: EditCounts
    loss: float
    blank_share: float


def train(config: Config, resume: bool, reporter: Reporter) -> DevScore | None:
    """Train the config's net on the features in ``data.dir``; return the last dev score, None if none was left to do.

    Raises
    ------
    InputError
        No features, or of another config; a run folder in use or of another config; the loss became NaN.
    Stopped
        SIGINT or SIGTERM: the state is saved in ``last/``.
    """
    assert config.run is not None
    run = Run(config.run)
    with run.locked():
        run.check(config, resume)
        trainer = Trainer(config, run, reporter)
        run.begin(config)
        with _stop_signals(trainer):
            return trainer.train()


class Trainer:
    """One run in progress: the net, its optimiser, its data, and where it stands.

    Parameters
    ----------
    config : Config
    run : Run
        If it holds a ``last/`` checkpoint, training goes on from there.
    reporter : Reporter
    """

    def __init__(self, config: Config, run: Run, reporter: Reporter) -> None:
        self.config, self.run, self.reporter = config, run, reporter
        self.device = choose_device(config.train.device)
        shards = {split: _read(config, split) for split in SPLITS[:2]}
        self.inventory = Inventory(shards["train"][0].recipe.phone_set, shards["train"][0].recipe.phones)
        moments = sum((shard.moments for shard in shards["train"]), start=Moments.none(config.features))
        self.mean, self.std = (each.to(self.device) for each in moments.normalisation())
        self.loader = self._training_loader(Split(shards["train"]))
        self.dev = Loader(Split(shards["dev"]), self._limits(), self.device)
        if not len(self.dev.members):
            raise InputError(f"{config.data.dir}/dev: no utterance in it", "give a dev split with usable recordings")
        self.folding = choose_folding(config.score.fold, self.inventory)
        torch.manual_seed(config.train.seed)
        self.net = build_net(config, self.inventory).to(self.device)
        self.stages = stages(config.train)
        self.stage = self.stages[0]
        self.optimizer = build_optimizer(self.net, self.stage)
        self.place = Place()
        self.stop_status: int | None = None
        self.blank_epochs = 0
        if (run.last / "checkpoint.json").exists():
            self._restore()

    def train(self) -> DevScore | None:
        """Train to the end of the last stage."""
        last = self.stages[-1].first_epoch + self.stages[-1].epochs
        self._introduce(last)
        dev = None
        while self.place.epoch < last:
            self._enter_stage()
            self._epoch()
            dev = self._finish_epoch(last)
        if dev is None:
            self.reporter.note(f"{self.run.folder}: all {last} epochs are done already")
        return dev

    def request_stop(self, status: int) -> None:
        """Save and leave after the step in hand."""
        self.stop_status = status

    def _epoch(self) -> None:
        """Do what is left of the epoch."""
        self.net.train()
        place = self.place
        seed = self.config.train.seed * 1_000_003 + place.epoch
        total = sum(len(plan.batches) for plan in self.loader.plan(seed))
        with self.reporter.progress(f"epoch {place.epoch + 1}", total) as advance:
            advance(place.batch)
            for batch in self.loader.batches(seed, skip=place.batch):
                began = time.perf_counter()
                within = place.epoch - self.stage.first_epoch + place.batch / total
                rate = self.stage.rate(place.stage_step, within / self.stage.epochs)
                self._step(batch, rate)
                place.batch, place.step, place.stage_step = (
                    place.batch + 1,
                    place.step + 1,
                    place.stage_step + 1,
                )
                place.frames += float(batch.frames.sum())
                place.seconds += time.perf_counter() - began
                _show(advance, place, rate)
                if self.stop_status is not None:
                    self._save_last()
                    raise Stopped(self.stop_status)

    def _step(self, batch: Batch, rate: float) -> None:
        set_rate(self.optimizer, rate)
        loss = self._losses(batch).sum()
        value, phones = float(loss.detach()), max(int(batch.label_counts.sum()), 1)
        if not math.isfinite(value):
            raise self._not_finite(batch, value)
        self.optimizer.zero_grad(set_to_none=True)
        (loss / phones).backward()  # type: ignore[no-untyped-call]
        if self.config.train.clip:
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.config.train.clip)
        self.optimizer.step()
        self.place.loss += value
        self.place.phones += phones

    def _forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        features = net_input(batch.static, batch.frames, self.mean, self.std, self.config.features)
        with autocast(self.device, self.config.train.precision):
            logits, frames = self.net(features, batch.frames)
        return logits.float(), frames

    def _losses(self, batch: Batch) -> Tensor:
        logits, frames = self._forward(batch)
        return self._ctc(logits, frames, batch)

    def _ctc(self, logits: Tensor, frames: Tensor, batch: Batch) -> Tensor:
        return ctc_loss(
            logits.transpose(0, 1),
            batch.labels,
            frames,
            batch.label_counts,
            reduction="none",
            backend=self.config.train.loss_backend,
        )

    @torch.inference_mode()
    def evaluate(self) -> DevScore:
        """Score dev by the best path."""
        self.net.eval()
        pairs: list[tuple[list[str], list[str]]] = []
        loss = phones = blanks = frames_seen = 0.0
        for batch in self.dev.batches(None):
            logits, frames = self._forward(batch)
            losses = self._ctc(logits, frames, batch)
            feasible = losses.isfinite()
            loss += float(losses[feasible].sum())
            phones += float(batch.label_counts[feasible].sum())
            inside = torch.arange(logits.shape[1], device=self.device) < frames[:, None]
            blanks += float(((logits.argmax(2) == 0) & inside).sum())
            frames_seen += float(frames.sum())
            for index, path in zip(batch.indices, best_path(logits, frames), strict=True):
                reference = self.dev.split.labels(int(index)).tolist()
                pairs.append((self.inventory.decode(reference), self.inventory.decode(path)))
        return DevScore(score(pairs, self.folding), loss / max(phones, 1), blanks / max(frames_seen, 1))

    def _finish_epoch(self, last: int) -> DevScore:
        place = self.place
        dev = self.evaluate()
        line = {
            "epoch": place.epoch + 1,
            "step": place.step,
            "loss": place.loss / max(place.phones, 1),
            "dev_loss": dev.loss,
            "dev_per": dev.counts.per,
            "blank_share": dev.blank_share,
            "lr": self.optimizer.param_groups[0]["lr"],
            "frames_per_second": place.frames / max(place.seconds, 1e-9),
            "seconds": place.seconds,
        }
        self.run.log(line)
        better = dev.counts.per < place.best_per
        place.best_per = min(place.best_per, dev.counts.per)
        place.epoch, place.batch = place.epoch + 1, 0
        place.loss = place.phones = place.frames = place.seconds = 0.0
        if better:  # before last/: cut off in between, the epoch's end is done again, and best/ not missed
            save_checkpoint(self.run.best, self._checkpoint(line))
        self._save_last(line)
        self.reporter.note(_epoch_line(line, last, better))
        self._watch_blanks(dev)
        return dev

    def _watch_blanks(self, dev: DevScore) -> None:
        """Tell ordinary early blanks from a net that has collapsed."""
        self.blank_epochs = self.blank_epochs + 1 if dev.blank_share > BLANK_COLLAPSE else 0
        if self.blank_epochs == 1:
            self.reporter.note("  the net answers blank nearly everywhere; that is usual for the first epochs")
        if self.blank_epochs == PATIENCE_WITH_BLANKS:
            self.reporter.warn(
                f"{self.blank_epochs} epochs of nothing but blanks: if the loss no longer falls, raise train.lr"
                " or lower it tenfold, set model.norm=channel, or check that labels and recordings belong together"
            )

    def _enter_stage(self) -> None:
        stage = max((s for s in self.stages if s.first_epoch <= self.place.epoch), key=lambda s: s.first_epoch)
        if stage is self.stage:
            return
        self.reporter.note(f"{stage.name}: {stage.optimizer} at {stage.lr:g} from the best weights so far")
        self.net.load_state_dict(load_checkpoint(self.run.best, self.device).net.state_dict())
        self.stage, self.optimizer = stage, build_optimizer(self.net, stage)
        self.place.stage_step = 0

    def _checkpoint(self, line: dict[str, Any], state: dict[str, Tensor] | None = None) -> Checkpoint:
        facts = {"seed": self.config.train.seed, "fold": self.folding.name, **line}
        return Checkpoint(self.config, self.inventory, self.net, self.mean, self.std, facts, state or {})

    def _save_last(self, line: dict[str, Any] | None = None) -> None:
        state = optimizer_tensors(self.optimizer)
        state |= {"place": self.place.to_tensor(), "random.cpu": torch.get_rng_state()}
        state["stage"] = torch.tensor([self.stages.index(self.stage)])
        if self.device.type == "cuda":
            state["random.cuda"] = torch.cuda.get_rng_state(self.device)
        save_checkpoint(
            self.run.last,
            self._checkpoint(line or {"epoch": self.place.epoch, "step": self.place.step}, state),
        )

    def _restore(self) -> None:
        checkpoint = load_checkpoint(self.run.last, self.device)
        if checkpoint.inventory != self.inventory:
            raise InputError(
                f"{self.run.folder}: this run was begun with another phone set",
                "name another folder with --run",
            )
        self.net.load_state_dict(checkpoint.net.state_dict())
        self.place = Place.of(checkpoint.state["place"])
        self.stage = self.stages[min(int(checkpoint.state["stage"]), len(self.stages) - 1)]
        self.optimizer = build_optimizer(self.net, self.stage)
        restore_optimizer(self.optimizer, checkpoint.state)
        torch.set_rng_state(checkpoint.state["random.cpu"])
        if self.device.type == "cuda" and "random.cuda" in checkpoint.state:
            torch.cuda.set_rng_state(checkpoint.state["random.cuda"], self.device)

    def _limits(self) -> Limits:
        config = self.config
        width = (2 if config.data.dtype == "float16" else 4) * config.features.static_dims
        chunk_frames = config.data.chunk_mib * 2**20 // width
        return Limits(config.train.batch_size, config.train.batch_frames, chunk_frames)

    def _training_loader(self, split: Split) -> Loader:
        """Leave out what cannot be trained on: its phones do not fit into its frames at the model's time stride."""
        infeasible = split.infeasible(self.config.model.time_stride)
        if infeasible:
            named = ", ".join(split.ids[index] for index in infeasible[:3])
            self.reporter.warn(
                f"{len(infeasible)} utterances left out, too short for their phones at"
                f" model.time_stride={self.config.model.time_stride}: {named}"
            )
        members = np.setdiff1d(np.arange(len(split)), infeasible)
        if not len(members):
            raise InputError("no training utterance is long enough for its phones", "lower model.time_stride")
        return Loader(split, self._limits(), self.device, members)

    def _introduce(self, last: int) -> None:
        field_ms = receptive_field(self.config.model, self.config.features) * self.config.features.shift_ms
        frames = int(self.loader.split.frames[self.loader.members].sum())
        hours = frames * self.config.features.shift_ms / 3.6e6
        self.reporter.note(
            f"{parameter_count(self.net):,} parameters, sees {field_ms:.0f} ms; {len(self.inventory.phones)} phones;"
            f" {len(self.loader.members)} utterances, {hours:.2f} h; dev {len(self.dev.members)};"
            f" {self.device}, {self.config.train.precision}"
        )
        if self.place.step:
            where = f"epoch {self.place.epoch + 1} of {last}, batch {self.place.batch + 1}"
            self.reporter.note(f"going on from {self.run.last}: {where}")

    def _not_finite(self, batch: Batch, value: float) -> InputError:
        ids = [self.loader.split.ids[int(index)] for index in batch.indices]
        named = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
        kept = f"; {self.run.last} holds the last good state" if self.run.last.exists() else ""
        return InputError(
            f"the loss became {value} at epoch {self.place.epoch + 1}, step {self.place.step + 1},"
            f" in the batch of {named}",
            f"lower train.lr, or look at these recordings{kept}",
        )


def _read(config: Config, split: str) -> list[Shard]:
    return read_split(config.data.dir / split, config.features.model_dump(mode="json"))


def _show(advance: Advance, place: Place, rate: float) -> None:
    loss = place.loss / max(place.phones, 1)
    per = f"  dev PER {place.best_per:.1f} %" if math.isfinite(place.best_per) else ""
    speed = place.frames / max(place.seconds, 1e-9)
    advance(1, f"loss {loss:.3f}{per}  lr {rate:.1e}  {speed:,.0f} frames/s")


def _epoch_line(line: dict[str, Any], last: int, better: bool) -> str:
    return (
        f"epoch {line['epoch']:>3} of {last}  loss {line['loss']:.3f}  dev loss {line['dev_loss']:.3f}"
        f"  dev PER {line['dev_per']:.2f} %{' *' if better else '  '}  blank {100 * line['blank_share']:.0f} %"
        f"  {line['seconds']:.1f} s  {line['frames_per_second']:,.0f} frames/s"
    )


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
