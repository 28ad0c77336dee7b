"""What a model learned from, and on what terms: the file ``sources.yaml`` beside its weights, or a run's config."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, ValidationError

from speechctc.config.load import read_yaml
from speechctc.core.bundled import MODELS, bundled_folder
from speechctc.core.errors import InputError
from speechctc.core.tensor_file import shapes
from speechctc.inference import boundary_model
from speechctc.inference.recogniser import JUDGE_FILE
from speechctc.inference.segmenter import CALIBRATION_FILE
from speechctc.model.checkpoint import find_checkpoint, read_config

SOURCES_FILE = "sources.yaml"
UNKNOWN = "terms not known"
WIDEST = 20  # characters of a licence in a table's column; a longer one pushes its source aside
WEIGHTS, NGRAM, BOUNDARIES, SHIFT, JUDGE = (
    "weights",
    "n-gram",
    "boundary model",
    "shift of boundaries",
    "net for scores",
)
# Parts of a model that have a file of their own; without it the model has no such part.
PART_FILES = {
    NGRAM: "lm.safetensors",
    BOUNDARIES: boundary_model.FILE,
    SHIFT: boundary_model.FILE,
    "width of intervals": boundary_model.FILE,
    JUDGE: JUDGE_FILE,
    "calibration": CALIBRATION_FILE,
}


@dataclass(frozen=True)
class Source:
    """Something that a part of a model learned from.

    Attributes
    ----------
    part : str
        Of the model: ``"weights"``, ``"n-gram"``, ``"shift of boundaries"``.
    name : str
        Of the source; or of another model, one of whose parts it is.
    licence : str
        Its terms, with commas between several; empty for another model, whose own sources count.
    by : str
        Authors, or where it was published.
    amount : str
        How much of it.
    part_of_model : str
        Which part of the other model; empty for a source.
    """

    part: str
    name: str
    licence: str = ""
    by: str = ""
    amount: str = ""
    part_of_model: str = ""

    @property
    def title(self) -> str:
        """Its name, or which part of which model it is."""
        return f"the {self.part_of_model} of the model {self.name}" if self.part_of_model else self.name

    def to_text(self) -> str:
        """Return it as one line: name, authors, terms, amount."""
        name = f"{self.title} ({self.by})" if self.by else self.title
        return f"{name}: {'; '.join(filter(None, (self.licence, self.amount)))}"


_Text = Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class _Entry(BaseModel):
    """An entry of the file: a source with its licence, or another model."""

    model_config = ConfigDict(extra="forbid")
    source: _Text = ""
    model: _Text = ""
    part: _Text = "weights"
    licence: _Text = ""
    by: _Text = ""
    amount: _Text = ""

    def is_whole(self) -> bool:
        """Return whether it is either a source with a licence or a model."""
        return not (self.source or self.licence) if self.model else bool(self.source and self.licence)


_FILE = TypeAdapter(dict[str, list[_Entry]])


def listed_sources(folder: Path) -> list[Source]:
    """Return what the file of sources in a model's folder names, in its order; none without a file.

    Raises
    ------
    InputError
        The file is damaged.
    """
    path = folder / SOURCES_FILE
    if not path.exists():
        return []
    try:
        parts = _FILE.validate_python(read_yaml(path))
    except ValidationError as error:
        where = ", entry ".join(str(each) for each in error.errors()[0]["loc"][:2]) or "its beginning"
        raise InputError(f"{path}: not a list of sources, at {where}", "correct the file") from None
    entries = [(part, each) for part, several in parts.items() for each in several]
    if odd := next((part for part, each in entries if not each.is_whole()), None):
        raise InputError(f"{path}: under {odd}, neither a model nor a source with its licence", "correct the file")
    return [_source(part, each) for part, each in entries]


def _source(part: str, entry: _Entry) -> Source:
    if entry.model:
        return Source(part, entry.model, amount=entry.amount, part_of_model=entry.part)
    return Source(part, entry.source, entry.licence, entry.by, entry.amount)


def kept_sources(folder: Path, scores: bool = False, lm: bool = False) -> bytes:
    """Return the file of sources of a copy of a model; of a run, which has none, what `sources_of` finds.

    `scores`: the copy recognises by the model's net for scores. `lm`: it has another n-gram.
    """
    rows = _own_sources(folder)
    if scores:
        kept = [each for each in rows if each.part not in (WEIGHTS, NGRAM)]
        rows = [replace(each, part=WEIGHTS if each.part == JUDGE else each.part) for each in kept]
    if lm:
        rows = [each for each in rows if each.part != NGRAM] + [Source(NGRAM, "an n-gram of its maker", UNKNOWN)]
    parts: dict[str, list[dict[str, str]]] = {}
    for each in rows:
        entry = {"model": each.name, "part": each.part_of_model} if each.part_of_model else {"source": each.name}
        entry |= {key: value for key in ("licence", "by", "amount") if (value := getattr(each, key))}
        parts.setdefault(each.part, []).append(entry)
    return yaml.safe_dump(parts, allow_unicode=True, sort_keys=False, width=120).encode()


def sources_of(folder: Path) -> list[Source]:
    """Return what a model learned from; of a run without a file, its corpus and the model that it began with.

    A part of another bundled model among them is followed by what that learned from.

    Parameters
    ----------
    folder : Path
        Of a checkpoint.

    Raises
    ------
    InputError
        Its file of sources, or its description, is damaged.
    """
    found = list[Source]()
    for each in _own_sources(folder):
        theirs = listed_sources(MODELS[each.name].folder) if each.part_of_model and each.name in MODELS else []
        found += [each, *(replace(one, part=each.part) for one in theirs if one.part == each.part_of_model)]
    return [each for each in dict.fromkeys(found) if _has(folder, each.part)]


def _has(folder: Path, part: str) -> bool:
    """Return whether a model has a part: after ``train-boundaries``, for example, it has no shift."""
    file = folder / PART_FILES[part] if part in PART_FILES else None
    return file is None or (file.exists() and (part != SHIFT or boundary_model.SHIFT in shapes(file)))


def _own_sources(folder: Path, seen: Set[Path] = frozenset()) -> list[Source]:
    """Return the sources of a model, other models among them."""
    return listed_sources(folder) or _of_a_run(folder, seen)


def _of_a_run(folder: Path, seen: Set[Path]) -> list[Source]:
    """Return what the config of a run says: its corpus, and the model that it began with."""
    config = read_config(folder)
    found = [Source(WEIGHTS, f"the corpus of the training ({config.corpus.kind})", UNKNOWN)]
    found += _begun_with(config.train.init_from, {*seen, folder.resolve()})
    if (folder / PART_FILES[BOUNDARIES]).exists():
        found.append(Source(BOUNDARIES, "the corpus of train-boundaries", UNKNOWN))
        fresh = "unless it was trained with --fresh"
        found.append(Source(BOUNDARIES, next(iter(MODELS)), amount=fresh, part_of_model=BOUNDARIES))
    return found


def _begun_with(model: Path | None, seen: Set[Path]) -> list[Source]:
    """Return the sources of the weights and of the n-gram that a training began with."""
    if model is None:
        return []
    if bundled_folder(model) and not model.exists():
        begun = "with which the training began"
        return [Source(part, str(model), amount=begun, part_of_model=part) for part in (WEIGHTS, NGRAM)]
    try:
        place = find_checkpoint(model)
        found = [] if place.resolve() in seen else _own_sources(place, seen)
    except InputError:
        return [Source(WEIGHTS, f"the model {model.name}, which is not found or cannot be read", UNKNOWN)]
    return [each for each in found if each.part in (WEIGHTS, NGRAM)]


def sources_text(sources: Sequence[Source]) -> str:
    """Return a table for a terminal: by part of the model, the licence and the source, and how much of it."""
    lines, width = list[str](), max((len(each.licence) for each in sources if len(each.licence) <= WIDEST), default=0)
    for part, several in groupby(sources, key=lambda each: each.part):
        lines.append(f"{part}:")
        for each in several:
            lines.append(f"  {each.licence:<{width}}  {each.title}" + (f": {each.amount}" if each.amount else ""))
    return "\n".join(lines)
