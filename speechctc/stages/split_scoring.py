"""Decode a split of the corpus, and mark each phone as right or wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.config.load import with_settings
from speechctc.config.schema import KEYS_OF_KIND, KEYS_OF_OWN, MARKS, Config
from speechctc.core.errors import InputError, counted, first_few
from speechctc.core.files import content
from speechctc.core.parallel import attempt, map_in_threads
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Corpus, Utterance, note_text
from speechctc.corpora.corpus_builder import note_of_xsampa
from speechctc.corpora.heard import report_recordings
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.tiers import UNCORRECTED
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment
from speechctc.metrics.edits import right_phones
from speechctc.metrics.per import EditCounts, edit_counts
from speechctc.metrics.reliability import Reliability, reliability
from speechctc.model.checkpoint import Checkpoint
from speechctc.phones.articulation import match_phones
from speechctc.phones.folding import Folding, choose_folding, parse_folding
from speechctc.phones.inventory import BURSTS, Inventory, inventory_of
from speechctc.phones.label_rules import are_strings
from speechctc.phones.marks import without_marks
from speechctc.phones.nonspeech import LEFT_OUT
from speechctc.phones.nonspeech_labels import kind_of_phone
from speechctc.phones.notations import are_other_ipa, choose_symbols, is_xsampa, notation_of

HEARD = "corpus.uncorrected=false"
"""The setting that leaves labels out that a model wrote and nobody corrected: they say nothing of a model."""

UNFOLDED = parse_folding("none")
Times = tuple[tuple[float, float], ...]


class ScoredUtterance(NamedTuple):
    """An utterance, the phones recognised in it, and its errors by the model's folding.

    Attributes
    ----------
    number : int
        Its place in the split.
    utterance : Utterance
    segments : sequence of Segment
    counts : EditCounts
    """

    number: int
    utterance: Utterance
    segments: Sequence[Segment]
    counts: EditCounts

    @property
    def phones(self) -> list[str]:
        """The phones recognised."""
        return [segment.phone for segment in self.segments]


@dataclass
class ScoredSplit:
    """The scores of a split.

    Attributes
    ----------
    utterances : tuple of Utterance
        All utterances of the split, decoded or not.
    protocol : str
        How phones were decoded, folded and compared, in words.
    folding : Folding
    inventory : Inventory
        The phones that may be recognised, as they are written.
    notes : tuple of str
        How the corpus was divided and its labels were read, where that is not as in the model's config.
    labels : dict of str to tuple of str
        By id, the phones of each utterance as the corpus has them.
    results : list of ScoredUtterance
    counts : EditCounts
        Of all results.
    skipped : list of (str, str)
        Ids of utterances that could not be scored, and the reasons.
    dereverberated : int
        Utterances of which reverberation or hum was taken off first.
    """

    utterances: tuple[Utterance, ...]
    protocol: str
    folding: Folding
    inventory: Inventory
    notes: tuple[str, ...] = ()
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    results: list[ScoredUtterance] = field(default_factory=list)
    counts: EditCounts = field(default_factory=EditCounts)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    dereverberated: int = 0

    def add(self, number: int, segments: Sequence[Segment]) -> None:
        """Score the phones recognised in utterance `number`."""
        utterance, phones = self.utterances[number], [segment.phone for segment in segments]
        counts = edit_counts(self.folding.apply(utterance.phones), self.folding.apply(phones))
        self.results.append(ScoredUtterance(number, utterance, segments, counts))
        self.counts += counts

    @property
    def speakers(self) -> list[str]:
        """The speaker of each result."""
        return [result.utterance.speaker for result in self.results]

    @property
    def reliability(self) -> Reliability:
        """The PER's interval."""
        return reliability([result.counts for result in self.results], self.speakers)

    @cached_property
    def marks(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Of each scored phone its confidence, 1 if it is right or else 0, and the number of its utterance.

        Asked for when all results are there; each has the shape (n_phones,).
        """
        found = []
        for number, utterance, segments, _ in self.results:
            marks = right_phones(utterance.phones, [each.phone for each in segments], self.folding)
            pairs = zip(segments, marks, strict=True)
            found += [(segment.confidence, right, number) for segment, right in pairs if right is not None]
        confidences, right, numbers = np.array(found, dtype=np.float64).reshape(-1, 3).T
        return confidences, right, numbers.astype(np.int64)


def score_split(
    recogniser: Recogniser, split: str, overrides: Sequence[str], reporter: Reporter, what: str, symbols: str = "own"
) -> ScoredSplit:
    """Decode a split of the model's corpus and compare with the labels.

    Parameters
    ----------
    recogniser : Recogniser
    split : str
    overrides : sequence of str
        Settings that replace those of the model's config: another corpus, folding or decoding.
    reporter : Reporter
    what : str
        The text of the progress bar.
    symbols : str
        How the phones recognised are written; see `speechctc.phones.notations.choose_symbols`. The labels are
        compared as they are where they have these symbols, and by tables where they are in another notation.

    Raises
    ------
    InputError
        The split is empty, or none of its recordings can be decoded.
    """
    own = [HEARD, *(f"corpus.{key}={getattr(recogniser.config.corpus, key)}" for key in MARKS)]  # of any kind of corpus
    config = with_settings(recogniser.config, (*own, *overrides))
    keys = {each.partition("=")[0] for each in overrides}
    trained = with_settings(recogniser.config, own)
    corpus, notes = _read_divided(config, trained, split, recogniser.phones, keys)
    known = MARKS if "length" in KEYS_OF_KIND.get(config.corpus.kind, KEYS_OF_OWN) else ()
    rules = [f"{key}: {rule}" for key in known if (rule := getattr(config.corpus, key)) != "keep"]
    notes += [f"labels are read as the model's were, with {', '.join(rules)} (section corpus)"] if rules else []
    notes += [note for note in corpus.notes if note.startswith(LEFT_OUT)]
    corpus, kept = keep_dev(corpus, config, recogniser.checkpoint, reporter)
    notes += [*kept, *(note for note in corpus.notes if note.startswith("the language "))]
    notes += filter(None, [corpus.repeats(split)] if _is_own(config, recogniser.checkpoint) else [])
    chosen = choose_symbols(recogniser.phones, symbols)
    written = (chosen.written.get(phone, phone) for phone in recogniser.phones)
    inventory = inventory_of(written) if chosen.written else recogniser.inventory
    labels = {phone for each in corpus.splits[split] for phone in each.phones}
    folding = choose_folding("none" if chosen.written else config.score.fold, inventory, labels)
    recogniser = recogniser.configured(config)
    utterances, more = in_notation_of(inventory.phones, corpus.splits[split], folding)
    method = [folding.protocol, recogniser.method, "minimal edit distance, every phone counted alike"]
    told = (*notes, *more, *([chosen.note] if chosen.note else []))
    method += ["labels read in the model's notation"] if more else []
    scored = ScoredSplit(utterances, "; ".join(method), folding, inventory, told)
    report_recordings(utterances, reporter)
    scored.labels = {each.id: each.phones for each in corpus.splits[split]}
    scored.skipped += [(entry.id, entry.reason) for entry in corpus.rejected.get(split, ())]
    if not scored.utterances:
        why = f" ({scored.skipped[0][1]})" if scored.skipped else ""
        raise InputError(f"the corpus has no {split} split, or nothing usable in it{why}", "name another split")
    assumed = (UNCORRECTED, *(f"{path}: " for path in config.corpus.tables.of(split)))  # by the reader, of labels
    warnings = [warning for warning in corpus.warnings if warning.startswith(assumed)]
    reporter.warn(*warnings, *_trained_on(scored.utterances, config, trained, split))
    reporter.note(*told)
    _add_results(scored, recogniser, chosen.written, reporter, f"{what} {split}")
    if not scored.counts.utterances:
        none = f"none of the {len(scored.utterances)} recordings of {split} can be decoded"
        raise InputError(none, scored.skipped[-1][1])
    return scored


def _add_results(
    scored: ScoredSplit, recogniser: Recogniser, written: Mapping[str, str], reporter: Reporter, what: str
) -> None:
    """Decode the utterances of a split and add the results."""
    with reporter.progress(what, len(scored.utterances)) as advance:
        for number, result in enumerate(_decode(recogniser, scored.utterances)):
            if isinstance(result, InputError):
                scored.skipped.append((scored.utterances[number].id, result.what))
            else:
                scored.add(number, result.renamed(written).segments)
                scored.dereverberated += result.is_dereverberated
            advance(1, f"PER {scored.counts.to_text()}")


def _read_divided(
    config: Config, trained: Config, split: str, phones: Sequence[str], told: Container[str]
) -> tuple[Corpus, list[str]]:
    """Read as `read_to_score` does, but read X-SAMPA and divide strings of IPA, unless the model has such labels.

    Where a setting is `told`, it says how.
    """
    corpus, notes = read_to_score(config, trained, split)
    labels = (phone for each in corpus.splits[split] for phone in each.phones)
    counts = Counter(label for label in labels if without_marks(label))  # tones may have been split off
    known = sum(counts[label] for label in counts if {label, without_marks(label)} & set(phones))
    if "corpus.notation" not in told and is_xsampa(counts) and notation_of(phones) != "xsampa":
        corpus, notes = read_to_score(with_settings(config, ["corpus.notation=xsampa"]), trained, split)
        return corpus, [*notes, note_of_xsampa("in xsampa", counts)]
    if (
        "corpus.segment" in told
        or config.corpus.segment != "labels"
        or 2 * known > counts.total()
        or not are_strings(counts)
    ):
        return corpus, notes
    corpus, notes = read_to_score(with_settings(config, ["corpus.segment=ipa"]), trained, split)
    return corpus, [*notes, note_text("divided", labels=counted(counts, 3))]


def _decode(recogniser: Recogniser, utterances: Sequence[Utterance]) -> Iterator[Recognition | InputError]:
    """Decode utterances in order, each from its channel and its stretch of the recording."""
    channels = {utterance.channel for utterance in utterances}
    if len(channels) == 1 and not any(utterance.stretch for utterance in utterances):
        return recogniser.decode_all([utterance.audio for utterance in utterances], channel=channels.pop())
    return map_in_threads(lambda utterance: recogniser.decode(**sound_of(utterance, recogniser)), utterances)


def read_to_score(config: Config, trained: Config, split: str) -> tuple[Corpus, list[str]]:
    """Read the corpus that a model is scored on.

    The phones of its labels need not be the phone set of the model's config, and nothing but the split has to be there.
    Where it is another folder than the one that the model was trained on, and is not divided, all of it is the split.

    Parameters
    ----------
    config, trained : Config
        The one to score by, and the model's own.
    split : str

    Returns
    -------
    corpus : Corpus
    notes : list of str
        What the user should know about how it was read.

    Raises
    ------
    InputError
        The corpus cannot be read, or has no usable utterance.
    """
    corpus = _in_any_phones(config, trained, split)
    ours, theirs = config.corpus, trained.corpus
    is_other = ours.kind != "table" and (ours.kind, ours.root) != (theirs.kind, theirs.root)
    divided = (
        corpus.rejected.get(split) or not corpus.dev_from_train and (corpus.splits["dev"] or corpus.splits["test"])
    )
    if corpus.splits[split] or not is_other or divided:
        return corpus, []
    everything = tuple(sorted((*corpus.splits["train"], *corpus.splits["dev"]), key=lambda each: each.id))
    parts = {"train": (), "dev": (), "test": (), split: everything}
    rejected = {split: tuple(each for part in corpus.rejected.values() for each in part)}
    note = f"the corpus is not divided into train, dev and test: all of its {len(everything)} utterances are scored"
    return replace(corpus, splits=parts, rejected=rejected), [note]


def keep_dev(corpus: Corpus, config: Config, checkpoint: Checkpoint, reporter: Reporter) -> tuple[Corpus, list[str]]:
    """Return a corpus without a dev split of its own with the dev that a model's run had, not one chosen again.

    The choice depends on the corpus, which may have changed since: what is dev now may have been trained on.

    Parameters
    ----------
    corpus : Corpus
    config : Config
        The one that the corpus was read by.
    checkpoint : Checkpoint
        The model.
    reporter : Reporter
        Is warned where the corpus is the model's, and its dev is not known.

    Returns
    -------
    corpus : Corpus
        Unchanged if it is another than the model's, or has a dev split.
    notes : list of str
        How dev differs from the one chosen now, and from the run's.
    """
    if not corpus.dev_from_train:
        return corpus, []
    known = frozenset(checkpoint.facts.get("dev_utterances", ()))
    chosen = {each.id for each in corpus.splits["dev"]}
    gone = sorted(known - chosen - {each.id for each in corpus.splits["train"]})
    is_own = _is_own(config, checkpoint)
    if not is_own and (not known or gone):
        return corpus, []
    if not known:
        reporter.warn(
            "dev was chosen again out of the corpus, because the model's run does not say which utterances were its "
            "dev: it may hold utterances that the model was trained on"
        )
        return corpus, []
    notes = [f"{len(gone)} of the {len(known)} utterances of the run's dev are gone: {first_few(gone)}"] * bool(gone)
    if chosen == known - set(gone):
        return corpus, notes
    note = f"dev: the {len(known) - len(gone)} utterances that the model's run held out, not those chosen now"
    return corpus.with_dev(known, note), [*notes, note]


def _is_own(config: Config, checkpoint: Checkpoint) -> bool:
    ours, theirs = config.corpus, checkpoint.config.corpus
    return (ours.kind, ours.root, ours.tables.train) == (theirs.kind, theirs.root, theirs.tables.train)


def _trained_on(utterances: Sequence[Utterance], config: Config, trained: Config, split: str) -> Iterator[str]:
    """Yield a warning where recordings have the content of ones in training, or it is not known what these are."""
    if split == "train" or config.corpus == trained.corpus:
        return
    if not (trained.corpus.root or trained.corpus.tables.train):  # a bundled model, or one that was exported
        yield note_text("training unknown", split=split)
        return
    corpus = attempt(partial(read_corpus, needed="train"), trained.corpus)
    learned = [] if isinstance(corpus, InputError) else [*corpus.splits.get("train", ())]
    sizes = {each.audio.stat().st_size for each in learned if each.audio.is_file()}
    here = [each for each in utterances if each.audio.is_file() and each.audio.stat().st_size in sizes]
    sizes = {each.audio.stat().st_size for each in here}
    known = {_sound(each) for each in learned if each.audio.is_file() and each.audio.stat().st_size in sizes}
    if count := sum(_sound(each) in known for each in here):
        yield note_text("trained on", split=split, count=count, all=len(utterances))


def _sound(utterance: Utterance) -> Hashable:
    return content(utterance.audio), utterance.channel, utterance.stretch


def _in_any_phones(config: Config, trained: Config, split: str) -> Corpus:
    """Read a corpus in the phone set of the config; if labels are not in it and it is the model's, in their own."""
    read = partial(read_corpus, needed=split)
    corpus = attempt(read, config.corpus)
    may_differ = config.corpus != trained.corpus and config.corpus.phones == trained.corpus.phones != "auto"
    if may_differ and (isinstance(corpus, InputError) or any(corpus.rejected.values())):
        own = attempt(read, config.corpus.model_copy(update={"phones": "auto"}))
        if isinstance(own, Corpus) and (
            isinstance(corpus, InputError) or len(own.utterances()) > len(corpus.utterances())
        ):
            return own
    if isinstance(corpus, InputError):
        raise corpus
    return corpus


def in_notation_of(
    phones: Sequence[str], utterances: Sequence[Utterance], folding: Folding = UNFOLDED
) -> tuple[tuple[Utterance, ...], list[str]]:
    """Return utterances with the labels that a model writes otherwise in its notation.

    Labels are matched by name and by the tables of `speechctc.phones.articulation`, as for weights to begin from. A
    label that the model has no phone for stays as it is, and is an error of the model; pauses are left out if it has
    none.

    Parameters
    ----------
    phones : sequence of str
        Those of the model.
    utterances : sequence of Utterance
    folding : Folding
        A label that it makes a phone of the model is none that the model does not have.

    Returns
    -------
    utterances : tuple of Utterance
    notes : list of str
        Which labels were written as which, and which the model does not have.
    """
    counts = Counter(phone for each in utterances for phone in each.phones)
    if counts.keys() <= set(phones):
        return tuple(utterances), []
    matches = match_phones(tuple(counts), phones)
    known = {*phones, *(label for label, match in matches.items() if match.how != "nearness")}
    kinds = {label: kind_of_phone(label) for label in counts if label not in known}
    pauses, noise = ({label for label in kinds if kinds[label] == kind} for kind in ("pause", "noise"))
    written = {label: match.phone for label, match in matches.items() if match.how != "nearness"}
    known = {*written, *pauses, *noise}
    known |= {label for label in counts if set(folding.apply([label])) <= set(folding.apply(phones))} - set(phones)
    lacking = Counter({label: count for label, count in counts.items() if label not in known})
    # a letter of IPA that is another phone in ARPABET, such as y, must not count as that
    written |= {label: matches[label].phone for label in lacking if label in phones and label in matches}
    pairs = [f"{label} as {to}" for label, to in sorted(written.items()) if label != to]
    notes = [f"labels are compared in the model's notation: {first_few(pairs, 12)}"] if pairs else []
    if pauses:
        notes.append(f"labels of pauses are left out, because the model has none: {first_few(sorted(pauses))}")
    if noise:
        there = counted(Counter({label: counts[label] for label in noise}))
        notes.append(f"labels of noise and unclear speech are left out: {there}; what is recognised there is an error")
    if lacking:
        share = 100 * sum(lacking.values()) / max(sum(counts.values()), 1)
        what = f"labels of phones that the model does not have are errors ({share:.0f} % of all)"
        other = "; labels are IPA: the model ipa has more of them" if are_other_ipa(counts, phones) else ""
        notes.append(f"{what}: {counted(lacking)}; score.fold can leave marks out{other}")
    return tuple(_rewritten(each, written, pauses | noise) for each in utterances), notes


def _rewritten(utterance: Utterance, written: Mapping[str, str], pauses: Container[str]) -> Utterance:
    """Return an utterance without pauses, and with a closure and its burst as one phone if they are written as one."""
    labels = utterance.phones
    phones = [written.get(label, label) for label in labels]

    def is_joined(k: int) -> bool:
        bursts = BURSTS.get(labels[k], ()) if phones[k] != labels[k] else ()
        return k + 1 < len(phones) and phones[k + 1] in bursts

    kept = [k for k, label in enumerate(labels) if label not in pauses and not is_joined(k)]
    times = None if utterance.times is None else tuple(utterance.times[k] for k in kept)
    return replace(utterance, phones=tuple(phones[k] for k in kept), times=times)


def sound_of(utterance: Utterance, recogniser: Recogniser) -> dict[str, Any]:
    """Return the arguments ``recording``, ``rate`` and ``channel`` of `Recogniser.decode` and `Recogniser.align`.

    A whole recording is named, so that it is read in blocks. A stretch is read here, without the rest.

    Raises
    ------
    InputError
        The stretch cannot be read.
    """
    if utterance.stretch is None:
        return {"recording": utterance.audio, "rate": None, "channel": utterance.channel}
    rate = recogniser.config.features.sample_rate
    samples, _ = sound_file.read(utterance.audio, rate, utterance.channel, utterance.stretch)
    return {"recording": samples, "rate": rate, "channel": None}


def times_of_labels(utterance: Utterance, recogniser: Recogniser) -> Times | None:
    """Return from when to when each label lasts: as labelled, or else as a model aligns them; None where it cannot."""
    if utterance.times is not None:
        return utterance.times
    found = attempt(partial(_aligned, recogniser), utterance)
    return None if isinstance(found, InputError) else tuple((each.start, each.end) for each in found.segments)


def _aligned(recogniser: Recogniser, utterance: Utterance) -> Recognition:
    """Align an utterance with its phones."""
    return recogniser.align(phones=utterance.phones, **sound_of(utterance, recogniser))


def aligned_starts(recogniser: Recogniser, utterances: Sequence[Utterance]) -> Iterator[tuple[float, Segment]]:
    """Yield when each labelled phone but the first of an utterance starts, and the phone as a model aligns it."""
    timed = [utterance for utterance in utterances if utterance.times]
    for utterance, result in zip(timed, map_in_threads(partial(_aligned, recogniser), timed), strict=True):
        if not isinstance(result, InputError):
            labelled = (start for start, _ in (utterance.times or ())[1:])
            yield from zip(labelled, result.segments[1:], strict=True)
