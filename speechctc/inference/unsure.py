"""Tells when a model is less sure of its phones than of the speech it learned: it may be another language.

The two limits were chosen by ``benchmarks/bench_foreign`` (``benchmarks/foreign.csv``), in groups of 6 recordings.
With the n-gram the mean confidence of the bundled English is at least 0.760 for all 32 groups of English, and at most
0.761 for 37 other languages; without, at least 0.805, and at most 0.793. Accented English can be below: of Indian
speakers most are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from threading import Lock
from typing import Any

from speechctc.core.errors import InputError
from speechctc.inference.decoder import Decoder
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment
from speechctc.inference.streaming import Logits

MIN_PHONES = 50  # phones, with fewer of which nothing is said
MIN_CONFIDENCE = 0.76  # mean confidence of its phones below which most speech is not English
MIN_CONFIDENCE_WITHOUT_LM = 0.8  # the same of the best path, without the n-gram


def has_ngram(recogniser: Decoder) -> bool:
    """Return whether a model decodes with its n-gram."""
    return recogniser.checkpoint.lm is not None and recogniser.config.decode.lm_weight > 0


class Doubt:
    """Collects the confidences of a model's phones.

    Parameters
    ----------
    recogniser : Decoder
        The bundled model of English.
    remedy : str
        How to decode without its n-gram.
    by_best_path : bool
        The phones are not those of the search with the n-gram, but come from `hear`.
    """

    def __init__(
        self, recogniser: Decoder, remedy: str = "--lm-weight 0 decodes without it", by_best_path: bool = False
    ) -> None:
        self._remedy, self._with_ngram = remedy, has_ngram(recogniser)
        self._least = MIN_CONFIDENCE if self._with_ngram and not by_best_path else MIN_CONFIDENCE_WITHOUT_LM
        self._best_path = recogniser.with_settings(["decode.search=greedy"]) if by_best_path else None
        self._lock = Lock()
        self._sum, self._count = 0.0, 0

    def hear(self, log_probs: Logits) -> None:
        """Count the phones of the best path in log posteriors, shape (n_frames, classes); in any thread."""
        assert self._best_path is not None
        seconds = self._best_path.clock.seconds(len(log_probs))
        for _ in self.seen(self._best_path.segments_of(log_probs, seconds)):
            pass

    def seen(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """Yield the phones, and count them."""
        for segment in segments:
            self._add(segment.confidence, 1)
            yield segment

    def watched(self, results: Iterable[Any]) -> Iterator[Any]:
        """Yield the results, `Recognition`, errors or phones that come one by one, and count their phones."""
        for result in results:
            if isinstance(result, Recognition):
                self._add(sum(segment.confidence for segment in result.segments), len(result.segments))
            elif not isinstance(result, InputError):
                result = replace(result, segments=self.seen(result.segments))
            yield result

    def _add(self, confidence: float, count: int) -> None:
        with self._lock:
            self._sum, self._count = self._sum + confidence, self._count + count

    def note(self) -> str:
        """Return what the user should know; ``""`` if the phones are too few, or as sure as those of English."""
        if self._count < MIN_PHONES or self._sum >= self._least * self._count:
            return ""
        why = f"its n-gram writes English phones where the net is unsure: {self._remedy}"
        ngram = f"; {why}" if self._with_ngram else ""
        confidence = f"mean confidence {self._sum / self._count:.2f}, below {self._least}"
        what = f"the model of English is less sure of these phones than of English ({confidence})"
        return f"{what}: this may be noisy speech, or another language, for which there is --model ipa{ngram}"
