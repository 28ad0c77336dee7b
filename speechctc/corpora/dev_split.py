"""Choice of a dev split among training utterances, for a corpus without one."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from speechctc.core.errors import some
from speechctc.corpora.corpus import Utterance

LOST = 0.1
"""Most of the utterances of a speaker in dev that may have labels that no training speaker has."""


def hold_out(labels: Mapping[str, Iterable[Collection[str]]], count: int, lost: float = 0.0) -> list[str]:
    """Choose names to hold out from training, whose labels also occur in what stays.

    The order of the choice depends only on the names, so that a new name rarely changes the choice among the others.

    Parameters
    ----------
    labels : mapping of str to iterable of collection of str
        By the name of a speaker or recording, the labels of each of its utterances.
    count : int
        Number of names to hold out. At least one stays.
    lost : float
        Share of the utterances of a name that may have labels that do not occur in what stays.

    Returns
    -------
    held : list of str
        At most `count` names; fewer where no more can be held out.
    """
    sets = {name: [set(each) for each in utterances] for name, utterances in labels.items()}
    own = {name: set[str]().union(*utterances) for name, utterances in sets.items()}
    left = Counter(label for each in own.values() for label in each)
    held: list[str] = []
    for name in sorted(sets, key=_shuffled):
        if len(held) >= min(count, len(sets) - 1):
            break
        alone = {label for label in own[name] if left[label] == 1}
        if sum(not each.isdisjoint(alone) for each in sets[name]) <= lost * len(sets[name]):
            held.append(name)
            left.subtract(own[name])
    return held


def choose_dev(utterances: Sequence[Utterance], share: float, named: bool = False) -> tuple[frozenset[str], str]:
    """Choose the training utterances that become dev: whole speakers, or utterances where speakers are not known.

    Speakers are chosen whose labels occur in training, too. Where there are too few of those, as in a folder of several
    languages with one speaker each, utterances are chosen instead.

    Parameters
    ----------
    utterances : sequence of Utterance
    share : float
        Share of the speakers, or of the utterances. At least one becomes dev, and at least one stays in training.
    named : bool
        The phone set is a named one, which holds all labels: the choice is by names alone.

    Returns
    -------
    dev : frozenset of str
        The ids of the utterances of dev.
    note : str
        What was chosen, for the user.
    """
    speakers = {utterance.speaker for utterance in utterances}
    label_sets: list[Collection[str]] = [() if named else utterance.phones for utterance in utterances]
    why = "all are by one speaker" if len(speakers) == 1 and "" not in speakers else "not all name their speaker"
    if len(speakers) > 1 and "" not in speakers:
        by_speaker: dict[str, list[Collection[str]]] = {name: [] for name in speakers}
        for utterance, labels in zip(utterances, label_sets, strict=True):
            by_speaker[utterance.speaker].append(labels)
        count = _count(len(speakers), share)
        chosen = hold_out(by_speaker, count)
        if len(chosen) < count:
            chosen = max(chosen, hold_out(by_speaker, count, LOST), key=len)
        if 2 * len(chosen) >= count:
            dev = frozenset(utterance.id for utterance in utterances if utterance.speaker in chosen)
            return dev, f"dev: {len(chosen)} of {len(speakers)} training speakers held out ({some(sorted(chosen))})"
        why = f"only {len(chosen)} of {len(speakers)} speakers have no labels of their own"
    by_id = {utterance.id: [labels] for utterance, labels in zip(utterances, label_sets, strict=True)}
    if len(by_id) < 2:
        return frozenset(), "dev: none, because there is only one training utterance"
    ids = frozenset(hold_out(by_id, _count(len(by_id), share)))
    if not ids:
        return ids, "dev: none, because each utterance has a label that no other has; label more recordings"
    return ids, (
        f"dev: {len(ids)} of {len(by_id)} training utterances held out; {why}, so the voices of dev are also in "
        "training"
    )


def _count(names: int, share: float) -> int:
    return min(max(round(share * names), 1), names - 1)


def _shuffled(name: str) -> bytes:
    """Return a key that orders names without regard to what they mean."""
    return hashlib.sha256(name.encode("utf-8")).digest()
