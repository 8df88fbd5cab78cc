"""Rewrite a refused construct as an accepted query over the tables and columns of the text.

Each hint contains a complete command with an accepted query, or says that no equivalent exists.

The refused constructs are subqueries used as values.
"""

from __future__ import annotations

import shlex
from typing import Final

from sqlglot import exp

from weft.sql.functions import MEASURES

NOT_TODAY: Final = "This is not supported today."
_FLIPPED: Final[dict[type[exp.Expr], type[exp.Expr]]] = {
    exp.LT: exp.GT,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
}
_OPPOSITE: Final[dict[type[exp.Expr], type[exp.Expr]]] = {
    exp.LT: exp.GTE,
    exp.GTE: exp.LT,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
}
_BESIDE: Final = "write the comparison in WHERE, within AND or OR only, and x <= (SELECT …) for NOT (x > (SELECT …))."
_CHOSEN: Final = (
    "For the row that ORDER BY and LIMIT 1 select, require that no other row comes before the row: EXISTS "
    "(SELECT 1 FROM … AS o WHERE x > o.y AND NOT EXISTS (SELECT 1 FROM … AS m WHERE m.ts > o.ts)). Other "
    "rows are not supported today."
)


def installed(text: str, *, language: str = "sql", name: str = "NAME") -> str:
    r"""Return the command that installs the query ``text``.

    >>> installed("SELECT a FROM t"), installed('p("x")', language="monpoly")
    ('weft install NAME "SELECT a FROM t"', 'weft install NAME --language monpoly \'p("x")\'')
    """
    option = "" if language == "sql" else f" --language {language}"
    return f"weft install {name}{option} {_argument(text)}"


def viewed(text: str) -> str:
    """Return the command that creates a view with the definition ``text``."""
    return f"weft view add NAME {_argument(text)}"


def as_number(node: exp.Expr) -> str:
    """Return a hint for converting an interval to a number."""
    difference = node.find(exp.Sub)
    start, end = "start", "end"
    if difference is not None and not difference.find(exp.Interval):
        start, end = difference.expression.sql("spark"), difference.this.sql("spark")
    return f"Write TIMESTAMPDIFF(SECOND, {start}, {end}) for whole seconds, or use another unit."


def _argument(text: str) -> str:
    line = " ".join(text.split()) if "--" not in text and "/*" not in text else text
    return shlex.quote(line) if set(line) & set('"$`\\!') else f'"{line}"'


def without_value(node: exp.Expr) -> str:
    """Return a hint for a subquery used as a value.

    The hint contains the query with EXISTS in place of the comparison.  If EXISTS is impossible, the hint gives general
    advice.
    """
    query, around = _within(node), _around(node)
    if not isinstance(query, exp.Select) or len(query.expressions) != 1:
        return NOT_TODAY
    if query.args.get("limit") and query.args.get("order"):
        return _CHOSEN
    if any(query.args.get(each) for each in ("group", "having", "limit", "offset", "order", "distinct")):
        return NOT_TODAY
    item = query.expressions[0].unalias()
    function = item.name.lower() if isinstance(item, exp.Anonymous) and item.name.lower() in MEASURES else None
    if around is None or type(around) not in _FLIPPED:
        if function in (None, "min", "max"):
            return _joined(function)
        return NOT_TODAY
    if not _asserted(around):
        return f"{NOT_TODAY[:-1]} within NOT or another expression: {_BESIDE}"
    swapped = node in around.expression.find_all(type(node)) or around.expression is node
    kind = type(around) if swapped else _FLIPPED[type(around)]
    value = around.this if swapped else around.expression
    compared = _compared(query, value, node)
    if compared is None:
        return (
            "Write EXISTS with the comparison inside, and give each table its own alias: x > (SELECT y …) becomes "
            "EXISTS (SELECT 1 FROM … WHERE x > y)."
        )
    inner, outer = compared
    existence = _existence(inner, outer, kind, function, everything=isinstance(node, exp.All))
    if existence is None:
        return (
            f"{NOT_TODAY} Only EXISTS and NOT EXISTS take subqueries, and {str(function).upper()} of a subquery "
            "is not a value."
        )
    return f"Write EXISTS: {whole(around, existence)}."


def _joined(function: str | None) -> str:
    if function is None:
        return "Join with the table of the subquery and select the column: JOIN … ON."
    beyond = ">" if function == "max" else "<"
    return (
        f"Join with the table of the subquery, and use the joined column instead of {function.upper()}: FROM "
        "… AS t JOIN … AS p ON p.k = t.k WHERE NOT EXISTS (SELECT 1 FROM … AS o WHERE o.k = t.k AND o.y "
        f"{beyond} p.y)."
    )


def _within(node: exp.Expr) -> exp.Expr | None:
    query: exp.Expr | None = node
    while isinstance(query, (exp.Any, exp.All, exp.Subquery, exp.Paren)):
        query = query.this
    return query


def _around(node: exp.Expr) -> exp.Expr | None:
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    return around


