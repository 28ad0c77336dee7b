"""Reads a corpus of recordings with TextGrids, such as decoding writes for correction, or of ELAN's files (.eaf).

Folders named train, dev and test, in any letter case, are the splits. Without them all recordings are for training, and
a share of the speakers or of the utterances becomes dev. Intervals without a label are left out, and long ones separate
utterances. With ``corpus.words_tier`` the labels are words, and are read as phones.

A file of ELAN comes with the recording that it links to. The speaker is the participant of a tier, else the part of its
name for which a ``*`` in ``corpus.tier`` stands, else the folder.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple

from speechctc.audio import sound_file
from speechctc.audio.annotations import Interval, Tier, choose_tiers, in_order, read_tiers
from speechctc.audio.eaf import ENDING as EAF
from speechctc.audio.eaf import find_media, origin_of, read_eaf
from speechctc.audio.folders import ENDINGS, files_below, is_hidden
from speechctc.audio.recordings import Recording, Siblings, chosen_outside, find_recordings, left_out, speaker_of
from speechctc.config.schema import CorpusConfig
from speechctc.core import written
from speechctc.core.errors import InputError, counted, counted_alike, first_few, plural
from speechctc.corpora.corpus import SPLITS, Corpus, Rejected, Utterance, note_text
from speechctc.corpora.corpus_builder import CorpusBuilder
from speechctc.corpora.word_phones import MISSING, WordPhones
from speechctc.phones.marks import is_tone
from speechctc.phones.nonspeech import NonSpeech
from speechctc.phones.nonspeech_labels import is_pause

TEXTGRID = ".textgrid"
TAIL = 0.05  # seconds that labels may end after their recording
MIN_EDGE = 0.01  # seconds at either end of a recording that make no stretch of their own

PAD = 0.25  # longest silence that an utterance keeps before its first and after its last label, s
MIN_SILENCE = 0.05  # shortest silence in which a long utterance is cut, s

NOT_CORRECTED = "as speechctc decode wrote it, nobody has corrected it"
UNCORRECTED_FIX = "speechctc mark-checked names those that are right; corpus.uncorrected=true takes all as correct"
# What a warning of such files begins with.
UNCORRECTED = "left out, because they are as speechctc decode wrote them and nobody has corrected them"

MIN_GAP = 10.0  # seconds without a label that may be unlabelled speech


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
    recordings.sort(key=lambda each: ENDINGS.index(each.path.suffix.lower()))  # of one name, the first is used
    grids = {path for path in files_below(root) if path.suffix.lower() == TEXTGRID and path.is_file()}
    used, without = dict[Path, str](), list[Path]()

    def read(recording: Recording, id: str) -> LabelledRecording:
        path = recording.path
        grid = siblings.find(path, [TEXTGRID])
        if grid is None:
            without.append(path.relative_to(root))
            raise InputError(f"{path}: no TextGrid beside it", "add one, or leave the recording out")
        if used.setdefault(grid, path.name) != path.name:
            raise InputError(f"{path}: {used[grid]} has the same name, and is used", "rename one of them")
        read, seconds = read_tiers(grid), sound_file.info(path).seconds
        origin, domain = -read.begins_at(seconds), read.domain_note(grid, seconds)
        return LabelledRecording(id, path, grid, read.tiers, recording.speaker, seconds, origin, read.note, domain)

    for recording, id in zip(recordings, ids_below([each.path for each in recordings], root), strict=True):
        reader.add(id, split_of(recording.name), partial(read, recording, id))
    reader.read()
    builder, alone = reader.builder, [grid.relative_to(root) for grid in sorted(grids - used.keys())]
    builder.warnings += left_out([root])
    for name in alone:
        builder.rejected[split_of(name)].append(Rejected(str(name), f"{root / name}: no recording beside it"))
    builder.warn_of(sorted(without), "recordings left out, because no TextGrid is beside them")
    builder.warn_of(alone, "TextGrids without a recording beside them")
    builder.warn_of_formats(recording.path for recording in recordings)
    return reader.to_corpus(needed, f"{root}: no recording can be used", "add some")


def split_of(name: Path) -> str:
    """Return the split of a file by its path below the corpus: the folder named train, dev or test, or else train."""
    return next((part.lower() for part in name.parts[:-1] if part.lower() in SPLITS), "train")


def eaf_files(root: Path) -> list[Path]:
    """Return the files of ELAN in a folder at any depth, without hidden ones, in order."""
    found = (path for path in files_below(root) if path.suffix.lower() == EAF and path.is_file())
    return [path for path in found if not is_hidden(path, root)]


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
            audio = find_media(path, media, siblings)
        except InputError:
            without.append(path.relative_to(root))
            raise
        seconds, (origin, note) = sound_file.info(audio).seconds, origin_of(path, media, audio)
        return LabelledRecording(id, audio, path, tiers, speaker_of(path.relative_to(root)), seconds, origin, note)

    for path, id in zip(files, ids_below(files, root), strict=True):
        reader.add(id, split_of(path.relative_to(root)), partial(read, path, id))
    reader.read()
    reader.builder.warn_of(without, "files of ELAN left out, because their recordings are not there")
    reader.builder.notes += chosen_outside(root / "*.eaf", root, reader.recordings)
    reader.builder.warn_of_formats(reader.recordings)
    what, fix = f"{root}: no file of ELAN can be used", "there is no .eaf file in it"
    return reader.to_corpus(needed, what, fix)


def ids_below(files: Sequence[Path], root: Path) -> list[str]:
    """Return a distinct id for each file: its path below the corpus, without the ending."""
    ids: dict[str, None] = {}
    for path in files:
        name = path.relative_to(root)
        plain, *others = "-".join(name.with_suffix("").parts), name.with_suffix("").as_posix(), name.as_posix()
        ids[next(id for id in (plain, *others) if id not in ids)] = None  # a/b-c and a-b/c, a.wav and a.flac
    return list(ids)


class LabelledRecording(NamedTuple):
    """A recording with a file of labels.

    Attributes
    ----------
    id : str
        The id of its utterances, to which speakers and times are appended where there are several.
    audio, file : Path
        The recording, and the file of its labels.
    tiers : sequence of Tier
    speaker : str
        The speaker, where the tiers name none.
    seconds : float
        Duration of the recording.
    origin : float
        Time in the recording, in seconds, of 0 s in the file of labels.
    note, domain : str
        What the user should know about how the file was read, and of a length that is not the recording's, or ``""``.
    """

    id: str
    audio: Path
    file: Path
    tiers: Sequence[Tier]
    speaker: str
    seconds: float
    origin: float = 0.0
    note: str = ""
    domain: str = ""


class ChosenTier(NamedTuple):
    """A tier that is read.

    Attributes
    ----------
    tier : Tier
    star : str
        The speaker that its name tells, or ``""``.
    name : str
        What tells it from the others of the file.
    beside : Tier or None
        The tier of its words.
    """

    tier: Tier
    star: str
    name: str
    beside: Tier | None


class FoundUtterances(NamedTuple):
    """The utterances of a recording, and what its tiers are.

    Attributes
    ----------
    labelled : LabelledRecording
    utterances : list of Utterance
    gap : float
        The longest time without a label, in seconds.
    interrupted : int
        How many utterances another speaker interrupts.
    tiers : sequence of ChosenTier
        Those that were read.
    """

    labelled: LabelledRecording
    utterances: list[Utterance]
    gap: float
    interrupted: int
    tiers: Sequence[ChosenTier]


class TierReader:
    """Collects files with tiers, and then reads them: words are learned from all training files first.

    Parameters
    ----------
    root : Path
        The folder of the corpus.
    config : CorpusConfig

    Attributes
    ----------
    builder : CorpusBuilder
        Gets the utterances, and the files and tiers that cannot be used.

    Raises
    ------
    InputError
        There is no such folder; ``corpus.words_tier`` is set, and there is neither a dictionary nor a language to read
        words by.
    """

    def __init__(self, root: Path, config: CorpusConfig) -> None:
        if not root.is_dir():
            raise InputError(f"{root}: no such folder", "set corpus.root to the folder of the recordings")
        self.builder, self._config = CorpusBuilder.for_config(config), config
        self._files: list[tuple[LabelledRecording, str]] = []
        self._found: list[FoundUtterances] = []
        self._uncorrected: list[Path] = []
        self._edited: list[Path] = []
        self._words = WordPhones(config) if config.words_tier is not None else None
        self._tier = config.tier if config.words_tier is None else config.words_tier
        if self._words is not None and not self._words.possible:
            raise InputError("corpus.words_tier is set, and words are read by a dictionary or in a language", MISSING)

    @property
    def recordings(self) -> list[Path]:
        """The recordings of the files so far."""
        return [labelled.audio for labelled, _ in self._files]

    def add(self, id: str, split: str, read: Callable[[], LabelledRecording]) -> None:
        """Add a file of a split, or to what is rejected if `read` raises an `InputError`.

        So is one that is as `speechctc decode` wrote it, or whose labels the studio recognised, where
        ``corpus.uncorrected`` leaves such files out.
        """
        try:
            labelled = read()
            decoded = is_decoded(labelled.tiers)
            is_draft = written.is_draft(labelled.file) or (decoded and not written.changed([labelled.file]))
            if decoded or is_draft:
                (self._uncorrected if is_draft else self._edited).append(labelled.file)
                if is_draft and not self._config.uncorrected:
                    raise InputError(f"{labelled.file}: {NOT_CORRECTED}", UNCORRECTED_FIX)
            self._files.append((labelled, split))
        except InputError as error:
            self.builder.rejected[split].append(Rejected(id, str(error)))

    def read(self) -> None:
        """Read all files that were added."""
        if self._words is not None:
            train = [labelled for labelled, split in self._files if split == "train"]
            for labelled in train or [labelled for labelled, _ in self._files]:
                self._words.learn(self._texts(labelled, self._words))
        for labelled, split in self._files:
            try:
                self._found.append(self._utterances_of(labelled, split))
            except InputError as error:
                self.builder.rejected[split].append(Rejected(labelled.id, str(error)))

    def _texts(self, labelled: LabelledRecording, words: WordPhones) -> list[tuple[str, str]]:
        """Return the language and the words of each of the tiers of words; none where it cannot be read."""
        try:
            chosen = choose_tiers(labelled.tiers, labelled.file, self._tier)
            tiers = [in_order(tier, labelled.file) for tier, _ in chosen]
        except InputError:  # reported when the labels are read
            return []
        named = [(words.language_of(*self._names(labelled, tier)), tier) for tier in tiers]
        spoken = NonSpeech(self._config.ignore).spoken
        texts = [(name, " ".join(spoken(each.label) for each in tier.entries)) for name, tier in named]
        return [(language, text) for language, text in texts if words.can_read(language)]

    def _names(self, labelled: LabelledRecording, tier: Tier) -> Iterator[str]:
        """Yield the names that may tell the language, if ``corpus.language`` is a mapping: the tier's, the folders'."""
        if isinstance(self._config.language, dict):
            yield tier.name
            yield from reversed(labelled.file.parent.relative_to(self._config.root or labelled.file.parent).parts)

    def _utterances_of(self, labelled: LabelledRecording, split: str) -> FoundUtterances:
        """Add the utterances of a recording to a split, and what cannot be used to its rejected ones.

        Raises
        ------
        InputError
            No tier has the name, or none of several can be used.
        """
        chosen = _chosen(labelled, self._tier, self._config.words)
        if len(chosen) > 1:  # a speaker who says nothing here
            spoken = [e for e in chosen if e.tier.problem or any(entry.label for entry in e.tier.entries)]
            chosen = spoken or chosen[:1]
        found: list[tuple[ChosenTier, Tier, list[Utterance]]] = []
        errors: list[InputError] = []
        for each in chosen:
            id = "-".join([labelled.id, *("_".join(each.name.split()) for _ in chosen[1:2])])
            try:
                ordered = each._replace(tier=in_order(each.tier, labelled.file))
                utterances = list(self._of_tier(labelled._replace(id=id), ordered, split))
                found.append((each, ordered.tier, utterances))
            except InputError as error:
                errors.append(error)
                if len(chosen) > 1:
                    self.builder.rejected[split].append(Rejected(f"{labelled.id}-{each.tier.name}", str(error)))
        if not found:
            raise errors[0]
        notes = [f"{labelled.file}: {tier.note}" for _, tier, _ in found if tier.note]
        labelled = labelled._replace(note="; ".join(filter(None, [labelled.note, *notes])))
        every = [utterance for *_, utterances in found for utterance in utterances]
        self.builder.utterances[split] += every
        tiers = [tier for _, tier, _ in found]
        interrupted = sum(_interrupted(utterances, tiers, tier, labelled.origin) for _, tier, utterances in found)
        gap = max(_longest_gap(tier, labelled) for tier in tiers)
        return FoundUtterances(labelled, every, gap, interrupted, [each for each, *_ in found])

    def _of_tier(self, labelled: LabelledRecording, chosen: ChosenTier, split: str) -> Iterator[Utterance]:
        """Yield the utterances of a tier whose entries are in order; add those that cannot be used to the rejected."""
        tier, shift, words = chosen.tier, labelled.origin, self._words
        entries = [each._replace(start=each.start + shift, end=each.end + shift) for each in tier.entries]
        _check(labelled, tier, entries, self._config.segment == "labels" and words is None)
        spoken = [each for each in entries if self.builder.keeps(each.label)]
        if words is not None:
            texts = (each._replace(label=words.spoken(each.label)) for each in spoken)
            spoken = [each for each in texts if each.label]
        beside = _words(labelled, chosen.beside)
        language = self._language(labelled, tier, words) if words is not None else ""
        for piece in _pieces(spoken, labelled.seconds, tier, self._config):
            whole = piece.start <= MIN_EDGE and piece.end >= labelled.seconds - MIN_EDGE
            id = labelled.id if whole else f"{labelled.id}-{round(1000 * piece.start):07d}"
            mine = spoken[piece.first : piece.last + 1]
            text = [word.label for word in beside if piece.start <= (word.start + word.end) / 2 < piece.end]
            try:
                if words is not None:
                    text = " ".join(each.label for each in mine).split()
                    read = words.read(id, " ".join(text), labelled.audio, piece.end - piece.start, language, True)
                    phones, times = self.builder.labels(read)[0], None
                else:
                    phones, times = self._phones(labelled, tier, mine, piece)
            except InputError as error:
                self.builder.rejected[split].append(Rejected(id, f"{labelled.file}: {error}"))
                continue
            yield Utterance(
                id,
                labelled.audio,
                tuple(phones),
                tier.speaker or chosen.star or labelled.speaker,
                times,
                stretch=None if whole else (round(piece.start, 4), round(piece.end, 4)),
                words=tuple(text),
                traits=(("language", language),) if language and isinstance(self._config.language, dict) else (),
            )

    def _language(self, labelled: LabelledRecording, tier: Tier, words: WordPhones) -> str:
        """Return the language of the words of a tier."""
        language = words.language_of(*self._names(labelled, tier))
        if isinstance(self._config.language, dict) and language not in self._config.language.values():
            known = first_few(list(self._config.language), 20)
            what = f"neither the tier {tier.name!r} nor a folder is among those of corpus.language: {known}"
            raise InputError(f"{labelled.file}: {what}", "add one of them")
        return language

    def _phones(
        self, labelled: LabelledRecording, tier: Tier, mine: Sequence[Interval], piece: Piece
    ) -> tuple[list[str], tuple[tuple[float, float], ...] | None]:
        """Return the phones of an utterance, and their times where they have some."""
        if tones := _tones(labelled, tier, self._config):
            labels = (label for each in mine for label in (each.label, *tones.get(round(each.end, 3), "").split()))
            return self.builder.labels(labels)[0], None
        phones, kept = self.builder.labels(each.label for each in mine)
        if tier.points or not tier.timed or len(set(kept)) < len(kept):
            return phones, None
        return phones, tuple((_within(mine[k].start, piece), _within(mine[k].end, piece)) for k in kept)

    def to_corpus(self, needed: str, what: str, fix: str) -> Corpus:
        """Return the corpus, with notes and warnings on its tiers.

        Raises
        ------
        InputError
            There is no utterance in training or the `needed` split: `what`, and the first reason or else `fix`.
        """
        builder = self.builder
        if not builder.utterances["train"] and not builder.utterances[needed]:
            reasons = [each.reason for split in SPLITS for each in builder.rejected[split]]
            is_misnamed = any(": no tier " in reason for reason in reasons)  # the tier, and drafts say nothing of that
            reasons.sort(key=lambda reason: (NOT_CORRECTED in reason) == is_misnamed)
            raise InputError(what, reasons[0] if reasons else fix)
        left_out = f"{UNCORRECTED} ({UNCORRECTED_FIX})"
        drafts = [Path(file.name) for file in self._uncorrected]
        builder.warn_of(drafts, note_text("drafts") if self._config.uncorrected else left_out)
        builder.warn_of([Path(file.name) for file in written.unrecorded(self._edited)], note_text("no record"))
        report_tiers(self._found, builder, self._config)
        return builder.to_corpus(self._config.dev_share, not builder.utterances["dev"], self._words)


def _tones(labelled: LabelledRecording, tier: Tier, config: CorpusConfig) -> dict[float, str]:
    """Return by their ends the tones that speechctc wrote on a tier of their own; none if the phones have tones."""
    named = {each.name: each for each in labelled.tiers}
    if config.tone == "strip" or not {"tones", "confidence"} <= named.keys():
        return {}
    entries = named["tones"].entries
    are_tones = all(map(is_tone, " ".join(each.label for each in entries).split()))
    if not are_tones or any(is_tone(each.label) for each in tier.entries):
        return {}
    return {round(each.end + labelled.origin, 3): each.label for each in entries}


def _within(time: float, piece: Piece) -> float:
    return min(max(time, piece.start), piece.end) - piece.start


def _check(labelled: LabelledRecording, tier: Tier, entries: Sequence[Interval], are_phones: bool) -> None:
    """Check that a tier has labels, one phone each if they `are_phones`, that end with the recording."""
    file, seconds = labelled.file, labelled.seconds
    if not entries:
        raise InputError(f"{file}: no label in the tier {tier.name!r}", "label it; label a silence as a pause")
    spaced = [f"{each.label!r} at {each.start:.2f} s" for each in entries if each.label.split() != [each.label]]
    if spaced and are_phones:
        fix = "give each phone its own interval, or set corpus.segment=spaces or ipa to divide labels into phones"
        raise InputError(f"{file}: labels with a space in them: {first_few(spaced, 5)}", fix)
    if entries[-1].end > seconds + TAIL:
        what = f"labels up to {entries[-1].end:.2f} s for a recording of {seconds:.2f} s"
        raise InputError(f"{file}: {what}", "check that they belong together")


def _pieces(spoken: Sequence[Interval], seconds: float, tier: Tier, config: CorpusConfig) -> list[Piece]:
    if tier.points or not spoken:
        return [Piece(0, len(spoken) - 1, 0.0, seconds)]
    spans = [Span(max(each.start, 0.0), min(each.end, seconds), is_pause(each.label)) for each in spoken]
    several = config.segment != "labels" or config.words_tier is not None  # phones in a label: it may hold a pause
    return cut(spans, seconds, config.max_gap, config.max_seconds, several)


def _chosen(labelled: LabelledRecording, pattern: str, words: str) -> list[ChosenTier]:
    """Return the tiers that a name or a pattern names, each with the tier of words of its speaker.

    Several of one speaker, or of one name, have their words in the tiers of words of the same order.

    Raises
    ------
    InputError
        There is none.
    """
    found = choose_tiers(labelled.tiers, labelled.file, pattern)
    try:
        of_words = choose_tiers(labelled.tiers, labelled.file, words)
    except InputError:
        of_words = []
    counts = Counter((star or tier.name).strip() for tier, star in found)
    before, by_speaker = Counter[str](), Counter[str]()
    chosen = []
    for tier, star in found:
        name, speaker = (star or tier.name).strip(), star or tier.speaker
        before[name] += 1
        mine = [each for each, other in of_words if len(of_words) == 1 or (other or each.speaker) == speaker]
        beside = mine[0] if len(of_words) == 1 else next(iter(mine[by_speaker[speaker] :]), None)
        by_speaker[speaker] += 1
        chosen.append(ChosenTier(tier, star, f"{name}-{before[name]}" if counts[name] > 1 else name, beside))
    return chosen


def _words(labelled: LabelledRecording, words: Tier | None) -> list[Interval]:
    """Return the words of a tier, at the times of the recording."""
    shift = labelled.origin
    entries = [each for each in words.entries if each.label] if words is not None and not words.points else []
    return [Interval(each.start + shift, each.end + shift, each.label) for each in sorted(entries)]


def _longest_gap(tier: Tier, labelled: LabelledRecording) -> float:
    """Return the longest time without a label, in seconds; of points, 0."""
    if tier.points:
        return 0.0
    begin, last = -labelled.origin, labelled.seconds - labelled.origin
    starts, ends = [entry.start for entry in tier.entries], [entry.end for entry in tier.entries]
    return max(start - end for start, end in zip([*starts, last], [begin, *ends], strict=True))


def _interrupted(utterances: Sequence[Utterance], tiers: Sequence[Tier], tier: Tier, origin: float) -> int:
    """Return in how many utterances another tier has a label."""
    others = [other for other in tiers if other is not tier]
    return sum(any(_speaks(other, utterance, origin) for other in others) for utterance in utterances)


def _speaks(tier: Tier, utterance: Utterance, origin: float) -> bool:
    """Return whether a tier has a label, other than of a pause, during an utterance."""
    start, end = utterance.stretch or (0.0, float("inf"))
    first = bisect_right(tier.entries, start - origin, key=lambda each: each.end)
    during = takewhile(lambda each: each.start < end - origin, islice(tier.entries, first, None))
    return any(not is_pause(each.label) for each in during)


class Span(NamedTuple):
    """A labelled time in seconds, and whether the label is that of a pause."""

    start: float
    end: float
    pause: bool = False


class Piece(NamedTuple):
    """The spans ``first`` to ``last``, both included, and from when to when the recording is read for them, s."""

    first: int
    last: int
    start: float
    end: float


def cut(
    spans: Sequence[Span], seconds: float, max_gap: float | None, max_seconds: float, anywhere: bool = False
) -> list[Piece]:
    """Return the utterances of a recording.

    Parameters
    ----------
    spans : sequence of Span
        In order, at least one.
    seconds : float
        Duration of the recording.
    max_gap : float or None
        Time without a label, in seconds, above which it separates utterances; None: it never does.
    max_seconds : float
        Longer utterances are cut again at their longest silence, a gap or a labelled pause, as long as they have one.
        A pause is cut in its middle, and its label belongs to both sides.
    anywhere : bool
        They may also be cut between two labels that touch.
    """
    limit = float("inf") if max_gap is None else max_gap
    lead, tail = spans[0].start, seconds - spans[-1].end
    ends = [*(k for k in range(len(spans) - 1) if _gap(spans, k) > limit), len(spans) - 1]
    pieces, first = [], 0
    for last in ends:
        before = (lead if lead > limit else 0.0) if first == 0 else _gap(spans, first - 1)
        after = (tail if tail > limit else 0.0) if last == len(spans) - 1 else _gap(spans, last)
        start = spans[first].start - min(before / 2, PAD) if before or first else 0.0
        end = spans[last].end + min(after / 2, PAD) if after or last < len(spans) - 1 else seconds
        pieces += _shortened(Piece(first, last, start, end), spans, max_seconds, 0.0 if anywhere else MIN_SILENCE)
        first = last + 1
    return pieces


def _gap(spans: Sequence[Span], k: int) -> float:
    return spans[k + 1].start - spans[k].end


def _shortened(piece: Piece, spans: Sequence[Span], most: float, least: float) -> list[Piece]:
    """Cut a piece at its longest silence, and its halves again, until none is longer than `most` seconds."""
    done, waiting = [], [piece]
    while waiting:
        first, last, start, end = now = waiting.pop()
        inside = range(first, last)
        silences = [(_gap(spans, k), spans[k].end, k, k + 1) for k in inside]
        silences += [
            (spans[k].end - spans[k].start, spans[k].start, k, k) for k in inside if spans[k].pause and k > first
        ]
        longest = max(silences, default=(-1.0, 0.0, 0, 0))
        if end - start <= most or longest[0] < least:
            done.append(now)
            continue
        length, begin, left, right = longest
        middle = begin + length / 2
        waiting += [Piece(right, last, middle, end), Piece(first, left, start, middle)]
    return done


def without_drafts(rejected: Iterable[Rejected]) -> list[Rejected]:
    """Return what was rejected without drafts that nobody corrected, which one warning counts."""
    return [each for each in rejected if NOT_CORRECTED not in each.reason]


def is_decoded(tiers: Sequence[Tier]) -> bool:
    """Return whether tiers are those of `speechctc decode`; `align` and `score-phones` add tiers."""
    names = {tier.name for tier in tiers}
    return "confidence" in names and not {"log probability", "score"} & names


def report_tiers(files: Sequence[FoundUtterances], builder: CorpusBuilder, config: CorpusConfig) -> None:
    """Add notes and warnings on the files of a corpus."""
    utterances = [utterance for file in files for utterance in file.utterances]
    tiered = {u.speaker for file in files for u in file.utterances if u.speaker != file.labelled.speaker}
    builder.notes.append(_speakers(utterances, tiered))
    builder.notes.append(_tiers(files, config))
    _report_odd(files, builder)
    if odd := [file.labelled.note for file in files if file.labelled.note]:
        builder.warnings.append(odd[0] + (f" (and {len(odd) - 1} more files)" if len(odd) > 1 else ""))
    domains = [(file.labelled.file, file.labelled.domain) for file in files if file.labelled.domain]
    builder.warnings += counted_alike(domains, with_numbers=True)
    _report_cuts(files, builder, config)
    if config.max_gap is None or config.max_gap >= MIN_GAP:
        quiet = [Path(file.labelled.audio.name) for file in files if file.gap >= MIN_GAP]
        builder.warn_of(quiet, note_text("long gaps", seconds=MIN_GAP))
    if interrupted := sum(file.interrupted for file in files):
        builder.warnings.append(note_text("interrupted", count=interrupted, utterances=len(utterances)))
    lengths = [(each.stretch or (0.0, file.labelled.seconds), each.audio) for file in files for each in file.utterances]
    long = {Path(audio.name) for (start, end), audio in lengths if end - start > config.max_seconds}
    builder.warn_of(sorted(long), note_text("long", seconds=config.max_seconds))


def _report_odd(files: Sequence[FoundUtterances], builder: CorpusBuilder) -> None:
    """Add warnings on tiers of one name and on labels of no duration."""
    names = {file.labelled.file: [(each.tier.name.strip(), each.tier.speaker) for each in file.tiers] for file in files}
    builder.warn_of(
        [Path(path.name) for path, each in names.items() if len({*each}) < len(each)], note_text("same name")
    )
    entries = (entry for file in files for each in file.tiers if not each.tier.points for entry in each.tier.entries)
    if empty := Counter(entry.label for entry in entries if entry.label and entry.end <= entry.start):
        builder.warnings.append(note_text("no duration", labels=counted(empty, 5)))


def _tiers(files: Sequence[FoundUtterances], config: CorpusConfig) -> str:
    """Return how many tiers the files have, how many of them were read as what, and the names of the others."""
    labels = "phones" if config.words_tier is None else "words"
    used, others = Counter[str](), Counter[str]()
    for file in files:
        kinds = {id(each.beside): "words beside them" for each in file.tiers} | {
            id(each.tier): labels for each in file.tiers
        }
        for tier in file.labelled.tiers:
            if id(tier) in kinds:
                used[kinds[id(tier)]] += 1
            else:
                others[repr(tier.name) if any(each.label for each in tier.entries) else "without a label"] += 1
    read = ", ".join(f"{count} of {kind}" for kind, count in used.items())
    left = f"; {others.total()} not used: {counted(others)}" if others else ""
    return note_text("tiers", met=used.total() + others.total(), files=plural(len(files), "file"), read=read, left=left)


def _report_cuts(files: Sequence[FoundUtterances], builder: CorpusBuilder, config: CorpusConfig) -> None:
    cut = [file for file in files if any(utterance.stretch for utterance in file.utterances)]
    if not cut:
        return
    parts = [u.stretch for file in cut for u in file.utterances if u.stretch is not None]
    gaps = "" if config.max_gap is None else note_text("gaps", gap=config.max_gap)
    minutes = {"all": sum(file.labelled.seconds for file in cut) / 60, "used": sum(b - a for a, b in parts) / 60}
    counts = {"recordings": len(cut), "utterances": len(parts)}
    builder.notes.append(note_text("cut", **counts, **minutes, gaps=gaps, longest=config.max_seconds))


def _speakers(utterances: Sequence[Utterance], tiered: set[str]) -> str:
    speakers = {utterance.speaker for utterance in utterances}
    if speakers == {""}:
        return note_text("no speakers")
    outside = "; recordings outside of folders have none" if "" in speakers else ""
    named = len(speakers - {""})
    if tiered:
        names = ", ".join(sorted(tiered)[:8])
        return note_text("speakers by tiers", named=named, tiered=len(tiered), names=names, outside=outside)
    return note_text("speakers", named=named, outside=outside)
