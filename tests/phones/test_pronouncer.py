"""What eSpeak NG and dictionaries read, against transcriptions that any textbook has, and the forms of dictionaries."""

from __future__ import annotations

from pathlib import Path

import pytest

from speechctc.core.errors import InputError
from speechctc.phones.espeak import ipa_phones
from speechctc.phones.inventory import CMU39, Inventory, named_inventory
from speechctc.phones.pronouncer import PhoneMapper, Pronouncer, divide, read_dictionary

CMU = named_inventory("cmu39")


def spoken(language: str, text: str, phones: Inventory | None = None) -> dict[str, str]:
    """Return the first pronunciation of each word."""
    read = Pronouncer(None, language, phones).read(text)
    return {word.text: " ".join(word.pronunciations[0]) if word.pronunciations else "" for word in read}


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("it", "L’impero: «ventuno»!", {"L'impero": "l i m p ɛ r o", "ventuno": "v e n t u n o"}),
        ("Welsh", "ddim, llan", {"ddim": "ð ɨ m", "llan": "ɬ a n"}),
        ("tr", "üç şey", {"üç": "ø tʃ", "şey": "ʃ ɛ j"}),
        ("ka", "წყალი", {"წყალი": "ts q a l i"}),
        ("fr", "les enfants", {"les": "l e z", "enfants": "ɑ̃ f ɑ̃"}),
        ("vi", "xin chào", {"xin": "s i n", "chào": "tʃ aː w"}),
        # a full stop that stands alone; letters with a dot below, which NFC takes apart; joiners without width
        ("hi", "वह गया ।", {"वह": "ʋ ə h", "गया": "ɡ ʌ j aː"}),
        ("as", "\u09a8\u09bf\u09df\u09be ।", {"\u09a8\u09bf\u09af\u09bc\u09be": "n i a"}),
        ("bn", "\u09a8\u09bf\u09af\u09bc\u09be", {"\u09a8\u09bf\u09af\u09bc\u09be": "n i a"}),
        ("fa", ".و من،تو ؟", {"و": "v a", "من،تو": "m a n t o"}),
        ("ur", "وہ ۔ یہ", {"وہ": "w oː", "یہ": "j eː h"}),
        ("fa", "می\u200cخواهم به", {"می\u200cخواهم": "m i x ɑ h a m", "به": "b e"}),
        (
            "en-us",
            "The car — 21 “DOGS”",
            {"The": "ð ə", "car": "k ɑː ɹ", "21": "t w ɛ n t i w ʌ n", "DOGS": "d ɑː ɡ z"},
        ),
    ],
)
def test_words_are_read_in_context(language: str, text: str, expected: dict[str, str]) -> None:
    assert spoken(language, text) == expected


def test_joined_words_keep_their_boundaries() -> None:
    assert spoken("en-us", "out of the car") == {"out": "aʊ ɾ", "of": "ə v", "the": "ð ə", "car": "k ɑː ɹ"}
    word = Pronouncer(None, "en-us").read("out of the end")[0]
    assert word.pronunciations == (("aʊ", "ɾ"), ("aʊ", "t"))


@pytest.mark.parametrize("accent", ["en-us", "en-gb", "en-029", "en-gb-scotland", "en-us-nyc"])
def test_every_accent_of_english_is_written_in_the_cmu_set(accent: str) -> None:
    text = (
        "The quick brown fox jumps over a lazy dog; here, pure air, fire and power cure the poor boy's measured youth."
    )
    read = Pronouncer(None, accent, CMU).read(text)
    assert all(word.pronunciations for word in read) and len(read) == 21
    phones = [phone for word in read for phone in word.pronunciations[0]]
    assert set(phones) <= set(CMU39) and len(set(phones)) >= 30
    assert ("r", "r") not in set(zip(phones, phones[1:], strict=False))


