"""Migrate a home's catalog to the current format.

The migrations of a home run in one transaction, mostly as plain SQL.  Weft does not use Alembic, because Alembic needs
a version table, an environment and a script for each migration.  The migrations are few, never branch, and never go
back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text, update

from weft.catalog import ddl


@dataclass(frozen=True)
class Migration:
    """A migration of a home from the previous format to the format ``to``.

    ``statements`` are literal SQL, because the definitions in ``ddl`` change.  The function ``then`` makes the changes
    that need Python.
    """

    to: int
    statements: tuple[str, ...]
    then: Callable[[Connection], None] | None = None


MIGRATIONS: Final[tuple[Migration, ...]] = ()
"""The migrations in the order of their formats.  The first release has format 100, so none is needed yet."""


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
