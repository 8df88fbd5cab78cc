"""The kinds of values that decide whether an operator means the same in two dialects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
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
_OF_ARGUMENT: Final = ("MIN", "MAX", "SUM", "ABS", "NULLIF", "FIRST_VALUE")
_OF_ALL: Final = ("COALESCE", "IFNULL", "NVL", "ISNULL")
_OF_CHOICE: Final = ("IF", "IFF", "IIF")
_WHOLE: Final = ("COUNT", "COUNT_IF", "COUNTIF", "ROW_NUMBER", "RANK", "DENSE_RANK", "LENGTH", "YEAR", "MONTH", "DAY")
_TEXT: Final = ("LOWER", "UPPER", "CONCAT", "REPLACE", "TRIM", "LTRIM", "RTRIM", "SUBSTRING", "LEFT", "RIGHT")

_NUMBERS: Final[tuple[Kind | None, ...]] = ("whole", "decimal", "double")
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
                return "text" if node.is_string else self._of_number(str(node.this))
            case exp.Column():
                found = self._names.get(node.name.lower(), {None})
                return next(iter(found)) if len(found) == 1 else None
            case exp.Cast():
                return TYPES.get(node.to.this, ("", "other"))[1]
            case exp.CurrentTimestamp() | exp.CurrentDate():
                return "timestamp" if isinstance(node, exp.CurrentTimestamp) else "date"
            case exp.Binary():
                return self._of_operator(node)
            case exp.Extract():
                return "decimal"  # in PostgreSQL
            case exp.Subquery() | exp.Select():
                return self.of(node.selects[0]) if len(node.selects) == 1 else None
            case exp.Case() | exp.If():
                choices = [*node.args.get("ifs", [node]), node.args.get("default", node.args.get("false"))]
                return self._of_all(each.args["true"] if isinstance(each, exp.If) else each for each in choices)
            case exp.Anonymous():
                return self._of_call(node)
            case _:
                return None

    def _of_operator(self, node: exp.Binary) -> Kind | None:
        match node:
            case exp.DPipe():
                return "text"
            case exp.Add() | exp.Sub() if isinstance(node.right, exp.Interval):
                return "timestamp"  # of a date, too, in most dialects
            case exp.Add() | exp.Sub() | exp.Mul():
                joint = _joint(self.of(node.left), self.of(node.right))
                return joint if joint in _NUMBERS else None
            case exp.Div():
                return "double" if self.of(node.left) == "whole" == self.of(node.right) else None
            case _:
                return None

    def _of_number(self, digits: str) -> Kind:
        if digits.isdigit():
            return "whole"
        return "double" if "e" in digits.lower() else self._fractions

    def _of_all(self, nodes: Iterable[exp.Expr | None]) -> Kind | None:
        """Return the kind that values have together.  NULL has each kind."""
        kinds = {self.of(each) for each in nodes if each is not None and not isinstance(each, exp.Null)}
        return reduce(_joint, kinds) if kinds else None

    def _of_call(self, node: exp.Anonymous) -> Kind | None:
        name = str(node.this).upper()
        if name in _WHOLE:
            return "whole"
        if name in _TEXT:
            return "text"
        if name in _TIMES:
            return "timestamp"
        if name == "AVG":
            return "double"  # the other kinds are refused
        if name in _OF_ALL:
            return self._of_all(node.expressions)
        if name in _OF_CHOICE:
            return self._of_all(node.expressions[1:])
        if name in ("LAG", "LEAD"):
            return self._of_all(node.expressions[::2])
        return self.of(node.expressions[0]) if name in _OF_ARGUMENT and node.expressions else None


def _renamed(tree: exp.Expr) -> Iterator[str]:
    """Yield the names that columns get by their place: in ``u(a, b)``, and in the first query of a union."""
    for alias in tree.find_all(exp.TableAlias):
        yield from (each.name for each in alias.columns)
    for union in tree.find_all(exp.SetOperation):
        pairs = zip(union.left.selects, union.right.selects, strict=False)
        yield from (one.alias_or_name for one, other in pairs if one.alias_or_name != other.alias_or_name)


def _joint(left: Kind | None, right: Kind | None) -> Kind | None:
    if left in _NUMBERS and right in _NUMBERS:
        return max(left, right, key=_NUMBERS.index)
    return left if left == right else None
