"""Amounts of money and years, in the order in which they are said."""

from __future__ import annotations

import pytest

from speechctc.phones.amounts import spoken_forms
from speechctc.phones.espeak import is_installed
from speechctc.phones.inventory import CMU39, Inventory
from speechctc.phones.pronouncer import Pronouncer


@pytest.mark.parametrize(
    ("token", "language", "forms"),
    [
        ("£20", "en-gb", ["20 pounds"]),
        ("£1,", "en-us", ["1 pound,"]),
        ("$1,200", "en-us", ["1,200 dollars"]),
        ("(£3.50)", "en-us", ["(3 pounds 50)"]),
        ("£3.05", "en-us", ["3 pounds 5"]),
        ("$4.00", "en-us", ["4 dollars"]),
        ("$5.5", "en-us", ["5.5 dollars"]),
        ("€15", "es", ["15€"]),
        ("€3,50", "de", ["€3,50"]),  # a comma for the point: left as it is
        ("1998.", "en-us", ["19 98.", "1998."]),
        ("1905", "en-us", ["19 oh 5", "1905"]),
        ("2010", "en-gb", ["20 10", "2010"]),
        ("2005", "en-us", ["2005"]),
        ("1900", "en-us", ["1900"]),
        ("1998", "de", ["1998"]),
        ("19980", "en-us", ["19980"]),
        ("1998.5", "en-us", ["1998.5"]),
        ("US$5", "en-us", ["US$5"]),
        ("word", "en-us", ["word"]),
    ],
)
def test_a_sign_comes_after_its_amount_and_a_year_is_said_in_two_parts(
    token: str, language: str, forms: list[str]
) -> None:
    assert spoken_forms(token, language) == tuple(forms)


@pytest.mark.skipif(not is_installed(), reason="eSpeak NG is not installed")
def test_words_are_read_as_they_are_said() -> None:
    pronouncer = Pronouncer(None, "en-us", Inventory("cmu39", CMU39))
    twenty, is_, year = pronouncer.read("£20 in 1998")
    assert twenty == ("£20", (tuple("t w eh n t iy p aw n d z".split()),)) and is_.text == "in"
    assert [" ".join(each)[:19] for each in year.pronunciations] == ["n ay n t iy n n ay ", "n ay n t iy n hh ah"]
    assert pronouncer.read("20")[0].pronunciations == (tuple("t w eh n t iy".split()),)
    assert Pronouncer(None, "es").read("€15")[0].pronunciations[0][-2:] == ("ɾ", "o")
