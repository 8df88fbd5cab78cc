"""What can be asked today in place of a refused construct, written out over the tables and columns of the query.

Each hint names a whole text that is accepted, as a command, or says that this cannot be asked.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from weft.sql.aggregates import MEASURES
from weft.sql.identifiers import quoted

NOT_TODAY: Final = "This cannot be asked today."
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
_RANKS: Final = ("row_number", "rank", "dense_rank", "first_value", "last_value")


def installed(text: str, *, language: str = "sql", name: str = "NAME") -> str:
    """The command that installs a text.

    >>> installed("SELECT a FROM t"), installed('p("x")', language="monpoly")
    ('weft install NAME "SELECT a FROM t"', 'weft install NAME --language monpoly \\'p("x")\\'')
    """
    told = "" if language == "sql" else f" --language {language}"
    return f"weft install {name}{told} {_argument(text)}"


def viewed(text: str) -> str:
    """The command that keeps a text as a view."""
    return f"weft view add NAME {_argument(text)}"


def as_number(node: exp.Expr) -> str:
    """How a length of time within a node becomes a number, which is stored, converted and compared with numbers."""
    difference = node.find(exp.Sub)
    start, end = "start", "end"
    if difference is not None and not difference.find(exp.Interval):
        start, end = difference.expression.sql("spark"), difference.this.sql("spark")
    return f"Write TIMESTAMPDIFF(SECOND, {start}, {end}): the time between them in whole seconds, or another unit."


def _argument(text: str) -> str:
    """One word of a shell's command, in double quotes where nothing in it is special between them."""
    line = " ".join(text.split()) if "--" not in text and "/*" not in text else text
    return shlex.quote(line) if set(line) & set('"$`\\!') else f'"{line}"'


def instead_of(node: exp.Expr) -> str | None:
    """What to write in place of a node that is refused; None: nothing is known of it."""
    match node:
        case exp.Window():
            return _without_window(node)
        case exp.Qualify():
            window = node.find(exp.Window)
            return NOT_TODAY if window is None else _without_window(window)
        case exp.Subquery() | exp.Any() | exp.All():
            return _without_value(node)
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
    return f"{NOT_TODAY} Ask for the rows themselves; a view or a formula has COUNT, SUM, MIN, MAX and AVG of a group."


def _table(node: exp.Expr) -> exp.Table | None:
    """The one table that the SELECT around a node reads, where it reads no other and has no WHERE."""
    select = node.find_ancestor(exp.Select)
    source = None if select is None else select.args.get("from_")
    if select is None or source is None or select.args.get("joins") or select.args.get("where"):
        return None
    return source.this if isinstance(source.this, exp.Table) and isinstance(source.this.this, exp.Identifier) else None


def _keys(window: exp.Window) -> tuple[list[str], str, bool] | None:
    """The columns of PARTITION BY, the one of ORDER BY, and whether it descends; None: they are not plain columns."""
    ordered = window.args.get("order")
    by = [] if ordered is None else ordered.expressions
    parts = list(window.args.get("partition_by") or ())
    if len(by) != 1 or not all(isinstance(each, exp.Column) for each in (*parts, by[0].this)):
        return None
    return [quoted(each.name) for each in parts], quoted(by[0].this.name), bool(by[0].args.get("desc"))


def _same(keys: Sequence[str], one: str, other: str) -> str:
    return "".join(f"{one}.{key} = {other}.{key} AND " for key in keys)


def _best_of_group(window: exp.Window) -> str | None:
    """The first row of each partition."""
    table, keys = _table(window), _keys(window)
    if table is None or keys is None:
        return None
    partition, by, descends = keys
    name = table.sql("spark") if not table.alias else _unaliased(table)
    text = (
        f"SELECT t.* FROM {name} AS t WHERE NOT EXISTS (SELECT 1 FROM {name} AS o "
        f"WHERE {_same(partition, 'o', 't')}o.{by} {'>' if descends else '<'} t.{by})"
    )
    first = "The first row of each group is the one that no other comes before"
    return f"{first}: {installed(text)}. Other ranks cannot be asked today."


def _unaliased(table: exp.Table) -> str:
    plain = table.copy()
    plain.set("alias", None)
    return plain.sql("spark")


def _beside(window: exp.Window, name: str) -> str | None:
    """LAG and LEAD: a join with the row just before or behind."""
    table, keys, called = _table(window), _keys(window), window.this
    given = called.expressions[:1]
    if table is None or keys is None or len(called.expressions) != 1 or not isinstance(given[0], exp.Column):
        return None
    partition, by, descends = keys
    value, source = quoted(given[0].name), _unaliased(table)
    near, far = ("<", ">") if (name == "lag") != descends else (">", "<")
    listed = ", ".join(f"t.{each}" for each in dict.fromkeys((*partition, by, value)))
    text = (
        f"SELECT {listed}, p.{value} AS beside FROM {source} AS t JOIN {source} AS p ON {_same(partition, 'p', 't')}"
        f"p.{by} {near} t.{by} WHERE NOT EXISTS (SELECT 1 FROM {source} AS m "
        f"WHERE {_same(partition, 'm', 't')}m.{by} {far} p.{by} AND m.{by} {near} t.{by})"
    )
    return f"Join with the row beside it, between which and this one there is none: {installed(text)}."


