"""Surveys a folder, finds recordings and their labels, and how to read them as a corpus; and tells so in words.

Nothing is changed. The corpus is read by the readers of extraction, so that their errors are known in advance.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path, PurePath
from typing import Any

from speechctc.audio import sound_file
from speechctc.audio.folders import LABEL_TRACKS, files_below
from speechctc.audio.label_files import FOREIGN, is_label_file
from speechctc.audio.recordings import Siblings, find_recordings, left_out
from speechctc.config.load import override, parse_config
from speechctc.config.schema import MARKS, CorpusConfig
from speechctc.core import written
from speechctc.core.errors import InputError, counted, counted_alike, first_few, plural
from speechctc.core.parallel import attempt
from speechctc.core.text_files import Text, read_text
from speechctc.corpora.corpus import SPLITS, Corpus, Utterance, note_text
from speechctc.corpora.corpus_builder import note_of_xsampa
from speechctc.corpora.label_tracks import are_phones, read_track, tracks_of
from speechctc.corpora.manifests import corpora_in
from speechctc.corpora.other_files import files_of, others_in
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.table import SPLIT_WORDS, split_named, split_of_row
from speechctc.corpora.table_rows import LABELS, USUAL, Row, ending_of, read_rows, spelling_of
from speechctc.corpora.tier_choice import PhoneTier, phone_tier
from speechctc.corpora.tiers import NOT_CORRECTED, TEXTGRID, eaf_files, without_drafts
from speechctc.pages.page import render_text
from speechctc.phones.label_rules import are_strings
from speechctc.phones.marks import OF_TONES, rare_by_tone
from speechctc.phones.notations import is_xsampa

TABLES = (".tsv", ".tab", ".csv", ".jsonl", ".ndjson", ".xlsx")
MAYBE = (".json", ".list", ".gz")  # some of these are manifests, and others something else
# Endings of transcripts that are not read; .txt and .lab where a recording has the same name.
_TRANSCRIPTS = (*FOREIGN, ".stm", ".ctm", ".srt", ".vtt", ".txt", ".lab")
_LISTS = (".txt", ".data", ".text", ".trn", ".lst", "")  # of texts that may have a line for each recording
MAX_LIST = 1 << 26  # bytes
_REQUIRED = {"corpus": {"kind": "table"}, "data": {"dir": "data"}}  # of a config
# Words in names of what a model is not trained on.
HELD_OUT = frozenset(SPLIT_WORDS["dev"] | SPLIT_WORDS["test"])

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
        ``"spaces"``, a tier seems to, but for spaces in labels; ``"drafts"``, those of TextGrids or files of ELAN are
        no person's; ``"elsewhere"``, they lie in other folders than their recordings; ``"transcripts"``, they are
        of another kind.
    met : set of Path
        Files of labels that are read, or of which a note says that they are not.
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
    met: set[Path] = field(default_factory=set)
    _phone_tiers: dict[tuple[Path, ...], PhoneTier] = field(default_factory=dict)

    def phone_tier(self, files: Sequence[Path]) -> PhoneTier:
        """Return the tier of phones of files with tiers, which are read once."""
        if (key := tuple(files)) not in self._phone_tiers:
            self._phone_tiers[key] = phone_tier(files)
        return self._phone_tiers[key]

    @cached_property
    def files(self) -> list[Path]:
        """All files below the folder."""
        return files_below(self.folder)

    @cached_property
    def tracks(self) -> dict[Path, Path]:
        """Other programs' files of labels, by recording."""
        return tracks_of(self.recordings)

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
        tier, note, segment, to_mend, words = self.phone_tier(files)
        self.hints |= {"spaces"} if to_mend else set()
        self.notes.append(note)
        if tier and segment != "labels":
            self.given.setdefault("segment", segment)
        if tier and words:
            self.given.setdefault("words", words)
        return self.config_of(kind=kind, root=str(self.folder), tier=tier, uncorrected=False) if tier else None

    @property
    def case(self) -> str:
        """What the recordings are if none of them can be trained on: ``what ...`` of notes.yaml."""
        if self.to_test:
            return "test"
        return next(
            (case for case in ("mend", "drafts", "spaces", "elsewhere", "transcripts") if case in self.hints),
            "unlabelled",
        )


