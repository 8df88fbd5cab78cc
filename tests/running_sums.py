"""Random sums and averages of numbers with many digits, and their values at each instant in exact arithmetic."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pyarrow as pa

from weft.algebra.relation import StateSchema
from weft.algebra.scalar import Literal
from weft.algebra.schema import TIMESTAMP, Column, DataType, TableSchema
from weft.derivation.lift import bound_state
from weft.derivation.stateful import states
from weft.period_sql.wide_sums import MOST_SCALE
from weft.planning.plan import standing_plan
from weft.storage.columns import arrow_type

DECIMALS = ((15, 2), (28, 3), (29, 3), (38, 0), (38, 6), (38, 10), (38, 15), (38, 30), (38, 38))
TYPES = (DataType("BIGINT"), *(DataType("DECIMAL", p, s) for p, s in DECIMALS))
STORED = tuple(type for type in TYPES if (type.scale or 0) <= MOST_SCALE)
"""The types whose sums a tick continues."""
END = 60
"""The instant after the last row, in microseconds."""
AGE = 15
"""The microseconds after which a row leaves a moving sum."""
Row = tuple[str | None, Any, int]
"""The group, the value and the ts."""


@dataclass(frozen=True)
class Sums:
    """The sum, the average and the counts of values of a type, for each group or for all rows, of all or new rows."""

    type: DataType
    grouped: bool
    moving: bool

    @property
    def table(self) -> TableSchema:
        return TableSchema(
            1, "t", (Column(1, "g", DataType("STRING")), Column(2, "x", self.type), Column(3, "ts", TIMESTAMP)), "ts"
        )

    def state(self, tau: int | None, t: int) -> StateSchema:
        """The state of the sums in the window [tau, t)."""
        groups, since = "g, " * self.grouped, f" WHERE ts > NOW() - INTERVAL {AGE} MICROSECONDS" * self.moving
        by = " GROUP BY g" * self.grouped
        text = f"SELECT {groups}SUM(x) AS s, AVG(x) AS a, COUNT(x) AS k, COUNT(*) AS n FROM t{since}{by}"
        plan = standing_plan(text, {"t": self.table})
        (found,) = {state for event in plan.branches for state in states(event.relation)}
        constants = {f"p{number}": value for number, value in enumerate(plan.values, 1)}
        instants = {"tau": -(2**62) if tau is None else tau, "t": t, "t0": 0}
        return bound_state(found, {**{name: Literal(at, TIMESTAMP) for name, at in instants.items()}, **constants})

    def given(self, rows: Sequence[Row]) -> pa.Table:
        kinds = (pa.string(), arrow_type(self.type), pa.timestamp("us", "UTC"))
        columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)]
        return pa.table(columns, ["g", "x", "ts"])

    def drawn(self, chance: random.Random, count: int) -> list[Row]:
        """Rows with small, large and equal values of both signs, NULLs, and groups that are sometimes empty."""
        most = 10 ** (self.type.precision or 18) - 1
        found: list[Row] = []
        for _ in range(count):
            size = chance.choice((1, 10**3, 10**12, most, most, most, most, most))
            value = chance.choice((min(size, most), chance.randint(0, min(size, most)))) * chance.choice((1, -1))
            x = None if chance.random() < 0.15 else self.scaled(value)
            found.append((chance.choice(("a", "b", None)), x, chance.randint(1, END - 1)))
        return found

    def scaled(self, value: int) -> Any:
        if self.type.name == "BIGINT":
            return value
        return Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -(self.type.scale or 0)))

    def at(self, rows: Sequence[Row], instant: int) -> set[tuple[Any, ...]]:
        """The rows of the sums at an instant."""
        groups: dict[Any, list[Any]] = {} if self.grouped else {None: []}
        for g, x, ts in rows:
            if ts <= instant and (not self.moving or instant < ts + AGE):
                groups.setdefault(g if self.grouped else None, []).append(x)
        return {(*([g] if self.grouped else []), *self.measured(values)) for g, values in groups.items()}

    def measured(self, values: Sequence[Any]) -> tuple[Any, ...]:
        given = [value for value in values if value is not None]
        if not given:
            return None, None, 0, len(values)
        with localcontext(prec=60):
            total = sum(given, self.scaled(0))
            most = 2**63 if self.type.name == "BIGINT" else Decimal(10**38).scaleb(-(self.type.scale or 0))
            fits = abs(total) < most
            average = float(total) / len(given) if fits else float(sum(map(Fraction, given)) / len(given))
        return (total if fits else None), shown(average, fits), len(given), len(values)


def shown(average: float | None, fits: bool) -> float | str | None:
    """An average, as text with twelve digits if the sum does not fit: two rounded numbers are added."""
    return average if average is None or fits else f"{average:.12g}"


def periods(found: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a state: the values, then the start and the end in microseconds."""
    *columns, start, end = found.columns
    return list(
        zip(*(column.to_pylist() for column in (*columns, start.cast("int64"), end.cast("int64"))), strict=True)
    )


def rows_at(found: Sequence[tuple[Any, ...]], instant: int) -> set[tuple[Any, ...]]:
    """The rows of ``periods`` at an instant, as ``Sums.at`` returns them."""
    alive = (row[:-2] for row in found if row[-2] <= instant and (row[-1] is None or instant < row[-1]))
    return {(*row[:-3], shown(row[-3], row[-4] is not None), *row[-2:]) for row in alive}
