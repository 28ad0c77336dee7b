"""How each speaker said each sound: a page for each, a sheet of all, and what changed since recordings of before."""

from __future__ import annotations

import io
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.conditions import Conditions, difference, mean_of
from speechctc.audio.recordings import Recording, name_of, speaker_of
from speechctc.audio.tracks import Channel, chosen
from speechctc.core import links, written
from speechctc.core.errors import InputError, as_utf8, first_few, plural, with_extra
from speechctc.core.files import MOST_RESULTS, read_json
from speechctc.corpora.transcripts import Task
from speechctc.inference.contrasts import MISTAKEN, Contrasted, Tally
from speechctc.inference.formats import CSV_BOM, WRITERS, Sheet, new_workbook
from speechctc.inference.goodness import LOW, USUAL
from speechctc.inference.output import OutputOptions
from speechctc.inference.result import Misfit, misfits_text
from speechctc.inference.segmenter import OMITTED
from speechctc.pages.page import render_page
from speechctc.pages.timeline import sound_url
from speechctc.phones.articulation import KEY_WORDS, describe, ipa, is_arpabet
from speechctc.phones.inventory import nfc

SCORES, INDEX, SHEET = "scores", "index", "sounds"  # names in the folder: of a folder, a page, and tables
RATE = 16000  # Hz, of the sound on the pages
AROUND = 0.15  # seconds before and after a word that is played
LEAST = 3  # phones of a word whose last consonant is looked at
EXAMPLES = 3  # places of a sound to listen to, those with the lowest scores
FEW = 3  # a sound that was said less often is in the second table
MIN_RECORDINGS = 5  # with fewer, intervals are over words, and no change is called
DRAWS = 4000  # of Student's t
LEVEL = 0.05
WORST, PRACTISED = 5, 3  # sounds that the page of all, and that of a speaker, begins with
MOST = 3  # of what was said instead, for those
WEAK, POOR = 0.5, 0.2  # scores below which a sound is worth practice, and below which it is marked
# A word with each phone of ARPABET, for those who do not read phonetic signs.
FINDINGS = 20  # words to name in which several sounds were said badly
NOTHING = "nothing"  # was said instead: in CSV, a field that begins with - gets an apostrophe
WITH_PAUSE = "a pause inside a word, or a sound of it on the wrong side of one:"
METHOD = (
    "Intervals hold 95 %, by Student's t: those of a person's mean over recordings, so one recording has none; those of"
    f" a sound over recordings where it is in {MIN_RECORDINGS} or more, else over the places where it was said, which"
    " counts a noisy recording as several."
)
CHANGES = (  # said only beside changes
    " Where most places are in the same text on both dates, a change is the mean of the differences place by place;"
    " others do not count. The two means beside a change are those of the places that are compared. A change is called"
    " beyond chance where the t test over recordings (paired, or of two samples, with the degrees of freedom of the"
    " smaller) says so at 5 %, by Holm's method for all sounds of a speaker: several are compared, so one may be chance"
    f" though its interval is above 0. It is not called where a sound is in less than {MIN_RECORDINGS} recordings of a"
    " date, or where those of the two dates differ in their spectrum, noise or cut-off samples: another microphone,"
    f" codec or room moves scores too. No change is given of a sound that was said less than {FEW} times on one of the"
    " dates. Read the same text on both: other words are easier or harder."
)
ORDER = (
    "An order of persons needs several sentences of each: the orders by two halves of the sentences of 20 learners had"
    " rank correlations of 0.15, 0.50, 0.70 and 0.76 with 1, 2, 4 and 8 sentences in a half. Means whose intervals"
    " overlap, or that have none, are no order. Among 39 learners those who spoke slowly had lower means (rank"
    " correlation with the rate 0.49), among 54 natives they had not (-0.17): the rate is not taken out of the scores."
)
FAIR = (
    "Recordings through other microphones, by telephone or in noise have other means of the same speech: compare only"
    " learners whose recordings have about the same band and noise."
)
LEFT_OUT = (
    "The score of a sound does not count what was left out. By the model english, 17 to 31 of 100 last consonants of"
    " words of three or more sounds seem left out in right speech, too; of 100 that were left out, some 80 do."
)
OF_CONTRASTS = (
    f"A sound counts as the other if its probability against that is below {MISTAKEN}. Of 100 right sounds 2 to 10"
    " count so, more in vowels and voicing than in place: one of few may be chance."
)
COLUMNS = ("speaker", "sound", "times", "score", "low", "high", "said_instead", "not_told_from")
PEOPLE = (
    "speaker", "score", "low", "high", "recordings", "phones", "phones_a_second", "from_hz", "to_hz", "noise_db"
)  # fmt: skip
CHANGED = (
    "score_before",
    "score_now",
    "change",
    "change_low",
    "change_high",
    "beyond_chance",
    "not_called",
    "same_text",
)
Values = NDArray[np.float64]


