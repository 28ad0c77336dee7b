"""Ranking what a search keeps: against all sequences one by one, in pieces, with either model and both."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from speechctc.config.load import parse_config
from speechctc.config.schema import Config
from speechctc.lm.lstm import LstmConfig, LstmModel, PhoneLstm
from speechctc.lm.search import (
    MAX_SECONDS,
    GreedySearch,
    LmSearch,
    Ranker,
    RankingSearch,
    choose_search,
    collapse,
    method,
)
from speechctc.phones.inventory import Inventory
from tests.lm.test_search import learned, posteriors

CLASSES = 4


def lstm(seed: int = 0) -> LstmModel:
    torch.manual_seed(seed)
    config = LstmConfig(embedding=4, hidden=6, layers=1, device="cpu", precision="float32")
    net = PhoneLstm(CLASSES, config)
    for weights in net.parameters():
        torch.nn.init.normal_(weights)  # far from flat
    return LstmModel(net.eval(), Inventory("found", ("a", "b", "c")), config)


def config(**decode: Any) -> Config:
    values = {"corpus": {"kind": "table"}, "decode": {"beam": 3000, **decode}}
    return parse_config(values, "a test")


def acoustic(labels: tuple[int, ...], log_probs: Any) -> float:
    """Return the log probability of a sequence by torch's loss."""
    rows = torch.from_numpy(log_probs).double()[:, None]
    lengths = torch.tensor([len(log_probs)]), torch.tensor([len(labels)])
    return -float(torch.nn.functional.ctc_loss(rows, torch.tensor([labels]), *lengths, reduction="sum"))


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_best_of_all_sequences_comes_first_with_its_scores(share: float, seed: int) -> None:
    ngram, recurrent, log_probs = learned(CLASSES, 2, seed), lstm(seed), posteriors(5, CLASSES, seed, 1.0)
    settings = config(lm_weight=0.8, lm_bonus=0.7, lm_share=share)
    ranked = Ranker(ngram, recurrent, settings).rank(log_probs)
    every = {tuple(collapse(path)) for path in itertools.product(range(CLASSES), repeat=5)}

    def total(labels: tuple[int, ...]) -> float:
        lm = (1 - share) * ngram.log_prob(labels) + share * float(recurrent.score([labels])[0])
        return acoustic(labels, log_probs) + 0.8 * lm + 0.7 * len(labels)

    assert ranked[0].labels == max(every, key=total)
    assert [each.total for each in ranked] == sorted((each.total for each in ranked), reverse=True)
    for each in ranked[:20]:
        assert each.acoustic == pytest.approx(acoustic(each.labels, log_probs), abs=1e-4)
        assert each.total == pytest.approx(total(each.labels), abs=1e-4)
        assert tuple(collapse(each.path.tolist())) == each.labels and len(each.path) == 5


def test_hypotheses_are_those_that_the_search_would_choose_first() -> None:
    lm, log_probs = learned(6, 3), posteriors(80, 6, 4, 4.0)
    search = LmSearch(lm, 0.7, 1.0, 300, np.inf, limit=80)
    search.push(log_probs[:33])
    search.push(log_probs[33:])
    found = search.hypotheses()
    assert len({each.labels for each in found}) == len(found) > 50
    _, path = search.push(log_probs[:0])
    rest = [*path.tolist(), *search.finish()[1].tolist()]
    assert tuple(collapse(found[0].path.tolist())) == found[0].labels
    assert found[0].path.tolist()[-len(rest) :] == rest
    for each in found[:9]:  # the paths that were not kept are lost
        assert 0 <= acoustic(each.labels, log_probs) - each.acoustic < 0.5
    assert found[3].lm == pytest.approx(lm.log_prob(found[3].labels))


@pytest.mark.parametrize("blocks", [1, 7, 1000])
def test_long_recordings_are_ranked_piece_by_piece_however_they_come(blocks: int) -> None:
    settings = config(beam=4)
    ranker = Ranker(learned(CLASSES, 2), lstm(), settings)
    frames = round(MAX_SECONDS / 0.01)
    assert ranker.longest == frames
    ranker.longest = 200
    log_probs = posteriors(900, CLASSES, 1, 3.0)
    log_probs[150:170] = np.log([0.97, 0.01, 0.01, 0.01])
    pieces = list(ranker.pieces(log_probs))
    assert len(pieces[0]) == 160 and all(0 < len(piece) <= 200 for piece in pieces)
    np.testing.assert_array_equal(np.concatenate(pieces), log_probs)
    search = RankingSearch(ranker, CLASSES)
    parts = [search.push(log_probs[k : k + blocks]) for k in range(0, 900, blocks)] + [search.finish()]
    np.testing.assert_array_equal(np.concatenate([rows for rows, _ in parts]), log_probs)
    expected = np.concatenate([ranker.rank(piece)[0].path for piece in pieces])
    np.testing.assert_array_equal(np.concatenate([path for _, path in parts]), expected)


def test_which_search_is_meant() -> None:
    ngram, recurrent = learned(CLASSES, 2), lstm()
    cases: list[tuple[Any, dict[str, Any], type, str]] = [
        ((ngram, None), {}, LmSearch, "an n-gram of phones (weight 0.5, bonus 1.5)"),
        ((ngram, recurrent), {}, RankingSearch, "an n-gram and an LSTM (share 0.5) of phones"),
        ((ngram, recurrent), {"lm_share": 0}, LmSearch, "an n-gram of phones"),
        ((ngram, recurrent), {"lm_share": 1}, RankingSearch, "an LSTM of phones"),
        ((None, recurrent), {}, RankingSearch, "an LSTM of phones"),
        ((ngram, recurrent), {"lm_weight": 0}, GreedySearch, "best path"),
        ((None, None), {}, GreedySearch, "best path"),
        ((ngram, None), {"search": "greedy"}, GreedySearch, "best path"),
        ((ngram, None), {"lm_weight": 0, "search": "beam", "beam": 9}, LmSearch, "prefix search (beam 9)"),
    ]
    for models, decode, kind, words in cases:
        settings = config(**decode)
        assert isinstance(choose_search(models[0], models[1], settings, CLASSES), kind)
        assert words in method(models[0], models[1], settings)
