"""Translate WITH RECURSIVE: ``WITH RECURSIVE t AS (first rows UNION [ALL] step)``, where the step reads ``t`` once.

The step must be linear and monotone: each of its rows follows from one row of ``t`` and from rows of other tables, and
a further row of ``t`` never removes a row.  The rows of a round then follow from the rows of the last round alone
(``derivation.recursion``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from sqlglot import exp

from weft.algebra import relation as relational
from weft.algebra.schema import NULL, Column
from weft.errors import Reasons, SqlError
from weft.sql.lower.aggregate import has_aggregate
from weft.sql.lower.refusal import only, place, refuse
from weft.sql.lower.scope import CommonTable, Scope

Rows: TypeAlias = Callable[[exp.Expr, Scope, str, Sequence[str]], relational.Source]
"""The type of ``lower.lower_rows``.  The function is passed as an argument to avoid a circular import."""
_PARTS: Final = (
    ("order", "ORDER BY"),
    ("group", "GROUP BY"),
    ("having", "HAVING"),
    ("limit", "LIMIT"),
    ("offset", "OFFSET"),
    ("qualify", "QUALIFY"),
)


def names_itself(cte: exp.CTE) -> bool:
    """Return whether the query of a common table expression reads the expression itself."""
    return any(True for _ in _references(cte.this, cte.alias))


def _references(node: exp.Expr, name: str) -> Iterator[exp.Table]:
    tables = (part for part in node.walk() if isinstance(part, exp.Table) and not part.args.get("db"))
    return (table for table in tables if table.name.lower() == name.lower())


def lower_recursive(shared: CommonTable, node: exp.Table, scope: Scope, rows: Rows) -> relational.Recursive:
    """Translate a common table expression that reads itself.  ``node`` is the place where a query reads it.

    Raise SqlError if the recursion is not linear or not monotone.
    """
    union, name = shared.query, node.name
    if scope.context.view:
        hint = "Install the statement as a standing query, which supports it."
        reason = "a refresh of a view computes what the changes of tables change in one step, but a recursion has many"
        raise refuse("WITH RECURSIVE", union, reason, hint)
    shape = f"Write WITH RECURSIVE {name} AS (SELECT … UNION ALL SELECT … FROM {name} JOIN …)."
    if not isinstance(union, exp.Union):
        reason = "a recursion is a UNION or UNION ALL of first rows and a step"
        raise refuse(f"{name} in its own query", union, reason, shape)
    reasons = Reasons()
    with reasons.part():
        _refuse_parts(union, name)
        only(union, "this", "expression", "distinct")
    for reference in _references(union.this, name):
        reason = "the part before UNION gives the first rows, and must not read the recursion"
        reasons.add(
            refuse(f"{name} before UNION", reference, reason, f"{shape} A step has one SELECT that reads {name}.")
        )
    distinct = union.args.get("distinct") is not False
    for reference in _references(union.expression, name):
        with reasons.part():
            _check_place(reference, union, name, distinct=distinct)
    reasons.check()
    inside = shared.scope.inner(lateral=False)
    inside.side = scope.side
    seed = rows(union.this, inside, name, shared.columns)
    columns = _columns(seed, union, name)
    around = shared.scope.inner(lateral=False)
    around.side = scope.side
    around.shared[name.lower()] = CommonTable(union, (), shared.scope, recurrence=columns)
    step = rows(union.expression, around.inner(lateral=False), name, ())
    _check_types(columns, step, union, name)
    if _reads(step, union, name) != 1:
        raise _not_linear(union, name)
    return relational.Recursive(name, scope.fresh(node.alias or name), seed, step, not distinct)


def _refuse_parts(node: exp.Expr, name: str) -> None:
    found = next((word for key, word in _PARTS if node.args.get(key)), None)
    if found is not None:
        reason = "a round sees only the rows of the last round, so the result would not be that of all rows"
        hint = f"Write the recursion without it, and read the recursion in a SELECT that has it: FROM {name} …."
        raise refuse(f"{found} over {name} within its recursion", node, reason, hint)


def recurrence(columns: tuple[Column, ...], node: exp.Table, scope: Scope) -> relational.Recurrence:
    """Return the rows of the last round as an item of FROM."""
    return relational.Recurrence(node.name, scope.fresh(node.alias or node.name), columns)


def _columns(seed: relational.Source, union: exp.Union, name: str) -> tuple[Column, ...]:
    refs = relational.attributes(seed)
    for ref in refs:
        if ref.type == NULL:
            reason = "the first rows give the columns of a recursion their types"
            raise refuse(f"a column of NULLs ({ref.column})", union, reason, "Write CAST(NULL AS …).")
    return tuple(Column(number, ref.column, ref.type) for number, ref in enumerate(refs, 1))


def _check_types(columns: tuple[Column, ...], step: relational.Source, union: exp.Union, name: str) -> None:
    """As in Spark, the first rows give the columns their types, and the step must have the same types."""
    refs = relational.attributes(step)
    if len(refs) != len(columns):
        hint = "Select the same number of columns on both sides."
        message = f"the first rows of {name} have {len(columns)} columns, but the step has {len(refs)}"
        raise SqlError(message, where=place(union), hint=hint)
    for column, ref in zip(columns, refs, strict=True):
        if column.type != ref.type or column.type.shape != ref.type.shape:
            raise SqlError(
                f"the column {column.name!r} of {name} is {column.type} in the first rows, but {ref.type} in the step",
                where=place(union.expression),
                hint=f"Write CAST(… AS {column.type}) in the step, or CAST(… AS {ref.type}) before UNION.",
            )


def _check_place(reference: exp.Table, union: exp.Union, name: str, *, distinct: bool) -> None:
    """Raise SqlError unless the reference is an item of FROM in a SELECT without aggregates, windows and limits."""
    below: exp.Expr = reference
    while below.parent is not None and below is not union.expression:
        node = below.parent
        match node:
            case exp.Select():
                _check_select(node, below, reference, name, distinct=distinct)
            case exp.Join() if _side(node) in ("LEFT", "FULL") or _kind(node) in ("SEMI", "ANTI"):
                raise _in_join(node, reference, name)
            case exp.Union() if distinct or node.args.get("distinct") is False:
                _refuse_parts(node, name)
            case exp.SetOperation():
                reason = "a further row of the recursion could remove rows, or the rows of one round would be merged"
                hint = f"Write a condition: FROM {name} JOIN … WHERE [NOT] EXISTS (SELECT … FROM another table)."
                raise refuse(f"{name} in {node.key.upper()}", reference, reason, hint)
            case exp.From() | exp.Join():
                pass
            case exp.Subquery() if isinstance(node.parent, (exp.From, exp.Join, exp.SetOperation)):
                _refuse_parts(node, name)
            case _:
                raise _in_subquery(reference, name)
        below = node


def _in_subquery(reference: exp.Table, name: str) -> SqlError:
    reason = "a recursion may be read only in the FROM of its step"
    hint = (
        f"Join the recursion: FROM msgs m JOIN {name} ON m.parent = {name}.id. For rows that it does not have, write "
        f"NOT EXISTS (SELECT … FROM {name} …) in the SELECT after WITH."
    )
    return refuse(f"{name} in a subquery", reference, reason, hint)


def _side(join: exp.Join) -> str:
    return str(join.args.get("side") or "").upper()


def _kind(join: exp.Join) -> str:
    return str(join.args.get("kind") or "").upper()


def _check_select(select: exp.Select, below: exp.Expr, reference: exp.Table, name: str, *, distinct: bool) -> None:
    _refuse_parts(select, name)
    above = f"Aggregate above the recursion: SELECT … FROM {name} GROUP BY …, after WITH."
    reason = "a round sees only the rows of the last round, so the result would not be that of all rows"
    for item in select.expressions:
        if has_aggregate(item):
            raise refuse(f"an aggregate over {name} within its recursion", reference, reason, above)
        if any(isinstance(part, exp.Window) for part in _own(item)):
            raise refuse(f"a window function over {name} within its recursion", reference, reason, above)
    if select.args.get("distinct") is not None and not distinct:
        hint = "Write UNION instead of UNION ALL, which keeps each row once."
        raise refuse(f"SELECT DISTINCT over {name} within its recursion", reference, "UNION ALL keeps duplicates", hint)
    joins = select.args.get("joins") or []
    position = joins.index(below) + 1 if isinstance(below, exp.Join) and below in joins else 0
    for join in joins[position:]:
        if _side(join) in ("RIGHT", "FULL"):
            raise _in_join(join, reference, name)


def _own(item: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the parts of an expression outside its subqueries."""
    return item.walk(prune=lambda part: isinstance(part, exp.Query))


