"""Score a model on a split of its corpus; compare models on the same utterances."""

from __future__ import annotations

import difflib
import itertools
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speechctc.config.schema import Config
from speechctc.core.errors import InputError, columns, counted_alike, first_few, plural
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import SPLITS, Utterance
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.segmenter import expected_calibration_error
from speechctc.metrics.feature_errors import FeatureScore, feature_score
from speechctc.metrics.per import PER_MEANS, EditCounts
from speechctc.metrics.protocols import ProtocolScore, protocols_for, score_by_protocols
from speechctc.metrics.reliability import PairedTest, Reliability, compare_errors, few_of, known_speakers, reliability
from speechctc.pages.page import render_text
from speechctc.stages.split_scoring import ScoredSplit, ScoredUtterance, score_split

ALIKE = "such as corpus.tone=strip corpus.length=strip corpus.diacritics=strip corpus.diphthongs=split"
ERROR_MEANS = "the mean distance between the confidence of phones and the share of them that are right"


@dataclass(frozen=True)
class Evaluation:
    """The score of a split.

    Attributes
    ----------
    split : str
    counts : EditCounts
    reliability : Reliability
        The PER's interval, and the numbers it is computed from.
    protocol : str
        How phones were decoded, folded and compared, in words.
    skipped : tuple of (str, str)
        Ids of utterances that could not be scored, and the reasons.
    calibration_error : float
        Expected calibration error of the confidences on this split, from 0 to 1.
    calibrated : bool
        Whether the model is calibrated; if not, confidences are posteriors.
    protocols : tuple of ProtocolScore
        The scores by all protocols that apply; the first is that of `counts`.
    features : FeatureScore or None
        The phone feature error rate; None without panphon, or where a phone has no known place in the IPA.
    feature_note : str
        Why there is none.
    notes : tuple of str
        How the corpus was divided and its labels were read, where that is not as in the model's config.
    languages : tuple of ProtocolScore
        By name; none where the corpus does not say them, or has one.
    dereverberated : int
        Utterances of which reverberation or hum was taken off first, as ``decode.dereverb`` says.
    """

    split: str
    counts: EditCounts
    reliability: Reliability
    protocol: str
    skipped: tuple[tuple[str, str], ...]
    calibration_error: float
    calibrated: bool
    protocols: tuple[ProtocolScore, ...]
    features: FeatureScore | None
    feature_note: str
    notes: tuple[str, ...] = ()
    languages: tuple[ProtocolScore, ...] = ()
    dereverberated: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the JSON report."""
        counts, keys = self.counts, ("errors", "reference_phones", "utterances")
        languages = [
            {"language": name, "per": of.per_or_none, **{key: getattr(of, key) for key in keys}, **sure.to_dict()}
            for name, _, of, sure in self.languages
        ]
        return {
            "per": counts.per_or_none,
            **self.reliability.to_dict(),
            **asdict(counts),
            "protocol": self.protocol,
            "dereverberated": self.dereverberated,
            "protocols": [score.to_dict() for score in self.protocols],
            "features": asdict(self.features) if self.features else None,
            "feature_note": self.feature_note,
            "notes": list(self.notes),
            "languages": languages,
            "split": self.split,
            "calibration_error": self.calibration_error,
            "calibrated": self.calibrated,
            "skipped": [{"id": id, "reason": reason} for id, reason in self.skipped],
        }

    def to_text(self) -> str:
        """Return the report for people."""
        rows = [("protocol", "PER", "95 % interval", "errors", "phones", "what is counted")]
        rows += [(name, *_cells(counts, sure), about) for name, about, counts, sure in self.protocols]
        spoken = [("language", "PER", "95 % interval", "errors", "phones")]
        spoken += [(name, *_cells(counts, sure)) for name, _, counts, sure in self.languages]
        tables = {"protocols": columns(rows, "lrrrrl"), "languages": columns(spoken, "lrrrr")}
        tables["skipped"] = counted_alike([(Path(id), f"{id}: {reason}") for id, reason in self.skipped])
        return render_text("evaluation.txt", {"of": self, **tables}).rstrip()


def evaluate(recogniser: Recogniser, split: str, overrides: Sequence[str], reporter: Reporter) -> Evaluation:
    """Decode a split of the model's corpus and score it.

    Parameters
    ----------
    recogniser : Recogniser
    split : str
    overrides : sequence of str
        Settings that replace those of the model's config: another corpus, another folding.
    reporter : Reporter

    Raises
    ------
    InputError
        There is no such split, it is empty, or none of its recordings can be decoded.
    """
    if split not in SPLITS:
        near = difflib.get_close_matches(str(split), SPLITS, 1)
        meant = f"did you mean {near[0]}? else " if near else ""
        raise InputError(f"there is no split {split!r:.40}", f"{meant}name train, dev or test")
    return score(recogniser, split, overrides, reporter)[1]


def score(
    recogniser: Recogniser, split: str, overrides: Sequence[str], reporter: Reporter, symbols: str = "own"
) -> tuple[ScoredSplit, Evaluation]:
    """Decode a split as `evaluate` does; return what was recognised too. `symbols` are as of `score_split`."""
    if not reporter.quiet:
        reporter.note(f"{PER_MEANS}; the expected calibration error is {ERROR_MEANS}")
    scored = score_split(recogniser, split, overrides, reporter, "evaluating", symbols)
    return scored, evaluation_of(scored, split, recogniser)


def evaluation_of(scored: ScoredSplit, split: str, recogniser: Recogniser) -> Evaluation:
    """Return the score of a decoded split."""
    error = expected_calibration_error(*scored.marks[:2])
    pairs = [(result.utterance.phones, result.phones) for result in scored.results]
    protocols = protocols_for(scored.inventory, scored.folding)
    features = feature_score(pairs, scored.speakers, scored.inventory.phones)
    languages = scores_by(scored.results, lambda utterance: utterance.trait("language"))
    return Evaluation(
        split,
        scored.counts,
        scored.reliability,
        scored.protocol,
        tuple(scored.skipped),
        error,
        recogniser.calibration.phones > 0,
        tuple(score_by_protocols(protocols, pairs, scored.speakers)),
        features if isinstance(features, FeatureScore) else None,
        "" if isinstance(features, FeatureScore) else features,
        scored.notes,
        tuple(languages if len(languages) > 1 else ()),
        scored.dereverberated,
    )


def scores_by(results: Sequence[ScoredUtterance], group: Callable[[Utterance], str]) -> list[ProtocolScore]:
    """Return the score of each group of utterances, in the order of their names."""
    members: defaultdict[str, list[ScoredUtterance]] = defaultdict(list)
    for result in results:
        members[group(result.utterance)].append(result)
    return [score_of(name or "not known", members[name]) for name in sorted(members)]


def score_of(name: str, results: Sequence[ScoredUtterance]) -> ProtocolScore:
    """Return the score of some utterances, which have a name together; the interval is over speakers if possible."""
    counts = [result.counts for result in results]
    sure = reliability(counts, [result.utterance.speaker for result in results])
    return ProtocolScore(name, "", sum(counts, start=EditCounts()), sure)


def _cells(counts: EditCounts, sure: Reliability) -> tuple[str, str, str, str]:
    """Return the PER, its interval, the errors and the phones as cells of a table."""
    return counts.to_text(), sure.interval, str(counts.errors), str(counts.reference_phones)


@dataclass(frozen=True)
class System:
    """Runs that differ in the seed and nothing else.

    Attributes
    ----------
    names : tuple of str
        The folders of the runs, as given.
    pers : tuple of float
        The PER of each run, per cent.
    errors : ndarray, shape = (n_utterances,)
        Mean errors of the runs.
    """

    names: tuple[str, ...]
    pers: tuple[float, ...]
    errors: NDArray[np.float64]

    @property
    def name(self) -> str:
        """The first run, and how many others."""
        more = len(self.names) - 1
        return self.names[0] + (f" and {more} more seed{'s' if more > 1 else ''}" if more else "")

    @property
    def mean(self) -> float:
        """Mean PER, per cent."""
        return statistics.fmean(self.pers)

    def to_text(self) -> str:
        """Return the PERs in a line."""
        if len(self.pers) == 1:
            return f"{self.name}: {self.mean:.2f} %"
        spread = f"standard deviation {statistics.stdev(self.pers):.2f}, {min(self.pers):.2f} to {max(self.pers):.2f}"
        return f"{self.name}: mean {self.mean:.2f} % ({spread}; {', '.join(self.names)})"


@dataclass(frozen=True)
class Comparison:
    """Systems on one split, and the test of each pair.

    Attributes
    ----------
    split, protocol : str
    utterances, phones : int
    systems : tuple of System
    tests : dict of (int, int) to PairedTest
        By the places of the two systems.
    caution : str
        What the tests say nothing about, where there are few phones or speakers; else ``""``.
    """

    split: str
    protocol: str
    utterances: int
    phones: int
    systems: tuple[System, ...]
    tests: dict[tuple[int, int], PairedTest]
    caution: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the JSON report."""
        systems = [{"runs": list(each.names), "per": list(each.pers), "mean": each.mean} for each in self.systems]
        pairs = [{"first": i, "second": j, **test.to_dict()} for (i, j), test in self.tests.items()]
        facts = {key: value for key, value in vars(self).items() if key not in ("systems", "tests")}
        return facts | {"systems": systems, "pairs": pairs}

    def to_text(self) -> str:
        """Return the report for people."""
        return render_text("comparison.txt", vars(self)).rstrip()


