"""Small valid inputs of every reader, made on the spot, for the mutations to start from."""

from __future__ import annotations

import gzip
import io
import json
import re
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import soundfile
import torch
import yaml

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.audio.eaf import eaf_text
from speechctc.config.load import parse_config
from speechctc.config.schema import Config
from speechctc.features.filterbank import Moments
from speechctc.features.shards import Extracted, Recipe, shard_path, write_shard
from speechctc.inference.segmenter import Calibration
from speechctc.lm.model import PhoneLM
from speechctc.model.checkpoint import Checkpoint, save_checkpoint
from speechctc.model.net import build_net
from speechctc.phones.inventory import inventory_of
from speechctc.studio.document import Document
from tests.audio.test_textgrids import SHORT
from tests.lm.arpa_texts import SRILM

Files = dict[str, bytes]
"""An input: the contents of files, by their names; a name may have folders in it."""

PHONES = ("a", "b", "ʃ")
PHN = b"0 100 h#\n100 300 sh\n300 500 iy\n500 790 h#\n"
LONG = textgrid_text(1.5, {"phones": [Interval(0.0, 0.5, "a"), Interval(0.5, 1.5, "ʃ")]})
TABLES = {
    "t.tsv": "id\taudio\tphones\tspeaker\tchannel\nu1\ta.wav\ta b\ts1\t1\nu2\ta.wav\t[]\ts2\t\n",
    "t.csv": 'id,audio,phones\n"u1",a.wav,"a ""b"""\nu2,a.wav,"[""a"",""ʃ""]"\n',
    "t.jsonl": '{"id": "u1", "audio": "a.wav", "phones": ["a", "ʃ"], "channel": 1}\n'
    '{"id": 2, "audio": "a.wav", "phones": "a b", "speaker": "s"}\n',
}
CONFIG = {
    "corpus": {"kind": "table", "tables": {"train": "train.tsv"}},
    "data": {"dir": "features"},
    "features": {"mels": 6, "deltas": 1},
    "model": {"convs": [2], "dense": [3], "dropout": 0.0},
    "train": {"epochs": 2, "device": "cpu", "curves": False},
}
SETTINGS = (
    "train.epochs=3",
    "model.convs=[2,2]",
    "corpus.tables.train=x.tsv",
    "augment.speed=[0.9, 1.1]",
    "score.fold={a: b}",
)