class Said(NamedTuple):
    """A phone that was scored, and the word around it, or its own place where there are no words.

    `place` is the same for the same phone of the same word of the same text. `contrasts` are those of `PhoneScore`.
    `is_last`: it is the last of the `LEAST` or more phones of its word.
    """

    speaker: str
    file: str
    channel: Channel | None
    phone: str
    score: float
    instead: str
    word: str
    start: float
    end: float
    place: str = ""
    not_told: str = ""
    contrasts: tuple[tuple[str, float], ...] = ()
    is_last: bool = False


class Change(NamedTuple):
    """How much a mean score rose, in what is compared.

    Attributes
    ----------
    before, now, rise : float
        The means, and their difference.
    interval : (float, float), optional
        Holds 95 %; None for one recording.
    p : float
        How often chance alone does as much.
    not_called : str
        Why it is not said whether the change is beyond chance, or ``""``.
    is_paired : bool
        Whether the same places of a text are compared.
    """

    before: float
    now: float
    rise: float
    interval: tuple[float, float] | None
    p: float
    not_called: str = ""
    is_beyond_chance: bool = False
    is_paired: bool = False

    @property
    def verdict(self) -> str:
        """What is said of the change."""
        called = "beyond chance" if self.is_beyond_chance else "may be chance"
        called += "" if self.is_paired else " (the text differs)"
        return f"not called: {self.not_called}" if self.not_called else called


class Finding(NamedTuple):
    """A word in which several sounds were said badly: one thing to look at, often another word or a slip."""

    said: tuple[Said, ...]

    @property
    def text(self) -> str:
        """The word, and its sounds with their scores."""
        return f"{self.said[0].word}: " + ", ".join(f"{each.phone} {each.score:.2f}" for each in self.said)


class Sound(NamedTuple):
    """How one speaker said a sound, or (`phone` is empty) all of them."""

    phone: str
    said: tuple[Said, ...]
    score: float
    interval: tuple[float, float] | None
    change: Change | None = None

    @property
    def instead(self) -> str:
        """What was said instead, most often first, with how often."""
        return self._instead(None)

    @property
    def mostly_instead(self) -> str:
        """As `instead`, what was said most often alone."""
        return self._instead(MOST)

    def _instead(self, most: int | None) -> str:
        counts = Counter(each.instead for each in self.said if each.instead).most_common(most)
        return ", ".join(f"{text} ({count})" for text, count in counts)

    @property
    def not_told(self) -> str:
        """The sounds that it is not told from."""
        return (
            " ".join(dict.fromkeys(other for each in self.said for other in each.not_told.split()))
            if self.phone
            else ""
        )

    @property
    def is_often(self) -> bool:
        """Whether it was said often enough to tell something."""
        return len(self.said) >= FEW

    @property
    def worst(self) -> list[Said]:
        """The places with the lowest scores."""
        return sorted(self.said, key=lambda each: each.score)[:EXAMPLES]


