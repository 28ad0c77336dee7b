import pytest
import torch

from speechctc.search import best_path, collapse


@pytest.mark.parametrize(
    ("path", "labels"),
    [
        ([], []),
        ([0, 0], []),
        ([1, 1, 1], [1]),
        ([1, 0, 1], [1, 1]),
        ([0, 1, 1, 0, 0, 1, 2, 2, 1, 0], [1, 1, 2, 1]),
        ([2, 2, 0, 2, 2], [2, 2]),
    ],
)
def test_collapse_merges_repeats_and_then_drops_blanks(path: list[int], labels: list[int]) -> None:
    assert collapse(path) == labels


def test_best_path_stops_at_each_utterances_end() -> None:
    logits = torch.nn.functional.one_hot(torch.tensor([[1, 1, 0, 1, 2], [0, 2, 2, 1, 1]]), 3).float()
    assert best_path(logits, torch.tensor([5, 3])) == [[1, 1, 2], [2]]
    assert best_path(logits, torch.tensor([2, 0])) == [[1], []]
