"""Warns of what is heard of recordings that may not be what was meant: damage, and several channels as one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from speechctc.audio import sound_file
from speechctc.audio.sound_file import channels_differ
from speechctc.audio.tracks import Track, track_of
from speechctc.core.errors import InputError, counted_alike
from speechctc.core.parallel import attempt
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Utterance
from speechctc.corpora.findings import listed

COMPARED = 10  # recordings whose channels are compared: those of one corpus are usually alike


def report_recordings(utterances: Iterable[Utterance], reporter: Reporter) -> None:
    """Warn of recordings that are cut short, and of recordings with different channels that are averaged."""
    everything = [*utterances]
    chosen = {(utterance.audio, track_of(utterance.channel)) for utterance in everything}
    tracks = sorted(chosen, key=lambda each: (each[0], each[1] or 0))
    read = ((path, number and Track(number)) for path, number in tracks)
    said = ((path, attempt(partial(sound_file.remark, path), track)) for path, track in read)
    reporter.warn(*counted_alike([(path, damage) for path, damage in said if damage and isinstance(damage, str)], True))
    averaged = {utterance.audio for utterance in everything if utterance.channel is None}
    infos = ((path, attempt(sound_file.info, path)) for path in sorted(averaged))
    several = [path for path, info in infos if not isinstance(info, InputError) and info.channels > 1][:COMPARED]
    mixed = listed("channels-differ", [path.name for path in several if channels_differ(path)])
    reporter.warn(*(finding.to_line() for finding in mixed))