def compare(
    recognisers: Sequence[tuple[str, Recogniser]], split: str, overrides: Sequence[str], reporter: Reporter
) -> Comparison:
    """Decode a split with each model, and test each pair of systems.

    Parameters
    ----------
    recognisers : sequence of (str, Recogniser)
        Names and models.
    split : str
    overrides : sequence of str
        Settings that replace those of each model's config: another corpus, folding or decoding.
    reporter : Reporter

    Raises
    ------
    InputError
        There is one model only, the models are scored differently or on different utterances, or a split cannot be
        decoded.
    """
    if len(recognisers) < 2:
        raise InputError("one run cannot be compared", "name two or more")
    scored = []
    for name, model in recognisers:
        try:
            scored.append(score_split(model, split, overrides, reporter, f"{name} on"))
        except InputError as error:
            raise InputError(f"{name}: {error.what}", error.fix) from None
    names = [name for name, _ in recognisers]
    _check_alike(names, scored)
    of = [{result.utterance.id: result for result in each.results} for each in scored]
    ids = [id for id in of[0] if all(id in each for each in of)]
    _say_left(names, scored, ids, reporter)
    table = [np.array([each[id].counts.errors for id in ids], dtype=np.float64) for each in of]
    phones = np.array([of[0][id].counts.reference_phones for id in ids], dtype=np.float64)
    if not phones.sum():
        raise InputError(f"{split}: none of its utterances has phones", "name a split with phones")
    speakers = [of[0][id].utterance.speaker for id in ids]
    groups = _groups([model.config for _, model in recognisers])
    systems = tuple(_system(members, names, table, phones) for members in groups)
    tests = {
        (i, j): compare_errors(systems[i].errors, systems[j].errors, phones, speakers)
        for i, j in itertools.combinations(range(len(systems)), 2)
    }
    total = int(phones.sum())
    few = few_of(total, known_speakers(speakers))
    caution = f"not reliable: the tests are based on {few}; with other speakers the result may differ" if few else ""
    return Comparison(split, scored[0].protocol, len(ids), total, systems, tests, caution)


