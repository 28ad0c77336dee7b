"""Options that several commands share, and their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from speechctc.bundled import NAMES
from speechctc.cli.streams import new_reporter, show
from speechctc.inference.formats import help_text

if TYPE_CHECKING:
    from speechctc.inference.recogniser import Recogniser


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


AudioArgument = Annotated[
    list[Path] | None,
    typer.Argument(help="Sound files, folders of them, or patterns in quotes ('talks/*.wav')."),
]

ConfigOption = Annotated[
    str, typer.Option("--config", help="A YAML file, or the name of a config of the package: demo, finetune.")
]
SettingsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Settings that replace those of the config: train.epochs=3"),
]
ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="DIR",
        help="The model: the folder of a run (its best checkpoint is used) or of a checkpoint, or the name of a"
        f" bundled model: {NAMES}. Default: the latest run in runs/, which is named on standard error.",
    ),
]
ModelOrBundledOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="DIR",
        help="The model: the folder of a run (its best checkpoint is used) or of a checkpoint, or the name of a"
        f" bundled model: {NAMES}. Default: the latest run in runs/, or else english; standard error names it.",
    ),
]
FormatOption = Annotated[
    list[str] | None,
    typer.Option(
        "--format",
        metavar="FORMAT[,FORMAT]...",
        help=f"The format of the results: {help_text()}. Several at once need a folder: textgrid,eaf. Default: by the"
        " ending of --out, else text.",
    ),
]
SymbolsOption = Annotated[
    str,
    typer.Option(
        "--symbols",
        metavar="NOTATION",
        help="How phones are written: own (as the model names them), ipa, xsampa, arpabet, or a table of two columns, a"
        " label and its symbol. The model keeps its own labels.",
    ),
]
OutOption = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="PLACE",
        help="Where to write. A name with an ending is one file for all recordings. A name without an ending, with a"
        " slash at its end, or of an existing folder is a folder, with a file for each recording. Default: standard"
        " output.",
    ),
]
OverwriteOption = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Also replace files that were made or changed by hand. Without it, the command stops if there are any;"
        " files that are as speechctc wrote them are always replaced.",
    ),
]
SkipOption = Annotated[
    bool,
    typer.Option("--skip-existing", help="Skip recordings that already have a file in the folder --out."),
]
ChannelOption = Annotated[
    int | None,
    typer.Option(
        "--channel",
        metavar="N",
        min=1,
        help="Read only this channel of the recordings; 1 is the first (left). Default: the mean of all channels.",
    ),
]
JobsOption = Annotated[
    int,
    typer.Option("--jobs", metavar="N", min=0, help="Number of recordings to work on at a time; 0: one per core."),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="ADDRESS", help="Let the workers of a Dask cluster decode; its scheduler: tcp://HOST:8786."
    ),
]
DeviceOption = Annotated[
    Device, typer.Option("--device", help="Where to compute; auto: on a CUDA GPU if there is one.")
]
JsonOption = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Also write the scores to this JSON file."),
]
AlternativesOption = Annotated[
    int,
    typer.Option(
        "--alternatives", metavar="N", min=0, help="In JSON and TextGrid, also name the N next most probable phones."
    ),
]
RawOption = Annotated[
    int | None,
    typer.Option(
        "--raw",
        metavar="RATE",
        min=1000,
        help="Standard input has no header: 16-bit little-endian mono samples at RATE Hz.",
    ),
]
LmWeightOption = Annotated[
    float | None,
    typer.Option(
        "--lm-weight",
        metavar="WEIGHT",
        help="Weight of the language models, or of the model's own n-gram; 0: decode without them. Default: the"
        " weight that lm tune found, or else the model's own setting (decode.lm_weight).",
    ),
]
LmOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--lm",
        metavar="PLACE",
        help="A language model of phones: an ARPA file, which replaces the model's own n-gram, or the folder of an"
        " LSTM. May be given twice, once for each kind.",
    ),
]
BeamOption = Annotated[
    int | None,
    typer.Option(
        "--beam",
        metavar="N",
        help="Search with N hypotheses at a time, even without a language model. Default: the model's own setting"
        " (decode.beam) with a language model, else no search.",
    ),
]
InventoryOption = Annotated[
    str | None,
    typer.Option(
        "--inventory",
        metavar="PLACE",
        help="Hear only these phones, in IPA or the model's labels: a file of them, with spaces or new lines between"
        " them, or a table with a column of phones; the folder of extracted features or of a model; or the phones"
        " themselves: 'a i u p t k'.",
    ),
]
HeardLanguageOption = Annotated[
    str | None,
    typer.Option(
        "--language",
        metavar="CODE",
        help="Hear only the phones of this language, as eSpeak NG reads its letters: a code (pl) or a name (Polish).",
    ),
]
NbestOption = Annotated[
    int | None,
    typer.Option(
        "--nbest",
        metavar="N",
        min=1,
        help="Write a table of the N best sequences of phones with their scores, as TSV or JSON.",
    ),
]
MinModulationOption = Annotated[
    float | None,
    typer.Option(
        "--min-modulation-db",
        metavar="DB",
        help="Find no phones where no band's level changes by more than DB within 1.5 s: in pauses and steady noise."
        " 0: find phones anywhere. Default: the model's own setting (decode.min_modulation_db).",
    ),
]
PhonesOption = Annotated[
    str | None,
    typer.Option("--phones", metavar="PHONES", help='The phones of a single recording: "sh iy hh ae d".'),
]
TranscriptsOption = Annotated[
    Path | None,
    typer.Option(
        "--transcripts",
        metavar="PLACE",
        help="The phones: a table with the columns id, audio and phones; a folder of files named like the recordings;"
        " or the file of a single recording. Default: files in the folders of the recordings, .PHN, .lab, .txt,"
        " .TextGrid or .eaf, in this order.",
    ),
]
RatingsOption = Annotated[
    Path | None,
    typer.Option(
        "--ratings",
        metavar="TABLE",
        help="Also print how the scores correlate with a person's: a table with the columns id and ratings, a number"
        " for each phone of the transcript, separated by spaces.",
    ),
]
WordsOption = Annotated[
    Path | None,
    typer.Option(
        "--words",
        metavar="PLACE",
        help="Words instead of phones: a file of a single recording, .txt, .lab, .TextGrid or .eaf; a folder of such"
        " files named like the recordings; or a table with the columns id, audio and words. Needs --language or"
        " --dictionary.",
    ),
]
LanguageOption = Annotated[
    str | None,
    typer.Option(
        "--language",
        metavar="CODE",
        help="The language of eSpeak NG that words are read in, such as en-us; with --dictionary, words that it lacks.",
    ),
]
DictionaryOption = Annotated[
    Path | None,
    typer.Option(
        "--dictionary",
        metavar="FILE",
        help="The pronunciations of words, in the format of CMU or of the Montreal Forced Aligner.",
    ),
]
MisfitsOption = Annotated[
    bool,
    typer.Option(
        "--misfits",
        help="Find what is missing from a recording, and what it holds beyond its transcript, instead of placing every"
        " word or phone.",
    ),
]
RefineOption = Annotated[
    bool,
    typer.Option(
        "--refine/--no-refine",
        help="Place boundaries by the boundary model that train-boundaries has put beside the model, if there is one.",
    ),
]
IntervalsOption = Annotated[
    bool,
    typer.Option(
        "--intervals",
        help="A TextGrid gets a tier of points: each boundary, and between which times it lies with a probability of "
        "95 %. JSON always has them.",
    ),
]
SilenceOption = Annotated[
    str | None,
    typer.Option(
        "--silence",
        metavar="PHONES",
        help='Phones of the model that may stand between words: "pau sil". Default: with --words all of its labels of'
        ' silence, else none; "" for none.',
    ),
]
TierOption = Annotated[
    str | None,
    typer.Option(
        "--tier",
        metavar="NAME",
        help="Read the phones only from TextGrids and ELAN's .eaf, from this tier. Default: the tier phones (words with"
        " --words), and other files too.",
    ),
]
LimitsOption = Annotated[
    bool | None,
    typer.Option(
        "--limits/--no-limits",
        help="Place the labels of each annotation, interval or row (columns start and end, in seconds) between its own"
        " times, or all of them in the whole recording. Default: between the times of rows, and of a tier in which an"
        " annotation has several labels.",
        show_default=False,
    ),
]


def find_model(model: Path | None, or_bundled: bool = False) -> Path:
    """Return the folder of the model that is named, else of the latest run, else the bundled one where allowed."""
    return _find(model, or_bundled)[0]


def _find(model: Path | None, or_bundled: bool) -> tuple[Path, str]:
    from speechctc.stages.used_model import find_and_describe

    folder, line = find_and_describe(model, or_bundled)
    show(line, err=True)
    return folder, line


def load_recogniser(
    model: Path | None,
    device: Device,
    lms: Sequence[Path] = (),
    lm_weight: float | None = None,
    beam: int | None = None,
    min_modulation_db: float | None = None,
    or_bundled: bool = True,
    inventory: str | None = None,
    language: str | None = None,
    read: Callable[[Path, str], Recogniser] | None = None,
) -> Recogniser:
    """Load the model that `find_model` finds, with these language models; its `folder` and `about` say which it is.

    Numbers that are not None replace those of the model's ``decode`` section. It hears only the phones of an inventory
    or a language, if one is given. `read` reads the model in place of `Recogniser.read`.
    """
    from speechctc.inference.recogniser import ONLY, Recogniser
    from speechctc.inference.variants import find_wanted, restrict, with_language_models

    folder, line = _find(model, or_bundled)
    recogniser = with_language_models(
        (read or Recogniser.read)(folder, device.value), folder, lms, lm_weight, beam, new_reporter()
    )
    settings = [] if min_modulation_db is None else [f"decode.min_modulation_db={min_modulation_db}"]
    recogniser = recogniser.with_settings(settings)
    name = line.removeprefix("using ")
    recogniser.folder = folder
    about = name if name != line else line[:1].upper() + line[1:]
    if (wanted := find_wanted(inventory, language)) is not None:
        recogniser = restrict(recogniser, wanted, new_reporter())
        recogniser.folder = folder
        about += f"; {recogniser.checkpoint.facts[ONLY]}"
    recogniser.about = about
    return recogniser
