"""Translate LEFT JOIN … WHERE partner IS NULL into LEFT ANTI JOIN, which returns the rows without a partner.

    SELECT a.id FROM a LEFT JOIN b ON b.k = a.id WHERE b.k IS NULL
    SELECT a.id FROM a LEFT ANTI JOIN b ON b.k = a.id

The two queries are equivalent if the tested column is never NULL in a matching row.  A column is never NULL in a
matching row if ON compares the column or tests it for NOT NULL.  The module refuses tests of other columns, because the
query may also return matching rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from weft.errors import SqlError
from weft.sql.refusal import refuse

_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def with_anti_joins(select: exp.Select) -> None:
    """Replace each LEFT JOIN in place by LEFT ANTI JOIN if WHERE tests that the partner is absent.

    Other LEFT JOINs remain unchanged.  Raise SqlError if the tested column can be NULL in a matching row, or if the
    query uses another column of the partner.
    """
    for join in select.args.get("joins") or ():
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
        if side != "LEFT" or kind not in ("", "OUTER") or join.args.get("method"):
            continue
        alias = join.this.alias_or_name.lower()
        tests = [part for part in _demanded(select) if _tested(part, alias) is not None]
        if not tests:
            continue
        present = set(_present(join, alias))
        if not any(_tested(test, alias) in present for test in tests):
            raise _unsure(join, tests[0], alias, present)
        _nothing_else(select, join, tests, alias)
        join.set("kind", "ANTI")
        _without(select, tests)


def _demanded(select: exp.Select) -> list[exp.Expr]:
    where = select.args.get("where")
    return [] if where is None else list(_conjuncts(where.this))


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node.unnest(), exp.And):
        yield from _conjuncts(node.unnest().this)
        yield from _conjuncts(node.unnest().expression)
    else:
        yield node


def _own(node: exp.Expr | None, alias: str) -> str | None:
    bare = None if node is None else node.unnest()
    return bare.name.lower() if isinstance(bare, exp.Column) and bare.table.lower() == alias else None


def _tested(node: exp.Expr, alias: str) -> str | None:
    bare = node.unnest()
    return _own(bare.this, alias) if isinstance(bare, exp.Is) and isinstance(bare.expression, exp.Null) else None


def _present(join: exp.Join, alias: str) -> Iterator[str]:
    """Yield those columns of the table ``alias`` that are not NULL in any matching row."""
    for column in join.args.get("using") or ():
        yield column.name.lower()
    on = join.args.get("on")
    for part in () if on is None else _conjuncts(on):
        bare = part.unnest()
        names: list[str | None] = []
        if isinstance(bare, _COMPARISONS):
            names = [_own(bare.this, alias), _own(bare.expression, alias)]
        elif isinstance(bare, exp.Not):
            names = [_tested(bare.this, alias)]
        yield from (name for name in names if name is not None)


def _unsure(join: exp.Join, test: exp.Expr, alias: str, present: set[str]) -> SqlError:
    sure = min(present, default=None)
    column = _tested(test, alias)
    hint = f"Test the column that ON compares, {alias}.{sure} IS NULL, or write" if sure else "Write"
    on = join.args["on"].sql("spark") if join.args.get("on") is not None else "…"
    return refuse(
        f"LEFT JOIN with {alias}.{column} IS NULL",
        test,
        f"{alias}.{column} may be NULL in a matching row, so the test does not identify rows without a partner",
        f"{hint} NOT EXISTS (SELECT 1 FROM {join.this.sql('spark')} WHERE {on}).",
    )


def _nothing_else(select: exp.Select, join: exp.Join, tests: list[exp.Expr], alias: str) -> None:
    for item in select.expressions:
        if isinstance(item, exp.Star):
            reason = f"all columns of {alias} are NULL in a row without a partner"
            hint = f"Select the columns of the other tables, not those of {alias}."
            raise refuse("* beside LEFT JOIN … IS NULL", item, reason, hint)
    inside = {id(part) for node in (join, *tests) for part in node.walk()}
    for column in select.find_all(exp.Column):
        if column.table.lower() != alias or id(column) in inside or _hidden(column, select, alias):
            continue
        raise refuse(
            f"{alias}.{column.name} beside LEFT JOIN … IS NULL",
            column,
            f"the column is NULL in every row that has no partner in {alias}",
            "Remove the column.",
        )


def _hidden(column: exp.Column, select: exp.Select, alias: str) -> bool:
    around = column.find_ancestor(exp.Select)
    while around is not None and around is not select:
        sources = [around.args.get("from_"), *(around.args.get("joins") or ())]
        if any(each is not None and each.this.alias_or_name.lower() == alias for each in sources):
            return True
        around = around.find_ancestor(exp.Select)
    return False


def _without(select: exp.Select, tests: list[exp.Expr]) -> None:
    gone = {id(test) for test in tests}
    remaining = [part for part in _demanded(select) if id(part) not in gone]
    if not remaining:
        select.set("where", None)
        return
    first, *others = remaining
    for part in others:
        first = exp.And(this=first, expression=part)
    select.args["where"].set("this", first)
