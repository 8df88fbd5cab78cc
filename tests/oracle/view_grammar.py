"""Random views, composed of the objects of ``view_terms``, and histories for them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from oracle.view_terms import (
    Among,
    Column,
    Combined,
    Compared,
    Condition,
    Constant,
    From,
    Grouped,
    IsNull,
    Item,
    Joined,
    Measured,
    Negated,
    Now,
    NowModulo,
    OfPeriods,
    OfTwoPeriods,
    Query,
    Relation,
    Select,
    Span,
    State,
    Sum,
    There,
    Value,
)

LAST: Final = 12
"""The last instant of the grid."""
TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "e": {"k": "INT", "n": "BIGINT", "x": "STRING", "d": "TIMESTAMP", "f": "DOUBLE"},
    "s": {"k": "INT", "n": "BIGINT", "x": "STRING", "d": "TIMESTAMP"},
    "u": {"k": "INT", "x": "STRING"},
}
DRAWN: Final[Mapping[str, tuple[Any, ...]]] = {
    "INT": (0, 1, 1, 2, None),
    "BIGINT": (0, 1, 2, None, 1),
    "STRING": ("a", "b", "a", None),
    "TIMESTAMP": (*range(0, LAST + 1, 2), None),
    "DOUBLE": (0.5, 1.5, -2.0, None),
}
NUMBERS: Final = ("INT", "BIGINT")
FUNCTIONS: Final = (
    *(4 * ("COUNT", "COUNT", "MIN", "MAX", "SUM", "AVG")),
    *("MEDIAN", "MIN_BY", "MAX_BY", "STDDEV_SAMP", "STDDEV_POP", "VAR_SAMP", "VAR_POP", "ARRAY_AGG", "COLLECT_SET"),
)
OF_NUMBERS: Final = ("SUM", "AVG", "MEDIAN", "STDDEV_SAMP", "STDDEV_POP", "VAR_SAMP", "VAR_POP")
MAY_BE_DISTINCT: Final = ("COUNT", *OF_NUMBERS)
ORDERED: Final = ("=", "=", "<>", "<", "<=", ">", ">=")

Named = dict[str, str]
"""Column -> type."""


@dataclass
class Drawing:
    """One view being drawn."""

    chance: random.Random
    count: int = 0

    def alias(self) -> str:
        self.count += 1
        return f"a{self.count}"

    def view(self) -> tuple[Query, Named]:
        return self.query(self.chance.choice([1, 2, 2, 3, 3]))

    def query(self, depth: int) -> tuple[Query, Named]:
        """A query that names nothing around it."""
        kind = self.chance.choice(["select"] * 6 + ["combined"] * 2 + ["grouped"] * 3) if depth else "select"
        if kind == "combined":
            return self.combined(depth)
        return self.grouped(depth) if kind == "grouped" else self.select(depth, {})

    def select(self, depth: int, around: Mapping[str, Named], wanted: Sequence[str] = ()) -> tuple[Select, Named]:
        """SELECT, with columns of the ``wanted`` types where given."""
        own, over = self.over(depth, around)
        columns = [(Column(alias, name), type) for alias, names in own.items() for name, type in names.items()]
        outputs: list[tuple[Value, str]] = []
        types: Named = {}
        for place, type in enumerate(wanted or [None] * self.chance.randint(1, 2)):
            fitting = [each for each in columns if type in (None, each[1])]
            value: Value
            value, kind = self.chance.choice(fitting) if fitting else (self.constant(str(type)), str(type))
            if kind in NUMBERS and self.chance.random() < 0.1:
                value = Sum(value, 1)
            outputs.append((value, f"c{place}"))
            types[f"c{place}"] = kind
        return Select(tuple(outputs), over), types

    def constant(self, type: str) -> Value:
        """A constant of a type that columns of set operations have."""
        return Constant(0 if type in NUMBERS else "a")

    def combined(self, depth: int) -> tuple[Query, Named]:
        types = [self.chance.choice(["INT", "STRING"]) for _ in range(self.chance.randint(1, 2))]
        left, named = self.select(depth - 1, {}, types)
        right, _ = self.select(depth - 1, {}, types)
        words = ["UNION", "EXCEPT", "EXCEPT", "INTERSECT"]
        query: Query = Combined(self.chance.choice(words), left, right)
        if self.chance.random() < 0.25:
            query = Combined(self.chance.choice(words), query, self.select(0, {}, types)[0])
        return query, named

    def grouped(self, depth: int) -> tuple[Query, Named]:
        own, over = self.over(depth - 1, {})
        columns = [(Column(alias, name), type) for alias, names in own.items() for name, type in names.items()]
        chosen = self.chance.sample(columns, min(self.chance.choice([0, 0, 1, 1, 2]), len(columns)))
        keys = [(value, f"g{place}", type) for place, (value, type) in enumerate(chosen)]
        measures, types = [], {name: type for _, name, type in keys}
        for place in range(self.chance.choice([1, 1, 2])):
            measure, type = self.measured(columns, f"m{place}")
            measures.append(measure)
            types[f"m{place}"] = type
        window = self.chance.choice([None, None, 0, 1, 2, 4])
        more = self.chance.choice([None, None, None, 0, 1])
        return Grouped(over, tuple((value, name) for value, name, _ in keys), tuple(measures), window, more), types

    def measured(self, columns: list[tuple[Column, str]], name: str) -> tuple[Measured, str]:
        """An aggregate and the type of its result."""
        value, type = self.chance.choice(columns)
        function = self.chance.choice(FUNCTIONS)
        if function in OF_NUMBERS and type not in (*NUMBERS, "DOUBLE"):
            function = "COUNT"
        if function in ("ARRAY_AGG", "COLLECT_SET") and type in ("DOUBLE", "TIMESTAMP"):
            function = "COUNT"
        argument = None if function == "COUNT" and self.chance.random() < 0.5 else value
        distinct = argument is not None and function in MAY_BE_DISTINCT and self.chance.random() < 0.3
        by = self.chance.choice(columns)[0] if function in ("MIN_BY", "MAX_BY") else None
        if function == "COUNT" or (function == "SUM" and type in NUMBERS):
            type = "BIGINT"
        elif function in ("ARRAY_AGG", "COLLECT_SET"):
            type = "STRING"
        elif function in OF_NUMBERS:
            type = "DOUBLE"
        return Measured(function, argument, name, distinct, by), type

    def over(self, depth: int, around: Mapping[str, Named]) -> tuple[dict[str, Named], From]:
        """FROM and WHERE."""
        count = self.chance.choice([1, 1, 1, 2, 2, 3] if depth else [1, 1, 2])
        items = [self.item(depth) for _ in range(count)]
        own = {item.alias: named for item, named in items}
        visible = {**around, **own}
        conditions: list[Condition] = []
        if count > 1 or around:
            conditions.append(self.equal(own, visible))
        if self.chance.random() < 0.85:
            conditions.append(self.condition(depth, own, visible))
        if depth and self.chance.random() < 0.07:  # what is asked of a row after another has taken instants from it
            conditions += [self.nested(1, own, visible) for _ in range(2)]
        on = conditions.pop(0) if count > 1 and self.chance.random() < 0.5 else None
        where: Condition | None = None
        if conditions:
            where = conditions[0] if len(conditions) == 1 else Joined("AND", tuple(conditions))
        return own, From(tuple(item for item, _ in items), where, on)

    def item(self, depth: int) -> tuple[Item, Named]:
        chance = self.chance.random()
        if depth and chance < 0.3:
            query, named = self.query(depth - 1)
            return Item(self.alias(), query, tuple(named), self.chance.random() < 0.3), named
        if chance > 0.95:
            return Item(self.alias(), ((0,), (1,)), ("k",)), {"k": "INT"}
        table = self.chance.choice(["e", "e", "s", "s", "u"])
        return Item(self.alias(), table, tuple(TABLES[table])), dict(TABLES[table])

    def equal(self, own: Mapping[str, Named], visible: Mapping[str, Named]) -> Condition:
        """A condition between what FROM lists and something else."""
        pairs = [
            Compared("=" if self.chance.random() < 0.8 else "<=", Column(a, one), Column(b, other))
            for a, names in own.items()
            for one, type in names.items()
            for b, others in visible.items()
            for other, other_type in others.items()
            if a != b and type == other_type
        ]
        return self.chance.choice(pairs) if pairs else self.time(own, visible)

    def condition(self, depth: int, own: Mapping[str, Named], visible: Mapping[str, Named]) -> Condition:
        drawn = self.chance.random()
        if depth and drawn < 0.3:
            return self.nested(depth, own, visible)
        if depth and drawn < 0.5:
            parts = tuple(self.condition(depth - 1, own, visible) for _ in range(2))
            return Joined(self.chance.choice(["AND", "OR"]), parts)
        if depth and drawn < 0.57:
            return Negated(self.condition(depth - 1, own, visible))
        return self.time(own, visible) if drawn < 0.8 else self.plain(own, visible)

    def plain(self, own: Mapping[str, Named], visible: Mapping[str, Named]) -> Condition:
        alias, (name, type) = self.column(own)
        if self.chance.random() < 0.2 or type not in (*NUMBERS, "STRING"):
            return IsNull(Column(alias, name), self.chance.random() < 0.5)
        constant = self.chance.choice(["a", "b"]) if type == "STRING" else self.chance.choice([0, 1, 2])
        return Compared(self.chance.choice(ORDERED), Column(alias, name), Constant(constant))

    def column(self, own: Mapping[str, Named]) -> tuple[str, tuple[str, str]]:
        alias = self.chance.choice(sorted(own))
        return alias, self.chance.choice(sorted(own[alias].items()))

    def time(self, own: Mapping[str, Named], visible: Mapping[str, Named]) -> Condition:
        """A condition that is judged at t_now."""
        one, other = self.chance.choice(sorted(own)), self.chance.choice(sorted(visible))
        now = Now(self.chance.choice([0, 0, 1, 3, 5]))
        bound = self.chance.choice(["start", "end"])
        operator = self.chance.choice(ORDERED)
        made: Sequence[Callable[[], Condition]] = (
            lambda: Compared(operator, OfPeriods(bound, one), now),
            lambda: Compared(operator, OfPeriods("end", one), Now()),
            lambda: Compared(operator, OfPeriods("length", one), Span(self.chance.choice([1, 2, 4, 6]))),
            lambda: Compared(operator, OfPeriods(bound, one), OfPeriods(self.chance.choice(["start", "end"]), other)),
            lambda: OfTwoPeriods("contains", one, other),
            lambda: OfTwoPeriods("contains", other, one),
            lambda: OfTwoPeriods("overlaps", one, other),
            lambda: Compared("=", NowModulo(self.chance.choice([2, 3])), Constant(self.chance.choice([0, 1]))),
            lambda: self.dated(own, operator, now),
        )
        return self.chance.choice(made)()

    def dated(self, own: Mapping[str, Named], operator: str, now: Now) -> Condition:
        times = [Column(a, name) for a, names in own.items() for name, type in names.items() if type == "TIMESTAMP"]
        return Compared(operator, self.chance.choice(times), now) if times else Compared("<>", now, Now(2))

    def nested(self, depth: int, own: Mapping[str, Named], visible: Mapping[str, Named]) -> Condition:
        negated = self.chance.random() < 0.5
        if self.chance.random() < 0.35:
            alias, (name, type) = self.column(own)
            if type in ("INT", "STRING"):
                query: Query = self.select(depth - 1, visible, [type])[0]
                if self.chance.random() < 0.25:
                    word = self.chance.choice(["UNION", "EXCEPT"])
                    query = Combined(word, query, self.select(0, visible, [type])[0])
                return Among(Column(alias, name), query, negated)
        return There(self.select(depth - 1, visible)[0], negated)


def view(chance: random.Random) -> Query:
    """A random view."""
    return Drawing(chance).view()[0]


def folded(query: Query) -> str:
    """The text without its constants: two that fold alike are the same view."""
    return re.sub(r"'[^']*'|\b\d+\b", "0", query.text())


Recorded = dict[str, list[tuple[Any, ...]]]
"""The rows of tables as recorded at LAST, with from and to (None: the row has not ended)."""


def history(chance: random.Random) -> Recorded:
    """Rows with one to three periods: NULLs, rows that end and come again, rows that are there for good."""
    found: Recorded = {}
    for table, columns in TABLES.items():
        many = chance.choice([0, 1, 2, 3, 4])
        rows = {tuple(chance.choice(DRAWN[type]) for type in columns.values()) for _ in range(many)}
        found[table] = []
        for row in sorted(rows, key=repr):
            bounds = sorted(chance.sample(range(LAST + 1), chance.choice([1, 2, 2, 3, 4, 5])))
            starts, ends = bounds[::2], [*bounds[1::2], None]
            found[table] += [(*row, start, end) for start, end in zip(starts, ends, strict=False)]
    return found


def recorded_at(now: int, full: Recorded) -> Recorded:
    """The rows as recorded at an earlier instant."""
    return {
        table: [(*row[:-1], None if row[-1] is None or row[-1] > now else row[-1]) for row in rows if row[-2] <= now]
        for table, rows in full.items()
    }


def state_at(now: int, full: Recorded) -> State:
    """The same as sets of instants."""
    tables: dict[str, Relation] = {}
    for table, rows in full.items():
        held: dict[tuple[Any, ...], set[int]] = {}
        for *row, start, end in rows:
            inside = range(start, now + 1 if end is None else min(end, now + 1))
            held.setdefault(tuple(row), set()).update(inside)
        tables[table] = {row: frozenset(instants) for row, instants in held.items() if instants}
    return State(now, tables, {table: tuple(columns) for table, columns in TABLES.items()})
