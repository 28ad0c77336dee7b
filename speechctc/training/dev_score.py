"""Score the dev split during training: decode as the config says, on all ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from speechctc.config.schema import ModelConfig
from speechctc.core.parallel import ordered, threads
from speechctc.ctc.loss import ctc_loss
from speechctc.features.activity import ActivityGate
from speechctc.features.filterbank import frame_mask
from speechctc.lm.model import PhoneLM
from speechctc.lm.search import Rows, best_labels, choose_search, log_softmax
from speechctc.metrics.per import EditCounts, edit_counts
from speechctc.model.layers import output_frames
from speechctc.model.net import PieceWins, counted_wins
from speechctc.phones.inventory import Inventory
from speechctc.training.batches import Batch, Loader, TrainingData
from speechctc.training.train_step import TrainStep

MIN_OCCURRENCES = 10  # occurrences in dev from which a phone that is never recognised counts as dead


@dataclass(frozen=True)
class DevScore:
    """The scores of dev.

    Attributes
    ----------
    counts : EditCounts
    loss : float
        Per phone.
    blank_share : float
        Fraction of frames whose best class is the blank.
    entropy : float
        Mean entropy of the output of a frame, nats.
    dead_phones : tuple of str
        Phones that occur at least ten times in dev, and are the best class of no frame.
    dead_pieces : float or None
        Share of maxout pieces that never win in the first batch; None for a net without maxout.
    """

    counts: EditCounts
    loss: float
    blank_share: float
    entropy: float = 0.0
    dead_phones: tuple[str, ...] = ()
    dead_pieces: float | None = None
    # The PER of each language, where dev has several.
    languages: dict[str, float] = field(default_factory=dict)


def constant_loss(data: TrainingData, model: ModelConfig) -> float:
    """Return the loss per phone of a net that gives every frame the same answer, on up to 100 utterances of dev.

    The answer has the phones' frequencies in train, and as much blank as leaves each phone a frame
    (docs/explain/blank.md).
    """
    split = data.dev.split
    chosen = [k for k in range(0, len(split), -(-len(split) // 100)) if split.label_counts[k]]
    if not chosen:
        return math.inf
    labels = [split.labels(k).long() for k in chosen]
    counts = torch.tensor([len(each) for each in labels])
    frames = torch.tensor([int(output_frames(int(split.frames[k]), model)) for k in chosen])
    spoken = min(float(counts.sum() / frames.sum()), 0.9)
    often = torch.tensor(data.frequencies()).float() + 1
    answer = torch.cat([torch.tensor([1 - spoken]), spoken * often / often.sum()]).log()
    logits = answer.expand(int(frames.max()), len(chosen), -1)
    losses = ctc_loss(logits, torch.cat(labels), frames, counts, reduction="none").double()
    possible = losses.isfinite()
    return float(losses[possible].sum() / counts[possible].sum()) if possible.any() else math.inf


class _Outputs:
    """What the net makes of dev, batch after batch, and sums over that.

    Attributes
    ----------
    sums : list of float
        The losses of the utterances that have one, and their phones.
    totals : Tensor, shape = (3,), float64
        On the device: blank frames, frames, and the sum of their entropies in nats.
    best : Tensor, shape = (classes,), int64
        On the device: frames for which each class is the best.
    wins : PieceWins
        Of the maxout pieces in the first batch.
    """

    def __init__(self, train_step: TrainStep, loader: Loader, classes: int) -> None:
        self.train_step, self.loader = train_step, loader
        self.sums, self.wins = [0.0, 0.0], PieceWins()
        self.totals = torch.zeros(3, dtype=torch.float64, device=train_step.device)
        self.best = torch.zeros(classes, dtype=torch.int64, device=train_step.device)

    def utterances(self, stopped: Callable[[], bool]) -> Iterator[tuple[int, Rows, Rows]]:
        """Yield the number, the static features and the logits of each utterance of this rank, until stopped."""
        ranks = self.train_step.ranks
        for batch in self.loader.batches(self.loader.plan(None, ranks.world_size), ranks.rank):
            if batch is None or stopped():
                return
            logits, frames = self._forward(batch)
            losses = self.train_step.losses(logits, frames, batch).double().cpu()
            feasible = losses.isfinite()
            new = losses[feasible].sum(), torch.from_numpy(batch.counts)[feasible].sum()
            self.sums = [total + float(value) for total, value in zip(self.sums, new, strict=True)]
            self._add(logits, frame_mask(frames, logits.shape[1]))
            inputs = zip(batch.static.float().cpu().numpy(), batch.lengths.tolist(), strict=True)
            outputs = zip(logits.cpu().numpy(), frames.tolist(), strict=True)
            for index, (static, length), (rows, count) in zip(batch.indices.tolist(), inputs, outputs, strict=True):
                yield index, static[:length], rows[:count]

    def _forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return logits and output frames of a batch; of the first, note the wins of the maxout pieces."""
        if self.wins.layers or self.train_step.config.model.activation != "maxout":
            return self.train_step.forward(batch)
        ends = torch.as_tensor(output_frames(batch.frames, self.train_step.config.model))
        last = int(output_frames(int(batch.lengths.max()), self.train_step.config.model))
        with counted_wins(self.train_step.net, frame_mask(ends, last)) as self.wins:
            return self.train_step.forward(batch)

    def _add(self, logits: Tensor, inside: Tensor) -> None:
        """Add the frames of a batch, (n_batch, max_frames, classes), where `inside` is true."""
        best, entropy = logits.argmax(2), torch.special.entr(logits.softmax(2)).sum(2).double()
        new = ((best == 0) & inside).sum(), inside.sum(), torch.where(inside, entropy, 0.0).sum()
        self.totals += torch.stack([value.double() for value in new])
        self.best.index_add_(0, best.flatten(), inside.flatten().long())


