"""Equivalent queries for refused nodes: a window function, a subquery used as a value, LIMIT.

The row that a window function selects is the one with no row before it, which NOT EXISTS expresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from weft.sql.identifiers import quoted
from weft.sql.rewriting import NOT_TODAY, installed, whole, without_value

_RANKS: Final = ("row_number", "rank", "dense_rank")


def instead_of(node: exp.Expr) -> str | None:
    """Return what to write instead of a refused node, or None if nothing is known."""
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
            "For the first row of each group, require that no row comes before it: NOT EXISTS (SELECT 1 FROM … AS o "
            "WHERE o.k = t.k AND o.ts > t.ts). Other ranks are not supported today."
        )
    if name in ("lag", "lead"):
        return _beside(window, name) or (
            "For the previous row, join the table with itself (p.ts < t.ts) and require that no row lies between: "
            "NOT EXISTS (SELECT 1 FROM … AS m WHERE m.ts > p.ts AND m.ts < t.ts)."
        )
    rewritten = _first_value(window) if name == "first_value" else None
    return rewritten or (
        f"{NOT_TODAY} Query the rows themselves, or use a view or a formula for COUNT, SUM, MIN, MAX and AVG."
    )


def single_table(select: exp.Select | None) -> str | None:
    """Return the name of the only table of a SELECT, as in FROM, or None for several tables or subqueries."""
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
    """Return a copy of an expression over one table, with every column qualified by an alias."""
    renamed = node.copy()
    for column in list(renamed.find_all(exp.Column)):
        column.set("table", exp.to_identifier(alias))
    return renamed


def where_of(select: exp.Select, alias: str) -> str:
    """Return the condition of WHERE over an alias, followed by AND, or an empty text without WHERE."""
    where = select.args.get("where")
    if where is None:
        return ""
    text = of_alias(where.this, alias).sql("spark")
    return f"({text}) AND " if isinstance(where.this, exp.Or) else f"{text} AND "


def known(columns: Sequence[str], alias: str) -> str:
    """Return the condition that columns are not NULL, followed by AND.  It omits ``ts``, which is never NULL."""
    return "".join(f"{alias}.{each} IS NOT NULL AND " for each in dict.fromkeys(columns) if each.lower() != "ts")


def _keys(window: exp.Window) -> tuple[list[str], str, bool] | None:
    """Return the columns of PARTITION BY and ORDER BY and whether the order descends, or None for expressions."""
    ordered = window.args.get("order")
    by = [] if ordered is None else ordered.expressions
    parts = list(window.args.get("partition_by") or ())
    if len(by) != 1 or not all(isinstance(each, exp.Column) for each in (*parts, by[0].this)):
        return None
    return [quoted(each.name) for each in parts], quoted(by[0].this.name), bool(by[0].args.get("desc"))


def same(keys: Sequence[str], one: str, other: str) -> str:
    """Return the condition that columns are equal in two aliases, followed by AND."""
    return "".join(f"{one}.{key} = {other}.{key} AND " for key in keys)


def _best_of_group(window: exp.Window) -> str | None:
    """Return a query for the first row of each partition."""
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
        f"For the first row of each group, ask for the row that no other row comes before: {installed(text)}. Rows "
        f"that tie in {by} are all returned{_nulls((*partition, by))}. Other ranks are not supported today."
    )


def _nulls(columns: Sequence[str]) -> str:
    """Return a clause about rows with a NULL in the columns."""
    names = [each for each in dict.fromkeys(columns) if each.lower() != "ts"]
    return f"; rows with a NULL in {' or '.join(names)} are omitted" if names else ""


def _listed(select: exp.Select, window: exp.Window, value: str) -> str | None:
    """Return the select list over ``t`` with the window function as a column of ``p``, or None if it has others."""
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
    """Return the SELECT of a window function, its table, its select list over ``t`` and ``p``, and its keys, or
    None.
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
    """Rewrite LAG or LEAD as a join with the row just before or after."""
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
    return f"Join with the adjacent row: {_instead(select, text)}. This omits a row without an adjacent row."


def _first_value(window: exp.Window) -> str | None:
    """Rewrite FIRST_VALUE as a join with the first row of the group."""
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
        f"Join with the first row of the group: {_instead(select, text)}. If several rows are first, the result has "
        f"each of them{_nulls((*partition, by))}."
    )


def _instead(select: exp.Select, text: str) -> str:
    """Return the command that installs the whole query with one SELECT replaced by a text."""
    if select.parent is None:
        return installed(text)
    return whole(select, exp.maybe_parse(text, dialect="spark"))


def _without_limit(node: exp.Expr) -> str:
    root = node.find_ancestor(exp.Select, exp.SetOperation)
    count = node.expression.name if isinstance(node, exp.Limit) and isinstance(node.expression, exp.Literal) else "N"
    shown = f"`weft results NAME --limit {count}` shows the first {count}"
    if root is None or root.parent is not None:
        return f"Remove it: Weft delivers every answer once, and {shown}."
    if root.find(exp.Group, exp.Having, exp.Window, exp.Qualify):
        return f"Remove it: Weft delivers every answer once, and {shown}."
    unlimited = root.copy()
    unlimited.set("limit", None)
    return f"Remove it: {installed(unlimited.sql('spark'))}. Weft delivers every answer once, and {shown}."
