"""Tell whether a run is finished, so that a repeated sweep can skip it."""

from __future__ import annotations

from typing import Any

from safetensors import SafetensorError, safe_open

from speechctc.config.load import read_yaml
from speechctc.config.schema import Config
from speechctc.config.section import with_defaults
from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.features.shards import read_split
from speechctc.training.optimise import stages
from speechctc.training.run_state import Progress, fingerprint
from speechctc.training.runs import Run


def is_finished(config: Config) -> bool:
    """Return whether the run in the config's folder is finished.

    A finished run has the same config and features as now, has done its epochs or minutes, and has a calibrated
    ``best/``. A run with missing or unreadable files is not finished.
    """
    run = Run(config.run)
    try:
        stored = read_yaml(run.config)
        if _elsewhere(with_defaults(Config, stored)) != _elsewhere(config.to_dict()):
            return False
        with safe_open(run.last / "state.safetensors", framework="pt") as state:
            names = [name for name in state.keys() if name.startswith("progress.")]
            progress = Progress.of({name: state.get_tensor(name) for name in names})
        if progress.epoch < stages(config.train)[-1].end and not progress.is_out_of_time(config.train.minutes):
            return False
        if not run.calibration.is_file():
            return False
        data = files.read_json(run.record)["data"]
        features = config.features.model_dump(mode="json")
        return all(told == fingerprint(read_split(config.data.dir / split, features)) for split, told in data.items())
    except (OSError, LookupError, SafetensorError, InputError):
        return False
    except (ValueError, TypeError, AttributeError, RuntimeError, ArithmeticError):  # not of the form of a run's files
        return False


def _elsewhere(values: dict[str, Any]) -> dict[str, Any]:
    """Return a config without its folder, which can be written in several ways."""
    return {key: value for key, value in values.items() if key != "run"}
