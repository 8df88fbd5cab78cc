"""Files are read by several threads: the same rows in the same order, rejected records and types."""

from __future__ import annotations

import gzip
import io
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import forked
from letters import AT
from weft.algebra.schema import Column, DataType, TableSchema
from weft.api.weft import Weft
from weft.catalog import open_catalog
from weft.errors import WeftError
from weft.execution.home import OpenHome
from weft.extraction.batches import DEFAULT_TIMING, RejectedRecord, Timing
from weft.extraction.byte_streams import PushBack
from weft.extraction.files import bulk, csv_pieces, text_records, workers
from weft.extraction.files.parquet_pieces import parquet_file, pieces
from weft.extraction.files.part import Part
from weft.extraction.files.source import FileSource, open_file
from weft.extraction.files.text_records import CsvRecords, Dialect, TextRecord
from weft.extraction.ingest import ingest_file
from weft.extraction.quarantine import quarantined_bytes
from weft.extraction.storing import Summary
from weft.storage.columns import stored_schema
from weft.storage.data_files import read_data_files
from weft.storage.local_sql import connect
from weft.storage.table import Table


@dataclass(frozen=True)
class Sizes:
    """How large chunks and batches are for a test, and the limits of lines and records."""

    chunk: int = 120
    smallest: int = 25
    rows: int = 7
    line: int = 1 << 20
    record: int = 64 << 20
    lines: int = 100_000


