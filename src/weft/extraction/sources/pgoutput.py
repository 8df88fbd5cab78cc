"""Decode the messages of PostgreSQL's output plugin pgoutput, protocol version 1, as documented by PostgreSQL.

A transaction is the messages from Begin to Commit; transactions arrive in commit order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from weft.errors import ExtractionError

_SINCE_2000_US: Final = 946_684_800_000_000
Op = Literal["I", "U", "D", "T"]
_OPS: Final[Mapping[str, Op]] = {"I": "I", "U": "U", "D": "D"}


class Unchanged:
    """An unchanged TOASTed value, which PostgreSQL does not send."""


UNCHANGED: Final = Unchanged()
Values: TypeAlias = "tuple[str | Unchanged | None, ...]"


@dataclass(frozen=True)
class Relation:
    """The layout of a table's rows in the following messages: its OID, and the name and type OID of each column."""

    oid: int
    names: tuple[str, ...]
    types: tuple[int, ...]


@dataclass(frozen=True)
class Change:
    """An INSERT (``I``), UPDATE (``U``) or DELETE (``D``) of a row, or a TRUNCATE (``T``) of the table.

    A DELETE has ``old``, and so has an UPDATE that changes the replica identity. ``whole`` means that ``old`` is the
    full row; otherwise it has only the columns of the replica identity, and the others are None.
    """

    relation: Relation
    op: Op
    old: Values | None = None
    new: Values | None = None
    whole: bool = False


@dataclass(frozen=True)
class Transaction:
    """One transaction: its id (32 bits), the LSN after its commit, and its commit time (µs UTC)."""

    xid: int
    end: int
    committed_at: int
    changes: tuple[Change, ...]


def transactions(messages: Iterable[bytes]) -> Iterator[Transaction]:
    """Yield the transactions in the messages. Raises ExtractionError for an unknown message type."""
    relations: dict[int, Relation] = {}
    changes: list[Change] = []
    xid = 0
    for raw in messages:
        message = _Message(raw)
        kind = message.text(1)
        if kind == "B":
            message.numbers("!qq")
            (xid,), changes = message.numbers("!I"), []
        elif kind == "C":
            _, _, end, at = message.numbers("!bqqq")
            yield Transaction(xid, end, at + _SINCE_2000_US, tuple(changes))
        elif kind == "R":
            relation = message.relation()
            relations[relation.oid] = relation
        elif kind == "T":
            count, _ = message.numbers("!ib")
            changes += [Change(relations[oid], "T") for oid in message.numbers(f"!{count}I")]
        elif kind in _OPS:
            changes.append(message.change(_OPS[kind], relations))
        elif kind not in ("O", "Y", "M"):
            raise ExtractionError(f"PostgreSQL sent a message of the unknown type {kind!r}")


class _Message:
    """A reader of the fields of a message."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def numbers(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from(form, self._raw, self._at)
        self._at += struct.calcsize(form)
        return values

    def text(self, length: int) -> str:
        self._at += length
        return self._raw[self._at - length : self._at].decode("utf-8")

    def _name(self) -> str:
        return self.text(self._raw.index(b"\0", self._at) - self._at)

    def relation(self) -> Relation:
        (oid,) = self.numbers("!I")
        for _ in range(2):  # schema and name, either of which may change
            self._name()
            self._at += 1
        _, count = self.numbers("!bh")
        names, types = [], []
        for _ in range(count):
            self.numbers("!b")
            names.append(self._name())
            self._at += 1
            type_, _ = self.numbers("!Ii")
            types.append(type_)
        return Relation(oid, tuple(names), tuple(types))

    def change(self, op: Op, relations: dict[int, Relation]) -> Change:
        (oid,) = self.numbers("!I")
        old: Values | None = None
        whole = False
        marker = self.text(1)
        if marker in ("K", "O"):
            old, whole = self._values(), marker == "O"
            marker = self.text(1) if op == "U" else ""
        return Change(relations[oid], op, old, self._values() if marker == "N" else None, whole)

    def _values(self) -> Values:
        (count,) = self.numbers("!h")
        values: list[str | Unchanged | None] = []
        for _ in range(count):
            kind = self.text(1)
            if kind == "t":
                (length,) = self.numbers("!i")
                values.append(self.text(length))
            else:
                values.append(UNCHANGED if kind == "u" else None)
        return tuple(values)
