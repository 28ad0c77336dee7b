"""The sentinel: tells from the records of the epochs when training goes wrong, what that means, and what to try.

It looks only at ``metrics.jsonl``, so a resumed run is judged as one that was never stopped.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from speechctc.config.schema import ModelConfig
from speechctc.core.bundled import bundled_texts
from speechctc.phones.inventory import Inventory

# A line of ``metrics.jsonl``.
Record: TypeAlias = dict[str, Any]

SILENT = 0.995  # share of blank frames of dev from which the net says nothing
SPEAKS = 95.0  # dev PER in per cent below which a net has said something useful
YOUNG = 200  # steps before which a net may still say nothing, or anything
PLATEAU = 4  # epochs over which a loss must fall
FALL = 0.03  # share by which it must
KEPT = 3  # epochs that something must last before it is told
GROWN = 10.0  # times the median norm of the gradient before
CLIPPED = 0.95  # share of clipped steps
MIN_CLIPPED_STEPS = 500  # steps clipped, after which it is told in the first epochs too
EXPLODED = 100.0  # norm of the gradient per nat of loss: 3 to 20 in first epochs of nets that train well
VANISHED = 1e-4  # norm of the gradient
UNIFORM, CERTAIN = 0.95, 0.02  # of the entropy of a uniform output
WORSE = 1.15  # times the lowest dev loss
ABOVE = 1.1  # times the loss of a constant answer
SLOW = 0.05  # share by which the loss of a healthy net falls in an early epoch, where it is above that
THROWN = 10.0  # times the loss of a constant answer; the first batch of a random net has 3 to 10
SMALL = 0.1  # nats a phone; of a loss below, a rise says nothing


class NetFacts(NamedTuple):
    """What the sentinel must know: the classes, the pieces of a maxout unit (or 1), the loss of a constant answer."""

    classes: int
    pieces: int
    constant: float = math.inf

    @classmethod
    def of(cls, model: ModelConfig, inventory: Inventory, constant: float) -> NetFacts:
        """Return the facts of a config's net for these phones."""
        return cls(len(inventory.phones) + 1, model.pieces if model.activation == "maxout" else 1, constant)


class Alarm(NamedTuple):
    """Something off: a fixed name for programs, a line for people, and whether it is expected at this time."""

    kind: str
    text: str
    expected: bool = False


def alarm(kind: str, expected: bool = False, **values: Any) -> Alarm:
    """Return the alarm of a kind; its text is that of alarms.yaml, with the values in it."""
    return Alarm(kind, bundled_texts(__file__, "alarms.yaml")[kind].format(**values), expected)


def new_warnings(logged: Sequence[Record], now: Record, net: NetFacts) -> list[Alarm]:
    """Return the alarms of an epoch that the one before did not have; later epochs in the log are repeated ones."""
    before = [epoch for epoch in logged if epoch["epoch"] < now["epoch"]]
    old = {each.kind for each in diagnose(before, net)}
    return [each for each in diagnose([*before, now], net) if each.kind not in old]


def diagnose(epochs: Sequence[Record], net: NetFacts) -> list[Alarm]:
    """Return what is off after the last of these epochs.

    Records that lack some values are judged by those that they have.
    """
    return [found for rule in RULES if epochs and (found := rule(epochs, net)) is not None]


