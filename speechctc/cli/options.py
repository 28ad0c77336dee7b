"""What commands share: options, the model that they name, and what they print."""

from __future__ import annotations

import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import MISSING, fields, replace
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from typer import Argument, Option

from speechctc.core.bundled import NAMES
from speechctc.core.errors import InputError, printable
from speechctc.core.parallel import WAIT_SECONDS as WAIT_SECONDS
from speechctc.core.stopping import STATUS, Stopped, raised_when_stopped
from speechctc.inference.formats import help_text

if TYPE_CHECKING:
    from speechctc.audio.recordings import Named
    from speechctc.config.schema import Config
    from speechctc.core.progress import Reporter
    from speechctc.inference.decoder import Decoder
    from speechctc.inference.output import OutputOptions


def say(message: str) -> None:
    """Print a message as one line on standard error."""
    line = printable(message.encode("utf-8", "backslashreplace").decode())
    print(f"speechctc: {line}", file=sys.stderr)


def show(text: str, err: bool = False) -> None:
    """Print lines; control characters in them, from files or names, are escaped."""
    typer.echo(printable(text, keep="\n\t"), err=err)


def new_reporter() -> Reporter:
    """Return what prints notes, warnings and progress bars; it takes a while to load."""
    from speechctc.core.progress import Reporter

    return Reporter()


def check_places(overwrite: bool, *files: Path | None) -> None:
    """Check that each file that was named can be written, and that no work of a person is lost."""
    from speechctc.inference.output import check_place

    for file in files:
        check_place(file, overwrite)


def show_scores(text: str, values: Any, file: Path | None, overwrite: bool) -> None:
    """Print scores, and write them to a JSON file if one was named."""
    from speechctc.core import written

    show(text)
    if file:
        written.write_json(file, values, overwrite)


def write_page(page: Path, text: str, overwrite: bool) -> None:
    """Write a page or a table, and say where."""
    from speechctc.core import written

    written.write_text(page, text, overwrite)
    show(f"wrote {page}")


def write_utf8() -> None:
    """Write results in UTF-8, as files have them, wherever they go; in a terminal, as it can show them.

    Raises
    ------
    InputError
        Standard output is closed: what is printed would be lost.
    """
    out = sys.stdout
    if out is None:
        raise InputError("standard output is closed", "let it go somewhere: to a file, or > /dev/null")
    if isinstance(out, io.TextIOWrapper) and out.isatty():
        out.reconfigure(errors="backslashreplace")
    elif isinstance(out, io.TextIOWrapper):
        out.reconfigure(encoding="utf-8", errors="surrogateescape", newline="")  # CSV ends its lines itself


def drop_output() -> None:
    """Drop results that could not be written, lest the interpreter try again as it ends."""
    if sys.stdout is None:  # it was closed from the beginning
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Split(str, Enum):
    """The splits that can be scored."""

    train = "train"
    dev = "dev"
    test = "test"


