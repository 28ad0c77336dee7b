"""Reads the JSON that speech recognisers write, and calls by its name what is not read of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from speechctc.audio.annotations import Interval

WHISPER = "a transcript of Whisper"  # of faster-whisper and WhisperX, too
_SIGNS = re.compile(r'"(?:segments|transcription|results?|words|recognizedPhrases)"\s*:\s*[\[{]')

Values = Mapping[str, Any]


class Recognised(NamedTuple):
    """What a recogniser wrote: its kind in words, and phrases or words with times; none of a kind that is not read."""

    kind: str
    entries: list[Interval]


def of_recogniser(text: str) -> Recognised | None:
    """Return the words or phrases in the JSON of a recogniser; None of other texts."""
    if not text.lstrip().startswith("{") or _SIGNS.search(text) is None:
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    for kind, read in _READ.items():
        try:
            if entries := read(values):
                return Recognised(kind, entries)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            continue
    return next((Recognised(kind, []) for kind, is_meant in _NAMED.items() if is_meant(values)), None)


def _segments(values: Values) -> list[Interval]:
    return [Interval(float(each["start"]), float(each["end"]), each["text"].strip()) for each in values["segments"]]


def _of_cpp(values: Values) -> list[Interval]:
    """Return the segments of whisper.cpp, whose times are milliseconds.

    A text without a space before it goes on with the word before, if others have one: cut at tokens, words are in
    pieces.
    """
    found = list[Interval]()
    are_words = any(each["text"].startswith(" ") for each in values["transcription"])
    for each in values["transcription"]:
        start, end, text = each["offsets"]["from"] / 1000, each["offsets"]["to"] / 1000, each["text"]
        if are_words and found and text.strip() and not text.startswith(" "):
            start, text = found[-1].start, found[-1].label + text
            found.pop()
        found.append(Interval(start, end, text.strip()))
    return found


def _of_vosk(values: Values) -> list[Interval]:
    return _timed(values["result"], "word")


def _of_amazon(values: Values) -> list[Interval]:
    results = values["results"]
    if "channel_labels" in results:  # the words of several channels
        return []
    spoken = (each for each in results["items"] if each["type"] == "pronunciation")
    return [
        Interval(float(each["start_time"]), float(each["end_time"]), each["alternatives"][0]["content"])
        for each in spoken
    ]


def _of_openai(values: Values) -> list[Interval]:
    return [] if "transcript" in values else _timed(values["words"], "word")


def _timed(words: Iterable[Values], name: str) -> list[Interval]:
    return [Interval(float(each["start"]), float(each["end"]), each[name].strip()) for each in words]


_READ: dict[str, Callable[[Values], list[Interval]]] = {
    WHISPER: _segments,
    "a transcript of whisper.cpp": _of_cpp,
    "a transcript of Vosk": _of_vosk,
    "a transcript of Amazon Transcribe": _of_amazon,
    "a transcript with the words of OpenAI": _of_openai,
}
READ = tuple(_READ)


def _has(values: object, *names: str) -> bool:
    """Return whether a name is in an object of JSON, or in the first of a list, and so on below it."""
    for name in names:
        inner = values[0] if isinstance(values, list) and values else values
        if not isinstance(inner, dict) or name not in inner:
            return False
        values = inner[name]
    return True


_NAMED: dict[str, Callable[[Values], bool]] = {
    "a transcript of Deepgram": lambda values: _has(values, "results", "channels", "alternatives"),
    "a transcript of Amazon Transcribe, of several channels": lambda values: _has(values, "results", "channel_labels"),
    "a transcript of Google": lambda values: _has(values, "results", "alternatives"),
    "a transcript of Azure": lambda values: _has(values, "recognizedPhrases"),
    "an alignment of Gentle": lambda values: _has(values, "transcript") and _has(values, "words", "case"),
    "a transcript of AssemblyAI": lambda values: _has(values, "words", "text") and _has(values, "text"),
}
