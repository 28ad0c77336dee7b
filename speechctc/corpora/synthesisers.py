"""Corpora that synthesisers speak: eSpeak NG in any language, eSpeak NG labelled as TIMIT (the demo), flite in English.

eSpeak NG speaks in a process of its own. Phones of a language are in IPA, or English ones in a phone set that the
config names. flite joins or models pieces of recordings of a person, where eSpeak NG computes formants: its speech is
nearer to what people's is like. Its phones are those of the CMU dictionary.

The demo converts phonemes of eSpeak NG's American English to phones of TIMIT, with times. The order of the phones and
nearly all boundaries are from the synthesiser. Three things that it does not mark follow rules:

- The closure of a stop: eSpeak NG is silent before the release of a voiceless stop, and of a voiced stop after a
  consonant. This silence, found in the samples, is labelled as the closure. A voiced stop after a vowel has a murmur
  before it, which is part of the event of the stop. It is labelled as the release (``b``) without ``bcl``, as TIMIT
  does where a closure could not be separated.
- A vowel with r is one event (``A@`` in "car"), and becomes two phones of equal length (``aa r``).
- An l after a vowel and not before one is spoken within the event of the vowel, and its own event is empty. Vowel and
  l get half of the vowel's event each.
"""

from __future__ import annotations

import dataclasses
import random
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import count, cycle, groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio.annotations import Interval
from speechctc.config.schema import CorpusConfig, DemoConfig
from speechctc.core.errors import InputError
from speechctc.core.parallel import WorkerEnded, attempt, in_processes, program
from speechctc.core.text_files import read_tables
from speechctc.corpora.corpus import SPLITS, Corpus, Utterance
from speechctc.corpora.synthetic import (
    Speaker,
    Speech,
    Synthesis,
    bundled_sentences,
    counts_of,
    read_sentences,
    read_synthetic,
    sample_speakers,
)
from speechctc.phones import espeak
from speechctc.phones.inventory import FOUND, named_inventory, pairs
from speechctc.phones.label_rules import fold_labels
from speechctc.phones.languages import find_voice
from speechctc.phones.pronouncer import PhoneMapper, cmu_sources

_TABLES = read_tables(__file__)

MAX_WAITING = 4  # speakers whose speech may wait in memory

