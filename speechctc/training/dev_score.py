"""Score the dev split during training: decode as the config says, on all ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from speechctc.decoding.ngram import PhoneLM
from speechctc.decoding.search import best_labels
from speechctc.metrics.per import EditCounts, edit_counts
from speechctc.phones.folding import Folding
from speechctc.phones.inventory import Inventory
from speechctc.progress import Reporter
from speechctc.training.batches import Loader
from speechctc.training.train_step import Learner

BLANK_COLLAPSE = 0.995  # fraction of blank frames on dev from which the output counts as all blank
PATIENCE_WITH_BLANKS = 4  # such epochs in a row before the warning


@dataclass(frozen=True)
class DevScore:
    """Edit counts, loss per phone, and the fraction of frames whose best class is the blank."""

    counts: EditCounts
    loss: float
    blank_share: float


@torch.inference_mode()
def score_dev(
    learner: Learner,
    loader: Loader,
    inventory: Inventory,
    folding: Folding,
    lm: PhoneLM | None,
    stopped: Callable[[], bool],
) -> DevScore | None:
    """Score the dev split, each rank its share; return None if any rank was asked to stop meanwhile."""
    learner.net.eval()
    ranks = learner.ranks
    counts, sums = EditCounts(), [0.0, 0.0, 0.0, 0.0]
    for batch in loader.batches(loader.plan(None, ranks.world_size), ranks.rank):
        if batch is None or stopped():
            break
        logits, frames = learner.forward(batch)
        losses = learner.losses(logits, frames, batch).double().cpu()
        feasible = losses.isfinite()
        inside = torch.arange(logits.shape[1], device=logits.device) < frames[:, None]
        blanks = ((logits.argmax(2) == 0) & inside).sum()
        labels = torch.from_numpy(batch.counts)[feasible].sum()
        new = (losses[feasible].sum(), labels, blanks, frames.sum())
        sums = [total + float(value) for total, value in zip(sums, new, strict=True)]
        for index, path in zip(batch.indices.tolist(), best_labels(logits, frames, lm, learner.config), strict=True):
            reference = inventory.decode(loader.split.labels(index).tolist())
            counts += edit_counts(folding.apply(reference), folding.apply(inventory.decode(path)))
    learner.net.train()
    if any(ranks.max([float(stopped())])):
        return None
    edits = (counts.substitutions, counts.deletions, counts.insertions, counts.reference_phones, counts.utterances)
    *edits_of_all, loss, phones, blank, seen = ranks.sum([*edits, *sums])
    return DevScore(EditCounts(*map(int, edits_of_all)), loss / max(phones, 1), blank / max(seen, 1))


class BlankWatch:
    """Warns when the net outputs blanks only, for longer than the usual first epochs."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.epochs = 0

    def see(self, dev: DevScore) -> None:
        """Take an epoch's score."""
        self.epochs = self.epochs + 1 if dev.blank_share > BLANK_COLLAPSE else 0
        if self.epochs == 1:
            self.reporter.note("  the net answers blank nearly everywhere; that is usual for the first epochs")
        if self.epochs == PATIENCE_WITH_BLANKS:
            self.reporter.warn(
                f"{self.epochs} epochs of nothing but blanks: if the loss no longer falls, raise train.lr"
                " or lower it tenfold, set model.norm=none, or check that labels and recordings belong together"
            )
