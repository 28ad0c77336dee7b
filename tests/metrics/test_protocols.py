"""Each protocol by an example worked by hand, and raw against an independent scorer."""

from __future__ import annotations

import random

import pytest

from speechctc.metrics.per import EditCounts
from speechctc.metrics.protocols import Protocol, folded, kaldi, protocols_for, score_by_protocols, speechbrain
from speechctc.phones.folding import choose_folding, parse_folding
from speechctc.phones.inventory import TIMIT61, Inventory, inventory_of, named_inventory

STRICT, RAW = folded("strict39", parse_folding("timit39")), folded("raw", parse_folding("none"))
REFERENCE = "h# sh iy hv ae dcl d q ao kcl k pau h#".split()
HYPOTHESIS = "h# sh ix hh ae d aa kcl k h#".split()


def counts(protocol: Protocol, reference: str, hypothesis: str) -> tuple[int, int, int, int]:
    found = protocol.count(reference.split(), hypothesis.split())
    return found.substitutions, found.deletions, found.insertions, found.reference_phones


def test_kaldi_by_hand() -> None:
    # sil sh iy hh ae sil d aa sil k sil sil  (12, q dropped)
    # sil sh ih hh ae  -  d aa sil k  -  sil: iy as ih; the two missing silences are no errors
    assert kaldi().count(REFERENCE, HYPOTHESIS) == EditCounts(1, 0, 0, 12, 1)


def test_speechbrain_by_hand() -> None:
    # the reference's last two silences become one: 11 phones; only iy as ih and dcl are wrong
    assert speechbrain().count(REFERENCE, HYPOTHESIS) == EditCounts(1, 1, 0, 11, 1)


def test_raw_by_hand() -> None:
    # iy:ix, hv:hh, ao:aa; dcl, q, pau deleted, in 13 phones
    assert RAW.count(REFERENCE, HYPOTHESIS) == EditCounts(3, 3, 0, 13, 1)


def test_kaldi_counts_a_silence_that_is_taken_for_a_phone_and_one_that_is_inserted() -> None:
    assert counts(kaldi(), "h# aa pau b h#", "h# aa s b h#") == (1, 0, 0, 5)
    assert counts(kaldi(), "aa b", "h# aa pau b") == (0, 0, 2, 2)
    assert counts(kaldi(), "pau pau h#", "") == (0, 0, 0, 3)


@pytest.mark.parametrize("reference", ["pau aa", "aa pau"])
def test_kaldi_rather_takes_a_silence_for_missing_than_a_phone(reference: str) -> None:
    assert counts(kaldi(), reference, "b") == (1, 0, 0, 2)


def test_kaldi_aligns_as_sclite_by_its_costs_not_by_the_fewest_errors() -> None:
    # 5 substitutions cost 20, 6 deletions and insertions that keep 2 right ones cost 18
    assert counts(kaldi(), "aa b d eh f", "eh f g m n") == (0, 3, 3, 5)
    assert counts(STRICT, "aa b d eh f", "eh f g m n") == (5, 0, 0, 5)


@pytest.mark.parametrize(
    ("labels", "phones"), [("h# pau aa", 2), ("h# pau epi aa", 3), ("h# pau epi sil aa", 3), ("h# aa pau", 3), ("", 0)]
)
def test_speechbrain_merges_silences_by_pairs_as_its_script_does(labels: str, phones: int) -> None:
    text = " ".join(parse_folding("timit39").apply(labels.split()))
    assert (
        counts(speechbrain(), labels, labels)
        == (0, 0, 0, phones)
        == (0, 0, 0, len(text.replace("sil sil", "sil").split()))
    )


@pytest.mark.parametrize(
    ("inventory", "fold", "names"),
    [
        (named_inventory("timit61"), "auto", ["strict39", "kaldi", "speechbrain", "raw"]),
        (named_inventory("timit39"), "none", ["raw", "strict39", "kaldi", "speechbrain"]),
        (inventory_of("bcl b aa h#".split()), "auto", ["raw", "strict39", "kaldi", "speechbrain"]),
        (named_inventory("cmu39"), "cmu37", ["cmu37", "raw"]),
        (Inventory("found", ("sil", *named_inventory("cmu39").phones)), "auto", ["raw"]),
        (inventory_of("ʃ a ã".split()), {"ã": "a"}, ["custom", "raw"]),
    ],
)
def test_which_protocols_apply(inventory: Inventory, fold: str | dict[str, str | None], names: list[str]) -> None:
    assert [each.name for each in protocols_for(inventory, choose_folding(fold, inventory))] == names


def test_raw_agrees_with_jiwer_to_the_last_error() -> None:
    jiwer = pytest.importorskip("jiwer", reason="jiwer, of the extra dev, is the independent scorer")
    rng = random.Random(3)
    pairs = [([rng.choice(TIMIT61) for _ in range(rng.randint(1, 40))], [*map(str, ())]) for _ in range(60)]
    pairs = [
        (ours, [rng.choice(TIMIT61) if rng.random() < 0.3 else p for p in ours if rng.random() > 0.15])
        for ours, _ in pairs
    ]
    (score,) = score_by_protocols([RAW], pairs, [""] * len(pairs))
    other = jiwer.process_words([" ".join(ours) for ours, _ in pairs], [" ".join(theirs) for _, theirs in pairs])
    assert score.counts.errors == other.substitutions + other.deletions + other.insertions
    assert score.counts.per == pytest.approx(100 * other.wer) and score.counts.reference_phones == sum(
        len(ours) for ours, _ in pairs
    )
    assert score.counts.insertions - score.counts.deletions == other.insertions - other.deletions


def test_scores_as_plain_values() -> None:
    # in each, iy as ih, and the two silences that kaldi forgives
    (score,) = score_by_protocols([STRICT], [(REFERENCE, HYPOTHESIS)] * 3, ["a", "b", "c"])
    assert score.to_dict() == {
        "name": "strict39", "per": 25.0, "per_low": 25.0, "per_high": 25.0, "substitutions": 3, "deletions": 6,
        "insertions": 0, "reference_phones": 36, "about": STRICT.about,
    }  # fmt: skip


def test_tones_and_segments_are_scored_side_by_side() -> None:
    inventory = Inventory("found", ("a", "k", "˥", "˩˧"))
    pairs = [(["k", "a", "˥", "k"], ["k", "a", "˩˧"])]
    found = {
        each.name: each.counts
        for each in score_by_protocols(protocols_for(inventory, parse_folding("none")), pairs, [""])
    }
    assert [(name, of.errors, of.reference_phones) for name, of in found.items()] == [
        ("raw", 2, 4), ("segments", 1, 3), ("tones", 1, 1)
    ]  # fmt: skip
