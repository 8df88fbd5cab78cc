"""The log of another program's table, written by hand: what each commit is read as, and what is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from weft.algebra.schema import BIGINT, STRING, TIMESTAMP
from weft.errors import NotFound, Refused, StorageError
from weft.storage.attached_log import (
    Change,
    OtherTable,
    changes_after,
    column_of_instants,
    digest_of,
    first_removal,
    head_of,
    interval_us,
    is_missing,
    joined,
    removed_after,
)
from weft.store import Store, store_of

Action = dict[str, dict[str, Any]]
TIME = 1_700_000_000_000


def made(*fields: tuple[str, Any], partitions: tuple[str, ...] = (), **properties: str) -> Action:
    """A definition of the table. A name of a property has two underscores for a point."""
    columns = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields]
    return {
        "metaData": {
            "id": "the-id",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": columns}),
            "partitionColumns": list(partitions),
            "configuration": {name.replace("__", "."): value for name, value in properties.items()},
        }
    }


def protocol(*features: str) -> Action:
    more = {"readerFeatures": list(features)} if features else {}
    versions = {"minReaderVersion": 3 if features else 1, "minWriterVersion": 7}
    return {"protocol": {**versions, "writerFeatures": list(features), **more}}


def add(path: str, rows: int = 1, **more: Any) -> Action:
    stats = json.dumps({"numRecords": rows})
    fields = {"path": path, "partitionValues": {}, "size": 10, "modificationTime": TIME + 7, "stats": stats}
    return {"add": {**fields, "dataChange": True, **more}}


def remove(path: str, **more: Any) -> Action:
    return {"remove": {"path": path, "dataChange": False, "deletionTimestamp": TIME + 9, **more}}


def info(millis: int = TIME, **more: int) -> Action:
    return {"commitInfo": {"timestamp": millis, **more}}


def written(folder: Path, *commits: list[Action]) -> Store:
    log = folder / "other/_delta_log"
    log.mkdir(parents=True)
    for version, actions in enumerate(commits):
        (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    return store_of(folder / "other")


BEGIN = [protocol(), made(("id", "long"), ("at", "timestamp")), info()]


def changes(folder: Path, *commits: list[Action]) -> list[Change]:
    return list(changes_after(written(folder, BEGIN, *commits), 0))


def refusals(folder: Path, *actions: Action) -> set[str]:
    with pytest.raises(Refused) as refused:
        changes(folder, list(actions))
    reasons = refused.value.reasons or (refused.value,)
    assert all(each.where == str(store_of(folder / "other")) and each.hint for each in reasons)
    return {each.message for each in reasons}


def test_the_head_has_the_definition_the_files_and_the_time(tmp_path: Path) -> None:
    definition = made(
        ("id", "long"), ("day", "date"), partitions=("day",), delta__deletedFileRetentionDuration="interval 2 days"
    )
    part = add("day=2024-01-02/a%20b", partitionValues={"day": "2024-01-02"})
    place = written(tmp_path, [protocol(), definition, part, info(), info(5)], [add("b", 3), info(TIME + 1)])
    head = head_of(place)
    assert (head.version, head.at) == (1, (TIME + 1) * 1_000)
    assert (head.table.table_id, head.table.partitions, head.table.place) == ("the-id", ("day",), place)
    assert [(name, kind.name) for name, kind in head.table.columns] == [("id", "BIGINT"), ("day", "DATE")]
    assert head.table.retention_us == 2 * 24 * 3_600_000_000
    files = {file.path: (file.size, file.rows, file.modified_ms, file.values.get("day")) for file in head.files}
    assert files == {"day=2024-01-02/a b": (10, 1, TIME + 7, "2024-01-02"), "b": (10, 3, TIME + 7, None)}
    with pytest.raises(NotFound, match="there is no Delta table"):
        head_of(store_of(tmp_path / "none"))


@pytest.mark.parametrize("partition", ["double", "timestamp", "binary"])
def test_a_table_whose_partitions_are_not_read_is_refused(tmp_path: Path, partition: str) -> None:
    place = written(tmp_path, [protocol(), made(("id", "long"), ("p", partition), partitions=("p",)), info()])
    with pytest.raises(Refused, match="it is partitioned by p, a column of type") as refused:
        head_of(place)
    assert refused.value.where == str(place) and refused.value.hint


def test_commits_are_appends_rewrites_or_neither(tmp_path: Path) -> None:
    moved = add("c", 3, dataChange=False, defaultRowCommitVersion=1)
    found = changes(
        tmp_path,
        [add("a"), add("b%25", 2), info(TIME + 1)],
        [moved, remove("a"), remove("b%25", deletionTimestamp=None), info(TIME + 2)],
        [made(("id", "long"), ("new", "string")), info(TIME + 3, inCommitTimestamp=TIME + 33)],
        [add("c", 3, dataChange=False), info(TIME + 4)],
    )
    place = store_of(tmp_path / "other")
    assert [(each.version, each.kind) for each in found] == [
        (1, "appended"),
        (2, "rewritten"),
        (3, "other"),
        (4, "other"),
    ]
    assert [each.at for each in found] == [(TIME + n) * 1_000 for n in (1, 2, 33, 4)]
    assert [[(file.path, file.rows, file.row_version) for file in each.added] for each in found] == [
        [("a", 1, None), ("b%", 2, None)],
        [("c", 3, 1)],
        [],
        [],
    ]
    assert found[0].added[1].statistics == '{"numRecords": 2}'
    assert found[1].removed == {str(place / "a"): (TIME + 9) * 1_000, str(place / "b%"): (TIME + 2) * 1_000}
    assert [each.table is None for each in found] == [True, True, False, True]
    assert found[2].table is not None
    assert found[2].table.columns == (("id", BIGINT), ("new", STRING))


def test_a_commit_without_a_time_has_that_of_its_file(tmp_path: Path) -> None:
    (found,) = changes(tmp_path, [add("a")])
    log = store_of(tmp_path / "other/_delta_log/00000000000000000001.json")
    assert found.at == log.modified_ms() * 1_000
    assert head_of(store_of(tmp_path / "other")).at == found.at


def test_commits_that_delete_change_or_mix_rows_are_refused(tmp_path: Path) -> None:
    deletes = "version 1 deletes or changes rows, but Weft reads a table in place only while its rows stay"
    for number, actions in enumerate(
        (
            [remove("a", dataChange=True)],
            [{"remove": {"path": "a"}}],  # by default, a removal is one of rows
            [add("a", deletionVector={"storageType": "u"}, dataChange=False), remove("a")],
        )
    ):
        assert refusals(tmp_path / str(number), *actions) == {deletes}
    unsaid = add("b")
    del unsaid["add"]["dataChange"]
    for number, new in enumerate((add("b"), unsaid)):
        mixed = refusals(tmp_path / f"mixed-{number}", new, add("c", dataChange=False), remove("a"))
        assert mixed == {"version 1 both adds and rewrites rows"}


def test_a_commit_is_refused_with_all_reasons(tmp_path: Path) -> None:
    assert refusals(
        tmp_path,
        protocol("deletionVectors", "timestampNtz", "variantType", "odd"),
        made(("id", "long"), ("s", {"type": "struct", "fields": []}), ("p", "double"), partitions=("p",)),
        add("s3://bucket/a"),
        add("/srv/b"),
        add("c%5B1%5D"),
    ) == {
        "it uses odd, variantType, which Weft does not read",
        "Weft does not read the type struct<> of its column s",
        "it is partitioned by p, a column of type DOUBLE, which Weft does not read",
        "its file s3://bucket/a lies outside its folder, as in a shallow clone, which Weft does not read",
        "its file /srv/b lies outside its folder, as in a shallow clone, which Weft does not read",
        "its file c[1] has a name that Spark would misread",
    }
    by_name = made(("id", "long"), delta__columnMapping__mode="name")
    assert refusals(tmp_path / "mapped", by_name) == {
        "it maps its columns to other names (column mapping by name), which Weft does not read"
    }
    (found,) = changes(tmp_path / "not", [made(("id", "long"), delta__columnMapping__mode="none"), info()])
    assert found.table is not None


def test_two_rewrites_are_one(tmp_path: Path) -> None:
    first, second = changes(
        tmp_path,
        [add("c", dataChange=False), add("d", dataChange=False), remove("a"), info(TIME + 1)],
        [add("e", dataChange=False), remove("c", deletionTimestamp=TIME + 10), remove("b"), info(TIME + 2)],
    )
    both = joined(first, second)
    place = store_of(tmp_path / "other")
    assert (both.version, both.at, both.kind) == (2, (TIME + 2) * 1_000, "rewritten")
    assert [file.path for file in both.added] == ["d", "e"]
    assert both.removed == {str(place / name): (TIME + 9) * 1_000 for name in "ab"}
    last = joined(second, Change(3, 0, "other"))
    assert (last.version, last.kind, [file.path for file in last.added]) == (3, "rewritten", ["e"])
    assert last.removed == second.removed


def test_removals_after_a_version_are_found(tmp_path: Path) -> None:
    place = written(
        tmp_path,
        BEGIN,
        [add("a"), add("b")],
        [remove("a", deletionTimestamp=TIME + 50), add("c", dataChange=False)],
        [remove("c", deletionTimestamp=TIME + 40), remove("b", deletionTimestamp=TIME + 60)],
    )
    assert removed_after(place, 0) == removed_after(place, 1) == {str(place / name) for name in "abc"}
    assert removed_after(place, 2) == {str(place / name) for name in "bc"}
    assert removed_after(place, 3) == set()
    assert first_removal(place, 0) == ((TIME + 40) * 1_000, 2)
    assert first_removal(place, 2) == ((TIME + 40) * 1_000, 3)  # a version before added the file
    assert first_removal(place, 3) is None


def test_a_commit_is_known_again_and_a_missing_one_is_noticed(tmp_path: Path) -> None:
    place = written(tmp_path, BEGIN, [add("a")], [add("b")])
    commit = tmp_path / "other/_delta_log/00000000000000000001.json"
    assert digest_of(place, 1) == hashlib.sha256(commit.read_bytes()).hexdigest()
    assert [is_missing(place, version) for version in range(4)] == [False] * 4
    commit.unlink()
    assert digest_of(place, 1) is None
    assert [is_missing(place, version) for version in range(4)] == [False, True, False, False]
    commit.mkdir()
    with pytest.raises(StorageError, match="the Delta table cannot be read") as raised:
        digest_of(place, 1)
    assert raised.value.where == str(place)


def test_intervals_have_several_units() -> None:
    assert interval_us("INTERVAL 1 Week 2 days 3 hours 4 minutes 5.5 seconds") == 788_645_500_000
    assert (interval_us("interval 1 minute"), interval_us("2 fortnights"), interval_us("")) == (60_000_000, 0, 0)


def test_a_column_gives_the_instants_in_the_spelling_of_its_table() -> None:
    def table(*columns: tuple[str, Any], partitions: tuple[str, ...] = ()) -> OtherTable:
        return OtherTable(store_of("/other"), "the-id", columns, partitions, {})

    at, own = ("At", TIMESTAMP), ("TS", TIMESTAMP)
    assert column_of_instants(table(at), "AT") == "At"
    assert column_of_instants(table(at, own), "ts") == "TS"
    assert column_of_instants(table(at), None) is None
    for refused, ts_from, result in (
        (table(own), None, "its column ts has the name of the column with the instant of a row"),
        (table(at), "a", "it has no column a"),
        (table(("at", STRING)), "at", "the column at cannot date its rows"),
        (table(("ts", BIGINT)), "ts", "the column ts cannot date its rows"),
        (table(at, own), "at", "the column At cannot date its rows"),
        (table(at, partitions=("At",)), "at", "the column At cannot date its rows"),
    ):
        with pytest.raises(Refused) as raised:
            column_of_instants(refused, ts_from)
        assert raised.value.message.startswith(result) and raised.value.where == "/other" and raised.value.hint


def test_rows_are_tracked_only_if_the_table_says_so() -> None:
    name = "delta.rowTracking.materializedRowCommitVersionColumnName"

    def column(**properties: str) -> str | None:
        table = OtherTable(store_of("/other"), "the-id", (), (), {name: "_v", **properties})
        assert table.retention_us == 7 * 24 * 3_600_000_000
        return table.row_versions

    on = "delta.enableRowTracking"
    assert [column(**{on: "True"}), column(**{on: "false"}), column()] == ["_v", None, None]
