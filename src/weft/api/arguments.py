"""What a caller may give in several forms: instants, lengths of time, and how a load treats times."""

from __future__ import annotations

import datetime as dt
import getpass
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from weft.algebra.schema import DataType, between_commas
from weft.errors import Refused
from weft.instants import from_datetime, parse_instant, parse_interval
from weft.printable import require_text

if TYPE_CHECKING:
    from weft.extraction.files.options import FileOptions
    from weft.extraction.timing import Late, Timing, TsOrder

AnyInstant = int | str | dt.datetime
"""Microseconds since 1970-01-01 UTC, ISO 8601 text (UTC where it has no offset), or a datetime with a zone."""


def micros(instant: AnyInstant) -> int:
    """An instant as microseconds UTC; raises Refused for text that is none and a datetime without a zone."""
    if isinstance(instant, str):
        return parse_instant(instant)
    if isinstance(instant, dt.datetime):
        if instant.tzinfo is None:
            raise Refused(f"{instant} has no zone", hint="Give it one: datetime(…, tzinfo=timezone.utc).")
        return from_datetime(instant)
    return instant


def timing(ts_from: str | None, order: TsOrder, late: Late, future: str | int, hold: bool) -> Timing:
    """How a load treats times; ``future`` as ``length`` takes it."""
    from weft.extraction.timing import Timing

    return Timing(ts_from, order, late, length(future), hold)


def length(text: str | int) -> int:
    """A length of time in microseconds, given as text such as ``10m``, or as such."""
    return parse_interval(text) if isinstance(text, str) else text


def texts(given: str | Sequence[str]) -> tuple[str, ...]:
    """One text or several, as several.

    >>> texts("file:x.csv"), texts(["a", "b"])
    (('file:x.csv',), ('a', 'b'))
    """
    return (given,) if isinstance(given, str) else tuple(given)


def file_options(
    types: str | Mapping[str, str] | None,
    rename: str | Mapping[str, str] | None,
    encoding: str | None,
    form: str | None,
) -> FileOptions:
    """How files are read: types as ``id BIGINT, day DATE``, names as ``Order ID=id, Größe=size``, or mappings of these.

    Raises Refused.
    """
    from weft.extraction.files.options import FileOptions

    typed = () if types is None else typed_columns(types, "--types")
    return FileOptions(typed, renaming(rename), encoding, form, mends_names=True)


def renaming(given: str | Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Pairs of a column's name in the file and the one that it gets, from a text or a mapping; raises Refused.

    >>> renaming("Order ID=id, a=b"), renaming({"a": "b"})
    ((('Order ID', 'id'), ('a', 'b')), (('a', 'b'),))
    """
    if isinstance(given, Mapping):
        return tuple(given.items())
    found = []
    for each in filter(None, map(str.strip, (given or "").split(","))):
        old, sign, new = (part.strip() for part in each.rpartition("="))
        if not sign or not old or not new:
            raise Refused(f"--rename: {each!r} is no OLD=NEW", hint="Write it like: Order ID=order_id, Date=day.")
        found.append((old, new))
    return tuple(found)


def typed_columns(given: str | Mapping[str, str], option: str) -> tuple[tuple[str, DataType], ...]:
    """As ``column_list``, or types by column, and each column has its type; raises Refused."""
    told = given if isinstance(given, str) else ", ".join(f"{name} {kind}" for name, kind in given.items())
    listed = column_list(told, option)
    missing = next((name for name, kind in listed if kind is None), None)
    if missing is not None:
        raise Refused(f"{option}: {missing!r} has no type", hint="Write it like: price DECIMAL(12,2), day DATE.")
    return tuple((name, kind) for name, kind in listed if kind is not None)


def column_list(text: str, option: str = "--columns") -> list[tuple[str, DataType | None]]:
    """Columns with commas between, each with its type or without (None); raises Refused for what is no type.

    >>> [(name, str(kind)) for name, kind in column_list("id bigint, name, price decimal(8, 2)")]
    [('id', 'BIGINT'), ('name', 'None'), ('price', 'DECIMAL(8,2)')]
    """
    found: list[tuple[str, DataType | None]] = []
    for each in between_commas(text):
        name, _, kind = each.strip().partition(" ")
        try:
            if name:
                found.append((name, DataType.of_column(kind) if kind.strip() else None))
        except ValueError as error:
            nested = " Nested: tags ARRAY<STRING>, buyer STRUCT<id: BIGINT, name: STRING>." if "<" in text else ""
            raise Refused(f"{option}: {error}", hint=f"Write it like: id BIGINT, name, hired DATE.{nested}") from None
    if not found:
        raise Refused(f"{option} names no column", hint="Write it like: id BIGINT, name, hired DATE.")
    return found


def digest_times(digest: str | None, zone: str | None) -> tuple[str | None, str | None]:
    """A digest in its one way of writing, and its time zone; raises Refused for what cannot be."""
    from weft.configuration import require_zone
    from weft.delivery.digest import parse_digest

    if zone is not None and digest is None:
        raise Refused("a time zone is that of a digest", hint="Add --digest daily@08:00, or leave --zone out.")
    return (None if digest is None else str(parse_digest(digest))), (None if zone is None else require_zone(zone))


def own_user() -> str:
    """The name of whoever runs this process; raises Refused for one that is not UTF-8."""
    try:
        return require_text(getpass.getuser(), "the user's name")
    except (KeyError, OSError, ImportError):  # no name for this user id
        return "user"
