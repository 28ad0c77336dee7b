"""Export a model: only what decoding and alignment need, in 8 bits, as ONNX, or as a page that recognises."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from speechctc import __version__
from speechctc.config.load import override, parse_config
from speechctc.config.schema import KINDS, MARKS, NO_RUN, Config, CorpusConfig
from speechctc.core import files, links, written
from speechctc.core.bundled import MODELS
from speechctc.core.errors import InputError, printable
from speechctc.core.progress import Reporter
from speechctc.features.extractor import DEPTH, MAX_GAIN, LogMel, extractor
from speechctc.inference import boundary_model as boundaries
from speechctc.inference import goodness
from speechctc.inference.boundary_model import BoundaryModel
from speechctc.inference.load import load_lm, relative
from speechctc.inference.recogniser import JUDGE_FILE, Recogniser, load_judge
from speechctc.inference.segmenter import CALIBRATION_FILE, MIN_DURATION, Calibration
from speechctc.lm import tuned
from speechctc.lm.model import NgramModel
from speechctc.model.checkpoint import (
    FREQUENCIES,
    Checkpoint,
    fill_checkpoint,
    find_checkpoint,
    load_checkpoint,
    read_checkpoint,
    write_about,
)
from speechctc.model.layers import is_own
from speechctc.pages import timeline
from speechctc.pages.page import HERE, bundled_script, render_page, render_text, text_of
from speechctc.phones.inventory import SILENCES, Inventory
from speechctc.phones.pronouncer import Pronouncer
from speechctc.stages.align import about_scores
from speechctc.stages.open_model import ModelChoice, open_model
from speechctc.stages.sources import SOURCES_FILE, kept_sources

KEPT = ("epoch", "dev_per", "dev_repeated", "fold", FREQUENCIES)
CARD = "README.md"
LISTED = "files"  # in checkpoint.json: what was exported, so that a file that was added is known
BESIDE = (CALIBRATION_FILE, boundaries.FILE, goodness.FILE, JUDGE_FILE, tuned.TUNED_FILE, SOURCES_FILE)
WRITTEN = (CARD, "weights.safetensors", "checkpoint.json", "lm.safetensors", *BESIDE)

ENDINGS = {".onnx": "onnx", ".html": "web"}
MAX_BYTES = 128 * 2**20
"""Bytes of an exported model; browsers hold texts of half a gigabyte."""
WORDS_BYTES = 1_500_000
"""Most bytes of a packed dictionary: 2 MB of the page."""
PIECE = 2**18
"""Characters of a text in the page: for a long one WebKit takes the square of its length."""
ACTIVATIONS = ("maxout", "relu", "prelu", "silu")  # those of net.js
EXAMPLE = "example.flac"  # a sentence that eSpeak NG spoke, to try a page with
_POLICY = {
    "script-src": "'strict-dynamic' 'wasm-unsafe-eval'",  # the page's script may start the recorder, and compiled code
    "worker-src": "blob:",
    "media-src": "blob:",
}


def form_of(out: Path, form: str | None) -> str:
    """Return what an export writes, ``folder``, ``onnx`` or ``web``: as it is named, or else by the ending of `out`.

    Raises
    ------
    InputError
        There is no such format, or a file of it ends otherwise.
    """
    meant = ENDINGS.get(out.suffix.lower(), "folder")
    if form not in (None, "folder", *ENDINGS.values()):
        raise InputError(f"--format {form}: there is no such format", "choose from: folder, onnx, web")
    if form is None and meant == "folder" and out.suffix[1:].isalpha() and not out.is_dir():
        fix = f"end the name in one of {' '.join(ENDINGS)}, or let it be a folder: --format folder"
        raise InputError(f"{out}: no format has the ending {out.suffix}", fix)
    if form not in (None, meant) and (form, meant) != ("web", "folder"):
        raise InputError(f"{out}: by its name this is not of the format {form}", "name another place")
    return form or meant


def check_out(out: Path, overwrite: bool = False) -> None:
    """Check that writing a model replaces nothing else.

    Parameters
    ----------
    out : Path
    overwrite : bool
        Accept a folder that is empty, or holds an exported model and nothing else, and a file in ``.onnx``; no link.

    Raises
    ------
    InputError
        `out` exists and must not be replaced.
    """
    if not os.path.lexists(out):
        return
    if not overwrite:
        raise InputError(f"{out}: exists already", "name another, or give --overwrite to replace an exported model")
    if out.suffix.lower() == ".onnx":
        return links.refuse_odd(out)
    if out.is_symlink() or not out.is_dir():
        raise InputError(f"{out}: not a folder", "name the folder itself, or another place")
    for path in out.iterdir():
        links.refuse_odd(path)
    if others := sorted({path.name for path in out.iterdir()} - _exported(out)):
        what = f"{out}: not an exported model and nothing else ({', '.join(others[:3])})"
        raise InputError(what, "move it away, or name another folder")


def _exported(folder: Path) -> set[str]:
    """Return the files that an export wrote; none if its config names a run."""
    try:
        about = files.read_json(folder / "checkpoint.json")
        written_here = {name for name in about.get(LISTED, WRITTEN) if name in WRITTEN}
        return {CARD, *written_here} if about["config"]["run"] is None else set()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return set()


def export(
    model: Path | None,
    out: Path,
    overwrite: bool = False,
    lm: Path | None = None,
    reporter: Reporter | None = None,
    scores: bool = False,
) -> int:
    """Write a model in 8 bits, without paths and training state; or, to a name in ``.onnx``, as ONNX.

    A model card, README.md, is written with it; one that is there already is kept, byte for byte.

    Parameters
    ----------
    model : Path or None
        A checkpoint or a run's folder (its best); None: the latest run.
    out : Path
        A folder, or a file whose name ends in ``.onnx``; must not exist.
    overwrite : bool
        Accept an existing folder or ``.onnx`` file (see `check_out`).
    lm : Path, optional
        An n-gram that takes the place of the model's own, with the weights that were tuned for it.
    reporter : Reporter, optional
        It says with which weights.
    scores : bool
        The net that scores phones, where that is another, in place of the one that recognises.

    Returns
    -------
    int
        Bytes written.

    Raises
    ------
    InputError
        There is no such model or n-gram, no other net scores, or `out` exists and must not be replaced.
    """
    check_out(out, overwrite)
    if lm and out.suffix.lower() == ".onnx":
        raise InputError("an ONNX file holds no language model", "leave out --lm, or name a folder")
    folder = find_checkpoint(model)
    checkpoint, calibration, tunings, placer, usual = files.read_folder(folder, _whole)
    usual[SOURCES_FILE] = kept_sources(folder, scores, lm is not None)
    if scores:
        checkpoint, calibration, tunings = _judge(folder, checkpoint, usual), Calibration(), []
    if out.suffix.lower() == ".onnx":
        from speechctc.stages.export_onnx import export_onnx  # late: it loads torch

        return export_onnx(checkpoint, out)
    if lm:
        checkpoint = _with_ngram(checkpoint, lm, tunings, reporter or Reporter(quiet=True))
    facts = {key: checkpoint.facts[key] for key in KEPT if key in checkpoint.facts}
    portable = replace(checkpoint, config=_portable(checkpoint.config), facts=facts, state={})
    kept = (out / CARD).read_bytes() if (out / CARD).exists() else None  # a plain file: see `check_out`

    def fill(draft: Path) -> None:
        fill_checkpoint(draft, portable, small=True)
        if calibration.phones:
            calibration.save(draft)
        if placer is not None:
            placer.save(draft / boundaries.FILE)
        (draft / CARD).write_bytes(model_card(portable, out.name, draft).encode() if kept is None else kept)
        for name, content in usual.items():
            (draft / name).write_bytes(content)
        own, rounded = (tuned.identity(lm, None) for lm in (checkpoint.lm, load_checkpoint(draft).lm))
        for entry in tunings:
            lms = rounded if entry["lms"] == own else entry["lms"]
            tuned.write_tuned(draft / tuned.TUNED_FILE, entry | {"lms": lms})
        about = files.read_json(draft / "checkpoint.json")
        write_about(draft, about | {LISTED: sorted(path.name for path in draft.iterdir())})

    files.write_folder(out, fill)
    return sum(file.stat().st_size for file in out.iterdir())


def _judge(folder: Path, checkpoint: Checkpoint, beside: dict[str, bytes]) -> Checkpoint:
    """Return the net that scores the phones of a model, and take it away from what lies beside that."""
    if beside.pop(JUDGE_FILE, None) is None:
        raise InputError(f"{folder}: the model's own net scores its phones", "leave out --scores")
    return replace(load_judge(folder / JUDGE_FILE, checkpoint), facts={})


def _whole(
    folder: Path,
) -> tuple[Checkpoint, Calibration, list[dict[str, Any]], BoundaryModel | None, dict[str, bytes]]:
    """Read a checkpoint and what lies beside it."""
    usual = [folder / name for name in (goodness.FILE, JUDGE_FILE)]
    return (
        read_checkpoint(folder),
        Calibration.load(folder),
        tuned.read_tuned(folder / tuned.TUNED_FILE),
        BoundaryModel.load(folder),
        {each.name: files.readable(each).read_bytes() for each in usual if each.exists()},
    )


def model_card(checkpoint: Checkpoint, name: str, folder: Path) -> str:
    """Return a card with the facts that a checkpoint tells, and questions that only its maker can answer."""
    names = {
        "lm.safetensors": "an n-gram of phones",
        CALIBRATION_FILE: "a calibration",
        boundaries.FILE: "boundaries",
    }
    model = checkpoint.config.model
    values = {
        "checkpoint": checkpoint,
        "name": printable(name),
        "quoted": shlex.quote(printable(name)),
        "net": model.kind if is_own(model) else model.activation,
        "needs": _needed(checkpoint.config),
        "parameters": sum(each.size for each in checkpoint.weights.values()),
        "beside": ", ".join(about for file, about in names.items() if (folder / file).exists()) or "nothing",
        "version": __version__,
    }
    return render_text("card.md", values)


def _needed(config: Config) -> str:
    """Return in words which code of the maker's own a model needs; ``""``: none."""
    own = [f"`model.kind={config.model.kind}`"] if is_own(config.model) else []
    own += [f"`features.kind={config.features.kind}`"] if config.features.kind not in KINDS else []
    return " and ".join(own)


