"""Random queries of the language, random histories, random partitions into ticks (Hypothesis strategies).

The texts are read the same way by Weft (Spark's dialect), DuckDB and SQLite.  Left out, since the three differ there
and the laws have nothing to say about it: division and % (by zero), CONCAT and || (DuckDB's CONCAT skips NULL), LIKE
with escapes, ILIKE, regular expressions, casts, floating point, dates and the parts of dates, integer overflow,
GREATEST and LEAST (SQLite's are NULL where one argument is).

Time is a grid of microseconds: rows begin at 0 … LAST, so that every threshold and the instant after it is on the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import strategies as st

LAST = 9
"""The last instant that the laws are checked at."""
TABLES = ("m", "r", "u")
COLUMNS = {"k": "INT", "n": "INT", "x": "STRING", "d": "TIMESTAMP", "f": "BOOLEAN", "ts": "TIMESTAMP"}
T = TypeVar("T")
Row = tuple[Any, ...]


@dataclass(frozen=True)
class History:
    """Rows by table: k, n, x, d, f, ts, te; instants are microseconds on the grid; ``te`` None: not ended."""

    rows: dict[str, tuple[Row, ...]]
    ending: tuple[str, ...]
    """The tables whose rows can end."""


@dataclass(frozen=True)
class Case:
    """A query, a history and a partition of [0, LAST] into ticks; ``salt`` drives what else is chosen at random."""

    text: str
    history: History
    cuts: tuple[int, ...]
    salt: int


@dataclass
class Writer:
    """Writes one query.  ``budget`` bounds the subqueries, so that a case stays small."""

    draw: Any
    budget: int
    aliases: int = 0
    scopes: list[dict[str, str]] = field(default_factory=list)

    def pick(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(options))

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) < percent

    # --- names

    def visible(self) -> list[str]:
        """Range variables that can be named here: an inner one hides an outer one of the same name."""
        return list(dict.fromkeys(alias for scope in reversed(self.scopes) for alias in scope))

    def alias(self) -> str:
        """Of the innermost SELECT mostly, else of any around it."""
        return self.pick(list(self.scopes[-1]) if self.chance(65) else self.visible())

    # --- values

    def integer(self, depth: int = 0) -> str:
        choice = self.draw(st.integers(0, 11))
        if choice < 6 or depth > 1:
            return f"{self.alias()}.{self.pick(['k', 'n'])}"
        if choice < 8:
            return str(self.draw(st.integers(0, 2)))
        a, b = self.integer(depth + 1), self.integer(depth + 1)
        return self.pick(
            [
                f"({a} + {b})",
                f"({a} - {b})",
                f"({a} * 2)",
                f"ABS({a})",
                f"COALESCE({a}, {b})",
                f"LENGTH({self.string(depth + 1)})",
                f"(- -{a})",
                f"CASE WHEN {a} = 1 THEN {b} ELSE 0 END",
                f"NULLIF({a}, 1)",
            ]
        )

    def string(self, depth: int = 0) -> str:
        choice = self.draw(st.integers(0, 9))
        if choice < 6 or depth > 1:
            return f"{self.alias()}.x"
        if choice < 8:
            return self.pick(["'a'", "'b'", "'ab'", "''"])
        a = self.string(depth + 1)
        return self.pick([f"UPPER({a})", f"COALESCE({a}, 'a')", f"SUBSTRING({a}, 1, 1)", f"REPLACE({a}, 'a', 'b')"])

    def interval(self) -> str:
        number = self.draw(st.integers(0, 4))
        plain = self.pick([f"INTERVAL {number} MICROSECONDS", f"INTERVAL '{number}' MICROSECOND"])
        return f"INTERVAL 1 MICROSECOND * {self.alias()}.n" if self.chance(12) else plain

    def instant(self) -> str:
        choice = self.draw(st.integers(0, 19))
        if choice == 0:
            return f"TIMESTAMP '2000-01-01 00:00:00.{self.draw(st.integers(0, LAST)):06d}'"
        base = f"{self.alias()}.{self.pick(['ts', 'd', 'd'])}"
        if choice == 1:
            base = f"COALESCE({base}, {self.alias()}.ts)"
        return base if choice < 8 else f"{base} {self.pick(['+', '+', '-'])} {self.interval()}"

    # --- conditions

    def comparison(self) -> str:
        kind = self.pick([self.integer, self.integer, self.string, self.instant])
        a, b = kind(), kind()
        choice = self.draw(st.integers(0, 11))
        if choice < 4:
            return f"{a} = {b}"
        if choice < 6:
            return f"{a} {self.pick(['<', '<=', '>', '>=', '<>'])} {b}"
        if choice == 6:
            return f"{a} IS {self.pick(['', 'NOT '])}NULL"
        if choice == 7:
            return f"{a} {self.pick(['', 'NOT '])}IN ({b}, {kind()}{self.pick(['', ', NULL'])})"
        if choice == 8:
            return f"{a} {self.pick(['', 'NOT '])}BETWEEN {b} AND {kind()}"
        if choice == 9:
            return f"{self.string()} {self.pick(['', 'NOT '])}LIKE {self.pick(LIKES)}"
        if choice == 10:
            return f"{a} <=> {b}"
        return self.pick([f"{self.alias()}.f", f"{self.alias()}.f = TRUE", f"({a} < {b}) IS NOT NULL", "TRUE", "NULL"])

    def now(self) -> str:
        name = self.pick(["NOW()", "NOW()", "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP()"])
        moved = f"{name} {self.pick(['+', '-'])} {self.interval()}" if self.chance(40) else name
        operator = self.pick(["<", "<=", ">", ">=", "=", "<>"])
        a, b, i = self.instant(), self.instant(), self.interval()
        return self.pick(
            [
                f"{moved} {operator} {a}",
                f"{moved} {operator} {a}",
                f"{a} {operator} {moved}",
                f"{name} - ({a}) {operator} {i}",
                f"({a}) - {name} {operator} {i}",
                f"{moved} {self.pick(['', 'NOT '])}BETWEEN {a} AND {b}",
                f"{a} {self.pick(['', 'NOT '])}BETWEEN {moved} AND {name} + {i}",
                f"{name} {self.pick(['', 'NOT '])}IN ({a}, {b})",
                f"{a} {self.pick(['', 'NOT '])}IN ({moved}, {b})",
                f"{moved} <=> {a}",
            ]
        )

    def condition(self, size: int) -> str:
        choice = self.draw(st.integers(0, 99))
        if size <= 1 or choice < 20:
            return self.leaf()
        if choice < 50:
            return f"{self.nested(size // 2)} AND {self.nested(size - size // 2)}"
        if choice < 82:
            return f"{self.nested(size // 2)} OR {self.nested(size - size // 2)}"
        return f"NOT {self.nested(size - 1)}"

    def nested(self, size: int) -> str:
        return f"({self.condition(size)})"

    def leaf(self) -> str:
        choice = self.draw(st.integers(0, 99))
        if choice < 30 and self.budget > 0 and len(self.scopes) < 4:
            return self.subquery()
        return self.now() if choice < 65 else self.comparison()

    def subquery(self) -> str:
        self.budget -= 1
        outside = self.pick([self.integer, self.string, self.instant])
        value = outside()
        around = self.visible()
        tables = self.tables()
        tie = self.tie(around) if self.chance(60) else ""
        where = self.condition(self.draw(st.integers(1, 3)))
        where = f"{tie} AND ({where})" if tie else where
        items = outside() if self.chance(75) else {self.integer: "1", self.string: "'a'"}.get(outside, outside())
        self.scopes.pop()
        body = f"FROM {tables} WHERE {where}" if self.chance(92) else f"FROM {tables}"
        if self.chance(60):
            return f"{self.pick(['', 'NOT '])}EXISTS (SELECT {self.pick(['1', '*', items])} {body})"
        return f"{value} {self.pick(['', 'NOT '])}IN (SELECT {items} {body})"

    def tie(self, around: list[str]) -> str:
        column = self.pick(["k", "n", "x", "k"])
        return f"{self.pick(list(self.scopes[-1]))}.{column} = {self.pick(around)}.{column}"

    def tables(self) -> str:
        """FROM's list; opens a scope."""
        scope: dict[str, str] = {}
        self.scopes.append(scope)
        text = ""
        for position in range(self.pick([1, 1, 1, 2, 2, 3]) if len(self.scopes) == 1 else self.pick([1, 1, 1, 1, 2])):
            table = self.pick(TABLES)
            name = self.fresh(table, scope)
            scope[name] = table
            shown = table if name == table else f"{table} {self.pick(['AS ', ''])}{name}"
            if position == 0:
                text = shown
            elif self.chance(50) and len(scope) == 2:
                text += f" {self.pick(['', 'INNER '])}JOIN {shown} ON {self.comparison()}"
            else:
                text += f", {shown}"
        return text

    def fresh(self, table: str, scope: dict[str, str]) -> str:
        """A new alias; seldom one that hides another, or looks like one that the rewriting would make up."""
        self.aliases += 1
        choice = self.draw(st.integers(0, 29))
        wanted = "abceghijlopqstvwy"[self.aliases % 17]
        if choice == 0 and self.visible():
            wanted = self.pick(self.visible())
        elif choice == 1 and self.visible():
            wanted = self.pick(self.visible()) + self.pick(["_was", "_before", "_outer", "_n1", "_2"])
        elif choice == 2:
            wanted = table
        return wanted if wanted not in scope else f"z{self.aliases}"

    def query(self, size: int) -> str:
        tables = self.tables()
        where = self.condition(size)
        chosen = self.draw(st.lists(st.sampled_from([self.integer, self.string, self.instant]), min_size=1, max_size=3))
        items = ", ".join(f"{kind(1)} AS c{i}" if kind != self.instant else f"{self.time_output()} AS c{i}"
                          for i, kind in enumerate(chosen))  # fmt: skip
        return f"SELECT {self.pick(['', 'DISTINCT '])}{items} FROM {tables} WHERE {where}"

    def time_output(self) -> str:
        return f"{self.alias()}.{self.pick(['ts', 'd'])}"


