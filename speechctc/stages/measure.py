"""Measure labelled phones with Praat: duration, pitch, intensity and formants, one row for each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from speechctc.audio import sound_file
from speechctc.audio.annotations import Tier, choose_tier, read_tiers, tier_key
from speechctc.audio.recording_list import Shard
from speechctc.audio.recordings import Named, Recording, Siblings, find_recordings, left_out
from speechctc.audio.tracks import Channel, preferred
from speechctc.core import written
from speechctc.core.errors import InputError, counted_alike, optional, with_extra
from speechctc.core.files import sha256
from speechctc.core.parallel import attempt, check_time, taken, timed
from speechctc.core.progress import Reporter
from speechctc.corpora.table_rows import ENDINGS, read_table
from speechctc.corpora.tasks import in_table
from speechctc.corpora.transcripts import TranscriptOptions
from speechctc.inference.manifest import digest_of
from speechctc.inference.output import OutputOptions, ResultWriter, Work, check_out, left_to_do, write_results
from speechctc.pages.measured_figures import draw_measures
from speechctc.phones.articulation import describe, ipa, is_arpabet
from speechctc.phones.inventory import nfc
from speechctc.phones.notations import from_xsampa, is_xsampa
from speechctc.stages.maximum_formant import COLUMN, STANDARD, read_maximum_formants
from speechctc.stages.measured_tables import BESIDE, FORMANTS, MEASURED, STEPS, Row

if TYPE_CHECKING:
    import parselmouth

DRAWN = ("phone", "duration", "f1_mid", "f2_mid")  # beside the speaker
TAIL = 0.1  # seconds that labels may end after their recording
WINDOW_SECONDS, PRE_EMPHASIS_HZ, INTENSITY_PITCH_HZ = 0.025, 50.0, 100.0  # Praat's own


@dataclass(frozen=True)
class PraatSettings:
    """Praat's settings, named and preset as in its menus: To Formant (burg), To Pitch (ac), To Intensity.

    Attributes
    ----------
    maximum_formant : float
        Hz; 5500 suits women, 5000 men, 8000 small children.
    number_of_formants : float
        Searched for below that.
    pitch_floor, pitch_ceiling : float
        Hz.
    """

    maximum_formant: float = STANDARD
    number_of_formants: float = 5.0
    pitch_floor: float = 75.0
    pitch_ceiling: float = 600.0


class Choice(NamedTuple):
    """What is measured of recordings.

    Attributes
    ----------
    textgrids : Path, optional
        The TextGrid of a single recording, or a folder of TextGrids; None: they are beside the recordings. One that
        several recordings of the same name may mean is refused.
    tier, words : str
        Names of the tiers of phones and words; the latter may be missing.
    channel : int or Track, optional
        Of the recordings, from 1; None: the mean of all.
    settings : PraatSettings
    maximum_formants : sequence of str
        By speaker, in place of that of `settings`; see `read_maximum_formants`.
    work : Work
        Whether on a cluster, and how long a recording may take.
    shard : Shard
        The part of the rows of a table that is measured.
    """

    textgrids: Path | None
    tier: str
    words: str
    channel: Channel | None
    settings: PraatSettings
    maximum_formants: Sequence[str] = ()
    work: Work = Work()
    shard: Shard = Shard(1, 1)


class Labels(NamedTuple):
    """What a TextGrid has of a recording: its phones, words or none, and the tiers with a value for each phone."""

    phones: Tier
    tones: Tier | None
    words: Tier | None
    beside: dict[str, dict[tuple[float, float], str]]


Job = tuple[Path, tuple[Labels | InputError, Channel | None, float]]


@dataclass
class Summary:
    """What was measured: how many phones of how many recordings, whose; rows of a picture only if they are kept."""

    keeps_rows: bool = False
    phones: int = 0
    recordings: int = 0
    speakers: dict[str, None] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def watched(
        self, recordings: Sequence[Recording], results: Iterable[list[Row] | InputError]
    ) -> Iterator[list[Row] | InputError]:
        """Yield the results of recordings, and count them."""
        for recording, result in zip(recordings, results, strict=True):
            if not isinstance(result, InputError):
                self.phones += len(result)
                self.recordings += 1
                self.speakers |= {recording.speaker: None} if recording.speaker else {}
                if self.keeps_rows:
                    self.rows += ({"speaker": recording.speaker, **{key: row[key] for key in DRAWN}} for row in result)
            yield result


def measure(
    arguments: Sequence[Named], choice: Choice, options: OutputOptions, summary: Summary, reporter: Reporter
) -> int:
    """Write the rows of all labelled phones; return the exit status: 0, 1 if some recordings failed, 2 if all failed.

    Parameters
    ----------
    arguments : sequence of Path
        Recordings, folders of them, or patterns; or one table with the columns id, audio and phones or words, whose
        recordings have TextGrids named by their ids, as `align` writes them, and the speakers of its column.
    choice : Choice
    options : OutputOptions
        In formats of `MEASURED`.
    summary : Summary
        Counts.
    reporter : Reporter
        Receives the failures.

    Raises
    ------
    InputError
        parselmouth is not installed, there are no recordings, or the table cannot be written.
    """
    what = "measure needs Praat as a Python package, praat-parselmouth, which is not installed"
    optional("parselmouth", what, with_extra("measure"))
    only = arguments[0] if len(arguments) == 1 else None
    if isinstance(only, Path) and only.suffix.lower() in ENDINGS:
        recordings, sexes = _of_table(only, reporter)
        recordings = choice.shard.take(recordings)
    else:
        recordings, sexes = find_recordings(arguments), {}
    if not recordings:
        raise InputError("no recording to measure", "name one")
    formants = read_maximum_formants(choice.maximum_formants, sexes)
    told = formants.of_all(recording.speaker for recording in recordings)
    reporter.note(*left_out(arguments), *filter(None, [told]))
    grids = dict(zip(recordings, _textgrids(choice.textgrids, recordings), strict=True))
    options = check_out(recordings, options, lambda each: _digest(each, grids[each], formants.of(each.speaker)))
    left = left_to_do(recordings, options, reporter)
    notes = list[tuple[Path, str]]()
    jobs = (_job(each, grids[each], choice, formants.of(each.speaker), notes) for each in left)
    with _results(jobs, choice, reporter) as results:
        writer = ResultWriter(left, summary.watched(left, results), options, MEASURED)
        status = write_results(writer, "measuring", reporter)
    reporter.warn(*counted_alike(notes, with_numbers=True))
    return status


def _results(
    jobs: Iterable[Job], choice: Choice, reporter: Reporter
) -> AbstractContextManager[Iterator[list[Row] | InputError]]:
    """Offer the rows of recordings, in order, from this machine or from a cluster."""
    work = choice.work
    if work.cluster is None:
        measured = (timed(lambda job: _measured(choice.settings, *job), job, work.time_limit) for job in jobs)
        return nullcontext(taken(measured))
    from speechctc.stages.clustered import worked_on  # late: few use a cluster

    return worked_on("measure", _measured, choice.settings, jobs, work, reporter)


def _of_table(table: Path, reporter: Reporter) -> tuple[list[Recording], dict[str, str]]:
    """Return the recordings of a table, named as `align` names their results, and the sex of each speaker."""
    read, notes = read_table(table)
    rows = list(read)
    reporter.warn(*notes)
    labels: Literal["phones", "words"] = "words" if any(row.words for row in rows) else "phones"
    known = [
        (row.speaker, traits.get("sex") or traits.get("gender", "")) for row in rows if (traits := dict(row.traits))
    ]
    sexes = {speaker: sex for speaker, sex in known if speaker and sex}
    return [recording for recording, _ in in_table(table, None, TranscriptOptions(labels=labels))], sexes


def _textgrids(given: Path | None, recordings: Sequence[Recording]) -> list[Path | InputError]:
    """Return the TextGrid of each recording: beside it, or in the folder that was given; or why there is none.

    The name of a recording's results counts, else that of its file; in a folder that was given, first with its path
    below the folder that was named. Formats of one recording (``a.wav``, ``a.flac``) share a TextGrid, others do not.
    """
    if given is not None and not given.is_dir():
        if len(recordings) > 1:
            raise InputError(f"{given} is of one recording, and {len(recordings)} are named", "name a folder")
        return [given]
    siblings = Siblings()
    found, users = list[Path | None](), defaultdict[Path | None, set[Path]](set)
    others = siblings.around(each.path for each in recordings) if given else None
    for path, name, *_ in recordings:
        folder, named = given or path.parent, path.name if name.name == path.name else name.name + path.suffix
        places = [folder / name.parent / named, folder / name.parent / path.name] if given else [folder / named]
        fits = [siblings.find(place, (".textgrid",), others) for place in (*places, folder / path.name)]
        if fits[0] is not None and name.name not in (path.stem, path.name):  # a table's id means it and no other
            fits = fits[:1]
        found.append(next(filter(None, fits), None))
        for file in fits:
            users[file].add(path.with_suffix(""))
    return [
        _missing(each, given) if file is None else _shared(each, file) if len(users[file]) > 1 else file
        for each, file in zip(recordings, found, strict=True)
    ]


def _digest(recording: Recording, grid: Path | InputError, maximum: float) -> str:
    """Return a digest of what the rows of a recording depend on: its TextGrid, speaker and maximum formant."""
    labels = str(grid) if isinstance(grid, InputError) or not grid.is_file() else sha256(grid)
    return digest_of(labels, recording.speaker, maximum)


def _missing(recording: Recording, given: Path | None) -> InputError:
    where = f"beside {recording.path.name}" if given is None else f"in {given}"
    fix = "make one with speechctc align, or name the folder above, whose structure is kept"
    return InputError(f"{recording.path}: no .TextGrid file of its name {where}", fix)


def _shared(recording: Recording, file: Path) -> InputError:
    fix = "name the folder above the recordings, and put TextGrids in folders like theirs"
    return InputError(f"{recording.path}: other recordings have the name of {file}, too", fix)


def _labels(path: Path, tier: str, words: str, seconds: float) -> tuple[Labels, str]:
    """Read the tiers of a TextGrid of a recording of a length, and what the user should know of how, or ``""``."""
    tiers, note, *_ = read_tiers(path).of_recording(path, seconds)
    phones = choose_tier(tiers, path, tier)
    if phones.points:
        raise InputError(f"{path}: the tier {phones.name!r} has points, not intervals", "name another with --tier")
    if not phones.entries:
        others = any(each.label for tier in tiers if not tier.points for each in tier.entries)
        fix = "name another with --tier" if others else "nothing is labelled in it: leave it out, or label it"
        raise InputError(f"{path}: no label in the tier {phones.name!r}", fix)
    beside = {}
    for name in BESIDE:
        if (values := _optional(tiers, path, name)) is not None:
            beside[name] = {(each.start, each.end): each.label for each in values.entries}
    return Labels(phones, _optional(tiers, path, "tones"), _optional(tiers, path, words), beside), note


def _optional(tiers: Sequence[Tier], path: Path, name: str) -> Tier | None:
    """Return the intervals of a tier; None: there is no such tier."""
    there = any(tier_key(each.name) == tier_key(name) and not each.points for each in tiers)
    return choose_tier(tiers, path, name) if there else None


def _job(
    recording: Recording, grid: Path | InputError, choice: Choice, maximum: float, notes: list[tuple[Path, str]]
) -> Job:
    """Return a recording, its labels or the error that says why there are none, its channel, and the maximum formant.

    To `notes` is added what the user should know of how the labels were read.
    """

    def read(path: Path) -> Labels:
        seconds = sound_file.info(path).seconds  # what is wrong with the recording comes first
        if isinstance(grid, InputError):
            raise grid
        labels, note = _labels(grid, choice.tier, choice.words, seconds)
        fits = labels.phones.entries[-1].end <= seconds + TAIL  # else it is refused
        notes.extend([(grid, note)] if note and fits else [])
        return labels

    return recording.path, (attempt(read, recording.path), preferred(recording.channel, choice.channel), maximum)


def _measured(settings: PraatSettings, path: Path, job: tuple[Labels | InputError, Channel | None, float]) -> list[Row]:
    """Return the rows of a recording, without its name and speaker."""
    labels, channel, maximum = job
    if isinstance(labels, InputError):
        raise labels
    praat = Praat(path, channel, replace(settings, maximum_formant=maximum))
    phones = [each._replace(label=nfc(each.label)) for each in labels.phones.entries]
    if phones[-1].end > praat.seconds + TAIL:
        what = f"{path}: its TextGrid goes on to {phones[-1].end:.2f} s, and it has {praat.seconds:.2f} s"
        raise InputError(what, "check that they belong together")
    places, rows = _places(labels), list[Row]()
    for k, (start, end, label) in enumerate(phones):
        check_time(path)
        values = {name: _number(each.get((start, end), "")) for name, each in labels.beside.items()}
        around = {
            "previous": phones[k - 1].label if k else "",
            "next": phones[k + 1].label if k + 1 < len(phones) else "",
        }
        times = {"start": start, "end": end, "duration": end - start}
        rows.append(
            {"phone": label, **around, **places[k], **times, **values, **praat.values(start, end), COLUMN: maximum}
        )
    return rows


def _around(phones: Tier, tier: Tier | None) -> list[int | None]:
    """Return the place in a tier of the interval around the middle of each phone; None where there is none."""
    entries = tier.entries if tier else []
    starts = np.array([each.start for each in entries])
    found: list[int | None] = []
    for start, end, _ in phones.entries:
        middle = (start + end) / 2
        at = int(np.searchsorted(starts, middle, side="right")) - 1
        found.append(at if at >= 0 and middle <= entries[at].end else None)
    return found


def _places(labels: Labels) -> list[Row]:
    """Return the tone of each phone, its word, the word's number, the phone's position in it, and how many it has."""
    words, tones = (tier.entries if tier else [] for tier in (labels.words, labels.tones))
    of = _around(labels.phones, labels.words)
    counts, so_far = Counter(of), Counter[int | None]()
    found: list[Row] = []
    for number, tone in zip(of, _around(labels.phones, labels.tones), strict=True):
        so_far[number] += 1
        row: Row = {} if tone is None else {"tone": nfc(tones[tone].label)}
        place = {"position": so_far[number], "word_phones": counts[number]}
        found.append(
            row if number is None else row | {"word": nfc(words[number].label), "word_number": number + 1, **place}
        )
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


class Praat:
    """Praat's analyses of a recording.

    Parameters
    ----------
    path : Path
    channel : int or Track, optional
        From 1; None: the mean of all.
    settings : PraatSettings

    Attributes
    ----------
    seconds : float
        Length of the recording.
    """

    def __init__(self, path: Path, channel: Channel | None, settings: PraatSettings) -> None:
        import parselmouth

        rate = sound_file.info(path, channel).rate
        samples, _ = sound_file.read(path, rate, channel)
        sound = parselmouth.Sound(samples.astype(np.float64), rate)
        self.seconds = len(samples) / rate
        try:
            self._formant = sound.to_formant_burg(
                None, settings.number_of_formants, settings.maximum_formant, WINDOW_SECONDS, PRE_EMPHASIS_HZ
            )
            self._pitch = sound.to_pitch(None, settings.pitch_floor, settings.pitch_ceiling)
            self._intensity = sound.to_intensity(INTENSITY_PITCH_HZ, None, True)
        except parselmouth.PraatError as error:
            raise InputError(f"{path}: Praat: {' '.join(str(error).split())}", "measure longer recordings") from None
        self._call: Any = parselmouth.praat.call

    def values(self, start: float, end: float) -> Row:
        """Return the measurements of an interval; None where Praat has none. Hz and dB."""
        row: Row = {"f0_mean": None, "intensity_mean": None}
        if end > start:  # Praat takes an empty interval for the whole recording
            row["f0_mean"] = self._call(self._pitch, "Get mean", start, end, "Hertz")
            row["intensity_mean"] = self._call(self._intensity, "Get mean", start, end, "energy")
        times = {step: start + (step - 0.5) / STEPS * (end - start) for step in range(1, STEPS + 1)}
        for number in FORMANTS:
            row[f"f{number}_mid"] = self._at(number, (start + end) / 2)
            row |= {f"f{number}_{step}": self._at(number, time) for step, time in times.items()}
        for step, time in times.items():
            row[f"f0_{step}"] = self._call(self._pitch, "Get value at time", time, "Hertz", "linear")
        return {key: None if value is None or not np.isfinite(value) else value for key, value in row.items()}

    def _at(self, number: int, time: float) -> float:
        formant: parselmouth.Formant = self._formant
        return float(formant.get_value_at_time(number, time))


def write_picture(rows: Sequence[Row], path: Path, form: str, overwrite: bool, bark: bool = False) -> None:
    """Write a vowel chart, in Hz or Bark, and durations."""
    labels = list(dict.fromkeys(row["phone"] for row in rows))
    arpabet, is_other = is_arpabet(labels), is_xsampa(labels)
    spelled = {label: (from_xsampa(label) if is_other else None) or ipa(label, arpabet)[0] for label in labels}
    vowels = {label for label in labels if describe(spelled[label]).get("kind") == "vowel"}
    written.write_bytes(path, draw_measures(rows, vowels, form, bark), overwrite)
