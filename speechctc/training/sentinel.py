"""The sentinel: tells from the records of the epochs when training goes wrong, what that means, and what to try.

It looks only at ``metrics.jsonl``, so a resumed run is judged as one that was never stopped.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from speechctc.config.schema import ModelConfig
from speechctc.phones.inventory import Inventory

Record: TypeAlias = dict[str, Any]
"""A line of ``metrics.jsonl``."""

SILENT = 0.995  # share of blank frames of dev from which the net says nothing
SPEAKS = 95.0  # dev PER in per cent below which a net has said something useful
YOUNG = 200  # steps before which a net may still say nothing, or anything
PLATEAU = 4  # epochs over which a loss must fall
FALL = 0.03  # share by which it must
KEPT = 3  # epochs that something must last before it is told
GROWN = 10.0  # times the median norm of the gradient before
CLIPPED = 0.95  # share of clipped steps
MANY = 500  # steps clipped, after which it is told in the first epochs too
EXPLODED = 100.0  # norm of the gradient per nat of loss: 3 to 20 in first epochs of nets that train well
VANISHED = 1e-4  # norm of the gradient
UNIFORM, CERTAIN = 0.95, 0.02  # of the entropy of a uniform output
WORSE = 1.15  # times the lowest dev loss
SMALL = 0.1  # nats a phone; of a loss below, a rise says nothing


@dataclass(frozen=True)
class NetFacts:
    """What the sentinel must know of the net: the number of classes, and of the pieces of a maxout unit (or 1)."""

    classes: int
    pieces: int

    @classmethod
    def of(cls, model: ModelConfig, inventory: Inventory) -> NetFacts:
        """Return the facts of a config's net for these phones."""
        return cls(len(inventory.phones) + 1, model.pieces if model.activation == "maxout" else 1)


@dataclass(frozen=True)
class Alarm:
    """Something off: a fixed name for programs, a line for people, and whether it is expected at this time."""

    kind: str
    text: str
    expected: bool = False


def new_warnings(logged: Sequence[Record], now: Record, net: NetFacts) -> list[Alarm]:
    """Return the alarms of an epoch that the one before did not have; later epochs in the log are repeated ones."""
    before = [epoch for epoch in logged if epoch["epoch"] < now["epoch"]]
    old = {alarm.kind for alarm in diagnose(before, net)}
    return [alarm for alarm in diagnose([*before, now], net) if alarm.kind not in old]


def diagnose(epochs: Sequence[Record], net: NetFacts) -> list[Alarm]:
    """Return what is off after the last of these epochs.

    Records of earlier versions, which lack some values, are judged by those that they have.
    """
    rules: tuple[Callable[[Sequence[Record], NetFacts], Alarm | None], ...] = (
        _blanks,
        _undecided,
        _certain,
        _dead_phones,
        _gradient,
        _clipped,
        _dead_pieces,
        _gap,
    )
    return [alarm for rule in rules if epochs and (alarm := rule(epochs, net)) is not None]


