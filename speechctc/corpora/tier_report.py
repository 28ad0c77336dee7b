"""What the user should know about the tiers of a corpus: speakers, cuts, gaps, overlaps, encodings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from speechctc.config.corpus_config import CorpusConfig
from speechctc.corpora.corpus import Utterance
from speechctc.corpora.corpus_builder import CorpusBuilder
from speechctc.corpora.tier_utterances import Found, Labelled

LONG_GAP = 10.0  # seconds without a label that may be unlabelled speech


class FileNote(NamedTuple):
    """A recording with its labels, and the utterances found in it."""

    labelled: Labelled
    found: Found


def report_tiers(files: Sequence[FileNote], builder: CorpusBuilder, config: CorpusConfig) -> None:
    """Add notes and warnings on the files of a corpus."""
    utterances = [utterance for file in files for utterance in file.found.utterances]
    tiered = {u.speaker for file in files for u in file.found.utterances if u.speaker != file.labelled.speaker}
    builder.notes.append(_speakers(utterances, tiered))
    if said := [file.labelled.note for file in files if file.labelled.note]:
        more = f" (and {len(said) - 1} more files)" if len(said) > 1 else ""
        builder.warnings.append(said[0] + more)
    _report_cuts(files, builder, config)
    if config.max_gap is None or config.max_gap >= LONG_GAP:
        builder.warn_of(
            [_name(file) for file in files if file.found.gap >= LONG_GAP],
            f"recordings with {LONG_GAP:.0f} s or more without a label; if they contain speech, "
            "the model learns to ignore it",
        )
    if interrupted := sum(file.found.interrupted for file in files):
        builder.warnings.append(
            f"{interrupted} of {len(utterances)} utterances have labels of another speaker at the same time: the model "
            "hears both and is told to write one; a recording with a channel for each speaker has no such utterances"
        )
    long = {_name(file) for file in files for utterance in file.found.utterances if _is_long(utterance, file, config)}
    builder.warn_of(
        sorted(long),
        f"recordings with utterances longer than {config.max_seconds:.0f} s and no silence to cut them at; the longest "
        "decides on the memory that training needs",
    )


def _report_cuts(files: Sequence[FileNote], builder: CorpusBuilder, config: CorpusConfig) -> None:
    cut = [file for file in files if any(utterance.stretch for utterance in file.found.utterances)]
    if not cut:
        return
    parts = [u.stretch for file in cut for u in file.found.utterances if u.stretch is not None]
    used, all_seconds = sum(end - start for start, end in parts), sum(file.labelled.seconds for file in cut)
    at = "" if config.max_gap is None else f"where more than {config.max_gap:g} s have no label (corpus.max_gap), or "
    builder.notes.append(
        f"{len(cut)} recordings of {all_seconds / 60:.1f} minutes are cut into {len(parts)} utterances of "
        f"{used / 60:.1f} minutes, {at}at pauses of utterances longer than {config.max_seconds:g} s; the rest has no "
        "label"
    )


def _is_long(utterance: Utterance, file: FileNote, config: CorpusConfig) -> bool:
    start, end = utterance.stretch or (0.0, file.labelled.seconds)
    return end - start > config.max_seconds


def _name(file: FileNote) -> Path:
    return Path(file.labelled.audio.name)


def _speakers(utterances: Sequence[Utterance], tiered: set[str]) -> str:
    speakers = {utterance.speaker for utterance in utterances}
    if speakers == {""}:
        return "speakers: not known; put the recordings of each speaker into a folder, so that dev has new voices"
    outside = "; recordings outside of folders have none" if "" in speakers else ""
    named = len(speakers - {""})
    if tiered:
        return f"speakers: {named}, {len(tiered)} of them named by tiers ({', '.join(sorted(tiered)[:8])}){outside}"
    return f"speakers: {named}, one for each folder of recordings{outside}"