class Speaker(NamedTuple):
    """How a speaker said all sounds, the worst first; `page` is the name of the file without its ending.

    `rate` is the mean of the phones a second, `rate_before` that of the recordings of before, `channel` the mean one.
    """

    name: str
    page: str
    whole: Sound
    sounds: tuple[Sound, ...]
    rate: float | None = None
    rate_before: float | None = None
    channel: Conditions | None = None

    @property
    def recordings(self) -> int:
        """How many recordings count."""
        return len({each.file for each in self.whole.said})

    @property
    def contrasts(self) -> list[Contrasted]:
        """How often each sound was said as another: those said often first, of these the most often mistaken."""
        tally = Tally()
        for each in self.whole.said:
            tally.count(each.phone, each.contrasts)
        return sorted(tally.found(), key=lambda each: (each.times < FEW, -each.mistaken / each.times))

    @property
    def left_out(self) -> list[tuple[str, int, int]]:
        """How often nothing was more probable than the sound: a kind of place, how often, and of how many."""
        in_arpabet = is_arpabet([each.phone for each in self.sounds])
        kinds = {each.phone: describe(ipa(each.phone, in_arpabet)[0]).get("kind") for each in self.sounds}
        ends, others = list[Said](), list[Said]()
        for each in self.whole.said:
            (ends if each.is_last and kinds[each.phone] != "vowel" else others).append(each)
        parts = {"last consonants of words": ends, "other sounds": others}
        return [(kind, sum(one.instead == NOTHING for one in said), len(said)) for kind, said in parts.items() if said]

    @property
    def words(self) -> list[Finding]:
        """The words in which several sounds were said badly, the worst first."""
        groups = defaultdict[tuple[str, float], list[Said]](list)
        for each in self.whole.said:
            if each.word and each.score < LOW:
                groups[each.file, each.start].append(each)
        found = [Finding(tuple(group)) for group in groups.values() if len(group) > 1]
        return sorted(found, key=lambda finding: min(each.score for each in finding.said))


class Remark(NamedTuple):
    """What is doubtful of a recording, or why it is left out of all means."""

    speaker: str
    text: str


class Scores(NamedTuple):
    """Phones that were scored, and of their files what these say about scores, doubts, notations and channels."""

    said: list[Said]
    about: set[str]
    remarks: Sequence[Remark] = ()
    symbols: frozenset[str] = frozenset({"own"})
    channels: Mapping[str, Conditions] = MappingProxyType({})
    rates: Mapping[str, float] = MappingProxyType({})

    def rate_of(self, speaker: str) -> float | None:
        """Return the mean of the phones a second in the recordings of a speaker that count."""
        files = {each.file for each in self.said if each.speaker == speaker}
        found = [self.rates[file] for file in files if file in self.rates]
        return fmean(found) if found else None

    def channels_of(self, speaker: str) -> list[Conditions]:
        """Return the channels of the recordings of a speaker that count."""
        files = dict.fromkeys(each.file for each in self.said if each.speaker == speaker)
        return [self.channels[file] for file in files if file in self.channels]


def read_scores(files: Iterable[Path]) -> Scores:
    """Read scores from JSON files as `score-phones` writes them for one recording each; not those that mean nothing.

    Raises
    ------
    InputError
        A file is no such file.
    """
    said, about, remarks, symbols = list[Said](), set[str](), list[Remark](), set[str]()
    channels, rates = dict[str, Conditions](), dict[str, float]()
    for file in files:
        try:
            result = read_json(file, MOST_RESULTS)
            about.add(result["about"])
            symbols.add(result.get("symbols", "own"))
            is_unfit = bool(result.get("is_unfit"))
            if note := result.get("note"):
                remarks.append(Remark(result["speaker"], f"{'Not counted' if is_unfit else 'Doubtful'}: {note}"))
            if misfits := [Misfit(**{"text": "", **each}) for each in result.get("misfits", ())]:
                what = f"{result['file']}: {misfits_text(misfits)}; words beside it have no score"
                remarks.append(Remark(result["speaker"], f"Not as in the text: {what}"))
            if held := [each["word"] for each in result.get("words", ()) if each.get("pause_inside")]:
                remarks.append(Remark(result["speaker"], f"Doubtful: {result['file']}: {WITH_PAUSE} {first_few(held)}"))
            rates |= {result["file"]: float(result["phones_a_second"])} if "phones_a_second" in result else {}
            channels |= {result["file"]: Conditions.from_dict(result["sound"])} if "sound" in result else {}
            said += [] if is_unfit else _said(result)
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(f"{file}: not the scores of a recording", "score it again, or delete the file") from None
    return Scores(said, about, remarks, frozenset(symbols), channels, rates)


