"""Draw answers of many types with many ties, and sort them by their values."""

from __future__ import annotations

import base64
import math
import random
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import pyarrow as pa

from weft.algebra.schema import DataType
from weft.storage.ledger import ledger_schema

TEXTS: dict[str, list[str | None]] = {
    "STRING": ["", "a", "B", "é", "z", "\uffff", "\U0001f600", "10", "9", None],
    "BOOLEAN": ["true", "false", None],
    "INT": ["-10", "-9", "0", "9", "10", None],
    "BIGINT": ["-9223372036854775808", "9223372036854775807", "5", "40", None],
    "DATE": ["-719162", "-1", "0", "9", "10", None],
    "TIMESTAMP": ["-62135596800000000", "-1", "999", "1000", None],
    "DOUBLE": ["NaN", "Infinity", "-Infinity", "-0.0", "0.0", "1.0E10", "9.5", "-2.5", "1.0E-5", None],
    "FLOAT": ["NaN", "Infinity", "0.1", "-0.0", "0.0", "1.0E10", None],
    "DECIMAL(20,10)": ["-0.0000000010", "0.0000000000", "9.5000000000", "10.0000000000", None],
    "DECIMAL(38,0)": ["99999999999999999999999999999999999999", "-5", "40", None],
    "BINARY": [base64.b64encode(raw).decode() for raw in (b"", b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff\x00", b"a+")],
}
COLUMNS = {
    1: ("INT", "STRING"),
    2: ("STRING",),
    3: ("DOUBLE", "BOOLEAN", "BINARY"),
    4: ("DECIMAL(20,10)", "DATE"),
    5: ("TIMESTAMP", "DECIMAL(38,0)", "FLOAT"),
    6: ("INT", "STRING"),
    7: ("BIGINT",),
    8: ("BINARY", "DOUBLE"),
}
TYPES = {query: tuple(map(DataType.parse, names)) for query, names in COLUMNS.items()}
Answer = tuple[int, int, bytes, tuple[str | None, ...]]
"""(query, first instant, hash, texts)"""


def drawn(seed: int, rows: int) -> list[Answer]:
    """Return random answers with few distinct instants. Each hash occurs once per query."""
    draw = random.Random(seed)
    found = []
    for number in range(rows):
        query = draw.choice(list(COLUMNS))
        texts = tuple(draw.choice(TEXTS[name]) for name in COLUMNS[query])
        found.append((query, draw.choice((5, 5, 5, 9, 1_000 + number)), draw.randbytes(4) + bytes([number % 7]), texts))
    return list({(each[0], each[2]): each for each in found}.values())


def general(rows: list[Answer]) -> pa.Table:
    """Return the answers in the general format of the ledger."""
    schema = ledger_schema("query_id", "first_at", "row_hash", "row")
    query, at, found, texts = (list(each) for each in zip(*rows, strict=True)) if rows else ([], [], [], [])
    given = {"query_id": query, "first_at": pa.array(at, pa.int64()), "row_hash": found, "row": map(list, texts)}
    return pa.table(
        [pa.array(given[f.name], f.type) if f.name != "first_at" else given["first_at"].cast(f.type) for f in schema],
        schema=schema,
    )


def expected(rows: list[Answer]) -> list[Answer]:
    """Return the answers in order, by comparing pairs of answers."""
    return sorted(rows, key=cmp_to_key(_compared))


def _compared(one: Answer, other: Answer) -> int:
    for a, b in ((one[0], other[0]), (one[1], other[1])):
        if a != b:
            return -1 if a < b else 1
    for name, mine, theirs in zip(COLUMNS[one[0]], one[3], other[3], strict=True):
        if (mine is None) != (theirs is None):
            return -1 if mine is None else 1
        if mine is None or theirs is None:
            continue
        a, b = _value(name, mine), _value(name, theirs)
        if a != b:
            return -1 if a < b else 1
    return -1 if one[2] < other[2] else int(one[2] > other[2])


def _value(name: str, text: str) -> Any:
    if name in ("DOUBLE", "FLOAT"):
        number = float(text)
        return (1, 0.0) if math.isnan(number) else (0, number)
    if name == "STRING":
        return [ord(letter) for letter in text]
    if name == "BINARY":
        return base64.b64decode(text)
    if name == "BOOLEAN":
        return text == "true"
    return Decimal(text)
