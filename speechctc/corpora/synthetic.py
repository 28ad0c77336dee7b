"""Builds corpora that eSpeak NG speaks: in any language, or in English and labelled as TIMIT is (the demo).

A folder has ``<split>/<speaker>/<name>.wav`` (16 kHz, 16 bits), a TextGrid of each with its phones and sentence, and
``<kind>.json``, which says how it was made. It is made completely or not at all, and is then read as any folder of
TextGrids. The voices and sentences of dev and test are not in training.

Recordings of speech are resampled, scaled, and put between silences with a little noise. Phones of a language are in
IPA, or English ones in a phone set that the config names.

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
import hashlib
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import resources
from itertools import count, cycle, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio import resampling
from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.audio.sound_file import writing
from speechctc.config.schema import CorpusConfig, DemoConfig, EspeakConfig
from speechctc.core import files
from speechctc.core.bundled import bundled_texts
from speechctc.core.errors import InputError
from speechctc.core.parallel import WorkerEnded, attempt
from speechctc.core.processes import in_processes
from speechctc.corpora.corpus import SPLITS, Corpus, Utterance, note_text
from speechctc.corpora.table_rows import read_sentences
from speechctc.corpora.tiers import read_textgrids
from speechctc.phones import espeak
from speechctc.phones.folding import fold_labels
from speechctc.phones.inventory import FOUND, named_inventory, pairs
from speechctc.phones.languages import find_voice
from speechctc.phones.pronouncer import PhoneMapper, cmu_sources

LAYOUT = 2  # version of the folders' layout and of the labels
RATE = 16000  # of the recordings, Hz, as in TIMIT
QUIET_MS = (100, 250)  # silence before and after each sentence


class Speaker(NamedTuple):
    """A voice with settings and a level, and the texts that it speaks.

    Attributes
    ----------
    split, name : str
    voice : tuple of str
        What the synthesiser calls it.
    rate, pitch : float
        Settings of the synthesiser.
    level : float
        RMS of its speech, dB of full scale.
    texts : dict of str to str
        By the names of their recordings.
    """

    split: str
    name: str
    voice: tuple[str, ...]
    rate: float
    pitch: float
    level: float
    texts: dict[str, str]


class Speech(NamedTuple):
    """Speech as samples (int16) at `rate`, Hz, the sample at which it ends, and its phones, with times in samples."""

    samples: NDArray[np.int16]
    rate: int
    end: float
    phones: list[Interval]


@dataclass
class Synthesis:
    """How a corpus is made.

    Attributes
    ----------
    name : str
        What messages call it.
    settings : DemoConfig or EspeakConfig
    sentences : sequence of str or None
        What is spoken; None: they are not at hand, so that only a corpus that is there can be read.
    speak : callable
        Returns an iterator over the speakers, each with the speech of its texts.
    made_with : dict
        What else the corpus depends on.
    facts : dict
        What `speak` and `relabel` tell of it, for the notes.
    relabel : callable
        Takes the labels of an utterance when all are spoken, and returns those to write, or None to leave it out.
    """

    name: str
    settings: DemoConfig | EspeakConfig
    sentences: Sequence[str] | None
    speak: Callable[[], Iterable[tuple[Speaker, Iterable[Speech]]]]
    made_with: dict[str, Any] = dataclasses.field(default_factory=dict)
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    relabel: Callable[[Sequence[str]], Sequence[str] | None] = tuple


def read_synthetic(root: Path, config: CorpusConfig, synthesis: Synthesis) -> Corpus:
    """Read a synthetic corpus; it is made first if it does not exist.

    Raises
    ------
    InputError
        As the synthesiser; or the folder is a file, has other files, a corpus made with something else, or fewer
        recordings or TextGrids than were made.
    """
    about = _make_once(root, f"{config.kind}.json", synthesis)
    for ending in (".wav", ".TextGrid"):
        if (count := sum(1 for _ in root.glob(f"*/*/*{ending}"))) != about["utterances"]:
            what = f"{root}: {count} files {ending} of the {about['utterances']} that were made"
            raise InputError(what, "move the folder aside; the corpus is then made again")
    whole = {"kind": "textgrid", "tier": "phones", "max_gap": None, "max_seconds": math.inf}
    corpus = read_textgrids(root, config.model_copy(update=whole))
    facts = {name: ", ".join(value) or "none" if isinstance(value, list) else value for name, value in about.items()}
    note = note_text(config.kind, **{**about["config"], **facts, "minutes": about["seconds"] / 60})
    return dataclasses.replace(corpus, notes=(note, *corpus.notes))


def _make_once(root: Path, marker: str, synthesis: Synthesis) -> dict[str, Any]:
    """Make a corpus where the folder is empty or not there; return the content of its marker."""
    name, sentences = synthesis.name, synthesis.sentences
    settings = synthesis.settings.model_dump(mode="json", exclude={"text"})
    made_with: dict[str, Any] = {"layout": LAYOUT, "config": settings, **synthesis.made_with}
    if sentences is not None:
        made_with["text"] = hashlib.sha256("\n".join(sentences).encode()).hexdigest()
    if not root.exists() or (root.is_dir() and not any(root.iterdir())):
        files.write_folder(root, lambda folder: _make(folder, folder / marker, synthesis, made_with))
    try:
        about = dict(files.read_json(root / marker))
        there = {**about, **about["config"]}
    except (OSError, ValueError, TypeError, KeyError):
        raise InputError(f"{root}: not a {name}, but other files", "set corpus.root to a new folder") from None
    if all(about.get(key) == value for key, value in made_with.items()):
        return about
    here = {**synthesis.made_with, **settings}
    changed = [f"{key}={there.get(key)} instead of {value}" for key, value in here.items() if there.get(key) != value]
    what = ", ".join(changed) or "other sentences, or by another version"
    raise InputError(f"{root}: a {name} made with {what}", "move it aside, or set corpus.root to another folder")


def _make(folder: Path, marker: Path, synthesis: Synthesis, made_with: dict[str, Any]) -> None:
    """Write the recordings, then their TextGrids, then the marker."""
    spoken = []
    for number, (speaker, speeches) in enumerate(synthesis.speak()):
        rng = np.random.default_rng([synthesis.settings.seed, number])
        for (name, text), speech in zip(speaker.texts.items(), speeches, strict=True):
            if speech.phones and np.any(speech.samples):
                recording, phones = record(speech, speaker.level, synthesis.settings.noise_db, rng)
                path = folder / speaker.split / speaker.name / f"{name}.wav"
                write_recording(path, recording)
                spoken.append((path, len(recording) / RATE, text, phones))
    total = 0.0
    utterances = 0
    for path, seconds, text, phones in spoken:
        labels = synthesis.relabel([each.label for each in phones])
        if labels is None:
            path.unlink()
            continue
        tier = [each._replace(label=label) for each, label in zip(phones, labels, strict=True)]
        grid = textgrid_text(seconds, {"phones": tier, "sentence": [Interval(0.0, seconds, text)]})
        files.write_text(path.with_suffix(".TextGrid"), grid)
        utterances, total = utterances + 1, total + seconds
    files.write_json(marker, {**made_with, **synthesis.facts, "utterances": utterances, "seconds": total})


def write_recording(path: Path, recording: NDArray[np.int16]) -> None:
    """Write a recording as WAV, 16 bits; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path):
        soundfile.write(path, recording, RATE, subtype="PCM_16", format="WAV")


