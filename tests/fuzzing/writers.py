"""The places that write, for `tests.fuzzing.links`: commands, the parts of the studio, and what they share."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

from speechctc.audio.annotations import textgrid_text
from speechctc.core import written
from speechctc.inference.formats import WRITERS
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment
from speechctc.studio import microphone, plugins
from speechctc.studio.document import Document
from speechctc.studio.training import Training
from tests.fuzzing.links import Writer, command
from tests.stages.test_plot import write_run
from tests.studio.folders import SONG, client_of, write_labelled
from tests.tiny_model import write_song
from tests.tones import write_config


def parts() -> dict[str, Writer]:
    """Return what writes without a command."""
    result = Recognition("a.wav", 1.0, (Segment("low", 0.1, 0.3, 0.9),))
    return {
        "results": Writer(_songs, lambda folder: written.write_text(folder / "out.txt", "phones")),
        "results again": Writer(_written, lambda folder: written.write_text(folder / "out.txt", "x", overwrite=True)),
        "pictures": Writer(_songs, lambda folder: written.write_bytes(folder / "out.png", b"png")),
        "to_textgrid": Writer(_songs, lambda folder: result.to_textgrid(folder / "out.TextGrid")),
        "to_textgrid again": Writer(_songs, lambda folder: result.to_textgrid("a.TextGrid", True)),
        "the studio's edits": Writer(_labelled, _edit),
        "the studio's recognition": Writer(_songs, lambda folder: Document(folder / "a.wav").put_recognised(result)),
        "the microphone": Writer(_songs, _record),
        "a recording left over": Writer(_left_over, microphone.recover),
        "the studio's rounds": Writer(_inner, _choose),
        "ELAN": Writer(
            _songs, lambda folder: plugins.write_tier(folder / "t.xml", [each.to_dict() for each in result.segments])
        ),
    }


def commands(run: Path) -> dict[str, Writer]:
    """Return a writer of each command line; those that use a model use that of this run."""
    model = partial(_model, run)

    def tuned(folder: Path) -> None:
        model(folder)
        _lm(folder)

    def a_class(folder: Path) -> None:
        model(folder)
        (folder / "class").mkdir()
        (folder / "corpus" / "dev").rename(folder / "class" / "Li Na")

    def installed(folder: Path) -> None:
        model(folder)
        (folder / "package").mkdir()
        (folder / "model").rename(folder / "package" / "model")

    def praat_plugin(folder: Path) -> None:
        mask = os.umask(0o022)  # which it sets, in a process of its own
        plugins.for_praat("corpus/train/0.wav", "made.TextGrid", "error.txt", "decode", "model", "own")
        os.umask(mask)

    forms, use = ",".join(WRITERS), "--model model"
    corpus = "corpus.kind=textgrid corpus.root=corpus corpus.tables={} corpus.tier=phones"
    train = "train --config tones.yaml --run run train.epochs=1 data.workers=0"
    lstm = "--kind lstm --text phones.txt --out lstm lm.hidden=8 lm.embedding=4 lm.layers=1 lm.epochs=1 lm.device=cpu"
    small = "voices=3 sentences=3 utterances_per_voice=2 evaluation_utterances_per_voice=1 held_out=0.3"
    demo = " ".join(f"corpus.demo.{setting}" for setting in small.split())
    found = [
        Writer(_corpus, "start corpus --out mine.yaml"),
        Writer(_text, "lm train --text phones.txt --out lm.arpa"),
        Writer(_lm, "lm perplexity --lm lm.arpa --text phones.txt --json s.json"),
        Writer(_tones, "extract --config tones.yaml data.workers=0", ("features",)),
        Writer(_tones, "doctor --config tones.yaml --json f.json"),
        Writer(_draft, "mark-checked corpus"),
        Writer(lambda folder: write_run(folder / "r", 3), "plot r --out c.png"),
        Writer(_corpus, "measure corpus/dev --out m.csv --plot m.png"),
        Writer(_corpus, "score-boundaries corpus/dev corpus/dev --json b.json"),
        Writer(model, f"decode corpus/dev/0.wav {use} --format {forms} --out out/", ("out",)),
        Writer(model, f"decode corpus {use} --format json --out corpus/", ("corpus",)),
        Writer(model, f"decode corpus {use} --out out.csv --overwrite", ("out.csv",)),
        Writer(model, f"decode corpus/dev {use} --out out.tsv --manifest m.jsonl --resume", ("out.tsv",)),
        Writer(model, f"score-phones corpus {use} --out s.json --manifest m.jsonl --resume", ("s.json",)),
        Writer(_corpus, "measure corpus/dev --out m.csv --manifest m.jsonl --resume"),
        Writer(model, f"align corpus {use} --format textgrid --out out/ --manifest m.jsonl", ("out",)),
        Writer(model, f"evaluate {use} {corpus} --json s.json --report r", ("r",)),
        Writer(model, f"check-labels --config c.yaml {use} {corpus} --out s.tsv --report r", ("r",)),
        Writer(model, f"inspect --audio corpus/train/0.wav {use} --out seen", ("seen",)),
        Writer(model, "inspect model --json s.json"),
        Writer(model, f"export given {use}"),
        Writer(model, f"export given {use} --overwrite", ("given",)),
        Writer(model, f"export given --format web {use}", ("given",)),
        Writer(model, f"export net.onnx {use}"),
        Writer(model, f"calibrate {use} {corpus}"),
        Writer(tuned, f"lm tune {use} --lm lm.arpa --beam 2 {corpus}"),
        Writer(tuned, f"lm tune {use} --lm lm.arpa --beam 2 --out t.json {corpus}"),
        Writer(model, f"compare model copy {corpus} --json c.json"),
        Writer(model, f"score-phones corpus/dev/0.wav {use} --format {forms} --out out/", ("out",)),
        Writer(a_class, f"score-phones class {use} --by-speaker pages", ("pages",)),
        Writer(model, f"plugins made {use}", ("made",)),
        Writer(model, f"train-boundaries {use} --minutes 1 {corpus}"),
        Writer(_extracted, train, ("run", "runs")),
        Writer(_extracted, f"{train} --resume", ("run", "runs")),
        Writer(_text, f"lm train {lstm}", ("lstm",)),
        Writer(_text, f"lm train {lstm} --resume", ("lstm",)),
        Writer(_songs, f"extract --config demo corpus.root=demo data.dir=f {demo}", ("f", "demo")),
        Writer(_extracted, "sweep --config tones.yaml --run s train.lr=0.01,0.001 train.epochs=1", ("s", "runs")),
    ]
    others = {
        "calibrate a bundled model": Writer(installed, partial(_calibrate_bundled, corpus)),
        "Praat": Writer(model, praat_plugin),
    }
    return {" ".join(writer.words): writer for writer in found} | others


def _model(run: Path, folder: Path) -> None:
    _corpus(folder)
    _text(folder)
    for name in ("model", "copy"):
        shutil.copytree(run / "best", folder / name)
    (folder / "c.yaml").write_text("corpus: {kind: textgrid, root: corpus}\n")


def _songs(folder: Path) -> None:
    write_song(folder / "a.wav", SONG[:4])


def _written(folder: Path) -> None:
    _songs(folder)
    written.write_text(folder / "out.txt", "before")


def _labelled(folder: Path) -> None:
    write_labelled(folder / "a.wav", SONG[:4])
    write_labelled(folder / "b.wav", SONG[:5], seed=1)


def _inner(folder: Path) -> None:
    (folder / "inner").mkdir()
    _labelled(folder / "inner")


def _corpus(folder: Path) -> None:
    for split in ("train", "dev", "test"):
        (folder / "corpus" / split).mkdir(parents=True)
        for number in range(7):
            write_labelled(folder / "corpus" / split / f"{number}.wav", SONG, seed=number)


def _draft(folder: Path) -> None:
    (folder / "corpus").mkdir()
    written.write_text(folder / "corpus" / "a.TextGrid", textgrid_text(1.0, {"phones": []}))


def _text(folder: Path) -> None:
    (folder / "phones.txt").write_text("low mid high top\n" * 9 + "top low\n")


def _lm(folder: Path) -> None:
    _text(folder)
    command("lm train --text phones.txt --out lm.arpa")


def _tones(folder: Path) -> None:
    write_config(folder, 6, 3)


def _extracted(folder: Path) -> None:
    write_config(folder, 6, 3)
    command("extract --config tones.yaml data.workers=0")


def _edit(folder: Path) -> None:
    document = Document(folder / "a.wav")
    document.edit(document.revision, {"what": "relabel", "phone": 1, "label": "$(reboot)"})
    document.write_grid()


def _record(folder: Path) -> None:
    with client_of(folder) as (_, server), patch.object(microphone, "datetime") as clock:
        clock.now.return_value.strftime.return_value = "recording"
        recorder = microphone.Microphone(server)
        recorder.start(8000)
        recorder.block(np.full(800, 0.25, "<f4").tobytes())
        recorder.stop()


def _left_over(folder: Path) -> None:
    _songs(folder)
    (folder / ".v.16000.speechctc-recording").write_bytes(microphone.header(16000, 0) + bytes(range(200)))


def _choose(folder: Path) -> None:
    """The rounds lie in a folder beside that of the recordings: here both are below the stranger's."""
    training = Training(folder / "inner")
    training.choose(None)
    documents = {path.name: Document(path) for path in (folder / "inner").glob("*.wav")}
    training.prepare(documents, folder / "model", SONG, 1.0)


def _calibrate_bundled(corpus: str, folder: Path) -> None:
    with patch("speechctc.stages.used_model.PACKAGE", folder.resolve() / "package"):
        command(f"calibrate --model package/model {corpus}")
