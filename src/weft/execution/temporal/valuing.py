"""Compute the values of a refresh's expressions, each as a table of an engine.

A batch changes little, and many values are therefore empty. If the inputs of an operator show that the value is empty,
no statement runs. Common subexpressions are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from weft.algebra.relation import Grouped, Project, Scan, Select, Union, Values
from weft.algebra.scalar import ColumnRef, Scalar
from weft.algebra.schema import VALID_FROM, VALID_TO
from weft.algebra.temporal import (
    Deleted,
    Difference,
    Fragment,
    Inserted,
    Selection,
    Semijoin,
    Temporal,
    attributes,
    inputs,
)
from weft.catalog.records import TableRecord
from weft.derivation.temporal.delta import changed_table
from weft.derivation.temporal.refresh_terms import Within, windows
from weft.errors import DerivationError
from weft.execution.engines.engine import Engine
from weft.execution.temporal.logs import Logs
from weft.execution.temporal.states import Among, LoggedTable
from weft.period_sql.notation import VALID_TIME, listed
from weft.sql.rendering import render
from weft.sql.rendering.render_temporal import Chain, Evaluation, Leaf
from weft.storage.slices import Slice

Value: TypeAlias = "str | None"
"""The name of a table ``c1 … cn, valid_from, valid_to``, or None for a value without rows."""
On: TypeAlias = "tuple[tuple[ColumnRef, ColumnRef], ...]"


@dataclass
class RefreshValues:
    """Evaluates expressions at ``asked.now`` over the periods that were known at the instant ``known`` (µs UTC).

    ``changes`` maps (kind of change, table ID) to the deletions ∇R or the insertions ΔR of the table R.
    """

    engine: Engine
    logs: Logs
    tables: Mapping[int, TableRecord]
    changes: Mapping[tuple[str, int], Value]
    asked: Evaluation
    known: int
    values: dict[Temporal, Value] = field(default_factory=dict)
    texts: dict[object, Value] = field(default_factory=dict)
    """Maps SQL texts and keys to the tables that they define. Expressions with the same SQL text share a table."""
    empty: dict[str, str] = field(default_factory=dict)
    """Maps SQL texts to empty tables."""
    instants: dict[Scalar, int] = field(default_factory=dict)
    """Maps scalars over NOW and parameters to instants (µs UTC)."""
    paired: int = 0
    """The number of completed steps on pairs of tuples (``Chain.paired``)."""
    passed: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    """Maps the ID of the view's own table to the parts of its delta for the passing of time, with their signs."""

    def __post_init__(self) -> None:
        self.chain = Chain(_no_leaf, self.asked, "paired", self.engine.dialect)

    def of(self, relation: Temporal) -> Value:
        """Return the name of the table with a relation's value, or None if the value is empty."""
        if relation not in self.values:
            self.values[relation] = self._evaluated(relation)
        return self.values[relation]

    def refreshed(self, own: int, delta: tuple[Value, Value]) -> None:
        """From now on read the table ``own`` after the delta ∇, Δ of a refresh."""
        self.passed[own] = [(name, sign) for name, sign in zip(delta, (-1, 1), strict=True) if name is not None]
        if self.passed[own]:
            self.values.clear()  # ``texts`` still has the tables of the values that stay as they are

    def table_of(self, relation: Temporal) -> str:
        """Return the name of the table with a relation's value. The table may be empty."""
        return self.of(relation) or self._empty(relation)

    def drop_all_but(self, relation: Temporal) -> None:
        """Drop the tables of all other values, because tables over a whole history are large."""
        for name in {name for name in self.texts.values() if name is not None} - {self.values[relation]}:
            self.engine.drop(name)
        self.texts.clear()
        self.values = {relation: self.values[relation]}

    def _evaluated(self, relation: Temporal) -> Value:
        match relation:
            case Scan() | Union() if (recorded := self._recorded(relation)) is not None:
                base, known = recorded
                log = self._log(base)
                key = ("base", base.table.id, tuple(log.names), known, base.table.id in self.passed)
                return self._table(key, lambda: self._after(base, self.logs.whole(log).known(known), None))
            case Deleted(base=base):
                return self.changes["deleted", base.table.id]
            case Inserted(base=base):
                return self.changes["inserted", base.table.id]
            case Semijoin(left=left, on=on) if on and (recorded := self._recorded(left)) is not None:
                return self._looked_up(recorded, relation, None)
            case Fragment(input=Semijoin(left=left, on=on) as some, since=since) if (
                on and (recorded := self._recorded(left)) is not None
            ):
                return self._looked_up(recorded, some, since)
            case Select(input=Scan() as base, predicate=predicate) if (near := windows(predicate)) is not None:
                return self._within(base, relation, near)
            case Difference(left=left, right=right):
                return self._difference(relation, left, right)
            case Union():
                return self._union(relation)
            case Project():
                return self._merged(relation) if self.of(relation.input) else None
            case Semijoin(left=left, right=right):
                return self._computed(relation) if self.of(right) and self.of(left) else None
            case Values() | Grouped(groups=()):
                return self._computed(relation)
            case _:
                return self._computed(relation) if all(map(self.of, _cheapest_first(relation))) else None

    def _recorded(self, relation: Temporal) -> tuple[Scan, int] | None:
        """Return a base relation and the instant (µs UTC) up to which its log has the state, or None.

        The log up to t is the state after the change.
        """
        if isinstance(relation, Scan):
            return relation, self.known
        base = changed_table(relation)
        return None if base is None else (base, self.asked.now)

    def _difference(self, relation: Temporal, left: Temporal, right: Temporal) -> Value:
        first = self.of(left)
        return first if first is None or self.of(right) is None else self._computed(relation)

    def _union(self, relation: Union[Temporal]) -> Value:
        found = [part for part in inputs(relation) if self.of(part) is not None]
        types = [[ref.type for ref in attributes(part)] for part in (relation, *found)]
        if len(found) > 1 or types[0] != types[-1]:
            return self._merged(relation)
        return self.of(found[0]) if found else None

    def _merged(self, relation: Project[Temporal] | Union[Temporal]) -> Value:
        """Compute π or ∪.  Periods are merged only if a row has several, which few rows of a change have."""
        tables = [self._read(part) for part in inputs(relation)]
        rows, merging = self.chain.periods(relation)
        self.chain.reads.clear()
        width, sizes = len(attributes(relation)), [self.engine.size(each) for each in tables]
        sweep = self.chain.sweep
        if not merging or rows in self.texts:
            return self._table(rows, lambda: rows)
        if width and None not in sizes:
            once = self._table(rows, lambda: sweep.once(rows, width))
            if once is None or self.engine.size(once) == sum(size or 0 for size in sizes):
                return once
            del self.texts[rows]
        return self._table(rows, lambda: sweep.coalesced(rows, width))

    def _read(self, part: Temporal) -> str:
        self.chain.known[part] = self.table_of(part)
        return self.chain.known[part]

    def _computed(self, relation: Temporal) -> Value:
        for part in inputs(relation):
            self._read(part)
        sql = self.chain.query(relation)
        self.chain.reads.clear()
        for step in self.chain.steps[self.paired :]:
            self.engine.table(step.name, step.sql)
        self.paired = len(self.chain.steps)
        return self._table(sql, lambda: sql)

    def _table(self, key: object, text: Callable[[], str]) -> Value:
        if key not in self.texts:
            name = f"value_{len(self.texts) + 1}"
            self.texts[key] = name if self.engine.table(name, text()) else None
        return self.texts[key]

    def _empty(self, relation: Temporal) -> str:
        types = (render.spelled(ref.type) for ref in attributes(relation))
        heads = [f"CAST(NULL AS {type}) AS c{number}" for number, type in enumerate(types, 1)]
        bounds = (f"CAST(NULL AS TIMESTAMP) AS {name}" for name in ("valid_from", "valid_to"))
        sql = f"SELECT {listed(heads, bounds)} LIMIT 0"
        if sql not in self.empty:
            self.empty[sql] = f"nothing_{len(self.empty)}"
            self.engine.table(self.empty[sql], sql)
        return self.empty[sql]

    def _looked_up(self, recorded: tuple[Scan, int], semijoin: Semijoin, since: Scalar | None) -> Value:
        """The parts of periods before the instant ``since`` are cut off."""
        (base, known), keys, on = recorded, semijoin.right, semijoin.on
        while isinstance(keys, Project) and keys not in self.values and (below := _below(keys, on)) is not None:
            keys, on = keys.input, below  # only the rows of the keys matter, not their periods
        key_table = self.of(keys)
        if key_table is None:
            return None
        places = {ref: f"c{number}" for number, ref in enumerate(attributes(keys), 1)}
        among = Among(key_table, tuple((own.column, places[other]) for own, other in on))
        log = self._log(base)
        first = None if since is None else self.instant(since)
        if first is not None and first > self.asked.now:
            return None
        key = ("some", base.table.id, tuple(log.names), known, among, first, base.table.id in self.passed)
        if first is None:
            return self._table(key, lambda: self._after(base, self.logs.near(log, among).known(known, among), among))
        return self._table(
            key,
            lambda: self._after(base, self.logs.since(log, among, first).known(known, among, first), among),
        )

    def _after(self, base: Scan, known: str, among: Among | None) -> str:
        """Return SQL for the periods ``known`` of a table, after a refresh if the table is the view's own.

        The result may lack rows that do not match ``among``, and may have rows before the periods of ``known``.
        """
        parts = self.passed.get(base.table.id)
        if not parts:
            return known
        width = len(attributes(base))
        places = {ref.column: f"c{number}" for number, ref in enumerate(attributes(base), 1)}
        pairs = () if among is None else tuple((places[own], other) for own, other in among.pairs)
        some = "" if among is None else f" WHERE {replace(among, pairs=pairs).condition}"
        signed = [(f"(SELECT * FROM {name} AS r{some})", sign) for name, sign in parts]
        rows = listed(VALID_TIME.columns(width), VALID_TIME.period)
        return f"SELECT {rows} FROM ({self.chain.sweep.summed([(f'({known})', 1), *signed], width)}) AS after_refresh"

    def _within(self, base: Scan, chosen: Selection, near: tuple[Within, ...]) -> Value:
        """Read from the log the tuples of a table whose period starts or ends in one of the windows."""
        among = [self._bounds(each) for each in near]
        if None in among:
            return self._computed(chosen) if self.of(base) else None
        log, slices = self._log(base), tuple(each for each in among if each is not None)
        key = (base.table.id, tuple(log.names), slices)
        rows = self._table(("rows", *key), lambda: self.logs.within(log, slices))
        if rows is None:
            return None
        known = log.all_of(rows)
        periods = self._table(("whole", *key), lambda: self.logs.near(log, known).known(self.known, known))
        if periods is None:
            return None
        self.chain.known[base] = periods
        sql = self.chain.query(chosen)
        return self._table(sql, lambda: sql)

    def _bounds(self, within: Within) -> Slice | None:
        """Return the slice of start or end times for a window, or None if an open period may end in the window."""
        low, high = max(map(self.instant, within.lows)), min(map(self.instant, within.highs))
        if within.column == VALID_FROM:
            return Slice(VALID_FROM, low, high + 1)
        # The last instant of a period is the instant before its end.
        return Slice(VALID_TO, low + 1, high + 2) if high < self.asked.now else None

    def instant(self, scalar: Scalar) -> int:
        """Evaluate a scalar over NOW and parameters to an instant (µs UTC)."""
        if scalar not in self.instants:
            self.instants[scalar] = int(self.engine.one(f"SELECT UNIX_MICROS({self.chain.text(scalar, {})})"))
        return self.instants[scalar]

    def _log(self, base: Scan) -> LoggedTable:
        return self.logs.of(self.tables[base.table.id], base.table)


def _cheapest_first(relation: Temporal) -> list[Temporal]:
    """Sort the inputs of a relation, with changes first. An empty change makes the other inputs unnecessary."""
    return sorted(inputs(relation), key=lambda part: not isinstance(part, (Deleted, Inserted)))


def _below(projection: Project[Temporal], on: On) -> On | None:
    """Replace each output of the projection in ``on`` by the column that the output selects.

    Return None if an output is not a plain column.
    """
    plain = {ColumnRef(projection.alias, out.name, out.value.type): out.value for out in projection.outputs}
    pairs = tuple((own, value) for own, other in on if isinstance(value := plain.get(other), ColumnRef))
    return pairs if len(pairs) == len(on) else None


def _no_leaf(leaf: Leaf) -> str:
    raise DerivationError(f"{leaf} is asked for by its name, not by its value")
