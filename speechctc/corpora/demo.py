"""Makes the demo corpus with eSpeak NG, in the layout of TIMIT, and reads it.

``TRAIN``, ``DEV`` and ``TEST`` contain ``DR1/<speaker>/SX<n>.WAV`` (16 kHz, 16 bits, RIFF) with .PHN and .TXT files.
There are no .WRD files, because eSpeak NG joins some words. ``demo.json`` has the settings that the corpus was made
with. All voices are from one synthesiser and far more similar than those of people.

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
from itertools import count, cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.config.corpus_config import DemoConfig
from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.core.text_files import read_tables
from speechctc.corpora import synthetic
from speechctc.corpora.corpus import SPLITS, Corpus, note_text
from speechctc.corpora.timit import read_timit
from speechctc.phones.espeak import Speech
from speechctc.phones.labels import pairs

MARKER = "demo.json"

# At 175 words per minute, closures are 16 to 49 ms long and gaps between words 9 ms; both scale with the rate.
CLOSURE_MS, CLOSURE_WPM = 12.5, 175
SILENT = 2  # largest value of a silent 16-bit sample: the voices used have no echo


def read_demo(root: Path, config: DemoConfig, phone_set: str = "timit61") -> Corpus:
    """Read the demo corpus; it is made first if it does not exist.

    Raises
    ------
    InputError
        As `make_demo`; or utterances are missing.
    """
    about = make_demo(root, config)
    corpus = read_timit(root, phone_set)
    count = sum(len(corpus.splits[split]) for split in SPLITS)
    if count != about["utterances"]:
        what = f"{root}: {count} usable utterances of the {about['utterances']} that were made"
        raise InputError(what, synthetic.AGAIN)
    facts = {"voices": config.voices, "sentences": config.sentences, "minutes": about["seconds"] / 60}
    note = note_text("demo", **facts, utterances=count, espeak=about["espeak"])
    return dataclasses.replace(corpus, notes=(note,))


def make_demo(root: Path, config: DemoConfig) -> dict[str, Any]:
    """Make the demo corpus, completely or not at all; an existing one of the same config is kept.

    On one machine the same config gives the same corpus to the bit.

    Returns
    -------
    dict
        The content of ``demo.json``: config, version of eSpeak NG, utterances, seconds.

    Raises
    ------
    InputError
        The folder has a demo corpus of another config, or other files; or eSpeak NG is not installed.
    """
    wanted = synthetic.fingerprint(config, synthetic.sentences()[: config.sentences])
    return synthetic.make_once(root, MARKER, "demo corpus", wanted, lambda folder: _make_whole(folder, config, wanted))


def _make_whole(folder: Path, config: DemoConfig, wanted: dict[str, Any]) -> None:
    """Write all voices."""
    count, samples, version, voices = 0, 0, "", sample_speakers(config)
    numbers = {text: number for number, text in enumerate(synthetic.sentences(), start=1)}
    for number, (voice, result) in enumerate(zip(voices, synthetic.spoken(voices, "demo corpus"), strict=True)):
        version = result.version
        rng = np.random.default_rng([config.seed, number])
        for text, speech in zip(voice.texts, result.speech, strict=True):
            recording, segments = _record(speech, result.rate, voice, config.noise_db, rng)
            stem = folder / voice.split.upper() / "DR1" / voice.name / f"SX{numbers[text]}"
            _write(stem, recording, segments, text)
            count += 1
            samples += len(recording)
    about = {"espeak": version, "utterances": count, "seconds": samples / synthetic.RATE}
    files.write_json(folder / MARKER, wanted | about)


def sample_speakers(config: DemoConfig) -> list[synthetic.Speaker]:
    """Choose the voices and distribute the sentences among them; the result depends only on the config."""
    rng = random.Random(config.seed)
    order = list(range(config.sentences))
    rng.shuffle(order)
    texts, people = (synthetic.counts_of(each, config.held_out) for each in (config.sentences, config.voices))
    voices: list[synthetic.Speaker] = []
    for split in SPLITS:
        deck, order = order[: texts[split]], order[texts[split] :]
        wanted = config.utterances_per_voice if split == "train" else config.evaluation_utterances_per_voice
        hand = min(wanted, len(deck))
        for k, (sex, variant) in enumerate(_variants(split, people[split])):
            name = _name(sex, variant, {voice.name for voice in voices})
            how = (rng.randint(*config.words_per_minute), rng.randint(*config.pitch), rng.uniform(-30.0, -22.0))
            hand_of = tuple(synthetic.sentences()[deck[(k * hand + j) % len(deck)]] for j in range(hand))
            voices.append(synthetic.Speaker(split, name, None, variant, *how, hand_of))
    return voices


def _variants(split: str, number: int) -> list[tuple[synthetic.Sex, str]]:
    """Return a number of variants, a third of them female; each list is repeated if it is too short."""
    female, male = cycle(synthetic.VARIANTS[split]["F"]), cycle(synthetic.VARIANTS[split]["M"])
    return [("F", next(female)) if k % 3 == 1 else ("M", next(male)) for k in range(number)]


def _name(sex: synthetic.Sex, variant: str, taken: set[str]) -> str:
    """Return a name in TIMIT's form that is not taken."""
    letters = ("".join(filter(str.isalnum, variant)).upper() + "XX")[:3]
    return next(name for k in count() if (name := f"{sex}{letters}{k}") not in taken)


def _record(
    speech: Speech, rate: int, voice: synthetic.Speaker, noise_db: float, rng: np.random.Generator
) -> tuple[NDArray[np.int16], list[tuple[int, int, str]]]:
    """Return the samples of a sentence and its phones as (start, end, label), in samples."""
    phones = label(speech, rate, voice.words_per_minute)
    recording, before = synthetic.record(speech.samples, rate, phones[-1].start, voice.level, noise_db, rng)
    edges = [0, *(before + round(phone.start * synthetic.RATE / rate) for phone in phones[1:])]
    return recording, list(zip(edges, [*edges[1:], len(recording)], [phone.label for phone in phones], strict=True))


def _write(stem: Path, recording: NDArray[np.int16], segments: list[tuple[int, int, str]], text: str) -> None:
    synthetic.write_recording(stem.with_suffix(".WAV"), recording)
    lines = "".join(f"{start} {end} {phone}\n" for start, end, phone in segments)
    stem.with_suffix(".PHN").write_text(lines, encoding="ascii")
    stem.with_suffix(".TXT").write_text(f"0 {len(recording)} {text}\n", encoding="ascii")


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


def label(speech: Speech, rate: int, words_per_minute: int) -> list[Phone]:
    """Return the phones of a sentence. The labels depend only on its words, not on the voice or the rate.

    Parameters
    ----------
    speech : Speech
    rate : int
        Rate of its samples, Hz.
    words_per_minute : int
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
