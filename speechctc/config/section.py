"""The base class of all sections of the config."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A section of the config: immutable, and keys that it does not name are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)
