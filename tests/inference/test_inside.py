"""What is drawn of the inside of a net is what the net computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from speechctc.inference.recogniser import Recogniser
from speechctc.model.net import PieceWins, net_of
from speechctc.stages.inspect import layers_of, look_inside, net_input_of, saliency
from speechctc.stages.open_model import ModelChoice, open_model
from tests.command import Command, one_line_error
from tests.tiny_model import sing, write_song

SAMPLES = sing(["low", "top", "mid"], np.random.default_rng(0))[0]


def test_maps_posteriors_and_units_are_those_of_the_net(tiny_model: Path) -> None:
    recogniser = open_model(tiny_model, Recogniser, ModelChoice("cpu"))
    seen = look_inside(recogniser.checkpoint, SAMPLES)
    logits = torch.from_numpy(recogniser.logits(SAMPLES, 16000))
    assert np.allclose(seen.log_posteriors, logits.log_softmax(1).numpy(), atol=1e-4)
    assert list(layers_of(net_of(recogniser.checkpoint))) == ["conv1", "conv2", "dense1"] == list(seen.maps)
    assert list(seen.units) == ["conv1", "conv2"]  # dense1 is normalised between its pieces and maxout
    with torch.no_grad():
        features, _ = net_input_of(recogniser.checkpoint, SAMPLES)
        values = layers_of(net_of(recogniser.checkpoint))["conv1"].conv(features)[0].flatten(1)
    for unit in seen.units["conv1"]:
        first, second = values[unit.number], values[unit.number + 12]
        (a, b), (m, n) = unit.slopes, unit.means
        line = (a - b) * torch.from_numpy(unit.inputs) + (m - n)
        right = second - first if (first.mean() - second.mean()) * (m - n) < 0 else first - second
        assert torch.allclose(line, right, atol=1e-3)
        assert unit.shape in ("rectifier", "leaky rectifier", "valley")


def test_wins_are_counted_inside_utterances_only() -> None:
    x = torch.tensor([[[1.0, 5.0, 1.0], [0.0, 0.0, 9.0], [2.0, 4.0, 3.0], [1.0, -1.0, 0.0]]])  # 2 pieces of 2 units
    wins = PieceWins()
    wins.add("a", x, 2, torch.tensor([[True, True, False]]))
    assert wins.layers["a"].tolist() == [[1, 1], [1, 1]] and float(wins.dead_share()) == 0
    wins = PieceWins()
    wins.add("a", x, 2, torch.tensor([[True, False, False]]))
    assert wins.layers["a"].tolist() == [[0, 0], [1, 1]] and float(wins.dead_share()) == 0.5


def test_saliency_is_the_derivative_times_the_input(tiny_model: Path) -> None:
    checkpoint = open_model(tiny_model, Recogniser, ModelChoice("cpu")).checkpoint
    found = saliency(checkpoint, SAMPLES, phone=1, frame=4)
    features, frames = net_input_of(checkpoint, SAMPLES)
    band, frame = np.unravel_index(int(found.argmax()), found.shape)
    total = 0.0
    for channel in range(features.shape[1]):
        scores = []
        for step in (1e-3, -1e-3):
            moved = features.clone()
            moved[0, channel, band, frame] += step
            with torch.no_grad():
                scores.append(float(net_of(checkpoint)(moved, frames)[0][0].log_softmax(1)[4, 1]))
        total += abs((scores[0] - scores[1]) / 2e-3 * float(features[0, channel, band, frame]))
    assert found.max() == pytest.approx(total, rel=0.05)


def test_the_command_writes_pictures_and_a_page(speechctc: Command, tiny_model: Path, here: Path) -> None:
    pytest.importorskip("matplotlib")
    write_song(here / "a.wav", ["low", "top", "mid"])
    use = ("inspect", "--model", tiny_model, "--audio", "a.wav")
    assert speechctc(*use, "--layer", "dense1", "--phone", "top").status == 0
    names = {path.name for path in (here / "inside").iterdir() if path.suffix}
    made = ["filters", "functions", "maps-dense1", "posteriors", "saliency", "wins"]
    assert {f"{name}.png" for name in made} | {"inside.html"} <= names
    page = (here / "inside" / "inside.html").read_text()
    assert page.count("<img ") == page.count(' alt="') == 6 and "Saliency of [top]" in page
    for wrong, said in ((("--layer", "conv9"), "name one of: conv1 conv2 dense1"), (("--phone", "zz"), "'zz'")):
        assert said in one_line_error(speechctc(*use, *wrong))