class Device(str, Enum):
    """Devices to compute on; auto is a CUDA GPU if there is one."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class When(str, Enum):
    """When the reverberation of a room is taken off a recording."""

    auto = "auto"
    always = "always"
    never = "never"


AnyDecoder = TypeVar("AnyDecoder", bound="Decoder")
Given = TypeVar("Given")

# Options that several commands have.
# fmt: off
Beam = Annotated[int | None, Option("--beam", metavar="N", help=
    "Search with N hypotheses at a time, even without a language model. Default: the model's own setting (decode.beam) "
    "with a language model, else no search.")]
Dereverb = Annotated[When | None, Option("--dereverb", help=
    "Take the reverberation of a room off the sound first. auto: where it seems strong, as far from the microphone, "
    "but not for scores of phones. Default: the model's own setting, which is auto if you did not change it.")]
Channel = Annotated[int | None, Option("--channel", metavar="N", min=1, help=
    "Read only this channel of the recordings; 1 is the first (left). Default: the mean of all channels.")]
Track = Annotated[int | None, Option("--track", metavar="N", min=1, help=
    "Read this sound track of videos that have several; 1 is the first. Default: the first.")]
Cluster = Annotated[str | None, Option("--cluster", metavar="ADDRESS", help=
    "Let the workers of a Dask cluster work on the recordings; its scheduler: tcp://HOST:8786.")]
ClusterWait = Annotated[float, Option("--cluster-wait", metavar="SECONDS", min=0, help=
    "How long to wait while the cluster has no worker.")]
ConfigName = Annotated[str, Option("--config", help=
    "A YAML file, or the name of a config of the package: demo, finetune.")]
ConfigOut = Annotated[Path | None, Option("--out", metavar="CONFIG", help=
    "The config to write. Default: named after the folder.")]
CorpusConfig = Annotated[str | None, Option("--config", metavar="CONFIG", help=
    "A config; the labels and the phone set are those of its corpus.")]
Dictionary = Annotated[Path | None, Option("--dictionary", metavar="FILE", help=
    "The pronunciations of words, in the format of CMU or of the Montreal Forced Aligner.")]
Forms = Annotated[list[str] | None, Option("--format", metavar="FORMAT[,FORMAT]...", help=
    f"The format of the results: {help_text()}. Several at once need a folder: textgrid,eaf. Default: by the ending of "
    "--out, else text.")]
Inventory = Annotated[str | None, Option("--inventory", metavar="PLACE", help=
    "Recognise only these phones, in IPA or the model's labels: the phones themselves: 'a i u p t k'; a file of them, "
    "with spaces or new lines between them, or a table with a column of phones; or the folder of extracted features or "
    "of a model.")]
Jobs = Annotated[int, Option("--jobs", metavar="N", min=0, help=
    "Number of recordings to work on at a time; 0: one per core.")]
JsonFile = Annotated[Path | None, Option("--json", metavar="FILE", help="Also write the scores to this JSON file.")]
Lm = Annotated[list[Path] | None, Option("--lm", metavar="PLACE", help=
    "A language model of phones: an ARPA file, which replaces the model's own n-gram, or the folder of an LSTM. May be "
    "given twice, once for each kind.")]
LmWeight = Annotated[float | None, Option("--lm-weight", metavar="WEIGHT", help=
    "Weight of the language models, or of the model's own n-gram; 0: decode without them. Default: the weight that lm "
    "tune found, or else the model's own setting (decode.lm_weight).")]
Manifest = Annotated[Path | None, Option("--manifest", metavar="FILE", help=
    "Append a line of JSON for each recording as it ends: its digest, model, settings, results, warnings or the error, "
    "seconds, machine.")]
Model = Annotated[Path | None, Option("--model", metavar="DIR", help=
    "The model: the folder of a run (its best checkpoint is used) or of a checkpoint, or the name of a bundled model: "
    f"{NAMES}. Default: the latest run in runs/, which is named on standard error.")]
ModelOrBundled = Annotated[Path | None, Option("--model", metavar="DIR", help=
    "The model: the folder of a run (its best checkpoint is used) or of a checkpoint, or the name of a bundled model: "
    f"{NAMES}. Default: the latest run in runs/, or else english, with another --language or labels in IPA ipa; "
    "standard error names it.")]
OnDevice = Annotated[Device, Option("--device", help="Where to compute; auto: on a CUDA GPU if there is one.")]
Out = Annotated[str | None, Option("--out", metavar="PLACE", help=
    "Where to write. A name with an ending is one file for all recordings. A name without an ending, with a slash at "
    "its end, or of an existing folder is a folder, with a file for each recording. Default: standard output.")]
Overwrite = Annotated[bool, Option("--overwrite", help=
    "Also replace files that were made or changed by hand. Without it, the command stops if there are any; files that "
    "are as speechctc wrote them are always replaced.")]
PhonesOf = Annotated[str | None, Option("--language", metavar="CODE", help=
    "Recognise only the phones of this language in eSpeak NG: a code (pl) or a name (Polish).")]
TimeLimit = Annotated[float | None, Option("--time-limit", metavar="SECONDS", min=0.001, help=
    "Leave out a recording that takes longer, as an error. Default: any time.")]
UnseenSplit = Annotated[Split, Option("--split", help=
    "The split to learn from; the model must not be trained on it.")]
WordLanguage = Annotated[str | None, Option("--language", metavar="CODE", help=
    "The language of eSpeak NG that words are read in, such as en-us; with --dictionary, words that it lacks.")]
Resume = Annotated[bool, Option("--resume", help=
    "Go on by the manifest: leave out the recordings that it says are done in the same way, unless they, or their "
    "results, changed.")]
RecordingList = Annotated[Path | None, Option("--recordings", metavar="LIST", help=
    "Also the recordings of this list, a path or an address (s3://, gs://, https://) in each line; - reads the list "
    "from standard input.")]
Part = Annotated[str | None, Option("--shard", metavar="K/N", help=
    "Only every Nth recording from the Kth on: 3/40 is the third of 40 parts.")]
Settings = Annotated[list[str] | None, Argument(metavar="[KEY=VALUE]...", help=
    "Settings that replace those of the config: train.epochs=3")]
SkipChanged = Annotated[bool, Option("--skip-changed", help=
    "Skip recordings whose file in the folder --out was made or changed by hand, and do all others, also those that "
    "have a file as speechctc wrote it.")]
SkipExisting = Annotated[bool, Option("--skip-existing", help=
    "Skip recordings that already have a file in the folder --out.")]
Symbols = Annotated[str, Option("--symbols", metavar="NOTATION", help=
    "How phones are written: own (as the model names them), ipa, xsampa, arpabet, or a table of two columns, a label "
    "and its symbol. The model keeps its own labels.")]
# fmt: on


def check_named(given: Any, command: str) -> None:
    """Check that a command that needs recordings names some."""
    if not given.audio and not given.recordings:
        raise InputError("no recordings are named", f"name sound files or folders; see speechctc {command} --help")


def check_part(shard: str | None, file: Path | None) -> None:
    """Check that a part of many has a file of its own: it would replace the results of another part.

    Raises
    ------
    InputError
        The number of the part is not in the name of the file.
    """
    from speechctc.audio.recording_list import parse_shard

    number, of = parse_shard(shard)
    if of == 1 or file is None or (file.exists() and not file.is_file()):  # a device or a pipe
        return
    if number not in map(int, re.findall(r"\d+", str(file))):
        own = file.with_stem(f"{file.stem}-{number}")
        raise InputError(f"--out {file}: each of the {of} parts would replace what another wrote", f"name {own}")


def name_recordings(given: Any) -> list[Named]:
    """Return what a command names: arguments, the list, addresses; its part of them, if one is named."""
    from speechctc.audio.addresses import address_of
    from speechctc.audio.fetching import fetched
    from speechctc.audio.recording_list import find_listed, parse_shard
    from speechctc.audio.recordings import Listed, find_recordings, left_out
    from speechctc.audio.tracks import chosen

    if given.resume and given.manifest is None:
        raise InputError("--resume goes on by a manifest, and none is named", "give --manifest FILE too")
    audio, reporter, shard = list(given.audio or ()), new_reporter(), parse_shard(given.shard)
    named: list[Named] = [Listed.of([address]) if (address := address_of(each)) else each for each in audio]
    if given.recordings is not None:
        if "-" in map(str, audio):
            raise InputError("- is a recording, and --recordings names others", "leave one of them out")
        listed, notes = find_listed(given.recordings)
        reporter.note(*notes)
        named.append(listed)
    if all(isinstance(each, Path) for each in named) and given.shard is None or not named:
        return named
    from speechctc.corpora.table_rows import ENDINGS  # late: few have a table

    if len(named) == 1 and isinstance(named[0], Path) and named[0].suffix.lower() in ENDINGS:
        return named  # a table, whose rows are divided later
    reporter.note(*left_out(named))
    recordings = find_recordings(named, chosen(given.track, given.channel))
    found = fetched(shard.take(recordings), reporter.progress)
    if not found:
        raise InputError(f"--shard {given.shard}: no recording is in this part", "nothing to do")
    return [*found]


# What does not change the result of a recording, or what its line in a manifest has by itself.
NO_SETTINGS = frozenset(
    "audio model out overwrite skip_existing skip_changed jobs device cluster cluster_wait time_limit manifest resume "
    "recordings shard transcripts textgrids picture bark by_speaker before".split()
)


@contextmanager
def with_manifest(
    command: str, options: OutputOptions, given: Any, recogniser: Decoder | None = None
) -> Iterator[OutputOptions]:
    """Yield how results are written, with the manifest that a command's options name, if they do; and close it."""
    if given.manifest is None:
        yield options
        return
    from speechctc.inference.manifest import Manifest, digest_of_folder  # late: few have one

    model: dict[str, str] = {}
    if recogniser is not None:
        assert recogniser.folder is not None
        model = {"name": recogniser.about.partition(":")[0], "sha256": digest_of_folder(recogniser.folder)}
    fields_of = {each.name: (getattr(given, each.name), each.default) for each in fields(given)}
    settings = {
        name: _described(value)
        for name, (value, default) in sorted(fields_of.items())
        if value != default and name not in NO_SETTINGS
    }
    about = {"command": command, "model": model, "settings": settings}
    manifest = Manifest(given.manifest, given.resume, about)
    try:
        yield replace(options, manifest=manifest)
    except KeyboardInterrupt:
        say(_kept(given))
        raise
    finally:
        manifest.end()


