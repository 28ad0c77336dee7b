"""Texts of language models: read, learned from as n-grams, and scored; and samples that language models draw."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from speechctc.config.schema import Config
from speechctc.core.bundled import bundled_folder
from speechctc.core.errors import InputError, columns, counted, first_few, plural
from speechctc.core.progress import Reporter
from speechctc.core.text_files import read_unpacked
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.table_rows import Row, is_table, read_table
from speechctc.inference.load import load_lm
from speechctc.lm.arpa import write_arpa
from speechctc.lm.model import LanguageModel, NgramModel, sample
from speechctc.lm.ngram import estimate
from speechctc.model.checkpoint import find_checkpoint, read_inventory
from speechctc.phones.articulation import is_arpabet
from speechctc.phones.inventory import FOUND, NAMED, Inventory, encode_text, inventory_of, named_inventory
from speechctc.phones.label_rules import may_be_phone
from speechctc.phones.nonspeech import NonSpeech
from speechctc.phones.pronouncer import PhoneMapper, Pronouncer

MAX_PHONES = 500  # phones that texts may have: more are words
SENTENCE_END = re.compile(r"(?<=[.!?;:…])[\"'”’»)\]]*\s+|(?<=[。！？।؟])\s*")


class PhoneText(NamedTuple):
    """Utterances as phones, and the name of their source."""

    name: str
    utterances: Sequence[Sequence[str]]


def split_texts(config: Config, splits: Sequence[str]) -> tuple[Inventory, list[PhoneText]]:
    """Return a corpus's phone set and the labels of some of its splits.

    Raises
    ------
    InputError
        There is no such corpus, or a split has no utterances.
    """
    corpus = read_corpus(config.corpus)
    texts = [PhoneText(split, [utterance.phones for utterance in corpus.splits[split]]) for split in splits]
    for split, _ in (text for text in texts if not any(text.utterances)):
        raise InputError(f"the corpus has no {split} split, or no phones in it", "name another, or a text with --text")
    return corpus.inventory(), texts


def read_sources(
    config: Config | None,
    files: Sequence[Path],
    phones: str,
    reads: tuple[Path | None, str | None],
    reporter: Reporter,
    times: int,
    with_dev: bool,
) -> tuple[Inventory, PhoneText, PhoneText | None]:
    """Return the phone set of a language model, its whole text, and dev of the corpus if it is wanted and there is one.

    Parameters
    ----------
    config : Config, optional
        Its corpus's labels are text, and its phone set is that of the language model.
    files : sequence of Path
        More texts.
    phones : str
        Without a config, a phone set or a model that has it; or ``found``: the phones in the files.
    reads : (Path or None, str or None)
        The dictionary and the language that read the files' words (see `Pronouncer`); both None: they hold phones.
    reporter : Reporter
    times : int
        How often the corpus's labels count, where they are nearer than the files to what will be recognised.
    with_dev : bool

    Raises
    ------
    InputError
        Nothing is named, or something cannot be read.
    """
    if config is None and not files:
        raise InputError("no text to learn from", "name a corpus with --config, files with --text, or both")
    if config is not None and phones != FOUND:
        raise InputError("--phones and --config both name a phone set", "leave out --phones")
    if any(reads) and not files:
        raise InputError("--dictionary and --language read words, and there are none", "name files with --text")
    if config is None:
        inventory, labelled = phone_set(phones), list[PhoneText]()
    else:
        inventory, labelled = split_texts(config, ["train", "dev"] if with_dev else ["train"])
    read = word_texts(files, Pronouncer(*reads, inventory), reporter) if any(reads) else list(map(phone_text, files))
    if inventory is not None and not any(reads):
        read = [_in_set(text, inventory, reporter) for text in read]
    texts = [*labelled[:1] * times, *read]
    if inventory is None:
        inventory = inventory_of(phone for text in texts for each in text.utterances for phone in each)
        if len(inventory.phones) > MAX_PHONES:
            what = f"{len(inventory.phones):,} different phones, such as {first_few(inventory.phones, 5)}"
            raise InputError(f"{texts[0].name}: {what}", "if these are words, name their --language, such as en-us")
    whole = [utterance for text in texts for utterance in text.utterances]
    name = first_few([text.name for text in [*labelled[:1], *read]], 4)
    return inventory, PhoneText(name, whole), labelled[1] if len(labelled) > 1 else None


def phone_set(name: str) -> Inventory | None:
    """Return a named phone set or that of a model; None for ``found``.

    Raises
    ------
    InputError
        There is no set and no model of this name.
    """
    if name == FOUND:
        return None
    if name not in NAMED and Path(name).exists() or bundled_folder(name) is not None:
        return read_inventory(find_checkpoint(Path(name)))
    return named_inventory(name)


def phone_text(path: Path) -> PhoneText:
    """Read a phone text.

    Raises
    ------
    InputError
        It cannot be read, or is empty.
    """
    if (rows := _column(path, "phones")) is not None:
        return PhoneText(str(path), [row.phones for row in rows if row.phones])
    return PhoneText(str(path), read_phone_text(path))


def _in_set(text: PhoneText, inventory: Inventory, reporter: Reporter) -> PhoneText:
    """Return a text whose phones in IPA are those of a set, or the nearest, which are counted and named."""
    own = inventory.phones
    counts = Counter(label for each in text.utterances for label in each if inventory.normalise(label) not in own)
    mapper = PhoneMapper(own, divides=True)
    near = {} if is_arpabet(own) else {one: mapper.map((one,)) for one in counts if may_be_phone(one, own)}
    found = {label: phones for label, phones in near.items() if phones}
    if not found:
        return text
    named = [f"{label} as {' '.join(phones)} ({counts[label]})" for label, phones in sorted(found.items())]
    reporter.note(f"{text.name}: phones that the set lacks are written as the nearest: {first_few(named, 40)}")
    written = [[phone for label in each for phone in found.get(label, (label,))] for each in text.utterances]
    return PhoneText(text.name, written)


def _column(path: Path, name: Literal["phones", "words"]) -> list[Row] | None:
    """Return the rows of a table that has a column of phones or words; None: the file is a text.

    Raises
    ------
    InputError
        It is a table without this column, or it cannot be read.
    """
    if not is_table(path) or not path.exists():
        return None
    try:
        table = list(read_table(path, (name,)).rows)
    except InputError as error:
        raise InputError(error.what, f"give it a column {name}; words need --language or --dictionary") from None
    if bad := next((row for row in table if row.problem), None):
        raise InputError(f"{path}, line {bad.line}: {bad.problem}", "correct the line")
    if not any(getattr(row, name) for row in table):
        raise InputError(f"{path}: its column {name} is empty", "fill it, or name another text")
    return table


def word_texts(paths: Sequence[Path], pronouncer: Pronouncer, reporter: Reporter) -> list[PhoneText]:
    """Read texts in words; each sentence is an utterance, and words have their first pronunciation.

    Sentences with a word that nothing can read are left out, and reported.

    Raises
    ------
    InputError
        A text cannot be read, or nothing in it can.
    """
    found = []
    unread: Counter[str] = Counter()
    nonspeech = NonSpeech()
    for path in paths:
        rows = _column(path, "words")
        text = read_unpacked(path, "a UTF-8 text") if rows is None else "\n".join(row.words for row in rows)
        sentences, lines = _sentences(text), sum(map(bool, map(str.strip, text.splitlines())))
        utterances = []
        sentences = list(filter(None, map(nonspeech.spoken, sentences)))
        pronouncer.detect_ipa(sentences)
        for sentence in reporter.track(f"reading {path.name}", sentences, len(sentences)):
            words = pronouncer.read(sentence)
            missing = [word.text for word in words if not word.pronunciations]
            unread.update(missing)
            if words and not missing:
                utterances.append([phone for word in words for phone in word.pronunciations[0]])
        if not utterances:
            raise InputError(f"{path}: no sentence in it that can be read", "name a text in words, as UTF-8")
        if len(sentences) > lines:
            reporter.note(f"{path}: {len(sentences):,} sentences in {lines:,} lines, each an utterance of its own")
        found.append(PhoneText(str(path), utterances))
    reporter.note(pronouncer.describe(), *pronouncer.notes(), *nonspeech.notes("words"))
    if unread:
        reporter.warn(f"words that nothing can read; their sentences are left out: {counted(unread, 20)}")
    return found


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text; a line ends one too."""
    return [part.strip() for line in text.splitlines() for part in SENTENCE_END.split(line) if part.strip()]


