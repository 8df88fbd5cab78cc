"""Query definitions for tests of the catalog, and a recorder of the SQL statements that the catalog executes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event

from weft.algebra.schema import BIGINT
from weft.catalog.records import QueryDefinition


def definition(name: str = "q", **changes: Any) -> QueryDefinition:
    """Return a query with one BIGINT column. ``changes`` replaces fields."""
    fields: dict[str, Any] = {
        "user": "ann",
        "sql": "SELECT a FROM t",
        "signature": "shape",
        "plan_body": "body",
        "parameters": (),
        "columns": (("n", BIGINT),),
    }
    return QueryDefinition(name=name, **(fields | changes))


@contextmanager
def statements() -> Iterator[list[str]]:
    """Yield a list that collects the SQL statements executed during the ``with`` block."""
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)
