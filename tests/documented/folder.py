"""A folder with the files that the documents name: recordings by eSpeak NG, TextGrids, tables, and a trained model."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import soundfile

from speechctc.audio.annotations import Interval, read_textgrid, textgrid_text
from speechctc.audio.eaf_writer import eaf_text
from speechctc.config.schema import CorpusConfig, DemoConfig
from speechctc.corpora.registry import read_corpus
from speechctc.phones.folding import parse_folding
from tests.documented.reading import ROOT

DEMO = DemoConfig(
    voices=6, held_out=0.3, sentences=12, utterances_per_voice=3, evaluation_utterances_per_voice=2
)  # two voices each for train, dev and test
DEMO_SETTINGS = [
    f"corpus.demo.{key}={getattr(DEMO, key)}"
    for key in ("voices", "held_out", "sentences", "utterances_per_voice", "evaluation_utterances_per_voice")
]


def phones(recording: Path) -> list[Interval]:
    """Return the labels of a recording of the demo corpus as phones of CMU's dictionary."""
    fold = parse_folding("timit39")
    rows = [
        (row, fold.mapping.get(row.label, row.label))
        for row in read_textgrid(recording.with_suffix(".TextGrid"), "phones")
    ]
    kept = [row._replace(label="t" if label == "dx" else label) for row, label in rows if label not in ("sil", "q")]
    return kept


def write_timit(recording: Path, root: Path) -> None:
    """Write a recording of the demo corpus and its labels in the layout of TIMIT."""
    split, speaker, name = recording.parts[-3:]
    target = root / split.upper() / "DR1" / speaker.upper() / name.upper()
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(recording, target)
    labels = read_textgrid(recording.with_suffix(".TextGrid"), "phones")
    lines = [f"{round(16000 * each.start)} {round(16000 * each.end)} {each.label}\n" for each in labels]
    target.with_suffix(".PHN").write_text("".join(lines), encoding="ascii")


def write_grid(recording: Path, target: Path) -> None:
    """Write the labels of a recording as a TextGrid with two tiers of phones."""
    labels = phones(recording)
    text = textgrid_text(soundfile.info(recording).duration, {"phones": labels, "segments": labels})
    target.with_suffix(".TextGrid").write_text(text, encoding="utf-8")


def write_track(recording: Path, target: Path) -> None:
    """Put a recording somewhere, with its labels as HTK has them."""
    place(recording, target)
    lines = [f"{round(1e7 * each.start)} {round(1e7 * each.end)} {each.label}\n" for each in phones(recording)]
    target.with_suffix(".lab").write_text("".join(lines), encoding="utf-8")


def write_interview(recording: Path, target: Path, speakers: tuple[str, ...]) -> None:
    """Write a recording with a file of ELAN that has a tier of phones for each speaker."""
    target.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(target, *soundfile.read(recording))
    labels = phones(recording)
    half = len(labels) // len(speakers)
    tiers = {f"phones@{name}": labels[k * half : (k + 1) * half] for k, name in enumerate(speakers)}
    target.with_suffix(".eaf").write_text(eaf_text(tiers, target), encoding="utf-8")


def place(recording: Path, target: Path, labelled: bool = False) -> None:
    """Put a recording somewhere, in the format of the ending, with a TextGrid if it is labelled."""
    target.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(target, *soundfile.read(recording))
    if labelled:
        write_grid(recording, target)


def write_table(path: Path, recordings: list[Path], folder: Path) -> None:
    """Write a table of recordings."""
    rows = ["id\taudio\tphones\tspeaker"]
    for number, recording in enumerate(recordings):
        labels = " ".join(row.label for row in phones(recording))
        rows.append(f"{path.stem}{number}\t{recording.relative_to(folder)}\t{labels}\t{recording.parent.name}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


WELSH = """Dw i eisiau cael fy arian yn ôl
Mae'r trên yn gadael am naw
Mae hi'n braf iawn heddiw
Roedd y ci yn cysgu ar y soffa
Ble mae'r orsaf agosaf
Hoffwn i baned o de os gwelwch yn dda""".splitlines()


def write_welsh(folder: Path, train: list[Path], test: list[Path]) -> None:
    """Write a text, tables of words, and the config that docs/guide/languages.md shows."""
    more = [f"{a} a {b}" for a in WELSH for b in WELSH[:4] if a != b]
    (folder / "sentences.txt").write_text("\n".join(WELSH + more), encoding="utf-8")
    (folder / "phones.txt").write_text("p t k b d g m n s a e i o u ʈ aɪ\n", encoding="utf-8")
    for name, recordings in (("transcripts", train), ("test", test)):
        rows = ["id\tspeaker\taudio\twords"]
        for number, recording in enumerate(recordings):
            audio, words = recording.relative_to(folder), WELSH[number % len(WELSH)]
            rows.append(f"{name}{number}\t{recording.parent.name}\t{audio}\t{words}")
        (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    shown = re.search(
        r"```text\n(base: finetune\n.*?)```", (ROOT / "docs" / "guide" / "languages.md").read_text("utf-8"), re.S
    )
    assert shown is not None
    (folder / "welsh.yaml").write_text(shown[1], encoding="utf-8")


def prepare(folder: Path) -> None:
    """Fill a folder."""
    shutil.copytree(ROOT / "configs", folder / "configs")
    demo = folder / "data" / "demo"
    read_corpus(CorpusConfig(kind="demo", root=demo, demo=DEMO))
    parts = {side: sorted((demo / side.lower()).rglob("*.wav")) for side in ("TRAIN", "DEV", "TEST")}
    for recording in demo.rglob("*.wav"):
        write_timit(recording, folder / "timit")
    for root in ("recordings", "field recordings", "grids"):
        for recording in parts["TRAIN"]:
            place(recording, folder / root / recording.parent.name / f"{recording.stem}.wav", labelled=True)
    for recording in parts["TRAIN"]:
        write_track(recording, folder / "tracks" / recording.parent.name / f"{recording.stem}.wav")
    for recording in parts["TRAIN"][:2]:  # a test split whose phones are known from training
        place(recording, folder / "recordings" / "test" / "kim" / f"{recording.stem}.wav", True)
    for number, recording in enumerate(parts["TRAIN"]):
        write_interview(recording, folder / "interviews" / f"talk{number}.wav", (f"anna{number}", f"otto{number}"))
    for number, recording in enumerate(parts["DEV"]):
        place(recording, folder / "new" / recording.parent.name / f"{recording.stem}.wav")
        for twin in (number, number + 4):  # each twice: a dev utterance must have no phone that training lacks
            place(recording, folder / "talks" / f"talk{twin}.wav")
        place(recording, folder / "more" / f"more{number}.flac")
        place(recording, folder / "folder" / f"talk{number}.wav", labelled=True)
    shutil.copytree(folder / "folder", folder / "reference", ignore=shutil.ignore_patterns("*.wav"))
    shutil.copytree(folder / "folder", folder / "labels", ignore=shutil.ignore_patterns("*.wav"))
    write_table(folder / "train.tsv", parts["TRAIN"], folder)
    write_table(folder / "dev.tsv", parts["DEV"], folder)
    write_table(folder / "table.tsv", parts["TEST"], folder)
    write_welsh(folder, parts["TRAIN"], parts["TEST"])
    place(parts["TEST"][0], folder / "a.wav")
    place(parts["TEST"][1], folder / "long.wav")
    left, right = (soundfile.read(recording)[0] for recording in parts["TEST"][:2])
    size = min(len(left), len(right))
    soundfile.write(folder / "interview.wav", np.stack([left[:size], right[:size]], axis=1), 16000)
