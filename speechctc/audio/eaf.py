"""Reads the annotation files of ELAN (.eaf): tiers with times or with their parent's, and media."""

from __future__ import annotations

import math
import os
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import NamedTuple, NoReturn
from urllib.parse import unquote, urlsplit

from speechctc.audio.annotations import Interval, Tier
from speechctc.audio.folders import CONTAINERS, ENDINGS
from speechctc.audio.recordings import Siblings
from speechctc.core.errors import InputError, first_few, plural
from speechctc.core.text_files import read_bytes
from speechctc.phones.inventory import nfc

ENDING = ".eaf"
FEWEST, SHORTEST = 3, 0.002  # labels of a tier, and seconds that they last on average, below which it is none of speech


class Media(NamedTuple):
    """A linked recording: its address, that relative to the .eaf file, and its time in seconds where 0 s is in ELAN."""

    url: str
    relative: str
    origin: float

    @property
    def name(self) -> str:
        """The name of the recording."""
        return _name(self.url) or _name(self.relative)

    @property
    def names(self) -> set[str]:
        """The names of the recording by both addresses, without differences of letter case and Unicode form."""
        return {nfc(name).casefold() for name in (_name(self.url), _name(self.relative)) if name}


class Eaf(NamedTuple):
    """The tiers and the linked recordings of a file."""

    tiers: list[Tier]
    media: tuple[Media, ...]


class _Annotation(NamedTuple):
    """A label, and its slots of time, or the annotation above it and the one before it.

    `entry` is the one of a vocabulary that has its label, where it has none of its own.
    """

    label: str
    slots: tuple[str, str] | None
    parent: str
    previous: str
    entry: str = ""