def _said(result: dict[str, Any]) -> Iterator[Said]:
    """Yield the phones of a recording that have scores."""
    words = [each for each in result.get("words", ()) if each["number"] >= 0]
    text = " ".join(each["word"] for each in words) or " ".join(each["phone"] for each in result["segments"])
    counts = Counter[tuple[int, str]]()
    sound = chosen(result.get("track"), result.get("channel"))
    founds = [_around(words, segment) for segment in result["segments"]]
    lasts = {id(found): k for k, found in enumerate(founds)}  # of words
    sizes = Counter(map(id, founds))
    for k, (segment, found) in enumerate(zip(result["segments"], founds, strict=True)):
        if "score" not in segment:
            continue
        phone, is_last = segment["phone"], sizes[id(found)] >= LEAST and lasts[id(found)] == k
        word, number = found.get("word", ""), found.get("number", -1)
        best: Any = max(segment["said_instead"], key=lambda each: each["probability"], default={"probability": 0.0})
        instead = best["phones"] if best["probability"] > segment["probability"] else ""
        counts[number, phone] += 1
        yield Said(
            result["speaker"], result["file"], sound, phone, segment["score"],
            NOTHING if instead == OMITTED else instead, word, found["start"], found["end"],
            f"{text} {number} {phone} {counts[number, phone]}", " ".join(segment.get("not_told_from", ())),
            tuple(segment.get("contrasts", {}).items()), is_last,
        )  # fmt: skip


def _around(words: Sequence[dict[str, Any]], segment: dict[str, Any]) -> dict[str, Any]:
    """Return the word around a phone, or the phone."""
    middle = (segment["start"] + segment["end"]) / 2
    return next((each for each in reversed(words) if each["start"] <= middle <= each["end"]), segment)


def before_of(folder: Path) -> Scores:
    """Read the scores that an earlier command wrote into its folder.

    Raises
    ------
    InputError
        There are none.
    """
    files = sorted((folder / SCORES).rglob("*.json"))
    if not files:
        raise InputError(f"{folder}: no scores in it", "name a folder that score-phones --by-speaker has written")
    return read_scores(files)


def pages_of(speakers: Sequence[str]) -> dict[str, str]:
    """Return the name of the page of each speaker, without its ending; names that are one file name get numbers."""
    pages, taken = dict[str, str](), {INDEX}
    for speaker in dict.fromkeys(speakers):
        own = name_of(speaker).name
        name = next(each for each in (own, *(f"{own}-{k}" for k in range(2, 10**6))) if each.casefold() not in taken)
        taken.add(name.casefold())
        pages[speaker] = name
    return pages


def _units(said: Sequence[Said], by_recording: bool) -> Values:
    """Return sums of scores and their numbers, of recordings or of single places, shape = (n, 2)."""
    if not by_recording:
        return np.array([(each.score, 1.0) for each in said])
    sums = defaultdict[str, Values](lambda: np.zeros(2))
    for each in said:
        sums[each.file] += (each.score, 1.0)
    return np.array(list(sums.values()))


def _has_recordings(*parts: Sequence[Said]) -> bool:
    return all(len({each.file for each in part}) >= MIN_RECORDINGS for part in parts)


def _mean(units: Values) -> float:
    return float(units[:, 0].sum() / units[:, 1].sum())


def _total(*parts: Values) -> tuple[float, float, float]:
    """Return the sum of the means of parts, how far its 95 % interval reaches, and how often chance does as much.

    By Student's t of their units, with the degrees of freedom of the smaller part; p is 1 for no difference at all.
    """
    errors = []
    for units in parts:
        late = units[:, 0] - _mean(units) * units[:, 1]
        errors.append(float((late**2).sum() * len(units) / (len(units) - 1) / units[:, 1].sum() ** 2))
    total, error = sum(map(_mean, parts)), sum(errors)
    freedom = min(map(len, parts)) - 1
    by_chance = np.sqrt(error) * np.abs(np.random.default_rng(0).standard_t(freedom, DRAWS))
    p = (1 + int((by_chance >= abs(total)).sum())) / (DRAWS + 1)
    return total, float(np.quantile(by_chance, 0.95)), p


def sound_of(phone: str, said: Sequence[Said], before: Sequence[Said] = (), unlike: str = "") -> Sound:
    """Return how a sound was said, and what changed if it was said before; `unlike`: how the recordings differ."""
    units, interval = _units(said, not phone or _has_recordings(said)), None
    if len(units) > 1:
        score, reach, _ = _total(units)
        interval = max(score - reach, 0.0), min(score + reach, 1.0)
    change = change_of(said, before, unlike) if min(len(before), len(said)) >= FEW else None
    return Sound(phone, tuple(said), _mean(units), interval, change)