def test_a_dictionary_goes_first_and_the_rest_is_spoken_in_its_notation(tmp_path: Path) -> None:
    path = tmp_path / "d.dict"
    path.write_text("CAT  K AE1 T\nTHE  DH AH0\nTHE(2)  DH IY0\nWELL  W EH1 L\n")
    read = Pronouncer(path, "en-us").read("the Cat's well-known 'cat' THE 7")
    assert [word.text for word in read] == ["the", "Cat's", "well", "known", "cat", "THE", "7"]
    assert read[0].pronunciations == (("dh", "ah"), ("dh", "iy"))
    assert [" ".join(word.pronunciations[0]) for word in read[1:4]] == ["k ae t s", "w eh l", "n ow n"]
    without = Pronouncer(path, None).read("the dog")
    assert [len(word.pronunciations) for word in without] == [2, 0]


def readings(pronouncer: Pronouncer, text: str) -> dict[str, list[str]]:
    return {word.text: [" ".join(each) for each in word.pronunciations] for word in pronouncer.read(text)}


def test_capitals_are_an_abbreviation_only_among_others_that_are_not(tmp_path: Path) -> None:
    path = tmp_path / "d.dict"
    lines = "US AH1 S|IT IH1 T|WORK W ER1 K|NASA N AE1 S AH0|I AY1|T T IY1|A AH0|A. EY1|S EH1 S|N EH1 N|U Y UW1"
    path.write_text(lines.replace("|", "\n").replace("  ", " "))
    for reader in (Pronouncer(path, "en-us"), Pronouncer(None, "en-us", CMU)):
        mixed = readings(reader, "I work in IT, the US told us it is NASA")
        assert mixed["IT"] == ["ay t iy", "ih t"] and mixed["US"] == ["y uw eh s", "ah s"]
        assert mixed["us"] == ["ah s"] and mixed["it"] == ["ih t"] and mixed["NASA"] == ["n ae s ah"]
        shouted = readings(reader, "IT TOLD US: IT IS NASA")
        assert [shouted[word][0] for word in ("IT", "US", "NASA")] == ["ih t", "ah s", "n ae s ah"]
    alone = readings(Pronouncer(path, None), "work in IT, us in the US; NASA")
    assert alone["IT"] == ["ih t", "ay t iy"] and alone["US"] == ["ah s", "y uw eh s"] and alone["us"] == ["ah s"]
    assert alone["NASA"] == ["n ae s ah", "eh n ey eh s ey"]
    assert readings(Pronouncer(path, None), "WORK US IT")["US"] == ["ah s"]
    turkish = readings(Pronouncer(None, "tr"), "IRMAK İKİ")
    assert turkish["IRMAK"][0] == readings(Pronouncer(None, "tr"), "ırmak")["ırmak"][0]


def test_an_ipa_dictionary_grows_by_what_is_spoken(tmp_path: Path) -> None:
    path = tmp_path / "d.dict"
    path.write_text("hallo\th a l oː\n")
    read = Pronouncer(path, "de").read("Hallo München")
    assert [" ".join(word.pronunciations[0]) for word in read] == ["h a l oː", "m ʏ n ç ə n"]


def test_a_few_words_in_ipa_change_the_phones_of_no_other_words(tmp_path: Path) -> None:
    path = tmp_path / "d.dict"
    path.write_text("META m e t a\nu u\nx' t͡ʃ\n", encoding="utf-8")
    few, none = Pronouncer(path, "mt"), Pronouncer(None, "mt")
    text = "biss jien sod X'inhuma"
    read = {word.text: word.pronunciations[0] for word in few.read(text)}
    assert list(read.values()) == [word.pronunciations[-1] for word in none.read(text)]
    assert read["biss"] == tuple("biss") and not few.notes()
    assert few.read("ċar")[0].pronunciations[0][0] == "t͡ʃ", "one phone in the dictionary's spelling"


