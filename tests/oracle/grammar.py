"""Random queries of the language: FROM with derived tables, VALUES and joins, WITH, set operations, subqueries.

The texts have the same meaning for Weft (Spark's dialect), DuckDB and SQLite. ``spelling`` writes two texts if no text
is valid for all three. The grammar omits constructs in which the three differ: division and % by zero, CONCAT and ||
(DuckDB's CONCAT skips NULL), LIKE with escapes, ILIKE, regular expressions, casts, floating point, dates and parts of
dates, integer overflow, GREATEST and LEAST (NULL in SQLite if one argument is NULL).

One ``random.Random`` makes every choice. If it comes from Hypothesis, Hypothesis finds a smaller failing case.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from oracle.expressions import LAST, Columns, Expressions, Kind
from oracle.spelling import Text, differs, spelled

__all__ = ["LAST", "TABLES", "Writer", "query"]

TABLES: Final = ("m", "r", "u")
TABLE: Final[Columns] = {"integer": ("k", "n"), "string": ("x",), "instant": ("ts", "d", "d"), "flag": ("f",)}
NAMES: Final = ("k", "n", "x", "d", "ts", "a", "b", "c0", "key", "when_")
"""What columns of derived tables are called: like those of tables, like range variables, like neither."""
ALIASES: Final = "abceghijlopqstvwy"
MADE_UP: Final = ("_was", "_before", "_outer", "_or1", "_2")
"""How names end that the rewriting makes up."""
KINDS: Final[tuple[Kind, ...]] = ("integer", "integer", "string", "instant")
LOOSE, TIGHT = 1, 2
"""UNION and EXCEPT bind looser than INTERSECT."""
SETS: Final = (("UNION ALL", LOOSE), ("UNION", LOOSE), ("EXCEPT", LOOSE), ("INTERSECT", TIGHT), ("UNION", LOOSE))
Signature = Sequence[Kind]


class Writer(Expressions):
    """Writes one query.  ``budget`` bounds its subqueries, derived tables and arms, so that a case stays small."""

    def __init__(self, chance: random.Random, budget: int) -> None:
        super().__init__(chance)
        self.budget = budget
        self.count = 0
        self.ctes: dict[str, Columns] = {}
        self.depth = 0

    def fresh(self, table: str, scope: dict[str, Columns]) -> str:
        """A new alias; seldom one that hides another, or looks like one that the rewriting would make up."""
        self.count += 1
        choice, around = self.random.randrange(30), list(self.visible())
        wanted = ALIASES[self.count % len(ALIASES)]
        if choice == 0 and around:
            wanted = self.pick(around)
        elif choice == 1 and around:
            wanted = self.pick(around) + self.pick(MADE_UP)
        elif choice == 2 and table in TABLES:
            wanted = table
        return wanted if wanted not in scope else f"z{self.count}"

    def signature(self, most: int = 3) -> list[Kind]:
        return [self.pick(KINDS) for _ in range(self.pick(range(1, most + 1)))]

    def spend(self) -> bool:
        """Whether there is room for one more query inside; takes it."""
        if self.budget <= 0 or self.depth > 3:
            return False
        self.budget -= 1
        return True

    # --- queries

    def top(self) -> str:
        kinds = self.signature()
        return self.with_ctes(30, lambda: self.rows(kinds, [f"c{n}" for n in range(len(kinds))], sets=22))

    def with_ctes(self, percent: int, body) -> str:  # type: ignore[no-untyped-def]
        """A query, with common table expressions before it now and then."""
        before, found = dict(self.ctes), []
        while self.chance(percent) and len(found) < 3 and self.spend():
            found.append(self.cte())
        text = body()
        self.ctes = before
        return f"WITH {', '.join(found)} {text}" if found else text

    def cte(self) -> str:
        name = f"q{self.count}"
        self.count += 1
        kinds = self.signature()
        names = self.names(len(kinds))
        if self.chance(25):
            name, text = f"{name}({', '.join(names)})", f"VALUES {self.constants(kinds)}"
        elif self.chance(40):
            inner = [f"i{n}" for n in range(len(kinds))]
            name, text = f"{name}({', '.join(names)})", self.closed(lambda: self.rows(kinds, inner))
        else:
            text = self.closed(lambda: self.rows(kinds, names))
        self.ctes[name.split("(")[0]] = by_kind(kinds, names)
        return f"{name} AS ({text})"

    def closed(self, body) -> str:  # type: ignore[no-untyped-def]
        """A query that sees no range variable around it."""
        around, self.scopes = self.scopes, []
        self.depth += 1
        text: str = body()
        self.depth -= 1
        self.scopes = around
        return text

    def rows(self, kinds: Signature, names: Sequence[str], sets: int = 30, tied: int = 0) -> str:
        """A query that gives columns of the kinds under the names: SELECT, or a set operation."""
        if self.chance(sets) and self.spend():
            return self.set_operation(kinds, names, tied)[0]
        return self.select(kinds, names, tied)

    def set_operation(self, kinds: Signature, names: Sequence[str], tied: int) -> tuple[str, int]:
        word, binding = self.pick(SETS)
        left = self.arm(kinds, names, binding, tied, left=True)
        right = self.arm(kinds, [f"c{n}" for n in range(len(kinds))], binding, tied, left=False)
        return f"{left} {word} {right}", binding

    def arm(self, kinds: Signature, names: Sequence[str], around: int, tied: int, *, left: bool) -> str:
        if not left and self.chance(8):
            text = self.constants(kinds)
            plain = plain_constants(text)
            return differs(f"VALUES {text}", f"SELECT * FROM ({plain}) AS arm" if "UNION" in plain else plain)
        if not self.chance(25) or not self.spend():
            return self.select(kinds, names, tied)
        text, binding = self.set_operation(kinds, names, tied)
        if binding > around or (left and binding == around):  # it binds tightly enough without parentheses
            return differs(text, f"SELECT * FROM ({text}) AS arm") if self.chance(60) else in_parentheses(text)
        return in_parentheses(text)

    def select(self, kinds: Signature, names: Sequence[str], tied: int = 0) -> str:
        """One SELECT; ``tied`` is how often, in percent, an equality leads to a row outside."""
        around = self.visible()
        tables, half_joins = self.tables()
        parts = [self.tie(around)] if around and self.chance(tied) else []
        if not self.chance(14):
            parts.append(self.nested(self.pick([1, 1, 2, 3]) if around or self.depth else self.pick([1, 2, 3, 4, 5])))
        outputs = ", ".join(f"{self.output(kind)} AS {name}" for kind, name in zip(kinds, names, strict=True))
        self.scopes.pop()
        distinct = self.pick(["", "", "DISTINCT "])
        return f"SELECT {distinct}{outputs} {from_where(tables, half_joins, parts)}"

    def output(self, kind: Kind) -> str:
        return self.column(kind) or self.constant(kind) if self.chance(70) else self.value(kind, 1)

    # --- FROM

    def tables(self) -> tuple[str, list[str]]:
        """FROM's list, and the conditions of its semi-joins and anti-joins in plain spelling; opens a scope."""
        scope: dict[str, Columns] = {}
        self.scopes.append(scope)
        text, half_joins = self.source(scope), []
        outermost = len(self.scopes) == 1
        if self.chance(28 if outermost else 8):
            text += self.join(scope)
        if self.chance(22 if outermost else 10) and self.spend():
            spark, plain = self.half_join(scope)
            text += differs(spark, "")
            half_joins.append(plain)
        while self.chance(25 if outermost else 10) and len(scope) < 3:
            text += f", {self.source(scope)}"
        return text, half_joins

    def join(self, scope: dict[str, Columns]) -> str:
        (left,) = scope.values()
        source = self.source(scope)
        shared = common(left, list(scope.values())[-1])
        if shared and self.chance(40):
            return f" {self.pick(['', 'INNER '])}JOIN {source} USING ({self.pick(shared)})"
        return f" {self.pick(['', 'INNER '])}JOIN {source} ON {self.on()}"

    def on(self) -> str:
        return self.condition(2) if self.chance(30) else self.comparison()

    def half_join(self, scope: dict[str, Columns]) -> tuple[str, str]:
        """LEFT SEMI or ANTI JOIN, and the same as EXISTS. Its range variable is not visible outside."""
        before = dict(scope)
        source = self.source(scope)
        (alias,) = scope.keys() - before.keys()
        shared = common(*scope.values()) if len(scope) == 2 else []
        semi = self.chance(50)
        word = f" {self.pick(['LEFT ', '']) if semi else 'LEFT '}{'SEMI' if semi else 'ANTI'} JOIN {source}"
        if shared and self.chance(35):
            column, (left,) = self.pick(shared), before
            spark, plain = f"{word} USING ({column})", f"{left}.{column} = {alias}.{column}"
        else:
            plain = self.tie(before, alias) if self.chance(70) else self.on()
            plain = f"{plain} AND {self.nested(2)}" if self.chance(35) else plain
            spark = f"{word} ON {plain}"
        del scope[alias]
        return spark, f"{'' if semi else 'NOT '}EXISTS (SELECT 1 FROM {source} WHERE {plain})"

    def source(self, scope: dict[str, Columns]) -> str:
        """A table, a common table expression, or a derived table, under a new alias in ``scope``."""
        choice = self.random.randrange(100)
        if self.ctes and choice < 55:
            name = self.pick(list(self.ctes))
            alias = self.fresh(name, scope)
            scope[alias] = self.ctes[name]
            return f"{name} {self.pick(['AS ', ''])}{alias}"
        if choice > 74 and self.spend():
            return self.derived(scope)
        if choice < 6:
            return self.values(scope)
        table = self.pick(TABLES)
        alias = self.fresh(table, scope)
        scope[alias] = TABLE
        return table if alias == table else f"{table} {self.pick(['AS ', ''])}{alias}"

    def derived(self, scope: dict[str, Columns]) -> str:
        alias = self.fresh("", scope)
        if self.chance(10):
            table = self.pick(TABLES)
            scope[alias] = TABLE
            return f"(SELECT {self.pick(['', 'DISTINCT '])}* FROM {table}) AS {alias}"
        kinds = self.signature()
        names, listed = self.names(len(kinds)), self.chance(35)
        inner = [differs(f"i{n}", name) for n, name in enumerate(names)] if listed else names
        text = self.closed(lambda: self.with_ctes(8, lambda: self.rows(kinds, inner, sets=40)))
        scope[alias] = by_kind(kinds, names)
        return f"({text}) AS {alias}" + (differs(f"({', '.join(names)})", "") if listed else "")

    def values(self, scope: dict[str, Columns]) -> str:
        alias = self.fresh("", scope)
        kinds = self.signature()
        names = self.names(len(kinds))
        scope[alias] = by_kind(kinds, names)
        text = self.constants(kinds)
        shown = f"VALUES {text}" if self.chance(50) else f"(VALUES {text})"
        spark = f"{shown} AS {alias}({', '.join(names)})"
        return differs(spark, f"({plain_constants(text, names)}) AS {alias}")

    def names(self, count: int) -> list[str]:
        return self.random.sample(NAMES, count)

    def constants(self, kinds: Signature) -> str:
        """Rows of VALUES; the first has no NULL, so that each column has a type."""
        rows = [[self.constant(kind) for kind in kinds]]
        for _ in range(self.pick([0, 1, 2])):
            rows.append(["NULL" if self.chance(10) else self.constant(kind) for kind in kinds])
        return ", ".join(f"({'; '.join(row)})" for row in rows).replace("; ", ", ")

    # --- subqueries

    def subquery(self) -> str:
        if len(self.scopes) >= 4 or not self.spend():
            return self.comparison()
        word = self.pick(["", "NOT "])
        if self.chance(60):
            return f"{word}EXISTS ({self.with_ctes(8, self.body)})"
        kind = self.pick(KINDS)
        value = self.value(kind)
        return f"{value} {word}IN ({self.with_ctes(8, lambda: self.rows([kind], ['c0'], sets=18, tied=50))})"

    def body(self) -> str:
        """What EXISTS asks of."""
        if self.chance(20):
            kinds = self.signature(2)
            return self.rows(kinds, [f"c{n}" for n in range(len(kinds))], sets=90, tied=65)
        around = self.visible()
        tables, half_joins = self.tables()
        parts = [self.tie(around)] if self.chance(65) else []
        if not self.chance(35 if parts else 10):
            parts.append(self.nested(self.pick([1, 1, 2, 3])))
        self.scopes.pop()
        return f"SELECT {self.pick(['1', '*'])} {from_where(tables, half_joins, parts)}"

    def tie(self, around: dict[str, Columns], alias: str | None = None) -> str:
        """An equality between a range variable of this SELECT and one around it."""
        own = {alias: self.scopes[-1][alias]} if alias else self.scopes[-1]
        around = {name: columns for name, columns in around.items() if name not in own} or own
        kind = self.pick(KINDS[:3])
        sides = [
            f"{name}.{self.pick(columns[kind])}"
            for name, columns in (self.pick(list(own.items())), self.pick(list(around.items())))
            if columns.get(kind)
        ]
        return " = ".join(sides) if len(sides) == 2 else self.comparison()


