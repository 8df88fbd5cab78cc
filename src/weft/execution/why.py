"""Name the causes of a stored answer by running the query's branches at the answer's first instant.

The derivation of the branches is in ``planning.witnesses``.  One statement of DuckDB, or one Spark job, runs all
branches.  Further statements run for each row of a state among the witnesses.  Nothing is stored.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from weft.algebra.relation import Scan, StateSchema
from weft.algebra.scalar import ColumnRef, Literal, Scalar
from weft.algebra.schema import DataType
from weft.catalog import CatalogParts
from weft.execution.groups import instant
from weft.execution.guarded import COLLECTED, guarded, in_memory
from weft.execution.reader import Reader
from weft.execution.relations import Relation
from weft.execution.spark_runner import Limits, ad_hoc, spark_faults
from weft.execution.states import StateReader
from weft.execution.temp_views import TempViews
from weft.execution.windows import slices_between
from weft.instants import format_instant
from weft.planning.plan import Branch, Plan
from weft.planning.witnesses import OWN, Cause, Role, WitnessSource, absent_words, causes, members
from weft.planning.words import meanings
from weft.printable import Brief, counted
from weft.storage.values import Value, decode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST: Final = 5
"""The most combinations of witnesses that one branch shows."""
MOST_MEMBERS: Final = 20
"""The most rows that are shown of a group."""
MOST_STATES: Final = 20
"""The most rows of states whose members are shown, because each takes a job of Spark."""


@dataclass(frozen=True, repr=False)
class Witness(Brief):
    """A row without which the answer would not have appeared.

    ``table`` is the name of its table, or None for the row of a state (an aggregate, a window function, a recursion),
    of constants or of an array.  ``alias`` is the range variable in the query's text.  ``members`` are the first rows
    of those from which the row of a state follows: its group, its partition, or the rows of a step of the recursion.
    ``count`` is the number of these combinations, or ``MOST_MEMBERS`` + 1 for more of large tables (None: unknown).
    ``is_hidden`` is true if the principal may not read the row.
    """

    role: Role
    table: str | None
    alias: str
    columns: tuple[tuple[str, DataType], ...]
    values: tuple[Value, ...]
    members: tuple[Witness, ...] = ()
    count: int | None = None
    is_hidden: bool = False

    @property
    def hidden(self) -> Witness:
        """The witness without its values, for somebody who may not read them."""
        return replace(self, columns=(), values=(), members=(), count=None, is_hidden=True)

    @property
    def more(self) -> bool:
        """Whether ``members`` has only the first of the rows."""
        return self.count is not None and self.count > MOST_MEMBERS

    def _brief(self) -> str:
        values = ", ".join(f"{name} {value!r}" for (name, _), value in zip(self.columns, self.values, strict=True))
        return f"{self.table or self.alias} ({values})"


@dataclass(frozen=True, repr=False)
class Combination(Brief):
    """A driver with the rows that it joined.

    ``why`` is the reason in words.  ``absent`` are the conditions that no row satisfied.
    """

    why: str
    witnesses: tuple[Witness, ...]
    absent: tuple[str, ...]

    def _brief(self) -> str:
        return self.why


@dataclass(frozen=True, repr=False)
class Why(Brief):
    """The causes of an answer at its first instant (µs UTC).

    Each of ``combinations`` is sufficient by itself.  If there is none, the tables have changed since the answer was
    found: rows were undone, corrected or removed, or arrived late.  ``more`` is true if the answer has further
    combinations.  ``hides`` is true if rows and absent conditions are left out, because the principal may not read a
    table.
    """

    query: str
    ordinal: int
    first_at: int
    tick: int
    columns: tuple[tuple[str, DataType], ...]
    values: tuple[Value, ...]
    combinations: tuple[Combination, ...]
    more: bool = False
    hides: bool = False

    def _brief(self) -> str:
        found = counted(len(self.combinations), "cause")
        return f"answer {self.ordinal} of {self.query} at {format_instant(self.first_at)}: {found}"


@dataclass(frozen=True)
class StoredAnswer:
    """A row of the ledger: its first instant (µs UTC), and the texts of its values."""

    first_at: int
    row: tuple[str | None, ...]


def combinations(
    session: Callable[[], SparkSession],
    catalog: CatalogParts,
    tables: Mapping[str, Relation],
    plan: Plan,
    answer: StoredAnswer,
    t0: int | None,
    *,
    allowed: Limits | None = None,
) -> tuple[tuple[Combination, ...], bool]:
    """Return the causes of an answer, and whether there are more.

    Raise ExecutionError if Spark cannot run the branches.  Raise StorageError if a table is damaged.
    """
    s = answer.first_at
    window: dict[str, Scalar] = {"tau": instant(s), "t": instant(s + 1), "t0": instant(s if t0 is None else t0)}
    found = causes(plan, window)
    known = meanings(plan.evaluated)

    def compute(reader: Reader, _: Limits) -> tuple[tuple[Combination, ...], bool]:
        with spark_faults() if reader.session is not None else nullcontext():
            return _combinations(found, answer, _Combined(StateReader(reader, by_files=True), s, known))

    return ad_hoc(session, catalog, tables, compute, allowed)


def _combinations(
    found: Sequence[Cause], answer: StoredAnswer, shown: _Combined
) -> tuple[tuple[Combination, ...], bool]:
    def parts(duckdb: bool) -> list[str]:
        return [each.sql(number, answer.row, duckdb=duckdb) for number, each in enumerate(found)]

    by_cause = dict[int, list[list[str | None]]]()
    for row in _rows(shown.states, [each.branch for each in found], parts, _WITNESSES, shown.s):
        by_cause.setdefault(row["part"], []).append(row["row"])
    listed = dict.fromkeys(
        shown.combination(found[number], texts)
        for number, several in sorted(by_cause.items())
        for texts in several[:MOST]
    )
    return tuple(listed), any(len(several) > MOST for several in by_cause.values())


_WITNESSES: Final = pa.schema([("part", pa.int64()), ("row", pa.list_(pa.string()))])
_MEMBERS: Final = _WITNESSES.append(pa.field(OWN, pa.bool_()))


def _rows(
    states: StateReader,
    branches: Sequence[Branch],
    parts: Callable[[bool], Sequence[str]],
    schema: pa.Schema,
    s: int,
    order: str = "",
) -> list[dict[str, Any]]:
    """Return the rows of the SELECTs ``parts`` over the branches at the instant ``s``, with the columns of ``schema``.

    ``parts`` gets true for the SQL of DuckDB, and false for that of Spark.  If a relation is large, return at most the
    first ``MOST_MEMBERS`` + 1 rows of each SELECT.
    """
    if not branches:
        return []
    views = states.views(branches, in_duckdb=True)
    paths = [path for branch in branches for path in branch.paths.values()]
    views.read(paths, slices_between(paths, s, s + 1))
    rows = None
    if states.alone:
        some = parts(True) if _is_small(views) else _limited(parts(True), order)
        rows = states.by_duckdb(_union(some), schema, views)
    if rows is None:
        rows = _by_spark(states.reader.spark, views, parts(False), order)
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def _by_spark(spark: SparkSession, views: TempViews, parts: Sequence[str], order: str) -> pa.Table:
    views.register()
    rows = in_memory(spark, spark.sql(guarded(_union(parts), COLLECTED))) if views.small else None
    if rows is not None:
        return rows
    return spark.sql(_union(_limited(parts, order))).toArrow()


def _is_small(views: TempViews) -> bool:
    most = views.reader.bounds.whole
    return views.in_memory and sum(rows.data.num_rows for rows in views.local.values()) <= most


def _limited(parts: Sequence[str], order: str) -> list[str]:
    return [f"SELECT * FROM ({part}) AS l{order} LIMIT {MOST_MEMBERS + 1}" for part in parts]


def _union(parts: Sequence[str]) -> str:
    return "\nUNION ALL\n".join(f"({part})" for part in parts)


@dataclass
class _Combined:
    states: StateReader
    s: int
    known: Mapping[ColumnRef, Scalar]
    below: dict[tuple[str, tuple[str | None, ...]], tuple[tuple[Witness, ...], int | None]] = field(
        default_factory=dict
    )
    """The members of the rows of states, and their numbers, by the names of the states and the texts of the rows."""

    def combination(self, cause: Cause, texts: Sequence[str | None]) -> Combination:
        """Return a cause with the stored texts of its witnesses."""
        literals = {ref: _literal(text, ref.type) for ref, text in zip(cause.refs, texts, strict=True)}
        witnesses, rest = list[Witness](), list(texts)
        for source in cause.sources:
            own, rest = rest[: len(source.refs)], rest[len(source.refs) :]
            witnesses.append(self._witness(source, own))
        sure = {ref: value for ref, value in literals.items() if value is not None}
        absent = tuple(absent_words(each, sure, self.known) for each in cause.absent)
        order = {"driver": 0, "joined": 1, "exists": 2}
        return Combination(cause.why, tuple(sorted(witnesses, key=lambda each: order[each.role])), absent)

    def _witness(self, source: WitnessSource, texts: Sequence[str | None]) -> Witness:
        kinds = [ref.type for ref in source.refs]
        scan, state = source.source, source.state
        table = scan.table.name if isinstance(scan, Scan) and state is None else None
        columns = tuple(zip(source.names, kinds, strict=True))
        witness = Witness(source.role, table, source.alias, columns, decode(texts, kinds))
        return witness if state is None else self._with_members(witness, source, texts)

    def _with_members(self, witness: Witness, source: WitnessSource, texts: Sequence[str | None]) -> Witness:
        state = source.state
        assert state is not None
        key = state.name, tuple(texts)
        if key not in self.below and len(self.below) < MOST_STATES:
            self.below[key] = (), None  # a row of a recursion can follow from itself
            self.below[key] = self._members(source, state, texts)
        found, number = self.below.get(key, ((), None))
        return replace(witness, members=found, count=number)

    def _members(
        self, source: WitnessSource, state: StateSchema, texts: Sequence[str | None]
    ) -> tuple[tuple[Witness, ...], int | None]:
        literals = {ref.column: _literal(text, ref.type) for ref, text in zip(source.refs, texts, strict=True)}
        known = {name: value for name, value in literals.items() if value is not None}
        parts = members(state, known, instant(self.s))
        if not parts:
            return (), None

        def selects(duckdb: bool) -> list[str]:
            return [part.sql(number, duckdb=duckdb) for number, part in enumerate(parts)]

        branches = [part.branch for part in parts]
        rows = _rows(self.states, branches, selects, _MEMBERS, self.s, f" ORDER BY {OWN} DESC")
        rows.sort(key=lambda row: not row[OWN])
        some = [each for row in rows[:MOST_MEMBERS] for each in self._member(parts[row["part"]].sources, row["row"])]
        return tuple(some), len(rows)

    def _member(self, read: Sequence[WitnessSource], texts: list[str | None]) -> tuple[Witness, ...]:
        found = []
        for source in read:
            own, texts = texts[: len(source.refs)], texts[len(source.refs) :]
            found.append(self._witness(source, own))
        return tuple(found)


def _literal(text: str | None, kind: DataType) -> Literal | None:
    """Return a stored text as a constant, or None if the type has no constants here."""
    value = decode([text], [kind])[0]
    if value is None:
        return Literal(None, kind)
    if isinstance(value, dt.timedelta):
        return Literal(value // dt.timedelta(microseconds=1), kind)
    if kind.name in ("TIMESTAMP", "DATE"):
        return Literal(int(text or 0), kind)
    if isinstance(value, (str, bool, int, float, bytes)) or kind.name == "DECIMAL":
        return Literal(value, kind)  # type: ignore[arg-type]
    return None
