"""Surveys a folder, finds recordings and their labels, and how to read them as a corpus; and tells so in words.

Nothing is changed. The corpus is read by the readers of extraction, so that their errors are known in advance.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from speechctc.audio import sound_file
from speechctc.audio.annotations import Interval, read_tiers, tier_key
from speechctc.audio.eaf import ENDING as EAF
from speechctc.audio.eaf import read_eaf
from speechctc.audio.label_files import FOREIGN, is_label_file
from speechctc.audio.recordings import Siblings, files_below, find_recordings, left_out
from speechctc.config.load import override, parse_config
from speechctc.config.schema import MARKS, CorpusConfig
from speechctc.core import written
from speechctc.core.errors import InputError, counted, first_few, plural
from speechctc.core.parallel import attempt
from speechctc.core.text_files import read_text
from speechctc.corpora.corpus import SPLITS, Corpus, Utterance, note_text
from speechctc.corpora.label_tracks import BESIDE, are_phones, read_track, tracks_of
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.table import spelling_of
from speechctc.corpora.table_rows import LABELS, USUAL, Row, corpora_in, ending_of, read_rows
from speechctc.corpora.tiers import NOT_CORRECTED, TEXTGRID, eaf_files, without_drafts
from speechctc.pages.page import render_text
from speechctc.phones.label_rules import OF_TONES, are_strings, rare_by_tone

TABLES = (".tsv", ".tab", ".csv", ".jsonl", ".ndjson", ".xlsx")
MAYBE = (".json", ".gz")  # some of these are manifests, and others something else
# Endings of transcripts that are not read; .txt and .lab where a recording has the same name.
_TRANSCRIPTS = (*FOREIGN, ".stm", ".ctm", ".srt", ".vtt", ".txt", ".lab")
_REQUIRED = {"corpus": {"kind": "table"}, "data": {"dir": "data"}}  # of a config
# Words in names of what a model is not trained on.
HELD_OUT = frozenset(("test", "dev", "valid", "validation", "eval", "evaluation"))
_SPLIT_WORDS = {"train": ("train",), "dev": ("dev", "valid"), "test": ("test",)}

MIN_OCCURRENCES = 5  # a phone with fewer occurrences is hardly learned
MAX_LISTED = 8  # entries of a list
MAX_PHONES = 80  # more are not phones, but words, or phones with marks


@dataclass
class AudioFacts:
    """Facts from the headers of recordings.

    Attributes
    ----------
    seconds : float
        Duration of all recordings that can be read.
    rates, formats : Counter
        Number of recordings by sample rate in Hz, and by ending.
    long : int
        Number of recordings longer than a minute.
    unreadable : list of str
        The error for each recording that cannot be read.
    paths : list of Path
        Those that can be read.
    """

    seconds: float = 0.0
    rates: Counter[int] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    long: int = 0
    unreadable: list[str] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)


@dataclass
class Survey:
    """The recordings and labels of a folder: what it holds, what the user gave, and what to report.

    Attributes
    ----------
    folder : Path
    recordings : list of Path
    given : dict of str to object
        The keys of the section ``corpus`` that were given, or found in names, with their values.
    settings : sequence of str
        What was given, as it was typed.
    notes : list of str
        What was chosen, and files that could not be used as labels.
    config : CorpusConfig or None
        How to read the labelled recordings; None if there are none.
    corpus : Corpus or None
        The labelled recordings.
    sound : Sound
        Facts of the labelled recordings; of all recordings if none is labelled.
    unlabelled, refused : int
        Number of recordings without labels, and of those whose labels cannot be used; of both, those that can be read.
    broken : list of str
        The error for each recording without labels that cannot be read, where others are labelled.
    of_words : bool
        The labels are words whose language is not known.
    to_test : CorpusConfig or None
        How to read recordings that only the test split has.
    hints : set of str
        Why there may be no labels, and a note says more: ``"mend"``, a table that seems to have them cannot be read;
        ``"drafts"``, those of TextGrids or files of ELAN are no person's; ``"transcripts"``, they are of another kind.
    """

    folder: Path
    recordings: list[Path]
    given: dict[str, Any]
    settings: Sequence[str]
    notes: list[str] = field(default_factory=list)
    config: CorpusConfig | None = None
    corpus: Corpus | None = None
    sound: AudioFacts = field(default_factory=AudioFacts)
    unlabelled: int = 0
    refused: int = 0
    broken: list[str] = field(default_factory=list)
    of_words: bool = False
    to_test: CorpusConfig | None = None
    hints: set[str] = field(default_factory=set)

    @property
    def utterances(self) -> list[Utterance]:
        """Return the labelled recordings of all splits."""
        return self.corpus.utterances() if self.corpus else []

    def config_of(self, **found: object) -> CorpusConfig:
        """Return the section ``corpus`` of what was found, with what was given in its place."""
        values = {**_REQUIRED, "corpus": {"phones": "found", **found, **self.given}}
        return parse_config(values, "the settings", self.settings).corpus

    def tiers(self, kind: str, files: Sequence[Path]) -> CorpusConfig | None:
        """Return the config for files with tiers; None if no tier is given and none looks like phones."""
        if "tier" in self.given or "words_tier" in self.given:
            return self.config_of(kind=kind, root=str(self.folder), uncorrected=False)
        tier, note = phone_tier(files)
        self.notes.append(note)
        return self.config_of(kind=kind, root=str(self.folder), tier=tier, uncorrected=False) if tier else None

    @property
    def case(self) -> str:
        """What the recordings are if none of them can be trained on: ``what ...`` of notes.yaml."""
        if self.to_test:
            return "test"
        return next((case for case in ("mend", "drafts", "transcripts") if case in self.hints), "unlabelled")


def survey(folder: Path, settings: Sequence[str] = ()) -> Survey:
    """Find the recordings and labels in a folder, at any depth.

    Labels are read from tables, else from TextGrids, else from files of ELAN, else from .PHN files in TIMIT's layout.

    Parameters
    ----------
    folder : Path
    settings : sequence of str
        Keys of the section ``corpus`` as ``corpus.key=value``, which replace what is found.

    Raises
    ------
    InputError
        The folder does not exist or has no recordings, or a setting is invalid.
    """
    if not folder.is_dir():
        what = "a file, not a folder" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {what}", "name the folder that holds your recordings")
    found = attempt(find_recordings, [folder])
    recordings = [] if isinstance(found, InputError) else [recording.path for recording in found]
    result = Survey(folder, recordings, _given(settings), settings, left_out([folder]))
    for kind, find in _KINDS.items():
        if result.given.get("kind", kind) != kind:
            continue
        config = None
        try:
            config = find(result)
            corpus = read_corpus(config) if config else None
        except InputError as error:
            result.to_test, is_draft = result.to_test or _to_test(config), NOT_CORRECTED in str(error)
            is_asked = bool(settings) and not result.of_words
            if (is_asked or (is_draft and not recordings)) and result.to_test is None:  # there is nothing else
                raise
            result.notes.append(f"not used: {error}")
            result.hints |= {"mend"} if kind == "table" else {"drafts"} if is_draft else set()
            continue
        if config and corpus:
            _add_labelled(result, *_divided(result, config, corpus))
            result.notes += _held_out(result, config)
            return result
    if not result.recordings:
        first = next((f" ({note})" for note in result.notes if note.startswith("not used")), "")
        fix = "name the folder that holds your recordings (WAV, FLAC, OGG, MP3, ...) and their TextGrids or tables"
        raise InputError(f"{folder}: no recordings in this folder, and no table that names recordings{first}", fix)
    result.sound = audio_facts(result.recordings)
    result.unlabelled = len(result.sound.paths)
    if files := list(_transcripts(result)):
        result.hints.add("transcripts")
        endings = Counter(next(filter(path.name.lower().endswith, _TRANSCRIPTS)) for path in files)
        counts = ", ".join(f"{count} {ending}" for ending, count in endings.items())
        result.notes.append(note_text("transcripts", files=f"{counts} ({first_few([str(path) for path in files], 2)})"))
    return result


def _transcripts(result: Survey) -> Iterator[Path]:
    """Yield the files that look like transcripts of a kind that is not read."""
    stems = {path.with_suffix("") for path in result.recordings}
    tracks = set(tracks_of(result.recordings).values())  # what is said of them is said
    for path in written.changed([path for path in files_below(result.folder) if path.is_file()]):
        if path in tracks:
            continue
        if path.name.lower().endswith(_TRANSCRIPTS[:-2]) or (
            path.suffix.lower() in _TRANSCRIPTS and path.with_suffix("") in stems
        ):
            yield path


def _held_out(result: Survey, config: CorpusConfig) -> Iterator[str]:
    """Yield a warning if what is trained on is named like what scores a model."""
    folder = result.folder.resolve()
    train, names = folder.with_name("train"), [folder.name, *(path.stem for path in config.tables.of("train"))]
    for name in [name for name in names if HELD_OUT & set(re.split(r"[\W\d_]+", name.lower()))][:1]:
        beside = f", such as {train}" if train.is_dir() else ""
        yield (
            f"warning: {name} is what recordings to score a model with are called, and this config trains on them; if"
            f" they are, start with others{beside}"
        )


def _to_test(config: CorpusConfig | None) -> CorpusConfig | None:
    """Return the config if its corpus has a test split; None if it has none, or cannot be read."""
    corpus = attempt(partial(read_corpus, needed="test"), config) if config else None
    return config if isinstance(corpus, Corpus) and corpus.splits["test"] else None


def _given(settings: Sequence[str]) -> dict[str, Any]:
    """Return the keys of the section ``corpus`` that settings set."""
    values = override({}, settings)
    parse_config({**_REQUIRED, **override(_REQUIRED, settings)}, "the settings", settings)
    if others := sorted(set(values) - {"corpus"}):
        what = f"{others[0]} is not about the recordings"
        raise InputError(what, "give it to extract and train, or set it in the config")
    return dict(values.get("corpus", {}))


def _divided(result: Survey, config: CorpusConfig, corpus: Corpus) -> tuple[CorpusConfig, Corpus]:
    """Return the corpus with its labels divided into IPA symbols, if they look like strings of these as written."""
    if "segment" in result.given or config.phones != "found":
        return config, corpus
    as_written = config.model_copy(update=dict.fromkeys(MARKS, "keep"))
    written = corpus if config == as_written else read_corpus(as_written)
    counts = Counter(phone for utterance in written.utterances() for phone in utterance.phones)
    if not are_strings(counts):
        return config, corpus
    result.given["segment"] = "ipa"
    result.notes.append(note_text("divided", labels=counted(counts, 3)))
    config = config.model_copy(update={"segment": "ipa"})
    return config, read_corpus(config)


def _add_labelled(result: Survey, config: CorpusConfig, corpus: Corpus) -> None:
    """Add the labelled recordings, and facts of them and of the others."""
    used = {utterance.audio for utterance in corpus.utterances()}
    own = {path.resolve() for path in used}  # a link to one of them is no other recording
    others = audio_facts(path for path in result.recordings if path.resolve() not in own)
    siblings = Siblings()
    if config.kind in ("table", "elan"):  # labels are not in a file of the recording's name
        result.refused = min(sum(map(len, corpus.rejected.values())), len(others.paths))
        beside = sum(siblings.find(path, [TEXTGRID]) is not None for path in result.recordings)
        if beside and config.kind == "table":
            result.notes.append(f"not used: {plural(beside, 'TextGrid')} of recordings; read by corpus.kind=textgrid")
    else:
        endings = BESIDE if config.kind == "labels" else (TEXTGRID, ".phn")
        result.refused = sum(siblings.find(path, endings) is not None for path in others.paths)
    result.config, result.corpus, result.sound = config, corpus, audio_facts(used)
    result.unlabelled = len(others.paths) - result.refused
    result.broken = others.unreadable


def audio_facts(recordings: Iterable[Path]) -> AudioFacts:
    """Return facts from the headers of recordings."""
    sound = AudioFacts()
    for path in sorted(set(recordings)):
        try:
            about = sound_file.info(path)
        except InputError as error:
            sound.unreadable.append(str(error))
            continue
        sound.paths.append(path)
        sound.seconds += about.seconds
        sound.rates[about.rate] += 1
        sound.formats[path.suffix.lower().removeprefix(".")] += 1
        sound.long += about.seconds > 60
    return sound


def _as_tables(result: Survey) -> CorpusConfig | None:
    """Return the config for the tables that have the columns of a corpus; None if there are none."""
    rows: dict[Path, list[Row]] = {}
    names = [path for path in files_below(result.folder) if path.is_file()]
    tables = [path for path in names if ending_of(path) in (*TABLES, *MAYBE)]
    tables = written.changed(tables)  # one that decoding or measuring wrote has no person's labels
    tables = [path for path in tables if path.suffix.lower() != ".tsv" or not is_label_file(path)]  # such as Whisper's
    for path in [*tables, *corpora_in(result.folder, names)]:
        try:
            rows[path] = _some_rows(path)
        except InputError as error:
            if not _may_be_other(path):
                result.notes.append(f"not used: {error}")
                result.hints |= {"mend"} if _has_labels(path, result.recordings) else set()
    if not rows:
        return None
    chosen = _splits({path: len(each) for path, each in rows.items()}, result.folder)
    left = [str(path) for path in rows if path not in chosen.values()]
    if left:
        result.notes.append(f"not used: {plural(len(left), 'more table')} ({first_few(left, 3)})")
    if not {"language", "dictionary"} & set(result.given):
        result.of_words = not any(row.phones or "language" in dict(row.traits) for row in rows[chosen["train"]])
    if result.of_words and not result.recordings:
        result.recordings = [path for table in chosen.values() for path in _named(table, rows[table], result.folder)]
    values = {"kind": "table", "tables": {split: str(path) for split, path in chosen.items()}}
    configs = [result.config_of(**values, root=root) for root in (None, str(result.folder), ".")]
    return max(configs, key=_usable)


def _named(table: Path, rows: Iterable[Row], folder: Path) -> Iterator[Path]:
    """Yield the recordings that the rows of a table name, where they are there."""
    for base in (table if table.is_dir() else table.parent, folder, Path()):
        found = (spelling_of(base, row.audio) for row in rows if row.audio)
        yield from (base / name for name in found if name is not None)


def _some_rows(path: Path) -> list[Row]:
    """Return the rows of a table; raise an error if none of a manifest's, each with columns of its own, has labels."""
    rows = read_rows(path)
    if all(row.problem for row in rows) and _may_be_other(path):
        raise InputError(f"{path}: {rows[0].problem}", "correct the manifest")
    return rows


