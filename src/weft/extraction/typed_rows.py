"""Read rows that people write, as JSON lines or on a command line. Each value must have the type of its column."""

from __future__ import annotations

import csv
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from io import TextIOWrapper
from typing import IO, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from weft.algebra.schema import INTEGRAL, DataType
from weft.errors import Refused
from weft.extraction.nested_values import json_of
from weft.extraction.row_values import Columns, listed, no_column, shown, wrong_value
from weft.storage.columns import arrow_type
from weft.storage.json_text import parsed
from weft.storage.type_table import TYPES, whole_numbers


@dataclass(frozen=True)
class TextRow:
    """One row from a command line, with a text for each column."""

    values: Mapping[str, str]


@dataclass(frozen=True)
class CsvRows:
    """Rows as CSV in UTF-8 with a header.  An empty cell is NULL."""

    stream: IO[bytes]


def from_json(lines: Iterable[bytes], columns: Columns, source: str) -> Iterator[dict[str, object]]:
    """Yield a row for each line that is not blank, as a dict of column values. Missing names become NULL.

    Nothing is converted: a number is not a text, and a text is not a number. DATE and TIMESTAMP are ISO 8601 strings. A
    time without a zone is read as UTC. A DECIMAL value may also be a string. BINARY is a string of hexadecimal digits.
    Raises Refused for any other value. The error names the line and the column.
    """
    model = _model(tuple(columns))
    nested = any(kind.shape is not None for _, kind in columns)
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                row = _values(model.model_validate_json(line, strict=True), columns)
                if nested:
                    row |= _nested(_read(line, source, number), columns, f"{source}, line {number}")
                yield row
            except ValidationError as error:
                raise _refused(error, columns, f"{source}, line {number}") from None


def from_texts(values: Mapping[str, str], columns: Columns, source: str) -> dict[str, object]:
    """Return one row. Each text is read as a value of its column's type. Raises Refused, as ``from_json`` does."""
    try:
        row = _values(_model(tuple(columns)).model_validate_strings(dict(values)), columns)
        return {**row, **_nested(values, columns, source)}
    except ValidationError as error:
        raise _refused(error, columns, source) from None


def from_csv(stream: IO[bytes], columns: Columns, source: str) -> Iterator[dict[str, object]]:
    """Yield a row for each line of CSV in UTF-8 after the header, as ``from_texts`` does. An empty cell is NULL."""
    rows = csv.reader(TextIOWrapper(stream, "utf-8-sig", newline=""), strict=True)
    where = source
    try:
        header = next(rows, [])
        if len(set(header)) < len(header):
            raise Refused("the header names a column twice", where=source, hint=listed(columns))
        for cells in rows:
            where = f"{source}, line {rows.line_num}"
            if len(cells) > len(header):
                raise Refused(f"the line has {len(cells)} cells, but the header has {len(header)}", where=where)
            yield from_texts({name: cell for name, cell in zip(header, cells, strict=False) if cell}, columns, where)
    except UnicodeDecodeError:
        raise Refused("the rows are not text in UTF-8", where=where) from None
    except csv.Error as error:
        raise Refused(f"the rows are not CSV: {error}", where=where) from None


def _read(line: bytes, source: str, number: int) -> Mapping[str, Any]:
    """Return the values of a line. Numbers remain as written, and repeated names are preserved."""
    try:
        row: Mapping[str, Any] = parsed(line.decode())
    except (ValueError, RecursionError) as error:
        hint = 'Write each row as a line such as {"id": 1}.'
        raise Refused(f"the line is not a row: {error}", where=f"{source}, line {number}", hint=hint) from None
    return row


def _nested(row: Mapping[str, Any], columns: Columns, where: str) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, kind in columns:
        if kind.shape is not None and (value := row.get(name)) is not None:
            try:
                values[name] = json_of(value, kind.shape)
            except (ValueError, TypeError):
                raise wrong_value(name, kind, shown(value), where) from None
    return values


@cache
def _model(columns: tuple[tuple[str, DataType], ...]) -> type[BaseModel]:
    """Return a model with numbered fields, because a column name may be invalid as a Python name."""
    fields: dict[str, Any] = {
        f"c{number}": (_kind(kind) | None, Field(default=None, alias=name))
        for number, (name, kind) in enumerate(columns)
    }
    config = ConfigDict(extra="forbid", val_json_bytes="hex")
    return create_model("Row", __config__=config, **fields)


def _kind(kind: DataType) -> Any:
    if kind.shape is not None:
        return Any
    if kind.name in INTEGRAL:
        limits = whole_numbers(arrow_type(kind))
        return Annotated[int, Field(ge=limits.start, lt=limits.stop)]
    if kind.name == "DECIMAL":
        return Annotated[Decimal, Field(max_digits=kind.precision, decimal_places=kind.scale)]
    return TYPES[kind.name].python[0]


def _values(row: BaseModel, columns: Columns) -> dict[str, object]:
    values = (getattr(row, f"c{number}") for number in range(len(columns)))
    return {name: _zoned(value) for (name, _), value in zip(columns, values, strict=True)}


def _zoned(value: object) -> object:
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=dt.timezone.utc)
    return value


def _refused(error: ValidationError, columns: Columns, where: str) -> Refused:
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0]) if first["loc"] else None
    if first["type"] == "extra_forbidden":
        return no_column(name, columns, where)
    kind = next((kind for each, kind in columns if each == name), None)
    if kind is None:
        return Refused(
            f"the line is not a row: {first['msg'][:200]}",
            where=where,
            hint='Write each row as a line such as {"id": 1}.',
        )
    text = str(first["input"])[:60]
    return Refused(
        f"{name} is {text!r}, which is not of type {kind.declared} ({first['msg']})", where=where, hint=listed(columns)
    )