class _Builder(ElementTree.TreeBuilder):
    """Refuses a document type, which no .eaf file has, before its entities are read."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> NoReturn:
        raise ElementTree.ParseError("it has a document type, which could name other files")


class _Damaged(Exception):
    """What is wrong with an annotation, in words."""


def read_eaf(path: Path) -> Eaf:
    """Read a file of ELAN, of any version.

    Labels of symbolic tiers lie in the time of their parent: alone in all of it, several in equal parts of it, which
    `Tier.timed` tells. So do labels of a time subdivision whose times nobody has set. A tier that refers to times or
    annotations that the file does not have says so in `Tier.problem`.

    Raises
    ------
    InputError
        The file does not exist, is not XML or not ELAN's, or has labels and no tier that can be read.
    """
    root = _parse(path)
    order = root.find("TIME_ORDER")
    slots = {slot.get("TIME_SLOT_ID", ""): slot.get("TIME_VALUE") for slot in ([] if order is None else order)}
    elements = list(root.iter("TIER"))
    known = {entry.get("CVE_ID", ""): _value_of(entry) for entry in root.iter() if entry.tag.startswith("CV_ENTRY")}
    annotations = [_annotations(element, number, known) for number, element in enumerate(elements)]
    spans = _Spans(annotations, slots)
    tiers = [_tier(element, own, spans) for element, own in zip(elements, annotations, strict=True)]
    problem = next((tier.problem for tier in tiers if tier.problem), "")
    if problem and not any(tier.entries for tier in tiers):
        raise InputError(f"{path}: damaged: {problem}", "repair it in ELAN, or in what wrote it")
    return Eaf(tiers, tuple(_media(each, path) for each in root.iter("MEDIA_DESCRIPTOR")))


def _parse(path: Path) -> ElementTree.Element:
    raw = read_bytes(path)
    try:
        root = ElementTree.XML(raw, ElementTree.XMLParser(target=_Builder()))
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # LookupError: an unknown encoding
        raise InputError(f"{path}: not a file of ELAN ({str(error)[:80]})", "save it again in ELAN") from None
    if root.tag != "ANNOTATION_DOCUMENT":
        raise InputError(f"{path}: XML, but not a file of ELAN (.eaf)", "export it from ELAN")
    header = root.find("HEADER")
    if header is not None and (header.get("TIME_UNITS") or "milliseconds") != "milliseconds":
        raise InputError(f"{path}: times in {header.get('TIME_UNITS')}, not in milliseconds", "save it again in ELAN")
    return root


def _media(element: ElementTree.Element, path: Path) -> Media:
    url, relative = element.get("MEDIA_URL", ""), element.get("RELATIVE_MEDIA_URL", "")
    origin = _seconds(text := element.get("TIME_ORIGIN") or "0")
    if origin is None:
        what = f"{path}: {_name(url) or _name(relative)} begins at {text[:40]!r}, which are no milliseconds"
        raise InputError(what, "repair it in ELAN")
    return Media(url, relative, origin)


def _seconds(text: str) -> float | None:
    """Return milliseconds, which scripts write with a point, too, in seconds; None for what is no number of them."""
    try:
        number = float(text) / 1000
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _value_of(entry: ElementTree.Element) -> str:
    """Return the value of an entry of a controlled vocabulary: its text, or that of its first language."""
    return (entry.findtext("CVE_VALUE") or entry.text or "").strip()


def _annotations(tier: ElementTree.Element, number: int, known: Mapping[str, str]) -> dict[str, _Annotation]:
    """Return the annotations of a tier by their ids; one without an id gets one from the tier's `number`.

    One without a label that refers to an entry of a vocabulary has that of `known`, where it is there.
    """
    found = {}
    for place, element in enumerate(tier.findall("ANNOTATION/*")):
        label, entry = (element.findtext("ANNOTATION_VALUE") or "").strip(), element.get("CVE_REF", "")
        label, entry = label or known.get(entry, ""), "" if label else entry
        aligned = element.tag == "ALIGNABLE_ANNOTATION"
        slots = (element.get("TIME_SLOT_REF1", ""), element.get("TIME_SLOT_REF2", "")) if aligned else None
        parent, previous = element.get("ANNOTATION_REF", ""), element.get("PREVIOUS_ANNOTATION", "")
        id = element.get("ANNOTATION_ID") or f"{number + 1}.{place + 1}"
        found[id] = _Annotation(label, slots, parent, previous, entry)
    return found


class _Spans:
    """From when to when each annotation goes, in seconds, and whether the file says so."""

    def __init__(self, tiers: Sequence[Mapping[str, _Annotation]], slots: Mapping[str, str | None]) -> None:
        self._all = {id: each for tier in tiers for id, each in tier.items()}
        self._times: dict[str, tuple[float, bool]] = {}
        self._problems: dict[str, str] = {}  # of the annotations of tiers whose times cannot be read
        rank = {slot: number for number, slot in enumerate(slots)}
        for tier in tiers:
            try:
                self._times |= _filled([slot for each in tier.values() for slot in each.slots or ()], slots, rank)
            except _Damaged as damage:
                self._problems |= {id: str(damage) for id, each in tier.items() if each.slots}
        self._siblings: dict[str, tuple[int, int]] = {}  # place among the annotations of one parent, and their number
        for tier in tiers:
            children = defaultdict(list)
            for id, each in tier.items():
                if each.slots is None:
                    children[each.parent].append(id)
            for ids in children.values():
                ranked = _chained(ids, tier)
                self._siblings |= {id: (place, len(ranked)) for place, id in enumerate(ranked)}

    def of(self, id: str, above: tuple[str, ...] = ()) -> tuple[float, float, bool]:
        """Return the start and end of an annotation, and whether the file has them.

        Raises
        ------
        _Damaged
            It refers to a time or an annotation that is not there or has no time, or in a circle.
        """
        if id in self._problems:
            raise _Damaged(self._problems[id])
        if id not in self._all:
            raise _Damaged(f"it refers to {id!r}, which it does not have")
        if id in above:
            raise _Damaged(f"annotations refer to each other in a circle ({', '.join((*above, id)[:4])})")
        annotation = self._all[id]
        if annotation.slots is not None:
            (start, known), (end, also) = (self._times[slot] for slot in annotation.slots)
            return start, end, known and also
        start, end, known = self.of(annotation.parent, (*above, id))
        place, count = self._siblings[id]
        step = (end - start) / count
        return start + place * step, start + (place + 1) * step, known and count == 1

    def untimed(self, annotation: _Annotation) -> list[str]:
        """Return the time slots of an annotation that have no time in the file."""
        return [slot for slot in annotation.slots or () if not self._times[slot][1]]


def _filled(
    used: Sequence[str], slots: Mapping[str, str | None], rank: Mapping[str, int]
) -> dict[str, tuple[float, bool]]:
    """Return the times of a tier's slots; those without one are spread evenly between their neighbours.

    `rank` is the place of each slot in the file.
    """
    if (gone := next((slot for slot in used if slot not in rank), None)) is not None:
        raise _Damaged(f"it refers to {gone!r}, which it does not have")
    ordered = sorted(set(used), key=lambda slot: rank[slot])
    given = {slot: _seconds(text) for slot in ordered if (text := slots[slot])}
    if (odd := next((slot for slot in given if given[slot] is None), None)) is not None:
        raise _Damaged(f"the time of {odd} is {str(slots[odd])[:40]!r}, which are no milliseconds")
    known = [number for number, slot in enumerate(ordered) if slot in given]
    if ordered and (not known or known[0] != 0 or known[-1] != len(ordered) - 1):
        place, slot = ("first", ordered[0]) if not known or known[0] != 0 else ("last", ordered[-1])
        raise _Damaged(f"the {place} annotation of the tier has no time (its time slot {slot} has no TIME_VALUE)")
    times: dict[str, tuple[float, bool]] = {}
    for left, right in zip(known, known[1:] + known[-1:], strict=True):
        start, end = given[ordered[left]] or 0.0, given[ordered[right]] or 0.0
        for number in range(left, max(right, left + 1)):
            share = (number - left) / max(right - left, 1)
            times[ordered[number]] = (start + share * (end - start), number == left)
    return times


def _chained(ids: Sequence[str], tier: Mapping[str, _Annotation]) -> list[str]:
    """Return the annotations of one parent in their order, which each one's previous one gives."""
    members = set(ids)
    after = {tier[id].previous: id for id in ids if tier[id].previous in members}
    ranked: dict[str, None] = {}
    for first in (id for id in ids if tier[id].previous not in members):
        id: str | None = first
        while id is not None and id not in ranked:
            ranked[id] = None
            id = after.get(id)
    return [*ranked, *(id for id in ids if id not in ranked)]


