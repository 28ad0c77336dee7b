"""Boundary errors between two sets of labelled intervals, by class of phone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from speechctc.audio import sound_file
from speechctc.audio.annotations import PHN_RATE, Interval, choose_tiers, intervals_of, read_phn, read_tiers
from speechctc.audio.folders import files_below
from speechctc.audio.recordings import Siblings
from speechctc.core.errors import InputError, columns, counted_alike, first_few, plural
from speechctc.phones.articulation import describe, is_arpabet, spelling
from speechctc.phones.inventory import SILENCES

GRID = ".textgrid"
WITHIN_MS = (10, 20, 50)
FIGURES = {"mean_error": "", "median_error": "", "median_lag": "+"}
CLASSES = {
    "vowel": "aa ae ah ao aw ax ax-h axr ay eh er ey ih ix iy ow oy uh uw ux",
    "stop": "b d g p t k dx q",
    "closure": "bcl dcl gcl pcl tcl kcl cl vcl",
    "affricate": "ch jh",
    "fricative": "s sh z zh f th v dh hh hv h",
    "nasal": "m n ng nx em en eng",
    "approximant": "l r w y el",
    "silence": " ".join(sorted(SILENCES)),
}
"""Classes of the labels of TIMIT and CMU. Labels of IPA have a class by their manner; others are ``other``."""
_CLASS_OF = {phone: name for name, phones in CLASSES.items() for phone in phones.split()}
_OF_MANNER = {
    **dict.fromkeys(("plosive", "implosive", "click", "tap"), "stop"),  # TIMIT's tap, dx, is a stop
    "lateral fricative": "fricative",
    "lateral": "approximant",
}


@dataclass(frozen=True)
class BoundaryScore:
    """Boundary errors between two sets of files.

    Attributes
    ----------
    files : int
        Number of pairs of files.
    boundaries : int
        Number of boundaries between two phones in the reference.
    errors : dict of str to ndarray
        By class of the phone that begins at the boundary, seconds by which the hypothesis is later, for each boundary
        that is in both.
    unmatched : tuple of str
        Files of one set without a counterpart in the other.
    notes : tuple of str
        Files whose times were counted from elsewhere than 0, or whose own length is not that of the recording.
    """

    files: int
    boundaries: int
    errors: dict[str, NDArray[np.float64]]
    unmatched: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the JSON report."""
        every = np.concatenate([*self.errors.values(), np.zeros(0)])
        return {
            "files": self.files,
            "reference_boundaries": self.boundaries,
            "unmatched_files": list(self.unmatched),
            "notes": list(self.notes),
            **summary(every),
            "by_class": {name: summary(self.errors[name]) for name in sorted(self.errors)},
        }

    def to_text(self) -> str:
        """Return the report as text."""
        report = self.to_dict()
        head = ["class", "boundaries", "mean error", "median error", "median lag", *(f"<= {ms} ms" for ms in WITHIN_MS)]
        rows = [head, _cells("all", report), *(_cells(*each) for each in report["by_class"].items())]
        found = f"{report['boundaries']} of {self.boundaries} reference boundaries are between phones found in both"
        lines = [f"{plural(self.files, 'pair')} of files; {found}", *columns(rows, "l" + "r" * (len(head) - 1))]
        alone = f"no pair for {plural(len(self.unmatched), 'file')}: {first_few(self.unmatched)}"
        return "\n".join([*lines, *([alone] if self.unmatched else []), *self.notes])


