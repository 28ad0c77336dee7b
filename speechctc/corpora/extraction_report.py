"""What extraction says of a corpus: how often each phone occurs, and recordings that may be mistakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import soundfile

from speechctc.audio import truncation
from speechctc.audio.channels import channels_differ
from speechctc.audio.sound_file import open_sound
from speechctc.corpora.corpus import Corpus
from speechctc.errors import InputError
from speechctc.listing import counted, some
from speechctc.phones.inventory import Inventory
from speechctc.progress import Reporter
from speechctc.storage import files

RARE = 5  # fewer times than this in training: hardly learned
LISTED = 40  # phones named with their counts; the rest is in the file
COMPARED = 10  # recordings of several channels that are listened to: all of a corpus are mostly made alike
FILE = "phones.tsv"


def report_phones(folder: Path, phones: Inventory, counts: Mapping[str, Sequence[int]], reporter: Reporter) -> None:
    """Write how often each phone occurs in each split, and say it in short, with what is rare or never trained on.

    Parameters
    ----------
    folder : Path
        Where ``phones.tsv`` is written: a line for each phone, its count in each split.
    phones : Inventory
    counts : mapping of str to sequence of int
        By split, of each phone of the inventory, in its order.
    reporter : Reporter
    """
    table = zip(phones.phones, *counts.values(), strict=True)
    lines = ["\t".join(("phone", *counts))] + ["\t".join(map(str, row)) for row in table]
    files.write_text(folder / FILE, "\n".join(lines) + "\n")
    train = Counter(dict(zip(phones.phones, counts["train"], strict=True)))
    present = Counter({phone: count for phone, count in train.items() if count})
    reporter.note(f"phones, and how often they are in train: {counted(present, LISTED)}; all in {folder / FILE}")
    if rare := {phone: count for phone, count in present.items() if count < RARE}:
        reporter.warn(f"fewer than {RARE} times in train, so hardly learned: {counted(Counter(rare), LISTED)}")
    absent = [phone for phone, count in train.items() if not count]
    others = {phone: sum(split[k] for split in counts.values()) for k, phone in enumerate(phones.phones)}
    if never := Counter({phone: others[phone] for phone in absent if others[phone]}):
        reporter.warn(f"only in dev or test, never in train, so never recognised: {counted(never, LISTED)}")
    if unused := [phone for phone in absent if not others[phone]]:
        reporter.note(f"phones of {phones.name} that do not occur: {some(unused, LISTED)}")


def report_recordings(corpus: Corpus, reporter: Reporter) -> None:
    """Warn of recordings that are cut short, and of those whose channels hold different sounds and are averaged."""
    everything = [utterance for part in corpus.splits.values() for utterance in part]
    averaged = {utterance.audio for utterance in everything if utterance.channel is None}
    cut, several = [], []
    for path in sorted({utterance.audio for utterance in everything}):
        try:
            with open_sound(path) as file:
                if isinstance(file, soundfile.SoundFile) and truncation.cut_short(path, file):
                    cut.append(path.name)
                if file.channels > 1 and path in averaged:
                    several.append(path)
        except InputError:
            continue  # it will be skipped, with the reason
    if cut:
        reporter.warn(
            f"recordings that are cut short ({len(cut)}), whose last phones may have no sound: {some(cut, 5)}"
        )
    differing = [path.name for path in several[:COMPARED] if channels_differ(path)]
    if differing:
        looked = f" of {COMPARED} compared" if len(several) > COMPARED else ""
        reporter.warn(
            f"recordings whose channels hold different sounds, perhaps two speakers ({len(differing)}{looked}): "
            f"{some(differing, 5)}; their channels are averaged; corpus.channel=1 reads the first alone, and the "
            "column 'channel' of a table says which"
        )
