"""Random temporal relations, views over them, and changes, for testing the laws of view maintenance."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from shown_temporal import tracked
from temporal_evaluator import Rows, tidy
from weft.algebra.relation import Grouped, Join, Measure, Output, Project, Scan, Select, Values
from weft.algebra.scalar import Call, ColumnRef, Literal, Now, PeriodOf, Scalar, call
from weft.algebra.schema import BIGINT, BOOLEAN, DOUBLE, INT, INTERVAL, TIMESTAMP, Column
from weft.algebra.temporal import Difference, Extension, Temporal, attributes, union

TABLES: Final = (tracked(1, "R", "k", "v"), tracked(2, "S", "k", "v"), tracked(3, "U", "k", "w"))
VALUES: Final = (0, 1, 2, None)
YES: Final = Literal(True, BOOLEAN, fixed=True)


def span(length: int) -> Literal:
    return Literal(length, INTERVAL)


class Drawn:
    """A random generator with a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.used = 0

    def alias(self, name: str) -> str:
        self.used += 1
        return f"{name}{self.used}"

    def rows(self, now: int, first: int = 0) -> Rows:
        """Return a relation with two columns and instants from ``first`` to ``now``."""
        made: dict[tuple[int | None, ...], set[int]] = {}
        for _ in range(self.chance.randint(0, 4)):
            row = (self.chance.choice(VALUES), self.chance.choice(VALUES))
            low = self.chance.randint(first, now)
            made.setdefault(row, set()).update(range(low, self.chance.choice((now, self.chance.randint(low, now))) + 1))
        return tidy(made)

    def view(self, depth: int) -> Temporal:
        """Return a view with any number of columns."""
        if depth == 0:
            return self._leaf()
        operators = (self._selection, self._projection, self._join, self._union, self._difference)
        windows = (self._extension, self._aggregation, self._aggregation)
        drawn = self.chance.choice((*operators, *operators, *windows))
        return drawn(depth)

    def _leaf(self) -> Temporal:
        if self.chance.random() < 0.06:
            rows = tuple((Literal(n, INT), Literal(n + 1, INT)) for n in range(self.chance.randint(0, 2)))
            return Values(self.alias("c"), (Column(1, "k", INT), Column(2, "v", INT)), rows)
        table = self.chance.choice(TABLES)
        return Scan(table, self.alias(table.name.lower()))

    def _pair(self, depth: int) -> Temporal:
        """Return a view with the columns k and v."""
        inner = self.view(depth)
        refs = attributes(inner)
        if len(refs) == 2 and self.chance.random() < 0.5:
            return inner
        chosen = [self.chance.choice(refs) for _ in range(2)]
        outputs = tuple(Output(name, ref) for name, ref in zip("kv", chosen, strict=True))
        return Project(inner, self.alias("d"), outputs)

    def _union(self, depth: int) -> Temporal:
        return union(*(self._pair(depth - 1) for _ in range(self.chance.choice((2, 2, 3)))))

    def _difference(self, depth: int) -> Temporal:
        return Difference(self._pair(depth - 1), self._pair(depth - 1))

    def _extension(self, depth: int) -> Temporal:
        return Extension(self.view(depth - 1), span(self.chance.randint(0, 3)))

    def _projection(self, depth: int) -> Temporal:
        inner = self.view(depth - 1)
        refs = list(attributes(inner))
        outputs = [self.chance.choice(refs)]
        if self.chance.random() < 0.3:
            outputs = self.chance.sample(refs, len(refs))
        made = [Output(f"o{n}", ref) for n, ref in enumerate(outputs)]
        if self.chance.random() < 0.2:
            made.append(Output("x", Call("+", (self.chance.choice(refs), Literal(1, INT)), INT)))
        return Project(inner, self.alias("p"), tuple(made))

    def _selection(self, depth: int) -> Temporal:
        inner = self.view(depth - 1)
        return Select(inner, self._predicate(inner))

    def _join(self, depth: int) -> Temporal:
        parts = tuple(self._named(self.view(depth - 1)) for _ in range(self.chance.choice((2, 2, 2, 3))))
        tests = [
            call(self.chance.choice(("=", "=", "<=>")), self._column(one), self._column(other))
            for one, other in pairwise(parts)
            if self.chance.random() < 0.9
        ]
        if self.chance.random() < 0.5:
            tests.append(self._condition(parts, 1))
        predicate = YES if not tests else tests[0] if len(tests) == 1 else call("and", *tests)
        return Select(Join(parts), predicate)

    def _named(self, inner: Temporal) -> Temporal:
        """Return the view under one range variable, with at most three columns."""
        refs = attributes(inner)
        if len({ref.scan for ref in refs}) == 1 and len(refs) < 4:
            return inner
        return Project(inner, self.alias("n"), tuple(Output(f"n{i}", ref) for i, ref in enumerate(refs[:3])))

    def _aggregation(self, depth: int) -> Temporal:
        inner = self.view(depth - 1)
        if self.chance.random() < 0.5:
            inner = Extension(inner, span(self.chance.randint(0, 3)))
        alias, column = self.alias("a"), self._column(inner)
        groups = () if self.chance.random() < 0.3 else (Output("g", self._column(inner)),)
        floating = Call("+", (column, Literal(0.5, DOUBLE)), DOUBLE)
        choices = (
            ("count", None, BIGINT), ("count", column, BIGINT), ("sum", column, BIGINT), ("avg", column, DOUBLE),
            ("min", column, INT), ("max", column, INT), ("sum", floating, DOUBLE),
            ("count", column, BIGINT, True), ("sum", column, BIGINT, True), ("median", column, DOUBLE),
            ("max_by", column, INT, False, attributes(inner)[-1]),
        )  # fmt: skip
        chosen = self.chance.sample(choices, self.chance.choice((1, 1, 2)))
        measures = tuple(
            Measure(name, arg, ColumnRef(alias, f"m{n}", type), *rest)  # type: ignore[arg-type]
            for n, (name, arg, type, *rest) in enumerate(chosen)
        )
        return Grouped(inner, alias, groups, measures)

    def _column(self, inner: Temporal) -> ColumnRef:
        return self.chance.choice(attributes(inner))

    def _predicate(self, inner: Temporal) -> Scalar:
        return self._condition((inner,), 2)

    def _condition(self, parts: tuple[Temporal, ...], depth: int) -> Scalar:
        roll = self.chance.random()
        if depth and roll < 0.45:
            name = self.chance.choice(("and", "and", "or"))
            return call(name, *(self._condition(parts, depth - 1) for _ in range(2)))
        if depth and roll < 0.55:
            return call("not", self._condition(parts, depth - 1))
        return self.chance.choice((self._plain, self._timely, self._timely))(parts)

    def _compared(self, left: Scalar, right: Scalar) -> Scalar:
        return call(self.chance.choice(("=", "<>", "<", "<=", ">", ">=")), left, right)

    def _plain(self, parts: tuple[Temporal, ...]) -> Scalar:
        one = self._column(self.chance.choice(parts))
        other = self._column(self.chance.choice(parts))
        return self._compared(one, self.chance.choice((other, Literal(self.chance.choice(VALUES[:3]), INT))))

    def _timely(self, parts: tuple[Temporal, ...]) -> Scalar:
        """Return a comparison with NOW or a period set. In the selection of a join, it uses only one range variable."""
        single = [part for part in parts if len({ref.scan for ref in attributes(part)}) == 1]
        if not single:
            return self._compared(Now(), self._instant(parts))
        one, other = (PeriodOf(attributes(self.chance.choice(single))[0].scan) for _ in range(2))
        start, end = (Call(name, (one,), TIMESTAMP) for name in ("period_start", "period_end"))
        length = Call("period_length", (one,), INTERVAL)
        options: tuple[Callable[[], Scalar], ...] = (
            lambda: self._compared(start, self._now()),
            lambda: self._compared(end, self._now()),
            lambda: self._compared(end, self._now()),
            lambda: self._compared(length, span(self.chance.randint(1, 6))),
            lambda: self._compared(start, Call("period_end", (other,), TIMESTAMP)),
            lambda: self._compared(self._now(), self._instant(parts)),
            lambda: call(self.chance.choice(("period_contains", "period_overlaps")), one, other),
        )
        return self.chance.choice(options)()

    def _now(self) -> Scalar:
        roll = self.chance.random()
        if roll < 0.25:
            return Now()
        if roll < 0.4:
            return Call("add_months", (Now(), Literal(self.chance.randint(-6, 6), INT)), TIMESTAMP)
        return Call(self.chance.choice("--+"), (Now(), span(self.chance.randint(0, 5))), TIMESTAMP)

    def _instant(self, parts: tuple[Temporal, ...]) -> Scalar:
        column = self._column(self.chance.choice(parts))
        return self.chance.choice((Literal(self.chance.randint(0, 12), TIMESTAMP), column))

    def change(self, old: Rows, now: int, first: int) -> tuple[Rows, Rows]:
        """Return random ∇R and ΔR at instants from ``first`` to ``now``."""
        gone, came = {}, {}
        for row, at in old.items():
            if self.chance.random() < 0.4:
                gone[row] = {t for t in at if t >= self.chance.randint(first, now)}
        for row, at in self.rows(now, first).items():
            came[row] = at - (old.get(row, frozenset()) - frozenset(gone.get(row, ())))
            came[row] -= old.get(row, frozenset())
        return tidy(gone), tidy(came)
