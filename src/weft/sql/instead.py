"""What to write in place of a node that is refused: a window function, a subquery used as a value, LIMIT.

The row that a window function chooses is the one that no other comes before, which NOT EXISTS asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from weft.sql.identifiers import quoted
from weft.sql.rewriting import NOT_TODAY, installed, whole, without_value

_RANKS: Final = ("row_number", "rank", "dense_rank")


def instead_of(node: exp.Expr) -> str | None:
    """What to write in place of a node that is refused; None: nothing is known of it."""
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
            "For the first row of each group ask that none comes before it: NOT EXISTS (SELECT 1 FROM … AS o WHERE "
            "o.k = t.k AND o.ts > t.ts). Other ranks cannot be asked today."
        )
    if name in ("lag", "lead"):
        return _beside(window, name) or (
            "For the row just before another join the table with itself, p.ts < t.ts, and ask that none is between: "
            "NOT EXISTS (SELECT 1 FROM … AS m WHERE m.ts > p.ts AND m.ts < t.ts)."
        )
    found = _first_value(window) if name == "first_value" else None
    return found or (
        f"{NOT_TODAY} Ask for the rows themselves; a view or a formula has COUNT, SUM, MIN, MAX and AVG of a group."
    )


def single_table(select: exp.Select | None) -> str | None:
    """The name of the one table that a SELECT reads, as FROM has it; None: it reads others, or has subqueries."""
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
    """A copy of an expression over one table, with each column named by an alias of the table."""
    found = node.copy()
    for column in list(found.find_all(exp.Column)):
        column.set("table", exp.to_identifier(alias))
    return found


def where_of(select: exp.Select, alias: str) -> str:
    """The condition of WHERE over an alias, to stand before another one; empty without WHERE."""
    where = select.args.get("where")
    if where is None:
        return ""
    text = of_alias(where.this, alias).sql("spark")
    return f"({text}) AND " if isinstance(where.this, exp.Or) else f"{text} AND "


def known(columns: Sequence[str], alias: str) -> str:
    """That columns are not NULL, to stand before another condition; ``ts`` never is."""
    return "".join(f"{alias}.{each} IS NOT NULL AND " for each in dict.fromkeys(columns) if each.lower() != "ts")


def _keys(window: exp.Window) -> tuple[list[str], str, bool] | None:
    """The columns of PARTITION BY, the one of ORDER BY, and whether it descends; None: they are not plain columns."""
    ordered = window.args.get("order")
    by = [] if ordered is None else ordered.expressions
    parts = list(window.args.get("partition_by") or ())
    if len(by) != 1 or not all(isinstance(each, exp.Column) for each in (*parts, by[0].this)):
        return None
    return [quoted(each.name) for each in parts], quoted(by[0].this.name), bool(by[0].args.get("desc"))


def same(keys: Sequence[str], one: str, other: str) -> str:
    """That columns are equal in two aliases, to stand before another condition."""
    return "".join(f"{one}.{key} = {other}.{key} AND " for key in keys)


def _best_of_group(window: exp.Window) -> str | None:
    """The first row of each partition."""
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
        f"The first row of each group is the one that no other comes before: {installed(text)}. Rows that are equal in "
        f"{by} are all first{_nulls((*partition, by))}. Other ranks cannot be asked today."
    )


def _nulls(columns: Sequence[str]) -> str:
    """What becomes of rows with a NULL in the columns, as a clause."""
    names = [each for each in dict.fromkeys(columns) if each.lower() != "ts"]
    return f"; rows with a NULL in {' or '.join(names)} are left out" if names else ""


def _listed(select: exp.Select, window: exp.Window, value: str) -> str | None:
    """The select list over ``t``, with a window function replaced by a column of ``p``; None: there are others."""
    listed = []
    for item in select.expressions:
        found = of_alias(item, "t")
        replaced = exp.column(value, table="p", quoted=value.startswith("`"))
        for original, each in zip(item.find_all(exp.Window), list(found.find_all(exp.Window)), strict=True):
            if original is not window:
                return None
            if each is found:
                found = replaced
            else:
                each.replace(replaced)
        listed.append("t.*" if isinstance(found, exp.Star) else found.sql("spark"))
    return ", ".join(listed)


def _paired(window: exp.Window) -> tuple[exp.Select, str, str, tuple[list[str], str, bool]] | None:
    """The SELECT of a window function of a column, its table, its select list over ``t`` and ``p``, and the keys."""
    select = window.find_ancestor(exp.Select)
    name, keys, given = single_table(select), _keys(window), window.this.expressions
    if select is None or name is None or keys is None or len(given) != 1 or not isinstance(given[0], exp.Column):
        return None
    listed = None if window.args.get("spec") else _listed(select, window, given[0].name)
    return None if listed is None else (select, name, listed, keys)


def _beside(window: exp.Window, name: str) -> str | None:
    """LAG and LEAD: a join with the row just before or behind."""
    found = _paired(window)
    if found is None:
        return None
    select, source, listed, (partition, by, descends) = found
    near, far = ("<", ">") if (name == "lag") != descends else (">", "<")
    text = (
        f"SELECT {listed} FROM {source} AS t JOIN {source} AS p ON {where_of(select, 'p')}{same(partition, 'p', 't')}"
        f"p.{by} {near} t.{by} WHERE {where_of(select, 't')}NOT EXISTS (SELECT 1 FROM {source} AS m WHERE "
        f"{where_of(select, 'm')}{same(partition, 'm', 't')}m.{by} {far} p.{by} AND m.{by} {near} t.{by})"
    )
    return (
        f"Join with the row beside it, between which and this one there is none: {_instead(select, text)}. A row with "
        "none beside it is no answer."
    )


def _first_value(window: exp.Window) -> str | None:
    """FIRST_VALUE: a join with the row of the group that no other comes before."""
    found = _paired(window)
    if found is None:
        return None
    select, source, listed, (partition, by, descends) = found
    keys = same(partition, "p", "t").removesuffix(" AND ") or "1 = 1"
    text = (
        f"SELECT {listed} FROM {source} AS t JOIN {source} AS p ON {keys} WHERE {where_of(select, 't')}"
        f"{where_of(select, 'p')}{known((by,), 'p')}NOT EXISTS (SELECT 1 FROM {source} AS o WHERE "
        f"{where_of(select, 'o')}{same(partition, 'o', 'p')}o.{by} {'>' if descends else '<'} p.{by})"
    )
    return (
        f"Join with the first row of the group, the one that no other comes before: {_instead(select, text)}. With "
        f"several first rows each is joined{_nulls((*partition, by))}."
    )


def _instead(select: exp.Select, text: str) -> str:
    """The command that installs the whole query with a text in place of one SELECT in it."""
    if select.parent is None:
        return installed(text)
    return whole(select, exp.maybe_parse(text, dialect="spark"))


def _without_limit(node: exp.Expr) -> str:
    root = node.find_ancestor(exp.Select, exp.SetOperation)
    count = node.expression.name if isinstance(node, exp.Limit) and isinstance(node.expression, exp.Literal) else "N"
    shown = f"`weft results NAME --limit {count}` shows the first {count}"
    if root is None or root.parent is not None:
        return f"Leave it out: every answer is delivered once, and {shown}."
    if root.find(exp.Group, exp.Having, exp.Window, exp.Qualify):
        return f"Leave it out: every answer is delivered once, and {shown}."
    unlimited = root.copy()
    unlimited.set("limit", None)
    return f"Leave it out: {installed(unlimited.sql('spark'))}; every answer is delivered once, and {shown}."
