"""Read DejaVu's logs as streams: CSV with one event per line, ``name,value,…``, and the time as last value in a timed
log.

Every event is a time point.  Times are integers, which Weft takes as seconds; without times every event is at 0.  Like
DejaVu, the reader adds up the time from each event to the next: if a clock was set back, no time passes at that event.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping

from weft.algebra.schema import BIGINT, DataType
from weft.errors import FormulaError
from weft.formula.signature import Row, TimePoint

_SECOND = 1_000_000
_LARGEST = 2**63


def events(
    lines: Iterable[str], known: Mapping[str, tuple[DataType, ...]], *, timed: bool, name: str = "the log"
) -> Iterator[TimePoint]:
    """Yield the events of a log as time points; an event that the specification does not name has no rows.

    Raises FormulaError with the line of an event whose values do not match its columns, or of a time without an event.
    """
    reader = _records(lines, name)
    previous: int | None = None
    at = 0
    for number, (place, fields) in enumerate(reader):
        if timed:
            now = _time(fields.pop(), name, place)
            if not fields:
                raise FormulaError(
                    f"{name}: the line has a time and no event", where=place, hint="A line is EVENT,VALUE,…,TIME."
                )
            at = now if previous is None else at + max(0, now - previous)
            previous = now
        yield TimePoint(number, at, _rows(fields, known, name, place))


def _records(lines: Iterable[str], name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the nonblank records, each with its line; raise FormulaError for malformed CSV."""
    reader = csv.reader(lines)
    try:
        for fields in reader:
            if fields:
                yield f"line {reader.line_num}", fields
    except csv.Error as error:
        raise FormulaError(f"{name}: {error}", where=f"line {reader.line_num}") from None


def _time(text: str, name: str, place: str) -> int:
    try:
        at = int(text) * _SECOND
    except ValueError:
        raise FormulaError(
            f"{name}: {text!r} is not a time; the last value of each line of a timed log must be one", where=place
        ) from None
    if not 0 <= at < _LARGEST // 2:
        raise FormulaError(f"{name}: the time {text} is negative or too large", where=place)
    return at


def _rows(fields: list[str], known: Mapping[str, tuple[DataType, ...]], name: str, place: str) -> dict[str, list[Row]]:
    event, values = fields[0], fields[1:]
    types = known.get(event)
    if types is None:
        return {}
    if len(types) != len(values):
        raise FormulaError(
            f"{name}: {event} has {len(types)} columns in the specification, and here are {len(values)} values",
            where=place,
        )
    try:
        row = tuple(int(value) if type == BIGINT else value for value, type in zip(values, types, strict=True))
    except ValueError:
        raise FormulaError(
            f"{name}: {event}({', '.join(values)}) has a value that is compared by order but is not a number",
            where=place,
        ) from None
    return {event: [row]}
