"""Foldings: the published ones, those of the user, and which one a config means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speechctc.core.errors import InputError
from speechctc.phones.inventory import TIMIT39, TIMIT48, TIMIT61, inventory_of, named_inventory
from speechctc.phones.label_rules import choose_folding, parse_folding

# The 39 classes as the literature prints them: those of more than one label; q belongs to none.
CLASSES = """
    aa: aa ao | ah: ah ax ax-h | er: er axr | hh: hh hv | ih: ih ix | l: l el | m: m em | n: n en nx | ng: ng eng
    | sh: sh zh | uw: uw ux | sil: pcl tcl kcl bcl dcl gcl h# pau epi
"""


def published_classes() -> dict[str, str]:
    classes = (entry.split(":") for entry in CLASSES.split("|"))
    return {member: name.strip() for name, members in classes for member in members.split()}


def test_61_labels_fold_to_the_published_39_classes() -> None:
    expected = {label: published_classes().get(label, label) for label in TIMIT61 if label != "q"}
    fold = parse_folding("timit39")
    assert {label: fold.apply([label])[0] for label in expected} == expected
    assert set(expected.values()) == set(TIMIT39)
    assert fold.apply(["q"]) == []


def test_48_lies_between_61_and_39() -> None:
    by_48 = [parse_folding("timit48").apply([label]) for label in TIMIT61]
    assert [parse_folding("timit39").apply(labels) for labels in by_48] == [
        parse_folding("timit39").apply([label]) for label in TIMIT61
    ]
    assert {label for labels in by_48 for label in labels} == set(TIMIT48)


@given(st.lists(st.sampled_from(TIMIT61)), st.sampled_from(["none", "timit48", "timit39", "cmu37"]))
def test_folding_twice_is_folding_once(labels: list[str], name: str) -> None:
    fold = parse_folding(name)
    assert fold.apply(fold.apply(labels)) == fold.apply(labels)


def test_a_mapping_of_the_users_folds_and_drops() -> None:
    fold = parse_folding({"a:": "a", "sil": None})
    assert fold.apply(["sil", "a:", "b", "a"]) == ["a", "b", "a"]
    assert "a: as a" in fold.protocol and "sil dropped" in fold.protocol


@pytest.mark.parametrize("mapping", [{"a": "b", "b": "c"}, {"a": "b", "b": None}])
def test_a_mapping_that_chains_is_refused(mapping: dict[str, str | None]) -> None:
    with pytest.raises(InputError, match="'a' to 'b', which is folded itself"):
        parse_folding(mapping)


@pytest.mark.parametrize(
    ("spec", "name", "expected"),
    [("auto", "timit61", "timit39"), ("auto", "cmu39", "none"), ("auto", "found", "none"), ("cmu37", "cmu39", "cmu37")],
)
def test_auto_chooses_the_folding_of_the_set(spec: str, name: str, expected: str) -> None:
    phones_of_it = inventory_of(["a"]) if name == "found" else named_inventory(name)
    assert choose_folding(spec, phones_of_it).name == expected


def test_a_named_folding_of_another_phone_set_is_refused() -> None:
    with pytest.raises(InputError, match="score.fold=cmu37 does not fit: 2 of the 3 phones .*ɑ, ʃ.*score.fold=auto"):
        choose_folding("cmu37", inventory_of(["ɑ", "ʃ", "k"]))
    with pytest.raises(InputError, match="does not fit"):
        choose_folding("timit39", inventory_of(["x"]))
    for name in ("timit61", "timit48", "timit39"):
        assert choose_folding("timit39", named_inventory(name)).name == "timit39"
    assert choose_folding("cmu37", inventory_of(["aa", "k", "sil"])).name == "cmu37"
    assert choose_folding({"ɑ": "a"}, inventory_of(["ɑ", "ʃ"])).name == "custom"


def test_marks_can_be_left_out_of_a_score_by_class() -> None:
    phones = inventory_of(("a", "aː", "ã˥", "ã", "˥", "t"))
    fold = choose_folding("strip:tone,length", phones)
    assert fold.apply(["aː", "ã˥", "˥", "t", "a"]) == ["a", "ã", "t", "a"]
    assert fold.protocol == "phones that differ only in tone and length counted as one"
    for wrong in ("strip:", "strip:tone,colour"):
        with pytest.raises(InputError, match=r"name classes of marks: strip:tone,stress,length,diacritics"):
            choose_folding(wrong, phones)
