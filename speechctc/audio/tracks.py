"""Which sound of a recording is read: a channel, or a sound track of a video."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias


class Track(NamedTuple):
    """A sound track of a video, and maybe one channel of it.

    Attributes
    ----------
    track : int
        Counted from 1.
    channel : int, optional
        Counted from 1; None: the mean of all.
    """

    track: int
    channel: int | None = None


Channel: TypeAlias = int | Track  # a channel, of the first sound track if there are several; or a track


def chosen(track: int | None, channel: int | None) -> Channel | None:
    """Return what an option for the track and one for the channel choose together."""
    return channel if track is None else Track(track, channel)


def preferred(own: Channel | None, given: Channel | None) -> Channel | None:
    """Return what is chosen for one recording, completed by what is chosen for all."""
    return chosen(track_of(own) or track_of(given), number_of(own) or number_of(given))


def track_of(channel: Channel | None) -> int | None:
    """Return the sound track that is chosen, from 1; None if none is."""
    return channel.track if isinstance(channel, Track) else None


def number_of(channel: Channel | None) -> int | None:
    """Return the channel that is chosen within its track, from 1; None if none is."""
    return channel.channel if isinstance(channel, Track) else channel


def fields(channel: Channel | None) -> dict[str, Any]:
    """Return what is chosen as fields of JSON: ``track`` and ``channel``."""
    both = {"track": track_of(channel), "channel": number_of(channel)}
    return {name: number for name, number in both.items() if number is not None}


def words(channel: Channel | None) -> str:
    """Return what is chosen in words, such as ``track 2, channel 1``; ``""`` if nothing is."""
    return ", ".join(f"{name} {number}" for name, number in fields(channel).items())


def named(name: str, channel: Channel | None) -> str:
    """Return a name, followed in parentheses by what of the recording was chosen."""
    return f"{name} ({words(channel)})" if fields(channel) else name
