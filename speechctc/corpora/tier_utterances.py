"""Turns the tiers of TextGrids and files of ELAN into utterances, read as phones or words; tells what was cut."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple

from speechctc.audio.annotations import Interval, Tier, choose_tiers, in_order
from speechctc.config.schema import CorpusConfig
from speechctc.core import written
from speechctc.core.errors import InputError, first_few
from speechctc.corpora.corpus import SPLITS, Corpus, Rejected, Utterance, note_text
from speechctc.corpora.corpus_builder import PAUSES, UNCLEAR, CorpusBuilder
from speechctc.corpora.word_phones import MISSING, WordPhones
from speechctc.phones.label_rules import is_tone

TAIL = 0.05  # seconds that labels may end after their recording
MIN_EDGE = 0.01  # seconds at either end of a recording that make no stretch of their own

PAD = 0.25  # longest silence that an utterance keeps before its first and after its last label, s
MIN_SILENCE = 0.05  # shortest silence in which a long utterance is cut, s

NOT_CORRECTED = "as speechctc decode wrote it, nobody has corrected it"
UNCORRECTED_FIX = "speechctc mark-checked names those that are right; corpus.uncorrected=true takes all as correct"
# What a warning of such files begins with.
UNCORRECTED = "left out, because they are as speechctc decode wrote them and nobody has corrected them"

MIN_GAP = 10.0  # seconds without a label that may be unlabelled speech


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
    note : str
        What the user should know about how the file was read, or ``""``.
    """

    id: str
    audio: Path
    file: Path
    tiers: Sequence[Tier]
    speaker: str
    seconds: float
    origin: float = 0.0
    note: str = ""


class FoundUtterances(NamedTuple):
    """The utterances of a recording, its longest gap in seconds, and how many utterances another speaker interrupts."""

    labelled: LabelledRecording
    utterances: list[Utterance]
    gap: float
    interrupted: int


def words_of(labelled: LabelledRecording, config: CorpusConfig, words: WordPhones) -> list[tuple[str, str]]:
    """Return the language and the words of each of the tiers of ``corpus.words_tier``; none where it cannot be read."""
    try:
        tiers = [
            in_order(tier, labelled.file) for tier, _ in choose_tiers(labelled.tiers, labelled.file, _tier(config))
        ]
    except InputError:  # reported when the labels are read
        return []
    named = [(words.language_of(*_names(labelled, tier, config)), tier) for tier in tiers]
    return [
        (language, " ".join(each.label for each in tier.entries if _is_word(each.label)))
        for language, tier in named
        if words.can_read(language)
    ]


def _names(labelled: LabelledRecording, tier: Tier, config: CorpusConfig) -> Iterator[str]:
    """Yield the names that may tell the language, if ``corpus.language`` is a mapping: the tier's and the folders'."""
    if isinstance(config.language, dict):
        yield tier.name
        yield from reversed(labelled.file.parent.relative_to(config.root or labelled.file.parent).parts)


def _tier(config: CorpusConfig) -> str:
    return config.tier if config.words_tier is None else config.words_tier


def _is_word(label: str) -> bool:
    return label.lower() not in PAUSES | UNCLEAR


