"""Writes the annotation files of ELAN (.eaf)."""

from __future__ import annotations

import mimetypes
import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import quote

from speechctc.audio.annotations import Interval

_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SCHEMA = "http://www.mpi.nl/tools/elan/EAFv3.0.xsd"
_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
_TYPES = Path(__file__).with_name("eaf_types.xml")
_PARENT, _CHILD = "words", "phones"
_Span = tuple[int, int, str]  # milliseconds, and the label


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
