"""A grouped subquery without its references to outer rows."""

from __future__ import annotations

import pytest
from sqlglot import exp

from weft.algebra.relation import (
    TRUE,
    Exists,
    Grouped,
    Join,
    Measure,
    NowFrom,
    Output,
    Plain,
    Scan,
    Select,
    conjunction,
    disjunction,
)
from weft.algebra.scalar import Call, Cast, ColumnRef, call
from weft.algebra.schema import BIGINT, INT, TIMESTAMP, Column, TableSchema
from weft.errors import SqlError
from weft.sql.lower.decorrelate import decorrelated

NODE = exp.Null()
TABLE = TableSchema(1, "r", (Column(1, "ts", TIMESTAMP), Column(2, "ref", INT), Column(3, "k", INT)))
R = Scan(TABLE, "r")
REF, K = R.ref("ref"), R.ref("k")
ID, AT = ColumnRef("m", "id", INT), ColumnRef("m", "ts", TIMESTAMP)
COUNT = Measure("count", None, ColumnRef("g", "n", BIGINT))


def counted(*items, groups=(), measures=(COUNT,)):
    return Grouped(Select(R, conjunction(*items)), "g", groups, measures)


def test_an_equality_becomes_a_group_and_a_comparison_of_its_column():
    grouped, condition = decorrelated(counted(Plain(call("=", ID, REF)), Plain(call(">", K, K))), NODE)
    assert grouped == Grouped(Select(R, Plain(call(">", K, K))), "g", (Output("key_1", REF),), (COUNT,))
    assert condition == Plain(call("=", ColumnRef("g", "key_1", INT), ID))


def test_a_null_safe_equality_remains_null_safe():
    _, condition = decorrelated(counted(Plain(call("<=>", REF, ID))), NODE)
    assert condition == Plain(call("<=>", ColumnRef("g", "key_1", INT), ID))


def test_without_correlation_nothing_changes():
    plain = Grouped(R, "g", (Output("ref", REF),), (COUNT,))
    assert decorrelated(plain, NODE) == (plain, TRUE)


def test_an_existing_group_is_used_and_names_stay_unique():
    key_1 = Measure("count", K, ColumnRef("g", "key_1", BIGINT))
    items = (Plain(call("=", REF, ID)), Plain(call("=", K, ID)))
    grouped, condition = decorrelated(counted(*items, groups=(Output("ref", REF),), measures=(key_1,)), NODE)
    assert [output.name for output in grouped.groups] == ["ref", "key_2"]
    assert condition == conjunction(
        Plain(call("=", ColumnRef("g", "ref", INT), ID)), Plain(call("=", ColumnRef("g", "key_2", INT), ID))
    )


def test_equal_inner_expressions_share_a_group():
    wide = Cast(REF, BIGINT)
    items = (Plain(call("=", wide, Cast(ID, BIGINT))), Plain(call("=", wide, ColumnRef("m", "parent", BIGINT))))
    grouped, condition = decorrelated(counted(*items), NODE)
    assert [output.value for output in grouped.groups] == [wide]
    assert len(condition.items) == 2


def test_conditions_on_the_outer_row_alone_select_its_groups():
    items = (NowFrom(AT), Plain(call("=", REF, ID)), Exists(Select(Scan(TABLE, "x"), Plain(call("=", AT, AT)))))
    grouped, condition = decorrelated(counted(*items), NODE)
    assert grouped.input == R
    assert set(condition.items) >= {items[0], items[2]}


def test_the_condition_of_a_join_is_split_too():
    other = Scan(TABLE, "o")
    both = Select(Join((R, Select(other, Plain(call("=", other.ref("k"), ID))))), Plain(call("=", REF, other.ref("k"))))
    grouped, _ = decorrelated(Grouped(both, "g", (), (COUNT,)), NODE)
    assert grouped.input == Select(Join((R, other)), Plain(call("=", REF, other.ref("k"))))
    assert grouped.groups == (Output("key_1", other.ref("k")),)


@pytest.mark.parametrize(
    "grouped",
    [
        counted(Plain(call(">", REF, ID))),
        counted(disjunction(Plain(call("=", REF, ID)), Plain(call("=", K, ID)))),
        counted(Plain(call("=", Call("+", (REF, ID), INT), K))),
        counted(Exists(Select(Scan(TABLE, "x"), conjunction(Plain(call("=", K, ID)), Plain(call("=", K, REF)))))),
        counted(Plain(call("=", REF, ID)), measures=(Measure("sum", ID, ColumnRef("g", "n", BIGINT)),)),
        counted(groups=(Output("id", ID),)),
    ],
)
def test_other_references_to_the_outer_row_are_refused(grouped):
    with pytest.raises(SqlError, match=r"m\.id in an aggregated subquery is not allowed: .* only by ="):
        decorrelated(grouped, NODE)
