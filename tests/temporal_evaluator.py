"""Evaluate temporal expressions literally by the paper's definitions (sections 3.2, 4.2.2, 5), to check the laws of
view maintenance. A relation is a dict from rows to sets of instants. The module does not use periods, deltas or the
derivation.

Instants are small nonnegative integers. A timestamp contains NOW if it contains t_now (definition 3.1).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from functools import reduce
from itertools import product
from typing import Any

from weft.algebra.relation import Grouped, Measure, Project, Scan, Select, Union, Values
from weft.algebra.scalar import Call, Case, Cast, ColumnRef, Literal, Now, Param, PeriodOf, Scalar
from weft.algebra.temporal import (
    Deleted,
    Difference,
    Extension,
    Fragment,
    Inserted,
    Selection,
    Semijoin,
    Temporal,
    attributes,
    inputs,
)

Row = tuple[Any, ...]
Rows = dict[Row, frozenset[int]]
Env = dict[Any, Any]


def tidy(rows: Mapping[Row, Any]) -> Rows:
    return {row: frozenset(instants) for row, instants in rows.items() if instants}


def union(left: Rows, right: Rows) -> Rows:
    return {row: left.get(row, frozenset()) | right.get(row, frozenset()) for row in left | right}


def less(left: Rows, right: Rows) -> Rows:
    return tidy({row: instants - right.get(row, frozenset()) for row, instants in left.items()})


def shared(left: Rows, right: Rows) -> Rows:
    return tidy({row: instants & right.get(row, frozenset()) for row, instants in left.items()})


def later(rows: Rows, then: int, now: int) -> Rows:
    """Apply ψ: return the relation at ``now`` if nothing has changed since ``then``."""
    more = frozenset(range(then + 1, now + 1))
    return {row: instants | more if then in instants else instants for row, instants in rows.items()}


class Database:
    """Scan relations by table name, their deltas, and the instants at which the tests compare expressions."""

    def __init__(
        self,
        now: int,
        tables: Mapping[str, Rows],
        deleted: Mapping[str, Rows] | None = None,
        inserted: Mapping[str, Rows] | None = None,
        params: Mapping[str, int] | None = None,
    ) -> None:
        self.now, self.tables = now, tables
        self.deleted, self.inserted, self.params = deleted or {}, inserted or {}, params or {}
        self._known: dict[Temporal, Rows] = {}

    def value(self, relation: Temporal | None) -> Rows:
        if relation is None:
            return {}
        known = self._known.get(relation)
        if known is None:
            known = self._known[relation] = self._evaluate(relation)
        return known

    def _evaluate(self, relation: Temporal) -> Rows:
        match relation:
            case Scan(table=table):
                return self.tables[table.name]
            case Deleted(base=base):
                return self.deleted.get(base.table.name, {})
            case Inserted(base=base):
                return self.inserted.get(base.table.name, {})
            case Values(rows=rows):
                always = frozenset(range(self.now + 1))
                return {tuple(self.scalar(value, {}) for value in row): always for row in rows}
            case _:
                return self._operator(relation)

    def _operator(self, relation: Temporal) -> Rows:
        match relation:
            case Union(inputs=parts):
                return reduce(union, map(self.value, parts))
            case Difference(left=left, right=right):
                return less(self.value(left), self.value(right))
            case Semijoin():
                return self._semijoin(relation)
            case Select():
                return self._join(relation)
            case Project(input=inner, outputs=outputs):
                return self._projected(inner, [output.value for output in outputs])
            case Fragment(input=inner, since=since):
                first = self.scalar(since, {})
                return tidy({row: {t for t in at if t >= first} for row, at in self.value(inner).items()})
            case Extension():
                return self._extended(relation)
            case Grouped():
                return self._aggregated(relation)
            case _:
                raise AssertionError(relation)

    def _projected(self, inner: Temporal, values: list[Scalar]) -> Rows:
        env, made = self._envs(inner), dict[Row, frozenset[int]]()
        for row, at in self.value(inner).items():
            new = tuple(self.scalar(value, env(row, at)) for value in values)
            made[new] = made.get(new, frozenset()) | at
        return made

    def _envs(self, relation: Temporal) -> Callable[[Row, frozenset[int]], Env]:
        names = attributes(relation)
        scans = {name.scan for name in names}
        return lambda row, at: dict(zip(names, row, strict=True)) | dict.fromkeys(scans, at)

    def _semijoin(self, relation: Semijoin) -> Rows:
        left, right = attributes(relation.left), attributes(relation.right)
        ours = [left.index(pair[0]) for pair in relation.on]
        theirs = [right.index(pair[1]) for pair in relation.on]
        keys = {tuple(row[place] for place in theirs) for row in self.value(relation.right)}
        return {row: at for row, at in self.value(relation.left).items() if tuple(row[place] for place in ours) in keys}

    def _join(self, relation: Selection) -> Rows:
        made: dict[Row, frozenset[int]] = {}
        envs = [self._envs(part) for part in inputs(relation)]
        for chosen in product(*(self.value(part).items() for part in inputs(relation))):
            at = frozenset.intersection(*(instants for _, instants in chosen))
            if not at:
                continue
            env = {key: value for make, pair in zip(envs, chosen, strict=True) for key, value in make(*pair).items()}
            if self.scalar(relation.predicate, env) is True:
                made[tuple(value for row, _ in chosen for value in row)] = at
        return made

    def _extended(self, relation: Extension) -> Rows:
        window = self.scalar(relation.window, {})
        judged = self.now if relation.at is None else self.scalar(relation.at, {})
        made = {}
        for row, at in self.value(relation.input).items():
            held = {t + more for t in at if t <= judged for more in range(window + 1) if t + more <= judged}
            made[row] = held | set(range(judged + 1, self.now + 1)) if judged in held else held
        return tidy(made)

    def _aggregated(self, relation: Grouped) -> Rows:
        env, made = self._envs(relation.input), dict[Row, set[int]]()
        given = self.value(relation.input)
        for t in range(self.now + 1):
            groups: dict[Row, list[Env]] = {} if relation.groups else {(): []}
            for row, at in given.items():
                if t in at:
                    here = env(row, at)
                    groups.setdefault(tuple(self.scalar(out.value, here) for out in relation.groups), []).append(here)
            for group, members in groups.items():
                values = (self._measured(each, members) for each in relation.measures)
                made.setdefault((*group, *values), set()).add(t)
        return tidy(made)

    def _measured(self, measure: Measure, members: list[Env]) -> Any:
        rows = [(1 if measure.argument is None else self.scalar(measure.argument, env), env) for env in members]
        if measure.by is not None:
            known = [(by, value) for value, env in rows if (by := self.scalar(measure.by, env)) is not None]
            best = max((by for by, _ in known), default=None)
            return min((value for by, value in known if by == best and value is not None), default=None)
        values = [value for value, _ in rows if value is not None]
        if measure.distinct:
            values = list(set(values))
        match measure.function:
            case "count":
                return len(values)
            case "sum":
                return sum(values) if values else None
            case "avg":
                return sum(values) / len(values) if values else None
            case "median":
                return statistics.median(values) if values else None
            case "min":
                return min(values, default=None)
            case _:
                return max(values, default=None)

    def scalar(self, scalar: Scalar, env: Env) -> Any:
        match scalar:
            case ColumnRef():
                return env[scalar]
            case Literal(value=value):
                return value
            case Now():
                return self.now
            case Param(name=name):
                return self.params[name]
            case PeriodOf(scan=scan, at=at):
                limit = self.now if at is None else self.scalar(at, env)
                return frozenset(t for t in env[scan] if t <= limit)
            case Cast(arg=arg):
                return self.scalar(arg, env)
            case Case(branches=branches, default=default):
                for test, then in branches:
                    if self.scalar(test, env) is True:
                        return self.scalar(then, env)
                return None if default is None else self.scalar(default, env)
            case Call(name=name, args=args):
                return called(name, [self.scalar(arg, env) for arg in args])


def called(name: str, args: list[Any]) -> Any:
    match name:
        case "and":
            return False if False in args else None if None in args else True
        case "or":
            return True if True in args else None if None in args else False
        case "<=>":
            return args[0] == args[1]
        case "is null":
            return args[0] is None
        case "coalesce":
            return next((value for value in args if value is not None), None)
    if None in args:
        return None
    return _STRICT[name](*args)


_STRICT: dict[str, Callable[..., Any]] = {
    "not": lambda a: not a,
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "/": lambda a, b: a / b,
    "least": min,
    "period_start": min,
    "period_end": max,
    "period_length": len,
    "period_contains": lambda a, b: a >= b,
    "period_overlaps": lambda a, b: bool(a & b),
    # Calendar arithmetic represents any monotonic function. A year has ten instants.
    "add_months": lambda t, n: 10 * (t // 10) + n,
}