def score_boundaries(
    reference: Path, hypothesis: Path, tier: str = "phones", hypothesis_tier: str | None = None
) -> BoundaryScore:
    """Compare two files, or two folders file by file.

    Parameters
    ----------
    reference, hypothesis : Path
        TextGrid or .PHN files, or folders of them, in which files belong together if their paths differ only in the
        ending and in letter case.
    tier : str
        Tier of the TextGrids: a name, or a pattern that one labelled tier of each fits; see `choose_tiers`.
    hypothesis_tier : str, optional
        That of the TextGrids of `hypothesis`; None: the same.

    Raises
    ------
    InputError
        There are no two files to compare, two files of a folder have one name, or a file cannot be read.
    """
    pairs, unmatched = _pairs(reference, hypothesis)
    errors: dict[str, list[float]] = {}
    boundaries = 0
    siblings, notes = Siblings(), list[tuple[Path, str]]()
    tiers = (tier, hypothesis_tier or tier)
    sides = [_read_pair(pair, tiers, siblings, notes) for pair in pairs]
    arpabet = is_arpabet([interval.label for labelled, _ in sides for interval in labelled])
    alike = _same_phones(*({each.label for side in sides for each in side[k]} for k in (0, 1)))
    for labelled, found in sides:
        boundaries += max(len(labelled) - 1, 0)
        found = [each._replace(label=alike.get(each.label, each.label)) for each in found]
        for phone, error in boundary_errors(labelled, found):
            errors.setdefault(class_of(phone, arpabet), []).append(error)
    said = tuple(counted_alike(notes, with_numbers=True))
    if alike:
        spelled = first_few([f"{label} as {to}" for label, to in sorted(alike.items())], 12)
        said = (*said, f"labels of the second side are compared as the first spells them: {spelled}")
    return BoundaryScore(len(pairs), boundaries, {k: np.array(v) for k, v in errors.items()}, tuple(unmatched), said)


def _same_phones(reference: Set[str], hypothesis: Set[str]) -> dict[str, str]:
    """Return labels that only the hypothesis has, and the reference's label of the same phone in another spelling."""
    forms: list[Callable[[str], str]] = [lambda label: label.lower().rstrip("012"), spelling]
    form = forms[0 if is_arpabet([*reference, *hypothesis]) else 1]
    known = {form(label): label for label in sorted(reference - SILENCES, reverse=True)}
    return {label: known[form(label)] for label in hypothesis - reference - SILENCES if form(label) in known}


def class_of(label: str, arpabet: bool) -> str:
    """Return the class of a label, which is of ARPABET or else of IPA."""
    if arpabet or label in SILENCES:
        return _CLASS_OF.get(label.lower().rstrip("012"), "other")
    terms = describe(label)
    manner = terms.get("manner", terms.get("kind", "other"))
    return _OF_MANNER.get(manner, manner)


def boundary_errors(reference: Sequence[Interval], hypothesis: Sequence[Interval]) -> Iterator[tuple[str, float]]:
    """Yield the errors of boundaries whose two phones are also neighbours in the hypothesis.

    Yields
    ------
    (str, float)
        The phone that begins at the boundary, and the seconds by which it begins later in the hypothesis.
    """
    labels = [[interval.label for interval in side] for side in (reference, hypothesis)]
    place: dict[int, int] = {}
    for block in Levenshtein.opcodes(*labels):
        if block.tag == "equal":
            span = zip(range(block.src_start, block.src_end), range(block.dest_start, block.dest_end), strict=True)
            place |= dict(span)
    for k in range(1, len(reference)):
        if k in place and place.get(k - 1) == place[k] - 1:
            yield reference[k].label, hypothesis[place[k]].start - reference[k].start


def summary(errors: NDArray[np.float64]) -> dict[str, Any]:
    """Return the number of errors in seconds, their mean and median size and median in ms, and shares `WITHIN_MS`."""
    if not len(errors):
        return {"boundaries": 0}
    distance = np.abs(errors)
    shares = {f"within_{ms}_ms": float(np.mean(distance <= ms / 1000 + 1e-9)) for ms in WITHIN_MS}
    figures = {"mean_error": distance.mean(), "median_error": np.median(distance), "median_lag": np.median(errors)}
    return {"boundaries": len(errors), **{f"{name}_ms": float(1000 * s) for name, s in figures.items()}, **shares}


def _cells(name: str, values: dict[str, Any]) -> list[str]:
    """Return the cells of a row."""
    if not values["boundaries"]:
        return [name, "0", *[""] * (3 + len(WITHIN_MS))]
    sizes = [f"{values[f'{key}_ms']:{sign}.1f} ms" for key, sign in FIGURES.items()]
    return [name, str(values["boundaries"]), *sizes, *(f"{100 * values[f'within_{ms}_ms']:.1f} %" for ms in WITHIN_MS)]


