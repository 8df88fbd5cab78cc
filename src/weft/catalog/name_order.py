"""Choose a part of a list of objects in the order of their names, without regard to case."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Select, bindparam, literal, or_

from weft.catalog.dialects import without_case
from weft.catalog.naming import folded


def by_name(
    wanted: Select[Any],
    name: ColumnElement[str],
    *,
    text: str | None = None,
    also_in: Sequence[ColumnElement[str]] = (),
    after: str | None = None,
    limit: int | None = None,
) -> Select[Any]:
    """Return the statement for at most ``limit`` rows of ``wanted``, ordered by ``name``, a column of folded names.

    The names come after the name ``after``.  They contain ``text`` in any case, or a column of ``also_in`` does.
    """
    if text:
        others = (in_any_case(each, text) for each in also_in)
        wanted = wanted.where(or_(name.contains(folded(text), autoescape=True), *others))
    if after is not None:
        wanted = wanted.where(name > folded(after))
    return wanted.order_by(name).limit(limit)


def in_any_case(column: ColumnElement[str], text: str) -> ColumnElement[bool]:
    """Return the condition that a column contains a text in any case.

    In SQLite, ``without_case`` calls Python.  A search for ASCII letters does not need it, because LIKE ignores their
    case.
    """
    if text.isascii():
        return column.icontains(text, autoescape=True)
    escaped = re.sub(r"[%_/]", r"/\g<0>", text)
    return without_case(column).like(without_case(literal(f"%{escaped}%")), escape="/")


def is_one_of(column: ColumnElement[int], ids: Collection[int]) -> ColumnElement[bool]:
    """Return the condition that a column has one of the IDs.  A database's limit of parameters does not apply."""
    listed: BindParameter[Any] = bindparam("ids", sorted(ids), expanding=True, literal_execute=True, unique=True)
    return column.in_(listed)
