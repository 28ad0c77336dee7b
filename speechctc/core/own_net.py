"""What `speechctc.register_model` adds: a net of one's own, with its stride and what it sees."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from speechctc.core import plugins
from speechctc.core.errors import InputError

if TYPE_CHECKING:
    from torch import nn

OWN = ("conv",)
"""The kinds of nets of the package."""
MAX_STRIDE = 64


@dataclass(frozen=True)
class OwnNet:
    """A net of one's own, which the function of `speechctc.register_model` returns.

    Parameters
    ----------
    module : torch.nn.Module
        Its ``forward`` maps features, float32 of shape (n_batch, max_frames, inputs), and the number of frames of each
        utterance, int64 of shape (n_batch,), to logits of shape (n_batch, ceil(max_frames / stride), classes); class 0
        is the blank. Features are normalised, and zero after an utterance's end. A ``forward`` with one parameter is
        given the features alone.
    stride : int
        Frames of features for each frame of logits.
    sees : (int, int) or "whole"
        Logits ``t`` depend on at most so many frames of features before frame ``t * stride``, and after it. Recordings
        of any length are then decoded in blocks, and live. ``"whole"``: they depend on the whole recording.
    longest : float, optional
        Of a net that sees the whole: seconds of the longest recording that it takes. A longer one is refused.
    version : str
        Change it with each change of what the net computes: models of another version are refused.

    Raises
    ------
    InputError
        A value is not one of these.
    """

    module: nn.Module
    stride: int = 1
    sees: tuple[int, int] | Literal["whole"] = "whole"
    longest: float | None = None
    version: str = ""

    def __post_init__(self) -> None:
        """Check the values."""
        if isinstance(self.module, type) or not hasattr(self.module, "state_dict"):
            raise InputError(f"OwnNet: module={self.module!r:.60}", "give a torch.nn.Module that was made")
        if type(self.stride) is not int or not 1 <= self.stride <= MAX_STRIDE:
            raise InputError(f"OwnNet: stride={self.stride!r:.40}", f"give frames as a number from 1 to {MAX_STRIDE}")
        is_whole = isinstance(self.sees, str) and self.sees == "whole"
        pair = self.sees if isinstance(self.sees, tuple) else ()
        if not is_whole and (len(pair) != 2 or any(type(each) is not int or each < 0 for each in pair)):
            fix = 'give frames before and after, such as (20, 20), or "whole"'
            raise InputError(f"OwnNet: sees={self.sees!r:.40}", fix)
        if is_whole and not (isinstance(self.longest, (int, float)) and 0 < self.longest < 1e6):
            raise InputError(
                f"OwnNet: a net that sees the whole, and longest={self.longest!r:.40}", "give it in seconds"
            )
        if not is_whole and self.longest is not None:
            raise InputError("OwnNet: longest is for nets that see the whole", 'leave it out, or give sees="whole"')


class NetFacts(NamedTuple):
    """What a config keeps of a net of one's own."""

    time_stride: int
    sees: tuple[int, int] | Literal["whole"]
    longest: float | None
    version: str


def build(kind: str, inputs: int, classes: int, options: Mapping[str, Any]) -> OwnNet:
    """Call the function that builds a net of one's own.

    Raises
    ------
    InputError
        It fails, or returns something else.
    """
    what = f"model.kind={kind}"
    made = plugins.guarded(what, plugins.need("model", kind, OWN))(inputs, classes, **options)
    if not isinstance(made, OwnNet):
        what = f"{what}: its function returned {type(made).__name__}, not speechctc.OwnNet"
        raise InputError(what, "return speechctc.OwnNet(module, stride=..., sees=(before, after))")
    return made


def facts_of(kind: str, inputs: int, options: Mapping[str, Any]) -> NetFacts:
    """Return the facts of a net, which is built for that once; no random number of the caller's is drawn."""
    import torch

    key = plugins.need("model", kind, OWN), inputs, json.dumps(options, sort_keys=True, default=repr)
    if key not in _known:
        with torch.random.fork_rng(devices=[]):
            made = build(kind, inputs, 2, options)
        longest = None if made.longest is None else float(made.longest)
        _known[key] = NetFacts(made.stride, made.sees, longest, str(made.version))
    return _known[key]


_known: dict[tuple[Any, int, str], NetFacts] = {}
