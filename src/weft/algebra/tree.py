"""Read and replace the parts of a node, given the names of the fields that contain the parts.

A field contains a part, None, or a tuple of such values.  ``ITEMS`` lists the classes of values that are not parts but
contain parts, with the names of their fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

ITEMS: Final[dict[type, tuple[str, ...]]] = {}


def parts_in(node: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the parts in the fields ``names`` of a node, in order."""
    parts: list[Any] = []
    for name in names:
        _add_parts(getattr(node, name), parts)
    return tuple(parts)


def _add_parts(value: Any, parts: list[Any]) -> None:
    if isinstance(value, tuple):
        for each in value:
            _add_parts(each, parts)
    elif (names := ITEMS.get(type(value))) is not None:
        for name in names:
            _add_parts(getattr(value, name), parts)
    elif value is not None:
        parts.append(value)


def with_parts_in(node: Any, names: tuple[str, ...], parts: Iterator[Any]) -> Any:
    """Return a copy of a node with the next items of ``parts`` as its parts, in the order of ``parts_in``."""
    return replace(node, **{name: _filled(getattr(node, name), parts) for name in names}) if names else node


def _filled(value: Any, parts: Iterator[Any]) -> Any:
    if isinstance(value, tuple):
        return tuple([_filled(each, parts) for each in value])
    names = ITEMS.get(type(value))
    if names is not None:
        return with_parts_in(value, names, parts)
    return None if value is None else next(parts)
