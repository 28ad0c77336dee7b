"""The corpus that flite speaks; where flite is not installed, a program of the same form speaks in its place."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.audio.annotations import read_textgrid
from speechctc.config.schema import CorpusConfig, FliteConfig
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import SPLITS
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.synthesisers import find_voices, speak_by_flite
from tests.programs import write_program

PROGRAM = """
import sys, wave, math, struct
given = sys.argv[1:]
if given == ["-lv"]:
    print("Voices available: kal awb_time kal16 slt ")
    sys.exit()
stretch = float(given[given.index("--setf") + 1].split("=")[1])
text, out, end = given[given.index("-t") + 1], given[given.index("-o") + 1], 0.1 * stretch
parts = [f"pau:{end:.3f}"]
for word in text.split():
    for label in ("dh", "ax"):
        end += 0.1 * stretch
        parts.append(f"{label}:{end:.3f}")
print(" ".join(parts + [f"pau:{end + 0.2:.3f}"]), "")
sound = [int(3000 * math.sin(k * (0.2 if k % 800 < 400 else 0.1))) for k in range(int((end + 0.2) * 8000))]
with wave.open(out, "wb") as file:
    file.setnchannels(1), file.setsampwidth(2), file.setframerate(8000)
    file.writeframes(struct.pack(f"<{len(sound)}h", *sound))
"""
TEXT = "\n".join(
    f"{a} {b} of the {c}" for a in ("one", "two", "six") for b in ("cats", "dogs") for c in ("sea", "lake")
)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program in flite's place that speaks two phones for each word."""
    folder = tmp_path / "programs"
    folder.mkdir()
    write_program(folder / "flite", PROGRAM)
    monkeypatch.setenv("PATH", str(folder))
    return folder / "flite"


def config(folder: Path, **settings: object) -> CorpusConfig:
    (folder / "text.txt").write_text(TEXT)
    flite = FliteConfig(text=folder / "text.txt", utterances=40, words=(2, 9), held_out=0.1)
    return CorpusConfig.model_validate(
        {"kind": "flite", "root": folder / "corpus", "phones": "cmu39", "flite": flite, **settings}
    )


def sentences(folder: Path) -> set[str]:
    return {read_textgrid(path, "sentence")[0].label for path in folder.rglob("*.TextGrid")}


def test_what_is_spoken_is_labelled_with_its_times(program: Path, tmp_path: Path) -> None:
    corpus = read_corpus(config(tmp_path))
    assert {split: len(corpus.splits[split]) for split in SPLITS} == {"train": 32, "dev": 4, "test": 4}
    for each in corpus.splits["train"]:
        sound, rate = soundfile.read(each.audio)
        assert rate == 16000 and set(each.phones) == {"dh", "ah"} and len(each.phones) % 2 == 0
        times = np.array(each.times)
        assert times.shape == (len(each.phones), 2) and (times[1:, 0] >= times[:-1, 1] - 1e-3).all()
        inside = sound[int(times[0, 0] * rate) + 200 : int(times[-1, 1] * rate) - 200]
        outside = sound[: int(times[0, 0] * rate) - 2200]  # before the pause that the program itself makes
        assert np.std(inside) > 20 * np.std(outside)
    speakers = {each.speaker for each in corpus.splits["train"]}
    assert {name.split("-")[0] for name in speakers} == {"slt", "kal16"}
    spoken = {split: sentences(tmp_path / "corpus" / split) for split in SPLITS}
    assert spoken["dev"] and not spoken["train"] & spoken["dev"] and not spoken["train"] & spoken["test"]


def test_what_is_missing_is_said(tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(program, "print('Voices available: kal ')\n")
    with pytest.raises(InputError, match="flite has none of the voices awb"):
        read_corpus(config(tmp_path))
    write_program(program, "raise SystemExit(3)\n")
    with pytest.raises(InputError, match="flite failed"):
        read_corpus(config(tmp_path))
    program.unlink()
    with pytest.raises(InputError, match="flite is not installed"):
        read_corpus(config(tmp_path))
    assert not (tmp_path / "corpus").exists()
    with pytest.raises(InputError, match="corpus.root is not set"):
        read_corpus(CorpusConfig.model_validate({"kind": "flite"}))


@pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")
def test_the_real_program_speaks_as_asked() -> None:
    voice = find_voices()[0]
    slow, fast = (speak_by_flite("She had your dark suit.", voice, stretch, 1.0) for stretch in (1.3, 0.8))
    labels = [[phone.label for phone in each.phones] for each in (slow, fast)]
    assert " ".join(labels[0]).startswith("sh iy hh ae d") and labels[0] == labels[1]
    assert slow.end > 1.3 * fast.end
    assert slow.end <= len(slow.samples)
