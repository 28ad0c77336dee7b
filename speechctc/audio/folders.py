"""What is looked for in folders: the endings of recordings and of labels, and which folders are passed over."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

SOUND = tuple(".wav .flac .ogg .opus .mp3 .aiff .aif .sph .nist .au .caf .w64 .rf64".split())
# Sound files and videos that ffmpeg reads. The same sound may be beside them as one of `SOUND`.
CONTAINERS = tuple(".m4a .m4b .mp4 .m4v .mov .3gp .3g2 .webm .mka .mkv .wma .wmv .avi .mts .m2ts .amr .aac".split())
# Endings of recordings in a folder, in any letter case. A file that is named itself may have any ending.
ENDINGS = SOUND + CONTAINERS
# Endings of sound files that are not read.
NOT_READ = tuple(".ape .dss .ds2 .dvf .flv .m4p .mpc .mpg .pcm .ra .raw .rm .shn .tta .voc .vox .wv".split())

# Endings of transcripts with tiers; of several for one recording, the first in this order is read.
TIERS = (".textgrid", ".eaf")

SUBTITLES = (".srt", ".vtt")
OF_MANY = (".ctm", ".stm")  # one file may have the labels of many recordings
TIMED = (*OF_MANY, *SUBTITLES)  # label files that have times by their format
# Label files of other programs beside recordings; of several for one recording, the first is read.
RECOGNISED = (".json",)  # of speech recognisers, and of much else
LABEL_TRACKS = (".lab", ".txt", *TIMED, *RECOGNISED)

# What lies in each folder of features, each run and each round of the studio.
MADE = (("phones.tsv", "skipped.tsv"), ("run.json", "config.yaml", "metrics.jsonl"), ("round.json", "corpus"))


def files_below(folder: Path, onerror: Callable[[OSError], object] | None = None) -> list[Path]:
    """Return the files and folders that `walk` finds in a folder, in order; links to folders are not followed."""
    found = walk(folder, onerror=onerror)
    return sorted(Path(where, name) for where, folders, others in found for name in (*folders, *others))


def is_hidden(path: Path, folder: Path) -> bool:
    """Tell whether a file or folder below a folder is hidden, or in a hidden one."""
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def walk(
    folder: Path, links: bool = False, onerror: Callable[[OSError], object] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each folder in a folder, its folders and its files, as `os.walk` does, without those that `is_made` tells.

    What speechctc makes of recordings, tables of their labels and copies, is not to be read in their place.
    """
    for where, folders, names in os.walk(folder, onerror=onerror, followlinks=links):
        yield where, folders, names
        folders[:] = [name for name in folders if not is_made(Path(where, name))]


def is_made(folder: Path) -> bool:
    """Tell whether a folder is one of features, a run, or a round of the studio, by what lies in it."""
    return os.path.isdir(folder) and any(all(os.path.exists(folder / name) for name in names) for names in MADE)