def reading(patch: pytest.MonkeyPatch, sizes: Sizes, careful: bool = False) -> None:
    """From now on files are read in chunks of these sizes, or record by record."""
    for module in (text_records, csv_pieces):
        patch.setattr(module, "MAX_LINE", sizes.line)
    patch.setattr(csv_pieces, "_HALF", sizes.line // 2)
    patch.setattr(text_records, "MAX_RECORD", sizes.record)
    patch.setattr(text_records, "_MOST_LINES", sizes.lines)
    if careful:
        patch.setattr(csv_pieces.Chunk, "is_plain", False)
    else:
        patch.setattr(csv_pieces, "CHUNK", sizes.chunk)
        patch.setattr(csv_pieces, "SMALLEST", sizes.smallest)
        patch.setattr(bulk, "ROWS", sizes.rows)


@dataclass(frozen=True)
class Read:
    """What a file gave: rows with their own time and place, rejected records by position, how many records."""

    rows: list[dict[str, Any]]
    rejected: list[RejectedRecord]
    read: int


def read(
    source: FileSource,
    timing: Timing = DEFAULT_TIMING,
    latest: int | None = None,
    aside: frozenset[str] = frozenset(),
    origins: bool = False,
    part: Part | None = None,
) -> Read:
    batches = list(source.batches(timing, latest, aside=aside, origins=origins, part=part))
    rejected = [each for batch in batches for each in batch.rejected]
    return Read(
        [row for batch in batches for row in batch.rows.to_pylist()],
        sorted(rejected, key=lambda each: (int(each.position.split()[1]), each.raw)),
        sum(batch.read for batch in batches),
    )


def schema(**types: str) -> TableSchema:
    names = [*types.items(), ("ts", "TIMESTAMP")]
    columns = tuple(Column(n, name, DataType.parse(kind)) for n, (name, kind) in enumerate(names))
    return TableSchema(1, "t", columns)


def error_text(error: WeftError) -> str:
    return f"{type(error).__name__}: {error.message}"


def looked_at(path: Path, known: TableSchema | None, ts_from: str | None = None) -> FileSource | str:
    try:
        return open_file(path, known, ts_from=ts_from)
    except WeftError as error:
        return error_text(error)


CELLS = st.sampled_from(["", "0", "1", "-7", "007", "1.5", "1" * 17, "2020-01-01", "2020-01-02 03:04:05", "true"]) | (
    st.sampled_from([" ", "é", "𝔘", '"a,b"', '"two\nlines"', '"two\r\nlines"', '""', '""""', '"q""q"', '" "', 'a"b'])
) | st.sampled_from(["NULL", "NA", "\ufeff", "\u2028"])  # fmt: skip
DIRT = st.sampled_from(
    [b'"', b'"open', b"\0", b"caf\xe9", b"a\rb", b"\r", b'x"y"', b'"x"y', b"\\", b'"\n', b"y" * 90, b"\xef\xbb\xbf"]
)


@st.composite
def csvs(draw: st.DrawFn) -> bytes:
    """A CSV of three columns, mostly in order; the first is a whole number in most records."""
    line_end = draw(st.sampled_from([b"\n", b"\r\n"]))
    lines = [b"a,b,at"]
    for number in range(draw(st.integers(0, 40))):
        kind = draw(st.integers(0, 19))
        cells = [draw(CELLS).encode(), draw(CELLS).encode()]
        first = str(number).encode() if kind else draw(CELLS).encode()
        width = {1: 1, 2: 2}.get(kind, 2)
        line = b",".join([first, *cells][: width + 1]) + (b"," if kind == 3 else b"")
        if kind in (4, 5):
            dirt = draw(DIRT)
            at = draw(st.integers(0, len(line)))
            line = line[:at] + dirt + line[at:]
        lines.append(b"" if kind == 6 else line)
    end = draw(st.sampled_from([line_end, b"", line_end * 3]))
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + line_end.join(lines) + end


SOUP = st.lists(
    st.sampled_from([b'"', b'"', b",", b",", b"\n", b"\n", b"\r\n", b"a", b"1", b'""', b'","', b"\xff", b"\0", b"\r"]),
    max_size=60,
).map(lambda parts: b"a,b\n" + b"".join(parts))
LIMITS = st.sampled_from([{}, {}, {"line": 64}, {"line": 64, "record": 150}, {"line": 20, "record": 50, "lines": 3}])
TOGETHER = workers.Workers(connect(threads=1))
SIZES = st.builds(
    lambda chunk, smallest, rows, limits: Sizes(chunk, smallest, rows, **limits),
    st.integers(20, 300),
    st.integers(10, 60),
    st.integers(1, 30),
    LIMITS,
)


DIALECTS = st.sampled_from([Dialect()] * 4 + [Dialect(escape="\\"), Dialect(";", "'"), Dialect("é"), Dialect('"')])


def require_same_records(raw: bytes, sizes: Sizes, dialect: Dialect) -> None:
    """The records of the CSV with the numbers of their lines, bytes and cells, read in pieces and one by one."""
    with pytest.MonkeyPatch.context() as patch:
        reading(patch, sizes)
        records = CsvRecords(io.BufferedReader(io.BytesIO(raw)), dialect)
        named, before = records.names()
        if named is None:
            return
        names = [str(number) for number in range(records.width or 0)]
        expected = [*before, *records]
        found: list[TextRecord] = []

        def look(cells: pa.Table, records_at: csv_pieces.RecordsAt, _connection: object) -> list[TextRecord]:
            rows = [list(row.values()) for row in cells.to_pylist()]
            places = records_at(range(len(rows)))
            return [TextRecord(line, raw, row) for (line, raw), row in zip(places, rows, strict=True)]

        stream = io.BufferedReader(io.BytesIO(raw))
        for piece in csv_pieces.CsvPieces(stream, dialect, names, TOGETHER, look):
            found += sorted([*piece.result, *piece.problems], key=lambda record: record.line)
    error_text = [(record.line, record.raw, record.problem or record.cells) for record in expected]
    assert [(record.line, record.raw, record.problem or record.cells) for record in found] == error_text


@settings(max_examples=200, deadline=None)
@given(st.one_of(csvs(), csvs(), SOUP), SIZES, DIALECTS)
def test_the_records_of_a_csv_are_the_same_either_way(raw: bytes, sizes: Sizes, dialect: Dialect) -> None:
    require_same_records(raw, sizes, dialect)


ESCAPED = Dialect(escape="\\")


@pytest.mark.parametrize(
    ("records", "dialect"),
    [
        (b"1,2\r3,4\n", Dialect()),
        (b'1,"2\r3"\n4,"5"\r', Dialect()),
        (b"1,\0\n", Dialect()),
        (b"\xef\xbb\xbf1,2\n", Dialect()),
        (b'1,x"\n2,y"\n3,z\n', Dialect()),
        (b'1,"x"y\n2,"z"\n', Dialect()),
        (b'1,"x\n2,y\n', Dialect()),
        (b'1,"x"\n2\n"3,\n",4\n', Dialect()),
        (b'1,"x\ny",2\n3,4\n"5,\n6",7\n', Dialect()),
        (b'1,"' + b"long\n" * 20 + b'"\n2,3\n', Dialect()),
        (b"1," + b"long" * 20 + b"\n2,3\n", Dialect()),
        (b'1,"x""y"\n2,3\n', ESCAPED),
        (b"1,x\\y\n2,3\n", ESCAPED),
        (b"1,caf\xe9\n2,3\n", Dialect()),
        (b"\n\n \n", Dialect()),
        ("1é2\n".encode(), Dialect("é")),
        (b'1"2\n', Dialect('"')),
    ],
)
def test_chunks_that_are_not_plain_are_read_by_records(records: bytes, dialect: Dialect) -> None:
    sign = dialect.delimiter.encode()
    for before in (b"", b"8,9\n" * 3):
        for after in (b"", b"6,7\n" * 30):
            raw = b"a,b\n".replace(b",", sign) + before.replace(b",", sign) + records + after
            require_same_records(raw, Sizes(500, 30, line=64), dialect)


@settings(max_examples=10, deadline=None)
@given(st.one_of(csvs(), csvs(), SOUP), SIZES, st.booleans())
def test_a_csv_reads_the_same_either_way(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes, sizes: Sizes, typed: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "random.csv"
    path.write_bytes(raw)
    known = (
        (schema(a="BIGINT", b="STRING", at="TIMESTAMP") if b"at" in raw[:9] else schema(a="STRING", b="INT"))
        if typed
        else None
    )
    found = []
    with pytest.MonkeyPatch.context() as patch:
        for careful in (False, True):
            reading(patch, sizes, careful)
            source = looked_at(path, known)
            if isinstance(source, str):
                found.append(source)
                continue
            found.append((source.columns, source.inspection.layout, read(source)))
            assert read(source, origins=True) == read(source)
    assert found[0] == found[1]


class Counting(PushBack):
    """Counts the bytes that are read, those that were put back more than once."""

    bytes_read = 0

    def read(self, size: int) -> bytes:
        data = super().read(size)
        Counting.bytes_read += len(data)
        return data

    def readline(self, limit: int) -> bytes:
        line = super().readline(limit)
        Counting.bytes_read += len(line)
        return line


@pytest.mark.parametrize(
    "broken",
    [
        b'"' + b"a" * 100 + b'\n",',
        b'1,"x\n' + b"aa\n" * 20,
        b'1,"x\n' + b'x"",b\n' * 20,
        b'1,"x\n',
        b"caf\xe9,1\n",
    ],
)
def test_broken_records_are_not_read_many_times(broken: bytes) -> None:
    raw = b"a,b\n" + broken * (200_000 // len(broken))
    pieces = []
    with pytest.MonkeyPatch.context() as patch:
        reading(patch, Sizes(chunk=20_000, smallest=600, line=2_000, record=9_000))
        patch.setattr(csv_pieces, "PushBack", Counting)
        patch.setattr(Counting, "bytes_read", 0)
        stream = io.BufferedReader(io.BytesIO(raw))
        for piece in csv_pieces.CsvPieces(stream, Dialect(), ["a", "b"], TOGETHER, lambda cells, *_: cells.num_rows):
            pieces.append(piece.result + len(piece.problems))
        assert sum(pieces) == sum(1 for _ in CsvRecords(io.BufferedReader(io.BytesIO(raw)), Dialect(), 2)) - 1
    assert Counting.bytes_read < 4 * len(raw)
    assert len(pieces) < 30


def test_a_line_that_cannot_be_read_before_the_names_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"caf\xe9,b\na,b\n1,2\n")
    for careful in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            reading(patch, Sizes(), careful)
            [rejected] = read(open_file(tmp_path / "x.csv", None)).rejected
        assert (rejected.position, rejected.raw) == ("line 1", b"caf\xe9,b\n")


def test_types_are_inferred_though_a_record_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"a,b\n1,x\n2,caf\xe9\n\0,y\n")
    for careful in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            reading(patch, Sizes(), careful)
            source = open_file(tmp_path / "x.csv", None)
            assert [str(kind) for _, kind in source.columns] == ["BIGINT", "STRING"]
            assert [each.position for each in read(source).rejected] == ["line 3", "line 4"]


ASIDE = frozenset(f"{what} {n}" for what in ("line", "row") for n in range(30, 100))


@pytest.mark.parametrize(
    ("name", "timing"),
    [
        *((name, Timing("at")) for name in ("x.parquet", "x.csv.gz", "cut.csv.gz", "x.csv")),
        *((name, timing) for name in ("x.parquet", "x.csv") for timing in (Timing(), Timing("at", "arrival"))),
    ],
)
def test_other_files_read_the_same_either_way(tmp_path: Path, name: str, timing: Timing) -> None:
    instants = [None if n % 11 == 0 else 1_577_836_800_000_000 + n * 97 % 50 for n in range(400)]
    rows = [(str(n) if n % 7 else "x", at) for n, at in enumerate(instants)]
    if name.endswith("parquet"):
        at = pa.array(instants, pa.timestamp("us", tz="UTC"))
        pq.write_table(pa.table({"a": [a for a, _ in rows], "at": at}), tmp_path / name, row_group_size=90)
    else:
        lines = [f"{a},{'' if at is None else f'2020-01-01 00:00:00.{at % 100:06}'}\n" for a, at in rows]
        raw = "".join(["a,at\n", *lines]).encode()
        packed = gzip.compress(raw) if name.endswith("gz") else raw
        (tmp_path / name).write_bytes(packed[:-30] if name.startswith("cut") else packed)
    found = []
    for origins in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            reading(patch, Sizes(chunk=300, rows=90))
            patch.setattr("weft.extraction.files.parquet_pieces.MAX_ROWS", 35)
            source = open_file(tmp_path / name, schema(a="INT", at="TIMESTAMP"), ts_from=timing.ts_from)
            found.append(read(source, timing, 1_577_836_800_000_030, origins=origins))
            found.append(read(source, timing, 1_577_836_800_000_030, ASIDE, origins))
    assert found[:2] == found[2:]
    assert len(found[0].rows) > 100
    assert 0 < len(found[0].rows) - len(found[1].rows) <= 70
    assert len(found[0].rejected) > 10


KEYS = st.sampled_from([None, ["a"], ["b", "a"]])


def home_at(folder: Path) -> OpenHome:
    return OpenHome(folder, open_catalog(folder, create=True, clock="wall", at=AT), lambda: AT)


def stored(home: OpenHome, table: str) -> tuple[list[dict[str, Any]], list[tuple[str, str, bytes]]]:
    """A table's rows in the order in which its files have them, and what of its loads is in quarantine."""
    record = home.catalog.tables.named(table)
    place, rows = home.catalog.data / record.path, []
    if Table(place).exists():
        files = sorted(Table(place).snapshot().files, key=lambda file: file.location.modified_ms())
        rows = read_data_files(files, stored_schema(record.schema)).to_pylist()
    kept = [
        (each.position, each.reason, quarantined_bytes(home.catalog.data, each))
        for each in home.catalog.quarantine.all()
        if each.table_id == record.table_id
    ]
    return rows, sorted(kept)


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OpenHome, OpenHome]]:
    pair = home_at(tmp_path_factory.mktemp("careful")), home_at(tmp_path_factory.mktemp("chunks"))
    yield pair
    for home in pair:
        home.close()


