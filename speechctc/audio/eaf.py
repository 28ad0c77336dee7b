"""Reads and writes the annotation files of ELAN (.eaf): tiers with times or with their parent's, and media."""

from __future__ import annotations

import mimetypes
import os
import re
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path, PureWindowsPath
from typing import NamedTuple, NoReturn
from urllib.parse import quote, unquote, urlsplit

from speechctc.audio.annotations import Interval, Tier
from speechctc.audio.recordings import CONTAINERS, ENDINGS, Siblings
from speechctc.core.errors import InputError
from speechctc.core.text_files import read_bytes

ENDING = ".eaf"
_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_SCHEMA = "http://www.mpi.nl/tools/elan/EAFv3.0.xsd"
_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
_TYPES = Path(__file__).with_name("eaf_types.xml")
_PARENT, _CHILD = "words", "phones"

_Span = tuple[int, int, str]  # milliseconds, and the label


class Media(NamedTuple):
    """A linked recording: its address, that relative to the .eaf file, and its time in seconds where 0 s is in ELAN."""

    url: str
    relative: str
    origin: float

    @property
    def stem(self) -> str:
        """The name of the recording without its ending."""
        return Path(_name(self.url) or _name(self.relative)).stem


class Eaf(NamedTuple):
    """The tiers and the linked recordings of a file."""

    tiers: list[Tier]
    media: tuple[Media, ...]


class _Annotation(NamedTuple):
    """A label, and its slots of time, or the annotation above it and the one before it."""

    label: str
    slots: tuple[str, str] | None
    parent: str
    previous: str


