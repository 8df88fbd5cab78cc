"""Options for reading files. An option overrides the result of inspecting the file.

The option ``ts_format`` is needed for event times that are not ISO 8601.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import duckdb

from weft.algebra.schema import DataType
from weft.errors import Refused
from weft.extraction.files.columns import MAX_COLUMNS, may_name_column
from weft.extraction.files.encoding import UTF_8, codec_name
from weft.instants import FIRST_INSTANT, LAST_INSTANT
from weft.storage.local_sql import connect


@dataclass(frozen=True)
class FileOptions:
    """Options for reading files. The comparison of column names ignores case.

    - ``types`` sets column types. All other types are inferred.
    - ``rename`` maps column names in the file to new names.
    - ``encoding`` is the text encoding. If ``encoding`` is None, the encoding is detected.
    - ``ts_format`` is the format of the event times: a strptime format, or a unit since 1970 (``s``, ``ms``, ``us``,
      ``ns``). If ``ts_format`` is None, event times are in ISO 8601, or numbers in a recognizable unit.
    - ``mends_names`` replaces invalid column names by valid ones.

    Raises Refused for an invalid encoding or format.
    """

    types: tuple[tuple[str, DataType], ...] = ()
    rename: tuple[tuple[str, str], ...] = ()
    encoding: str | None = UTF_8
    ts_format: str | None = None
    mends_names: bool = False

    def __post_init__(self) -> None:
        if self.encoding is not None:
            codec_name(self.encoding)
        if self.ts_format is not None:
            check_form(self.ts_format)

    def names(self, written: Sequence[str], where: str) -> tuple[str, ...]:
        """Return the column names after renaming. Raise Refused if a column to rename is not in the file."""
        there = {name.lower() for name in written}
        for name, _ in self.rename:
            if name.lower() not in there:
                hint = f"The columns are: {', '.join(written[:MAX_COLUMNS])}."
                raise Refused(f"the file has no column {name!r} to rename", hint=hint, where=where)
        chosen = {name.lower(): new for name, new in self.rename}
        names = [chosen.get(name.lower(), name) for name in written]
        return _mended(names) if self.mends_names else tuple(names)


AS_WRITTEN: Final = FileOptions()
"""Options that keep all column names and do not detect the encoding."""


DEFAULT_OPTIONS: Final = FileOptions(encoding=None, mends_names=True)
"""Options that detect the encoding and give every column a valid name."""


def _mended(names: Sequence[str]) -> tuple[str, ...]:
    """Replace each invalid name by a similar unique name.

    >>> _mended(["id", "Order ID", "order_id", "_id", "", "2024"])
    ('id', 'Order_ID_2', 'order_id', 'id_2', 'column_5', 'column_2024')
    """
    taken = {name.lower() for name in names if may_name_column(name)}
    mended = []
    for number, name in enumerate(names, 1):
        if may_name_column(name):
            mended.append(name)
            continue
        bare = re.sub(r"\W+", "_", name).strip("_")[:100]
        own = bare if may_name_column(bare) else f"column_{bare or number}"
        other, count = own, 1
        while other.lower() in taken:
            count += 1
            other = f"{own}_{count}"
        taken.add(other.lower())
        mended.append(other)
    return tuple(mended)


UNITS: Final[Mapping[str, str]] = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_LEAST_SECONDS: Final = 10**8
_FACTOR: Final = 10**3
_IN_MICROSECONDS: Final = {
    "s": "CAST(floor(TRY_CAST(trim({0}) AS DECIMAL(28,9)) * 1000000::DECIMAL(7,0)) AS HUGEINT)",
    "ms": "CAST(floor(TRY_CAST(trim({0}) AS DECIMAL(28,6)) * 1000::DECIMAL(4,0)) AS HUGEINT)",
    "us": "CAST(floor(TRY_CAST(trim({0}) AS DECIMAL(28,3))) AS HUGEINT)",
    # Truncate nanoseconds, as in Parquet files.
    "ns": "(CAST(floor(TRY_CAST(trim({0}) AS DECIMAL(28,0))) AS HUGEINT) // 1000)",
}
_SIGN: Final = re.compile(r"%[A-Za-z%-]")


def check_form(form: str) -> None:
    """Raise Refused unless ``form`` is a unit of time or a strptime format."""
    if form in UNITS:
        return
    problem = None if _SIGN.search(form) else "the format has no code such as %Y"
    if problem is None:
        try:
            with connect() as connection:
                connection.execute(f"SELECT try_strptime('', {_text(form)})")
        except duckdb.Error as error:
            problem = " ".join(str(error).split())[:200]
    if problem is not None:
        raise Refused(
            f"--ts-format {form!r} is not a valid format: {problem}",
            hint=(
                "Use s, ms, us or ns for numbers since 1970, or a format such as '%d.%m.%Y %H:%M:%S' (%z stands "
                "for the offset)."
            ),
        )


def in_microseconds(cell: str, form: str) -> str:
    """Return a DuckDB expression for the time in a text cell, in microseconds UTC.

    The expression is NULL if the cell does not match ``form``. Text without an offset is read as UTC.
    """
    if form in UNITS:
        instant = _IN_MICROSECONDS[form].format(cell)
    else:
        instant = f"epoch_us(try_strptime(trim({cell}), {_text(form)}))"
    return f"CASE WHEN {instant} BETWEEN {FIRST_INSTANT} AND {LAST_INSTANT} THEN CAST({instant} AS BIGINT) END"


def common_unit(values: Iterable[str | None]) -> str | None:
    """Return the unit of time in which all ``values`` are times from 1973 to 5138, or None if no unit fits.

    >>> common_unit(["1700000000", None, "1700000000.25"]), common_unit(["1700000000", "1700000000000"])
    ('s', None)
    """
    units = {_unit(value) for value in values if value}
    return units.pop() if len(units) == 1 else None


def _unit(value: str) -> str | None:
    try:
        number = decimal.Decimal(value.strip())
    except decimal.InvalidOperation:
        return None
    least = decimal.Decimal(_LEAST_SECONDS)
    for unit in UNITS:
        if least <= number < least * _FACTOR:
            return unit
        least *= _FACTOR
    return None


def _text(form: str) -> str:
    return "'" + form.replace("'", "''") + "'"