def _with_ngram(
    checkpoint: Checkpoint, path: Path, tunings: Sequence[dict[str, Any]], reporter: Reporter
) -> Checkpoint:
    """Return a checkpoint with another n-gram, and in its config the weights that were tuned for it."""
    model = load_lm(path, checkpoint.inventory)
    if not isinstance(model, NgramModel):
        raise InputError(f"{path}: not an n-gram", "an exported model holds an n-gram; give the LSTM with decode --lm")
    ngram = relative(model, checkpoint)
    own = tuned.identity(ngram, None)
    entry = next((each for each in tunings if each["lms"] == own), None)
    # the share of an LSTM that may be added is not that of an n-gram alone, 0
    settings = [each for each in tuned.tuned_settings(entry) if not each.startswith("decode.lm_share=")]
    config = parse_config(override(checkpoint.config.to_dict(), settings), "the model's config with tuned weights")
    weights = f"{path}: weight {config.decode.lm_weight:g}, bonus {config.decode.lm_bonus:g}"
    if entry is None:
        reporter.warn(f"{weights}, as in the model's config; speechctc lm tune --lm {path} finds better ones")
    else:
        reporter.note(f"{weights}, as tuned")
    facts = checkpoint.facts | ({"dev_per": entry["per"]} if entry and entry.get("split") == "dev" else {})
    return replace(checkpoint, lm=ngram, config=config, facts=facts)


