"""A recogniser that hears only the phones of an inventory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from speechctc.core.errors import InputError
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.restriction import POWER, RARE, RequestedPhones, find_requested, read_inventory, restrict
from speechctc.lm.model import NgramModel
from speechctc.lm.search import log_softmax
from speechctc.model.checkpoint import FREQUENCIES
from speechctc.stages.open_model import ModelChoice, open_model
from tests.command import Command, one_line_error
from tests.tiny_model import sing, write_song
from tests.train_helpers import Recorder

SONG = ["low", "mid", "high", "top", "low"]


def inventory(folder: Path, text: str) -> Path:
    path = folder / "phones.txt"
    path.write_text(text, encoding="utf-8")
    return path


def wanted(text: str) -> RequestedPhones:
    return RequestedPhones("test", tuple(text.split()))


def test_posteriors_are_those_given_the_inventory_in_a_language_with_other_frequencies(tiny_model: Path) -> None:
    whole, counts = open_model(tiny_model, Recogniser, ModelChoice("cpu")), [90, 5, 40, 0]
    whole = whole.replaced(checkpoint=replace(whole.checkpoint, lm=None, facts={FREQUENCIES: counts}))
    samples = sing(SONG, np.random.default_rng(1))[0]
    before = np.exp(log_softmax(whole.logits(samples, 16000)).astype(np.float64))
    some = restrict(whole, wanted("low high top"), Recorder())
    after = np.exp(log_softmax(some.logits(samples, 16000)).astype(np.float64))
    assert set(some.phones) == {"low", "high", "top"} and "only the 3 phones of test" in some.method
    kept = [0, *(1 + whole.phones.index(phone) for phone in some.phones)]
    shares = np.maximum([counts[k - 1] for k in kept[1:]] / np.sum([counts[k - 1] for k in kept[1:]]), RARE)
    mean = np.prod(shares ** (shares / shares.sum()))  # geometric, over the labels of training
    given = before[:, kept] / [1, *(shares / mean) ** (POWER / 4)]  # one of four phones leaves
    given /= given.sum(1, keepdims=True)  # by the definition of a conditional probability
    np.testing.assert_allclose(after, given, atol=1e-5)
    again = np.exp(log_softmax(whole.logits(samples, 16000)).astype(np.float64))
    np.testing.assert_array_equal(again, before)


def test_only_phones_of_the_inventory_are_heard_or_named(speechctc: Command, beside_latest: Path) -> None:
    write_song(beside_latest / "a.wav", SONG)
    inventory(beside_latest, "low high top")
    assert "mid" in speechctc("decode", "a.wav").out
    for options in ([], ["--beam", 8], ["--format", "json", "--alternatives", 3]):
        done = speechctc("decode", "a.wav", "--inventory", "phones.txt", *options)
        assert done.status == 0 and "mid" not in done.out and "low" in done.out
    assert "--cluster" in one_line_error(speechctc("decode", "a.wav", "--inventory", "phones.txt", "--cluster", "x"))


def test_what_is_no_ipa_or_empty_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    model = open_model(tiny_model, Recogniser, ModelChoice("cpu"))
    for text, said in (("low t5 qq#", "neither IPA nor labels of the model: t5, qq#"), ("ǃ", "none of its phones")):
        with pytest.raises(InputError, match=said):
            restrict(model, wanted(text), Recorder())
    with pytest.raises(InputError, match="no phones in it"):
        read_inventory(inventory(tmp_path, " \n"))


@pytest.mark.parametrize(
    ("text", "phones"),
    [
        ("phone\na\ni\nu\n", ("a", "i", "u")),
        ("phones \r\na\r\n\r\ni\r\n", ("a", "i")),
        ("phones\ttrain\na\t3\n", ("a",)),
        ("a\nphone\n", ("a", "phone")),
        ("phone\na i\nu\n", ("phone", "a", "i", "u")),
        ("p, t, k", ("p", "t", "k")),
        ("p,t;\nk\n", ("p", "t", "k")),
        ("n;Phone\n1;p\n2;tʰ\n", ("p", "tʰ")),
        ("phone,n\np,1\nt,2\n", ("p", "t")),
        ("# vowels\na i # as in Polish\nl# h#\n", ("a", "i", "l#", "h#")),
        ("# mine\nphone,n\np,1\nt # rare,2\n", ("p", "t")),
        ("#,phone\n1,p\n2,t\n", ("p", "t")),
        ("ʃ (in loans only) ʒ", ("ʃ", "ʒ")),
    ],
)
def test_a_table_may_have_the_column_of_phones_alone(tmp_path: Path, text: str, phones: tuple[str, ...]) -> None:
    assert read_inventory(inventory(tmp_path, text)) == phones


@pytest.mark.parametrize("head", [("n", "phone"), None])
def test_an_inventory_from_a_spreadsheet(tmp_path: Path, head: tuple[str, str] | None) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (head, (1, "p"), (2, "tʰ")) if head else (("p", 1), ("tʰ", 2)):
        book.active.append(row)
    book.save(tmp_path / "inv.xlsx")
    assert read_inventory(tmp_path / "inv.xlsx") == ("p", "tʰ")


def test_where_an_inventory_is_from(tiny_model: Path, tmp_path: Path) -> None:
    plain = inventory(tmp_path, "low\nhigh  top high")
    (tmp_path / "features").mkdir()
    (tmp_path / "features" / "phones.tsv").write_text("phone\ttrain\nlow\t7\nɛ̃\t3\n", encoding="utf-8")
    (tmp_path / "corpus.tsv").write_text("id\tphones\taudio\nx\tp a\tx.wav\ny\ta t\ty.wav\n", encoding="utf-8")
    assert find_requested(None) is None
    for place, phones in [
        (plain, ("low", "high", "top")),
        (tmp_path / "features", ("low", "ɛ̃")),
        (tmp_path / "corpus.tsv", ("p", "a", "t")),
        (tiny_model, open_model(tiny_model, Recogniser, ModelChoice("cpu")).phones),
        ("a  i\tu", ("a", "i", "u")),
        ("a, i, u", ("a", "i", "u")),
        ("a", ("a",)),
    ]:
        found = find_requested(str(place))
        assert found is not None and found.phones == phones
    for place, message in [("gone.txt", "no such file"), (tmp_path, "holds no phones.tsv"), ("", "is empty")]:
        with pytest.raises(InputError, match=message):
            find_requested(str(place))
    with pytest.raises(InputError, match="both name phones"):
        find_requested("a b", "pl")


def test_phones_of_a_model_that_writes_no_ipa_are_the_nearest_and_named() -> None:
    model, recorder = open_model("english", Recogniser, ModelChoice("cpu")), Recorder()
    some = restrict(model, wanted("pʰ a i u t aɪ"), recorder)
    assert any("heard as the nearest" in said and "pʰ as p" in said for said in recorder.said)
    assert {"p", "iy", "uw", "t", "ay"} <= set(some.phones) and "m" not in some.phones and len(some.phones) < 10
    # the n-gram is that of the model, of these phones only
    whole, part = model.checkpoint.lm, some.checkpoint.lm
    assert whole is not None and part is not None
    labels = [some.inventory.encode(text.split()) for text in ("p iy t", "t ay", "uw")]
    same = [model.inventory.encode(some.inventory.decode(each)) for each in labels]
    np.testing.assert_allclose([part.log_prob(each) for each in labels], [whole.log_prob(each) for each in same])
    with pytest.raises(InputError, match="an LSTM ranks all phones of the model only"):
        restrict(model.replaced(lstm=NgramModel(whole, model.inventory)), wanted("p a"), recorder)


def test_phones_that_are_heard_as_others_are_named() -> None:
    model, recorder = open_model("ipa", Recogniser, ModelChoice("cpu")), Recorder()
    own, other = ("tʃ", "t͡ʃ") if "tʃ" in model.phones else ("t͡ʃ", "tʃ")
    some = restrict(model, wanted(f"p ɡ aː a ɠ i {other}"), recorder)
    assert set(some.phones) == {"p", "ɡ", "a", "i", other}
    assert any("heard as the nearest: aː as a, ɠ as ɡ" in said for said in recorder.said)
    assert any(f"spells otherwise: {other} as {own}; results have {other}" in said for said in recorder.said)


def test_a_letter_that_a_list_has_with_one_mark_only_is_written_with_it() -> None:
    model, recorder = open_model("ipa", Recogniser, ModelChoice("cpu")), Recorder()
    some = restrict(model, wanted("p t̪ aː a k iː ĩ u"), recorder)  # t̪ without t; aː beside a; i with two marks
    assert set(some.phones) == {"p", "t̪", "a", "k", "i", "u"}
    assert any("heard without their marks, and written with them: t̪ as t; whether" in said for said in recorder.said)
    assert any("heard as the nearest: aː as a, iː as i, ĩ as i" in said for said in recorder.said)


@pytest.mark.parametrize(
    ("listed", "phones"),
    [
        ("a i p tʂ tɕ", "a i p tɕ tʂ"),
        ("a g k", "a g k"),
        ("a g ɡ", "a ɡ"),  # the model's own, if the list has it too
        ("a ʧ t͡ʃ", "a ʧ"),  # or the first
        ("a ε n̠ʲ ʦ", "a n̠ʲ ʦ ε"),
        ("iy aa sh k", "i k ɑ ʃ"),  # another notation
    ],
)
def test_what_a_list_spells_otherwise_is_written_as_there(listed: str, phones: str) -> None:
    model = open_model("ipa", Recogniser, ModelChoice("cpu"))
    some = restrict(model, wanted(listed), Recorder())
    assert sorted(some.phones) == sorted(phones.split())
    own = restrict(model, wanted(listed)._replace(own=False), Recorder())
    assert set(own.phones) <= set(model.phones)
    samples = np.random.default_rng(0).normal(0, 0.1, 8000).astype(np.float32)
    np.testing.assert_array_equal(some.logits(samples, 16000), own.logits(samples, 16000))


def test_marks_and_remarks_of_a_list_are_left_out_and_brackets_are_read() -> None:
    model, recorder = open_model("ipa", Recogniser, ModelChoice("cpu")), Recorder()
    some = restrict(model, wanted("p t a˥ ˥˧ ˈ : /s/ [x] (ʃ) (rare) / /m n/"), recorder)
    assert set(some.phones) == {"p", "t", "a", "s", "x", "ʃ", "m", "n"}
    assert any("left out" in said and said.endswith(": ˥˧, ˈ, :, (rare)") for said in recorder.said)
    with pytest.raises(InputError, match="none of its phones is like"):
        restrict(model, wanted("˥ ˩"), Recorder())


def test_capitals_and_other_notations_are_asked_about() -> None:
    model = open_model("ipa", Recogniser, ModelChoice("cpu"))
    for text, asked in [
        ("P T A", r"did you mean p or ʋ \(P\), t or θ \(T\), a or ɑ \(A\)\?"),
        ("p t_h tsh @", r"neither IPA .* t_h, tsh, @; did you mean tʰ \(t_h\), tsʰ \(tsh\), ə \(@\)\?"),
        ("а ? p", r"neither IPA .* а, \?; did you mean a \(а\), ʔ \(\?\)\?"),
        ("p 35", r"neither IPA .* 35; the model's"),
    ]:
        with pytest.raises(InputError, match=asked):
            restrict(model, wanted(text), Recorder())


def test_align_takes_the_phones_of_the_inventory_only(speechctc: Command, beside_latest: Path) -> None:
    write_song(beside_latest / "a.wav", SONG)
    whole = speechctc("align", "a.wav", "--phones", "low mid high top low")
    part = speechctc("align", "a.wav", "--phones", "low mid high top low", "--inventory", "low mid high top")
    assert whole.status == part.status == 0 and part.out == whole.out  # a path's posteriors are divided by the same
    refused = speechctc("align", "a.wav", "--phones", "low mid", "--inventory", "low high top")
    assert refused.status == 2 and "the label 'mid' is not in the phone set" in refused.err
