"""The readers of outside input: valid inputs, which are made on the spot, and how each is called."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tempfile
import unicodedata
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import soundfile
import torch
import yaml

from speechctc.audio import sound_file
from speechctc.audio.annotations import Interval, read_phn, read_textgrid, read_tiers, textgrid_text
from speechctc.audio.eaf import find_media, read_eaf
from speechctc.audio.eaf_writer import eaf_text
from speechctc.audio.label_files import is_label_file, read_label_file
from speechctc.audio.recordings import Siblings, find_recordings, ids, left_out
from speechctc.audio.standard_input import opened_stdin
from speechctc.config.load import load_config, parse_config
from speechctc.config.schema import Config, CorpusConfig, TablesConfig
from speechctc.core.errors import InputError
from speechctc.corpora import timit
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.table_rows import read_table
from speechctc.corpora.tasks import in_table, is_table
from speechctc.corpora.tier_choice import phone_tier
from speechctc.corpora.transcripts import TranscriptOptions, read_transcript
from speechctc.features.splits import read_split
from speechctc.inference.load import load_lm
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.restriction import read_inventory
from speechctc.inference.segmenter import Calibration
from speechctc.lm.model import PhoneLM
from speechctc.model.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from speechctc.model.net import build_net
from speechctc.phones.articulation import match_phones, sounds_of
from speechctc.phones.inventory import inventory_of
from speechctc.phones.label_rules import LabelRules, divide_phone
from speechctc.phones.notations import from_xsampa, read_map, to_xsampa
from speechctc.phones.pronouncer import read_dictionary
from speechctc.stages.lm_texts import read_phone_text
from speechctc.stages.open_model import ModelChoice, open_model
from speechctc.stages.start import start
from speechctc.stages.used_model import find_and_describe
from speechctc.studio.document import Document
from speechctc.studio.journal import check_order, edit
from speechctc.studio.plugins import read_parameters, read_spans
from speechctc.studio.training import Training
from speechctc.training.batches import Split
from tests.audio.test_textgrids import SHORT
from tests.fuzzing.broken import Files
from tests.lm.arpa_texts import SRILM
from tests.split_files import Said, recipe_of, write_split


class Reader(NamedTuple):
    """A reader: what returns valid inputs, what reads the input in the working folder, and how many inputs to try."""

    valid: Callable[[], list[Files]]
    read: Callable[[], object]
    inputs: int = 100


RATE = 16000
LONGEST = 2000  # characters of a line for the user
PHONES = ("a", "b", "ʃ")


def line_fault(line: str) -> str:
    """Return what is wrong with a line for the user; nothing if it is one line that a terminal can show."""
    if len(line) > LONGEST:
        return f"has {len(line)} characters"
    bad = next((letter for letter in line if unicodedata.category(letter) in ("Cc", "Zl", "Zp")), None)
    return f"holds the character {bad!a}" if bad is not None else ""


def texts(name: str, *contents: str, codes: Iterable[str] = ("utf-8", "utf-16")) -> list[Files]:
    """Return an input of one text file for each content and encoding."""
    return [{name: text.encode(code)} for text in contents for code in codes]


def with_sound(inputs: list[Files]) -> list[Files]:
    return [each | {"a.wav": sound()} for each in inputs]


@cache
def sound(format: str = "WAV", subtype: str | None = None, rate: int = RATE, channels: int = 1) -> bytes:
    """Return a recording of 50 ms."""
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, (rate // 20, channels)).astype(np.float32)
    soundfile.write(file := io.BytesIO(), noise, rate, format=format, subtype=subtype)
    return file.getvalue()


KINDS = """WAV PCM_16 16000 1, WAV FLOAT 8000 2, FLAC PCM_16 16000 2, OGG VORBIS 16000 1, MP3 MPEG_LAYER_III 16000 1,
AIFF PCM_16 16000 1, NIST PCM_16 16000 1, WAV ULAW 44100 1, WAVEX PCM_24 16000 2, WAV IMA_ADPCM 16000 1,
W64 PCM_16 16000 1, WAV GSM610 8000 1, OGG OPUS 48000 1, RF64 PCM_16 16000 1, AU PCM_16 8000 2, CAF PCM_16 16000 1"""


def sounds() -> list[Files]:
    kinds = [kind.split() for kind in KINDS.split(",")]
    return [{"a.wav": sound(form, subtype, int(rate), int(count))} for form, subtype, rate, count in kinds]


def _audio() -> None:
    path = Path("a.wav")
    sound_file.info(path)
    sound_file.remark(path)
    sound_file.channels_differ(path)
    sound_file.read(path, RATE)


def _ffmpeg() -> None:
    """Read what a stand-in for ffmpeg writes: the bytes of a.wav, whatever it is asked for."""
    program, video = Path("bin/ffmpeg"), Path("a.m4a")
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec /bin/cat a.wav\n")
    program.chmod(0o755)
    video.write_bytes(b"\0\0\0 ftypM4A ")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", str(program.parent.resolve()))
            sound_file.info(video)
            sound_file.read(video, RATE)
    finally:
        shutil.rmtree(program.parent)
        video.unlink()


def _stdin(raw_rate: int | None = None) -> None:
    with open("a.wav") as file:
        os.dup2(file.fileno(), 0)
    with opened_stdin(RATE, raw_rate) as blocks:
        for _ in blocks:
            pass


LONG = textgrid_text(1.5, {"phones": [Interval(0.0, 0.5, "a"), Interval(0.5, 1.5, "ʃ")]})
PHN = "0 100 h#\n100 300 sh\n300 500 iy\n500 790 h#\n"


def _phn() -> None:
    with suppress(InputError):
        timit.read_labels(Path("a.phn"), 800, RATE)
    read_phn(Path("a.phn"))


def _textgrid() -> None:
    path = Path("a.TextGrid")
    phone_tier([path])
    tiers = read_tiers(path).tiers
    read_textgrid(path, tiers[0].name if tiers else "phones")


def eafs() -> list[Files]:
    tiers = {"phones": [Interval(0.0, 0.01, "a"), Interval(0.01, 0.03, "ã<&")], "words": [Interval(0.0, 0.03, "a ã")]}
    text = eaf_text(tiers, Path("a.wav")).replace(Path("a.wav").absolute().as_uri(), "file:///old/a.wav")
    return with_sound(
        texts("a.eaf", text, codes=["utf-8"]) + texts("a.eaf", text.replace("UTF-8", "UTF-16"), codes=["utf-16"])
    )


def _eaf() -> None:
    path = Path("a.eaf")
    with suppress(InputError):
        find_media(path, read_eaf(path).media)
    with suppress(InputError):
        read_spans(path)
    phone_tier([path])
    read_corpus(CorpusConfig(kind="elan", root=Path(), tier="*", phones="found", segment="ipa", tone="split"))


def label_texts() -> list[Files]:
    """Return label files of other programs."""
    files = {
        "a.txt": "0.0\t0.01\ta\n\\\t1\t2\n0.01\t0.03\tã b\n",
        "a.lab": "0 100000 x^a-b+c=d@1\n100000 300000 x^b-c+d=e@2\n",
        "b.lab": "signal a\n#\n 0.01 121 a; b\n 0.03 121 c\n",
        "a.ctm": ";; c\na 1 0.0 0.01 a 0.9\nb 2 0.01 0.02 b\n",
        "a.stm": "a 1 x 0.0 0.01 <o,f0> a b\n",
        "a.srt": "1\n00:00:00,000 --> 00:00:00,010\n<u>a</u> b\n",
        "a.vtt": "WEBVTT\n\nNOTE x\n\n00:00.000 --> 00:00.010\n<v A>a<00:00.005> &amp; b\n",
        "b.txt": "@UTF8\n@Begin\n",
    }
    return with_sound([each for name, text in files.items() for each in texts(name, text, codes=["utf-8"])])


def _label_file() -> None:
    recording = Path("a.wav")
    about = sound_file.info(recording) if recording.exists() else None
    for path in (each for each in Path().iterdir() if each != recording and each.is_file()):
        is_label_file(path)
        with suppress(InputError):
            found = read_label_file(path, recording, about)
            assert found is None or all(0 <= each.start <= each.end for each in found.entries)


def _map() -> None:
    table = read_map(Path("m.tsv")).phones
    rules = LabelRules(table, "ipa", {"tone": "split", "stress": "split", "length": "strip", "diacritics": "split"})
    for label in table:
        rules.phones(label)
        from_xsampa(label)
        to_xsampa(label)


def tables() -> list[Files]:
    tsv = "id\taudio\tphones\tspeaker\tchannel\nu1\ta.wav\ta b\ts1\t1\nu2\ta.wav\t[]\ts2\t\n"
    csv = 'id,audio,phones\n"u1",a.wav,"a ""b"""\nu2,a.wav,"[""a"",""ʃ""]"\n'
    rows = (
        {"id": "u1", "audio": "a.wav", "phones": ["a", "ʃ"], "channel": 1},
        {"id": 2, "audio": "a.wav", "phones": "a b", "speaker": "s"},
    )
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    named = texts("t.tsv", tsv) + texts("t.csv", csv, csv.replace(",", ";")) + texts("t.jsonl", lines, codes=["utf-8"])
    return with_sound(named)