def find_utterances(
    labelled: LabelledRecording,
    split: str,
    builder: CorpusBuilder,
    config: CorpusConfig,
    words: WordPhones | None = None,
) -> FoundUtterances:
    """Add the utterances of a recording to a split, and what cannot be used to its rejected ones.

    The labels are words where there is a reader of `words`.

    Raises
    ------
    InputError
        No tier has the name, or none of several can be used.
    """
    chosen = choose_tiers(labelled.tiers, labelled.file, _tier(config))
    if len(chosen) > 1:  # a speaker who says nothing here
        chosen = [(tier, star) for tier, star in chosen if any(each.label for each in tier.entries)] or chosen[:1]
    found: list[tuple[Tier, list[Utterance]]] = []
    errors: list[InputError] = []
    gap = 0.0
    for tier, star in chosen:
        try:
            used = in_order(tier, labelled.file)
            base = "-".join([labelled.id, *("_".join((star or tier.name).split()) for _ in chosen[1:2])])
            reader = _Reader(labelled._replace(id=base), used, star, builder, config, words)
            utterances = list(reader.utterances(split))
            gap = max(gap, _longest_gap(used, labelled.seconds))
            found.append((used, utterances))
        except InputError as error:
            errors.append(error)
            if len(chosen) > 1:
                builder.rejected[split].append(Rejected(f"{labelled.id}-{tier.name}", str(error)))
    if not found:
        raise errors[0]
    every = [utterance for _, utterances in found for utterance in utterances]
    builder.utterances[split] += every
    interrupted = sum(_interrupted(utterances, found, tier, labelled.origin) for tier, utterances in found)
    return FoundUtterances(
        labelled, [utterance for _, utterances in found for utterance in utterances], gap, interrupted
    )


class _Reader(NamedTuple):
    """What is needed to read the utterances of a tier, whose entries are in order."""

    labelled: LabelledRecording
    tier: Tier
    star: str
    builder: CorpusBuilder
    config: CorpusConfig
    words: WordPhones | None

    @property
    def language(self) -> str:
        """The language of the words."""
        assert self.words is not None
        language = self.words.language_of(*_names(self.labelled, self.tier, self.config))
        if isinstance(self.config.language, dict) and language not in self.config.language.values():
            known = first_few(list(self.config.language), 20)
            what = f"neither the tier {self.tier.name!r} nor a folder is among those of corpus.language: {known}"
            raise InputError(what, "add one of them")
        return language

    def utterances(self, split: str) -> Iterator[Utterance]:
        """Yield the utterances; add those whose labels cannot be used to the rejected ones of a split."""
        labelled, tier, shift = self.labelled, self.tier, self.labelled.origin
        entries = [each._replace(start=each.start + shift, end=each.end + shift) for each in tier.entries]
        _check(labelled, tier, entries, self.config.segment == "labels" and self.words is None)
        if self.words is not None:
            entries = [each for each in entries if _is_word(each.label)]
        spoken = [each for each in entries if self.builder.keeps(each.label)]
        beside = _words(labelled, tier, self.star, self.config)
        several = self.words is not None and isinstance(self.config.language, dict)
        for piece in _pieces(spoken, labelled.seconds, tier, self.config):
            whole = piece.start <= MIN_EDGE and piece.end >= labelled.seconds - MIN_EDGE
            id = labelled.id if whole else f"{labelled.id}-{round(1000 * piece.start):07d}"
            mine = spoken[piece.first : piece.last + 1]
            try:
                phones, times, words = self._read(id, mine, piece)
            except InputError as error:
                self.builder.rejected[split].append(Rejected(id, f"{labelled.file}: {error}"))
                continue
            inside = (word.label for word in beside if piece.start <= (word.start + word.end) / 2 < piece.end)
            yield Utterance(
                id,
                labelled.audio,
                phones,
                tier.speaker or self.star or labelled.speaker,
                times,
                stretch=None if whole else (round(piece.start, 4), round(piece.end, 4)),
                words=words or tuple(inside),
                traits=(("language", self.language),) if several else (),
            )

    def _read(
        self, id: str, mine: Sequence[Interval], piece: Piece
    ) -> tuple[tuple[str, ...], tuple[tuple[float, float], ...] | None, tuple[str, ...]]:
        """Return the phones of an utterance, their times where they have some, and the words that it was read from."""
        if self.words is not None:
            text = " ".join(each.label for each in mine)
            seconds = piece.end - piece.start
            phones, _ = self.builder.labels(self.words.read(id, text, self.labelled.audio, seconds, self.language))
            return tuple(phones), None, tuple(text.split())
        if tones := self._tones():
            labels = (label for each in mine for label in (each.label, *tones.get(round(each.end, 3), "").split()))
            return tuple(self.builder.labels(labels)[0]), None, ()
        phones, kept = self.builder.labels(each.label for each in mine)
        if self.tier.points or not self.tier.timed or len(set(kept)) < len(kept):
            return tuple(phones), None, ()
        return tuple(phones), tuple((_within(mine[k].start, piece), _within(mine[k].end, piece)) for k in kept), ()

    def _tones(self) -> dict[float, str]:
        """Return by their ends the tones that speechctc wrote on a tier of their own; none if the phones have tones."""
        named = {each.name: each for each in self.labelled.tiers}
        if self.config.tone == "strip" or not {"tones", "confidence"} <= named.keys():
            return {}
        entries, shift = named["tones"].entries, self.labelled.origin
        are_tones = all(map(is_tone, " ".join(each.label for each in entries).split()))
        if not are_tones or any(is_tone(each.label) for each in self.tier.entries):
            return {}
        return {round(each.end + shift, 3): each.label for each in entries}


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
    spans = [Span(max(each.start, 0.0), min(each.end, seconds), each.label in PAUSES) for each in spoken]
    several = config.segment != "labels" or config.words_tier is not None  # phones in a label: it may hold a pause
    return cut(spans, seconds, config.max_gap, config.max_seconds, several)


