"""Small nets of a user's own, for tests."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import speechctc


class Windowed(nn.Module):
    """Two masked convolutions, of which the first halves the frames; it sees 5 frames before and after each."""

    def __init__(self, inputs: int, classes: int, width: int, statistics: bool = False) -> None:
        super().__init__()
        self.down, self.across = nn.Conv1d(inputs, width, 3, 2, 1), nn.Conv1d(width, width, 5, 1, 2)
        self.norm = nn.BatchNorm1d(width) if statistics else nn.Identity()
        self.dropout, self.output = nn.Dropout(0.1), nn.Linear(width, classes)

    def forward(self, features: Tensor, frames: Tensor) -> Tensor:
        x = self.norm(self.down(features.transpose(1, 2))).relu()
        inside = torch.arange(x.shape[2], device=x.device) < ((frames + 1) // 2)[:, None]
        x = self.across(x * inside[:, None]).relu()
        logits: Tensor = self.output(self.dropout(x.transpose(1, 2)))
        return logits


def windowed(inputs: int, classes: int, width: int = 24, statistics: bool = False, before: int = 5) -> speechctc.OwnNet:
    return speechctc.OwnNet(Windowed(inputs, classes, width, statistics), stride=2, sees=(before, 5))


class Recurrent(nn.Module):
    """A recurrent net in both directions, which hears all of a recording; its forward takes the features alone."""

    def __init__(self, inputs: int, classes: int, width: int) -> None:
        super().__init__()
        self.lstm, self.output = (
            nn.LSTM(inputs, width, bidirectional=True, batch_first=True),
            nn.Linear(2 * width, classes),
        )

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.output(self.lstm(features)[0])
        return logits


def recurrent(inputs: int, classes: int, width: int = 16, longest: float = 5.0) -> speechctc.OwnNet:
    return speechctc.OwnNet(Recurrent(inputs, classes, width), sees="whole", longest=longest)
