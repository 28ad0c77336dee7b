"""Reads a corpus of recordings with TextGrids, such as decoding writes for correction.

Folders named train, dev and test, in any letter case, are the splits. Without them all recordings are for training, and
a share of the speakers (one folder each) or of the recordings becomes dev. Intervals without a label are left out.
With ``corpus.words_tier`` the labels are words, and are read as phones (see `speechctc.corpora.word_phones`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from speechctc.audio import sound_file
from speechctc.audio.recordings import ENDINGS, Recording, find_recordings, sibling_file
from speechctc.audio.textgrids import Entry, choose_tier, read_tiers
from speechctc.corpora.corpus import SPLITS, Corpus, Rejected, Utterance
from speechctc.corpora.corpus_builder import PAUSES, UNCLEAR, CorpusBuilder
from speechctc.corpora.word_phones import MISSING, WordPhones
from speechctc.errors import InputError
from speechctc.listing import some

if TYPE_CHECKING:
    from speechctc.config.corpus_config import CorpusConfig

ENDING = ".textgrid"
TAIL = 0.05  # seconds that labels may end after their recording
LONG_GAP = 10.0  # seconds without a label that may be unlabelled speech
LONG = 60.0  # duration in seconds from which an utterance needs much memory in training


class Read(NamedTuple):
    """An utterance, with the duration and the longest gap of its recording in seconds, and a note on its TextGrid."""

    utterance: Utterance
    seconds: float
    gap: float
    note: str


def read_textgrids(root: Path, config: CorpusConfig) -> Corpus:
    """Read a folder of recordings with TextGrids.

    Parameters
    ----------
    root : Path
    config : CorpusConfig
        Its ``tier``, ``phones``, ``ignore`` and ``dev_share`` are used.

    Raises
    ------
    InputError
        No recording can be used for training; the message gives the first reason.
    """
    if not root.is_dir():
        raise InputError(f"{root}: no such folder", "set corpus.root to the folder of recordings and TextGrids")
    builder = CorpusBuilder.for_config(config)
    recordings, grids = find_recordings([root]), _grids(root)
    words = _word_phones(config, [each for each in recordings if _split(each.name) == "train"])
    all_read, without = [], []
    for recording, id, twin in _named(recordings, root):
        split = _split(recording.name)
        try:
            grid = sibling_file(recording.path, [ENDING])
            if grid is None:
                without.append(recording.path.relative_to(root))
                raise InputError(f"{recording.path}: no TextGrid beside it", "add one, or leave the recording out")
            grids.discard(grid)
            if twin is not None:
                raise InputError(f"{recording.path}: {twin.name} has the same name, and is used", "rename one of them")
            all_read.append(_read(id, recording, grid, builder, config, words))
            builder.utterances[split].append(all_read[-1].utterance)
        except InputError as error:
            builder.rejected[split].append(Rejected(id, str(error)))
    for grid in sorted(grids):
        name = grid.relative_to(root)
        builder.rejected[_split(name)].append(Rejected(str(name), f"{grid}: no recording beside it"))
    builder.warn_of(without, "recordings left out, because no TextGrid is beside them")
    builder.warn_of([grid.relative_to(root) for grid in sorted(grids)], "TextGrids without a recording beside them")
    builder.warn_of_formats(recording.path for recording in recordings)
    if not builder.utterances["train"]:
        reasons = [each.reason for split in SPLITS for each in builder.rejected[split]]
        raise InputError(f"{root}: no recording can be used for training", reasons[0] if reasons else "add some")
    builder.notes.append(_speakers([read.utterance for read in all_read]))
    _warn(all_read, builder)
    if words is None:
        return builder.to_corpus(config.dev_share, without_dev=not builder.utterances["dev"])
    builder.notes += words.notes()
    builder.warnings += words.warnings()
    builder.from_words = words.words
    return words.add_to(builder.to_corpus(config.dev_share, without_dev=not builder.utterances["dev"]))


def _word_phones(config: CorpusConfig, recordings: Sequence[Recording]) -> WordPhones | None:
    """Return the reader of words, which has read those of the training recordings; None for a tier of phones."""
    if config.words_tier is None:
        return None
    words = WordPhones(config)
    if not words.possible:
        raise InputError("corpus.words_tier is set, and words are read by a dictionary or in a language", MISSING)
    texts = []
    for recording in recordings:
        try:
            grid = sibling_file(recording.path, [ENDING])
            if grid is not None:
                texts.append(_text(choose_tier(read_tiers(grid), grid, config.words_tier).entries))
        except InputError:  # reported when the labels are read
            continue
    words.learn(texts)
    return words


def _text(entries: Sequence[Entry]) -> str:
    """Return the words of a tier, without labels of pauses and noises."""
    return " ".join(entry.label for entry in entries if entry.label.lower() not in PAUSES | UNCLEAR)


def _grids(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if path.suffix.lower() == ENDING and path.is_file()}


def _named(recordings: Sequence[Recording], root: Path) -> list[tuple[Recording, str, Path | None]]:
    """Return each recording with its id, and the recording of the same name that is used in place of it, or None."""
    first: dict[Path, Path] = {}
    for recording in sorted(recordings, key=lambda each: ENDINGS.index(each.path.suffix.lower())):
        first.setdefault(recording.path.with_suffix(""), recording.path)
    ids: set[str] = set()
    named: list[tuple[Recording, str, Path | None]] = []
    for recording in recordings:
        twin = first[recording.path.with_suffix("")]
        name = recording.path.with_suffix("").relative_to(root)
        id = "-".join(name.parts)
        if twin != recording.path:
            named.append((recording, id + recording.path.suffix, twin))
            continue
        if id in ids:  # a/b-c and a-b/c
            id = name.as_posix()
        ids.add(id)
        named.append((recording, id, None))
    return named


def _split(name: Path) -> str:
    return next((part.lower() for part in name.parts[:-1] if part.lower() in SPLITS), "train")


def _read(
    id: str, recording: Recording, grid: Path, builder: CorpusBuilder, config: CorpusConfig, words: WordPhones | None
) -> Read:
    """Read the labels of a recording."""
    textgrid = read_tiers(grid)
    tier = choose_tier(textgrid, grid, config.words_tier or config.tier)
    entries = tier.entries
    if not entries:
        raise InputError(f"{grid}: no label in the tier {tier.name!r}", "label it; label a silence as a pause")
    spaced = [f"{each.label!r} at {each.start:.2f} s" for each in entries if each.label.split() != [each.label]]
    if spaced and words is None:
        raise InputError(f"{grid}: labels with a space in them: {some(spaced, 5)}", "give each phone its own interval")
    seconds = sound_file.info(recording.path).seconds
    if entries[-1].end > seconds + TAIL:
        what = f"labels up to {entries[-1].end:.2f} s for a recording of {seconds:.2f} s"
        raise InputError(f"{grid}: {what}", "check that they belong together")
    phones = words.read(id, _text(entries), recording.path) if words else [entry.label for entry in entries]
    labels, kept = builder.labels(phones)
    folders = [part for part in recording.name.parts[:-1] if part.lower() not in SPLITS]
    times = None
    if not tier.points and words is None:
        times = tuple((max(entries[k].start, 0.0), min(entries[k].end, seconds)) for k in kept)
    utterance = Utterance(id, recording.path, tuple(labels), "/".join(folders), times)
    return Read(utterance, seconds, 0.0 if tier.points else _longest_gap(entries, seconds), textgrid.note)


def _longest_gap(entries: Sequence[Entry], seconds: float) -> float:
    """Return the longest time without a label, in seconds."""
    starts, ends = [entry.start for entry in entries], [entry.end for entry in entries]
    return max(start - end for start, end in zip([*starts, seconds], [0.0, *ends], strict=True))


def _speakers(utterances: Sequence[Utterance]) -> str:
    speakers = {utterance.speaker for utterance in utterances}
    if speakers == {""}:
        return "speakers: not known; put the recordings of each speaker into a folder, so that dev has new voices"
    outside = "; recordings outside of folders have none" if "" in speakers else ""
    return f"speakers: {len(speakers - {''})}, one for each folder of recordings{outside}"


def _warn(all_read: Sequence[Read], builder: CorpusBuilder) -> None:
    """Add warnings of possible mistakes: encodings, long gaps without labels, long recordings."""
    notes = [read.note for read in all_read if read.note]
    if notes:
        more = f" (and {len(notes) - 1} more TextGrids)" if len(notes) > 1 else ""
        builder.warnings.append(notes[0] + more)
    gaps = [Path(read.utterance.audio.name) for read in all_read if read.gap >= LONG_GAP]
    builder.warn_of(
        gaps,
        f"recordings with {LONG_GAP:.0f} s or more without a label; if they contain speech, "
        "the model learns to ignore it",
    )
    long = [Path(read.utterance.audio.name) for read in all_read if read.seconds >= LONG]
    builder.warn_of(
        long,
        f"recordings longer than {LONG:.0f} s; cut them at pauses, because each is one utterance, and the longest "
        "decides on the memory that training needs",
    )