def _portable(config: Config) -> Config:
    """Remove the paths of this machine: the corpus, its features, the run."""
    rules = {key: getattr(config.corpus, key) for key in MARKS}  # they belong to the phone set
    plain = Config(corpus=CorpusConfig(kind=config.corpus.kind, phones=config.corpus.phones, **rules))
    train = config.train.model_copy(update={"init_from": None})
    return config.model_copy(update={"run": NO_RUN, "corpus": plain.corpus, "data": plain.data, "train": train})


def page_place(out: Path) -> Path:
    """Return the file of a page: `out` itself if its name ends in ``.html``, else ``index.html`` in that folder."""
    return out if out.suffix.lower() == ".html" else out / "index.html"


def export_web(
    model: Path,
    out: Path,
    overwrite: bool = False,
    lm: Path | None = None,
    reporter: Reporter | None = None,
    scores: bool = False,
    dictionary: Path | None = None,
) -> int:
    """Write a model as a page that recognises in the browser; return its size in bytes.

    Parameters
    ----------
    model : Path
        The folder of a checkpoint, as `find_checkpoint` returns it.
    out : Path
        A folder, which may exist, or a file in ``.html``.
    overwrite : bool
        Replace a page that a person made or changed.
    lm, scores
        As for `export`.
    reporter : Reporter, optional
    dictionary : Path, optional
        Reads words in the page; see `speechctc.phones.pronouncer.read_dictionary`.

    Raises
    ------
    InputError
        There is no such model or dictionary, the page lacks something that it has, or the place is taken.
    """
    place = page_place(out)
    if out.exists() and not out.is_dir() and place != out:
        raise InputError(f"{out}: a file, not a folder", "name another place")
    written.refuse_changed([place], overwrite)
    with tempfile.TemporaryDirectory(prefix="speechctc-") as folder:
        given = Path(folder) / "model"
        export(model, given, lm=lm, reporter=reporter, scores=scores)
        recogniser = open_model(given, Recogniser, ModelChoice("cpu"))
        words = packed_words(dictionary, recogniser.inventory, reporter or Reporter(quiet=True)) if dictionary else b""
        text = page_text(recogniser, given, _name(model), words)
    place.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(place, text, overwrite)
    return place.stat().st_size


