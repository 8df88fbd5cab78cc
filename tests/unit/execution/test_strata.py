"""Strata without Spark: what is run with what, where a window ends, and a dead tick that is ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest

from definitions import definition
from delta_tables import write_ledger
from weft.algebra.schema import BIGINT, STRING, TIMESTAMP
from weft.api import Weft
from weft.catalog import Writer, layout, open_catalog
from weft.catalog.records import Choice, QueryRecord, results_schema
from weft.errors import Conflict, NotFound
from weft.execution.ticks.strata import member, strata
from weft.execution.ticks.tick import settle_tick
from weft.storage.removing import remove_rows
from weft.storage.table import Table
from weft.storage.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def query(key: int, *reads: int, stratum: int = 0, state: str = "active", tau: int | None = None) -> QueryRecord:
    return QueryRecord(
        key, f"q{key}", "u", "", 1, (), (), None, "start", None, tau, 1, state, None, 0, None, (), reads, stratum, None
    )  # type: ignore[arg-type]


def test_what_a_query_reads_goes_with_it(tmp_path: Path) -> None:
    writer = open_catalog(tmp_path, create=True, clock="replay", at=0).writer("test", "test", 0)

    def install(name: str, *reads: int) -> int:
        return writer.queries.install(definition(name, reads=reads), 0).query_id

    def ticked(*chosen: int) -> list[int]:
        tick = writer.ticks.plan(10, Choice(chosen), 0)
        found = writer.ticks.members(tick.tick_id)
        writer.ticks.abandon(tick.tick_id)
        return [each.query_id for each, _ in found]

    a = install("a")
    b, c = install("b", a), install("c")
    d, e = install("d", b, c), install("e", a)
    assert (ticked(d), ticked(e), ticked(c)) == ([a, b, c, d], [a, e], [c])
    assert [q.name for q in writer.queries.read_by_plans([writer.queries.named("d").plan_id])] == ["a", "b", "c"]
    queries = writer.queries.all()
    assert [(n, [q.query_id for q in found]) for n, found in strata(queries)] == [(0, [a, c]), (1, [b, e]), (2, [d])]
    writer.queries.set_state("a", "paused")
    assert ticked(d) == [b, c, d]


def test_a_window_ends_where_the_window_of_its_inputs_ends() -> None:
    lower = {1: query(1), 2: query(2, state="paused"), 3: query(3, state="failed")}
    whole = member(query(9, 1), 50, 100, lower, {1: 100})
    assert (whole.tau, whole.t, whole.waits) == (50, 100, None)
    held = member(query(9, 1, 2), 50, 100, lower, {1: 100, 2: 70})
    assert (held.t, held.waits) == (
        70,
        "waits for q2, which was ticked up to 1970-01-01 00:00:00.00007 UTC and is paused",
    )
    assert not held.empty
    never = member(query(9, 1, 3), None, 100, lower, {1: 100, 3: None})
    assert never.empty and never.waits == "waits for q3, which was not ticked yet and has failed"
    assert member(query(9, 2), 70, 100, lower, {2: 70}).empty


def test_the_results_of_a_query_are_a_table() -> None:
    schema = results_schema(7, "late", [("a", BIGINT), ("A", STRING), ("b", STRING)])
    assert (schema.name, schema.id, schema.source, schema.start) == ("results.late", 7, "results", "_first_at")
    assert [(c.name, c.type) for c in schema.columns] == [
        ("a", BIGINT),
        ("A_2", STRING),
        ("b", STRING),
        ("_first_at", TIMESTAMP),
        ("_ordinal", BIGINT),
    ]


@pytest.fixture
def weft(tmp_path: Path) -> Weft:
    made = Weft.open(tmp_path / "home", clock="replay", wall=lambda: 0, create=True)
    made.catalog.tables.create("msgs", [("msgid", STRING)])
    return made


def test_a_query_that_is_read_stays(weft: Weft) -> None:
    lower = weft.install("lower", "SELECT msgid FROM msgs")
    higher = weft.install("higher", "SELECT l.msgid, l._first_at AS at FROM Results.LOWER l")
    assert (lower.stratum, higher.stratum, higher.reads) == (0, 1, (lower.query_id,))
    assert (weft.show("lower").read_by, weft.show("higher").reads) == (("higher",), ("lower",))
    with pytest.raises(Conflict, match="read by higher"):
        weft.remove("lower")
    weft.remove("higher")
    weft.remove("lower")
    with pytest.raises(NotFound):
        weft.catalog.queries.named("lower")


def test_explaining_needs_no_open_home(weft: Weft) -> None:
    from weft.api.explaining import explain_query, known_tables

    weft.install("lower", "SELECT msgid FROM msgs")
    text = "SELECT msgid FROM results.lower WHERE NOW() >= _first_at + INTERVAL 1 DAY"
    assert explain_query(text, known_tables(weft.home, 0, text)) == weft.explain(text)


def no_session() -> SparkSession:
    raise AssertionError("a settled tick of queries needs no Spark")


def home(folder: Path) -> Writer:
    """Two queries, one over the other, ticked to 10; a tick to 20 is planned."""
    made = open_catalog(folder, create=True, clock="replay", at=0)
    made.tables.create("t", [("a", BIGINT)])
    writer = made.writer("test", "test", 0)
    columns = (("n", BIGINT),)
    lower = writer.queries.install(definition("lower", columns=columns), 0).query_id
    writer.queries.install(definition("upper", columns=columns, reads=(lower,), signature="other"), 0)
    writer.ticks.plan(20, Choice(), 0)
    return writer


def test_a_dead_tick_of_which_nothing_is_written_is_abandoned_and_fenced(tmp_path: Path) -> None:
    writer = home(tmp_path)
    write_ledger(tmp_path / layout.LEDGER, 0, [(9, 1, 1, ["1"])])
    planned = writer.ticks.planned()
    assert planned is not None
    writer.ticks.open_outputs(planned.tick_id, [("ledger", layout.LEDGER)])
    assert settle_tick(writer, 0, no_session) is None
    assert [tick.state for tick in writer.ticks.latest()] == ["abandoned"]
    assert [each.tau for each in writer.queries.all()] == [None, None]
    # Whoever still computes it can commit nothing any more.
    assert Table(writer.data / layout.LEDGER).number("weft-ledger") == planned.tick_id


def test_a_dead_tick_is_fenced_where_nothing_was_ever_written(tmp_path: Path) -> None:
    """Else a writer that is only late would begin the ledger with rows that nobody counts."""
    writer = home(tmp_path)
    planned = writer.ticks.planned()
    assert planned is not None
    writer.ticks.open_outputs(planned.tick_id, [("ledger", layout.LEDGER)])
    assert settle_tick(writer, 0, no_session) is None
    assert Table(writer.data / layout.LEDGER).number("weft-ledger") == planned.tick_id
    assert verify(writer) == []
    ledger, gone = Table(writer.data / layout.LEDGER), pc.field("query_id") == 1
    assert not remove_rows(ledger, gone, lambda _: True, writer.lease.token, 0, "a test was running")


def test_what_a_dead_tick_has_written_counts_and_the_rest_comes_later(
    tmp_path: Path,
) -> None:
    writer = home(tmp_path)
    planned = writer.ticks.planned()
    assert planned is not None
    writer.ticks.open_outputs(planned.tick_id, [("ledger", layout.LEDGER)])
    write_ledger(tmp_path / layout.LEDGER, planned.tick_id, [(1, 1, 12, ["1"]), (1, 2, 15, ["2"])])
    report = settle_tick(writer, 0, no_session)
    assert report is not None and [(o.query.name, o.rows, o.t) for o in report.outcomes] == [("lower", 2, 20)]
    lower, upper = writer.queries.all()
    assert (lower.tau, lower.rows, lower.last_first_at, upper.tau, upper.rows) == (20, 2, 15, None, 0)
    assert [tick.state for tick in writer.ticks.latest()] == ["committed"]
    assert [(o.state, o.rows) for o in writer.ticks.outputs(planned.tick_id)] == [("written", 2)]
    assert verify(writer) == []
