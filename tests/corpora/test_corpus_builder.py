import random
from collections import Counter
from dataclasses import replace
from itertools import chain, product
from pathlib import Path

import pytest

from speechctc.config.schema import CorpusConfig
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.corpora.corpus_builder import CorpusBuilder, choose_dev, doubtful_labels, hold_out, not_phones
from speechctc.phones.inventory import named_inventory


def utterances(speakers: list[str], each: int = 3) -> list[Utterance]:
    return [Utterance(f"{name}-{k}", Path("a.wav"), ("a",), name) for name in speakers for k in range(each)]


@pytest.mark.parametrize(("share", "count"), [(0.1, 2), (0.01, 1), (0.5, 10), (0.99, 19)])
def test_whole_speakers_are_held_out_by_share(share: float, count: int) -> None:
    everyone = utterances([f"s{k}" for k in range(20)])
    held, note = choose_dev(everyone, share)
    assert len(held) == 3 * count
    assert len({utterance.speaker for utterance in everyone if utterance.id in held}) == count
    assert f"dev: {count} of 20 training speakers" in note


@pytest.mark.parametrize(("speakers", "why"), [(["one"], "all are by one speaker"), (["one", ""], "not all name")])
def test_without_several_known_speakers_single_utterances_are_held_out(speakers: list[str], why: str) -> None:
    held, note = choose_dev(utterances(speakers, 10), 0.1)
    assert len(held) == len(speakers)
    assert why in note


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("speakers", [True, False])
def test_each_language_of_several_speakers_is_in_dev_and_in_training(number: int, speakers: bool) -> None:
    languages = {f"{number}{k}": "mt" if k < 14 else "vi" if k < 18 else "ka" if k < 20 else "cy" for k in range(21)}
    everyone = [
        Utterance(f"{name}-{k}", Path("a.wav"), ("a",), name if speakers else "", traits=(("language", language),))
        for name, language in languages.items()
        for k in range(2)
    ]
    held, _ = choose_dev(everyone, 0.15 if speakers else 0.1)
    dev = {each.trait("language") for each in everyone if each.id in held}
    assert dev >= {"mt", "vi", "ka"} and (not speakers or len(held) == 6 and "cy" not in dev)
    assert {each.trait("language") for each in everyone if each.id not in held} == {"mt", "vi", "ka", "cy"}
    two, _ = choose_dev(everyone, 0.01)
    assert len(two) == (2 if speakers else 1)


def test_a_rare_label_does_not_keep_a_language_from_dev() -> None:
    texts = {
        f"{language}{k}": ["ab"] * 6 + [f"a{k}" * (language == "ka")] for language in ("mt", "ka") for k in range(2)
    }
    everyone = [replace(each, traits=(("language", each.id[:2]),)) for each in labelled(texts)]
    held, _ = choose_dev(everyone, 0.5)
    assert {id[:2] for id in held} == {"mt", "ka"} and len(held) == 14


def test_languages_without_dev_are_warned_of() -> None:
    builder = CorpusBuilder(None)
    for name, language in (("a", "mt"), ("b", "mt"), ("c", "ka"), ("d", "ka"), ("e", "cy")):
        builder.utterances["train"].append(
            Utterance(name, Path("a.wav"), ("a",), name, traits=(("language", language),))
        )
    (warning,) = builder.to_corpus(0.4, True).warnings
    assert "dev has no utterance of some languages (with their utterances in training): cy (1); raise" in warning


def labelled(phones: dict[str, list[str]]) -> list[Utterance]:
    """Return the utterances of each speaker, which are strings of phones of one letter."""
    return [
        Utterance(f"{name}-{k}", Path("a.wav"), tuple(text), name)
        for name, texts in phones.items()
        for k, text in enumerate(texts)
    ]


