"""The labels that a model is scored on: of a corpus that may be no more than a test, in the model's notation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from speechctc.config.schema import Config
from speechctc.core.errors import InputError, counted, some
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.corpora.registry import read_corpus
from speechctc.phones.inventory import SILENCES
from speechctc.phones.matching import match_phones

_BURSTS = {f"{stop}cl": (stop, *more) for stop, more in zip("bdgptk", ((), ("jh",), (), (), ("ch",), ()), strict=True)}
"""TIMIT's closures, and the phones that they begin."""


def read_to_score(config: Config, trained: Config, split: str) -> tuple[Corpus, list[str]]:
    """Read the corpus that a model is scored on.

    The phones of its labels need not be the phone set of the model's config, and nothing but the split has to be there.
    Where it is another folder than the one that the model was trained on, and is not divided, all of it is the split.

    Parameters
    ----------
    config, trained : Config
        The one to score by, and the model's own.
    split : str

    Returns
    -------
    corpus : Corpus
    notes : list of str
        What the user should know about how it was read.

    Raises
    ------
    InputError
        The corpus cannot be read, or has no usable utterance.
    """
    corpus = _in_any_phones(config, trained, split)
    ours, theirs = config.corpus, trained.corpus
    is_other = ours.kind != "table" and (ours.kind, ours.root) != (theirs.kind, theirs.root)
    if corpus.splits[split] or not is_other or not corpus.dev_from_train:
        return corpus, []
    everything = tuple(sorted((*corpus.splits["train"], *corpus.splits["dev"]), key=lambda each: each.id))
    parts = {"train": (), "dev": (), "test": (), split: everything}
    rejected = {split: tuple(each for part in corpus.rejected.values() for each in part)}
    note = f"the corpus is not divided into train, dev and test: all of its {len(everything)} utterances are scored"
    return replace(corpus, splits=parts, rejected=rejected), [note]


def _in_any_phones(config: Config, trained: Config, split: str) -> Corpus:
    """Read a corpus in the phone set of the config; if labels are not in it and it is the model's, in their own."""
    try:
        corpus = read_corpus(config.corpus, split)
        problem = None
    except InputError as error:
        corpus, problem = None, error
    may_differ = config.corpus != trained.corpus and config.corpus.phones == trained.corpus.phones != "auto"
    if may_differ and (corpus is None or any(corpus.rejected.values())):
        try:
            own = read_corpus(config.corpus.model_copy(update={"phones": "auto"}), split)
        except InputError:
            own = None
        if own and (corpus is None or _size(own) > _size(corpus)):
            return own
    if corpus is None:
        assert problem is not None
        raise problem
    return corpus


def _size(corpus: Corpus) -> int:
    return sum(map(len, corpus.splits.values()))


def in_notation_of(phones: Sequence[str], utterances: Sequence[Utterance]) -> tuple[tuple[Utterance, ...], list[str]]:
    """Return utterances with the labels that a model writes otherwise in its notation.

    Labels are matched by name and by the tables of `speechctc.phones.matching`, as for weights to begin from. A label
    that the model has no phone for stays as it is, and is an error of the model; pauses are left out if it has none.

    Parameters
    ----------
    phones : sequence of str
        Those of the model.
    utterances : sequence of Utterance

    Returns
    -------
    utterances : tuple of Utterance
    notes : list of str
        Which labels were written as which, and which the model does not have.
    """
    counts = Counter(phone for each in utterances for phone in each.phones)
    if counts.keys() <= set(phones):
        return tuple(utterances), []
    matches = match_phones(tuple(counts), phones)
    pauses = {label for label in counts if label in SILENCES and label not in matches}
    written = {label: match.phone for label, match in matches.items() if match.how != "nearness"}
    lacking = Counter({label: count for label, count in counts.items() if label not in written.keys() | pauses})
    # a letter of IPA that is another phone in ARPABET, such as y, must not count as that
    written |= {label: matches[label].phone for label in lacking if label in phones and label in matches}
    pairs = [f"{label} as {to}" for label, to in sorted(written.items()) if label != to]
    notes = [f"labels are compared in the model's notation: {some(pairs, 12)}"] if pairs else []
    if pauses:
        notes.append(f"labels of pauses are left out, because the model has none: {some(sorted(pauses))}")
    if lacking:
        share = 100 * sum(lacking.values()) / max(sum(counts.values()), 1)
        notes.append(
            f"{len(lacking)} labels ({share:.0f} % of all) are phones that the model does not have, and are errors: "
            f"{counted(lacking)}"
        )
    return tuple(_rewritten(each, written, pauses) for each in utterances), notes


def _rewritten(utterance: Utterance, written: Mapping[str, str], pauses: Container[str]) -> Utterance:
    """Return an utterance without pauses, and with a closure and its burst as one phone if they are written as one."""
    labels = utterance.phones
    phones = [written.get(label, label) for label in labels]
    kept = [
        k
        for k, label in enumerate(labels)
        if label not in pauses
        and not (
            label in _BURSTS and phones[k] != label and phones[k + 1 : k + 2] in ([each] for each in _BURSTS[label])
        )
    ]
    times = None if utterance.times is None else tuple(utterance.times[k] for k in kept)
    return replace(utterance, phones=tuple(phones[k] for k in kept), times=times)
