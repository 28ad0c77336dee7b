"""Vectors of phones, and closures joined with their stops."""

from __future__ import annotations

import numpy as np

from speechctc.inference.boundary_model import DIMS, SILENCE, has_closures, joined, phone_vectors, spelled
from speechctc.phones.inventory import CMU39, TIMIT61


def test_every_phone_of_timit_has_its_own_vector_but_for_variants() -> None:
    vectors = phone_vectors(spelled(TIMIT61, True), True)
    assert vectors.shape == (61, DIMS) and np.isfinite(vectors).all()
    known = vectors[:, 2] == 0
    assert known.all()
    assert len(np.unique(vectors, axis=0)) >= 52  # silences are one, hh and hv, and a few vowels, are near


def test_a_phone_has_the_same_vector_in_both_notations() -> None:
    pairs = {"t": "t", "sh": "ʃ", "iy": "i", "aw": "aʊ", "ch": "tʃ"}
    for arpabet, ipa in pairs.items():
        assert np.array_equal(phone_vectors(spelled([arpabet], True), False), phone_vectors([ipa], False))


def test_labels_that_are_not_ipa_are_told_apart() -> None:
    vectors = phone_vectors(["X1", "X2"], False)
    assert vectors[:, 2].tolist() == [1, 1] and not np.array_equal(*vectors)


def test_stops_are_releases_where_a_set_has_closures() -> None:
    assert has_closures(TIMIT61) and not has_closures(CMU39) and not has_closures(("a", "t", "k"))
    joined_stop, release, vowel = phone_vectors(["t"], False), phone_vectors(["t"], True), phone_vectors(["a"], True)
    assert (joined_stop != release).sum() == 1 and np.array_equal(vowel, phone_vectors(["a"], False))


def test_closures_are_joined_with_the_stops_that_touch_them() -> None:
    phones = spelled(["h#", "tcl", "t", "iy", "kcl", "m", "tcl", "ch", "pau", "bcl", "b"], True)
    times = tuple((k / 10, (k + 1) / 10) for k in range(11))
    times = (*times[:10], (1.05, 1.1))  # b begins later than bcl ends
    labels, spans = joined(phones, times)
    assert labels == (SILENCE, "t", "i", "k", "m", "tʃ", SILENCE, "b", "b")
    assert spans[1] == (0.1, 0.3) and spans[5] == (0.6, 0.8) and spans[3] == (0.4, 0.5)
