"""The start of training: a net with random weights, or with pretrained ones, whose phone set may differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch

from speechctc.config.schema import Config, DecodeConfig
from speechctc.core.bundled import MODELS, bundled_folder
from speechctc.core.errors import InputError, first_few
from speechctc.core.progress import Reporter
from speechctc.lm.mixture import best_share, mix, respelt
from speechctc.lm.model import PhoneLM
from speechctc.model.checkpoint import Checkpoint, find_checkpoint, load_checkpoint
from speechctc.model.net import ConvCTCNet, CTCNet, any_net_of, build_any
from speechctc.model.own import OwnModule, check_own, weights_by_class
from speechctc.phones.articulation import Match, match_phones
from speechctc.phones.inventory import Inventory
from speechctc.training.batches import TrainingData
from speechctc.training.distributed import Ranks
from speechctc.training.optimise import Stage, freeze
from speechctc.training.train_step import TrainStep

ENOUGH = 1000  # utterances of dev that tell the share of an n-gram
# Kinds of corpora whose voices are not those of people.
SYNTHETIC = ("demo", "espeak")


def first_train_step(
    config: Config, data: TrainingData, stage: Stage, ranks: Ranks, reporter: Reporter, resumed: bool = False
) -> tuple[TrainStep, Checkpoint | None]:
    """Return the train step at the start of a stage, and the model that it begins with.

    A model's weights go with its normalisation: the step has that, and not the one of the new recordings. A resumed run
    begins with no other model.
    """
    net, source = first_net(config, data.inventory, None if resumed else config.train.init_from, reporter)
    net = net.to(data.mean.device)
    ranks.share_weights(net)
    if isinstance(net, OwnModule) and (doubt := check_own(net, config, data.mean.device)):
        reporter.warn(doubt)
    freeze(net, config.train.freeze)
    train_step = TrainStep(config, net, data.mean, data.std, ranks, reporter)
    if source is not None:
        train_step.normalise_as(source)
    train_step.start_stage(stage)
    return train_step, source


def first_net(
    config: Config, inventory: Inventory, model: Path | None, reporter: Reporter
) -> tuple[CTCNet, Checkpoint | None]:
    """Build the net with random weights, then load those of another `model` if one is given.

    Parameters
    ----------
    config : Config
    inventory : Inventory
    model : Path or None
        As ``train.init_from``: a run, a checkpoint, or the name of a bundled model.
    reporter : Reporter
        Is told what was taken, and how many of the phones it knows.

    Returns
    -------
    net : CTCNet
    source : Checkpoint or None
        The other model.

    Raises
    ------
    InputError
        There is no such model, it is damaged, or its layers or features are others.
    """
    source = None
    torch.manual_seed(config.train.seed)
    net = build_any(config, inventory)
    plain = isinstance(net, ConvCTCNet) and model is None
    if plain and (config.model.residual, config.model.norm, config.model.init) == (True, "none", "he"):
        # The sum over residual layers grows: random outputs are sure and wrong, and where the blank is improbable, a
        # phone may take its place for good. Zeros as in H. Zhang et al., "Fixup initialization", ICLR 2019, section 3.
        torch.nn.init.zeros_(net.get_parameter("output.weight"))
    if model is not None:
        folder = find_pretrained(model, reporter)
        source = load_checkpoint(folder)
        matches = load_pretrained(net, config, inventory, source)
        is_bundled = any(folder == each.folder for each in MODELS.values())
        name = "the bundled model" if is_bundled else "the weights of"
        known = f"{len(source.inventory.phones)} phones, {source.inventory.name}"
        reporter.note(f"begins with {name} {model} ({known}); {_matches_text(inventory, matches)}")
        of_people = source.config.corpus.kind not in SYNTHETIC or config.corpus.kind in SYNTHETIC
        if not is_bundled and of_people and source.config.corpus != config.corpus:
            what = f"{model} was trained on another corpus, or on other splits of this one"
            who = "speakers of this dev and test may have been among its training speakers"
            reporter.note(f"{what}: {who}, and PER would then be too low")
    return net, source


def first_lms(
    data: TrainingData, source: Checkpoint | None, decode: DecodeConfig
) -> list[tuple[PhoneLM | None, float]]:
    """Return the n-grams that a run may decode with, each with the share in it of the one that the run begins with.

    Where the model that it begins with has one of the same phones, that is the last; before it comes one that is mixed
    with that of the training labels, in the share that makes the labels of dev most probable. Few labels tell little of
    what follows what. Else the only one is that of the training labels.
    """
    own = data.phone_lm(decode.lm_order, decode.lm_cutoff)
    if own is None or own.ngram is None or source is None or source.lm is None or source.lm.ngram is None:
        return [(own, 0.0)]
    matches = match_phones(data.inventory.phones, source.inventory.phones)
    there = [matches[phone].phone for phone in data.inventory.phones if phone in matches]
    if sorted(there) != sorted(source.inventory.phones) or len(there) != len(data.inventory.phones):
        return [(own, 0.0)]  # it has no number for each phone here
    numbers = [1 + there.index(phone) for phone in source.inventory.phones]
    theirs = respelt(source.lm.ngram, numbers)
    given = PhoneLM.of(theirs)
    split = data.dev.split
    share = round(best_share(given, own, (split.labels(k).tolist() for k in range(min(len(split), ENOUGH)))), 3)
    return [(PhoneLM.of(mix(theirs, own.ngram, share)), share), (given, 1.0)]


def find_pretrained(model: Path, reporter: Reporter) -> Path:
    """Return the checkpoint folder that ``train.init_from`` means.

    A run or checkpoint in the working directory goes before a bundled model of the same name; where there is a folder
    of that name, what was taken is said.

    Raises
    ------
    InputError
        There is none.
    """
    try:
        folder, bundled = find_checkpoint(model), bundled_folder(model)
    except InputError as error:
        raise InputError(f"train.init_from={error.what}", error.fix) from None
    if bundled is not None and model.exists():
        bundled_one = f"the bundled model; the folder {model} here holds no model"
        this_folder = f"the folder {model} here, not the bundled model of that name"
        reporter.note(f"train.init_from={model} is {bundled_one if folder == bundled else this_folder}")
    return folder


def load_pretrained(net: CTCNet, config: Config, inventory: Inventory, source: Checkpoint) -> dict[str, Match]:
    """Copy another model's weights; of the output layer, those of the blank and of the phones that match.

    A phone that the other does not know begins as the nearest that it knows; see `match_phones`.

    Returns
    -------
    dict of str to Match
        The phones that begin as one of the other's.

    Raises
    ------
    InputError
        Its layers or features are others.
    """
    _check_same_net(config, source.config)
    matches = match_phones(inventory.phones, source.inventory.phones)
    here = [0, *inventory.encode(matches)]
    there = [0, *source.inventory.encode(match.phone for match in matches.values())]
    weights = net.state_dict()
    of_classes = ["output.weight", "output.bias"]
    if isinstance(net, OwnModule):
        same = inventory.phones == source.inventory.phones
        of_classes = [] if same else weights_by_class(config, len(inventory.phones) + 1)
    for name, value in any_net_of(source).state_dict().items():
        if name in of_classes:
            weights[name][torch.tensor(here)] = value[torch.tensor(there)]
        else:
            weights[name].copy_(value)
    return matches


def _matches_text(inventory: Inventory, matches: Mapping[str, Match]) -> str:
    """Say how the phones were matched, with a few of those that only resemble one."""
    ways = Counter(match.how for match in matches.values())
    fresh = [phone for phone in inventory.phones if phone not in matches]
    said = f"of the {len(inventory.phones)} phones here it knows {ways['name']} by name, {ways['table']} by table"
    if near := [phone for phone, match in matches.items() if match.how == "nearness"]:
        said += (
            f"; {len(near)} begin as the nearest it knows ({first_few([f'{p} as {matches[p].phone}' for p in near])})"
        )
    if fresh:
        said += f"; {len(fresh)} begin afresh ({' '.join(fresh[:8])}{' ...' if len(fresh) > 8 else ''})"
    return said


def _check_same_net(config: Config, other: Config) -> None:
    """Refuse a net of other layers, or one that was trained to read other features.

    A net without `model.context` may go on with it, since it changes nothing at first.
    """
    for section in ("model", "features"):
        ours, theirs = (getattr(each, section).model_dump(exclude={"encoder": {"folder"}}) for each in (config, other))
        free = ("dropout", "init", *(("context", "context_span") if theirs.get("context") == 0 else ()))
        changed = [key for key in ours if ours[key] != theirs[key] and key not in free]
        if changed:
            said = ", ".join(f"{section}.{key}={theirs[key]} there, {ours[key]} here" for key in changed[:3])
            same = f"those of the bundled models' {section}: the config finetune"
            fix = f"set train.init_from=null to begin with random weights, or give both the same settings ({same})"
            raise InputError(f"train.init_from={config.train.init_from}: another kind of net: {said}", fix)
