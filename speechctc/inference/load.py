"""What a recogniser is made with: nets for a device, and the language models that ``--lm`` names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from speechctc.core.bundled import bundled_folder
from speechctc.core.errors import InputError, first_few
from speechctc.core.progress import Reporter
from speechctc.inference.decoder import Decoder
from speechctc.lm.arpa import read_arpa
from speechctc.lm.model import LanguageModel, NgramModel, PhoneLM, find_lstm
from speechctc.model.checkpoint import FREQUENCIES, Checkpoint, load_checkpoint
from speechctc.phones.inventory import Inventory

AnyDecoder = TypeVar("AnyDecoder", bound=Decoder)


def load_lm(path: Path, inventory: Inventory | None = None, device: str = "cpu") -> LanguageModel:
    """Read an ARPA file, an LSTM, or the n-gram of a recogniser's checkpoint; ``english``: of that bundled one.

    Parameters
    ----------
    path : Path
    inventory : Inventory, optional
        The phones that it must have; None: any.
    device : str
        Where an LSTM computes, as torch names it.

    Raises
    ------
    InputError
        There is no language model, it is damaged, or it has another phone set.
    """
    if not path.exists():
        path = bundled_folder(path) or path
    if not path.exists():
        raise InputError(f"{path}: no such language model", "name an ARPA file or a folder of speechctc lm train")
    if path.is_file():
        arpa = read_arpa(path, inventory)
        return NgramModel(PhoneLM.of(arpa.ngram), arpa.inventory, f"{arpa.ngram.order}-gram", arpa.missing)
    if folder := find_lstm(path):
        from speechctc.lm.lstm import load_lstm  # late: it loads torch

        model = load_lstm(folder, device).model
        check_lm_phones(folder, model.inventory, inventory)
        return model
    for folder in (path, path / "best", path / "last"):
        if (folder / "lm.safetensors").is_file() and (folder / "checkpoint.json").is_file():
            return _own_ngram(folder, inventory)
    raise InputError(f"{path}: no language model in this folder", "name an ARPA file or a folder of speechctc lm train")


def relative(model: NgramModel, checkpoint: Checkpoint) -> PhoneLM:
    """Return an n-gram as a recogniser without one of its own uses it; see `Ngram.relative_to`."""
    counts, ngram = checkpoint.facts.get(FREQUENCIES), model.lm.ngram
    return PhoneLM.of(ngram.relative_to(counts)) if counts and ngram else model.lm


def check_lm_phones(where: Path, phones: Inventory, inventory: Inventory | None) -> None:
    """Check that a language model has the phones of an inventory, in the same order.

    Raises
    ------
    InputError
        It has others.
    """
    if inventory is None or phones.phones == inventory.phones:
        return
    odd = sorted(set(phones.phones) ^ set(inventory.phones))
    differ = f"they differ in {len(odd)}: {' '.join(odd[:8])}" if odd else "in another order"
    raise InputError(
        f"{where}: a language model of {len(phones.phones)} phones ({phones.name}), where"
        f" {len(inventory.phones)} ({inventory.name}) are wanted; {differ}",
        "train one on these phones: speechctc lm train",
    )


def _own_ngram(folder: Path, inventory: Inventory | None) -> NgramModel:
    found = load_checkpoint(folder)
    check_lm_phones(folder, found.inventory, inventory)
    assert found.lm is not None and found.lm.ngram is not None
    ngram = replace(found.lm.ngram, less=None)  # that is for the model's own search
    return NgramModel(PhoneLM.of(ngram), found.inventory, "the model's n-gram")


def with_lms(recogniser: AnyDecoder, lms: Sequence[Path], reporter: Reporter) -> AnyDecoder:
    """Return a recogniser with other language models: an n-gram replaces its own, an LSTM is added.

    Raises
    ------
    InputError
        A model cannot be read or has other phones, or two models are of one kind.
    """
    ngram: PhoneLM | None = None
    lstm: LanguageModel | None = None
    for path in lms:
        model = load_lm(path, recogniser.inventory, recogniser.device)
        if (ngram if isinstance(model, NgramModel) else lstm) is not None:
            raise InputError(f"{path}: a second language model of its kind", "name one n-gram and one LSTM at most")
        if isinstance(model, NgramModel):
            ngram = relative(model, recogniser.checkpoint)
            if model.missing:
                reporter.warn(f"{path}: has no probability for {len(model.missing)} phones: {first_few(model.missing)}")
        else:
            lstm = model
    if not lms:
        return recogniser
    checkpoint = replace(recogniser.checkpoint, lm=ngram or recogniser.checkpoint.lm)
    return recogniser.replaced(checkpoint=checkpoint, lstm=lstm)
