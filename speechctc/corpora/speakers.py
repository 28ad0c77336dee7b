"""The speakers of the corpus and what they say; the voices and sentences of dev and test are not in training."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

from speechctc.config.corpus_config import EspeakConfig, FliteConfig
from speechctc.corpora.corpus import SPLITS
from speechctc.corpora.demo_voices import VARIANTS
from speechctc.corpora.sentences import MIXED, random_words

EACH = 12  # utterances of one speaker, about
LEVELS = (-32.0, -20.0)  # RMS of speech, dB of full scale


@dataclass(frozen=True)
class Speaker:
    """A voice with a language, a rate, a pitch and a level, and the texts that it speaks.

    Attributes
    ----------
    split, name : str
    language : str
        As in the config.
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
    language: str
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
