"""Log posteriors of a recording of any length: a few MB in memory, the rest in a temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import IO

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import InputError

IN_MEMORY = 4_000_000
"""Most bytes to keep in memory."""
BLOCK = 2000  # frames to read at a time

Rows = NDArray[np.float32]


class Posteriors:
    """Log posteriors by frame, appended in blocks and read in any order; closes its temporary file at the end.

    Parameters
    ----------
    classes : int
        With the blank, class 0.

    Attributes
    ----------
    frames : int
        Frames so far.
    """

    def __init__(self, classes: int) -> None:
        self.classes, self.frames = classes, 0
        self._rows: list[Rows] = []
        self._file: IO[bytes] | None = None
        self._best: list[Rows] = []
        self._greedy: list[NDArray[np.int16]] = []

    def __enter__(self) -> Posteriors:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Delete the temporary file."""
        if self._file is not None:
            self._file.close()

    def append(self, rows: Rows) -> None:
        """Append frames, shape (n, classes).

        Raises
        ------
        InputError
            The temporary file cannot be written.
        """
        self.frames += len(rows)
        self._best.append(rows.max(axis=1, initial=-np.inf))
        self._greedy.append(rows.argmax(axis=1).astype(np.int16))
        if self._file is None:
            self._rows.append(rows)
        try:
            if self._file is not None:
                self._file.write(np.ascontiguousarray(rows).tobytes())
            elif self.frames * self.classes * 4 > IN_MEMORY:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115
                for each in self._rows:
                    self._file.write(np.ascontiguousarray(each).tobytes())
                self._rows = []
        except OSError as error:
            what = f"{tempfile.gettempdir()}: log posteriors cannot be kept there: {error.strerror or error}"
            raise InputError(what, "free some space, or name another folder in TMPDIR") from None

    def read(self, start: int, stop: int) -> Rows:
        """Return frames ``start`` to ``stop - 1``, shape (n, classes)."""
        if self._file is None:
            if len(self._rows) != 1:
                self._rows = [np.concatenate([np.zeros((0, self.classes), np.float32), *self._rows])]
            return self._rows[0][start:stop]
        self._file.seek(start * self.classes * 4)
        read = np.frombuffer(self._file.read((stop - start) * self.classes * 4), np.float32)
        return read.reshape(-1, self.classes)

    def part(self, start: int, stop: int) -> Posteriors:
        """Return frames ``start`` to ``stop - 1``, as far as there are any, as posteriors of their own."""
        part = Posteriors(self.classes)
        for at in range(start, min(stop, self.frames), BLOCK):
            part.append(self.read(at, min(at + BLOCK, stop, self.frames)))
        return part

    def blocks(self) -> Iterator[Rows]:
        """Yield all frames in blocks."""
        for start in range(0, self.frames, BLOCK):
            yield self.read(start, min(start + BLOCK, self.frames))

    @property
    def best(self) -> Rows:
        """The log posterior of the most probable class of each frame, shape (n_frames,)."""
        self._best = [np.concatenate([np.zeros(0, np.float32), *self._best])]
        return self._best[0]

    @property
    def greedy(self) -> NDArray[np.int16]:
        """The most probable class of each frame, shape (n_frames,)."""
        self._greedy = [np.concatenate([np.zeros(0, np.int16), *self._greedy])]
        return self._greedy[0]

    @property
    def onsets(self) -> NDArray[np.bool_]:
        """Whether a phone of the best path begins in a frame, shape (n_frames,)."""
        greedy = self.greedy
        before = np.concatenate([np.zeros(1, np.int16), greedy[:-1]])[: len(greedy)]
        begins: NDArray[np.bool_] = (greedy != 0) & (greedy != before)
        return begins

    def with_any(self, per_phone: float) -> AnyColumn:
        """Return emissions with a column for any stretch of sound, which costs so much for each phone found in it."""
        return AnyColumn(self, per_phone)


class AnyColumn:
    """The emissions of all classes, and in a last column those of any stretch.

    A frame of any stretch has the log posterior of its most probable class, less a cost where a phone of the best path
    begins.
    """

    def __init__(self, posteriors: Posteriors, per_phone: float) -> None:
        self._posteriors = posteriors
        self._any = posteriors.best - np.float32(per_phone) * posteriors.onsets

    def __call__(self, start: int, stop: int) -> Rows:
        """Return the emissions of frames ``start`` to ``stop - 1``, shape (n, classes + 1)."""
        return np.column_stack([self._posteriors.read(start, stop), self._any[start:stop]])
