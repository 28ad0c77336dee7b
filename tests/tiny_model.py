"""A tiny model trained in seconds to name the tones of `tests.tones`, by torch's own loss, and songs for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
import torch
from numpy.typing import NDArray

from speechctc.config.load import load_config, parse_config
from speechctc.core.optimizers import AdamW
from speechctc.features.padded import Moments, net_input, static_features
from speechctc.model.checkpoint import Checkpoint, save_checkpoint
from speechctc.model.net import build_net
from speechctc.phones.inventory import inventory_of, named_inventory
from tests.tones import HERTZ, PHONES, RATE, write_table

Times = list[tuple[float, float]]
GAP = 0.04


def hear_around(net: torch.nn.Module) -> None:
    """Let what is heard around change what a net says: the weights for that begin with zeros."""
    for name, value in net.named_parameters():
        if name.startswith("context.up."):
            torch.nn.init.normal_(value, 0, 0.5)


def sing(phones: list[str], rng: np.random.Generator, rate: int = RATE) -> tuple[NDArray[np.float32], Times]:
    """Return samples as `tests.tones.speak` makes them, and from when to when each tone sounds."""
    parts: list[NDArray[np.float64]] = [np.zeros(int(GAP * rate))]
    times: Times = []
    at = int(GAP * rate)
    for phone in phones:
        steps = np.arange(int(rng.uniform(0.09, 0.15) * rate)) / rate
        parts += [rng.uniform(0.2, 0.6) * np.sin(2 * np.pi * HERTZ[phone] * steps), np.zeros(int(GAP * rate))]
        times.append((at / rate, (at + len(steps)) / rate))
        at += len(steps) + int(GAP * rate)
    samples = np.concatenate(parts)
    return (samples + 1e-3 * rng.standard_normal(len(samples))).astype(np.float32), times


def write_song(path: Path, phones: list[str], seed: int = 0, rate: int = RATE, channels: int = 1) -> Times:
    """Write a recording of these phones; return their times."""
    samples, times = sing(phones, np.random.default_rng(seed), rate)
    soundfile.write(path, np.repeat(samples[:, None], channels, axis=1), rate)
    return times


def teach(folder: Path, steps: int = 80) -> Path:
    """Write a corpus with tables, teach a small net a training set like it, and save it as a run; return the run."""
    tables = {split: str(write_table(folder, 24, k)) for k, split in enumerate(("train", "dev", "test"))}
    config = parse_config(
        {
            "run": str(folder / "run"),
            "corpus": {"kind": "table", "tables": tables},
            "features": {"mels": 20},
            "model": {"convs": [12, 12], "dense": [32], "time_stride": 2, "dropout": 0.0, "norm": "layer"},
            "train": {"device": "cpu"},
        },
        "tests",
    )
    rng = np.random.default_rng(11)
    torch.manual_seed(1)
    inventory = inventory_of(PHONES)
    songs = [[PHONES[k] for k in rng.integers(len(PHONES), size=rng.integers(3, 9))] for _ in range(32)]
    statics = [static_features(torch.from_numpy(sing(song, rng)[0]), config.features) for song in songs]
    moments = sum((Moments.of(static, config.features) for static in statics), start=Moments.zero(config.features))
    mean, std = moments.normalisation()
    net = build_net(config, inventory)
    torch.nn.init.zeros_(net.dense[0].get_parameter("conv.bias"))  # songs have no masks, and 80 steps are few
    frames = torch.tensor([len(static) for static in statics])
    inputs = net_input(torch.nn.utils.rnn.pad_sequence(statics, batch_first=True), frames, mean, std, config.features)
    labels = [inventory.encode(song) for song in songs]
    lengths, targets = torch.tensor(list(map(len, labels))), torch.tensor(sum(labels, []))
    optimizer = AdamW([{"params": [*net.parameters()], "weight_decay": 0.0}], 0.01)
    for _ in range(steps):
        logits, outputs = net(inputs, frames)
        log_probs = logits.log_softmax(2).transpose(0, 1)
        loss = torch.nn.functional.ctc_loss(log_probs, targets, outputs, lengths)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    save_checkpoint(folder / "run" / "best", Checkpoint.of(config, inventory, net, mean, std, {"seed": 1}))
    return folder / "run"


def random_model(name: str) -> Checkpoint:
    """Return the net of a config that comes along, over TIMIT's phones, with weights at random."""
    config = load_config(name)
    torch.manual_seed(2)
    some = static_features(0.1 * torch.randn(16000), config.features)
    mean, std = Moments.of(some, config.features).normalisation()
    phones = named_inventory("timit61")
    return Checkpoint.of(config, phones, build_net(config, phones), mean, std)
