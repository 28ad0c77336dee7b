"""The command line's group ``speechctc lm``: language models of phones."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from speechctc.errors import InputError

if TYPE_CHECKING:
    from speechctc.config import Config
    from speechctc.lm_texts import PhoneText
    from speechctc.phones import Inventory

lm_app = typer.Typer(no_args_is_help=True, help="Train, score, sample and tune language models of phones.")


class Kind(str, Enum):
    """The kinds of language model."""

    ngram = "ngram"
    lstm = "lstm"


class Split(str, Enum):
    """The splits of a corpus."""

    train = "train"
    dev = "dev"
    test = "test"


Settings = Annotated[
    Optional[list[str]],  # noqa: UP045 (typer reads annotations at run time, on Python 3.10 too)
    typer.Argument(metavar="[KEY=VALUE]...", help="Settings laid over the config: corpus.root=DIR"),
]
ConfigOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--config", help="A config, whose corpus has the labels and the phone set."),
]
TextOption = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Option("--text", help="A phone text: an utterance a line, phones with spaces between them; may be .gz."),
]
PhonesOption = Annotated[
    str, typer.Option("--phones", help="Phone set of the text: cmu39, timit61 ..., or found: the words in it.")
]


@lm_app.command()
def train(
    out: Annotated[
        Path, typer.Option("--out", help="What to write: an ARPA file (.arpa, .arpa.gz); an LSTM's folder.")
    ],
    settings: Settings = None,
    kind: Annotated[Kind, typer.Option("--kind", help="What to train.")] = Kind.ngram,
    config: ConfigOption = None,
    text: TextOption = None,
    phones: PhonesOption = "found",
    order: Annotated[int, typer.Option("--order", min=1, max=8, help="Phones of an n-gram's longest strings.")] = 4,
    dev: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--dev", help="LSTM: a text to stop by; without it the config's dev, or a tenth of the text."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="LSTM: go on with the training in the folder.")] = False,
) -> None:
    """Train a language model on the training labels of a corpus, or on a phone text.

    An LSTM's own settings are lm.hidden=512 and the like. Ctrl-C saves it; --resume goes on from there.
    """
    own = [setting for setting in settings or () if setting.startswith("lm.")]
    others = [setting for setting in settings or () if setting not in own]
    inventory, source, corpus_dev = _sources(config, others, text, phones, kind is Kind.lstm)
    if kind is Kind.lstm:
        from speechctc.lm_texts import phone_text

        _train_lstm(out, inventory, source, phone_text(dev) if dev else corpus_dev, own, resume)
        return
    if own or dev or resume:
        raise InputError("lm.KEY=VALUE, --dev and --resume are for LSTMs", "add --kind lstm, or leave them out")
    from speechctc.lm_train import train_ngram

    typer.echo(train_ngram(source, inventory, order, out))


@lm_app.command()
def perplexity(
    lm: Annotated[list[Path], typer.Option("--lm", help="An ARPA file, or a folder with a language model.")],
    settings: Settings = None,
    config: ConfigOption = None,
    split: Annotated[
        Optional[list[Split]],  # noqa: UP045
        typer.Option("--split", help="Splits of the config's corpus to score; without it dev."),
    ] = None,
    text: TextOption = None,
    json_file: Annotated[Optional[Path], typer.Option("--json", help="Write the table there too.")] = None,  # noqa: UP045
) -> None:
    """Score splits and texts with language models: a table of perplexities."""
    from speechctc import files
    from speechctc.lm.perplexity import table
    from speechctc.lm_perplexity import score_texts
    from speechctc.lm_texts import phone_text, split_texts
    from speechctc.progress import Reporter

    if config is None and not text:
        raise InputError("nothing to score", "name a corpus with --config or a phone text with --text")
    texts = [phone_text(path) for path in text or ()]
    inventory = None
    if config is not None:
        splits = [each.value for each in split or [Split.dev]]
        inventory, labelled = split_texts(_loaded(config, settings), splits)
        texts = [*labelled, *texts]
    found = score_texts(lm, texts, inventory, Reporter())
    typer.echo(table(found))
    if json_file:
        files.write_json(json_file, [each.to_dict() for each in found])


@lm_app.command()
def sample(
    lm: Annotated[Path, typer.Option("--lm", help="An ARPA file, or a folder with a language model.")],
    count: Annotated[int, typer.Option("--count", help="Lines to draw.")] = 10,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed draws the same lines.")] = 0,
    temperature: Annotated[
        float, typer.Option("--temperature", help="Below 1: the usual; 0: the most probable.")
    ] = 1.0,
    prefix: Annotated[str, typer.Option("--prefix", help='Phones that each line begins with: "dh ah".')] = "",
    longest: Annotated[int, typer.Option("--longest", help="Phones of a line, at most.")] = 200,
) -> None:
    """Draw phone strings from a language model, a line each."""
    from speechctc.lm_perplexity import draw

    for line in draw(lm, count, seed, temperature, prefix, longest):
        typer.echo(line)


@lm_app.command()
def tune(
    settings: Settings = None,
    model: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--model", help="A checkpoint or a run's folder (its best); without it the latest run."),
    ] = None,
    lm: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option("--lm", help="An ARPA file, an LSTM's folder, or both; without it the model's own n-gram."),
    ] = None,
    split: Annotated[Split, typer.Option("--split", help="What to tune on; not the training split.")] = Split.dev,
    beam: Annotated[Optional[int], typer.Option("--beam", help="Sequences the search keeps.")] = None,  # noqa: UP045
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--out", help="Write the weights there, not as tuned.json beside the model, where decoding looks."
        ),
    ] = None,
) -> None:
    """Find the weight and the bonus with the fewest errors on dev, and keep them beside the model."""
    from speechctc.checkpoint import find_checkpoint
    from speechctc.lm.tuned import FILE
    from speechctc.lm_tune import check_place, keep
    from speechctc.lm_tune import tune as run_stage
    from speechctc.progress import Reporter
    from speechctc.recognition.language import with_lms
    from speechctc.recognition.recogniser import Recogniser

    reporter, folder = Reporter(), find_checkpoint(model)
    recogniser = with_lms(Recogniser.load(folder), lm or (), reporter)
    beams = [] if beam is None else [f"decode.beam={beam}"]
    path = out or folder / FILE
    check_place(path, recogniser)
    tuning = run_stage(recogniser, split.value, [*(settings or ()), *beams], reporter)
    typer.echo(tuning.to_text())
    keep(tuning, recogniser, path, {"names": [str(each) for each in lm or ()], "split": split.value}, reporter)
    typer.echo(f"written: {path}; decode, evaluate and calibrate use it where it lies beside the model")


def _sources(
    config: str | None, settings: list[str], text: list[Path] | None, phones: str, with_dev: bool
) -> tuple[Inventory, PhoneText, PhoneText | None]:
    """Return the phone set, the text to train on, and a config's dev split if it is wanted."""
    from speechctc.lm_texts import phone_text, split_texts, text_inventory

    if (config is None) == (not text):
        raise InputError("a language model is trained on one source", "give either --config or --text")
    if config is not None:
        inventory, found = split_texts(_loaded(config, settings), ["train", "dev"] if with_dev else ["train"])
        return inventory, found[0], found[1] if with_dev else None
    if settings or len(text or ()) != 1:
        raise InputError("settings are for a config, and --text names one file", "give --config, or one --text alone")
    source = phone_text((text or [])[0])
    return text_inventory(phones, source), source, None


def _train_lstm(
    out: Path, inventory: Inventory, train: PhoneText, dev: PhoneText | None, settings: list[str], resume: bool
) -> None:
    from speechctc.lm_lstm import LstmTraining, lstm_config, train_and_dev
    from speechctc.progress import Reporter

    reporter = Reporter()
    labels, dev_labels = train_and_dev(train, dev, inventory, reporter)
    training = LstmTraining(out, inventory, lstm_config(settings), labels, dev_labels, resume, reporter)
    training.train()
    if training.status:
        typer.echo(f"stopped; the state is saved in {out}/last, go on with --resume", err=True)
        raise typer.Exit(training.status)
    typer.echo(f"trained: {out}/best, dev perplexity {training.trainer.progress.best:.2f}")


def _loaded(config: str, settings: list[str] | None) -> Config:
    from speechctc.config import load_config

    return load_config(config, settings or ())