def test_words_in_another_script_are_read_only_by_the_dictionary(tmp_path: Path) -> None:
    path = tmp_path / "d.dict"
    path.write_text("meta m e t a\nჩემო ʃ e m o\n", encoding="utf-8")
    pronouncer = Pronouncer(path, "mt")
    assert [len(word.pronunciations) for word in pronouncer.read("გამარჯობა meta, ჩემო biss 2")] == [0, 1, 1, 1, 1]
    assert pronouncer.is_foreign("გამარჯობა!") and not pronouncer.is_foreign("გამარჯობა ჩემო")


def test_a_dictionary_with_phones_outside_the_set(tmp_path: Path) -> None:
    path = tmp_path / "d.dict"
    path.write_text("CAT  K AE1 T\nCAB  K AE1 BB\n")
    with pytest.raises(InputError, match=r"outside of the set cmu39: bb \(in 'cab'\)"):
        Pronouncer(path, None, CMU)
    path.write_text("cat\tkʰ a ˥\n")
    with pytest.raises(InputError, match=r"outside of the set found: ˥ \(in 'cat'\)"):
        Pronouncer(path, None, Inventory("found", ("k", "a")))


def test_a_narrow_dictionary_is_written_as_the_nearest_and_named_once(tmp_path: Path) -> None:
    path = tmp_path / "d.dict"
    path.write_text("cat\tkʰ a t̪\n")
    pronouncer = Pronouncer(path, None, Inventory("found", ("k", "a", "t")))
    assert [word.pronunciations for word in pronouncer.read("cat cat")] == [(("k", "a", "t"),)] * 2
    (note,) = pronouncer.notes()
    assert note.startswith("2 phones of words that the phone set lacks") and note.endswith(": kʰ as k, t̪ as t")
    assert Pronouncer(path, None).read("cat")[0].pronunciations == (("kʰ", "a", "t̪"),)


def test_what_nothing_can_read_has_no_pronunciation() -> None:
    read = Pronouncer(None, "en-us").read("one 日本 Привет … ქართ ?!")
    assert {word.text: bool(word.pronunciations) for word in read} == {
        "one": True, "日本": False, "Привет": False, "ქართ": True,
    }  # fmt: skip
    assert Pronouncer(None, "cy").read("\u200b \x00 —") == []


def test_a_diphthong_that_the_set_lacks_is_written_as_its_vowels(tmp_path: Path) -> None:
    phones = Inventory("found", tuple("a e i o u ɪ ʊ m n t tʃ".split()))
    pronouncer = Pronouncer(None, "de", phones)
    assert [word.pronunciations[0] for word in pronouncer.read("mein tau")] == [("m", "a", "ɪ", "n"), ("t", "a", "ʊ")]
    with_own = Inventory("found", (*phones.phones, "aɪ"))
    assert Pronouncer(None, "de", with_own).read("mein")[0].pronunciations[0] == ("m", "aɪ", "n")
    path = tmp_path / "d.dict"
    path.write_text("MINE  M AY1 N\nTEN  T EH1 N\n")
    assert Pronouncer(path, None, phones).read("mine")[0].pronunciations == (("m", "a", "ɪ", "n"),)


def test_a_word_whose_phones_look_like_arpabet_is_read_as_the_others_are() -> None:
    """The notation of a source is known: it does not depend on the word that comes first."""
    known = ["a", "i", "y", "j", "s", "t", "v"]
    for words in ([("v", "iy", "s", "t", "i"), ("y", "s", "a")], [("y", "s", "a"), ("v", "iy", "s", "t", "i")]):
        mapper = PhoneMapper(known, divides=True)
        found = {word: mapper.map(word) for word in words}
        assert found[("v", "iy", "s", "t", "i")] == ("v", "i", "y", "s", "t", "i")
        assert found[("y", "s", "a")] == ("y", "s", "a")


