"""What a new text of a standing query would deliver at once that the query has not had; nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.catalog.records import QueryDefinition, QueryRecord
from weft.execution.groups import Group, Member
from weft.execution.new_answers import new_answers
from weft.execution.reader import Reader
from weft.execution.relations import Relation
from weft.execution.spark_runner import one_question, too_many
from weft.location import Location
from weft.planning.plan import Plan
from weft.printable import Brief, counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, repr=False)
class Replacement(Brief):
    """What replacing the text of ``query`` would come to, were it ticked at ``until`` (µs UTC).

    ``new`` answers would be delivered at once.  Of the query's answers so far the new text gives ``known``, too, and
    ``only_old`` not: they stay delivered.  ``since`` is the instant from which the new text stands (None: the start).
    """

    query: QueryRecord
    new: int
    known: int
    since: int | None
    until: int

    @property
    def only_old(self) -> int:
        """How many of the query's answers the new text does not give."""
        return self.query.rows - self.known

    def _brief(self) -> str:
        kept = f"{self.known:,} known, {self.only_old:,} only of the text before"
        return f"{self.query.name}: {counted(self.new, 'new answer')}, {kept}"


def foreseen(
    spark: SparkSession,
    data: Location,
    tables: Mapping[str, Relation],
    old: QueryRecord,
    plan: Plan,
    given: QueryDefinition,
    until: int,
    t0: int | None,
) -> Replacement:
    """Runs the first tick of the new text at ``until``, and keeps nothing of it; ``t0`` is when time begins (or None).

    Raises LimitExceeded where it takes more than a query may in a tick, ExecutionError, StorageError.
    """
    query = replace(old, parameters=given.parameters, names=given.names)
    with one_question(spark, data, tables) as (reader, allowed):
        fresh = _answers(reader, plan, query, given.from_instant, until, t0, allowed.rows)
        if fresh > allowed.rows:
            raise too_many(fresh, allowed.rows)
        whole = fresh
        if old.rows:
            # Without answers so far nothing is left out: what there is more of, the query has had.
            anew = replace(query, next_ordinal=1)
            whole = _answers(reader, plan, anew, given.from_instant, until, t0, None)
    return Replacement(old, fresh, whole - fresh, given.from_instant, until)


def _answers(
    reader: Reader, plan: Plan, query: QueryRecord, since: int | None, until: int, t0: int | None, most: int | None
) -> int:
    """How many answers the plan gives that the ledger does not have of the query."""
    member = Member(query, since, until)
    group = Group(query.plan_id, plan.with_numbered_columns, (member,), until, t0)
    added = new_answers(reader, [group], most=most).added.get(query.query_id)
    return 0 if added is None else added.rows