def check_free(out: Path) -> None:
    """Raise an `InputError` if something is at `out`, which is not overwritten."""
    if os.path.lexists(out):
        raise InputError(f"{out}: exists already", "name another with --out")


def train_ngram(text: PhoneText, inventory: Inventory, order: int, out: Path, threshold: float = 0.0) -> str:
    """Estimate an n-gram, prune it, write it as an ARPA file, and return a line about it.

    `threshold` is that of `speechctc.lm.ngram.prune`.

    Raises
    ------
    InputError
        Something is at `out`, or a word of the text is not a phone of the set.
    """
    labels = encode_text(text.name, text.utterances, inventory)
    ngram = estimate(labels, len(inventory.phones) + 1, order, threshold=threshold)
    check_free(out)
    write_arpa(out, ngram, inventory)
    counts = ", ".join(str(len(ngram.nodes(length))) for length in range(1, order + 1))
    size = f"{plural(sum(map(len, labels)), 'phone')} in {plural(len(labels), 'utterance')}"
    return f"{out}: {order}-gram of {size} ({text.name}); strings: {counts}"


RESAMPLES = 1000


def score_texts(
    lms: Sequence[Path], texts: Sequence[PhoneText], inventory: Inventory | None, reporter: Reporter
) -> list[Perplexity]:
    """Score every text with every language model.

    Parameters
    ----------
    lms : sequence of Path
    texts : sequence of PhoneText
    inventory : Inventory, optional
        The phones that the models must have.
    reporter : Reporter

    Raises
    ------
    InputError
        A model cannot be read, or a text has words that are not its phones.
    """
    found = []
    for path in lms:
        lm = load_lm(path, inventory)
        if isinstance(lm, NgramModel) and lm.missing:
            reporter.warn(f"{path}: has no probability for {len(lm.missing)} phones: {first_few(lm.missing)}")
        for text in texts:
            labels = encode_text(text.name, _in_set(text, lm.inventory, reporter).utterances, lm.inventory)
            found.append(perplexity(lm, str(path), text.name, labels))
    return found


