"""Tables that another program writes and a home reads in place, compared with ordinary tables of the same rows."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import forked
from weft.api import Weft
from weft.errors import AttachedFileGone, Conflict, NotFound, Refused, StorageError
from weft.extraction.batches import batches_of
from weft.extraction.quarantine import quarantined_bytes
from weft.extraction.sources import attached
from weft.schedule.clock import now_us
from weft.storage.attached import INSTANTS
from weft.storage.cleaning import UNCOMMITTED_US, deletable_files
from weft.storage.columns import stored_schema
from weft.storage.data_files import read_data_files
from weft.storage.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("at", pa.timestamp("us", "UTC"))])
BASE = 1_704_067_200_000_000
Row = tuple[int, str | None, int | None]
Dated = Counter[tuple[int, str | None, int | None, int]]


def written(other: Path, rows: Sequence[Row], **options: Any) -> int:
    """Append rows in one commit of another program. Return the time of the commit (µs)."""
    columns = list(zip(*rows, strict=True)) or [[], [], []]
    table = pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)
    write_deltalake(other, table, mode="append", **options)
    return time_of(other, DeltaTable(other).version())


def time_of(other: Path, version: int) -> int:
    entry = (other / f"_delta_log/{version:020d}.json").read_text().splitlines()
    return next(json.loads(line)["commitInfo"]["timestamp"] for line in entry if "commitInfo" in line) * 1_000


def rows_of(weft: Weft, name: str) -> Dated:
    """Return the rows of a table with their ts, as a reader of files gets them."""
    record = weft.catalog.tables.named(name)
    files = Table(weft.catalog.data / record.path).files()
    found = read_data_files(files, stored_schema(record.schema, ["id", "part", "at", "ts"]))
    micros = [found.column(each).cast(pa.int64()).to_pylist() for each in ("at", "ts")]
    rows = Counter(zip(found.column("id").to_pylist(), found.column("part").to_pylist(), *micros, strict=True))
    assert sum(rows.values()) == record.rows
    if rows:
        times = [ts for *_, ts in rows]
        assert (record.first_ts, record.last_ts) == (min(times), max(times))
    return rows


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        yield weft


@pytest.fixture
def other(tmp_path: Path) -> Path:
    written(tmp_path / "other", [(1, "a", BASE), (2, "b", BASE + 5)])
    return tmp_path / "other"


steps = st.lists(
    st.one_of(
        st.lists(
            st.tuples(
                st.integers(1, 3), st.sampled_from(["a", "b", None]), st.one_of(st.none(), st.integers(BASE, BASE + 9))
            ),
            max_size=4,
        ),
        st.sampled_from(["compact", "z-order", "take", "take"]),
        st.integers(0, 9),
    ),
    max_size=12,
)


@given(steps=steps, partitioned=st.booleans(), own=st.booleans(), late=st.sampled_from(["stamp", "quarantine"]))
@settings(max_examples=15, deadline=None, phases=(Phase.explicit, Phase.generate))
def test_rows_have_the_instants_of_an_ordinary_table_with_the_same_loads(
    steps: Sequence[Any], partitioned: bool, own: bool, late: Any
) -> None:
    """The last step of a sequence is that the home takes all versions. An int ticks the home at that instant."""
    with TemporaryDirectory() as folder, Weft.open(Path(folder) / "home", clock="replay", create=True) as weft:
        other, ts_from = Path(folder) / "other", "at" if own else None
        made = [(1, "a", BASE + 3), (2, None, BASE + 4)]
        loads = [(made, written(other, made, partition_by=["part"] if partitioned else None))]
        for number, step in enumerate([*steps[:1], "attach", *steps[1:], "take"]):
            if isinstance(step, int) and number > 1:  # a tick takes the new versions before it moves the watermark
                for rows, at in loads:
                    load_ordinary(weft, rows, at, ts_from, late)
                loads = []
            if step in ("compact", "z-order"):
                optimizer = DeltaTable(other).optimize
                optimizer.compact() if step == "compact" else optimizer.z_order(["id"])
            elif isinstance(step, int):
                base = BASE if own else max(weft.catalog.home().last_ts, 0)
                weft.tick(now=max(base + step, weft.catalog.home().watermark))
                assert not weft.sources() or weft.sources()[0].trouble is None
            elif not isinstance(step, str):
                loads.append((step, written(other, step)))
            elif step == "attach" or number > 1:
                if step == "attach":
                    if not own:  # all rows of the version that Weft sees first have its time
                        loads = [
                            ([row for rows, _ in loads for row in rows], time_of(other, DeltaTable(other).version()))
                        ]
                    weft.make_table("plain", "id BIGINT, part STRING, at TIMESTAMP")
                    weft.attach_table("orders", other, ts_from=ts_from, late=late)
                else:
                    weft.poll_source("orders")
                for rows, at in loads:
                    load_ordinary(weft, rows, at, ts_from, late)
                loads = []
                assert rows_of(weft, "orders") == rows_of(weft, "plain")
        orders, plain = map(weft.catalog.tables.named, ("orders", "plain"))
        assert (orders.rows, orders.first_ts, orders.last_ts) == (plain.rows, plain.first_ts, plain.last_ts)


def load_ordinary(weft: Weft, rows: Sequence[Row], at: int, ts_from: str | None, late: Any) -> None:
    """Load the rows into an ordinary table, with the instants of the attached one."""
    dated = [row for row in rows if ts_from is None or row[2] is not None]
    given = [
        {"id": i, "part": p, "at": instant(own), "ts": instant(at if ts_from is None else own)} for i, p, own in dated
    ]
    if given:
        weft.append("plain", given, ts_from="ts", late="stamp" if ts_from is None else late)


def instant(micros: int | None) -> dt.datetime | None:
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
    return None if micros is None else epoch + dt.timedelta(microseconds=micros)


def test_rows_without_a_time_late_ones_and_those_ahead_go_to_quarantine(tmp_path: Path) -> None:
    now = BASE
    with Weft.open(tmp_path / "home", create=True, wall=lambda: now) as weft:
        hour = 3_600_000_000
        written(
            tmp_path / "other", [(1, "a", BASE - 5), (2, "a", None), (3, "a", BASE + 25 * hour), (4, "a", BASE + hour)]
        )
        weft.attach_table("orders", tmp_path / "other", ts_from="at", late="quarantine")
        assert [row[0] for row in rows_of(weft, "orders")] == [1, 4]
        now += 10
        weft.tick()
        written(tmp_path / "other", [(5, "a", BASE), (6, "a", now)])
        polled = weft.poll_source("orders")
        assert (polled.began, polled.quarantined) == (1, 1)
        reasons = [
            (each.position.split(", ")[0], each.position.split(", ")[2], each.reason) for each in weft.quarantined()
        ]
        assert reasons == [
            ("version 0", "row 2", "at is empty"),
            ("version 0", "row 3", "at is more than 1d ahead of the clock"),
            ("version 1", "row 1", "late: at is before 2024-01-01 00:00:00.00001 UTC"),
        ]
        assert weft.retry_quarantine().kept == 3
        assert weft.loads()[0].load.quarantined == 1


def test_many_rejected_rows_are_stored_in_batches_and_none_twice_after_a_failure(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(batches_of.__kwdefaults__, "max_rows", 4)
    stored: list[int] = []
    real = attached.quarantine

    def quarantine(catalog: Any, load_id: int, table_id: int, rejected: Any, *rest: Any) -> int:
        if len(stored) == 1:
            stored.append(0)
            raise StorageError("the disk is full")
        stored.append(len(rejected))
        return real(catalog, load_id, table_id, rejected, *rest)

    monkeypatch.setattr(attached, "quarantine", quarantine)
    written(tmp_path / "other", [(0, "a", BASE)])
    weft.attach_table("orders", tmp_path / "other", ts_from="at")
    written(tmp_path / "other", [(n, "a", BASE if n % 7 == 0 else None) for n in range(1, 21)])
    with pytest.raises(StorageError):
        weft.poll_source("orders")
    assert sorted(row[0] for row in rows_of(weft, "orders")) == [0]
    weft.poll_source("orders")
    assert stored == [4, 0, 4, 4, 4, 4, 2]
    found = [each.position.rpartition(" ")[2] for each in weft.quarantined()]
    assert sorted(map(int, found)) == [n for n in range(1, 21) if n % 7]
    assert sorted(row[0] for row in rows_of(weft, "orders")) == [0, 7, 14]
    raws = [quarantined_bytes(weft.catalog.data, each) for each in weft.quarantined()]
    assert sorted(json.loads(raw)["id"] for raw in raws) == [n for n in range(1, 21) if n % 7]


def test_late_rows_stop_a_table_that_refuses_them_and_nothing_is_lost(weft: Weft, other: Path) -> None:
    weft.attach_table("orders", other, ts_from="at", late="refuse")
    weft.tick(now=instant(BASE + 100))
    written(other, [(3, "a", BASE + 50)])
    with pytest.raises(Refused, match=r"version 1 .* 1 row before"):
        weft.poll_source("orders")
    assert (weft.tables()[0].rows, weft.catalog.reservations.still_open()) == (2, ())
    assert "1 row before" in (weft.sources()[0].trouble or "")


def test_a_version_that_deletes_rows_stops_the_table(weft: Weft, other: Path) -> None:
    weft.attach_table("orders", other)
    at = written(other, [(3, "a", BASE)])
    DeltaTable(other).delete("id = 1")
    written(other, [(4, "a", BASE)])
    for _ in range(2):
        with pytest.raises(Refused, match="version 2 deletes or changes rows") as refused:
            weft.poll_source("orders")
    assert "weft source add NAME --kind changes" in (refused.value.hint or "")
    assert rows_of(weft, "orders")[(3, "a", BASE, at)] == 1
    assert weft.tables()[0].rows == 3
    weft.tick(now=instant(at + 10))
    assert any("version 2 deletes" in each for each in weft.health().problems)


@pytest.mark.parametrize("point", ["attached.reserved", "attached.written", "attached.committed", "attached.moved"])
def test_every_version_is_taken_once_across_a_kill(weft: Weft, other: Path, point: str) -> None:
    first = time_of(other, 0)
    weft.attach_table("orders", other)
    one = written(other, [(3, "a", BASE), (3, "a", BASE)])
    DeltaTable(other).optimize.compact()
    two = written(other, [(4, "b", None)])
    program = f"from weft.api import Weft; Weft.open({str(weft.home)!r}).poll_source('orders')"
    killed = forked.run([sys.executable, "-c", program], point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    weft.poll_source("orders")
    expected: Dated = Counter(
        {(1, "a", BASE, first): 1, (2, "b", BASE + 5, first): 1, (3, "a", BASE, one): 2, (4, "b", None, two): 1}
    )
    assert rows_of(weft, "orders") == expected
    assert weft.poll_source("orders").at is None
    assert all(check.ok for check in weft.doctor() if check.name == "home")


def test_new_columns_become_columns_of_the_table(weft: Weft, other: Path) -> None:
    weft.attach_table("orders", other)
    wide = pa.table({"id": pa.array([3], pa.int64()), "more": ["x"]})
    write_deltalake(other, wide, mode="append", schema_mode="merge")
    weft.poll_source("orders")
    assert [column.name for column in weft.tables()[0].schema.columns] == ["id", "part", "at", "ts", "more"]
    samples = weft.describe("orders", 9).samples
    assert sorted((row[0], row[4]) for row in samples) == [(1, None), (2, None), (3, "x")]  # type: ignore[index, union-attr]


def test_a_table_that_was_replaced_is_not_followed(weft: Weft, other: Path) -> None:
    weft.attach_table("orders", other)
    shutil.rmtree(other)
    with pytest.raises(Refused, match="there is no Delta table any more"):
        weft.poll_source("orders")
    for _ in range(2):
        written(other, [(9, "z", BASE)])
    with pytest.raises(Refused, match="was replaced"):
        weft.poll_source("orders")
    with pytest.raises(AttachedFileGone):
        rows_of(weft, "orders")


def test_what_vacuum_removed_before_it_was_taken_stops_the_table(weft: Weft, other: Path) -> None:
    weft.attach_table("orders", other)
    written(other, [(3, "a", BASE)])
    DeltaTable(other).optimize.compact()
    vacuum(other)
    with pytest.raises(Refused, match="VACUUM has deleted files that version 2 rewrites"):
        weft.poll_source("orders")
    assert weft.tables()[0].rows == 3  # the version before is taken


def commit_by_hand(
    other: Path,
    adds: Sequence[tuple[str, Sequence[tuple[int, int | None]]]],
    removes: Sequence[str] = (),
    *,
    moved: bool = False,
) -> int:
    """Commit as a writer with row tracking. Return the time of the commit (µs).

    A row has its id and the version that added it, or None for the version of this commit. ``moved`` files have only
    rows of other files.
    """
    (other / "_delta_log").mkdir(parents=True, exist_ok=True)
    version = len(list((other / "_delta_log").glob("*.json")))
    at = 1_700_000_000_000 + version
    actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": at, "operation": "WRITE"}}]
    if version == 0:
        fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
        properties = {"delta.enableRowTracking": "true", ROW_VERSIONS[0]: ROW_VERSIONS[1]}
        features = ["rowTracking", "domainMetadata"]
        actions += [
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}},
            {
                "metaData": {
                    "id": "e5f1a5b4-0000-4000-8000-000000000001",
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": json.dumps({"type": "struct", "fields": fields}),
                    "partitionColumns": [],
                    "configuration": properties,
                }
            },
        ]
    actions += [{"remove": {"path": name, "deletionTimestamp": at, "dataChange": not moved}} for name in removes]
    for name, rows in adds:
        ids, versions = zip(*rows, strict=True)
        pq.write_table(
            pa.table({"id": pa.array(ids, pa.int64()), ROW_VERSIONS[1]: pa.array(versions, pa.int64())}), other / name
        )
        stats = json.dumps({"numRecords": len(rows)})
        size = (other / name).stat().st_size
        fields_of = {"path": name, "partitionValues": {}, "size": size, "modificationTime": at, "stats": stats}
        actions.append({"add": {**fields_of, "dataChange": not moved, "defaultRowCommitVersion": version}})
    (other / f"_delta_log/{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    return at * 1_000


ROW_VERSIONS = ("delta.rowTracking.materializedRowCommitVersionColumnName", "_row-commit-version")


def ids_of(weft: Weft) -> Counter[tuple[int, int]]:
    """Return the rows of the table orders: the id and the ts."""
    record = weft.catalog.tables.named("orders")
    found = read_data_files(Table(weft.catalog.data / record.path).files(), stored_schema(record.schema, ["id", "ts"]))
    assert found.num_rows == record.rows
    return Counter(zip(found.column("id").to_pylist(), found.column("ts").cast(pa.int64()).to_pylist(), strict=True))


def test_row_tracking_dates_files_that_were_added_and_deleted_between_two_readings(weft: Weft, tmp_path: Path) -> None:
    other = tmp_path / "other"
    times = [commit_by_hand(other, [("a", [(1, None)])])]
    weft.attach_table("orders", other)
    times.append(commit_by_hand(other, [("b", [(1, None), (2, None)])]))
    commit_by_hand(other, [("c", [(1, 0), (1, 1), (2, 1)])], ["a", "b"], moved=True)
    times.append(commit_by_hand(other, [("d", [(1, None)]), ("e", [(3, None)])]))
    commit_by_hand(other, [("f", [(1, 3), (1, 0), (1, 1), (2, 1)])], ["c", "d"], moved=True)
    last = commit_by_hand(other, [("g", [(4, None)])])
    for name in "abcd":
        (other / name).unlink()
    assert weft.poll_source("orders").began == 5
    expected = Counter([(1, times[0]), (1, times[1]), (2, times[1]), (1, times[2]), (3, times[2]), (4, last)])
    assert ids_of(weft) == expected
    assert (weft.poll_source("orders").began, weft.sources()[0].trouble) == (0, None)


def test_files_that_no_later_version_rewrites_stop_the_table_before_their_version(weft: Weft, tmp_path: Path) -> None:
    other = tmp_path / "other"
    commit_by_hand(other, [("a", [(1, None)])])
    weft.attach_table("orders", other)
    commit_by_hand(other, [("b", [(2, None)])])
    commit_by_hand(other, [("c", [(1, 0), (2, 1)])], ["a", "b"], moved=True)
    commit_by_hand(other, [("d", [(3, None)])])
    (other / "c").unlink()
    for _ in range(2):
        with pytest.raises(Refused, match="VACUUM has deleted files that version 2 rewrites"):
            weft.poll_source("orders")
    assert weft.tables()[0].rows == 2


@pytest.mark.parametrize("point", ["attached.reserved", "attached.written", "attached.committed", "attached.moved"])
def test_postponed_versions_are_taken_once_across_a_kill(weft: Weft, tmp_path: Path, point: str) -> None:
    other = tmp_path / "other"
    times = [commit_by_hand(other, [("a", [(1, None)])])]
    weft.attach_table("orders", other)
    times.append(commit_by_hand(other, [("b", [(2, None)])]))
    commit_by_hand(other, [("c", [(1, 0), (2, 1)])], ["a", "b"], moved=True)
    times.append(commit_by_hand(other, [("d", [(3, None)])]))
    commit_by_hand(other, [("e", [(1, 0), (2, 1), (3, 3)])], ["c", "d"], moved=True)
    for name in "abcd":
        (other / name).unlink()
    passes = ":2" if point.endswith(("written", "committed")) else ""
    program = f"from weft.api import Weft; Weft.open({str(weft.home)!r}).poll_source('orders')"
    killed = forked.run([sys.executable, "-c", program], point + passes)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    weft.poll_source("orders")
    assert ids_of(weft) == Counter(zip((1, 2, 3), times, strict=True))
    assert all(check.ok for check in weft.doctor() if check.name == "home")


def test_rewritten_files_with_another_number_of_rows_stop_the_table(weft: Weft, tmp_path: Path) -> None:
    other = tmp_path / "other"
    commit_by_hand(other, [("a", [(1, None)])])
    weft.attach_table("orders", other)
    commit_by_hand(other, [("b", [(2, None), (3, None)])])
    commit_by_hand(other, [("c", [(1, 0), (2, 1)])], ["a", "b"], moved=True)
    with pytest.raises(Refused, match="version 2 only rewrites files, but their rows differ"):
        weft.poll_source("orders")
    assert weft.tables()[0].rows == 3


def test_a_file_that_is_added_again_adds_no_rows(weft: Weft, tmp_path: Path) -> None:
    other = tmp_path / "other"
    times = [commit_by_hand(other, [("a", [(1, None)])])]
    weft.attach_table("orders", other)
    commit_by_hand(other, [("a", [(1, None)])])
    times.append(commit_by_hand(other, [("b", [(2, None)])]))
    commit_by_hand(other, [("b", [(2, None)])])
    commit_by_hand(other, [("c", [(1, 0), (2, 2)])], ["a", "b"], moved=True)
    for _ in range(2):
        weft.poll_source("orders")
        assert ids_of(weft) == Counter(zip((1, 2), times, strict=True))


def test_an_attachment_that_died_in_its_first_poll_uses_row_tracking(weft: Weft, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for number in range(2):
        first = commit_by_hand(other, [(f"a{number}", [(number, None)])])
    program = f"from weft.api import Weft; Weft.open({str(weft.home)!r}).attach_table('orders', {str(other)!r})"
    killed = forked.run([sys.executable, "-c", program], "attached.written")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    second = commit_by_hand(other, [("b", [(2, None)])])
    commit_by_hand(other, [("c", [(0, 0), (1, 1), (2, 2)])], ["a0", "a1", "b"], moved=True)
    for name in ("a0", "a1", "b"):
        (other / name).unlink()
    weft.poll_source("orders")
    assert ids_of(weft) == Counter({(0, first): 1, (1, first): 1, (2, second): 1})
    assert {"id", "from", "from_ts"} <= weft.sources()[0].seen.keys()


def test_row_tracking_is_used_for_a_table_that_had_no_rows(weft: Weft, tmp_path: Path) -> None:
    other = tmp_path / "other"
    commit_by_hand(other, [])
    weft.attach_table("orders", other)
    times = [commit_by_hand(other, [(name, [(number, None)])]) for number, name in enumerate("ab")]
    commit_by_hand(other, [("c", [(0, 1), (1, 2)])], ["a", "b"], moved=True)
    for name in "ab":
        (other / name).unlink()
    weft.poll_source("orders")
    assert ids_of(weft) == Counter(enumerate(times))


def test_the_log_has_the_times_of_files_that_were_added_and_deleted_between_two_readings(
    weft: Weft, other: Path
) -> None:
    weft.attach_table("orders", other, ts_from="at")
    weft.tick(now=instant(BASE + 2_000))
    for number in range(2):
        written(other, [(3 + number, "a", BASE + 9_000)])
        DeltaTable(other).optimize.compact()
    vacuum(other)
    assert weft.poll_source("orders").began == 2
    assert ids_of(weft) == Counter({(1, BASE): 1, (2, BASE + 5): 1, (3, BASE + 9_000): 1, (4, BASE + 9_000): 1})


def test_the_column_of_the_instants_may_be_spelled_in_capitals(tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", create=True, wall=lambda: BASE) as weft:
        times = pa.array([BASE - 2, None, BASE - 1], pa.timestamp("us", "UTC"))
        for more in ({}, {"more": ["x", "y", "z"]}):
            rows = pa.table({"id": [1, 2, 3], "TS": times, **more})
            write_deltalake(tmp_path / "other", rows, mode="append", schema_mode="merge")
            weft.poll_source("orders") if more else weft.attach_table("orders", tmp_path / "other", ts_from="ts")
        assert ids_of(weft) == Counter({(1, BASE - 2): 2, (3, BASE - 1): 2})
        first, _ = weft.quarantined()
        raw = json.loads((tmp_path / "home/quarantine" / first.sha256).read_bytes())
        assert (first.reason, raw) == ("TS is empty", {"id": 2, "TS": None})
        assert [column.name for column in weft.tables()[0].schema.columns] == ["id", "ts", "more"]
        DeltaTable(tmp_path / "other").optimize.compact()
        weft.poll_source("orders")
        assert ids_of(weft) == Counter({(1, BASE - 2): 2, (3, BASE - 1): 2})


def vacuum(other: Path) -> None:
    DeltaTable(other).vacuum(0, dry_run=False, enforce_retention_duration=False)


def test_status_and_doctor_warn_a_day_before_vacuum_may_delete_an_unread_version(tmp_path: Path, other: Path) -> None:
    ahead = 0
    with Weft.open(tmp_path / "home", create=True, wall=lambda: now_us() + ahead) as weft:
        weft.attach_table("orders", other)
        written(other, [(3, "a", BASE)])
        assert weft.health().problems == ()
        DeltaTable(other).optimize.compact()
        day = 24 * 3_600_000_000
        for days, warned in ((5, False), (6, True)):
            ahead = days * day
            assert any("version 1 of the attached table orders" in each for each in weft.health().problems) == warned
            assert any(check.name == "attached" and not check.ok for check in weft.doctor()) == warned
        weft.poll_source("orders")
        assert weft.health().problems == ()


def test_rows_keep_their_instants_after_vacuum(weft: Weft, other: Path) -> None:
    weft.attach_table("orders", other)
    written(other, [(3, "a", BASE)])
    before = weft.poll_source("orders") and rows_of(weft, "orders")
    DeltaTable(other).optimize.compact()
    weft.poll_source("orders")
    vacuum(other)
    assert len(list(other.glob("*.parquet"))) == 1
    assert rows_of(weft, "orders") == before
    table = Table(weft.catalog.data / weft.tables()[0].path)
    (needed,) = (table.place / INSTANTS).names()
    orphan = table.place / f"{INSTANTS}/attached-9-dead.parquet"
    orphan.put(b"x")
    after = orphan.modified_ms() * 1_000
    assert deletable_files(table, 0, after).data == ()
    assert deletable_files(table, 0, after + UNCOMMITTED_US).data == (orphan,)
    written(other, [(4, "a", BASE)])
    DeltaTable(other).optimize.compact()
    weft.poll_source("orders")
    assert f"{needed}" in {place.name for place in deletable_files(table, 0, after + UNCOMMITTED_US).data}
    assert f"{needed}" not in {place.name for place in deletable_files(table, UNCOMMITTED_US, after).data}


def test_only_the_other_program_changes_the_table(weft: Weft, other: Path, tmp_path: Path) -> None:
    files = {path: path.read_bytes() for path in other.rglob("*") if path.is_file()}
    weft.attach_table("orders", other)
    (tmp_path / "more.csv").write_text("id\n1\n")
    with pytest.raises(Refused, match="orders is an attached table"):
        weft.ingest_file(tmp_path / "more.csv", "orders")
    with pytest.raises(Refused, match="orders is an attached table"):
        weft.append("orders", [{"id": 1}])
    with pytest.raises(Conflict, match="attached table, and cannot be undone"):
        weft.undo_load(1)
    with pytest.raises(Refused, match="orders is an attached table"):
        weft.remove_source("orders")
    with pytest.raises(Refused, match="append-only"):
        weft.add_view("v", "SELECT id FROM orders")
    list(weft.maintain(retain=0))
    assert weft.rename_table("orders", "sold").attached
    weft.drop_table("sold")
    assert (weft.tables(), weft.sources()) == ((), ())
    assert {path: path.read_bytes() for path in other.rglob("*") if path.is_file()} == files


def test_nothing_is_attached_if_the_table_cannot_be_read(weft: Weft, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no Delta table"):
        weft.attach_table("orders", tmp_path / "nothing")
    odd = pa.table({"ts": ["x"], "inner": [{"a": 1}], "local": pa.array([1], pa.timestamp("us"))})
    write_deltalake(tmp_path / "odd", odd)
    with pytest.raises(Refused) as refused:
        weft.attach_table("orders", tmp_path / "odd")
    assert {each.message for each in refused.value.reasons} == {
        "Weft does not read the type struct<a: int64> of its column inner",
        "Weft does not read the type timestamp[us] of its column local",
    }
    written(tmp_path / "other", [(1, "a", BASE)])
    with pytest.raises(Refused, match="has no column nothing"):
        weft.attach_table("orders", tmp_path / "other", ts_from="nothing")
    with pytest.raises(Refused, match="cannot date its rows"):
        weft.attach_table("orders", tmp_path / "other", ts_from="part")
    assert (weft.tables(), weft.sources()) == ((), ())


@pytest.mark.parametrize("seen", [None, "{}"])
def test_a_table_that_an_older_version_attached_keeps_the_column_of_its_instants(
    weft: Weft, other: Path, tmp_path: Path, seen: str | None
) -> None:
    """The older version had the column in the table alone, and recorded no state if it died after its first commit."""
    weft.attach_table("orders", other, ts_from="at")
    with closing(sqlite3.connect(tmp_path / "home/catalog.sqlite")) as catalog, catalog:
        change = "UPDATE sources SET options = json_remove(options, '$.ts_from'), seen = ifnull(?, seen)"
        catalog.execute(change, (seen,))
    written(other, [(3, "c", BASE + 9)])
    weft.poll_source("orders")
    assert rows_of(weft, "orders") == Counter(
        [(1, "a", BASE, BASE), (2, "b", BASE + 5, BASE + 5), (3, "c", BASE + 9, BASE + 9)]
    )