def change_of(said: Sequence[Said], before: Sequence[Said], unlike: str = "") -> Change:
    """Return how much a mean score rose over recordings: by pairs where most places are the same on both dates."""
    former = defaultdict[str, list[Said]](list)
    for each in reversed(before):
        former[each.place].append(each)
    pairs = [(each, former[each.place].pop()) for each in said if each.place and former[each.place]]
    if is_paired := len(pairs) >= max(FEW, min(len(said), len(before)) / 2):
        said, before = map(tuple, zip(*pairs, strict=True))
        parts = [_units([now._replace(score=now.score - then.score) for now, then in pairs], True)]
    else:
        parts = [_units(said, True), _units([each._replace(score=-each.score) for each in before], True)]
    means = _mean(_units(before, False)), _mean(_units(said, False))
    few = "" if _has_recordings(said, before) else f"less than {MIN_RECORDINGS} recordings of it on one of the dates"
    if min(map(len, parts)) < 2:
        return Change(*means, means[1] - means[0], None, 1.0, few, is_paired=is_paired)
    rise, reach, p = _total(*parts)
    not_called = few or unlike
    interval = max(rise - reach, -1.0), min(rise + reach, 1.0)
    return Change(*means, rise, interval, 1.0 if not_called else p, not_called, is_paired=is_paired)


def _beyond_chance(sounds: Sequence[Sound]) -> list[Sound]:
    """Return sounds whose changes say whether they are beyond chance, by Holm's method."""
    ranked = sorted((each.change.p, k) for k, each in enumerate(sounds) if each.change)
    found = list(sounds)
    for rank, (p, k) in enumerate(ranked):
        if p * (len(ranked) - rank) >= LEVEL:
            break
        change = found[k].change
        assert change is not None
        found[k] = found[k]._replace(change=change._replace(is_beyond_chance=True))
    return found


def speakers_of(now: Scores, before: Scores | None, pages: dict[str, str]) -> list[Speaker]:
    """Return how each speaker said each sound, worst first; sounds that were said less than `FEW` times last."""
    groups, former = (defaultdict[tuple[str, str], list[Said]](list) for _ in range(2))
    for found, said in ((groups, now.said), (former, before.said if before else [])):
        for each in said:
            found[each.speaker, each.phone].append(each)
            found[each.speaker, ""].append(each)
    speakers = []
    for name, page in pages.items():
        phones = sorted(phone for speaker, phone in groups if speaker == name and phone)
        if phones:
            unlike = difference(now.channels_of(name), before.channels_of(name)) if before else ""

            def of(phone: str, name: str = name, unlike: str = unlike) -> Sound:
                return sound_of(phone, groups[name, phone], former[name, phone], unlike)

            sounds = _beyond_chance([of(phone) for phone in phones])
            sounds.sort(key=lambda sound: (not sound.is_often, sound.score))
            (whole,) = _beyond_chance([of("")])
            rates = now.rate_of(name), before.rate_of(name) if before else None
            speakers.append(Speaker(name, page, whole, tuple(sounds), *rates, mean_of(now.channels_of(name))))
    return speakers


