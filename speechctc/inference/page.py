"""Recognised or aligned recordings as a page: spectrogram, phones on the time axis, sound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from speechctc.audio import sound_file
from speechctc.audio.tracks import Channel
from speechctc.inference.result import Recognition, Word
from speechctc.inference.segmenter import Segment
from speechctc.pages import timeline
from speechctc.pages.page import render_page
from speechctc.pages.timeline import Cell, Kind, Tier, make_timeline

RATE = 16000  # Hz, of the sound on the page
Shown = tuple[Path, str, Channel | None, Recognition]
DOUBTFUL = 0.5  # phones with a lower confidence are marked
WEAK, POOR = 0.2, 0.05  # phones with a lower score are shaded, and shaded more


def recordings_page(results: Iterable[Shown]) -> str:
    """Return a page with recordings, as HTML.

    Parameters
    ----------
    results : iterable of (Path, str, Channel or None, Recognition)
        The file of each recording; its name, whose folders are left out if the names differ without them; the channel
        that was read (None: the mean of all); the result. The file is read again, whole: about 0.25 GB of memory for an
        hour.

    Raises
    ------
    InputError
        A recording can no longer be read.
    """
    shown, files = [], list(results)
    for number, ((path, _, channel, result), name) in enumerate(zip(files, _names(files), strict=True)):
        samples, _ = sound_file.read(path, RATE, channel)
        tiers = [Tier("words", tuple(map(_word, result.words)))] if result.words else []
        if result.intervals:
            tiers.append(Tier(result.tier, tuple(Cell(*each) for each in result.intervals)))
        tiers.append(Tier("phones", tuple(map(_cell, result.segments))))
        if result.about:
            tiers.append(Tier("said instead", tuple(_instead(result.segments))))
        shown.append((result, make_timeline(f"r{number}", name, samples, RATE, tiers)))
    title = f"Phones of {shown[0][1].name}" if len(shown) == 1 else f"Phones of {len(shown)} recordings"
    is_aligned = any(result.log_probability is not None for result, _ in shown)
    about = " ".join(dict.fromkeys(result.about for result, _ in shown if result.about))
    values = {"recordings": shown, "doubtful": DOUBTFUL, "is_aligned": is_aligned, "about": about}
    values |= {"weak": WEAK, "poor": POOR}
    return render_page("recordings.html", title, values, [timeline.STYLE], [timeline.SCRIPT])


def _names(files: Sequence[Shown]) -> list[str]:
    """Return the names without their folders, which readers need not know, unless two are the same."""
    short = [Path(name).name for _, name, _, _ in files]
    return short if len(set(short)) == len(short) else [name for _, name, _, _ in files]


def _word(word: Word) -> Cell:
    about = f"{word.word}, {word.start:.2f} to {word.end:.2f} s" + (f", said as {word.variant}" if word.variant else "")
    return Cell(word.start, word.end, word.word, "plain", about)


def _instead(segments: Iterable[Segment]) -> Iterator[Cell]:
    """Yield what was said instead of phones, under them."""
    for each in segments:
        if each.goodness and each.goodness.instead:
            yield replace(_cell(each), label=each.goodness.said_instead[0][0])


def _cell(segment: Segment) -> Cell:
    span = f"{segment.start:.2f} to {segment.end:.2f} s"
    others = ", ".join(f"{phone} {share:.2f}" for phone, share in segment.alternatives)
    about = f"{segment.phone}, {span}, confidence {segment.confidence:.2f}" + (f"; or {others}" if others else "")
    kind: Kind = "doubtful" if segment.confidence < DOUBTFUL else "plain"
    if found := segment.goodness:
        kind = "poor" if found.score < POOR else "weak" if found.score < WEAK else "plain"
        about += f", score {found.score:.2f}" + (f"; said instead: {found.instead}" if found.instead else "")
        about += f"; not told from {' '.join(found.not_told)}" if found.not_told else ""
        about += "; of {} {:.2f}".format(*segment.contrast) if segment.contrast else ""
    return Cell(segment.start, segment.end, segment.phone, kind, about)