VARIANTS: dict[str, dict[str, tuple[str, ...]]] = {
    split: {sex: tuple(names.split()) for sex, names in by_sex.items()} for split, by_sex in _TABLES["variants"].items()
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


FLITE_PROCESSES = 2  # at a time
PITCH = {"awb": 130.0, "rms": 110.0, "slt": 170.0, "kal16": 105.0}  # Hz, of each voice with 16 kHz and any text
FLITE_SILENCES = frozenset(("pau", "ssil", "brth", "h#"))
FLITE_TO_CMU = {"ax": "ah", "axr": "er"}
INSTALL_FLITE = "install flite (Debian, Ubuntu: apt install flite; macOS: brew install flite)"
FLITE_TIMEOUT = 60  # seconds that a sentence may take


def read_flite(root: Path, config: CorpusConfig) -> Corpus:
    """Read the corpus of a config; it is made first if it does not exist.

    Raises
    ------
    InputError
        As `speechctc.corpora.synthetic.read_synthetic`; or flite is not installed, or its text cannot be read.
    """
    settings = config.flite
    if settings.text is None:
        sentences = [each for each in bundled_sentences() if len(each.split()) >= settings.words[0]]
    else:
        sentences = read_sentences(settings.text, settings.words)
    facts: dict[str, list[str]] = {}

    def speak() -> Iterator[tuple[Speaker, Iterator[Speech]]]:
        facts["voices"] = list(find_voices())
        turns = {split: cycle((voice,) for voice in facts["voices"]) for split in SPLITS}
        with ThreadPoolExecutor(FLITE_PROCESSES) as pool:
            for speaker in sample_speakers(settings, sentences, turns, settings.stretch, settings.pitch):
                how = partial(speak_by_flite, voice=speaker.voice[0], stretch=speaker.rate, pitch=speaker.pitch)
                yield speaker, pool.map(how, speaker.texts.values())

    return read_synthetic(root, config, Synthesis("corpus of flite", settings, sentences, speak, facts=facts))


def find_voices() -> tuple[str, ...]:
    """Return the known voices that the installed flite has.

    Raises
    ------
    InputError
        It is not installed, or has none of them.
    """
    listed = _run("-lv").partition(":")[2].split()
    found = tuple(voice for voice in PITCH if voice in listed)
    if not found:
        raise InputError(f"flite has none of the voices {', '.join(PITCH)}", INSTALL_FLITE)
    return found


def speak_by_flite(text: str, voice: str, stretch: float, pitch: float) -> Speech:
    """Let flite speak.

    Parameters
    ----------
    text : str
    voice : str
    stretch : float
        Durations, in multiples of the voice's own.
    pitch : float
        Mean pitch, in multiples of the voice's own.

    Raises
    ------
    InputError
        flite is not installed, or failed.
    """
    settings = {"duration_stretch": f"{stretch:.3f}", "int_f0_target_mean": f"{PITCH[voice] * pitch:.1f}"}
    options = [word for key, value in settings.items() for word in ("--setf", f"{key}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "speech.wav"
        durations = _run("-voice", voice, *options, "-t", text, "-psdur", "-o", str(path))
        samples, rate = soundfile.read(path, dtype="int16")
    phones = _phones(durations, rate)
    return Speech(samples, rate, phones[-1].end if phones else 0, phones)


def _run(*arguments: str) -> str:
    if (flite := program("flite")) is None:
        raise InputError("flite is not installed, and corpus.kind is flite", INSTALL_FLITE)
    try:
        done = subprocess.run([flite, *arguments], capture_output=True, text=True, timeout=FLITE_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"flite failed ({error})", "try it alone: flite -t hello hello.wav") from None
    return done.stdout


def _phones(durations: str, rate: int) -> list[Interval]:
    """Return the phones of flite's list of ``label:end``, in samples, without its silences."""
    phones, start = [], 0.0
    for item in durations.split():
        label, _, seconds = item.rpartition(":")
        end = float(seconds) * rate
        if label not in FLITE_SILENCES:
            phones.append(Interval(start, end, FLITE_TO_CMU.get(label, label)))
        start = end
    return phones


# At 175 words per minute, closures are 16 to 49 ms long and gaps between words 9 ms; both scale with the rate.
CLOSURE_MS, CLOSURE_WPM = 12.5, 175
SILENT = 2  # largest value of a silent 16-bit sample: the voices used have no echo
DEMO_LEVELS = (-30.0, -22.0)  # RMS of speech, dB of full scale


def read_demo(root: Path, config: CorpusConfig) -> Corpus:
    """Read the demo corpus; it is made first if it does not exist.

    On one machine the same config gives the same corpus to the bit.

    Raises
    ------
    InputError
        As `speechctc.corpora.synthetic.read_synthetic`; or eSpeak NG is not installed.
    """
    phone_set = "timit61" if config.phones == "auto" else config.phones
    if not phone_set.startswith("timit"):
        raise InputError(f"corpus.phones={phone_set}: TIMIT's labels cannot be folded to that set", "set it to timit61")
    facts: dict[str, str] = {}

    def speak() -> Iterator[tuple[Speaker, Iterator[Speech]]]:
        for speaker, spoken in speak_all(sample_demo_speakers(config.demo), "demo corpus"):
            facts["espeak"] = spoken.version
            yield speaker, (_in_timit(speech, spoken.rate, speaker.rate) for speech in spoken.speech)

    sentences = bundled_sentences()[: config.demo.sentences]
    synthesis = Synthesis("demo corpus", config.demo, sentences, speak, facts=facts)
    corpus = read_synthetic(root, config.model_copy(update={"phones": "timit61"}), synthesis)

    def folded(utterance: Utterance) -> Utterance:
        phones, kept = fold_labels(utterance.phones, phone_set)
        times = utterance.times and tuple(utterance.times[k] for k in kept)
        return dataclasses.replace(utterance, phones=tuple(phones), times=times)

    splits = {split: tuple(map(folded, part)) for split, part in corpus.splits.items()}
    return dataclasses.replace(corpus, splits=splits, phone_set=phone_set)


def _in_timit(speech: espeak.Speech, rate: int, words_per_minute: float) -> Speech:
    """Return speech with its phones; the first and the last, silences, go beyond it."""
    phones = label(speech, rate, words_per_minute)
    starts, ends = [-rate, *(each.start for each in phones[1:])], [each.start for each in phones[1:]]
    labelled = map(Interval, starts, [*ends, len(speech.samples) + rate], [each.label for each in phones])
    return Speech(speech.samples, rate, phones[-1].start, list(labelled))


def sample_demo_speakers(config: DemoConfig) -> list[Speaker]:
    """Choose the voices and distribute the sentences among them; the result depends only on the config."""
    rng = random.Random(config.seed)
    order = list(range(config.sentences))
    rng.shuffle(order)
    texts, people = (counts_of(each, config.held_out) for each in (config.sentences, config.voices))
    speakers: list[Speaker] = []
    for split in SPLITS:
        deck, order = order[: texts[split]], order[texts[split] :]
        most = config.utterances_per_voice if split == "train" else config.evaluation_utterances_per_voice
        hand = min(most, len(deck))
        for k, (sex, variant) in enumerate(_variants(split, people[split])):
            name = _name(sex, variant, {speaker.name for speaker in speakers})
            drawn = rng.randint(*config.words_per_minute), rng.randint(*config.pitch), rng.uniform(*DEMO_LEVELS)
            numbers = [deck[(k * hand + j) % len(deck)] for j in range(hand)]
            spoken = {f"sx{number + 1}": bundled_sentences()[number] for number in numbers}
            speakers.append(Speaker(split, name, (variant,), *drawn, spoken))
    return speakers


def _variants(split: str, number: int) -> list[tuple[str, str]]:
    """Return a number of variants, a third of them female; each list is repeated if it is too short."""
    female, male = cycle(VARIANTS[split]["F"]), cycle(VARIANTS[split]["M"])
    return [("f", next(female)) if k % 3 == 1 else ("m", next(male)) for k in range(number)]


def _name(sex: str, variant: str, taken: set[str]) -> str:
    """Return a name in TIMIT's form, sex, three letters and a number, that is not taken."""
    letters = ("".join(filter(str.isalnum, variant)).lower() + "xx")[:3]
    return next(name for k in count() if (name := f"{sex}{letters}{k}") not in taken)


VOWELS, CONSONANTS = (
    {name: tuple(phones.split("+")) for name, phones in pairs(_TABLES[kind]).items()}
    for kind in ("vowels", "consonants")
)
CLOSURES = pairs(_TABLES["closures"])
GLIDE = ";"  # the transition from a close vowel to the next one, which is not a phone in TIMIT


class Phone(NamedTuple):
    """A phone and the sample at which it starts; it lasts until the next one."""

    start: int
    label: str


class UnknownPhoneme(ValueError):
    """A phoneme of eSpeak NG without a TIMIT label; its sentence cannot be in the corpus."""


def label(speech: espeak.Speech, rate: int, words_per_minute: float) -> list[Phone]:
    """Return the phones of a sentence. The labels depend only on its words, not on the voice or the rate.

    Parameters
    ----------
    speech : espeak.Speech
    rate : int
        Rate of its samples, Hz.
    words_per_minute : float
        Speaking rate of the voice.

    Returns
    -------
    list of Phone
        From an h# at 0 to an h# after the last sound. Only these two may have no duration.

    Raises
    ------
    UnknownPhoneme
        The sentence has a phoneme without a label, or one without duration.
    """
    closure = rate * CLOSURE_MS / 1000 * CLOSURE_WPM / words_per_minute
    phones = [Phone(0, "h#")]
    names = [phoneme.name for phoneme in speech.phonemes]
    for k, (start, name) in enumerate(speech.phonemes):
        before, after = names[k - 1] if k else "_", names[k + 1] if k + 1 < len(names) else "_"
        if name.startswith("_"):
            _add(phones, start, "pau")
        elif name == "l" and before in VOWELS and after not in VOWELS:
            _add(phones, (phones[-1].start + start) // 2, "l")
        elif name in VOWELS:
            end = speech.phonemes[k + 1].sample if k + 1 < len(names) else len(speech.samples)
            end -= _silence_before(speech.samples, end)
            _add_vowel(phones, start, end, VOWELS[name], linked=after in ("r", "r-"))
        elif name in CONSONANTS:
            _add_consonant(phones, start, CONSONANTS[name][0], _silence_before(speech.samples, start), closure)
        elif name != GLIDE:
            raise UnknownPhoneme(f"eSpeak NG's phoneme {name!r} has no TIMIT label")
    end = phones.pop().start if phones[-1].label == "pau" else len(speech.samples)
    phones.append(Phone(end, "h#"))
    if any(later.start <= earlier.start for earlier, later in zip(phones[1:], phones[2:], strict=False)):
        raise UnknownPhoneme(f"eSpeak NG leaves no time for one of: {' '.join(phone.label for phone in phones)}")
    return phones


def _add(phones: list[Phone], start: int, label: str) -> None:
    """Append a phone; a pause is joined with a pause before it, and a pause of length 0 is removed."""
    if label == phones[-1].label == "pau":
        return
    if phones[-1] == Phone(start, "pau"):
        phones.pop()
    phones.append(Phone(start, label))


def _add_vowel(phones: list[Phone], start: int, end: int, labels: tuple[str, ...], linked: bool) -> None:
    """Append a vowel of one or two phones; its r is dropped if an r follows."""
    if linked and labels[-1] == "r":
        labels = labels[:-1]
    for k, name in enumerate(labels):
        _add(phones, start + (end - start) * k // len(labels), name)


def _add_consonant(phones: list[Phone], start: int, label: str, silence: int, closure: float) -> None:
    """Append a consonant, and before a stop its closure, if it is long enough and does not follow a pause."""
    follows_pause = phones[-1].label in ("pau", "h#")
    if label == "q":  # a glottal stop is silent: the closure is the phone
        start = start if follows_pause else start - silence
    elif label in CLOSURES and not follows_pause and silence >= closure:
        _add(phones, start - silence, CLOSURES[label])
    _add(phones, start, label)


def _silence_before(samples: NDArray[np.int16], start: int) -> int:
    """Return how many samples before `start` are silent."""
    loud = np.flatnonzero(np.abs(samples[max(start - 8000, 0) : start].astype(np.int32)) > SILENT)
    return int(min(start, 8000) - 1 - loud[-1]) if len(loud) else min(start, 8000)
