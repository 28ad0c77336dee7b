"""Counts the files of a folder that are neither recordings nor read or named, so that what is said of all adds up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from speechctc.audio.folders import ENDINGS, NOT_READ, is_hidden
from speechctc.core import written
from speechctc.core.errors import first_few, plural
from speechctc.corpora.corpus import note_text
from speechctc.corpora.manifests import OF_FAIRSEQ, SCP, beside
from speechctc.corpora.table_rows import Row

_KALDI = (SCP, *"text segments utt2spk spk2utt utt2dur spk2gender utt2lang".split())
MAX_ENDINGS = 12  # that a note lists


def files_of(table: Path, rows: Iterable[Row]) -> Iterator[Path]:
    """Yield the files in which the rows of a table stand: itself, or those of a folder, and what is beside it."""
    if table.is_dir():
        yield from (table / name for name in _KALDI)
        yield from (table / row.file for row in rows)
    else:
        yield table
        yield beside(table)
        yield from map(table.with_suffix, OF_FAIRSEQ)


def others_in(folder: Path, files: Iterable[Path], met: Container[Path], notes: Iterable[str]) -> Iterator[str]:
    """Yield a note on the files below a folder that are none of `met`, no recordings, and not named in `notes`.

    Hidden files and what speechctc wrote are passed over.
    """
    said, known = "\n".join(notes), {*ENDINGS, *NOT_READ}
    others = (path for path in files if path not in met and path.suffix.lower() not in known)
    shown = (path for path in others if not is_hidden(path, folder) and path.is_file())
    found = defaultdict[str, list[Path]](list)
    for path in written.changed(shown):
        if str(path) not in said:
            found[path.suffix.lower()].append(path)
    if found:
        ranked = sorted(found, key=lambda ending: (-len(found[ending]), ending))
        counts = [f"{len(found[ending])} {ending or 'without an ending'}" for ending in ranked]
        first = found[ranked[0]][0].relative_to(folder)
        count = plural(sum(map(len, found.values())), "other file")
        yield note_text("others", count=count, first=first, files=first_few(counts, MAX_ENDINGS))