@settings(max_examples=8, deadline=None)
@given(csvs(), SIZES, st.sampled_from([Timing(), Timing("at", "arrival"), Timing("at", late="quarantine")]), KEYS)
def test_a_load_stores_the_same_either_way(
    homes: tuple[OpenHome, OpenHome], raw: bytes, sizes: Sizes, timing: Timing, keys: list[str] | None
) -> None:
    found = []
    for home, careful in zip(homes, (True, False), strict=True):
        name = f"t{len(home.catalog.tables.all())}"
        columns = [("a", DataType("BIGINT")), ("b", DataType("STRING")), ("at", DataType("TIMESTAMP"))]
        home.catalog.tables.create(name, columns, keys)
        path = home.folder / "x.csv"
        path.write_bytes(raw)
        with pytest.MonkeyPatch.context() as patch:
            reading(patch, sizes, careful)
            try:
                done: Summary | str = ingest_file(home, path, name, timing=timing)
            except WeftError as error:
                done = error_text(error).replace(str(home.folder), "")
        found.append((done, stored(home, name)))
    assert found[0] == found[1]


ROWS = 40
SCRIPT = """
import sys
from weft.api.weft import Weft
from weft.extraction.files import bulk, csv_pieces
bulk.ROWS, csv_pieces.CHUNK, csv_pieces.SMALLEST = 9, 150, 40
with Weft.open(sys.argv[1], clock="replay", create=True) as weft:
    print(weft.ingest_file(sys.argv[2], "t", ts_from="at", keys=sys.argv[3:]))
"""


