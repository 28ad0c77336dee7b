"""Consistency regularisation for CTC: two masked views of an utterance should give the same posteriors.

Z. Yao et al., "CR-CTC: Consistency regularization on CTC for improved speech recognition", ICLR 2025, eq. 3.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from speechctc.features.filterbank import frame_mask


def consistency(logits: Tensor, others: Tensor, frames: Tensor) -> Tensor:
    """Return the symmetric divergence between the posteriors of two views.

    Each view is the target of the other; no gradient flows through a target.

    Parameters
    ----------
    logits, others : Tensor, shape = (n_batch, max_frames, classes)
    frames : Tensor, shape = (n_batch,)

    Returns
    -------
    Tensor, shape = ()
        Half the sum of both Kullback-Leibler divergences, over all frames of all utterances, nats.
    """
    inside = frame_mask(frames, logits.shape[1])[:, :, None]
    first, second = (torch.where(inside, each, 0.0).log_softmax(2) for each in (logits, others))

    def divergence(log_probs: Tensor, target: Tensor) -> Tensor:
        return functional.kl_div(log_probs, target.detach(), reduction="sum", log_target=True)

    # Padded frames are uniform in both views and contribute 0.
    return 0.5 * (divergence(first, second) + divergence(second, first))
