"""The kinds of values that decide whether an operator means the same in two dialects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from sqlglot import exp

from weft.algebra.schema import DataType, TableSchema

Kind: TypeAlias = Literal["whole", "decimal", "double", "text", "date", "timestamp", "boolean", "other"]
"""A kind of a value.  ``None`` stands for an unknown kind."""

_OF_COLUMNS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), "whole"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "double"),
    "DECIMAL": "decimal",
    "STRING": "text",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "BOOLEAN": "boolean",
}
_T: Final[Any] = exp.DataType.Type
TYPES: Final[Mapping[Any, tuple[str, Kind]]] = {
    _T.TINYINT: ("TINYINT", "whole"),
    _T.SMALLINT: ("SMALLINT", "whole"),
    _T.INT: ("INT", "whole"),
    _T.BIGINT: ("BIGINT", "whole"),
    _T.FLOAT: ("FLOAT", "double"),
    _T.DOUBLE: ("DOUBLE", "double"),
    _T.DECIMAL: ("DECIMAL", "decimal"),
    _T.TEXT: ("STRING", "text"),
    _T.VARCHAR: ("STRING", "text"),
    _T.NVARCHAR: ("STRING", "text"),
    _T.DATE: ("DATE", "date"),
    _T.TIMESTAMP: ("TIMESTAMP", "timestamp"),
    _T.TIMESTAMPTZ: ("TIMESTAMP", "timestamp"),
    _T.TIMESTAMPNTZ: ("TIMESTAMP", "timestamp"),
    _T.DATETIME2: ("TIMESTAMP", "timestamp"),
    _T.BOOLEAN: ("BOOLEAN", "boolean"),
}
"""The types of casts with their names in Spark.  Weft has one type of instants, in UTC."""
_OF_ARGUMENT: Final = ("MIN", "MAX", "SUM", "ABS", "COALESCE", "NULLIF", "LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE")
_WHOLE: Final = ("COUNT", "COUNT_IF", "ROW_NUMBER", "RANK", "DENSE_RANK", "LENGTH", "YEAR", "MONTH", "DAY")
_TEXT: Final = ("LOWER", "UPPER", "CONCAT", "REPLACE", "TRIM", "LTRIM", "RTRIM", "SUBSTRING", "LEFT", "RIGHT")

_TIMES: Final = (
    "NOW",
    "GETDATE",
    "GETUTCDATE",
    "SYSDATE",
    "SYSUTCDATETIME",
    "DATE_TRUNC",
    "DATETRUNC",
    "TIMESTAMP_TRUNC",
)


def _of_column(kind: DataType) -> Kind:
    return _OF_COLUMNS.get(kind.name, "other") if kind.shape is None else "other"


class Kinds:
    """Find the kinds of the expressions of one query.  Columns are known by their names alone."""

    def __init__(self, tree: exp.Expr, schemas: Iterable[TableSchema], fractions: Kind = "decimal") -> None:
        """``fractions`` is the kind of numbers with a point."""
        self._fractions: Kind = fractions
        self._names: dict[str, set[Kind | None]] = {}
        for schema in schemas:
            for column in schema.columns:
                self._names.setdefault(column.name.lower(), set()).add(_of_column(column.type))
        aliases = [(each.alias.lower(), self.of(each.this)) for each in tree.find_all(exp.Alias)]
        for name, kind in aliases:
            self._names.setdefault(name, set()).add(kind)
        for name in _renamed(tree):
            self._names.setdefault(name.lower(), set()).add(None)

    def of(self, node: exp.Expr | None) -> Kind | None:
        """Return the kind of an expression, or None if it is not known."""
        match node:
            case exp.Paren() | exp.Neg() | exp.Window() | exp.Filter() | exp.Alias() | exp.Collate() | exp.Distinct():
                return self.of(node.this if node.this is not None else next(iter(node.expressions), None))
            case exp.Literal():
                return "text" if node.is_string else "whole" if str(node.this).isdigit() else self._fractions
            case exp.Column():
                found = self._names.get(node.name.lower(), {None})
                return next(iter(found)) if len(found) == 1 else None
            case exp.Cast():
                return TYPES.get(node.to.this, ("", "other"))[1]
            case exp.DPipe():
                return "text"
            case exp.CurrentTimestamp() | exp.CurrentDate():
                return "timestamp" if isinstance(node, exp.CurrentTimestamp) else "date"
            case exp.Add() | exp.Sub() if isinstance(node.right, exp.Interval):
                return self.of(node.left)
            case exp.Add() | exp.Sub() | exp.Mul():
                return _joint(self.of(node.left), self.of(node.right))
            case exp.Div():
                return "double" if self.of(node.left) == "whole" == self.of(node.right) else None
            case exp.Case():
                results = [self.of(each.args["true"]) for each in node.args["ifs"]]
                return results[0] if len(set(results)) == 1 else None
            case exp.Anonymous():
                return self._of_call(node)
            case _:
                return None

    def _of_call(self, node: exp.Anonymous) -> Kind | None:
        name = str(node.this).upper()
        if name in _WHOLE:
            return "whole"
        if name in _TEXT:
            return "text"
        if name in _TIMES:
            return "timestamp"
        return self.of(node.expressions[0]) if name in _OF_ARGUMENT and node.expressions else None


def _renamed(tree: exp.Expr) -> Iterator[str]:
    """Yield the names that columns get by their place: in ``u(a, b)``, and in the first query of a union."""
    for alias in tree.find_all(exp.TableAlias):
        yield from (each.name for each in alias.columns)
    for union in tree.find_all(exp.SetOperation):
        pairs = zip(union.left.selects, union.right.selects, strict=False)
        yield from (one.alias_or_name for one, other in pairs if one.alias_or_name != other.alias_or_name)


def _joint(left: Kind | None, right: Kind | None) -> Kind | None:
    numbers: tuple[Kind, ...] = ("whole", "decimal", "double")
    if left in numbers and right in numbers:
        return max(left, right, key=numbers.index)
    return None
