"""What is no word and no phone: pauses, noise and unclear speech, a transcriber's marks; and what looks like one."""

from __future__ import annotations

import pytest

from speechctc.phones.inventory import CMU39, TIMIT61
from speechctc.phones.nonspeech import NonSpeech
from speechctc.phones.nonspeech_labels import ANY, kind_of_phone

PAUSES = (
    "## SENT-END (0.5) (.) (...) (2) (1,5s) [pause] (Pause) <p:> <eps> <sil> <SIL> sil"
    " sp SIL !SIL SIL_S {SL} # _ ~ + <P> [silence]"
)
NOISES = (
    "[noise] (laughs) <unk> <UNK> {BR} {NS} {laugh} ((unclear)) xxx yyy www &-uh &=laughs %hes <breath> spn <usb>"
    " *wash* <VOCNOISE> {B_TRANS} <SPOKEN_NOISE> [vocalized-noise] (lachen) [смех] （笑） [door_slam] ??? (Husten)"
    " .hh °hh hh° @@ (TSK) <nib> &mm &uh"
)
PHRASES = (
    "[inaudible 00:12]",
    "(loud background noise)",
    "[speaks Welsh]",
    "(clears throat)",
    "((so he said))",
    "[pause for thought]",
    "[laughs softly]",
    "(räuspert sich)",
)
MARKS = "[/] [//] +... [00:01:12] #00:01:12-3# (00:12) (sic) <s> ♪ >>"


def words(text: str, *ignored: str) -> tuple[str, dict[str, int]]:
    """Return the words of a text, and by kind how many labels were taken out."""
    found = NonSpeech(ignored)
    return " ".join(found.words(text)), {kind: each.total() for kind, each in found.found.items() if each.total()}


@pytest.mark.parametrize("mark", PAUSES.split())
def test_a_pause_between_words_goes(mark: str) -> None:
    assert words(f"small {mark} boats") == ("small boats", {"pause": 1})
    assert words(f"{mark} small boats {mark}") == ("small boats", {"pause": 2})


@pytest.mark.parametrize("mark", [*NOISES.split(), *PHRASES])
def test_a_noise_between_words_is_any_sound(mark: str) -> None:
    assert words(f"small {mark} boats") == ("small * boats", {"noise": 1})
    assert words(f"{mark} {mark} small boats, {mark}") == ("* small boats, *", {"noise": 3})
    assert NonSpeech().spoken(f"small {mark} boats") == "small boats"


@pytest.mark.parametrize("mark", MARKS.split())
def test_a_mark_between_words_goes(mark: str) -> None:
    assert words(f"small {mark} boats") == ("small boats", {"mark": 1})


def test_entities_are_their_characters() -> None:
    assert words("don&#39;t R&amp;B &lt;laugh&gt;") == ("don't R&B *", {"noise": 1})
    assert words("AT&T; so &nosuch; it") == ("AT&T; so &nosuch; it", {})


def test_times_of_lines_go() -> None:
    assert words("[00:12.34]small\n<1:02:03,5>boats") == ("small boats", {"mark": 2})
    assert words("0:00\nsmall\n 0:12\nboats at\n1:02:03\nlate") == ("small boats at late", {"mark": 3})
    assert words("at\n12:30\nlate") == ("at 12:30 late", {})


@pytest.mark.parametrize(
    "text",
    [
        "(a|b c|) (laughs|) (noise|*)",
        "the noise of silence, a pause; unk and Unk, Ähm, laughter",
        "w[hile]- a(n) R&B R & B 2 + 2 50 % 7 / 8 5 * 3",
        "[tʰæp] /wɔːtə/ ˈpɔː.tə k{t",
        "Note: this is said. He left at 12:30: late",
        "MY SISTER: PAINTS",
        "hello ? yes -- no - well…",
        "spa silk spn2 exxon Sil SP wwwx",
    ],
)
def test_words_that_look_like_one_stay(text: str) -> None:
    assert words(text) == (text, {})


def test_words_in_parentheses_stay_alternatives() -> None:
    assert words("(small boats) near (1996)") == ("( small boats ) near ( 1996 )", {})
    assert words("(click) (garbage) (pause for thought)") == ("( click ) ( garbage ) ( pause for thought )", {})
    assert words("(the [noise] boat)") == ("( the * boat )", {"noise": 1})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[laughter-small] <LAUGH-boats> <X near X>", "small boats near"),
        ("<I want> [/] I want it", "I want I want it"),
        ('<foreign lang="cy">bore da</foreign> my <b>dear</b>', "bore da my dear"),
        ("<HES-uhm> [laughter-noise] so", "* so"),
    ],
)
def test_words_inside_brackets_that_say_how_are_read(text: str, said: str) -> None:
    assert words(text)[0] == said


