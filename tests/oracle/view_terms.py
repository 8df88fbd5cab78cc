"""Views as objects that print their text, and compute their value literally by the paper's definitions.

A temporal relation is a set of tuples. A tuple is a row with the set of instants at which it holds (Yang and Widom,
definition 3.1). Instants are 0 … t_now, and NOW is in the set if and only if t_now is. An operator that does not
mention time is evaluated for each snapshot (definition 3.2). A row of FROM keeps the whole set of its tuple, for the
period functions, and NOW is t_now in every snapshot (section 3.2). Moving windows are τ_{t,w} (section 5). A condition
is True, False, or None for unknown, as in SQL.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

Row = tuple[Any, ...]
Relation = dict[Row, frozenset[int]]
Around = Mapping[str, "tuple[Mapping[str, Any], frozenset[int]]"]
"""Maps an alias to its tuple: the row by columns, and the instants."""

COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@dataclass
class State:
    """The tables at t_now: their recorded rows, and the names of the columns."""

    now: int
    tables: Mapping[str, Relation]
    columns: Mapping[str, tuple[str, ...]]
    known: dict[int, Relation] = field(default_factory=dict)

    def temporal(self, query: Query) -> Relation:
        """The temporal relation of a query that names nothing around it."""
        if id(query) not in self.known:
            held: dict[Row, set[int]] = {}
            for instant in range(self.now + 1):
                for row in query.rows(self, {}, instant):
                    held.setdefault(row, set()).add(instant)
            self.known[id(query)] = {row: frozenset(instants) for row, instants in held.items()}
        return self.known[id(query)]


# Values


@dataclass(frozen=True)
class Column:
    alias: str
    name: str

    def text(self) -> str:
        return f"{self.alias}.{self.name}"

    def value(self, state: State, around: Around) -> Any:
        return around[self.alias][0][self.name]


@dataclass(frozen=True)
class Constant:
    given: Any

    def text(self) -> str:
        return "NULL" if self.given is None else repr(self.given)

    def value(self, state: State, around: Around) -> Any:
        return self.given


@dataclass(frozen=True)
class Sum:
    left: Value
    right: int

    def text(self) -> str:
        return f"{self.left.text()} + {self.right}"

    def value(self, state: State, around: Around) -> Any:
        left = self.left.value(state, around)
        return None if left is None else left + self.right


@dataclass(frozen=True)
class Now:
    """NOW, some microseconds earlier."""

    earlier: int = 0

    def text(self) -> str:
        return f"NOW() - INTERVAL {self.earlier} MICROSECONDS" if self.earlier else "NOW()"

    def value(self, state: State, around: Around) -> Any:
        return state.now - self.earlier


@dataclass(frozen=True)
class NowModulo:
    """A number of NOW that goes up and down."""

    base: int

    def text(self) -> str:
        return f"MOD(UNIX_MICROS(NOW()), {self.base})"

    def value(self, state: State, around: Around) -> Any:
        return state.now % self.base


@dataclass(frozen=True)
class Span:
    length: int

    def text(self) -> str:
        return f"INTERVAL {self.length} MICROSECONDS"

    def value(self, state: State, around: Around) -> Any:
        return self.length


@dataclass(frozen=True)
class OfPeriods:
    """start(T), end(T), length(T): the smallest and the largest element, and how many there are."""

    function: str
    alias: str

    def text(self) -> str:
        return f"PERIOD_{self.function.upper()}({self.alias})"

    def value(self, state: State, around: Around) -> Any:
        return {"start": min, "end": max, "length": len}[self.function](around[self.alias][1])


Value = Column | Constant | Sum | Now | NowModulo | Span | OfPeriods

# Conditions


@dataclass(frozen=True)
class Compared:
    operator: str
    left: Value
    right: Value

    def text(self) -> str:
        return f"{self.left.text()} {self.operator} {self.right.text()}"

    def holds(self, state: State, around: Around, instant: int) -> bool | None:
        left, right = self.left.value(state, around), self.right.value(state, around)
        return None if left is None or right is None else COMPARED[self.operator](left, right)


@dataclass(frozen=True)
class IsNull:
    value: Value
    negated: bool

    def text(self) -> str:
        return f"{self.value.text()} IS {'NOT ' if self.negated else ''}NULL"

    def holds(self, state: State, around: Around, instant: int) -> bool | None:
        return (self.value.value(state, around) is None) != self.negated


@dataclass(frozen=True)
class Joined:
    """AND, OR."""

    word: str
    parts: tuple[Condition, ...]

    def text(self) -> str:
        return f" {self.word} ".join(f"({part.text()})" for part in self.parts)

    def holds(self, state: State, around: Around, instant: int) -> bool | None:
        decisive = self.word == "OR"
        found = [part.holds(state, around, instant) for part in self.parts]
        return decisive if decisive in found else None if None in found else not decisive


@dataclass(frozen=True)
class Negated:
    part: Condition

    def text(self) -> str:
        return f"NOT ({self.part.text()})"

    def holds(self, state: State, around: Around, instant: int) -> bool | None:
        found = self.part.holds(state, around, instant)
        return None if found is None else not found


@dataclass(frozen=True)
class OfTwoPeriods:
    """contains($1.T, $2.T), overlaps($1.T, $2.T)."""

    function: str
    one: str
    other: str

    def text(self) -> str:
        return f"PERIOD_{self.function.upper()}({self.one}, {self.other})"

    def holds(self, state: State, around: Around, instant: int) -> bool | None:
        one, other = around[self.one][1], around[self.other][1]
        return one >= other if self.function == "contains" else bool(one & other)


@dataclass(frozen=True)
class There:
    """EXISTS."""

    query: Query
    negated: bool

    def text(self) -> str:
        return f"{'NOT ' if self.negated else ''}EXISTS ({self.query.text()})"

    def holds(self, state: State, around: Around, instant: int) -> bool | None:
        return bool(self.query.rows(state, around, instant)) != self.negated


@dataclass(frozen=True)
class Among:
    """IN (SELECT …)."""

    value: Value
    query: Query
    negated: bool

    def text(self) -> str:
        return f"{self.value.text()} {'NOT ' if self.negated else ''}IN ({self.query.text()})"

    def holds(self, state: State, around: Around, instant: int) -> bool | None:
        value = self.value.value(state, around)
        found = {row[0] for row in self.query.rows(state, around, instant)}
        unknown = bool(found) and (value is None or (value not in found and None in found))
        return None if unknown else (value in found) != self.negated


Condition = Compared | IsNull | Joined | Negated | OfTwoPeriods | There | Among

# Queries


@dataclass(frozen=True)
class Item:
    """What FROM lists: a table, constant rows, or a query, in place or named by WITH."""

    alias: str
    given: str | tuple[Row, ...] | Query
    columns: tuple[str, ...]
    named: bool = False

    def text(self) -> str:
        if isinstance(self.given, str):
            return f"{self.given} AS {self.alias}"
        if isinstance(self.given, tuple):
            rows = ", ".join(f"({', '.join(Constant(value).text() for value in row)})" for row in self.given)
            return f"(VALUES {rows}) AS {self.alias}({', '.join(self.columns)})"
        return f"with_{self.alias} AS {self.alias}" if self.named else f"({self.given.text()}) AS {self.alias}"

    def tuples(self, state: State) -> Iterator[tuple[Row, frozenset[int]]]:
        if isinstance(self.given, str):
            relation = state.tables[self.given]
        elif isinstance(self.given, tuple):
            relation = dict.fromkeys(self.given, frozenset(range(state.now + 1)))
        else:
            relation = state.temporal(self.given)
        yield from relation.items()


@dataclass(frozen=True)
class From:
    """FROM and WHERE; ``on`` is a condition of the last join."""

    items: tuple[Item, ...]
    where: Condition | None
    on: Condition | None = None

    def heading(self) -> str:
        named = [f"with_{item.alias} AS ({item.given.text()})" for item in self.items if item.named]  # type: ignore[union-attr]
        return f"WITH {', '.join(named)} " if named else ""

    def text(self) -> str:
        parts = [item.text() for item in self.items]
        if self.on is not None:
            text = f" FROM {' CROSS JOIN '.join(parts[:-1])} JOIN {parts[-1]} ON {self.on.text()}"
        else:
            text = f" FROM {', '.join(parts)}"
        return text if self.where is None else f"{text} WHERE {self.where.text()}"

    def combinations(self, state: State, around: Around, instant: int) -> Iterator[tuple[Row, Around]]:
        """The combinations of rows that hold at an instant, as rows of all columns."""
        alive = [[pair for pair in item.tuples(state) if instant in pair[1]] for item in self.items]
        for chosen in product(*alive):
            inside = dict(around)
            for item, (row, instants) in zip(self.items, chosen, strict=True):
                inside[item.alias] = (dict(zip(item.columns, row, strict=True)), instants)
            conditions = (each for each in (self.on, self.where) if each is not None)
            if all(each.holds(state, inside, instant) is True for each in conditions):
                yield tuple(value for row, _ in chosen for value in row), inside


@dataclass(frozen=True)
class Select:
    outputs: tuple[tuple[Value, str], ...]
    over: From

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.outputs)

    def text(self) -> str:
        listed = ", ".join(f"{value.text()} AS {name}" for value, name in self.outputs)
        return f"{self.over.heading()}SELECT {listed}{self.over.text()}"

    def rows(self, state: State, around: Around, instant: int) -> set[Row]:
        combined = (inside for _, inside in self.over.combinations(state, around, instant))
        return {tuple(value.value(state, inside) for value, _ in self.outputs) for inside in combined}


@dataclass(frozen=True)
class Combined:
    """UNION, EXCEPT, INTERSECT."""

    word: str
    left: Query
    right: Query

    @property
    def names(self) -> tuple[str, ...]:
        return self.left.names

    def text(self) -> str:
        return f"({self.left.text()}) {self.word} ({self.right.text()})"

    def rows(self, state: State, around: Around, instant: int) -> set[Row]:
        left, right = self.left.rows(state, around, instant), self.right.rows(state, around, instant)
        return left | right if self.word == "UNION" else left - right if self.word == "EXCEPT" else left & right


@dataclass(frozen=True)
class Measured:
    function: str
    argument: Value | None
    name: str
    distinct: bool = False
    by: Value | None = None

    def text(self) -> str:
        parts = ", ".join(part.text() for part in (self.argument, self.by) if part is not None) or "*"
        return f"{self.function}({'DISTINCT ' if self.distinct else ''}{parts}) AS {self.name}"

    def of(self, state: State, rows: Sequence[Around]) -> Any:
        if self.argument is None:
            return len(rows)
        if self.by is not None:
            return self.chosen(state, rows)
        given = [value for row in rows if (value := self.argument.value(state, row)) is not None]
        if self.distinct or self.function == "COLLECT_SET":
            given = list(set(given))
        given.sort()
        if self.function == "COUNT":
            return len(given)
        if self.function in ("ARRAY_AGG", "COLLECT_SET"):
            return json_array(given)
        return MEASURES[self.function](given) if given else None

    def chosen(self, state: State, rows: Sequence[Around]) -> Any:
        """The least value among the rows with the least or the greatest ``by``."""
        assert self.argument is not None and self.by is not None
        pairs = [(self.by.value(state, row), self.argument.value(state, row)) for row in rows]
        known = [(by, value) for by, value in pairs if by is not None]
        best = (min if self.function == "MIN_BY" else max)((by for by, _ in known), default=None)
        return min((value for by, value in known if by == best and value is not None), default=None)


def variance(given: Sequence[Any], freedom: int) -> float | None:
    """The variance by Welford's steps in the order of the values, which fixes each rounding."""
    mean = squares = 0.0
    for count, number in enumerate(map(float, given), 1):
        before, mean = mean, mean + (number - mean) / count
        squares += (number - before) * (number - mean)
    return squares / freedom if freedom > 0 else None


