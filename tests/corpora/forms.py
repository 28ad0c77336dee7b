"""The corpora of others, written in the forms in which they come: the same utterances in each."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple


class Said(NamedTuple):
    """An utterance: its recording, who speaks, what, and how long it is."""

    split: str
    speaker: str
    audio: Path
    words: str
    seconds: float


def librispeech(folder: Path, utterances: Sequence[Said]) -> None:
    """Write SPLIT/SPEAKER/CHAPTER/SPEAKER-CHAPTER.trans.txt with lines of an id and capitals, beside recordings."""
    for split, names in (("train", "train-clean-5"), ("dev", "dev-clean"), ("test", "test-clean")):
        for number, each in enumerate(each for each in utterances if each.split == split):
            id = f"{each.speaker}-1-{number:04d}"
            place = folder / names / each.speaker / "1"
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(each.audio, place / f"{id}{each.audio.suffix}")
            with open(place / f"{each.speaker}-1.trans.txt", "a", encoding="utf-8") as file:
                file.write(f"{id} {each.words.upper()}\n")
    (folder / "SPEAKERS.TXT").write_text("; ID | SEX\n")


def kaldi(folder: Path, utterances: Sequence[Said]) -> None:
    """Write data/SPLIT with wav.scp, text, segments and utt2spk; the first entry of wav.scp is a command."""
    for split in ("train", "dev", "test"):
        own = [(f"{each.speaker}-{k:04d}", each) for k, each in enumerate(utterances) if each.split == split]
        place = folder / "data" / split
        place.mkdir(parents=True)
        tool = "flac -c -d -s {} |" if split == "train" else "{}"
        lines = {
            "wav.scp": [f"rec-{id} {tool.format(each.audio.resolve())}" for id, each in own],
            "segments": [f"{id} rec-{id} 0.00 {each.seconds:.3f}" for id, each in own],
            "text": [f"{id} {each.words}" for id, each in own],
            "utt2spk": [f"{id} {each.speaker}" for id, each in own],
            "spk2gender": sorted({f"{each.speaker} f" for _, each in own}),
        }
        for name, rows in lines.items():
            (place / name).write_text("\n".join(rows) + "\n", encoding="utf-8")


def nemo(folder: Path, utterances: Sequence[Said]) -> None:
    """Write SPLIT_manifest.json, an object on each line."""
    _copied(folder, utterances)
    for split in ("train", "dev", "test"):
        _write_lines(
            folder / f"{split}_manifest.json",
            (
                {"audio_filepath": f"wavs/{_name(each)}", "duration": each.seconds, "text": each.words, "offset": 0.0}
                for each in utterances
                if each.split == split
            ),
        )


def lhotse(folder: Path, utterances: Sequence[Said], cuts: bool = True, ending: str = ".jsonl.gz") -> None:
    """Write cuts of lhotse, or its recordings and supervisions."""
    _copied(folder, utterances)
    for split in ("train", "dev", "test"):
        own = [(f"u{k}", each) for k, each in enumerate(utterances) if each.split == split]
        recordings = {
            id: {
                "id": f"rec-{id}",
                "sources": [{"type": "file", "channels": [0], "source": f"wavs/{_name(each)}"}],
                "duration": each.seconds,
            }
            for id, each in own
        }
        said = {
            id: {
                **{"id": id, "recording_id": f"rec-{id}", "start": 0.0, "duration": each.seconds, "channel": 0},
                **{"text": each.words, "speaker": each.speaker},
            }
            for id, each in own
        }
        if cuts:
            rows = [
                {
                    **{"id": f"{id}-cut", "start": 0.0, "duration": each.seconds, "channel": 0, "type": "MonoCut"},
                    **{"supervisions": [said[id]], "recording": recordings[id]},
                }
                for id, each in own
            ]
            _write_lines(folder / f"mine_cuts_{split}{ending}", rows)
        else:
            _write_lines(folder / f"mine_recordings_{split}{ending}", recordings.values())
            _write_lines(folder / f"mine_supervisions_{split}{ending}", said.values())


def supervisions(folder: Path, utterances: Sequence[Said]) -> None:
    """Write lhotse's recordings and supervisions, not packed."""
    lhotse(folder, utterances, cuts=False, ending=".jsonl")