class SpeakerPages(NamedTuple):
    """The pages and sheets that are to be written, checked before any work.

    Attributes
    ----------
    folder : Path
    tasks : list of Task
        Their results have names of their own, each in a folder of the speaker.
    before : Scores or None
    names : dict of str to str
        Of the pages, by speaker; without endings.
    overwrite : bool
    """

    folder: Path
    tasks: list[Task]
    before: Scores | None
    names: dict[str, str]
    overwrite: bool

    @classmethod
    def plan(
        cls, tasks: Sequence[Task], folder: Path, before: Path | None, symbols: str, overwrite: bool
    ) -> SpeakerPages:
        """Check what is given; `symbols` is the notation of the phones.

        Raises
        ------
        InputError
            A recording is not there or its speaker is not known, there are no scores of before or they are in another
            notation, the folder holds those of other recordings, or a file that a person changed would be replaced.
        """
        given = [task.recording for task in tasks]
        if gone := next((each.path for each in given if not each.speaker and not os.path.exists(each.path)), None):
            raise InputError(f"{gone}: no such file", "check the path")
        if nameless := [each.place for each in given if not each.speaker]:
            what = f"--by-speaker: the speaker of {plural(len(nameless), 'recording')} is not known"
            fix = "put each into the folder of its speaker and name that of all, or give a table with a column speaker"
            raise InputError(f"{what}: {first_few(nameless, 3)}", fix)
        names = pages_of([each.speaker for each in given])
        recordings = [_in_own_folder(each, names[each.speaker]) for each in given]
        files = [*(f"{name}.html" for name in (INDEX, *names.values())), f"{SHEET}.csv", f"{SHEET}.xlsx"]
        links.refuse_links_below(folder, Path(SCORES))
        written.refuse_changed([folder / name for name in files], overwrite)
        others = _of_others(folder, recordings)
        if others and not overwrite:
            what = f"{folder}: holds scores of recordings that are not among these: {first_few(list(others), 1)}"
            raise InputError(what, "name another folder, or give --overwrite to remove them")
        if mine := written.changed(others.values()):
            what = f"{mine[0]}: made or changed by hand, of a recording that is not among these"
            raise InputError(what, "move it away")
        former = before_of(before) if before else None
        if former and former.symbols != {symbols}:
            what = f"{before}: its phones are written with --symbols {first_few(sorted(former.symbols))}"
            raise InputError(what, f"those of now with {symbols}: give both the same")
        named = [task._replace(recording=each) for task, each in zip(tasks, recordings, strict=True)]
        return cls(folder, named, former, names, overwrite)

    def write(self, options: OutputOptions, failed: Sequence[tuple[Recording, str]]) -> str:
        """Write them, and return what was written, in words; remove what is there of recordings that are gone.

        Parameters
        ----------
        options : OutputOptions
            Of the scores.
        failed : sequence of (Recording, str)
            Recordings without scores, and why.
        """
        lost = {each.name for each, _ in failed}
        scored = [task.recording for task in self.tasks if task.recording.name not in lost]
        for file in _of_others(self.folder, scored).values():
            _remove(self.folder, file, self.names)
        spelled = options.as_there(scored)
        files = [spelled.files_of(each)["json"] for each in scored]
        now = read_scores(each for each in files if each.exists())
        remarks = [*(Remark(each.speaker, f"Not counted: {why}") for each, why in failed), *now.remarks]
        return write_speakers(self.folder, now._replace(remarks=remarks), self.before, self.names, self.overwrite)


def _in_own_folder(recording: Recording, page: str) -> Recording:
    """Return a recording whose results are in a folder of its speaker."""
    is_there = speaker_of(recording.name) == recording.speaker
    return recording if is_there else recording._replace(name=Path(page, recording.name))


def _of_others(folder: Path, recordings: Sequence[Recording]) -> dict[str, Path]:
    """Return the files of scores in a folder that are of other recordings than these, by the names of those."""
    scores, found = folder / SCORES, dict[str, Path]()
    wanted = {_key(each.name.with_name(f"{each.name.name}.json")): each.path for each in recordings}
    for file in sorted(scores.rglob("*.json")):
        name, path = _told(file).get("file", ""), wanted.get(_key(file.relative_to(scores)))
        if path is None or (name and not _is_same(Path(name), path)):
            found[name if path else f"{name or '?'} ({file.relative_to(folder)})"] = file
    return found


def _key(name: Path) -> str:
    """Return what spellings of a name in other letter case or Unicode form share."""
    return nfc(name.as_posix()).casefold()


def _told(file: Path) -> dict[str, Any]:
    """Return what a file of scores says; nothing if it is none."""
    try:
        result = read_json(file, MOST_RESULTS)
    except (OSError, ValueError):
        return {}
    return result if isinstance(result, dict) else {}


def _is_same(told: Path, path: Path) -> bool:
    """Return whether a path that was written, maybe in another working directory, names a recording."""
    whole = Path(as_utf8(os.path.abspath(path)))
    return Path(os.path.abspath(told)) == whole or whole.parts[-len(told.parts) :] == told.parts


def _remove(folder: Path, scores: Path, pages: dict[str, str]) -> None:
    """Remove the scores of a recording in all formats, and the page of a speaker who is gone, as they were written."""
    speaker = _told(scores).get("speaker", "")
    files = [scores.with_suffix("").with_name(f"{scores.stem}{each.ending}") for each in WRITERS.values()]
    if speaker and speaker not in pages:
        files.append(folder / f"{name_of(speaker).name}.html")
    own = {folder / f"{each}.html" for each in (INDEX, *pages.values())}
    for file in files:
        if file.is_file() and file not in own and not written.changed([file]):
            file.unlink()