class _Builder(ElementTree.TreeBuilder):
    """Refuses a document type, which no .eaf file has, before its entities are read."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> NoReturn:
        raise ElementTree.ParseError("it has a document type, which could name other files")


def read_eaf(path: Path) -> Eaf:
    """Read a file of ELAN, of any version.

    Labels of symbolic tiers lie in the time of their parent: alone in all of it, several in equal parts of it, which
    `Tier.timed` tells. So do labels of a time subdivision whose times nobody has set.

    Raises
    ------
    InputError
        The file does not exist, is not XML or not ELAN's, or refers to times or annotations that it does not have.
    """
    root = _parse(path)
    try:
        order = root.find("TIME_ORDER")
        slots = {slot.attrib["TIME_SLOT_ID"]: slot.get("TIME_VALUE") for slot in ([] if order is None else order)}
        tiers = {tier.attrib["TIER_ID"]: _annotations(tier) for tier in root.iter("TIER")}
        spans = _Spans(tiers, {slot: None if value is None else int(value) / 1000 for slot, value in slots.items()})
        found = [_tier(tier, tiers[tier.attrib["TIER_ID"]], spans) for tier in root.iter("TIER")]
        return Eaf(found, tuple(map(_media, root.iter("MEDIA_DESCRIPTOR"))))
    except KeyError as error:
        what = f"{path}: damaged: it refers to {error}, which it does not have"
        raise InputError(what, "repair it in ELAN") from None
    except (ValueError, RecursionError) as error:
        reason = "annotations refer to each other in a circle" if isinstance(error, RecursionError) else str(error)[:80]
        raise InputError(f"{path}: damaged: {reason}", "repair it in ELAN") from None


def _parse(path: Path) -> ElementTree.Element:
    raw = read_bytes(path)
    try:
        root = ElementTree.XML(raw, ElementTree.XMLParser(target=_Builder()))
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # LookupError: an unknown encoding
        raise InputError(f"{path}: not a file of ELAN ({str(error)[:80]})", "save it again in ELAN") from None
    if root.tag != "ANNOTATION_DOCUMENT":
        raise InputError(f"{path}: XML, but not a file of ELAN (.eaf)", "export it from ELAN")
    header = root.find("HEADER")
    if header is not None and header.get("TIME_UNITS", "milliseconds") != "milliseconds":
        raise InputError(f"{path}: times in {header.get('TIME_UNITS')}, not in milliseconds", "save it again in ELAN")
    return root


def _media(element: ElementTree.Element) -> Media:
    url, relative = element.get("MEDIA_URL", ""), element.get("RELATIVE_MEDIA_URL", "")
    return Media(url, relative, int(element.get("TIME_ORIGIN") or 0) / 1000)


def _annotations(tier: ElementTree.Element) -> dict[str, _Annotation]:
    """Return the annotations of a tier by their ids."""
    found = {}
    for element in tier.findall("ANNOTATION/*"):
        label = (element.findtext("ANNOTATION_VALUE") or "").strip()
        aligned = element.tag == "ALIGNABLE_ANNOTATION"
        slots = (element.attrib["TIME_SLOT_REF1"], element.attrib["TIME_SLOT_REF2"]) if aligned else None
        parent, previous = element.get("ANNOTATION_REF", ""), element.get("PREVIOUS_ANNOTATION", "")
        found[element.attrib["ANNOTATION_ID"]] = _Annotation(label, slots, parent, previous)
    return found


class _Spans:
    """From when to when each annotation goes, in seconds, and whether the file says so."""

    def __init__(self, tiers: Mapping[str, Mapping[str, _Annotation]], slots: Mapping[str, float | None]) -> None:
        self._all = {id: each for tier in tiers.values() for id, each in tier.items()}
        self._times: dict[str, tuple[float, bool]] = {}
        for tier in tiers.values():
            self._times |= _filled([slot for each in tier.values() for slot in each.slots or ()], slots)
        self._siblings: dict[str, tuple[int, int]] = {}  # place among the annotations of one parent, and their number
        for tier in tiers.values():
            children = defaultdict(list)
            for id, each in tier.items():
                if each.slots is None:
                    children[each.parent].append(id)
            for ids in children.values():
                ranked = _chained(ids, tier)
                self._siblings |= {id: (place, len(ranked)) for place, id in enumerate(ranked)}

    def of(self, id: str) -> tuple[float, float, bool]:
        """Return the start and end of an annotation, and whether the file has them."""
        annotation = self._all[id]
        if annotation.slots is not None:
            (start, known), (end, also) = (self._times[slot] for slot in annotation.slots)
            return start, end, known and also
        start, end, known = self.of(annotation.parent)
        place, count = self._siblings[id]
        step = (end - start) / count
        return start + place * step, start + (place + 1) * step, known and count == 1


def _filled(used: Sequence[str], slots: Mapping[str, float | None]) -> dict[str, tuple[float, bool]]:
    """Return the times of a tier's slots; those without one are spread evenly between their neighbours."""
    rank = {slot: number for number, slot in enumerate(slots)}
    ordered = sorted(set(used), key=lambda slot: rank[slot])
    known = [number for number, slot in enumerate(ordered) if slots[slot] is not None]
    if ordered and (not known or known[0] != 0 or known[-1] != len(ordered) - 1):
        raise ValueError("the first or the last annotation of a tier has no time")
    times: dict[str, tuple[float, bool]] = {}
    for left, right in zip(known, known[1:] + known[-1:], strict=True):
        start, end = slots[ordered[left]] or 0.0, slots[ordered[right]] or 0.0
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
    found = [(spans.of(id), annotation.label) for id, annotation in annotations.items()]
    entries = [Interval(start, end, label) for (start, end, _), label in found]
    timed = all(known for (_, _, known), label in found if label)
    return Tier(element.attrib["TIER_ID"], False, entries, (element.get("PARTICIPANT") or "").strip(), timed)


