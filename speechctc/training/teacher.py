"""Soft labels for recordings that have none: the phones that the averaged weights and a bigram think possible.

The teacher is the mean of the weights [1]_. It hears a recording without noise and masks. The student learns not from
one transcription, but from the posterior of each class in each frame, over all sequences of phones, by the net and a
bigram of the training labels together [2]_. Where the teacher is unsure, so is the target.

References
----------
.. [1] A. Tarvainen and H. Valpola, "Mean teachers are better role models", NIPS 2017.
.. [2] A. Graves et al., "Connectionist temporal classification", ICML 2006: the forward-backward algorithm, here over
   the paths of all sequences in place of those of one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from speechctc.ngram.automaton import END, PhoneLM
from speechctc.ngram.trie import START

DOUBT = 1.3
"""How much less sure than of dev the teacher is of recordings that may be of another language, or no speech."""


def doubts_of(probs: Tensor, inside: Tensor) -> Tensor:
    """Return the entropy of each recording, nats, and the phones that are expected in it.

    On dev their ratio was 1.2 for the bundled English model, 1.4 on another dialect, and 1.7 on three other languages.

    Parameters
    ----------
    probs : Tensor, shape = (n_batch, max_frames, classes)
        Posteriors; class 0 is the blank.
    inside : Tensor of bool, shape = (n_batch, max_frames)

    Returns
    -------
    Tensor, shape = (n_batch, 2)
    """
    pair = torch.stack([torch.special.entr(probs).sum(2), 1 - probs[:, :, 0]], dim=2)
    return torch.where(inside[:, :, None], pair, 0.0).sum(1)


class PhoneLattice:
    """All CTC paths of all sequences of phones, weighted by a bigram as the search weighs an n-gram.

    Parameters
    ----------
    bigram : PhoneLM or None
        None: all sequences are equally probable, and posteriors stay as they are.
    weight, bonus : float
        As ``decode.lm_weight`` and ``decode.lm_bonus``.
    device : torch.device
    """

    def __init__(self, bigram: PhoneLM | None, weight: float, bonus: float, device: torch.device) -> None:
        self._arcs: Tensor | None = None
        if bigram is None or weight == 0:
            return
        after = [START, *bigram.next_state[START, 1:]]  # the state after each phone: a bigram knows no longer context
        scores = torch.from_numpy(bigram.log_probs[after]).double() * weight
        self._arcs = (scores[:, 1:] + bonus).exp().float().to(device)
        self._ends = scores[:, END].exp().float().to(device)

    def posteriors(self, log_probs: Tensor, inside: Tensor) -> Tensor:
        """Return the posterior of each class in each frame, by the net and the bigram.

        Parameters
        ----------
        log_probs : Tensor, shape = (n_batch, max_frames, classes)
            By the net; class 0 is the blank.
        inside : Tensor of bool, shape = (n_batch, max_frames)
            Frames that are not padding; padding gets the blank.

        Returns
        -------
        Tensor, shape = (n_batch, max_frames, classes)
        """
        blank = torch.zeros(log_probs.shape[2], device=log_probs.device)
        blank[0] = 1.0
        probs = torch.where(inside[:, :, None], log_probs.exp(), blank)
        if self._arcs is None:
            return probs
        in_phone, after = self._forward(probs, self._arcs)
        from_phone, from_blank = self._backward(probs, self._arcs, self._ends)
        found = torch.cat([(after * from_blank).sum(2, keepdim=True), in_phone * from_phone], dim=2)
        return found / found.sum(2, keepdim=True)

    @staticmethod
    def _forward(probs: Tensor, arcs: Tensor) -> tuple[Tensor, Tensor]:
        """Return, for each frame, the share of paths in each phone, and of those in the blank after each (0: none)."""
        again = 1 - arcs[1:].diagonal()  # a phone goes on for free; after itself it needs a blank
        phone = probs.new_zeros(len(probs), arcs.shape[1])
        last = probs.new_zeros(len(probs), len(arcs))  # by the last phone, in it or in the blank after it
        last[:, 0] = 1.0
        phones, blanks = [], []
        for column in probs.unbind(1):
            phone = column[:, 1:] * (phone * again + last @ arcs)
            blank = column[:, :1] * last
            size = phone.sum(1, keepdim=True) + blank.sum(1, keepdim=True)
            phone, blank = phone / size, blank / size
            phones.append(phone)
            blanks.append(blank)
            last = torch.cat([blank[:, :1], blank[:, 1:] + phone], dim=1)
        return torch.stack(phones, 1), torch.stack(blanks, 1)

    @staticmethod
    def _backward(probs: Tensor, arcs: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        """Return, for each frame, the weight of what may follow a phone, and the blank after each; scaled by frame."""
        again = 1 - arcs[1:].diagonal()
        blank = ends.expand(len(probs), -1)
        phone = blank[:, 1:]
        phones, blanks = [phone], [blank]
        for column in reversed(probs.unbind(1)[1:]):
            next_phone = column[:, 1:] * phone
            blank = column[:, :1] * blank + next_phone @ arcs.T
            phone = blank[:, 1:] + next_phone * again
            size = blank.sum(1, keepdim=True)
            phone, blank = phone / size, blank / size
            phones.append(phone)
            blanks.append(blank)
        return torch.stack(phones[::-1], 1), torch.stack(blanks[::-1], 1)
