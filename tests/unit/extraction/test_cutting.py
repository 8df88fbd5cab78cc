"""Files that are read in parts give what they give as a whole: rows, rejected records, types, encoding and digest."""

from __future__ import annotations

import errno
import hashlib
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unit.extraction.test_bulk import (
    DIALECTS,
    SIZES,
    SOUP,
    TOGETHER,
    Read,
    Sizes,
    csvs,
    looked_at,
    read,
    reading,
    schema,
)
from weft.errors import ExtractionError
from weft.extraction.batches import DEFAULT_TIMING, Timing
from weft.extraction.byte_streams import plain
from weft.extraction.files import csv_pieces, cutting, encoding
from weft.extraction.files.cutting import Cut, GroupCut, Surveyed, TextCut, Walk, digest_of_blocks, survey
from weft.extraction.files.encoding import Letters, detect_encoding
from weft.extraction.files.part import Part
from weft.extraction.files.source import FileSource, digests_of, open_file
from weft.extraction.files.text_records import CsvRecords, Dialect, TextRecord, json_records

Records = list[TextRecord]
Reader = Callable[[io.BufferedReader, Part], Records]
BLOCKS = st.integers(1, 200)
MOST = st.integers(1, 6)


def surveyed(raw: bytes, quote: bytes) -> list[Surveyed]:
    return [survey(io.BytesIO(raw), begin, cutting.BLOCK, quote) for begin in range(0, len(raw), cutting.BLOCK)]


def in_parts(raw: bytes, quote: bytes, most: int, reader: Reader) -> tuple[Records, int]:
    """Return the records of a text that is read in parts, and how many parts were read in vain."""
    walk, found, vain = Walk([TextCut(surveyed(raw, quote))], most), [], 0
    while stretches := walk.ahead():
        assert len(stretches) <= most
        parts, done = [stretch.part() for stretch in stretches], []
        for part in parts:
            stream = io.BytesIO(raw)
            stream.seek(part.position)
            done.append(reader(io.BufferedReader(stream), part))
        right = walk.take(stretches, [(part.position, part.before) for part in parts])
        vain += len(stretches) - right
        found += [record for each in done[:right] for record in each]
    return found, vain


def contents(records: Sequence[TextRecord]) -> list[tuple[object, ...]]:
    return [(record.line, record.raw, record.problem or record.cells, record.kinds) for record in records]


def csv_reader(dialect: Dialect, names: list[str]) -> Reader:
    def records(stream: io.BufferedReader, part: Part) -> Records:
        found: Records = []

        def look(cells: pa.Table, records_at: csv_pieces.RecordsAt, _connection: object) -> Records:
            rows = [list(row.values()) for row in cells.to_pylist()]
            places = records_at(range(len(rows)))
            return [TextRecord(line, raw, row) for (line, raw), row in zip(places, rows, strict=True)]

        for piece in csv_pieces.CsvPieces(stream, dialect, names, TOGETHER, look, part):
            found += sorted([*piece.result, *piece.problems], key=lambda record: record.line)
        return found

    return records


def require_same_records(raw: bytes, sizes: Sizes, dialect: Dialect, block: int, most: int) -> int | None:
    """Return how many parts were read in vain, or None for a file without a header line."""
    with pytest.MonkeyPatch.context() as patch:
        reading(patch, sizes)
        patch.setattr(cutting, "MAX_LINE", sizes.line)
        patch.setattr(cutting, "BLOCK", block)
        records = CsvRecords(io.BufferedReader(io.BytesIO(raw)), dialect)
        named, before = records.names()
        if named is None:
            return None
        names = [str(number) for number in range(records.width or 0)]
        expected = [*before, *records]
        found, vain = in_parts(raw, dialect.quote.encode(), most, csv_reader(dialect, names))
    assert contents(found) == contents(expected)
    return vain


@settings(max_examples=400, deadline=None)
@given(st.one_of(csvs(), csvs(), SOUP), SIZES, DIALECTS, BLOCKS, MOST)
def test_the_records_of_a_csv_are_the_same_in_parts(
    raw: bytes, sizes: Sizes, dialect: Dialect, block: int, most: int
) -> None:
    require_same_records(raw, sizes, dialect, block, most)


