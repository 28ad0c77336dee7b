"""The readers of outside input: what each is given, and how it is called."""

from __future__ import annotations

import json
import os
import shutil
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from speechctc.audio import sound_file
from speechctc.audio.annotations import read_phn, read_textgrid, read_tiers
from speechctc.audio.eaf import find_media, read_eaf
from speechctc.audio.recordings import Siblings, find_recordings, ids, left_out
from speechctc.audio.sound_file import channels_differ
from speechctc.config.load import known_keys, load_config
from speechctc.config.schema import CorpusConfig, TablesConfig
from speechctc.core.errors import InputError
from speechctc.corpora import timit
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.table_rows import read_table
from speechctc.corpora.textgrid import phone_tier
from speechctc.corpora.transcripts import TranscriptOptions, in_table, is_table, read_transcript
from speechctc.features.shards import read_split
from speechctc.inference.load import load_lm
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.restriction import read_inventory
from speechctc.model.checkpoint import load_checkpoint
from speechctc.phones.articulation import match_phones, sounds_of
from speechctc.phones.label_rules import LabelRules, divide_phone, read_map
from speechctc.phones.notations import from_xsampa, to_xsampa
from speechctc.phones.pronouncer import read_dictionary
from speechctc.phones.texts import read_text
from speechctc.stages.start import start as run_start
from speechctc.stages.used_model import find_and_describe
from speechctc.studio.document import Document
from speechctc.studio.elan import read_parameters, read_spans
from speechctc.studio.journal import check_order, edit
from speechctc.studio.training import Training
from speechctc.training.batches import Split
from tests.fuzzing import seeds
from tests.fuzzing.seeds import Files


@dataclass(frozen=True)
class Reader:
    """A reader, and what to try on it.

    Attributes
    ----------
    seeds : callable
        Returns valid inputs.
    read : callable
        Reads the input in the working directory.
    words : tuple of str
        Words that mean something to it.
    given : tuple of str
        Files of the input that are left as they are.
    cheap : bool
        A thousand inputs take seconds at most.
    """

    seeds: Callable[[], list[Files]]
    read: Callable[[], object]
    words: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    cheap: bool = True


RATE = 16000
LONGEST = 2000  # characters of a line for the user


def line_fault(line: str) -> str:
    """Return what is wrong with a line for the user; nothing if it is one line that a terminal can show."""
    if len(line) > LONGEST:
        return f"has {len(line)} characters"
    bad = next((letter for letter in line if unicodedata.category(letter) in ("Cc", "Zl", "Zp")), None)
    return f"holds the character {bad!a}" if bad is not None else ""


def _audio() -> None:
    path = Path("a.wav")
    sound_file.info(path)
    sound_file.cut_short(path)
    channels_differ(path)
    sound_file.read(path, RATE)


def _ffmpeg() -> None:
    """Read what a stand-in for ffmpeg writes: the bytes of a.wav, whatever it is asked for."""
    program = Path("bin/ffmpeg")
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec /bin/cat a.wav\n")
    program.chmod(0o755)
    Path("a.m4a").write_bytes(b"\0\0\0 ftypM4A ")
    before = os.environ["PATH"]
    os.environ["PATH"] = str(program.parent.resolve())
    try:
        sound_file.info(Path("a.m4a"))
        sound_file.read(Path("a.m4a"), RATE)
    finally:
        os.environ["PATH"] = before
        shutil.rmtree("bin")
        os.unlink("a.m4a")


def _stdin(raw_rate: int | None = None) -> None:
    """Read standard input, which is the file."""
    handle = os.open("a.wav", os.O_RDONLY)
    os.dup2(handle, 0)
    os.close(handle)
    with sound_file.opened_stdin(RATE, raw_rate) as blocks:
        for _ in blocks:
            pass


def _phn() -> None:
    path = Path("a.phn")
    with suppress(InputError):
        timit.read_labels(path, 800, RATE)
    read_phn(path)


def _textgrid() -> None:
    path = Path("a.TextGrid")
    phone_tier([path])
    tiers = read_tiers(path).tiers
    read_textgrid(path, tiers[0].name if tiers else "phones")


def _eaf() -> None:
    path = Path("a.eaf")
    with suppress(InputError):
        find_media(path, read_eaf(path).media)
    with suppress(InputError):
        read_spans(path)
    phone_tier([path])
    read_corpus(CorpusConfig(kind="elan", root=Path(), tier="*", phones="found", segment="ipa", tone="split"))


def _map() -> None:
    table = read_map(Path("m.tsv")).phones
    rules = LabelRules(table, "ipa", {"tone": "split", "stress": "split", "length": "strip", "diacritics": "split"})
    for label in table:
        rules.phones(label)
        from_xsampa(label)
        to_xsampa(label)


def _table() -> None:
    (path,) = (path for path in Path().iterdir() if path.stem == "t")
    read_table(path)
    with suppress(InputError):
        in_table(path, None, TranscriptOptions())
    read_corpus(CorpusConfig(kind="table", tables=TablesConfig(train=path), phones="found"))


def _transcript() -> None:
    path = next(path for path in Path().iterdir() if path.stem == "a" and path.suffix != ".wav")
    is_table(path)
    read_transcript(path, Path("a.wav"), TranscriptOptions())


def _folder() -> None:
    """Look at a folder as ``speechctc start`` does, and load the config that it writes."""
    try:
        found = run_start(Path("corpus"), Path("out.yaml"))
        found.to_text()
        if found.config:
            load_config(found.config)
    finally:
        Path("out.yaml").unlink(missing_ok=True)