LIKES = ("'a%'", "'%b'", "'%a%'", "'_'", "'a'", "'%'", "'a_'", "''")


@st.composite
def queries(draw: Any) -> str:
    """The text of a random query."""
    return Writer(draw, budget=draw(st.integers(0, 4))).query(draw(st.integers(1, 5)))


def _row(ends: bool) -> st.SearchStrategy[Row]:
    integers = st.sampled_from([1, 0, 2, None, 1, 0, 1])
    strings = st.sampled_from(["a", "b", "ab", None, "a", "a"])
    dates = st.sampled_from([*range(-1, LAST + 1), None, None])
    flags = st.sampled_from([True, False, None])
    lives = st.integers(0, LAST).flatmap(
        lambda start: st.tuples(
            st.just(start), st.one_of(st.none(), st.integers(start + 1, LAST + 1)) if ends else st.none()
        )
    )
    return st.tuples(integers, integers, strings, dates, flags, lives).map(lambda row: (*row[:5], *row[5]))


@st.composite
def histories(draw: Any) -> History:
    """Rows of the three tables: NULLs, duplicates, equal instants, and in some histories rows that end."""
    ending = draw(st.sampled_from([(), (), TABLES, ("r",), ("m", "u")]))
    rows = {}
    for table in TABLES:
        found = draw(st.lists(_row(table in ending), min_size=draw(st.sampled_from([0, 1, 2, 3, 4])), max_size=5))
        if found and draw(st.booleans()):
            found.append(found[0])  # a duplicate
        rows[table] = tuple(found)
    return History(rows, ending)


@st.composite
def cases(draw: Any) -> Case:
    """A query over a history, with a partition of time into ticks."""
    cuts = draw(st.lists(st.integers(0, LAST + 1), max_size=2))
    return Case(draw(queries()), draw(histories()), tuple(sorted(cuts)), draw(st.integers(0, 2**16)))
