"""A recogniser with other language models, other weights, or those that were tuned for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from speechctc.config import override, parse_config
from speechctc.errors import InputError
from speechctc.lm.load import load_lm
from speechctc.lm.model import LanguageModel, NgramModel
from speechctc.lm.texts import listed
from speechctc.lm.tuned import FILE, find_tuned, tuned_settings
from speechctc.phone_lm import PhoneLM
from speechctc.progress import Reporter
from speechctc.recognition.recogniser import Recogniser


def equipped(
    recogniser: Recogniser,
    folder: Path,
    lms: Sequence[Path],
    weight: float | None,
    beam: int | None,
    reporter: Reporter,
) -> Recogniser:
    """Return a recogniser as a command line wants it.

    Parameters
    ----------
    recogniser : Recogniser
    folder : Path
        Of its checkpoint, beside which tuned weights may lie.
    lms : sequence of Path
        See `with_lms`.
    weight : float, optional
        Instead of what was tuned, or of the config's ``decode.lm_weight``.
    beam : int, optional
        Instead of the config's; a prefix search is then done even without a language model.
    reporter : Reporter
        Hears if tuned weights are used, and of phones that an n-gram does not know.

    Raises
    ------
    InputError
        A language model cannot be read or is of other phones, or a number is out of range.
    """
    recogniser = with_lms(recogniser, lms, reporter)
    settings = [] if beam is None else [f"decode.beam={beam}", "decode.search=beam"]
    if weight is None:
        settings = [*_tuned(recogniser, folder, reporter), *settings]
    elif weight and recogniser.checkpoint.lm is None and recogniser.lstm is None:
        raise InputError(f"{folder}: the model has no n-gram", "name a language model with --lm, or give no weight")
    else:
        settings.append(f"decode.lm_weight={weight}")
    if not settings:
        return recogniser
    values = override(recogniser.config.to_dict(), settings)
    return recogniser.configured(parse_config(values, "the model's config with these options"))


def with_lms(recogniser: Recogniser, lms: Sequence[Path], reporter: Reporter) -> Recogniser:
    """Return a recogniser with other language models: an n-gram in place of its own, an LSTM beside it.

    Raises
    ------
    InputError
        A model cannot be read or is of other phones, or there are two of a kind.
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
    return Recogniser(checkpoint, recogniser.device, recogniser.calibration, lstm)


def _tuned(recogniser: Recogniser, folder: Path, reporter: Reporter) -> list[str]:
    """Return the settings that were tuned for the recogniser's language models, and say so."""
    entry = find_tuned(folder, recogniser.checkpoint.lm, recogniser.lstm)
    if entry is not None:
        shown = f"weight {entry['lm_weight']:g}, bonus {entry['lm_bonus']:g}"
        shown += f", share {entry['lm_share']:g}" if recogniser.lstm is not None else ""
        reporter.note(f"language model: {shown}, tuned on {entry.get('split', 'dev')} ({folder / FILE})")
    return tuned_settings(entry)