@torch.inference_mode()
def score_dev(
    train_step: TrainStep, data: TrainingData, lm: PhoneLM | None, stopped: Callable[[], bool]
) -> DevScore | None:
    """Score the dev split, each rank its share; return None if any rank was asked to stop meanwhile."""
    train_step.net.eval()
    loader, inventory, folding, languages = data.dev, data.inventory, data.folding, data.dev_languages
    ranks, classes = train_step.ranks, len(inventory.phones) + 1
    counts, outputs = EditCounts(), _Outputs(train_step, loader, classes)
    gate, jobs = ActivityGate(train_step.config, inventory.phones), threads()
    names = languages.names
    by_language = np.zeros((len(names), 2))  # errors and phones
    with ThreadPoolExecutor(jobs, "dev") as pool:  # decodes a batch while the net computes the next
        begun = jobs + train_step.config.train.batch_size

        def submit(one: tuple[int, Rows, Rows]) -> Future[tuple[int, list[int]]]:
            return pool.submit(lambda: (one[0], decode_utterance(*one[1:], gate, lm)))

        for index, found in ordered(submit, outputs.utterances(stopped), begun):
            reference = inventory.decode(loader.split.labels(index).tolist())
            one = edit_counts(folding.apply(reference), folding.apply(inventory.decode(found)))
            counts += one
            if names:
                by_language[languages.numbers[index]] += one.errors, one.reference_phones
    train_step.net.train()
    if any(ranks.max([float(stopped())])):
        return None
    edits = (counts.substitutions, counts.deletions, counts.insertions, counts.reference_phones, counts.utterances)
    loss, phones, blank, seen, entropy, *rest = ranks.sum(
        [*outputs.sums, *outputs.totals.tolist(), *edits, *outputs.best.tolist(), *by_language.flatten().tolist()]
    )
    rates = np.array(rest[5 + classes :]).reshape(-1, 2)
    return DevScore(
        EditCounts(*map(int, rest[:5])),
        loss / max(phones, 1),
        blank / max(seen, 1),
        entropy / max(seen, 1),
        _dead_phones(loader, inventory, rest[5 : 5 + classes]),
        float(outputs.wins.dead_share()) if outputs.wins.layers else None,
        {name: float(100 * errors / max(phones, 1)) for name, (errors, phones) in zip(names, rates, strict=True)},
    )


def decode_utterance(static: Rows, logits: Rows, gate: ActivityGate, lm: PhoneLM | None) -> list[int]:
    """Return the labels of an utterance, found as decoding finds them: with its search and activity gate.

    Parameters
    ----------
    static : ndarray, shape = (n_frames, static_dims)
    logits : ndarray, shape = (n_output_frames, classes)
    gate : ActivityGate
    lm : PhoneLM, optional
    """
    return best_labels(choose_search(lm, None, gate.config, logits.shape[1]), log_softmax(gate.whole(static, logits)))


def _dead_phones(loader: Loader, inventory: Inventory, best: Sequence[float]) -> tuple[str, ...]:
    """Return the phones that are frequent in dev, and the best class of none of its frames."""
    labels = loader.split.labels_of_all
    there = torch.bincount(labels, minlength=len(best)).tolist()
    each = zip(inventory.phones, there[1:], best[1:], strict=True)
    return tuple(phone for phone, count, frames in each if count >= MIN_OCCURRENCES and not frames)
