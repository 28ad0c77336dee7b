"""The most doubtful labels of a corpus as a page: spectrogram, labels and what was heard, sound."""

from __future__ import annotations

import math

from speechctc.audio import sound_file
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.suspects import Place
from speechctc.pages import timeline
from speechctc.pages.page import render_page
from speechctc.pages.timeline import Cell, Tier, Timeline, make_timeline
from speechctc.stages.check_labels import Checked, Suspect
from speechctc.stages.studio_command import studio_command

RATE = 16000  # Hz, of the sound on the page
CLEAR = 3.0  # nats; the model says clearly that a place is not as labelled


def suspects_page(checked: Checked, recogniser: Recogniser, model: str, most: int, reporter: Reporter) -> str:
    """Return a page with the `most` doubtful utterances, as HTML; `model` describes the model in a line."""
    shown = []
    chosen = [suspect for suspect in checked.suspects if suspect.doubt.places][:most]
    with reporter.progress("writing the page", len(chosen)) as advance:
        for number, suspect in enumerate(chosen):
            shown.append((suspect, _timeline(f"s{number}", suspect, recogniser)))
            advance(1)
    values = {"suspects": shown, "model": model, "checked": len(checked.suspects), "clear": CLEAR, "infinity": math.inf}
    values["studio_command"] = studio_command
    return render_page("suspects.html", "Doubtful labels", values, [timeline.STYLE], [timeline.SCRIPT])


def _timeline(id: str, suspect: Suspect, recogniser: Recogniser) -> Timeline:
    one = suspect.utterance
    samples, _ = sound_file.read(one.audio, RATE, one.channel)
    labels = _label_cells(suspect, recogniser)
    tiers = [Tier("labels", labels)] if labels else []
    return make_timeline(id, one.id, samples, RATE, [*tiers, Tier("heard", _heard_cells(suspect))])


def _label_cells(suspect: Suspect, recogniser: Recogniser) -> tuple[Cell, ...]:
    """Return the labels in time: by the corpus, else by alignment; none if they cannot be aligned."""
    one = suspect.utterance
    times = one.times
    if times is None:
        try:
            found = recogniser.align(one.audio, one.phones, channel=one.channel)
        except InputError:
            return ()
        times = tuple((segment.start, segment.end) for segment in found.segments)
    if len(times) != len(one.phones):
        return ()
    doubts = {k: place for place in suspect.doubt.places for k in range(place.start, place.end)}
    return tuple(
        _cell(start, end, phone, doubts.get(k))
        for k, (phone, (start, end)) in enumerate(zip(one.phones, times, strict=True))
    )


def _heard_cells(suspect: Suspect) -> tuple[Cell, ...]:
    doubts = {k: place for place in suspect.doubt.places for k in range(place.heard_start, place.heard_end)}
    return tuple(_cell(each.start, each.end, each.phone, doubts.get(k)) for k, each in enumerate(suspect.heard))


def _cell(start: float, end: float, phone: str, place: Place | None) -> Cell:
    about = f"{phone}, {start:.2f} to {end:.2f} s"
    if place is None:
        return Cell(start, end, phone, "plain", about)
    about += f"; labels and what was heard differ here, by {place.gain:.1f} nats"
    return Cell(start, end, phone, "substituted" if place.gain >= CLEAR else "doubtful", about)