def survey(
    folder: Path, settings: Sequence[str] = (), earlier: Mapping[str, Any] | None = None, source: str = ""
) -> Survey:
    """Find the recordings and labels in a folder, at any depth.

    Labels are read from tables, else from TextGrids, else from files of ELAN, else from .PHN files in TIMIT's layout.

    Parameters
    ----------
    folder : Path
    settings : sequence of str
        Keys of the section ``corpus`` as ``corpus.key=value``, which replace what is found.
    earlier : mapping, optional
        Values of other keys of it, as the config `source` has them, if that was written for this folder.

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
    _take_over(result, earlier or {}, source)
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
            result.notes += others_in(result.folder, result.files, result.met, result.notes)
            return result
    if not result.recordings:
        raise _without_recordings(result)
    return _without_labels(result)


def _without_labels(result: Survey) -> Survey:
    """Add the recordings, none of which has labels that are used, and notes on files that may have them."""
    result.sound = audio_facts(result.recordings)
    result.unlabelled = len(result.sound.paths)
    apart = [path for path in result.files if path.suffix.lower() in LABEL_TRACKS and is_label_file(path)]
    result.notes += filter(None, [_elsewhere(result, apart, "files of labels")])
    if files := [path for path in _transcripts(result) if path not in result.met]:
        result.hints.add("transcripts")
        endings = Counter(path.suffix.lower() or path.name for path in files)
        counts = ", ".join(f"{count} {ending}" for ending, count in endings.items())
        result.notes.append(note_text("transcripts", files=f"{counts} ({first_few([str(path) for path in files], 2)})"))
        result.met |= set(files)
    result.notes += others_in(result.folder, result.files, result.met, result.notes)
    return result


def _without_recordings(result: Survey) -> InputError:
    """Return the error of a folder that has no recordings, with why its tables are not used."""
    notes = sorted(
        (note for note in result.notes if note.startswith("not used")), key=lambda note: "more table" in note
    )
    what = "no table that names recordings which are there" if notes else "no table that names recordings"
    fix = "name the folder that holds your recordings (WAV, FLAC, OGG, MP3, ...) and their TextGrids or tables"
    told = f" ({'; '.join(notes[:2])})" if notes else ""
    return InputError(f"{result.folder}: no recordings in this folder, and {what}{told}", fix)


def _take_over(result: Survey, earlier: Mapping[str, Any], source: str) -> None:
    """Add the values of an earlier config where none are given, and a note on them."""
    if taken := {key: value for key, value in earlier.items() if key not in result.given}:
        result.given |= taken
        values = ", ".join(f"corpus.{key}={value}" for key, value in taken.items())
        result.notes.append(note_text("earlier", file=source, settings=values))


def _transcripts(result: Survey) -> Iterator[Path]:
    """Yield the files that look like transcripts of a kind that is not read."""
    stems = {path.with_suffix("") for path in result.recordings}
    names = {path.name for path in stems}
    tracks = set(result.tracks.values())  # what is said of them is said
    for path in written.changed([path for path in result.files if path.is_file()]):
        if path in tracks:
            continue
        if path.name.lower().endswith(_TRANSCRIPTS[:-2]) or (
            path.suffix.lower() in _TRANSCRIPTS and path.with_suffix("") in stems
        ):
            yield path
        elif path.suffix.lower() in _LISTS and _lists(path, names):
            yield path


def _lists(path: Path, names: Container[str]) -> bool:
    """Return whether most of the first lines of a text have the name of a recording."""
    found = attempt(read_text, path) if path.stat().st_size < MAX_LIST else None
    text = found.text if isinstance(found, Text) else ""
    lines = [line for line in text.split("\n", MAX_LISTED)[:MAX_LISTED] if line.strip()]
    named = [any(PurePath(word).stem in names for word in line.split()[:3]) for line in lines]
    return len(lines) > 1 and sum(named) > len(lines) / 2


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
    """Return the corpus with its labels read from X-SAMPA, or divided into IPA symbols, if they look so as written."""
    if config.phones != "found" or not {"segment", "notation"} - set(result.given):
        return config, corpus
    as_written = config.model_copy(update=dict.fromkeys(MARKS, "keep"))
    written = corpus if config == as_written else read_corpus(as_written)
    counts = Counter(phone for utterance in written.utterances() for phone in utterance.phones)
    if "notation" not in result.given and is_xsampa(counts):
        result.given["notation"] = "xsampa"
        result.notes.append(note_of_xsampa("in xsampa", counts))
        config = config.model_copy(update={"notation": "xsampa"})
        return config, read_corpus(config)
    if "segment" in result.given or not are_strings(counts):
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
    else:
        endings = LABEL_TRACKS if config.kind == "labels" else (TEXTGRID, ".phn")
        result.refused = sum(siblings.find(path, endings) is not None for path in others.paths)
    result.notes += _other_labels(result, config.kind)
    result.config, result.corpus, result.sound = config, corpus, audio_facts(used)
    result.unlabelled = len(others.paths) - result.refused
    result.broken = others.unreadable


def _other_labels(result: Survey, used: str) -> Iterator[str]:
    """Yield a note on files of labels of each kind that comes after the one that is used."""
    found = {"table": "", "textgrid": "", "elan": ""}
    if grids := {*_grids(result)}:
        found["textgrid"] = f"{plural(len(grids), 'TextGrid')} of recordings"
    if files := eaf_files(result.folder):
        found["elan"] = plural(len(files), "ELAN file")
    result.met |= {*grids, *files}
    later = [*found][[*found].index(used) + 1 :] if used in found else []
    yield from (f"not used: {found[kind]}; read by corpus.kind={kind}" for kind in later if found[kind])


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
    names = [path for path in result.files if path.is_file()]
    tables = [path for path in names if ending_of(path) in (*TABLES, *MAYBE) or _has_columns(path)]
    tables = written.changed(tables)  # one that decoding or measuring wrote has no person's labels
    tables = [path for path in tables if path.suffix.lower() not in (".tsv", ".json") or not is_label_file(path)]
    refused: dict[Path, InputError] = {}
    for path in [*tables, *corpora_in(result.folder, names)]:
        try:
            rows[path] = _some_rows(path)
        except InputError as error:
            refused[path] = error
    _tell_refused(result, {path: why for path, why in refused.items() if not (rows and _may_be_other(path))})
    if not rows:
        return None
    result.met |= {file for path, own in rows.items() for file in files_of(path, own)}
    chosen = _splits(rows, result.folder)
    left = [str(path) for path in rows if path not in chosen.values()]
    if left:
        result.notes.append(f"not used: {plural(len(left), 'more table')} ({first_few(left, 3)})")
    if not {"language", "dictionary"} & set(result.given):
        result.of_words = not any(row.phones or "language" in dict(row.traits) for row in rows[chosen["train"]])
    if result.of_words and result.phone_tier(_grids(result)).name:
        what = "words of no known language, and the TextGrids beside the recordings have phones"
        result.notes.append(f"not used: {first_few([str(path) for path in chosen.values()], 3)}: {what}")
        result.of_words = False
        return None
    if result.of_words and not result.recordings:
        result.recordings = [path for table in chosen.values() for path in _named(table, rows[table], result.folder)]
        if not result.recordings:
            tables_named = first_few([str(path) for path in chosen.values()], 3)
            missing = next((row.audio for row in rows[chosen["train"]] if row.audio), "")
            result.notes.append(note_text("no recordings", tables=tables_named, first=missing))
            return None
    values = {"kind": "table", "tables": {split: str(path) for split, path in chosen.items()}}
    configs = [result.config_of(**values, root=root) for root in (None, str(result.folder), ".")]
    return max(configs, key=_usable)


def _tell_refused(result: Survey, refused: Mapping[Path, InputError]) -> None:
    """Add notes on files that are not read as tables of a corpus, with why, if they are surely meant as such."""
    names_one = _finder({path.name.lower() for path in result.recordings})
    labelled = {path for path in refused if _has_labels(path, names_one)}
    told = [(path, str(why)) for path, why in refused.items() if path in labelled or not _may_be_other(path)]
    result.notes += [f"not used: {line}" for line in counted_alike(told)]
    result.hints |= {"mend"} if labelled else set()
    result.met |= {path for path, _ in told if path.suffix.lower() not in _TRANSCRIPTS}


def _finder(names: Collection[str]) -> Callable[[str], bool]:
    """Return what tells whether a text has one of many names of files, in time that does not grow with their number."""
    lengths, endings = set(map(len, names)), {re.escape(PurePath(name).suffix) for name in names}

    def has_one(text: str) -> bool:
        ends = (found.end() for ending in endings for found in re.finditer(ending, text))
        return any(text[max(end - length, 0) : end] in names for end in ends for length in lengths)

    return has_one


def _has_columns(path: Path) -> bool:
    """Return whether a file with the ending of a text is a table as corpora for synthesis have it: ``AUDIO|TEXT``."""
    if path.suffix.lower() != ".txt":
        return False
    try:
        with open(path, "rb") as file:
            return b"|" in file.readline(1000)
    except OSError:
        return False


def _named(table: Path, rows: Iterable[Row], folder: Path) -> Iterator[Path]:
    """Yield the recordings that the rows of a table name, where they are there."""
    for base in (table if table.is_dir() else table.parent, folder, Path()):
        found = (spelling_of(base, row.audio) for row in rows if row.audio)
        yield from (base / name for name in found if name is not None)


def _some_rows(path: Path) -> list[Row]:
    """Return the rows of a table; raise an error if none of a manifest's, each with columns of its own, has labels."""
    rows = read_rows(path)
    labelled = any(row.audio and (row.phones or row.words) for row in rows)
    if all(row.problem for row in rows) and not labelled and _may_be_other(path):
        raise InputError(f"{path}: {rows[0].problem}", "correct the manifest")
    return rows


