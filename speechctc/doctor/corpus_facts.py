"""Facts of a corpus in words: its size, formats, lengths as a histogram, and the balance of its phones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from speechctc.core.errors import counted, some
from speechctc.corpora.corpus import Corpus
from speechctc.doctor.sound_checks import Heard, Place, Sounds

EDGES = (0, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 30, 60, math.inf)  # s, of the histogram
WIDTH = 40  # signs of its longest bar


def corpus_facts(corpus: Corpus, sounds: Sounds) -> dict[str, str]:
    """Return the facts by subject."""
    facts = {}
    for split, part in corpus.splits.items():
        if part:
            heard = [sounds.get(Place.of(each)) for each in part]
            seconds = sum(sound.seconds for sound in heard if isinstance(sound, Heard))
            speakers = {each.speaker for each in part} - {""}
            who = f", {len(speakers)} speakers" if speakers else ""
            labels = sum(len(each.phones) for each in part)
            facts[split] = f"{len(part):,} utterances, {seconds / 60:.1f} minutes{who}, {labels:,} phones"
    read = [sound for sound in sounds.values() if isinstance(sound, Heard)]
    facts["formats"] = _formats(sounds, read)
    facts["phones"] = _phones(corpus)
    if read:
        facts["lengths"] = histogram([sound.seconds for sound in read])
    return facts


def _formats(sounds: Sounds, read: Sequence[Heard]) -> str:
    endings = Counter(path.suffix.lower().removeprefix(".") for path in {place.path for place in sounds})
    rates = Counter(f"{sound.rate:,} Hz" for sound in read)
    channels = Counter(f"{sound.channels} channel{'s' if sound.channels > 1 else ''}" for sound in read)
    return "; ".join(filter(None, (counted(endings), counted(rates), counted(channels))))


def _phones(corpus: Corpus) -> str:
    """Return the number of phones, their balance, and the most and the least frequent ones."""
    train = Counter(phone for each in corpus.splits["train"] for phone in each.phones)
    if not train:
        return "none"
    shares = np.array(list(train.values())) / train.total()
    even = math.exp(-float((shares * np.log(shares)).sum()))
    ranked = [f"{phone} {count}" for phone, count in train.most_common()]
    least = f"; least: {some(ranked[:-6:-1], 5)}" if len(ranked) > 10 else ""
    return (
        f"{len(train)} in train, as varied as {even:.0f} that are equally frequent (perplexity);"
        f" most: {', '.join(ranked[:5])}{least}"
    )


def histogram(seconds: Sequence[float]) -> str:
    """Return a histogram of lengths, a line for each range that is between the shortest and the longest."""
    counts, _ = np.histogram(seconds, EDGES)
    there = np.flatnonzero(counts)
    lines = []
    for k in range(there[0], there[-1] + 1):
        high = "more" if math.isinf(EDGES[k + 1]) else f"{EDGES[k + 1]:g} s"
        bar = "#" * math.ceil(WIDTH * counts[k] / counts.max())
        lines.append(f"{EDGES[k]:>4g} to {high:<5} {counts[k]:>7,} {bar}")
    return "\n".join(lines)
