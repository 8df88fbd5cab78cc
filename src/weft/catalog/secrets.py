"""Store the digests of secrets: sessions, tokens of programs, links for a password, and links of shared queries."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import Row, bindparam, delete, insert, or_, select

from weft.catalog import ddl
from weft.catalog.database import Database, inserted_id
from weft.errors import NotFound
from weft.instants import format_instant
from weft.printable import Brief
from weft.rights.principal import Scope

SecretKind = Literal["session", "token", "password", "share"]


@dataclass(frozen=True, repr=False)
class SecretRecord(Brief):
    """A secret without the secret.

    ``user_id`` is the person who uses it, and ``query_id`` the query that it shares.  ``scopes`` restrict a token
    (None: all).  Instants are in microseconds UTC, and ``expires_at`` is None for a secret that does not expire.
    """

    secret_id: int
    kind: SecretKind
    user_id: int | None
    query_id: int | None
    label: str | None
    scopes: frozenset[Scope] | None
    made_at: int
    expires_at: int | None

    def _brief(self) -> str:
        until = "" if self.expires_at is None else f", until {format_instant(self.expires_at)}"
        return f"{self.kind} {self.secret_id}{f' ({self.label})' if self.label else ''}{until}"


class Secrets:
    """The secrets of a home.  The catalog stores only their digests."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        kind: SecretKind,
        digest: str,
        at: int,
        *,
        user_id: int | None = None,
        query_id: int | None = None,
        label: str | None = None,
        scopes: frozenset[Scope] | None = None,
        expires_at: int | None = None,
    ) -> SecretRecord:
        """Store a secret.  Expired secrets are deleted."""
        secrets = ddl.secrets.c
        values = {"kind": kind, "digest": digest, "user_id": user_id, "query_id": query_id, "label": label}
        stored = None if scopes is None else json.dumps(sorted(scopes))
        with self._database.changing() as connection:
            connection.execute(delete(ddl.secrets).where(secrets.expires_at <= at))
            statement = insert(ddl.secrets).values(**values, scopes=stored, made_at=at, expires_at=expires_at)
            key = inserted_id(connection, statement)
            return _record(connection.execute(select(ddl.secrets).where(secrets.secret_id == key)).one())

    def find(self, kind: SecretKind, digest: str, at: int) -> SecretRecord | None:
        """Return the secret with this digest, or None if it is unknown, withdrawn or expired."""
        with self._database.reading() as connection:
            row = connection.execute(_FOUND, {"digest": digest, "kind": kind}).first()
            valid = row is not None and (row.expires_at is None or row.expires_at > at)
            return _record(row) if row is not None and valid else None

    def all(
        self,
        kind: SecretKind,
        at: int,
        *,
        user_id: int | None = None,
        query_id: int | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> tuple[SecretRecord, ...]:
        """Return at most ``limit`` valid secrets of a kind, of one user or over one query, ordered by ID.

        Their IDs are above ``after``.
        """
        secrets = ddl.secrets.c
        valid = or_(secrets.expires_at.is_(None), secrets.expires_at > at)
        wanted = select(ddl.secrets).where(secrets.kind == kind, valid, secrets.secret_id > after)
        wanted = wanted.order_by(secrets.secret_id).limit(limit)
        if user_id is not None:
            wanted = wanted.where(secrets.user_id == user_id)
        if query_id is not None:
            wanted = wanted.where(secrets.query_id == query_id)
        return tuple(map(_record, self._database.rows(wanted)))

    def withdraw(
        self, kind: SecretKind, secret_id: int, *, user_id: int | None = None, query_id: int | None = None
    ) -> SecretRecord:
        """Delete a secret, of ``user_id`` or over ``query_id`` if this is given.  Raise NotFound."""
        secrets = ddl.secrets.c
        own = (secrets.kind == kind) & (secrets.secret_id == secret_id)
        if user_id is not None:
            own &= secrets.user_id == user_id
        if query_id is not None:
            own &= secrets.query_id == query_id
        with self._database.changing() as connection:
            row = connection.execute(select(ddl.secrets).where(own)).first()
            if row is None:
                raise NotFound(
                    f"there is no {'link' if kind == 'share' else kind} {secret_id}", hint="List them first."
                )
            connection.execute(delete(ddl.secrets).where(own))
            return _record(row)


_FOUND: Final = select(ddl.secrets).where(
    ddl.secrets.c.digest == bindparam("digest"), ddl.secrets.c.kind == bindparam("kind")
)


def _record(row: Row[Any]) -> SecretRecord:
    scopes = None if row.scopes is None else frozenset(json.loads(row.scopes))
    times = (row.made_at, row.expires_at)
    return SecretRecord(row.secret_id, row.kind, row.user_id, row.query_id, row.label, scopes, *times)