def _blanks(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    """Tell the blanks of the first epochs from those of a net that fell silent, or that never learns to speak."""
    now = epochs[-1]
    if not _is_silent(now):
        return None
    if spoke := [each for each in epochs[:-1] if not _is_silent(each) and each["dev_per"] < SPEAKS]:
        lowest, share = min(each["dev_per"] for each in spoke), 100 * now["blank_share"]
        return alarm("fell-silent", share=share, per=lowest, epoch=spoke[-1]["epoch"])
    if not all(map(_is_silent, epochs)):  # it comes and goes, as at the end of a plateau
        return None
    recent, earlier = epochs[-PLATEAU:], epochs[:-PLATEAU]
    if earlier and now["step"] >= YOUNG:
        lowest, before = (min(each["dev_loss"] for each in part) for part in (recent, earlier))
        if lowest > (1 - FALL) * before:
            return alarm("blank-collapse", steps=now["step"], plateau=PLATEAU, before=before, lowest=lowest)
    return alarm("blanks", expected=True)


def _stuck(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    """Tell a loss above that of a constant answer, unless it still falls fast from what a random net may have."""
    for before, now in zip(epochs, epochs[1:], strict=False):
        fast = now["loss"] < min((1 - SLOW) * before["loss"], THROWN * net.constant) and now["step"] < YOUNG
        if not fast and min(now["loss"], now["dev_loss"]) > ABOVE * net.constant:
            thrown = max(each["loss"] for each in epochs) > THROWN * net.constant
            cause = "the first steps were too large" if thrown else "the first weights were unlucky"
            cure = "a third of train.lr" if thrown else "another train.seed"
            return alarm("stuck", **now, constant=net.constant, cause=cause, cure=cure)
    return None


def _undecided(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    now, most = epochs[-1], math.log(net.classes)
    if now["step"] < YOUNG or now.get("entropy", 0.0) < UNIFORM * most:
        return None
    return alarm("undecided", steps=now["step"], entropy=now["entropy"], most=most)


def _certain(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    now, most = epochs[-1], math.log(net.classes)
    wrong = now["dev_per"] > 60 and not _is_silent(now)
    if now["step"] < YOUNG or not wrong or now.get("entropy", most) > CERTAIN * most:
        return None
    return alarm("certain-and-wrong", entropy=now["entropy"], per=now["dev_per"])


def _dead_phones(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    recent = epochs[-KEPT:]
    speaks = len(recent) == KEPT and all(not _is_silent(each) and each["dev_per"] < 60 for each in recent)
    if not speaks or any(each["step"] < YOUNG for each in recent):
        return None
    lists = [str(each.get("dead_phone_names", "")).split() for each in recent]
    dead = [phone for phone in lists[-1] if all(phone in names for names in lists)]
    return alarm("dead-phones", epochs=KEPT, phones=" ".join(dead)) if dead else None


def _gradient(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    norms, now = [each["gradient_norm"] for each in epochs if "gradient_norm" in each], epochs[-1]
    if (norm := now.get("gradient_norm", 0.0)) > EXPLODED * max(now["loss"], 1.0):
        return alarm("gradient-exploded", norm=norm, loss=now["loss"], share=100 * now.get("clipped_share", 0.0))
    if len(norms) <= KEPT:
        return None
    usual = statistics.median(norms[:-1])
    if norms[-1] > GROWN * usual > 0:
        return alarm("gradient-grew", norm=norms[-1], usual=usual)
    if max(norms[-KEPT:]) < VANISHED and now["dev_per"] > 60:
        return alarm("gradient-vanished", norm=norms[-1], per=now["dev_per"])
    return None


def _clipped(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    """Tell it once epochs after the first were clipped, or many steps: the first few are in good trainings, too."""
    free = [k for k, each in enumerate(epochs, start=1) if each.get("clipped_share", 0.0) < CLIPPED]
    last = free[-1] if free else 0
    steps = epochs[-1]["step"] - (epochs[last - 1]["step"] if last else 0)
    long = len(epochs) > KEPT and len(epochs) - last >= KEPT
    if last == len(epochs) or not (long or steps >= MIN_CLIPPED_STEPS):
        return None
    return alarm("always-clipped", share=100 * epochs[-1]["clipped_share"])


def _dead_pieces(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    share, most = epochs[-1].get("dead_pieces"), 1 - 1 / net.pieces
    if not share or share < most / 2 or epochs[-1]["step"] < YOUNG:
        return None
    return alarm("dead-pieces", share=100 * share)


def _gap(epochs: Sequence[Record], net: NetFacts) -> Alarm | None:
    """Tell a dev loss that rises while the training loss falls, unless dev PER still falls, as it often does."""
    best = min(range(len(epochs)), key=lambda k: epochs[k]["dev_loss"])
    best_per = min(range(len(epochs)), key=lambda k: (epochs[k]["dev_per"], epochs[k]["dev_loss"]))
    now, then = epochs[-1], epochs[best]
    if len(epochs) - 1 - max(best, best_per) < PLATEAU or now["dev_loss"] < WORSE * then["dev_loss"]:
        return None
    if now["loss"] > 0.9 * then["loss"] or now["dev_loss"] < SMALL:
        return None
    losses = {"then": then["loss"], "now": now["loss"], "dev_then": then["dev_loss"], "dev_now": now["dev_loss"]}
    return alarm("overfitting", since=then["epoch"], best=epochs[best_per]["epoch"], **losses)


RULES = (_blanks, _stuck, _undecided, _certain, _dead_phones, _gradient, _clipped, _dead_pieces, _gap)


def _is_silent(epoch: Record) -> bool:
    return bool(epoch["blank_share"] > SILENT)
