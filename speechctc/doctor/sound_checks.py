"""Checks of recordings: unreadable, cut short, clipped, silent, other rates or channels than the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from speechctc.audio.sound_file import COPIED_AS_TEXT
from speechctc.core.errors import InputError
from speechctc.doctor.finding import Finding, Severity
from speechctc.doctor.listening import Heard, Place

CLIPPED = 5e-4  # share of a recording's samples in flat peaks, from which it is clipped
FEW_CLIPPED = 20  # samples; fewer are not heard
SILENT_DB = -65.0  # dB of full scale; the loudest 20 ms of speech are louder
QUIET_DB = -45.0  # dB of full scale; below, 16 bits leave few steps for soft sounds
OFFSET = 0.03  # of full scale
TELEPHONE_DB = -70.0  # of the whole power, above 4.2 kHz: less has been filtered away
LONG = 60.0  # s

Sounds: TypeAlias = Mapping[Place, Heard | InputError]


def check_sounds(sounds: Sounds, rate: int) -> list[Finding]:
    """Check what was heard of each recording against the model's sample rate, Hz."""
    heard = {place: sound for place, sound in sounds.items() if isinstance(sound, Heard)}
    found = [_unreadable(sounds), *_rates(heard, rate), _telephone(heard)]
    found += [check(heard) for check in (_cut, _as_text, _differ, _clipped, _silent, _quiet, _offset, _long)]
    return [finding for finding in found if finding is not None]


def _unreadable(sounds: Sounds) -> Finding | None:
    errors = [error.what for error in sounds.values() if isinstance(error, InputError)]
    if not errors:
        return None
    severity: Severity = "stops" if len(errors) == len(sounds) else "warning"
    what = f"recordings that cannot be read: {len(errors)} of {len(sounds)}"
    why = "extraction leaves them out, and their labels with them"
    return Finding("unreadable", severity, what, tuple(errors), why, "copy or convert them again, or leave them out")


def _rates(heard: Mapping[Place, Heard], rate: int) -> list[Finding]:
    low = {place: sound for place, sound in heard.items() if sound.rate < rate}
    if not low:
        return []
    every = len(low) == len(heard)
    highest = max(sound.rate for sound in low.values())
    return [
        Finding(
            "low-rate",
            "warning",
            f"recordings with a lower sample rate than features.sample_rate={rate}: {len(low)} of {len(heard)}",
            tuple(f"{place} ({sound.rate:,} Hz)" for place, sound in low.items()),
            f"they have no sound above {highest / 2:,.0f} Hz, where the model looks for it"
            + ("" if every else "; it learns to tell the recordings apart, not the phones"),
            f"set features.sample_rate={highest}"
            if every
            else "set features.sample_rate to the lowest rate, or leave these out",
        )
    ]


def _telephone(heard: Mapping[Place, Heard]) -> Finding | None:
    found = [place for place, sound in heard.items() if sound.high_db < TELEPHONE_DB and sound.level_db > SILENT_DB]
    if not found or len(found) > len(heard) / 2:  # most are so: a corpus of telephone speech
        return None
    return Finding(
        "telephone",
        "warning",
        f"recordings without sound above 4.2 kHz, despite their sample rate: {len(found)} of {len(heard)}",
        tuple(map(str, found)),
        "they went through a telephone or were resampled from 8 kHz; fricatives are hard to tell apart in them",
        "use the original recordings, or set features.high_hz=4000 for all",
    )


def _cut(heard: Mapping[Place, Heard]) -> Finding | None:
    return _list(
        heard,
        lambda sound: sound.cut.partition(": cut short: ")[2],
        "cut-short",
        "recordings that are shorter than their headers say",
        "sound is missing for the last labels",
        "copy them again, or shorten their labels",
    )


def _as_text(heard: Mapping[Place, Heard]) -> Finding | None:
    return _list(
        heard,
        lambda sound: sound.cut.partition(": ")[2] if COPIED_AS_TEXT in sound.cut else "",
        "copied-as-text",
        "recordings that were copied as text",
        "line ends were changed in them, which makes noise of sound; speechctc mends it, other programs do not",
        "copy them again, in binary mode",
    )


def _differ(heard: Mapping[Place, Heard]) -> Finding | None:
    return _list(
        heard,
        lambda sound: f"{sound.channels} channels" if sound.differ else "",
        "channels-differ",
        "recordings with different sounds in their channels, perhaps two speakers",
        "the channels are averaged, and the model hears both at once",
        "corpus.channel=1 reads the first; the column 'channel' of a table chooses one for each recording",
    )


def _clipped(heard: Mapping[Place, Heard]) -> Finding | None:
    def see(sound: Heard) -> str:
        share = sound.clipped / sound.samples
        return f"{100 * share:.2g} % of samples" if share > CLIPPED and sound.clipped >= FEW_CLIPPED else ""

    return _list(
        heard,
        see,
        "clipped",
        "recordings that are clipped, with peaks cut flat",
        "clipping adds noise at all frequencies, most of all in vowels",
        "record again at a lower level, or use originals that are not clipped",
    )


def _silent(heard: Mapping[Place, Heard]) -> Finding | None:
    return _list(
        heard,
        lambda sound: f"{sound.level_db:.0f} dB" if sound.level_db <= SILENT_DB else "",
        "silent",
        "recordings that are silent",
        "the model learns to find phones in silence",
        "look for the right recording or channel, or leave them out",
    )


def _quiet(heard: Mapping[Place, Heard]) -> Finding | None:
    return _list(
        heard,
        lambda sound: f"{sound.level_db:.0f} dB" if SILENT_DB < sound.level_db <= QUIET_DB else "",
        "quiet",
        f"recordings that are very quiet, with their loudest 20 ms below {QUIET_DB:.0f} dB of full scale",
        "the noise of 16 bits is near their soft sounds",
        "record louder, or use the originals before any change of level",
    )


def _offset(heard: Mapping[Place, Heard]) -> Finding | None:
    return _list(
        heard,
        lambda sound: f"{sound.offset:+.2f}" if abs(sound.offset) > OFFSET else "",
        "offset",
        "recordings with a constant offset: their mean is not 0",
        "the energy and the lowest bands measure the offset in place of the speech",
        "remove it: ffmpeg -i FILE -af highpass=f=20 NEW.wav",
    )


def _long(heard: Mapping[Place, Heard]) -> Finding | None:
    return _list(
        heard,
        lambda sound: f"{sound.seconds:.0f} s" if sound.seconds > LONG else "",
        "long",
        f"recordings longer than {LONG:.0f} s",
        "each is one utterance; the longest decides on the memory that training needs, and long ones are learned late",
        "cut them at pauses",
    )


def _list(
    heard: Mapping[Place, Heard], see: Callable[[Heard], str], kind: str, what: str, why: str, fix: str
) -> Finding | None:
    """Return the finding that lists the recordings of which `see` says something; None if there are none."""
    seen = [f"{place} ({said})" for place, sound in heard.items() if (said := see(sound))]
    return Finding(kind, "warning", f"{what}: {len(seen)}", tuple(seen), why, fix) if seen else None
