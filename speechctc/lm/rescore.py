"""Rank the hypotheses of a prefix search by an n-gram, an LSTM, or both."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from speechctc.config.schema import Config
from speechctc.lm.automaton import PhoneLM
from speechctc.lm.model import LanguageModel
from speechctc.lm.search import DELAY, ClassPath, GreedySearch, Hypothesis, LmSearch, Rows, Search, most_waiting
from speechctc.phones.inventory import BLANK

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