def root(number: float | None) -> float | None:
    return None if number is None else math.sqrt(number)


def json_array(given: Sequence[Any]) -> str:
    shown = (f'"{value}"' if isinstance(value, str) else str(value) for value in given)
    return f"[{','.join(shown)}]"


MEASURES: Final[Mapping[str, Callable[[Sequence[Any]], Any]]] = {
    "SUM": sum,
    "MIN": min,
    "MAX": max,
    "AVG": lambda given: float(sum(given)) / len(given),
    "MEDIAN": lambda given: float(statistics.median(map(float, given))),
    "VAR_POP": lambda given: variance(given, len(given)),
    "VAR_SAMP": lambda given: variance(given, len(given) - 1),
    "STDDEV_POP": lambda given: root(variance(given, len(given))),
    "STDDEV_SAMP": lambda given: root(variance(given, len(given) - 1)),
}
"""The meaning of aggregates over one or more values in ascending order."""


@dataclass(frozen=True)
class Grouped:
    """GROUP BY, over the rows that hold at some instant of [t − w, t] (τ_{t,w})."""

    over: From
    keys: tuple[tuple[Value, str], ...]
    measures: tuple[Measured, ...]
    window: int | None
    more_than: int | None

    @property
    def names(self) -> tuple[str, ...]:
        return (*(name for _, name in self.keys), *(each.name for each in self.measures))

    def text(self) -> str:
        listed = [*(f"{value.text()} AS {name}" for value, name in self.keys), *(each.text() for each in self.measures)]
        by = [value.text() for value, _ in self.keys]
        if self.window is not None:
            by.append(f"MOVING_WINDOW(INTERVAL {self.window} MICROSECONDS)")
        grouped = f" GROUP BY {', '.join(by)}" if by else ""
        having = "" if self.more_than is None else f" HAVING COUNT(*) > {self.more_than}"
        return f"{self.over.heading()}SELECT {', '.join(listed)}{self.over.text()}{grouped}{having}"

    def rows(self, state: State, around: Around, instant: int) -> set[Row]:
        there: dict[Row, Around] = {}
        for each in range(max(0, instant - (self.window or 0)), instant + 1):
            there.update(self.over.combinations(state, around, each))
        groups: dict[Row, list[Around]] = {} if self.keys else {(): []}
        for inside in there.values():
            groups.setdefault(tuple(value.value(state, inside) for value, _ in self.keys), []).append(inside)
        return {
            (*key, *(each.of(state, rows) for each in self.measures))
            for key, rows in groups.items()
            if self.more_than is None or len(rows) > self.more_than
        }


Query = Select | Combined | Grouped


def periods(instants: Iterable[int], now: int) -> list[tuple[int, int | None]]:
    """A set of instants as maximal periods [from, to), the one that t_now is in being open."""
    found: list[tuple[int, int | None]] = []
    for instant in sorted(instants):
        if found and found[-1][1] == instant:
            found[-1] = (found[-1][0], instant + 1)
        else:
            found.append((instant, instant + 1))
    return [(start, None if end == now + 1 else end) for start, end in found]
