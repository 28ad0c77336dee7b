"""Log posteriors of a recording of any length: a few MB in memory, the rest in a temporary file."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import InputError

IN_MEMORY = 4_000_000  # most bytes to keep in memory
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
    judged : Posteriors or None
        Those of the net that scores phones, where that is another; closed with these.
    """

    def __init__(self, classes: int) -> None:
        self.classes, self.frames = classes, 0
        self.judged: Posteriors | None = None
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115
        self._best: list[Rows] = []
        self._greedy: list[NDArray[np.int16]] = []

    def __enter__(self) -> Posteriors:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Delete the temporary file."""
        self._file.close()
        if self.judged is not None:
            self.judged.__exit__(kind, error, at)

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
        try:
            self._file.seek(0, io.SEEK_END)
            self._file.write(rows.astype(np.float32, copy=False).tobytes())
        except OSError as error:
            what = f"{tempfile.gettempdir()}: log posteriors cannot be kept there: {error.strerror or error}"
            raise InputError(what, "free some space, or name another folder in TMPDIR") from None

    def read(self, start: int, stop: int) -> Rows:
        """Return frames ``start`` to ``stop - 1``, shape (n, classes)."""
        self._file.seek(start * self.classes * 4)
        read = np.frombuffer(self._file.read((stop - start) * self.classes * 4), np.float32)
        return read.reshape(-1, self.classes)

    def part(self, start: int, stop: int) -> Posteriors:
        """Return frames ``start`` to ``stop - 1``, as far as there are any, as posteriors of their own."""
        part = Posteriors(self.classes)
        for at in range(start, min(stop, self.frames), BLOCK):
            part.append(self.read(at, min(at + BLOCK, stop, self.frames)))
        part.judged = self.judged and self.judged.part(start, stop)
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

    def with_any(self, per_phone: float) -> Callable[[int, int], Rows]:
        """Return emissions with a column for any stretch of sound, which costs so much for each phone found in it."""
        column = self.best - np.float32(per_phone) * self.onsets
        return lambda start, stop: np.column_stack([self.read(start, stop), column[start:stop]])