def find_media(path: Path, media: Sequence[Media], siblings: Siblings | None = None) -> tuple[Path, float]:
    """Return the recording of an .eaf file, and its time in seconds where 0 s is in ELAN.

    It is a linked file where that exists, under its full or its relative path; else the recording of its name, with
    any ending, beside the .eaf file; else the recording beside it with the name of the .eaf file. Sound files come
    before videos.

    Raises
    ------
    InputError
        There is none.
    """
    siblings = siblings or Siblings()
    ranked = sorted(media, key=lambda each: _name(each.url).lower().endswith(CONTAINERS))
    for each in ranked:
        linked = next((place for place in _places(path, each) if os.path.isfile(place)), None)
        found = linked or siblings.find(path.parent / (_name(each.url) or _name(each.relative) or path.name), ENDINGS)
        if found is not None and found.suffix.lower() in ENDINGS:
            return found, each.origin
    if (sibling := siblings.recording_of(path)) is not None:
        return sibling, 0.0
    names = ", ".join(sorted({_name(each.url) or _name(each.relative) for each in media}))
    what = f"it names {names}, which is" if names else "it names none, and none of its name is"
    raise InputError(f"{path}: no recording: {what} not beside it", "put the recording beside it")


def _places(path: Path, media: Media) -> list[Path]:
    """Return where a linked file may be: where it was, and where it is relative to the .eaf file."""
    full = unquote(urlsplit(media.url).path if media.url.startswith("file:") else media.url)
    full = full[1:] if full[2:3] == ":" else full  # /C:/talks/a.wav
    relative = unquote(media.relative.removeprefix("file:")).replace("\\", "/").lstrip("/")
    return [Path(full)] * bool(full) + [path.parent / relative] * bool(relative)


def _name(url: str) -> str:
    return PureWindowsPath(unquote(url)).name  # a path of Windows or of Unix