def audiofolder(folder: Path, utterances: Sequence[Said], ending: str = ".csv") -> None:
    """Write SPLIT/metadata beside the recordings, for Hugging Face's datasets."""
    for split in ("train", "dev", "test"):
        own = [each for each in utterances if each.split == split]
        place = folder / split
        _copied(place, own, "")
        rows = [{"file_name": _name(each), "transcription": each.words} for each in own]
        if ending == ".jsonl":
            _write_lines(place / "metadata.jsonl", rows)
            continue
        with open(place / "metadata.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def audiofolder_json(folder: Path, utterances: Sequence[Said]) -> None:
    """Write SPLIT/metadata.jsonl."""
    audiofolder(folder, utterances, ".jsonl")


def common_voice(folder: Path, utterances: Sequence[Said]) -> None:
    """Write SPLIT.tsv and the tables beside them, with recordings in clips."""
    _copied(folder, utterances, "clips")
    columns = "client_id path sentence_id sentence sentence_domain up_votes down_votes age gender accents".split()
    for name, splits in {
        **{split: (split,) for split in ("train", "dev", "test")},
        "validated": ("train", "dev", "test"),
        "invalidated": ("dev",),
    }.items():
        lines = ["\t".join(columns)]
        for each in utterances:
            if each.split in splits:
                lines.append("\t".join([each.speaker * 8, _name(each), "x", each.words, "", "2", "0", "", "", ""]))
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "clip_durations.tsv").write_text("clip\tduration[ms]\n", encoding="utf-8")


def audiofolder_validation(folder: Path, utterances: Sequence[Said]) -> None:
    """Write an audiofolder whose dev split is called ``validation``."""
    audiofolder(folder, utterances)
    (folder / "dev").rename(folder / "validation")


def one_metadata(folder: Path, utterances: Sequence[Said]) -> None:
    """Write one metadata.csv above the folders of the splits, for Hugging Face's datasets."""
    rows = []
    for split, name in (("train", "train"), ("dev", "validation"), ("test", "test")):
        own = [each for each in utterances if each.split == split]
        _copied(folder, own, name)
        rows += [f"{name}/{_name(each)},{each.words}\n" for each in own]
    (folder / "metadata.csv").write_text("file_name,transcription\n" + "".join(rows), encoding="utf-8")


def column_of_splits(folder: Path, utterances: Sequence[Said]) -> None:
    """Write one table with a column that says the split of each row."""
    _copied(folder, utterances)
    names = {"train": "train", "dev": "val", "test": "eval"}
    rows = [f"wavs/{_name(each)}\t{each.words}\t{each.speaker}\t{names[each.split]}\n" for each in utterances]
    (folder / "all.tsv").write_text("path\tsentence\tspeaker\tsplit\n" + "".join(rows), encoding="utf-8")


def fairseq(folder: Path, utterances: Sequence[Said]) -> None:
    """Write SPLIT.tsv with the folder of the recordings in its first line, and SPLIT.ltr."""
    _copied(folder, utterances)
    for split, name in (("train", "train"), ("dev", "valid"), ("test", "test")):
        own = [each for each in utterances if each.split == split]
        lines = [str((folder / "wavs").resolve()), *(f"{_name(each)}\t{int(16000 * each.seconds)}" for each in own)]
        letters = [" ".join(each.words.replace(" ", "|")) + " |" for each in own]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / f"{name}.ltr").write_text("\n".join(letters) + "\n", encoding="utf-8")


def speechbrain(folder: Path, utterances: Sequence[Said]) -> None:
    """Write SPLIT.json, one object with an object for each id."""
    _copied(folder, utterances)
    for split, name in (("train", "train"), ("dev", "valid"), ("test", "test")):
        rows = {
            f"u{k}": {
                "wav": f"{{data_root}}/wavs/{_name(each)}",
                "duration": each.seconds,
                "spk_id": each.speaker,
                "words": each.words,
            }
            for k, each in enumerate(utterances)
            if each.split == split
        }
        (folder / f"{name}.json").write_text(json.dumps(rows, indent=2), encoding="utf-8")


def filelists(folder: Path, utterances: Sequence[Said]) -> None:
    """Write lists for synthesis, without a line of names: the recording, the speaker and the text."""
    _copied(folder, utterances)
    for split, name in (("train", "train"), ("dev", "val"), ("test", "test")):
        own = [each for each in utterances if each.split == split]
        lines = [f"wavs/{_name(each)}|{each.speaker}|{each.words}\n" for each in own]
        (folder / f"audio_text_{name}_filelist.txt").write_text("".join(lines), encoding="utf-8")


FORMS: dict[str, Callable[[Path, Sequence[Said]], None]] = {
    each.__name__: each
    for each in (
        *(librispeech, kaldi, nemo, lhotse, supervisions, audiofolder, audiofolder_json, common_voice),
        *(audiofolder_validation, one_metadata, column_of_splits, fairseq, speechbrain, filelists),
    )
}


def _name(each: Said) -> str:
    return f"{each.speaker}_{each.audio.name}"


def _copied(folder: Path, utterances: Sequence[Said], place: str = "wavs") -> None:
    (folder / place).mkdir(parents=True, exist_ok=True)
    for each in utterances:
        shutil.copy(each.audio, folder / place / _name(each))


def _write_lines(path: Path, rows: Iterable[object]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