def _table() -> None:
    (path,) = (path for path in Path().iterdir() if path.stem == "t")
    read_table(path)
    with suppress(InputError):
        in_table(path, None, TranscriptOptions())
    read_corpus(CorpusConfig(kind="table", tables=TablesConfig(train=path), phones="found"))


def transcripts() -> list[Files]:
    named = {"a.lab": "a b ʃ\n", "a.txt": "a\tb\n", "a.phn": PHN, "a.TextGrid": LONG}
    return with_sound([{name: text.encode()} for name, text in named.items()])


def _transcript() -> None:
    path = next(path for path in Path().iterdir() if path.stem == "a" and path.suffix != ".wav")
    is_table(path)
    read_transcript(path, Path("a.wav"), TranscriptOptions())


VALUES = {
    "corpus": {"kind": "table", "tables": {"train": "train.tsv"}},
    "data": {"dir": "features"},
    "features": {"mels": 6, "deltas": 1},
    "model": {"convs": [2], "dense": [3], "dropout": 0.0},
    "train": {"epochs": 2, "device": "cpu", "curves": False},
}
SETTINGS = "train.epochs=3\nmodel.convs=[2,2]\ncorpus.tables.train=x.tsv\naugment.speed=[0.9, 1.1]\nscore.fold={a: b}"


