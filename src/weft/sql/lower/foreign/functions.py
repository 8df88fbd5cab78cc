"""The functions of other dialects that have the same meaning in Spark's, and how they are written there.

A function that is not listed is refused.  A rule receives the call and returns the expression in Spark's dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from sqlglot import exp

from weft.errors import SqlError
from weft.sql.lower.foreign.kinds import Kind, Kinds
from weft.sql.lower.refusal import place

Rule: TypeAlias = Callable[[exp.Anonymous, Kinds], exp.Expr]

UNITS: Final = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
"""The units that all dialects count from the same instants.  Weeks begin on different days."""
_FIXED: Final = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")


def differs(node: exp.Expr, what: str, reason: str, hint: str) -> SqlError:
    """Return the error for a construct whose meaning differs in Spark's dialect."""
    return SqlError(f"{what} is not translated: {reason}", where=_begin(node), hint=hint)


def _begin(node: exp.Expr) -> str | None:
    """Return the place of the first name or value in a node."""
    places = [(each.meta["start"], each) for each in node.walk() if isinstance(each.meta.get("start"), int)]
    return place(min(places, key=lambda pair: pair[0])[1]) if places else place(node)


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """Return a call of a function of Spark's dialect."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def _same(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
    return node


def _named(name: str) -> Rule:
    return lambda node, kinds: call(name, *node.expressions)


def _swapped(name: str) -> Rule:
    def rule(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
        _count(node, 2)
        return call(name, node.expressions[1], node.expressions[0])

    return rule


def _now(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
    _count(node, 0)
    return call("NOW")


def _count(node: exp.Anonymous, *counts: int) -> None:
    if len(node.expressions) not in counts:
        name = str(node.this).upper()
        wanted = " or ".join(map(str, counts))
        raise differs(node, name, f"it has {len(node.expressions)} arguments", f"Write it with {wanted} arguments.")


def unit_of(node: exp.Expr) -> str:
    """Return a unit that is written as a word or as a text, in upper case and without a plural."""
    name = (node.name if isinstance(node, exp.Column | exp.Literal | exp.Var) else "").upper()
    return name.removesuffix("S")


def _truncated(node: exp.Anonymous, unit: exp.Expr, value: exp.Expr, weeks: Mapping[str, str]) -> exp.Expr:
    name = unit_of(unit)
    found = weeks.get(name) or (name if name in UNITS else None)
    if found is None:
        reason = "weeks begin on another day, or the unit is not one of Spark's" if "WEEK" in name else "of its unit"
        raise differs(node, str(node.this).upper(), reason, f"Write one of the units {', '.join((*UNITS, *weeks))}.")
    return call("DATE_TRUNC", exp.Literal.string(found), value)


_MONDAY: Final = {"WEEK": "WEEK"}
_ISO: Final = {"ISOWEEK": "WEEK", "ISO_WEEK": "WEEK"}


def _date_trunc(weeks: Mapping[str, str], *, unit_last: bool = False) -> Rule:
    def rule(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
        _count(node, 2)
        first, second = node.expressions
        return _truncated(node, *((second, first) if unit_last else (first, second)), weeks)

    return rule


def _shifted(value: exp.Expr, number: exp.Expr, unit: str, node: exp.Anonymous) -> exp.Expr:
    minus = isinstance(number, exp.Neg)
    literal = number.this if isinstance(number, exp.Neg) else number
    if unit not in _FIXED or not isinstance(literal, exp.Literal) or not str(literal.this).isdigit():
        reason = "Weft shifts instants by constant intervals"
        raise differs(node, str(node.this).upper(), reason, "Write ts + INTERVAL 3 DAYS.")
    interval = exp.Interval(this=exp.Literal.string(str(literal.this)), unit=exp.Var(this=unit))
    shifted = exp.Sub if minus else exp.Add
    return exp.Paren(this=shifted(this=value, expression=interval))


def _date_add(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
    """DATEADD(unit, number, value)"""
    _count(node, 3)
    unit, number, value = node.expressions
    return _shifted(value, number, unit_of(unit), node)


def _by_interval(shifted: type[exp.Expr]) -> Rule:
    """TIMESTAMP_ADD(value, INTERVAL n unit)"""

    def rule(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
        _count(node, 2)
        value, interval = node.expressions
        if not isinstance(interval, exp.Interval):
            raise differs(node, str(node.this).upper(), "its interval is not constant", "Write INTERVAL 3 DAY.")
        return exp.Paren(this=shifted(this=value, expression=interval))

    return rule


def _date_diff(unit: int, end: int, start: int) -> Rule:
    def rule(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
        _count(node, 3)
        parts = node.expressions
        if unit_of(parts[unit]) != "DAY":
            raise differs(
                node,
                str(node.this).upper(),
                "it counts the boundaries between the two instants, and Spark's counts whole units",
                "Compare an interval: b - a > INTERVAL 2 HOURS. Only the unit DAY is translated.",
            )
        return call("DATEDIFF", parts[end], parts[start])

    return rule


def _concat(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
    """NULL counts as an empty text, but is NULL in Spark."""
    for each in node.expressions:
        if kinds.of(each) != "text":
            raise differs(
                node, "CONCAT", "an argument is not known to be text", "Write a || b, which is NULL for NULL."
            )
    empty = exp.Literal.string("")
    return call("CONCAT", *(call("COALESCE", each, empty.copy()) for each in node.expressions))


def _from_one(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
    """SUBSTRING(text, begin[, length])"""
    _count(node, 2, 3)
    _require_number(node, node.expressions[1], 1)
    return call("SUBSTRING", *node.expressions)


def _first(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
    """LEFT(text, length)"""
    _count(node, 2)
    _require_number(node, node.expressions[1], 0)
    return node


def _require_number(node: exp.Anonymous, given: exp.Expr, least: int) -> None:
    if not isinstance(given, exp.Literal) or not str(given.this).isdigit() or int(given.this) < least:
        reason = "dialects differ for places before the text"
        raise differs(node, str(node.this).upper(), reason, f"Write a constant of at least {least}.")


def _choice(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
    """IFF(condition, one, other)"""
    _count(node, 3)
    condition, one, other = node.expressions
    return exp.If(this=condition, true=one, false=other)


def _one(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
    _count(node, 1)
    return node


def _average(*alike: Kind) -> Rule:
    def rule(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
        if len(node.expressions) != 1 or kinds.of(node.expressions[0]) not in alike:
            reason = f"it has another type for numbers that are not {' or '.join(alike)}"
            raise differs(node, "AVG", reason, "Write AVG(CAST(x AS DOUBLE)), in the spelling of your dialect.")
        return node

    return rule


def _count_if(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
    """COUNT_IF(condition), which is NULL in DuckDB if there is no row."""
    _count(node, 1)
    one, zero = exp.Literal.number(1), exp.Literal.number(0)
    return call("SUM", exp.Case(ifs=[exp.If(this=node.expressions[0], true=one)], default=zero))


def _texts(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
    """CONCAT(text, …)"""
    if any(kinds.of(each) not in ("text", "whole", "date") for each in node.expressions):
        reason = "the dialects write some values differently as text"
        raise differs(node, "CONCAT", reason, "Join texts, whole numbers and dates only.")
    return node


def _trimmed(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
    """TRIM(text, ' ').  Without the second argument, DuckDB removes other blanks, too."""
    if (
        len(node.expressions) != 2
        or not isinstance(node.expressions[1], exp.Literal)
        or node.expressions[1].this != " "
    ):
        reason, hint = "it also removes other blanks, such as no-break spaces", f"Write {node.this}(x, ' ')."
        raise differs(node, str(node.this).upper(), reason, hint)
    return call(str(node.this), node.expressions[0])


def _either(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
    """ISNULL(a, b) has the type of a."""
    _count(node, 2)
    first, second = map(kinds.of, node.expressions)
    if first is None or first != second:
        raise differs(node, "ISNULL", "the second value is converted to the type of the first", "Write COALESCE(a, b).")
    return call("COALESCE", *node.expressions)


def _without_texts(*kinds_of_texts: Kind | None) -> Rule:
    """Refuse texts where the collation of the database decides which of them are equal, or which comes first."""

    def rule(node: exp.Anonymous, kinds: Kinds) -> exp.Expr:
        if any(kinds.of(each) in kinds_of_texts for each in node.expressions):
            reason = "the collation of the database orders the texts"
            raise differs(node, str(node.this).upper(), reason, "Write the query in Spark's dialect.")
        return node

    return rule


def _rules(names: Sequence[str], rule: Rule = _same) -> dict[str, Rule]:
    return dict.fromkeys(names, rule)


_COMMON: Final[Mapping[str, Rule]] = {
    **_rules(("ABS", "COALESCE", "NULLIF", "COUNT", "SUM", "MIN", "MAX", "LOWER", "UPPER", "YEAR", "MONTH", "DAY")),
    **_rules(("ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", "LEAD", "FIRST_VALUE")),
    **_rules(("SUBSTRING", "SUBSTR"), _from_one),
    **_rules(("LEFT", "RIGHT"), _first),
}
_OPEN: Final[Mapping[str, Rule]] = {
    **_COMMON,
    **_rules(("REPLACE", "LENGTH")),
    **_rules(("TRIM", "LTRIM", "RTRIM"), _one),
    "AVG": _average("whole", "double"),
}
FUNCTIONS: Final[Mapping[str, Mapping[str, Rule]]] = {
    "postgres": {
        **_OPEN,
        **_rules(("NOW", "CLOCK_TIMESTAMP", "TRANSACTION_TIMESTAMP"), _now),
        **_rules(("MIN", "MAX"), _without_texts("text", None)),
        "AVG": _average("double"),
        "CONCAT": _concat,
        "DATE_TRUNC": _date_trunc(_MONDAY),
        "STRPOS": _named("INSTR"),
    },
    "duckdb": {
        **_OPEN,
        "NOW": _now,
        "CONCAT": _concat,
        "COUNT_IF": _count_if,
        **_rules(("TRIM", "LTRIM", "RTRIM"), _trimmed),
        "DATE_TRUNC": _date_trunc(_MONDAY),
        **_rules(("DATE_DIFF", "DATEDIFF"), _date_diff(0, 2, 1)),
        **_rules(("STRPOS", "INSTR"), _named("INSTR")),
        "IFNULL": _named("COALESCE"),
    },
    "snowflake": {
        **_OPEN,
        "AVG": _average("double"),
        "CONCAT": _texts,
        "COUNT_IF": _same,
        "IFF": _choice,
        **_rules(("NVL", "IFNULL"), _named("COALESCE")),
        "DATE_TRUNC": _date_trunc({}),
        "DATEADD": _date_add,
        "DATEDIFF": _date_diff(0, 2, 1),
        "CHARINDEX": _swapped("INSTR"),
        **_rules(("GETDATE", "SYSDATE", "CURRENT_TIMESTAMP"), _now),
        "CURRENT_DATE": _named("CURRENT_DATE"),
    },
    "bigquery": {
        **{name: rule for name, rule in _OPEN.items() if not name.endswith("TRIM")},
        "CONCAT": _texts,
        "COUNTIF": _named("COUNT_IF"),
        "IF": _choice,
        "IFNULL": _named("COALESCE"),
        **_rules(("DATE_TRUNC", "TIMESTAMP_TRUNC", "DATETIME_TRUNC"), _date_trunc(_ISO, unit_last=True)),
        **_rules(("TIMESTAMP_ADD", "DATE_ADD", "DATETIME_ADD"), _by_interval(exp.Add)),
        **_rules(("TIMESTAMP_SUB", "DATE_SUB", "DATETIME_SUB"), _by_interval(exp.Sub)),
        "DATE_DIFF": _date_diff(2, 0, 1),
        "STRPOS": _named("INSTR"),
        "CURRENT_TIMESTAMP": _now,
        "CURRENT_DATE": _named("CURRENT_DATE"),
    },
    "tsql": {
        **_COMMON,
        **_rules(("MIN", "MAX", "NULLIF"), _without_texts("text", None)),
        "AVG": _average("double"),
        "CONCAT": _concat,
        "IIF": _choice,
        "ISNULL": _either,
        "DATETRUNC": _date_trunc(_ISO),
        "DATEADD": _date_add,
        "DATEDIFF": _date_diff(0, 2, 1),
        **_rules(("GETDATE", "GETUTCDATE", "SYSUTCDATETIME", "SYSDATETIME"), _now),
    },
}
"""The rules by dialect and by the function's name in upper case."""