def _asserted(comparison: exp.Expr) -> bool:
    """Return whether an unknown comparison has the same effect as a false comparison."""
    around = comparison.parent
    while isinstance(around, (exp.And, exp.Or, exp.Paren)):
        around = around.parent
    return isinstance(around, (exp.Where, exp.Join))


def _compared(query: exp.Select, value: exp.Expr, node: exp.Expr) -> tuple[exp.Select, exp.Expr] | None:
    """Return the subquery and the compared value with qualified names, so that the value can move into the subquery."""
    outer = node.find_ancestor(exp.Select)
    source, own = None if outer is None else outer.args.get("from_"), query.args.get("from_")
    if outer is None or source is None or own is None or query.args.get("joins"):
        return None
    inner, value = query.copy(), value.copy()
    alias = own.this.alias_or_name
    clash = alias.lower() in {each.this.alias_or_name.lower() for each in (source, *(outer.args.get("joins") or ()))}
    if clash:
        if not isinstance(own.this, exp.Table) or own.this.alias or inner.find(exp.Subquery, exp.Exists):
            return None
        inner.args["from_"].this.set("alias", exp.TableAlias(this=exp.to_identifier("other")))
    for column in inner.find_all(exp.Column):
        if clash and column.table.lower() in ("", alias.lower()):
            column.set("table", exp.to_identifier("other"))
    for column in value.find_all(exp.Column):
        if not column.table:
            if outer.args.get("joins"):
                return None
            column.set("table", exp.to_identifier(source.this.alias_or_name))
    return inner, value


def _existence(
    inner: exp.Select, value: exp.Expr, kind: type[exp.Expr], function: str | None, *, everything: bool
) -> exp.Expr | None:
    """Rewrite the comparison ``value kind (inner)`` as EXISTS, or return None.

    If the comparison is unknown, the EXISTS is false.  If ``everything`` is true, the comparison is with ALL rows.
    """
    item = inner.expressions[0].unalias()
    body = inner.copy()
    body.set("expressions", [exp.Literal.number(1)])
    if function == "count":
        return _counted(body, item, value, kind)
    if function in ("sum", "avg"):
        return None
    operand = item if function is None else item.expressions[0]

    def some(compared: type[exp.Expr]) -> exp.Expr:
        return exp.Exists(this=body.where(compared(this=value.copy(), expression=operand.copy())))

    if everything:
        return _of_all(body, _OPPOSITE[kind](this=value.copy(), expression=operand.copy()), value, operand)
    if function is None:
        return some(kind)
    towards, away = (exp.LT, exp.GT) if function == "max" else (exp.GT, exp.LT)
    if kind in (towards, exp.LTE if function == "max" else exp.GTE):
        return some(kind)
    if kind is exp.EQ:
        return exp.and_(some(exp.EQ), exp.not_(some(towards)))
    if kind is exp.NEQ:
        return exp.or_(some(towards), exp.and_(some(away), exp.not_(some(_OPPOSITE[away]))))
    return exp.and_(some(kind), exp.not_(some(_OPPOSITE[kind])))


def _of_all(body: exp.Select, against: exp.Expr, value: exp.Expr, operand: exp.Expr) -> exp.Expr:
    """Return the condition that the comparison is true for every row."""
    unknown = [exp.Is(this=each.copy(), expression=exp.Null()) for each in (value, operand)]
    return exp.not_(exp.Exists(this=body.where(exp.or_(against, *unknown))))


def _counted(body: exp.Select, item: exp.Expr, value: exp.Expr, kind: type[exp.Expr]) -> exp.Expr | None:
    """Rewrite a comparison of COUNT with 0 or 1 as EXISTS or NOT EXISTS.  Return None for any other comparison."""
    counted = item.expressions[0] if item.expressions else exp.Star()
    while isinstance(counted, exp.Distinct):
        counted = counted.expressions[0]
    if not isinstance(counted, (exp.Star, exp.Literal)):
        body = body.where(exp.not_(exp.Is(this=counted.copy(), expression=exp.Null())))
    number = int(value.name) if isinstance(value, exp.Literal) and value.name in ("0", "1") else None
    flipped = (kind, number)
    if flipped in ((exp.LT, 0), (exp.LTE, 1), (exp.NEQ, 0)):  # 0 < count, 1 <= count
        return exp.Exists(this=body)
    if flipped in ((exp.EQ, 0), (exp.GTE, 0), (exp.GT, 1)):
        return exp.Not(this=exp.Exists(this=body))
    return None


def whole(part: exp.Expr, replacement: exp.Expr) -> str:
    """Return the command that installs the whole query with ``replacement`` in place of ``part``."""
    part.meta["weft_replaced"] = True
    root = part.root().copy()
    del part.meta["weft_replaced"]
    there = next(each for each in root.walk() if each.meta.get("weft_replaced"))
    there.replace(exp.paren(replacement) if isinstance(replacement, exp.Connector) else replacement)
    return installed(root.sql("spark"))


def instead_of(node: exp.Expr) -> str | None:
    """Return a hint with a replacement for a refused node, or None if no replacement is known."""
    return without_value(node) if isinstance(node, (exp.Subquery, exp.Any, exp.All)) else None
