"""A net of one's own: a small transformer that hears a whole recording, with a frame of output for four of input."""

import math

import torch
from torch import nn

import speechctc


class Transformer(nn.Module):
    """Two convolutions over time that halve the frames, then self-attention over all of them."""

    def __init__(self, inputs, classes, width, layers, heads, dropout):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv1d(inputs, width, 3, 2, 1), nn.Conv1d(width, width, 3, 2, 1)])
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm, self.output = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, features, frames):
        """Map (n_batch, max_frames, inputs) to logits, (n_batch, ceil(max_frames / 4), classes)."""
        x = features.transpose(1, 2)
        for conv in self.down:
            x, frames = conv(x).relu(), (frames + 1) // 2
            padding = torch.arange(x.shape[2], device=x.device) >= frames[:, None]
            x = x.masked_fill(padding[:, None], 0.0)  # else an utterance would depend on its batch
        x = x.transpose(1, 2)
        x = self.encoder(x + positions(x.shape[1], x.shape[2], x.device), src_key_padding_mask=padding)
        return self.output(self.norm(x))


def positions(frames, width, device):
    """Return sines and cosines of each position, (frames, width) (Vaswani et al. 2017, section 3.5)."""
    rates = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10000.0) / width))
    angles = torch.arange(frames, device=device)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)


def build(inputs, classes, width=144, layers=4, heads=4, dropout=0.1):
    """Return the net for so many values of a frame, and so many phones and the blank."""
    net = Transformer(inputs, classes, width, layers, heads, dropout)
    return speechctc.OwnNet(net, stride=4, sees="whole", longest=30.0)


speechctc.register_model("transformer", build)
