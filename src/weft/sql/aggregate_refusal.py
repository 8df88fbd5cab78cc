"""Refuse an aggregate in a standing query and offer an equivalent text that Weft accepts today.

In this order: the condition in WHERE and SELECT DISTINCT if nothing is aggregated; NOT EXISTS for MIN and MAX; a
temporal view if all tables are tracked; a formula of past temporal logic.  If none fits, the hint says so.
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

LATER: Final = "standing queries do not support aggregates yet"
_ROWS: Final = "Query the rows themselves; each is an answer."


def aggregates_refused(select: exp.Select, grouped: Relation | None, context: Context, *, nested: bool) -> SqlError:
    """Return the error for a SELECT with GROUP BY, HAVING or aggregates.

    ``grouped`` is its relation, or None if it could not be read.  ``nested`` is True for a SELECT within another query;
    the hint then offers a query for its rows alone.
    """
    construct, node = _construct(select)
    if _measures(select) is None:
        return refuse(construct, node, "nothing is aggregated", _without_groups(select, nested=nested))
    return refuse(construct, node, LATER, _instead(select, grouped, context, nested=nested))


def is_plain(select: exp.Select) -> bool:
    """Return whether the SELECT has HAVING but neither GROUP BY nor aggregates, so HAVING applies to single rows."""
    return select.args.get("group") is None and _measures(select) is None


def _construct(select: exp.Select) -> tuple[str, exp.Expr]:
    for key, name in (("group", "GROUP BY"), ("having", "HAVING")):
        if (clause := select.args.get(key)) is not None:
            first = clause.expressions[0] if clause.expressions else clause
            return name, first if key == "group" else clause
    measure = _measures(select)
    assert measure is not None
    return f"{measure.name.upper()}()", measure


def _measures(select: exp.Select) -> exp.Anonymous | None:
    """Return the first aggregate of the select list or of HAVING."""
    having = select.args.get("having")
    for part in (*select.expressions, *(() if having is None else (having.this,))):
        for node in part.walk(prune=lambda each: isinstance(each, (exp.Query, exp.Window))):
            if isinstance(node, exp.Anonymous) and node.name.lower() in (AGGREGATES | MEASURES.keys()):
                return node
    return None


def _without_groups(select: exp.Select, *, nested: bool) -> str:
    """Rewrite GROUP BY without aggregates as SELECT DISTINCT, and its HAVING as a condition on rows."""
    plain = select.copy()
    having = plain.args.pop("having", None)
    plain.args.pop("group", None)
    if having is not None:
        plain = plain.where(having.this)
    if select.args.get("group") is not None:
        plain = plain.distinct()
    text = plain.sql("spark")
    return f"Write {text}" if nested else f"Write {installed(text)}."


def _instead(select: exp.Select, grouped: Relation | None, context: Context, *, nested: bool) -> str:
    if grouped is None:
        return "Fix the other errors first; this error then offers an equivalent text, if one exists."
    prefix = f"{NOT_TODAY} Only its subquery has an equivalent. " if nested else ""
    read = tuple(scans(grouped))
    greatest = _greatest(select)
    if greatest is not None:
        return f"{prefix}{greatest}"
    if read and all(scan.table.end is not None for scan in read):
        return _as_view(grouped, context, nested=nested)
    try:
        formula = aggregate_formula(grouped)
    except NoFormula as reason:
        return f"{NOT_TODAY} A formula cannot express it either: {reason}. {_ROWS}"
    command = installed(formula, language="monpoly")
    return (
        f"{prefix}Install it as a formula: {command}. Weft evaluates it whenever rows arrive, and delivers an answer "
        "each time it holds. Rows that differ only in ts count once, and rows with a NULL in any column do not count."
    )


def _as_view(grouped: Relation, context: Context, *, nested: bool) -> str:
    """Return the hint to create a view over tracked tables.  How to read the view depends on whether it uses NOW()."""
    if nested or context.text is None or context.other() is not None:
        return f"{NOT_TODAY} {_ROWS}"
    inner = grouped.input if isinstance(grouped, Select) else grouped
    timely = any(True for _ in thresholds(grouped))
    if timely or (isinstance(inner, Grouped) and inner.window is not None):
        over = "NOW()" if timely else "a moving window"
        return (
            f"Create a view and read it when you need it: {viewed(context.text)}, then "
            'weft try "SELECT * FROM NAME". A standing query over the view is not supported today, because the view '
            f"aggregates over {over}."
        )
    reader = installed("SELECT * FROM NAME", name="NAME2")
    return f"Create a view and install a query over it: {viewed(context.text)}, then {reader}."


def _greatest(select: exp.Select) -> str | None:
    """Rewrite MIN or MAX of one column of one table as NOT EXISTS: a query for the row with that value."""
    table, having = single_table(select), select.args.get("having")
    group = select.args.get("group")
    keys = [] if group is None else group.expressions
    parts = [*select.expressions, *(() if having is None else (having.this,))]
    aggregates = [
        each
        for part in parts
        for each in part.find_all(exp.Anonymous)
        if each.name.lower() in AGGREGATES | MEASURES.keys()
    ]
    aliases = {each.alias.lower() for each in select.expressions if each.alias}
    if table is None or not aggregates or any(each != aggregates[0] for each in aggregates):
        return None
    name, arguments = aggregates[0].name.lower(), aggregates[0].expressions
    others = [] if having is None else [each.name.lower() for each in having.find_all(exp.Column)]
    plain = len(arguments) == 1 and all(isinstance(each, exp.Column) for each in (*arguments, *keys))
    if name not in ("min", "max") or not plain or aliases & set(others) or any(each.find(exp.Query) for each in parts):
        return None
    best, groups = quoted(arguments[0].name), [quoted(each.name) for each in keys]
    sign, words = (">", ("greatest", "greater")) if name == "max" else ("<", ("least", "lesser"))
    listed = ", ".join(_of_row(each, aggregates[0]) for each in select.expressions)
    test = f"{_of_row(having.this, aggregates[0])} AND " if having is not None else ""
    text = (
        f"SELECT {listed} FROM {table} AS t WHERE {where_of(select, 't')}{test}{known((*groups, best), 't')}NOT EXISTS "
        f"(SELECT 1 FROM {table} AS o WHERE {where_of(select, 'o')}{same(groups, 'o', 't')}o.{best} {sign} t.{best})"
    )
    omitted = [each for each in dict.fromkeys((*groups, best)) if each.lower() != "ts"]
    omission = f" This omits rows with a NULL in {' or '.join(omitted)}." if omitted else ""
    return f"For the {words[0]} value, ask for the row without a {words[1]} one: {installed(text)}.{omission}"


def _of_row(part: exp.Expr, measure: exp.Anonymous) -> str:
    """Rewrite an expression over groups for the row ``t`` with the group's least or greatest value."""
    expression = exp.paren(part.copy()) if isinstance(part, exp.Or) else part.copy()
    holder = exp.Tuple(expressions=[expression])
    for each in list(holder.find_all(exp.Anonymous)):
        if each == measure:
            each.replace(each.expressions[0].copy())
    return of_alias(holder.expressions[0], "t").sql("spark")