def _may_be_other(path: Path) -> bool:
    """Return whether a file may be no table of labels: lhotse's recordings are listed beside its supervisions."""
    return path.suffix.lower() in MAYBE or (path.suffix.lower() == ".jsonl" and "recordings" in path.stem)


def _has_labels(table: Path, recordings: Sequence[Path]) -> bool:
    """Return whether a table that is not one of a corpus has a column of labels, or names recordings."""
    found = attempt(read_text, table)
    text = "" if isinstance(found, InputError) else found.text.lower()
    header = set(re.split(r"[\t,;]", text.partition("\n")[0]))
    known = {name for target in LABELS for name in (target, *USUAL[target])}
    return bool(known & header) or any(path.name.lower() in text for path in recordings)


def _splits(rows: dict[Path, int], folder: Path) -> dict[str, Path]:
    """Return the table of each split, by its name or that of its folder.

    If none says train, that is the longest of the other tables.
    """
    chosen: dict[str, Path] = {}
    exact = {word for words in _SPLIT_WORDS.values() for word in words}  # before validated.tsv of Common Voice
    for path in sorted(rows, key=lambda path: (path.stem.lower() not in exact, -rows[path], path)):
        name = path.stem.lower()
        meant = [split for split, words in _SPLIT_WORDS.items() if any(word in name for word in words)]
        meant += [part.lower() for part in path.relative_to(folder).parts if part.lower() in SPLITS]
        for split in meant[:1]:
            chosen.setdefault(split, path)
    others = [path for path in rows if path not in chosen.values()]
    if "train" not in chosen:
        chosen["train"] = max(others or rows, key=lambda path: rows[path])
        chosen = {split: path for split, path in chosen.items() if split == "train" or path != chosen["train"]}
    return chosen


