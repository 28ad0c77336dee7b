"""The base class of all sections of the config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import to_jsonable_python

TYPED = "typed"
"""Validation context of what a user wrote: it names no corpus or augmentation that is unknown here, as a model may."""


def _in_order(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] > value[1]:
        raise ValueError("the first must not exceed the second")
    return value


IN_ORDER = AfterValidator(_in_order)
"""Of a pair of which the second is not smaller than the first."""


def _odd(value: int) -> int:
    if value % 2 == 0:
        raise ValueError("must be odd")
    return value


ODD = AfterValidator(_odd)


class Section(BaseModel):
    """A section of the config: immutable, and keys that it does not name are refused.

    Each key has a description, in its line or below it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse what pydantic would take: true and false as the numbers 1 and 0, and texts that no path can be."""
        kind = cls.model_fields[info.field_name or ""].annotation
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(each, bool) and kind is not bool and bool not in get_args(kind):
                raise ValueError(f"{str(each).lower()} is not a value of it")
            if isinstance(each, str) and "\0" in each:
                raise ValueError("it has a NUL character")
        return value


def with_defaults(section: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored plain values of a section, with the defaults of the keys that they lack.

    A stored config without a key is thereby equal to one that has the key's default. Values that are not those of a
    section stay as they are.
    """
    filled = dict(values)
    for name, field in section.model_fields.items():
        kind, value = field.annotation, values.get(name, {})
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            filled[name] = with_defaults(kind, value) if isinstance(value, Mapping) else value
        elif name not in values and not field.is_required():
            filled[name] = to_jsonable_python(field.get_default(call_default_factory=True))
    return filled
