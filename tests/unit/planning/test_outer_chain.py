"""A chain of outer joins has few branches, because a tick computes its first joins once."""

from __future__ import annotations

import pytest

from weft.algebra.schema import TIMESTAMP, Column, DataType, TableSchema
from weft.planning.plan import Plan, standing_plan

INT = DataType("INT")
TABLES = {
    f"t{n}": TableSchema(n + 1, f"t{n}", (Column(1, "id", INT), Column(2, "k", INT), Column(3, "ts", TIMESTAMP)))
    for n in range(9)
}


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