def _may_be_other(path: Path) -> bool:
    """Return whether a file may be no table of labels: lhotse's recordings are listed beside its supervisions."""
    return path.suffix.lower() in MAYBE or (path.suffix.lower() == ".jsonl" and "recordings" in path.stem)


def _has_labels(table: Path, names_one: Callable[[str], bool]) -> bool:
    """Return whether a table that is not one of a corpus has a column of labels, or names recordings."""
    found = attempt(read_text, table)
    text = "" if isinstance(found, InputError) else found.text.lower()
    header = set(re.split(r"[\t,;]", text.partition("\n")[0]))
    known = {name for target in LABELS for name in (target, *USUAL[target])}
    return bool(known & header) or names_one(text)


def _splits(rows: Mapping[Path, Sequence[Row]], folder: Path) -> dict[str, Path]:
    """Return the table of each split, by its name or that of its folder.

    If none says train, that is the longest of the other tables. One that is alone and whose rows name several splits is
    the table of each of these.
    """
    chosen: dict[str, Path] = {}
    words = {word for names in SPLIT_WORDS.values() for word in names}  # test.tsv is before test-other.tsv
    ordered = sorted(rows, key=lambda path: (path.stem.lower() not in words, -len(rows[path]), path))
    for path in ordered:
        if split := _split_of(path, folder):
            chosen.setdefault(split, path)
    scored = [path for path in ordered if _split_of(path, folder) == "test"]
    evals = [path for path in scored if any("eval" in name.lower() for name in _names(path, folder))]
    if "dev" not in chosen and 0 < len(evals) < len(scored):  # beside a test table, it is the one of each epoch
        chosen |= {"dev": evals[0], "test": next(path for path in scored if path not in evals)}
    others = [path for path in rows if path not in chosen.values()]
    if "train" not in chosen:
        chosen["train"] = max(others or rows, key=lambda path: len(rows[path]))
        chosen = {split: path for split, path in chosen.items() if split == "train" or path != chosen["train"]}
    inside = Counter(map(split_of_row, rows[chosen["train"]]))
    if chosen.keys() == {"train"} and len(inside.keys() - {""}) > 1 and "train" in inside:
        return {split: chosen["train"] for split in SPLITS if split in inside}
    return chosen


