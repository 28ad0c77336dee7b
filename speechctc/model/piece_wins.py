"""How often each piece of each maxout unit is the largest; a piece that never is, is dead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from speechctc.model.maxout import Maxout

LOOKED = 4  # utterances of a batch that are looked at; more take memory, and say little more


class PieceWins:
    """Counts of the wins of each piece, layer by layer.

    Attributes
    ----------
    layers : dict of str to Tensor
        By the name of the layer in the net, counts of shape (pieces, units), int64, on the net's device.
    """

    def __init__(self) -> None:
        self.layers: dict[str, Tensor] = {}

    def add(self, name: str, x: Tensor, pieces: int, mask: Tensor) -> None:
        """Count the winners of a layer's input, (n_batch, pieces x units, ..., frames), where `mask` is true."""
        winner = x[:LOOKED].unflatten(1, (pieces, -1)).argmax(1)
        inside = mask[:LOOKED].view(len(winner), *[1] * (winner.dim() - 2), -1)
        dims = [0, *range(2, winner.dim())]
        counts = torch.stack([((winner == piece) & inside).sum(dims) for piece in range(pieces)])
        self.layers[name] = self.layers[name] + counts if name in self.layers else counts

    def dead_share(self) -> Tensor:
        """Return the share of the pieces of all layers that never won, on the net's device."""
        return torch.cat([(counts == 0).flatten() for counts in self.layers.values()]).double().mean()


@contextmanager
def counted_wins(net: nn.Module, mask: Tensor) -> Iterator[PieceWins]:
    """Count the wins of all maxout layers of a net while it is used; it computes the same.

    Parameters
    ----------
    net : Module
    mask : Tensor, shape = (n_batch, n_output_frames)
        True where a frame is inside its utterance.
    """
    wins, hooks = PieceWins(), []
    for name, module in net.named_modules():
        if isinstance(module, Maxout):

            def see(module: Maxout, args: tuple[Any, ...], name: str = name) -> None:
                wins.add(name, args[0].detach(), module.pieces, mask)

            hooks.append(module.register_forward_pre_hook(see))
    try:
        yield wins
    finally:
        for hook in hooks:
            hook.remove()
