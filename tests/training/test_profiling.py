import json
from pathlib import Path

import pytest

from speechctc.config.load import load_config
from speechctc.training.step_costs import PARTS, profile
from tests.train_helpers import Recorder


def test_a_profile_says_where_the_time_goes_and_leaves_a_trace(extracted: Path, here: Path) -> None:
    times = profile(load_config(extracted, ["run=runs/r"]), 9, Recorder())
    assert times.steps == 9 and times.trace == Path("runs/r.trace.json")
    assert {path.name for path in (here / "runs").iterdir()} == {"r.trace.json"}
    parts = sum(times.seconds[part] for part in (*PARTS, "other"))
    assert parts == pytest.approx(times.seconds["wall"], rel=0.01)
    assert all(times.seconds[part] > 0 for part in ("forward", "loss", "backward", "optimiser"))
    text = times.to_text()
    assert all(part in text for part in (*PARTS, "other")) and "frames/s" in text
    events = json.loads(times.trace.read_text())["traceEvents"]
    assert {"forward", "backward", "optimiser"} <= {event.get("name") for event in events}
