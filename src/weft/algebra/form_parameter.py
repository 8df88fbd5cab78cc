"""The parameters of a text that people fill in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

ParameterType = Literal["string", "int", "decimal", "double", "boolean", "date", "timestamp", "interval"]
PARAMETER_TYPES: Final[tuple[ParameterType, ...]] = get_args(ParameterType)
EXAMPLES: Final[dict[ParameterType, str]] = {
    "string": "text",
    "int": "7",
    "decimal": "12.50",
    "double": "0.25",
    "boolean": "true",
    "date": "2026-03-01",
    "timestamp": "2026-03-01 12:00",
    "interval": "7d",
}
"""A value of each type."""


@dataclass(frozen=True)
class FormParameter:
    """A parameter of a text, with its default value as a text.  Without a default, a value must be given."""

    name: str
    type: ParameterType
    default: str | None = None

    @property
    def sample(self) -> str:
        """A value with which the text can be compiled."""
        return EXAMPLES.get(self.type, "") if self.default is None else self.default

    def __str__(self) -> str:
        return f"{self.name}:{self.type}" + ("" if self.default is None else f"={self.default}")
