"""Restrict a recogniser to the phones of an inventory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from speechctc.core.errors import InputError, some
from speechctc.core.progress import Reporter
from speechctc.core.text_files import read_text
from speechctc.inference.recogniser import Recogniser
from speechctc.phones.articulation import sounds_of
from speechctc.phones.inventory import BLANK, SILENCES
from speechctc.phones.labels import nfc
from speechctc.phones.marks import divide_phone
from speechctc.phones.matching import match_phones

NEVER = -1e4
"""The bias of a phone that is left out: its probability is 0, in float32 too."""


def read_inventory(path: Path) -> tuple[str, ...]:
    """Read the phones of an inventory: labels with white space or new lines between them.

    Raises
    ------
    InputError
        The file cannot be read, or is empty.
    """
    phones = tuple(dict.fromkeys(map(nfc, read_text(path).text.split())))
    if not phones:
        raise InputError(f"{path}: no phones in it", "write the labels with spaces between them")
    return phones


def restrict(recogniser: Recogniser, path: Path, reporter: Reporter) -> Recogniser:
    """Return a recogniser of the same model that hears only the phones of an inventory, blanks and silences.

    The posteriors are those of the model given that no other phone is said: the other classes leave the softmax of the
    output layer, which makes what is left sum to 1. So all that is computed from the posteriors agrees.

    Parameters
    ----------
    recogniser : Recogniser
    path : Path
        The inventory, in the model's own labels or in IPA. A phone that the model does not have is heard as the most
        similar one that it has; a diphthong as its vowels.
    reporter : Reporter
        Is told which those are, and which phones are like none of the model's.

    Raises
    ------
    InputError
        The inventory cannot be read, has labels that are neither IPA nor the model's, or none like one of the model's.
    """
    own = recogniser.phones
    wanted = _known(path, read_inventory(path), own)
    matches = match_phones(wanted, own)
    if not matches:
        raise InputError(f"{path}: none of its phones is like one of the model's", f"its phones: {' '.join(own)}")
    kept = {match.phone for match in matches.values()} | SILENCES
    near = [f"{phone} as {match.phone}" for phone, match in matches.items() if match.how == "nearness"]
    if near:
        reporter.note(f"{path}: phones that the model does not have are heard as the nearest: {some(near, 20)}")
    if lost := [phone for phone in wanted if phone not in matches]:
        reporter.warn(f"{path}: no phone of the model is like these, which are never heard: {some(lost, 20)}")
    weights = dict(recogniser.checkpoint.weights)
    left_out = np.isin(np.arange(len(own) + 1), [k for k, each in enumerate(own, BLANK + 1) if each not in kept])
    weights["output.weight"] = np.where(left_out[:, None, None, None], np.float32(0), weights["output.weight"])
    weights["output.bias"] = np.where(left_out, np.float32(NEVER), weights["output.bias"])
    checkpoint = replace(recogniser.checkpoint, weights=weights)
    return Recogniser(checkpoint, recogniser.device, recogniser.calibration, recogniser.lstm, recogniser.boundaries)


def _known(path: Path, phones: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    """Return the phones of an inventory; of diphthongs that the model does not have, the vowels."""
    whole = {phone for phone, match in match_phones(phones, own).items() if match.how != "nearness"}
    parts = tuple(
        part
        for phone in phones
        for part in ((phone,) if phone in whole else divide_phone(phone, diphthongs=True, affricates=False))
    )
    if unknown := [part for part in parts if part not in whole and not sounds_of(part)]:
        raise InputError(
            f"{path}: neither IPA nor labels of the model: {some(unknown, 10)}", f"the model's: {' '.join(own)}"
        )
    return tuple(dict.fromkeys(parts))