def record(
    speech: Speech, level: float, noise_db: float, rng: np.random.Generator
) -> tuple[NDArray[np.int16], list[Interval]]:
    """Return a recording of a sentence, and its phones with times in seconds.

    The sentence is scaled to the level of the voice and put between silences. A little noise is added, because no room
    is as silent as a synthesiser.

    Parameters
    ----------
    speech : Speech
    level : float
        RMS of the speech, dB of full scale.
    noise_db : float
        RMS of the noise, dB of full scale.
    rng : Generator
    """
    before, after = (int(RATE * rng.uniform(*QUIET_MS) / 1000) for _ in range(2))
    length = before + round(speech.end * RATE / speech.rate) + after
    recording = rng.standard_normal(length, np.float32) * np.float32(10 ** (noise_db / 20))
    wave = np.divide(speech.samples, 2**15, dtype=np.float32)
    sound = resampling.resample(wave, speech.rate, RATE)[: length - before]
    gain = 10 ** (level / 20) / float(np.sqrt(np.mean(sound**2)))
    recording[before : before + len(sound)] += sound * min(gain, 0.95 / float(np.abs(sound).max()))

    def seconds(sample: float) -> float:
        return min(max(before + round(sample * RATE / speech.rate), 0), length) / RATE

    phones = [Interval(seconds(start), seconds(end), label) for start, end, label in speech.phones]
    return np.clip(np.round(recording * 2**15), -(2**15), 2**15 - 1).astype(np.int16), phones