def _usable(config: CorpusConfig) -> int:
    corpus = attempt(read_corpus, config)
    return 0 if isinstance(corpus, InputError) else len(corpus.utterances())


def _as_textgrids(result: Survey) -> CorpusConfig | None:
    """Return the config for TextGrids beside recordings; None if there are none."""
    siblings = Siblings()
    grids = [grid for path in result.recordings if (grid := siblings.find(path, [TEXTGRID])) is not None]
    if not grids:
        alone = sum(path.suffix.lower() == TEXTGRID for path in files_below(result.folder))
        if alone:
            result.notes.append(f"not used: {plural(alone, 'TextGrid')} with no recording of that name in the folder")
        return None
    return result.tiers("textgrid", grids)


def _as_elan(result: Survey) -> CorpusConfig | None:
    """Return the config for files of ELAN; None if there are none."""
    return result.tiers("elan", files) if (files := eaf_files(result.folder)) else None


def _as_timit(result: Survey) -> CorpusConfig | None:
    """Return the config for a corpus in TIMIT's layout; None if there are no .PHN files."""
    has_labels = any(path.suffix.lower() == ".phn" for path in files_below(result.folder))
    return result.config_of(kind="timit", root=str(result.folder), phones="timit61") if has_labels else None


def _as_labels(result: Survey) -> CorpusConfig | None:
    """Return the config for other programs' files of labels; None if there are none, or of words of no known language.

    Raises
    ------
    InputError
        None of them can be read; the first reason.
    """
    tracks = tracks_of(result.recordings)
    if not tracks:
        return None
    read = [attempt(read_track, pair) for pair in tracks.items()]
    entries = [each for found in read if not isinstance(found, InputError) for each in found.entries]
    if not entries:
        raise next(found for found in read if isinstance(found, InputError))
    is_known = "words_tier" in result.given or are_phones(entries)
    if not is_known and {"language", "dictionary"} & set(result.given):
        result.given["words_tier"] = "words"
        is_known = True
    if is_known:
        return result.config_of(kind="labels", root=str(result.folder), uncorrected=False)
    files = f"{plural(len(tracks), 'file')} of labels ({first_few([path.name for path in tracks.values()], 3)})"
    result.notes.append(f"{files}: read as words once their language is named")
    result.of_words = True
    return None


