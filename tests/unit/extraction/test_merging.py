"""Several files as one load: found by patterns and folders, merged by the rows' own times, each content once."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.api import Weft
from weft.errors import NotFound, Refused
from weft.execution.append_rows import OWN_TIME, SEQ
from weft.extraction.batches import Batch, RejectedRecord
from weft.extraction.files.given_files import input_files
from weft.extraction.merging import BEFORE_ALL, Timed, merged
from weft.storage.data_files import read_data_files
from weft.storage.table import Table
from weft.store import S3Access

NOWHERE = S3Access()

SCHEMA = pa.schema([("name", pa.string()), (OWN_TIME, pa.int64()), (SEQ, pa.int64())])


def test_sources_are_merged_by_the_greatest_time_so_far_however_they_are_cut() -> None:
    draw = random.Random(7)
    for _ in range(60):
        sources = [
            [(f"{number}-{place}", draw.choice([None, *range(9)])) for place in range(draw.randrange(7))]
            for number in range(draw.randrange(1, 5))
        ]
        expected = []
        for number, source in enumerate(sources):
            reached = BEFORE_ALL
            for place, (name, own) in enumerate(source):
                reached = max(reached, BEFORE_ALL if own is None else own)
                expected.append((reached, number, place, name, own))
        batches = list(merged([_timed(source, draw) for source in sources], SCHEMA.empty_table()))
        rows = [row for batch in batches for row in batch.rows.to_pylist()]
        assert [(row["name"], row[OWN_TIME]) for row in rows] == [each[3:] for each in sorted(expected)]
        assert [row[SEQ] for row in rows] == list(range(len(rows)))
        assert [each.position for batch in batches for each in batch.origins] == [row["name"] for row in rows]
        assert sum(batch.read for batch in batches) == len(rows) + sum(len(batch.rejected) for batch in batches)
        assert sum(len(batch.rejected) for batch in batches) == len(sources)


def _timed(source: list[tuple[str, int | None]], draw: random.Random) -> Timed:
    """The rows in batches of any size, with a record at the end that cannot be read."""

    def batches() -> Iterator[Batch]:
        left = source
        while left:
            count = draw.randrange(len(left)) + 1
            rows = pa.table([[n for n, _ in left[:count]], [t for _, t in left[:count]], range(count)], schema=SCHEMA)
            yield Batch(rows, (), count, tuple(RejectedRecord("s", name, "", b"") for name, _ in left[:count]))
            left = left[count:]
        yield Batch(SCHEMA.empty_table(), (RejectedRecord("s", "end", "bad", b"x"),), 1)

    first = source[0][1] if source else None
    return Timed(BEFORE_ALL if first is None else first, batches)


def test_patterns_and_folders_name_files_once_in_order(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "sub/c.jsonl.gz", "sub/.d.csv", ".hidden/e.csv", "notes.txt", "[x].csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    with input_files([str(tmp_path / "b*"), tmp_path, tmp_path / "notes.txt", tmp_path / "[x].csv"], NOWHERE) as found:
        files = found.files
        names = [file.path.relative_to(tmp_path).as_posix() for file in files]
    assert names == ["b.csv", "[x].csv", "a.csv", "sub/c.jsonl.gz", "notes.txt"]
    with input_files([io.BytesIO(b"a\n1\n")], NOWHERE) as found:
        [file] = found.files
        assert (file.name, file.path.read_bytes()) == ("stdin", b"a\n1\n")
    assert not file.path.exists()
    (tmp_path / "empty").mkdir()
    for given in (tmp_path / "*.parquet", tmp_path / "empty"):
        with pytest.raises(NotFound, match="no file"), input_files([given], NOWHERE):
            pass
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    with pytest.raises(Refused, match="Delta table"), input_files([tmp_path / "delta"], NOWHERE):
        pass


@pytest.mark.parametrize("given", [io.StringIO("a\n1\n"), [{"a": 1}]])
def test_an_object_other_than_a_stream_of_bytes_is_refused(given: object) -> None:
    with pytest.raises(Refused, match="nor a stream of bytes"), input_files([given], NOWHERE):  # type: ignore[list-item]
        pass


def stored(weft: Weft, table: str) -> list[dict[str, object]]:
    """The rows in the order of their ts."""
    place = weft.catalog.data / weft.catalog.tables.named(table).path
    files = Table(place).snapshot().files
    schema = pq.read_schema(files[0].location.path)
    rows: list[dict[str, object]] = read_data_files(files, schema).sort_by("ts").to_pylist()
    return rows


def test_several_files_are_one_load_and_each_is_loaded_once(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,at,n\n1,2024-01-03,5\n2,2024-01-01,\n")
    (tmp_path / "2.csv").write_text("id,at,n\n3,2024-01-02,0.5\n")
    (tmp_path / "copy.csv").write_text("id,at,n\n3,2024-01-02,0.5\n")
    pq.write_table(pa.table({"id": [4], "at": [date(2024, 1, 4)], "n": [1.5]}), tmp_path / "3.parquet")
    line = io.BytesIO(b'{"id": 5, "at": "2024-01-05"}\n{"id": "x", "at": "2024-01-05"}\n')
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        (tmp_path / "less.csv").write_text("id,at\n3,2024-01-02\n")
        with pytest.raises(Refused, match=r"less\.csv lacks n, which .*1\.csv has"):
            weft.ingest_file([tmp_path / "1.csv", tmp_path / "less.csv"], "t", ts_from="at")
        assert not weft.tables()
        done = weft.ingest_file([tmp_path / "[12].csv", tmp_path / "copy.csv"], "t", ts_from="at")
        assert (done.stored, done.quarantined) == (3, 0)
        assert "1 of 3 files" in " ".join(done.notes)
        assert [row["id"] for row in stored(weft, "t")] == [2, 3, 1]
        [load] = weft.catalog.loads.latest()
        assert load.source.count(".csv") == 2
        done = weft.ingest_file([tmp_path / "2.csv", tmp_path / "3.parquet", line], "t", ts_from="at", evolve=True)
        assert (done.stored, done.quarantined) == (2, 1)
        assert weft.quarantined()[0].source == "stdin"
        assert weft.ingest_file(tmp_path / "1.csv", "t", ts_from="at").already_loaded
        assert weft.ingest_file([tmp_path / "2.csv", tmp_path / "1.csv"], "t", ts_from="at").already_loaded
        assert len(stored(weft, "t")) == 5
        assert weft.retry_quarantine().kept == 1
