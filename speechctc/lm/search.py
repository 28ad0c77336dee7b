"""Decode posteriors: the greedy path, or a prefix beam search with an n-gram, whose hypotheses an LSTM may rank."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from speechctc.config.schema import Config
from speechctc.lm.beam import Tokens, advance
from speechctc.lm.model import LanguageModel, PhoneLM
from speechctc.phones.inventory import BLANK

Rows = NDArray[np.float32]
ClassPath = NDArray[np.int64]

MARGIN = 10.0
"""Classes whose log posterior is this far below the best of their frame are skipped."""
LIMIT = 100
"""Frames after which a frame's class is committed, even if the tokens do not all agree on it."""
DELAY = 2.0
"""The same in seconds, for a search with a config; larger values hardly improve the result."""
LIVE_DELAY = 0.4
"""The same for live speech."""
FLOOR = -1e4  # lowest log posterior


def log_softmax(logits: Rows) -> Rows:
    """Return log posteriors, (n, classes), of logits."""
    moved: Rows = logits - logits.max(1, keepdims=True, initial=-math.inf)
    moved -= np.log(np.exp(moved).sum(1, keepdims=True))
    return moved


def collapse(path: Sequence[int]) -> list[int]:
    """Merge repeats, then drop blanks (Graves et al. 2006, eq. 1's map B): ``a a - a`` is ``a a``."""
    return [label for label, _ in groupby(path) if label != BLANK]


class Search(Protocol):
    """Commits the classes of frames, which may come in blocks."""

    def push(self, log_probs: Rows) -> tuple[Rows, ClassPath]:
        """Process the next frames; return those that are committed by now, and their classes."""

    def finish(self) -> tuple[Rows, ClassPath]:
        """End the recording; return the remaining frames and their classes."""


def best_labels(search: Search, log_probs: Rows) -> list[int]:
    """Return the labels that a new search finds in the log posteriors of a recording, (n_frames, classes)."""
    return collapse([*search.push(log_probs)[1].tolist(), *search.finish()[1].tolist()])


class GreedySearch:
    """A `Search` that commits each frame at once, as its most probable class."""

    def push(self, log_probs: Rows) -> tuple[Rows, ClassPath]:
        """Return the frames and the best class of each."""
        return log_probs, log_probs.argmax(axis=1)

    def finish(self) -> tuple[Rows, ClassPath]:
        """Return nothing: no frame waits."""
        return np.zeros((0, 0), np.float32), np.zeros(0, np.int64)


def most_waiting(config: Config, delay: float = DELAY) -> int:
    """Return the frames after which a search with a config commits a frame, from the delay in seconds."""
    return math.ceil(delay / (config.features.shift_ms * config.model.time_stride / 1000))


class Hypothesis(NamedTuple):
    """A sequence of phones that the search keeps.

    Attributes
    ----------
    labels : tuple of int
    path : ndarray, shape = (n_frames,)
        Classes of its best path.
    acoustic : float
        Log of its probability by the net, summed over the paths that were kept.
    lm : float
        Log of its probability by the language models, including the end.
    total : float
        Its score: ``acoustic + weight lm + bonus phones``.
    """

    labels: tuple[int, ...]
    path: ClassPath
    acoustic: float
    lm: float
    total: float


