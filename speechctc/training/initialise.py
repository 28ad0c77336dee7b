"""The initial net: random, or with pretrained weights, whose phone set may differ."""

from __future__ import annotations

from pathlib import Path

import torch

from speechctc.checkpoint import Checkpoint, build_net, find_checkpoint, load_checkpoint
from speechctc.config import Config
from speechctc.errors import InputError
from speechctc.model import MaxoutNet
from speechctc.phones import Inventory, folding
from speechctc.progress import Reporter


def first_net(config: Config, inventory: Inventory, model: Path | None, reporter: Reporter) -> MaxoutNet:
    """Build the net with random weights, then load those of another `model` if one is given.

    Raises
    ------
    InputError
        There is no such model, it is damaged, or its layers or features are others.
    """
    torch.manual_seed(config.train.seed)
    net = build_net(config, inventory)
    if model is not None:
        known = load_pretrained(net, config, inventory, load_checkpoint(find_checkpoint(model)))
        reporter.note(f"begins with the weights of {model}, which knows {known} of the {len(inventory.phones)} phones")
    return net


def load_pretrained(net: MaxoutNet, config: Config, inventory: Inventory, source: Checkpoint) -> int:
    """Copy another model's weights; of the output layer, those of the blank and of phones of the same name.

    A phone that the other knows by its class of Lee and Hon's 39 alone (``zh`` as ``sh``) begins as that.

    Returns
    -------
    int
        How many phones the other model knows, by name or class.

    Raises
    ------
    InputError
        Its layers or features are others.
    """
    _refuse_others(config, source.config)
    known = {phone: number for number, phone in enumerate(source.inventory.phones, start=1)}
    classes = folding("timit39").mapping
    found = [known.get(phone, known.get(classes.get(phone, phone))) for phone in inventory.phones]
    pairs = [(here, there) for here, there in enumerate(found, start=1) if there is not None]
    here, there = (torch.tensor(column) for column in zip((0, 0), *pairs, strict=True))
    weights = net.state_dict()
    for name, value in source.net.state_dict().items():
        if name.startswith("output."):
            weights[name][here] = value[there]
        else:
            weights[name].copy_(value)
    return len(pairs)


def _refuse_others(config: Config, other: Config) -> None:
    """Whatever shapes the weights, or what they were trained to read, must be the same."""
    for section in ("model", "features"):
        ours, theirs = (getattr(each, section).model_dump() for each in (config, other))
        changed = [key for key in ours if ours[key] != theirs[key] and key not in ("dropout", "init")]
        if changed:
            said = ", ".join(f"{section}.{key}={theirs[key]} there, {ours[key]} here" for key in changed[:3])
            raise InputError(
                f"train.init_from={config.train.init_from}: another kind of net: {said}", "give both the same settings"
            )