def _words(labelled: LabelledRecording, tier: Tier, star: str, config: CorpusConfig) -> list[Interval]:
    """Return the words of the speaker of a tier; none where the file has no such tier."""
    try:
        chosen = choose_tiers(labelled.tiers, labelled.file, config.words)
    except InputError:
        return []
    mine = [each for each, name in chosen if len(chosen) == 1 or (name or each.speaker) == (star or tier.speaker)]
    shift = labelled.origin
    entries = [each for words in mine[:1] if not words.points for each in words.entries if each.label]
    return [Interval(each.start + shift, each.end + shift, each.label) for each in sorted(entries)]


def _longest_gap(tier: Tier, seconds: float) -> float:
    """Return the longest time without a label, in seconds; of points, 0."""
    if tier.points:
        return 0.0
    starts, ends = [entry.start for entry in tier.entries], [entry.end for entry in tier.entries]
    return max(start - end for start, end in zip([*starts, seconds], [0.0, *ends], strict=True))


def _interrupted(
    utterances: Sequence[Utterance], found: Sequence[tuple[Tier, object]], tier: Tier, origin: float
) -> int:
    """Return in how many utterances another tier has a label."""
    others = [other for other, _ in found if other is not tier]
    return sum(any(_speaks(other, utterance, origin) for other in others) for utterance in utterances)


def _speaks(tier: Tier, utterance: Utterance, origin: float) -> bool:
    """Return whether a tier has a label, other than of a pause, during an utterance."""
    start, end = utterance.stretch or (0.0, float("inf"))
    first = bisect_right(tier.entries, start - origin, key=lambda each: each.end)
    during = takewhile(lambda each: each.start < end - origin, islice(tier.entries, first, None))
    return any(each.label not in PAUSES for each in during)


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
            files = {"elan": ".eaf files"}.get(config.kind, "recordings and TextGrids")
            raise InputError(f"{root}: no such folder", f"set corpus.root to the folder of the {files}")
        self.builder, self._config = CorpusBuilder.for_config(config), config
        self._files: list[tuple[LabelledRecording, str]] = []
        self._found: list[FoundUtterances] = []
        self._uncorrected: list[Path] = []
        self._edited: list[Path] = []
        self._words = WordPhones(config) if config.words_tier is not None else None
        if self._words is not None and not self._words.possible:
            raise InputError("corpus.words_tier is set, and words are read by a dictionary or in a language", MISSING)

    @property
    def recordings(self) -> list[Path]:
        """The recordings of the files so far."""
        return [labelled.audio for labelled, _ in self._files]

    def add(self, id: str, split: str, read: Callable[[], LabelledRecording]) -> None:
        """Add a file of a split, or to what is rejected if `read` raises an `InputError`.

        So is one that is as `speechctc decode` wrote it, where ``corpus.uncorrected`` leaves such files out.
        """
        try:
            labelled = read()
            if is_decoded(labelled.tiers):
                is_draft = not written.changed([labelled.file])
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
            train = train or [labelled for labelled, _ in self._files]
            self._words.learn(pair for labelled in train for pair in words_of(labelled, self._config, self._words))
        for labelled, split in self._files:
            try:
                self._found.append(find_utterances(labelled, split, self.builder, self._config, self._words))
            except InputError as error:
                self.builder.rejected[split].append(Rejected(labelled.id, str(error)))

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


