"""Below which frequency Praat looks for the formants of each speaker: numbers, names of speakers, sexes, or a table."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from speechctc.core.errors import InputError, first_few
from speechctc.corpora.table_rows import read_cells
from speechctc.phones.inventory import nfc

STANDARD = 5500.0
LEAST = 1000.0
OF_SEX = {"female": 5500.0, "male": 5000.0, "child": 8000.0}
"""Hz that Praat's manual advises for women, for men and for small children."""
_SEXES = {
    **dict.fromkeys(("f", "female", "w", "woman", "women", "girl"), "female"),
    **dict.fromkeys(("m", "male", "man", "men", "boy"), "male"),
    **dict.fromkeys(("c", "child", "children"), "child"),
}
BY_SEX = "sex"  # the value of the option that takes OF_SEX
COLUMN = "maximum_formant"
ENDINGS = (".tsv", ".csv", ".txt", ".xlsx")


@dataclass
class MaximumFormants:
    """The maximum formant of each speaker.

    Attributes
    ----------
    others : float
        Hz, of speakers who are not in the next two.
    of_sex : dict of str to float
        Hz by sex, of speakers whose sex is known.
    of_speaker : dict of str to float
        Hz by name, which come first.
    sexes : dict of str to str
        What a table says of each speaker.
    """

    others: float = STANDARD
    of_sex: dict[str, float] = field(default_factory=dict)
    of_speaker: dict[str, float] = field(default_factory=dict)
    sexes: dict[str, str] = field(default_factory=dict)

    def of(self, speaker: str) -> float:
        """Return the maximum formant of a speaker, Hz."""
        return self.of_speaker.get(nfc(speaker), self.of_sex.get(self.sex_of(speaker), self.others))

    def sex_of(self, speaker: str) -> str:
        """Return ``"female"``, ``"male"`` or ``"child"``, or ``""`` where that is not known."""
        return _SEXES.get(self.sexes.get(nfc(speaker), "").strip().lower(), "")

    def of_all(self, speakers: Iterable[str]) -> str:
        """Check that there are the speakers that are named; return what each gets, or ``""`` where all get one.

        Raises
        ------
        InputError
            A speaker is named who is in no recording, or the sex of none is known.
        """
        there = list(dict.fromkeys(map(nfc, speakers)))
        known = [speaker for speaker in there if speaker]
        if unknown := [name for name in self.of_speaker if name not in known and name not in self.sexes]:
            fix = f"name one of the speakers: {first_few(known)}" if known else "the recordings have no speakers"
            raise InputError(f"--maximum-formant {unknown[0]}={self.of_speaker[unknown[0]]:g}: no such speaker", fix)
        if self.of_sex and not any(map(self.sex_of, known)):
            what = "--maximum-formant by sex: the sex of no speaker is known"
            raise InputError(what, "name a table with the columns speaker and sex (f, m): --maximum-formant people.tsv")
        if not (self.of_sex or self.of_speaker):
            return ""
        found: dict[float, list[str]] = {}
        for speaker in there:
            found.setdefault(self.of(speaker), []).append(speaker or "speaker not known")
        told = [f"{hertz:g} Hz for {first_few(names)}" for hertz, names in sorted(found.items(), reverse=True)]
        unsure = [name for name in there if self.of_sex and not self.sex_of(name) and name not in self.of_speaker]
        left = f"; no sex is known of {first_few([name or 'speaker not known' for name in unsure])}" if unsure else ""
        return f"maximum formant: {', '.join(told)}{left}"


def read_maximum_formants(given: Sequence[str], sexes: Mapping[str, str]) -> MaximumFormants:
    """Return the maximum formants that a command line asks for.

    Parameters
    ----------
    given : sequence of str
        Values, also several with commas between them: ``5500`` is for all others, ``Anna=5000`` for a speaker,
        ``male=5000`` for a sex, ``sex`` is `OF_SEX`; or a table with the columns speaker, and maximum_formant or sex.
    sexes : mapping of str to str
        By speaker, from the table of the recordings.

    Raises
    ------
    InputError
        A value is none of these, is below 1000 Hz, or contradicts another.
    """
    found = MaximumFormants(sexes={nfc(name): sex for name, sex in sexes.items() if sex})
    others, known = list[float](), {nfc(name) for name in sexes}
    for value in (each.strip() for text in given for each in ([text] if _is_place(text) else text.split(","))):
        name, sign, hertz = value.rpartition("=")
        if _is_place(value):
            _read_people(Path(value), found)
        elif value.lower() == BY_SEX:
            found.of_sex = OF_SEX | found.of_sex
        elif not sign:
            others.append(_hertz(value, value))
        elif name.strip().lower() in OF_SEX and nfc(name.strip()) not in known:
            found.of_sex[name.strip().lower()] = _hertz(hertz, value)
        else:
            _set(found, name.strip(), _hertz(hertz, value))
    if len(set(others)) > 1:
        raise InputError(f"--maximum-formant {others[0]:g} and {others[1]:g} are for all speakers", "give one of them")
    found.others = others[0] if others else STANDARD
    return found


def _is_place(value: str) -> bool:
    return value.lower().endswith(ENDINGS) and "=" not in value


def _set(found: MaximumFormants, name: str, hertz: float) -> None:
    if found.of_speaker.setdefault(nfc(name), hertz) != hertz:
        what = f"--maximum-formant: {name} has {found.of_speaker[nfc(name)]:g} and {hertz:g} Hz"
        raise InputError(what, "leave one of them out")


def _hertz(text: str, value: str) -> float:
    """Return a number of Hz."""
    try:
        hertz = float(text)
    except ValueError:
        fix = "give Hz (5500), NAME=HZ for a speaker, female=HZ, male=HZ, sex, or a table of speakers"
        raise InputError(f"--maximum-formant {value}: not a frequency", fix) from None
    if not LEAST <= hertz < float("inf"):
        raise InputError(f"--maximum-formant {value}: below {LEAST:g} Hz", "5500 suits most women, 5000 most men")
    return hertz


def _read_people(path: Path, found: MaximumFormants) -> None:
    """Add what a table says of speakers: their maximum formants, or their sex."""
    if not path.is_file():
        raise InputError(f"--maximum-formant {path}: no such file", "name a table with the columns speaker and sex")
    lines = read_cells(path, ("speaker",)).text.lstrip("\ufeff").splitlines()
    sign = max("\t;,", key=(lines[0] if lines else "").count)
    head, *rows = list(csv.reader(lines, delimiter=sign)) or [[]]
    names = [name.strip().lower() for name in head]
    sex = next((names.index(name) for name in ("sex", "gender") if name in names), None)
    hertz = names.index(COLUMN) if COLUMN in names else None
    if "speaker" not in names or sex is None is hertz:
        raise InputError(f"{path}: no columns speaker, and {COLUMN} (Hz) or sex", "its first line names the columns")
    for number, row in enumerate(rows, start=2):
        cells = [*(cell.strip() for cell in row), *[""] * len(names)]
        speaker = nfc(cells[names.index("speaker")])
        if speaker and hertz is not None and cells[hertz]:
            _set(found, speaker, _hertz(cells[hertz], f"{path}, line {number}: {cells[hertz]}"))
        if speaker and sex is not None and cells[sex]:
            found.sexes[speaker] = cells[sex]
            if cells[sex].lower() not in _SEXES:
                fix = f"write one of {', '.join(sorted(_SEXES))}, or nothing"
                raise InputError(f"{path}, line {number}: the sex {cells[sex]!r} is not known", fix)
    if sex is not None and hertz is None:
        found.of_sex = OF_SEX | found.of_sex
