"""Recordings are cut where labels leave gaps or name pauses, and nowhere else."""

from __future__ import annotations

import numpy as np

from speechctc.corpora.tier_utterances import MIN_SILENCE, PAD, Piece, Span, cut

SPANS = [Span(2.0, 3.0), Span(3.0, 4.0), Span(6.0, 7.0), Span(7.6, 8.0)]


def test_gaps_longer_than_the_limit_separate_utterances_that_keep_a_little_silence() -> None:
    assert cut(SPANS, 20.0, 1.0, 60.0) == [Piece(0, 1, 2 - PAD, 4 + PAD), Piece(2, 3, 6 - PAD, 8 + PAD)]
    assert cut(SPANS, 20.0, 0.5, 60.0)[1:] == [Piece(2, 2, 6 - PAD, 7.25), Piece(3, 3, 7.35, 8 + PAD)]
    assert cut(SPANS, 8.2, 2.0, 60.0) == [Piece(0, 3, 0.0, 8.2)], "whole: no silence is too long"
    assert cut(SPANS, 99.0, None, 100.0) == [Piece(0, 3, 0.0, 99.0)]


def test_what_is_too_long_is_cut_at_its_longest_silence_and_at_labelled_pauses() -> None:
    words = [Span(0.0, 9.0), Span(9.1, 12.0), Span(12.0, 13.0, True), Span(13.0, 20.0)]
    assert cut(words, 20.0, 1.0, 15.0) == [Piece(0, 2, 0.0, 12.5), Piece(2, 3, 12.5, 20.0)]
    assert cut(words, 20.0, 1.0, 10.0)[0] == Piece(0, 0, 0.0, 9.05)
    solid = [Span(0.0, 9.0), Span(9.0, 12.0)]
    assert cut(solid, 12.0, 1.0, 5.0) == [Piece(0, 1, 0.0, 12.0)]
    assert cut(solid, 12.0, 1.0, 5.0, anywhere=True) == [Piece(0, 0, 0.0, 9.0), Piece(1, 1, 9.0, 12.0)]


def test_no_label_is_lost_and_no_two_utterances_overlap() -> None:
    rng = np.random.default_rng(4)
    for limit in (0.0, 0.3, 2.0, None):
        edges = np.cumsum(rng.exponential(0.4, size=400))
        spans = [Span(float(a), float(b), bool(rng.random() < 0.1)) for a, b in edges.reshape(-1, 2)]
        pieces = cut(spans, float(edges[-1]) + 3.0, limit, 12.0)
        covered = [k for piece in pieces for k in range(piece.first, piece.last + 1)]
        assert sorted(set(covered)) == list(range(200))
        assert all(spans[k].pause for k in covered if covered.count(k) > 1), "only a pause belongs to two"
        assert all(a.end <= b.start for a, b in zip(pieces, pieces[1:], strict=False))
        for piece in pieces:
            gaps = [spans[k + 1].start - spans[k].end for k in range(piece.first, piece.last)]
            assert limit is None or max(gaps, default=0.0) <= limit
            assert piece.end - piece.start <= 12.0 or max(gaps, default=0.0) < MIN_SILENCE
