"""A file of a user, for a strict type checker: what is right is accepted, what is wrong needs its ``type: ignore``."""

from __future__ import annotations

import io
from pathlib import Path

import torch
from torch import Tensor, nn

import speechctc
from speechctc.ctc import CTCLoss, ctc_loss


def loss_by_either_name(logits: Tensor, targets: Tensor, lengths: list[int]) -> Tensor:
    """Call the loss as PyTorch's and by its own name."""
    by_name = ctc_loss(
        log_probs=logits, targets=targets, input_lengths=lengths, target_lengths=lengths, reduction="sum"
    )
    by_place = ctc_loss(logits, targets, lengths, lengths, 0, "none", scale=0.5)
    return (
        by_name
        + by_place.sum()
        + CTCLoss(reduction="mean").forward(
            log_probs=logits, targets=targets, input_lengths=lengths, target_lengths=lengths
        )
    )


def wrong(logits: Tensor, targets: Tensor, lengths: list[int]) -> None:
    """Call with what no function takes."""
    ctc_loss(logits, targets, lengths, lengths, reduction="average")  # type: ignore[call-overload]
    ctc_loss(logits, targets=targets, input_lengths=lengths)  # type: ignore[call-overload]
    CTCLoss(reduction="max")  # type: ignore[arg-type]
    speechctc.train("demo", on_epoch=count)  # type: ignore[arg-type]
    speechctc.register_model("wrong", falling)  # type: ignore[arg-type]
    speechctc.OwnNet(nn.Linear(1, 1), sees="all", longest=1.0)  # type: ignore[arg-type]


def build(inputs: int, classes: int, width: int = 8) -> speechctc.OwnNet:
    """Return a net of one's own."""
    layers = nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, classes)
    return speechctc.OwnNet(nn.Sequential(*layers), stride=1, sees=(0, 0), version="1")


class Lion(torch.optim.SGD):
    """An optimiser of one's own."""


def falling(step: int, done: float, power: float = 1.0) -> float:
    """Return a factor of the rate."""
    return float((1 - done) ** power)


def watch(record: speechctc.EpochRecord) -> bool:
    """End a training that is good enough."""
    languages: dict[str, float] = record.get("dev_per_of", {})
    return record["dev_per"] < 20 and record["epoch"] > 2 and not languages


def count(record: speechctc.StepRecord) -> None:
    """Print a step."""
    print(record["step"], record["loss"] * record["phones"], record["lr"])


def main() -> None:
    """Train, load, decode, score."""
    speechctc.register_model("layers", build)
    speechctc.register_optimizer("lion", Lion)
    speechctc.register_schedule("falling", falling)
    config = {"base": "demo", "run": "runs/mine", "model": {"kind": "layers", "options": {"width": 4}}}
    speechctc.extract(config, "train.epochs=1")
    run: Path = speechctc.train(config, ["train.optimizer=lion"], on_epoch=watch, on_step=count).run
    model = speechctc.load(run, torch.device("cpu"))
    with open("a.wav", "rb") as file:
        phones: tuple[str, ...] = model.decode(file).phones
    for each in (model.decode(io.BytesIO(b"")), model.decode(torch.zeros(16000, dtype=torch.bfloat16), 16000)):
        phones += each.phones
    rate: float = speechctc.evaluate(run, "dev").counts.per
    print(phones, rate)