def write_speakers(folder: Path, now: Scores, before: Scores | None, pages: dict[str, str], overwrite: bool) -> str:
    """Write the pages and sheets of speakers; return what was written, in words.

    Raises
    ------
    InputError
        The scores of before are of another model or version; a file that a person changed would be replaced.
    """
    if not now.said:
        return "wrote no pages: no recording has scores that mean something"
    if before and not before.about <= now.about:
        what = f"the scores of before are of another kind than those of now: {first_few(sorted(before.about), 1)}"
        raise InputError(what, "score those recordings again with this model, and name their new folder")
    speakers = speakers_of(now, before, pages)
    method = METHOD + (CHANGES if before else "")
    values = {"about": " ".join(sorted(now.about)), "method": method, "has_before": before is not None, "few": FEW}
    values |= {
        "made": f"Folder {folder.resolve().name}, {date.today().isoformat()}",
        "remarks": now.remarks,
        "order": ORDER,
        "findings": FINDINGS,
        "fair": FAIR,
        "of_contrasts": OF_CONTRASTS,
        "left_out": LEFT_OUT,
    }
    lost = [name for name in pages if name not in {each.name for each in speakers}]
    values |= {"without": lost}
    phones = sorted({sound.phone for each in speakers for sound in each.sounds})
    named = names_of(phones)
    values |= {"speakers": speakers, "index": INDEX, "weak": WEAK}
    knows_right = all(USUAL in about for about in now.about)
    for each in speakers:
        remarks = [remark for remark in now.remarks if remark.speaker == each.name]
        own = values | of_speaker(each, named, knows_right) | {"clips": clips(each), "remarks": remarks}
        page = render_page("speaker.html", f"How {each.name} said each sound", own, ["speaker.css"], ["clips.js"])
        written.write_text(folder / f"{each.page}.html", page, overwrite)
    values |= of_class(now.said, speakers, phones, named)
    page = render_page("speakers.html", "Learners and sounds", values, ["speaker.css"], ["class.js"])
    written.write_text(folder / f"{INDEX}.html", page, overwrite)
    about = [f"{values['about']} {method} {ORDER} {FAIR}", *(each.text for each in now.remarks)]
    said = _write_sheets(folder, speakers, phones, before is not None, about, overwrite)
    return f"{said}; no page of {first_few(lost)}: none of their recordings counts" if lost else said


def names_of(phones: Sequence[str]) -> dict[str, str]:
    """Return what a page calls each phone: a label of ARPABET with its IPA."""
    if not is_arpabet(phones):
        return {phone: phone for phone in phones}
    return {phone: f"{phone} [{ipa(phone, True)[0]}]" for phone in phones}


def usual_below(times: Sequence[int]) -> float:
    """Return how many sounds of right speech, said as often as these, have a mean score below `WEAK` by chance alone.

    There, the square of a score is uniform between 0 and 1, as it is the share of right examples that fit as badly.
    """
    rng = np.random.default_rng(0)
    shares = {n: float((np.sqrt(rng.random((DRAWS, n))).mean(axis=1) < WEAK).mean()) for n in sorted({*times})}
    return sum(shares[n] for n in times)


def of_speaker(speaker: Speaker, named: dict[str, str], knows_right: bool) -> dict[str, Any]:
    """Return what the page of a speaker shows: the sounds to work on, those said often, and those said seldom.

    `knows_right`: scores compare with right speech.
    """
    often, seldom = ([each for each in speaker.sounds if each.is_often == kind] for kind in (True, False))
    practise = [
        {"named": named[sound.phone], "key_word": KEY_WORDS.get(sound.phone, ""), "sound": sound}
        for sound in often[:PRACTISED]
        if sound.score < WEAK
    ]
    shown: dict[str, Any] = {"speaker": speaker, "often": often, "seldom": seldom, "practise": practise}
    shown |= {"weak_sounds": sum(each.score < WEAK for each in often)}
    return shown | {"by_chance": usual_below([len(each.said) for each in often]) if knows_right else None}


