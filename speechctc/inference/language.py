"""Give a recogniser other language models, and the settings of their search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.inference.recogniser import Recogniser
from speechctc.lm.load import load_lm
from speechctc.lm.model import LanguageModel, NgramModel
from speechctc.lm.tuned import lm_settings
from speechctc.ngram.automaton import PhoneLM
from speechctc.phones.texts import listed


def with_language_models(
    recogniser: Recogniser,
    folder: Path,
    lms: Sequence[Path],
    weight: float | None,
    beam: int | None,
    reporter: Reporter,
) -> Recogniser:
    """Return a recogniser with the language models and settings of a command line.

    Parameters
    ----------
    recogniser : Recogniser
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


def with_lms(recogniser: Recogniser, lms: Sequence[Path], reporter: Reporter) -> Recogniser:
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
            ngram = model.lm
            if model.missing:
                reporter.warn(f"{path}: has no probability for {len(model.missing)} phones: {listed(model.missing)}")
        else:
            lstm = model
    if not lms:
        return recogniser
    checkpoint = replace(recogniser.checkpoint, lm=ngram or recogniser.checkpoint.lm)
    return Recogniser(checkpoint, recogniser.device, recogniser.calibration, lstm, recogniser.boundaries)
