"""Examine a corpus and the machine before long work. Nothing is changed; a demo corpus is made if it is not there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from speechctc.config.schema import Config
from speechctc.core.cores import cores, map_in_threads
from speechctc.core.errors import InputError, counted, first_few
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Corpus
from speechctc.corpora.registry import read_corpus
from speechctc.features.extractor import extractor
from speechctc.stages.doctor.finding import Diagnosis, Finding, cannot_train
from speechctc.stages.doctor.label_checks import check_labels, check_splits
from speechctc.stages.doctor.quick_checks import check_without_torch
from speechctc.stages.doctor.sound_checks import Heard, Place, Sounds, check_sounds, listen_to

EDGES = (0, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 30, 60, math.inf)  # s, of the histogram
WIDTH = 40  # signs of its longest bar


def examine(config: Config | None, reporter: Reporter) -> Diagnosis:
    """Examine the machine, and the corpus of a config if there is one.

    Parameters
    ----------
    config : Config or None
        None: only the machine.
    reporter : Reporter
    """
    if config is None:
        return _check_machine()
    about = _check_machine(config.train.device, (config.data.dir, config.run))
    try:
        corpus = read_corpus(config.corpus)
    except InputError as error:
        return Diagnosis((cannot_train(error), *about.findings), about.facts)
    sounds = listen(corpus, reporter)
    found = [*check_corpus(config, corpus, sounds), *about.findings]
    facts = corpus_facts(corpus, sounds) | about.facts
    if about.is_possible and find_spec("torch"):
        more, estimated = _estimate(config, corpus, sounds)
        found += more
        facts |= estimated
    return Diagnosis(tuple(found), facts)


def _check_machine(device: str = "auto", folders: tuple[Path, ...] = ()) -> Diagnosis:
    if find_spec("torch") is None:
        return check_without_torch(folders)
    from speechctc.stages.doctor.machine import check_machine  # late: it loads torch

    return check_machine(device, folders)


def check_corpus(config: Config, corpus: Corpus, sounds: Sounds) -> list[Finding]:
    """Return the findings on recordings, splits and labels."""
    found = check_sounds(sounds, config.features.sample_rate, config.train.init_from is not None)
    return [*found, *check_splits(corpus, sounds)] + check_labels(corpus, sounds, config)


def listen(corpus: Corpus, reporter: Reporter) -> Sounds:
    """Measure all recordings of a corpus."""
    places = list(dict.fromkeys(map(Place.of, corpus.utterances())))
    heard = map_in_threads(lambda each: listen_to(*each), places, cores())
    return dict(reporter.track("listening", zip(places, heard, strict=True), len(places)))


def _estimate(config: Config, corpus: Corpus, sounds: Sounds) -> tuple[list[Finding], dict[str, str]]:
    """Estimate the memory of training; return findings and facts."""
    from speechctc.stages.doctor.machine import check_memory, estimate_memory  # late: it loads torch

    frames = []
    for each in corpus.splits["train"]:
        sound = sounds[Place.of(each)]
        if isinstance(sound, Heard):
            samples = round(sound.seconds * config.features.sample_rate)
            frames.append(extractor(config.features).frames(samples))
    used = np.array([count for count in frames if count], dtype=np.int64)
    if not len(used):
        return [cannot_train(InputError("no training utterance has a frame", "add longer recordings"))], {}
    try:
        memory = estimate_memory(config, corpus.inventory(), used)
    except InputError as error:
        return [cannot_train(error)], {}
    return check_memory(memory), {"memory": memory.to_text().removeprefix("memory ")}


def corpus_facts(corpus: Corpus, sounds: Sounds) -> dict[str, str]:
    """Return the facts by subject."""
    facts = {}
    for split, part in corpus.splits.items():
        if part:
            heard = [sounds.get(Place.of(each)) for each in part]
            seconds = sum(sound.seconds for sound in heard if isinstance(sound, Heard))
            speakers = {each.speaker for each in part} - {""}
            who = f", {len(speakers)} speaker{'s' * (len(speakers) > 1)}" if speakers else ""
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
    least = f"; least: {first_few(ranked[:-6:-1], 5)}" if len(ranked) > 10 else ""
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
