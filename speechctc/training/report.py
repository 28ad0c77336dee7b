"""The texts of training: introduction, progress bar, end of an epoch."""

from __future__ import annotations

import math
from typing import Any

from speechctc.metrics.per import PER_MEANS
from speechctc.model.net import parameter_count, receptive_field
from speechctc.training.data import TrainingData
from speechctc.training.dev_score import DevScore
from speechctc.training.run_state import Progress
from speechctc.training.train_step import Learner


def introduction(learner: Learner, data: TrainingData) -> str:
    """Return one line on the net, the data and the device; a second on languages, if there are several."""
    config, together = learner.config, learner.ranks.world_size
    field_ms = receptive_field(config.model, config.features) * config.features.shift_ms
    hours = data.train.frames * config.features.shift_ms / 3.6e6
    languages = data.languages.describe(data.train.members, config.train.balance)
    return (
        f"{parameter_count(learner.net):,} parameters, sees {field_ms:.0f} ms; {len(data.inventory.phones)} phones;"
        f" {len(data.train.members)} utterances, {hours:.2f} h; dev {len(data.dev.members)};"
        f" {learner.device}{f', {together} processes' if together > 1 else ''}, {learner.precision}"
        + (f"\n{languages}" if languages else "")
    )


LEGEND = (
    f"{PER_MEANS}; dev: utterances that are not trained on and that tell which epoch is the best (*);"
    " blank: frames of dev for which the net names no phone"
)


def bar_text(progress: Progress, rate: float) -> str:
    """Return the text beside the progress bar: loss, PER, learning rate, speed."""
    loss = progress.loss / max(progress.phones, 1)
    per = f"  dev PER {progress.best_per:.1f} %" if math.isfinite(progress.best_per) else ""
    return f"loss {loss:.3f}{per}  lr {rate:.1e}  {progress.frames / max(progress.seconds, 1e-9):,.0f} frames/s"


def epoch_record(progress: Progress, dev: DevScore, loss: float, learner: Learner) -> dict[str, Any]:
    """Return an epoch's line for ``metrics.jsonl``; `loss` is the sum over all ranks."""
    mean = loss / max(progress.phones, 1)
    return {
        "epoch": progress.epoch + 1,
        "step": progress.step,
        "loss": mean,
        "dev_loss": dev.loss,
        "dev_gap": dev.loss - mean,
        "dev_per": dev.counts.per,
        "blank_share": dev.blank_share,
        "entropy": dev.entropy,
        "dead_phones": len(dev.dead_phones),
        "dead_phone_names": " ".join(dev.dead_phones),
        **({} if dev.dead_pieces is None else {"dead_pieces": dev.dead_pieces}),
        **({"dev_per_of": dev.languages} if dev.languages else {}),
        **learner.norms.summary(),
        "lr": progress.rate or learner.optimizer.param_groups[0]["lr"],
        "frames_per_second": progress.frames / max(progress.seconds, 1e-9),
        "seconds": progress.seconds,
        "waited": progress.waited,
        "minutes": progress.elapsed / 60,
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
