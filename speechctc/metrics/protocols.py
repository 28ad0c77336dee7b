"""Protocols of scoring: which phones count as one, and which edits are counted.

References
----------
.. [1] K.-F. Lee and H.-W. Hon, "Speaker-independent phone recognition using hidden Markov models", IEEE Trans. ASSP
   37(11), 1989: the 39 phones.
.. [2] D. Povey et al., "The Kaldi speech recognition toolkit", ASRU 2011; its recipe egs/timit/s5 scores
   (local/score_sclite.sh) with sclite of NIST's SCTK, option -D: a silence of the reference may be absent.
.. [3] M. Ravanelli et al., "SpeechBrain: a general-purpose speech toolkit", arXiv 2106.04624, 2021; its recipe TIMIT,
   timit_prepare.py: ``q`` removed, two silences in a row written as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from speechctc.metrics.edits import cheapest_edits
from speechctc.metrics.per import EditCounts, edit_counts
from speechctc.metrics.reliability import Reliability, reliability
from speechctc.phones.folding import Folding, parse_folding
from speechctc.phones.inventory import TIMIT39, TIMIT48, TIMIT61, Inventory
from speechctc.phones.marks import is_tone

SILENCE = "sil"  # of the 39 phones
_TIMIT = frozenset((*TIMIT61, *TIMIT48, *TIMIT39))
_CLOSURES = frozenset("bcl dcl gcl pcl tcl kcl cl vcl".split())
_SUBSTITUTED, _OTHER, _OPTIONAL = 4.0, 3.0, 2.0  # sclite's costs of edits


@dataclass(frozen=True)
class Protocol:
    """A way to count errors.

    Attributes
    ----------
    name : str
    about : str
        What is folded, dropped and counted, in words.
    count : callable
        Takes the reference and the hypothesis of an utterance as labelled, and returns their `EditCounts`.
    """

    name: str
    about: str
    count: Callable[[Sequence[str], Sequence[str]], EditCounts]


class ProtocolScore(NamedTuple):
    """The score by a protocol.

    Attributes
    ----------
    name, about : str
        See `Protocol`.
    counts : EditCounts
    reliability : Reliability
    """

    name: str
    about: str
    counts: EditCounts
    reliability: Reliability

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON reports."""
        counts = {key: getattr(self.counts, key) for key in ("substitutions", "deletions", "insertions")}
        interval = {"per_low": self.reliability.low, "per_high": self.reliability.high}
        phones = {"reference_phones": self.counts.reference_phones}
        return {"name": self.name, "per": self.counts.per_or_none, **interval, **counts, **phones, "about": self.about}


def score_by_protocols(
    protocols: Iterable[Protocol], pairs: Sequence[tuple[Sequence[str], Sequence[str]]], speakers: Sequence[str]
) -> list[ProtocolScore]:
    """Score utterances by several protocols.

    Parameters
    ----------
    protocols : iterable of Protocol
    pairs : sequence of (sequence of str, sequence of str)
        The reference and the hypothesis of each utterance, as labelled.
    speakers : sequence of str
        The speaker of each utterance; empty if not known.
    """
    scores = []
    for protocol in protocols:
        each = [protocol.count(*pair) for pair in pairs]
        total = sum(each, start=EditCounts())
        scores.append(ProtocolScore(protocol.name, protocol.about, total, reliability(each, speakers)))
    return scores


def folded(name: str, folding: Folding) -> Protocol:
    """Return the protocol that folds both sides and counts the fewest edits."""

    def count(reference: Sequence[str], hypothesis: Sequence[str]) -> EditCounts:
        return edit_counts(folding.apply(reference), folding.apply(hypothesis))

    return Protocol(name, folding.protocol, count)


def protocols_for(inventory: Inventory, folding: Folding) -> list[Protocol]:
    """Return the protocols that apply to a phone set; the first is that of the model's folding.

    ``strict39``, ``kaldi`` and ``speechbrain`` are for the labels of TIMIT, ``segments`` and ``tones`` for tones as
    labels of their own, ``raw`` is for all.
    """
    names = {"timit39": "strict39", "none": "raw"}
    found = [folded(names.get(folding.name, folding.name), folding)]
    if is_timit(inventory):
        found += [folded("strict39", parse_folding("timit39")), kaldi(), speechbrain()]
    found.append(folded("raw", parse_folding("none")))
    if any(map(is_tone, inventory.phones)):
        found += [_only("segments", "phones without tones", False), _only("tones", "tones alone", True)]
    return [each for k, each in enumerate(found) if each.name not in [other.name for other in found[:k]]]


def _only(name: str, about: str, tones: bool) -> Protocol:
    """Return the protocol that counts tones alone, or all but these, as they are labelled."""

    def count(reference: Sequence[str], hypothesis: Sequence[str]) -> EditCounts:
        return edit_counts(*([each for each in side if is_tone(each) == tones] for side in (reference, hypothesis)))

    return Protocol(name, about, count)


def is_timit(inventory: Inventory) -> bool:
    """Return whether the labels are those of TIMIT, whole or folded: a named set of it, or its labels with closures."""
    labels = set(inventory.phones)
    return inventory.name.startswith("timit") or (labels <= _TIMIT and bool(labels & _CLOSURES))


def kaldi() -> Protocol:
    """Return the protocol of Kaldi's recipe [2]_: 39 phones, silences of the reference are optional.

    A deleted silence counts as right. Alignments are the cheapest with sclite's costs: 4 for a substitution, 3 for a
    deletion or insertion, 2 for the deletion of a silence.
    """
    folding = parse_folding("timit39")

    def count(reference: Sequence[str], hypothesis: Sequence[str]) -> EditCounts:
        ours, theirs = folding.apply(reference), folding.apply(hypothesis)
        deletions = [_OPTIONAL if phone == SILENCE else _OTHER for phone in ours]
        insertions = [_OTHER] * len(theirs)
        _, pairs = cheapest_edits(deletions, insertions, lambda i, j: _SUBSTITUTED * (ours[i] != theirs[j]))
        substituted = sum(i is not None and j is not None and ours[i] != theirs[j] for i, j in pairs)
        deleted = sum(j is None and i is not None and ours[i] != SILENCE for i, j in pairs)
        return EditCounts(substituted, deleted, sum(i is None for i, _ in pairs), len(ours), 1)

    return Protocol("kaldi", "39 phones, q dropped; a silence of the reference may be missing; sclite's costs", count)


def speechbrain() -> Protocol:
    """Return the protocol of SpeechBrain's recipe [3]_: 39 phones, two silences in a row count as one.

    As in the recipe, silences are merged by pairs, once: three in a row become two. The recipe merges those of the
    labels that it trains and scores with; here hypotheses are treated alike.
    """
    folding = parse_folding("timit39")

    def count(reference: Sequence[str], hypothesis: Sequence[str]) -> EditCounts:
        return edit_counts(_merged(folding.apply(reference)), _merged(folding.apply(hypothesis)))

    return Protocol("speechbrain", "39 phones, q dropped; two silences in a row merged to one", count)


def _merged(phones: Sequence[str]) -> list[str]:
    """Return the phones without the second of each pair of silences in a row."""
    kept: list[str] = []
    is_pair = False
    for k, phone in enumerate(phones):
        is_pair = phone == SILENCE and k > 0 and phones[k - 1] == SILENCE and not is_pair
        if not is_pair:
            kept.append(phone)
    return kept
