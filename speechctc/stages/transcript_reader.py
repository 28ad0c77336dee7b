"""Reads transcripts for a model: labels as phones that it has, words by their pronunciations, in one language or more.

What a reader makes of a transcript is a `Job`, which can go to another thread or machine; the reader, with its
dictionaries and eSpeak NG, stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from speechctc.audio import sound_file
from speechctc.core.errors import InputError, first_few
from speechctc.core.parallel import attempt
from speechctc.corpora.spoken import without_nonspeech
from speechctc.corpora.transcripts import Labels, Task, Transcript
from speechctc.inference.hearing import Hearing
from speechctc.inference.segmenter import WHOLE
from speechctc.inference.transcript import Items, Phrase, Unit, parse_phones, parse_words
from speechctc.phones.articulation import is_arpabet, sounds_of
from speechctc.phones.espeak import phones_of_language
from speechctc.phones.inventory import SILENCES, Inventory
from speechctc.phones.label_rules import may_be_phone
from speechctc.phones.nonspeech_labels import ANY
from speechctc.phones.notations import notation_of, xsampa_in_ipa
from speechctc.phones.pronouncer import Pronouncer, check_length

PhrasesOrError = tuple[Phrase, ...] | InputError  # a transcript to place, or the reason why there is none
EXAMPLES = 8  # words without a pronunciation, to be named


class ReadingOptions(NamedTuple):
    """What a user says of transcripts, and of how they are to be placed.

    Attributes
    ----------
    labels : str
        What they hold.
    dictionary, language : Path, str or None
        What reads words.
    only_ipa : bool
        The words are in IPA, and need neither a dictionary nor a language.
    is_of_rows : bool
        Words of a language that a table names are read in that language; else all are read alike.
    find_misfits : bool or None
        Mark what is missing from the recordings, and what they hold beyond the transcripts; None: only say so.
    silence : str or None
        Phones of the model that may stand between words, separated by spaces; None: where the transcripts hold words,
        all labels of silence.
    keep : bool
        Keep the labels of the dictionary and of eSpeak NG, which are heard as phones of the model; False: write those.
        English of eSpeak NG is always written in ARPABET for a model of ARPABET.
    show_intervals : bool
        TextGrids get a tier of points for the intervals of the boundaries.
    first_variant : bool
        Of the pronunciations of a word, only the first is taken.
    ignored : tuple of str
        Labels that are neither phones nor words, beside those that are known.
    """

    labels: Labels = "phones"
    dictionary: Path | None = None
    language: str | None = None
    only_ipa: bool = False
    is_of_rows: bool = False
    find_misfits: bool | None = False
    silence: str | None = None
    keep: bool = True
    show_intervals: bool = False
    first_variant: bool = False
    ignored: tuple[str, ...] = ()


class Placing(NamedTuple):
    """How a transcript that was read is placed.

    Attributes
    ----------
    hearing : Hearing, optional
        The phones keep their labels, which are heard as phones of the model; None: they are its own.
    find_misfits, show_intervals
        As of `ReadingOptions`.
    silences : tuple of str
        Phones of the model that may stand between words.
    spelled : mapping of str to str
        The labels of the transcript, by how they are written in IPA, as they are placed.
    merged : mapping of str to tuple of str
        By phone, those that the model cannot tell from it, if phones are scored.
    """

    hearing: Hearing | None
    find_misfits: bool | None
    silences: tuple[str, ...]
    show_intervals: bool
    spelled: Mapping[str, str]
    merged: Mapping[str, tuple[str, ...]]


class Job(NamedTuple):
    """A recording, how its transcript is placed, the language of its words (None: it has phones), and its phrases."""

    task: Task
    placing: Placing
    language: str | None
    phrases: PhrasesOrError


class _Voice(NamedTuple):
    """What reads the transcripts of a language: their words (None: they are phones), and labels that are kept.

    `merged`: by phone, those that the model cannot tell from it.
    """

    pronouncer: Pronouncer | None
    hearing: Hearing | None
    merged: Mapping[str, tuple[str, ...]] = {}


class TranscriptReader:
    """Reads transcripts as phones of a model.

    Parameters
    ----------
    inventory : Inventory
        The phones of the model.
    options : ReadingOptions

    Raises
    ------
    InputError
        Words, and nothing to read them; or a dictionary or a language, and no words; or `silence` has other phones.
    """

    def __init__(self, inventory: Inventory, options: ReadingOptions) -> None:
        self.inventory, self.options = inventory, options
        is_read = options.dictionary or options.language
        if options.labels == "phones" and is_read:
            what = "--dictionary and --language read words, and there are none"
            raise InputError(what, "give the words with --words")
        if options.labels == "words" and not (is_read or options.only_ipa):
            fix = "give --language en-us or another, --dictionary FILE, or a table with the language of each row"
            fix = f"{fix}; IPA needs none, between slashes if it may be spelling"
            raise InputError("--words needs pronunciations", fix)
        own = [phone for phone in inventory.phones if phone in SILENCES] if options.labels == "words" else []
        self.silences = tuple(own if options.silence is None else options.silence.split())
        if unknown := [phone for phone in self.silences if phone not in inventory.phones]:
            what = f"--silence {unknown[0]}: not a phone of the model"
            raise InputError(what, f"choose of {' '.join(inventory.phones)}")
        self._voices = {"": self._voice(options.language, options.only_ipa)}
        self._spelled: dict[str, str] = {}
        self._is_arpabet, self._rows = False, set[str]()  # of labels of phones: those of two
        self._is_scored = False

    @property
    def pronouncer(self) -> Pronouncer | None:
        """What reads the words of transcripts that name no language; None: they hold phones."""
        return self._voices[""].pronouncer

    @property
    def hearing(self) -> Hearing | None:
        """What hears the labels of these transcripts as phones of the model; None: they are its own."""
        return self._voices[""].hearing

    @property
    def languages(self) -> list[str]:
        """The languages that words were read in."""
        return [each.pronouncer.language for each in self._voices.values() if each.pronouncer]

    @property
    def merged(self) -> dict[str, tuple[str, ...]]:
        """By phone of all languages that were read, those that the model cannot tell from it, as they were written."""
        found = {label: others for each in self._voices.values() for label, others in each.merged.items()}
        written = self._spelled
        return {written.get(a, a): tuple(written.get(b, b) for b in others) for a, others in found.items()}

    def _voice(self, language: str | None, only_ipa: bool = False) -> _Voice:
        """Return what reads transcripts; words in a language, or in IPA."""
        own, options = self.inventory.phones, self.options
        if options.labels == "phones":
            return _Voice(None, None if is_arpabet(own) else Hearing(self.inventory, own))
        if options.keep:
            pronouncer = Pronouncer(options.dictionary, language, only_ipa=only_ipa)
            if not (pronouncer.is_english and is_arpabet(own)):
                pronouncer.check(self.inventory)
                return _Voice(pronouncer, Hearing(self.inventory, pronouncer.labels))
        return _Voice(Pronouncer(options.dictionary, language, self.inventory, only_ipa), None)

    def prepare(self, tasks: Sequence[Task], is_scored: bool = False) -> tuple[list[Task], list[str]]:
        """Look at all transcripts before they are read: return them with labels of speech only, and notes on others.

        Labels in X-SAMPA or ARPABET are told from all of them, and so is IPA in place of words. Where phones are to be
        scored, the reader finds out which of them the model does not tell apart.
        """
        self._is_scored = is_scored
        tasks = self._in_ipa(tasks)
        tasks, left_out = without_nonspeech(tasks, None if self.pronouncer else self.inventory, self.options.ignored)
        if self.pronouncer is None:
            self._tell_notation(_labels_of(tasks) - {ANY})
        self._voices[""] = self._with_merged(self._voices[""], tasks)
        if self.pronouncer:
            read = [each.transcript for each in tasks if isinstance(each.transcript, Transcript)]
            self.pronouncer.detect_ipa([" ".join(each.labels) for each in read])
        return tasks, left_out

    def _in_ipa(self, tasks: Sequence[Task]) -> list[Task]:
        """Return transcripts of phones in IPA, if they are in X-SAMPA, and remember how they were written.

        They are if a model of another notation lacks some of the labels, and all can be.
        """
        found = _labels_of(tasks) - {ANY}
        told = xsampa_in_ipa(found) if self.pronouncer is None and self._is_other_in_ipa(found) else {}
        self._spelled = {sound: label for label, sound in sorted(told.items(), reverse=True) if sound != label}
        return [_spelled(task, told) for task in tasks]

    def _is_other_in_ipa(self, labels: Iterable[str]) -> bool:
        """Return whether a model in IPA lacks some labels."""
        own = self.inventory.phones
        in_ipa = 2 * sum(sounds_of(phone) != () for phone in own) > len(own) and notation_of(own) == "ipa"
        return in_ipa and any(self.inventory.normalise(label) not in own for label in labels)

    def _tell_notation(self, labels: Collection[str]) -> None:
        """Hear labels in ARPABET as such, with a model in IPA; find labels of two phones, if most are of one."""
        if self._is_other_in_ipa(labels) and is_arpabet([*labels]):
            self._voices[""] = _Voice(None, Hearing(self.inventory, sorted(labels)))
            self._is_arpabet = True
        elif self.hearing is not None:
            rows = {label for label in labels if not self._may_be_phone(label) and self.hearing.knows_row(label)}
            self._rows = rows if 2 * len(rows) < len(labels) else set()

    def read(self, task: Task) -> Job:
        """Return a transcript as phones of the model, or the error that says why not; words in their language."""
        language = task.transcript.language if isinstance(task.transcript, Transcript) else ""
        try:
            voice = self._voice_of(language)
        except InputError as error:
            voice = _Voice(None, self.hearing)
            return self._job(task, voice, InputError(f"{task.recording.path}: {error.what}", error.fix))
        return self._job(task, voice, self._phrases(task, voice))

    def _job(self, task: Task, voice: _Voice, phrases: PhrasesOrError) -> Job:
        options = self.options
        how = options.find_misfits, self.silences, options.show_intervals, self._spelled
        return Job(
            task,
            Placing(voice.hearing, *how, voice.merged),
            voice.pronouncer.language if voice.pronouncer else None,
            phrases,
        )

    def _voice_of(self, language: str) -> _Voice:
        """Return what reads transcripts of a language that a table names, or ``""``."""
        if language and language not in self._voices and self.pronouncer and self.options.is_of_rows:
            self._voices[language] = self._with_merged(self._voice(language), ())
        voice = self._voices.get(language, self._voices[""])
        if voice.pronouncer and self.pronouncer:
            voice.pronouncer.is_for_ipa = self.pronouncer.is_for_ipa
        return voice

    def _with_merged(self, voice: _Voice, tasks: Sequence[Task]) -> _Voice:
        """Return a voice that knows, if phones are scored, which of them are merged.

        They are those of the dictionary or the language, or, where there are no words, of the transcripts.
        """
        own, pronouncer = self.inventory, voice.pronouncer
        if not self._is_scored:
            return voice
        if pronouncer is None:
            found = [task.transcript.labels for task in tasks if isinstance(task.transcript, Transcript)]
            labels = dict.fromkeys(label for each in found for label in each if self._may_be_phone(label))
            others = [*labels] if self._is_arpabet else ()
            return voice._replace(merged=Hearing(own, others).merged([*labels], True) if voice.hearing else {})
        if pronouncer.is_english and is_arpabet(own.phones):
            return voice  # its phones are those of the model
        read = phones_of_language(pronouncer.language) if pronouncer.language and not pronouncer.labels else ()
        labels = dict.fromkeys((*pronouncer.labels, *read))
        return voice._replace(merged=Hearing(own, pronouncer.labels).merged([*labels]))

    def _phrases(self, task: Task, voice: _Voice) -> PhrasesOrError:
        """Return a transcript to place, in one part or in those that have limits, or the error that says why not."""
        path, transcript = task.recording.path, task.transcript
        if isinstance(transcript, InputError):
            return transcript
        where = f" in {transcript.file}" if transcript.file else ""
        try:
            if voice.pronouncer and (sound := attempt(sound_file.info, path)) and not isinstance(sound, InputError):
                check_length(" ".join(transcript.labels), sound.seconds)
            parts = transcript.phrases if len(transcript.phrases) > 1 else ()
            whole = Phrase(*WHOLE, self._items(transcript.labels, voice))  # all: errors name all unknown words
            phrases = [Phrase(each.start, each.end, self._items(each.labels, voice)) for each in parts]
        except InputError as error:
            return InputError(f"{path}: {error.what}{where}", error.fix)
        if not whole.items:
            what = "words" if voice.pronouncer else "phones"
            return InputError(f"{path}: no {what} to align{where}", "give some, separated by spaces")
        if len(transcript.phrases) == 1:
            phrases = [whole._replace(start=transcript.phrases[0].start, end=transcript.phrases[0].end)]
        return tuple(each for each in phrases if each.items) or (whole,)

    def _items(self, labels: Sequence[str], voice: _Voice) -> Items:
        """Return the items of phones or words."""
        pronouncer, hearing = voice.pronouncer, voice.hearing
        if pronouncer is None:
            return parse_phones(labels, self.inventory.phones, lambda label: self._phone(label, hearing))
        return parse_words(" ".join(labels), lambda text: self._words(text, pronouncer, hearing))

    def _phone(self, label: str, hearing: Hearing | None) -> Unit:
        """Return a phone as a unit; one that the model lacks is placed as the nearest phone, a diphthong as its vowels.

        A label of two other sounds, without a tie, is placed as these if it is not one of many, which may be words.
        """
        if hearing is None or (not self._is_arpabet and self.inventory.normalise(label) in self.inventory.phones):
            return Unit(label, ((label,),))
        is_heard = label in self._rows or (self._may_be_phone(label) and hearing.knows([label]))
        return Unit(label, (hearing.parts([label]) if is_heard else (label,),))

    def _may_be_phone(self, label: str) -> bool:
        return self._is_arpabet or may_be_phone(label, self.inventory.phones)

    def _words(self, text: str, pronouncer: Pronouncer, hearing: Hearing | None) -> list[Unit]:
        """Return the words of a text with their pronunciations, without those that the model cannot hear."""
        words, most = pronouncer.read(text), 1 if self.options.first_variant else None
        if hearing:
            known = (tuple(map(hearing.parts, filter(hearing.knows, word.pronunciations))) for word in words)
            words = [word._replace(pronunciations=readings) for word, readings in zip(words, known, strict=True)]
        if unknown := sorted({word.text for word in words if not word.pronunciations}):
            named = ", ".join(unknown[:EXAMPLES]) + (" and others" if len(unknown) > EXAMPLES else "")
            fix = "add them to the dictionary, or write * in their place"
            if not (pronouncer.has_dictionary or pronouncer.language):
                fix = "give --language, or IPA between slashes (/kata/)"
            raise InputError(f"no pronunciation for {named}", fix)
        units = (Unit(word.text, word.pronunciations[:most]) for word in words)
        once = dict[Unit, Unit]()  # of hours, a unit for each word would be large
        return [once.setdefault(unit, unit) for unit in units]

    def notes(self) -> list[str]:
        """Return what is to be said of how the transcripts were read, when all are."""
        pairs = [f"{label} as {sound}" for sound, label in sorted(self._spelled.items())]
        spelled = [f"labels read as X-SAMPA: {first_few(pairs)}"] if pairs else []
        said = chain.from_iterable(each.pronouncer.notes() for each in self._voices.values() if each.pronouncer)
        heard = [each.hearing.note() for each in self._voices.values() if each.hearing]
        return [*filter(None, [*spelled, *said, *heard])]


def _labels_of(tasks: Iterable[Task]) -> set[str]:
    """Return all labels of transcripts."""
    return {label for task in tasks if isinstance(task.transcript, Transcript) for label in task.transcript.labels}


def _spelled(task: Task, written: Mapping[str, str]) -> Task:
    """Return a transcript with its labels written otherwise."""
    transcript = task.transcript
    if isinstance(transcript, InputError) or not written:
        return task

    def all_of(labels: Iterable[str]) -> tuple[str, ...]:
        return tuple(written.get(label, label) for label in labels)

    phrases = tuple(each._replace(labels=all_of(each.labels)) for each in transcript.phrases)
    return task._replace(transcript=transcript._replace(labels=all_of(transcript.labels), phrases=phrases))