def _names(path: Path, folder: Path) -> list[str]:
    """Return the name of a table, and those of its folders, the last first."""
    return [path.stem, *reversed(path.relative_to(folder).parts[:-1])]


def _split_of(path: Path, folder: Path) -> str:
    return next(filter(None, map(split_named, _names(path, folder))), "")


def _usable(config: CorpusConfig) -> int:
    corpus = attempt(read_corpus, config)
    return 0 if isinstance(corpus, InputError) else len(corpus.utterances())


def _grids(result: Survey) -> list[Path]:
    """Return the TextGrids beside recordings."""
    siblings = Siblings()
    found = (siblings.find(path, [TEXTGRID]) for path in result.recordings)
    return list(dict.fromkeys(grid for grid in found if grid is not None))


def _as_textgrids(result: Survey) -> CorpusConfig | None:
    """Return the config for TextGrids beside recordings; None if there are none."""
    grids = _grids(result)
    alone = [path for path in result.files if path.suffix.lower() == TEXTGRID]
    result.met |= set(alone)
    if not grids and alone:
        without = f"not used: {plural(len(alone), 'TextGrid')} with no recording of that name in the folder"
        result.notes.append(_elsewhere(result, alone, "TextGrids") or without)
    return result.tiers("textgrid", grids) if grids else None


