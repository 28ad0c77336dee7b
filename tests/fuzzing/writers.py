"""The places that write, for `tests.fuzzing.links`: commands, the parts of the studio, and what they share."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np

from speechctc.audio.annotations import textgrid_text
from speechctc.core import written
from speechctc.inference.formats import WRITERS
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment
from tests.fuzzing.links import Act, Writer, command
from tests.stages.test_plot import write_run
from tests.studio.folders import SONG, client_of, write_labelled
from tests.tiny_model import write_song
from tests.tones import write_config


def cheap() -> dict[str, Writer]:
    """Return the writers that need no model."""
    return {
        "results": Writer(_songs, lambda folder: written.write_text(folder / "out.txt", "phones")),
        "results again": Writer(_written, lambda folder: written.write_text(folder / "out.txt", "x", overwrite=True)),
        "pictures": Writer(_songs, lambda folder: written.write_bytes(folder / "out.png", b"png")),
        "to_textgrid": Writer(_songs, lambda folder: void(_recognition().to_textgrid(folder / "out.TextGrid"))),
        "to_textgrid again": Writer(_songs, lambda folder: void(_recognition().to_textgrid("a.TextGrid", True))),
        "the studio's edits": Writer(_labelled, _edit),
        "the studio's recognition": Writer(_songs, _recognise),
        "the microphone": Writer(_songs, _record),
        "a recording left over": Writer(_left_over, _recover),
        "the studio's rounds": Writer(_inner, _choose),
        "start": Writer(_above_labelled, command("start", "corpus", "--out", "mine.yaml")),
        "lm train": Writer(_text, command("lm", "train", "--text", "phones.txt", "--out", "lm.arpa")),
        "lm perplexity": Writer(
            _lm, command("lm", "perplexity", "--lm", "lm.arpa", "--text", "phones.txt", "--json", "s.json")
        ),
        "extract": Writer(_tones, command("extract", "--config", "tones.yaml", "data.workers=0"), ("features",)),
        "doctor": Writer(_tones, command("doctor", "--config", "tones.yaml", "--json", "f.json")),
        "mark-checked": Writer(_draft, command("mark-checked", "corpus")),
        "plot": Writer(_trained, command("plot", "r", "--out", "c.png")),
        "measure": Writer(_above_labelled, command("measure", "corpus/dev", "--out", "m.csv", "--plot", "m.png")),
        "score-boundaries": Writer(
            _above_labelled, command("score-boundaries", "corpus/dev", "corpus/dev", "--json", "b.json")
        ),
    }


_SMALL_DEMO = tuple(
    f"corpus.demo.{key}"
    for key in (
        "voices=3",
        "sentences=3",
        "utterances_per_voice=2",
        "evaluation_utterances_per_voice=1",
        "held_out=0.3",
    )
)


_BY_TIER = ("corpus.kind=textgrid", "corpus.root=corpus", "corpus.tables={}", "corpus.tier=phones")


def with_model(run: Path) -> dict[str, Writer]:
    """Return the writers that use the tiny model whose run is in this folder."""
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

    all_forms = ",".join(WRITERS)
    use = ("--model", "model")
    corpus = _BY_TIER
    return {
        "decode": Writer(
            model, command("decode", "corpus/dev/0.wav", *use, "--format", all_forms, "--out", "out/"), ("out",)
        ),
        "decode beside": Writer(
            model, command("decode", "corpus", *use, "--format", "json", "--out", "corpus/"), ("corpus",)
        ),
        "decode to a file": Writer(
            model, command("decode", "corpus", *use, "--out", "out.csv", "--overwrite"), ("out.csv",)
        ),
        "align": Writer(model, command("align", "corpus", *use, "--format", "textgrid", "--out", "out/"), ("out",)),
        "evaluate": Writer(model, command("evaluate", *use, *corpus, "--json", "s.json", "--report", "r"), ("r",)),
        "check-labels": Writer(
            model,
            command("check-labels", "--config", "c.yaml", *use, *corpus, "--out", "s.tsv", "--report", "r"),
            ("r",),
        ),
        "inspect": Writer(model, command("inspect", "--audio", "corpus/train/0.wav", *use, "--out", "seen"), ("seen",)),
        "export": Writer(model, command("export", "given", *use)),
        "export again": Writer(model, command("export", "given", *use, "--overwrite"), ("given",)),
        "calibrate": Writer(model, command("calibrate", *use, *corpus)),
        "lm tune": Writer(tuned, command("lm", "tune", *use, "--lm", "lm.arpa", "--beam", 2, *corpus)),
        "lm tune to a file": Writer(
            tuned, command("lm", "tune", *use, "--lm", "lm.arpa", "--beam", 2, "--out", "t.json", *corpus)
        ),
        "calibrate a bundled model": Writer(
            installed, _bundled(command("calibrate", "--model", "package/model", *corpus))
        ),
        "compare": Writer(model, command("compare", "model", "copy", *corpus, "--json", "c.json")),
        "score-phones": Writer(
            model, command("score-phones", "corpus/dev/0.wav", *use, "--format", all_forms, "--out", "out/"), ("out",)
        ),
        "score-phones by speaker": Writer(
            a_class, command("score-phones", "class", *use, "--by-speaker", "pages"), ("pages",)
        ),
        "export a page": Writer(model, command("export", "given", "--format", "web", *use), ("given",)),
        "plugins": Writer(model, command("plugins", "made", *use), ("made",)),
        "ELAN and Praat": Writer(model, _plug_in),
    }


def slow(run: Path) -> dict[str, Writer]:
    """Return the writers that train or take long; some use the tiny model whose run is in this folder."""
    model = partial(_model, run)

    def extracted(folder: Path) -> None:
        _tones(folder)
        command("extract", "--config", "tones.yaml", "data.workers=0")(folder)

    few = ("train.epochs=1", "data.workers=0")
    lstm = ("lm.hidden=8", "lm.embedding=4", "lm.layers=1", "lm.dropout=0", "lm.epochs=1", "lm.device=cpu")
    train = ("train", "--config", "tones.yaml", "--run", "run", *few)
    return {
        "train": Writer(extracted, command(*train), ("run", "runs")),
        "train on": Writer(extracted, command(*train, "--resume"), ("run", "runs")),
        "lm train an LSTM": Writer(
            _text, command("lm", "train", "--kind", "lstm", "--text", "phones.txt", "--out", "lstm", *lstm), ("lstm",)
        ),
        "lm train an LSTM on": Writer(
            _text,
            command("lm", "train", "--kind", "lstm", "--text", "phones.txt", "--out", "lstm", "--resume", *lstm),
            ("lstm",),
        ),
        "demo": Writer(
            _songs,
            command("extract", "--config", "demo", "corpus.root=demo", "data.dir=f", *_SMALL_DEMO),
            ("f", "demo"),
        ),
        "train-boundaries": Writer(
            model, command("train-boundaries", "--model", "model", "--minutes", 1, *_BY_TIER), ()
        ),
        "export as ONNX": Writer(model, command("export", "net.onnx", "--model", "model")),
        "sweep": Writer(
            extracted,
            command("sweep", "--config", "tones.yaml", "--run", "s", "train.lr=0.01,0.001", *few),
            ("s", "runs"),
        ),
    }


def _model(run: Path, folder: Path) -> None:
    _above_labelled(folder)
    _text(folder)
    for name in ("model", "copy"):
        shutil.copytree(run / "best", folder / name)
    (folder / "c.yaml").write_text("corpus: {kind: textgrid, root: corpus}\n")


def void(value: object) -> None:
    """Drop a value, so that an expression can be an act."""


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


def _above_labelled(folder: Path) -> None:
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
    command("lm", "train", "--text", "phones.txt", "--out", "lm.arpa")(folder)


def _tones(folder: Path) -> None:
    write_config(folder)
    (folder / "more").mkdir()
    write_song(folder / "more" / "a.wav", SONG[:4])


def _trained(folder: Path) -> None:
    write_run(folder / "r", 3)


def _recognition() -> Recognition:
    return Recognition("a.wav", 1.0, (Segment("low", 0.1, 0.3, 0.9),))


def _edit(folder: Path) -> None:
    from speechctc.studio.document import Document

    document = Document(folder / "a.wav")
    document.edit(document.revision, {"what": "relabel", "phone": 1, "label": "$(reboot)"})
    document.write_grid()


def _recognise(folder: Path) -> None:
    from speechctc.studio.document import Document

    Document(folder / "a.wav").put_recognised(_recognition())


def _record(folder: Path) -> None:
    from unittest.mock import patch

    from speechctc.studio import studio as module

    with client_of(folder) as (_, studio), patch.object(module, "datetime") as clock:
        clock.now.return_value.strftime.return_value = "recording"
        microphone = module.Microphone(studio)
        microphone.start(8000)
        microphone.block(np.full(800, 0.25, "<f4").tobytes())
        microphone.stop()


def _left_over(folder: Path) -> None:
    _songs(folder)
    (folder / ".v.16000.speechctc-recording").write_bytes(bytes(range(200)))


def _recover(folder: Path) -> None:
    from speechctc.studio.studio import recover

    recover(folder)


def _choose(folder: Path) -> None:
    """The rounds lie in a folder beside that of the recordings: here both are below the stranger's."""
    from speechctc.studio.document import Document
    from speechctc.studio.training import Training

    training = Training(folder / "inner")
    training.choose(None)
    documents = {path.name: Document(path) for path in (folder / "inner").glob("*.wav")}
    training.prepare(documents, folder / "model", SONG, 1.0)


def _bundled(act: Act) -> Act:
    """Return what takes the models in the folder ``package`` for the installation's."""

    def run(folder: Path) -> None:
        from unittest.mock import patch

        with patch("speechctc.stages.used_model.PACKAGE", folder.resolve() / "package"):
            act(folder)

    run.__dict__["words"] = act.__dict__["words"]
    return run


def _plug_in(folder: Path) -> None:
    from speechctc.studio import elan, praat

    praat.main("corpus/train/0.wav", "made.TextGrid", "error.txt", "model", "own")
    elan.write_tier(folder / "tier.xml", [segment.to_dict() for segment in _recognition().segments])
