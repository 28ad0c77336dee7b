"""Dev is scored as decoding scores it; `tests.stages.test_train` compares with `evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from speechctc.config.load import load_config, parse_config
from speechctc.features.activity import ActivityGate
from speechctc.training.batches import Batch, Languages, TrainingData
from speechctc.training.dev_score import constant_loss, decode_utterance, score_dev
from speechctc.training.distributed import Ranks
from speechctc.training.train_step import TrainStep
from tests.metrics.test_per import distance_by_hand
from tests.train_helpers import Recorder, trainer_of

FRAMES = 300


@pytest.mark.parametrize(("threshold", "labels"), [(0, [1, 2]), (6, [])])
def test_no_phones_are_scored_where_decoding_would_find_none(threshold: float, labels: list[int]) -> None:
    """Steady noise of three seconds, in which the net hears two phones."""
    settings = {"corpus": {"kind": "demo"}, "decode": {"min_modulation_db": threshold}}
    config = parse_config(settings, "test")
    static = np.full((FRAMES, config.features.static_dims), 10.0, dtype=np.float32)
    logits = np.zeros((FRAMES // config.model.time_stride, 3), np.float32)
    logits[:, 0], logits[10, 1], logits[20, 2] = 5.0, 9.0, 9.0
    gate = ActivityGate(config, ("a", "b"))
    assert decode_utterance(static, logits, gate, None) == labels


class Written(TrainStep):
    """In place of a net, logits that are written down: by utterance, rows of (n_output_frames, classes)."""

    def __init__(self, data: TrainingData, config: Path, logits: Sequence[Tensor]) -> None:
        settings = load_config(config, ["decode.min_modulation_db=0", "model.activation=relu"])
        super().__init__(settings, torch.nn.Identity(), data.mean, data.std, Ranks(), Recorder())  # type: ignore[arg-type]
        self.logits, self.is_training = logits, list[bool]()

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        self.is_training.append(self.net.training)
        rows = [self.logits[k] for k in batch.indices]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(each) for each in rows])


def test_what_is_scored_is_what_was_written(extracted: Path) -> None:
    """Logits that spell labels with errors: sums over utterances, against a table of prefixes and torch in float64."""
    rng, data = np.random.default_rng(2), TrainingData(load_config(extracted), torch.device("cpu"), Recorder())
    split, classes = data.dev.split, len(data.inventory.phones) + 1
    never = 1 + data.inventory.phones.index("mid")
    references, spelled, logits = list[list[int]](), list[list[int]](), list[Tensor]()
    for k in range(len(split)):
        references.append(split.labels(k).tolist())
        kept = [label for label in references[-1] if label != never and rng.random() < 0.8]
        heard = [
            int(rng.choice([c for c in range(1, classes) if c != never])) if rng.random() < 0.2 else c for c in kept
        ]
        spelled.append([label for label in heard for _ in range(1 + (rng.random() < 0.1))])
        rows = torch.from_numpy(rng.normal(0, 0.1, (3 * len(references[-1]) + 2 * len(spelled[-1]), classes)))
        rows[:, 0] += 4.0
        rows[range(1, 2 * len(spelled[-1]), 2), spelled[-1]] += 8.0
        logits.append(rows.float())
    data.dev_languages = Languages.of([("cy", "it")[k % 2] for k in range(len(split))])
    written = Written(data, extracted, logits)
    found = score_dev(written, data, None, lambda: False)
    assert found is not None and not any(written.is_training) and written.net.training
    errors = [distance_by_hand(*pair) for pair in zip(references, spelled, strict=True)]
    phones = [len(each) for each in references]
    assert 10 < sum(errors) < sum(phones) - 10, "else it would not tell"
    assert found.counts.errors == sum(errors) and found.counts.reference_phones == sum(phones)
    assert found.counts.utterances == len(split)
    expected = {name: 100 * sum(errors[k::2]) / sum(phones[k::2]) for k, name in enumerate(("cy", "it"))}
    assert found.languages == pytest.approx(expected)
    every = torch.cat(logits).double()
    losses = [
        float(functional.ctc_loss(rows.double().log_softmax(1), torch.tensor(each), *lengths, reduction="sum"))
        for rows, each in zip(logits, references, strict=True)
        for lengths in [(torch.tensor(len(rows)), torch.tensor(len(each)))]
    ]
    assert found.loss == pytest.approx(sum(losses) / sum(phones), rel=1e-5)
    assert found.blank_share == float((every.argmax(1) == 0).double().mean())
    assert found.entropy == pytest.approx(float(-(every.softmax(1) * every.log_softmax(1)).sum(1).mean()), rel=1e-5)
    assert found.dead_phones == ("mid",) and found.dead_pieces is None
    assert score_dev(written, data, None, lambda: True) is None


def test_the_constant_answer_has_the_frequencies_of_train_and_a_frame_for_each_phone_of_dev(extracted: Path) -> None:
    config = load_config(extracted)
    data = TrainingData(config, torch.device("cpu"), Recorder())
    train, dev, classes = data.train.split, data.dev.split, len(data.inventory.phones) + 1
    often = np.bincount(torch.cat([train.labels(k) for k in range(len(train))]).numpy(), minlength=classes) + 1.0
    labels, frames = [dev.labels(k).long() for k in range(len(dev))], [-(-int(each) // 2) for each in dev.frames]
    spoken = sum(map(len, labels)) / sum(frames)
    assert often[0] == 1 and spoken < 0.9 and config.model.time_stride == 2
    answer = torch.from_numpy(np.append(1 - spoken, spoken * often[1:] / often[1:].sum())).log()
    losses = [
        float(
            functional.ctc_loss(
                answer.expand(count, -1), each, torch.tensor(count), torch.tensor(len(each)), reduction="sum"
            )
        )
        for each, count in zip(labels, frames, strict=True)
    ]
    assert constant_loss(data, config.model) == pytest.approx(sum(losses) / sum(map(len, labels)), rel=1e-5)


def test_pieces_of_maxout_that_never_win_are_counted(extracted: Path, here: Path) -> None:
    """A bias lets the second piece of each unit of the first layer win everywhere."""
    trainer = trainer_of(extracted, here / "r")
    units, all_units = 12, 12 + 12 + 32
    shares = []
    for bias in (0.0, 1e4):
        with torch.no_grad():
            dict(trainer.train_step.net.named_parameters())["convs.0.conv.bias"][units:] += bias
        found = score_dev(trainer.train_step, trainer.data, None, lambda: False)
        assert found is not None and found.dead_pieces is not None
        shares.append(found.dead_pieces)
    assert shares[0] < units / (2 * all_units) <= shares[1] <= 0.5
