"""Rewrite a refused construct as an accepted query over the tables and columns of the text.

Each hint contains a complete command with an accepted query, or says that no equivalent exists.

The refused constructs are window functions, LIMIT, and subqueries used as values.  A window function that selects a row
becomes a NOT EXISTS, which selects the row that no other row precedes.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from weft.sql.functions import MEASURES
from weft.sql.render import quoted

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


_RANKS: Final = ("row_number", "rank", "dense_rank")


def instead_of(node: exp.Expr) -> str | None:
    """Return a hint with a replacement for a refused node, or None if no replacement is known."""
    match node:
        case exp.Window():
            return _without_window(node)
        case exp.Qualify():
            window = node.find(exp.Window)
            return NOT_TODAY if window is None else _without_window(window)
        case exp.Subquery() | exp.Any() | exp.All():
            return without_value(node)
        case exp.Limit() | exp.Fetch():
            return _without_limit(node)
        case _:
            return None


def _without_window(window: exp.Window) -> str:
    name = window.this.name.lower() if isinstance(window.this, exp.Anonymous) else ""
    if name in _RANKS:
        return _best_of_group(window) or (
            "For the first row of each group, require that no other row comes before the row: NOT EXISTS "
            "(SELECT 1 FROM … AS o WHERE o.k = t.k AND o.ts > t.ts). Other ranks are not supported today."
        )
    if name in ("lag", "lead"):
        return _beside(window, name) or (
            "For the previous row, join the table with itself (p.ts < t.ts) and require that no row lies between: "
            "NOT EXISTS (SELECT 1 FROM … AS m WHERE m.ts > p.ts AND m.ts < t.ts)."
        )
    rewritten = _first_value(window) if name == "first_value" else None
    return rewritten or (
        f"{NOT_TODAY} Select the rows themselves, or use a view or a formula for COUNT, SUM, MIN, MAX and AVG."
    )


def single_table(select: exp.Select | None) -> str | None:
    """Return the table name if FROM contains exactly one table, otherwise None."""
    source = None if select is None else select.args.get("from_")
    if select is None or source is None or select.args.get("joins") or select.root().find(exp.With):
        return None
    where = select.args.get("where")
    if not isinstance(source.this, exp.Table) or not isinstance(source.this.this, exp.Identifier):
        return None
    if where is not None and where.find(exp.Query, exp.Window):
        return None
    plain = source.this.copy()
    plain.set("alias", None)
    return plain.sql("spark")


def of_alias(node: exp.Expr, alias: str) -> exp.Expr:
    """Return a copy of an expression with every column qualified by ``alias``."""
    renamed = node.copy()
    for column in list(renamed.find_all(exp.Column)):
        column.set("table", exp.to_identifier(alias))
    return renamed


def where_of(select: exp.Select, alias: str) -> str:
    """Return the WHERE condition with a trailing AND.  All columns are qualified by ``alias``.

    The result is empty if the SELECT has no WHERE.
    """
    where = select.args.get("where")
    if where is None:
        return ""
    text = of_alias(where.this, alias).sql("spark")
    return f"({text}) AND " if isinstance(where.this, exp.Or) else f"{text} AND "


def known(columns: Sequence[str], alias: str) -> str:
    """Return an SQL condition with a trailing AND: no column of ``columns`` is NULL.

    The condition omits ``ts``, because ``ts`` is never NULL.
    """
    return "".join(f"{alias}.{each} IS NOT NULL AND " for each in dict.fromkeys(columns) if each.lower() != "ts")


def _keys(window: exp.Window) -> tuple[list[str], str, bool] | None:
    """Return the columns of PARTITION BY, the column of ORDER BY, and whether the order is descending."""
    ordered = window.args.get("order")
    by = [] if ordered is None else ordered.expressions
    parts = list(window.args.get("partition_by") or ())
    if len(by) != 1 or not all(isinstance(each, exp.Column) for each in (*parts, by[0].this)):
        return None
    return [quoted(each.name) for each in parts], quoted(by[0].this.name), bool(by[0].args.get("desc"))


def same(keys: Sequence[str], one: str, other: str) -> str:
    """Return an SQL condition with a trailing AND: the rows are equal in all columns of ``keys``.

    ``one`` and ``other`` are the aliases of the rows.
    """
    return "".join(f"{one}.{key} = {other}.{key} AND " for key in keys)


def _best_of_group(window: exp.Window) -> str | None:
    """Return a hint that contains a query for the first row of each partition."""
    select = window.find_ancestor(exp.Select)
    name, keys = single_table(select), _keys(window)
    if select is None or name is None or keys is None:
        return None
    partition, by, descends = keys
    text = (
        f"SELECT t.* FROM {name} AS t WHERE {where_of(select, 't')}{known((*partition, by), 't')}NOT EXISTS (SELECT 1 "
        f"FROM {name} AS o WHERE {where_of(select, 'o')}{same(partition, 'o', 't')}o.{by} {'>' if descends else '<'} "
        f"t.{by})"
    )
    return (
        f"For the first row of each group, require that no other row comes before the row: {installed(text)}. "
        f"The query returns all rows that tie in {by}{_nulls((*partition, by))}. Other ranks are not "
        "supported today."
    )


def _nulls(columns: Sequence[str]) -> str:
    names = [each for each in dict.fromkeys(columns) if each.lower() != "ts"]
    return f"; rows with a NULL in {' or '.join(names)} are omitted" if names else ""


def _listed(select: exp.Select, window: exp.Window, value: str) -> str | None:
    """Return the select list over ``t`` after replacing the window function by the column ``value`` of ``p``."""
    listed = []
    for item in select.expressions:
        selected = of_alias(item, "t")
        replaced = exp.column(value, table="p", quoted=value.startswith("`"))
        for original, each in zip(item.find_all(exp.Window), list(selected.find_all(exp.Window)), strict=True):
            if original is not window:
                return None
            if each is selected:
                selected = replaced
            else:
                each.replace(replaced)
        listed.append("t.*" if isinstance(selected, exp.Star) else selected.sql("spark"))
    return ", ".join(listed)


def _paired(window: exp.Window) -> tuple[exp.Select, str, str, tuple[list[str], str, bool]] | None:
    """Return the parts of a self-join of a table, with the aliases ``t`` and ``p``.

    The parts are the SELECT of the window function, the table, the select list, and the result of ``_keys``.
    """
    select = window.find_ancestor(exp.Select)
    name, keys, arguments = single_table(select), _keys(window), window.this.expressions
    if (
        select is None
        or name is None
        or keys is None
        or len(arguments) != 1
        or not isinstance(arguments[0], exp.Column)
    ):
        return None
    listed = None if window.args.get("spec") else _listed(select, window, arguments[0].name)
    return None if listed is None else (select, name, listed, keys)


def _beside(window: exp.Window, name: str) -> str | None:
    """Return a hint that replaces LAG or LEAD by a join with the previous or the next row."""
    parts = _paired(window)
    if parts is None:
        return None
    select, source, listed, (partition, by, descends) = parts
    near, far = ("<", ">") if (name == "lag") != descends else (">", "<")
    text = (
        f"SELECT {listed} FROM {source} AS t JOIN {source} AS p ON {where_of(select, 'p')}{same(partition, 'p', 't')}"
        f"p.{by} {near} t.{by} WHERE {where_of(select, 't')}NOT EXISTS (SELECT 1 FROM {source} AS m WHERE "
        f"{where_of(select, 'm')}{same(partition, 'm', 't')}m.{by} {far} p.{by} AND m.{by} {near} t.{by})"
    )
    return f"Join with the adjacent row: {_instead(select, text)}. The query omits rows without an adjacent row."


def _first_value(window: exp.Window) -> str | None:
    """Return a hint that replaces FIRST_VALUE by a join with the first row of the group."""
    parts = _paired(window)
    if parts is None:
        return None
    select, source, listed, (partition, by, descends) = parts
    keys = same(partition, "p", "t").removesuffix(" AND ") or "1 = 1"
    text = (
        f"SELECT {listed} FROM {source} AS t JOIN {source} AS p ON {keys} WHERE {where_of(select, 't')}"
        f"{where_of(select, 'p')}{known((by,), 'p')}NOT EXISTS (SELECT 1 FROM {source} AS o WHERE "
        f"{where_of(select, 'o')}{same(partition, 'o', 'p')}o.{by} {'>' if descends else '<'} p.{by})"
    )
    return (
        f"Join with the first row of the group: {_instead(select, text)}. If several rows tie for the first "
        f"place, the query returns all of them{_nulls((*partition, by))}."
    )


def _instead(select: exp.Select, text: str) -> str:
    if select.parent is None:
        return installed(text)
    return whole(select, exp.maybe_parse(text, dialect="spark"))


def _without_limit(node: exp.Expr) -> str:
    root = node.find_ancestor(exp.Select, exp.SetOperation)
    count = node.expression.name if isinstance(node, exp.Limit) and isinstance(node.expression, exp.Literal) else "N"
    clause = "FETCH" if isinstance(node, exp.Fetch) else "LIMIT"
    shown = f"`weft results NAME --limit {count}` shows the first {count}"
    if root is None or root.parent is not None:
        return f"Remove {clause}: Weft delivers every answer once, and {shown}."
    if root.find(exp.Group, exp.Having, exp.Window, exp.Qualify):
        return f"Remove {clause}: Weft delivers every answer once, and {shown}."
    unlimited = root.copy()
    unlimited.set("limit", None)
    return f"Remove {clause}: {installed(unlimited.sql('spark'))}. Weft delivers every answer once, and {shown}."
