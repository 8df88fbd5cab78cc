"""The result of reading a source: rows, and records that could not be read.

Unreadable content never raises an error. Each record becomes a :class:`Row` or a :class:`Rejected`. The load puts
rejected records in quarantine (design section 1).

Rows are passed in batches, which are Arrow tables of bounded size. A batch has the columns of the Weft table except
``ts``, and two more columns. ``_own_time`` is a BIGINT in microseconds UTC, or NULL for a row without an event time.
``_seq`` is a BIGINT with the row's number in the load, from 0.

``Timing`` contains the options that determine the ``ts`` of each row (design section 1).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final, Literal, get_args

import pyarrow as pa

from weft.algebra.schema import DataType
from weft.errors import Refused
from weft.execution.append_rows import OWN_TIME, SEQ
from weft.instants import DAY_US, format_interval
from weft.storage.columns import arrow_type

MAX_LINE: Final = 1 << 20
"""The maximum length of a line of a message, in bytes. RFC 5322 allows 998. A longer line is damage or an attack."""

MAX_RECORD: Final = 64 << 20
"""The maximum size of a record, in bytes. A larger record is rejected in pieces of this size, to limit memory."""

MAX_ROWS: Final = 50_000
MAX_BYTES: Final = 64 << 20
"""The maximum size of one batch: ``MAX_ROWS`` rows and ``MAX_BYTES`` bytes of text."""

Progress = Callable[[int], None]
"""A load calls this function from time to time with the number of records that it has read."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """The stored bytes of one message. If the bytes cannot be parsed, ``problem`` gives the reason."""

    position: str
    raw: bytes
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that cannot be read, with its bytes, its position, and the reason.

    ``source`` is the absolute path of the file, and ``position`` is the record's position in the file. ``stem`` is the
    newsgroup that the file name implies. A retry assigns ``stem`` to a message that names no newsgroup.
    """

    source: str
    position: str
    reason: str
    raw: bytes
    stem: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One row to store. ``values`` maps column names to values. Times are in microseconds UTC.

    ``own_time`` is the ``ts`` that the row requests, or None (see :class:`~weft.extraction.batches.Timing`). ``origin``
    is the row's record if the load may still reject the row.
    """

    values: dict[str, object]
    own_time: int | None
    origin: RejectedRecord | None = None


def printable(name: str) -> str:
    r"""Return a file name as text that any store accepts. A byte that is not UTF-8 becomes ``\xNN``.

    >>> printable("caf\udce9")
    'caf\\xe9'
    """
    return os.fsencode(name).decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Batch:
    """Accepted rows and rejected records of one part of a load. ``read`` is the total number of rows and records.

    If the load may still reject rows, ``origins`` contains the record of each row in order.
    """

    rows: pa.Table
    rejected: tuple[RejectedRecord, ...]
    read: int
    origins: tuple[RejectedRecord, ...] = ()


def arrow_schema(columns: Sequence[tuple[str, DataType]]) -> pa.Schema:
    """Return the schema of a batch with the given columns."""
    fields = [pa.field(name, arrow_type(kind)) for name, kind in columns]
    return pa.schema([*fields, pa.field(OWN_TIME, pa.int64()), pa.field(SEQ, pa.int64())])


def batches_of(
    items: Iterable[Row | RejectedRecord],
    columns: Sequence[tuple[str, DataType]],
    *,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
) -> Iterator[Batch]:
    """Yield the items in batches of at most ``max_rows`` items and about ``max_bytes`` bytes of text."""
    schema = arrow_schema(columns)
    rows: list[Row] = []
    rejected: list[RejectedRecord] = []
    held = done = 0
    for item in items:
        if isinstance(item, Row):
            rows.append(item)
            held += sum(len(value) for value in item.values.values() if isinstance(value, str | bytes))
        else:
            rejected.append(item)
            held += len(item.raw)
        if len(rows) + len(rejected) >= max_rows or held >= max_bytes:
            yield _batch(rows, rejected, schema, done)
            done += len(rows)
            rows, rejected, held = [], [], 0
    if rows or rejected:
        yield _batch(rows, rejected, schema, done)


def _batch(rows: list[Row], rejected: list[RejectedRecord], schema: pa.Schema, first: int) -> Batch:
    origins = tuple(row.origin for row in rows if row.origin is not None)
    return Batch(_table(rows, schema, first), tuple(rejected), len(rows) + len(rejected), origins)


def _table(rows: list[Row], schema: pa.Schema, first: int) -> pa.Table:
    arrays: list[pa.Array] = []
    for field in schema:
        if field.name == SEQ:
            values: Sequence[object] = range(first, first + len(rows))
        elif field.name == OWN_TIME:
            values = [row.own_time for row in rows]
        else:
            values = [row.values.get(field.name) for row in rows]
        arrays.append(pa.array(values, type=field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


TsOrder = Literal["own", "arrival"]
Late = Literal["stamp", "refuse", "quarantine"]


@dataclass(frozen=True)
class Timing:
    """The options that determine the ``ts`` of each row in a load.

    - ``ts_from`` names the column with the event times of the rows. If ``ts_from`` is None, rows get the time of the
      home's clock.
    - ``order`` is ``own`` or ``arrival``. For ``own``, the event time of a row becomes its ``ts``. For ``arrival``,
      ``ts`` is the running maximum of the event times in the source.
    - ``late`` determines what happens to a row whose event time is before the watermark. For ``stamp``, the row gets
      the watermark as its ``ts``. For ``refuse``, the load fails and stores nothing. For ``quarantine``, the row goes
      to quarantine.
    - An event time may be at most ``future_us`` microseconds ahead of the wall clock.
    - ``hold`` stops the watermark until the load is done.

    Raises Refused for an invalid option.
    """

    ts_from: str | None = None
    order: TsOrder = "own"
    late: Late = "stamp"
    future_us: int = DAY_US
    hold: bool = False

    def __post_init__(self) -> None:
        for name, option, known in (("order", "--ts-order", get_args(TsOrder)), ("late", "--late", get_args(Late))):
            if getattr(self, name) not in known:
                raise Refused(
                    f"{getattr(self, name)!r} is not a valid value of {option}", hint=f"Use one of {', '.join(known)}."
                )
        if self.order == "arrival" and self.ts_from is None:
            raise Refused(
                "--ts-order arrival requires --ts-from",
                hint="Name the column with the time of each row: --ts-from COL.",
            )
        if self.future_us < 0:
            raise Refused(f"{self.future_us} is not a valid interval", hint="Write, for example, 1d.")

    @property
    def holds(self) -> bool:
        """True if the watermark stops until the load is done.

        A load that refuses late rows always stops the watermark, because rows could become late while the load runs.
        """
        return self.hold or self.late == "refuse"

    @property
    def too_far(self) -> str:
        """The reason for rejecting a row that is more than ``future_us`` ahead of the wall clock."""
        return f"more than {format_interval(self.future_us)} ahead of the clock"

    def options(self) -> dict[str, object]:
        """Return JSON-able options. A retry with these options gives rows the same ``ts`` as this load."""
        return {name: getattr(self, name) for name in _KEPT}

    @classmethod
    def of_options(cls, options: dict[str, object]) -> Timing:
        """Return the timing that ``options`` describes. The options of a feed have none."""
        return cls(**{name: options[name] for name in _KEPT if name in options})  # type: ignore[arg-type]


_KEPT: Final = tuple(field.name for field in fields(Timing) if field.name != "hold")

DEFAULT_TIMING: Final = Timing()
"""The default timing: each row gets the time of the home's clock."""
