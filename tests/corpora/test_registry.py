from pathlib import Path
from typing import Literal

import pytest

from speechctc.config.schema import CorpusConfig
from speechctc.core.errors import InputError
from speechctc.corpora.registry import read_corpus
from tests.corpora.timit_layout import write_corpus


@pytest.mark.parametrize("kind", ["timit", "demo"])
def test_a_kind_that_needs_a_root_says_so(kind: Literal["timit", "demo"]) -> None:
    with pytest.raises(InputError, match=f"corpus.root is not set, and corpus.kind is {kind}"):
        read_corpus(CorpusConfig(kind=kind))


def test_timit_is_read_with_the_configs_phones_and_share(tmp_path: Path) -> None:
    write_corpus(tmp_path, {"TRAIN": ["FABC0", "MDEF0", "MGHI0", "FJKL0"]})
    corpus = read_corpus(CorpusConfig(kind="timit", root=tmp_path, phones="timit48", dev_share=0.5))
    assert corpus.phone_set == "timit48"
    assert len({utterance.speaker for utterance in corpus.splits["dev"]}) == 2
    assert corpus.splits["train"][0].phones == ("sil", "sh", "iy", "sil")


def test_the_channel_of_the_config_is_read_in_every_kind(tmp_path: Path) -> None:
    write_corpus(tmp_path, {"TRAIN": ["FABC0", "MDEF0"]})
    corpus = read_corpus(CorpusConfig(kind="timit", root=tmp_path, channel=1))
    assert {utterance.channel for utterance in corpus.splits["train"]} == {1}
