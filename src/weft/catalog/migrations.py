"""From an older layout of the catalog to this one: numbered steps of plain SQL, each in one transaction.

Alembic would bring a version table of its own, an environment and a script a step for what a home's ``format`` says
already; the steps are few, never branch, and always go forward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, select, text, update

from weft.catalog import schema


@dataclass(frozen=True)
class Step:
    """What makes a home of format ``to`` out of one of the format before.

    ``statements`` are written out, since ``schema`` goes on changing; ``plan_body`` gives a plan's stored form anew
    (None: it stays as it is).
    """

    to: int
    statements: tuple[str, ...]
    plan_body: Callable[[str], str] | None = None


STEPS: Final = (
    Step(
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
            "CREATE INDEX queries_poll ON queries (state, plan_id, next_run, tau, from_instant, next_due)",
        ),
    ),
)


def migrate(connection: Connection, found: int) -> None:
    """Brings a home of the format ``found`` up to this one, within the caller's transaction."""
    for step in STEPS:
        if step.to <= found:
            continue
        for statement in step.statements:
            connection.execute(text(statement))
        if step.plan_body is not None:
            _rewrite_plans(connection, step.plan_body)
        connection.execute(update(schema.home).values(format=step.to))


def _rewrite_plans(connection: Connection, rewrite: Callable[[str], str]) -> None:
    plans = schema.plans.c
    found = connection.execute(select(plans.plan_id, plans.body)).all()
    if found:
        connection.execute(
            update(schema.plans).where(plans.plan_id == bindparam("which")).values(body=bindparam("new_body")),
            [{"which": row.plan_id, "new_body": rewrite(row.body)} for row in found],
        )
