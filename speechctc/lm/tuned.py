"""Settings of the search that were tuned for language models: a file in the folder of the checkpoint has them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.lm.model import LanguageModel, PhoneLM

TUNED_FILE = "tuned.json"
DIGEST = "digest"  # digest of the rest of the file, which reveals changes made by hand
TUNED_KEYS = ("lm_weight", "lm_bonus", "lm_share", "beam")


def identity(ngram: PhoneLM | None, lstm: LanguageModel | None) -> str:
    """Return a digest of the tables and weights of language models, which does not depend on file names."""
    digest = hashlib.sha256()
    if ngram is not None:
        digest.update(b"n-gram" + ngram.log_probs.tobytes() + ngram.next_state.tobytes())
    if (net := getattr(lstm, "net", None)) is not None:
        digest.update(b"lstm")
        for name, value in sorted(net.state_dict().items()):
            digest.update(name.encode() + value.cpu().numpy().tobytes())
    return digest.hexdigest()


def read_tuned(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a file of tuned weights, none if there is no file.

    Raises
    ------
    InputError
        It cannot be read.
    """
    if not path.exists():
        return []
    try:
        entries = files.read_json(path)["entries"]
        if not all(isinstance(entry["lms"], str) and all(key in entry for key in TUNED_KEYS) for entry in entries):
            raise ValueError("an entry without its keys")
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: not a file of tuned weights ({reason})", "mend it or move it away") from None
    return list(entries)


def find_tuned(folder: Path, ngram: PhoneLM | None, lstm: LanguageModel | None) -> dict[str, Any] | None:
    """Return the entry for these language models in a checkpoint's folder, None if there is none.

    Raises
    ------
    InputError
        The file cannot be read.
    """
    entries = read_tuned(folder / TUNED_FILE)
    if not entries or (ngram is None and lstm is None):
        return None
    lms = identity(ngram, lstm)
    return next((entry for entry in entries if entry["lms"] == lms), None)


def lm_settings(
    folder: Path,
    ngram: PhoneLM | None,
    lstm: LanguageModel | None,
    weight: float | None,
    note: Callable[[str], None] = lambda line: None,
) -> list[str]:
    """Return the settings of the search with language models: a given weight, or else what was tuned for them.

    Parameters
    ----------
    folder : Path
        The folder of the checkpoint.
    ngram, lstm
        The language models.
    weight : float, optional
    note : callable
        Receives a line on the tuned settings that are used.

    Raises
    ------
    InputError
        A weight is given and there is no language model; or the file of tuned settings cannot be read.
    """
    if weight is not None:
        if weight and ngram is None and lstm is None:
            fix = "train one with decode.lm_order=4, name one with --lm, or give no weight"
            raise InputError(f"{folder}: the model has no n-gram", fix)
        return [f"decode.lm_weight={weight}"]
    entry = find_tuned(folder, ngram, lstm)
    if entry is not None:
        share = "" if lstm is None else f", share {entry['lm_share']:g}"
        shown = f"weight {entry['lm_weight']:g}, bonus {entry['lm_bonus']:g}{share}"
        note(f"language model: {shown}, tuned on {entry.get('split', 'dev')} ({folder / TUNED_FILE})")
    return tuned_settings(entry)


def tuned_settings(entry: dict[str, Any] | None) -> list[str]:
    """Return an entry as settings of a config; none for None."""
    return [] if entry is None else [f"decode.{key}={entry[key]}" for key in TUNED_KEYS]


def check_untouched(path: Path) -> None:
    """Check that a file of tuned weights is unchanged since `write_tuned`, or does not exist.

    Raises
    ------
    InputError
        It was changed by hand.
    """
    entries = read_tuned(path)
    if entries and files.read_json(path).get(DIGEST) != _digest(entries):
        raise InputError(
            f"{path}: was changed by hand", "move it away to tune again, or write to another place with --out"
        )


def write_tuned(path: Path, entry: dict[str, Any]) -> None:
    """Write an entry, which replaces the one for the same language models; the others are kept.

    Raises
    ------
    InputError
        The file was changed by hand.
    """
    check_untouched(path)
    entries = [other for other in read_tuned(path) if other["lms"] != entry["lms"]] + [entry]
    files.write_json(path, {"entries": entries, DIGEST: _digest(entries)})


def _digest(entries: Sequence[dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