def configs() -> list[Files]:
    text = yaml.safe_dump(VALUES)
    anchors = "model: {convs: &c [2], dense: *c}\ncorpus: {kind: timit, root: /data, dev_share: 1e-1}\n"
    under = {"base.yaml": b"base: demo\ntrain: {lr: 0.1}\n"}
    return [each | under for each in texts("c.yaml", text, f"base: base.yaml\n{text}", anchors, codes=["utf-8"])]


def _settings() -> None:
    text = Path("settings").read_bytes().decode("utf-8", "surrogateescape")
    load_config("demo", text.split("\n")).to_dict()


def _inventory() -> None:
    """Match phones with those of a model, as `restrict` does."""
    own = ("a", "b", "ʃ", "i", "t", "s", "sil")
    phones = read_inventory(Path("i.txt"))
    for phone in phones:
        divide_phone(phone, diphthongs=True, affricates=False)
        sounds_of(phone)
    assert {match.phone for match in match_phones(phones, own).values()} <= set(own)


def rounds() -> list[Files]:
    """Return what a studio left beside a folder of recordings."""
    scores = {"before": {"per": 20.0}, "after": {"per": 10.0}}
    state = {"state": "done", "process": 1, "test": ["a.wav"], "train": ["b.wav"], **scores}
    record = {"epoch": 1, "loss": 2.0, "dev_loss": 2.5, "dev_per": 50.0, "minutes": 0.5}
    values = {
        "round-1/round.json": state,
        "round-1/run/best/checkpoint.json": {},
        "round-1/run/metrics.jsonl": record,
        "round-2/round.json": state | {"state": "training"},
        "studio.json": {"model": "round-1/run/best", "round": 0},
    }
    return [{f"talks-studio/{name}": json.dumps(each).encode() for name, each in values.items()}]