_KINDS = {
    "table": _as_tables,
    "textgrid": _as_textgrids,
    "elan": _as_elan,
    "timit": _as_timit,
    "labels": _as_labels,
}

MAX_TEXTGRIDS = 60  # TextGrids that are read to choose a tier
MAX_MEAN_DURATION = 0.3  # longest mean duration of the labels of a tier of phones, s
_NAMES = re.compile(r"phon|phn|segm|^mau$|^seg$", re.IGNORECASE)
_NUMBER = re.compile(r"[\d.,%+-]+")


@dataclass
class TierLabels:
    """The labels of all tiers of one name in several files, and these files."""

    name: str
    paths: set[Path] = field(default_factory=set)
    entries: list[Interval] = field(default_factory=list)

    @property
    def mean_seconds(self) -> float:
        """Return the mean duration of a label, s."""
        return sum(entry.end - entry.start for entry in self.entries) / max(len(self.entries), 1)

    @property
    def may_be_phones(self) -> bool:
        """Return whether the labels look like phones: without spaces, short, of short duration, and not numbers."""
        labels, count = [entry.label for entry in self.entries], len(self.entries)
        words = sum(label.split() != [label] for label in labels)
        numbers = sum(_NUMBER.fullmatch(label) is not None for label in labels)
        are_short = sum(map(len, labels)) <= 3.5 * count and self.mean_seconds <= MAX_MEAN_DURATION
        return are_short and words <= 0.02 * count and numbers < 0.5 * count

    def to_text(self) -> str:
        """Return a short description."""
        examples = " ".join(entry.label for entry in self.entries[:4])[:30]
        labels = plural(len(self.entries), "label")
        return f"{self.name!r} ({labels}, mean duration {self.mean_seconds:.2f} s: {examples} ...)"


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
            found = (read_eaf if path.suffix.lower() == EAF else read_tiers)(path).tiers
        except InputError as error:
            problem = problem or f"; {error}"
            continue
        for tier in (tier for tier in found if not tier.points):
            of_name = tiers.setdefault(tier_key(tier.name), TierLabels(tier.name))
            of_name.paths.add(path)
            of_name.entries += [entry for entry in tier.entries if entry.label]
    kind = "ELAN file" if grids and grids[0].suffix.lower() == EAF else "TextGrid"
    if not tiers:
        return "", f"not used: {plural(len(grids), kind)} without a tier of intervals{problem}"
    described = "; ".join(tier.to_text() for tier in tiers.values())
    fit = [tier for tier in tiers.values() if tier.may_be_phones]
    if not fit:
        return "", f"not used: {plural(len(grids), kind)}, none of whose tiers looks like phones: {described}"
    best = min(fit, key=lambda tier: (_NAMES.search(tier.name) is None, -len(tier.paths), tier.mean_seconds))
    name = _pattern([tier.name for tier in fit], best.name)
    if name == best.name:
        name = "|".join([name, *_instead(best, fit, tiers.get(tier_key("confidence")))])
    return name, f"tiers of the {kind}s: {described}; {name!r} is taken for the phones (corpus.tier)"


