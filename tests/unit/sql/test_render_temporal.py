"""The SQL of temporal relations: operators that no view's text has, steps, types, the calendar."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from temporal_values import Histories, Value, day, leaf_name, tracked
from weft.algebra.relation import Join, Output, Project, Scan, Select, Values
from weft.algebra.scalar import Literal, Now, Param, PeriodOf, call
from weft.algebra.schema import BIGINT, BOOLEAN, INT, INTERVAL, TIMESTAMP
from weft.algebra.temporal import (
    Deleted,
    Difference,
    Extension,
    Fragment,
    Inserted,
    Semijoin,
    Temporal,
    attributes,
)
from weft.derivation.temporal.sequenced import sequenced
from weft.errors import DerivationError
from weft.sql.lower.query import bind_view
from weft.sql.rendering.render_temporal import Evaluation, value_sql, value_steps

LAST = 12
R = tracked(1, "r", k="INT", x="STRING")
S = tracked(2, "s", k="INT", x="STRING")
BASE_R, BASE_S = Scan(R, "r"), Scan(S, "s")
Held = dict[tuple[Any, ...], set[int]]


def home() -> Histories:
    made = Histories([R, S])
    for name, table in (("deleted_r", R), ("inserted_r", R)):
        made.tables[name] = table
        made.create(name, table)
    return made


def drawn(chance: random.Random) -> Held:
    rows = {(chance.choice([0, 1, None]), chance.choice(["a", "b", None])) for _ in range(4)}
    return {row: set(chance.sample(range(LAST + 1), chance.randint(1, 8))) for row in rows}


def stored(held: Held) -> list[tuple[Any, ...]]:
    return [(*row, *period) for row, instants in held.items() for period in spans(instants)]


def spans(instants: set[int]) -> list[tuple[int, int | None]]:
    starts = sorted(each for each in instants if each - 1 not in instants)
    ends = sorted(each + 1 for each in instants if each + 1 not in instants)
    return [(start, None if end == LAST + 1 else end) for start, end in zip(starts, ends, strict=True)]


def shown(held: Held) -> Value:
    return {row: spans(instants) for row, instants in held.items() if instants}


@pytest.mark.parametrize("number", range(25))
def test_operators_of_maintenance(number: int) -> None:
    """⋉, FR, EX_w as of an instant, ∇ and Δ, against sets of instants."""
    chance = random.Random(number)
    r, s = drawn(chance), drawn(chance)
    made = home()
    made.load({"r": stored(r), "s": stored(s), "deleted_r": stored(s), "inserted_r": stored(r)})
    (k, x), (other_k, other_x) = attributes(BASE_R), attributes(BASE_S)
    agreeing = {key[0] for key in s}
    assert made.value(Semijoin(BASE_R, BASE_S, ((k, other_k),)), LAST) == shown(
        {row: instants for row, instants in r.items() if row[0] in agreeing}
    )
    assert made.value(Semijoin(BASE_R, BASE_S, ((k, other_k), (x, other_x))), LAST) == shown(
        {row: instants for row, instants in r.items() if row in s}
    )
    since = chance.randint(0, LAST + 1)
    assert made.value(Fragment(BASE_R, Literal(since, TIMESTAMP)), LAST) == shown(
        {row: {each for each in instants if each >= since} for row, instants in r.items()}
    )
    assert made.value(Deleted(BASE_R), LAST) == shown(s)
    changed = Difference(Inserted(BASE_R), Deleted(BASE_R))
    assert made.value(changed, LAST) == shown({row: instants - s.get(row, set()) for row, instants in r.items()})


@pytest.mark.parametrize("number", range(25))
def test_extension_as_of_an_earlier_instant(number: int) -> None:
    """What holds at ``at`` is open, and goes on until t_now."""
    chance = random.Random(number)
    at, window = chance.randint(0, LAST - 1), chance.randint(0, 4)
    r = {row: {each for each in instants if each <= at} for row, instants in drawn(chance).items()}
    made = home()
    closed = [(*row[:-1], None if row[-1] == at + 1 else row[-1]) for row in stored(r)]
    made.load({"r": closed})
    extension = Extension(BASE_R, Literal(window, INTERVAL), Param("asked", TIMESTAMP))
    asked = Evaluation(LAST, 0, {"asked": Literal(at, TIMESTAMP)})
    expected: Held = {}
    for row, instants in r.items():
        longer = {each + more for each in instants for more in range(window + 1) if each + more <= at}
        expected[row] = longer | (set(range(at, LAST + 1)) if at in longer else set())
    assert made.read(value_sql(extension, leaf_name, asked)) == shown(expected)


@pytest.mark.parametrize("number", range(40))
def test_periods_looked_at_up_to_an_earlier_instant(number: int) -> None:
    """What a refresh asks of a tuple as of the last one, beside what is so now."""
    chance = random.Random(number)
    at = chance.randint(0, LAST)
    r, s = drawn(chance), drawn(chance)
    made = home()
    made.load({"r": stored(r), "s": stored(s)})
    then = Param("refreshed", TIMESTAMP)
    asked = Evaluation(LAST, 0, {"refreshed": Literal(at, TIMESTAMP)})
    start, end, length = (
        call(f"period_{name}", PeriodOf("r", at=then), type=type)
        for name, type in (("start", TIMESTAMP), ("end", TIMESTAMP), ("length", INTERVAL))
    )
    bound = Literal(chance.randint(0, LAST), TIMESTAMP)
    now_longer = call(">", call("period_length", PeriodOf("r"), type=INTERVAL), Literal(2, INTERVAL))
    for test, wanted in (
        (call("<=", start, bound), lambda t: bool(t) and min(t) <= bound.value),
        (call(">=", end, bound), lambda t: bool(t) and max(t) >= bound.value),
        (call("<", length, Literal(3, INTERVAL)), lambda t: 0 < len(t) < 3),
    ):
        found = made.read(value_sql(Select(BASE_R, call("and", test, now_longer)), leaf_name, asked))
        held = {row: {each for each in r[row] if each <= at} for row in r}
        assert found == shown({row: t for row, t in r.items() if wanted(held[row]) and len(t) > 2})
    two = (PeriodOf("r", at=then), PeriodOf("s", at=then))
    for name, related in (("contains", lambda a, b: bool(b) and a >= b), ("overlaps", lambda a, b: bool(a & b))):
        joined = Select(Join((BASE_R, BASE_S)), call(f"period_{name}", *two))
        expected = {}
        for one, its in r.items():
            for other, others in s.items():
                a, b = ({each for each in instants if each <= at} for instants in (its, others))
                if related(a, b):
                    expected[(*one, *other)] = its & others
        assert made.read(value_sql(joined, leaf_name, asked)) == shown(expected)


def test_a_missing_parameter_is_reported() -> None:
    with pytest.raises(DerivationError, match=":asked"):
        value_sql(Fragment(BASE_R, Param("asked", TIMESTAMP)), leaf_name, Evaluation(0, 0))


def test_equal_parts_are_one_step_under_any_alias() -> None:
    one, other = (Select(Scan(R, alias), call("=", attributes(Scan(R, alias))[0], Literal(1, INT))) for alias in "ab")
    steps = value_steps(Select(Join((one, other)), Literal(True, BOOLEAN)), leaf_name, Evaluation(5, 0))
    assert [step.reads for step in steps] == [("r",), ("step_1",), ("step_2",)]
    assert [step.name for step in steps] == ["step_1", "step_2", "step_3"]


def test_steps_read_what_they_say() -> None:
    """Each step can be a table of its own, filled in their order."""
    made = home()
    made.load({"r": [(1, "a", 0, 4), (1, "b", 2, None)], "s": [(1, "a", 1, 3)]})
    text = "SELECT r.k FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = r.k AND PERIOD_CONTAINS(r, s))"
    relation = sequenced(bind_view(text, made.tables))
    steps = value_steps(relation, leaf_name, Evaluation(LAST, 0), "part")
    known = {"r", "s"}
    for step in steps:
        assert set(step.reads) <= known, step
        assert all(f"{name}" in step.sql for name in step.reads)
        made.connection.execute(f"CREATE TABLE {step.name} AS {step.sql}")
        known.add(step.name)
    found = made.read(f"SELECT * FROM {steps[-1].name}")
    assert found == made.value(relation, LAST) == {(1,): [(0, 1), (2, None)]}


def test_constants_hold_since_time_began() -> None:
    columns = R.columns[:2]
    rows = ((Literal(1, INT), Literal("a", columns[1].type)), (Literal(None, INT), Literal(None, columns[1].type)))
    made = Histories([R])
    asked = Evaluation(9, 3)
    assert made.read(value_sql(Values("v", columns, rows), leaf_name, asked)) == {
        (1, "a"): [(3, None)],
        (None, None): [(3, None)],
    }
    assert made.read(value_sql(Values("v", columns, ()), leaf_name, asked)) == {}


def test_a_missing_period_is_reported() -> None:
    joined = Select(Join((BASE_R, BASE_S)), Literal(True, BOOLEAN))
    start = call("period_start", PeriodOf("r"), type=TIMESTAMP)
    with pytest.raises(DerivationError, match="periods of r"):
        value_sql(Select(joined, call("<", start, Now())), leaf_name, Evaluation(0, 0))


NUMBERS = tracked(1, "t", a="TINYINT", b="BIGINT", c="DECIMAL(4,2)", f="FLOAT", g="DOUBLE", day="DATE", flag="BOOLEAN")


def test_types_of_aggregates() -> None:
    made = Histories([NUMBERS])
    big = 2**63 - 1
    passing = (100, big, Decimal("99.99"), 0.5, 1.5, None, True, 0, 5)
    made.load({"t": [passing, (100, 1, Decimal("0.01"), 1.0, 2.0, None, None, 0, None)]})
    text = (
        "SELECT SUM(a) AS a, SUM(b) AS b, SUM(c) AS c, AVG(a) AS d, AVG(b) AS e, COUNT(flag) AS g, "
        "COUNT(*) AS h, AVG(c) AS i, SUM(a + 1) AS j FROM t"
    )
    relation = sequenced(bind_view(text, made.tables))
    names = ["BIGINT", "BIGINT", "DECIMAL(14,2)", "DOUBLE", "DOUBLE", "BIGINT", "BIGINT", "DOUBLE", "BIGINT"]
    assert [str(ref.type) for ref in attributes(relation)] == names
    found = made.value(relation, 9)
    assert found == {
        (200, None, Decimal("100.00"), 100.0, 2.0**62, 1, 2, 50.0, 202): [(0, 5)],
        (100, 1, Decimal("0.01"), 100.0, 1.0, 0, 1, 0.01, 101): [(5, None)],
    }
    described = made.connection.execute(f"DESCRIBE {value_sql(relation, leaf_name, Evaluation(9, 0))}").fetchall()
    assert [row[1].replace(" ", "") for row in described[:9]] == names
    text = "SELECT SUM(f) AS f, AVG(g) AS g, MIN(b) AS b, MAX(c) AS c, SUM(a) AS a FROM t"
    assert made.view(text, 9) == {
        (1.5, 1.75, 1, Decimal("99.99"), 200): [(0, 5)],
        (1.0, 2.0, 1, Decimal("0.01"), 100): [(5, None)],
    }


@pytest.mark.parametrize("values", [(1e16, 1.0, -1e16), (1e16, -1e16, 1.0), (-1e16, 1e16, 1.0)])
def test_the_same_doubles_give_the_same_sum_in_whatever_order_they_come(values: tuple[float, ...]) -> None:
    """A maintenance takes a tuple out of a view by its values."""
    made = Histories([NUMBERS])
    made.load({"t": [(1, number, None, None, each, None, None, 0, None) for number, each in enumerate(values)]})
    assert made.view("SELECT SUM(g) AS s, AVG(g) AS a FROM t", 9) == {(0.0, 0.0): [(0, None)]}


@pytest.mark.parametrize(
    ("interval", "today", "held"),
    [
        ("- INTERVAL 1 YEAR", "02/29/96", True),  # 02/28/95
        ("- INTERVAL 1 YEAR", "03/01/96", False),
        ("- INTERVAL 12 MONTHS", "02/29/96", True),
        ("+ INTERVAL '-1-0' YEAR TO MONTH", "02/29/96", True),
        ("- INTERVAL '1 year 0 months'", "02/29/96", True),
        ("- INTERVAL 4 QUARTERS", "02/29/96", True),
    ],
)
def test_months_are_cut_to_the_last_day(interval: str, today: str, held: bool) -> None:
    made = Histories([R])
    made.load({"r": [(1, "a", day("02/28/95"), None)]})
    found = made.view(f"SELECT k FROM r WHERE PERIOD_START(r) >= NOW() {interval}", day(today))
    assert bool(found) == held


def test_a_day_moved_by_months_is_a_day() -> None:
    made = Histories([NUMBERS])
    query = bind_view("SELECT t.day + INTERVAL 1 MONTH AS next FROM t", made.tables)
    assert str(query.types[0]) == "DATE"


def test_projections_that_give_all_columns_need_no_coalescing() -> None:
    k, x = attributes(BASE_R)
    swapped = Project(BASE_R, "q", (Output("x", x), Output("k", k)))
    narrow = replace(swapped, outputs=(Output("k", k),))
    assert "OVER" not in value_sql(swapped, leaf_name, Evaluation(0, 0))
    assert "OVER" in value_sql(narrow, leaf_name, Evaluation(0, 0))


def test_temporal_of_nothing_is_empty() -> None:
    never: Temporal = Select(BASE_R, call("=", Literal(1, BIGINT), Literal(0, BIGINT)))
    made = home()
    made.load({"r": [(1, "a", 0, None)]})
    assert made.value(never, 3) == {}