class LmSearch:
    """Prefix beam search for the phones that are most probable by posteriors and an n-gram together.

    The score of a phone sequence is the log of its probability by the net, summed over all its paths (Graves et al.
    2006, eq. 3), plus, for each phone, ``weight`` times its log probability by the n-gram and ``bonus``, plus
    ``weight`` times the log probability of the end (A. Y. Hannun et al., arXiv 1408.2873, algorithm 1). The result is
    the best path of the best sequence. It does not depend on how the frames are cut into blocks; memory
    does not grow with their number.

    Parameters
    ----------
    lm : PhoneLM
    weight, bonus : float
    beam : int
        Tokens to keep, at least 1; a sequence that may end in a phone or a blank is two tokens.
    margin : float
        See `MARGIN`.
    limit : int
        See `LIMIT`.
    """

    def __init__(
        self, lm: PhoneLM, weight: float, bonus: float, beam: int = 64, margin: float = MARGIN, limit: int = LIMIT
    ) -> None:
        self._lm = lm
        self._numbers = float(weight), float(bonus), float(margin)
        classes = lm.classes
        self._tokens = Tokens.at_start(beam, classes, limit)
        self._waiting: Rows = np.zeros((0, classes), np.float32)

    def push(self, log_probs: Rows) -> tuple[Rows, ClassPath]:
        """Process the next frames; return those that are committed by now, in order.

        Parameters
        ----------
        log_probs : ndarray, shape = (n_frames, classes), float32

        Returns
        -------
        rows : ndarray, shape = (n_committed, classes), float32
            Their log posteriors.
        path : ndarray, shape = (n_committed,), int64
            Their classes.
        """
        return self._next(log_probs, ends=False)

    def finish(self) -> tuple[Rows, ClassPath]:
        """End the recording; return the remaining frames."""
        return self._next(self._waiting[:0], ends=True)

    def hypotheses(self) -> list[Hypothesis]:
        """Return the sequences that the search keeps now, as if the recording ended here; best first.

        Valid only before the search has processed more frames than its `limit`.
        """
        tokens, (weight, bonus, _) = self._tokens, self._numbers
        kept, frames = int(tokens.clock[0]), int(tokens.clock[1])
        at, paths = np.arange(kept), np.zeros((kept, frames), np.int64)
        for frame in range(frames - 1, -1, -1):
            paths[:, frame], at = tokens.label[frame, at], tokens.parent[frame, at]
        _, first, group = np.unique(tokens.code[:kept], return_index=True, return_inverse=True)
        found = []
        for number in range(len(first)):
            members = np.flatnonzero(group == number)
            path = paths[members[tokens.best[members].argmax()]]
            labels = tuple(collapse(path.tolist()))
            end = self._lm.log_prob((), int(tokens.state[members[0]]))
            lm = self._lm.log_prob(labels)
            score = float(np.logaddexp.reduce(tokens.score[members]) + tokens.total[0])
            acoustic = score - weight * (lm - end) - bonus * len(labels)
            found.append(Hypothesis(labels, path, acoustic, lm, score + weight * end))
        return sorted(found, key=lambda each: -each.total)

    def _next(self, log_probs: Rows, ends: bool) -> tuple[Rows, ClassPath]:
        scores = np.clip(np.nan_to_num(log_probs, nan=FLOOR), FLOOR, -FLOOR).astype(np.float64, order="C")
        path = advance(self._tokens, scores, self._lm, self._numbers, ends)
        rows = np.concatenate([self._waiting, log_probs])
        self._waiting = rows[len(path) :].copy()
        return rows[: len(path)], path


MAX_SECONDS = 30.0
"""Most seconds to rank at a time: the hypotheses of a longer recording would differ only near its end."""


