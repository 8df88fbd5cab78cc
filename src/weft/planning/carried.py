"""Encode the values of a table for a synopsis.

The variables of a formula have few types and cannot be NULL.  TIMESTAMP and DATE values become integers.  DECIMAL and
BINARY values become text.  If a nullable value only passes through to the answer, a special text encodes NULL.  A row
with a NULL in a joined or compared column belongs to no answer and is omitted.  The SQL is for DuckDB
(``sql.dialects.duckdb_dialect``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.algebra.formula import VARIABLE_TYPES
from weft.algebra.schema import BIGINT, INT, STRING, DataType

_NONE: Final = "'N'"


@dataclass(frozen=True)
class ValueEncoding:
    """The encoding for the values of a column.  ``column`` is the type of the column."""

    column: DataType
    nullable: bool

    @property
    def type(self) -> DataType:
        """The type of the encoded values."""
        return STRING if self.nullable else self._plain

    @property
    def ordered(self) -> bool:
        """Whether encoded values have the same order as the column's values."""
        return self.column == STRING or self._plain != STRING

    def encoded(self, value: str) -> str:
        """Return SQL that encodes the column value ``value``."""
        plain = self._encoded(value)
        if not self.nullable:
            return plain
        return f"CASE WHEN {value} IS NULL THEN {_NONE} ELSE CONCAT('V', CAST({plain} AS STRING)) END"

    def decoded(self, value: str) -> str:
        """Return SQL that decodes the encoded value ``value``."""
        if not self.nullable:
            return self._decoded(value)
        text = f"SUBSTRING({value}, 2)"
        plain = text if self._plain == STRING else f"CAST({text} AS {self._plain})"
        return f"CASE WHEN {value} = {_NONE} THEN NULL ELSE {self._decoded(plain)} END"

    @property
    def _plain(self) -> DataType:
        if self.column.name in VARIABLE_TYPES:
            return self.column
        return {"TIMESTAMP": BIGINT, "DATE": INT}.get(self.column.name, STRING)

    def _encoded(self, value: str) -> str:
        match self.column.name:
            case "TIMESTAMP":
                return f"UNIX_MICROS({value})"
            case "DATE":
                return f"CAST({value} - DATE '1970-01-01' AS INT)"
            case "DECIMAL":
                return f"CAST({value} AS STRING)"
            case "BINARY":
                return f"HEX({value})"
            case "DOUBLE" | "FLOAT":  # 0.0 and -0.0 are one value
                return f"CASE WHEN {value} = 0 THEN CAST('0.0' AS {self.column}) ELSE {value} END"
            case _:
                return value

    def _decoded(self, value: str) -> str:
        match self.column.name:
            case "TIMESTAMP":
                return f"TIMESTAMP_MICROS({value})"
            case "DATE":
                return f"(DATE '1970-01-01' + {value})"
            case "DECIMAL":
                return f"CAST({value} AS {self.column})"
            case "BINARY":
                return f"UNHEX({value})"
            case _:
                return value