def _elsewhere(result: Survey, files: Iterable[Path], what: str) -> str:
    """Return a note on those of some files of labels that have the name of a recording in another folder, or ``""``."""
    stems = defaultdict[str, list[Path]](list)
    for path in result.recordings:
        stems[path.stem].append(path)
    found = [
        file for file in files if file.stem in stems and all(file.parent != each.parent for each in stems[file.stem])
    ]
    if not found:
        return ""
    result.hints.add("elsewhere")
    result.met |= set(found)
    nearest = max(stems[found[0].stem], key=lambda path: len(os.path.commonpath([path, found[0]])))
    return note_text("elsewhere", count=len(found), what=what, file=found[0], recording=nearest)


def _as_elan(result: Survey) -> CorpusConfig | None:
    """Return the config for files of ELAN; None if there are none."""
    files = eaf_files(result.folder)
    result.met |= set(files)
    return result.tiers("elan", files) if files else None


def _as_timit(result: Survey) -> CorpusConfig | None:
    """Return the config for a corpus in TIMIT's layout; None if there are no .PHN files."""
    labels = {path for path in result.files if path.suffix.lower() == ".phn"}
    result.met |= labels
    return result.config_of(kind="timit", root=str(result.folder), phones="timit61") if labels else None


def _as_labels(result: Survey) -> CorpusConfig | None:
    """Return the config for other programs' files of labels; None if there are none, or of words of no known language.

    Raises
    ------
    InputError
        None of them can be read; the first reason.
    """
    tracks = result.tracks
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
    result.met |= set(tracks.values())
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
        "left": [
            note
            for note in notes
            if note.startswith(("SA sentences", "the language")) or note.endswith(("are not used", "left out"))
        ],
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
