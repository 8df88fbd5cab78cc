"""Migrate a home's catalog to the current format.

The migrations of a home run in one transaction, mostly as plain SQL.  Weft does not use Alembic, because Alembic needs
a version table, an environment and a script for each migration.  The migrations are few, never branch, and never go
back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text, update

from weft.catalog import ddl


@dataclass(frozen=True)
class Migration:
    """A migration of a home from the previous format to the format ``to``.

    ``statements`` are literal SQL, because the definitions in ``ddl`` change.  ``{key}`` stands for the type of an ID
    that the database assigns, and ``{text}`` for the type of a text.  The function ``then`` makes the changes that need
    Python.
    """

    to: int
    statements: tuple[str, ...]
    then: Callable[[Connection], None] | None = None


_TYPES: Final = {
    "sqlite": {"key": "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT", "text": "TEXT"},
    "postgresql": {"key": "SERIAL PRIMARY KEY", "text": 'TEXT COLLATE "C"'},
}

_USERS: Final = (
    "ALTER TABLE home ADD COLUMN rights_version BIGINT NOT NULL DEFAULT '0'",
    "ALTER TABLE home ADD COLUMN rights_checked BIGINT NOT NULL DEFAULT '0'",
    "ALTER TABLE home ADD COLUMN link_key {text}",
    "ALTER TABLE queries ADD COLUMN needs {text} NOT NULL DEFAULT '[]'",
    """CREATE INDEX queries_by_user ON queries ("user", query_id)""",
    """
    CREATE TABLE users (user_id {key}, name {text} NOT NULL, folded {text} NOT NULL, role {text} NOT NULL,
    state {text} NOT NULL, password {text}, most_queries BIGINT, most_rows BIGINT, most_seconds BIGINT,
    digest {text}, zone {text}, added_at BIGINT NOT NULL, UNIQUE (folded))
    """,
    "CREATE TABLE groups (group_id {key}, name {text} NOT NULL, folded {text} NOT NULL, UNIQUE (folded))",
    """
    CREATE TABLE members (group_id INTEGER NOT NULL, user_id INTEGER NOT NULL, PRIMARY KEY (group_id,
    user_id), FOREIGN KEY (group_id) REFERENCES groups (group_id), FOREIGN KEY (user_id) REFERENCES users
    (user_id))
    """,
    "CREATE INDEX members_by_user ON members (user_id)",
    """
    CREATE TABLE grants (subject_kind {text} NOT NULL, subject_id INTEGER NOT NULL, "right" {text} NOT NULL,
    thing_kind {text} NOT NULL, thing_key {text} NOT NULL, granted_by {text} NOT NULL, granted_at BIGINT NOT
    NULL, PRIMARY KEY (subject_kind, subject_id, "right", thing_kind, thing_key))
    """,
    "CREATE INDEX grants_by_thing ON grants (thing_kind, thing_key)",
    """
    CREATE TABLE secrets (secret_id {key}, kind {text} NOT NULL, digest {text} NOT NULL, user_id INTEGER,
    query_id INTEGER, label {text}, scopes {text}, made_at BIGINT NOT NULL, expires_at BIGINT, UNIQUE
    (digest), FOREIGN KEY (user_id) REFERENCES users (user_id), FOREIGN KEY (query_id) REFERENCES queries
    (query_id))
    """,
    "CREATE INDEX secrets_by_query ON secrets (query_id)",
    "CREATE INDEX secrets_by_user ON secrets (user_id)",
    """
    CREATE TABLE audit (audit_id {key}, at BIGINT NOT NULL, "user" {text} NOT NULL, door {text} NOT NULL,
    address {text}, action {text} NOT NULL, about {text}, outcome {text} NOT NULL)
    """,
    """CREATE INDEX audit_by_user ON audit ("user", audit_id)""",
    """
    CREATE TABLE marks (user_id INTEGER NOT NULL, query_id INTEGER NOT NULL, read_to BIGINT NOT NULL, PRIMARY
    KEY (user_id, query_id), FOREIGN KEY (user_id) REFERENCES users (user_id), FOREIGN KEY (query_id)
    REFERENCES queries (query_id))
    """,
    """
    CREATE TABLE mark_exceptions (user_id INTEGER NOT NULL, query_id INTEGER NOT NULL, ordinal BIGINT NOT
    NULL, PRIMARY KEY (user_id, query_id, ordinal), FOREIGN KEY (user_id) REFERENCES users (user_id), FOREIGN
    KEY (query_id) REFERENCES queries (query_id))
    """,
)

_SAVED: Final = (
    "ALTER TABLE queries ADD COLUMN saved_id INTEGER",
    """
    CREATE TABLE saved_queries (saved_id {key}, name {text} NOT NULL, folded {text} NOT NULL, sql {text} NOT NULL,
    parameters {text} NOT NULL, owner {text} NOT NULL, description {text} NOT NULL, saved_at BIGINT NOT NULL, UNIQUE
    (folded))
    """,
)

_SHARED: Final = (
    "CREATE INDEX queries_news ON queries (last_first_at, query_id) WHERE last_first_at IS NOT NULL",
    "ALTER TABLE plans ADD COLUMN tau BIGINT",
    "ALTER TABLE plans ADD COLUMN sharing BIGINT NOT NULL DEFAULT '0'",
    "ALTER TABLE plans ADD COLUMN version BIGINT NOT NULL DEFAULT '0'",
    "CREATE INDEX plans_shared ON plans (tau) WHERE tau IS NOT NULL",
    "ALTER TABLE queries ADD COLUMN shared_since INTEGER",
    "DROP INDEX queries_poll",
    """
    CREATE INDEX queries_poll ON queries (state, plan_id, next_run, tau, from_instant, next_due)
    WHERE shared_since IS NULL
    """,
    "CREATE INDEX queries_shared ON queries (plan_id, query_id) WHERE shared_since IS NOT NULL",
    """
    CREATE TABLE tick_plans (tick_id INTEGER NOT NULL, plan_id INTEGER NOT NULL, tau BIGINT NOT NULL, reason {text},
    PRIMARY KEY (tick_id, plan_id), FOREIGN KEY (tick_id) REFERENCES ticks (tick_id), FOREIGN KEY (plan_id) REFERENCES
    plans (plan_id))
    """,
    "CREATE INDEX tick_plans_by_plan ON tick_plans (plan_id, tick_id)",
    """
    CREATE TABLE shared_ticks (query_id INTEGER NOT NULL, after INTEGER NOT NULL, upto INTEGER NOT NULL, plan_id INTEGER
    NOT NULL, PRIMARY KEY (query_id, after), FOREIGN KEY (query_id) REFERENCES queries (query_id), FOREIGN KEY (plan_id)
    REFERENCES plans (plan_id))
    """,
)

_COUNTED: Final = (
    "DROP INDEX queries_by_user",
    """CREATE INDEX queries_by_user ON queries ("user", folded, state) WHERE state <> 'removed'""",
    """CREATE INDEX queries_by_state ON queries (state, "user") WHERE state <> 'removed'""",
    "CREATE INDEX queries_removed ON queries (state, query_id) WHERE state = 'removed'",
    "CREATE INDEX queries_answered ON queries (next_ordinal) WHERE next_ordinal > 1 AND state <> 'removed'",
    """
    CREATE INDEX queries_news_by_user ON queries ("user", last_first_at, query_id)
    WHERE last_first_at IS NOT NULL
    """,
    """CREATE INDEX plans_of_synopses ON plans (plan_id) WHERE substr(body, 1, 12) = '{{"synopsis":'""",
    "CREATE INDEX tick_queries_gained ON tick_queries (query_id, tick_id) WHERE rows > 0",
    "ALTER TABLE subscriptions ADD COLUMN behind INTEGER NOT NULL DEFAULT '0'",
    """
    UPDATE subscriptions SET behind = 1 WHERE state <> 'ended' AND delivered < (SELECT next_ordinal - 1 FROM queries
    WHERE queries.query_id = subscriptions.query_id AND queries.state <> 'removed')
    """,
    "CREATE INDEX subscriptions_kept ON subscriptions (query_id) WHERE state IN ('active', 'parked')",
    "CREATE INDEX subscriptions_behind ON subscriptions (behind, query_id) WHERE behind = 1",
    """
    CREATE INDEX subscriptions_unwell ON subscriptions (query_id) WHERE state <> 'ended' AND (last_error IS NOT NULL OR
    attempts > 0 OR muted = 1 OR state = 'parked')
    """,
)


def _add_needs(connection: Connection) -> None:
    """Record for each query the tables that its plan reads, and the views that the plan contains.

    The text of the query may name fewer.  Then its owner needs more rights than for a new query of the same text.
    """
    columns = text("SELECT q.query_id, q.definitions, p.body FROM queries q JOIN plans p ON p.plan_id = q.plan_id")
    needs: dict[str, list[int]] = {}
    for query_id, definitions, body in connection.execute(columns).all():
        read = {*map(int, _TABLE.findall(body)), *json.loads(definitions)}
        needs.setdefault(json.dumps(sorted(read)), []).append(query_id)
    for read_tables, query_ids in needs.items():
        rows = [{"needs": read_tables, "query_id": each} for each in query_ids]
        connection.execute(text("UPDATE queries SET needs = :needs WHERE query_id = :query_id"), rows)


_TABLE: Final = re.compile(r'\["table", ?(\d+)\]')

MIGRATIONS: Final[tuple[Migration, ...]] = (
    Migration(to=101, statements=(*_USERS, *_SAVED), then=_add_needs),
    Migration(to=102, statements=_SHARED),
    Migration(to=103, statements=_COUNTED),
)
"""The migrations in the order of their formats.  The first release has format 100."""


def migrate(connection: Connection, version: int) -> None:
    """Migrate a home from the format ``version`` to the current format in the caller's transaction."""
    for migration in MIGRATIONS:
        if migration.to <= version:
            continue
        for statement in migration.statements:
            connection.execute(text(statement.format(**_TYPES[connection.dialect.name])))
        if migration.then is not None:
            migration.then(connection)
        connection.execute(update(ddl.home).values(format=migration.to))