def _in_join(join: exp.Join, reference: exp.Table, name: str) -> SqlError:
    words = " ".join(word for word in (_side(join), _kind(join), "JOIN") if word)
    if _kind(join) in ("SEMI", "ANTI"):
        reason = "a recursion may be read only in the FROM of its step"
    else:
        reason = "a further row of the recursion could remove a row with NULLs"
    hint = f"Write JOIN, or FROM {name} LEFT JOIN the other table."
    return refuse(f"{name} on the inner side of {words}", reference, reason, hint)


def _not_linear(union: exp.Union, name: str) -> SqlError:
    reason = f"each SELECT of the step must read {name} exactly once, so that a round joins only new rows"
    hint = f"Write {name} once, and extend its rows by one step: FROM {name} JOIN edges e ON e.source = {name}.target."
    return refuse(f"a step that is not linear in {name}", union.expression, reason, hint)


def _reads(relation: relational.Relation, union: exp.Union, name: str) -> int:
    """Return how often each row of a relation reads the last round."""
    match relation:
        case relational.Recurrence():
            return 1
        case relational.Join(inputs=inputs):
            return sum(_reads(part, union, name) for part in inputs)
        case relational.Select(input=inner) | relational.Project(input=inner) | relational.Distinct(input=inner):
            return _reads(inner, union, name)
        case relational.Union(inputs=inputs):
            counts = {_reads(part, union, name) for part in inputs}
            if len(counts) > 1:
                raise _not_linear(union, name)
            return counts.pop()
        case relational.Materialized(input=inner) if _reads(inner, union, name):
            raise _not_linear(union, name)
        case _:
            return 0
