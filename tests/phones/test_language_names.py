"""Languages by the codes and names that people and corpora write."""

from __future__ import annotations

import pytest

from speechctc.core.errors import InputError
from speechctc.phones.espeak import Reader, voices
from speechctc.phones.languages import alias_note, find_voice, voice_called
from speechctc.phones.pronouncer import Pronouncer

pytest.importorskip("espeakng_loader")


USUAL = """
    English=en-us French=fr-fr German=de Spanish=es Portuguese=pt Chinese=cmn Vietnamese=vi Armenian=hy Catalan=ca
    Norwegian=nb Irish=ga Mandarin=cmn cantonese=yue Burmese=my Mandarin_Chinese=cmn Chinese_(Mandarin)=cmn
    Irish_Gaelic=ga Brazil,_Portuguese=pt-br hu-HU=hu zh-CN=cmn zh-TW=cmn zh-HK=yue pt-PT=pt ga-IE=ga pt-BR=pt-br
    en-US=en-us en=en-gb es-MX=es-419 swe-SE=sv Gaeilge=ga Deutsch=de FRANÇAIS=fr-fr Bahasa_Indonesia=id Ελληνικά=el
    中文=cmn 粵語=yue Norsk=nb Tiếng_Việt=vi gle=ga tam=ta deu=de ger=de swe=sv eng=en-us zho=cmn
"""


@pytest.mark.parametrize(("name", "code"), [pair.replace("_", " ").split("=") for pair in USUAL.split()])
def test_the_usual_voice_of_a_name(name: str, code: str) -> None:
    assert find_voice(name, voices()).languages[0] == code


def test_every_code_and_name_of_espeak_is_its_own() -> None:
    from speechctc.phones.languages import _CODES, _RELATED, _USUAL

    spoken = {voice.languages[0] for voice in voices()}
    assert {*_CODES.values(), *_USUAL.values()} <= spoken
    assert not spoken & {*_CODES, *_USUAL, *_RELATED} and not {*_CODES} & {*_RELATED}
    assert {code for codes in _RELATED.values() for code in codes} <= spoken
    for voice in voices():
        assert find_voice(voice.languages[0], voices()).languages == find_voice(voice.name, voices()).languages


def test_a_name_of_several_languages_is_not_one_of_them() -> None:
    with pytest.raises(InputError, match=r"choose one: ga \(Gaelic \(Irish\)\), gd \(Gaelic \(Scottish\)\)"):
        find_voice("Gaelic", voices())
    for unknown in ("tusom", "nds", "Low German", "xx-HU", "xxq", "Gaelige"):
        with pytest.raises(InputError, match="does not speak") as caught:
            find_voice(unknown, voices())
        assert len(caught.value.fix) < 400  # it is said of each row


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("nds", "related: de (German), nl (Dutch)"),
        ("nds-NL", "related: de (German), nl (Dutch)"),
        ("Low German", "related: de (German), nl (Dutch)"),
        ("Gaelige", "the nearest by name: ga (Gaelic (Irish)), gd"),
        ("francais", "the nearest by name: fr-fr (French (France))"),
    ],
)
def test_of_a_language_that_is_not_spoken_the_nearest_is_named(name: str, near: str) -> None:
    with pytest.raises(InputError) as caught:
        find_voice(name, voices())
    assert near in caught.value.fix


def test_folders_are_not_called_by_codes_of_three_letters_or_by_parts_of_names() -> None:
    assert [voice_called(name, voices()) for name in ("ben", "dan", "central", "rec-2", "Gaelic")] == [None] * 5
    found = [voice_called(name, voices()) for name in ("English", "cy", "Welsh", "cmn")]
    assert [voice and voice.languages[0] for voice in found] == ["en-us", "cy", "cy", "cmn"]


def test_a_choice_is_said() -> None:
    said = {name: alias_note(name, find_voice(name, voices())) for name in ("English", "en-us", "Welsh", "HU", "hu-HU")}
    assert said == {
        "English": "the language 'English' is read as en-us (English (America))",
        "hu-HU": "the language 'hu-HU' is read as hu (Hungarian)",
        **dict.fromkeys(("en-us", "Welsh", "HU"), ""),
    }
    assert Reader("English").language == "en-us"
    assert said["English"] in Pronouncer(None, "English").notes()
