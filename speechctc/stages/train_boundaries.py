"""Train a boundary model for a recogniser on phones with times: its examples, its steps, and the stage.

The loss is minus the log probability of the true way through the lattice of all ways. Its gradient in each score is a
probability from forward-backward less 1 where the true way passes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from speechctc.audio import sound_file
from speechctc.config.load import with_settings
from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.core.optimizers import AdamW
from speechctc.core.progress import Reporter
from speechctc.core.training_process import only_training
from speechctc.corpora.corpus import Utterance
from speechctc.corpora.registry import read_corpus
from speechctc.inference import boundary_model
from speechctc.inference.boundary_model import CHANNELS, DIMS, LAYERS, MELS, RANK, SHIFT_MS, BoundaryModel, Times
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.semi_crf import Lattice, marginals
from speechctc.metrics.boundary_errors import WITHIN_MS, summary
from speechctc.model.checkpoint import BUILT_IN, arrays_of, find_checkpoint
from speechctc.phones.articulation import is_arpabet
from speechctc.stages.open_model import ModelChoice, open_model
from speechctc.stages.split_scoring import HEARD, aligned_starts, keep_dev
from speechctc.stages.used_model import own_folder, write_learned

MAX_MEASURED = 100  # utterances of dev to align
BATCH = 12
STEPS = 400  # steps of the optimiser; no example is used more than `MAX_USES` times, or `MAX_USES_FINE_TUNING` times
MAX_USES, MAX_USES_FINE_TUNING = 12, 24
LR, FURTHER_LR = 4e-3, 3e-3
KEPT = 0.3  # share of the weights from before in those of a net that learns further
NOISE_DB = (15.0, 60.0)  # how far noise that is added is below the loudest parts of the speech

MIN_BOUNDARIES = 40  # boundaries that tell what spread is right

Scores = tuple[Tensor, Tensor, Tensor]

MAX_SECONDS = 8.0  # longer utterances are divided into parts, seconds
GAP = 0.01  # seconds between two phones from which there is a silence between them
REACH = 0.4  # how far from the true ones boundaries are looked at in training, seconds


class BoundaryNet(nn.Module):
    """What `speechctc.inference.boundary_model.scores` computes, to be trained."""

    def __init__(self, channels: int = CHANNELS, convolutions: int = LAYERS) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv1d(channels if k else MELS, channels, 5, padding=2 * 2**k, dilation=2**k)
            for k in range(convolutions)
        )
        self.inside = nn.Conv1d(channels, RANK, 1)
        self.change = nn.Conv1d(channels, RANK, 3, padding=1)
        self.phone = nn.Sequential(nn.Linear(DIMS, 32), nn.ReLU(), nn.Linear(32, RANK + 1))
        self.pair = nn.Sequential(nn.Linear(2 * DIMS, 48), nn.ReLU(), nn.Linear(48, RANK + 1))
        self.dropout = nn.Dropout(0.1)

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return what frames, (n_batch, n_frames, MELS), say of phones and of boundaries: (n_batch, n_frames, RANK)."""
        hidden = frames.transpose(1, 2)
        for k, conv in enumerate(self.convs):
            above = torch.relu(conv(hidden))
            hidden = self.dropout(hidden + above if k else above)
        return self.inside(hidden).transpose(1, 2), self.change(hidden).transpose(1, 2)

    def scores(self, inside: Tensor, change: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the scores of a `speechctc.inference.semi_crf.Lattice`, each (n_frames, n_states).

        Parameters
        ----------
        inside, change : Tensor, shape = (n_frames, RANK)
            From `forward`, of one recording.
        vectors : Tensor, shape = (n_states, DIMS)
            Of the phones in order.
        """
        phones = self.phone(vectors)
        moved = [torch.from_numpy(boundary_model.later(vectors.numpy(), by)) for by in (1, 2)]
        pairs = [self.pair(torch.cat([each, vectors], 1)) for each in moved]
        first, second = (change @ pair[:, :-1].T + pair[:, -1] for pair in pairs)
        return inside @ phones[:, :-1].T + phones[:, -1], first, second


def train(
    net: BoundaryNet,
    examples: Sequence[Example],
    further: bool = False,
    noise: bool = True,
    advance: Callable[[float], None] = lambda loss: None,
    steps: int | None = None,
) -> None:
    """Train a net.

    Parameters
    ----------
    net : BoundaryNet
    examples : sequence of Example
    further : bool
        The net has learned from other speech before; its weights are then the mean of those from before and new ones.
    noise : bool
        Add noise at random levels.
    advance : callable
        Called after each step with the mean loss of a phone, nats.
    steps : int, optional
        Of the optimiser; `step_count` by default.
    """
    rng = np.random.default_rng(0)
    steps, before = steps or step_count(len(examples), further), [each.detach().clone() for each in net.parameters()]
    rate = FURTHER_LR if further else LR
    optimiser = AdamW([{"params": [*net.parameters()], "weight_decay": 1e-3}], rate)
    net.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for step, batch in enumerate(_batches(examples, steps, rng)):
            loss, value = _loss(net, batch, rng if noise else None)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 2.0)
            optimiser.param_groups[0].update(one_cycle(step, steps, rate))
            optimiser.step()
            advance(value)
    for weights, old in zip(net.parameters(), before, strict=True):
        weights.data.lerp_(old, KEPT if further else 0.0)
    net.eval()


def step_count(examples: int, further: bool = False) -> int:
    """Return the number of steps that `train` takes."""
    most = MAX_USES_FINE_TUNING if further else MAX_USES
    return max(min(STEPS, math.ceil(most * examples / BATCH)), 2)


def one_cycle(step: int, steps: int, rate: float) -> dict[str, float]:
    """Return the learning rate and Adam's first constant of a step: the one rises to `rate`, the other falls, and back.

    Both go along half a cosine, as in `torch.optim.lr_scheduler.OneCycleLR` (Smith and Topin 2017, arXiv 1708.07120).
    """
    top, last = 0.15 * steps - 1, steps - 1
    begins, ends = (1e-4 / 25, (step - top) / (last - top)) if step > top else (1 / 25, 1 - step / top)
    away = (1 - math.cos(math.pi * ends)) / 2  # 0 at the top, 1 at either end
    return {"lr": rate * (1 + (begins - 1) * away), "beta1": 0.85 + 0.1 * away}


def _batches(examples: Sequence[Example], steps: int, rng: np.random.Generator) -> Iterator[list[Example]]:
    """Yield batches of examples of similar length."""
    done = 0
    while True:
        lengths = np.array([len(each.frames) for each in examples]) + rng.uniform(0, 60, len(examples))
        order = np.argsort(lengths)
        starts = np.arange(0, len(order), BATCH)
        for start in rng.permutation(starts):
            if done == steps:
                return
            done += 1
            yield [examples[k] for k in order[start : start + BATCH]]


def _loss(net: BoundaryNet, batch: Sequence[Example], rng: np.random.Generator | None) -> tuple[Tensor, float]:
    """Return a number with the gradient of the loss, and the loss; both for each phone."""
    frames = [_noisy(each.frames, rng) if rng else each.frames for each in batch]
    said, changes = net(nn.utils.rnn.pad_sequence(frames, batch_first=True))
    loss, value, phones = torch.zeros(()), 0.0, 0
    for k, each in enumerate(batch):
        scores = net.scores(said[k, : len(frames[k])], changes[k, : len(frames[k])], each.vectors)
        gradients, minus_log = _gradients(scores, each)
        for score, gradient in zip(scores, gradients, strict=True):
            loss = loss + (score * gradient).sum()
        value += minus_log
        phones += int((~each.optional).sum())
    return loss / max(phones, 1), value / max(phones, 1)


def _gradients(scores: Scores, example: Example) -> tuple[Scores, float]:
    """Return the gradient of the loss in each score, and the loss."""
    inside, entered, skipped = (score.detach().double().numpy() for score in scores)
    untimed = boundary_model.untimed(len(example.optional))
    found = marginals(Lattice(inside, entered, skipped, example.optional, example.low, example.high, untimed))
    gradients = [each.copy() for each in found[1:]]
    rows = np.arange(len(example.state))
    true = inside[rows, example.state].sum()
    gradients[0][rows, example.state] -= 1.0
    step = np.diff(example.state, prepend=example.state[0])
    for kind, score in ((1, entered), (2, skipped)):
        at = np.flatnonzero(step == kind)
        true += score[at, example.state[at]].sum()
        gradients[kind][at, example.state[at]] -= 1.0
    first, second, third = (torch.from_numpy(each.astype(np.float32)) for each in gradients)
    return (first, second, third), float(found.total - true)


def _noisy(frames: Tensor, rng: np.random.Generator) -> Tensor:
    """Return log energies with stationary noise of a random level and slope, and as through a random filter."""
    values: NDArray[np.float64] = frames.double().numpy() * boundary_model.SCALE
    bands = values.shape[1]
    level = np.percentile(values, 95) - rng.uniform(*NOISE_DB) * math.log(10) / 10
    floor = level + np.linspace(-1, 1, bands) * rng.uniform(-2, 2)
    noisy = np.logaddexp(values, floor + np.log(rng.gamma(4, 0.25, values.shape)))
    noisy += np.cumsum(rng.normal(0, 0.15, bands))
    return torch.from_numpy((noisy / boundary_model.SCALE).astype(np.float32))


def spread_for(errors: NDArray[np.float64], intervals: NDArray[np.float64], spread: float) -> float | None:
    """Return the spread with which `SHARE` of boundaries lie in their intervals; None for too few to tell.

    Parameters
    ----------
    errors : ndarray, shape = (n,)
        By how much each boundary was placed too late, seconds.
    intervals : ndarray, shape = (n, 2)
        How far each interval reaches before and after the boundary, seconds, with the spread `spread`.
    spread : float
    """
    if len(errors) < MIN_BOUNDARIES:
        return None
    sides = np.where(errors > 0, intervals[:, 0], intervals[:, 1])
    return float(spread * np.quantile(np.abs(errors) / np.maximum(sides, 1e-4), boundary_model.SHARE))


def joined(phones: Sequence[str], times: Times) -> tuple[tuple[str, ...], Times]:
    """Return phones in IPA, with each closure and the stop after it as one phone, from the closure's start.

    A closure without a release becomes the stop.
    """
    labels: list[str] = []
    spans: list[tuple[float, float]] = []
    open_until = None
    for phone, (start, end) in zip(phones, times, strict=True):
        if open_until == start and boundary_model.is_stop(phone):
            labels[-1], spans[-1] = phone, (spans[-1][0], end)
            open_until = None
            continue
        open_until = end if boundary_model.UNRELEASED in phone else None
        labels.append(phone.replace(boundary_model.UNRELEASED, ""))
        spans.append((start, end))
    return tuple(labels), tuple(spans)


def frame_of(seconds: float) -> int:
    """Return the first frame whose middle is after a time."""
    return max(round((seconds - boundary_model.WINDOW_MS / 2000) / (SHIFT_MS / 1000) + 0.5), 0)


class Example(NamedTuple):
    """A part of an utterance.

    Attributes
    ----------
    frames : Tensor, shape = (n_frames, MELS)
    vectors : Tensor, shape = (n_states, DIMS)
        Of its phones, with a silence between every two that may be left out.
    optional : ndarray, shape = (n_states,), bool
    low, high : ndarray, shape = (n_states,), int64
        As in `speechctc.inference.semi_crf.Lattice`.
    state : ndarray, shape = (n_frames,), int64
        The true state of each frame.
    """

    frames: Tensor
    vectors: Tensor
    optional: NDArray[np.bool_]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    state: NDArray[np.int64]


def examples_of(
    samples: NDArray[np.float32], rate: int, phones: Sequence[str], times: Times, closures: bool
) -> Iterator[Example]:
    """Yield the parts of an utterance; left out are those without phones, or with one shorter than a frame.

    Parameters
    ----------
    samples : ndarray, shape = (n,), float32
    rate : int
        Hz.
    phones : sequence of str
        In IPA.
    times : sequence of (float, float)
        Start and end of each, seconds.
    closures : bool
        The phone set tells closures from releases.
    """
    whole = torch.from_numpy(boundary_model.frames_of(samples, rate))
    first = 0
    for k in range(len(phones)):
        if k + 1 == len(phones) or times[k][1] - times[first][0] > MAX_SECONDS:
            begin = 0 if first == 0 else frame_of(times[first][0])
            end = len(whole) if k + 1 == len(phones) else frame_of(times[k][1])
            part = _example(whole[begin:end], begin, phones[first : k + 1], times[first : k + 1], closures)
            if part is not None:
                yield part
            first = k + 1


def durations_in(examples: Sequence[Example]) -> NDArray[np.float32]:
    """Return what is usual of the durations of their phones (`speechctc.inference.boundary_model.durations_of`)."""
    phones = [np.flatnonzero(~each.optional) for each in examples]
    vectors = [each.vectors.numpy()[own] for each, own in zip(examples, phones, strict=True)]
    frames = [np.bincount(each.state, minlength=own[-1] + 1)[own] for each, own in zip(examples, phones, strict=True)]
    seconds = np.concatenate(frames) * (SHIFT_MS / 1000)
    numbers = np.repeat(np.arange(len(examples)), [len(own) for own in phones])
    return boundary_model.durations_of(np.concatenate(vectors), seconds, numbers)


def _example(frames: Tensor, begin: int, phones: Sequence[str], times: Times, closures: bool) -> Example | None:
    labels, optional, entries = _states(phones, times, 0.0 if begin == 0 else times[0][0])
    count = len(frames)
    starts = [max(frame_of(start) - begin, 0) for _, start in entries]
    if optional.all() or any(b <= a for a, b in zip(starts, [*starts[1:], count], strict=True)):
        return None
    starts[0] = 0
    state = np.zeros(count, np.int64)
    for (place, _), start in zip(entries, starts, strict=True):
        state[start:] = place
    reach = round(1000 * REACH / SHIFT_MS)
    at = np.interp(np.arange(len(labels)), [place for place, _ in entries], starts)
    low = np.maximum(at - reach, 0).astype(np.int64)
    low[:2] = 0
    high = np.append(np.minimum(at[1:] + reach, count), count).astype(np.int64)
    high[-2:] = count
    return Example(frames, torch.from_numpy(boundary_model.phone_vectors(labels, closures)), optional, low, high, state)


def _states(
    phones: Sequence[str], times: Times, until: float
) -> tuple[list[str], NDArray[np.bool_], list[tuple[int, float]]]:
    """Return the states, which may be left out, and those that are there with their beginnings; all after `until`."""
    labels: list[str] = []
    entries: list[tuple[int, float]] = []
    for phone, (start, end) in zip(phones, times, strict=True):
        silent = labels[-1:] == [boundary_model.SILENCE]
        if phone == boundary_model.SILENCE and silent:
            until = end
            continue
        if not silent:
            labels.append(boundary_model.SILENCE)
            if phone == boundary_model.SILENCE or start - until > GAP:
                entries.append((len(labels) - 1, until if phone != boundary_model.SILENCE else start))
        if phone != boundary_model.SILENCE:
            labels.append(phone)
            entries.append((len(labels) - 1, start))
        until = end
    if labels and labels[-1] != boundary_model.SILENCE:
        labels.append(boundary_model.SILENCE)
    return labels, np.array([label == boundary_model.SILENCE for label in labels]), entries


def train_boundaries(
    model: Path | None, reporter: Reporter, overrides: Sequence[str] = (), minutes: float = 40.0, fresh: bool = False
) -> str:
    """Train on the training split of a corpus, compare on dev, and write the model into the checkpoint's folder.

    That of a bundled model is the user's own copy.

    It is written if on dev its boundaries are not worse than those so far: of the boundary model that it replaces, or
    between the net's spikes.

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
    recogniser = open_model(folder, Recogniser, ModelChoice("cpu"))
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
    trained = BoundaryModel(arrays_of(net.state_dict()), rate, durations=durations_in(examples))
    note = _compared(recogniser, corpus.splits["dev"], trained)  # sets its spread
    write_learned(folder, own, lambda place: files.write_file(place / boundary_model.FILE, trained.save), reporter)
    minutes = sum(len(each.frames) for each in examples) * SHIFT_MS / 60_000
    return f"trained on {minutes:.1f} minutes with times{note}\nwritten: {own / boundary_model.FILE}"


def _compared(recogniser: Recogniser, utterances: Sequence[Utterance], trained: BoundaryModel) -> str:
    """Return how the trained boundary model compares with what it replaces, and let its intervals hold on dev.

    Raises
    ------
    InputError
        It is worse.
    """
    before, now = (measure(recogniser, utterances, model) for model in (recogniser.boundaries, trained))
    if before is None or now is None:
        return "; dev has no times, or other phones than the model: not compared"
    what = "by the boundary model so far" if recogniser.boundaries else "between spikes"
    told = f"{what}: {_text(before)}", f"by the new one: {_text(now)}"
    if now["median_error_ms"] > before["median_error_ms"]:
        raise InputError(f"on dev they become worse, {', '.join(told)}", "train on more speech, and check its times")
    trained.spread = now["spread"] or trained.spread
    return "\n  ".join((f"; {now['boundaries']} boundaries of dev", *told))


def _with_times(utterances: Sequence[Utterance]) -> list[Utterance]:
    return [utterance for utterance in utterances if utterance.times and len(utterance.phones) > 1]


def _examples(
    utterances: Sequence[Utterance], recogniser: Recogniser, minutes: float, reporter: Reporter
) -> list[Example]:
    """Read utterances in random order until there is enough speech; closures are kept where the model has some."""
    rate, closures = recogniser.config.features.sample_rate, boundary_model.has_closures(recogniser.phones)
    arpabet = is_arpabet(sorted({phone for utterance in utterances for phone in utterance.phones}))
    examples: list[Example] = []
    left = 60 * minutes
    shuffled = random.Random(0).sample(utterances, len(utterances))
    for utterance in reporter.track("reading", shuffled, len(shuffled)):
        samples, _ = sound_file.read(utterance.audio, rate, utterance.channel, utterance.stretch)
        labels, times = boundary_model.spelled(utterance.phones, arpabet), utterance.times or ()
        labels, times = (labels, times) if closures else joined(labels, times)
        examples += examples_of(samples, rate, labels, times, closures)
        left -= len(samples) / rate
        if left <= 0:
            break
    if not examples:
        raise InputError("no utterance of the training split has phones that last 5 ms each", "correct its times")
    return examples


@only_training()
def _trained(start: BoundaryModel | None, examples: Sequence[Example], reporter: Reporter) -> BoundaryNet:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = BoundaryNet(*boundary_model.size_of(start.weights) if start else ())
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
