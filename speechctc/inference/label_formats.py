"""Writes tiers as labels of Audacity, annotations of EMU, and partiturs of BAS."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from speechctc.audio.annotations import Interval

Tiers = Mapping[str, Sequence["Interval"]]
MAIN = ("phones", "words")
"""Tiers of labels; others have a value for each phone."""


def one_field(text: str) -> str:
    """Return a text on one line without tabs, for formats that cannot hold them."""
    return " ".join(text.splitlines()).replace("\t", " ")


def one_token(text: str) -> str:
    """Return a text without white space, for formats whose fields are separated by it; never an empty one."""
    return "_".join(text.split()) or "_"


def audacity_text(tiers: Tiers) -> str:
    """Return the phones as a label track of Audacity: start and end in seconds and the label, separated by tabs."""
    return "".join(f"{start:.6f}\t{end:.6f}\t{one_field(label)}\n" for start, end, label in tiers["phones"])


def emu_text(tiers: Tiers, audio: Path, rate: int, seconds: float) -> str:
    """Return the annotation of a bundle of the EMU Speech Database Management System (``_annot.json``).

    Each tier is a level of segments, which fill the recording as EMU's do: stretches without a label have an empty one.
    The confidence of a phone is a second attribute of its level.
    """
    levels: list[dict[str, Any]] = []
    number = 0
    for name in (name for name in MAIN if name in tiers):
        items = []
        beside = dict(zip(tiers[name], tiers.get("confidence", ()), strict=False)) if name == "phones" else {}
        for interval in _filled(tiers[name], seconds):
            number += 1
            start, end = round(interval.start * rate), round(interval.end * rate)
            labels = [{"name": name, "value": interval.label}]
            if name == "phones" and "confidence" in tiers:
                labels.append({"name": "confidence", "value": beside[interval].label if interval in beside else ""})
            items.append({"id": number, "sampleStart": start, "sampleDur": max(end - start - 1, 0), "labels": labels})
        levels.append({"name": name, "type": "SEGMENT", "items": items})
    bundle = {"name": audio.stem, "annotates": audio.name, "sampleRate": rate, "levels": levels, "links": []}
    return json.dumps(bundle, indent=1, ensure_ascii=False) + "\n"


def par_text(tiers: Tiers, rate: int, channels: int) -> str:
    """Return a partitur of the Bavarian Archive for Speech Signals (``.par``), with tiers MAU, and ORT for words.

    A line of MAU has the first sample, the number of samples after it, the word it belongs to or -1, and the label.
    """
    words = sorted(tiers.get("words", ()))
    head = ["LHD: Partitur 1.3", "REP: unknown", "SNB: 2", f"SAM: {rate}", "SBF: 01", "SSB: 16", f"NCH: {channels}"]
    lines = [*head, "SPN: unknown", "LBD:", *(f"ORT: {k} {one_token(word.label)}" for k, word in enumerate(words))]
    for start, end, label in tiers["phones"]:
        middle = (start + end) / 2
        word = next((k for k, each in enumerate(words) if each.start <= middle < each.end), -1)
        first, last = round(start * rate), round(end * rate)
        lines.append(f"MAU: {first} {max(last - first - 1, 0)} {word} {one_token(label)}")
    return "\n".join(lines) + "\n"


def _filled(intervals: Sequence[Interval], seconds: float) -> list[Interval]:
    """Return intervals in order, with ones without a label between them, from 0 s to the end."""
    from speechctc.audio.annotations import Interval  # late: the help of commands loads this module

    filled: list[Interval] = []
    at = 0.0
    for interval in sorted(intervals):
        if interval.start > at:
            filled.append(Interval(at, interval.start, ""))
        filled.append(interval)
        at = interval.end
    return [*filled, Interval(at, seconds, "")] if seconds > at else filled