@pytest.mark.parametrize("own", [f"s{k}" for k in range(6)])
def test_a_speaker_with_labels_of_its_own_stays_in_training(own: str) -> None:
    """Whichever speaker the order of names would have held out first: here each of them in turn."""
    texts = {f"s{k}": ["ab", "ba", "aab"] for k in range(6)}
    everyone = labelled({**texts, own: ["ab", "aq", "bq"]})
    held, _ = choose_dev(everyone, 0.4)
    assert len(held) == 6 and not any(id.startswith(own) for id in held)


def test_folders_of_languages_share_the_labels_of_dev() -> None:
    """Each of three languages has a phone of its own, so that utterances are held out in place of languages."""
    languages = {name: ["abc", "ab", f"a{name}", f"b{name}", f"ac{name}", "bca"] for name in "xyz"}
    everyone = labelled(languages)
    held, note = choose_dev(everyone, 0.3)
    assert len(held) == round(0.3 * 18)
    stays = {phone for each in everyone if each.id not in held for phone in each.phones}
    assert {phone for each in everyone if each.id in held for phone in each.phones} <= stays
    assert "too few of 3 speakers can be held out, because" in note and "voices of dev are also in training" in note


def test_a_rare_label_does_not_keep_every_speaker_from_dev() -> None:
    texts = {f"s{k}": ["ab"] * 19 + [f"a{k}"] for k in range(5)}
    held, note = choose_dev(labelled(texts), 0.2)
    assert len(held) == 20 and "1 of 5 training speakers" in note


@pytest.mark.parametrize("names", [range(6), range(6, 12), range(20, 26)])
def test_of_six_recordings_one_is_held_out_whose_labels_are_in_the_others(names: range) -> None:
    texts = dict(zip(map(str, names), ["pata", "taka", "kapi", "tipa", "zapa", "pax"], strict=True))
    held = hold_out({name: [text] for name, text in texts.items()}, 1)
    assert len(held) == 1 and texts[held[0]] in {"pata", "taka", "kapi", "tipa"}
    others = "".join(text for name, text in texts.items() if name not in held)
    assert set(texts[held[0]]) <= set(others)


def test_nothing_is_held_out_where_each_recording_has_a_label_of_its_own() -> None:
    held, note = choose_dev(labelled({"": ["ab", "cd", "ef"]}), 0.3)
    assert not held and "each utterance has a label that no other has" in note


def words(texts: dict[str, int], speaker: str = "") -> list[Utterance]:
    """Return so many utterances of each text, by name in an order in which no text is together."""
    everyone = [text for text, count in texts.items() for _ in range(count)]
    return [
        Utterance(f"{k:03d}", Path("a.wav"), tuple(text), speaker)
        for k, text in enumerate(random.Random(0).sample(everyone, len(everyone)))
    ]


WORDS = {"".join(pair): 3 for pair in product("abcdef", "uvwxyz")}


@pytest.mark.parametrize("speaker", ["", "one"])
@pytest.mark.parametrize("texts", [WORDS, WORDS | {"ab": 60, "": 20}])
def test_utterances_of_a_word_are_held_out_together(speaker: str, texts: dict[str, int]) -> None:
    """A word that is more than dev should have stays in training; recordings of silence are no word."""
    everyone = words(texts, speaker)
    held, note = choose_dev(everyone, 0.15)
    dev, train = ([each.phones for each in everyone if (each.id in held) == is_dev] for is_dev in (True, False))
    assert not {*filter(None, dev)} & {*train} and ("a", "b") not in dev
    assert 0 <= round(0.15 * len(everyone)) - len(dev) < 3 and set(chain(*dev)) <= set(chain(*train))
    assert f"dev: {len(dev)} of {len(everyone)} training utterances" in note


