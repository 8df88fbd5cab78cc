"""How a table's values go through a synopsis: a formula's variables have few types, and none of them has NULL.

The type of a variable *carries* that of a column: TIMESTAMP and DATE go as whole numbers, DECIMAL and BINARY as text.
A value that may be NULL and that nothing is asked of, only handed on to the answer, goes as text that says which it is;
rows with a NULL in another column are in no answer and are left out.  SQL here is for DuckDB (``sql.local``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.algebra.formula import VARIABLE_TYPES
from weft.algebra.schema import BIGINT, INT, STRING, DataType

_NONE: Final = "'N'"


@dataclass(frozen=True)
class Carried:
    """Values of the type ``column``; ``nullable`` where NULL is carried, too."""

    column: DataType
    nullable: bool

    @property
    def type(self) -> DataType:
        """Of the variable."""
        return STRING if self.nullable else self._plain

    @property
    def ordered(self) -> bool:
        """Whether the variable's values are in the order of the column's."""
        return self.column == STRING or self._plain != STRING

    def taken(self, value: str) -> str:
        """SQL of what stands for the SQL ``value`` of a column."""
        plain = self._taken(value)
        if not self.nullable:
            return plain
        return f"CASE WHEN {value} IS NULL THEN {_NONE} ELSE CONCAT('V', CAST({plain} AS STRING)) END"

    def given(self, value: str) -> str:
        """SQL of the column's value that the SQL ``value`` stands for."""
        if not self.nullable:
            return self._given(value)
        text = f"SUBSTRING({value}, 2)"
        plain = text if self._plain == STRING else f"CAST({text} AS {self._plain})"
        return f"CASE WHEN {value} = {_NONE} THEN NULL ELSE {self._given(plain)} END"

    @property
    def _plain(self) -> DataType:
        if self.column.name in VARIABLE_TYPES:
            return self.column
        return {"TIMESTAMP": BIGINT, "DATE": INT}.get(self.column.name, STRING)

    def _taken(self, value: str) -> str:
        match self.column.name:
            case "TIMESTAMP":
                return f"UNIX_MICROS({value})"
            case "DATE":
                return f"CAST({value} - DATE '1970-01-01' AS INT)"
            case "DECIMAL":
                return f"CAST({value} AS STRING)"
            case "BINARY":
                return f"HEX({value})"
            case "DOUBLE" | "FLOAT":  # the two zeros are one value
                return f"CASE WHEN {value} = 0 THEN CAST('0.0' AS {self.column}) ELSE {value} END"
            case _:
                return value

    def _given(self, value: str) -> str:
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
