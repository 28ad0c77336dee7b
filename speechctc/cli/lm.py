"""Commands on language models of phones: lm train, perplexity, sample, tune."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from speechctc.cli import options as opt
from speechctc.cli.options import check_places, new_reporter, show, show_scores
from speechctc.core.errors import InputError

if TYPE_CHECKING:
    from speechctc.phones.inventory import Inventory
    from speechctc.stages.lm_texts import PhoneText

lm_app = typer.Typer(no_args_is_help=True, help="Train, score, sample and tune language models of phones.")


class Kind(str, Enum):
    """The kinds of language model."""

    ngram = "ngram"
    lstm = "lstm"


@dataclass(frozen=True, kw_only=True)
class LmTrain:
    """The options of ``lm train``."""

    # fmt: off
    out: Annotated[Path, Option(metavar="PLACE", help="An n-gram's ARPA file (.arpa, .arpa.gz), or an LSTM's folder.")]
    settings: opt.Settings = None
    kind: Annotated[Kind, Option(help="The kind of language model.")] = Kind.ngram
    config: opt.CorpusConfig = None
    text: Annotated[list[Path] | None, Option(metavar="FILE", help=
        "A text, plain or .gz; may be repeated. Phones separated by spaces, one utterance per line; or words, read by "
        "--language or --dictionary.")] = None
    language: opt.WordLanguage = None
    dictionary: opt.Dictionary = None
    phones: Annotated[str, Option(metavar="SET", help=
        "The phone set: cmu39, timit61 ..., the folder of a model that has it, or found: the phones in the text. With "
        "--config, it is that of the corpus.")] = "found"
    times: Annotated[int, Option(metavar="N", min=1, help=
        "How often the labels of --config count beside the texts; more than 1 if they are nearer to what will be "
        "recognised.")] = 1
    order: Annotated[int, Option(metavar="N", min=1, max=8, help="The order of an n-gram: its longest strings.")] = 4
    prune: Annotated[float, Option(metavar="X", min=0.0, help=
        "Leave out strings of an n-gram without which its relative entropy changes by less than X nats per phone, such "
        "as 1e-7.")] = 0.0
    dev: Annotated[Path | None, Option(metavar="FILE", help=
        "LSTM: the text that decides when to stop. Default: dev of the config's corpus, or a tenth of the "
        "text.")] = None
    resume: Annotated[bool, Option("--resume", help="LSTM: continue the training in the folder.")] = False
    # fmt: on


@opt.with_fields
def train(given: LmTrain) -> None:
    """Train a language model on the training labels of a corpus, on texts in phones or words, or on both.

    Settings of an LSTM are lm.hidden=512 and so on. Ctrl-C saves its state; --resume continues from there.
    """
    own = [setting for setting in given.settings or () if setting.startswith("lm.")]
    others = [setting for setting in given.settings or () if setting not in own]
    if given.kind is Kind.ngram and (own or given.dev or given.resume):
        raise InputError("lm.KEY=VALUE, --dev and --resume are for LSTMs", "add --kind lstm, or leave them out")
    if given.kind is Kind.lstm and given.prune:
        raise InputError("--prune is for n-grams", "leave it out, or choose --kind ngram")
    if given.config is None and others:
        raise InputError("settings are for a config", "name it with --config, or leave them out")
    from speechctc.stages.lm_texts import check_free, phone_text, read_sources, train_ngram

    if given.kind is Kind.ngram:
        check_free(given.out)
    loaded, reads = opt.load_config(given.config, others) if given.config else None, (given.dictionary, given.language)
    sources = read_sources(
        loaded, given.text or (), given.phones, reads, new_reporter(), given.times, with_dev=given.kind is Kind.lstm
    )
    inventory, source, corpus_dev = sources
    if given.kind is Kind.lstm:
        _train_lstm(given.out, inventory, source, phone_text(given.dev) if given.dev else corpus_dev, own, given.resume)
    else:
        show(train_ngram(source, inventory, given.order, given.out, given.prune))


def perplexity(
    lm: Annotated[
        list[Path], Option(metavar="PLACE", help="An ARPA file, or a folder with a language model; may be repeated.")
    ],
    settings: opt.Settings = None,
    config: opt.CorpusConfig = None,
    split: Annotated[
        list[opt.Split] | None, Option(help="A split of the config's corpus to score; may be repeated. Default: dev.")
    ] = None,
    text: Annotated[
        list[Path] | None,
        Option(metavar="FILE", help="A phone text: one utterance per line, phones separated by spaces; may be .gz."),
    ] = None,
    json_file: opt.JsonFile = None,
    overwrite: opt.Overwrite = False,
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
    lm: Annotated[Path, Option(metavar="PLACE", help="An ARPA file, or a folder with a language model.")],
    count: Annotated[int, Option(metavar="N", min=1, help="Number of lines to draw.")] = 10,
    seed: Annotated[int, Option(min=0, help="The same seed draws the same lines.")] = 0,
    temperature: Annotated[
        float, Option(min=0.0, help="Below 1: frequent strings more often; 0: always the most probable phone.")
    ] = 1.0,
    prefix: Annotated[str, Option(metavar="PHONES", help='Phones that each line begins with: "dh ah".')] = "",
    longest: Annotated[int, Option(metavar="N", min=1, help="Most phones in a line.")] = 200,
) -> None:
    """Draw random phone strings from a language model, one per line."""
    from speechctc.stages.lm_texts import sample_texts

    for line in sample_texts(lm, count, seed, temperature, prefix, longest):
        show(line)


def tune(
    settings: opt.Settings = None,
    model: opt.Model = None,
    lm: Annotated[
        list[Path] | None,
        Option(metavar="PLACE", help="An ARPA file, an LSTM's folder, or both. Default: the model's own n-gram."),
    ] = None,
    split: Annotated[
        opt.Split, Option(help="The split to tune on; the model must not be trained on it.")
    ] = opt.Split.dev,
    beam: Annotated[
        int | None, Option(metavar="N", help="Hypotheses that the search keeps. Default: decode.beam.")
    ] = None,
    out: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Where to write the weights. Default: tuned.json in the model's folder, where decode looks for it.",
        ),
    ] = None,
) -> None:
    """Find the weight and the bonus with the fewest errors on dev, and save them in the model's folder.

    For a bundled model, which is not changed, that is a copy of it, such as english/, in the working directory.
    """
    from speechctc.inference.load import with_lms
    from speechctc.inference.recogniser import Recogniser
    from speechctc.lm.search import TUNED_FILE
    from speechctc.stages.lm_tune import check_place, keep
    from speechctc.stages.lm_tune import tune as tune_weights
    from speechctc.stages.used_model import own_folder, write_learned

    reporter, folder = new_reporter(), opt.find_model(model)
    own = folder if out else own_folder(folder)
    recogniser = with_lms(Recogniser.read(folder), lm or (), reporter)
    beams = [] if beam is None else [f"decode.beam={beam}"]
    path = out or own / TUNED_FILE
    check_place(path)
    tuning = tune_weights(recogniser, split.value, [*(settings or ()), *beams], reporter)
    show(tuning.to_text())
    facts = {"names": [str(each) for each in lm or ()], "split": split.value}
    write_learned(folder, own, lambda place: keep(tuning, recogniser, out or place / TUNED_FILE, facts), reporter)
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
    lm_app.command()(command)
