"""The speakers of synthetic corpora and the sentences that they say; those of dev and test are not in training."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from itertools import count, cycle
from pathlib import Path
from typing import Literal

from speechctc.config.corpus_config import DemoConfig, EspeakConfig, FliteConfig
from speechctc.core.errors import InputError
from speechctc.core.text_files import read_text
from speechctc.corpora.corpus import SPLITS
from speechctc.corpora.table_rows import DELIMITED, JSON_LINES, read_table

EACH = 12  # utterances of one speaker, about
LEVELS = (-32.0, -20.0)  # RMS of speech, dB of full scale

Sex = Literal["F", "M"]

# Variants of eSpeak NG, each in one split only, and similar ones in the same split. Left out are variants with an echo,
# which hides where sounds end (f2 to f5, m2 and others), whispers (whisper, whisperf, caleb), robots, voices that no
# vocal tract can produce (boris, ian, iven, kaukovalta, travis, croak, Storm, zac), distorted ones (klatt4, klatt5),
# and copies.
VARIANTS: dict[str, dict[Sex, tuple[str, ...]]] = {
    "train": {
        "F": tuple("belinda Andrea steph linda anika shelby".split()),
        "M": tuple(
            "m1 Alex adam m7 Gene Nguyen max robert Mario m5 klatt3 Reed john quincy Michael m8 david Andy ed rob "
            "benjamin sandro victor norbert Jacky mike2 antonio grandpa marcelo Diogo".split()
        ),
    },
    "dev": {"F": ("grandma", "aunty"), "M": ("m4", "Denis", "edward", "gustave")},
    "test": {"F": ("f1", "Annie"), "M": ("m3", "paul", "m6", "pedro")},
}

_ENDS = re.compile(r"(?<=[.!?…։።।。！？؟])\s+")
FEWEST = 12  # sentences: some for training, dev and test each
MIXED = 0.5  # share of the training utterances that are of random words, where there are fewer sentences than those


@dataclass(frozen=True)
class Speaker:
    """A voice with a language, a rate, a pitch and a level, and the texts that it speaks.

    Attributes
    ----------
    split, name : str
        The name of one of the demo corpus has the form of TIMIT's: sex, three letters, a digit.
    language : str or None
        As in the config; None: American English, with eSpeak NG's own phonemes instead of IPA.
    variant : str
        Variant of eSpeak NG.
    words_per_minute, pitch : int
        Settings of eSpeak NG.
    level : float
        RMS of its speech, dB of full scale.
    texts : tuple of str
    """

    split: str
    name: str
    language: str | None
    variant: str
    words_per_minute: int
    pitch: int
    level: float
    texts: tuple[str, ...]


def cast(config: EspeakConfig, languages: Sequence[str], sentences: Sequence[str]) -> list[Speaker]:
    """Choose the speakers, and distribute the sentences among them; the result depends only on the arguments.

    Languages and voices take turns. Where there are fewer sentences than training utterances, half of these are of
    random words of the training sentences, so that phones occur in many contexts.
    """
    rng = random.Random(config.seed)
    texts, counts = divided(config, sentences, rng)
    speakers: list[Speaker] = []
    for split in SPLITS:
        variants = [variant for names in VARIANTS[split].values() for variant in names]
        rng.shuffle(variants)
        turns, tongues = cycle(variants), cycle(languages)
        spoken = said(texts[split], counts[split], split == "train", rng)
        for start in range(0, len(spoken), EACH):
            language, variant = next(tongues), next(turns)
            speakers.append(
                Speaker(
                    split,
                    f"{language}-{variant}-{len(speakers)}",
                    language,
                    variant,
                    rng.randint(*config.words_per_minute),
                    rng.randint(*config.pitch),
                    rng.uniform(*LEVELS),
                    tuple(spoken[start : start + EACH]),
                )
            )
    return speakers


def divided(
    config: EspeakConfig | FliteConfig, sentences: Sequence[str], rng: random.Random
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Return the sentences of each split, in random order, and how many utterances it has."""
    deck = list(sentences)
    rng.shuffle(deck)
    held = max(round(len(deck) * config.held_out), 1)
    texts = {"dev": deck[:held], "test": deck[held : 2 * held], "train": deck[2 * held :]}
    held = max(round(config.utterances * config.held_out), 1)
    return texts, {"dev": held, "test": held, "train": config.utterances - 2 * held}


