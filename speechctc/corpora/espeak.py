"""Corpora that eSpeak NG speaks, in a process of its own: the demo, labelled as TIMIT, and others in any language.

Phones of a language are in IPA, or English ones in a phone set that the config names.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import cycle, groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from speechctc.audio.annotations import Interval
from speechctc.config.schema import CorpusConfig
from speechctc.core.errors import InputError
from speechctc.core.parallel import WorkerEnded, attempt, in_processes
from speechctc.core.text_files import read_tables
from speechctc.corpora.corpus import Corpus
from speechctc.corpora.synthetic import Speaker, Speech, Synthesis, read_sentences, read_synthetic, sample_speakers
from speechctc.phones import espeak
from speechctc.phones.inventory import FOUND, named_inventory
from speechctc.phones.languages import find_voice
from speechctc.phones.pronouncer import PhoneMapper, cmu_sources

MAX_WAITING = 4  # speakers whose speech may wait in memory

VARIANTS: dict[str, dict[str, tuple[str, ...]]] = {
    split: {sex: tuple(names.split()) for sex, names in by_sex.items()}
    for split, by_sex in read_tables(__file__)["variants"].items()
}


def read_espeak(root: Path, config: CorpusConfig) -> Corpus:
    """Read the corpus of a config; it is made first if it does not exist.

    Raises
    ------
    InputError
        As `speechctc.corpora.synthetic.read_synthetic`; or the config names no language or text, or one that is not
        there; or eSpeak NG is not installed.
    """
    settings, languages = config.espeak, _languages(config)
    if settings.text is None and not (root / "espeak.json").is_file():
        raise InputError("corpus.espeak.text is not set", "set it to a file of sentences, or to a table with words")
    sentences = read_sentences(settings.text, settings.words) if settings.text is not None else None
    target = None if config.phones in ("auto", FOUND) else named_inventory(config.phones).phones
    native: set[str] = set()
    facts: dict[str, object] = {"nearest": []}

    def speak() -> Iterator[tuple[Speaker, Iterator[Speech]]]:
        for language in languages:
            espeak.Reader(language)  # raises here and now if eSpeak NG does not speak it
        for speaker, spoken in speak_all(_sample_speakers(config, languages, sentences or ()), "corpus"):
            facts["espeak"] = spoken.version
            yield speaker, (_labelled(each, spoken, native, target is not None) for each in spoken.speech)

    @lru_cache(maxsize=1)
    def mapper() -> PhoneMapper:
        return PhoneMapper(target or sorted(native), "ipa" if target is None else "arpabet")

    def relabel(labels: Sequence[str]) -> Sequence[str] | None:
        """Write phones that only foreign words have as the nearest native ones."""
        written = mapper().map(labels)
        facts["nearest"] = [f"{phone} as {to}" for phone, to in sorted(mapper().nearest.items())]
        return written

    made_with = {"language": list(languages), **({"phones": config.phones} if target else {})}
    name = "corpus of eSpeak NG"
    return read_synthetic(root, config, Synthesis(name, settings, sentences, speak, made_with, facts, relabel))


def _languages(config: CorpusConfig) -> tuple[str, ...]:
    named = (config.language,) if isinstance(config.language, str) else config.language
    if isinstance(named, dict):
        raise InputError("corpus.language is a mapping, and corpus.kind is espeak", "list the languages: '[cy, ga]'")
    if not named:
        what = "corpus.language is not set, and corpus.kind is espeak"
        raise InputError(what, "set it (English: en-us, Welsh: cy, ...)")
    return named


def _sample_speakers(config: CorpusConfig, languages: Sequence[str], sentences: Sequence[str]) -> list[Speaker]:
    """Choose the speakers; languages and voices take turns."""
    settings, rng = config.espeak, random.Random(config.espeak.seed)
    turns = {}
    for split, variants in VARIANTS.items():
        names = [name for of_sex in variants.values() for name in of_sex]
        rng.shuffle(names)
        turns[split] = zip(cycle(languages), cycle(names), strict=False)
    return sample_speakers(settings, sentences, turns, settings.words_per_minute, settings.pitch)


def _labelled(speech: espeak.Speech, spoken: Spoken, native: set[str], to_cmu: bool) -> Speech:
    """Return speech with its phones; add those of the language to the native ones."""
    starts = [phoneme.sample for phoneme in speech.phonemes] + [len(speech.samples)]
    phones = []
    for phone in espeak.ipa_phones([phoneme.name for phoneme in speech.phonemes], ""):
        start, end = starts[phone.phoneme], starts[phone.last + 1]
        share = (end - start) / phone.parts
        phones.append(Interval(start + share * phone.part, start + share * (phone.part + 1), phone.label))
        if phone.language in ("", *spoken.codes):
            native.add(phone.label)
    phones = _in_cmu(phones) if to_cmu else phones
    return Speech(speech.samples, spoken.rate, phones[-1].end if phones else 0, phones)


def _in_cmu(phones: Sequence[Interval]) -> list[Interval]:
    """Return phones in IPA in the set of CMU's dictionary; one that is several there is divided equally."""
    made: list[Interval] = []
    for k, group in groupby(cmu_sources([phone.label for phone in phones]), key=lambda source: source[1]):
        labels = [label for label, _ in group]
        edges = np.linspace(phones[k].start, phones[k].end, len(labels) + 1).tolist()
        made += map(Interval, edges, edges[1:], labels)
    return made


class Spoken(NamedTuple):
    """What eSpeak NG spoke for one speaker, at `rate`, Hz: its version, and the codes of the language."""

    version: str
    rate: int
    codes: tuple[str, ...]
    speech: list[espeak.Speech]


def speak_all(speakers: Sequence[Speaker], name: str) -> Iterator[tuple[Speaker, Spoken]]:
    """Yield the speech of each speaker; a new process speaks, because only its first speech is reproducible.

    Parameters
    ----------
    speakers : sequence of Speaker
        Their voices are a language and a variant, or a variant: of American English, with eSpeak NG's own phonemes
        instead of IPA.
    name : str
        What a message calls the corpus.

    Raises
    ------
    InputError
        eSpeak NG is not installed or lacks a language, or the process was ended from outside.
    """
    espeak.Synthesiser.check()
    try:
        with in_processes(partial(attempt, _speak), speakers, 1, most=MAX_WAITING) as results:
            for speaker, result in zip(speakers, results, strict=True):
                if isinstance(result, InputError):  # an exception would have lost its kind on the way
                    raise result
                yield speaker, result
    except WorkerEnded:
        raise InputError(f"the process that speaks the {name} was ended from outside", "run it again") from None


@lru_cache(maxsize=1)
def _synthesiser(ipa: bool) -> espeak.Synthesiser:
    synthesiser = espeak.Synthesiser(ipa=ipa)
    synthesiser.seed(1)
    return synthesiser


def _speak(speaker: Speaker) -> Spoken:
    """Speak the texts of one speaker, in the process that speaks."""
    *language, variant = speaker.voice
    synthesiser = _synthesiser(bool(language))
    voices = [find_voice(name, synthesiser.voices()) for name in language]
    synthesiser.choose(variant, round(speaker.rate), round(speaker.pitch), *(voice.file for voice in voices))
    codes = tuple(code for voice in voices for code in voice.languages)
    speech = [synthesiser.speak(text) for text in speaker.texts.values()]
    return Spoken(synthesiser.version, synthesiser.rate, codes, speech)
