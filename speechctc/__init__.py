"""Train phoneme recognisers from recordings and phone labels, and use them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch import Tensor

    from speechctc.config.schema import Config, CorpusConfig
    from speechctc.core.errors import InputError
    from speechctc.core.own_net import OwnNet
    from speechctc.core.plugins import Group
    from speechctc.core.progress import Reporter
    from speechctc.corpora.corpus import Corpus
    from speechctc.features.extractor import FeatureExtractor
    from speechctc.inference.recogniser import Recogniser
    from speechctc.stages.evaluate import Evaluation
    from speechctc.stages.extract import SplitSummary
    from speechctc.stages.train import Trained
    from speechctc.training.records import BeginningRecord, EpochRecord, OnBeginning, OnEpoch, OnStep, StepRecord

__all__ = [
    "BeginningRecord",
    "EpochRecord",
    "InputError",
    "OwnNet",
    "StepRecord",
    "__version__",
    "evaluate",
    "extract",
    "load",
    "register_augmentation",
    "register_corpus",
    "register_features",
    "register_model",
    "register_optimizer",
    "register_schedule",
    "train",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Return a class, whose module is loaded when it is asked for: the loss alone needs nothing of the package."""
    if name == "InputError":
        from speechctc.core.errors import InputError

        return InputError
    if name == "OwnNet":
        from speechctc.core.own_net import OwnNet

        return OwnNet
    if name in ("BeginningRecord", "EpochRecord", "StepRecord"):
        import speechctc.training.records as records

        return getattr(records, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load(model: str | Path | None = None, device: str | torch.device = "auto") -> Recogniser:
    """Load a trained model to decode and align with.

    Parameters
    ----------
    model : str or Path, optional
        The folder of a run (its best checkpoint is used) or of a checkpoint; ``"english"`` or
        ``"ipa"``: a bundled model, unless a folder of that name in the working directory has a model, of which a
        warning tells. Default: the latest run in the working directory, or else ``"english"``.
    device : str or torch.device
        ``"auto"`` (a GPU where there is one), ``"cpu"``, ``"cuda"``, or a GPU by its number: ``"cuda:1"``.

    Returns
    -------
    Recogniser
        Its methods `decode` and `align` take files or samples, `logits` takes samples.

    Raises
    ------
    InputError
        There is no such model or device, or the model is damaged.

    Examples
    --------
    >>> import numpy as np
    >>> import speechctc
    >>> model = speechctc.load("english", "cpu")
    >>> len(model.phones), model.phones[:3]
    (39, ('aa', 'ae', 'ah'))
    >>> model.decode(np.zeros(16000), 16000)
    <Recognition of 'samples', 1.00 s, 0 phones: >
    """
    from speechctc.core.bundled import bundled_folder
    from speechctc.inference.recogniser import Recogniser  # late: it loads numpy
    from speechctc.model.checkpoint import find_checkpoint
    from speechctc.stages.open_model import ModelChoice, open_model

    model = _place(model)
    bundled = bundled_folder(model)
    if bundled is not None and (own := find_checkpoint(Path(bundled.name))) != bundled:
        warnings.warn(f"{model!s}: the model in the folder {own.resolve()}, not the bundled one", stacklevel=2)
    return open_model(model, Recogniser, ModelChoice(str(device)))


def extract(
    config: str | Path | Config | Mapping[str, Any],
    settings: str | Sequence[str] = (),
    reporter: Reporter | None = None,
    prune: bool = False,
) -> list[SplitSummary]:
    """Compute the features of a corpus that are not there yet, as ``speechctc extract`` does.

    Several processes work on it, and they import the script that calls this: it does so under
    ``if __name__ == "__main__":``.

    Parameters
    ----------
    config : str, Path, Config or mapping
        A YAML file, or the name of a config of the package (``"demo"``); or what such a file has, as plain values:
        ``{"base": "demo", "run": "runs/mine"}``.
    settings : str or sequence of str
        Replace keys of the config: ``["corpus.root=recordings"]``; a text is a single one.
    reporter : Reporter, optional
        Receives notes, warnings and progress; by default they go to standard error.
    prune : bool
        Remove the features there that neither this corpus nor these settings use.

    Returns
    -------
    list of SplitSummary
        What was extracted from each split, and what was skipped and why. The features are in ``data.dir``.

    Raises
    ------
    InputError
        As the command says: no such config or corpus, nothing in it can be used, features of an earlier layout.
    """
    _begin()
    from speechctc.stages.extract import extract as run

    _check_bool("prune", prune)
    return run(_config(config, settings), _reporter(reporter), prune)


def train(
    config: str | Path | Config | Mapping[str, Any],
    settings: str | Sequence[str] = (),
    resume: bool = False,
    reporter: Reporter | None = None,
    on_epoch: OnEpoch | None = None,
    on_step: OnStep | None = None,
    on_beginning: OnBeginning | None = None,
) -> Trained:
    """Train a net on extracted features and calibrate it, as ``speechctc train`` does.

    Parameters
    ----------
    config, settings, reporter
        As for `extract`.
    resume : bool
        Go on with the run, if there is one.
    on_epoch : callable, optional
        Called with each epoch's `EpochRecord`, when its state is saved. If it returns True, training ends there;
        `resume` goes on. What it raises ends the training, too, and is raised. Of several processes the first calls it.
    on_step : callable, optional
        As `on_epoch`, after each step of the optimiser, with its `StepRecord`; an epoch that it ends is scored on dev.
        On a GPU every step then waits for its loss.
    on_beginning : callable, optional
        As `on_epoch`, before the first step, with the `BeginningRecord` of the model that ``train.init_from`` names.
        A training that begins with random weights, or goes on, does not call it.

    Returns
    -------
    Trained
        Its `run` is the folder of the run, for `load`; its `dev` is the score of the last epoch, not of the best one,
        whose weights `load` takes: ``evaluate(run, "dev")`` scores these.

    Raises
    ------
    InputError
        As the command says: there are no features, the run's folder is in use, the loss became NaN; or no folder is
        named for the run.
    speechctc.stages.train.Stopped
        Ctrl-C or SIGTERM came, in the main thread; the state is saved, and `resume` goes on.
    """
    _begin()
    from speechctc.config.schema import NO_RUN
    from speechctc.core.errors import InputError
    from speechctc.stages.calibrate import calibrate_run
    from speechctc.stages.train import train as run
    from speechctc.training.records import Callbacks

    _check_bool("resume", resume)
    whole = _config(config, settings)
    if whole.run == NO_RUN:
        raise InputError("the config names no folder for the run", 'set run, for example ["run=runs/mine"]')
    reporter = _reporter(reporter)
    trained = run(whole, resume, reporter, Callbacks(on_step, on_epoch, on_beginning))
    if trained.is_main:
        calibrate_run(trained.run, reporter)
    return trained


def evaluate(
    model: str | Path | Recogniser | None = None,
    split: str = "test",
    settings: str | Sequence[str] = (),
    reporter: Reporter | None = None,
) -> Evaluation:
    """Score a model on a split of its corpus, as ``speechctc evaluate`` does.

    Parameters
    ----------
    model : str, Path or Recogniser, optional
        A run's folder or a checkpoint's, or what `load` returned. Default: the latest run in the working directory.
    split : {"train", "dev", "test"}
    settings : str or sequence of str
        Replace keys of the model's config: ``["corpus.kind=textgrid", "corpus.root=unseen"]`` scores another corpus.
    reporter : Reporter, optional
        As for `extract`.

    Returns
    -------
    Evaluation
        ``counts.per`` is the phone error rate in per cent; not a number where no phones are labelled.

    Raises
    ------
    InputError
        As the command says: there is no such model or split, or no utterance of it can be scored.
    """
    reporter = _reporter(reporter)
    from speechctc.inference.recogniser import Recogniser
    from speechctc.stages.evaluate import evaluate as run
    from speechctc.stages.open_model import ModelChoice, open_model

    if not isinstance(model, Recogniser):
        model = open_model(_place(model), Recogniser, ModelChoice(or_bundled=False))
    return run(model, split, _settings(settings), reporter)


def register_features(name: str, kind: type[FeatureExtractor]) -> None:
    """Add a kind of features under the name that ``features.kind`` has for it.

    A script calls this where it is imported, not under ``if __name__ == "__main__":``, so that the processes that
    extract have it too. An installed package names it as an entry point of the group ``speechctc.features`` instead,
    and then the command line has it.

    Parameters
    ----------
    name : str
    kind : type
        A subclass of `speechctc.features.extractor.FeatureExtractor` with the methods ``dims`` and ``static``. The
        keys of ``features.options`` are its own.

    Raises
    ------
    InputError
        The package itself, or a class that is defined elsewhere, has that name.
    """
    _register("features", name, kind)


def register_corpus(name: str, reader: Callable[[CorpusConfig, str], Corpus]) -> None:
    """Add a reader of corpora under the name that ``corpus.kind`` has for it; see `register_features`.

    Parameters
    ----------
    name : str
    reader : callable
        Maps the section ``corpus`` of a config, and the split without which there is no corpus, to the corpus;
        `speechctc.corpora.corpus_builder.CorpusBuilder` makes one. The keys of ``corpus.options`` are its own. Entry
        points: ``speechctc.corpus``.
    """
    _register("corpus", name, reader)


def register_augmentation(name: str, change: Callable[..., Tensor]) -> None:
    """Add an augmentation of training utterances under its name in ``augment.own``; see `register_features`.

    Parameters
    ----------
    name : str
    change : callable
        Called as ``change(static, frames, features, **settings)`` with the static features of a batch, (n_batch,
        max_frames, static_dims), the number of frames of each utterance, the section ``features``, and what the config
        has under the name; returns features of the same shape. Random numbers from torch's default generator are the
        same when a run is resumed. Entry points: ``speechctc.augmentation``.
    """
    _register("augmentation", name, change)


def register_model(name: str, build: Callable[..., OwnNet]) -> None:
    """Add a net of one's own under the name that ``model.kind`` has for it; see `register_features`.

    It is trained, resumed, exported and decoded as the package's own. torch computes it, on a CPU too.

    Parameters
    ----------
    name : str
    build : callable
        Called as ``build(inputs, classes, **options)`` with the values of a frame, the number of phones and the blank,
        and what the config has in ``model.options``; returns an `OwnNet`: the module, its stride, and what it sees.
        Entry points: ``speechctc.model``.

    Examples
    --------
    >>> import speechctc, torch
    >>> def build(inputs, classes, width=64):
    ...     layers = torch.nn.Linear(inputs, width), torch.nn.ReLU(), torch.nn.Linear(width, classes)
    ...     return speechctc.OwnNet(torch.nn.Sequential(*layers), stride=1, sees=(0, 0))
    >>> speechctc.register_model("two-layers", build)
    """
    _register("model", name, build)


def register_optimizer(name: str, make: Callable[..., torch.optim.Optimizer]) -> None:
    """Add an optimiser under the name that ``train.optimizer`` has for it; see `register_features`.

    Those of ``torch.optim`` need no call: their classes' names are known.

    Parameters
    ----------
    name : str
    make : callable
        A subclass of `torch.optim.Optimizer`, or a function, called as ``make(groups, lr=lr, **options)``: groups of
        parameters as torch has them, the highest rate, and ``train.optimizer_options``. A rate that it gives a group is
        kept as a multiple of the training's. Its state may have tensors and numbers. Entry points:
        ``speechctc.optimizer``.
    """
    _register("optimizer", name, make)


def register_schedule(name: str, factor: Callable[..., float]) -> None:
    """Add a schedule of the learning rate under the name that ``train.schedule`` has for it; see `register_features`.

    Those of ``torch.optim.lr_scheduler`` need no call: their classes' names are known.

    Parameters
    ----------
    name : str
    factor : callable
        Called as ``factor(step, done, **options)`` with the steps and the share of the stage that are done, and
        ``train.schedule_options``; returns a multiple of ``train.lr``. Entry points: ``speechctc.schedule``.
    """
    _register("schedule", name, factor)


def _register(group: Group, name: str, made: Any) -> None:
    import speechctc.core.plugins as plugins
    from speechctc.config.schema import KEYS_OF_KIND, KINDS, AugmentConfig
    from speechctc.core.own_net import OWN

    taken = {
        "features": KINDS,
        "corpus": KEYS_OF_KIND,
        "augmentation": AugmentConfig.model_fields,
        "model": OWN,
        "optimizer": plugins.OPTIMIZERS,
        "schedule": plugins.SCHEDULES,
    }
    plugins.register(group, name, made, taken[group])


def _begin() -> None:
    """Refuse work without torch, and that of a script which a worker process only imports."""
    from speechctc.core.errors import check_torch
    from speechctc.core.processes import end_if_imported_by_worker

    end_if_imported_by_worker()
    check_torch()


def _config(config: str | Path | Config | Mapping[str, Any], settings: str | Sequence[str]) -> Config:
    from speechctc.config.load import config_of, load_config, override, parse_config
    from speechctc.config.schema import Config
    from speechctc.core.errors import InputError

    settings = _settings(settings)
    if isinstance(config, (str, Path)):
        return load_config(config, settings)
    if isinstance(config, Config):
        return parse_config(override(config.to_dict(), settings), "the config", settings) if settings else config
    if isinstance(config, Mapping):
        return config_of(config, settings)
    raise InputError(
        f"{config!r:.60} is no config", "give a YAML file, the name of a config, or a dict of its sections"
    )


def _settings(settings: str | Sequence[str]) -> list[str]:
    from speechctc.core.errors import InputError

    if isinstance(settings, str):
        return [settings]
    try:
        return [*settings]
    except TypeError:
        raise InputError(f"settings={settings!r:.60}", 'give texts such as ["train.epochs=3"]') from None


def _reporter(reporter: Reporter | None) -> Reporter:
    from speechctc.core.errors import InputError
    from speechctc.core.progress import LogReporter, Reporter

    if reporter is not None and not isinstance(reporter, Reporter):
        raise InputError(f"reporter={reporter!r:.60}", "give a speechctc.core.progress.Reporter, or None")
    return reporter or LogReporter()


def _check_bool(name: str, value: object) -> None:
    from speechctc.core.errors import InputError

    if not isinstance(value, bool):
        raise InputError(f"{name}={value!r:.60}", "give True or False")


def _place(model: object) -> str | Path | None:
    from speechctc.core.errors import InputError

    if model is None or isinstance(model, (str, Path)):
        return model
    raise InputError(f"{model!r:.60} is no model", "name the folder of a run or a checkpoint, or a bundled model")
