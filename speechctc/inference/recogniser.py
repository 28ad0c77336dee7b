"""A trained model that recognises and aligns, as `speechctc.load` returns it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from speechctc.audio.tracks import Channel
from speechctc.core.errors import InputError
from speechctc.core.tensor_file import load_weights, shapes
from speechctc.inference.alignment import Aligner, AlignOptions
from speechctc.inference.boundary_model import BoundaryModel
from speechctc.inference.decoder import Decoder, Opening
from speechctc.inference.goodness import Goodness
from speechctc.inference.hearing import PhoneMapping
from speechctc.inference.placement import Posteriors
from speechctc.inference.refinement import Refiner
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Calibration
from speechctc.inference.streaming import Forward, held
from speechctc.inference.transcript import Items, Phrase, check_phones, parse_phones
from speechctc.lm.search import log_softmax
from speechctc.model.checkpoint import Checkpoint
from speechctc.model.layers import weight_shapes

if TYPE_CHECKING:
    from typing_extensions import Self


# In a checkpoint's folder: the net that scores phones, its weights and its normalisation.
JUDGE_FILE = "judge.safetensors"


@dataclass(eq=False, repr=False)
class Recogniser(Decoder):
    """A trained model that decodes and aligns recordings; `speechctc.load` makes one.

    Parameters
    ----------
    checkpoint, calibration, lstm
        As for `Decoder`, whose attributes it has.
    device : str
        Where the net computes, as torch names it; on the CPU torch is not needed.
    boundaries : BoundaryModel, optional
        Refines the boundaries of alignments.
    goodness : Goodness, optional
        What is usual in speech that is right.
    judge : Path, optional
        File of the net that scores phones, in place of the model's own.
    prior : Prior, optional
        As for `Decoder`.
    """

    boundaries: BoundaryModel | None = None
    goodness: Goodness = None  # type: ignore[assignment]  # of nothing learned
    judge: Path | None = None

    def __post_init__(self) -> None:
        """Load the net."""
        super().__post_init__()
        self.goodness = self.goodness or Goodness.untaught(self.inventory.phones)

    @classmethod
    def parts(cls, folder: Path) -> dict[str, Any]:
        """As of `Decoder`; with what aligns and scores, too."""
        parts = super().parts(folder)
        goodness, judge = Goodness.load(folder, parts["checkpoint"].inventory.phones), folder / JUDGE_FILE
        own = {"boundaries": BoundaryModel.load(folder), "judge": judge if judge.exists() else None}
        return {**parts, **own, "goodness": goodness}

    def restricted(self, checkpoint: Checkpoint) -> Self:
        """As `Decoder.restricted`; scores of phones were learned for all of them, and are left out."""
        return self.replaced(checkpoint=checkpoint, goodness=None, judge=None)

    def uncalibrated(self) -> Self:
        """Return a recogniser of the same model whose confidences are posteriors, and boundaries as the net says."""
        return self.replaced(calibration=Calibration(), boundaries=None)

    def unshifted(self) -> Self:
        """Return a recogniser of the same model whose boundary model does without the shift to hand-made boundaries."""
        return self.replaced(boundaries=self.boundaries and self.boundaries.unshifted())

    def align(
        self,
        recording: str | Path | Any,
        phones: str | Sequence[str],
        rate: int | None = None,
        channel: Channel | None = None,
    ) -> Recognition:
        """Find the times of known phones in a recording of any length (forced alignment).

        Parameters
        ----------
        recording, rate, channel
            As for `decode`.
        phones : str or sequence of str
            Phones of the model; a text is divided at white space. ``*`` is any stretch of sound, ``(a|b c)``
            alternatives, ``(a|)`` may be missing.

        Raises
        ------
        InputError
            A phone is not in the model's set, the phones do not fit into the recording, or it cannot be read.
        """
        if not isinstance(phones, Iterable):
            raise InputError(f"phones={phones!r:.40}", "give a text, or a list of texts such as 'aa'")
        labels = phones.split() if isinstance(phones, str) else [*phones]
        if odd := [each for each in labels if not isinstance(each, str)]:
            raise InputError(f"{odd[0]!r:.40} among the phones is not a text", "give phones as texts, such as 'aa'")
        return self.place(recording, parse_phones(labels, self.phones), rate, channel)

    def place(
        self,
        recording: str | Path | Any,
        items: Items,
        rate: int | None = None,
        channel: Channel | None = None,
        phrases: Sequence[Phrase] = (),
        options: AlignOptions = AlignOptions(),  # noqa: B008
    ) -> Recognition:
        """Find the times of a transcript's words and phones in a recording of any length.

        Parameters
        ----------
        recording, rate, channel
            As for `align`.
        items : Items
            The transcript.
        phrases : sequence of Phrase, optional
            The items in parts, in the order of time: each lies between its times.
        options : AlignOptions, optional
        """
        dereverb = self.config.decode.dereverb
        if options.judge is not None and dereverb == "auto":
            dereverb = "never"  # scores are compared: all are of the sound as it is
        recording = held(recording)
        refining = Refiner((recording, rate, channel), self.boundaries, self.phones, dereverb)
        aligner = Aligner(self.inventory, self.clock, self.calibration, options, refining)
        opening = self.opened(recording, rate, channel, dereverb)
        with opening as (name, blocks), Posteriors(len(aligner.inventory.phones) + 1) as posteriors, refining:
            check_phones(name, items, options.silences, aligner.inventory)
            for block in self.forward.in_blocks(blocks, local=True):
                posteriors.append(aligner.heard.rows(log_softmax(block)))
                options.watch(f"{self.clock.step * posteriors.frames:.0f} s heard")
            if options.judge is not None and self.judge is not None:
                posteriors.judged = self._judged(self.opened(recording, rate, channel, dereverb), aligner.heard)
            if phrases:
                found = aligner.place_phrases(name, blocks.seconds, phrases, posteriors)
            else:
                found = aligner.place(name, blocks.seconds, items, posteriors)
            return replace(found, is_dereverberated=blocks.changed)

    def _judged(self, opening: Opening, heard: PhoneMapping) -> Posteriors:
        """Return the posteriors of the net that scores phones."""
        posteriors = Posteriors(len(heard.inventory.phones) + 1)
        with opening as (_, blocks):
            for block in self._judging.in_blocks(blocks, local=True):
                posteriors.append(heard.rows(log_softmax(block)))
        return posteriors

    @cached_property
    def _judging(self) -> Forward:
        """The net that scores phones."""
        assert self.judge is not None
        return Forward(load_judge(self.judge, self.checkpoint), self.device, self.net)


def load_judge(path: Path, model: Checkpoint) -> Checkpoint:
    """Return the net of a judge: as that of the model that it belongs to, but without ``model.context``.

    Raises
    ------
    InputError
        The file is damaged, or of other phones.
    """
    net = model.config.model.model_copy(update={"context": 0})
    config = model.config.model_copy(update={"model": net})
    try:
        wanted: dict[str, tuple[int, ...]] = {**weight_shapes(config, len(model.inventory.phones) + 1)}
        if shapes(path) != wanted | dict.fromkeys(("normalisation.mean", "normalisation.std"), model.mean.shape):
            raise ValueError  # before memory is taken
        weights = load_weights(path)
        mean, std = weights.pop("normalisation.mean"), weights.pop("normalisation.std")
        if not (std > 0).all():
            raise ValueError
    except (OSError, SafetensorError, KeyError, ValueError):
        fix = "use the model english, or export the model again with this version"
        raise InputError(f"{path}: not a net that scores phones of this model", fix) from None
    return replace(model, config=config, weights=weights, mean=mean, std=std, lm=None)
