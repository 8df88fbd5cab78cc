"""The tables of TPC-H and Nexmark as Weft sees them, their queries as DuckDB reads them, and comparable answers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

from weft.algebra.schema import TIMESTAMP, Column, DataType, TableSchema
from weft.bench import nexmark_texts

Row = tuple[Any, ...]
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


def plain(text: str) -> str:
    """A query of Nexmark as DuckDB reads it: windows are buckets of time, formats those of C."""
    text = re.sub(r"DATE_FORMAT\(dateTime, 'yyyy-MM-dd'\)", "STRFTIME(dateTime, '%Y-%m-%d')", text)
    text = re.sub(r"DATE_FORMAT\(dateTime, 'HH:mm'\)", "STRFTIME(dateTime, '%H:%M')", text)
    bucket = "TIME_BUCKET(INTERVAL 10 SECONDS, dateTime)"
    text = text.replace("WINDOW(dateTime, '10 seconds').start", bucket)
    text = text.replace("WINDOW(dateTime, '10 seconds').end", f"{bucket} + INTERVAL 10 SECONDS")
    text = text.replace("WINDOW(dateTime, '10 seconds')", bucket)
    hopping = re.sub(r"WINDOW\(dateTime, '10 seconds', '2 seconds'\)(\.start)?", "slide", text)
    if hopping == text:
        return text
    slides = "TIME_BUCKET(INTERVAL 2 SECONDS, dateTime) - INTERVAL 2 SECONDS * k"
    source = f"(SELECT *, UNNEST([{slides} FOR k IN [0, 1, 2, 3, 4]]) AS slide FROM bid) AS hopping"
    return hopping.replace("FROM bid GROUP", f"FROM {source} GROUP")


def comparable(value: Any) -> Any:
    """Quotients and means have more digits in one engine than in the other."""
    if isinstance(value, float) or (isinstance(value, Decimal) and int(value.as_tuple().exponent) < -4):
        return f"{float(value):.4g}"
    return f"{value.normalize():f}" if isinstance(value, Decimal) else value


def earliest(found: Iterable[tuple[Row, int]]) -> dict[Row, int]:
    first: dict[Row, int] = {}
    for row, at in found:
        key = tuple(map(comparable, row))
        first[key] = min(at, first.get(key, at))
    return first
