"""From files of ELAN or Praat to a model and back to such files: no symbol changes on the way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from praatio import textgrid
from pympi import Elan

from speechctc.config.load import parse_config
from speechctc.config.schema import CorpusConfig
from speechctc.corpora.registry import read_corpus
from speechctc.inference.output import OutputOptions
from speechctc.inference.recogniser import Recogniser
from speechctc.stages.decode import decode
from speechctc.stages.extract import extract
from speechctc.stages.open_model import ModelChoice, open_model
from speechctc.stages.split_scoring import score_split
from speechctc.stages.train import train
from tests.tiny_model import Times, sing
from tests.tones import PHONES, RATE
from tests.train_helpers import Recorder

SYMBOLS = dict(zip(PHONES, ("t͡ʃʰ", "ã", 'ɡ"<&>', "ǃː˥"), strict=True))
Turn = tuple[str, list[str], Times]


def talk(audio: Path, seed: int) -> list[Turn]:
    """Write a dialogue with 2 s of silence after each of twelve turns; return speaker, phones and times of each."""
    rng = np.random.default_rng(seed)
    parts, turns, at = [], list[Turn](), 0.0
    for number in range(12):
        phones = [PHONES[k] for k in rng.integers(len(PHONES), size=6)]
        samples, times = sing(phones, rng)
        turns.append((f"S{number % 2}", phones, [(at + start, at + end) for start, end in times]))
        parts += [samples, np.zeros(2 * RATE, np.float32)]
        at += len(samples) / RATE + 2.0
    soundfile.write(audio, np.concatenate(parts), RATE)
    return turns


def label_in_elan(audio: Path, turns: list[Turn]) -> None:
    eaf = Elan.Eaf()
    eaf.add_linked_file(f"file:///D:/gone/{audio.name}", mimetype="audio/x-wav")
    for speaker in ("S0", "S1"):
        eaf.add_tier(f"phones@{speaker}", part=f"{audio.stem}-{speaker}")
    for speaker, phones, times in turns:
        for phone, (start, end) in zip(phones, times, strict=True):
            eaf.add_annotation(f"phones@{speaker}", round(1000 * start), round(1000 * end), SYMBOLS[phone])
    eaf.remove_tier("default")
    eaf.to_file(str(audio.with_suffix(".eaf")))


def label_in_praat(audio: Path, turns: list[Turn]) -> None:
    grid = textgrid.Textgrid(0, soundfile.info(audio).duration)
    for one in ("S0", "S1"):
        pairs = [pair for speaker, *turn in turns if speaker == one for pair in zip(*turn, strict=True)]
        entries = [(start, end, SYMBOLS[phone]) for phone, (start, end) in pairs]
        grid.addTier(textgrid.IntervalTier(f"phones@{audio.stem}-{one}", entries, 0, grid.maxTimestamp))
    grid.save(str(audio.with_suffix(".TextGrid")), "short_textgrid", includeBlankSpaces=True)


@pytest.mark.parametrize("kind", ["elan", "textgrid"])
def test_no_symbol_changes_on_the_way_to_a_model_and_back(tmp_path: Path, kind: str) -> None:
    said = {}
    for number in range(4):
        audio = tmp_path / "corpus" / ("test" if number == 3 else "train") / f"talk{number}.wav"
        audio.parent.mkdir(parents=True, exist_ok=True)
        said[audio.stem] = talk(audio, number)
        (label_in_elan if kind == "elan" else label_in_praat)(audio, said[audio.stem])
    corpus = {"kind": kind, "root": str(tmp_path / "corpus"), "tier": "phones@*", "dev_share": 0.2}
    config = parse_config(
        {
            "run": str(tmp_path / "run"),
            "corpus": corpus,
            "data": {"dir": str(tmp_path / "features")},
            "features": {"mels": 20},
            "model": {"convs": [12, 12], "dense": [32], "time_stride": 2, "dropout": 0.0, "norm": "layer"},
            "train": {"epochs": 16, "lr": 0.01, "batch_size": 4, "schedule": "cosine", "device": "cpu"},
        },
        "tests",
    )
    summaries = extract(config, Recorder())
    assert sum(summary.utterances for summary in summaries) == 48 and not any(s.skipped for s in summaries)
    train(config, False, Recorder())
    recogniser = open_model(tmp_path / "run", Recogniser, ModelChoice("cpu"))
    assert set(recogniser.phones) == set(SYMBOLS.values())
    assert score_split(recogniser, "test", (), Recorder(), "scoring").counts.per < 15
    out = tmp_path / "out"
    options = OutputOptions("eaf", None, out, also=("textgrid",))
    assert decode(recogniser, [tmp_path / "corpus" / "test" / "talk3.wav"], options, Recorder()) == 0
    (out / "talk3.wav").symlink_to(tmp_path / "corpus" / "test" / "talk3.wav")
    wanted = [SYMBOLS[phone] for _, phones, _ in said["talk3"] for phone in phones]
    for back in ("elan", "textgrid"):
        splits = read_corpus(CorpusConfig(kind=back, root=out)).splits
        utterances = [each for part in splits.values() for each in part]
        found = [phone for each in sorted(utterances, key=lambda each: each.id) for phone in each.phones]
        assert found == list(recogniser.decode(out / "talk3.wav").phones) and set(found) <= set(SYMBOLS.values())
        assert sum(a == b for a, b in zip(found, wanted, strict=False)) > 0.8 * len(wanted)