def _kept(given: Any) -> str:
    """Return what a command on recordings that is stopped leaves, and how to go on."""
    if given.manifest:
        return f"{given.manifest} has what is done: the same command goes on with --resume"
    pages = getattr(given, "by_speaker", None)
    out, fix = f"{pages}/scores/" if pages else given.out, "run it again; with --manifest FILE, --resume goes on"
    if out is None:
        return f"what is printed is not all: {fix}"
    from speechctc.core.files import is_folder

    if is_folder(out):
        return f"{out} has what is done: the same command goes on with --skip-existing"
    return f"nothing is written to {out}: {fix}"


@contextmanager
def told_when_stopped(kept: Callable[[], str]) -> Iterator[None]:
    """Say in one line what a command that is asked to stop (SIGTERM) leaves, and end it as the signal does."""
    try:
        with raised_when_stopped():
            yield
    except Stopped:
        say(f"stopped: {kept()}")
        raise SystemExit(STATUS) from None


def _described(value: Any) -> Any:
    """Return a setting as plain values; with the digest of the file or folder that it names."""
    from speechctc.core.files import sha256
    from speechctc.inference.manifest import digest_of_folder

    if isinstance(value, list):
        return [_described(each) for each in value]
    if isinstance(value, Path | str) and os.path.exists(value):
        place = Path(value)
        return {"path": str(value), "sha256": digest_of_folder(place) if place.is_dir() else sha256(place)}
    return str(value) if isinstance(value, Path) else value