def _read_pair(
    pair: tuple[Path, Path], names: tuple[str, str], siblings: Siblings, notes: list[tuple[Path, str]]
) -> tuple[list[Interval], list[Interval]]:
    """Return the labels of two files, their times those in the recording; add what is odd in its length to `notes`.

    The recording is beside one of them; where there is none, a TextGrid that begins at 0 has its length.
    """
    grids = [read_tiers(path) if path.suffix.lower() == GRID else None for path in pair]
    beside = [siblings.recording_of(path) for path in pair]
    sounds = [None if path is None else sound_file.info(path) for path in beside]
    lengths = [sound.seconds for sound in sounds if sound] + [grid.end for grid in grids if grid and not grid.start]
    found = []
    for path, grid, sound, tier in zip(pair, grids, sounds, names, strict=True):
        if grid is None:
            found.append(read_phn(path, sound.rate if sound else PHN_RATE))  # in samples of its recording
            continue
        if lengths:
            grid, read = grid.of_recording(path, lengths[0]), grid.note
            notes += [(path, grid.note)] if grid.note != read else []
        fits = [each for each, _ in choose_tiers(grid.tiers, path, tier)]
        labelled = [each for each in fits if any(entry.label for entry in each.entries)]
        if len({each.name for each in labelled}) > 1:
            named = first_few([repr(each.name) for each in labelled])
            raise InputError(f"{path}: {len(labelled)} tiers fit {tier!r}: {named}", "name one of them")
        found.append(intervals_of(grid.tiers, path, (labelled or fits)[0].name))
    return found[0], found[1]


def _pairs(reference: Path, hypothesis: Path) -> tuple[list[tuple[Path, Path]], list[str]]:
    """Return the pairs of files, and the files without a counterpart."""
    if reference.is_file() and hypothesis.is_file():
        return [(reference, hypothesis)], []
    sides = [_files(reference), _files(hypothesis)]
    _join_letter_case(*sides)
    names = sorted(sides[0].keys() & sides[1].keys())
    if not names:
        few = ", ".join(sorted({*sides[0], *sides[1]})[:4])
        raise InputError(f"{reference} and {hypothesis}: no file has the same name in both ({few})", "rename them")
    alone = [str(path) for k in (0, 1) for name, path in sorted(sides[k].items()) if name not in sides[1 - k]]
    return [(sides[0][name], sides[1][name]) for name in names], alone


def _join_letter_case(one: dict[str, Path], other: dict[str, Path]) -> None:
    """Give names of one side that differ by letter case the spelling of the other, where no third can be meant."""
    spelled = {name.lower(): name for name in other}
    alike = Counter(name.lower() for name in {*one, *other})
    for name in [name for name in one if name not in other and alike[name.lower()] == 2]:
        if (meant := spelled.get(name.lower())) is not None and meant not in one:
            one[meant] = one.pop(name)


def _files(folder: Path) -> dict[str, Path]:
    """Return the TextGrids and .PHN files of a folder, by relative path without the ending; no two may be of one name.

    Names of two kinds of files are one name in any letter case.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such {'folder' if not folder.exists() else 'folder; it is a file'}", "name two")
    paths = sorted(path for path in files_below(folder) if path.suffix.lower() in (".textgrid", ".phn"))
    if not paths:
        raise InputError(f"{folder}: no TextGrid or .PHN files in it", "name a folder that has some")
    alike: dict[str, list[Path]] = {}
    for path in paths:
        alike.setdefault(str(path.with_suffix("")).lower(), []).append(path)
    for group in alike.values():
        kinds, names = {path.suffix.lower() for path in group}, {path.with_suffix("") for path in group}
        if len(kinds) > 1 or len(names) < len(group):
            raise InputError(
                f"{first_few([str(path) for path in group])}: labels of one name", "keep one of them there"
            )
    return {str(path.relative_to(folder).with_suffix("")): path for path in paths}
