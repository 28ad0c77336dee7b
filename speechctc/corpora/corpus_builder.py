"""Builds a corpus: checks labels, chooses dev and the phone set, collects warnings."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING

from speechctc.audio import ffmpeg
from speechctc.config.schema import CorpusConfig
from speechctc.core.errors import InputError, counted, first_few
from speechctc.corpora.corpus import SPLITS, Corpus, Rejected, Utterance, note_text
from speechctc.phones.inventory import (
    FOUND,
    SILENCES,
    Inventory,
    inventory_of,
    named_inventory,
    nfc,
    seen,
    spelling_key,
    spelling_variants,
    with_code_points,
)
from speechctc.phones.label_rules import LabelRules, are_strings, is_syllable, segment_ipa
from speechctc.phones.marks import KINDS, Kind
from speechctc.phones.nonspeech import NonSpeech
from speechctc.phones.nonspeech_labels import is_pause, is_unclear, kind_of_phone
from speechctc.phones.notations import LabelMap, from_xsampa, is_xsampa, mixed_notations, read_map, unread_notation
from speechctc.phones.praat import from_praat
from speechctc.phones.pronouncer import PhoneMapper

if TYPE_CHECKING:
    from speechctc.corpora.word_phones import WordPhones

_PLACES = ("_B", "_I", "_E", "_S")  # begin, inside, end, and a word of one phone
# Labels of several, doubtful ones, errors and brackets: t,d,s aɪ? t>d *t [m]; of X-SAMPA, t_> and >\ are phones.
_SEVERAL = re.compile(r".+[,;?*/)\]].*|.*[^_]>(?!\\).*|[,;*/(\[<].+")

LOST = 0.1  # most of the utterances of a speaker in dev that may have labels that no training speaker has
LOST_FOR_LANGUAGE = 0.25  # the same, where dev has no other speaker of the language
MIN_DEV_STRINGS = 5  # different label strings in dev, of fewer of which its score says little


@dataclass
class CorpusBuilder:
    """Collects the utterances and rejected utterances of each split while a corpus is read.

    Parameters
    ----------
    phones : Inventory, optional
        The phone set of the labels; None: the labels of the training split.
    ignored : sequence of str
        Labels that are not phones and are left out.
    rules : LabelRules
        How labels are read as phones.
    """

    phones: Inventory | None
    ignored: Sequence[str] = ()
    rules: LabelRules = field(default_factory=LabelRules)
    utterances: dict[str, list[Utterance]] = field(default_factory=lambda: {split: [] for split in SPLITS})
    rejected: dict[str, list[Rejected]] = field(default_factory=lambda: {split: [] for split in SPLITS})
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def for_config(cls, config: CorpusConfig) -> CorpusBuilder:
        """Return a builder with the phone set and the rules of labels of a config, whose ``auto`` means ``found``."""
        table = LabelMap({}) if config.map is None else read_map(config.map)
        marks: dict[Kind, str] = {kind: getattr(config, kind) for kind in KINDS}
        phones = None if config.phones in ("auto", FOUND) else named_inventory(config.phones)
        divided = [kind for kind in ("diphthongs", "affricates") if getattr(config, kind) == "split"]
        builder = cls(phones, config.ignore, LabelRules(table.phones, config.segment, marks, divided, config.notation))
        builder.warnings += [table.note] * bool(table.note)
        return builder

    def __post_init__(self) -> None:
        self._form = cache(self._as_seen)  # equal labels are one object, so that a large corpus takes less memory
        self._unseen: list[str] = []  # labels with signs that nobody sees, as they are read
        self._ignored = frozenset(nfc(seen(label)) for label in self.ignored)
        self._left_out: Counter[str] = Counter()
        self._nonspeech = NonSpeech()
        self._written: Counter[str] = Counter()  # labels before marks are split off, where each should be a phone

    def _as_seen(self, label: str) -> str:
        """Return a label in NFC without the signs that nobody sees, which web pages and other programs put into it."""
        shown = seen(label)
        self._unseen += [nfc(shown)] * (shown != label)
        return nfc(shown)

    def keeps(self, label: str) -> bool:
        """Return whether a label is not one of those to ignore; count those that are."""
        kept = nfc(label) not in self._ignored
        if not kept:
            self._left_out[nfc(label)] += 1
        return kept

    def labels(self, raw: Iterable[str]) -> tuple[list[str], list[int]]:
        """Return the phones of labels in the spelling of the phone set, and the index in `raw` of the label of each.

        Raises
        ------
        InputError
            A label is not in the phone set, or all are noise that is left out.
        """
        labels = tuple(map(self._form, from_praat(list(raw))))
        if self.rules.is_plain and self._ignored.isdisjoint(labels):
            chosen, kept = list(labels), list(range(len(labels)))
        else:
            if self.rules.segment == "labels":
                self._written.update(labels)
            used = [k for k, label in enumerate(labels) if label not in self._ignored]
            pairs = [
                (phone, k) for k in used for phone in self.rules.phones(self._undivided(labels[k], len(labels) == 1))
            ]
            kept = [k for phone, k in pairs if phone not in self._ignored]
            chosen = [phone for phone, _ in pairs if phone not in self._ignored]
            self._left_out.update(label for label in labels if label in self._ignored)
            self._left_out.update(phone for phone, _ in pairs if phone in self._ignored)
        if self.phones is not None:
            chosen, kept = self._speech(chosen, kept, self.phones)
            chosen = self.phones.decode(self.phones.encode(chosen))
        if not chosen and (
            noise := first_few([each for each in labels if is_unclear(each) and each not in self._ignored])
        ):
            raise InputError(f"no phones in it, only noise and unclear speech: {noise}", "leave it out, or label it")
        return chosen, kept

    def _undivided(self, label: str, is_alone: bool) -> str:
        """Return a label without parts that would be divided into phones, though they are none; count these.

        One that `is_alone` may be a word in IPA, such as ``sil``.
        """
        if self.rules.segment != "ipa" or (is_alone and label in SILENCES):
            return label
        kinds = {part: kind_of_phone(part) for part in label.split()}
        for part in filter(kinds.get, label.split()):
            self._nonspeech.found[kinds[part] or "noise"][part] += 1
        return " ".join(part for part in label.split() if not kinds.get(part)) if any(kinds.values()) else label

    def _speech(self, chosen: list[str], kept: list[int], phones: Inventory) -> tuple[list[str], list[int]]:
        """Return labels without pauses and noise that a named set lacks, and the index of each; count these."""
        lacking = {label for label in set(chosen) if phones.normalise(label) not in phones.phones}
        if not (others := {label: kind for label in lacking if (kind := kind_of_phone(label))}):
            return chosen, kept
        for label in filter(others.__contains__, chosen):
            self._nonspeech.found[others[label]][label] += 1
        left = [k for k, label in enumerate(chosen) if label not in others]
        return [chosen[k] for k in left], [kept[k] for k in left]

    def to_corpus(self, dev_share: float, without_dev: bool, words: WordPhones | None = None) -> Corpus:
        """Return the corpus; where `without_dev`, a share of the training utterances becomes dev.

        Of those whose phones were read from `words`, phones that training lacks become the nearest it has.
        """
        if words is not None:
            self.notes += words.notes()
            self.warnings += words.warnings()
        if without_dev and self.utterances["train"]:
            held, note = choose_dev(self.utterances["train"], dev_share, self.phones is not None)
            train = self.utterances["train"]
            self.utterances["dev"] = [utterance for utterance in train if utterance.id in held]
            self.utterances["train"] = [utterance for utterance in train if utterance.id not in held]
            self.notes.append(note)
            self._warn_of_languages_without_dev()
        phones = self.phones or self._find_phones(words.words if words else ())
        self.notes += self.rules.notes()
        if unused := self.rules.unused():
            self.warnings.append(f"corpus.map names labels that do not occur: {first_few(unused)}")
        if self._left_out:
            self.notes.append(f"labels left out, as corpus.ignore says: {counted(self._left_out)}")
        self.notes += self._nonspeech.notes("phones")
        if self._unseen:
            self.warnings.append(note_text("unseen", count=len(self._unseen), labels=first_few(self._unseen, 4)))
        if absent := sorted(self._ignored - set(self._left_out) - (words.met if words else set())):
            self.warnings.append(f"corpus.ignore names labels that do not occur: {first_few(absent)}")
        everything = [utterance for split in SPLITS for utterance in self.utterances[split]]
        if self.phones is None:
            counts = Counter(chain.from_iterable(each.phones for each in everything))
            self.warnings += doubtful_labels(counts, self._written or counts)
            if self.rules.segment == "labels" and not are_strings(self._written or counts):
                self.warnings += some_strings(everything)
        corpus = Corpus(
            {split: tuple(sorted(self.utterances[split], key=lambda utterance: utterance.id)) for split in SPLITS},
            phones.name,
            {split: tuple(self.rejected[split]) for split in SPLITS},
            tuple(self.notes),
            tuple(self.warnings),
            dev_from_train=without_dev and bool(self.utterances["dev"]),
        )
        return words.add_to(corpus, self.rules) if words is not None else corpus

    def warn_of(self, paths: Sequence[Path], what: str) -> None:
        """Add a warning: what is wrong with some files, how many they are, and the names of a few."""
        if paths:
            self.warnings.append(f"{what} ({len(paths)}): {first_few([str(path) for path in paths], 5)}")

    def warn_of_formats(self, paths: Iterable[Path]) -> None:
        """Add a warning if recordings need ffmpeg and it is not installed."""
        if missing := ffmpeg.missing_for(paths):
            self.warnings.append(missing)

    def _warn_of_languages_without_dev(self) -> None:
        train, dev = (Counter(each.trait("language") for each in self.utterances[split]) for split in ("train", "dev"))
        if dev and (without := Counter({name: count for name, count in train.items() if name and name not in dev})):
            self.warnings.append(note_text("without dev", languages=counted(without, 20)))

    def _find_phones(self, from_words: Container[str]) -> Inventory:
        """Return the labels of the training split, or of all if it is empty.

        Utterances of other splits that have other labels are rejected.
        """
        if not self.utterances["train"]:
            everything = chain.from_iterable(self.utterances.values())
            return inventory_of(chain.from_iterable(each.phones for each in everything))
        phones = inventory_of(chain.from_iterable(each.phones for each in self.utterances["train"]))
        self.notes.append(f"phone set: the {len(phones.phones)} labels of the training split")
        looks = {spelling_key(phone): f" (looks like {phone})" for phone in phones.phones}
        nearest = PhoneMapper(phones.phones, None)
        for split in ("dev", "test"):
            known, unknown = [], Counter[str]()
            for utterance in self.utterances[split]:
                missing = sorted(set(utterance.phones) - set(phones.phones))
                if not missing:
                    known.append(utterance)
                elif utterance.id in from_words and (written := nearest.map(utterance.phones)):
                    known.append(replace(utterance, phones=written))
                else:
                    unknown.update(missing)
                    odd = " ".join(f"{label}{looks.get(spelling_key(label), '')}" for label in missing)
                    reason = f"labels that are not in the training split: {odd}"
                    self.rejected[split].append(Rejected(utterance.id, reason))
            if unknown:
                count = len(self.utterances[split]) - len(known)
                self.warnings.append(note_text("unknown", split=split, count=count, labels=counted(unknown)))
            self.utterances[split] = known
        if nearest.nearest:
            pairs = first_few([f"{phone} as {to}" for phone, to in sorted(nearest.nearest.items())], 20)
            self.notes.append(note_text("nearest", pairs=pairs))
        return phones


def doubtful_labels(counts: Counter[str], written: Counter[str]) -> list[str]:
    """Return warnings of labels, also as `written`, that may be mistakes: spellings, notations, strings, pauses."""
    warnings = []
    if groups := spellings(counts):
        warnings.append(note_text("spellings", groups=first_few(groups)))
    if pairs := notation_pairs(counts):
        warnings.append(note_text("notations", pairs=first_few(pairs)))
    if is_xsampa(written) and is_xsampa(counts):
        warnings.append(note_of_xsampa("xsampa", written))
    if name := unread_notation(written):
        warnings.append(note_text("unread notation", name=name, labels=counted(written, 8)))
    if odd := Counter({label: counts[label] for label in counts if _is_several(label)}):
        warnings.append(note_text("several", labels=counted(odd, 5)))
    if signs := Counter({label: counts[label] for label in counts if _is_sign(label)}):
        warnings.append(note_text("signs", labels=counted(signs, 8)))
    if placed := with_places(counts):
        warnings.append(note_text("positions", labels=counted(placed, 5)))
    if are_strings(written):
        warnings.append(note_text("strings", labels=counted(written, 3)))
    for kind, there, names in not_phones(counts):
        warnings.append(note_text("doubtful", kind=kind, labels=counted(there), names=names))
    return warnings


def _is_several(label: str) -> bool:
    """Return whether a label has a sign that no phone has, and is neither a pause nor unclear speech."""
    return _SEVERAL.fullmatch(label) is not None and not kind_of_phone(label)


def _is_sign(label: str) -> bool:
    """Return whether a label is punctuation without a letter, and neither a pause nor unclear speech."""
    kinds = {unicodedata.category(sign) for sign in label} - {"Sk"}  # modifiers, such as letters of tones
    return all(kind[0] in "PS" for kind in kinds) and bool(kinds) and not kind_of_phone(label)


def some_strings(utterances: Sequence[Utterance]) -> list[str]:
    """Return a warning if labels of some utterances look like strings of IPA, of the phones that others have."""
    strings = [each.phones for each in utterances if 2 * sum(map(is_syllable, each.phones)) > len(each.phones)]
    counts = Counter(chain.from_iterable(strings))
    phones = {phone for each in utterances for phone in each.phones} - set(counts)
    symbols = {symbol for label in counts for symbol in segment_ipa(label)}
    if not symbols or 2 * len(symbols & phones) <= len(symbols):
        return []
    return [note_text("some strings", count=len(strings), all=len(utterances), labels=counted(counts, 3))]


def note_of_xsampa(name: str, counts: Mapping[str, int]) -> str:
    """Return a note with some of the labels that are X-SAMPA and not IPA, and their counts."""
    return note_text(
        name, labels=counted(Counter({each: counts[each] for each in counts if from_xsampa(each) != each}), 5)
    )


def spellings(counts: Counter[str]) -> list[str]:
    """Return the labels that may be one phone in several spellings, with their counts, a text for each phone."""
    groups = spelling_variants(counts)
    return [" and ".join(f"{with_code_points(label)} ({counts[label]})" for label in group) for group in groups]


def notation_pairs(counts: Counter[str]) -> list[str]:
    """Return the labels in ARPABET or X-SAMPA beside those of the same sound in IPA, with their counts."""
    return [f"{label} ({counts[label]}) and {sound} ({counts[sound]})" for label, sound in mixed_notations(counts)]


def with_places(counts: Counter[str]) -> Counter[str]:
    """Return the labels that end with a place in the word (b_B, ae_I), if most do, and with several places."""
    placed = Counter({label: count for label, count in counts.items() if label[-2:] in _PLACES and label[:-2]})
    is_of_kaldi = 2 * len(placed) > len(counts) and len({label[-1] for label in placed}) > 1
    return placed if is_of_kaldi else Counter()


def not_phones(counts: Counter[str]) -> Iterator[tuple[str, Counter[str], str]]:
    """Yield the labels of pauses and of unclear speech: what they are, their counts, and their names in quotes."""
    for kind, is_one in (("pauses", is_pause), ("unclear speech", is_unclear)):
        if there := Counter({label: count for label, count in counts.items() if is_one(label)}):
            yield kind, there, ", ".join(f"'{label}'" for label in sorted(there))


def hold_out(
    labels: Mapping[str, Iterable[Collection[str]]],
    count: int,
    lost: float = 0.0,
    languages: Mapping[str, str] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> list[str]:
    """Choose names to hold out from training, whose labels also occur in what stays.

    The order of the choice depends only on the names, so that a new name rarely changes the choice among the others.

    Parameters
    ----------
    labels : mapping of str to iterable of collection of str
        By the name of a speaker or recording, the labels of each of its utterances.
    count : int
        Number of names to hold out, or the sum of their `sizes`. At least one stays.
    lost : float
        Share of the utterances of a name that may have labels that do not occur in what stays.
    languages : mapping of str to str, optional
        The language of each name. One name of each of several languages comes first, if need be with a share of
        `LOST_FOR_LANGUAGE`, and one of each stays.
    sizes : mapping of str to int, optional
        What each name counts for, if not one.

    Returns
    -------
    held : list of str
        For at most `count`; fewer where no more can be held out.
    """
    sets = {name: [set(each) for each in utterances] for name, utterances in labels.items()}
    own = {name: set[str]().union(*utterances) for name, utterances in sets.items()}
    left = Counter(label for each in own.values() for label in each)
    of, size = languages or dict.fromkeys(sets, ""), sizes or dict.fromkeys(sets, 1)
    staying, served = Counter(of[name] for name in sets), set[str]()
    held: dict[str, None] = {}
    passes = [(True, lost), (True, max(lost, LOST_FOR_LANGUAGE))] if len({*of.values()}) > 1 else []
    for (is_first, may_lose), name in product((*passes, (False, lost)), sorted(sets, key=shuffled)):
        if count < 1:
            break
        if name in held or size[name] > count or staying[of[name]] < 2 or (is_first and of[name] in served):
            continue
        alone = {label for label in own[name] if left[label] == 1}
        if sum(not each.isdisjoint(alone) for each in sets[name]) <= may_lose * len(sets[name]):
            held[name] = None
            count -= size[name]
            left.subtract(own[name])
            staying[of[name]] -= 1
            served.add(of[name])
    return list(held)


def choose_dev(utterances: Sequence[Utterance], share: float, named: bool = False) -> tuple[frozenset[str], str]:
    """Choose the training utterances that become dev: whole speakers, or utterances where speakers are not known.

    Speakers are chosen whose labels and language occur in training, too, first one of each language. Where there are
    too few of those, as in a folder of several languages with one speaker each, utterances are chosen instead: all
    that have the same labels in order, or none of them, where that leaves enough.

    Parameters
    ----------
    utterances : sequence of Utterance
    share : float
        Share of the speakers, or of the utterances. At least one becomes dev, and at least one stays in training.
    named : bool
        The phone set is a named one, which holds all labels: the choice is by names alone.

    Returns
    -------
    dev : frozenset of str
        The ids of the utterances of dev.
    note : str
        What was chosen, for the user.
    """
    speakers = {utterance.speaker for utterance in utterances}
    why = "all are by one speaker" if len(speakers) == 1 and "" not in speakers else "not all name their speaker"
    if len(speakers) > 1 and "" not in speakers:
        chosen, count = _dev_speakers(utterances, share, named)
        if 2 * len(chosen) >= count:
            dev = frozenset(utterance.id for utterance in utterances if utterance.speaker in chosen)
            names = first_few(sorted(chosen))
            return dev, note_text("dev of speakers", count=len(chosen), all=len(speakers), names=names)
        why = f"too few of {len(speakers)} speakers can be held out, because others lack their labels or language"
    if len(utterances) < 2:
        return frozenset(), "dev: none, because there is only one training utterance"
    ids = _dev_utterances(utterances, share, named)
    if not ids:
        return ids, "dev: none, because each utterance has a label that no other has; label more recordings"
    return ids, note_text("dev", count=len(ids), all=len(utterances), why=why)


def _dev_speakers(utterances: Sequence[Utterance], share: float, named: bool) -> tuple[list[str], int]:
    """Return the speakers of dev, and how many were wanted."""
    by_speaker: defaultdict[str, list[Collection[str]]] = defaultdict(list)
    for utterance in utterances:
        by_speaker[utterance.speaker].append(() if named else utterance.phones)
    count = _count(len(by_speaker), share)
    spoken = {utterance.speaker: utterance.trait("language") for utterance in utterances}
    chosen = hold_out(by_speaker, count, 0.0, spoken)
    if len(chosen) < count:
        chosen = max(chosen, hold_out(by_speaker, count, LOST, spoken), key=len)
    return chosen, count


def _dev_utterances(
    utterances: Sequence[Utterance], share: float, named: bool, together: bool = True
) -> frozenset[str]:
    """Return utterances of dev: `together` those of the same labels, where that leaves enough."""
    groups: defaultdict[object, list[Utterance]] = defaultdict(list)
    for utterance in sorted(utterances, key=lambda each: each.id):
        spoken = utterance.trait("language"), utterance.phones
        groups[spoken if together and utterance.phones else utterance.id].append(utterance)
    by_first = {group[0].id: group for group in groups.values()}
    labels = {first: [() if named else group[0].phones] for first, group in by_first.items()}
    languages = {first: group[0].trait("language") for first, group in by_first.items()}
    count = _count(len(utterances), share)
    held = hold_out(labels, count, 0.0, languages, {first: len(group) for first, group in by_first.items()})
    ids = frozenset(each.id for first in held for each in by_first[first])
    if together and (2 * len(ids) < count or len(held) < min(count, MIN_DEV_STRINGS)):
        return _dev_utterances(utterances, share, named, False)
    return ids


def _count(names: int, share: float) -> int:
    return min(max(round(share * names), 1), names - 1)


def shuffled(name: str) -> bytes:
    """Return a key that orders names without regard to what they mean."""
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()
