"""Export a model as a page that recognises in the browser: one HTML file, with the model and all scripts in it."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markupsafe import Markup

from speechctc import __version__
from speechctc.core import written
from speechctc.core.bundled import MODELS
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.features.extractor import LogMel, extractor
from speechctc.inference.recogniser import Recogniser
from speechctc.pages import timeline
from speechctc.pages.page import bundled_script, render_page, text_of
from speechctc.phones.inventory import SILENCES
from speechctc.stages.export import export

MAX_BYTES = 128 * 2**20
"""Bytes of a model in half precision; browsers hold texts of half a gigabyte."""
PIECE = 2**18
"""Characters of a text in the page: for a long one WebKit takes the square of its length."""
ACTIVATIONS = ("maxout", "relu", "prelu", "silu")  # those of net.js
_POLICY = {
    "script-src": "'strict-dynamic' 'wasm-unsafe-eval'",  # the page's script may start the recorder, and compiled code
    "worker-src": "blob:",
    "media-src": "blob:",
}


def page_place(out: Path) -> Path:
    """Return the file of a page: `out` itself if its name ends in ``.html``, else ``index.html`` in that folder."""
    return out if out.suffix.lower() == ".html" else out / "index.html"


def export_web(
    model: Path, out: Path, overwrite: bool = False, lm: Path | None = None, reporter: Reporter | None = None
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
    lm : Path, optional
        As for `export`.
    reporter : Reporter, optional

    Raises
    ------
    InputError
        There is no such model, the page lacks something that it has, or the place is taken.
    """
    place = page_place(out)
    if out.exists() and not out.is_dir() and place != out:
        raise InputError(f"{out}: a file, not a folder", "name another place")
    written.refuse_changed([place], overwrite)
    with tempfile.TemporaryDirectory(prefix="speechctc-") as folder:
        given = Path(folder) / "model"
        export(model, given, lm=lm, reporter=reporter)
        text = page_text(Recogniser.load(given, "cpu"), given, _name(model))
    place.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(place, text, overwrite)
    return place.stat().st_size


def page_text(recogniser: Recogniser, folder: Path, name: str) -> str:
    """Return the page of a model that was exported to a folder.

    Raises
    ------
    InputError
        The model has something that the page lacks, or is too large for one.
    """
    config = recogniser.config
    if config.model.activation not in ACTIVATIONS or type(extractor(config.features)) is not LogMel:
        raise InputError(f"{name}: its net or its features are not of a kind that the page has", "export it as ONNX")
    files = {key: folder / f"{file}.safetensors" for key, file in (("weights", "weights"), ("lm", "lm"))}
    if (size := sum(file.stat().st_size for file in files.values() if file.exists())) > MAX_BYTES:
        what = f"{name}: {size / 2**20:.0f} MiB in half precision, more than a page can hold"
        raise InputError(what, "train a smaller one, or use speechctc studio")
    blocks = [
        ("model", _json(about_model(recogniser))),
        ("worker", _json(bundled_script("web/worker.js"))),
        ("recorder", _json(text_of("recorder.js"))),
        *((key, piece) for key, file in files.items() if file.exists() for piece in _pieces(file)),
    ]
    said = MODELS[name].about if name in MODELS else f"trained with speechctc, {len(recogniser.phones)} phones"
    values = {"name": name, "about": said, "phones": recogniser.phones, "method": recogniser.method}
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
    return {
        "phones": list(recogniser.phones),
        "silences": sorted(SILENCES),
        "config": {key: config[key] for key in ("features", "model", "decode")},
        "calibration": {key: getattr(calibration, key) for key in ("slope", "intercept", "shift", "phones")},
    }


def _pieces(file: Path) -> Iterator[Markup]:
    """Yield a file as base64, in pieces."""
    text = base64.b64encode(file.read_bytes()).decode()
    yield from (Markup(text[first : first + PIECE]) for first in range(0, len(text), PIECE))


def _json(value: Any) -> Markup:
    """Return JSON that no HTML parser takes for the end of a script."""
    return Markup(json.dumps(value, ensure_ascii=False).replace("<", "\\u003c"))


def _name(model: Path) -> str:
    """Return a model's name without the folders of this machine: that of the run, for one of its checkpoints."""
    folder = model.resolve()
    return folder.parent.name if folder.name in ("best", "last") else folder.name
