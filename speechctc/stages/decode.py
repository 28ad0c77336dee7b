"""Decode recordings or standard input, and write the phones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

from speechctc.audio import sound_file
from speechctc.audio.dereverberation import Dereverberated, When
from speechctc.audio.recordings import Named, Recording, find_recordings, left_out
from speechctc.audio.sound_file import Blocks
from speechctc.audio.standard_input import opened_stdin
from speechctc.core.errors import InputError, counted_alike, first_few
from speechctc.core.parallel import each_within, time_limit
from speechctc.core.progress import Reporter
from speechctc.inference.decoder import Decoder, Doubt
from speechctc.inference.formats import WRITERS
from speechctc.inference.output import (
    STDIN,
    OutputOptions,
    ResultWriter,
    Work,
    check_out,
    left_to_do,
    note_if_uncalibrated,
    write_results,
)
from speechctc.inference.result import NOTHING_HEARD, Recognition
from speechctc.inference.segmenter import Segment
from speechctc.inference.streaming import BLOCK_FRAMES, LIVE_FRAMES, LOOKAHEAD

# Offers the results of files in order, where they do not come from whole recordings; see `decode_sources`.
Source = Callable[[Decoder, Sequence[Recording], Work, Reporter], AbstractContextManager[Iterator[Any]]]


@dataclass(frozen=True)
class LivePhones:
    """The phones of a recording that is being decoded, one by one; see `speechctc.inference.formats.Phones`."""

    segments: Iterator[Segment]
    log_probability: None = None
    blocks: Dereverberated | None = None

    @property
    def is_dereverberated(self) -> bool:
        """As of `Recognition`, of what is decoded so far."""
        return self.blocks is not None and self.blocks.changed

    def renamed(self, symbols: Mapping[str, str]) -> LivePhones:
        """As `Recognition.renamed`."""
        return replace(self, segments=(segment.renamed(symbols) for segment in self.segments))


def decode(
    recogniser: Decoder,
    arguments: Sequence[Named],
    options: OutputOptions,
    reporter: Reporter,
    work: Work = Work(),  # noqa: B008
    doubt: Doubt | None = None,
    source: Source | None = None,
) -> int:
    """Decode recordings and write each result when it is ready; return the exit status.

    A single recording, and standard input while it is read, are written phone by phone in the formats that can be. The
    status is 0 if all recordings were decoded, 1 if some failed, 2 if all failed.

    Parameters
    ----------
    recogniser : Decoder
    arguments : sequence of Path
        Files, folders, patterns; or ``-`` alone: standard input.
    options : OutputOptions
    reporter : Reporter
        Receives the failures, at the end.
    work : Work
    doubt : Doubt, optional
        Counts the phones, and its note is given to the reporter.
    source : callable, optional
        Where the results of files come from, in place of this machine's threads.

    Raises
    ------
    InputError
        A folder has no recordings, standard input is not sound, the output cannot hold the results, or files that a
        person made or changed would be replaced.
    """
    if [*map(str, arguments[:2])] == ["-"]:  # the text of a million takes seconds
        _check_stdin(options)
        recordings, arguments = [STDIN._replace(channel=work.channel)], ()
    else:
        recordings = find_recordings(arguments, work.channel)
    options = check_out(recordings, options)
    reporter.note(*left_out(arguments))
    empty: list[str] = []
    note_if_uncalibrated(recogniser, options, reporter)
    every, recordings = recordings, left_to_do(recordings, options, reporter)
    if work.cluster:
        from speechctc.stages.decode_sources import on_workers  # late: few use a cluster

        source = on_workers
    elif work.folder_cmn:
        source = _by_folder(every)
    with (
        each_within(work.time_limit),
        source(recogniser, recordings, work, reporter)
        if source and recordings
        else _results(recogniser, recordings, options, work, reporter) as results,
    ):
        found = _watched(recordings, doubt.watched(results) if doubt else results, empty)
        status = write_results(ResultWriter(recordings, found, options), "decoding", reporter)
    reporter.warn(*counted_alike([(each, f"{each}: {NOTHING_HEARD}") for each in empty]))
    if doubt and (note := doubt.note()):
        reporter.warn(note)
    return status


def _by_folder(every: Sequence[Recording]) -> Source:
    """Return a source that decodes the recordings of a folder with the common mean of all of `every` that lie there."""
    inside = defaultdict[Path, list[Path]](list)
    for each in every:
        inside[each.path.parent.resolve()].append(each.path)

    @contextmanager
    def source(
        recogniser: Decoder, recordings: Sequence[Recording], work: Work, reporter: Reporter
    ) -> Iterator[Iterator[Any]]:
        if alone := [str(folder) for folder, paths in inside.items() if len(paths) == 1]:
            what = "changes nothing where one recording of a folder is named"
            reporter.note(f"--folder-cmn {what}: {first_few(alone)}")
        # A folder comes more than once where another lies between its recordings.
        prior = cache(lambda folder: recogniser.centred_on(inside[folder], work.jobs, work.channel).prior)
        yield chain.from_iterable(
            recogniser.replaced(prior=prior(folder)).decode_all(
                [each.path for each in group], work.jobs, work.alternatives, work.channel
            )
            for folder, group in groupby(recordings, lambda each: each.path.parent.resolve())
        )

    return source


def _watched(recordings: Sequence[Recording], results: Iterable[Any], empty: list[str]) -> Iterator[Any]:
    """Yield results or errors; add the recordings that have no phones to `empty`."""
    for recording, result in zip(recordings, results, strict=True):
        phones: Iterable[Any] = ()
        if isinstance(result, LivePhones):
            phones = list(islice(result.segments, 1))
            result = replace(result, segments=chain(phones, result.segments))
        elif isinstance(result, Recognition):
            phones = result.segments
        if not phones and not isinstance(result, InputError):
            empty.append(recording.place)
        yield result


def _check_stdin(options: OutputOptions) -> None:
    """Check that the options suit standard input."""
    if options.folder is not None:
        raise InputError(
            f"--out {options.folder}: a folder, and standard input gives one file", "name a file: a.TextGrid"
        )
    if WRITERS[options.form].shows_sound:
        raise InputError(
            f"--format {options.form} shows the recording, and standard input is not kept", "save it to a file"
        )
    if options.manifest:
        raise InputError("--manifest is of recordings, and standard input is not kept", "save it to a file")
    if options.also:
        raise InputError("several formats at once, and standard input gives one file", "name one format")


def _results(
    recogniser: Decoder, recordings: Sequence[Recording], options: OutputOptions, work: Work, reporter: Reporter
) -> AbstractContextManager[Iterator[Any]]:
    """Offer the results in order: while one recording is read, or from this machine's threads."""
    paths, rate = [recording.path for recording in recordings], recogniser.config.features.sample_rate
    form, channel = options.form, work.channel
    if paths == [STDIN.path]:
        opening = opened_stdin(rate, work.raw_rate, channel, say=reporter.note)
        return _while_read(recogniser, recordings[0], opening, form, work)
    if len(paths) == 1 and options.folder is None and not options.manifest and WRITERS[form].is_incremental:
        return _while_read(recogniser, recordings[0], sound_file.opened(paths[0], rate, channel), form, work)
    return nullcontext(recogniser.decode_all(paths, work.jobs, work.alternatives, channel))


