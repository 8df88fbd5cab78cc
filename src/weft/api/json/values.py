"""Instants and columns as values for JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from weft.instants import format_rfc3339

if TYPE_CHECKING:
    from weft.algebra.schema import DataType

Fields: TypeAlias = "dict[str, object]"
"""A JSON object."""


def iso(micros: int | None) -> str | None:
    """Format an instant (microseconds UTC) as RFC 3339.

    >>> iso(733968000500000), iso(None)
    ('1993-04-05T00:00:00.500000Z', None)
    """
    return None if micros is None else format_rfc3339(micros)


def columns_json(columns: Iterable[tuple[str, DataType]]) -> list[Fields]:
    """Return the names and the types of columns."""
    return [{"name": name, "type": kind.declared} for name, kind in columns]
