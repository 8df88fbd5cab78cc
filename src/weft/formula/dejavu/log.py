"""Read DejaVu's logs, which are CSV files, as streams of time points.

Each line ``name,value,…`` is one event and becomes one time point.  In a timed log, the last value of each line is the
time in whole seconds.  In a log without times, every event has the time 0.  Like DejaVu, the reader adds up the time
between consecutive events.  If the time decreases at an event, the reader adds nothing.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping

from weft.algebra.schema import BIGINT, DataType
from weft.errors import FormulaError
from weft.formula.signature import Row, TimePoint
from weft.printable import counted

_SECOND = 1_000_000
_LARGEST = 2**63


def events(
    lines: Iterable[str], known: Mapping[str, tuple[DataType, ...]], *, timed: bool, name: str = "the log"
) -> Iterator[TimePoint]:
    """Yield the events of a log as time points.  Events that are not in ``known`` have no rows.

    Raise FormulaError with the line number for an invalid line.
    """
    reader = _records(lines, name)
    previous: int | None = None
    at = 0
    for number, (place, fields) in enumerate(reader):
        if timed:
            now = _time(fields.pop(), name, place)
            if not fields:
                raise FormulaError(
                    f"{name}: the line has a time but no event",
                    where=place,
                    hint="Write each line as EVENT,VALUE,…,TIME.",
                )
            at = now if previous is None else at + max(0, now - previous)
            previous = now
        yield TimePoint(number, at, _rows(fields, known, timed, name, place))


def _records(lines: Iterable[str], name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (line number, values) for each nonblank line.  Raise FormulaError for malformed CSV."""
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
            f"{name}: {text!r} is not a time; the last value of each line of a timed log must be a time", where=place
        ) from None
    if not 0 <= at < _LARGEST // 2:
        raise FormulaError(f"{name}: the time {text} is negative or too large", where=place)
    return at


def _rows(
    fields: list[str], known: Mapping[str, tuple[DataType, ...]], timed: bool, name: str, place: str
) -> dict[str, list[Row]]:
    event, values = fields[0], fields[1:]
    types = known.get(event)
    if types is None:
        return {}
    if len(types) != len(values):
        raise FormulaError(
            f"{name}: {event} has {counted(len(types), 'column')} in the specification, but the line has "
            f"{counted(len(values), 'value')}",
            where=place,
            hint=None
            if timed or len(values) != len(types) + 1
            else "If the last value of each line is its time, use a file with .timed. in its name.",
        )
    try:
        row = tuple(int(value) if type == BIGINT else value for value, type in zip(values, types, strict=True))
    except ValueError:
        raise FormulaError(
            f"{name}: in {event}({', '.join(values)}), the specification compares a value by order, but the "
            "value is not a number",
            where=place,
        ) from None
    return {event: [row]}
