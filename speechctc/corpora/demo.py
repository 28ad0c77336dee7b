"""The demo corpus: American English of eSpeak NG, labelled with the phones of TIMIT.

All voices are from one synthesiser and far more similar than those of people.

Converts phonemes of eSpeak NG to phones of TIMIT, with times. The order of the phones and nearly all boundaries are
from the synthesiser. Three things that it does not mark follow rules:

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
from collections.abc import Iterator
from itertools import count, cycle
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.audio.annotations import Interval
from speechctc.config.schema import CorpusConfig, DemoConfig
from speechctc.core.errors import InputError
from speechctc.core.text_files import read_tables
from speechctc.corpora.corpus import SPLITS, Corpus, Utterance
from speechctc.corpora.espeak import VARIANTS, speak_all
from speechctc.corpora.synthetic import Speaker, Speech, Synthesis, bundled_sentences, counts_of, read_synthetic
from speechctc.phones import espeak
from speechctc.phones.folding import fold_labels
from speechctc.phones.labels import pairs

# At 175 words per minute, closures are 16 to 49 ms long and gaps between words 9 ms; both scale with the rate.
CLOSURE_MS, CLOSURE_WPM = 12.5, 175
SILENT = 2  # largest value of a silent 16-bit sample: the voices used have no echo
LEVELS = (-30.0, -22.0)  # RMS of speech, dB of full scale


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
        for speaker, spoken in speak_all(sample_speakers(config.demo), "demo corpus"):
            facts["espeak"] = spoken.version
            yield speaker, (_labelled(speech, spoken.rate, speaker.rate) for speech in spoken.speech)

    sentences = bundled_sentences()[: config.demo.sentences]
    synthesis = Synthesis("demo corpus", config.demo, sentences, speak, facts=facts)
    corpus = read_synthetic(root, config.model_copy(update={"phones": "timit61"}), synthesis)

    def folded(utterance: Utterance) -> Utterance:
        phones, kept = fold_labels(utterance.phones, phone_set)
        times = utterance.times and tuple(utterance.times[k] for k in kept)
        return dataclasses.replace(utterance, phones=tuple(phones), times=times)

    splits = {split: tuple(map(folded, part)) for split, part in corpus.splits.items()}
    return dataclasses.replace(corpus, splits=splits, phone_set=phone_set)


def _labelled(speech: espeak.Speech, rate: int, words_per_minute: float) -> Speech:
    """Return speech with its phones; the first and the last, silences, go beyond it."""
    phones = label(speech, rate, words_per_minute)
    starts, ends = [-rate, *(each.start for each in phones[1:])], [each.start for each in phones[1:]]
    labelled = map(Interval, starts, [*ends, len(speech.samples) + rate], [each.label for each in phones])
    return Speech(speech.samples, rate, phones[-1].start, list(labelled))


def sample_speakers(config: DemoConfig) -> list[Speaker]:
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
            drawn = rng.randint(*config.words_per_minute), rng.randint(*config.pitch), rng.uniform(*LEVELS)
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


_TABLES = read_tables(__file__)
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