@pytest.mark.parametrize(
    "name", "SPEAKER 1|SPEAKER_00|Speaker B|A|INT|S1|P01|*CHI|Interviewer|Sprecherin 2|Q".split("|")
)
def test_who_speaks_is_no_word_at_the_beginning_of_a_line(name: str) -> None:
    assert words(f"{name}: small boats\n[00:12] {name}: near") == ("small boats near", {"mark": 3})
    assert words(f"small {name} boats")[0].startswith("small") and not words(f"small {name} boats")[1]


def test_names_are_speakers_where_most_lines_begin_with_one() -> None:
    assert words("Anna: hi\nBen Hur: yes\nAnna: and so: go\nBen Hur: no") == ("hi yes and so: go no", {"mark": 4})
    assert words("Anna: hi\nand so on\nand on\nmore\nto come") == ("Anna: hi and so on and on more to come", {})


def test_names_that_begin_all_lines_once_are_words_and_said() -> None:
    found = NonSpeech()
    assert found.words("Anna: hi\nBen: no") == ["Anna:", "hi", "Ben:", "no"]
    (note,) = found.notes("words")
    assert note.startswith("read as words") and note.endswith("may be none: Anna: (1), Ben: (1)")
    assert not NonSpeech().notes("words") and words("Note: this is said\nand this")[1] == {}


def test_tags_of_html_are_marks() -> None:
    assert words("small<br>boats near<br/> the harbour</p>") == ("small boats near the harbour", {"mark": 3})


def test_a_word_in_square_brackets_that_may_be_ipa_is_said() -> None:
    found = NonSpeech()
    assert found.words("small [kata] boats [noise] near [background]") == ["small", ANY, "boats", ANY, "near", ANY]
    assert found.notes("words")[1:] == ["[kata]: no word, as it is between square brackets; if it is IPA, write /kata/"]


def test_labels_are_added_and_missed() -> None:
    found = NonSpeech(["uhm,door", "(aside)", "absent"])
    assert found.words("uhm, my door (aside) uhm") == [ANY, "my", ANY]
    assert found.found["noise"] == {"uhm,": 1, "door": 1, "(aside)": 1, "uhm": 1} and found.absent() == ["absent"]


def test_what_was_taken_is_said_once_with_counts() -> None:
    found = NonSpeech()
    for text in ("sp so [noise] sp", "A: [noise]", "noise"):
        found.words(text)
    first, second = found.notes("words", "any sound")
    taken = ("pauses, left out: sp (2)", "noise and unclear speech, any sound: [noise] (2)")
    assert first == f"no words: {'; '.join(taken)}; marks and speakers, left out: A: (1)"
    assert second == "read as words, though they stand alone or begin a line, and may be none: noise (1)"


def test_phones_are_told_from_pauses_and_noise() -> None:
    pauses = "h# sil sp pau epi <p:> <pː> _ # (0.5) (.) SIL_S SIL <eps> {SL} - #h sil1 <s>".split()
    noises = "? xxx (laugh) spn VOCNOISE {B_TRANS} [breath] <unk> ((x)) {NS} *** [Smack] SPN_S spn_S xxxx %hes".split()
    assert {kind_of_phone(label) for label in (*pauses, "")} == {"pause"}
    assert {kind_of_phone(label) for label in noises} == {"noise"}
    phones = [*(phone for phone in TIMIT61 if phone not in ("h#", "pau", "epi")), *CMU39]
    others = "(ə) [tʰ] [ts] <dz> { @ < ʔ (p) [p] (h) [hh] ns ǃ tʃ a˥˧ <b>".split()
    assert {label: kind for label in (*phones, *others) if (kind := kind_of_phone(label))} == {}


def test_pauses_and_noise_among_phones() -> None:
    def read(labels: str, silence: str = "") -> str:
        return " ".join(NonSpeech(["zz"]).phones(labels.split(), "a b sil2".split().__contains__, silence))

    assert read("h# a (h#|b) xxx ? * ns zz (a|xxx) sp") == "a (|b) * * (a|*)"
    assert read("h# sp a sil2 pau b", "sil2") == "sil2 a sil2 b"
    assert read("q a") == "q a"
