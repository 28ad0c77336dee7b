"""Every phoneme of every language of eSpeak NG becomes a label of the IPA."""

from __future__ import annotations

import re
import struct
import unicodedata
from pathlib import Path

import pytest

from speechctc.phones.espeak import Synthesiser, ipa_phones
from speechctc.phones.languages import Voice

pytest.importorskip("espeakng_loader")

# The letters and diacritics of the chart of the International Phonetic Association, revised to 2020, apart from the
# tables of the package. Length marks, tie bars and superscript letters are diacritics here. ɫ is l with a diacritic and
# ɚ is ə with one; ʦ is not on the chart.
LETTERS = frozenset(
    "pbtdʈɖcɟkɡgqɢʔmɱnɳɲŋɴʙrʀⱱɾɽɸβfvθðszʃʒʂʐçʝxɣχʁħʕhɦɬɮʋɹɻjɰlɭʎʟʘǀǃǂǁɓɗʄɠʛʍwɥʜʢʡɕʑɺɧiyɨʉɯuɪʏʊeøɘɵɤoəɛœɜɞʌɔæɐaɶɑɒɫɚ"
)
DIACRITICS = frozenset("ʰʷʲˠˤʼːˑ˞ⁿˡ") | frozenset(
    "\u0325\u030a\u032c\u0339\u031c\u031f\u0320\u0308\u033d\u0329\u030d\u032f\u0324\u0330\u033c\u032a\u033a\u033b\u0334"
    "\u031d\u031e\u0318\u0319\u0303\u031a\u0306\u0361\u035c\u031f"
)
EXTENSIONS = {
    "\u0348": "strong articulation (extensions to the IPA, 2015): the tense stops of Korean",
    "ˀ": "creaky or glottalised, as Unicode has it and as is usual for the stød of Danish",
    "ᵝ": "compressed lips, as is usual for the u of Japanese",
}
TEMPLATES = "#"  # the first character of phonemes that others are made from, and that no word has


def tables(data: Path) -> dict[str, list[bytes]]:
    """Return the mnemonics of every table of phonemes, with those of the table that it adds to."""
    raw = (data / "phontab").read_bytes()
    place, all_of = 4, list[dict[int, bytes]]()
    named: dict[str, list[bytes]] = {}
    for _ in range(raw[0]):
        count, base = raw[place], raw[place + 1]
        name = raw[place + 4 : place + 36].split(b"\0")[0].decode()
        place += 36
        phonemes = dict(all_of[base - 1]) if base else {}
        for _ in range(count):
            mnemonic, code = raw[place : place + 4].split(b"\0")[0], struct.unpack_from("<10xB", raw, place)[0]
            if raw[place + 11] > 1:  # neither a pause nor a stress or tone
                phonemes[code] = mnemonic
            place += 16
        all_of.append(phonemes)
        named[name] = [each for each in phonemes.values() if not each.decode("latin1").startswith(TEMPLATES)]
    return named


def table_of(voice: Voice, data: Path, named: dict[str, list[bytes]]) -> list[bytes]:
    """Return the mnemonics of a voice."""
    file = next(place / voice.file for place in (data / "lang", data / "voices") if (place / voice.file).is_file())
    told = re.search(r"^phonemes\s+(\S+)", file.read_text(errors="replace"), re.MULTILINE)
    code = voice.languages[0]
    return named[told[1] if told else code if code in named else code.partition("-")[0]]


def what_is_not_ipa(label: str) -> str:
    """Return what of a label is not IPA; empty where it is one, of one or two letters and their diacritics."""
    signs = unicodedata.normalize("NFD", label).replace("c\u0327", "ç")
    rest = "".join(sign for sign in signs if sign not in LETTERS | DIACRITICS | set(EXTENSIONS))
    letters = [sign for sign in signs if sign in LETTERS]
    return rest or ("" if 1 <= len(letters) <= 2 and signs[0] in LETTERS else "letters")


@pytest.fixture(scope="module")
def speaker() -> Synthesiser:
    return Synthesiser(ipa=True)


def names_of(speaker: Synthesiser, mnemonic: bytes) -> list[str]:
    """Return the names of the phonemes that eSpeak NG speaks for one of its mnemonics."""
    library = speaker._library
    library.phonemes, library.samples, library._keep = [], [], False
    text = b"[[" + mnemonic + b"]]"
    library._library.espeak_Synth(text, len(text) + 1, 0, 1, 0, 1 | 0x100, None, None)  # UTF-8, phonemes in brackets
    return [name for _, name in library.phonemes]


def test_each_phoneme_of_each_language_is_ipa(speaker: Synthesiser) -> None:
    named = tables(speaker.data)
    foreign: dict[tuple[str, str], str] = {}
    seen = set()
    for voice in speaker.voices():
        code = voice.languages[0]
        speaker.choose("", 400, 50, voice.file)
        for mnemonic in table_of(voice, speaker.data, named):
            for piece in ipa_phones([name for name in names_of(speaker, mnemonic) if not name.startswith("(")], code):
                seen.add(piece.label)
                if wrong := what_is_not_ipa(piece.label):
                    foreign[code, piece.label] = f"{mnemonic.decode('latin1')}: {wrong}"
    assert len(seen) > 250
    assert foreign == {}


def test_the_table_of_the_chart_refuses_mnemonics() -> None:
    refused = ["ts.", "ts.h", "o-", "s^", "d[", "1", "a`", 'u"', "K", "N", "", "ʰa", "aɪə", "ᵻ"]
    assert all(what_is_not_ipa(each) for each in refused)
    assert not any(what_is_not_ipa(each) for each in ("ʈʂʰ", "t͡ɬʼ", "r̝̊", "ɐ̃ʊ", "ɡ", "t̪ˤː"))


@pytest.mark.parametrize(
    ("language", "names", "labels"),
    [
        ("cmn", ["ts.h", "i.", "th", "o-", "onɡ"], ["ʈʂʰ", "ɨ", "tʰ", "ɤ", "o", "ŋ"]),
        ("fr", ["ə-", "a-", "y-", "E-"[:0]], ["ə", "a", "y"]),
        ("et", ["s^", "t^", "d^"], ["sʲ", "tʲ", "dʲ"]),
        ("ky", ["d[", "oe", "l-"], ["d̪", "ø", "ɫ"]),
        ("lv", ["z-", "t͡s", "a`"], ["z", "ts", "a"]),
        ("fa", ["q", "1", "a"], ["q", "a"]),
        ("lt", ["nʲ", "ʲ", "a"], ["nʲ", "a"]),
        ("vi", ["t̪", "y", "", "n", "yə", "c"], ["t̪", "ɯ", "n", "ɯə", "c"]),
        ("fr", ["t", "y"], ["t", "y"]),
        ("yue", ["z", "oenɡ", "", "s", "a", "p", "", "d", "aai"], ["ts", "œ", "ŋ", "s", "ɐ", "p", "t", "aːi"]),
        ("yue", ["t", "aa", "k"], ["tʰ", "aː", "k"]),
        ("my", ["th", "ht"], ["θ", "tʰ"]),
        ("da", ["h", "ʔu", "n"], ["h", "uˀ", "n"]),
        ("chr", ["ẽ`", "ɒ̃`", "k`"], ["ẽ", "ɒ̃", "kʼ"]),
    ],
)
def test_names_that_are_no_ipa(language: str, names: list[str], labels: list[str]) -> None:
    assert [piece.label for piece in ipa_phones(names, language)] == labels