def said(texts: list[str], count: int, may_mix: bool, rng: random.Random) -> list[str]:
    """Return a number of texts: the sentences in turn, and random words if there are too few and `may_mix`."""
    mixed = round(count * MIXED) if may_mix and len(texts) < count else 0
    turns = cycle(texts)
    spoken = [next(turns) for _ in range(count - mixed)] + [random_words(texts, rng) for _ in range(mixed)]
    rng.shuffle(spoken)
    return spoken


@lru_cache(maxsize=1)
def sentences() -> tuple[str, ...]:
    """Return all sentences of the demo corpus."""
    text = resources.files("speechctc.corpora").joinpath("sentences.txt").read_text(encoding="ascii")
    return tuple(text.splitlines())


def demo_cast(config: DemoConfig) -> list[Speaker]:
    """Choose the voices and distribute the sentences among them; the result depends only on the config."""
    rng = random.Random(config.seed)
    order = list(range(config.sentences))
    rng.shuffle(order)
    texts, people = _divide(config.sentences, config.held_out), _divide(config.voices, config.held_out)
    voices: list[Speaker] = []
    for split in SPLITS:
        deck, order = order[: texts[split]], order[texts[split] :]
        wanted = config.utterances_per_voice if split == "train" else config.evaluation_utterances_per_voice
        hand = min(wanted, len(deck))
        for k, (sex, variant) in enumerate(_variants(split, people[split])):
            voice = Speaker(
                split=split,
                name=_name(sex, variant, {voice.name for voice in voices}),
                language=None,
                variant=variant,
                words_per_minute=rng.randint(*config.words_per_minute),
                pitch=rng.randint(*config.pitch),
                level=rng.uniform(-30.0, -22.0),
                texts=tuple(sentences()[deck[(k * hand + j) % len(deck)]] for j in range(hand)),
            )
            voices.append(voice)
    return voices


def _divide(number: int, share: float) -> dict[str, int]:
    held = max(round(number * share), 1)
    return {"train": number - 2 * held, "dev": held, "test": held}


def _variants(split: str, number: int) -> list[tuple[Sex, str]]:
    """Return a number of variants, a third of them female; each list is repeated if it is too short."""
    female, male = cycle(VARIANTS[split]["F"]), cycle(VARIANTS[split]["M"])
    return [("F", next(female)) if k % 3 == 1 else ("M", next(male)) for k in range(number)]


def _name(sex: Sex, variant: str, taken: set[str]) -> str:
    """Return a name in TIMIT's form that is not taken."""
    letters = ("".join(filter(str.isalnum, variant)).upper() + "XX")[:3]
    return next(name for k in count() if (name := f"{sex}{letters}{k}") not in taken)


def read_sentences(path: Path, words: tuple[int, int]) -> list[str]:
    """Return the different sentences of a file, in order; long ones are divided, short ones left out.

    Parameters
    ----------
    path : Path
        A table with a column ``words``, by its ending; .txt is a text, in which a sentence ends with its line or a full
        stop.
    words : (int, int)
        Fewest and most words of a sentence.

    Raises
    ------
    InputError
        The file cannot be read, or has too few sentences.
    """
    if path.is_dir():
        raise InputError(f"{path}: a folder", "set corpus.espeak.text to a file of sentences")
    ending = path.suffix.lower()
    is_table = ending in (*DELIMITED, *JSON_LINES) and ending != ".txt"
    lines = [row.words for row in read_table(path).rows] if is_table else read_text(path).text.split("\n")
    found: dict[str, None] = {}
    for line in lines:
        for sentence in _ENDS.split(line):
            found.update(dict.fromkeys(_divided(sentence.split(), words)))
    if len(found) < FEWEST:
        raise InputError(
            f"{path}: {len(found)} different sentences of {words[0]} to {words[1]} words",
            f"give at least {FEWEST}, or change corpus.espeak.words",
        )
    return list(found)


def _divided(tokens: list[str], words: tuple[int, int]) -> list[str]:
    """Return a sentence in equal parts that are not too long; without those that are too short."""
    fewest, most = words
    count = -(-len(tokens) // most)
    edges = [round(k * len(tokens) / count) for k in range(count + 1)] if count else []
    parts = [tokens[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    return [" ".join(part) for part in parts if len(part) >= fewest]


def random_words(sentences: list[str], rng: random.Random) -> str:
    """Return words that were drawn from sentences, as many as one of them has."""
    count = len(rng.choice(sentences).split())
    return " ".join(rng.choice(rng.choice(sentences).split()).strip(".,;:!?") for _ in range(count))
