"""Tables that people append to: strict types, all rows or none, and who it was."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from weft.algebra.schema import DataType
from weft.api.weft import Weft
from weft.errors import Refused
from weft.extraction.typed_rows import from_json, from_texts

KINDS = (
    "STRING", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5,2)", "DATE",
    "TIMESTAMP", "BINARY",
)  # fmt: skip
COLUMNS = [(f"c {n}", DataType.parse(kind)) for n, kind in enumerate(KINDS)]
WHOLE: dict[str, tuple[object, object, object]] = {
    # as JSON, as text, as it is stored
    "STRING": ("é", "é", "é"),
    "BOOLEAN": (False, "false", False),
    "TINYINT": (-128, "-128", -128),
    "SMALLINT": (32_767, "32767", 32_767),
    "INT": (-(2**31), str(-(2**31)), -(2**31)),
    "BIGINT": (2**63 - 1, str(2**63 - 1), 2**63 - 1),
    "FLOAT": (1.5, "1.5", 1.5),
    "DOUBLE": (2, "2", 2.0),
    "DECIMAL(5,2)": ("-999.99", "-999.99", Decimal("-999.99")),
    "DATE": ("2026-02-28", "2026-02-28", dt.date(2026, 2, 28)),
    "TIMESTAMP": ("2026-02-28T01:00:00+01:00", "2026-02-28 00:00", dt.datetime(2026, 2, 28, tzinfo=dt.timezone.utc)),
    "BINARY": ("00ff", "00ff", b"\x00\xff"),
}
WRONG = [
    ("BOOLEAN", 1), ("TINYINT", 128), ("SMALLINT", -32_769), ("INT", 2**31), ("INT", "5"), ("INT", 1.5), ("INT", True),
    ("BIGINT", 2**63), ("DOUBLE", "x"), ("DECIMAL(5,2)", "1.234"), ("DECIMAL(5,2)", "1000.00"), ("DATE", "2026-02-30"),
    ("DATE", "yesterday"), ("TIMESTAMP", "noon"), ("STRING", 5), ("STRING", ["a"]), ("BINARY", "0x"),
]  # fmt: skip


@pytest.fixture
def weft(tmp_path: Path) -> Any:
    with Weft.open(tmp_path / "home", create=True) as home:
        home.make_table("votes", "msgid STRING, score INT")
        yield home


def stored(home: Weft) -> list[tuple[object, ...]]:
    """Message, score and author of each row."""
    table = home.catalog.tables.named("votes")
    if not table.rows:
        return []
    rows = DeltaTable(str(home.home / table.path)).to_pyarrow_table().to_pylist()
    return sorted(((row["msgid"], row["score"], row["_by"]) for row in rows), key=str)


@pytest.mark.parametrize("number", range(len(KINDS)), ids=KINDS)
def test_each_type_is_read_as_it_is(number: int) -> None:
    given, text, value = WHOLE[KINDS[number]]
    name = f"c {number}"
    (row,) = from_json([json.dumps({name: given}).encode()], COLUMNS, "lines")
    for found in (row, from_texts({name: str(text)}, COLUMNS, "values")):
        assert found == {each: (value if each == name else None) for each, _ in COLUMNS}
        assert type(found[name]) is type(value)


@pytest.mark.parametrize(("kind", "given"), WRONG)
def test_a_value_of_another_type_is_refused_by_name(kind: str, given: object) -> None:
    name = f"c {KINDS.index(kind)}"
    lines = [b"{}\n", b"\n", json.dumps({name: given}).encode()]
    with pytest.raises(Refused) as refusal:
        list(from_json(lines, COLUMNS, "rows.jsonl"))
    assert refusal.value.message.startswith(f"{name} is ") and f"not of type {kind}" in refusal.value.message
    assert refusal.value.where == "rows.jsonl, line 3"


@pytest.mark.parametrize("line", [b"[1]", b"{", b"7", b'{"c 0": "a"} {}', b"\xff"])
def test_an_invalid_row_is_refused(line: bytes) -> None:
    with pytest.raises(Refused, match="not a row"):
        list(from_json([line], COLUMNS, "lines"))


def test_rows_have_who_appended_them(weft: Weft) -> None:
    done = weft.append("VOTES", [b'{"msgid": "a", "score": 1}\n', b'{"msgid": "b"}\n'], user="ann")
    assert (done.table, done.stored) == ("votes", 2)
    weft.append("votes", {"msgid": "a", "score": 4}, user="ben")
    assert [row for row in stored(weft) if row[1]] == [("a", 1, "ann"), ("a", 4, "ben")]
    assert ("b", None, "ann") in stored(weft)
    assert [(each.load.kind, each.load.stored) for each in weft.loads("votes")] == [("append", 1), ("append", 2)]
