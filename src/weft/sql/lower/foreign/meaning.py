"""Refuse the parts of a query that mean something else in Spark's dialect, and those that no rule knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlglot import exp

from weft.errors import Reasons
from weft.sql.lower.foreign.functions import UNITS, differs
from weft.sql.lower.foreign.kinds import TYPES, Kinds
from weft.sql.lower.refusal import spaced

KNOWN: Final = (
    exp.Select, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset,
    exp.Qualify, exp.With, exp.CTE, exp.TableAlias, exp.Alias, exp.Column, exp.Identifier, exp.Table, exp.Star,
    exp.Subquery, exp.Union, exp.Intersect, exp.Except, exp.Exists, exp.In, exp.Between, exp.And, exp.Or, exp.Not,
    exp.Paren, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.Null,
    exp.Boolean, exp.Literal, exp.Case, exp.If, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.DPipe,
    exp.Like, exp.ILike, exp.Distinct, exp.Tuple, exp.Window, exp.WindowSpec, exp.Filter, exp.Cast, exp.TryCast,
    exp.DataType, exp.DataTypeParam, exp.Interval, exp.Var, exp.Extract, exp.CurrentDate, exp.CurrentTimestamp,
    exp.Anonymous,
)  # fmt: skip
"""The constructs that mean the same in all dialects, apart from the cases that ``CHECKS`` refuse."""
_ORDERING: Final = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)
_SPARK: Final = "Write the query in Spark's dialect."
_WHY: Final[Mapping[type[exp.Expr], tuple[str, str]]] = {
    exp.Bracket: ("the first element of an array has the number 0 or 1", _SPARK),
    exp.IntDiv: ("dialects differ for negative numbers and zero", _SPARK),
    exp.Collate: (
        "Weft compares texts by their characters",
        "Remove COLLATE if the column's texts are all of one case.",
    ),
    exp.Pow: ("^ is another operator in Spark", _SPARK),
    exp.RegexpLike: ("regular expressions differ", "Write x RLIKE 'pattern' in Spark's dialect."),
    exp.SafeDivide: ("Spark has no such function", "Write a / NULLIF(b, 0)."),
}
Check = Callable[[Any, str, Kinds], None]


def check_meaning(tree: exp.Expr, dialect: str, kinds: Kinds, reasons: Reasons) -> None:
    """Add all places at which the query does not mean the same in Spark's dialect to ``reasons``."""
    for node in tree.walk(prune=lambda each: not isinstance(each, KNOWN)):
        if not isinstance(node, KNOWN):
            reason, hint = _WHY.get(type(node), (f"Weft knows no rule for this part of {dialect}", _SPARK))
            reasons.add(differs(node, spaced(node), reason, hint))
            continue
        for kind, check in _CHECKS:
            if isinstance(node, kind):
                with reasons.part():
                    check(node, dialect, kinds)


def _divided(node: exp.Div, dialect: str, kinds: Kinds) -> None:
    found = {kinds.of(node.left), kinds.of(node.right)}
    whole = found == {"whole"} and dialect in ("duckdb", "bigquery")
    if not whole and not (None not in found and "double" in found):
        reason = "it drops the remainder of whole numbers" if dialect in ("postgres", "tsql") else "its type differs"
        raise differs(node, "/", reason, "Convert a side to a floating-point number: CAST(a AS DOUBLE PRECISION) / b.")
    if dialect == "duckdb" and not _is_not_zero(node.right):
        raise differs(node, "/", "x / 0 is infinite in DuckDB, and NULL in Weft", "Write a / NULLIF(b, 0).")


def _remainder(node: exp.Mod, dialect: str, kinds: Kinds) -> None:
    if kinds.of(node.left) != "whole" or not _is_not_zero(node.right):
        raise differs(node, "%", "dialects differ beyond whole numbers and for zero", "Divide by a constant.")


