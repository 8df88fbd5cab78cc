"""The operations of the HTTP API, one module for each area."""

from __future__ import annotations

from itertools import chain
from typing import Final

from weft.web.api_v1.operation import Operation
from weft.web.api_v1.operations import accounts, asking, homes, jobs, queries, saved, sources, tables, views

OPERATIONS: Final[tuple[Operation, ...]] = tuple(
    chain.from_iterable(
        area.OPERATIONS for area in (queries, saved, asking, tables, views, sources, homes, accounts, jobs)
    )
)
"""All operations, in the order of the reference."""
