"""The command that opens an utterance in the studio, for pages: the studio's own address is another each time."""

from __future__ import annotations

import shlex

from speechctc.corpora.corpus import Utterance


def studio_command(utterance: Utterance) -> str:
    """Return the command that opens the recording of an utterance in the studio, at its start."""
    at = f" --at {utterance.stretch[0]:.2f}" if utterance.stretch else ""
    return f"speechctc studio {shlex.quote(str(utterance.audio))}{at}"
