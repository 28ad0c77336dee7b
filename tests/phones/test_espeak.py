"""The one library of a process serves several synthesisers."""

from speechctc.phones.espeak import Synthesiser


def test_no_phoneme_is_lost_where_many_voices_are_chosen_before() -> None:
    synthesiser = Synthesiser()
    for k in range(60):
        synthesiser.choose(("m3", "f3")[k % 2], 160, 50)
    assert [phoneme.name for phoneme in synthesiser.speak("shoe").phonemes][:2] == ["S", "u:"]


def test_two_synthesisers_take_turns() -> None:
    ipa, own = Synthesiser(ipa=True), Synthesiser()
    ipa.choose("", 175, 50, "roa/it")
    own.choose("m3", 175, 50)
    for _ in range(2):
        assert [phoneme.name for phoneme in ipa.speak("che").phonemes][:2] == ["k", "e"]
        assert [phoneme.name for phoneme in own.speak("shoe").phonemes][:2] == ["S", "u:"]
        assert own.speak("shoe", keep=False).samples.size == 0 < own.speak("shoe").samples.size
