"""Aggregates of values near the limits of their types, maintained over random histories, against a recomputation.

A maintained view must equal a recomputation from the rows of each instant, also after a sum overflowed its type and
fits again. The recomputation is exact: it uses Python's integers and fractions.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from oracle.view_courses import KEPT, Course, Held, Keeping, optimize, record, records
from weft.algebra.schema import DataType
from weft.planning.view_plan import bound_view
from weft.storage.temporal_sql import temporal_sql

LAST = 9
CASES = (1, pytest.param(6, marks=pytest.mark.slow))
"""Views of each type."""
INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
DECIMALS = ((4, 2), (18, 4), (28, 3), (29, 3), (38, 0), (38, 7), (38, 25), (38, 38))
TYPES = (*INTEGERS, *(f"DECIMAL({p},{s})" for p, s in DECIMALS), "FLOAT", "DOUBLE")
MEASURES = ("SUM(x)", "COUNT(x)", "COUNT(*)", "AVG(x)", "MIN(x)", "MAX(x)")
HAVING = ("", "", "COUNT(*) > 1", "COUNT(x) = 1", "SUM(x) > 0", "SUM(x) IS NULL", "MAX(x) > 0", "AVG(x) < 0")


def limits(type: str) -> list[Any]:
    """Values of a type: its greatest and least, about half of them, and small ones."""
    if type in INTEGERS:
        top = 2 ** (INTEGERS[type] - 1)
        return [top - 1, -top, top // 2, -top // 2, 1, -1, None]
    if type in ("FLOAT", "DOUBLE"):
        top = 3.0 * 2.0**126 if type == "FLOAT" else 1.7e308
        return [top, -top, top / 2, -top / 2, 1.0, -1.0, None]
    p, s = (int(part) for part in type[len("DECIMAL(") : -1].split(","))
    unscaled = (10**p - 1, 1 - 10**p, 10**p // 2, -(10**p) // 2, 10 ** (p - 1) + 7, 1, -1)
    return [*(Decimal((int(each < 0), tuple(map(int, str(abs(each)))), -s)) for each in unscaled), None]


@pytest.fixture(autouse=True)
def _planned_sooner() -> Iterator[None]:
    with temporal_sql(1) as sql:
        optimize(sql, wanted=False)
        yield
        optimize(sql, wanted=True)


@dataclass
class View:
    """A view over t (k, g, x), and its recomputation."""

    type: str
    measures: Sequence[str]
    grouped: bool
    window: int | None
    having: str

    def text(self) -> str:
        moving = [] if self.window is None else [f"MOVING_WINDOW(INTERVAL {self.window} MICROSECONDS)"]
        by = [*(["g"] if self.grouped else []), *moving]
        group, having = f" GROUP BY {', '.join(by)}" * bool(by), f" HAVING {self.having}" * bool(self.having)
        listed = [*(["g"] if self.grouped else []), *(f"{each} AS m{n}" for n, each in enumerate(self.measures))]
        return f"SELECT {', '.join(listed)} FROM t{group}{having}"

    def rows(self, held: Held, instant: int) -> set[tuple[Any, ...]]:
        """The rows of the view at an instant."""
        first = instant - (self.window or 0)
        groups: dict[Any, list[Any]] = {} if self.grouped else {None: []}
        for (_, g, x), at in held.items():
            if any(first <= each <= instant for each in at):
                groups.setdefault(g if self.grouped else None, []).append(x)
        return {
            (*([g] if self.grouped else []), *(self.measured(each, values) for each in self.measures))
            for g, values in groups.items()
            if self.demanded(values)
        }

    def demanded(self, values: list[Any]) -> bool:
        if not self.having:
            return True
        measure, sign, *bound = self.having.split()
        found = self.measured(measure, values)
        if sign == "IS":
            return found is None
        operators = {"<": lambda a, b: a < b, ">": lambda a, b: a > b, "=": lambda a, b: a == b}
        return found is not None and operators[sign](found, int(bound[0]))

    def measured(self, measure: str, values: list[Any]) -> Any:
        given = [each for each in values if each is not None]
        if measure.startswith("COUNT"):
            return len(values if measure == "COUNT(*)" else given)
        if not given:
            return None
        if measure in ("MIN(x)", "MAX(x)"):
            return min(given) if measure == "MIN(x)" else max(given)
        return self.added(given) if measure == "SUM(x)" else self.average(given)

    def added(self, given: list[Any]) -> Any:
        if self.type in ("FLOAT", "DOUBLE"):
            return sum(sorted(given), 0.0)
        if self.type in INTEGERS:
            return sum(given) if -(2**63) <= sum(given) < 2**63 else None
        scale = int(self.type[:-1].split(",")[1])
        with localcontext(prec=60):
            total = sum(given, Decimal(0))
            return total if abs(total).scaleb(scale) < 10**38 else None

    def average(self, given: list[Any]) -> float:
        if self.type in ("FLOAT", "DOUBLE"):
            return sum(sorted(given), 0.0) / len(given)
        return float(sum(map(Fraction, given)) / len(given))


@dataclass
class Maintained(Keeping):
    """A view of these, maintained along a course of its table."""

    view: View = field(kw_only=True)

    def __post_init__(self) -> None:
        self.several = False
        self.tables = records({"t": {"k": "INT", "g": "INT", "x": self.view.type}})
        self.view_plan = bound_view(self.view.text(), {name: each.schema for name, each in self.tables.items()})
        self.own = record(KEPT, "kept", self.view_plan.columns)

    def found(self, t: int) -> dict[tuple[str, ...], set[int]]:
        """By row, as ``row_text``, the instants up to t at which it holds."""
        found: dict[tuple[str, ...], set[int]] = {}
        for row, periods in self.value(0).items():
            for start, end in periods:
                found.setdefault(row_text(row), set()).update(range(start, t + 1 if end is None else end))
        return found

    def recomputed(self, t: int) -> dict[tuple[str, ...], set[int]]:
        """The same by recomputation."""
        found: dict[tuple[str, ...], set[int]] = {}
        for instant in range(t + 1):
            for row in self.view.rows(self.courses[0].known[t]["t"], instant):
                found.setdefault(row_text(row), set()).add(instant)
        return found


def row_text(row: tuple[Any, ...]) -> tuple[str, ...]:
    """A row as texts, averages and floating sums to twelve digits."""
    return tuple(f"{each:.12g}" if isinstance(each, float) else repr(each) for each in row)


def course(type: str, chance: random.Random) -> Course:
    """Rows that come and end, up to six at once."""
    known: list[dict[str, Held]] = []
    held: Held = {}
    keys = count()
    for now in range(LAST + 1):
        open_rows = {row for row, at in held.items() if now - 1 in at and chance.random() < 0.65}
        for _ in range(chance.choice((0, 1, 1, 2)) if len(open_rows) < 5 else 0):
            open_rows.add((next(keys), chance.choice((1, 1, 2)), chance.choice(limits(type))))
        held = {row: held.get(row, set()) | ({now} if row in open_rows else set()) for row in {*held, *open_rows}}
        known.append({"t": held})
    return Course(known, 0)


def drawn(type: str, chance: random.Random) -> View:
    measures = chance.sample(MEASURES, chance.choice((1, 2, 3, 3, 4)))
    return View(type, measures, chance.random() < 0.6, chance.choice((None, None, 1, 2)), chance.choice(HAVING))


def along(view: View, chance: random.Random, folder: Path) -> Counter[str]:
    """Compare the view at a few instants of a course, and count its properties."""
    kept = Maintained(None, [course(view.type, chance)], folder, view=view)  # type: ignore[arg-type]
    counts: Counter[str] = Counter()
    for t in [*sorted(chance.sample(range(LAST), 2)), LAST]:
        kept.refresh(t)
        found, expected = kept.found(t), kept.recomputed(t)
        assert found == expected, f"at {t}: {view.text()} over {view.type}\n{kept.courses[0].known[t]['t']}"
        counts["rows"] += len(found)
        counts["NULL"] += any("None" in row for row in found)
    return counts


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("type", TYPES)
def test_random_aggregates_are_as_recomputed(type: str, cases: int, tmp_path: Path) -> None:
    chance, counts = random.Random(type), Counter[str]()
    for number in range(cases):
        place = tmp_path / str(number)
        place.mkdir()
        counts += along(drawn(type, chance), chance, place)
    assert counts["rows"] > cases


@pytest.mark.parametrize(("window", "having"), ((None, "SUM(x) > 0"), (1, ""), (1, "COUNT(*) > 1")))
@pytest.mark.parametrize("type", ("BIGINT", "DECIMAL(28,3)", "DECIMAL(38,7)"))
def test_a_sum_that_did_not_fit_fits_again(type: str, window: int | None, having: str, tmp_path: Path) -> None:
    view = View(type, ("SUM(x)", "COUNT(x)", "COUNT(*)"), True, window, having)
    chance, counts = random.Random(f"{type}{window}{having}"), Counter[str]()
    counts += along(view, chance, tmp_path)
    assert counts["rows"]


def test_the_columns_are_typed_as_documented() -> None:
    tables = records({"t": {"k": "INT", "g": "INT", "x": "DECIMAL(30,2)"}})
    view_plan = bound_view("SELECT SUM(x) AS s FROM t", {name: each.schema for name, each in tables.items()})
    assert view_plan.columns == (("s", DataType("DECIMAL", 38, 2)),)
