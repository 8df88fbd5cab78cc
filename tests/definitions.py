"""Definitions of queries, for tests that care for the catalog and not for SQL, and the statements that it costs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event

from weft.algebra.schema import BIGINT
from weft.catalog.records import QueryDefinition


def definition(name: str = "q", **changes: Any) -> QueryDefinition:
    """A query with one BIGINT column; ``changes`` replace fields."""
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
    """The SQL that is executed meanwhile."""
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)