def _tier(element: ElementTree.Element, annotations: Mapping[str, _Annotation], spans: _Spans) -> Tier:
    tier = Tier(element.get("TIER_ID", ""), False, [], (element.get("PARTICIPANT") or "").strip())
    try:
        found = [(spans.of(id), annotation) for id, annotation in annotations.items()]
    except _Damaged as damage:
        return tier._replace(problem=str(damage))
    except RecursionError:
        return tier._replace(problem="its annotations have too many above them")
    entries = [Interval(start, end, annotation.label) for (start, end, _), annotation in found]
    if problem := _too_short(entries):
        return tier._replace(problem=problem)
    timed = all(known for (_, _, known), annotation in found if annotation.label)
    untimed = list(dict.fromkeys(slot for _, each in found if each.label for slot in spans.untimed(each)))
    note = f"the tier {tier.name!r} has {len(untimed)} time slots without a time ({first_few(untimed, 3)})"
    note = f"{note}: its labels lie evenly between those that have one" if untimed else ""
    if elsewhere := [each.entry for _, each in found if each.entry and not each.label]:
        what = f"{plural(len(elsewhere), 'label')} in a vocabulary outside of the file, left out"
        note = "; ".join(filter(None, (note, f"the tier {tier.name!r} has {what} ({first_few(elsewhere, 3)})")))
    return tier._replace(entries=entries, timed=timed, note=note)


def _too_short(entries: Sequence[Interval]) -> str:
    """Return what is wrong with labels that last no time, such as those whose times a script wrote in seconds."""
    last, count = max((each.end for each in entries), default=0.0), sum(bool(each.label) for each in entries)
    if count < FEWEST or not 0 < last < SHORTEST * count:
        return ""
    return f"its {count} labels all lie before {1000 * last:.3g} ms: its times seem to be in seconds, not milliseconds"


def origin_of(path: Path, media: Sequence[Media], recording: Path) -> tuple[float, str]:
    """Return the time in a recording where 0 s is in ELAN, and what the user should know about it, or ``""``.

    A file links to the recording by its name, or by its name with another ending: that of a sound file before that of
    a video. Letter case is ignored. A recording that it does not link to begins at 0.
    """
    ranked = _sounds_first(media)
    named = [each for each in ranked if nfc(recording.name).casefold() in each.names]
    named = named or [each for each in ranked if nfc(recording.stem).casefold() in map(_stem, each.names)]
    if not named:
        late = next((each for each in ranked if each.origin), None)
        what = f"{path}: links to {late.name} from {late.origin:g} s on, and not to {recording.name}" if late else ""
        return 0.0, f"{what}, which is taken from its begin" if late else ""
    if others := [each for each in named if each.origin != named[0].origin]:
        of = f"{named[0].name} from {named[0].origin:g} s on, and to {others[0].name} from {others[0].origin:g} s"
        return named[0].origin, f"{path}: links to {of}: the first is taken for {recording.name}"
    return named[0].origin, ""


def find_media(path: Path, media: Sequence[Media], siblings: Siblings | None = None) -> Path:
    """Return the recording of an .eaf file; `origin_of` tells where 0 s is in it.

    It is a linked file where that exists, under its full or its relative path; else the recording of its name, with
    any ending, beside the .eaf file; else the recording beside it with the name of the .eaf file. Sound files come
    before videos.

    Raises
    ------
    InputError
        There is none.
    """
    siblings = siblings or Siblings()
    for each in _sounds_first(media):
        linked = next((place for place in _places(path, each) if os.path.isfile(place)), None)
        found = linked or siblings.find(path.parent / (each.name or path.name), ENDINGS)
        if found is not None and found.suffix.lower() in ENDINGS:
            return found
    if (sibling := siblings.recording_of(path)) is not None:
        return sibling
    names = ", ".join(sorted({each.name for each in media}))
    what = f"it names {names}, which is" if names else "it names none, and none of its name is"
    raise InputError(f"{path}: no recording: {what} not beside it", "put the recording beside it")


def _sounds_first(media: Sequence[Media]) -> list[Media]:
    return sorted(media, key=lambda each: each.name.lower().endswith(CONTAINERS))


def _places(path: Path, media: Media) -> list[Path]:
    """Return where a linked file may be: where it was, relative to the .eaf file, and beside it."""
    full = unquote(urlsplit(media.url).path if media.url.startswith("file:") else media.url)
    full = full[1:] if full[2:3] == ":" else full  # /C:/talks/a.wav
    relative = unquote(media.relative.removeprefix("file:")).replace("\\", "/").lstrip("/")
    beside = [path.parent / media.name] if media.name else []
    return [Path(full)] * bool(full) + [path.parent / relative] * bool(relative) + beside


def _stem(name: str) -> str:
    return Path(name).stem


def _name(url: str) -> str:
    return PureWindowsPath(unquote(url)).name  # a path of Windows or of Unix
