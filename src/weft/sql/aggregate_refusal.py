"""The refusal of an aggregate in a standing query, with the text that asks the same today.

Offered are, in this order: the condition in WHERE and SELECT DISTINCT where nothing is aggregated; NOT EXISTS for MIN
and MAX; a temporal view where all tables are tracked; a formula of past temporal logic; else nothing, in so many words.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from weft.algebra.relation import Grouped, Relation, Select
from weft.algebra.traverse import scans, thresholds
from weft.errors import SqlError
from weft.sql.aggregate_formula import NoFormula, aggregate_formula
from weft.sql.aggregates import MEASURES
from weft.sql.functions import AGGREGATES
from weft.sql.identifiers import quoted
from weft.sql.instead import known, of_alias, same, single_table, where_of
from weft.sql.refusal import refuse
from weft.sql.rewriting import NOT_TODAY, installed, viewed
from weft.sql.scope import Context

LATER: Final = "aggregates of standing queries come in a later release"
_ROWS: Final = "Ask for the rows themselves: each is an answer of its own."


def aggregates_refused(select: exp.Select, grouped: Relation | None, context: Context, *, nested: bool) -> SqlError:
    """The error for a SELECT with GROUP BY, HAVING or aggregates; ``grouped`` is its relation, where it could be read.

    ``nested``: it stands within another query, so that what is offered asks for its rows alone.
    """
    construct, node = _construct(select)
    if _measures(select) is None:
        return refuse(construct, node, "it groups, and nothing is aggregated", _without_groups(select, nested=nested))
    return refuse(construct, node, LATER, _instead(select, grouped, context, nested=nested))


def is_plain(select: exp.Select) -> bool:
    """Whether it neither groups nor aggregates: HAVING alone, which is asked of single rows then."""
    return select.args.get("group") is None and _measures(select) is None


def _construct(select: exp.Select) -> tuple[str, exp.Expr]:
    for key, name in (("group", "GROUP BY"), ("having", "HAVING")):
        if (clause := select.args.get(key)) is not None:
            first = clause.expressions[0] if clause.expressions else clause
            return name, first if key == "group" else clause
    found = _measures(select)
    assert found is not None
    return f"{found.name.upper()}()", found


def _measures(select: exp.Select) -> exp.Anonymous | None:
    """The first aggregate of the select list or of HAVING."""
    having = select.args.get("having")
    for part in (*select.expressions, *(() if having is None else (having.this,))):
        for node in part.walk(prune=lambda each: isinstance(each, (exp.Query, exp.Window))):
            if isinstance(node, exp.Anonymous) and node.name.lower() in (AGGREGATES | MEASURES.keys()):
                return node
    return None


def _without_groups(select: exp.Select, *, nested: bool) -> str:
    """GROUP BY without an aggregate is SELECT DISTINCT, and its HAVING a condition on rows."""
    plain = select.copy()
    having = plain.args.pop("having", None)
    plain.args.pop("group", None)
    if having is not None:
        plain = plain.where(having.this)
    if select.args.get("group") is not None:
        plain = plain.distinct()
    text = plain.sql("spark")
    return f"Write it so: {text}" if nested else f"Write it so: {installed(text)}."


def _instead(select: exp.Select, grouped: Relation | None, context: Context, *, nested: bool) -> str:
    if grouped is None:
        return "Correct the other reasons first: then this one says whether the aggregate can be asked in another way."
    prefix = f"{NOT_TODAY} Its subquery alone can be asked. " if nested else ""
    read = tuple(scans(grouped))
    greatest = _greatest(select)
    if greatest is not None:
        return f"{prefix}{greatest}"
    if read and all(scan.table.end is not None for scan in read):
        return _as_view(grouped, context, nested=nested)
    try:
        formula = aggregate_formula(grouped)
    except NoFormula as reason:
        return f"This cannot be asked today, not as a formula either: {reason}. {_ROWS}"
    command = installed(formula, language="monpoly")
    return (
        f"{prefix}As a formula it stands: {command}. It is asked at each instant at which rows arrive, and an answer "
        "that holds at several is delivered at each. Rows that are equal in all columns but ts count once, and rows "
        "with a NULL in any column do not count."
    )


def _as_view(grouped: Relation, context: Context, *, nested: bool) -> str:
    """A view over tracked tables; what reads it depends on whether it speaks of NOW()."""
    if nested or context.text is None or context.other() is not None:
        return f"{NOT_TODAY} {_ROWS}"
    inner = grouped.input if isinstance(grouped, Select) else grouped
    timely = any(True for _ in thresholds(grouped))
    if timely or (isinstance(inner, Grouped) and inner.window is not None):
        over = "NOW()" if timely else "a moving window"
        return (
            f"Keep it as a view, and read that when you want to: {viewed(context.text)}, then "
            'weft try "SELECT * FROM NAME". A standing query over it cannot be asked today, since it aggregates over '
            f"{over}."
        )
    reader = installed("SELECT * FROM NAME", name="NAME2")
    return f"Keep it as a view, and let a query stand over that: {viewed(context.text)}, then {reader}."


def _greatest(select: exp.Select) -> str | None:
    """MIN or MAX of one column of one table: the query for the row that has it, with NOT EXISTS."""
    table, having = single_table(select), select.args.get("having")
    group = select.args.get("group")
    keys = [] if group is None else group.expressions
    parts = [*select.expressions, *(() if having is None else (having.this,))]
    found = [
        each
        for part in parts
        for each in part.find_all(exp.Anonymous)
        if each.name.lower() in AGGREGATES | MEASURES.keys()
    ]
    aliases = {each.alias.lower() for each in select.expressions if each.alias}
    if table is None or not found or any(each != found[0] for each in found):
        return None
    name, given = found[0].name.lower(), found[0].expressions
    others = [] if having is None else [each.name.lower() for each in having.find_all(exp.Column)]
    plain = len(given) == 1 and all(isinstance(each, exp.Column) for each in (*given, *keys))
    if name not in ("min", "max") or not plain or aliases & set(others) or any(each.find(exp.Query) for each in parts):
        return None
    best, groups = quoted(given[0].name), [quoted(each.name) for each in keys]
    sign, words = (">", ("greatest", "greater")) if name == "max" else ("<", ("least", "lesser"))
    listed = ", ".join(_of_row(each, found[0]) for each in select.expressions)
    kept = f"{_of_row(having.this, found[0])} AND " if having is not None else ""
    text = (
        f"SELECT {listed} FROM {table} AS t WHERE {where_of(select, 't')}{kept}{known((*groups, best), 't')}NOT EXISTS "
        f"(SELECT 1 FROM {table} AS o WHERE {where_of(select, 'o')}{same(groups, 'o', 't')}o.{best} {sign} t.{best})"
    )
    left_out = [each for each in dict.fromkeys((*groups, best)) if each.lower() != "ts"]
    told = f" Rows with a NULL in {' or '.join(left_out)} are left out." if left_out else ""
    return f"The row with the {words[0]} value is the one without a {words[1]} one: {installed(text)}.{told}"


def _of_row(part: exp.Expr, measure: exp.Anonymous) -> str:
    """An expression over groups as one over the row ``t`` that has the group's least or greatest value."""
    whole = exp.paren(part.copy()) if isinstance(part, exp.Or) else part.copy()
    holder = exp.Tuple(expressions=[whole])
    for each in list(holder.find_all(exp.Anonymous)):
        if each == measure:
            each.replace(each.expressions[0].copy())
    return of_alias(holder.expressions[0], "t").sql("spark")