def with_fields(command: Callable[[Given], None]) -> Callable[..., None]:
    """Return a command for typer whose parameters are the fields of the dataclass that `command` takes."""
    (given,) = inspect.signature(command, eval_str=True).parameters.values()
    hints = get_type_hints(given.annotation, include_extras=True)

    @wraps(command)
    def run(**values: Any) -> None:
        options = given.annotation(**values)
        with told_when_stopped(lambda: _kept(options)) if hasattr(options, "manifest") else nullcontext():
            command(options)

    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if each.default is MISSING else each.default,
                annotation=hints[each.name],
            )
            for each in fields(given.annotation)
        ]
    )
    run.__annotations__ = hints  # typer reads both
    return run


def load_config(config: str, settings: Sequence[str] | None) -> Config:
    """Return the config that is named, with settings of the command line."""
    from speechctc.config.load import load_config as load

    return load(config, settings or ())


def find_model(model: Path | None, or_bundled: bool = False) -> Path:
    """Return the folder of the model that is named, else of the latest run, else the bundled one where allowed."""
    from speechctc.stages.used_model import find_and_describe

    folder, line = find_and_describe(model, or_bundled)
    show(line, err=True)
    return folder


def open_model(place: Path | None, kind: type[AnyDecoder], device: Device, **choice: Any) -> AnyDecoder:
    """Open the model that is named, as `speechctc.stages.open_model` does; `choice` has more of its `ModelChoice`."""
    from speechctc.stages.open_model import ModelChoice
    from speechctc.stages.open_model import open_model as run

    return run(place, kind, ModelChoice(device.value, **choice), new_reporter())