def _instead(best: TierLabels, fit: Sequence[TierLabels], drafts: TierLabels | None) -> list[str]:
    """Return the names that a tier of phones has in files without the best one."""
    apart = [tier for tier in fit if best.paths.isdisjoint(tier.paths)]
    if apart and drafts and best.paths <= drafts.paths:  # decode's name is not what people call their own tier
        return [min(apart, key=lambda tier: (_NAMES.search(tier.name) is None, tier.mean_seconds)).name]
    return [tier.name for tier in apart if _NAMES.search(tier.name)]


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


def describe(survey: Survey) -> str:
    """Return what a folder contains, what cannot be used and why, and what may be a mistake."""
    corpus, sound, utterances = survey.corpus, survey.sound, survey.utterances
    kind = survey.config.kind if survey.config else ""
    rates = ", ".join(f"{rate:,} Hz ({count})" for rate, count in sound.rates.most_common())
    formats = ", ".join(f"{form} ({count})" for form, count in sound.formats.most_common())
    files = f"{plural(len(sound.paths), 'recording')}, {sound.seconds / 60:.1f} minutes"
    notes, rejected = (corpus.notes, corpus.rejected.values()) if corpus else ((), ())
    counts = Counter(phone for utterance in utterances for phone in utterance.phones)
    ranked = sorted(counts, key=lambda phone: (-counts[phone], phone))
    tiered = any("named by tiers" in note for note in notes)
    values = {
        "survey": survey,
        "corpus": corpus,
        "sound": sound,
        "kind": kind,
        "what": note_text(f"what {kind or survey.case}"),
        "facts": [files, rates or "none can be read", formats],
        "left": [note for note in notes if note.startswith("SA sentences") or note.endswith("are not used")],
        "rejected": [f"{each.id}: {each.reason}" for split in rejected for each in without_drafts(split)],
        "named": sorted({utterance.speaker for utterance in utterances} - {""}),
        "without": sum(not utterance.speaker for utterance in utterances),
        "how": "named by tiers" if tiered else "from the column speaker" if kind == "table" else "one folder each",
        "counts": counts,
        "phones": [f"{phone} {counts[phone]}" for phone in ranked],
        "rare": [phone for phone in ranked if counts[phone] < MIN_OCCURRENCES],
        "tonal": len(rare_by_tone(counts, MIN_OCCURRENCES)),
        "splits": [f"{name} {len(split)}" for name, split in corpus.splits.items() if split] if corpus else [],
    }
    limits = {"fewest": MIN_OCCURRENCES, "most": MAX_LISTED, "most_phones": MAX_PHONES, "of_tones": OF_TONES}
    return render_text("survey.txt", {**values, **limits, "some": first_few}).rstrip("\n")
