"""The JSON Schema that editors use says what the loader says."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

CONFIGS = Path(__file__).parent.parent.parent / "configs"
SCHEMA = json.loads((CONFIGS / "schema.json").read_text(encoding="utf-8"))
Validator = jsonschema.validators.validator_for(SCHEMA)


def test_the_schema_is_one() -> None:
    Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_our_configs_are_valid(path: Path) -> None:
    Validator(SCHEMA).validate(yaml.safe_load(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("text", ["train: {lr: -1}", "train: {learning: 1}", "model: {activation: tanh}", "trains: {}"])
def test_faults_are_seen(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        Validator(SCHEMA).validate(yaml.safe_load(text))
