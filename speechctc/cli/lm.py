"""Commands on language models of phones: lm train, perplexity, sample, tune."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from speechctc.cli import options as opt
from speechctc.cli.streams import check_places, new_reporter, show, show_scores
from speechctc.core.errors import InputError

if TYPE_CHECKING:
    from speechctc.phones.inventory import Inventory
    from speechctc.stages.lm_texts import PhoneText

lm_app = typer.Typer(no_args_is_help=True, help="Train, score, sample and tune language models of phones.")


class Kind(str, Enum):
    """The kinds of language model."""

    ngram = "ngram"
    lstm = "lstm"


def train(
    out: Path,
    settings: list[str] | None = None,
    kind: Kind = Kind.ngram,
    config: str | None = None,
    text: list[Path] | None = None,
    language: str | None = None,
    dictionary: Path | None = None,
    phones: str = "found",
    times: int = 1,
    order: int = 4,
    prune: float = 0.0,
    dev: Path | None = None,
    resume: bool = False,
) -> None:
    """Train a language model on the training labels of a corpus, on texts in phones or words, or on both.

    Settings of an LSTM are lm.hidden=512 and so on. Ctrl-C saves its state; --resume continues from there.
    """
    own = [setting for setting in settings or () if setting.startswith("lm.")]
    others = [setting for setting in settings or () if setting not in own]
    if kind is Kind.ngram and (own or dev or resume):
        raise InputError("lm.KEY=VALUE, --dev and --resume are for LSTMs", "add --kind lstm, or leave them out")
    if kind is Kind.lstm and prune:
        raise InputError("--prune is for n-grams", "leave it out, or choose --kind ngram")
    if config is None and others:
        raise InputError("settings are for a config", "name it with --config, or leave them out")
    from speechctc.stages.lm_texts import check_free, phone_text, read_sources, train_ngram

    if kind is Kind.ngram:
        check_free(out)
    loaded, reads = opt.load_config(config, others) if config else None, (dictionary, language)
    sources = read_sources(loaded, text or (), phones, reads, new_reporter(), times, with_dev=kind is Kind.lstm)
    inventory, source, corpus_dev = sources
    if kind is Kind.lstm:
        _train_lstm(out, inventory, source, phone_text(dev) if dev else corpus_dev, own, resume)
    else:
        show(train_ngram(source, inventory, order, out, prune))


def perplexity(
    lm: list[Path],
    settings: list[str] | None = None,
    config: str | None = None,
    split: list[opt.Split] | None = None,
    text: list[Path] | None = None,
    json_file: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Score splits of a corpus, or phone texts, with language models: a table of perplexities."""
    from speechctc.stages.lm_texts import phone_text, score_texts, split_texts, table

    if config is None and not text:
        raise InputError("nothing to score", "name a corpus with --config or a phone text with --text")
    if config is None and (settings or split):
        raise InputError("settings and --split are for a corpus", "name it with --config, or leave them out")
    check_places(overwrite, json_file)
    texts = [phone_text(path) for path in text or ()]
    inventory = None
    if config is not None:
        splits = [each.value for each in split or [opt.Split.dev]]
        inventory, labelled = split_texts(opt.load_config(config, settings), splits)
        texts = [*labelled, *texts]
    found = score_texts(lm, texts, inventory, new_reporter())
    show_scores(table(found), [each.to_dict() for each in found], json_file, overwrite)


def sample(
    lm: Path, count: int = 10, seed: int = 0, temperature: float = 1.0, prefix: str = "", longest: int = 200
) -> None:
    """Draw random phone strings from a language model, one per line."""
    from speechctc.stages.lm_texts import draw

    for line in draw(lm, count, seed, temperature, prefix, longest):
        show(line)


def tune(
    settings: list[str] | None = None,
    model: Path | None = None,
    lm: list[Path] | None = None,
    split: opt.Split = opt.Split.dev,
    beam: int | None = None,
    out: Path | None = None,
) -> None:
    """Find the weight and the bonus with the fewest errors on dev, and save them in the model's folder.

    For a bundled model, which is not changed, that is a copy of it, such as english/, in the working directory.
    """
    from speechctc.inference.recogniser import Recogniser
    from speechctc.inference.variants import with_lms
    from speechctc.lm.tuned import FILE
    from speechctc.stages.lm_tune import check_place, keep
    from speechctc.stages.lm_tune import tune as tune_weights
    from speechctc.stages.used_model import own_folder, write_learned

    reporter, folder = new_reporter(), opt.find_model(model)
    own = folder if out else own_folder(folder)
    recogniser = with_lms(Recogniser.read(folder), lm or (), reporter)
    beams = [] if beam is None else [f"decode.beam={beam}"]
    path = out or own / FILE
    check_place(path, recogniser)
    tuning = tune_weights(recogniser, split.value, [*(settings or ()), *beams], reporter)
    show(tuning.to_text())
    facts = {"names": [str(each) for each in lm or ()], "split": split.value}
    write_learned(folder, own, lambda place: keep(tuning, recogniser, out or place / FILE, facts, reporter), reporter)
    used = "decode, evaluate and calibrate use it" if out is None else "decode looks for tuned.json in a model's folder"
    show(f"written: {path}; {used}")


def _train_lstm(
    out: Path, inventory: Inventory, train: PhoneText, dev: PhoneText | None, settings: list[str], resume: bool
) -> None:
    from speechctc.stages.lm_lstm import LstmTraining, lstm_config, train_and_dev

    reporter = new_reporter()
    texts = train_and_dev(train, dev, inventory, reporter)
    training = LstmTraining(out, inventory, lstm_config(settings), texts, resume, reporter)
    training.train()
    if training.status:
        show(f"stopped; the state is saved in {out}/last, go on with --resume", err=True)
        raise typer.Exit(training.status)
    show(f"trained: {out}/best, dev perplexity {training.trainer.progress.best:.2f}")


for command in (train, perplexity, sample, tune):
    lm_app.command()(opt.described(f"lm {command.__name__}", command))