@contextmanager
def _told(recording: Recording) -> Iterator[None]:
    """Let an error about the file of a recording name its address, if it was read from one."""
    try:
        yield
    except InputError as error:
        raise InputError(recording.told(error.what), error.fix) from None


@contextmanager
def _while_read(
    recogniser: Decoder,
    recording: Recording,
    opening: AbstractContextManager[Blocks],
    form: str,
    work: Work,
) -> Iterator[Iterator[LivePhones | Recognition]]:
    """Offer the result of a recording that is opened; phone by phone if the format can be written so."""
    is_stdin = recording.path == STDIN.path
    # Phones of standard input come while one speaks, not after each window of dereverberation.
    when: When = "never" if is_stdin else recogniser.config.decode.dereverb
    block_frames, limit = (LIVE_FRAMES, None) if is_stdin else (BLOCK_FRAMES, work.time_limit)
    lookahead = LOOKAHEAD if is_stdin and work.live else None
    with _told(recording), opening as source, time_limit(limit):
        blocks = Dereverberated(source, recogniser.config.features.sample_rate, when)
        segments = recogniser.segments(blocks, work.alternatives, block_frames, lookahead)
        if WRITERS[form].is_incremental:
            yield iter([LivePhones(segments, blocks=blocks)])
        else:
            yield (_complete(segments, blocks) for _ in range(1))


def _complete(segments: Iterator[Segment], blocks: Dereverberated) -> Recognition:
    phones = tuple(segments)  # first: the length is known at the end
    return Recognition(str(STDIN.path), blocks.seconds, phones, is_dereverberated=blocks.changed)
