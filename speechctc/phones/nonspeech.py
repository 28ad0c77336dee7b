"""Tells labels of what is no speech from phones and words: pauses, noise and unclear speech, and a transcriber's marks.

A label is told by its brackets and by lists. Words in parentheses may be alternatives, so that lists alone decide on
them; between other brackets there is no word, but in a phrase ``<so and so>`` or in the letters of IPA.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from speechctc.core.errors import counted
from speechctc.phones.inventory import TABLES, nfc
from speechctc.phones.label_rules import is_surely_ipa
from speechctc.phones.nonspeech_labels import (
    ANY,
    EVENTS,
    PAUSE,
    PAUSES_IN_BRACKETS,
    Kind,
    is_event,
    kind_of_mark,
)

LEFT_OUT = ("no phones: ", "no words: ")
"""What a note on labels that were taken out begins with."""

_SAID_WITH = re.compile(rf"(?:{'|'.join(TABLES['said_with'].split())})[-_](\w[\w'-]*)", re.IGNORECASE)

_SIGNS = re.compile(r"([()|])")

# Bare words that are none in any text, and those that are only as they are spelt here.
_BARE_PAUSE = re.compile(r"sil|sp|SIL|h\#|[#~+_]+|!ENTER|!EXIT|SENT-START|SENT-END")
_BARE_NOISE = re.compile(  # CHAT's xxx and &=laughs, %hes, &mm, breath as .hh or °hh, laughter as @@
    r"spn|SPN|nsn|xxx?|XXX|yyy|www|%[^\W\d]+|&[-+=~*]\S*|&[aehmu]{1,4}|\?{2,}|\*{2,}|[.°]h+|h+°|h{2,}|@+"
)
_BARE_MARK = re.compile(r"[=^°↑↓/\\♪♫]+|>{1,3}|\+\W+")  # CHAT's +...
_MAY_BE_NONE = frozenset(("pause", "silence", "noise", "unk", "laughter", "laughs", "unclear", "inaudible"))

_PAIR = re.compile(r"<(?P<name>[^\W\d]\w*)(?:\s[^<>]*)?>(?P<inside>.*?)</(?P=name)\s*>", re.DOTALL)
_BREAK = re.compile(r"<br\s*/?>|</[^\W\d]\w*>", re.IGNORECASE)  # tags of HTML without another
_MAYBE_IPA = re.compile(r"\[([a-z]+)\]")
_KNOWN = "|".join(sorted(re.escape(name) for name in EVENTS | PAUSES_IN_BRACKETS | {"unk", "spn"}))
_LETTER = "[0-9A-Za-z\u00c0-\u02af\u0370-\u052f]"  # of a script with spaces: w[hile] and a(n) are words
_SPAN = re.compile(
    rf"[\[{{<](?:{_KNOWN})[\]}}>]|[\[<]\d{{1,3}}:\d\d(?::\d\d)?(?:[.,]\d+)?[\]>]|(?<!{_LETTER})(?:\(\([^()|]*\)\)|\([^()|]*\)|\[[^\[\]|]*\]|\{{[^{{}}|]*\}}|<[^<>|]*>"
    rf"|\#\d\d?:\d\d(?::\d\d)?(?:[-.,]\d+)?\#|\*+[^\W*][^*|()\n]*(?<=\S)\*+)(?!{_LETTER})",
    re.IGNORECASE,
)
_ANY_SIGN = re.compile(  # that the labels below have; most texts have none
    r"[()\[\]{}<>*#%&+~_=^°@↑↓/\\♪♫!（）［］【】｛｝＜＞：]|:(?!\S)|\?\?|^\s*\?|(?<!\S)[.…]|\b(?:sent-\w+|h+|sil|spn?|nsn|x{2,3}|yyy|www)\b",
    re.IGNORECASE,
)
_LONG_PAUSE = re.compile(r"pause (?:\w+=\S+|[\d.,]+ ?\w{0,3})")  # [pause 2.5 s], <pause dur="1"/>
_BOTH_SIDES = re.compile(r"^([A-Z@%]{1,5})\b(.*)\1$")  # <X so and so X>
_WIDE = str.maketrans("（）［］【】｛｝＜＞", "()[][]{}<>")
_TIME = re.compile(r"[\[<({#]?\d{1,2}:\d\d(?::\d\d)?(?:[-.,]\d+)?(?:\s*-+>?\s*\d{1,2}:\d\d[\d:.,]*)?[\])>}#]?")
_ENTITY = re.compile(r"&(?:#\d{1,6}|#x[0-9a-fA-F]{1,5}|[a-zA-Z]{2,8});")  # of HTML, which texts from pages have
_TIME_ALONE = re.compile(r"^[ \t]*(\d{1,2}:\d\d(?::\d\d)?)[ \t]*$", re.MULTILINE)  # as YouTube shows transcripts
_LINE = re.compile(
    rf"^([ \t]*(?:{_TIME.pattern}[ \t]+)?)([^\W_*]*[*\w][^:\n\[\](){{}}<>|]{{0,30}})(?::(?=\s|$)|：)", re.MULTILINE
)
_ROLE = re.compile(rf"(?:{'|'.join(TABLES['roles'].split())})(?:[ _.-]?(?:\d{{1,3}}|[a-z]))?", re.IGNORECASE)
_INITIALS = re.compile(r"\*[A-Z0-9_]{1,12}|[A-Z]{1,4}\d{0,3}|[A-Z]{2,12}[ _-]?\d{1,3}")


class NonSpeech:
    """Takes what is no speech out of transcripts, and counts it.

    Parameters
    ----------
    ignored : iterable of str
        More labels that are neither phones nor words.

    Attributes
    ----------
    found : dict of str to Counter of str
        By kind, what was taken out; under ``"word"``, what was not and may be no word.
    """

    def __init__(self, ignored: Iterable[str] = ()) -> None:
        self._ignored = {label for each in ignored for label in (nfc(each), *map(str.strip, nfc(each).split(",")))}
        self._ignored.discard("")
        self.found: dict[str, Counter[str]] = {kind: Counter() for kind in ("pause", "noise", "mark", "said", "word")}
        self._met: set[str] = set()

    def words(self, text: str) -> list[str]:
        """Return the words of a text in order, with `ANY` in place of noise.

        Lines may begin with who speaks: ``INT:``, ``SPEAKER 1:``, or a name that most lines begin with.
        """
        text = _ENTITY.sub(lambda found: html.unescape(found[0]), text)
        tokens = text.split() if self._is_plain(text) else self._told(text)
        self.found["word"].update(line for line in map(str.strip, text.splitlines()) if line.lower() in _MAY_BE_NONE)
        return tokens

    def _is_plain(self, text: str) -> bool:
        """Return whether a text has nothing that may be taken out."""
        return not self._ignored and _ANY_SIGN.search(text) is None and _TIME_ALONE.search(text) is None

    def _told(self, text: str) -> list[str]:
        """Return the words of a text; several noises in a row are one."""
        tokens: list[str] = []
        text = self._without_times(nfc(text.translate(_WIDE)))
        text = _PAIR.sub(self._inside, self._without_speakers(text))
        self.found["mark"].update(_BREAK.findall(text))
        for token in self._pieces(_BREAK.sub(" ", text)):
            if token != ANY or tokens[-1:] != [ANY]:
                tokens.append(token)
        return tokens

    def spoken(self, text: str) -> str:
        """Return the words of a text without noise."""
        return " ".join(token for token in self.words(text) if token not in (ANY, "(", ")"))

    def phones(self, labels: Sequence[str], is_known: Callable[[str], bool], silence: str = "") -> list[str]:
        """Return labels among phones, with `ANY` in place of noise and `silence`, if there is one, of pauses.

        Parameters
        ----------
        labels : sequence of str
        is_known : callable
            Tells of a label whether the model has it, so that it stays.
        silence : str
            The label of silence of a model that lacks others.
        """
        written: list[str] = []
        for label in labels:
            text = self._phone(label, is_known, silence)
            if text == label and not is_known(label):  # in a group, signs touch labels
                text = "".join(self._phone(part, is_known, silence) for part in _SIGNS.split(label) if part)
            if text and not (text in (silence, ANY) and text != label and written[-1:] == [text]):  # one after another
                written.append(text)
        return written

    def absent(self) -> list[str]:
        """Return the labels to ignore that did not occur."""
        parts = {label: {*map(str.strip, label.split(","))} for label in self._ignored if "," in label}
        whole = {label for label in parts if parts[label] & self._met}
        return sorted(self._ignored - self._met - whole)

    def notes(self, what: str, noise_as: str = "left out", silence: str = "") -> list[str]:
        """Return in a line what was taken out of `what`, with counts, and in another what may be none."""
        names = {
            "pause": f"pauses, {f'written as {silence}' if silence else 'left out'}",
            "noise": f"noise and unclear speech, {noise_as}",
            "mark": "marks and speakers, left out",
        }
        parts = [f"{name}: {counted(self.found[kind], 12)}" for kind, name in names.items() if self.found[kind]]
        lines = [f"no {what}: {'; '.join(parts)}"] if parts else []  # begins with one of `LEFT_OUT`
        if said := +self.found["said"]:
            lines.append(f"words in brackets, read without what is said of them: {counted(said, 12)}")
        if doubtful := self.found["word"]:
            lines.append(
                f"read as words, though they stand alone or begin a line, and may be none: {counted(doubtful)}"
            )
        if unknown := [found[1] for label in self.found["noise"] if (found := _MAYBE_IPA.fullmatch(label))]:
            if other := [name for name in unknown if kind_of_mark(name) is None and not is_event(f"{name} noise")]:
                lines.append(
                    f"[{other[0]}]: no word, as it is between square brackets; if it is IPA, write /{other[0]}/"
                )
        return lines

    def _take(self, kind: Kind, label: str) -> Iterator[str]:
        """Count a label; yield what stands in its place."""
        self.found[kind][" ".join(label.split())] += 1
        if kind == "noise":
            yield ANY

    def _is_ignored(self, label: str) -> bool:
        found = label if label in self._ignored else label.strip(".,;:!?")
        if found in self._ignored:
            self._met.add(found)
        return found in self._ignored

    def _phone(self, label: str, is_known: Callable[[str], bool], silence: str) -> str:
        if label == ANY or label in tuple("()|"):
            return label
        if self._is_ignored(nfc(label)):
            self.found["noise"][label] += 1
            return ANY
        if is_known(label):
            return label
        if (kind := kind_of_mark(label)) is None:
            return label
        self.found[kind][label] += 1
        return ANY if kind == "noise" else silence

    def _inside(self, match: re.Match[str]) -> str:
        """Return the words between two tags."""
        name = match["name"]
        self.found["mark"][f"<{name}>"] += 1
        return f" {match['inside']} "

    def _without_times(self, text: str) -> str:
        """Return a text without lines that are a time, if it has several."""
        if len(times := _TIME_ALONE.findall(text)) > 1:
            self.found["mark"].update(times)
            text = _TIME_ALONE.sub("", text)
        return text

    def _without_speakers(self, text: str) -> str:
        """Return a text without the names of who speaks at the beginning of its lines."""
        labels = Counter(match[2].strip() for match in _LINE.finditer(text))
        if not labels:
            return text
        lines = sum(map(bool, map(str.strip, text.splitlines())))
        named = sum(count for label, count in labels.items() if label[:1].isupper() and len(label.split()) < 4)
        shouted = _LINE.sub("", text).isupper()

        def is_speaker(label: str) -> bool:
            if _ROLE.fullmatch(label) or label.startswith("*"):
                return True
            if _INITIALS.fullmatch(label) and (not shouted or len(label) == 1 or label[-1].isdigit()):
                return True
            return labels[label] > 1 and label[:1].isupper() and 2 * named > lines

        def without(match: re.Match[str]) -> str:
            label = match[2].strip()
            if not is_speaker(label):
                self.found["word"].update([f"{label}:"] if named == lines > 1 else [])
                return match[0]
            self.found["mark"][f"{label}:"] += 1
            return match[1]

        return _LINE.sub(without, text)

    def _pieces(self, text: str) -> Iterator[str]:
        """Yield the words of a text, between its brackets and in them."""
        done = 0
        for match in _SPAN.finditer(text):
            yield from self._bare(text[done : match.start()].split())
            yield from self._bracketed(match[0])
            done = match.end()
        yield from self._bare(text[done:].split())

    def _bracketed(self, span: str) -> Iterator[str]:
        if self._is_ignored(span):
            yield from self._take("noise", span)
            return
        kind, words = _kind_of_span(span)
        if kind is not None:
            yield from self._take(kind, span)
        elif span[0] == "(":
            yield from ("(", *self._pieces(words), ")")
        elif words == span:  # of IPA
            yield span
        else:
            self.found["said"][span] += words != span[1:-1].strip()
            yield from self._pieces(words)

    def _bare(self, tokens: Sequence[str]) -> Iterator[str]:
        for k, token in enumerate(tokens):
            if self._is_ignored(token):
                yield from self._take("noise", token)
                continue
            beside = "".join((*tokens[k - 1 : k], *tokens[k + 1 : k + 2])) if k else ""
            is_sum = any(map(str.isdigit, beside)) and not token.isalnum()  # 2 + 2
            kind = None if is_sum else _kind_of_bare(token, len(tokens) == 1)
            if kind is not None:
                yield from self._take(kind, token)
            elif token.strip(".…"):  # a full stop alone is no word
                yield token


def _kind_of_bare(token: str, alone: bool) -> Kind | None:
    """Return what a word without brackets is; None: a word, or punctuation."""
    name = token.rstrip(".,;:!") or token
    if _BARE_MARK.fullmatch(token) or (_TIME.fullmatch(name) and name[0] == "#"):
        return "mark"
    if _BARE_PAUSE.fullmatch(name) or PAUSE.fullmatch(name) or (alone and name == "SP"):
        return "pause"
    if _BARE_NOISE.fullmatch(name) or (alone and name == "?"):
        return "noise"
    return None


def _kind_of_span(span: str) -> tuple[Kind | None, str]:
    """Return what stands in brackets, or None and its words; IPA stays in its brackets."""
    inside = span.strip("()[]{}<>#*").strip()
    name = " ".join(inside.lower().split()).strip("!/;,")
    if PAUSE.fullmatch(f"({inside})") and (span[0] == "(" or inside.strip(".…")):  # [...] is left out by an author
        return "pause", ""
    if (name.replace(" ", "-") in PAUSES_IN_BRACKETS and span != "(p)") or _LONG_PAUSE.fullmatch(name):
        return "pause", ""
    if span[0] == "#" or _TIME.fullmatch(inside) or name == "sic":
        return "mark", ""
    if (said := _SAID_WITH.fullmatch(inside)) and span[0] in "[<{" and not is_event(said[1].lower()):
        return None, said[1]
    if is_event(name) or re.fullmatch(r"x{2,3}|yyy|www|\?+|h+|hx", name) or span[:2] == "((" or span[0] == "*":
        return "noise", ""
    if span[0] == "(":
        return None, inside
    if not inside or (span[0] == "[" and inside[0] in "/:=%+^!<>*") or inside[0] == "/" or inside == "s":
        return "mark", ""
    if span[0] == "<" and len(inside.split()) > 1 and "=" not in inside:
        return ("mark", "") if name.startswith("v ") else (None, _BOTH_SIDES.sub(r"\2", inside))  # VTT's <v Anna>
    return (None, span) if is_surely_ipa(inside) else ("noise", "")
