"""A recurrent language model of phones: an LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from speechctc.config.section import Section
from speechctc.lm.lstm_batches import Stream, batches_by_length
from speechctc.lm.model import Sequences
from speechctc.ngram.trie import Reals
from speechctc.phones.inventory import Inventory

SCORED = 16_384  # events in a batch that is scored, padding included


class LstmConfig(Section):
    """The net and its training; set on the command line as ``lm.hidden=512``."""

    embedding: int = Field(64, ge=1, description="size of a phone's embedding")
    hidden: int = Field(256, ge=1, description="units of each layer")
    layers: int = Field(2, ge=1, le=8)
    dropout: float = Field(
        0.4, ge=0, lt=1, description="dropout after the embedding, between layers and after the last"
    )
    epochs: int = Field(60, ge=1, description="most passes over the training text")
    patience: int = Field(4, ge=1, description="end after this many epochs without a better dev perplexity")
    batch_size: int = Field(32, ge=1, description="most utterances in a batch")
    batch_phones: int = Field(8192, ge=1, description="most phones in a batch, padding included")
    longest: int = Field(512, ge=1, description="longest utterance, phones; longer ones are trained on in parts")
    lr: float = Field(3e-3, gt=0, description="learning rate; halved after an epoch without a better dev perplexity")
    weight_decay: float = Field(0.01, ge=0)
    clip: float = Field(1.0, gt=0, description="largest norm of the gradient")
    seed: int = Field(1, ge=0, description="seed for the weights, the order of batches and dropout")
    precision: Literal["float32", "bfloat16", "auto"] = Field(
        "auto", description="auto: bfloat16 where hardware has it"
    )
    device: Literal["auto", "cpu", "cuda"] = "auto"


class PhoneLstm(nn.Module):
    """Maps tokens to the logits of the next ones. Token 0 is the start as input and the end as output.

    Parameters
    ----------
    classes : int
        The number of phones and 1.
    config : LstmConfig
    """

    def __init__(self, classes: int, config: LstmConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, config.embedding)
        between = config.dropout if config.layers > 1 else 0.0
        self.lstm = nn.LSTM(config.embedding, config.hidden, config.layers, batch_first=True, dropout=between)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.hidden, classes)

    def forward(self, tokens: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Any]:
        """Return logits of shape (n_batch, length, classes), and the state after the last token.

        Parameters
        ----------
        tokens : Tensor, shape = (n_batch, length)
        state : tuple of Tensor, optional
            The state after the tokens before; None: at the start.
        """
        hidden, state = self.lstm(self.dropout(self.embedding(tokens)), state)
        return self.output(self.dropout(hidden)), state


@dataclass(frozen=True, eq=False)
class LstmModel:
    """A trained LSTM as a language model.

    Attributes
    ----------
    net : PhoneLstm
    inventory : Inventory
    config : LstmConfig
    """

    net: PhoneLstm
    inventory: Inventory
    config: LstmConfig

    @property
    def kind(self) -> str:
        """Layers and units, in words."""
        return f"LSTM of {self.config.layers} x {self.config.hidden}"

    @property
    def device(self) -> torch.device:
        """The device of the net."""
        return self.net.output.weight.device

    @torch.inference_mode()
    def score(self, sequences: Sequences) -> Reals:
        """Return the log probability of each sequence, including its end; shape = (n_sequences,)."""
        self.net.eval()
        stream, scores = Stream.of(sequences), np.zeros(len(sequences))
        for members in batches_by_length(stream.lengths, len(sequences), SCORED):
            tokens, targets = (part.to(self.device) for part in stream.padded(members))
            losses = nn.functional.cross_entropy(
                self.net(tokens)[0].float().transpose(1, 2), targets, reduction="none", ignore_index=-100
            )
            scores[members] = -losses.double().sum(1).cpu().numpy()
        return scores

    def begin(self, count: int) -> Any:
        """Return the state at the start of `count` utterances."""
        self.net.eval()
        shape = self.net.lstm.num_layers, count, self.net.lstm.hidden_size
        return torch.zeros(shape, device=self.device), torch.zeros(shape, device=self.device)

    @torch.inference_mode()
    def step(self, state: Any, labels: Sequence[int] | None) -> tuple[Reals, Any]:
        """Append a phone to each utterance (none at the start); see `LanguageModel.step`."""
        tokens = torch.zeros(state[0].shape[1]) if labels is None else torch.tensor(labels)
        logits, state = self.net(tokens.long()[:, None].to(self.device), state)
        return logits[:, 0].double().log_softmax(1).cpu().numpy(), state