def eaf_text(tiers: Mapping[str, Sequence[Interval]], audio: Path | None, place: Path | None = None) -> str:
    """Return a file of ELAN.

    A tier whose intervals are those of an earlier one becomes its child (a symbolic association), so that its labels
    stay with the labels of the earlier one when a person moves or deletes those. Phones become children of words
    (ELAN's "Included In"), if each lies within one or outside of all; those outside, pauses for example, get an
    annotation without a label among the words, because a child needs a parent. Times are in milliseconds.

    Parameters
    ----------
    tiers : mapping of str to sequence of Interval
        Intervals of less than a millisecond are left out.
    audio : Path, optional
        The recording that the file links to.
    place : Path, optional
        The file that will be written, from which the recording has a relative path, too.
    """
    root = ElementTree.Element("ANNOTATION_DOCUMENT", {"AUTHOR": "speechctc", "FORMAT": "3.0", "VERSION": "3.0"})
    root.set("DATE", datetime.now(timezone.utc).isoformat(timespec="seconds"))
    root.set("xmlns:xsi", _INSTANCE)
    root.set("xsi:noNamespaceSchemaLocation", _SCHEMA)
    header = ElementTree.SubElement(root, "HEADER", {"MEDIA_FILE": "", "TIME_UNITS": "milliseconds"})
    if audio is not None:
        ElementTree.SubElement(header, "MEDIA_DESCRIPTOR", _media_attributes(audio, place))
    annotations = _Annotations(ElementTree.SubElement(root, "TIME_ORDER"))
    spans = {name: [each for each in map(_in_ms, found) if each[1] > each[0]] for name, found in tiers.items()}
    parents = _parents(spans.get(_PARENT, ()), spans.get(_CHILD, ()))
    for name in sorted(spans, key=lambda name: name != _PARENT) if parents else spans:
        root.append(annotations.tier(name, parents if parents and name == _PARENT else spans[name], bool(parents)))
    ElementTree.SubElement(header, "PROPERTY", {"NAME": "lastUsedAnnotationId"}).text = str(annotations.last)
    annotations.add_slots()
    root.extend(ElementTree.parse(_TYPES).getroot())
    ElementTree.indent(root, "    ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def xml_text(text: str) -> str:
    """Return a text with U+FFFD for the control characters that no XML file may hold."""
    return _NO_XML.sub("\ufffd", text)


def _in_ms(interval: Interval) -> _Span:
    return round(1000 * interval.start), round(1000 * interval.end), interval.label


def _parents(words: Sequence[_Span], phones: Sequence[_Span]) -> list[_Span]:
    """Return words, and stretches without a label for phones outside of them; none if a phone crosses an edge."""
    if not words or not phones:
        return []
    ordered, outside, number = sorted(words), list[_Span](), 0
    for start, end, _ in sorted(phones):
        while number < len(ordered) and ordered[number][1] <= start:
            number += 1
        if number < len(ordered) and ordered[number][0] < end:
            if start < ordered[number][0] or ordered[number][1] < end:
                return []
        elif outside and outside[-1][1] == start:
            outside[-1] = (outside[-1][0], end, "")
        else:
            outside.append((start, end, ""))
    return sorted([*words, *outside])


def _media_attributes(audio: Path, place: Path | None) -> dict[str, str]:
    kind = mimetypes.guess_type(audio.name)[0] or "unknown"
    media = {"MEDIA_URL": audio.absolute().as_uri(), "MIME_TYPE": kind}
    if place is None:
        return media
    try:
        relative = Path(os.path.relpath(audio, place.parent)).as_posix()
    except ValueError:  # on another drive of Windows
        return media
    return media | {"RELATIVE_MEDIA_URL": quote(relative if relative.startswith("../") else f"./{relative}")}


class _Annotations:
    """Numbers annotations and time slots, and knows which tiers have the same intervals."""

    def __init__(self, order: ElementTree.Element) -> None:
        self._order = order
        self._slots: list[int] = []
        self._parents: dict[tuple[tuple[int, int], ...], tuple[str, list[str]]] = {}
        self.last = 0

    def tier(self, name: str, labels: Sequence[_Span], nested: bool) -> ElementTree.Element:
        """Return the element of a tier; nested: phones lie in words."""
        spans = tuple((start, end) for start, end, _ in labels)
        inside = nested and name == _CHILD
        parent = self._parents.get(spans) if labels and not inside else None
        element = ElementTree.Element("TIER", {"TIER_ID": xml_text(name), "LINGUISTIC_TYPE_REF": "default-lt"})
        if inside:
            element.set("LINGUISTIC_TYPE_REF", "inside")
            element.set("PARENT_REF", _PARENT)
        if parent is not None:
            element.set("LINGUISTIC_TYPE_REF", "attached")
            element.set("PARENT_REF", xml_text(parent[0]))
        ids = []
        for number, (start, end, label) in enumerate(labels):
            self.last += 1
            ids.append(f"a{self.last}")
            if parent is None:
                first, last = self._slot(start), self._slot(end)
                kind, where = "ALIGNABLE_ANNOTATION", {"TIME_SLOT_REF1": first, "TIME_SLOT_REF2": last}
            elif label:
                kind, where = "REF_ANNOTATION", {"ANNOTATION_REF": parent[1][number]}
            else:
                continue
            around = ElementTree.SubElement(element, "ANNOTATION")
            annotation = ElementTree.SubElement(around, kind, {"ANNOTATION_ID": ids[-1], **where})
            ElementTree.SubElement(annotation, "ANNOTATION_VALUE").text = xml_text(label)
        if parent is None:  # of two tiers with the same intervals the child, phones rather than words
            self._parents[spans] = name, ids
        return element

    def _slot(self, time: int) -> str:
        self._slots.append(time)
        return f"ts{len(self._slots)}"

    def add_slots(self) -> None:
        """Write the time slots, in the order of time as ELAN does."""
        for time, number in sorted((time, number) for number, time in enumerate(self._slots, start=1)):
            ElementTree.SubElement(self._order, "TIME_SLOT", {"TIME_SLOT_ID": f"ts{number}", "TIME_VALUE": str(time)})
