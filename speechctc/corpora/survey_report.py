"""What was found in a folder of recordings, in words."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

from speechctc.corpora.survey import Survey
from speechctc.phones.articulation import plain

RARE = 5  # occurrences, fewer of which a net hardly learns from
MOST = 8  # of anything that is listed

_LABELLED = {
    "table": "recordings listed in tables",
    "textgrid": "recordings with TextGrids beside them",
    "timit": "recordings with .PHN files, as TIMIT is laid out",
}


def describe(found: Survey) -> str:
    """Return what there is, and what cannot be used and why."""
    sound, lines = found.sound, []
    what = _LABELLED[found.config.kind] if found.config else "recordings without labels"
    lines.append(f"{found.folder}: {what}")
    rates = ", ".join(f"{rate:,} Hz ({count})" for rate, count in sound.rates.most_common())
    formats = ", ".join(f"{form} ({count})" for form, count in sound.formats.most_common())
    lines.append(
        f"  {sound.readable} recordings, {sound.seconds / 60:.1f} minutes; {rates or 'none readable'}; {formats}"
    )
    if found.config and found.unlabelled:
        lines.append(f"  {found.unlabelled} more recordings have no usable labels; the trained model can decode them")
    if sound.long:
        lines.append(
            f"  {sound.long} are longer than a minute; each is one utterance in training: better cut at pauses"
        )
    if found.corpus is not None:
        lines.append(f"  speakers: {_speakers(found)}")
        lines += _phones(Counter(phone for utterance in found.utterances for phone in utterance.phones))
        if not is_held_out(found):
            splits = ", ".join(f"{name} {len(split)}" for name, split in found.corpus.splits.items() if split)
            lines.append(f"  utterances: {splits}")
    lines += [f"  {note}" for note in found.notes]
    if found.corpus is not None:
        refused = [f"{entry.id}: {entry.reason}" for split in found.corpus.rejected.values() for entry in split]
        lines += _listed("cannot be used", [*refused, *sound.unreadable])
    else:
        lines += _listed("cannot be read", sound.unreadable)
    return "\n".join(lines)


def is_held_out(found: Survey) -> bool:
    """Tell whether dev is a share of the training utterances, for want of one of its own."""
    return found.corpus is not None and any(
        note.startswith("dev:") and "held out" in note for note in found.corpus.notes
    )


def spellings(phones: Iterable[str]) -> list[tuple[str, ...]]:
    """Return groups of labels that are probably one phone in several spellings.

    These differ in Unicode's form, in look-alike letters (``g`` and ``ɡ``), in ties and stress, or, if they have
    several letters, in case (``AA`` and ``aa``; ``s`` and ``S`` are two phones in SAMPA).
    """
    groups: dict[str, list[str]] = {}
    for phone in sorted(set(phones)):
        key = plain(unicodedata.normalize("NFC", phone))
        groups.setdefault(key.lower() if len(phone) > 1 and phone.isalpha() and phone.isascii() else key, []).append(
            phone
        )
    return [tuple(group) for group in groups.values() if len(group) > 1]


def _speakers(found: Survey) -> str:
    kind = found.config.kind if found.config else ""
    how = {"table": "by the column speaker", "textgrid": "a folder each", "timit": "a folder each"}.get(kind, "")
    names = sorted({utterance.speaker for utterance in found.utterances})
    if names == [""]:
        fix = "fill the column speaker" if kind == "table" else "put each speaker's recordings in a folder"
        return f"not known, so dev's voices are among those trained on and its PER is too low; {fix}"
    without = sum(not utterance.speaker for utterance in found.utterances)
    missing = f"; {without} utterances name none" if without else ""
    named = [name for name in names if name]
    return f"{len(named)} ({how}): {_some(named)}{missing}"


def _phones(counts: Mapping[str, int]) -> list[str]:
    ranked = sorted(counts, key=lambda phone: (-counts[phone], phone))
    lines = [
        f"  phones: {len(counts)} in {sum(counts.values()):,} labels: " + " ".join(f"{p} {counts[p]}" for p in ranked)
    ]
    rare = [phone for phone in ranked if counts[phone] < RARE]
    if rare:
        lines.append(f"  rare, fewer than {RARE} times, so hardly learned: {' '.join(rare)}")
    for group in spellings(counts):
        shown = " and ".join(f"{phone} ({counts[phone]}, {_code_points(phone)})" for phone in group)
        lines.append(f"  one phone in two spellings? {shown}: correct the labels if so")
    return lines


def _code_points(phone: str) -> str:
    return " ".join(f"U+{ord(letter):04X}" for letter in phone)


def _listed(what: str, reasons: list[str]) -> list[str]:
    if not reasons:
        return []
    lines = [f"  {what}: {len(reasons)}", *(f"    {reason}" for reason in reasons[:MOST])]
    return lines + ([f"    and {len(reasons) - MOST} more"] if len(reasons) > MOST else [])


def _some(names: list[str]) -> str:
    return ", ".join(names[:MOST]) + (f" and {len(names) - MOST} more" if len(names) > MOST else "")
