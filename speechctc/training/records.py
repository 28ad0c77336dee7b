"""What a training tells while it goes on: the records that callbacks are given."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypedDict

import numpy as np

from speechctc.core.errors import InputError

if TYPE_CHECKING:
    from typing_extensions import NotRequired


class StepRecord(TypedDict):
    """A step of the optimiser.

    Attributes
    ----------
    epoch, step : int
        From 1; steps count through all epochs.
    loss : float
        Mean CTC loss per phone of the step's utterances, those of this process, nats.
    lr : float
        Learning rate.
    phones, frames : int
        Labels and input frames of these utterances.
    seconds : float
        Time of the step.
    """

    epoch: int
    step: int
    loss: float
    lr: float
    phones: int
    frames: int
    seconds: float


class BeginningRecord(TypedDict):
    """The model that a training begins with, before its first step: what `EpochRecord` has of its score on dev."""

    epoch: int
    step: int
    dev_loss: float
    dev_per: float
    blank_share: float
    entropy: float
    dead_phones: int
    dead_phone_names: str
    dead_pieces: NotRequired[float]
    dev_per_of: NotRequired[dict[str, float]]


class EpochRecord(BeginningRecord):
    """An epoch, as the line of ``metrics.jsonl`` has it.

    Attributes
    ----------
    epoch, step : int
        From 1; steps taken by its end.
    loss, dev_loss, dev_gap : float
        Mean CTC loss per phone of training and of dev, nats, and dev's less that of training.
    dev_per : float
        Phone error rate on dev, per cent; the lowest chooses ``best/``.
    blank_share : float
        Share of dev's frames whose best class is the blank.
    entropy : float
        Mean entropy of dev's frames, nats.
    dead_phones : int
        Phones that are frequent in dev, and the best class of none of its frames.
    dead_phone_names : str
        The same by name, with spaces between.
    dead_pieces : float
        Share of maxout pieces that never win; only for nets with maxout.
    dev_per_of : dict of str to float
        The PER of each language of dev, if there are several.
    gradient_norm, gradient_norm_max, clipped_share : float
        Mean and largest norm of the gradient, and the share of steps whose gradient was clipped.
    lr : float
        Learning rate of the last step.
    frames_per_second, seconds, waited, minutes : float
        Speed and time of the epoch, time spent waiting for features, and time of the whole run.
    alarms : str
        What is off since this epoch, as names with spaces between.
    """

    loss: float
    dev_gap: float
    gradient_norm: float
    gradient_norm_max: float
    clipped_share: float
    lr: float
    frames_per_second: float
    seconds: float
    waited: float
    minutes: float
    alarms: str


OnBeginning: TypeAlias = Callable[[BeginningRecord], bool | None]
OnStep: TypeAlias = Callable[[StepRecord], bool | None]
OnEpoch: TypeAlias = Callable[[EpochRecord], bool | None]


class Callbacks(NamedTuple):
    """What the main process calls after each step and each epoch; one that returns true ends the training.

    `on_beginning` is called before the first step, where training begins with another model (``train.init_from``).
    """

    on_step: OnStep | None = None
    on_epoch: OnEpoch | None = None
    on_beginning: OnBeginning | None = None

    def check(self) -> None:
        """Refuse, before hours of work, what cannot be called with a record.

        Raises
        ------
        InputError
            It is no function, or takes no argument or more than one.
        """
        for name, each in self._asdict().items():
            if each is None:
                continue
            if not callable(each):
                raise InputError(f"{name}={each!r:.60} is no function", "give a function that takes a record")
            try:
                inspect.signature(each).bind(None)
            except TypeError as error:
                raise InputError(f"{name}: {error}", "give a function that takes one argument, a record") from None
            except ValueError:  # of a built-in that tells nothing of itself
                pass


def is_end(name: str, answer: object) -> bool:
    """Return whether the answer of a callback ends the training.

    Raises
    ------
    InputError
        It is neither true, false nor None, such as a path that a copy returned: nobody meant to end the training by it.
    """
    if answer is None or isinstance(answer, (bool, np.bool_)):
        return bool(answer)
    what = f"{name} returned {type(answer).__name__}, neither true nor false"
    raise InputError(what, "return True to end the training, and else None")