def test_names_of_espeak_become_phones() -> None:
    names = ["kʰ", "ˈɔːɹ", "", "(en)", "pʲ", "ʲ", "_", "ʲ", "aɪɚ", "(ka)", "t̪", "s."]
    made = ipa_phones(names, "ka")
    assert [piece.label for piece in made] == ["kʰ", "ɔː", "ɹ", "pʲ", "aɪ", "ɚ", "t̪", "ʂ"]
    assert [piece.language for piece in made] == ["ka"] * 3 + ["en"] * 3 + ["ka"] * 2
    assert [(piece.phoneme, piece.part, piece.parts) for piece in made[1:3]] == [(1, 0, 2), (1, 1, 2)]


@pytest.mark.parametrize(
    ("language", "phones", "text", "expected"),
    [
        ("en-us", CMU, "the ʃaɪn, /ˈwɔːtɚ/", "dh ah sh ay n w ao t er"),
        ("th", None, "kʰaw˥˩", "kʰ a w˥˩"),
        ("az", None, "əlifba", "æ l i f b a"),  # letters of alphabets, its own and of languages that borrow a voice
        ("sw", None, "Yolŋu ɔkɛ ɓata", "j o l n u o k e b a t a"),
        ("is", None, "það æða", "θ aː ð aɪː ð a"),
    ],
)
def test_words_in_ipa_are_not_spelled_by_their_letters(
    language: str, phones: Inventory | None, text: str, expected: str
) -> None:
    assert " ".join(spoken(language, text, phones).values()) == expected


def test_a_word_alone_that_may_be_ipa_is_named_and_between_slashes_is() -> None:
    for text, phones in {"xupi": None, "/xupi/.": ("x", "u", "p", "i")}.items():
        (pronouncer := Pronouncer(None, "it")).detect_ipa([text])
        (word,) = pronouncer.read(text)
        assert phones in (None, word.pronunciations[0])
        assert ["xupi: read as spelled in it; if that is IPA, write /xupi/"] == pronouncer.notes() or phones


def test_where_words_are_in_ipa_those_of_plain_letters_are_too(tmp_path: Path) -> None:
    (dictionary := tmp_path / "words.dict").write_text("kat\tk a t s\n", encoding="utf-8")
    for pronouncer in (Pronouncer(None, "en-us"), Pronouncer(dictionary, None)):
        pronouncer.detect_ipa(["xupi * kʰan", "mama ɯ"])
        assert [word.pronunciations for word in pronouncer.read("xupi")] == [(("x", "u", "p", "i"),)]
        assert pronouncer.notes() == ["words in IPA, read as they are written: 1 (xupi)"]