def _blanks(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    """Tell the blanks of the first epochs from those of a net that fell silent, or that never learns to speak."""
    now = epochs[-1]
    if not _is_silent(now):
        return None
    if spoke := [each for each in epochs[:-1] if not _is_silent(each) and each["dev_per"] < SPEAKS]:
        return Alarm(
            "fell-silent",
            f"the net fell silent: blank in {_percent(now['blank_share'])} of dev, after a dev PER of"
            f" {min(each['dev_per'] for each in spoke):.1f} % in epoch {spoke[-1]['epoch']}. Usually a few steps were"
            " too large; best/ still has the better weights. Try a third of train.lr, train.warmup_steps, or a smaller"
            " train.clip",
        )
    if not all(map(_is_silent, epochs)):  # it comes and goes, as at the end of a plateau
        return None
    recent, earlier = epochs[-PLATEAU:], epochs[:-PLATEAU]
    if earlier and now["step"] >= YOUNG:
        lowest, before = (min(each["dev_loss"] for each in part) for part in (recent, earlier))
        if lowest > (1 - FALL) * before:
            return Alarm(
                "blank-collapse",
                f"blank collapse: {now['step']:,} steps of nothing but blanks, and the loss on dev has not fallen for"
                f" {PLATEAU} epochs (from {before:.3f} to {lowest:.3f}): the net gives every frame the same answer."
                " Usually labels and recordings do not belong together (speechctc doctor looks), or train.lr is wrong:"
                " try three times as much and a third, train.warmup_steps, or model.norm=none"
                " (docs/guide/symptoms.md#only-blanks)",
            )
    return Alarm(
        "blanks",
        "blank nearly everywhere: expected in the first epochs, and it ends when the loss falls on"
        " (docs/explain/blank.md)",
        expected=True,
    )


def _undecided(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    now, most = epochs[-1], math.log(net.classes)
    if now["step"] < YOUNG or now.get("entropy", 0.0) < UNIFORM * most:
        return None
    return Alarm(
        "undecided",
        f"the output is still nearly uniform after {now['step']:,} steps (entropy {now['entropy']:.2f} of at most"
        f" {most:.2f} nats). Usually train.lr is far too low; try ten times as much",
    )


def _certain(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    now, most = epochs[-1], math.log(net.classes)
    wrong = now["dev_per"] > 60 and not _is_silent(now)
    if now["step"] < YOUNG or not wrong or now.get("entropy", most) > CERTAIN * most:
        return None
    return Alarm(
        "certain-and-wrong",
        f"the net is sure and wrong: entropy {now['entropy']:.3f} nats at a dev PER of {now['dev_per']:.1f} %. Usually"
        " dev differs from train (other microphones, another way of labelling), or the net knows train by heart; try"
        " speechctc doctor, augmentation, more dropout",
    )


def _dead_phones(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    recent = epochs[-KEPT:]
    speaks = len(recent) == KEPT and all(not _is_silent(each) and each["dev_per"] < 60 for each in recent)
    if not speaks or any(each["step"] < YOUNG for each in recent):
        return None
    lists = [str(each.get("dead_phone_names", "")).split() for each in recent]
    dead = [phone for phone in lists[-1] if all(phone in names for names in lists)]
    if not dead:
        return None
    return Alarm(
        "dead-phones",
        f"never recognised in {KEPT} epochs, though dev has them: {' '.join(dead)}. Usually they are rare in train,"
        " or labelled like another phone; try more examples, or fold them with score.fold",
    )


def _gradient(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    norms, now = [each["gradient_norm"] for each in epochs if "gradient_norm" in each], epochs[-1]
    if now.get("gradient_norm", 0.0) > EXPLODED * max(now["loss"], 1.0):
        return Alarm(
            "gradient-exploded",
            f"the gradient explodes: its mean norm is {now['gradient_norm']:.2g}, at a loss of {now['loss']:.3g}, and"
            f" {_percent(now.get('clipped_share', 0.0))} of the steps were clipped: a few utterances decide the steps."
            " Usually the net is too deep for its first weights, or features are constant; try train.init_from,"
            " model.norm=layer or train.warmup_steps, and speechctc doctor",
        )
    if len(norms) <= KEPT:
        return None
    usual = statistics.median(norms[:-1])
    if norms[-1] > GROWN * usual > 0:
        return Alarm(
            "gradient-grew",
            f"the gradient's mean norm is {norms[-1]:.3g}, its usual one {usual:.3g}: training is about to diverge."
            " Usually train.lr is too high; try a third of it, or a smaller train.clip",
        )
    if max(norms[-KEPT:]) < VANISHED and epochs[-1]["dev_per"] > 60:
        return Alarm(
            "gradient-vanished",
            f"the gradient has almost vanished (mean norm {norms[-1]:.1g}) and the dev PER is still"
            f" {epochs[-1]['dev_per']:.1f} %. Usually the net is too deep for its first weights; try model.residual,"
            " model.norm=layer or model.init=he",
        )
    return None


def _clipped(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    """Tell it once epochs after the first were clipped, or many steps: the first few are in good trainings, too."""
    free = [k for k, each in enumerate(epochs, start=1) if each.get("clipped_share", 0.0) < CLIPPED]
    last = free[-1] if free else 0
    steps = epochs[-1]["step"] - (epochs[last - 1]["step"] if last else 0)
    long = len(epochs) > KEPT and len(epochs) - last >= KEPT
    if last == len(epochs) or not (long or steps >= MANY):
        return None
    return Alarm(
        "always-clipped",
        f"nearly every step is clipped ({_percent(epochs[-1]['clipped_share'])}): train.clip alone decides how long the"
        " steps are. Try a larger train.clip, or a lower train.lr",
    )


def _dead_pieces(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    share, most = epochs[-1].get("dead_pieces"), 1 - 1 / net.pieces
    if not share or share < most / 2 or epochs[-1]["step"] < YOUNG:
        return None
    return Alarm(
        "dead-pieces",
        f"{_percent(share)} of the maxout pieces never win: those units are linear (docs/explain/maxout.md). Usually"
        " train.lr is too high or model.init does not fit; try a third of train.lr, model.init=he, or model.pieces=2",
    )


def _gap(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    """Tell a dev loss that rises while the training loss falls, unless dev PER still falls, as it often does."""
    best = min(range(len(epochs)), key=lambda k: epochs[k]["dev_loss"])
    best_per = min(range(len(epochs)), key=lambda k: epochs[k]["dev_per"])
    now, then = epochs[-1], epochs[best]
    if len(epochs) - 1 - max(best, best_per) < PLATEAU or now["dev_loss"] < WORSE * then["dev_loss"]:
        return None
    if now["loss"] > 0.9 * then["loss"] or now["dev_loss"] < SMALL:
        return None
    return Alarm(
        "overfitting",
        f"overfitting: since epoch {then['epoch']} the loss fell from {then['loss']:.3f} to {now['loss']:.3f}, and on"
        f" dev it rose from {then['dev_loss']:.3f} to {now['dev_loss']:.3f}; dev PER was lowest in epoch"
        f" {epochs[best_per]['epoch']}. best/ has those weights. Usually the corpus is small for the net; try"
        " augmentation, more dropout, train.init_from, or end earlier with train.patience",
    )


def _is_silent(epoch: Record) -> bool:
    return bool(epoch["blank_share"] > SILENT)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