def without_drafts(rejected: Iterable[Rejected]) -> list[Rejected]:
    """Return what was rejected without drafts that nobody corrected, which one warning counts."""
    return [each for each in rejected if NOT_CORRECTED not in each.reason]


def is_decoded(tiers: Sequence[Tier]) -> bool:
    """Return whether tiers are those of `speechctc decode`; `speechctc align` adds how probable all is."""
    names = {tier.name for tier in tiers}
    return "confidence" in names and not {"log probability", "score"} & names  # files from before have score alone


def report_tiers(files: Sequence[FoundUtterances], builder: CorpusBuilder, config: CorpusConfig) -> None:
    """Add notes and warnings on the files of a corpus."""
    utterances = [utterance for file in files for utterance in file.utterances]
    tiered = {u.speaker for file in files for u in file.utterances if u.speaker != file.labelled.speaker}
    builder.notes.append(_speakers(utterances, tiered))
    folders = {Path(utterance.speaker) for utterance in utterances}
    names = Counter(folder.name.lower() for folder in folders - {Path()})
    builder.warn_of(sorted(each for each in folders if names[each.name.lower()] > 1), note_text("speakers alike"))
    if odd := [file.labelled.note for file in files if file.labelled.note]:
        builder.warnings.append(odd[0] + (f" (and {len(odd) - 1} more files)" if len(odd) > 1 else ""))
    _report_cuts(files, builder, config)
    if config.max_gap is None or config.max_gap >= MIN_GAP:
        quiet = [_name(file) for file in files if file.gap >= MIN_GAP]
        builder.warn_of(quiet, note_text("long gaps", seconds=MIN_GAP))
    if interrupted := sum(file.interrupted for file in files):
        builder.warnings.append(note_text("interrupted", count=interrupted, utterances=len(utterances)))
    long = {_name(file) for file in files for utterance in file.utterances if _is_long(utterance, file, config)}
    builder.warn_of(sorted(long), note_text("long", seconds=config.max_seconds))


def _report_cuts(files: Sequence[FoundUtterances], builder: CorpusBuilder, config: CorpusConfig) -> None:
    cut = [file for file in files if any(utterance.stretch for utterance in file.utterances)]
    if not cut:
        return
    parts = [u.stretch for file in cut for u in file.utterances if u.stretch is not None]
    gaps = "" if config.max_gap is None else note_text("gaps", gap=config.max_gap)
    minutes = {"all": sum(file.labelled.seconds for file in cut) / 60, "used": sum(b - a for a, b in parts) / 60}
    counts = {"recordings": len(cut), "utterances": len(parts)}
    builder.notes.append(note_text("cut", **counts, **minutes, gaps=gaps, longest=config.max_seconds))


def _is_long(utterance: Utterance, file: FoundUtterances, config: CorpusConfig) -> bool:
    start, end = utterance.stretch or (0.0, file.labelled.seconds)
    return end - start > config.max_seconds


def _name(file: FoundUtterances) -> Path:
    return Path(file.labelled.audio.name)


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
