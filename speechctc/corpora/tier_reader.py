"""Reads the tiers of all files of a corpus: as phones, or as words that are read as phones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from speechctc.audio.tiers import Tier
from speechctc.core import written
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import Corpus, Rejected
from speechctc.corpora.tier_report import FileNote, report_tiers
from speechctc.corpora.tier_utterances import Labelled, find_utterances, texts
from speechctc.corpora.word_phones import MISSING, WordPhones

if TYPE_CHECKING:
    from speechctc.config.corpus_config import CorpusConfig
    from speechctc.corpora.corpus_builder import CorpusBuilder


class TierReader:
    """Collects files with tiers, and then reads them: words are learned from all training files first.

    Parameters
    ----------
    builder : CorpusBuilder
        Gets the utterances, and the files and tiers that cannot be used.
    config : CorpusConfig

    Raises
    ------
    InputError
        ``corpus.words_tier`` is set, and there is neither a dictionary nor a language to read words by.
    """

    def __init__(self, builder: CorpusBuilder, config: CorpusConfig) -> None:
        self._builder, self._config = builder, config
        self._files: list[tuple[Labelled, str]] = []
        self._notes: list[FileNote] = []
        self._uncorrected: list[Path] = []
        self._words = WordPhones(config) if config.words_tier is not None else None
        if self._words is not None and not self._words.possible:
            raise InputError("corpus.words_tier is set, and words are read by a dictionary or in a language", MISSING)

    @property
    def recordings(self) -> list[Path]:
        """The recordings of the files so far."""
        return [labelled.audio for labelled, _ in self._files]

    def add(self, labelled: Labelled, split: str) -> None:
        """Add a file of a split.

        Raises
        ------
        InputError
            It is as `speechctc decode` wrote it, and ``corpus.uncorrected`` leaves such files out.
        """
        if not self._config.uncorrected and is_uncorrected(labelled.file, labelled.tiers):
            self._uncorrected.append(Path(labelled.file.name))
            raise InputError(
                f"{labelled.file}: as speechctc decode wrote it, nobody has corrected it",
                "corpus.uncorrected=true takes such labels as correct",
            )
        self._files.append((labelled, split))

    def read(self) -> None:
        """Read all files that were added."""
        if self._words is not None:
            train = [labelled for labelled, split in self._files if split == "train"]
            train = train or [labelled for labelled, _ in self._files]
            self._words.learn(pair for labelled in train for pair in texts(labelled, self._config, self._words))
        for labelled, split in self._files:
            try:
                found = find_utterances(labelled, split, self._builder, self._config, self._words)
                self._notes.append(FileNote(labelled, found))
            except InputError as error:
                self._builder.rejected[split].append(Rejected(labelled.id, str(error)))

    def to_corpus(self) -> Corpus:
        """Return the corpus, with notes and warnings on its tiers."""
        builder, words = self._builder, self._words
        builder.warn_of(
            self._uncorrected,
            "left out, because they are as speechctc decode wrote them and nobody has corrected them "
            "(corpus.uncorrected=true takes their labels as correct)",
        )
        report_tiers(self._notes, builder, self._config)
        if words is not None:
            builder.notes += words.notes()
            builder.warnings += words.warnings()
            builder.from_words = words.words
        corpus = builder.to_corpus(self._config.dev_share, without_dev=not builder.utterances["dev"])
        return corpus if words is None else words.add_to(corpus, builder.rules)


def is_uncorrected(file: Path, tiers: Sequence[Tier]) -> bool:
    """Return whether a file is as `speechctc decode` wrote it; `speechctc align` also writes a tier ``score``."""
    names = {tier.name for tier in tiers}
    return "confidence" in names and "score" not in names and not written.changed([file])
