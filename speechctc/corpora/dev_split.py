"""A dev split out of the training utterances, where a corpus brings none."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol


class Named(Protocol):
    """An utterance, or what is known of it so far."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def speaker(self) -> str:
        """Who speaks; empty when not known."""


def hold_out(utterances: Sequence[Named], share: float) -> tuple[frozenset[str], str]:
    """Choose the training utterances that become dev: whole speakers, or single ones where speakers are not known.

    The choice rests on the names alone, not on order or chance: a corpus is always divided alike, and another
    speaker in it rarely moves the rest.

    Parameters
    ----------
    utterances : sequence
    share : float
        Of speakers, or of utterances; at least one is held out, and at least one kept.

    Returns
    -------
    held : frozenset of str
        The ids of dev.
    note : str
        What was done, for the user.
    """
    speakers = {utterance.speaker for utterance in utterances}
    if len(speakers) > 1 and "" not in speakers:
        chosen = _choose(speakers, share)
        held = frozenset(utterance.id for utterance in utterances if utterance.speaker in chosen)
        return held, f"dev: {len(chosen)} of {len(speakers)} training speakers held out ({_some(sorted(chosen))})"
    ids = {utterance.id for utterance in utterances}
    if len(ids) < 2:
        return frozenset(), "dev: none; a single training utterance cannot be divided"
    held = _choose(ids, share)
    why = "all are one speaker's" if len(speakers) == 1 and "" not in speakers else "not all name their speaker"
    return held, f"dev: {len(held)} of {len(ids)} training utterances held out; {why}, so dev's voices are trained on"


def _choose(names: set[str], share: float) -> frozenset[str]:
    count = min(max(round(share * len(names)), 1), len(names) - 1)
    return frozenset(sorted(names, key=lambda name: hashlib.sha256(name.encode("utf-8")).digest())[:count])


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
