"""Migrate a home's catalog to the current format.

The migrations of a home run in one transaction, mostly as plain SQL.  Weft does not use Alembic, because Alembic needs
a version table, an environment and a script for each migration.  The migrations are few, never branch, and never go
back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, insert, text, update

from weft.algebra.relation import needs_definition
from weft.algebra.schema import Column, DataType, TableSchema
from weft.catalog import ddl
from weft.catalog.database import inserted_id
from weft.catalog.records import table_schema
from weft.errors import PlanMismatch, SqlError
from weft.planning.form import form_of_text
from weft.planning.view_plan import restored_view
from weft.planning.warnings import REPLACE_WITH_DEFINITION, reads_periods

FIRST_FORMAT: Final = 1


@dataclass(frozen=True)
class Migration:
    """A migration of a home from the previous format to the format ``to``.

    ``statements`` are literal SQL, because the definitions in ``ddl`` change.  The function ``then`` makes the changes
    that need Python.
    """

    to: int
    statements: tuple[str, ...]
    then: Callable[[Connection], None] | None = None


def bind_plans(connection: Connection) -> None:
    """Replace the SQL texts of format 1 by plans.  Mark a query as failed if its text no longer compiles."""
    tables = _tables(connection)
    live = connection.execute(text("SELECT query_id, plan_id, parameters FROM queries WHERE state <> 'removed'")).all()
    bodies = {row.plan_id: json.loads(row.body) for row in connection.execute(text("SELECT plan_id, body FROM plans"))}
    plans: dict[str, int] = {}
    for query in live:
        body = bodies[query.plan_id]
        from_now = bool(body.get("entering", body.get("from_now")))
        try:
            form = form_of_text(body["sql"], json.loads(query.parameters), tables, from_now=from_now)
        except SqlError as error:
            failed = text("UPDATE queries SET state = 'failed', reason = :why WHERE query_id = :which")
            connection.execute(failed, {"why": str(error), "which": query.query_id})
            continue
        if form.signature not in plans:
            new_plan = insert(ddl.plans).values(signature=form.signature, body=form.body)
            plans[form.signature] = inserted_id(connection, new_plan)
        bound = text("UPDATE queries SET plan_id = :plan, parameters = :given, names = :names WHERE query_id = :which")
        parameters, names = json.dumps(form.parameters), json.dumps(form.names)
        values = {"plan": plans[form.signature], "given": parameters, "names": names, "which": query.query_id}
        connection.execute(bound, values)


def _tables(connection: Connection) -> dict[str, TableSchema]:
    """Every format has the columns that this function reads."""
    columns: dict[int, list[Column]] = {}
    wanted = "SELECT table_id, column_id, name, type, nullable FROM columns ORDER BY table_id, column_id"
    for row in connection.execute(text(wanted)):
        column = Column(row.column_id, row.name, DataType.of_column(row.type), bool(row.nullable))
        columns.setdefault(row.table_id, []).append(column)
    tables = connection.execute(text("SELECT table_id, name FROM tables ORDER BY table_id"))
    return {row.name: TableSchema(row.table_id, row.name, tuple(columns.get(row.table_id, ()))) for row in tables}


def outbox_of_rounds(connection: Connection) -> None:
    """Allow several messages of a subscription with the same first ordinal, in different rounds.

    SQLite cannot drop a constraint, so the messages move to a new table with the same IDs.
    """
    # Format 8 counted an attempt after its failure.  Later formats count an attempt before it begins.
    connection.execute(text("UPDATE outbox SET attempts = attempts + 1 WHERE state <> 'failed'"))
    if connection.dialect.name == "postgresql":
        connection.execute(text("ALTER TABLE outbox DROP CONSTRAINT outbox_sub_id_first_ordinal_key"))
        connection.execute(text("ALTER TABLE outbox ADD COLUMN round INTEGER DEFAULT 0 NOT NULL"))
        connection.execute(text("ALTER TABLE outbox ADD COLUMN reply TEXT"))
        connection.execute(text("DROP INDEX outbox_unsent"))
    else:
        columns = "entry_id, sub_id, first_ordinal, last_ordinal, state, position, attempts, last_error, sent_at"
        connection.execute(text("ALTER TABLE outbox RENAME TO outbox_before"))
        connection.execute(
            text(
                "CREATE TABLE outbox (entry_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "
                "sub_id INTEGER NOT NULL REFERENCES subscriptions (sub_id), first_ordinal BIGINT NOT NULL, "
                "last_ordinal BIGINT NOT NULL, state TEXT NOT NULL, position TEXT, attempts INTEGER NOT NULL, "
                "last_error TEXT, sent_at BIGINT, round INTEGER DEFAULT 0 NOT NULL, reply TEXT)"
            )
        )
        connection.execute(text(f"INSERT INTO outbox ({columns}) SELECT {columns} FROM outbox_before"))
        connection.execute(text("DROP TABLE outbox_before"))
    unsent = "state NOT IN ('sent', 'withdrawn')"
    connection.execute(text(f"CREATE UNIQUE INDEX outbox_unsent ON outbox (sub_id) WHERE {unsent}"))
    connection.execute(text("CREATE INDEX outbox_by_subscription ON outbox (sub_id, entry_id)"))


def define_views(connection: Connection) -> None:
    """Mark standing queries as failed if they read the stored periods of a view that depends on NOW.

    Stored periods apply to one instant, so the answers of the failed queries depended on the times of the ticks.
    """
    columns = {table.id: table.columns for table in _tables(connection).values()}
    views = {row.table_id: row for row in connection.execute(text("SELECT table_id, form, reads, mode FROM views"))}
    schemas: dict[int, TableSchema] = {}
    for row in connection.execute(text("SELECT table_id, name, tracked FROM tables ORDER BY table_id")).all():
        view = views.get(row.table_id)  # the tables that a view reads have lower ids
        depends = None if view is None else _judged(connection, schemas, view)
        stored = columns[row.table_id]
        schemas[row.table_id] = table_schema(
            row.table_id, row.name, stored, tracked=bool(row.tracked), depends_on_now=depends
        )
    named = {key: table.name for key, table in schemas.items() if needs_definition(table)}
    failed = text("UPDATE queries SET state = 'failed', reason = :why WHERE query_id = :which")
    live = "SELECT query_id, body FROM queries JOIN plans ON plans.plan_id = queries.plan_id WHERE state <> 'removed'"
    for query in connection.execute(text(live)).all():
        read = [name for key, name in named.items() if f'["table",{key}]' in query.body]
        if read:
            why = f"{reads_periods(read)}. {REPLACE_WITH_DEFINITION}"
            connection.execute(failed, {"why": why, "which": query.query_id})


def _judged(connection: Connection, schemas: Mapping[int, TableSchema], view: Row[Any]) -> bool:
    """An unreadable view counts as a view that depends on NOW."""
    reads = {int(key): columns for key, columns in json.loads(view.reads).items()}
    try:
        depends = restored_view(view.form, schemas.values(), reads, auxiliary=view.mode == "auxiliary").depends_on_now
    except PlanMismatch:
        depends = True
    noted = text("UPDATE views SET depends_on_now = :depends WHERE table_id = :which")
    connection.execute(noted, {"depends": int(depends), "which": view.table_id})
    return depends


MIGRATIONS: Final = (
    Migration(
        to=2,
        statements=(
            "CREATE TABLE leases (name TEXT NOT NULL PRIMARY KEY, token BIGINT NOT NULL, purpose TEXT, holder TEXT, "
            "acquired_at BIGINT, expires_at BIGINT)",
            "INSERT INTO leases (name, token, purpose, holder, acquired_at, expires_at) "
            "SELECT 'write', token, purpose, holder, acquired_at, expires_at FROM lease",
            "INSERT INTO leases (name, token) VALUES ('deliver', 0)",
            "DROP TABLE lease",
            "ALTER TABLE queries ADD COLUMN next_run BIGINT",
            "UPDATE queries SET next_run = tau + every_us",
            "CREATE INDEX queries_by_plan ON queries (plan_id, state)",
            "CREATE INDEX subscriptions_by_channel ON subscriptions (channel)",
            "CREATE INDEX queries_poll ON queries (state, plan_id, next_run, tau, from_instant, next_due)",
            "ALTER TABLE queries ADD COLUMN names TEXT DEFAULT '[]' NOT NULL",
        ),
        then=bind_plans,
    ),
    Migration(
        to=3,
        statements=(
            "CREATE TABLE active_loads (load_id INTEGER NOT NULL PRIMARY KEY REFERENCES loads (load_id), "
            "holder TEXT NOT NULL, expires_at BIGINT NOT NULL, floor BIGINT)",
        ),
    ),
    # A tick can write several outputs, and a query can read the results of another query.
    Migration(
        to=4,
        statements=(
            "ALTER TABLE queries ADD COLUMN reads TEXT NOT NULL DEFAULT '[]'",
            "ALTER TABLE queries ADD COLUMN stratum INTEGER NOT NULL DEFAULT 0",
            "ALTER TABLE queries ADD COLUMN last_first_at BIGINT",
            # All existing answers start before the query's tau.  No query has read them yet.
            "UPDATE queries SET last_first_at = tau - 1 WHERE next_ordinal > 1",
            "CREATE INDEX queries_reading ON queries (query_id) WHERE reads <> '[]'",
            "ALTER TABLE tick_queries ADD COLUMN until BIGINT",
            "CREATE TABLE tick_outputs (tick_id INTEGER NOT NULL REFERENCES ticks (tick_id), name TEXT NOT NULL, "
            "path TEXT NOT NULL, state TEXT NOT NULL, version BIGINT, rows BIGINT, PRIMARY KEY (tick_id, name))",
            "INSERT INTO tick_outputs (tick_id, name, path, state, version) "
            "SELECT tick_id, 'ledger', 'ledger', 'written', ledger_version FROM ticks WHERE ledger_version IS NOT NULL",
            # A tick planned under an earlier format has one output.
            "INSERT INTO tick_outputs (tick_id, name, path, state) "
            "SELECT tick_id, 'ledger', 'ledger', 'open' FROM ticks WHERE state = 'planned'",
            "ALTER TABLE ticks DROP COLUMN ledger_version",
        ),
    ),
    # Tables that record the history of a source.
    Migration(
        to=5,
        statements=(
            "ALTER TABLE tables ADD COLUMN tracked INTEGER NOT NULL DEFAULT 0",
            "CREATE TABLE sources (table_id INTEGER NOT NULL PRIMARY KEY REFERENCES tables (table_id), "
            "kind TEXT NOT NULL, location TEXT NOT NULL, options TEXT NOT NULL, stamps TEXT NOT NULL, "
            "every_us BIGINT NOT NULL, added_at BIGINT NOT NULL, polled_at BIGINT, changed_at BIGINT, trouble TEXT, "
            "open_rows BIGINT NOT NULL, seen TEXT, next_seen TEXT, "
            "reservation_id INTEGER REFERENCES reservations (reservation_id))",
        ),
    ),
    # Temporal views.
    Migration(
        to=6,
        statements=(
            "CREATE TABLE views (table_id INTEGER NOT NULL PRIMARY KEY REFERENCES tables (table_id), "
            "sql TEXT NOT NULL, form TEXT NOT NULL, reads TEXT NOT NULL, mode TEXT NOT NULL, added_at BIGINT NOT NULL, "
            "tau BIGINT, trouble TEXT, next_tau BIGINT, "
            "reservation_id INTEGER REFERENCES reservations (reservation_id))",
        ),
    ),
    # Changes of the recorded past.
    Migration(
        to=7,
        statements=(
            "CREATE TABLE revisions (load_id INTEGER NOT NULL PRIMARY KEY REFERENCES loads (load_id), "
            "table_id INTEGER NOT NULL REFERENCES tables (table_id), begins BIGINT NOT NULL)",
            "CREATE INDEX revisions_by_table ON revisions (table_id)",
        ),
    ),
    # Several files as one load.
    Migration(
        to=8,
        statements=(
            "CREATE TABLE load_files (load_id INTEGER NOT NULL REFERENCES loads (load_id), number INTEGER NOT NULL, "
            "source TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (load_id, number))",
            "CREATE INDEX load_files_digest ON load_files (digest)",
        ),
    ),
    # Muting and restarting of subscriptions.
    Migration(
        to=9,
        statements=(
            "ALTER TABLE subscriptions ADD COLUMN muted INTEGER DEFAULT 0 NOT NULL",
            "ALTER TABLE subscriptions ADD COLUMN round INTEGER DEFAULT 0 NOT NULL",
        ),
        then=outbox_of_rounds,
    ),
    # Digests.
    Migration(
        to=10,
        statements=(
            "ALTER TABLE subscriptions ADD COLUMN digest TEXT",
            "ALTER TABLE subscriptions ADD COLUMN zone TEXT",
            "ALTER TABLE subscriptions ADD COLUMN digest_at BIGINT",
        ),
    ),
    # Undoing of loads.
    Migration(
        to=11,
        statements=(
            "ALTER TABLE loads ADD COLUMN state TEXT NOT NULL DEFAULT 'kept'",
            "CREATE INDEX loads_undoing ON loads (load_id) WHERE state = 'undoing'",
        ),
    ),
    # Replacement of a query's text.
    Migration(
        to=12,
        statements=(
            "ALTER TABLE queries ADD COLUMN replaced_at BIGINT",
            "CREATE TABLE replaced (query_id INTEGER NOT NULL REFERENCES queries (query_id), number INTEGER NOT NULL, "
            "sql TEXT NOT NULL, from_instant BIGINT, since BIGINT NOT NULL, until BIGINT NOT NULL, tau BIGINT, "
            "rows BIGINT NOT NULL, PRIMARY KEY (query_id, number))",
            # A query that skipped earlier answers becomes a "from now" query.  Earlier formats did not record the
            # instant.
            "UPDATE queries SET from_mode = 'now', from_instant = tau WHERE from_instant IS NULL AND tau IS NOT NULL "
            'AND plan_id IN (SELECT plan_id FROM plans WHERE body LIKE \'{"format"\\:1,"from_now"\\:true,%\')',
        ),
    ),
    # Standing queries over the definitions of views, and stored texts of messages.
    Migration(
        to=13,
        statements=(
            "ALTER TABLE views ADD COLUMN depends_on_now INTEGER DEFAULT 0 NOT NULL",
            "ALTER TABLE queries ADD COLUMN definitions TEXT DEFAULT '[]' NOT NULL",
            "CREATE INDEX queries_defined ON queries (query_id) WHERE definitions <> '[]'",
            "ALTER TABLE outbox ADD COLUMN about TEXT",
            # In replay homes, earlier formats computed the due times of digests from the wall clock.
            "UPDATE subscriptions SET digest_at = NULL WHERE EXISTS (SELECT 1 FROM home WHERE clock = 'replay')",
        ),
        then=define_views,
    ),
    # Renaming of the watermark's column.
    Migration(to=14, statements=("ALTER TABLE home RENAME COLUMN forward TO watermark",)),
)


def migrate(connection: Connection, version: int) -> None:
    """Migrate a home from the format ``version`` to the current format in the caller's transaction."""
    for migration in MIGRATIONS:
        if migration.to <= version:
            continue
        for statement in migration.statements:
            connection.execute(text(statement))
        if migration.then is not None:
            migration.then(connection)
        connection.execute(update(ddl.home).values(format=migration.to))