class Ranker:
    """Finds the best sequences of phones of a piece of a recording.

    Parameters
    ----------
    ngram : PhoneLM, optional
    lstm : LanguageModel, optional
    config : Config
        Its ``decode`` has the weight, bonus, share and beam. A weight of 0 leaves out both models and the bonus.
    """

    def __init__(self, ngram: PhoneLM | None, lstm: LanguageModel | None, config: Config) -> None:
        decode = config.decode
        self.lstm = lstm if decode.lm_weight > 0 and decode.lm_share > 0 else None
        uses_ngram = ngram is not None and decode.lm_weight > 0 and (self.lstm is None or decode.lm_share < 1)
        self.ngram = ngram if uses_ngram else None
        self.share = 0.0 if self.lstm is None else 1.0 if self.ngram is None else decode.lm_share
        self.uses_lm = self.lstm is not None or self.ngram is not None
        self.weight, self.bonus = (decode.lm_weight, decode.lm_bonus) if self.uses_lm else (0.0, 0.0)
        self.beam = decode.beam
        self.is_greedy = decode.search == "greedy" or (decode.search == "auto" and not self.uses_lm)
        self.longest = round(1000 * MAX_SECONDS / (config.features.shift_ms * config.model.time_stride))

    def rank(self, log_probs: Rows) -> list[Hypothesis]:
        """Return the hypotheses of the search, best first; at least one.

        Parameters
        ----------
        log_probs : ndarray, shape = (n_frames, classes), float32
        """
        return self.ranked(self.hypotheses(log_probs))

    def hypotheses(self, log_probs: Rows) -> list[Hypothesis]:
        """Return the hypotheses of the search, with the n-gram if there is one."""
        search = self.search(log_probs.shape[1], limit=max(len(log_probs), 1))
        search.push(log_probs)
        return search.hypotheses()

    def search(self, classes: int, limit: int) -> LmSearch:
        """Return a search with the n-gram if there is one; `limit` is as of `LmSearch`."""
        if self.ngram is None:
            return LmSearch(PhoneLM.flat(classes), 0.0, 0.0, self.beam, limit=limit)
        return LmSearch(self.ngram, self.weight, self.bonus, self.beam, limit=limit)

    def ranked(self, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """Return hypotheses with the scores of all language models, best first.

        Theirs is ``(1 - share) n-gram + share LSTM``.
        """
        lm = np.zeros(len(hypotheses))
        if self.ngram is not None:
            lm += (1 - self.share) * np.array([each.lm for each in hypotheses])
        if self.lstm is not None:
            lm += self.share * self.lstm.score([each.labels for each in hypotheses])
        found = []
        for each, log_prob in zip(hypotheses, lm.tolist(), strict=True):
            total = each.acoustic + self.weight * log_prob + self.bonus * len(each.labels)
            found.append(each._replace(lm=log_prob, total=total))
        return sorted(found, key=lambda each: -each.total)

    def pieces(self, log_probs: Rows, ends: bool = True) -> Iterator[Rows]:
        """Cut a recording into pieces of at most `MAX_SECONDS` seconds, in the middle of pauses.

        Parameters
        ----------
        log_probs : ndarray, shape = (n_frames, classes), float32
        ends : bool
            Also yield the last piece, which may be followed by more otherwise.
        """
        while len(log_probs) > self.longest:
            cut = _pause(log_probs[: self.longest])
            yield log_probs[:cut]
            log_probs = log_probs[cut:]
        if ends:
            yield log_probs


class RankingSearch:
    """A `Search` that ranks piece by piece, and commits the frames of a piece when it is complete."""

    def __init__(self, ranker: Ranker, classes: int) -> None:
        self._ranker = ranker
        self._waiting: Rows = np.zeros((0, classes), np.float32)

    def push(self, log_probs: Rows) -> tuple[Rows, ClassPath]:
        """Process the next frames; return those of complete pieces, and their classes."""
        return self._next(np.concatenate([self._waiting, log_probs]), ends=False)

    def finish(self) -> tuple[Rows, ClassPath]:
        """End the recording; return the remaining frames and their classes."""
        return self._next(self._waiting, ends=True)

    def _next(self, log_probs: Rows, ends: bool) -> tuple[Rows, ClassPath]:
        pieces = list(self._ranker.pieces(log_probs, ends))
        done = sum(map(len, pieces))
        self._waiting = log_probs[done:].copy()
        paths = [self._ranker.rank(piece)[0].path for piece in pieces]
        return log_probs[:done], np.concatenate([np.zeros(0, np.int64), *paths])


def choose_search(
    ngram: PhoneLM | None, lstm: LanguageModel | None, config: Config, classes: int, delay: float = DELAY
) -> Search:
    """Return the search of the config's ``decode`` section: the one choice of training, tuning and decoding."""
    ranker = Ranker(ngram, lstm, config)
    if ranker.is_greedy:
        return GreedySearch()
    if ranker.lstm is not None:
        return RankingSearch(ranker, classes)
    return ranker.search(classes, most_waiting(config, delay))


def method(ngram: PhoneLM | None, lstm: LanguageModel | None, config: Config) -> str:
    """Return the decoding method, in words."""
    ranker, decode = Ranker(ngram, lstm, config), config.decode
    if ranker.is_greedy:
        return "best path"
    if not ranker.uses_lm:
        return f"prefix search (beam {decode.beam})"
    numbers = f"weight {decode.lm_weight:g}, bonus {decode.lm_bonus:g}"
    if ranker.lstm is None:
        return f"prefix search with an n-gram of phones ({numbers})"
    kinds = "an LSTM" if ranker.ngram is None else f"an n-gram and an LSTM (share {ranker.share:g})"
    return f"prefix search with {kinds} of phones ({numbers})"


def _pause(log_probs: Rows) -> int:
    """Return the middle of the longest run of blanks in the second half; at least 1."""
    blank = log_probs.argmax(axis=1) == BLANK
    half, best, run = len(blank) // 2, (0, len(blank)), 0
    for frame in range(half, len(blank)):
        run = run + 1 if blank[frame] else 0
        if run > best[0]:
            best = run, frame + 1 - run // 2
    return max(best[1], 1)
