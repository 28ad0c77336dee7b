"""Commands to prepare, train and give away: start, extract, train, sweep, export, config; and those of ``lm``."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from speechctc.cli import options as opt
from speechctc.cli.options import check_places, find_model, load_config, new_reporter, show, show_scores
from speechctc.core.errors import InputError, check_torch

if TYPE_CHECKING:
    from speechctc.core.progress import Reporter

lm_app = typer.Typer(no_args_is_help=True, help="Train, score, sample and tune language models of phones.")


def start_command(
    folder: Annotated[Path, Argument(help="The folder of your recordings; nothing in it is changed.")],
    settings: opt.Settings = None,
    out: opt.ConfigOut = None,
) -> None:
    """Describe recordings, and write a config for them.

    Where no config can be written, the exit status is 1.

    Settings of the section corpus replace what is found: corpus.language=pl for a table of Polish words.
    """
    from speechctc.stages.start import start

    begun = start(folder, out, settings or (), timed=True)
    show(begun.to_text())
    if begun.config is None:
        raise typer.Exit(1)


def extract_command(
    config: opt.ConfigName,
    settings: opt.Settings = None,
    prune: Annotated[
        bool, Option("--prune", help="Remove the features there that neither this corpus nor these settings use.")
    ] = False,
) -> None:
    """Compute the features of a corpus: those that are not there yet, as of recordings that are new.

    After an interruption, the same command continues.
    """
    check_torch()
    from speechctc.stages.extract import extract

    loaded = load_config(config, settings)
    for summary in extract(loaded, new_reporter(), prune):
        show(summary.to_text())
    show(f"features in {loaded.data.dir}")


def train_command(
    config: opt.ConfigName,
    settings: opt.Settings = None,
    run: Annotated[Path | None, Option(help="The folder of the run.")] = None,
    resume: Annotated[bool, Option("--resume", help="Continue the run in the folder, if there is one.")] = False,
    profile_steps: Annotated[
        int, Option("--profile", metavar="N", min=0, help="Take only N steps, and print where the time goes.")
    ] = 0,
    processes: Annotated[
        int,
        Option(
            metavar="N",
            min=1,
            help="Train in so many processes of this machine together; a batch is as many times larger.",
        ),
    ] = 1,
) -> None:
    """Train a net on extracted features. Ctrl-C saves and stops; --resume continues."""
    check_torch()
    if processes > 1:
        from speechctc.cli.processes import run_together

        words = ["train", "--config", config, *(["--run", str(run)] if run else []), *(["--resume"] if resume else [])]
        raise typer.Exit(run_together(processes, [*words, f"--profile={profile_steps}", *(settings or ())]))
    loaded = load_config(config, [*(settings or ()), *([f"run={run}"] if run else [])])
    if profile_steps:
        from speechctc.training.step_costs import profile

        show(profile(loaded, profile_steps, new_reporter()).to_text())
        return
    if is_main_process():
        show(f"{loaded.run}: loading torch and the features in {loaded.data.dir}; this takes a while", err=True)
    from speechctc.stages.train import Stopped, train

    reporter = new_reporter()
    try:
        trained = train(loaded, resume, reporter)
    except Stopped as stop:
        if is_main_process():
            same = f" and the same settings: {shlex.join(settings)}" if settings else ""
            saved = f"the state is saved in {loaded.run}/last, go on with --resume{same}"
            is_saved = (loaded.run / "last").exists()
            show(f"stopped; {saved if is_saved else 'nothing was trained yet, and nothing is saved'}", err=True)
        raise typer.Exit(stop.status) from None
    if trained.is_main:
        _calibrate(loaded.run, reporter)
        show(f"trained: {loaded.run}/best")


def _calibrate(run: Path, reporter: Reporter) -> None:
    """Calibrate what was trained; only now is recognition loaded."""
    from speechctc.stages.calibrate import calibrate_run

    if calibration := calibrate_run(run, reporter):
        show(calibration.to_text())


def sweep_command(
    config: opt.ConfigName,
    settings: opt.Settings = None,
    run: Annotated[Path | None, Option(help="The folder for the runs.")] = None,
) -> None:
    """Train every combination of some settings, in turn.

    train.lr=1e-4,3e-4 tries both values. Prints the runs by their PER (phone error rate) on dev, best first. After an
    interruption, the same command continues.
    """
    from speechctc.stages.sweep import sweep, table
    from speechctc.stages.train import Stopped

    chosen = load_config(config, None).run
    folder = run or chosen.with_name(f"{chosen.name}-sweep")
    try:
        outcomes = sweep(config, settings or (), folder, new_reporter())
    except Stopped as stop:
        show("stopped; the state of its run is saved, and the same command goes on", err=True)
        raise typer.Exit(stop.status) from None
    show(table(outcomes))
    if all(outcome.per is None for outcome in outcomes):
        raise typer.Exit(2)


def is_main_process() -> bool:
    """Return whether this process prints for all, where torchrun started several."""
    return os.environ.get("RANK", "0") == "0"


@dataclass(frozen=True, kw_only=True)
class Export:
    """The options of ``export``."""

    # fmt: off
    out: Annotated[Path, Argument(help="The folder to write; a name that ends in .onnx or .html is a file.")]
    model: opt.Model = None
    form: Annotated[str | None, Option("--format", metavar="FORMAT", help=
        "folder, onnx, or web: a page, index.html in the folder, that recognises in the browser. Default: by the "
        "name.")] = None
    overwrite: Annotated[bool, Option("--overwrite", help=
        "Replace the folder if it holds an exported model and nothing else, or an .onnx file, or a page that was "
        "changed by hand.")] = False
    lm: Annotated[Path | None, Option(metavar="PLACE", help=
        "An n-gram that takes the place of the model's own: an ARPA file, or a model that has one.")] = None
    scores: Annotated[bool, Option("--scores", help=
        "The net that scores phones, where a model has one of its own (english), as a model: a page of it "
        "scores.")] = False
    dictionary: Annotated[Path | None, Option(metavar="FILE", help=
        "A pronunciation dictionary that a page has with it, so that words can be typed there: CMU's or MFA's format, "
        "or cmudict. Of a large one, the first words that fit into 2 MB.")] = None
    # fmt: on


@opt.with_fields
def export_command(given: Export) -> None:
    """Write a model to give to others.

    It is a folder for speechctc, an .onnx file for other programs, or a page for the browser. A folder has a quarter of
    the size of a checkpoint: no training state, no paths of this machine, weights in 8 bits, which changed the PER of
    the bundled models by 0.3 points at most. An ONNX file maps static features to logits. A page is one file with the
    model in it, which needs neither an installation nor a network; without --model and without a run here, it has the
    bundled model of English.
    """
    from speechctc.stages.export import check_out, export, export_web, form_of, page_place

    out, form, reporter = given.out, form_of(given.out, given.form), new_reporter()
    if given.dictionary and form != "web":
        raise InputError(f"{out}: only a page has a dictionary with it", "leave out --dictionary, or give --format web")
    if form == "web":
        model = find_model(given.model, or_bundled=True)
        size = export_web(model, out, given.overwrite, given.lm, reporter, given.scores, given.dictionary)
        out = page_place(out)
    else:
        check_out(out, given.overwrite)
        size = export(find_model(given.model), out, given.overwrite, given.lm, reporter, given.scores)
    show(f"{out}: {size / 1e6:.1f} MB")


def config_command(config: opt.ConfigName, settings: opt.Settings = None) -> None:
    """Check a config and print all its keys.

    Defaults are filled in.
    """
    import yaml

    typer.echo(yaml.safe_dump(load_config(config, settings).to_dict(), sort_keys=False), nl=False)


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


@lm_app.command("train")
@opt.with_fields
def lm_train_command(given: LmTrain) -> None:
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
    loaded, reads = load_config(given.config, others) if given.config else None, (given.dictionary, given.language)
    texts, with_dev = given.text or (), given.kind is Kind.lstm
    sources = read_sources(loaded, texts, given.phones, reads, new_reporter(), given.times, with_dev)
    inventory, source, corpus_dev = sources
    if given.kind is Kind.ngram:
        show(train_ngram(source, inventory, given.order, given.out, given.prune))
        return
    from speechctc.stages.lm_lstm import LstmTraining, lstm_config, train_and_dev

    dev = phone_text(given.dev) if given.dev else corpus_dev
    labels = train_and_dev(source, dev, inventory, new_reporter())
    training = LstmTraining(given.out, inventory, lstm_config(own), labels, given.resume, new_reporter())
    training.train()
    if training.status:
        show(f"stopped; the state is saved in {given.out}/last, go on with --resume", err=True)
        raise typer.Exit(training.status)
    show(f"trained: {given.out}/best, dev perplexity {training.trainer.progress.best:.2f}")


# fmt: off
LmPlaces = Annotated[list[Path], Option("--lm", metavar="PLACE", help=
    "An ARPA file, or a folder with a language model; may be repeated.")]
Splits = Annotated[list[opt.Split] | None, Option("--split", help=
    "A split of the config's corpus to score; may be repeated. Default: dev.")]
Texts = Annotated[list[Path] | None, Option("--text", metavar="FILE", help=
    "A phone text: one utterance per line, phones separated by spaces; may be .gz.")]
# fmt: on


@lm_app.command("perplexity")
def lm_perplexity_command(
    lm: LmPlaces,
    settings: opt.Settings = None,
    config: opt.CorpusConfig = None,
    split: Splits = None,
    text: Texts = None,
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
        inventory, labelled = split_texts(load_config(config, settings), splits)
        texts = [*labelled, *texts]
    found = score_texts(lm, texts, inventory, new_reporter())
    show_scores(table(found), [each.to_dict() for each in found], json_file, overwrite)


@lm_app.command("sample")
def lm_sample_command(
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


# fmt: off
TunedLms = Annotated[list[Path] | None, Option("--lm", metavar="PLACE", help=
    "An ARPA file, an LSTM's folder, or both. Default: the model's own n-gram.")]
TunedBeam = Annotated[int | None, Option("--beam", metavar="N", help=
    "Hypotheses that the search keeps. Default: decode.beam.")]
TunedOut = Annotated[Path | None, Option("--out", metavar="FILE", help=
    "Where to write the weights. Default: tuned.json in the model's folder, where decode looks for it.")]
# fmt: on


@lm_app.command("tune")
def lm_tune_command(
    settings: opt.Settings = None,
    model: opt.Model = None,
    lm: TunedLms = None,
    split: opt.UnseenSplit = opt.Split.dev,
    beam: TunedBeam = None,
    out: TunedOut = None,
) -> None:
    """Find the weight and the bonus with the fewest errors on dev, and save them in the model's folder.

    For a bundled model, which is not changed, that is a copy of it, such as english/, in the working directory.
    """
    from speechctc.inference.output import check_folder
    from speechctc.inference.recogniser import Recogniser
    from speechctc.lm.tuned import TUNED_FILE, check_untouched, identity, write_tuned
    from speechctc.stages.lm_tune import tune
    from speechctc.stages.open_model import ModelChoice, open_model
    from speechctc.stages.used_model import own_folder, write_learned

    reporter, folder = new_reporter(), find_model(model)
    own = folder if out else own_folder(folder)
    recogniser = open_model(folder, Recogniser, ModelChoice(lms=lm or (), is_tuned=False))
    beams = [] if beam is None else [f"decode.beam={beam}"]
    path = out or own / TUNED_FILE
    check_folder(path.parent)
    check_untouched(path)
    tuning = tune(recogniser, split.value, [*(settings or ()), *beams], reporter)
    show(tuning.to_text())
    facts = {"lms": identity(recogniser.checkpoint.lm, recogniser.lstm), "names": [str(each) for each in lm or ()]}
    facts |= {"split": split.value, **tuning.to_dict()}
    write_learned(folder, own, lambda place: write_tuned(out or place / TUNED_FILE, facts), reporter)
    used = "decode, evaluate and calibrate use it" if out is None else "decode looks for tuned.json in a model's folder"
    show(f"written: {path}; {used}")