def _system(
    members: Sequence[int], names: Sequence[str], table: Sequence[NDArray[np.float64]], phones: NDArray[np.float64]
) -> System:
    errors = [table[k] for k in members]
    pers = tuple(float(100 * each.sum() / max(phones.sum(), 1)) for each in errors)
    return System(tuple(names[k] for k in members), pers, np.mean(errors, axis=0))


def _check_alike(names: Sequence[str], scored: Sequence[ScoredSplit]) -> None:
    """Check that all models are scored by the same folding, on utterances that both have, with the same labels."""
    first = scored[0]
    for name, other in zip(names[1:], scored[1:], strict=True):
        shared = first.labels.keys() & other.labels.keys()
        if not shared:
            what = f"{names[0]} and {name} are scored on different utterances"
            raise InputError(what, "name one corpus for both: corpus.root=..., or corpus.tables.test=...")
        if odd := next((id for id in sorted(shared) if first.labels[id] != other.labels[id]), None):
            mine, theirs = (first_few(each.labels[odd], 12) for each in (first, other))
            what = f"{names[0]} and {name} are scored on different labels: those of {odd} are {mine}, and {theirs}"
            raise InputError(what, f"name for both how labels are read, {ALIKE}")
        if other.folding != first.folding:
            what = f"{names[0]} is scored by {first.folding.name}, {name} by {other.folding.name}"
            raise InputError(what, "name one folding for both: score.fold=none")


def _say_left(names: Sequence[str], scored: Sequence[ScoredSplit], ids: Sequence[str], reporter: Reporter) -> None:
    """Say which utterances are left out, and why, because not every model is scored on them."""
    kept = set(ids)
    left = {each.id for of in scored for each in of.utterances} - kept
    pairs = [(name, *each) for name, of in zip(names, scored, strict=True) for each in of.skipped]
    why = [(Path(id), f"{id}: {reason} ({name})") for name, id, reason in pairs if id in left]
    if left:
        reporter.warn(f"{plural(len(left), 'utterance')} left out: not scored for every model", *counted_alike(why))


def _groups(configs: Sequence[Config]) -> list[list[int]]:
    """Return the places of the runs of each system; runs of which two have one seed differ in more than their configs.

    Training on, or stopping early, changes a run and not its config.
    """
    alike: dict[str, list[int]] = {}
    for k, config in enumerate(configs):
        apart: Any = {"run": True, "train": {"seed": True}}
        alike.setdefault(config.model_dump_json(exclude=apart), []).append(k)
    groups = []
    for members in alike.values():
        distinct = len({configs[k].train.seed for k in members}) == len(members)
        groups += [members] if distinct else [[k] for k in members]
    return groups


def check_distinct(given: Sequence[Path], found: Sequence[Path]) -> None:
    """Check that no model is named twice.

    Parameters
    ----------
    given, found : sequence of Path
        The models as they were named, and their folders.

    Raises
    ------
    InputError
        Two names mean one folder.
    """
    first: dict[Path, Path] = {}
    for name, folder in zip(given, found, strict=True):
        if (before := first.setdefault(folder.resolve(), name)) is not name:
            raise InputError(f"{before} and {name} are the same model", "name each model once")
