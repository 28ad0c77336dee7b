"""A corpus whose phones are tones: small nets learn it in seconds, and what is right is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

RATE = 16000
HERTZ = {"low": 300.0, "mid": 900.0, "high": 2500.0, "top": 6000.0}
PHONES = tuple(HERTZ)


def speak(phones: list[str], rng: np.random.Generator, rate: int = RATE) -> NDArray[np.float32]:
    """Return samples: each phone a tone of 90 to 150 ms after a gap of 40 ms."""
    gap = np.zeros(int(0.04 * rate))
    parts: list[NDArray[np.float64]] = [gap]
    for phone in phones:
        steps = np.arange(int(rng.uniform(0.09, 0.15) * rate)) / rate
        parts += [rng.uniform(0.2, 0.6) * np.sin(2 * np.pi * HERTZ[phone] * steps), gap]
    samples = np.concatenate(parts)
    return (samples + 1e-3 * rng.standard_normal(len(samples))).astype(np.float32)


def write_table(folder: Path, count: int, seed: int, rate: int = RATE) -> Path:
    """Write `count` recordings and their table; return the table."""
    rng = np.random.default_rng(seed)
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(count):
        phones = [PHONES[k] for k in rng.integers(len(PHONES), size=rng.integers(3, 9))]
        name = f"audio/{seed}-{number:03d}.wav"
        soundfile.write(folder / name, speak(phones, rng, rate), rate)
        row = {"id": f"u{seed}-{number:03d}", "audio": name, "phones": phones, "speaker": f"s{number % 4}"}
        rows.append(json.dumps(row))
    table = folder / f"table{seed}.jsonl"
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return table


def write_config(folder: Path, train: int = 48, held_out: int = 12) -> Path:
    """Write a corpus of three splits and the config of a small net over it; return the config."""
    tables = {
        split: write_table(folder, n, k)
        for k, (split, n) in enumerate({"train": train, "dev": held_out, "test": held_out}.items())
    }
    config = folder / "tones.yaml"
    config.write_text(
        f"""
run: {folder}/run
corpus:
  kind: table
  tables: {{train: {tables["train"]}, dev: {tables["dev"]}, test: {tables["test"]}}}
data: {{dir: {folder}/features}}
features: {{mels: 20}}
model: {{convs: [12, 12], dense: [32], time_stride: 2, dropout: 0.0, norm: layer}}
train: {{epochs: 12, lr: 0.01, batch_size: 8, schedule: cosine, warmup_steps: 10, device: cpu, curves: false}}
""",
        encoding="utf-8",
    )
    return config
