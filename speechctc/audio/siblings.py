"""Finds the labels of recordings, and the recordings of labels: files of the same name, each folder listed once."""

from __future__ import annotations

import os
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from speechctc.audio.recordings import ENDINGS


class _Listing(NamedTuple):
    spelled: Mapping[str, list[str]]  # by the key of the name
    stems: Mapping[str, list[str]]  # by the key of the stem, the names of files


class Siblings:
    """Finds files beside others; a folder is listed once, so make another where files may have come since.

    Names match exactly, apart from the letter case of the ending. Only where none does, one whose name differs by
    letter case or Unicode form (``é`` as one character or two) is taken: if no other file could be meant. Of ``s.wav``
    and ``S.wav``, ``s.TextGrid`` belongs to the first.
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
        """Return a file whose name differs by letter case or Unicode form, whether it is taken or not."""
        return self._spelled(path, tuple(endings), self._listing(path.parent), exact=False)

    def _spelled(self, path: Path, endings: tuple[str, ...], there: _Listing, exact: bool) -> Path | None:
        for ending in endings:
            for name in (path.name, path.stem):
                for found in there.spelled.get(_key(f"{name}{ending}"), ()):
                    if not exact or found[: len(name)] == name:
                        return path.parent / found
        return None

    def _rivals(self, path: Path, there: _Listing, others: Collection[str] | None) -> bool:
        """Tell whether a file with the same name in other letter case or Unicode form looks for the same."""
        if others is not None:
            return any(stem != path.stem and _key(stem) == _key(path.stem) for stem in others)
        kind = ENDINGS if path.suffix.lower() in ENDINGS else (path.suffix.lower(),)
        return any(
            os.path.splitext(name)[0] != path.stem and os.path.splitext(name)[1].lower() in kind
            for name in there.stems.get(_key(path.stem), ())
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
                spelled[_key(name)].append(name)
                stems[_key(os.path.splitext(name)[0])].append(name)
            found = self._folders[str(folder)] = _Listing(spelled, stems)
        return found


def _key(name: str) -> str:
    """Return what spellings of a name in other letter case or Unicode form share."""
    return unicodedata.normalize("NFC", name).lower()


def differs_by_case(path: Path, found: Path) -> bool:
    """Tell whether a file that `Siblings` found has the name of another in other letter case or Unicode form."""
    return found.stem not in (path.name, path.stem)


def belongs_to_another(near: Path | None) -> str:
    """Say, to complete a sentence, that a file is not taken because of its spelling; ``""`` if there is none."""
    return f" ({near.name} differs by letter case or Unicode form: it belongs to another)" if near is not None else ""