def of_class(
    said: Sequence[Said], speakers: Sequence[Speaker], phones: Sequence[str], named: dict[str, str]
) -> dict[str, Any]:
    """Return what the page of all speakers shows: each sound of all, the lowest score first, and the weakest ones."""
    groups = defaultdict[str, list[Said]](list)
    for each in said:
        groups[each.phone].append(each)
    sounds = sorted((sound_of(phone, groups[phone]) for phone in phones), key=lambda sound: sound.score)
    found = {each.name: {sound.phone: sound for sound in each.sounds} for each in speakers}
    rows: list[dict[str, Any]] = []
    for sound in sounds:
        own = [found[each.name].get(sound.phone) for each in speakers]
        below = [speakers[k] for k, each in enumerate(own) if each and each.is_often and each.score < POOR]
        word = KEY_WORDS.get(sound.phone, "")
        rows.append({"named": named[sound.phone], "key_word": word, "sound": sound, "found": own, "below": below})
    worst = [row for row in rows if row["sound"].is_often][:WORST]
    return {"phones": rows, "worst": worst}


def clips(speaker: Speaker) -> dict[Said, str]:
    """Return the sound around each word to listen to, as a ``data:`` URL."""
    words = [finding.said[0] for finding in speaker.words[:FINDINGS]]
    wanted, found = sorted({*words, *(said for sound in speaker.sounds for said in sound.worst)}), dict[Said, str]()
    for (file, channel), group in groupby(wanted, key=lambda said: (said.file, said.channel)):
        samples, _ = sound_file.read(Path(file), RATE, channel)  # once: a program may have to decode it
        for said in group:
            first, end = (round(RATE * time) for time in (max(said.start - AROUND, 0.0), said.end + AROUND))
            found[said] = sound_url(samples[first:end], RATE)
    return found


def _write_sheets(
    folder: Path,
    speakers: Sequence[Speaker],
    phones: Sequence[str],
    has_before: bool,
    about: Sequence[str],
    overwrite: bool,
) -> str:
    """Write the tables, as CSV and, if openpyxl is there, as a workbook; return what was written, in words."""
    columns = COLUMNS + (CHANGED if has_before else ())
    rows = [_row(each, sound, has_before) for each in speakers for sound in each.sounds]
    lines = [CSV_BOM.mark, *map(CSV_BOM.line, (columns, *rows))]
    written.write_text(folder / f"{SHEET}.csv", "".join(lines), overwrite)
    said = f"wrote {len(speakers)} page{'s' * (len(speakers) > 1)}, {INDEX}.html and {SHEET}.csv"
    if find_spec("openpyxl") is None:
        return f"{said} into {folder}; for a workbook of Excel, {with_extra('xlsx')}"
    out = io.BytesIO()
    with new_workbook(out) as book:
        matrix = Sheet(book, "speaker by sound", ("speaker", "all", *phones))
        people = Sheet(book, "speakers", PEOPLE)
        for each in speakers:
            means = {sound.phone: sound.score for sound in each.sounds}
            matrix.add(each.name, each.whole.score, *(means.get(phone, "") for phone in phones))
            interval = each.whole.interval or ("", "")
            numbers = each.recordings, len(each.whole.said), each.rate or ""
            sound = (*each.channel.band, each.channel.floor) if each.channel else ("", "", "")
            people.add(each.name, each.whole.score, *interval, *numbers, *sound)
        long = Sheet(book, "sounds", columns)
        for row in rows:
            long.add(*row)
        told = Sheet(book, "about", ("about",))
        for line in about:
            told.add(line)
    written.write_bytes(folder / f"{SHEET}.xlsx", out.getvalue(), overwrite)
    return f"{said} and .xlsx into {folder}"


def _row(speaker: Speaker, sound: Sound, has_before: bool) -> tuple[str | float, ...]:
    low, high = sound.interval or ("", "")
    row = speaker.name, sound.phone, len(sound.said), sound.score, low, high, sound.instead, sound.not_told
    if not has_before:
        return row
    if sound.change is None:
        return *row, *[""] * len(CHANGED)
    change = sound.change
    called = "" if change.not_called else "yes" if change.is_beyond_chance else "no"
    same = "yes" if change.is_paired else "no"
    return *row, *change[:3], *(change.interval or ("", "")), called, change.not_called, same