def recording(format: str = "WAV", subtype: str | None = None, rate: int = 16000, channels: int = 1) -> bytes:
    """Return a recording of 50 ms."""
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, (rate // 20, channels)).astype(np.float32)
    file = io.BytesIO()
    soundfile.write(file, noise, rate, format=format, subtype=subtype)
    return file.getvalue()


KINDS = """WAV PCM_16 16000 1, WAV FLOAT 8000 2, WAV ULAW 44100 1, WAVEX PCM_24 16000 2, WAV IMA_ADPCM 16000 1,
WAV GSM610 8000 1, FLAC PCM_16 16000 2, AIFF PCM_16 16000 1, OGG VORBIS 16000 1, OGG OPUS 48000 1,
MP3 MPEG_LAYER_III 16000 1, RF64 PCM_16 16000 1, NIST PCM_16 16000 1, AU PCM_16 8000 2, CAF PCM_16 16000 1,
W64 PCM_16 16000 1"""


def recordings() -> list[Files]:
    kinds = [kind.split() for kind in KINDS.split(",")]
    return [{"a.wav": recording(form, subtype, int(rate), int(count))} for form, subtype, rate, count in kinds]


def textgrids() -> list[Files]:
    texts = [LONG, SHORT, LONG.replace("\n", "\r\n")]
    raw = [text.encode() for text in texts] + [("\ufeff" + LONG).encode("utf-16-le"), SHORT.encode("utf-16")]
    return [{"a.TextGrid": each} for each in raw]


def eaf_files() -> list[Files]:
    tiers = {"phones": [Interval(0.0, 0.01, "a"), Interval(0.01, 0.03, "ã<&")], "words": [Interval(0.0, 0.03, "a ã")]}
    text = eaf_text({**tiers, "confidence": [each._replace(label="0.5") for each in tiers["phones"]]}, Path("a.wav"))
    text = re.sub('DATE="[^"]*"', 'DATE="2026-01-01T00:00:00Z"', text)
    text = re.sub('MEDIA_URL="[^"]*"', 'MEDIA_URL="file:///old/a.wav"', text)
    raw = [text.encode(), text.replace("UTF-8", "UTF-16").encode("utf-16"), text.replace("\n", "\r\n").encode()]
    return [{"a.eaf": each, "a.wav": recording()} for each in raw]


def maps() -> list[Files]:
    texts = ("r\tɹ\ntʃ\tt ʃ\nsp\t\n", "a;b\n", "a,b\r\nc,d e\r\n", "aa ɑ\nsil\n")
    return [{"m.tsv": each.encode()} for each in texts] + [{"m.tsv": texts[0].encode("utf-16")}]


def tables() -> list[Files]:
    sound = {"a.wav": recording()}
    raw = [{name: text.encode()} for name, text in TABLES.items()]
    raw += [{"t.csv": TABLES["t.csv"].replace(",", ";").encode("cp1252", "replace")}]
    return [each | sound for each in (*raw, {"t.tsv": TABLES["t.tsv"].encode("utf-16")})]


def configs() -> list[Files]:
    under = {"base.yaml": yaml.safe_dump({"base": "demo", "train": {"lr": 0.1}}).encode()}
    text = yaml.safe_dump(CONFIG).encode()
    anchors = b"model: {convs: &c [2], dense: *c}\ncorpus: {kind: timit, root: /data, dev_share: 1e-1}\n"
    return [
        {"c.yaml": text},
        {"c.yaml": b"base: base.yaml\n" + text, **under},
        {"c.yaml": anchors},
        {"c.yaml": text, **under},
    ]


@lru_cache
def config() -> Config:
    """Return the config of the run, of the model and of the shards."""
    return parse_config({**CONFIG, "run": "run"}, "fuzzing")


def _write_shards(folder: Path) -> None:
    wanted = config()
    recipe = Recipe(wanted.features.model_dump(mode="json"), "found", PHONES, "fuzzing")
    random = torch.Generator().manual_seed(1)
    for number in range(2):
        made = []
        for utterance in range(3):
            static = torch.randn(12, wanted.features.static_dims, generator=random)
            moments = Moments.of(static, wanted.features)
            made.append(Extracted(f"u{number}{utterance}", static, (1, 2, 3), moments, 0.12))
        path = shard_path(folder, number, 2)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_shard(path, made, [("u9", "too short")], recipe, torch.float32)


def _read(folder: Path) -> Files:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@lru_cache
def _shards() -> Files:
    with tempfile.TemporaryDirectory() as name:
        _write_shards(Path(name))
        return _read(Path(name))


def shards() -> list[Files]:
    return [dict(_shards())]


@lru_cache
def model() -> Files:
    """Return a model with an n-gram and a calibration."""
    wanted, inventory = config(), inventory_of(PHONES)
    torch.manual_seed(1)
    net = build_net(wanted, inventory)
    lm = PhoneLM.learn([[1, 2, 3], [1, 3]], len(PHONES) + 1, 2)
    shape = (wanted.features.channels, wanted.features.static_dims)
    facts = {"epoch": 1, "dev_per": 12.5, "seed": 1}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        save_checkpoint(
            folder, Checkpoint.of(wanted, inventory, net, torch.zeros(shape), torch.ones(shape), facts, lm=lm)
        )
        Calibration(1.1, 0.1, 0.01, 90, 0.1, 0.05, 0.9, "best path").save(folder)
        return _read(folder)


def checkpoints() -> list[Files]:
    return [dict(model()), {name: raw for name, raw in model().items() if not name.startswith("lm")}]


def arpas() -> list[Files]:
    return [{"lm.arpa": SRILM.encode()}, {"lm.arpa": gzip.compress(SRILM.encode(), mtime=0)}]


def dictionaries() -> list[Files]:
    cmu = ";;; words\nA  AH0\nA(2)  EY1\nABBEY  AE1 B IY0 # place\n"
    mfa = "a\t0.9\t0.1\t1.0\t1.0\tə\na\tɛ ɪ\nb\tb iː\n"
    return [{"words.dict": text.encode(code)} for text in (cmu, mfa) for code in ("utf-8", "utf-16")]


def texts() -> list[Files]:
    raw = "a b ʃ\n\nb a\n".encode()
    return [{"t.txt": raw}, {"t.txt": gzip.compress(raw, mtime=0)}]


def inventories() -> list[Files]:
    texts = ("a b ʃ t͡s aː aɪ\n", "phone\tcount\na\t5\nʃ\t2\n")
    return [{"i.txt": each.encode(code)} for each in texts for code in ("utf-8", "utf-16")]


def rounds() -> list[Files]:
    """What a studio left beside a folder of recordings."""
    scores = {"before": {"per": 20.0}, "after": {"per": 10.0}}
    state = {"state": "done", "process": 1, "test": ["a.wav"], "train": ["b.wav"], **scores}
    about = {"round.json": state, "run/best/checkpoint.json": {}, "run/metrics.jsonl": record_line()}
    first = {f"talks-studio/round-1/{name}": json.dumps(each).encode() for name, each in about.items()}
    chosen = {"talks-studio/studio.json": json.dumps({"model": "round-1/run/best", "round": 0}).encode()}
    running = {"talks-studio/round-2/round.json": json.dumps(state | {"state": "training"}).encode()}
    return [first | chosen, first | chosen | running]


def record_line() -> dict[str, float]:
    return {"epoch": 1, "loss": 2.0, "dev_loss": 2.5, "dev_per": 50.0, "minutes": 0.5}


def names() -> list[Files]:
    text = "a.wav\nb.WAV\nsub/a.flac\nsub/a.mp3\na.TextGrid\na b.wav\nə.wav\na.wav.TextGrid\n._a.wav\nc.pcm\n"
    return [{"names.txt": text.encode()}]


def phns() -> list[Files]:
    return [{"a.phn": PHN}, {"a.phn": PHN.replace(b"\n", b"\r\n")}]


def transcripts() -> list[Files]:
    texts = {"a.lab": "a b ʃ\n", "a.txt": "a\tb\n"}
    raw = [{name: text.encode()} for name, text in texts.items()]
    raw += [{"a.phn": PHN}, {"a.TextGrid": LONG.encode()}]
    return [each | {"a.wav": recording()} for each in raw]


def settings() -> list[Files]:
    return [{"settings": "\n".join(SETTINGS).encode()}, *({"settings": each.encode()} for each in SETTINGS)]


def folders() -> list[Files]:
    """Return folders such as people have: recordings with TextGrids, with .PHN files, with tables."""
    sound = recording()
    grids = [{"corpus/a.wav": sound, "corpus/a.TextGrid": each["a.TextGrid"]} for each in textgrids()[:4]]
    timit = {f"corpus/{side}/DR1/FABC0/SX1": each for side, each in (("TRAIN", sound), ("TEST", sound))}
    timit = {f"{name}.WAV": raw for name, raw in timit.items()} | {f"{name}.PHN": PHN for name in timit}
    made = [{f"corpus/{name}": raw for name, raw in each.items()} for each in tables()]
    return [*grids, timit, *made, {"corpus/a.wav": sound}]


def streams() -> list[Files]:
    """Return recordings that standard input takes."""
    kinds = [("WAV", "PCM_16"), ("WAV", "FLOAT"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III")]
    return [{"a.wav": recording(*kind)} for kind in (*kinds, ("AIFF", "PCM_16"), ("NIST", "PCM_16"))]


def corrections() -> list[Files]:
    """Return a recording, its TextGrid and the journal of the studio, and a request of the page."""
    requests = (
        {"what": "relabel", "phone": 0, "label": "b"},
        {"what": "move", "phone": 1, "edge": "start", "time": 0.02},
        {"what": "insert", "start": 0.01, "end": 0.03, "label": "a"},
        {"what": "split", "phone": 1, "time": 0.04, "label": "x"},
        {"what": "merge", "phone": 0},
        {"what": "confirm", "phone": 0},
    )
    grid = LONG.replace("1.5", "0.05").replace("0.5", "0.02")
    with tempfile.TemporaryDirectory() as name:
        recorded, journal = Path(name) / "a.wav", Path(name) / "a.wav.journal"
        recorded.write_bytes(recording())
        recorded.with_suffix(".TextGrid").write_text(grid, encoding="utf-8")
        document = Document(recorded)
        document.edit(document.revision, requests[0])
        document.edit(document.revision, requests[3])
        document.step(document.revision, "undo")
        lines = journal.read_bytes()
    files = {"a.wav": recording(), "a.TextGrid": grid.encode(), "a.wav.journal": lines}
    return [files | {"request.json": json.dumps(request).encode()} for request in requests]


def elan_parameters() -> list[Files]:
    text = '<param name="source">a.wav</param><param name="x">ə</param>'
    text = f'<?xml version="1.0" encoding="UTF-8"?><PARAM>{text}</PARAM>'
    return [{"parameters.xml": text.encode()}, {"parameters.xml": text.replace("ə", "é").encode("cp1252")}]
