"""Edits of phones: what each does, and that every sequence of edits keeps order and can be undone."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speechctc.core.errors import InputError
from speechctc.studio.journal import EDITS, Phone, Splice, check_order, edit

PHONES = [Phone(0.1, 0.2, "a", 0.9), Phone(0.2, 0.3, "b", 0.4, (("d", 0.3),)), Phone(0.35, 0.5, "c", 0.8)]
SECONDS = 0.6


def edited(what: str, **request: Any) -> list[tuple[float, float, str]]:
    phones = list(PHONES)
    edit(phones, SECONDS, {"what": what, **request}).apply(phones)
    check_order(phones, SECONDS)
    return [phone[:3] for phone in phones]


A, B, C = ((phone.start, phone.end, phone.label) for phone in PHONES)


@pytest.mark.parametrize(
    ("what", "request_", "expected"),
    [
        ("relabel", {"phone": 1, "label": " x "}, [A, (0.2, 0.3, "x"), C]),
        ("confirm", {"phone": 2}, [A, B, C]),
        ("split", {"phone": 1, "time": 0.25}, [A, (0.2, 0.25, "b"), (0.25, 0.3, "b"), C]),
        ("split", {"phone": 1, "time": 0.25, "label": "x"}, [A, (0.2, 0.25, "b"), (0.25, 0.3, "x"), C]),
        ("merge", {"phone": 1}, [A, (0.2, 0.5, "b")]),
        ("delete", {"phone": 1}, [A, C]),
        ("delete", {"phone": 0}, [B, C]),
        ("insert", {"start": 0.31, "label": "x"}, [A, B, (0.31, 0.35, "x"), C]),
        ("insert", {"start": 0.28, "end": 0.4, "label": "x"}, [A, (0.2, 0.28, "b"), (0.28, 0.4, "x"), (0.4, 0.5, "c")]),
        ("insert", {"start": 0.25, "label": "x"}, [A, (0.2, 0.25, "b"), (0.25, 0.3, "x"), C]),
        ("move", {"phone": 0, "edge": "end", "time": 0.22}, [(0.1, 0.22, "a"), (0.22, 0.3, "b"), C]),
        ("move", {"phone": 1, "edge": "start", "time": 0.22}, [(0.1, 0.22, "a"), (0.22, 0.3, "b"), C]),
        ("move", {"phone": 1, "edge": "end", "time": 0.9}, [A, (0.2, 0.35, "b"), C]),
        ("move", {"phone": 2, "edge": "end", "time": 0.9}, [A, B, (0.35, 0.6, "c")]),
        ("move", {"phone": 0, "edge": "end", "time": 0.0}, [(0.1, 0.105, "a"), (0.105, 0.3, "b"), C]),
    ],
)
def test_edits(what: str, request_: dict[str, Any], expected: list[tuple[float, float, str]]) -> None:
    assert edited(what, **request_) == expected


@pytest.mark.parametrize(
    "request_",
    [
        {"what": "fly"},
        {"what": "relabel", "phone": 3, "label": "x"},
        {"what": "relabel", "phone": -1, "label": "x"},
        {"what": "relabel", "phone": True, "label": "x"},
        {"what": "relabel", "phone": "0", "label": "x"},
        {"what": "relabel", "phone": 0, "label": ""},
        {"what": "relabel", "phone": 0, "label": "a b"},
        {"what": "relabel", "phone": 0, "label": "a\x1b"},
        {"what": "relabel", "phone": 0, "label": "a" * 41},
        {"what": "relabel", "phone": 0, "label": ["a"]},
        {"what": "split", "phone": 0, "time": 0.5},
        {"what": "split", "phone": 0, "time": float("nan")},
        {"what": "split", "phone": 0},
        {"what": "merge", "phone": 2},
        {"what": "insert", "start": 0.2, "end": 0.3, "label": "x"},
        {"what": "insert", "start": 0.4, "end": 0.42, "label": "x"},
        {"what": "insert", "start": 0.6, "label": "x"},
        {"what": "move", "phone": 0, "edge": "middle", "time": 0.1},
        {"what": "move", "phone": 0, "edge": "end", "time": -1},
    ],
)
def test_what_cannot_be_done_is_said(request_: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        edit(PHONES, SECONDS, request_)


def test_a_label_chosen_by_a_person_is_checked_and_keeps_the_alternatives() -> None:
    (new,) = edit(PHONES, SECONDS, {"what": "relabel", "phone": 1, "label": "d"}).new
    assert new == Phone(0.2, 0.3, "d", None, (("d", 0.3),), True, "b")
    (later,) = edit([PHONES[0], new], SECONDS, {"what": "relabel", "phone": 1, "label": "x"}).new
    assert later == new._replace(label="x"), "the first label is the one to go back to"
    assert [Phone.from_list(each.to_list()) for each in (PHONES[1], later)] == [PHONES[1], later]
    (same,) = edit(PHONES, SECONDS, {"what": "confirm", "phone": 1}).new
    assert same == PHONES[1]._replace(checked=True)


requests = st.fixed_dictionaries(
    {
        "what": st.sampled_from(sorted(EDITS)),
        "phone": st.integers(0, 4),
        "label": st.sampled_from(["a", "ʃ", "x"]),
        "time": st.floats(0, 0.7),
        "start": st.floats(0, 0.7),
        "end": st.one_of(st.none(), st.floats(0, 0.7)),
        "edge": st.sampled_from(["start", "end"]),
    }
)


@settings(max_examples=60, deadline=None)
@given(st.lists(requests, max_size=12))
def test_any_edits_keep_order_and_can_be_taken_back(wanted: list[dict[str, Any]]) -> None:
    phones, done = list(PHONES), []
    for request in wanted:
        try:
            splice = edit(phones, SECONDS, request)
        except InputError:
            continue
        splice.apply(phones)
        check_order(phones, SECONDS)
        done.append(Splice.from_dict(splice.to_dict()))
    for splice in reversed(done):
        splice.inverse().apply(phones)
    assert phones == PHONES