LINES = b'1,"a\nb"\n2,c\n' * 40


@pytest.mark.parametrize(
    ("raw", "wrong"),
    [
        (LINES, False),
        (LINES + b'3,"open\n' + LINES * 3, True),
        (LINES + b'3,"a"b"\n' + LINES, True),
        (b'1,"' + b"x\n" * 200 + b'"\n' + LINES, True),
        (LINES + b'3,"' + b"x\n" * 400 + LINES, True),
    ],
)
def test_a_wrong_proposal_costs_parts_and_no_record(raw: bytes, wrong: bool) -> None:
    vain = require_same_records(b"a,b\n" + raw, Sizes(200, 50), Dialect(), 100, 4)
    assert vain is not None and (vain > 0) == wrong


def test_one_stray_quote_does_not_end_the_cutting() -> None:
    lines = b"".join(b"%d,x\n" % number for number in range(200))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "BLOCK", 100)
        parts = len(Walk([TextCut(surveyed(lines, b'"'))], 99).ahead())
        strayed = len(Walk([TextCut(surveyed(b'7,5" pipe\n' + lines, b'"'))], 99).ahead())
    assert parts > 10 and strayed >= parts
    assert require_same_records(b'a,b\n7,5" pipe\n' + lines, Sizes(200, 50), Dialect(), 100, 4) is not None


@pytest.mark.parametrize("size", [700, 1_500, 2_003])
def test_a_file_that_became_shorter_is_refused(size: int) -> None:
    raw = b'1,"x\ny"\n' * 400
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "BLOCK", 300)
        walk = Walk([TextCut(surveyed(raw, b'"'))], 3)
    with pytest.raises(ExtractionError, match="changed while it was read"):
        while stretches := walk.ahead():
            reached = []
            for part in (stretch.part() for stretch in stretches):
                stream = io.BytesIO(raw[:size])
                stream.seek(part.position)
                records = CsvRecords(io.BufferedReader(stream), Dialect(), 2, part.before, part.size)
                list(records)
                reached.append((part.position + records.position, records.line))
            walk.take(stretches, reached)


class Broken(io.RawIOBase):
    """A stream whose disk fails after some bytes."""

    def __init__(self, raw: bytes) -> None:
        self._left = io.BytesIO(raw)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._left.readinto(buffer)
        if not count:
            raise OSError(errno.EIO, "Input/output error")
        return count


def test_damage_within_a_part_is_an_error() -> None:
    with pytest.raises(ExtractionError, match="damaged in the middle"):
        list(json_records(plain(Broken(b'{"a":1}\n' * 9), False), part=Part(0, 0, 500)))
    with pytest.raises(ExtractionError, match="damaged in the middle"):
        csv_reader(Dialect(), ["a"])(plain(Broken(b"1\n" * 9), False), Part(0, 0, 500))


