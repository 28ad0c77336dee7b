"""Train a boundary model for a recogniser on a corpus with times."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from speechctc.audio import sound_file
from speechctc.config.load import with_settings
from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Utterance
from speechctc.corpora.registry import read_corpus
from speechctc.inference.boundary_model import FILE, SHIFT_MS, BoundaryModel, has_closures, spelled
from speechctc.inference.boundary_training import (
    BoundaryNet,
    Example,
    examples_of,
    joined,
    spread_for,
    step_count,
    train,
)
from speechctc.inference.recogniser import Recogniser
from speechctc.metrics.boundary_errors import WITHIN_MS, summary
from speechctc.model.checkpoint import BUILT_IN, arrays_of, find_checkpoint
from speechctc.phones.articulation import is_arpabet
from speechctc.stages.split_scoring import HEARD, aligned_starts, keep_dev
from speechctc.stages.used_model import own_folder, write_learned

MAX_MEASURED = 100  # utterances of dev to align


def train_boundaries(
    model: Path | None, reporter: Reporter, overrides: Sequence[str] = (), minutes: float = 40.0, fresh: bool = False
) -> str:
    """Train on the training split of a corpus, compare on dev, and write the model into the checkpoint's folder.

    That of a bundled model is the user's own copy.

    It is written if on dev its boundaries are not worse than those of the boundary model that it replaces, nor than
    those between the net's spikes.

    Parameters
    ----------
    model : Path or None
        A checkpoint or a run's folder (its best); None: the latest run.
    reporter : Reporter
    overrides : sequence of str
        Settings that replace those of the model's config, above all the corpus.
    minutes : float
        Most speech to train on.
    fresh : bool
        Start from random weights, not from the boundary model that is there or the bundled one.

    Returns
    -------
    str
        What was learned, in words.

    Raises
    ------
    InputError
        There is no such model, the corpus has no times, or the boundaries of dev become
        worse: nothing is saved.
    """
    folder = find_checkpoint(model)
    own = own_folder(folder)
    recogniser = Recogniser.load(folder, "cpu")
    config = with_settings(recogniser.config, (HEARD, *overrides))
    corpus, notes = keep_dev(read_corpus(config.corpus), config, recogniser.checkpoint, reporter)
    reporter.note(*notes)
    rate = recogniser.config.features.sample_rate
    timed = _with_times(corpus.splits["train"])
    if not timed:
        fix = "name one that has: corpus.kind=textgrid, timit, elan or espeak"
        raise InputError("no utterance of the corpus's training split has the times of its phones", fix)
    examples = _examples(timed, recogniser, minutes, reporter)
    start = None if fresh else recogniser.boundaries or BoundaryModel.load(BUILT_IN)
    further = start is not None and start.rate == rate
    net = _trained(start if further else None, examples, reporter)
    trained = BoundaryModel(arrays_of(net.state_dict()), rate)
    note = _compared(recogniser, corpus.splits["dev"], trained)  # sets its spread
    write_learned(folder, own, lambda place: files.write_file(place / FILE, trained.save), reporter)
    return f"trained on {sum(len(each.frames) for each in examples) * SHIFT_MS / 60_000:.1f} minutes with times{note}"


def _compared(recogniser: Recogniser, utterances: Sequence[Utterance], trained: BoundaryModel) -> str:
    """Return how the trained boundary model compares with what it replaces, and let its intervals hold on dev.

    Raises
    ------
    InputError
        It is worse.
    """
    ways = {"between spikes": None, "by the boundary model so far": recogniser.boundaries, "by the new one": trained}
    measured = {way: measure(recogniser, utterances, model) for way, model in ways.items() if model or "spikes" in way}
    found = {way: errors for way, errors in measured.items() if errors is not None}
    if not found:
        return "; dev has no times, or other phones than the model: not compared"
    *_, (_, new) = found.items()
    best = min(found, key=lambda way: float(found[way]["median_error_ms"]))
    if new["median_error_ms"] > found[best]["median_error_ms"]:
        what = f"on dev the boundaries become worse: {best} {_text(found[best])}; by the new one {_text(new)}"
        raise InputError(f"{what}; nothing is saved", "train on more speech, and check its times")
    trained.spread = new.get("spread") or trained.spread
    lines = [f"\n  {way}: {_text(errors)}" for way, errors in found.items()]
    return f"; {new['boundaries']} boundaries of dev" + "".join(lines)


def _with_times(utterances: Sequence[Utterance]) -> list[Utterance]:
    return [utterance for utterance in utterances if utterance.times and len(utterance.phones) > 1]


def _examples(
    utterances: Sequence[Utterance], recogniser: Recogniser, minutes: float, reporter: Reporter
) -> list[Example]:
    """Read utterances in random order until there is enough speech; closures are kept where the model has some."""
    rate, closures = recogniser.config.features.sample_rate, has_closures(recogniser.phones)
    arpabet = is_arpabet(sorted({phone for utterance in utterances for phone in utterance.phones}))
    examples: list[Example] = []
    left = 60 * minutes
    shuffled = random.Random(0).sample(utterances, len(utterances))
    for utterance in reporter.track("reading", shuffled, len(shuffled)):
        samples, _ = sound_file.read(utterance.audio, rate, utterance.channel, utterance.stretch)
        labels, times = spelled(utterance.phones, arpabet), utterance.times or ()
        labels, times = (labels, times) if closures else joined(labels, times)
        examples += examples_of(samples, rate, labels, times, closures)
        left -= len(samples) / rate
        if left <= 0:
            break
    if not examples:
        raise InputError("no utterance of the training split has phones that last 5 ms each", "correct its times")
    return examples


def _trained(start: BoundaryModel | None, examples: Sequence[Example], reporter: Reporter) -> BoundaryNet:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = BoundaryNet()
    if start is not None:
        net.load_state_dict({name: torch.from_numpy(value) for name, value in start.weights.items()})
    with reporter.progress("training", step_count(len(examples), start is not None)) as advance:
        train(net, examples, further=start is not None, advance=lambda loss: advance(1, f"loss {loss:.2f}"))
    return net


def measure(
    recogniser: Recogniser, utterances: Sequence[Utterance], boundaries: BoundaryModel | None
) -> dict[str, Any] | None:
    """Align utterances with times, and return the errors of their phones' starts; None where none can be aligned.

    Parameters
    ----------
    recogniser : Recogniser
    utterances : sequence of Utterance
        Those with times are taken, `MAX_MEASURED` at most.
    boundaries : BoundaryModel or None
        Refines the alignment; the spread that would be right for it is among the figures.
    """
    placer = recogniser.replaced(lstm=None, boundaries=boundaries)
    timed = _with_times(utterances)
    if len(timed) > MAX_MEASURED:
        timed = random.Random(0).sample(timed, MAX_MEASURED)
    errors: list[float] = []
    around: list[tuple[float, float]] = []
    for start, segment in aligned_starts(placer, timed):
        low, high = segment.start_interval or (segment.start, segment.start)
        errors.append(segment.start - start)
        around.append((segment.start - low, high - segment.start))
    if not errors:
        return None
    spread = spread_for(np.array(errors), np.array(around), boundaries.spread) if boundaries else None
    return summary(np.array(errors)) | {"spread": spread}


def _text(found: dict[str, Any]) -> str:
    """Return errors in words."""
    shares = "/".join(f"{100 * found[f'within_{ms}_ms']:.0f}" for ms in WITHIN_MS)
    sizes = f"median error {found['median_error_ms']:.1f} ms, mean {found['mean_error_ms']:.1f} ms"
    return f"{sizes}, {shares} % within {'/'.join(map(str, WITHIN_MS))} ms"
