"""Writes the annotation files of ELAN (.eaf), in its format 3.0."""

from __future__ import annotations

import mimetypes
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import quote

from speechctc.audio.annotations import Interval

_SCHEMA = "http://www.mpi.nl/tools/elan/EAFv3.0.xsd"
_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
_CONSTRAINTS = {
    "Time_Subdivision": "Time subdivision of parent annotation's time interval, no time gaps allowed within this"
    " interval",
    "Symbolic_Subdivision": "Symbolic subdivision of a parent annotation. Annotations refering to the same parent are"
    " ordered",
    "Symbolic_Association": "1-1 association with a parent annotation",
    "Included_In": "Time alignable annotations within the parent annotation's time interval, gaps are allowed",
}
"""The stereotypes of ELAN, in its own words and spelling, which it compares."""


def eaf_text(tiers: Mapping[str, Sequence[Interval]], audio: Path | None, place: Path | None = None) -> str:
    """Return a file of ELAN.

    A tier whose intervals are those of an earlier one becomes its child (a symbolic association), so that its labels
    stay with the labels of the earlier one when a person moves or deletes those. Times are in milliseconds.

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
        ElementTree.SubElement(header, "MEDIA_DESCRIPTOR", _media(audio, place))
    annotations = _Annotations(ElementTree.SubElement(root, "TIME_ORDER"))
    for name, intervals in tiers.items():
        root.append(annotations.tier(name, [each for each in map(_in_ms, intervals) if each[1] > each[0]]))
    ElementTree.SubElement(header, "PROPERTY", {"NAME": "lastUsedAnnotationId"}).text = str(annotations.last)
    annotations.add_slots()
    for name, aligned in (("default-lt", "true"), ("attached", "false")):
        values = {"LINGUISTIC_TYPE_ID": name, "TIME_ALIGNABLE": aligned, "GRAPHIC_REFERENCES": "false"}
        extra = {} if name == "default-lt" else {"CONSTRAINTS": "Symbolic_Association"}
        ElementTree.SubElement(root, "LINGUISTIC_TYPE", values | extra)
    for stereotype, words in _CONSTRAINTS.items():
        ElementTree.SubElement(root, "CONSTRAINT", {"STEREOTYPE": stereotype, "DESCRIPTION": words})
    ElementTree.indent(root, "    ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _in_ms(interval: Interval) -> tuple[int, int, str]:
    return round(1000 * interval.start), round(1000 * interval.end), interval.label


def _media(audio: Path, place: Path | None) -> dict[str, str]:
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

    def tier(self, name: str, labels: Sequence[tuple[int, int, str]]) -> ElementTree.Element:
        """Return the element of a tier."""
        spans = tuple((start, end) for start, end, _ in labels)
        parent = self._parents.get(spans) if labels else None
        element = ElementTree.Element("TIER", {"TIER_ID": name, "LINGUISTIC_TYPE_REF": "default-lt"})
        if parent is not None:
            element.set("LINGUISTIC_TYPE_REF", "attached")
            element.set("PARENT_REF", parent[0])
        ids = []
        for number, (start, end, label) in enumerate(labels):
            self.last += 1
            ids.append(f"a{self.last}")
            if parent is not None:
                if not label:
                    continue
                values = {"ANNOTATION_ID": ids[-1], "ANNOTATION_REF": parent[1][number]}
                self._add(element, "REF_ANNOTATION", values, label)
                continue
            first, last = self._slot(start), self._slot(end)
            values = {"ANNOTATION_ID": ids[-1], "TIME_SLOT_REF1": first, "TIME_SLOT_REF2": last}
            self._add(element, "ALIGNABLE_ANNOTATION", values, label)
        self._parents.setdefault(spans, (name, ids))
        return element

    def _slot(self, time: int) -> str:
        self._slots.append(time)
        return f"ts{len(self._slots)}"

    def _add(self, tier: ElementTree.Element, kind: str, values: dict[str, str], label: str) -> None:
        annotation = ElementTree.SubElement(ElementTree.SubElement(tier, "ANNOTATION"), kind, values)
        ElementTree.SubElement(annotation, "ANNOTATION_VALUE").text = label

    def add_slots(self) -> None:
        """Write the time slots, in the order of time as ELAN does."""
        for time, number in sorted((time, number) for number, time in enumerate(self._slots, start=1)):
            ElementTree.SubElement(self._order, "TIME_SLOT", {"TIME_SLOT_ID": f"ts{number}", "TIME_VALUE": str(time)})