def _rounds() -> None:
    """Ask for all that the studio knows of its rounds of training."""
    training = Training(Path("talks"))
    state = training.status()
    json.dumps([state, training.models(), str(training.chosen)])
    if training.is_new(state):
        training.better_model(state)
    training.is_running()
    assert training._process_of(state) is None


NAMES = "a.wav\nb.WAV\nsub/a.flac\nsub/a.mp3\na.TextGrid\na b.wav\nə.wav\na.wav.TextGrid\n._a.wav\nc.pcm\n"


def _names() -> None:
    """Make files of these names and find the recordings among them."""
    root = Path("found")
    root.mkdir()
    try:
        for name in Path("names.txt").read_bytes().split(b"\n"):
            with suppress(OSError, ValueError):
                path = root / os.fsdecode(name).replace("..", "").lstrip("/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        recordings = find_recordings([root])
        assert not any(map(line_fault, left_out([root])))
        assert len(set(ids(recordings))) == len(recordings)
        for recording in recordings:
            Siblings().find(recording.path, [".textgrid", ".phn"])
    finally:
        shutil.rmtree(root)


@cache
def config() -> Config:
    """Return the config of the run, of the model and of the shards."""
    return parse_config({**VALUES, "run": "run"}, "fuzzing")


def _written(write: Callable[[Path], None]) -> Files:
    """Return the files that a function writes into a folder."""
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        paths = sorted(path for path in Path(name).rglob("*") if path.is_file())
        return {str(path.relative_to(name)): path.read_bytes() for path in paths}


def _write_shards(folder: Path) -> None:
    features = config().features
    random = torch.Generator().manual_seed(1)
    made = [Said(f"u{k}", torch.randn(12, features.static_dims, generator=random), (1, 2, 3)) for k in range(6)]
    write_split(folder / "train", [made[:3], made[3:]], recipe_of(features, *PHONES), features)


def _shards() -> None:
    features = read_split(Path("train"), config().features.model_dump(mode="json"))
    features.moments(), features.marks()
    split = Split(features)
    split.infeasible(1)
    for index in range(len(split)):
        split.static(index).sum(), split.labels(index).sum()


def _write_model(folder: Path) -> None:
    """Write a model with an n-gram and a calibration."""
    inventory, features = inventory_of(PHONES), config().features
    torch.manual_seed(1)
    lm = PhoneLM.learn([[1, 2, 3], [1, 3]], len(PHONES) + 1, 2)
    shape = (features.channels, features.static_dims)
    facts = {"epoch": 1, "dev_per": 12.5, "seed": 1}
    net = build_net(config(), inventory)
    made = Checkpoint.of(config(), inventory, net, torch.zeros(shape), torch.ones(shape), facts, lm=lm)
    save_checkpoint(folder / "model", made)
    Calibration(1.1, 0.1, 0.01, 90, 0.1, 0.05, 0.9, "best path").save(folder / "model")


def _checkpoint() -> None:
    _, line = find_and_describe(Path("model"))
    assert not line_fault(line)
    load_checkpoint(Path("model"))
    open_model(Path("model"), Recogniser, ModelChoice("cpu")).decode(torch.zeros(RATE // 10), RATE)


def _arpa() -> None:
    """Read an n-gram, and score with it."""
    model = load_lm(Path("lm.arpa"))
    phones = range(1, min(len(model.inventory.phones), 3) + 1)
    assert model.score([list(phones), []]).shape == (2,)


def _dictionary() -> None:
    found = read_dictionary(Path("words.dict"))
    for phone in found.phones[:3]:
        found.word_with(phone)


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

    def write(folder: Path) -> None:
        (folder / "a.wav").write_bytes(sound())
        (folder / "a.TextGrid").write_text(grid, encoding="utf-8")
        document = Document(folder / "a.wav")
        for request in (requests[0], requests[3]):
            document.edit(document.revision, request)
        document.step(document.revision, "undo")

    files = {**_written(write), "a.TextGrid": grid.encode()}
    names = ("a.wav", "a.TextGrid", "a.wav.journal")
    files = {name: files[name] for name in names}
    return [files | {"request.json": json.dumps(request).encode()} for request in requests]


def _corrections() -> None:
    """Open the labels of a recording as the studio does, and ask for an edit."""
    document = Document(Path("a.wav"))
    document.text()
    phones = list(document.phones)
    try:
        request = json.loads(Path("request.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return
    if isinstance(request, dict):  # the server refuses others
        edit(phones, document.seconds, request).apply(phones)
        check_order(phones, document.seconds)


def folders() -> list[Files]:
    """Return folders such as people have: recordings with TextGrids, with .PHN files, with tables."""
    files = [*with_sound(texts("a.TextGrid", LONG, SHORT)), *tables(), {"a.wav": sound()}]
    sides = {f"{side}/DR1/FABC0/SX1" for side in ("TRAIN", "TEST")}
    files.append({f"{side}.WAV": sound() for side in sides} | {f"{side}.PHN": PHN.encode() for side in sides})
    return [{f"corpus/{name}": raw for name, raw in each.items()} for each in files]


def _folder() -> None:
    """Look at a folder as ``speechctc start`` does, and load the config that it writes."""
    try:
        found = start(Path("corpus"), Path("out.yaml"))
        found.to_text()
        if found.config:
            load_config(found.config)
    finally:
        Path("out.yaml").unlink(missing_ok=True)


ELAN = (
    '<?xml version="1.0" encoding="UTF-8"?><PARAM><param name="source">a.wav</param><param name="x">é</param></PARAM>'
)
CMU = ";;; words\nA  AH0\nA(2)  EY1\nABBEY  AE1 B IY0 # place\n"
MFA = "a\t0.9\t0.1\t1.0\t1.0\tə\na\tɛ ɪ\nb\tb iː\n"

READERS: dict[str, Reader] = {
    "audio": Reader(sounds, _audio),
    "ffmpeg": Reader(lambda: [{"a.wav": sound("AU", "FLOAT")}], _ffmpeg, 10),
    "stdin": Reader(lambda: sounds()[:7], _stdin),
    "raw": Reader(lambda: sounds()[:1], lambda: _stdin(8000)),
    "phn": Reader(lambda: texts("a.phn", PHN), _phn),
    "textgrid": Reader(lambda: texts("a.TextGrid", LONG, SHORT), _textgrid),
    "eaf": Reader(eafs, _eaf),
    "labels": Reader(label_texts, _label_file),
    "map": Reader(lambda: texts("m.tsv", "r\tɹ\ntʃ\tt ʃ\nsp\t\n", "a;b\n", "aa ɑ\nsil\n"), _map),
    "table": Reader(tables, _table),
    "transcript": Reader(transcripts, _transcript),
    "config": Reader(configs, lambda: load_config("c.yaml").to_dict()),
    "settings": Reader(lambda: texts("settings", SETTINGS, codes=["utf-8"]), _settings),
    "inventory": Reader(lambda: texts("i.txt", "a b ʃ t͡s aː aɪ\n", "phone\tcount\na\t5\nʃ\t2\n"), _inventory),
    "rounds": Reader(rounds, _rounds),
    "names": Reader(lambda: texts("names.txt", NAMES, codes=["utf-8"]), _names),
    "shards": Reader(lambda: [_written(_write_shards)], _shards),
    "checkpoint": Reader(lambda: [_written(_write_model)], _checkpoint, 10),
    "arpa": Reader(lambda: [{"lm.arpa": SRILM.encode()}, {"lm.arpa": gzip.compress(SRILM.encode())}], _arpa),
    "corrections": Reader(corrections, _corrections),
    "parameters": Reader(
        lambda: texts("p.xml", ELAN, codes=["utf-8"]),
        lambda: read_parameters(Path("p.xml").read_bytes()),
    ),
    "text": Reader(lambda: texts("t.txt", "a b ʃ\n\nb a\n", codes=["utf-8"]), lambda: read_phone_text(Path("t.txt"))),
}
