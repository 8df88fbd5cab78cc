"""The formats of catalogs: a home of an older format is migrated, and any other is refused in words."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from weft.catalog import Catalog, ddl, migrations, open_catalog
from weft.catalog.database import Database
from weft.catalog.migrations import Migration
from weft.catalog.records import Choice, Count
from weft.errors import CatalogError

Opened = Callable[..., Catalog]


@pytest.fixture
def home(tmp_path: Path, opened: Opened) -> Path:
    opened(tmp_path / "home", create=True, clock="replay", at=0).close()
    return tmp_path / "home"


def count_leases(connection: Connection) -> None:
    connection.execute(text("INSERT INTO made_up SELECT COUNT(*) FROM leases"))


STEPS = (
    Migration(to=104, statements=("CREATE TABLE made_up (leases BIGINT NOT NULL)",), then=count_leases),
    Migration(to=105, statements=("ALTER TABLE made_up ADD COLUMN more TEXT", "UPDATE made_up SET more = 'more'")),
)


def later(monkeypatch: pytest.MonkeyPatch, *steps: Migration) -> None:
    """Let Weft be a later version that has these migrations."""
    monkeypatch.setattr(migrations, "MIGRATIONS", steps)
    monkeypatch.setattr(ddl, "FORMAT", steps[-1].to)


def stored(catalog: Catalog) -> list[tuple[object, ...]]:
    with catalog._database.reading() as connection:
        return [tuple(row) for row in connection.execute(text("SELECT leases, more FROM made_up"))]


def set_format(catalog: Catalog, number: object) -> None:
    database: Database = catalog._database
    with database.changing() as connection:
        connection.execute(text(f"UPDATE home SET format = {number}"))


FORMATS = Path(__file__).with_name("formats")
ADDED = ("audit", "grants", "groups", "mark_exceptions", "marks", "members", "secrets", "users")


def structure(catalog: Catalog) -> dict[str, object]:
    """Return the columns, keys and indexes of all tables, in any order."""
    with catalog._database.reading() as connection:
        found = inspect(connection)
        return {
            name: (
                sorted(
                    (each["name"], str(each["type"]), each["nullable"], str(each["default"]).split("::")[0])
                    for each in found.get_columns(name)
                ),
                found.get_pk_constraint(name)["constrained_columns"],
                sorted(str(each["column_names"]) for each in found.get_unique_constraints(name)),
                sorted((each["name"], str(each["column_names"]), each["unique"]) for each in found.get_indexes(name)),
                sorted(
                    (str(each["constrained_columns"]), each["referred_table"]) for each in found.get_foreign_keys(name)
                ),
            )
            for name in found.get_table_names()
        }


def conditions(catalog: Catalog) -> dict[str, str]:
    """Return the definition of each index as the database states it: the condition, too."""
    asked = {
        "sqlite": "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
        "postgresql": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()",
    }
    with catalog._database.reading() as connection:
        rows = connection.execute(text(asked[connection.dialect.name])).all()
    return {name: "".join(definition.replace('"', "").replace("!=", "<>").split()).lower() for name, definition in rows}


def back_to(catalog: Catalog, number: int = 100) -> None:
    """Make the catalog that of format 100, 101 or 102, with the statements by which Weft created that format."""
    with catalog._database.changing() as connection:
        record = dict(connection.execute(text("SELECT * FROM home")).one()._mapping)
        ddl.metadata.drop_all(connection)
        made = range(100, number + 1)
        script = "".join((FORMATS / f"{each}_{connection.dialect.name}.sql").read_text() for each in made)
        for statement in filter(str.strip, script.split(";\n")):
            connection.exec_driver_sql(statement)
        kept = {
            key: value for key, value in record.items() if key not in ("rights_version", "rights_checked", "link_key")
        }
        names = ", ".join(f'"{key}"' for key in kept)
        values = ", ".join(f":{key}" for key in kept)
        connection.execute(text(f"INSERT INTO home ({names}) VALUES ({values})"), {**kept, "format": number})
        connection.execute(text("INSERT INTO leases (name, token) VALUES ('write', 0), ('deliver', 0)"))


@pytest.mark.parametrize("number", [100, 101, 102])
def test_a_home_of_an_older_format_becomes_like_a_new_one(home: Path, opened: Opened, number: int) -> None:
    catalog = opened(home, at=0)
    new, indexes = structure(catalog), conditions(catalog)
    back_to(catalog, number)
    assert bool(set(ADDED) & structure(catalog).keys()) == (number > 100)
    with opened(home, at=0) as migrated:
        assert migrated.home().format == ddl.FORMAT
        assert structure(migrated) == new
        assert conditions(migrated) == indexes


def insert_queries(catalog: Catalog, *rows: tuple[str, int, str, int | None]) -> None:
    """Insert (name, plan, views in the plan, tau) as format 100 has them."""
    columns = 'name, folded, "user", sql, plan_id, parameters, columns, from_mode, next_ordinal, state'
    with catalog._database.changing() as connection:
        for name, plan, definitions, tau in rows:
            values = {"name": name, "plan": plan, "definitions": definitions, "tau": tau}
            connection.execute(
                text(
                    f"INSERT INTO queries ({columns}, installed_at, definitions, tau) VALUES (:name, :name, "
                    "'anna', '', :plan, '[]', '[]', 'start', 1, 'active', 0, :definitions, :tau)"
                ),
                values,
            )


def insert_plans(catalog: Catalog, bodies: dict[int, str]) -> None:
    with catalog._database.changing() as connection:
        for key, body in bodies.items():
            values = {"key": key, "body": body, "name": f"s{key}"}
            connection.execute(text("INSERT INTO plans (plan_id, signature, body) VALUES (:key, :name, :body)"), values)


def test_queries_of_format_100_need_the_tables_of_their_plans(home: Path, opened: Opened) -> None:
    catalog = opened(home, at=0)
    back_to(catalog)
    insert_plans(catalog, {1: '{"query":["table",3],"more":["table",12],"results":["results",7]}', 2: '{"constant":1}'})
    insert_queries(catalog, ("a", 1, "[]", None), ("b", 1, "[5]", None), ("c", 2, "[]", None))
    with opened(home, at=0) as migrated:
        assert {query.name: query.needs for query in migrated.queries.all()} == {"a": (3, 12), "b": (3, 5, 12), "c": ()}


def test_queries_of_format_100_share_the_tau_of_their_plan_after_a_tick(home: Path, opened: Opened) -> None:
    catalog = opened(home, at=0)
    back_to(catalog)
    insert_plans(catalog, {1: '{"constant":1}'})
    insert_queries(catalog, *((name, 1, "[]", tau) for name, tau in (("a", 5), ("b", 7), ("c", None))))
    with opened(home, at=0) as migrated:
        assert [query.tau for query in migrated.queries.all()] == [5, 7, None]
        writer = migrated.writer("tests", "tests", 0)
        first = writer.ticks.plan(10, Choice(), 0)
        assert [tau for _, tau in writer.ticks.members(first.tick_id)] == [5, 7, None]
        counts = {query.query_id: Count(0, "none", None, 10) for query in migrated.queries.all()}
        writer.ticks.commit(first.tick_id, counts, [], 0, alike=[1])
        second = writer.ticks.plan(20, Choice(), 0)
        assert [(each.tau, each.queries) for each in writer.ticks.shared(second.tick_id)] == [(10, 3)]
        writer.ticks.commit(second.tick_id, {}, [], 0, together={1: "none"})
        assert {query.tau for query in migrated.queries.all()} == {20}


@pytest.mark.parametrize("number", [100, 101, 102])
def test_the_channels_of_an_older_format_that_are_behind_are_served(home: Path, opened: Opened, number: int) -> None:
    """Of three answers, the channels have had none, all, two, and none; the last one has ended."""
    catalog = opened(home, at=0)
    back_to(catalog, number)
    insert_plans(catalog, {1: '{"constant":1}'})
    insert_queries(catalog, ("a", 1, "[]", 5), ("b", 1, "[]", 5))
    with catalog._database.changing() as connection:
        connection.execute(text("UPDATE queries SET next_ordinal = 4 WHERE query_id = 1"))
        for query_id, delivered, state in ((1, 0, "active"), (1, 3, "active"), (1, 2, "active"), (1, 0, "ended")):
            subscribe(connection, query_id, delivered, state)
        connection.execute(text("UPDATE queries SET next_ordinal = 2, state = 'removed' WHERE query_id = 2"))
        subscribe(connection, 2, 0, "active")
    with opened(home, at=0) as migrated:
        waiting = migrated.subscriptions.waiting(0, 0)
        assert [(each.sub_id, query.name) for each, query in waiting] == [(1, "a"), (3, "a")]
        with migrated._database.reading() as connection:
            marked = connection.execute(text("SELECT sub_id FROM subscriptions WHERE behind = 1 ORDER BY sub_id"))
            assert list(marked.scalars()) == [1, 3], "the index has no others"


def subscribe(connection: Connection, query_id: int, delivered: int, state: str) -> None:
    """Insert a channel as format 100 has it."""
    names = "query_id, channel, delivered, state, attempts"
    number = connection.execute(text("SELECT count(*) FROM subscriptions")).scalar_one()
    values = f"{query_id}, 'email:{number}@b.c', {delivered}, '{state}', 0"
    connection.execute(text(f"INSERT INTO subscriptions ({names}) VALUES ({values})"))


def test_a_home_of_an_older_format_is_migrated_once(
    home: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    later(monkeypatch, *STEPS[:1])
    with opened(home, at=0) as catalog:
        assert catalog.home().format == 104
    later(monkeypatch, *STEPS)
    for _ in range(2):
        with opened(home, at=0) as catalog:
            assert (catalog.home().format, stored(catalog)) == (105, [(2, "more")])


def test_processes_that_open_a_home_at_once_migrate_it_once(
    home: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    later(monkeypatch, *STEPS)
    together = Barrier(4)

    def open_one(_: int) -> list[tuple[object, ...]]:
        together.wait()
        return stored(opened(home, at=0))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(open_one, range(4))) == [[(2, "more")]] * 4


def test_a_migration_that_fails_changes_nothing(home: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        later(broken, *STEPS, Migration(to=106, statements=("SELECT 1 FROM nowhere",)))
        with pytest.raises(CatalogError, match="nowhere"):
            opened(home, at=0)
    with opened(home, at=0) as catalog:
        assert catalog.home().format == ddl.FORMAT
        with pytest.raises((CatalogError, SQLAlchemyError)):
            stored(catalog)


@pytest.mark.parametrize("number", [1, 14, ddl.FIRST_FORMAT - 1])
def test_a_format_from_before_the_first_release_is_refused_with_the_way_out(
    home: Path, opened: Opened, number: int
) -> None:
    set_format(opened(home, at=0), number)
    with pytest.raises(CatalogError, match=f"has format {number}, which Weft had before its first release") as refused:
        opened(home, at=0)
    assert "the formats from 100 on" in refused.value.message
    assert "Create a new home" in (refused.value.hint or "")


@pytest.mark.parametrize("number", [0, -1, -(2**31)])
def test_a_format_that_never_was_is_refused_in_words(home: Path, opened: Opened, number: int) -> None:
    set_format(opened(home, at=0), number)
    with pytest.raises(CatalogError, match=r"is damaged: it gives its format as .*, which no version of Weft writes"):
        opened(home, at=0)


@pytest.mark.parametrize("value", [3.5, "'two'", "x'02'"])
def test_a_format_that_is_no_number_is_refused_in_words(tmp_path: Path, value: object) -> None:
    """PostgreSQL stores no other value in a column of numbers, but SQLite does."""
    with open_catalog(tmp_path, create=True, at=0) as catalog:
        set_format(catalog, value)
    with pytest.raises(CatalogError, match=r"is damaged: it gives its format as .*, which no version of Weft writes"):
        open_catalog(tmp_path, at=0)


def test_a_format_of_a_later_weft_is_refused_in_words(home: Path, opened: Opened) -> None:
    set_format(opened(home, at=0), 1_000_000)
    with pytest.raises(CatalogError, match="has format 1000000, but this version of Weft reads formats up to 103"):
        opened(home, at=0)
