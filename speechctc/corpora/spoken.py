"""Transcripts to align without labels of what is no speech: pauses and marks go, and noise is any sound, ``*``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from speechctc.core.errors import counted, first_few
from speechctc.corpora.transcripts import Phrase, Task, Transcript
from speechctc.phones.articulation import is_arpabet, match_phones
from speechctc.phones.inventory import BURSTS, TIMIT61, Inventory
from speechctc.phones.nonspeech import NonSpeech
from speechctc.phones.nonspeech_labels import ANY

Read = Callable[[Sequence[str]], list[str]]
GLOTTAL = "q"  # TIMIT's glottal stop, which no smaller set has
AS_ANY = "placed as * (any sound)"
SILENCES = (
    "sil",
    "SIL",
    "<sil>",
    "sp",
    "pau",
    "<p:>",
    "_",
    "#",
    "h#",
)  # that a model may have, the best for others first


def without_nonspeech(
    tasks: Sequence[Task], inventory: Inventory | None, ignored: Sequence[str] = ()
) -> tuple[list[Task], list[str]]:
    """Return tasks whose transcripts have speech and `ANY`, and notes on what else they had, with counts.

    Parameters
    ----------
    tasks : sequence of Task
    inventory : Inventory or None
        Of a model, whose own labels of pauses stay among phones, and stand for others; None: the transcripts are words.
    ignored : sequence of str
        More labels to leave out, each any sound.
    """
    found, renamed = NonSpeech(ignored), Counter[str]()
    own = inventory.phones if inventory else ()
    silence = next((label for label in SILENCES if label in own), "")

    def read(labels: Sequence[str]) -> list[str]:
        if inventory is None:
            return found.words("\n".join(labels))
        spoken = found.phones(labels, lambda label: inventory.normalise(label) in own, silence)
        return _of_timit(spoken, inventory, renamed)

    done = []
    for task in tasks:
        transcript = task.transcript
        if isinstance(transcript, Transcript):
            transcript = _read(transcript, read, inventory is None)
        done.append(task._replace(transcript=transcript))
    notes = found.notes("phones" if inventory else "words", AS_ANY, silence)
    if renamed:
        notes.append(f"labels of TIMIT, written as the model's: {counted(renamed, 20)}")
    if absent := found.absent():
        notes.append(f"--ignore names labels that do not occur: {first_few(absent)}")
    return done, notes


def _of_timit(labels: Sequence[str], inventory: Inventory, renamed: Counter[str]) -> list[str]:
    """Return labels in ARPABET with those of TIMIT that a set lacks as its own; a closure and its burst are one."""
    lacking = {label for label in labels if inventory.normalise(label) not in inventory.phones}
    if not (lacking := {label for label in lacking if label.lower() in TIMIT61}) or not is_arpabet(inventory.phones):
        return list(labels)
    matches, written = match_phones(tuple(dict.fromkeys(labels)), inventory.phones), list[str]()
    for k, label in enumerate(labels):
        after = labels[k + 1].lower() if k + 1 < len(labels) else ""
        match = matches.get(label) if label in lacking else None
        if label in lacking and after in BURSTS.get(label.lower(), ()):
            renamed[f"{label} {after} as {after}"] += 1
        elif match and match.how != "nearness":
            renamed[f"{label} as {match.phone}"] += 1
            written.append(match.phone)
        elif label in lacking and label.lower() == GLOTTAL:
            renamed[f"{label} as {ANY}"] += 1
            written.append(ANY)
        else:
            written.append(label)
    return written


def _read(transcript: Transcript, read: Read, is_text: bool) -> Transcript:
    """Return a transcript as it is read; phrases in which nothing is said are left out."""
    if not transcript.phrases:
        return transcript._replace(labels=tuple(read(transcript.labels)))
    phrases = [each._replace(labels=tuple(read(_lines(each, is_text)))) for each in transcript.phrases]
    spoken = tuple(each for each in phrases if any(label != ANY for label in each.labels))
    return transcript._replace(labels=tuple(label for each in spoken for label in each.labels), phrases=spoken)


def _lines(phrase: Phrase, is_text: bool) -> Sequence[str]:
    """Return the labels of a phrase; those of a text as a line."""
    return [" ".join(phrase.labels)] if is_text else phrase.labels