def _config() -> None:
    load_config("c.yaml").to_dict()


def _settings() -> None:
    text = Path("settings").read_bytes().decode("utf-8", "surrogateescape")
    load_config("demo", text.split("\n")).to_dict()


def _shards() -> None:
    config = seeds.config()
    shards = read_split(Path(), config.features.model_dump(mode="json"))
    split = Split(shards)
    split.infeasible(1)
    for index in range(len(split)):
        split.static(index).sum(), split.labels(index).sum()


def _checkpoint() -> None:
    _, line = find_and_describe(Path())
    assert not line_fault(line)
    load_checkpoint(Path())
    Recogniser.load(Path(), "cpu").decode(torch.zeros(RATE // 10), RATE)


def _arpa() -> None:
    """Read an n-gram, and score with it."""
    model = load_lm(Path("lm.arpa"))
    phones = range(1, min(len(model.inventory.phones), 3) + 1)
    assert model.score([list(phones), []]).shape == (2,)


def _dictionary() -> None:
    found = read_dictionary(Path("words.dict"))
    for phone in found.phones[:3]:
        found.word_with(phone)


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
        for line in left_out([root]):
            assert not line_fault(line)
        assert len(set(ids(recordings))) == len(recordings)
        for recording in recordings:
            Siblings().find(recording.path, [".textgrid", ".phn"])
    finally:
        shutil.rmtree(root)


def _inventory() -> None:
    """Match phones with those of a model, as `restrict` does."""
    own = ("a", "b", "ʃ", "i", "t", "s", "sil")
    phones = read_inventory(Path("i.txt"))
    matches = match_phones(phones, own)
    for phone in phones:
        divide_phone(phone, diphthongs=True, affricates=False)
        sounds_of(phone)
    assert {match.phone for match in matches.values()} <= set(own)


def _rounds() -> None:
    """Ask for all that the studio knows of its rounds of training."""
    training = Training(Path("talks"))
    state = training.status()
    json.dumps([state, training.models(), str(training.chosen)])
    training.new_model()
    training.is_running()
    assert training._process_of(state) is None


GRID = tuple('"IntervalTier"|"TextTier"|<exists>|xmin =|intervals [1]:|text =|item []:|"|!|\x0c|\xff\xff'.split("|"))
CONFIG = (
    *known_keys(),
    *"base: c.yaml|base: base.yaml|<<: *x|!!python/object:os.system|!!binary|2001-01-01".split("|"),
)
MODEL = tuple("format phones list config net.output.weight normalisation.mean F16 I64 U8 data_offsets shape".split())

READERS: dict[str, Reader] = {
    "audio": Reader(
        seeds.recordings,
        _audio,
        ("RIFF", "RIFX", "data", "fmt ", "LIST", "COMM", "SSND", "sample_rate -i 1"),
    ),
    "ffmpeg": Reader(lambda: seeds.streams()[:2], _ffmpeg, ("RIFF", "data"), cheap=False),
    "stdin": Reader(seeds.streams, _stdin, ("RIFF", "data", "ID3", "OggS", "fLaC", "ftyp")),
    "raw": Reader(seeds.recordings, lambda: _stdin(8000)),
    "phn": Reader(seeds.phns, _phn, ("h#", "sh", "0 1 aa\n")),
    "textgrid": Reader(seeds.textgrids, _textgrid, GRID),
    "eaf": Reader(seeds.eaf_files, _eaf, (*"<>&'", "TIER", "ANNOTATION_REF", "ts1", "a1"), given=("a.wav",)),
    "map": Reader(seeds.maps, _map, ("\t", ";", ",", "ː", "\u0303", "˥", '"')),
    "table": Reader(seeds.tables, _table, ("id", "audio", "phones", "\t", ",", ";", "sep=;", '"'), given=("a.wav",)),
    "transcript": Reader(seeds.transcripts, _transcript, ("\t",), given=("a.wav",)),
    "config": Reader(seeds.configs, _config, CONFIG),
    "settings": Reader(seeds.settings, _settings, ("\n", "=", *CONFIG)),
    "inventory": Reader(seeds.inventories, _inventory, ("\t", "phone", "ː", "\u0303", "˥", "t͡s", "aɪ")),
    "rounds": Reader(seeds.rounds, _rounds, ("state", "training", "round-3", "per", "null", "..", "1e999")),
    "names": Reader(seeds.names, _names, ("/", ".wav", ".TextGrid", "._", "\n", "*", "[a]")),
    "shards": Reader(seeds.shards, _shards, MODEL),
    "checkpoint": Reader(seeds.checkpoints, _checkpoint, MODEL, cheap=False),
    "arpa": Reader(seeds.arpas, _arpa, ("\\data\\", "\\end\\", "ngram 4=1", "</s>", "<s>", "<unk>", "\t", "\n")),
    "corrections": Reader(
        seeds.corrections, _corrections, ("what", "old", "new", "undo", "wrote", *GRID), given=("a.wav",)
    ),
    "parameters": Reader(
        seeds.elan_parameters,
        lambda: read_parameters(Path("parameters.xml").read_bytes()),
        (*"<>&'", "<!DOCTYPE", "<!ENTITY", "param", "?>"),
    ),
    "dictionary": Reader(seeds.dictionaries, _dictionary, ("\t", "(2)", ";;;", " # ", "AH0", "0.5")),
    "text": Reader(seeds.texts, lambda: read_text(Path("t.txt")), (" ", "\n")),
    "start": Reader(seeds.folders, _folder, GRID, cheap=False),
}
