"""Preview the answers that a new text of a standing query would deliver at once. Nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.catalog import CatalogParts
from weft.catalog.records import QueryDefinition, QueryRecord
from weft.execution.groups import Group, Member
from weft.execution.new_answers import new_answers
from weft.execution.reader import Reader
from weft.execution.relations import Relation
from weft.execution.spark_runner import Limits, ad_hoc, too_many
from weft.planning.plan import Plan
from weft.printable import Brief, counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, repr=False)
class Replacement(Brief):
    """The effect of replacing the text of ``query`` if the next tick were at ``until`` (µs UTC).

    ``new`` is the number of answers that the new text would deliver at once. ``known`` is the number of present answers
    that the new text also yields. ``only_old`` is the number of present answers that only the old text yields. These
    answers remain delivered. The new text applies from ``since`` on, or from the start of time if ``since`` is None.
    """

    query: QueryRecord
    new: int
    known: int
    since: int | None
    until: int

    @property
    def only_old(self) -> int:
        """The number of present answers that the new text does not yield."""
        return self.query.rows - self.known

    def _brief(self) -> str:
        text = f"{self.known:,} known, {self.only_old:,} only from the old text"
        return f"{self.query.name}: {counted(self.new, 'new answer')}, {text}"


def preview_replacement(
    session: Callable[[], SparkSession],
    catalog: CatalogParts,
    tables: Mapping[str, Relation],
    old: QueryRecord,
    plan: Plan,
    definition: QueryDefinition,
    until: int,
    t0: int | None,
    *,
    allowed: Limits | None = None,
) -> Replacement:
    """Run the first tick of the new text at ``until`` without storing anything, and return the effect.

    ``t0`` is the start of time, or None. Raise LimitExceeded if the new text exceeds the limits of a query in a tick.
    Raise ExecutionError or StorageError.
    """
    query = replace(old, parameters=definition.parameters, names=definition.names)

    def compute(reader: Reader, within: Limits) -> Replacement:
        new = _answers(reader, plan, query, definition.from_instant, until, t0, within.rows)
        if new > within.rows:
            raise too_many(new, within.rows)
        total = new
        if old.rows:
            # The count for a query without answers includes known answers.
            without_answers = replace(query, next_ordinal=1)
            total = _answers(reader, plan, without_answers, definition.from_instant, until, t0, None)
        return Replacement(old, new, total - new, definition.from_instant, until)

    return ad_hoc(session, catalog, tables, compute, allowed)


def _answers(
    reader: Reader, plan: Plan, query: QueryRecord, since: int | None, until: int, t0: int | None, most: int | None
) -> int:
    member = Member(query, since, until)
    group = Group(query.plan_id, plan.with_numbered_columns, (member,), until, t0)
    added = new_answers(reader, [group], most=most, by_duckdb=True).added.get(query.query_id)
    return 0 if added is None else added.rows
