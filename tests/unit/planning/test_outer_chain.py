"""A chain of outer joins has few branches, because a tick computes its first joins once."""

from __future__ import annotations

import hashlib
import json
import time

import pytest

from weft.algebra.scalar import Literal
from weft.algebra.schema import TIMESTAMP, Column, DataType, TableSchema
from weft.algebra.stored import restored, stored
from weft.derivation.lift import bound_state
from weft.derivation.stateful import states
from weft.errors import PlanMismatch
from weft.period_sql.notation import DUCKDB
from weft.planning.form import restored_plan, stored_form
from weft.planning.plan import Plan, plan, standing_plan
from weft.planning.plan_tree import plan_tree
from weft.planning.state_causes import all_states
from weft.planning.state_plan import state_rows

INT = DataType("INT")
TABLES = {
    f"t{n}": TableSchema(n + 1, f"t{n}", (Column(1, "id", INT), Column(2, "k", INT), Column(3, "ts", TIMESTAMP)))
    for n in range(13)
}


WINDOW = {name: Literal(at, TIMESTAMP) for name, at in (("tau", -(2**62)), ("t", 2**62), ("t0", 0))}


def chain(joins: int, kind: str = "LEFT") -> Plan:
    shown = ", ".join(f"t{n}.k AS k{n}" for n in range(joins + 1))
    joined = " ".join(f"{kind} JOIN t{n} ON t{n}.id = t0.id" for n in range(1, joins + 1))
    return standing_plan(f"SELECT {shown} FROM t0 {joined}", TABLES)


@pytest.mark.parametrize("joins", range(1, 9))
def test_branches_of_a_chain(joins: int) -> None:
    found = chain(joins)
    assert len(found.branches) <= 4 * joins
    assert {table.name for table in found.tables} == {f"t{n}" for n in range(joins + 1)}


def test_full_joins_chain_too() -> None:
    assert len(chain(4, "FULL").branches) <= 40


def ranked(joins: int, kind: str) -> str:
    """A window function over outer joins, or over a join of derived tables that have one outer join each."""
    order = ", ".join(f"t{n}.k" for n in range(joins + 1))
    joined = " ".join(f"{kind} JOIN t{n} ON t{n}.id = t{n - 1}.k" for n in range(1, joins + 1))
    if kind == "derived":
        made = "JOIN (SELECT a.id, b.k FROM t{0} a LEFT JOIN t12 b ON b.id = a.id) AS t{0} ON t{0}.id = t0.id"
        joined = " ".join(made.format(n) for n in range(1, joins + 1))
    return f"SELECT t0.id, ROW_NUMBER() OVER (PARTITION BY t0.id ORDER BY {order}) AS r FROM t0 {joined}"


@pytest.mark.parametrize("joins", range(1, 9))
@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL", "derived"])
def test_sql_of_outer_joins_below_a_window_function(kind: str, joins: int) -> None:
    found = standing_plan(ranked(joins, kind), TABLES)
    below = {each for event in found.branches for each in all_states(event.relation)}
    size = sum(len(state_rows(bound_state(each, WINDOW), None).sql(DUCKDB)) for each in below)
    assert 1_000 * joins < size < 14_000 * joins


MIXED = ("LEFT", "FULL", "RIGHT")
CHAINS = {
    "one key": "SELECT t0.id FROM t0 " + " ".join(f"LEFT JOIN t{n} ON t{n}.id = t0.id" for n in range(1, 13)),
    "other keys": "SELECT t12.k FROM t0 " + " ".join(f"LEFT JOIN t{n} ON t{n}.id = t{n - 1}.k" for n in range(1, 13)),
    "FULL": "SELECT t12.k FROM t0 " + " ".join(f"FULL JOIN t{n} ON t{n}.id = t0.id" for n in range(1, 13)),
    "mixed": "SELECT t12.k FROM t0 "
    + " ".join(f"{MIXED[n % 3]} JOIN t{n} ON t{n}.id = t{n - 1}.k" for n in range(1, 13)),
    "derived tables": "SELECT t0.id FROM t0 "
    + " ".join(f"LEFT JOIN (SELECT id FROM t{n} WHERE k > {n}) AS d{n} ON d{n}.id = t0.id" for n in range(1, 13)),
    "GROUP BY": "SELECT t0.id, COUNT(t12.k) AS n FROM t0 "
    + " ".join(f"LEFT JOIN t{n} ON t{n}.id = t0.id" for n in range(1, 13))
    + " GROUP BY t0.id",
}
"""Texts with twelve outer joins."""


@pytest.mark.parametrize("chained", CHAINS)
def test_twelve_outer_joins_compile_soon(chained: str) -> None:
    """All that an installation derives from the text stays small: the copies of a side are compiled once."""
    began = time.process_time()
    found = standing_plan(CHAINS[chained], TABLES)
    form = stored_form(found)
    assert len(found.text) < 50_000 and len(form.body) < 50_000
    assert restored_plan(form.body, form.signature, TABLES.values()) == found.shape
    assert len(repr(plan_tree(found.query))) < 100_000
    assert time.process_time() - began < 4


def test_the_normalized_text_of_a_chain_is_the_same_query() -> None:
    """The text names each relation that is computed once in WITH.  Its copies read the name."""
    found = chain(4)
    assert found.text.startswith("WITH ") and found.text.count("FROM t1") < 4
    assert {table.name for table in plan(found.text, TABLES).tables} == {table.name for table in found.tables}


def test_copies_with_constants_are_one_state() -> None:
    text = "SELECT t4.k FROM t0 " + " ".join(f"LEFT JOIN t{n} ON t{n}.id = t0.id AND t{n}.k > 7" for n in range(1, 5))
    assert len(states(standing_plan(text, TABLES).standing)) == 1


def test_a_stored_plan_that_writes_each_copy_in_full_is_read() -> None:
    """Format 2 has no references to copies."""
    found = chain(4).shape
    body = {"format": 1, "from_now": False, "query": json.loads(stored(found.lifted, 2))}
    text = json.dumps(body, separators=(",", ":"))
    assert "Copy" not in text and "Copy" in stored(found.lifted)
    tables = {(table.source, table.id): table for table in TABLES.values()}
    assert restored(json.dumps(body["query"]), tables) == restored(stored(found.lifted), tables) == found.lifted
    signature = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert restored_plan(text, signature, TABLES.values()).lifted == found.lifted
    with pytest.raises(PlanMismatch):
        restored_plan(text, stored_form(found).signature, TABLES.values())
