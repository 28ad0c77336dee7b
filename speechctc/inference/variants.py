"""Recognisers of the same model with other language models, or restricted to the phones of an inventory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from speechctc.core.errors import InputError, first_few
from speechctc.core.progress import Reporter
from speechctc.inference.decoder import ONLY, Decoder
from speechctc.inference.load import load_lm, relative
from speechctc.inference.wanted import Wanted, likely_meant, phones_wanted
from speechctc.lm.automaton import PhoneLM
from speechctc.lm.model import LanguageModel, NgramModel, PartModel
from speechctc.lm.tuned import lm_settings
from speechctc.model import checkpoint
from speechctc.phones.inventory import BLANK, SILENCES, Inventory
from speechctc.phones.matching import Match, is_arpabet, match_phones
from speechctc.phones.texts import listed

AnyDecoder = TypeVar("AnyDecoder", bound=Decoder)

OUTPUT, BIAS = "output.weight", "output.bias"  # of the net


def restrict(recogniser: AnyDecoder, wanted: Wanted, reporter: Reporter) -> AnyDecoder:
    """Return a recogniser of the same model that hears only these phones, blanks and silences.

    The posteriors are those of the model given that no other phone is said: the other classes leave the output layer,
    and so the softmax, which makes what is left sum to 1.

    Parameters
    ----------
    recogniser : Decoder
    wanted : Wanted
        In the model's own labels or in IPA. A phone that the model does not have is heard as the most similar one that
        it has, a diphthong as its vowels.
    reporter : Reporter
        Is told which those are, and which phones are like none of the model's.

    Raises
    ------
    InputError
        There are labels that are neither IPA nor the model's, or none is like one of the model's.
    """
    own, source = recogniser.phones, wanted.source
    phones = phones_wanted(wanted, own, reporter)
    matches = match_phones(phones, own)
    if not matches:
        raise InputError(f"{source}: none of its phones is like one of the model's", f"its phones: {' '.join(own)}")
    heard = {match.phone for match in matches.values()} | SILENCES
    kept = [BLANK, *(k for k, phone in enumerate(own, start=BLANK + 1) if phone in heard)]
    _say(source, phones, matches, reporter)
    whole = recogniser.checkpoint
    counts = whole.facts.get(checkpoint.FREQUENCIES)
    shares = {checkpoint.FREQUENCIES: [counts[k - 1] for k in kept[1:]]} if counts else {}
    part = replace(
        whole,
        inventory=Inventory(whole.inventory.name, tuple(own[k - 1] for k in kept[1:])),
        weights={**whole.weights, **{name: whole.weights[name][kept] for name in (OUTPUT, BIAS)}},
        lm=_part(whole.lm, kept) if whole.lm else None,
        facts={**whole.facts, **shares, ONLY: f"only the {len(kept) - 1} phones of {source}"},
    )
    lstm = PartModel(recogniser.lstm, part.inventory, kept) if recogniser.lstm else None
    return recogniser.restricted(part, lstm)


def _say(source: str, phones: Sequence[str], matches: Mapping[str, Match], reporter: Reporter) -> None:
    near = [f"{phone} as {match.phone}" for phone, match in matches.items() if match.how == "nearness"]
    if near:
        reporter.note(f"{source}: phones that the model does not have are heard as the nearest: {first_few(near, 20)}")
    other = [f"{phone} as {match.phone}" for phone, match in matches.items() if match.how == "table"]
    if other:
        reporter.note(f"{source}: phones that the model spells otherwise: {first_few(other, 20)}")
    if lost := [phone for phone in phones if phone not in matches]:
        reporter.warn(f"{source}: no phone of the model is like these, which are never heard: {first_few(lost, 20)}")
    known = {phone for phone, match in matches.items() if match.how != "nearness"}
    doubts = [f"{phone} ({meant}?)" for phone in phones if phone not in known and (meant := likely_meant(phone))]
    if doubts and not is_arpabet(phones):
        reporter.warn(f"{source}: read as one phone each; did you mean something else? {first_few(doubts, 20)}")


def _part(lm: PhoneLM, kept: Sequence[int]) -> PhoneLM:
    """Return an n-gram of which only some phones are said, as `PartModel`."""
    numbers = list(kept)
    return PhoneLM(np.ascontiguousarray(lm.log_probs[:, numbers]), np.ascontiguousarray(lm.next_state[:, numbers]))


def with_language_models(
    recogniser: AnyDecoder,
    folder: Path,
    lms: Sequence[Path],
    weight: float | None,
    beam: int | None,
    reporter: Reporter,
) -> AnyDecoder:
    """Return a recogniser with the language models and settings of a command line.

    Parameters
    ----------
    recogniser : Decoder
    folder : Path
        The folder of its checkpoint, in which tuned settings are looked for.
    lms : sequence of Path
        See `with_lms`.
    weight : float, optional
        Weight of the language models, instead of the tuned one or the config's ``decode.lm_weight``.
    beam : int, optional
        Hypotheses to keep, instead of the config's; turns on the prefix search even without a language model.
    reporter : Reporter
        Receives the tuned settings that are used, and the phones that an n-gram has no probability for.

    Raises
    ------
    InputError
        A language model cannot be read or has other phones, or a number is out of range.
    """
    recogniser = with_lms(recogniser, lms, reporter)
    settings = lm_settings(folder, recogniser.checkpoint.lm, recogniser.lstm, weight, reporter.note)
    return recogniser.with_settings(settings + ([] if beam is None else [f"decode.beam={beam}", "decode.search=beam"]))


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
                reporter.warn(f"{path}: has no probability for {len(model.missing)} phones: {listed(model.missing)}")
        else:
            lstm = model
    if not lms:
        return recogniser
    checkpoint = replace(recogniser.checkpoint, lm=ngram or recogniser.checkpoint.lm)
    return recogniser.replaced(checkpoint=checkpoint, lstm=lstm)
