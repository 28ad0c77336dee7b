"""Labels that a model does not have, and the phones of it that they are heard as."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import first_few
from speechctc.inference.segmenter import OMITTED, PhoneScore, Segment, Segments
from speechctc.phones.articulation import ipa, is_arpabet, match_phones
from speechctc.phones.inventory import FOUND, Inventory
from speechctc.phones.label_rules import divide_phone, phones_of_row
from speechctc.phones.marks import apply_marks

# Between a label of several phones, such as a diphthong, and the number of each, in the label of that phone.
PART = "\N{START OF HEADING}"
# Before a phone of the model that is spelt like another label of the transcript: ``y`` in ARPABET is IPA's ``j``.
_OWN = "\N{NULL}"


def begins(label: str) -> bool:
    """Return whether a label begins one of the transcript: it is no further phone of one of several."""
    return label.partition(PART)[2] in ("", "0")


@dataclass(frozen=True)
class PhoneMapping:
    """The phones of a model, and which of them other labels are mapped to.

    Attributes
    ----------
    phones : Inventory
        Of the model.
    labels : mapping of str to str
        By label, the phone of the model.
    """

    phones: Inventory
    labels: Mapping[str, str]

    @property
    def inventory(self) -> Inventory:
        """The phones of the model, and after them the labels."""
        own = (_OWN + phone if phone in self.labels else phone for phone in self.phones.phones)
        return Inventory(FOUND, (*own, *self.labels)) if self.labels else self.phones

    @property
    def classes(self) -> NDArray[np.int64]:
        """By class of `inventory`, the class of the model that it is heard as."""
        return np.array([*range(len(self.phones.phones) + 1), *self.phones.encode(self.labels.values())], np.int64)

    def rows(self, log_probs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return log posteriors of the classes of `inventory`: those of the model, and each label's as its phone's."""
        if not self.labels:
            return log_probs
        return np.hstack([log_probs, log_probs[:, self.phones.encode(self.labels.values())]])

    def phone(self, label: str) -> str:
        """Return the phone of the model that a label of `inventory` is heard as."""
        return self.labels.get(label, label.removeprefix(_OWN))


class Hearing:
    """Matches labels with the phones of a model, and remembers which became which.

    Parameters
    ----------
    phones : Inventory
        Of the model.
    others : sequence of str
        Labels of the same notation, by which it is told; without any, it is IPA.
    """

    def __init__(self, phones: Inventory, others: Sequence[str] = ()) -> None:
        self.phones, self._is_arpabet = phones, is_arpabet(others)
        self._known: dict[str, str | None] = {}
        self._parts: dict[str, tuple[str, ...]] = {}

    def knows(self, labels: Iterable[str]) -> bool:
        """Return whether all labels are heard as some phone, or as several."""
        labels = tuple(labels)
        new = [label for label in dict.fromkeys(labels) if label not in self._known]
        if new:
            matches = match_phones(new, self.phones.phones, self._is_arpabet)
            self._known |= {label: matches[label].phone if label in matches else None for label in new}
            for label in new:
                if not self._split_tone(label) and (label not in matches or matches[label].how == "nearness"):
                    self._divide(label)
        return all(self._known[label] is not None for label in labels)

    def _split_tone(self, label: str) -> bool:
        """Let a tone be heard after its phone, if the model has this tone as a label of its own and not both as one."""
        own, parts = self.phones.phones, apply_marks(label, {"tone": "split"})
        if label in own or len(parts) != 2 or parts[1] not in own or not self.knows(parts):
            return False
        self._parts[label] = self.parts(parts)
        self._known[label] = " ".join(str(self._known[part]) for part in parts)
        return True

    def _divide(self, label: str) -> None:
        """Let the vowels of a diphthong be heard one after the other, where the model has phones like them."""
        parts = divide_phone(ipa(label, self._is_arpabet)[0], diphthongs=True, affricates=False)
        matches = match_phones(parts, self.phones.phones, False) if len(parts) > 1 else {}
        if matches and all(part in matches for part in parts):
            self._hear_in_row(label, [matches[part].phone for part in parts])

    def knows_row(self, label: str) -> bool:
        """Return whether a label is of two phones in IPA that are heard, and let these be heard one after the other."""
        phones = phones_of_row(label)
        if len(phones) != 2 or not self.knows(phones):
            return False
        if label not in self._parts:
            self._hear_in_row(label, [str(self._known[part]) for part in self.parts(phones)])
        return True

    def _hear_in_row(self, label: str, phones: Sequence[str]) -> None:
        found = {f"{label}{PART}{k}": phone for k, phone in enumerate(phones)}
        self._parts[label] = tuple(found)
        self._known |= {label: " ".join(phones), **found}

    def parts(self, labels: Iterable[str]) -> tuple[str, ...]:
        """Return labels with each that is heard as several phones, as a diphthong, written as labels of these."""
        return tuple(part for label in labels for part in self._parts.get(label, (label,)))

    def joined(self, segments: Iterable[Segment]) -> Segments:
        """Return phones with those of each label of several as one, which is right where all of them are."""
        whole, group = Segments(), list[Segment]()
        for each in segments:
            if not begins(each.phone):
                whole[-1] = self._whole([*group, each])
                group.append(each)
            else:
                whole.append(each)
                group = [each]
        return whole

    def _whole(self, parts: Sequence[Segment]) -> Segment:
        """Return the phones of a label as one."""
        goodness, scores = None, [part.goodness for part in parts if part.goodness]
        if len(scores) == len(parts):
            own = [(self._known[part.phone] or "", part.goodness.probability) for part in parts if part.goodness]
            best = [
                max((mine, *score.said_instead), key=lambda each: each[1])
                for mine, score in zip(own, scores, strict=True)
            ]
            said = " ".join(text for text, _ in best if text != OMITTED) or OMITTED
            said_so = ((said, math.prod(probability for _, probability in best)),) if best != own else ()
            right = math.prod(probability for _, probability in own)
            goodness = PhoneScore(fmean(score.score for score in scores), right, said_so)
        label, confidence = parts[0].phone.partition(PART)[0], math.prod(part.confidence for part in parts)
        whole = parts[0]._replace(phone=label, confidence=confidence, alternatives=(), goodness=goodness)
        return whole._replace(end=parts[-1].end, end_interval=parts[-1].end_interval)

    def of(self, labels: Iterable[str]) -> PhoneMapping:
        """Return how these labels are heard; those that are phones of the model need nothing."""
        known = {label: self._known.get(label) for label in self.parts(labels)}
        return PhoneMapping(self.phones, {label: phone for label, phone in known.items() if phone and phone != label})

    def merged(self, labels: Sequence[str], with_own: bool = False) -> dict[str, tuple[str, ...]]:
        """Return of labels which others of them are heard as the same phone; those that are told apart are left out.

        `with_own`: also that phone, where it is only the nearest.
        """
        heard = {label: self._known[label] for label in labels if self.knows([label])}
        nearest = match_phones(labels, self.phones.phones) if with_own else {}
        found = {}
        for label, phone in heard.items():
            others = [other for other, same in heard.items() if same == phone and other != label]
            is_near = label in nearest and nearest[label].how == "nearness" and label not in self._parts
            if others := [*others, *([str(phone)] if is_near and phone not in others else [])]:
                found[label] = tuple(others)
        return found

    def note(self) -> str:
        """Return which labels were heard as which phones, or ``""``."""
        known = sorted(pair for pair in self._known.items() if PART not in pair[0])
        pairs = [f"{label} as {to}" for label, to in known if to not in (None, label)]
        return f"labels are kept; the model hears {first_few(pairs, 40)}" if pairs else ""
