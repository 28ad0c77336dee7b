"""The options that several commands of the command line share, and the values some of them can have."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Optional

import typer


class Split(str, Enum):
    """The splits that can be scored."""

    train = "train"
    dev = "dev"
    test = "test"


class Device(str, Enum):
    """Where to compute; auto is a CUDA GPU where there is one."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class Format(str, Enum):
    """How phones in time are written."""

    text = "text"
    json = "json"
    ctm = "ctm"
    textgrid = "textgrid"
    tsv = "tsv"
    csv = "csv"


# Optional, not "| None": typer reads annotations at run time, on Python 3.10 too.
ConfigOption = Annotated[
    str, typer.Option("--config", help="A YAML file, or the name of a config of the package: demo, finetune.")
]
SettingsArgument = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Argument(metavar="[KEY=VALUE]...", help="Settings that replace those of the config: train.epochs=3"),
]
ModelOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--model",
        metavar="DIR",
        help="The model: a run's folder (its best checkpoint) or a checkpoint. Without it the latest run in runs/"
        " is used, which is then named on standard error.",
    ),
]
ModelOrBundledOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--model",
        metavar="DIR",
        help="The model: a run's folder (its best checkpoint) or a checkpoint. Without it the latest run in runs/"
        " is used, or else the bundled model; which it is is said on standard error.",
    ),
]
FormatOption = Annotated[
    Optional[Format],  # noqa: UP045
    typer.Option(
        "--format",
        help="How to write the phones. Without it the ending of --out decides (.txt .json .ctm .TextGrid .tsv .csv),"
        " and text where there is none.",
    ),
]
OutOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--out",
        metavar="PLACE",
        help="Where to write. A name with an ending is one file for all recordings; a name without an ending, one that"
        " ends in a slash, or a folder that exists gets a file for each recording. Without it, standard output.",
    ),
]
OverwriteOption = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Replace files that were made or changed by hand. Without it they are kept, and the command stops"
        " before it begins; files that are as speechctc wrote them are replaced in any case.",
    ),
]
SkipOption = Annotated[
    bool,
    typer.Option("--skip-existing", help="Leave out recordings that have a file in the folder --out already."),
]
ChannelOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        "--channel",
        metavar="N",
        min=1,
        help="Read this channel of the recordings alone; 1 is the first (left). Without it, the mean of all.",
    ),
]
JobsOption = Annotated[
    int,
    typer.Option("--jobs", metavar="N", min=0, help="How many recordings to work on at a time; 0: one for each core."),
]
DeviceOption = Annotated[
    Device, typer.Option("--device", help="Where to compute; auto takes a CUDA GPU if there is one.")
]
JsonOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--json", metavar="FILE", help="Write the scores to this JSON file, too."),
]
AlternativesOption = Annotated[
    int,
    typer.Option(
        "--alternatives", metavar="N", min=0, help="Name the N next most probable phones, in JSON and TextGrid."
    ),
]
RawOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        "--raw",
        metavar="RATE",
        min=1,
        help="Standard input has no header: 16-bit little-endian mono samples, RATE of them a second.",
    ),
]
LmWeightOption = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(
        "--lm-weight",
        metavar="WEIGHT",
        help="How much the model's n-gram of phones counts, if it has one; 0: the sound alone decides. Without it,"
        " the weight the model was made with.",
    ),
]
MinModulationOption = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(
        "--min-modulation-db",
        metavar="DB",
        help="No phones are found where no band's level changes by more than DB within 1.5 s: in pauses and steady"
        " noise. 0 finds phones anywhere. Without it, the model's own setting (decode.min_modulation_db).",
    ),
]
PhonesOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--phones", metavar="PHONES", help='The phones of the one recording: "sh iy hh ae d".'),
]
TranscriptsOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--transcripts",
        metavar="PLACE",
        help="Where the phones are: a table with the columns id, audio and phones; a folder of files named like"
        " the recordings; or the file of the one recording. Without it, files beside the recordings: .PHN, .lab,"
        " .txt, .TextGrid, in this order.",
    ),
]
TierOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--tier",
        metavar="NAME",
        help="Read the phones from TextGrids alone, from this tier. Without it, the tier is phones.",
    ),
]
