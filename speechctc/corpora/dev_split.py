"""Choice of a dev split among training utterances, for a corpus without one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

from speechctc.listing import some


class Named(Protocol):
    """An utterance, of which only the id and the speaker are needed."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def speaker(self) -> str:
        """Its speaker; empty if not known."""


def choose_dev(utterances: Sequence[Named], share: float) -> tuple[frozenset[str], str]:
    """Choose the training utterances that become dev: whole speakers, or utterances where speakers are not known.

    The choice depends only on the names, so that a corpus is always divided in the same way and a new speaker rarely
    changes the split of the others.

    Parameters
    ----------
    utterances : sequence
    share : float
        Share of the speakers, or of the utterances. At least one becomes dev, and at least one stays in training.

    Returns
    -------
    dev : frozenset of str
        The ids of the utterances of dev.
    note : str
        What was chosen, for the user.
    """
    speakers = {utterance.speaker for utterance in utterances}
    if len(speakers) > 1 and "" not in speakers:
        chosen = _choose(speakers, share)
        dev = frozenset(utterance.id for utterance in utterances if utterance.speaker in chosen)
        return dev, f"dev: {len(chosen)} of {len(speakers)} training speakers held out ({some(sorted(chosen))})"
    ids = {utterance.id for utterance in utterances}
    if len(ids) < 2:
        return frozenset(), "dev: none, because there is only one training utterance"
    dev = _choose(ids, share)
    why = "all are by one speaker" if len(speakers) == 1 and "" not in speakers else "not all name their speaker"
    return dev, (
        f"dev: {len(dev)} of {len(ids)} training utterances held out; {why}, so the voices of dev are also in training"
    )


def _choose(names: set[str], share: float) -> frozenset[str]:
    count = min(max(round(share * len(names)), 1), len(names) - 1)
    return frozenset(sorted(names, key=lambda name: hashlib.sha256(name.encode("utf-8")).digest())[:count])