@pytest.mark.parametrize("texts", [{"ab": 20, "ba": 20, "aab": 20}, {f"{k}ab": 3 for k in "cdefgh"}])
def test_where_words_are_too_few_some_utterances_of_them_are_held_out(texts: dict[str, int]) -> None:
    """Three words, or words whose labels no other has."""
    builder = CorpusBuilder(None)
    builder.utterances["train"] += words(texts)
    corpus = builder.to_corpus(0.2, True)
    count = round(0.2 * sum(texts.values()))
    assert len(corpus.splits["dev"]) == count
    assert corpus.repeats("dev").startswith(f"dev: {count} of {count} utterances have the labels of one in training")


@pytest.mark.parametrize(("count", "said"), [(2, False), (3, True), (0, False)])
def test_labels_that_are_trained_on_are_counted(count: int, said: bool) -> None:
    train, dev = words({"ab": 2, "": 9}), words({"ab": count, "ba": 10, "": 9})
    corpus = Corpus({"train": tuple(train), "dev": tuple(dev), "test": ()}, "found").with_repeats()
    expected = f"dev: {count} of {len(dev)} utterances have the labels of one in training"
    assert [warning.startswith(expected) for warning in corpus.warnings] == [True] * said


def test_noise_is_told_from_pauses_and_from_phones_in_brackets() -> None:
    noise = {"<laugh>", "[laughter]", "(cough)", "XXX", "xxx", "***"}
    pauses = {"<sil>", "SIL", "<p:>", "<PAUSE>"}
    found = {kind: set(there) for kind, there, _ in not_phones(Counter([*noise, *pauses, "(ə)", "[tʰ]", "a", "*"]))}
    assert found == {"pauses": pauses, "unclear speech": noise | {"*"}}


def test_a_named_set_has_no_pauses_and_noise() -> None:
    builder = CorpusBuilder(named_inventory("cmu39"))
    assert builder.labels("sil AY1 sp M spn S [breath] sil".split()) == (["ay", "m", "s"], [1, 3, 5])
    assert builder.labels(["sil"]) == ([], []) and builder.labels([]) == ([], [])
    with pytest.raises(InputError, match="no phones in it, only noise and unclear speech: xxx"):
        builder.labels(["sil", "xxx"])
    with pytest.raises(InputError, match="the label 'gone' is not in the phone set cmu39"):
        builder.labels(["sil", "gone"])
    (note,) = [note for note in builder.to_corpus(0.1, True).notes if note.startswith("no phones: ")]
    assert note.endswith("sil (5), sp (1); noise and unclear speech, left out: [breath] (1), spn (1), xxx (1)"), note
    assert CorpusBuilder(named_inventory("timit61")).labels(["h#", "pau", "sh"])[0] == ["h#", "pau", "sh"]


def test_noise_is_not_divided_into_phones() -> None:
    builder = CorpusBuilder.for_config(CorpusConfig(kind="textgrid", segment="ipa"))
    assert builder.labels(["tak", "<unk>", "xxx", "sil", "ma [noise] na"]) == ([*"takmana"], [0, 0, 0, 4, 4, 4, 4])
    assert builder.labels(["sil"])[0] == [*"sil"], "alone it is a word"
    assert any("[noise] (1), xxx (1)" in note and "sil (1)" in note for note in builder.to_corpus(0.1, True).notes)


@pytest.mark.parametrize("odd", ["t>d", "*t", "t/d", "[t]", "/t/", "t(h)", "<pz>", "t,d", "t?", "t)"])
def test_labels_with_signs_that_no_phone_has_are_named(odd: str) -> None:
    assert any("signs that no phone has" in each and f": {odd} (1)" in each for each in warnings([odd, "a", "t"]))


@pytest.mark.parametrize("phone", ["t_>", "b_<", ">\\", "{", "}", "ʔ", "(.)", "<p:>", "[noise]", "tʼ", "a˥˧", "ǃ"])
def test_phones_with_odd_signs_are_not(phone: str) -> None:
    assert not any("signs that no phone has" in each for each in warnings([phone, "a", "t"]))


def warnings(labels: list[str]) -> list[str]:
    counts = Counter(labels)
    return doubtful_labels(counts, counts)
