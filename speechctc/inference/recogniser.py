"""A trained model that recognises and aligns, as `speechctc.load` returns it, and the language models for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from safetensors import SafetensorError

from speechctc.core import files
from speechctc.core.bundled import MODELS, bundled_folder
from speechctc.core.devices import recognition_device
from speechctc.core.errors import InputError, first_few
from speechctc.core.progress import Reporter
from speechctc.core.tensor_file import load_arrays, load_weights
from speechctc.inference.alignment import Aligner, AlignOptions, Heard
from speechctc.inference.boundary_model import BoundaryModel
from speechctc.inference.decoder import Decoder
from speechctc.inference.goodness import Goodness
from speechctc.inference.placement import Posteriors
from speechctc.inference.refinement import Refiner
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Calibration
from speechctc.inference.streaming import Forward, NetMaker, opened
from speechctc.inference.transcript import Items, Phrase, check_phones, parse_phones
from speechctc.lm.arpa import read_arpa
from speechctc.lm.model import LanguageModel, NgramModel, PhoneLM, find_lstm
from speechctc.lm.search import lm_settings
from speechctc.model.checkpoint import FREQUENCIES, Checkpoint, find_checkpoint, read_checkpoint
from speechctc.model.layers import weight_shapes
from speechctc.model.numpy_net import NumpyNet, log_softmax
from speechctc.phones.inventory import Inventory

if TYPE_CHECKING:
    from typing_extensions import Self


# In a checkpoint's folder: weights of the net that scores phones; they take the place of those of the model below.
JUDGE_FILE = "judge.safetensors"
JUDGE_BASE = "ipa"


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
    """

    PARTS = ("checkpoint", "device", "calibration", "lstm", "boundaries", "goodness", "judge")

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: str = "cpu",
        calibration: Calibration | None = None,
        lstm: LanguageModel | None = None,
        boundaries: BoundaryModel | None = None,
        goodness: Goodness | None = None,
        judge: Path | None = None,
    ) -> None:
        super().__init__(checkpoint, device, calibration, lstm, net_on(device))
        self.boundaries, self.judge = boundaries, judge
        self.goodness = goodness or Goodness.untaught(checkpoint.inventory.phones)

    @classmethod
    def load(
        cls,
        model: str | Path | None = None,
        device: str = "auto",
        lm_weight: float | None = None,
        min_modulation_db: float | None = None,
    ) -> Self:
        """Load a checkpoint or a run's best; by default that of the latest run, or else the bundled English.

        Parameters
        ----------
        model : str or Path, optional
        device : str
        lm_weight : float, optional
            Weight of the n-gram of phones; 0: decode without it. By default that which ``lm tune`` saved for the
            model, or else ``decode.lm_weight``.
        min_modulation_db : float, optional
            Threshold of the activity detector, instead of ``decode.min_modulation_db``; 0: find phones anywhere.

        Raises
        ------
        InputError
            There is no such model or device, the model is damaged or of another version, a setting is out of range,
            or a weight is given and the model has no n-gram.
        """
        folder = find_checkpoint(None if model is None else Path(model), or_built_in=True)
        recogniser = cls.read(folder, device)
        settings = [] if min_modulation_db is None else [f"decode.min_modulation_db={min_modulation_db}"]
        return recogniser.with_settings(settings + lm_settings(folder, recogniser.checkpoint.lm, None, lm_weight))

    @classmethod
    def read(cls, folder: Path, device: str = "auto") -> Self:
        """Read the model in the folder of a checkpoint (see `find_checkpoint`), without tuned settings.

        Raises
        ------
        InputError
            As `load`; or the encoder of its features has moved or changed.
        """
        return cls.of_folder(folder, device=recognition_device(device))

    @classmethod
    def _parts(cls, folder: Path) -> dict[str, Any]:
        """As those of `Decoder`; with what aligns and scores, too."""
        parts = super()._parts(folder)
        goodness, judge = Goodness.load(folder, parts["checkpoint"].inventory.phones), folder / JUDGE_FILE
        own = {"boundaries": BoundaryModel.load(folder), "judge": judge if judge.exists() else None}
        return {**parts, **own, "goodness": goodness}

    def restricted(self, checkpoint: Checkpoint, lstm: LanguageModel | None) -> Self:
        """As `Decoder.restricted`; scores of phones were learned for all of them, and are left out."""
        return self.replaced(checkpoint=checkpoint, lstm=lstm, goodness=None, judge=None)

    def uncalibrated(self) -> Self:
        """Return a recogniser of the same model whose confidences are posteriors, and boundaries as the net says."""
        return self.replaced(calibration=None, boundaries=None)

    def align(
        self,
        recording: str | Path | Any,
        phones: str | Sequence[str],
        rate: int | None = None,
        channel: int | None = None,
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
        labels = phones.split() if isinstance(phones, str) else phones
        if odd := [each for each in labels if not isinstance(each, str)]:
            raise InputError(f"{odd[0]!r:.40} among the phones is not a text", "give phones as texts, such as 'aa'")
        return self.place(recording, parse_phones(labels, self.phones), rate, channel)

    def place(
        self,
        recording: str | Path | Any,
        items: Items,
        rate: int | None = None,
        channel: int | None = None,
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
        refining = Refiner(recording, rate, channel, self.boundaries, self.phones)
        aligner = Aligner(self.inventory, self.clock, self.calibration, options, refining)
        opening = opened(recording, rate, channel, self.config.features.sample_rate)
        with opening as (name, blocks), Posteriors(len(aligner.inventory.phones) + 1) as posteriors, refining:
            check_phones(name, items, options.silences, aligner.inventory)
            for block in self.forward.in_blocks(blocks, local=True):
                posteriors.append(aligner.heard.rows(log_softmax(block)))
                options.watch(f"{self.clock.step * posteriors.frames:.0f} s heard")
            if options.judge is not None and self.judge is not None:
                posteriors.judged = self._judged(recording, rate, channel, aligner.heard)
            if phrases:
                return aligner.place_phrases(name, blocks.seconds, phrases, posteriors)
            return aligner.place(name, blocks.seconds, items, posteriors)

    def _judged(self, recording: Any, rate: int | None, channel: int | None, heard: Heard) -> Posteriors:
        """Return the posteriors of the net that scores phones."""
        posteriors = Posteriors(len(heard.inventory.phones) + 1)
        with opened(recording, rate, channel, self.config.features.sample_rate) as (_, blocks):
            for block in self._judging.in_blocks(blocks, local=True):
                posteriors.append(heard.rows(log_softmax(block)))
        return posteriors

    @cached_property
    def _judging(self) -> Forward:
        """The net that scores phones."""
        assert self.judge is not None
        return Forward(load_judge(self.judge, self.inventory), self.device, self.net)


def load_judge(path: Path, inventory: Inventory) -> Checkpoint:
    """Return the net of a judge, of the phones of the model that it belongs to.

    Raises
    ------
    InputError
        The file is damaged, or of other phones.
    """
    base = read_checkpoint(MODELS[JUDGE_BASE].folder)
    try:
        weights = {**base.weights, **load_weights(path)}
        wanted = weight_shapes(base.config, len(inventory.phones) + 1)
        if {name: each.shape for name, each in weights.items()} != wanted:
            raise ValueError
    except (OSError, SafetensorError, ValueError):
        fix = "delete it, then run speechctc calibrate: the model itself scores"
        raise InputError(f"{path}: not a net that scores phones of this model", fix) from None
    return replace(base, inventory=inventory, weights=weights, lm=None)


AnyDecoder = TypeVar("AnyDecoder", bound=Decoder)


def load_decoder(folder: Path, device: str = "auto") -> Decoder:
    """Read the model in the folder of a checkpoint, to decode on a device.

    Raises
    ------
    InputError
        As `Decoder.of_folder`; or there is no such device.
    """
    chosen = recognition_device(device)
    return Decoder.of_folder(folder, device=chosen, net=net_on(chosen))


def net_on(device: str) -> NetMaker:
    """Return what makes nets that compute on a device: numpy on the CPU, torch elsewhere."""
    if device == "cpu":
        return NumpyNet
    from speechctc.model.net import TorchNet

    return partial(TorchNet, device=device)


def load_lm(path: Path, inventory: Inventory | None = None, device: str = "cpu") -> LanguageModel:
    """Read an ARPA file, an LSTM, or the n-gram of a recogniser's checkpoint; ``english``: of that bundled one.

    Parameters
    ----------
    path : Path
    inventory : Inventory, optional
        The phones that it must have; None: any.
    device : str
        Where an LSTM computes, as torch names it.

    Raises
    ------
    InputError
        There is no language model, it is damaged, or it has another phone set.
    """
    if not path.exists():
        path = bundled_folder(path) or path
    if not path.exists():
        raise InputError(f"{path}: no such language model", "name an ARPA file or a folder of speechctc lm train")
    if path.is_file():
        arpa = read_arpa(path, inventory)
        return NgramModel(PhoneLM.of(arpa.ngram), arpa.inventory, f"{arpa.ngram.order}-gram", arpa.missing)
    if folder := find_lstm(path):
        from speechctc.lm.lstm import load_lstm  # late: it loads torch

        model = load_lstm(folder, device).model
        check_lm_phones(folder, model.inventory, inventory)
        return model
    for folder in (path, path / "best", path / "last"):
        if (folder / "lm.safetensors").is_file() and (folder / "checkpoint.json").is_file():
            return _own_ngram(folder, inventory)
    raise InputError(f"{path}: no language model in this folder", "name an ARPA file or a folder of speechctc lm train")


def relative(model: NgramModel, checkpoint: Checkpoint) -> PhoneLM:
    """Return an n-gram as a recogniser without one of its own uses it; see `Ngram.relative_to`."""
    counts, ngram = checkpoint.facts.get(FREQUENCIES), model.lm.ngram
    return PhoneLM.of(ngram.relative_to(counts)) if counts and ngram else model.lm


def check_lm_phones(where: Path, phones: Inventory, inventory: Inventory | None) -> None:
    """Check that a language model has the phones of an inventory, in the same order.

    Raises
    ------
    InputError
        It has others.
    """
    if inventory is None or phones.phones == inventory.phones:
        return
    odd = sorted(set(phones.phones) ^ set(inventory.phones))
    differ = f"they differ in {len(odd)}: {' '.join(odd[:8])}" if odd else "in another order"
    raise InputError(
        f"{where}: a language model of {len(phones.phones)} phones ({phones.name}), where"
        f" {len(inventory.phones)} ({inventory.name}) are wanted; {differ}",
        "train one on these phones: speechctc lm train",
    )


def _own_ngram(folder: Path, inventory: Inventory | None) -> NgramModel:
    try:
        phones = files.read_json(folder / "checkpoint.json")["phones"]
        own = Inventory(phones["name"], tuple(phones["list"]))
        tensors = load_arrays(folder / "lm.safetensors")
        tensors.pop("ngram.less", None)  # that is for the model's own search
        lm = PhoneLM.from_tensors(tensors, len(own.phones) + 1)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{folder}: the checkpoint is damaged ({reason})", "use another, or train again") from None
    check_lm_phones(folder, own, inventory)
    return NgramModel(lm, own, "the model's n-gram")


def with_language_models(
    recogniser: AnyDecoder,
    folder: Path,
    lms: Sequence[Path],
    weight: float | None,
    beam: int | None,
    reporter: Reporter,
) -> AnyDecoder:
    """Return a recogniser with the language models and settings of a command line.

    Parameters
    ----------
    recogniser : Decoder
    folder : Path
        The folder of its checkpoint, in which tuned settings are looked for.
    lms : sequence of Path
        See `with_lms`.
    weight : float, optional
        Weight of the language models, instead of the tuned one or the config's ``decode.lm_weight``.
    beam : int, optional
        Hypotheses to keep, instead of the config's; turns on the prefix search even without a language model.
    reporter : Reporter
        Receives the tuned settings that are used, and the phones that an n-gram has no probability for.

    Raises
    ------
    InputError
        A language model cannot be read or has other phones, or a number is out of range.
    """
    recogniser = with_lms(recogniser, lms, reporter)
    settings = lm_settings(folder, recogniser.checkpoint.lm, recogniser.lstm, weight, reporter.note)
    return recogniser.with_settings(settings + ([] if beam is None else [f"decode.beam={beam}", "decode.search=beam"]))


def with_lms(recogniser: AnyDecoder, lms: Sequence[Path], reporter: Reporter) -> AnyDecoder:
    """Return a recogniser with other language models: an n-gram replaces its own, an LSTM is added.

    Raises
    ------
    InputError
        A model cannot be read or has other phones, or two models are of one kind.
    """
    ngram: PhoneLM | None = None
    lstm: LanguageModel | None = None
    for path in lms:
        model = load_lm(path, recogniser.inventory, recogniser.device)
        if (ngram if isinstance(model, NgramModel) else lstm) is not None:
            raise InputError(f"{path}: a second language model of its kind", "name one n-gram and one LSTM at most")
        if isinstance(model, NgramModel):
            ngram = relative(model, recogniser.checkpoint)
            if model.missing:
                reporter.warn(f"{path}: has no probability for {len(model.missing)} phones: {first_few(model.missing)}")
        else:
            lstm = model
    if not lms:
        return recogniser
    checkpoint = replace(recogniser.checkpoint, lm=ngram or recogniser.checkpoint.lm)
    return recogniser.replaced(checkpoint=checkpoint, lstm=lstm)
