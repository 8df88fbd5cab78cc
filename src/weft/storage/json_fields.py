"""Read a field of JSON texts with DuckDB, for look-ups by a field of a nested column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import DataType
from weft.storage.columns import arrow_type
from weft.storage.local_sql import execution_errors, thread_connection

_WHOLE: Final = ("UBIGINT", "BIGINT")
_PLAIN: Final = (
    "strlen(x) <= 50000 AND strlen(x) - strlen(replace(replace(x, '[', ''), '{', '')) <= 1000 "
    r"AND NOT regexp_matches(x, '(?i),\s*[}\]]|[:\[,]\s*[-+]?(nan|inf|infinity)\s*[,}\]]|[0-9]{100}')"
)
"""The SQL of a condition that fails for each text ``x`` that DuckDB reads as JSON and Spark does not.

Spark refuses a comma before a closing bracket, most words for numbers, numbers of more than 1,000 digits, nesting of
more than 1,000 levels, and names of more than 50,000 characters. The condition also fails for some texts that Spark
reads, for example if a string has 100 digits in a row.
"""


def field_values(texts: pa.ChunkedArray, fields: Sequence[str], kind: DataType) -> pa.ChunkedArray | None:
    """Return the field of each JSON text to which the names ``fields`` lead, or NULL if the text has no such field.

    ``kind`` is the type of the field: STRING or an integer. Return None if Spark may read another value from one of
    the texts: the text is not valid JSON or not plain (``_PLAIN``), it has two fields with the same name, or the field
    has a value of another type. A whole number is read as a STRING too.

    >>> texts = pa.chunked_array([['{"a": {"b": 7}}', '{"a": null}', None]])
    >>> field_values(texts, ["a", "b"], DataType("BIGINT")).to_pylist()
    [7, None, None]
    >>> field_values(pa.chunked_array([['{"a": 1.5}']]), ["a"], DataType("BIGINT")) is None
    True
    """
    import duckdb

    type_, value = _read("json_type", fields), _read("json_extract_string", fields)
    kinds = (*_WHOLE, "VARCHAR") if kind.name == "STRING" else _WHOLE
    whole = f"TRY_CAST({value} AS {kind.name})"
    known = f"{type_} IN {kinds} AND {whole} IS NOT NULL"
    once = " AND ".join(_distinct_names(fields[:depth]) for depth in range(len(fields)))
    sure = f"json_valid(x) AND {_PLAIN} AND {once} AND ({type_} IS NULL OR {type_} = 'NULL' OR {known})"
    with execution_errors():
        rows = thread_connection().from_arrow(pa.table({"x": texts}))
        try:
            found = rows.project(f"{whole} AS value, x IS NULL OR ({sure}) AS sure").to_arrow_table()
        except duckdb.InvalidInputException:
            return None
    values, are_sure = found.columns
    return values.cast(arrow_type(kind)) if pc.all(are_sure).as_py() is not False else None


def _read(function: str, fields: Sequence[str]) -> str:
    return f"{function}(x, {_pointer(fields)})"


def _distinct_names(fields: Sequence[str]) -> str:
    """Return the SQL of whether the value at the pointer has distinct names, or none.

    Exclude arrays: a pointer such as /0 selects an element.
    """
    kind, keys = _read("json_type", fields), _read("json_keys", fields)
    return f"COALESCE({kind} <> 'ARRAY' AND list_unique({keys}) = len({keys}), TRUE)"


def _pointer(fields: Sequence[str]) -> str:
    """Return the SQL of a JSON pointer (RFC 6901)."""
    return _text("".join("/" + name.replace("~", "~0").replace("/", "~1") for name in fields))


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
