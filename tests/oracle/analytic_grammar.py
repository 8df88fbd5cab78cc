"""Random queries with aggregates, outer joins, top-k, window functions and scalar subqueries.

The plain spelling is for DuckDB alone. Both spellings say where NULLs sort, because the engines' defaults differ. The
order of a window function or of LIMIT covers all columns that the query reads from a row, so that rows which the order
does not tell apart are equal.  Left out, since the engines differ and the laws have nothing to say about it: those that
``grammar`` leaves out, COUNT(DISTINCT a, b), which DuckDB does not have, COUNT_IF, which is NULL there without a value
(the plain spelling counts a CASE), and the empty grouping set, which has a row there without rows.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Final

from oracle.expressions import Columns, Kind
from oracle.grammar import KINDS, TABLE, TABLES, Signature, Writer, by_kind, from_where
from oracle.spelling import Text, differs, spelled

__all__ = ["AnalyticWriter", "analytic_query"]

ALL: Final = (("EXCEPT ALL", 1), ("INTERSECT ALL", 2))
RANKS: Final = ("ROW_NUMBER", "ROW_NUMBER", "RANK", "DENSE_RANK")
ORDERED: Final = ("=", "<", "<=", ">", ">=", "<>")
MOVED: Final = ("NOW()", *(f"NOW() - INTERVAL {n} MICROSECONDS" for n in (1, 2, 3)))
Chosen = list[tuple[str, Kind]]
"""Columns of FROM that a SELECT reads, and their kinds."""


class AnalyticWriter(Writer):
    """Writes one query.  Grouped and windowed SELECTs see no range variable around them, but for scalar subqueries."""

    def __init__(self, chance: random.Random, budget: int) -> None:
        super().__init__(chance, budget)
        self.combined = False
        """Whether the SELECT is an arm, whose columns the other arm has, too."""

    def top(self) -> str:
        kinds = self.signature()
        names = [f"c{n}" for n in range(len(kinds))]
        return self.with_ctes(15, lambda: self.rows(kinds, names, sets=12))

    def rows(self, kinds: Signature, names: Sequence[str], sets: int = 30, tied: int = 0) -> str:
        if not self.scopes and self.chance(13) and self.spend():
            text = super().rows(kinds, names, sets, tied)
            return text if " AS extra" in text else f"{text} {self.limit(names)}"  # the order covers all columns
        return super().rows(kinds, names, sets, tied)

    def set_operation(self, kinds: Signature, names: Sequence[str], tied: int) -> tuple[str, int]:
        self.combined = True
        if not self.chance(30):
            return super().set_operation(kinds, names, tied)
        word, binding = self.pick(ALL)
        left, right = (self.select(kinds, each, tied) for each in (names, [f"c{n}" for n in range(len(kinds))]))
        return f"{left} {word} {right}", binding

    def arm(self, kinds: Signature, names: Sequence[str], around: int, tied: int, *, left: bool) -> str:
        if self.chance(85):
            return self.select(kinds, names, tied)
        return super().arm(kinds, names, around, tied, left=left)

    def select(self, kinds: Signature, names: Sequence[str], tied: int = 0) -> str:
        if self.scopes:
            if self.chance(25):
                return self.closed(lambda: self.grouped(kinds, names))
            return super().select(kinds, names, tied)
        choice = self.random.randrange(100)
        if choice < 5 and self.spend():
            return self.pivoted(kinds, names)
        if choice < 38:
            return self.grouped(kinds, names)
        if choice < 54:
            return self.windowed(kinds, names)
        if choice < 64 and self.spend():
            return self.ranked(kinds, names)
        return super().select(kinds, names, tied)

    def output(self, kind: Kind) -> str:
        if kind in ("integer", "string") and self.chance(10) and self.spend():
            return self.scalar_subquery(kind)
        return super().output(kind)

    # --- FROM

    def tables(self) -> tuple[str, list[str]]:
        if self.scopes or not self.chance(33):
            text, half_joins = super().tables()
            if len(self.scopes) == 1 and self.chance(9):
                text += self.lateral() if self.chance(50) else self.exploded()
            return text, half_joins
        scope: dict[str, Columns] = {}
        self.scopes.append(scope)
        text = self.joined(scope) if self.chance(6) else self.source(scope)
        while True:
            text += self.outer_join(scope)
            if len(scope) > 2 or not self.chance(25):
                return text, []

    def outer_join(self, scope: dict[str, Columns]) -> str:
        before = dict(scope)
        word = self.pick(["LEFT JOIN", "LEFT OUTER JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "FULL OUTER JOIN"])
        source = self.joined(scope) if self.chance(9) else self.source(scope)
        return f" {word} {source} ON {self.on_new(before)}"

    def joined(self, scope: dict[str, Columns]) -> str:
        """A join in parentheses, whose ON sees none of the other tables of FROM."""
        before = dict(scope)
        word = self.pick(["JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        table = self.pick(TABLES)
        alias = self.fresh("", scope)
        scope[alias] = TABLE
        source = self.joined(scope) if self.chance(15) else self.source(scope)
        self.scopes[-1] = {name: columns for name, columns in scope.items() if name not in before}
        text = f"({table} AS {alias} {word} {source} ON {self.on_new({alias: TABLE})})"
        self.scopes[-1] = scope
        return f"({text})" if self.chance(10) else text

    def on_new(self, before: dict[str, Columns]) -> str:
        """A condition that ties one of the tables that are new in FROM to those before."""
        condition = self.tie(before, self.pick([name for name in self.scopes[-1] if name not in before]))
        if condition == "NULL" or self.chance(25):
            condition = f"{condition} AND {self.pick([self.comparison, self.now])()}"
        return condition

    def lateral(self) -> str:
        """A derived table that refers to a range variable before it; ``scopes`` has that of FROM."""
        scope, kinds = self.scopes[-1], [self.pick(KINDS)]
        outer = [(f"{alias}.{name}", kind) for alias, named in scope.items() for kind in named for name in named[kind]]
        table, (value, kind) = self.pick(["m", "r", "u"]), self.pick(outer)
        inner = {"integer": "k", "string": "x", "instant": "ts", "flag": "f"}[kind]
        alias, own = self.fresh("", scope), f"w{self.count}"
        shown = {"integer": "n", "string": "x", "instant": "d", "flag": "f"}[kinds[0]]
        scope[alias] = {kinds[0]: ["v"]}
        return f", LATERAL (SELECT {own}.{shown} AS v FROM {table} AS {own} WHERE {own}.{inner} = {value}) AS {alias}"

    def exploded(self) -> str:
        """The parts of a text as rows."""
        scope = self.scopes[-1]
        value = self.column("string")
        if value is None or value.split(".")[0] not in scope:
            return ""
        alias = self.fresh("", scope)
        scope[alias] = {"string": ["part"]}
        outer = self.chance(30)
        listed = f"STRING_SPLIT({value}, 'b')"
        plain = f", LATERAL (SELECT UNNEST({f'COALESCE({listed}, [NULL])' if outer else listed}) AS part) AS {alias}"
        word = "LATERAL VIEW OUTER" if outer else "LATERAL VIEW"
        return differs(f" {word} EXPLODE(SPLIT({value}, 'b')) {alias} AS part", plain)

    # --- GROUP BY

    def grouped(self, kinds: Signature, names: Sequence[str]) -> str:
        tables, half_joins = self.tables()
        parts = [self.moving()] if self.chance(35) else []
        if self.chance(35):
            parts.append(self.nested(self.pick([1, 1, 2])))
        keys, every = self.keys(), self.chance(8)
        if every:
            keys = [key for key in keys if key[1] in kinds]
        values = [self.of_group(kind, keys, plain=every) for kind in kinds]
        shown = [f"{value} AS {name}" for value, name in zip(values, names, strict=True)]
        if not self.depth and not self.combined and self.chance(25):
            shown.append(f"{self.aggregate_of_top()} AS extra")
        text = f"SELECT {', '.join(shown)} {from_where(tables, half_joins, parts)}"
        by = "ALL" if every else self.group_by([key for key, _ in keys], values, names) if keys else ""
        text += f" GROUP BY {by}" if by else ""
        having = self.having(keys) if self.chance(35) else ""
        self.scopes.pop()
        if not re.match("ROLLUP|CUBE|GROUPING", by):
            return f"{text} HAVING {having}" if having else text
        plain = f" HAVING COUNT(*) > 0{f' AND ({having})' if having else ''}"  # the empty set has no group without rows
        return text + differs(f" HAVING {having}" if having else "", plain)

    def keys(self) -> Chosen:
        found: Chosen = []
        for _ in range(self.pick([0, 1, 1, 1, 2, 2])):
            kind = self.pick(KINDS[1:3]) if self.chance(85) else "instant"
            column = self.column(kind)
            if column is None or any(column in key for key, _ in found):
                continue
            if self.chance(20):
                made = {"integer": f"({column} + 1)", "string": f"UPPER({column})"}
                column = made.get(kind, f"{column} + INTERVAL 1 MICROSECOND")
            found.append((column, kind))
        return found

    def of_group(self, kind: Kind, keys: Chosen, *, plain: bool) -> str:
        fitting = [key for key, own in keys if own == kind]
        if fitting and self.chance(50):
            return self.pick(fitting)
        found = self.aggregate(kind)
        if kind == "integer" and not plain and self.chance(15):
            return f"{found} {self.pick(['+', '-'])} {self.pick(fitting) if fitting else self.aggregate(kind)}"
        return found

    def group_by(self, keys: Sequence[str], values: Sequence[str], names: Sequence[str]) -> str:
        if self.chance(15) and all("." in key and " " not in key and "(" not in key for key in keys):
            whole, parts = f"({', '.join(keys)})", [f"({keys[0]})", f"({keys[-1]})", "()"]
            some = ", ".join(dict.fromkeys([whole, *self.random.sample(parts, self.pick([1, 2]))]))
            return self.pick([f"ROLLUP({', '.join(keys)})", f"CUBE({', '.join(keys)})", f"GROUPING SETS ({some})"])
        shown = []
        for key in keys:
            place = values.index(key) if key in values else -1
            if place >= 0 and self.chance(35):
                by_name = names[place].startswith("c") and self.chance(50) and not self.is_column(names[place])
                shown.append(names[place] if by_name else str(place + 1))
            else:
                shown.append(key)
        return ", ".join(shown)

    def is_column(self, name: str) -> bool:
        """Whether a column of FROM has the name, which then means this column."""
        return any(name in named for columns in self.scopes[-1].values() for named in columns.values())

    def pivoted(self, kinds: Signature, names: Sequence[str]) -> str:
        """Aggregates for two values of a column: in Spark, COUNT is NULL for a value without rows beside numbers."""
        table, condition = self.pick(["m", "r", "u"]), self.pick(["", " WHERE f"])
        calls = {"c": "COUNT(*)", "s": self.pick(["SUM(n)", "MAX(n)", "COUNT(n)"])}
        if "instant" in kinds:
            calls["t"] = self.pick(["MIN(d)", "MAX(d)"])
        listed, plain = ", ".join(f"{call} AS {name}" for name, call in calls.items()), ["x"]
        for value, prefix in ((0, "a"), (1, "b")):
            for name, call in calls.items():
                own = f"{call} FILTER (WHERE k = {value})"
                some = f"CASE WHEN COUNT(*) FILTER (WHERE k = {value}) > 0 THEN {own} END"
                plain.append(f"{own if 't' in calls or 'COUNT' not in call else some} AS {prefix}_{name}")
        read = f"SELECT x, k, n{', d' if 't' in calls else ''} FROM {table}{condition}"
        alias = f"p{self.count}"
        self.count += 1
        source = differs(
            f"({read}) PIVOT ({listed} FOR k IN (0 AS a, 1 AS b)) AS {alias}",
            f"(SELECT {', '.join(plain)} FROM ({read}) AS i GROUP BY x) AS {alias}",
        )
        numbers = [f"{alias}.{prefix}_{name}" for prefix in "ab" for name in "cs"]
        of_kind = {"integer": numbers, "string": [f"{alias}.x"], "instant": [f"{alias}.a_t", f"{alias}.b_t"]}
        shown = [
            f"{self.pick(of_kind[kind]) if kind in of_kind else self.constant(kind)} AS {name}"
            for kind, name in zip(kinds, names, strict=True)
        ]
        where = f" WHERE {self.pick(numbers)} {self.pick(ORDERED)} {self.pick([1, 2])}" if self.chance(30) else ""
        return f"SELECT {', '.join(shown)} FROM {source}{where}"

    def of_delays(self) -> tuple[str, str]:
        """An aggregate of a difference of instants, and the same of microseconds."""
        first, second = self.column("instant"), self.column("instant")
        if first is None or second is None:
            return "MAX(INTERVAL 2 MICROSECONDS)", "MAX(2)"
        word = self.pick(["MIN", "MAX", "SUM", "MAX"])
        return f"{word}({first} - {second})", f"{word}(EPOCH_US({first}) - EPOCH_US({second}))"

    def having(self, keys: Chosen) -> str:
        choice = self.random.randrange(22)
        if choice >= 20:
            spark, plain = self.of_delays()
            compared, number = self.pick(ORDERED), self.random.randrange(4)
            found = differs(f"{spark} {compared} INTERVAL {number} MICROSECONDS", f"{plain} {compared} {number}")
        elif choice < 8:
            found = f"{self.aggregate('integer')} {self.pick(ORDERED)} {self.random.randrange(4)}"
        elif choice < 11:
            found = f"{self.aggregate('instant')} {self.pick(['<', '<=', '>', '>='])} {self.pick(MOVED)}"
        elif choice < 13:
            found = f"AVG({self.integer(1)}) {self.pick(['>', '<'])} {self.pick(['0.5', '1', '1.5'])}"
        elif choice < 15:
            found = f"{self.aggregate('string')} {self.pick(ORDERED)} {self.constant('string')}"
        elif choice < 17 and self.spend():
            inner = self.closed(lambda: self.scalar_subquery("integer"))
            found = f"{self.aggregate('integer')} {self.pick(ORDERED)} {inner}"
        elif keys:
            key, kind = self.pick(keys)
            found = f"{key} {self.pick(['=', '>=', '<>'])} {self.constant(kind)}"
        else:
            found = f"NOT ({self.aggregate('integer')} IS NULL)"
        if self.chance(25):
            return f"{found} {self.pick(['AND', 'OR'])} {self.aggregate('integer')} {self.pick(ORDERED)} 1"
        return found

    def moving(self) -> str:
        column = self.column("instant")
        if column is None:
            return self.now()
        return f"{column} {self.pick(['>', '>='])} NOW() - INTERVAL {self.pick([1, 2, 3, 5])} MICROSECONDS"

    # --- aggregates

    def anything(self) -> str:
        return self.value(self.pick(KINDS), 1)

    def counted(self) -> str:
        """A value whose aggregate tells rows apart: a column rather than a constant."""
        return self.column(self.pick(KINDS)) or self.anything()

    def filtered(self, text: str, condition: str = "") -> str:
        conditions = [condition] if condition else []
        spark = ""
        if self.chance(12):
            own = self.comparison()
            spark = f" FILTER (WHERE {own})"
            conditions.append(f"({own})")
        plain = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
        return text + (differs(spark, plain) if spark != plain else spark)

    def aggregate(self, kind: Kind) -> str:
        if kind == "integer":
            return self.integer_aggregate()
        value = self.column(kind) or self.constant(kind)
        if self.chance(75):
            return self.filtered(f"{self.pick(['MIN', 'MAX'])}({value})")
        return self.extreme_by(value)

    def integer_aggregate(self) -> str:
        choice = self.random.randrange(24)
        if choice < 6:
            return self.filtered("COUNT(*)")
        if choice < 9:
            return self.filtered(f"COUNT({self.counted()})")
        if choice < 11:
            return self.filtered(f"COUNT(DISTINCT {self.counted()})")
        if choice < 14:
            return self.filtered(f"SUM({self.integer(1)})")
        if choice < 15:
            return self.filtered(f"SUM(DISTINCT {self.column('integer') or '1'})")
        if choice < 18:
            return self.filtered(f"{self.pick(['MIN', 'MAX'])}({self.column('integer') or self.integer(1)})")
        if choice < 20:
            condition = self.comparison()
            return differs(f"COUNT_IF({condition})", f"COUNT(CASE WHEN {condition} THEN 1 END)")
        if choice < 21:
            return self.extreme_by(self.column("integer") or "1")
        if choice < 22:
            value = self.column("string") or "'a'"
            return self.pick(
                [
                    differs(f"SIZE(COLLECT_SET({value}))", f"COUNT(DISTINCT {value})"),
                    differs(f"SIZE(ARRAY_AGG({value}))", f"COUNT({value})"),
                ]
            )
        word, plain = self.pick([("BOOL_AND", "BOOL_AND"), ("BOOL_OR", "BOOL_OR"), ("EVERY", "BOOL_AND")])
        name = differs(word, plain) if word != plain else word
        return f"CASE WHEN {name}({self.comparison()}) THEN 1 ELSE 0 END"

    def extreme_by(self, value: str) -> str:
        by = self.column(self.pick(KINDS))
        word = self.pick(["MIN_BY", "MAX_BY"])
        if by is None or "." not in value:
            return f"{word[:3]}({value})"
        order = f"{by}{' DESC' if word == 'MAX_BY' else ''}, {value}"
        return differs(
            f"{word}({value}, {by})", f"FIRST({value} ORDER BY {order} NULLS LAST) FILTER (WHERE {by} IS NOT NULL)"
        )

    def aggregate_of_top(self) -> str:
        """An aggregate whose value no other part of the query reads: a DOUBLE or an ARRAY."""
        number = self.column("integer") or "2"
        double = (
            f"CASE WHEN {number} = 0 THEN CAST('NaN' AS DOUBLE) WHEN {self.comparison()} THEN CAST(0.1 AS DOUBLE) "
            f"ELSE CAST({number} AS DOUBLE) END"
        )
        choice = self.random.randrange(12)
        if choice >= 10:
            return differs(*self.of_delays())
        if choice < 3:
            return self.filtered(f"AVG({self.integer(1)})")
        if choice < 6:
            word = self.pick(["STDDEV", "STDDEV_SAMP", "STDDEV_POP", "VARIANCE", "VAR_SAMP", "VAR_POP"])
            return self.filtered(f"{word}({self.integer(1)})")
        if choice < 8:
            return self.filtered(f"{self.pick(['SUM', 'AVG', 'MIN', 'MAX'])}({double})")
        value = self.column(self.pick(KINDS[1:3])) or "1"
        spark, distinct = self.pick([("ARRAY_AGG", ""), ("COLLECT_LIST", ""), ("COLLECT_SET", "DISTINCT ")])
        plain = f"COALESCE(LIST({distinct}{value} ORDER BY {value}) FILTER (WHERE {value} IS NOT NULL), [])"
        return differs(f"{spark}({value})", plain)

    # --- scalar subqueries, ANY and ALL

    def scalar_subquery(self, kind: Kind) -> str:
        """A subquery with an aggregate, and equalities with the rows around where there are any.

        Some have no aggregate, but one distinct value.
        """
        around, scopes = self.visible(), self.scopes
        scope: dict[str, Columns] = {}
        self.scopes, self.depth = [scope], self.depth + 1
        source, parts = self.source(scope), []
        (alias,) = scope
        tied = [other for each, columns in around.items() if each != alias for other in named(each, columns, kind)]
        if tied and scope[alias].get(kind) and self.chance(20):
            value = f"{alias}.{self.pick(scope[alias][kind])}"
            parts = [f"{value} = {self.pick(tied)}", *([self.comparison()] if self.chance(40) else [])]
            self.scopes, self.depth = scopes, self.depth - 1
            return f"(SELECT DISTINCT {value} AS v {from_where(source, [], parts)})"
        if around and self.chance(70):
            parts += [self.equal_outside(alias, around) for _ in range(self.pick([1, 1, 1, 2]))]
        if self.chance(40):
            parts.append(self.pick([self.moving, self.comparison])())
        value = self.aggregate(kind)
        self.scopes, self.depth = scopes, self.depth - 1
        return f"(SELECT {value} AS v {from_where(source, [], parts)})"

    def equal_outside(self, alias: str, around: dict[str, Columns]) -> str:
        own = self.scopes[-1][alias]
        pairs = [
            f"{alias}.{self.pick(own[kind])} = {other}.{self.pick(columns[kind])}"
            for kind in KINDS[1:3]
            for other, columns in around.items()
            if other != alias and own.get(kind) and columns.get(kind)
        ]
        return self.pick(pairs) if pairs else "TRUE"

    def subquery(self) -> str:
        choice = self.random.randrange(100)
        if choice < 30 and len(self.scopes) < 3 and self.spend():
            kind = self.pick(["integer", "integer", "string"])
            return f"{self.value(kind, 1)} {self.pick(ORDERED)} {self.scalar_subquery(kind)}"  # type: ignore[arg-type]
        if choice < 42 and len(self.scopes) < 3 and self.spend():
            kind = self.pick(KINDS)
            inner = self.closed(lambda: self.rows([kind], ["c0"], sets=0))
            return f"{self.value(kind, 1)} {self.pick(ORDERED)} {self.pick(['ANY', 'ALL', 'ALL', 'SOME'])} ({inner})"
        return super().subquery()

    # --- ORDER BY, window functions

    def sort_key(self, value: str) -> str:
        direction = self.pick(["", "", " ASC", " DESC", " DESC"])
        if self.chance(25):
            return f"{value}{direction} NULLS {self.pick(['FIRST', 'LAST'])}"
        return f"{value}{direction}{differs('', ' NULLS LAST' if direction == ' DESC' else ' NULLS FIRST')}"

    def ordered(self, values: Sequence[str]) -> str:
        """An order by all of the values."""
        return ", ".join(self.sort_key(each) for each in self.random.sample(list(values), len(values)))

    def limit(self, names: Sequence[str]) -> str:
        offset = f" OFFSET {self.pick([1, 1, 2])}" if self.chance(30) else ""
        return f"ORDER BY {self.ordered(names)} LIMIT {self.pick([1, 2, 2, 3])}{offset}"

    def read(self) -> Chosen:
        """Some columns of FROM."""
        scope = self.scopes[-1]
        found = [(f"{alias}.{name}", kind) for alias, named in scope.items() for kind in named for name in named[kind]]
        distinct = list(dict.fromkeys(each for each in found if each[1] != "flag"))
        return self.random.sample(distinct, min(len(distinct), self.pick([2, 3, 3, 4]))) or [("1", "integer")]

    def windowed(self, kinds: Signature, names: Sequence[str]) -> str:
        tables, half_joins = self.tables()
        parts = [self.nested(self.pick([1, 1, 2]))] if self.chance(50) else []
        used = self.read()
        # Functions with different orders would number equal rows differently, and SQL does not say which numbers meet.
        partition, total = self.partition(used), self.ordered([value for value, _ in used])
        values = [self.of_window(kind, used, partition, total, always=n == 0) for n, kind in enumerate(kinds)]
        shown = ", ".join(f"{value} AS {name}" for value, name in zip(values, names, strict=True))
        qualify = f" QUALIFY {self.rank(used, partition, total)} <= {self.pick([1, 1, 2])}" if self.chance(20) else ""
        self.scopes.pop()
        return f"SELECT {shown} {from_where(tables, half_joins, parts)}{qualify}"

    def partition(self, used: Chosen) -> str:
        some = [value for value, kind in used if kind in ("integer", "string")] or [used[0][0]]
        if self.chance(20):
            return ""
        return f"PARTITION BY {', '.join(self.random.sample(some, min(len(some), self.pick([1, 1, 2]))))} "

    def rank(self, used: Chosen, partition: str, order: str) -> str:
        word = self.pick(RANKS)
        values = [value for value, _ in used]
        few = self.ordered(self.random.sample(values, min(len(values), self.pick([1, 2]))))
        return f"{word}() OVER ({partition}ORDER BY {order if word == 'ROW_NUMBER' else few})"

    def of_window(self, kind: Kind, used: Chosen, partition: str, order: str, *, always: bool) -> str:
        """A window function.  ``order`` is an order by all columns that the query uses."""
        fitting = [value for value, own in used if own == kind]
        if fitting and not always and self.chance(60):
            return self.pick(fitting)
        total = f"({partition}ORDER BY {order}"
        if not fitting and kind != "integer":
            return f"MIN({self.constant(kind)}) OVER ({partition.strip()})"
        choice = self.random.randrange(12)
        if fitting and choice < 5:
            value = self.pick(fitting)
            moved = self.pick(["", ", 1", ", 2", f", 1, {self.constant(kind)}", f", 2, {self.constant(kind)}"])
            word = self.pick(["LAG", "LEAD"])
            return f"{self.skipping(f'{word}({value}{moved}')} OVER {total})"
        if fitting and choice < 8:
            value = self.pick(fitting)
            if self.chance(15):
                frame = self.pick(["", " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING"])
                return f"{self.skipping(f'NTH_VALUE({value}, 2', always=True)} OVER {total}{frame})"
            call = self.pick([f"FIRST_VALUE({value}", f"LAST_VALUE({value}"])
            call = self.skipping(call) if self.chance(70) else f"NTH_VALUE({value}, 2)"
            return f"{call} OVER {total}{self.frame()})"
        if kind == "integer" and choice < 10:
            return self.rank(used, partition, order)
        return self.running(kind, used, partition, total)

    def skipping(self, call: str, *, always: bool = False) -> str:
        """A call without its last parenthesis, which skips NULLs now and then: DuckDB says so inside."""
        if always or self.chance(25):
            return differs(f"{call}) IGNORE NULLS", f"{call} IGNORE NULLS)")
        return f"{call}{self.pick(['', '', differs(' RESPECT NULLS', '')])})"

    def running(self, kind: Kind, used: Chosen, partition: str, total: str) -> str:
        """An aggregate OVER the whole partition, a frame of rows, or a frame of values."""
        fitting = [value for value, own in used if own == kind]
        call = self.pick(["COUNT(*)", f"COUNT({self.pick(used)[0]})"])
        if fitting and (kind != "integer" or self.chance(60)):
            words = ["SUM", "MIN", "MAX"] if kind == "integer" else ["MIN", "MAX"]
            call = f"{self.pick(words)}({self.pick(fitting)})"
        choice, ranged = self.random.randrange(3), [each for each in used if each[1] in ("integer", "instant")]
        if choice == 0:
            return f"{call} OVER ({partition.strip()})"
        if choice == 1 or not ranged:
            return f"{call} OVER {total}{self.frame()})"
        value, own = self.pick(ranged)
        unit = "INTERVAL {} MICROSECONDS" if own == "instant" else "{}"
        before, after = unit.format(self.pick([1, 2])), unit.format(self.pick([1, 2]))
        frames = [
            f"BETWEEN {before} PRECEDING AND CURRENT ROW",
            f"BETWEEN {before} PRECEDING AND {after} FOLLOWING",
            "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
        ]
        return f"{call} OVER ({partition}ORDER BY {self.sort_key(value)} RANGE {self.pick(frames)})"

    def frame(self) -> str:
        number = self.pick([1, 1, 2])
        return self.pick(
            [
                "",
                " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                f" ROWS BETWEEN {number} PRECEDING AND CURRENT ROW",
                f" ROWS BETWEEN {number} PRECEDING AND {number} FOLLOWING",
                " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
                f" ROWS {number} PRECEDING",
            ]
        )

    def ranked(self, kinds: Signature, names: Sequence[str]) -> str:
        """A rank in a derived table, compared with a constant."""
        tables, half_joins = self.tables()
        parts = [self.nested(self.pick([1, 1, 2]))] if self.chance(50) else []
        used = self.read()
        inner = ", ".join(f"{value} AS v{n}" for n, (value, _) in enumerate(used))
        rank = self.rank(used, self.partition(used), self.ordered([value for value, _ in used]))
        self.scopes.pop()
        text = f"SELECT {inner}, {rank} AS place {from_where(tables, half_joins, parts)}"
        alias = f"t{self.count}"
        self.count += 1
        own = [kind for _, kind in used]
        self.scopes.append({alias: by_kind(own, [f"v{n}" for n in range(len(used))])})
        shown = ", ".join(
            f"{self.column(kind) or self.constant(kind)} AS {name}" for kind, name in zip(kinds, names, strict=True)
        )
        number = self.pick([1, 1, 2])
        conditions = [
            self.pick([f"{alias}.place <= {number}", f"{alias}.place = {number}", f"{alias}.place < {number + 1}"])
        ]
        if self.chance(25):
            conditions.append(self.comparison())
        self.scopes.pop()
        return f"SELECT {shown} FROM ({text}) AS {alias} WHERE {' AND '.join(conditions)}"


def named(alias: str, columns: Columns, kind: Kind) -> list[str]:
    """The columns of a range variable that have a kind."""
    return [f"{alias}.{name}" for name in columns.get(kind, ())]


def analytic_query(chance: random.Random) -> Text:
    """A random query with at least one of the constructs, most of the time."""
    return spelled(AnalyticWriter(chance, chance.choice((0, 0, 1, 1, 2, 2, 3, 4))).top())