def written(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "words.dict"
    path.write_bytes(text.encode(encoding))
    return path


def test_the_cmu_format(tmp_path: Path) -> None:
    text = ";;; a comment\nREAD  R EH1 D\nREAD(2)  R IY1 D\nREAD(1)  R EH2 D\n'cause K AH0 Z # short\n\n"
    found = read_dictionary(written(tmp_path, text))
    assert found.words == {"read": (("r", "eh", "d"), ("r", "iy", "d")), "'cause": (("k", "ah", "z"),)}
    assert found.phones == ("ah", "d", "eh", "iy", "k", "r", "z")


def test_the_mfa_format_with_and_without_probabilities(tmp_path: Path) -> None:
    text = "Été\te t e\nchat\t0.2\t0.1\t0.9\t1.0\tʃ a t\nchat\t0.8\t0.1\t0.9\t1.0\tʃ a\ndeux mots\td ø m o\n"
    found = read_dictionary(written(tmp_path, text))
    assert found.words["chat"] == (("ʃ", "a"), ("ʃ", "a", "t"))
    assert found.words["été"] == (("e", "t", "e"),) and "deux mots" in found.words


def test_faults_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 2: 'only' has no phones"):
        read_dictionary(written(tmp_path, "a AH0\nonly\n"))
    with pytest.raises(InputError, match="no words"):
        read_dictionary(written(tmp_path, ";;; nothing\n"))
    with pytest.raises(InputError, match="no such dictionary"):
        read_dictionary(tmp_path / "none.dict")


def test_stress_in_ipa_is_left_out(tmp_path: Path) -> None:
    assert read_dictionary(written(tmp_path, "water\tˈw ɔː t ə\n")).words["water"] == (("w", "ɔː", "t", "ə"),)


@pytest.mark.parametrize(
    ("language", "plain", "others"),
    [
        ("en-us", "don't", "donʼt don`t don´t don′t don’t"),
        ("en-us", "office", "oﬃce ｏｆｆｉｃｅ 𝐨𝐟𝐟𝐢𝐜𝐞 of\u00adfice"),
        ("fr", "fleur", "ﬂeur"),
        ("nl", "ijsbeer", "ĳsbeer"),
        ("hr", "njiva", "ǌiva"),
        ("af", "'n", "ŉ"),
        ("uk", "п'ять", "пʼять п’ять"),
        ("gn", "mba'e", "mbaʼe"),
    ],
)
def test_characters_of_texts_from_pages_are_read_as_plain_ones(
    tmp_path: Path, language: str, plain: str, others: str
) -> None:
    """eSpeak NG alone says their names: oﬃce as letter, F, B, zero, three."""
    reader = Pronouncer(None, language)
    expected = reader.read(plain)[0].pronunciations
    assert expected and all(reader.read(word)[0].pronunciations == expected for word in others.split())
    listed = Pronouncer(written(tmp_path, f"{plain} a b\n"), None)
    assert all(listed.read(word)[0].pronunciations == (("a", "b"),) for word in others.split())


@pytest.mark.parametrize(
    ("language", "own", "other"), [("ur", "کتاب", "كتاب"), ("ar", "كتاب", "کتاب"), ("ar", "في", "فی")]
)
def test_letters_of_another_language_in_arabic_script_are_read_as_its_own(language: str, own: str, other: str) -> None:
    """eSpeak NG alone leaves the beginnings of such words out."""
    reader = Pronouncer(None, language)
    assert reader.read(own)[0].pronunciations == reader.read(other)[0].pronunciations != ()


def test_pauses_and_noise_in_a_dictionary_are_no_phones(tmp_path: Path) -> None:
    text = "{BR} sil\n{LG} {LG}\n<unk>\tspn\n!SIL sil\n[noise] NSN\n++BR++ BR\ncat K AE1 T sp\ncat K AE1 T sil\n"
    path = written(tmp_path, text)
    found = read_dictionary(path)
    assert found.words == {"cat": (("k", "ae", "t"),)} and found.phones == ("ae", "k", "t")
    assert f"{path}: entries of pauses and noise, not used: {{br}}, {{lg}}, <unk>, !sil, [noise], ++br++" in found.note
    assert Pronouncer(path, None, named_inventory("cmu39")).read("cat")[0].pronunciations == (("k", "ae", "t"),)
    assert found.note in Pronouncer(path, None).notes()


def test_phones_are_divided_by_the_readings_of_the_words() -> None:
    assert divide("abxcd", ["ab", "", "cd"]) == [("a", "b"), (), ("x", "c", "d")]
    assert divide("kn", ["kan", "n"]) == [("k",), ("n",)]
    assert divide("", ["a", "b"]) == [(), ()]


@pytest.mark.parametrize("language", ["en", "en-us"])
def test_without_espeak_the_cmu_dictionary_reads_american_english_and_says_so(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speechctc.phones.pronouncer.is_installed", lambda: False)
    reader = Pronouncer(None, language)
    (word,) = reader.read("Thistle")
    assert word.pronunciations[0] == ("th", "ih", "s", "ah", "l")  # as the dictionary has it
    assert any("pip install" in note and "CMU dictionary" in note for note in reader.notes())
    british = Pronouncer(None, "en-gb")  # whose voice alone will do
    assert not any("CMU dictionary" in note for note in british.notes())
