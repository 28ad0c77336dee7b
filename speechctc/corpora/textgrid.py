"""Reads a corpus of recordings with TextGrids, such as decoding writes for correction, or of ELAN's files (.eaf).

Folders named train, dev and test, in any letter case, are the splits. Without them all recordings are for training, and
a share of the speakers or of the utterances becomes dev. Intervals without a label are left out, and long ones separate
utterances. With ``corpus.words_tier`` the labels are words, and are read as phones.

A file of ELAN comes with the recording that it links to. The speaker is the participant of a tier, else the part of its
name for which a ``*`` in ``corpus.tier`` stands, else the folder.

Where no tier is named, the one that holds the phones is chosen by its labels and its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from speechctc.audio import sound_file
from speechctc.audio.annotations import Interval, read_tiers, tier_key
from speechctc.audio.eaf import ENDING as EAF
from speechctc.audio.eaf import find_media, read_eaf
from speechctc.audio.recordings import (
    ENDINGS,
    Recording,
    Siblings,
    chosen_outside,
    files_below,
    find_recordings,
    left_out,
    speaker_of,
)
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import SPLITS, Corpus, Rejected
from speechctc.corpora.tier_utterances import LabelledRecording, TierReader

if TYPE_CHECKING:
    from speechctc.config.schema import CorpusConfig

ENDING = ".textgrid"


def read_textgrids(root: Path, config: CorpusConfig, needed: str = "train") -> Corpus:
    """Read a folder of recordings with TextGrids.

    Parameters
    ----------
    root : Path
    config : CorpusConfig
        Its keys of tiers, of labels and of words are used, and ``dev_share``.
    needed : str
        The split that must have a usable recording, if training has none.

    Raises
    ------
    InputError
        No recording can be used; the message gives the first reason.
    """
    reader, siblings = TierReader(root, config), Siblings()
    recordings = find_recordings([root])
    reader.builder.warnings += left_out([root])
    grids = {path for path in files_below(root) if path.suffix.lower() == ENDING and path.is_file()}
    without = list[Path]()

    def read(recording: Recording, id: str, namesake: Path) -> LabelledRecording:
        path = recording.path
        grid = siblings.find(path, [ENDING])
        if grid is None:
            without.append(path.relative_to(root))
            raise InputError(f"{path}: no TextGrid beside it", "add one, or leave the recording out")
        grids.discard(grid)
        if namesake != path:
            raise InputError(f"{path}: {namesake.name} has the same name, and is used", "rename one of them")
        tiers, note = read_tiers(grid)
        return LabelledRecording(id, path, grid, tiers, recording.speaker, sound_file.info(path).seconds, 0.0, note)

    for recording, id, namesake in _named(recordings, root):
        reader.add(id, split_of(recording.name), partial(read, recording, id, namesake))
    reader.read()
    builder, alone = reader.builder, [grid.relative_to(root) for grid in sorted(grids)]
    for name in alone:
        builder.rejected[split_of(name)].append(Rejected(str(name), f"{root / name}: no recording beside it"))
    builder.warn_of(without, "recordings left out, because no TextGrid is beside them")
    builder.warn_of(alone, "TextGrids without a recording beside them")
    builder.warn_of_formats(recording.path for recording in recordings)
    return reader.to_corpus(needed, f"{root}: no recording can be used", "add some")


def _named(recordings: Sequence[Recording], root: Path) -> list[tuple[Recording, str, Path]]:
    """Return each recording with its id, and the one that is used of those of its name."""
    first: dict[Path, Path] = {}
    for recording in sorted(recordings, key=lambda each: ENDINGS.index(each.path.suffix.lower())):
        first.setdefault(recording.path.with_suffix(""), recording.path)
    used = [path for path in (each.path for each in recordings) if first[path.with_suffix("")] == path]
    ids = dict(zip(used, _ids(used, root), strict=True))
    return [
        (each, ids.get(each.path) or "-".join(each.path.relative_to(root).parts), first[each.path.with_suffix("")])
        for each in recordings
    ]


def split_of(name: Path) -> str:
    """Return the split of a file by its path below the corpus: the folder named train, dev or test, or else train."""
    return next((part.lower() for part in name.parts[:-1] if part.lower() in SPLITS), "train")


def eaf_files(root: Path) -> list[Path]:
    """Return the files of ELAN in a folder at any depth, without hidden ones, in order."""
    found = (path for path in files_below(root) if path.suffix.lower() == EAF and path.is_file())
    return [path for path in found if not any(part.startswith(".") for part in path.relative_to(root).parts)]


def read_elan(root: Path, config: CorpusConfig, needed: str = "train") -> Corpus:
    """Read a folder of ELAN's files; `needed` is the split that must have a usable one, if training has none.

    Raises
    ------
    InputError
        No file can be used; the message gives the first reason.
    """
    reader, siblings = TierReader(root, config), Siblings()
    files, without = eaf_files(root), list[Path]()

    def read(path: Path, id: str) -> LabelledRecording:
        tiers, media = read_eaf(path)
        try:
            audio, origin = find_media(path, media, siblings)
        except InputError:
            without.append(path.relative_to(root))
            raise
        seconds = sound_file.info(audio).seconds
        return LabelledRecording(id, audio, path, tiers, speaker_of(path.relative_to(root)), seconds, origin)

    for path, id in zip(files, _ids(files, root), strict=True):
        reader.add(id, split_of(path.relative_to(root)), partial(read, path, id))
    reader.read()
    reader.builder.warn_of(without, "files of ELAN left out, because their recordings are not there")
    reader.builder.notes += chosen_outside(root / "*.eaf", root, reader.recordings)
    reader.builder.warn_of_formats(reader.recordings)
    what, fix = f"{root}: no file of ELAN can be used", "there is no .eaf file in it"
    return reader.to_corpus(needed, what, fix)


def _ids(files: Sequence[Path], root: Path) -> list[str]:
    """Return a distinct id for each file: its path below the corpus, without the ending."""
    ids: dict[str, None] = {}
    for path in files:
        name = path.relative_to(root).with_suffix("")
        plain = "-".join(name.parts)
        ids[plain if plain not in ids else name.as_posix()] = None  # a/b-c and a-b/c
    return list(ids)


MAX_TEXTGRIDS = 60  # TextGrids that are read
_NAMES = re.compile(r"phon|phn|segm|^mau$|^seg$", re.IGNORECASE)
_NUMBER = re.compile(r"[\d.,%+-]+")
MAX_MEAN_DURATION = 0.3  # longest mean duration of the labels of a tier of phones, s


@dataclass
class TierLabels:
    """The labels of all tiers of one name in several files.

    Attributes
    ----------
    name : str
    paths : set of Path
        Files with such a tier.
    labels : list of str
    seconds : float
        Duration of all labelled intervals.
    """

    name: str
    paths: set[Path] = field(default_factory=set)
    labels: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, path: Path, entries: Iterable[Interval]) -> None:
        """Add the labelled intervals of one file."""
        labelled = [entry for entry in entries if entry.label]
        self.paths.add(path)
        self.labels += [entry.label for entry in labelled]
        self.seconds += sum(entry.end - entry.start for entry in labelled)

    @property
    def mean_seconds(self) -> float:
        """Return the mean duration of a label, s."""
        return self.seconds / max(len(self.labels), 1)

    @property
    def may_be_phones(self) -> bool:
        """Return whether the labels look like phones: without spaces, short, of short duration, and not numbers."""
        count = len(self.labels)
        if not count:
            return False
        words = sum(label.split() != [label] for label in self.labels)
        numbers = sum(_NUMBER.fullmatch(label) is not None for label in self.labels)
        letters = sum(map(len, self.labels)) / count
        return (
            words <= 0.02 * count
            and numbers < 0.5 * count
            and letters <= 3.5
            and self.mean_seconds <= MAX_MEAN_DURATION
        )

    def to_text(self) -> str:
        """Return a short description."""
        examples = " ".join(self.labels[:4])[:30]
        return f"{self.name!r} ({len(self.labels)} labels, mean duration {self.mean_seconds:.2f} s: {examples} ...)"


def phone_tier(grids: Sequence[Path]) -> tuple[str, str]:
    """Choose the tier whose labels look like phones.

    Parameters
    ----------
    grids : sequence of Path
        TextGrids or files of ELAN, of which at most about 60 are read, spread over all.

    Returns
    -------
    name : str
        A name, or a pattern where the tiers of several speakers look like phones, or names in place of each other
        where files differ; empty if no tier does.
    note : str
        The tiers found and the one chosen, for the user.
    """
    tiers: dict[str, TierLabels] = {}
    problem = ""
    for path in grids[:: max(len(grids) // MAX_TEXTGRIDS, 1)]:
        try:
            tiers_of = read_eaf(path).tiers if path.suffix.lower() == EAF else read_tiers(path).tiers
            found = {tier_key(tier.name): tier for tier in reversed(tiers_of) if not tier.points}
        except InputError as error:
            problem = problem or f"; {error}"
            continue
        for key in reversed(found):
            tiers.setdefault(key, TierLabels(found[key].name)).add(path, found[key].entries)
    kind = "files of ELAN" if grids and grids[0].suffix.lower() == EAF else "TextGrids"
    if not tiers:
        return "", f"not used: {len(grids)} {kind} without a tier of intervals{problem}"
    described = "; ".join(tier.to_text() for tier in tiers.values())
    fit = [tier for tier in tiers.values() if tier.may_be_phones]
    if not fit:
        return "", f"not used: {len(grids)} {kind}, none of whose tiers looks like phones: {described}"
    best = min(fit, key=lambda tier: (_NAMES.search(tier.name) is None, -len(tier.paths), tier.mean_seconds))
    name = _pattern([tier.name for tier in fit], best.name)
    if name == best.name:
        apart = [tier for tier in fit if tier is not best and best.paths.isdisjoint(tier.paths)]
        drafts = tiers.get(tier_key("confidence"))
        if apart and drafts and best.paths <= drafts.paths:  # decode's name is not what people call their own tier
            own = [min(apart, key=lambda tier: (_NAMES.search(tier.name) is None, tier.mean_seconds))]
        else:
            own = [tier for tier in apart if _NAMES.search(tier.name)]
        name = "|".join([name, *(tier.name for tier in own)])
    return name, f"tiers of the {kind}: {described}; {name!r} is taken for the phones (corpus.tier)"


def _pattern(names: Sequence[str], best: str) -> str:
    """Return a pattern for the tiers of several speakers, such as ``*-phones``; the best name where it is the only one.

    What `best` has before or after a word like *phones* and a sign is taken for a speaker.
    """
    for pattern, place in ((r"(.+)([ \-_.:/@]\w+)", 2), (r"(\w+[ \-_.:/@])(.+)", 1)):
        match = re.fullmatch(pattern, best)
        if match is None or _NAMES.search(match[place]) is None:
            continue
        like = [name for name in names if (name.endswith(match[2]) if place == 2 else name.startswith(match[1]))]
        if len(like) > 1:
            return f"*{match[2]}" if place == 2 else f"{match[1]}*"
    return best
