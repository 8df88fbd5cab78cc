"""Convert the transactions of a PostgreSQL server to the changes of one tracked table.

Only the last state of a key in a transaction is recorded. An UPDATE that changes the key ends the row of the old key.
An UPDATE omits unchanged TOASTed values. The omitted values are taken from the previous row, or marked as lacking.

The messages are those of PostgreSQL's output plugin pgoutput, protocol version 1. A transaction consists of the
messages from Begin to Commit. Transactions arrive in commit order.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import pyarrow as pa

from weft.errors import ExtractionError
from weft.extraction.batches import Progress
from weft.extraction.files.text_records import TextRecord
from weft.extraction.sources.snapshot import Columns, rows_of
from weft.storage.changes import DELETE, ORDER, TRUNCATE, changes_of, replace_all

_BOOL: Final = 16
_BYTEA: Final = 17
_BPCHAR: Final = 1042
_INET: Final = 869

Cells: TypeAlias = "dict[str, str | None]"
Key: TypeAlias = "tuple[str | None, ...]"


@dataclass(frozen=True)
class TupleData:
    """The cells of a row.

    The values of the columns in ``lacking`` are unknown. To find an unknown value, take the row with the key ``since``
    before the change at the position ``before``.
    """

    cells: Cells
    lacking: frozenset[str] = frozenset()
    since: Key = ()
    before: int = 0


@dataclass
class DecodedChanges:
    """Collects the changes of one table with the given OID, column names and key columns.

    ``base_types`` maps the OID of a type to the OID of its base type. The positions of changes increase.
    """

    oid: int
    names: Sequence[str]
    keys: Sequence[str]
    base_types: Callable[[int], int]
    _records: list[Cells] = field(default_factory=list)
    _operations: list[tuple[str, int, int]] = field(default_factory=list)
    _lacking: list[tuple[int, TupleData]] = field(default_factory=list)
    _rows: dict[Key, TupleData] = field(default_factory=dict)

    def take(self, transaction: Transaction, own: int, place: int) -> int:
        """Add the changes of a transaction, starting at the position ``place``. Return the next free position.

        ``own`` is the event time of the transaction, in microseconds UTC.
        """
        latest: dict[Key, list[TupleData]] = {}
        for change in transaction.changes:
            if change.relation.oid != self.oid:
                continue
            if change.op == "T":
                place = self._emit(latest, own, place)
                latest = {}
                place = self._add({}, TRUNCATE, own, place)
                self._rows.clear()
            else:
                self._follow(change, latest, place)
        return self._emit(latest, own, place)

    def forget(self) -> None:
        """Forget the rows read so far, because a snapshot now contains them."""
        self._rows.clear()

    def _follow(self, change: ChangeMessage, latest: dict[Key, list[TupleData]], place: int) -> None:
        new = None if change.new is None else self._row(change.relation, change.new)
        old = None if change.old is None else self._row(change.relation, change.old)
        gone = old if old is not None else new if change.op == "U" else None
        was: TupleData | None = None
        if gone is not None:
            key = self._key(gone)
            mine = latest.setdefault(key, [])
            same = [each for each in mine if not change.whole or each.cells == gone.cells]
            if same:
                was = same[0]
                mine.remove(was)
            else:
                was = self._rows.get(key)
            if new is not None and new.lacking:
                new = _completed(new, was, gone, key, place)
        if new is not None:
            latest.setdefault(self._key(new), []).append(new)

    def _emit(self, latest: Mapping[Key, list[TupleData]], own: int, place: int) -> int:
        for key, rows in latest.items():
            if rows:
                self._rows[key] = rows[-1]
                if rows[-1].lacking:
                    self._lacking.append((place, rows[-1]))
                place = self._add(rows[-1].cells, "U", own, place)
            else:
                self._rows.pop(key, None)
                place = self._add(dict(zip(self.keys, key, strict=True)), DELETE, own, place)
        return place

    def _add(self, cells: Cells, op: str, own: int, place: int) -> int:
        self._records.append(cells)
        self._operations.append((op, own, place))
        return place + 1

    def _row(self, relation: RelationMessage, values: Values) -> TupleData:
        cells: Cells = {}
        lacking = set()
        for name, type_, value in zip(relation.names, relation.types, values, strict=True):
            if name in self.names:
                if isinstance(value, Unchanged):
                    lacking.add(name)
                    cells[name] = None
                else:
                    cells[name] = None if value is None else _as_read(value, self.base_types(type_))
        return TupleData(cells, frozenset(lacking))

    def _key(self, row: TupleData) -> Key:
        return tuple(row.cells.get(name) for name in self.keys)

    def changes(self, columns: Columns, where: str, progress: Progress | None) -> pa.Table:
        """Return all collected changes (``storage.changes``) with the given columns. Raises ExtractionError."""
        records = (TextRecord(n, b"", cells) for n, cells in enumerate(self._records, 1))
        ops, owns, places = zip(*self._operations, strict=True) if self._operations else ((), (), ())
        return changes_of(rows_of(records, columns, where, progress, counted="change"), ops, owns, places)

    def lacking(self, columns: Columns, where: str) -> pa.Table:
        """Return a table with one row for each change that lacks cells.

        The table contains the key ``since``, the change's position (``_order``), and the lacking columns
        (``_columns``). ``_before`` is the position of the first change that lacked the cells.
        """
        keys = tuple(each for each in columns if each[0] in self.keys)
        records = (
            TextRecord(n, b"", dict(zip(self.keys, row.since, strict=True)))
            for n, (_, row) in enumerate(self._lacking, 1)
        )
        rows = rows_of(records, keys, where, None)
        rows = rows.append_column(ORDER, pa.array([place for place, _ in self._lacking], pa.int64()))
        rows = rows.append_column("_before", pa.array([row.before for _, row in self._lacking], pa.int64()))
        lists = [sorted(row.lacking) for _, row in self._lacking]
        return rows.append_column("_columns", pa.array(lists, pa.list_(pa.string())))


def _completed(new: TupleData, was: TupleData | None, gone: TupleData, key: Key, place: int) -> TupleData:
    """Fill the unknown cells of the row ``new`` from the previous row (``was``) or from the old values (``gone``).

    If the previous row is unknown, ``was`` is None.
    """
    cells = dict(new.cells)
    lacking = set()
    for name in new.lacking:
        if was is not None and name not in was.lacking:
            cells[name] = was.cells.get(name)
        elif gone is not new and gone.cells.get(name) is not None:
            cells[name] = gone.cells[name]
        else:
            lacking.add(name)
    if was is not None and was.lacking:
        return TupleData(cells, frozenset(lacking), was.since, was.before)
    return TupleData(cells, frozenset(lacking), key, place)


def _as_read(value: str, type_: int) -> str:
    """Return a replicated value in the notation of a snapshot: cast to text, with bytes in base64."""
    if type_ == _BOOL:
        return "true" if value == "t" else "false"
    if type_ == _BYTEA:
        return base64.b64encode(bytes.fromhex(value.removeprefix("\\x"))).decode("ascii")
    if type_ == _INET and "/" not in value:
        return f"{value}/128" if ":" in value else f"{value}/32"
    return value.rstrip(" ") if type_ == _BPCHAR else value


def of_snapshot(records: Iterable[TextRecord], columns: Columns, own: int, place: int, where: str) -> pa.Table:
    """Return the rows of a snapshot as one transaction that first removes all existing rows."""
    return replace_all(rows_of(records, columns, where, None), own, place)


_SINCE_2000_US: Final = 946_684_800_000_000
Op = Literal["I", "U", "D", "T"]
_OPS: Final[Mapping[str, Op]] = {"I": "I", "U": "U", "D": "D"}


class Unchanged:
    """A placeholder for an unchanged TOASTed value, which PostgreSQL does not send."""


UNCHANGED: Final = Unchanged()
Values: TypeAlias = "tuple[str | Unchanged | None, ...]"


@dataclass(frozen=True)
class RelationMessage:
    """The OID of a table, and the name and type OID of each column."""

    oid: int
    names: tuple[str, ...]
    types: tuple[int, ...]


@dataclass(frozen=True)
class ChangeMessage:
    """An INSERT (``I``), UPDATE (``U``) or DELETE (``D``) of a row, or a TRUNCATE (``T``) of the table.

    ``old`` is set for a DELETE, and for an UPDATE that changes the replica identity. If ``whole`` is True, ``old`` is
    the full row. If ``whole`` is False, ``old`` has None for each column outside the replica identity.
    """

    relation: RelationMessage
    op: Op
    old: Values | None = None
    new: Values | None = None
    whole: bool = False


@dataclass(frozen=True)
class Transaction:
    """A transaction: its ID (32 bits), the LSN after its commit, its commit time (µs UTC), and its changes."""

    xid: int
    end: int
    committed_at: int
    changes: tuple[ChangeMessage, ...]


def transactions(messages: Iterable[bytes]) -> Iterator[Transaction]:
    """Yield the transactions in the messages. Raises ExtractionError for an unknown message type."""
    relations: dict[int, RelationMessage] = {}
    changes: list[ChangeMessage] = []
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
            changes += [ChangeMessage(relations[oid], "T") for oid in message.numbers(f"!{count}I")]
        elif kind in _OPS:
            changes.append(message.change(_OPS[kind], relations))
        elif kind not in ("O", "Y", "M"):
            raise ExtractionError(f"PostgreSQL sent a message of the unknown type {kind!r}")


class _Message:
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

    def relation(self) -> RelationMessage:
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
        return RelationMessage(oid, tuple(names), tuple(types))

    def change(self, op: Op, relations: dict[int, RelationMessage]) -> ChangeMessage:
        (oid,) = self.numbers("!I")
        old: Values | None = None
        whole = False
        marker = self.text(1)
        if marker in ("K", "O"):
            old, whole = self._values(), marker == "O"
            marker = self.text(1) if op == "U" else ""
        return ChangeMessage(relations[oid], op, old, self._values() if marker == "N" else None, whole)

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
