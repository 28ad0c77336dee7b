"""Strings of IPA are told from phones, in any notation of these."""

from __future__ import annotations

from collections import Counter

import pytest

from speechctc.phones.inventory import CMU39, TIMIT61
from speechctc.phones.label_rules import are_strings

PHONES = {
    "ARPABET": CMU39,
    "TIMIT": TIMIT61,
    "ARPABET with stress": [f"{phone.upper()}{k}" for phone in CMU39 if phone[0] in "aeiou" for k in range(3)],
    "IPA": "a b d e f ɡ h i j k l m n o p r s t u v z ə ɛ ɔ ʃ ʒ".split(),
    "diphthongs and affricates": "aɪ aʊ eɪ oʊ ɔɪ ɪə eə ʊə aɪə tʃ dʒ t͡s d͡z pf ts kp ɡb ndʒ a k s ə".split(),
    "tones": "a˥ a˧˥ a˨˩˦ a˥˩ i˥ i˧˥ u˥˩ iau˥ uai˧˥ ʈʂʰ tɕʰ ʂ ɕ m n ŋ".split(),
    "pinyin": "b p m f d t n l g k h j q x zh ch sh r z c s a o e ai ei ao ou an en ang eng ong i ia".split(),
    "SAMPA": "a a: E I i: o: U Y 2: 9 @ 6 aI aU OY p b t d k g f v s z S Z C x h m n N l R j ts tS pf".split(),
    "names of classes": ["low", "mid", "high"],
    "none": [],
}


@pytest.mark.parametrize("name", PHONES)
def test_phones_are_not_strings(name: str) -> None:
    assert not are_strings(Counter(PHONES[name]))


@pytest.mark.parametrize(
    "labels",
    ["səkvɯ ʔut͡ɕʰiboɹa a kʰu", "sə˥˧kvɯ˥˩ ʔu˧˩t͡ɕʰi˧˩bo˧˩ɹa˧˩", "ˈɡuːtən taːk", "kata tapa pata taka paka kapa patapa"],
)
def test_words_in_ipa_are_strings(labels: str) -> None:
    assert are_strings(Counter(labels.split()))


def test_what_occurs_most_decides() -> None:
    assert not are_strings(Counter({"səkvɯ": 1, "tʰaɹɯ": 1, "a": 30}))
