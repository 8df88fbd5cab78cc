"""Definitions of queries, for tests that care for the catalog and not for SQL."""

from __future__ import annotations

from typing import Any

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
