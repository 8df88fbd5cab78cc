"""Infer the type of each text column: the narrowest type that reproduces every value as written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import duckdb
import pyarrow as pa

from weft.algebra.schema import STRING, DataType
from weft.extraction.files.shapes import joined, without_unknown
from weft.storage.local_sql import quoted

_INTEGER: Final = "-?(0|[1-9][0-9]*)"
_PLAIN: Final = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?"
_NUMBER: Final = _PLAIN + "([eE][+-]?[0-9]+)?"
_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_INSTANT: Final = _DAY + r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?( ?(Z|UTC|[+-][0-9]{2}(:?[0-9]{2})?))?)?"
_EXACT_DIGITS: Final = 15
_MOST_DIGITS: Final = 38


def _tests() -> Mapping[str, str]:
    """Return an SQL test for each type, in order of preference. The text ``{0}`` stands for the cell.

    An integer passes the test for DOUBLE only if a DOUBLE represents it exactly.
    """

    def matches(pattern: str) -> str:
        return f"regexp_full_match({{0}}, '{pattern.replace('{', '{{').replace('}', '}}')}')"

    tests = {
        "BOOLEAN": "lower({0}) IN ('true', 'false')",
        "BIGINT": f"{matches(_INTEGER)} AND TRY_CAST({{0}} AS BIGINT) IS NOT NULL",
        "DOUBLE": f"{matches(_NUMBER)} AND (length({{0}}) <= {_EXACT_DIGITS} OR regexp_matches({{0}}, '[.eE]'))",
        "DECIMAL": f"length({{0}}) <= {_MOST_DIGITS + 2} AND {matches(_PLAIN)}",
        "DATE": f"{matches(_DAY)} AND TRY_CAST({{0}} AS DATE) IS NOT NULL",
        "TIMESTAMP": f"{matches(_INSTANT)} AND TRY_CAST({{0}} AS TIMESTAMPTZ) IS NOT NULL",
    }
    return {kind: f"({{0}} IS NULL OR ({test}))" for kind, test in tests.items()}


_TESTS: Final = _tests()
_ALL: Final = frozenset(_TESTS)
# Quick tests for DuckDB's own notation. If every value passes one quick test, the possible types follow without more
# tests. An integer may also be a DECIMAL and a DOUBLE. A date may also be a TIMESTAMP.
_QUICK: Final = {
    "BIGINT": "CAST(TRY_CAST({0} AS BIGINT) AS VARCHAR) = {0}",
    "DATE": "CAST(TRY_CAST({0} AS DATE) AS VARCHAR) = {0} AND length({0}) = 10",
    "TIMESTAMP": "CAST(TRY_CAST({0} AS TIMESTAMP) AS VARCHAR) = {0} AND length({0}) BETWEEN 19 AND 26"
    " AND {0} LIKE '____-__-__ __:__:__%' AND {0} NOT LIKE '%)'",
}
# The maximum numbers of digits before and after the decimal point, and whether any DOUBLE differs from its text.
_DIGITS: Final = (
    "coalesce(max(length(ltrim(split_part({0}, '.', 1), '-'))), 0), coalesce(max(length(split_part({0}, '.', 2))), 0),"
    f" coalesce(bool_or(length({{0}}) > {_EXACT_DIGITS} AND (length(split_part({{0}}, '.', 1)) > 18"
    " OR TRY_CAST(CAST(TRY_CAST({0} AS DOUBLE) AS VARCHAR) AS DECIMAL(38,18))"
    " IS DISTINCT FROM TRY_CAST({0} AS DECIMAL(38,18)))), false)"
)


@dataclass(frozen=True)
class Evidence:
    """The evidence for the type of a text column.

    - ``filled`` is True if the column has a value.
    - ``possible`` contains the types that fit all values.
    - ``whole`` and ``fraction`` are the maximum numbers of digits before and after the decimal point. ``whole`` and
      ``fraction`` matter only for DECIMAL.
    - ``rounded`` is True if a conversion to DOUBLE would change a value.
    - ``shape`` is the common type of the JSON arrays and objects among the values, or None.
    """

    filled: bool = False
    possible: frozenset[str] = _ALL
    whole: int = 0
    fraction: int = 0
    rounded: bool = False
    shape: DataType | None = None

    def joined(self, other: Evidence) -> Evidence:
        """Return the combined evidence from two columns."""
        return Evidence(
            self.filled or other.filled,
            self.possible & other.possible,
            max(self.whole, other.whole),
            max(self.fraction, other.fraction),
            self.rounded or other.rounded,
            self._shape_with(other),
        )

    def _shape_with(self, other: Evidence) -> DataType | None:
        if self.shape is None and other.shape is None:
            return None
        if not (self.filled and other.filled):
            return self.shape or other.shape
        return joined(self.shape or STRING, other.shape or STRING)

    def among(self, kinds: frozenset[str]) -> Evidence:
        """Return the evidence restricted to the types ``kinds``."""
        return replace(self, possible=self.possible & kinds)

    @property
    def type(self) -> DataType | None:
        """The narrowest type that fits every value, or None for a column without values.

        >>> str(Evidence(True, frozenset({"DOUBLE", "DECIMAL"}), 15, 2, rounded=True).type)
        'DECIMAL(38,2)'
        """
        if not self.filled:
            return None
        narrowest = next((kind for kind in _TESTS if kind in self.possible and kind != "DECIMAL"), None)
        exact = "DECIMAL" in self.possible and 0 < self.fraction <= _MOST_DIGITS - self.whole
        if exact and (narrowest is None or (narrowest == "DOUBLE" and self.rounded)):
            return DataType("DECIMAL", _MOST_DIGITS, self.fraction)
        if narrowest is None and self.shape is not None:
            return DataType.of_json(without_unknown(self.shape))
        return STRING if narrowest is None else DataType(narrowest)


NOTHING: Final = Evidence()
"""The evidence before any value is read."""

Seen = Mapping[str, Evidence]
"""The evidence for the type of each column, from one or more batches."""


class Inference:
    """Collects the evidence for text columns from any number of batches.

    The inferred types are BOOLEAN, BIGINT, DOUBLE, DECIMAL, DATE, TIMESTAMP and STRING. A column is DECIMAL if a
    fraction in it has more digits than a DOUBLE represents. A column is STRING if another type would change a value,
    for example a number with leading zeros or an integer beyond BIGINT.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._evidence: dict[str, Evidence] = dict.fromkeys(names, NOTHING)

    def observe(self, connection: duckdb.DuckDBPyConnection, cells: pa.Table) -> None:
        """Add the evidence of a batch. The batch has a VARCHAR column for each name, and may have new names."""
        self.take(self.seen(connection, cells))

    def seen(self, connection: duckdb.DuckDBPyConnection, cells: pa.Table) -> Seen:
        """Return the evidence of a batch without adding it to the collected evidence. The method is thread-safe."""
        connection.register("cells", cells)
        try:
            return {
                name: _seen(connection, name, self._evidence.get(name, NOTHING).possible) for name in cells.column_names
            }
        finally:
            connection.unregister("cells")

    def take(self, seen: Seen) -> None:
        """Add the evidence that ``seen`` returned."""
        for name, evidence in seen.items():
            self._evidence[name] = self._evidence.get(name, NOTHING).joined(evidence)

    def evidence(self) -> dict[str, Evidence]:
        """Return the evidence for each column, from all batches."""
        return dict(self._evidence)

    def types(self) -> Mapping[str, DataType]:
        """Return the inferred type of each column. A column without values is STRING."""
        return {name: evidence.type or STRING for name, evidence in self._evidence.items()}