def _is_not_zero(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        parts = node.expressions
        return str(node.this).upper() == "NULLIF" and len(parts) == 2 and str(parts[1].this) == "0"
    if isinstance(node, exp.Paren | exp.Neg):
        return _is_not_zero(node.this)
    return isinstance(node, exp.Literal) and node.is_number and float(node.this) != 0


_INSTANTS: Final[Mapping[str, set[str | None]]] = {"snowflake": {"timestamp"}}
"""The kind that a shifted date has.  Snowflake's is a date."""


def _subtracted(node: exp.Sub, dialect: str, kinds: Kinds) -> None:
    if {kinds.of(node.left), kinds.of(node.right)} <= ({"date", None} | _INSTANTS.get(dialect, set())):
        raise differs(node, "-", "the difference of two dates is a number of days", "Write DATEDIFF(b, a) for Spark.")


def _added(node: exp.Add, dialect: str, kinds: Kinds) -> None:
    if "text" in (kinds.of(node.left), kinds.of(node.right)):
        raise differs(node, "+", "it joins texts, and Spark adds numbers", "Write CONCAT(a, b).")


def _cast(node: exp.Cast, dialect: str, kinds: Kinds) -> None:
    found, given, sizes = TYPES.get(node.to.this), kinds.of(node.this), node.to.expressions
    if found is None or (found[1] != "decimal" and sizes):
        raise differs(node, f"a cast to {node.to.sql()}", "Weft has no such type", "Cast to a type without a length.")
    name, to = found
    if dialect == "tsql" and (name == "FLOAT" or (to == "text" and given == "text")):
        reason, hint = _SHORT[to]
        raise differs(node, f"a cast to {node.to.sql(dialect)}", reason, hint)
    if to == "decimal" and len(sizes) != 2:
        raise differs(node, f"a cast to {name}", "its default precision differs", "Write DECIMAL(18, 2).")
    if to == "whole" and given in ("decimal", "double", None) and (dialect != "tsql" or given is None):
        hint = "Round before the cast, in Spark's dialect: CAST(ROUND(x) AS INT)."
        raise differs(node, f"a cast to {name}", f"{dialect} rounds fractions, and Spark drops them", hint)
    if given not in _CASTS[to] or (given == "text" and not _is_read_alike(node.this, to, dialect)):
        what = "a value of an unknown type" if given is None else f"a {given} value"
        raise differs(
            node, f"a cast of {what} to {name}", "the dialects convert some of its values differently", _SPARK
        )


_CASTS: Final[Mapping[str, tuple[str | None, ...]]] = {
    "whole": ("whole", "decimal", "double", "text"),
    "decimal": ("whole", "decimal", "text"),
    "double": ("whole", "decimal", "double", "text"),
    "text": ("whole", "text", "date"),
    "date": ("date", "timestamp", "text", None),
    "timestamp": ("date", "timestamp", "text", None),
    "boolean": ("boolean",),
}
"""The kinds that each kind of type is cast from.  Floating-point numbers as text or decimals have other digits."""
_SHORT: Final[Mapping[str, tuple[str, str]]] = {
    "double": ("REAL has 32 bits and FLOAT 64, and they read alike", "Write CAST(x AS DOUBLE PRECISION)."),
    "text": ("it keeps 30 characters", "Write LEFT(x, 30), or omit the cast."),
}
"""Casts of T-SQL to types whose length depends on how the type is written."""
_DIGITS: Final = re.compile(r" *[+-]?\d{1,18}(\.\d{1,18})? *", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?")


def _is_read_alike(text: exp.Expr, to: str, dialect: str) -> bool:
    """Return whether the dialects read a text alike.

    DuckDB and Snowflake round '5.6' to a whole number, T-SQL reads an empty text as 0, and PostgreSQL and BigQuery read
    '0x1A'.  PostgreSQL, Snowflake and T-SQL read more forms of dates than ISO 8601.
    """
    form = _DAY if to in ("date", "timestamp") else _DIGITS if to in ("whole", "decimal", "double") else None
    if form is None or (form is _DAY and dialect in _OPEN_FORMS and not isinstance(text, exp.Literal)):
        return True
    whole = isinstance(text, exp.Literal) and form.fullmatch(str(text.this)) is not None
    return whole and (to != "whole" or "." not in str(text.this))


_OPEN_FORMS: Final = ("duckdb", "bigquery")


def _compared(node: exp.Expr, dialect: str, kinds: Kinds) -> None:
    """The collation of the database decides which texts are equal, or which comes first."""
    found = {kinds.of(each) for each in node.iter_expressions()}
    if dialect == "tsql" and found <= {"text", None}:
        reason = "the collation ignores case and blanks at the end"
        raise differs(node, "a comparison of texts", reason, "Write LOWER(RTRIM(x)) = 'open' in Spark's dialect.")
    if dialect == "postgres" and found <= {"text", None} and isinstance(node, _ORDERING):
        raise differs(node, "an order of texts", "the collation of the database decides", _SPARK)


def _matched(node: exp.Like | exp.ILike, dialect: str, kinds: Kinds) -> None:
    if dialect == "tsql":
        _compared(node, dialect, kinds)
    pattern = node.expression
    if dialect in ("duckdb", "snowflake") and (not isinstance(pattern, exp.Literal) or "\\" in str(pattern.this)):
        raise differs(
            node, "LIKE", "a backslash is an ordinary character there", "Write a pattern without backslashes."
        )


def _grouped(node: exp.Group | exp.Window | exp.Distinct, dialect: str, kinds: Kinds) -> None:
    parts = (node.args.get("partition_by") or []) if isinstance(node, exp.Window) else node.expressions
    if dialect == "tsql" and any(kinds.of(each) in ("text", None) for each in parts):
        raise differs(node, "a group of texts", "the collation decides which texts are equal", _SPARK)


def _ordered(node: exp.Ordered, dialect: str, kinds: Kinds) -> None:
    """The order of the rows of an answer is only shown, but that in a window or before LIMIT chooses rows."""
    query = node.find_ancestor(exp.Window, exp.Query)
    chooses = isinstance(query, exp.Window) or (query is not None and query.args.get("limit") is not None)
    if chooses and dialect in ("tsql", "postgres") and kinds.of(_ordering(node, query)) in ("text", None):
        raise differs(node, "an order of texts", "the collation of the database decides", _SPARK)


def _ordering(node: exp.Ordered, query: exp.Expr | None) -> exp.Expr:
    """Return the expressions that order the rows.  A number in a query is the place of a column."""
    given: exp.Expr = node.this
    if isinstance(query, exp.Select) and isinstance(given, exp.Literal) and str(given.this).isdecimal():
        given = next(iter(query.selects[max(int(given.this) - 1, 0) :]), given)
    return given


def _joined(node: exp.DPipe, dialect: str, kinds: Kinds) -> None:
    for each in (node.left, node.right):
        kind = kinds.of(each)
        if kind not in _CASTS["text"] and not isinstance(each, exp.Null):
            what = f"|| of {'a value of an unknown type' if kind is None else f'a {kind} value'}"
            raise differs(node, what, "the dialects write some of its values differently", _SPARK)


def _number(node: exp.Literal, dialect: str, kinds: Kinds) -> None:
    if not node.is_string and "e" in str(node.this).lower() and dialect in ("postgres", "snowflake"):
        raise differs(node, "a number with an exponent", "it is a decimal there", "Write it without an exponent.")


def _recursive(node: exp.With, dialect: str, kinds: Kinds) -> None:
    """T-SQL has no word RECURSIVE, and Snowflake does not need it."""
    for each in node.expressions:
        named = {table.name.lower() for table in each.this.find_all(exp.Table)}
        if dialect in ("tsql", "snowflake") and not node.args.get("recursive") and each.alias.lower() in named:
            reason = "it is recursive there, and in Spark the name is that of a table"
            raise differs(node, f"WITH {each.alias}, which reads {each.alias},", reason, _SPARK)


def _distinct(node: exp.Distinct, dialect: str, kinds: Kinds) -> None:
    if node.args.get("on") is not None:
        reason = "which row of a group comes first changes as data arrives"
        raise differs(node, "DISTINCT ON", reason, "Write QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) = 1.")


def _extracted(node: exp.Extract, dialect: str, kinds: Kinds) -> None:
    unit = node.name.upper()
    if unit not in UNITS[:-1]:
        reason = "weeks, days of the week and fractions of seconds differ"
        raise differs(node, f"EXTRACT({unit} …)", reason, f"Extract one of {', '.join(UNITS[:-1])}.")


def _interval(node: exp.Interval, dialect: str, kinds: Kinds) -> None:
    number = node.this
    if not isinstance(number, exp.Literal) or not str(number.this).isdigit() or node.args.get("unit") is None:
        raise differs(node, "an INTERVAL of this form", "Weft reads one number and one unit", "Write INTERVAL '3' DAY.")


def _limited(node: exp.Limit, dialect: str, kinds: Kinds) -> None:
    if not isinstance(node.expression, exp.Literal):
        raise differs(node, "TOP or LIMIT of this form", "Weft reads one constant", "Write LIMIT 10.")


_CHECKS: Final[tuple[tuple[Any, Check], ...]] = (
    (exp.Div, _divided),
    (exp.Mod, _remainder),
    (exp.Sub, _subtracted),
    (exp.Cast, _cast),
    ((exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, *_ORDERING), _compared),
    ((exp.Like, exp.ILike), _matched),
    ((exp.Group, exp.Window, exp.Distinct), _grouped),
    (exp.Add, _added),
    (exp.Ordered, _ordered),
    (exp.Distinct, _distinct),
    (exp.Extract, _extracted),
    (exp.Interval, _interval),
    (exp.Limit, _limited),
    (exp.DPipe, _joined),
    (exp.Literal, _number),
    (exp.With, _recursive),
)
