"""Reads a corpus of recordings with label files of other programs beside them: of Audacity, HTK, xlabel, CTM, SRT."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from speechctc.audio import label_files, sound_file
from speechctc.audio.annotations import Interval, Tier
from speechctc.audio.folders import ENDINGS, LABEL_TRACKS
from speechctc.audio.recordings import Recording, Siblings, find_recordings, left_out
from speechctc.config.schema import CorpusConfig
from speechctc.core import written
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import Corpus
from speechctc.corpora.tiers import (
    NOT_CORRECTED,
    UNCORRECTED_FIX,
    LabelledRecording,
    TierReader,
    ids_below,
    split_of,
)
from speechctc.phones.nonspeech_labels import kind_of_phone

MAX_SECONDS, MAX_LETTERS = 0.3, 3.5  # the longest means of labels that are phones, not words


def read_label_tracks(root: Path, config: CorpusConfig, needed: str = "train") -> Corpus:
    """Read a folder of recordings with files of labels and times, each of which counts as one tier.

    Parameters
    ----------
    root : Path
    config : CorpusConfig
        Its keys of labels and of words are used, and ``dev_share``; with ``words_tier``, the labels are words.
    needed : str
        The split that must have a usable recording, if training has none.

    Raises
    ------
    InputError
        No recording can be used; the message gives the first reason.
    """
    reader, siblings, timed = TierReader(root, config), Siblings(), Siblings(_is_text)
    recordings = find_recordings([root])
    recordings.sort(key=lambda each: ENDINGS.index(each.path.suffix.lower()))  # of one name, the first is used
    name = config.tier if config.words_tier is None else config.words_tier
    used, without = dict[Path, str](), list[Path]()

    def read(recording: Recording, id: str) -> LabelledRecording:
        path = recording.path
        if (file := timed.find(path, LABEL_TRACKS) or siblings.find(path, LABEL_TRACKS)) is None:
            without.append(path.relative_to(root))
            raise InputError(f"{path}: no file of labels beside it", "add one, or leave the recording out")
        if used.setdefault(file, path.name) != path.name:
            raise InputError(f"{path}: {used[file]} has the same name, and is used", "rename one of them")
        if not config.uncorrected and not written.changed([file]):
            raise InputError(f"{file}: {NOT_CORRECTED}", UNCORRECTED_FIX)
        found = read_track((path, file))
        seconds = sound_file.info(path).seconds
        return LabelledRecording(id, path, file, _tiers(name, found), recording.speaker, seconds, 0.0, found.note)

    for recording, id in zip(recordings, ids_below([each.path for each in recordings], root), strict=True):
        reader.add(id, split_of(recording.name), partial(read, recording, id))
    reader.read()
    builder = reader.builder
    builder.warnings += left_out([root])
    builder.warn_of(sorted(without), "recordings left out, because no file of labels is beside them")
    builder.warn_of_formats(recording.path for recording in recordings)
    return reader.to_corpus(needed, f"{root}: no recording can be used", "add some")


def _tiers(name: str, found: label_files.LabelFile) -> list[Tier]:
    """Return the labels of a file as a tier, or as one for each speaker that it tells."""
    by_speaker: dict[str, list[Interval]] = {}
    for each, speaker in zip(found.entries, found.speakers or [""] * len(found.entries), strict=True):
        by_speaker.setdefault(speaker, []).append(each)
    return [
        Tier(name, all(each.start == each.end for each in entries), entries, speaker)
        for speaker, entries in (by_speaker or {"": []}).items()
    ]


def read_track(pair: tuple[Path, Path]) -> label_files.LabelFile:
    """Read the labels of a recording from the file beside it.

    Raises
    ------
    InputError
        One of them cannot be read, or the file is a text without times.
    """
    recording, file = pair
    found = label_files.read_label_file(file, recording, sound_file.info(recording))
    if found is None:
        raise InputError(f"{file}: a text without times", "put the texts into a table (corpus.kind=table)")
    return found


def _is_text(file: Path) -> bool:
    return not label_files.is_label_file(file)


def tracks_of(recordings: Iterable[Path]) -> dict[Path, Path]:
    """Return the file of labels with times beside each recording that has one, and that a person made or changed."""
    siblings = Siblings(_is_text)
    found = {path: file for path in recordings if (file := siblings.find(path, LABEL_TRACKS)) is not None}
    changed = {*written.changed([*found.values()])}
    return {path: file for path, file in found.items() if file in changed}


def are_phones(entries: Iterable[Interval]) -> bool:
    """Tell whether labels look like phones: without spaces, short and of short duration; pauses say nothing."""
    spans = [each for each in entries if not kind_of_phone(each.label)]
    if not spans or any(len(each.label.split()) > 1 for each in spans):
        return False
    seconds, letters = sum(each.end - each.start for each in spans), sum(len(each.label) for each in spans)
    return seconds <= MAX_SECONDS * len(spans) and letters <= MAX_LETTERS * len(spans)
