"""The choices in the CUDA kernels that only measurements can make.

`scripts/bench_ctc --device cuda --tuning "..."` measures one, and SPEECHCTC_CUDA_TUNING sets one for a process, so that
the tests can be run with it too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """What measurements on a GPU decide, and nothing else: every choice gives the same results.

    Attributes
    ----------
    chunk : int
        Frames between two barriers: 4 or 8.
    fused_classes : int
        Up to so many classes the lattice's own block reads the logits; above, a kernel of its own does.
    helpers : int
        Helper warps where logits are read: 4 or 8. 0: 4 for up to 32 classes, 8 for more.
    blocks : int
        Blocks of the sweep on a multiprocessor: 1 or 2. 0: 2 where there are more samples than multiprocessors.
    row_threads : int
        Threads to a row of many classes: 256, 512 or 1024. 0: as few as can hold it.
    """

    chunk: int = 8
    fused_classes: int = 64
    helpers: int = 0
    blocks: int = 0
    row_threads: int = 0

    @classmethod
    def parse(cls, text: str) -> Tuning:
        """Read a tuning such as ``"helpers=4 chunk=4"``.

        Raises
        ------
        ValueError
            If a name or a value is none of those above.
        """
        allowed = {"chunk": (4, 8), "helpers": (0, 4, 8), "blocks": (0, 1, 2), "row_threads": (0, 256, 512, 1024)}
        chosen = {}
        for setting in text.split():
            name, _, value = setting.partition("=")
            if name not in cls.__dataclass_fields__ or not value.isdecimal():
                raise ValueError(f"{setting!r} is no tuning of the CTC kernels; take {cls()}")
            if int(value) not in allowed.get(name, range(129)):
                raise ValueError(f"{setting!r} cannot be; {name} is one of {allowed.get(name, '0..128')}")
            chosen[name] = int(value)
        return cls(**chosen)


TUNING = Tuning.parse(os.environ.get("SPEECHCTC_CUDA_TUNING", ""))
"""What `plan` goes by where nothing else is said."""
