"""Reports of extraction: counts of phones, where utterances lie in recordings, recordings that may be faulty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from speechctc.audio import sound_file
from speechctc.audio.sound_file import channels_differ
from speechctc.core import files
from speechctc.core.errors import InputError, counted, some
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Corpus
from speechctc.phones.dictionary import word_key
from speechctc.phones.inventory import Inventory

RARE = 5  # a phone with fewer occurrences in training is hardly learned
LISTED = 40  # phones printed with their counts; all are in the file
COMPARED = 10  # recordings whose channels are compared: those of one corpus are usually alike
FILE = "phones.tsv"
UTTERANCES = "utterances.tsv"
LANGUAGES = "languages.tsv"
WORDS_FILE = "pronunciations.dict"


def report_phones(folder: Path, phones: Inventory, counts: Mapping[str, Sequence[int]], reporter: Reporter) -> None:
    """Write how often each phone occurs in each split; print a summary and the phones that are rare or not in training.

    Parameters
    ----------
    folder : Path
        The folder of ``phones.tsv``, which gets a line for each phone with its count in each split.
    phones : Inventory
    counts : mapping of str to sequence of int
        By split, the count of each phone in the order of the inventory.
    reporter : Reporter
    """
    table = zip(phones.phones, *counts.values(), strict=True)
    lines = ["\t".join(("phone", *counts))] + ["\t".join(map(str, row)) for row in table]
    files.write_text(folder / FILE, "\n".join(lines) + "\n")
    train = Counter(dict(zip(phones.phones, counts["train"], strict=True)))
    present = Counter({phone: count for phone, count in train.items() if count})
    reporter.note(f"phones and their counts in train: {counted(present, LISTED)}; all in {folder / FILE}")
    if rare := {phone: count for phone, count in present.items() if count < RARE}:
        reporter.warn(
            f"phones with fewer than {RARE} occurrences in train, hardly learned: {counted(Counter(rare), LISTED)}"
        )
    absent = [phone for phone, count in train.items() if not count]
    others = {phone: sum(split[k] for split in counts.values()) for k, phone in enumerate(phones.phones)}
    if never := Counter({phone: others[phone] for phone in absent if others[phone]}):
        reporter.warn(f"phones in dev or test that are not in train, and so never recognised: {counted(never, LISTED)}")
    if unused := [phone for phone in absent if not others[phone]]:
        reporter.note(f"phones of {phones.name} that do not occur: {some(unused, LISTED)}")


def write_utterances(folder: Path, corpus: Corpus) -> None:
    """Write ``utterances.tsv``, where each utterance lies in its recording, if some are cut from one or have words."""
    rows = [(split, utterance) for split, part in corpus.splits.items() for utterance in part]
    if not any(utterance.stretch or utterance.words for _, utterance in rows):
        (folder / UTTERANCES).unlink(missing_ok=True)
        return
    lines = ["split\tid\taudio\tstart\tend\tspeaker\tphones\twords"]
    for split, each in rows:
        start, end = ("", "") if each.stretch is None else map("{:.4f}".format, each.stretch)
        fields = (split, each.id, each.audio, start, end, each.speaker, " ".join(each.phones), " ".join(each.words))
        lines.append("\t".join(" ".join(str(field).split("\t")) for field in fields))
    files.write_text(folder / UTTERANCES, "\n".join(lines) + "\n")


def write_languages(folder: Path, corpus: Corpus) -> None:
    """Write the language of each utterance, if there are several: training balances epochs by it, and scores by it."""
    rows = [
        (split, each.id, dict(each.traits).get("language", ""))
        for split, part in corpus.splits.items()
        for each in part
    ]
    if len({language for _, _, language in rows}) < 2:
        (folder / LANGUAGES).unlink(missing_ok=True)
        return
    lines = ("\t".join(" ".join(field.split("\t")) for field in row) for row in rows)
    files.write_text(folder / LANGUAGES, "".join(f"{line}\n" for line in ("split\tid\tlanguage", *lines)))


def write_pronunciations(folder: Path, corpus: Corpus) -> str:
    """Write the words of a corpus with the pronunciations that its labels have, as a dictionary.

    Returns
    -------
    str
        What was written, for the user.
    """
    counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for words in (corpus.words or {}).values():
        counts.update((word_key(word.text), word.pronunciations[0]) for word in words)
    ranked = sorted(counts, key=lambda each: (each[0], -counts[each], each[1]))
    files.write_text(folder / WORDS_FILE, "".join(f"{word}\t{' '.join(phones)}\n" for word, phones in ranked))
    count = len({word for word, _ in ranked})
    return f"{count:,} different words with their pronunciations in {folder / WORDS_FILE}"


def report_recordings(corpus: Corpus, reporter: Reporter) -> None:
    """Warn of recordings that are cut short, and of recordings with different channels that are averaged."""
    everything = [utterance for part in corpus.splits.values() for utterance in part]
    averaged = {utterance.audio for utterance in everything if utterance.channel is None}
    cut: list[str] = []
    as_text: list[str] = []
    several: list[Path] = []
    for path in sorted({utterance.audio for utterance in everything}):
        try:
            if damage := sound_file.cut_short(path):
                (as_text if sound_file.COPIED_AS_TEXT in damage else cut).append(path.name)
            if path in averaged and sound_file.info(path).channels > 1:
                several.append(path)
        except InputError:
            continue  # extraction skips it and gives the reason
    if cut:
        reporter.warn(
            f"recordings that are cut short ({len(cut)}), so that sound may be missing for their last phones: "
            f"{some(cut, 5)}"
        )
    if as_text:
        reporter.warn(
            f"recordings that were {sound_file.COPIED_AS_TEXT} ({len(as_text)}), which makes noise of them: "
            f"{some(as_text, 5)}; they are read with the lost bytes put back, but copy them again in binary mode"
        )
    differing = [path.name for path in several[:COMPARED] if channels_differ(path)]
    if differing:
        compared = f" of {COMPARED} compared" if len(several) > COMPARED else ""
        reporter.warn(
            f"recordings whose channels hold different sounds, perhaps two speakers ({len(differing)}{compared}): "
            f"{some(differing, 5)}; their channels are averaged; corpus.channel=1 reads only the first, and the "
            "column 'channel' of a table chooses one for each recording"
        )