JSON_LINES = st.lists(
    st.sampled_from([b'{"a": 1}', b'{"a": "x", "b": [1, 2]}', b"", b" ", b"{", b"[]", b'{"a": "caf\xe9"}', b"y" * 90])
    | st.sampled_from(['{"é": "𝔘"}'.encode(), b'{"a": null}', b"\0", b'{"a": 1, "a": 2}', b"\xef\xbb\xbf{}"]),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(JSON_LINES, st.sampled_from([b"\n", b"\r\n"]), st.booleans(), SIZES, BLOCKS, MOST)
def test_the_records_of_json_lines_are_the_same_in_parts(
    lines: list[bytes], end: bytes, ended: bool, sizes: Sizes, block: int, most: int
) -> None:
    raw = end.join(lines) + end * ended
    with pytest.MonkeyPatch.context() as patch:
        reading(patch, sizes)
        patch.setattr(cutting, "MAX_LINE", sizes.line)
        patch.setattr(cutting, "BLOCK", block)
        found, vain = in_parts(raw, b"", most, lambda stream, part: list(json_records(stream, part=part)))
        assert contents(found) == contents(list(json_records(io.BufferedReader(io.BytesIO(raw)))))
    assert not vain


def parts_of(source: FileSource, most: int, timing: Timing) -> Read:
    """Read the parts of a file each on its own, as executors do."""
    walk, found = Walk([cut_of(source)], most), Read([], [], 0)
    while stretches := walk.ahead():
        parts = [stretch.part() for stretch in stretches]
        done = [read(source, timing, part=part) for part in parts]
        for each in done[: walk.take(stretches, [(part.position, part.before) for part in parts])]:
            found = Read(found.rows + each.rows, found.rejected + each.rejected, found.read + each.read)
    rows = [{**row, "_seq": number} for number, row in enumerate(found.rows)]
    return Read(rows, sorted(found.rejected, key=lambda one: (int(one.position.split()[1]), one.raw)), found.read)


def cut_of(source: FileSource) -> Cut:
    layout, raw = source.inspection.layout, source.inspection.file.path.read_bytes()
    if layout.format == "parquet":
        metadata = pq.read_metadata(io.BytesIO(raw))
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        return GroupCut([(group.total_byte_size, group.num_rows) for group in groups])
    return TextCut(surveyed(raw, layout.dialect.quote.encode() if layout.format == "csv" else b""))


@settings(max_examples=8, deadline=None)
@given(st.one_of(csvs(), csvs(), SOUP), SIZES, st.integers(40, 400), MOST, st.booleans())
def test_the_rows_of_a_csv_are_the_same_in_parts(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes, sizes: Sizes, block: int, most: int, typed: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "parts.csv"
    path.write_bytes(raw)
    known = schema(a="BIGINT", b="STRING", at="TIMESTAMP") if b"at" in raw[:9] else schema(a="STRING", b="INT")
    with pytest.MonkeyPatch.context() as patch:
        reading(patch, sizes)
        patch.setattr(cutting, "MAX_LINE", sizes.line)
        patch.setattr(cutting, "BLOCK", block)
        source = looked_at(path, known if typed else None)
        if not isinstance(source, str):
            assert parts_of(source, most, DEFAULT_TIMING) == read(source)


@pytest.mark.parametrize("name", ["x.parquet", "x.jsonl"])
def test_the_rows_of_other_files_are_the_same_in_parts(tmp_path: Path, name: str) -> None:
    rows = [
        {"a": str(n) if n % 7 else "x", "at": None if n % 11 == 0 else f"2020-01-01 00:00:{n % 60:02}"}
        for n in range(200)
    ]
    if name.endswith("parquet"):
        at = pc.strptime(pa.array([row["at"] for row in rows]), "%Y-%m-%d %H:%M:%S", "us")
        pq.write_table(pa.table({"a": [row["a"] for row in rows], "at": at}), tmp_path / name, row_group_size=9)
    else:
        (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "BLOCK", 2_000)
        source = open_file(tmp_path / name, schema(a="INT", at="TIMESTAMP"), ts_from="at")
        assert len(list(cut_of(source).ends(0))) > 2
        whole = read(source, Timing("at"))
        assert parts_of(source, 3, Timing("at")) == whole
        assert 100 < len(whole.rows) < 190 and len(whole.rejected) > 30


TEXTS = st.lists(
    st.sampled_from(
        [b"a\n", "é\n".encode(), b"\xe9\n", b"\xe9t\xe9 \xe0\n", b"\n", "привет\n".encode("cp1251"), b"long " * 9]
    ),
    max_size=30,
).map(b"".join)


@given(TEXTS, BLOCKS)
def test_the_encoding_and_the_digest_are_those_of_the_blocks(raw: bytes, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "BLOCK", 3 * block)
        patch.setattr(cutting, "DIGEST_BLOCK", block)
        patch.setattr(cutting, "_SLICE", block // 2)
        blocks = surveyed(raw, b"")
        both = digests_of(io.BytesIO(raw))
    assert both == tuple(dict.fromkeys([hashlib.sha256(raw).hexdigest(), digest_of_blocks(b.sha256 for b in blocks)]))
    several = b"".join(hashlib.sha256(raw[at : at + block]).digest() for at in range(0, len(raw), block))
    if len(raw) > block:
        assert digest_of_blocks(each.sha256 for each in blocks) == f"blocks-{hashlib.sha256(several).hexdigest()}"
    if encoding._without_mark(raw[:512]) is None:
        found = sum((each.letters for each in blocks), Letters())
        assert found.encoding == detect_encoding(io.BufferedReader(io.BytesIO(raw)))
