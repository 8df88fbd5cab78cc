"""Loads by executors and by the driver, and files with dirt to compare them on."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.catalog.records import Choice, QuarantineRecord
from weft.errors import WeftError
from weft.execution.engines import choosing
from weft.execution.home import OpenHome
from weft.extraction.batches import Timing
from weft.extraction.ingest import ingest_file
from weft.extraction.quarantine import quarantined_bytes
from weft.extraction.storing import Summary
from weft.instants import format_instant
from weft.storage.columns import stored_schema
from weft.storage.table import Table

AT = 1_800_000_000_000_000
DAY = 86_400_000_000
FIRST = 1_577_836_800_000_000
TIMES = Timing("at")


@dataclass
class Loading(OpenHome):
    """A home with the Spark session of the tests."""

    spark: Callable[[], Any] = field(kw_only=True)

    def session(self) -> Any:
        return self.spark()


@dataclass(frozen=True)
class Loaded:
    """What a load left: its summary, or the message of its refusal, and the contents of the home."""

    result: Summary | str
    rows: list[str]
    quarantine: list[tuple[object, ...]]


def load(to: Loading, *items: str, by: str = "driver", keys: Sequence[str] = (), timing: Timing = TIMES) -> Loaded:
    with pytest.MonkeyPatch.context() as patch:
        if by == "executors":
            patch.setattr(choosing, "BOUNDS", choosing.NOTHING)
        try:
            result: Summary | str = ingest_file(to, items, "t", keys=keys, timing=timing)
        except WeftError as error:
            return Loaded(error.message, *contents(to))
    assert isinstance(result, Summary)
    note = next((each for each in result.notes if each.startswith("This load ran on ")), "")
    assert result.already_loaded or note.startswith("This load ran on Spark: the files have ") == (by == "executors")
    return Loaded(replace(result, notes=tuple(each for each in result.notes if each != note)), *contents(to))


def require_same_dirty_loads(driver: Sequence[Loaded], executors: Sequence[Loaded]) -> None:
    """Both have loaded two new inputs with dirt, and then inputs that were loaded before."""
    assert driver == executors
    counts = [each.result for each in driver if isinstance(each.result, Summary)]
    assert len(counts) == 3 and counts[2].already_loaded
    assert min(counts[0].stored, counts[0].quarantined, counts[1].stored, counts[1].quarantined, counts[1].late) > 0


def contents(to: Loading) -> tuple[list[str], list[tuple[object, ...]]]:
    rows: list[str] = []
    for table in to.catalog.tables.known():
        schema, stored = stored_schema(table.schema), Table(to.catalog.data / table.path)
        rows.append(str(schema))
        if stored.exists():
            rows += sorted(str(row) for batch in stored.scan(schema) for row in batch.to_pylist())
    kept = to.catalog.quarantine.all(None)
    return rows, sorted((one.source, one.position, one.reason, bytes_of(to, one)) for one in kept)


def bytes_of(to: Loading, record: QuarantineRecord) -> bytes:
    return quarantined_bytes(to.catalog.data, record)


def tick(to: Loading, t: int) -> None:
    """Advance the watermark without computing anything."""
    with to.catalog.writing("tick", to.clock) as writer:
        writer.ticks.commit(writer.ticks.plan(t, Choice(()), AT).tick_id, {}, [], AT)


DIRT = (b'"open', b'a"b', b'"x"y', b"caf\xe9", b"\0", b"a\rb", b'""""', b"1,2", b"")


def dirty_csv(chance: Random, records: int, start: int = 0) -> bytes:
    """A CSV of three columns with some records that cannot be read, and some without or with late times."""
    lines = [b"a,b,at"]
    for number in range(records):
        at = FIRST + DAY * (start + number // 10) + chance.randrange(DAY)
        when = b"" if chance.random() < 0.03 else format_instant(at).replace(" UTC", "").encode()
        text = chance.choice([b"x", b"", b'"a,b"', b'"two\nlines"', "é".encode()])
        line = b"%d,%b,%b" % (number, text, when)
        if chance.random() < 0.05:
            line = b"%d,%b,%b" % (number, chance.choice(DIRT), when)
        lines.append(line + chance.choice([b"", b"", b"", b"\r"]))
    return b"\n".join(lines) + b"\n"


def json_lines(chance: Random, records: int, start: int = 0) -> bytes:
    lines = []
    for number in range(records):
        at = format_instant(FIRST + DAY * (start + number // 10) + chance.randrange(DAY)).replace(" UTC", "")
        row = {"a": number, "b": chance.choice(["x", None, "é"]), "at": at, "who": {"name": "x", "n": number % 3}}
        line = json.dumps(
            {name: value for name, value in row.items() if chance.random() > 0.02}, ensure_ascii=False
        ).encode()
        lines.append(chance.choice([b"{", b"[]", b"\xff"]) if chance.random() < 0.05 else line)
    return b"\n".join(lines)


def parquet(chance: Random, records: int) -> bytes:
    at = [None if n % 17 == 0 else FIRST + DAY * (n // 10) + chance.randrange(DAY) for n in range(records)]
    sink = io.BytesIO()
    who = [{"name": "x", "n": n % 3} for n in range(records)]
    instants = pa.array(at, pa.timestamp("us", "UTC"))
    rows = {"a": list(range(records)), "b": ["x" * 40] * records, "at": instants, "who": who}
    pq.write_table(pa.table(rows), sink, row_group_size=20)
    return sink.getvalue()