@lru_cache(maxsize=1)
def bundled_sentences() -> tuple[str, ...]:
    """Return the English sentences of the package."""
    text = resources.files("speechctc.corpora").joinpath("sentences.txt").read_text(encoding="ascii")
    return tuple(text.splitlines())


_TABLES = bundled_texts(__file__)

MAX_WAITING = 4  # speakers whose speech may wait in memory
UTTERANCES_OF_SPEAKER = 12
LEVELS = (-32.0, -20.0)  # RMS of speech, dB of full scale
MIXED = 0.5  # share of the training utterances that are of random words, where there are fewer sentences than those

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
        for speaker, spoken in speak_all(_sample_speakers(config, languages, sentences or ())):
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
    if not named or isinstance(named, dict):
        what = "corpus.language names no language to speak, and corpus.kind is espeak"
        raise InputError(what, "set it (English: en-us, Welsh: cy; several: '[cy, ga]')")
    return named


def _sample_speakers(config: CorpusConfig, languages: Sequence[str], sentences: Sequence[str]) -> list[Speaker]:
    """Choose the speakers, and distribute the sentences among them; languages and voices take turns.

    Where there are fewer sentences than training utterances, half of these are of random words of the training
    sentences, so that phones occur in many contexts. The result depends only on the arguments.
    """
    settings, rng = config.espeak, random.Random(config.espeak.seed)
    voices = {}
    for split, variants in VARIANTS.items():
        names = [name for of_sex in variants.values() for name in of_sex]
        rng.shuffle(names)
        voices[split] = zip(cycle(languages), cycle(names), strict=False)
    rng = random.Random(settings.seed)
    deck = rng.sample(sentences, len(sentences))
    held = max(round(len(deck) * settings.held_out), 1)
    texts = {"dev": deck[:held], "test": deck[held : 2 * held], "train": deck[2 * held :]}
    speakers: list[Speaker] = []
    for split, number in _counts(settings.utterances, settings.held_out).items():
        mixed = round(number * MIXED) if split == "train" and len(texts[split]) < number else 0
        turns = cycle(texts[split])
        deck = [next(turns) for _ in range(number - mixed)] + [_random_words(texts[split], rng) for _ in range(mixed)]
        rng.shuffle(deck)
        for start in range(0, number, UTTERANCES_OF_SPEAKER):
            voice = next(voices[split])
            name = "-".join((*voice, str(len(speakers))))
            drawn = rng.uniform(*settings.words_per_minute), rng.uniform(*settings.pitch), rng.uniform(*LEVELS)
            spoken = {str(k): text for k, text in enumerate(deck[start : start + UTTERANCES_OF_SPEAKER])}
            speakers.append(Speaker(split, name, voice, *drawn, spoken))
    return speakers


def _counts(number: int, share: float) -> dict[str, int]:
    """Return how many of a number each split has; dev and test have a share each, and one at least."""
    held = max(round(number * share), 1)
    return dict(zip(SPLITS, (number - 2 * held, held, held), strict=True))


def _random_words(sentences: list[str], rng: random.Random) -> str:
    """Return words that were drawn from sentences, as many as one of them has."""
    drawn = len(rng.choice(sentences).split())
    return " ".join(rng.choice(rng.choice(sentences).split()).strip(".,;:!?") for _ in range(drawn))


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


def speak_all(speakers: Sequence[Speaker]) -> Iterator[tuple[Speaker, Spoken]]:
    """Yield the speech of each speaker; a new process speaks, because only its first speech is reproducible.

    Parameters
    ----------
    speakers : sequence of Speaker
        Their voices are a language and a variant, or a variant: of American English, with eSpeak NG's own phonemes
        instead of IPA.

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
        fix = (
            "run it again; if it ends there again, eSpeak NG fails at a text: look for an odd one, or a very long word"
        )
        raise InputError("the process that speaks the corpus ended", fix) from None


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
        for speaker, spoken in speak_all(sample_demo_speakers(config.demo)):
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
    texts, people = (_counts(each, config.held_out) for each in (config.sentences, config.voices))
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
    ValueError
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
            raise ValueError(f"eSpeak NG's phoneme {name!r} has no TIMIT label")
    end = phones.pop().start if phones[-1].label == "pau" else len(speech.samples)
    phones.append(Phone(end, "h#"))
    if any(later.start <= earlier.start for earlier, later in zip(phones[1:], phones[2:], strict=False)):
        raise ValueError(f"eSpeak NG leaves no time for one of: {' '.join(phone.label for phone in phones)}")
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