def sample_texts(path: Path, count: int, seed: int, temperature: float, prefix: str, longest: int) -> Iterator[str]:
    """Yield phone strings sampled from a language model.

    Raises
    ------
    InputError
        It cannot be read, or the prefix has words that are not its phones.
    """
    lm = load_lm(path)
    (begin,) = encode_text("--prefix", [prefix.split()], lm.inventory)
    for labels in sample(lm, count, seed, temperature, begin, longest):
        yield " ".join(lm.inventory.decode(labels))


@dataclass(frozen=True)
class Perplexity:
    """The perplexity of a text under a language model.

    Attributes
    ----------
    lm, text : str
        Names of the model and of the text.
    utterances, phones : int
    perplexity : float
        ``exp(-log p / n)``, where the n events are the phones and the ends of the utterances.
    low, high : float
        Bounds of its 95 % bootstrap interval over utterances.
    """

    lm: str
    text: str
    utterances: int
    phones: int
    perplexity: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "bits_per_event": math.log2(self.perplexity)}


def perplexity(lm: LanguageModel, name: str, text: str, labels: Sequence[Sequence[int]]) -> Perplexity:
    """Score a text.

    Parameters
    ----------
    lm : LanguageModel
    name, text : str
        For the report.
    labels : sequence of sequence of int
        Utterances; at least one.
    """
    scores = lm.score(labels)
    events = np.array([len(utterance) + 1 for utterance in labels])
    draws = np.random.default_rng(0).integers(len(labels), size=(RESAMPLES, len(labels)))
    low, high = np.percentile(np.exp(-scores[draws].sum(1) / events[draws].sum(1)), [2.5, 97.5])
    phones = int(events.sum()) - len(labels)
    value = float(np.exp(-scores.sum() / events.sum()))
    return Perplexity(name, text, len(labels), phones, value, float(low), float(high))


def table(found: Sequence[Perplexity]) -> str:
    """Return the perplexities as a table, one per line."""
    rows = [("language model", "text", "utterances", "phones", "perplexity", "95 % interval")]
    for each in found:
        interval = f"{each.low:.2f} to {each.high:.2f}"
        rows.append((each.lm, each.text, str(each.utterances), str(each.phones), f"{each.perplexity:.2f}", interval))
    return "\n".join(columns(rows, "llrrrr"))


def read_phone_text(path: Path) -> list[list[str]]:
    """Return the phones of each line that has any, separated by spaces.

    Raises
    ------
    InputError
        It cannot be read, or there are no phones in it.
    """
    utterances = [words for line in read_unpacked(path, "a UTF-8 text").splitlines() if (words := line.split())]
    if not utterances:
        raise InputError(f"{path}: no phones in it", "write one utterance per line, its phones separated by spaces")
    return utterances