def _without_limit(node: exp.Expr) -> str:
    root = node.find_ancestor(exp.Select, exp.SetOperation)
    count = node.expression.name if isinstance(node, exp.Limit) and isinstance(node.expression, exp.Literal) else "N"
    shown = f"`weft results NAME --limit {count}` shows the first {count}"
    if root is None or root.parent is not None:
        return f"Leave it out: every answer is delivered once, and {shown}."
    whole = root.copy()
    whole.set("limit", None)
    return f"Leave it out: {installed(whole.sql('spark'))}; every answer is delivered once, and {shown}."


def _without_value(node: exp.Expr) -> str:
    """A subquery beside a comparison, as EXISTS with the comparison inside; else what is known of it."""
    query = node.find(exp.Select)
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    if query is None or len(query.expressions) != 1 or query.args.get("group") or query.args.get("having"):
        return NOT_TODAY
    item = query.expressions[0].unalias()
    function = item.name.lower() if isinstance(item, exp.Anonymous) and item.name.lower() in MEASURES else None
    if around is None or type(around) not in _FLIPPED:
        if function in (None, "min", "max"):
            greatest = f", and that no row has a {'greater' if function == 'max' else 'lesser'} one, with NOT EXISTS"
            return f"Join with its table and select the column: JOIN … ON{greatest if function else ''}."
        return NOT_TODAY
    swapped = node in around.expression.find_all(type(node)) or around.expression is node
    kind = type(around) if swapped else _FLIPPED[type(around)]
    value = around.this if swapped else around.expression
    compared = _compared(query, value, node)
    if compared is None:
        return (
            "Write it as EXISTS with the comparison inside, each table under an alias of its own: x > (SELECT y …) "
            "becomes EXISTS (SELECT 1 FROM … WHERE x > y)."
        )
    inner, outer = compared
    found = _existence(inner, outer, kind, function, everything=isinstance(node, exp.All))
    if found is None:
        return f"{NOT_TODAY} EXISTS and NOT EXISTS take subqueries; {str(function).upper()} as a value does not stand."
    return f"Write it with EXISTS: {_whole(around, found)}."


def _compared(query: exp.Select, value: exp.Expr, node: exp.Expr) -> tuple[exp.Select, exp.Expr] | None:
    """The subquery and the value beside it, no name of which means another column inside; None: not without aliases."""
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
    """``value kind (inner)`` with EXISTS; ``everything``: of all of its rows."""
    item = inner.expressions[0].unalias()
    asked = inner.copy()
    asked.set("expressions", [exp.Literal.number(1)])
    if function == "count":
        return _counted(asked, value, kind)
    if function in ("sum", "avg"):
        return None
    given = item if function is None else item.expressions[0]
    if function is not None and kind is exp.EQ:
        beyond = exp.GT if function == "max" else exp.LT
        none = exp.Not(this=exp.Exists(this=asked.where(beyond(this=given.copy(), expression=value.copy()))))
        one = exp.Exists(this=asked.where(exp.EQ(this=given.copy(), expression=value.copy())))
        return exp.And(this=one, expression=none)
    if function is not None and kind is exp.NEQ:
        return None
    of_all = everything or (function == "max" and kind in (exp.GT, exp.GTE))
    of_all = of_all or (function == "min" and kind in (exp.LT, exp.LTE))
    compared = _OPPOSITE[kind] if of_all else kind
    found = exp.Exists(this=asked.where(compared(this=value.copy(), expression=given.copy())))
    return exp.Not(this=found) if of_all else found


def _counted(asked: exp.Select, value: exp.Expr, kind: type[exp.Expr]) -> exp.Expr | None:
    """A number of rows beside 0 or 1: whether there is one."""
    number = int(value.name) if isinstance(value, exp.Literal) and value.name in ("0", "1") else None
    flipped = (kind, number)
    if flipped in ((exp.LT, 0), (exp.LTE, 1), (exp.NEQ, 0)):  # 0 < count, 1 <= count
        return exp.Exists(this=asked)
    if flipped in ((exp.EQ, 0), (exp.GTE, 0), (exp.GT, 1)):
        return exp.Not(this=exp.Exists(this=asked))
    return None


def _whole(part: exp.Expr, replacement: exp.Expr) -> str:
    """The command that installs the whole query with a part replaced."""
    part.meta["weft_replaced"] = True
    root = part.root().copy()
    del part.meta["weft_replaced"]
    there = next(each for each in root.walk() if each.meta.get("weft_replaced"))
    there.replace(exp.paren(replacement) if isinstance(replacement, exp.And) else replacement)
    return installed(root.sql("spark"))