def packed_words(dictionary: Path, inventory: Inventory, reporter: Reporter) -> bytes:
    """Return the words of a dictionary, each with its pronunciations in a line, gzipped; of a large one, the first."""
    pronouncer = Pronouncer(dictionary, None, inventory)
    lines = ["\t".join([word, *map(" ".join, readings)]) for word, readings in pronouncer.listed()]
    count, packed = len(lines), gzip.compress("\n".join(lines).encode(), mtime=0)
    while len(packed) > WORDS_BYTES:
        count = int(0.99 * count * WORDS_BYTES / len(packed))
        packed = gzip.compress("\n".join(lines[:count]).encode(), mtime=0)
    if count < len(lines):
        fix = "put the most frequent ones first"
        reporter.warn(f"{dictionary}: 2 MB of the page hold the first {count:,} of its {len(lines):,} words; {fix}")
    else:
        reporter.note(f"{dictionary}: {count:,} words, {len(packed) * 4 / 3e6:.1f} MB of the page")
    reporter.note(*pronouncer.notes())
    return packed


def page_text(recogniser: Recogniser, folder: Path, name: str, words: bytes = b"") -> str:
    """Return the page of a model that was exported to a folder; `words`: as of `packed_words`.

    Raises
    ------
    InputError
        The model has something that the page lacks, or is too large for one.
    """
    config = recogniser.config
    is_ours = not is_own(config.model) and config.model.activation in ACTIVATIONS
    if not is_ours or type(extractor(config.features)) is not LogMel:
        raise InputError(f"{name}: its net or its features are not of a kind that the page has", "export it as ONNX")
    files = {key: folder / f"{file}.safetensors" for key, file in (("weights", "weights"), ("lm", "lm"))}
    if (size := sum(file.stat().st_size for file in files.values() if file.exists())) > MAX_BYTES:
        what = f"{name}: {size / 2**20:.0f} MiB, more than a page can hold"
        raise InputError(what, "train a smaller one, or use speechctc studio")
    blocks = [
        ("model", _json(about_model(recogniser))),
        ("worker", _json(bundled_script("web/worker.js"))),
        ("recorder", _json(text_of("recorder.js"))),
        ("example", base64.b64encode((HERE / "web" / EXAMPLE).read_bytes()).decode()),
        *((key, piece) for key, file in files.items() if file.exists() for piece in _pieces(file.read_bytes())),
        *(("words", piece) for piece in _pieces(words)),
    ]
    said = MODELS[name].about if name in MODELS else f"trained with speechctc, {len(recogniser.phones)} phones"
    values: dict[str, Any] = {"name": name, "about": said, "phones": recogniser.phones, "method": recogniser.method}
    values |= {"words": bool(words), "has_boundaries": recogniser.boundaries is not None}
    values["scores"] = "" if recogniser.judge else about_scores(recogniser, (), f"the model {name}")
    return render_page(
        "web.html",
        "Phones of recordings",
        values | {"blocks": blocks, "version": __version__},
        [timeline.STYLE, "web/web.css"],
        ["web/main.js"],
        _POLICY,
    )


def about_model(recogniser: Recogniser) -> dict[str, Any]:
    """Return what the page's ``Model`` needs beside the weights."""
    config, calibration = recogniser.config.to_dict(), recogniser.calibration
    config["features"] |= {"max_gain": MAX_GAIN, "depth": DEPTH}
    return {
        "goodness": None if recogniser.judge else recogniser.goodness.plain(),  # a net of its own would be too much
        "phones": list(recogniser.phones),
        "silences": sorted(SILENCES),
        "shortest_segment": MIN_DURATION,
        "config": {key: config[key] for key in ("features", "model", "decode")},
        "calibration": {key: getattr(calibration, key) for key in ("slope", "intercept", "shift", "phones")},
    }


def _pieces(content: bytes) -> Iterator[Markup]:
    """Yield the content of a file as base64, in pieces."""
    text = base64.b64encode(content).decode()
    yield from (Markup(text[first : first + PIECE]) for first in range(0, len(text), PIECE))


def _json(value: Any) -> Markup:
    """Return JSON that no HTML parser takes for the end of a script."""
    return Markup(json.dumps(value, ensure_ascii=False).replace("<", "\\u003c"))


def _name(model: Path) -> str:
    """Return a model's name without the folders of this machine: that of the run, for one of its checkpoints."""
    folder = model.resolve()
    return folder.parent.name if folder.name in ("best", "last") else folder.name
