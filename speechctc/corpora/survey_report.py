"""The report of a survey, in words for the user of `speechctc start`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from speechctc.core.errors import some
from speechctc.corpora.survey import Survey

RARE = 5  # a phone with fewer occurrences is hardly learned
MOST = 8  # entries of a list

_LABELLED = {
    "table": "recordings listed in tables",
    "textgrid": "recordings with TextGrids",
    "elan": "recordings with files of ELAN",
    "timit": "recordings with .PHN files, in the layout of TIMIT",
}
_SPEAKERS = {"table": "from the column speaker"}


def describe(survey: Survey) -> str:
    """Return what a folder contains, what cannot be used and why, and what may be a mistake."""
    corpus, sound = survey.corpus, survey.sound
    lines = [f"{survey.folder}: {_LABELLED[survey.config.kind] if survey.config else 'recordings without labels'}"]
    rates = ", ".join(f"{rate:,} Hz ({count})" for rate, count in sound.rates.most_common())
    formats = ", ".join(f"{form} ({count})" for form, count in sound.formats.most_common())
    facts = [f"{sound.readable} recordings, {sound.seconds / 60:.1f} minutes", rates or "none can be read", formats]
    lines.append("  " + "; ".join(filter(None, facts)))
    if survey.config and survey.unlabelled:
        lines.append(f"  {survey.unlabelled} more recordings have no labels; a trained model can decode them")
    if survey.refused:
        lines.append(f"  {survey.refused} more recordings have labels that are not used; the reasons are below")
    if sound.long:
        longer = f"  {sound.long} recordings are longer than a minute; "
        if survey.config is None or survey.config.kind in ("textgrid", "elan"):
            lines.append(longer + "they are cut into utterances where the labels leave or name pauses")
        else:
            lines.append(longer + "cut them at pauses: each is one utterance")
    if corpus is not None:
        lines.append(f"  speakers: {_speakers(survey)}")
        lines += _phones(Counter(phone for utterance in survey.utterances for phone in utterance.phones))
        if corpus.dev_from_train:
            lines += [f"  {note}" for note in corpus.notes if note.startswith("dev: ")]
        else:
            splits = ", ".join(f"{name} {len(split)}" for name, split in corpus.splits.items() if split)
            lines.append(f"  utterances: {splits}")
    lines += [f"  {note}" for note in survey.notes]
    if corpus is None:
        return "\n".join(lines + _listed("cannot be read", sound.unreadable))
    lines += [f"  warning: {warning}" for warning in corpus.warnings]
    refused = [f"{entry.id}: {entry.reason}" for split in corpus.rejected.values() for entry in split]
    return "\n".join(lines + _listed("cannot be used", [*refused, *sound.unreadable]))


def _speakers(survey: Survey) -> str:
    kind = survey.config.kind if survey.config else ""
    names = sorted({utterance.speaker for utterance in survey.utterances})
    if names == [""]:
        fix = "fill in the column speaker" if kind == "table" else "put the recordings of each speaker into a folder"
        return f"not known, so the voices of dev are also in training and the PER on dev is too low; {fix}"
    without = sum(not utterance.speaker for utterance in survey.utterances)
    missing = f"; {without} utterances have no speaker" if without else ""
    named = [name for name in names if name]
    tiered = survey.corpus is not None and any("named by tiers" in note for note in survey.corpus.notes)
    how = "named by tiers" if tiered else _SPEAKERS.get(kind, "one folder each")
    return f"{len(named)} ({how}): {some(named, MOST)}{missing}"


def _phones(counts: Mapping[str, int]) -> list[str]:
    ranked = sorted(counts, key=lambda phone: (-counts[phone], phone))
    each = " ".join(f"{phone} {counts[phone]}" for phone in ranked)
    lines = [f"  phones: {len(counts)} different ones in {sum(counts.values()):,} labels: {each}"]
    if rare := [phone for phone in ranked if counts[phone] < RARE]:
        lines.append(f"  rare phones, fewer than {RARE} times each, which are hardly learned: {' '.join(rare)}")
    return lines


def _listed(what: str, reasons: Sequence[str]) -> list[str]:
    if not reasons:
        return []
    lines = [f"  {what}: {len(reasons)}", *(f"    {reason}" for reason in reasons[:MOST])]
    return lines + ([f"    and {len(reasons) - MOST} more"] if len(reasons) > MOST else [])
