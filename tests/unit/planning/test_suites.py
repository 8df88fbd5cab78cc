"""The queries of TPC-H and Nexmark stand as they are written; Weft says why it refuses two of Nexmark's."""

from __future__ import annotations

from typing import Final

import pytest

from weft.algebra.schema import TIMESTAMP, Column, DataType, TableSchema
from weft.bench import nexmark_texts, tpch_texts
from weft.errors import SqlError
from weft.planning.plan import standing_plan

PRICE = "DECIMAL(15,2)"
TPCH: Final = {
    "region": {"r_regionkey": "BIGINT", "r_name": "STRING", "r_comment": "STRING"},
    "nation": {"n_nationkey": "BIGINT", "n_name": "STRING", "n_regionkey": "BIGINT", "n_comment": "STRING"},
    "supplier": {
        "s_suppkey": "BIGINT", "s_name": "STRING", "s_address": "STRING", "s_nationkey": "BIGINT",
        "s_phone": "STRING", "s_acctbal": PRICE, "s_comment": "STRING",
    },
    "part": {
        "p_partkey": "BIGINT", "p_name": "STRING", "p_mfgr": "STRING", "p_brand": "STRING", "p_type": "STRING",
        "p_size": "INT", "p_container": "STRING", "p_retailprice": PRICE, "p_comment": "STRING",
    },
    "partsupp": {
        "ps_partkey": "BIGINT", "ps_suppkey": "BIGINT", "ps_availqty": "INT", "ps_supplycost": PRICE,
        "ps_comment": "STRING",
    },
    "customer": {
        "c_custkey": "BIGINT", "c_name": "STRING", "c_address": "STRING", "c_nationkey": "BIGINT",
        "c_phone": "STRING", "c_acctbal": PRICE, "c_mktsegment": "STRING", "c_comment": "STRING",
    },
    "orders": {
        "o_orderkey": "BIGINT", "o_custkey": "BIGINT", "o_orderstatus": "STRING", "o_totalprice": PRICE,
        "o_orderdate": "DATE", "o_orderpriority": "STRING", "o_clerk": "STRING", "o_shippriority": "INT",
        "o_comment": "STRING",
    },
    "lineitem": {
        "l_orderkey": "BIGINT", "l_partkey": "BIGINT", "l_suppkey": "BIGINT", "l_linenumber": "INT",
        "l_quantity": PRICE, "l_extendedprice": PRICE, "l_discount": PRICE, "l_tax": PRICE, "l_returnflag": "STRING",
        "l_linestatus": "STRING", "l_shipdate": "DATE", "l_commitdate": "DATE", "l_receiptdate": "DATE",
        "l_shipinstruct": "STRING", "l_shipmode": "STRING", "l_comment": "STRING",
    },
}  # fmt: skip


def schemas(tables: dict[str, dict[str, str]]) -> dict[str, TableSchema]:
    found = {}
    for number, (name, columns) in enumerate(tables.items(), 1):
        kinds = {**{column: DataType.parse(kind) for column, kind in columns.items()}, "ts": TIMESTAMP}
        listed = tuple(Column(place, label, kind) for place, (label, kind) in enumerate(kinds.items(), 1))
        found[name] = TableSchema(number, name, listed, "ts")
    return found


NEXMARK: Final = {
    table: dict(column.split(" ", 1) for column in columns.split(", "))
    for table, columns in nexmark_texts.COLUMNS.items()
}
TEXTS: Final = [
    *((name, text, TPCH) for name, text in tpch_texts.queries(0.01).items()),
    *((name, text, NEXMARK) for name, text in nexmark_texts.QUERIES.items()),
]


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        pytest.param(text, tables, id=f"{'tpch' if tables is TPCH else 'nexmark'}-{name}")
        for name, text, tables in TEXTS
    ],
)
def test_the_query_stands(text: str, tables: dict[str, dict[str, str]]) -> None:
    assert standing_plan(text, schemas(tables)).branches


@pytest.mark.parametrize(("name", "reason"), [("q11", "session"), ("q12", "PROCTIME")])
def test_two_of_nexmark_are_refused(name: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        standing_plan(nexmark_texts.LEFT_OUT[name], schemas(NEXMARK))


def test_all_numbers_are_there() -> None:
    assert list(tpch_texts.queries(1)) == [f"q{number}" for number in range(1, 23)]
    assert {*nexmark_texts.QUERIES, *nexmark_texts.LEFT_OUT} == {f"q{number}" for number in range(23)}