_OF_KIND: Final[Mapping[frozenset[str], frozenset[str]]] = {
    frozenset({"number"}): frozenset({"BIGINT", "DOUBLE", "DECIMAL"}),
    frozenset({"boolean"}): frozenset({"BOOLEAN"}),
    frozenset({"string"}): frozenset({"DATE", "TIMESTAMP"}),
    frozenset(): _ALL,
}


def of_json(evidence: Evidence, kinds: frozenset[str], shape: DataType | None = None) -> Evidence:
    """Return the evidence for a JSON column.

    ``evidence`` is the evidence for the values as text. ``kinds`` are the JSON types of the values (string, number,
    boolean, nested). ``shape`` is the common type of the arrays and objects, if any. A JSON string of digits stays a
    string, because a postal code is not a number.
    """
    narrowed = evidence.among(_OF_KIND.get(kinds, frozenset()))
    return narrowed if shape is None else replace(narrowed, shape=shape if kinds == {"nested"} else STRING)


def _seen(connection: duckdb.DuckDBPyConnection, name: str, possible: frozenset[str]) -> Evidence:
    cell = quoted(name)
    quick = next((kind for kind in _QUICK if kind in possible), None)
    if quick is not None:
        test = f"bool_and(coalesce({_QUICK[quick].format(cell)}, {cell} IS NULL)), max(length({cell}))"
        [(values, held, longest)] = connection.execute(f"SELECT count({cell}), {test} FROM cells").fetchall()
        if values and held:
            also = {"BIGINT": {"DECIMAL"}, "DATE": {"TIMESTAMP"}}.get(quick, set())
            if quick == "BIGINT" and longest <= _EXACT_DIGITS:
                also = {"DECIMAL", "DOUBLE"}
            return Evidence(True, possible & {quick, *also}, whole=longest)
    kinds = sorted(possible)
    tests = "".join(f", coalesce(bool_and({_TESTS[kind].format(cell)}), true)" for kind in kinds)
    [row] = connection.execute(f"SELECT count({cell}){tests} FROM cells").fetchall()
    held_by = frozenset(kind for kind, held in zip(kinds, row[1:], strict=True) if held)
    evidence = Evidence(bool(row[0]), held_by)
    if "DECIMAL" not in held_by or not row[0]:
        return evidence
    [digits] = connection.execute(f"SELECT {_DIGITS.format(cell)} FROM cells").fetchall()
    return Evidence(True, held_by, *digits)