REASONS: Final[Mapping[str, tuple[str, str]]] = {
    "SAFE_DIVIDE": ("Spark has no such function", "Write a / NULLIF(b, 0)."),
    "LEN": ("it ignores blanks at the end", "Write LENGTH(x) in Spark's dialect."),
    "CHARINDEX": ("the collation decides which texts are equal", "Write INSTR(x, y) in Spark's dialect."),
    "REPLACE": ("the collation decides which texts are equal", "Write it in Spark's dialect."),
    "DATEPART": ("its weeks and days of the week depend on settings", "Write YEAR(ts), MONTH(ts) or DAY(ts)."),
    **dict.fromkeys(("GREATEST", "LEAST"), ("dialects differ for NULL", "Write CASE WHEN a >= b THEN a ELSE b END.")),
    **dict.fromkeys(("TRIM", "LTRIM", "RTRIM"), ("it also removes other white space", "Write it in Spark's dialect.")),
}
"""Why a function is refused, and what to write instead."""


def translate_call(node: exp.Anonymous, dialect: str, kinds: Kinds) -> exp.Expr:
    """Return the call in Spark's dialect.  Raise SqlError if no rule has its meaning."""
    name = str(node.this).upper()
    rule = FUNCTIONS[dialect].get(name)
    if rule is None:
        reason, hint = REASONS.get(name, (f"Weft knows no rule for this function of {dialect}", ""))
        raise differs(node, name, reason, hint or "Write the query in Spark's dialect.")
    return rule(node, kinds)
