"""ARPA files: what is read means what it says, what is written is read by others, and what is wrong is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from speechctc.core.errors import InputError
from speechctc.lm.arpa import read_arpa, write_arpa
from speechctc.lm.model import PhoneLM
from speechctc.lm.ngram import estimate
from speechctc.phones.inventory import Inventory, named_inventory
from tests.lm.arpa_texts import SRILM, random_table, score, to_arpa, write
from tests.lm.test_model import zipfian

ABC = Inventory("found", ("a", "b", "c"))


def texts(phones: list[str], seed: int, count: int = 40) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    return [[phones[k] for k in rng.integers(len(phones), size=rng.integers(0, 9))] for _ in range(count)]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["lm.arpa", "lm.arpa.gz"])
def test_every_score_is_that_of_backing_off_by_the_book(tmp_path: Path, order: int, name: str) -> None:
    phones = ["a", "b", "c", "d"]
    table = random_table(order, phones, order)
    arpa = read_arpa(write(tmp_path / name, to_arpa(table)), Inventory("found", tuple(phones)))
    lm = PhoneLM.of(arpa.ngram)
    assert arpa.ngram.order == order and arpa.missing == ()
    for text in texts(phones, seed=order):
        expected = score(table, text) * np.log(10)
        assert lm.log_prob(arpa.inventory.encode(text)) == pytest.approx(expected, abs=1e-4)


def test_a_file_of_srilms_with_windows_line_ends_is_read(tmp_path: Path) -> None:
    arpa = read_arpa(write(tmp_path / "lm", "\ufeff" + SRILM.replace("\n", "\r\n")), ABC)
    lm = PhoneLM.of(arpa.ngram)
    log10 = lm.log_prob(arpa.inventory.encode(["a", "b", "c"])) / np.log(10)
    assert log10 == pytest.approx(-0.2 - 0.1 - 0.15 - 0.5, abs=1e-5)  # <s> a, <s> a b, a b c, </s>
    log10 = lm.log_prob(arpa.inventory.encode(["c", "a"])) / np.log(10)
    assert log10 == pytest.approx(-0.3 - 0.9 - 0.7 - 0.2 - 0.5, abs=1e-5)  # back off at <s>; c has no weight; at a


def test_phones_that_the_file_does_not_have_are_unknown_words(tmp_path: Path) -> None:
    wider = Inventory("found", ("a", "b", "c", "zh"))
    without = read_arpa(write(tmp_path / "a", SRILM), wider)
    assert without.missing == ("zh",) and PhoneLM.of(without.ngram).log_probs[-1, 4] == pytest.approx(-99 * np.log(10))
    with_unk = SRILM.replace("ngram 1=5", "ngram 1=6").replace("-99\t<s>", "-3\t<UNK>\n-99\t<s>")
    arpa = read_arpa(write(tmp_path / "b", with_unk), wider)
    assert arpa.missing == ("zh",) and PhoneLM.of(arpa.ngram).log_probs[-1, 4] == pytest.approx(-3 * np.log(10))
    assert read_arpa(tmp_path / "b").inventory.phones == ("a", "b", "c")


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["lm.arpa", "deep/lm.arpa.gz"])
def test_what_is_written_is_read_again(tmp_path: Path, order: int, name: str) -> None:
    ngram = estimate(zipfian(1, 9, 200), 9, order)
    phones = Inventory("found", tuple("abcdefgh"))
    write_arpa(tmp_path / name, ngram, phones)
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b" if name.endswith("gz") else b"\\data\\")
    again = read_arpa(tmp_path / name, phones)
    np.testing.assert_array_equal(again.ngram.parent, ngram.parent)
    np.testing.assert_array_equal(again.ngram.token, ngram.token)
    np.testing.assert_allclose(PhoneLM.of(again.ngram).log_probs, PhoneLM.of(ngram).log_probs, atol=1e-5)
    np.testing.assert_array_equal(PhoneLM.of(again.ngram).next_state, PhoneLM.of(ngram).next_state)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("-0.8\tb\t-0.1", "-0.8\tb\tx", "line 13: 'x' is not a number"),
        ("-0.8\tb\t-0.1", "0.8\tb\t-0.1", "line 13: the log probability 0.8 is above 0"),
        ("-0.8\tb\t-0.1", "nan\tb", "line 13: the log probability nan is above 0"),
        ("-0.8\tb\t-0.1", "-0.8\ta", "line 13: 'a' stands there a second time"),
        ("-0.8\tb\t-0.1\n", "", "line 15: 4 1-grams where the header says 5"),
        ("-0.4\ta b\t0.02", "-0.4\ta", "line 18: 1 fields after the probability, where a 2-gram has 2 words"),
        ("-0.4\ta b\t0.02", "-0.4\ta b c d", "line 18: 4 fields after"),
        ("-0.4\ta b\t0.02", "-0.4\ta q", "line 18: the word 'q' is none of the 1-grams"),
        ("-0.4\ta b\t0.02", "-0.4\ta <s>", "line 18: <s> or </s> in the midst of 'a <s>'"),
        ("-0.15\ta b c", "-0.15\tb c a", "line 23: 'b c' is no 2-gram of the file"),
        ("\\3-grams:", "\\4-grams:", "line 21: '.*4-grams:' where '.*3-grams:' should be"),
        ("ngram 2=3", "ngram 3=3", "line 6: 'ngram 3=3' where 'ngram 2=COUNT'"),
        ("ngram 2=3", "ngram 2=2", "line 19: '-0.3.*' where '.*3-grams:' should be"),
        ("-0.5\t</s>", "-0.5\td", "no </s> in it"),
        ("\\data\\", "data", "not an ARPA file"),
        ("\\end\\\n", "", "cut off"),
        ("-0.15\ta b c\n\n\\end\\\n", "", "cut off"),
        (SRILM[SRILM.index("\\2-grams") :], "", "cut off"),
        (SRILM[SRILM.index("\\1-grams") :], "", "cut off"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert SRILM.count(old) == 1
    path = write(tmp_path / "bad.arpa", SRILM.replace(old, new))
    with pytest.raises(InputError, match=message) as raised:
        read_arpa(path, Inventory("found", ("a", "b", "c", "d", "q")))
    assert str(path) in str(raised.value) and "\n" not in str(raised.value)


def test_words_that_are_no_phones_are_counted_and_named(tmp_path: Path) -> None:
    path = write(tmp_path / "lm.arpa")
    with pytest.raises(InputError, match="2 of its 3 words .* 2 phones .*: a, c"):
        read_arpa(path, Inventory("found", ("b", "zh")))
    stressed = SRILM.replace("\ta", "\tAH0").replace(" a", " AH0").replace("a ", "AH0 ").replace("b", "AH1")
    with pytest.raises(InputError, match="'AH1' stands there a second time"):
        read_arpa(write(tmp_path / "cmu.arpa", stressed.replace("c\n", "B\n")), named_inventory("cmu39"))


def test_reserved_names_of_phones_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the phone '<s>' has a name that ARPA files reserve"):
        write_arpa(tmp_path / "lm.arpa", estimate([[1]], 2, 1), Inventory("found", ("<s>",)))
    assert not (tmp_path / "lm.arpa").exists()
