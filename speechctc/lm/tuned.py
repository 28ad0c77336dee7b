"""Weights that were tuned for a model and its language models, kept beside the model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from speechctc.decoding.ngram import PhoneLM
from speechctc.errors import InputError
from speechctc.lm.lstm import LstmModel
from speechctc.lm.model import LanguageModel
from speechctc.storage import files

FILE = "tuned.json"
CHECK = "digest"  # of the rest of the file, by which a change made by hand shows
KEYS = ("lm_weight", "lm_bonus", "lm_share", "beam")


def identity(ngram: PhoneLM | None, lstm: LanguageModel | None) -> str:
    """Return a digest of what the language models compute, however their files are called."""
    digest = hashlib.sha256()
    if ngram is not None:
        digest.update(b"n-gram" + ngram.log_probs.tobytes() + ngram.next_state.tobytes())
    if isinstance(lstm, LstmModel):
        digest.update(b"lstm")
        for name, value in sorted(lstm.net.state_dict().items()):
            digest.update(name.encode() + value.cpu().numpy().tobytes())
    return digest.hexdigest()


def read_tuned(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a file of tuned weights, none if it is not there.

    Raises
    ------
    InputError
        It cannot be read.
    """
    if not path.exists():
        return []
    try:
        entries = files.read_json(path)["entries"]
        if not all(isinstance(entry["lms"], str) and all(key in entry for key in KEYS) for entry in entries):
            raise ValueError("an entry without its keys")
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: not a file of tuned weights ({reason})", "mend it or move it away") from None
    return list(entries)


def find_tuned(folder: Path, ngram: PhoneLM | None, lstm: LanguageModel | None) -> dict[str, Any] | None:
    """Return what was tuned for these language models with the checkpoint in a folder, None if nothing was.

    Raises
    ------
    InputError
        The file cannot be read.
    """
    entries = read_tuned(folder / FILE)
    if not entries or (ngram is None and lstm is None):
        return None
    lms = identity(ngram, lstm)
    return next((entry for entry in entries if entry["lms"] == lms), None)


def tuned_settings(entry: dict[str, Any] | None) -> list[str]:
    """Return an entry as settings of a config; none for None."""
    return [] if entry is None else [f"decode.{key}={entry[key]}" for key in KEYS]


def check_untouched(path: Path) -> None:
    """See that a file of tuned weights is as `write_tuned` left it, or not there.

    Raises
    ------
    InputError
        Someone has changed it.
    """
    entries = read_tuned(path)
    if entries and files.read_json(path).get(CHECK) != _digest(entries):
        raise InputError(f"{path}: was changed by hand", "move it away to tune anew, or write elsewhere with --out")


def write_tuned(path: Path, entry: dict[str, Any]) -> None:
    """Put an entry in the place of that for the same language models; keep the others.

    Raises
    ------
    InputError
        Someone has changed the file.
    """
    check_untouched(path)
    entries = [other for other in read_tuned(path) if other["lms"] != entry["lms"]] + [entry]
    files.write_json(path, {"entries": entries, CHECK: _digest(entries)})


def _digest(entries: Sequence[dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
