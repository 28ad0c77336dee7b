"""Finds the labels of recordings, and the recordings of labels: files of the same name, each folder listed once."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from speechctc.audio.recordings import ENDINGS


class _Listing(NamedTuple):
    spelled: Mapping[str, list[str]]  # by name in lower case
    stems: Mapping[str, list[str]]  # by stem in lower case, the names of files


class Siblings:
    """Finds files beside others; a folder is listed once, so make another where files may have come since.

    Names match exactly, apart from the letter case of the ending. Only where none does, one whose name differs by
    letter case is taken: if no other file could be meant. Of ``s.wav`` and ``S.wav``, ``s.TextGrid`` belongs to the
    first.
    """

    def __init__(self) -> None:
        self._folders: dict[str, _Listing] = {}

    def find(self, path: Path, endings: Iterable[str], others: Collection[str] | None = None) -> Path | None:
        """Return the file in the same folder with the same name and another ending; None if none is.

        The first of `endings` that exists counts. For ``a.mp3``, ``a.mp3.TextGrid`` is preferred to ``a.TextGrid``.

        Parameters
        ----------
        path : Path
            Need not exist.
        endings : iterable of str
            In lower case.
        others : collection of str, optional
            Stems of the files that something is looked for; by default, of the files of this kind in the folder.
        """
        there, endings = self._listing(path.parent), tuple(endings)
        exact = self._spelled(path, endings, there, exact=True)
        if exact is not None or self._rivals(path, there, others):
            return exact
        return self._spelled(path, endings, there, exact=False)

    def near(self, path: Path, endings: Iterable[str]) -> Path | None:
        """Return a file whose name differs by letter case, whether it is taken or not."""
        return self._spelled(path, tuple(endings), self._listing(path.parent), exact=False)

    def _spelled(self, path: Path, endings: tuple[str, ...], there: _Listing, exact: bool) -> Path | None:
        for ending in endings:
            for name in (path.name, path.stem):
                for found in there.spelled.get(f"{name}{ending}".lower(), ()):
                    if not exact or found[: len(name)] == name:
                        return path.parent / found
        return None

    def _rivals(self, path: Path, there: _Listing, others: Collection[str] | None) -> bool:
        """Tell whether a file with the same name in other letter case looks for the same."""
        if others is not None:
            return any(stem != path.stem and stem.lower() == path.stem.lower() for stem in others)
        kind = ENDINGS if path.suffix.lower() in ENDINGS else (path.suffix.lower(),)
        return any(
            os.path.splitext(name)[0] != path.stem and os.path.splitext(name)[1].lower() in kind
            for name in there.stems.get(path.stem.lower(), ())
        )

    def _listing(self, folder: Path) -> _Listing:
        if (found := self._folders.get(str(folder))) is None:
            try:
                names = sorted(os.listdir(folder))
            except OSError:
                names = []
            spelled: defaultdict[str, list[str]] = defaultdict(list)
            stems: defaultdict[str, list[str]] = defaultdict(list)
            for name in names:
                spelled[name.lower()].append(name)
                stems[os.path.splitext(name)[0].lower()].append(name)
            found = self._folders[str(folder)] = _Listing(spelled, stems)
        return found


def differs_by_case(path: Path, found: Path) -> bool:
    """Tell whether a file that `Siblings` found has the name of another in other letter case."""
    return found.stem not in (path.name, path.stem)


def belongs_to_another(near: Path | None) -> str:
    """Say, to complete a sentence, that a file is not taken because of its letter case; ``""`` if there is none."""
    return f" ({near.name} differs by letter case: it belongs to another)" if near is not None else ""
