"""Voices of the demo corpus and their sentences; those of dev and test are not in training."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from itertools import count, cycle
from typing import Literal

from speechctc.config.corpus_config import DemoConfig
from speechctc.corpora.corpus import SPLITS

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


@dataclass(frozen=True)
class Voice:
    """A speaker of the demo corpus.

    Attributes
    ----------
    split : str
    name : str
        In the form of TIMIT's names of speakers: sex, three letters, a digit.
    variant : str
        Variant of eSpeak NG, spoken as ``en-us+<variant>``.
    words_per_minute, pitch : int
        Settings of eSpeak NG.
    level : float
        RMS of its speech, dB of full scale.
    sentences : tuple of int
        The sentences it speaks, as indices into `sentences`.
    """

    split: str
    name: str
    variant: str
    words_per_minute: int
    pitch: int
    level: float
    sentences: tuple[int, ...]


@lru_cache(maxsize=1)
def sentences() -> tuple[str, ...]:
    """Return all sentences of the demo corpus."""
    text = resources.files("speechctc.corpora").joinpath("sentences.txt").read_text(encoding="ascii")
    return tuple(text.splitlines())


def cast(config: DemoConfig) -> list[Voice]:
    """Choose the voices and distribute the sentences among them; the result depends only on the config."""
    rng = random.Random(config.seed)
    order = list(range(config.sentences))
    rng.shuffle(order)
    texts, people = _divide(config.sentences, config.held_out), _divide(config.voices, config.held_out)
    voices: list[Voice] = []
    for split in SPLITS:
        deck, order = order[: texts[split]], order[texts[split] :]
        wanted = config.utterances_per_voice if split == "train" else config.evaluation_utterances_per_voice
        hand = min(wanted, len(deck))
        for k, (sex, variant) in enumerate(_variants(split, people[split])):
            voice = Voice(
                split=split,
                name=_name(sex, variant, {voice.name for voice in voices}),
                variant=variant,
                words_per_minute=rng.randint(*config.words_per_minute),
                pitch=rng.randint(*config.pitch),
                level=rng.uniform(-30.0, -22.0),
                sentences=tuple(deck[(k * hand + j) % len(deck)] for j in range(hand)),
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