@pytest.mark.parametrize(
    ("point", "keys"),
    [
        ("ingest.quarantined:2", []),
        ("ingest.reserved:2", []),
        ("ingest.written:2", []),
        ("ingest.committed:2", []),
        ("ingest.written:2", ["a"]),
    ],
)
def test_a_large_load_that_was_killed_goes_on_where_it_was(tmp_path: Path, point: str, keys: list[str]) -> None:
    lines = [f"{n},{'x' if n % 9 else 'torn,'},1993-04-{1 + n % 28:02}" for n in range(ROWS)]
    (tmp_path / "x.csv").write_text("\n".join(["a, b, at", *lines]) + "\n")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "home"), str(tmp_path / "x.csv"), *keys]
    died = forked.run(command, point)
    assert died.returncode == -signal.SIGKILL, died.stderr
    with pytest.MonkeyPatch.context() as patch:
        reading(patch, Sizes(chunk=150, smallest=40, rows=9))
        with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
            done = weft.ingest_file(tmp_path / "x.csv", "t", ts_from="at", keys=keys or None)
            record = weft.catalog.tables.named("t")
            files = Table(weft.catalog.data / record.path).snapshot().files
            numbers = read_data_files(files, stored_schema(record.schema, ["a"])).column("a").to_pylist()
            assert sorted(numbers) == [n for n in range(ROWS) if n % 9]
            assert record.rows == len(numbers)
            kept = sorted(int(each.position.split()[1]) for each in weft.quarantined())
            assert kept == [n + 2 for n in range(ROWS) if n % 9 == 0]
            assert done.stored + done.known >= len(numbers)
            assert weft.catalog.reservations.still_open() == ()


def test_texts_of_earlier_row_groups_are_not_kept(tmp_path: Path) -> None:
    """DuckDB and others write texts without a dictionary. A reader of several row groups would keep all of them."""
    path, rows = tmp_path / "x.parquet", 1_000
    with pq.ParquetWriter(path, pa.schema([("x", pa.string())]), use_dictionary=False) as writer:
        for group in range(40):
            writer.write_table(pa.table({"x": [f"{group * rows + row:01000}" for row in range(rows)]}))
    before = pa.total_allocated_bytes()
    with path.open("rb") as stream:
        used = [pa.total_allocated_bytes() - before for _ in pieces(parquet_file(path, stream, "x.parquet"), None)]
    assert len(used) == 40 and max(used) < 2 * min(used) < 20_000_000
