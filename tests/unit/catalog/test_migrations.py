"""Homes of older layouts open and go on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from weft.api import Weft
from weft.catalog import ddl, glance, open_catalog
from weft.catalog.records import Choice, Count, QueryDefinition
from weft.errors import CatalogError, PlanMismatch, SqlError
from weft.planning.form import restored_plan, stored_form
from weft.planning.plan import columns_of, plan

FORMAT_1 = Path(__file__).with_name("format_1.sql")


@pytest.fixture
def old_home(tmp_path: Path) -> Path:
    """A home as a Weft of format 1 left it: three queries, one of them removed, a tick committed, one planned."""
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as connection:
        connection.executescript(FORMAT_1.read_text())
    return tmp_path


def test_a_home_of_format_1_opens_and_goes_on(old_home: Path) -> None:
    with open_catalog(old_home, at=0) as catalog:
        home = catalog.home()
        assert (home.format, home.watermark, home.last_ts) == (ddl.FORMAT, 300, 200)
        first, second = catalog.queries.all()
        assert (first.name, first.tau, first.rows, first.next_due, first.parameters) == (
            "a",
            300,
            2,
            500,
            (("BIGINT", 7),),
        )
        assert (second.name, second.tau, second.rows) == ("b", 300, 0)
        died = catalog.ticks.planned()
        assert died is not None
        held = catalog.lease()
        assert held is not None
        writer = catalog.writer("tests", "tests", 10**15)
        assert writer.lease.token > held.token
        assert [(o.name, o.state) for o in catalog.ticks.outputs(died.tick_id)] == [("ledger", "open")]
        assert [o.state for t in catalog.ticks.latest()[1:] for o in catalog.ticks.outputs(t.tick_id)] == ["written"]
        assert (first.reads, first.stratum, first.last_first_at) == ((), 0, 299)
        writer.ticks.commit(died.tick_id, {q.query_id: Count(0, None, None, died.t) for q in (first, second)}, [], 21)
        assert writer.queries.named("a").tau == 400
        assert writer.queries.remove("b", 22).query_id == second.query_id
        sender = catalog.sender("tests", 10**15)
        (entry,) = sender.outbox.latest([1], 20)
        assert (entry.last_ordinal, entry.attempts, entry.idempotency_key) == (2, 1, "1-1-2")
        (subscription,) = sender.subscriptions.all()
        assert (subscription.is_served, subscription.muted, subscription.round) == (True, False, 0)
        again = sender.subscriptions.go_to(subscription.sub_id, 0)
        assert sender.outbox.open(again, 2, None, "{}").idempotency_key == "1-1-2-1"
    with open_catalog(old_home, at=0) as again:
        assert again.home().format == ddl.FORMAT


def test_a_migrated_home_has_the_layout_of_a_new_one(old_home: Path, tmp_path: Path) -> None:
    open_catalog(old_home, at=0).close()
    open_catalog(tmp_path / "new", create=True, at=0).close()
    assert _layout(old_home) == _layout(tmp_path / "new")


def test_a_glance_reads_both_formats(old_home: Path) -> None:
    before = glance.table_schemas(old_home)
    assert before is not None
    open_catalog(old_home, at=0).close()
    assert glance.table_schemas(old_home) == before


def test_one_that_had_skipped_goes_on_from_there(old_home: Path) -> None:
    open_catalog(old_home, at=0).close()
    with closing(sqlite3.connect(old_home / "catalog.sqlite")) as connection:  # as one of format 11 was left by it
        connection.execute("UPDATE plans SET body = REPLACE(body, '\"from_now\":false', '\"from_now\":true')")
        _to_format_12(connection)
        connection.execute("UPDATE home SET format = 11")
        connection.execute("DROP TABLE replaced")
        connection.execute("ALTER TABLE queries DROP COLUMN replaced_at")
        connection.commit()
    with open_catalog(old_home, at=0) as catalog:
        assert {(each.from_mode, each.from_instant) for each in catalog.queries.all()} == {("now", 300)}


def test_plans_are_bound_and_constants_keep_their_places(old_home: Path) -> None:
    with open_catalog(old_home, at=0) as catalog:
        tables = [table.schema for table in catalog.tables.all()]
        first, second = catalog.queries.all()
        assert first.plan_id == second.plan_id
        kept = catalog.queries.plan(first.plan_id)
        assert (
            restored_plan(kept.body, kept.signature, tables).text
            == "SELECT DISTINCT t1.a AS c1\n  FROM t AS t1\n  WHERE t1.a = :p1"
        )
        assert (first.names, second.parameters) == (("t",), (("BIGINT", 8),))


def test_a_query_that_no_longer_compiles_is_failed_aloud(old_home: Path) -> None:
    with closing(sqlite3.connect(old_home / "catalog.sqlite")) as connection:
        connection.execute("""UPDATE plans SET body = '{"sql": "SELECT gone FROM t", "entering": false}'""")
        connection.commit()
    with open_catalog(old_home, at=0) as catalog:
        assert {query.state for query in catalog.queries.all()} == {"failed"}
        assert "gone" in (catalog.queries.named("a").reason or "")


def test_the_watermark_of_a_home_of_format_13_is_kept(tmp_path: Path) -> None:
    with (
        open_catalog(tmp_path, create=True, clock="replay", at=0) as catalog,
        catalog.writing("test", lambda: 0) as writer,
    ):
        writer.ticks.commit(writer.ticks.plan(700, Choice(), 0).tick_id, {}, [], 0)
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as connection:
        _to_format_13(connection)
    before = glance.table_schemas(tmp_path)
    with open_catalog(tmp_path, at=0) as catalog:
        assert (catalog.home().format, catalog.home().watermark) == (ddl.FORMAT, 700)
        assert glance.table_schemas(tmp_path) == before == {}


def _to_format_13(connection: sqlite3.Connection) -> None:
    """Undo the migration to format 14."""
    connection.execute("ALTER TABLE home RENAME COLUMN watermark TO forward")
    connection.execute("UPDATE home SET format = 13")
    connection.commit()


def _to_format_12(connection: sqlite3.Connection) -> None:
    """Undo the migrations to formats 13 and 14."""
    _to_format_13(connection)
    connection.execute("DROP INDEX queries_defined")
    connection.execute("ALTER TABLE queries DROP COLUMN definitions")
    connection.execute("ALTER TABLE views DROP COLUMN depends_on_now")
    connection.execute("ALTER TABLE outbox DROP COLUMN about")
    connection.execute("UPDATE home SET format = 12")
    connection.commit()


VIEWS = {
    "due": "SELECT id FROM s WHERE due < NOW() AND NOW() < due + INTERVAL 1 DAY",
    "over_due": "SELECT id FROM due",
    "plain": "SELECT id FROM s",
    "gone": "SELECT id FROM s WHERE PERIOD_END(s) < NOW()",
}


def test_queries_over_periods_that_depend_on_now_are_set_aside(tmp_path: Path) -> None:
    """Their plans read the kept periods, as those of format 12 did."""
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        (tmp_path / "s.csv").write_text("id,due\n1,1993-01-05T00:00:00Z\n")
        weft.add_source("s", "csv", str(tmp_path / "s.csv"), ["id"])
        for name, text in VIEWS.items():
            weft.add_view(name, text)
        with weft.opened.writing("install what format 12 had") as writer:
            for name in VIEWS:
                text = f"SELECT id FROM {name}"
                compiled = plan(text, weft.schemas())
                form = stored_form(compiled)
                writer.queries.install(
                    QueryDefinition(
                        f"of_{name}", "me", text, form.signature, form.body, form.parameters, columns_of(compiled.query)
                    ),
                    0,
                )
            writer.queries.set_state("of_over_due", "paused")
    with closing(sqlite3.connect(tmp_path / "home" / "catalog.sqlite")) as connection:
        _to_format_12(connection)
    with Weft.open(tmp_path / "home") as weft:
        found = {query.name: query for query in weft.queries()}
        assert {name: query.state for name, query in found.items()} == {
            "of_due": "failed",
            "of_over_due": "failed",
            "of_plain": "active",
            "of_gone": "failed",
        }
        reason = found["of_due"].reason or ""
        assert "the stored periods of the view due" in reason and "--replace" in reason
        with pytest.raises(PlanMismatch, match="stored periods of the view due"):  # what is resumed is not run, either
            weft.explain_installed("of_due")
        replaced = weft.install("of_due", "SELECT id FROM due", replace=True)
        assert (replaced.state, replaced.definitions) == ("active", (weft.catalog.views.named("due").table_id,))
        with pytest.raises(SqlError, match="PERIOD_END"):
            weft.install("of_gone", "SELECT id FROM gone", replace=True)
    with closing(sqlite3.connect(tmp_path / "home" / "catalog.sqlite")) as connection:
        told = connection.execute("SELECT sql, depends_on_now FROM views WHERE mode <> 'auxiliary'").fetchall()
        assert dict(told) == {text: int(name != "plain") for name, text in VIEWS.items()}


@pytest.mark.parametrize("number", [0, -1, -(2**40), 3.5, "'two'", "x'02'"])
def test_a_format_that_never_was_is_refused_in_words(old_home: Path, number: object) -> None:
    with closing(sqlite3.connect(old_home / "catalog.sqlite")) as connection:
        connection.execute(f"UPDATE home SET format = {number}")
        connection.commit()
    with pytest.raises(CatalogError, match=r"is damaged: it gives its format as .*, which no version of Weft writes"):
        open_catalog(old_home, at=0)
    assert glance.table_schemas(old_home) is None


def test_a_format_of_a_later_weft_is_refused_in_words(old_home: Path) -> None:
    with closing(sqlite3.connect(old_home / "catalog.sqlite")) as connection:
        connection.execute("UPDATE home SET format = 1000000")
        connection.commit()
    with pytest.raises(CatalogError, match="has format 1000000, but this version of Weft reads formats up to"):
        open_catalog(old_home, at=0)


def _layout(home: Path) -> dict[str, object]:
    """Tables with their columns, keys and indexes."""
    engine = create_engine(f"sqlite:///{home / 'catalog.sqlite'}")
    found = inspect(engine)
    layout: dict[str, object] = {}
    for table in found.get_table_names():
        columns = {(c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(table)}
        indexes = {(i["name"], tuple(i["column_names"]), i["unique"]) for i in found.get_indexes(table)}
        layout[table] = (columns, indexes, found.get_pk_constraint(table)["constrained_columns"])
    engine.dispose()
    return layout
