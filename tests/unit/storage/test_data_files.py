"""Data files as they are written and read: row groups, dictionaries, checks, and what is left out of a read."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from s3_server import new_bucket
from weft.errors import AttachedFileGone, FilesRemoved, StorageError
from weft.storage.attached import Attached
from weft.storage.columns import INSTANT
from weft.storage.data_files import (
    ROW_GROUP,
    FileForm,
    NewFile,
    check_data_file,
    count_rows,
    dataset_of,
    file_batches,
    read_data_files,
)
from weft.storage.delta_log import DataFile, bounds_of
from weft.storage.slices import Slice
from weft.storage.statistics import statistics_of
from weft.store import LocalStore, S3Access, S3Store, Store

SCHEMA = pa.schema([("a", pa.int64()), ("ts", INSTANT), ("text", pa.string()), ("texts", pa.list_(pa.string()))])


def rows(*values: int) -> pa.Table:
    texts = [str(each % 3) for each in values]
    columns = [values, pa.array(values, INSTANT), texts, [[each] for each in texts]]
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)


def written(store: Store, *pieces: pa.Table) -> NewFile:
    return FileForm(store, SCHEMA, ("ts",)).write(pieces)


def data_file(new: NewFile) -> DataFile:
    return DataFile(new.location, new.size, new.rows, {}, {})


def layout(file: Store) -> pq.FileMetaData:
    return pq.read_metadata(file.path, filesystem=file.filesystem)


def test_a_file_has_row_groups_dictionaries_and_statistics(store: Store) -> None:
    pieces = [rows(*range(ROW_GROUP + 5)), rows(), rows(7, -7)]
    new = written(store, *pieces)
    assert (new.rows, new.size) == (ROW_GROUP + 7, new.location.size())
    assert json.loads(new.statistics) == {
        "numRecords": ROW_GROUP + 7,
        "minValues": {"ts": "1969-12-31T23:59:59.999Z"},
        "maxValues": {"ts": "1970-01-01T00:00:00.032Z"},
        "nullCount": {"ts": 0},
    }
    found = layout(new.location)
    assert [found.row_group(n).num_rows for n in range(found.num_row_groups) if found.row_group(n).num_rows] == [
        ROW_GROUP,
        5,
        2,
    ]
    first = {found.row_group(0).column(n).path_in_schema: found.row_group(0).column(n) for n in range(4)}
    assert {name: column.has_dictionary_page for name, column in first.items()} == {
        "a": False,
        "ts": False,
        "text": True,
        "texts.list.element": True,
    }
    assert {column.compression for column in first.values()} == {"ZSTD"}
    assert all(column.has_offset_index and column.has_column_index for column in first.values())
    assert read_data_files([data_file(new)], SCHEMA).equals(pa.concat_tables(pieces))
    assert written(store, rows()).rows == written(store).rows == 0


def test_a_file_may_have_a_name_and_a_failed_write_leaves_none(store: Store) -> None:
    form = FileForm(store, SCHEMA, ())
    assert form.write([rows(1)], "x.parquet").location == store / "x.parquet"
    with pytest.raises(ValueError, match="no column z"):
        form.write([pa.table({"z": [1]})], "y.parquet")
    assert store.names() == ["x.parquet"]
    names = {form.write([rows(1)]).location.name for _ in range(3)}
    assert len(names) == 3 and all(
        name.startswith("part-00000-") and name.endswith("-0.zstd.parquet") for name in names
    )


def test_rows_of_a_slice_are_counted(store: Store) -> None:
    file = data_file(written(store, rows(5, 6, 7, 7)))
    assert [count_rows(file, Slice("ts", low, 8)) for low in (5, 6, 7, 8)] == [4, 3, 2, 0]
    assert [count_rows(file, Slice("ts", None, high)) for high in (5, 6, 8)] == [0, 1, 4]


def test_rows_are_read_by_column_condition_and_batch(store: Store) -> None:
    files = [data_file(written(store, rows(1, 2, 3, 4, 5))), data_file(written(store, rows(9)))]
    assert [each.num_rows for each in file_batches(files[0], SCHEMA, batch_rows=2)] == [2, 2, 1]
    newer = pa.schema([("new", pa.int8()), ("a", pa.int64())])
    found = read_data_files(files, newer, pc.field("a") > 3)
    assert found.to_pylist() == [{"new": None, "a": 4}, {"new": None, "a": 5}, {"new": None, "a": 9}]
    assert read_data_files(files, newer, pc.field("new") == 1).num_rows == 0
    assert read_data_files(files, pa.schema([("a", pa.int64())]), pc.field("a") < 3).column("a").to_pylist() == [1, 2]
    only = pa.schema([("a", pa.int64())])
    assert dataset_of(files, SCHEMA, Slice("ts", 2, 4)).to_table(columns=["a"]).column("a").to_pylist() == [2, 3]
    assert dataset_of(files, only).count_rows() == 6
    assert dataset_of([], only).count_rows() == 0


def test_a_file_of_another_size_is_damage(store: Store) -> None:
    new = written(store, rows(1))
    wrong = DataFile(new.location, new.size + 1, 1, {}, {})
    check_data_file(data_file(new))
    message = f"a data file has {new.size} bytes, but the table's log says {new.size + 1}"
    with pytest.raises(StorageError, match=message) as raised:
        check_data_file(wrong)
    assert (raised.value.where, bool(raised.value.hint)) == (str(new.location), True)
    for read in (lambda: read_data_files([wrong], SCHEMA), lambda: dataset_of([wrong], SCHEMA)):
        with pytest.raises(StorageError, match=r"data file (cannot be read: the object )?has [0-9]+ bytes"):
            read()
    if isinstance(store, LocalStore):  # an object is never written in part
        Path(new.location.path).write_bytes(bytes(new.size))
        with pytest.raises(StorageError, match=r"^a file of a table is truncated or overwritten") as raised:
            check_data_file(data_file(new))
        assert raised.value.where == str(new.location) and raised.value.hint
    new.location.remove()
    with pytest.raises(FilesRemoved):  # there is no table that names it
        check_data_file(data_file(new))


def test_an_attached_file_that_was_replaced_is_gone(store: Store) -> None:
    new = written(store, rows(1))
    about = Attached(store / "own", "entry", store.uri, new.location.name, 0, at=5)
    check_data_file(DataFile(new.location, new.size, 1, {}, {}, about))
    replaced = DataFile(new.location, new.size + 1, 1, {}, {}, about)
    gone = DataFile(store / "gone.parquet", new.size, 1, {}, {}, about)
    for file in (replaced, gone):
        with pytest.raises(AttachedFileGone, match="has deleted or replaced it") as raised:
            check_data_file(file)
        assert raised.value.where == str(file.location) and raised.value.hint


def test_a_dictionary_saves_space_from_two_rows_a_value_on(store: Store) -> None:
    schema = pa.schema([("all", pa.int64()), ("half", pa.int64()), ("none", pa.int64())])
    values = pa.table({"all": [1] * 4, "half": [1, 1, 2, 2], "none": [1, 1, 2, 3]}, schema=schema)
    found = layout(FileForm(store, schema, ()).write([values]).location).row_group(0)
    assert [found.column(n).has_dictionary_page for n in range(3)] == [True, True, False]


def test_a_small_object_is_read_once(s3_access: S3Access, monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_bucket(s3_access)
    reads: list[Store] = []
    small = data_file(written(store, rows(1, 2)))
    large = data_file(written(store, pa.table({"text": [str(each**5) for each in range(60_000)]})))
    read = S3Store.read
    monkeypatch.setattr(S3Store, "read", lambda place: (reads.append(place), read(place))[1])
    for _ in range(3):
        assert read_data_files([small, large], SCHEMA).num_rows == 60_002
    assert reads == [small.location]


def test_bounds_tell_which_files_may_hold_a_value() -> None:
    file = DataFile(LocalStore("/x"), 1, 1, {"a": 5}, {"a": 9})
    asked = [(1, 4), (1, 5), (6, 7), (9, 9), (10, 12)]
    assert [file.may_hold("a", *each) for each in asked] == [False, True, True, True, False]
    assert file.may_hold("b", 1, 2)


def test_the_bounds_of_attached_files_leave_out_those_without_rows() -> None:
    def attached(first: int | None, last: int | None) -> DataFile:
        place = LocalStore("/x")
        about = Attached(place, "x", "/other", "x", 0, first=first, last=last)
        return DataFile(place, 1, 1, {}, {}, about)

    plain = DataFile(LocalStore("/x"), 1, 1, {"ts": 0}, {"ts": 99})
    assert bounds_of([plain, attached(5, 7), attached(None, None), attached(4, 6)]) == (4, 7)
    assert bounds_of([plain]) == (None, None)


def test_statistics_are_written_for_given_bounds() -> None:
    far = 2**62
    assert json.loads(statistics_of(3, {"ts": (0, 1_999), "seen": (-far, far)})) == {
        "numRecords": 3,
        "minValues": {"ts": "1970-01-01T00:00:00.000Z"},
        "maxValues": {"ts": "1970-01-01T00:00:00.001Z"},
        "nullCount": {"ts": 0, "seen": 0},
    }
