"""Padded batches of phone sequences, made in advance by a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speechctc.ngram.trie import Integers

IGNORED = -100  # target of padding, as in torch's cross entropy
WINDOW = 50  # batches whose utterances are sorted by length together
AHEAD = 4


@dataclass(frozen=True, eq=False)
class Stream:
    """Concatenated utterances, each after a 0, and a 0 at the end; the target of a token is the token after it.

    Attributes
    ----------
    tokens : ndarray, shape = (phones + utterances + 1,), int32
    starts, lengths : ndarray, shape = (pieces,)
        First token of each piece, and its number of tokens.
    """

    tokens: NDArray[np.int32]
    starts: Integers
    lengths: Integers

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]], longest: int | None = None) -> Stream:
        """Concatenate utterances; those longer than `longest` are cut into pieces."""
        lengths = np.array([len(sequence) + 1 for sequence in sequences], np.int64)
        tokens = np.zeros(int(lengths.sum()) + 1, np.int32)
        starts = np.cumsum(lengths) - lengths
        for start, sequence in zip(starts.tolist(), sequences, strict=True):
            tokens[start + 1 : start + 1 + len(sequence)] = sequence
        if longest is not None:
            pieces = -(-lengths // longest)
            number = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
            starts, whole = np.repeat(starts, pieces) + longest * number, np.repeat(lengths, pieces)
            lengths = np.minimum(whole - longest * number, longest)
        return cls(tokens, starts, lengths)

    def padded(self, members: Integers) -> tuple[Tensor, Tensor]:
        """Return tokens and targets of some pieces, each (n_members, longest); targets of padding are `IGNORED`."""
        lengths = self.lengths[members, None]
        place = np.arange(lengths.max())[None]
        inside = place < lengths
        at = np.where(inside, self.starts[members, None] + place, 0)
        tokens = np.where(inside, self.tokens[at], 0)
        targets = np.where(inside, self.tokens[np.minimum(at + 1, len(self.tokens) - 1)], IGNORED)
        return torch.from_numpy(tokens.astype(np.int64)), torch.from_numpy(targets.astype(np.int64))


def batches_by_length(lengths: Integers, most: int, most_tokens: int, order: Integers | None = None) -> list[Integers]:
    """Cut pieces into batches of similar length.

    Parameters
    ----------
    lengths : ndarray, shape = (pieces,)
    most, most_tokens : int
        Most pieces in a batch, and most tokens with padding.
    order : ndarray, optional
        The order of the pieces; None: all sorted by length.
    """
    order = np.argsort(lengths, kind="stable") if order is None else order
    batches: list[Integers] = []
    begin = 0
    while begin < len(order):
        size = 1
        while begin + size < len(order) and size < most:
            if (size + 1) * lengths[order[begin : begin + size + 1]].max() > most_tokens:
                break
            size += 1
        batches.append(order[begin : begin + size])
        begin += size
    return batches


def epoch_batches(lengths: Integers, most: int, most_tokens: int, seed: tuple[int, int]) -> list[Integers]:
    """Return the batches of an epoch in random order; the members of each have similar lengths."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(lengths))
    window = WINDOW * most
    for begin in range(0, len(order), window):
        part = order[begin : begin + window]
        order[begin : begin + window] = part[np.argsort(lengths[part], kind="stable")]
    batches = batches_by_length(lengths, most, most_tokens, order)
    return [batches[k] for k in rng.permutation(len(batches))]


def made_ahead(stream: Stream, batches: Iterable[Integers], pinned: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the padded batches, which a thread makes in advance.

    Parameters
    ----------
    stream : Stream
    batches : iterable of ndarray
        The pieces of each batch.
    pinned : bool
        In pinned memory, from which a GPU copies while it computes.
    """
    made: queue.Queue[tuple[Tensor, Tensor] | BaseException | None] = queue.Queue(AHEAD)
    left = threading.Event()

    def put(item: tuple[Tensor, Tensor] | BaseException | None) -> None:
        while not left.is_set():
            with suppress(queue.Full):
                made.put(item, timeout=0.1)
                return

    def make() -> None:
        try:
            for members in batches:
                tokens, targets = stream.padded(members)
                put((tokens.pin_memory(), targets.pin_memory()) if pinned else (tokens, targets))
                if left.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=make, name="batches", daemon=True)
    thread.start()
    try:
        while (batch := made.get()) is not None:
            if isinstance(batch, BaseException):
                raise batch
            yield batch
    finally:
        left.set()
        thread.join()