def by_kind(kinds: Signature, names: Sequence[str]) -> Columns:
    """Columns of a derived relation."""
    return {kind: [name for own, name in zip(kinds, names, strict=True) if own == kind] for kind in kinds}


def common(left: Columns, right: Columns) -> list[str]:
    """The columns that two range variables have under one name, of one kind."""
    return sorted({name for kind in left for name in left[kind] if name in right.get(kind, ())})


def from_where(tables: str, half_joins: Sequence[str], parts: Sequence[str]) -> str:
    """FROM and WHERE; semi-joins and anti-joins are conditions in the plain spelling only."""
    text = f"FROM {tables}"
    if parts:
        return f"{text} WHERE {''.join(differs('', f'{half} AND ') for half in half_joins)}{' AND '.join(parts)}"
    return text + (differs("", f" WHERE {' AND '.join(half_joins)}") if half_joins else "")


def in_parentheses(text: str) -> str:
    """An arm of a set operation in parentheses, which SQLite takes only as a derived table."""
    return f"{differs('(', 'SELECT * FROM (')}{text}{differs(')', ') AS arm')}"


def plain_constants(rows: str, names: Sequence[str] = ()) -> str:
    """Rows of VALUES as SELECTs."""
    parts = rows[1:-1].split("), (")
    shown = [", ".join(f"{v} AS {n}" for v, n in zip(parts[0].split(", "), names, strict=True)) if names else parts[0]]
    return " UNION ALL ".join(f"SELECT {part}" for part in [*shown, *parts[1:]])


def query(chance: random.Random) -> Text:
    """A random query."""
    return spelled(Writer(chance, chance.randrange(7)).top())
