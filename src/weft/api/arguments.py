"""Convert arguments that callers may pass in several forms: instants, intervals, columns and load times."""

from __future__ import annotations

import datetime as dt
import getpass
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from weft.algebra.schema import INTERVAL, DataType, between_commas
from weft.errors import Refused
from weft.instants import from_datetime, parse_instant, parse_interval
from weft.printable import require_text

if TYPE_CHECKING:
    from weft.extraction.batches import Late, Timing, TsOrder
    from weft.extraction.files.options import FileOptions

AnyInstant = int | str | dt.datetime
"""An instant: microseconds UTC, ISO 8601 text (in UTC unless it has an offset), or a datetime with a time zone."""


def micros(instant: AnyInstant) -> int:
    """Return an instant in microseconds UTC.  Raise Refused for invalid text or a datetime without a time zone."""
    if isinstance(instant, str):
        return parse_instant(instant)
    if isinstance(instant, dt.datetime):
        if instant.tzinfo is None:
            raise Refused(f"{instant} has no time zone", hint="Add a time zone: datetime(…, tzinfo=timezone.utc).")
        return from_datetime(instant)
    return instant


def timing(ts_from: str | None, order: TsOrder, late: Late, future: str | int, hold: bool) -> Timing:
    """Return the options for the times of a load.  The argument ``future`` has the format that ``length`` accepts."""
    from weft.extraction.batches import Timing

    return Timing(ts_from, order, late, length(future), hold)


def length(text: str | int) -> int:
    """Return a length of time in microseconds.  The argument is a number of microseconds, or text such as ``10m``."""
    return parse_interval(text) if isinstance(text, str) else text


def texts(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return the given text or texts as a tuple.

    >>> texts("file:x.csv"), texts(["a", "b"])
    (('file:x.csv',), ('a', 'b'))
    """
    return (value,) if isinstance(value, str) else tuple(value)


def file_options(
    types: str | Mapping[str, str] | None,
    rename: str | Mapping[str, str] | None,
    encoding: str | None,
    form: str | None,
) -> FileOptions:
    """Return the options for reading files.  Raise Refused for an invalid option.

    ``types`` maps columns to types, or is text such as ``id BIGINT, day DATE``.
    ``rename`` maps names in the file to columns, or is text such as ``Order ID=id, Größe=size``.
    """
    from weft.extraction.files.options import FileOptions

    typed = () if types is None else typed_columns(types, "--types")
    return FileOptions(typed, renaming(rename), encoding, form, mends_names=True)


def renaming(names: str | Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Return pairs (name in the file, name of the column).  Raise Refused for invalid text.

    >>> renaming("Order ID=id, a=b"), renaming({"a": "b"})
    ((('Order ID', 'id'), ('a', 'b')), (('a', 'b'),))
    """
    if isinstance(names, Mapping):
        return tuple(names.items())
    pairs = []
    for each in filter(None, map(str.strip, (names or "").split(","))):
        old, sign, new = (part.strip() for part in each.rpartition("="))
        if not sign or not old or not new:
            raise Refused(f"--rename: {each!r} is not OLD=NEW", hint="Write, for example: Order ID=order_id, Date=day.")
        pairs.append((old, new))
    return tuple(pairs)


def typed_columns(columns: str | Mapping[str, str], option: str) -> tuple[tuple[str, DataType], ...]:
    """Return pairs (column, type) from a mapping or text.  Raise Refused if a column has no type."""
    text = columns if isinstance(columns, str) else ", ".join(f"{name} {kind}" for name, kind in columns.items())
    listed = column_list(text, option)
    missing = next((name for name, kind in listed if kind is None), None)
    if missing is not None:
        raise Refused(f"{option}: {missing!r} has no type", hint="Write, for example: price DECIMAL(12,2), day DATE.")
    return tuple((name, kind) for name, kind in listed if kind is not None)


def column_list(text: str, option: str = "--columns") -> list[tuple[str, DataType | None]]:
    """Parse a comma-separated list of columns into pairs (column, type or None).  Raise Refused for an unknown type.

    >>> [(name, str(kind)) for name, kind in column_list("id bigint, name, price decimal(8, 2)")]
    [('id', 'BIGINT'), ('name', 'None'), ('price', 'DECIMAL(8,2)')]
    """
    columns: list[tuple[str, DataType | None]] = []
    for each in between_commas(text):
        name, _, kind = each.strip().partition(" ")
        try:
            if name:
                type = DataType.of_column(kind) if kind.strip() else None
                if type is not None and type.shape == INTERVAL:
                    raise ValueError("Weft does not store this type: INTERVAL")
                columns.append((name, type))
        except ValueError as error:
            nested = " Nested: tags ARRAY<STRING>, buyer STRUCT<id: BIGINT, name: STRING>." if "<" in text else ""
            raise Refused(
                f"{option}: {error}", hint=f"Write, for example: id BIGINT, name, hired DATE.{nested}"
            ) from None
    if not columns:
        raise Refused(f"{option} names no column", hint="Write, for example: id BIGINT, name, hired DATE.")
    return columns


def digest_times(digest: str | None, zone: str | None) -> tuple[str | None, str | None]:
    """Return the canonical digest schedule and the time zone.  Raise Refused if the schedule or the zone is invalid."""
    from weft.configuration import require_zone
    from weft.delivery.digest import parse_digest

    if zone is not None and digest is None:
        raise Refused("--zone applies to digests only", hint="Add --digest daily@08:00, or omit --zone.")
    return (None if digest is None else str(parse_digest(digest))), (None if zone is None else require_zone(zone))


def own_user() -> str:
    """Return the name of the user who runs this process.  Raise Refused if the name is not valid UTF-8."""
    try:
        return require_text(getpass.getuser(), "the user's name")
    except (KeyError, OSError, ImportError):  # this user id has no name
        return "user"
