"""Translate subqueries that stand for one value, and comparisons with ANY and ALL of a subquery.

    WHERE (SELECT COUNT(*) FROM replies r WHERE r.ref = m.id) > 5

The subquery becomes a source beside FROM, with one row for each outer row.  Aggregates of no rows have a row, too
(``decorrelate``).  Any other subquery without a row gets a row with NULL.

    x > ANY (SELECT y …)    is true   iff  some y:  x > y
    x > ANY (SELECT y …)    is false  iff  no y:    (x > y) IS NOT FALSE
    x > ALL (SELECT y …)    is the negation of x <= ANY (SELECT y …)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from weft.algebra import relation as relational
from weft.algebra.relation import (
    Distinct,
    Exists,
    Grouped,
    Measure,
    NotExists,
    Output,
    Plain,
    Predicate,
    Project,
    Select,
    Union,
)
from weft.algebra.scalar import NEGATED, Call, Cast, ColumnRef, Literal, Scalar, call, mentions_now
from weft.algebra.schema import BOOLEAN, NULL
from weft.algebra.traverse import substitute
from weft.errors import SqlError
from weft.sql.lower.aggregate import has_aggregate
from weft.sql.lower.conversion import comparable
from weft.sql.lower.decorrelate import one_row, with_outer_groups
from weft.sql.lower.intervals import as_interval, as_stored
from weft.sql.lower.refusal import only, place, refuse
from weft.sql.lower.scope import Scope
from weft.sql.lower.single_rows import at_most_one

_TRUE: Final = Literal(True, BOOLEAN, fixed=True)
_FALSE: Final = Literal(False, BOOLEAN, fixed=True)


def lower_value(node: exp.Expr, scope: Scope) -> Scalar:
    """Return the column of a subquery that stands for a value, and add the subquery to the sources of ``scope``.

    Raise SqlError if the subquery has several columns, or may have several rows at some instant.
    """
    return _once(node, scope, _value)


def lower_existence(query: exp.Expr, scope: Scope) -> Scalar:
    """Return the BOOLEAN column of EXISTS that stands for a value, and add its row to the sources of ``scope``."""
    return _once(query, scope, _existence)


def lower_membership(node: exp.In, scope: Scope, lower: Callable[[exp.Expr, Scope], Scalar]) -> Scalar:
    """Return the BOOLEAN column of ``x IN (SELECT …)`` that stands for a value, and add its row to the sources of
    ``scope``.

    ``lower`` translates ``x``.  Raise SqlError if the subquery has several columns.
    """
    return _once(node, scope, lambda _, around: _membership(node, around, lower))


def grouped_condition(node: exp.Expr, scope: Scope) -> Scalar | None:
    """Return the column of the query of EXISTS, or of an IN, if GROUP BY has the same condition, otherwise None."""
    return None if scope.known is None or scope.grouping is None else scope.known.get(_text(node, exists=True))


def _text(node: exp.Expr, *, exists: bool) -> str:
    return f"{'EXISTS ' if exists and not isinstance(node, exp.In) else ''}{node.unnest().sql('spark')}"  # without AS


def _once(node: exp.Expr, scope: Scope, lower: Callable[[exp.Expr, Scope], Scalar]) -> Scalar:
    """A subquery in the select list or in HAVING has the column of an equal subquery in GROUP BY."""
    if scope.known is None:
        return lower(node, scope)
    text = _text(node, exists=lower is _existence)
    if (known := scope.known.get(text)) is not None:
        return known
    value = lower(node, scope)
    if scope.grouping is None:
        scope.known[text] = value
    return value


def _value(node: exp.Expr, scope: Scope) -> Scalar:
    query = node.unnest() if isinstance(node, exp.Subquery) else node
    if scope.values is None or scope.context.view:
        reason = "views do not support it" if scope.context.view else "a subquery cannot stand here"
        raise refuse("a subquery used as a value", node, reason, "Join with the query in FROM: (SELECT …) AS d.")
    rows, columns = scope.context.subquery(node, scope)
    if len(columns) != 1:
        message = f"a subquery used as a value has one column, not {len(columns)}"
        raise SqlError(message, where=place(query), hint="Select one column.")
    if not _at_most_one(rows, query):
        hint = "Select an aggregate, such as MAX(x), add ORDER BY … LIMIT 1, or compare all columns of a key by =."
        raise refuse("a subquery that may have several rows", query, "a value is one row", hint)
    assert not isinstance(rows, (relational.Join, Select))
    single = _exactly_one(rows, query)
    if isinstance(rows, Distinct) and isinstance(rows.input, Project):
        rows, single = _greatest(rows.input, scope, query), True
    source = _flat(rows, scope) if single else _padded(rows, scope)
    scope.values.append(source)
    return as_interval(relational.attributes(source)[0])


def _existence(query: exp.Expr, scope: Scope) -> Scalar:
    _require_place("EXISTS", query, scope)
    body = scope.context.body(query, scope)
    return chosen(((Exists(body), _TRUE), (NotExists(body), _FALSE)), scope)


def _membership(node: exp.In, scope: Scope, lower: Callable[[exp.Expr, Scope], Scalar]) -> Scalar:
    """The value is NULL if no row has ``x`` and the comparison with some row is unknown."""
    _require_place("IN (SELECT …)", node, scope)
    only(node, "this", "query")
    if isinstance(node.this, exp.Tuple):
        hint = "Write EXISTS with a comparison for each column."
        raise refuse("IN with several columns used as a value", node, "it must be a condition of WHERE or ON", hint)
    value = lower(node.this, scope)
    body, columns = scope.context.subquery(node.args["query"], scope)
    if len(columns) != 1:
        raise SqlError("the subquery of IN must have one column", where=place(node.args["query"]))
    if mentions_now(value):
        raise refuse("NOW() compared by IN (SELECT …)", node, "IN does not support NOW()", "Write EXISTS with =.")
    left, right = comparable(value, columns[0], node)
    equal, missing = Select(body, Plain(call("=", left, right))), Select(body, Plain(call("is null", right)))
    unknown = relational.disjunction(
        relational.FALSE if _never_null(body) else scope.copy_of(Exists(missing)),
        relational.conjunction(Plain(call("is null", left)), scope.copy_of(Exists(body))),
    )
    neither = relational.conjunction(NotExists(equal), unknown)
    nothing = Cast(Literal(None, NULL, fixed=True), BOOLEAN)
    return chosen(((Exists(equal), _TRUE), (not_in(left, right, body, scope), _FALSE), (neither, nothing)), scope)


def _require_place(what: str, node: exp.Expr, scope: Scope) -> None:
    if scope.values is None or scope.context.view:
        reason = "this ON takes it only as a condition of its own, not inside an expression"
        if scope.context.view:
            reason = "views do not support it"
        elif isinstance(node.find_ancestor(exp.Values, exp.Join), exp.Values):
            reason = "VALUES takes no subqueries"
        derived = "Put it into a derived table: FROM (SELECT …, EXISTS (…) AS found FROM t) AS d."
        raise refuse(f"{what} used as a value", node, reason, None if scope.context.view else derived)


def chosen(cases: Sequence[tuple[Predicate, Scalar]], scope: Scope) -> Scalar:
    """Return the value of the case whose condition is true, as the column of a source of ``scope``.

    At each instant, the condition of one case is true.
    """
    assert scope.values is not None
    parts = []
    for number, (truth, value) in enumerate(cases):
        row = Select(one_row(scope.fresh("value")), scope.copy_of(truth) if number else truth)
        parts.append(Project(row, scope.fresh("value"), (Output("found", as_stored(value)),)))
    union = Union(scope.fresh("value"), tuple(parts))
    scope.context.names.unions.add(union.alias)
    scope.values.append(union)
    return as_interval(relational.attributes(union)[0])


def with_values(relation: relational.Relation, scope: Scope) -> relational.Relation:
    """Return ``relation`` beside the subqueries that stand for values, and forget the subqueries."""
    values, scope.values = scope.values, []
    return relational.Join((relation, *values)) if values else relation


def _at_most_one(rows: relational.Relation, query: exp.Expr) -> bool:
    limit = query.args.get("limit")
    if isinstance(limit, exp.Limit) and limit.expression.name in ("0", "1"):
        return True
    return _is_aggregated(rows, query) or at_most_one(rows)


def _aggregates(query: exp.Expr) -> bool:
    """Return whether the text has aggregates and no GROUP BY.  It then has one row, before HAVING."""
    is_select = isinstance(query, exp.Select) and not query.args.get("group")
    return is_select and any(map(has_aggregate, query.expressions))


def _is_aggregated(rows: relational.Relation, query: exp.Expr) -> bool:
    """Return whether the rows are those of an aggregate without GROUP BY.

    The translation of a correlated aggregate has groups, or is a union with the aggregate of no rows.
    """
    match rows:
        case Project(input=inner) | Select(input=inner) | Distinct(input=inner):
            return _is_aggregated(inner, query)
        case Grouped(groups=()):
            return True
        case Grouped() | Union():
            return _aggregates(query)
        case _:
            return False


def _exactly_one(rows: relational.Relation, query: exp.Expr) -> bool:
    if not isinstance(rows, Project):
        return False
    inner = rows.input
    return (isinstance(inner, Grouped) and not inner.groups) or (
        isinstance(inner, (Grouped, Union)) and _aggregates(query)
    )


def _greatest(rows: Project, scope: Scope, query: exp.Expr) -> Project:
    """Return the only value of ``rows``, which may be in several rows, as an aggregate."""
    (output,) = rows.outputs
    ref = ColumnRef(scope.fresh("grouped"), output.name, output.value.type)
    grouped = Grouped(rows.input, ref.scan, (), (Measure("max", output.value, ref),))
    return with_outer_groups(Project(grouped, scope.fresh(rows.alias), (Output(output.name, ref),)), scope.fresh, query)


def _flat(rows: relational.Source, scope: Scope) -> relational.Source:
    """Return a projection of a union as a union of projections, so that a condition can exclude parts of it."""
    if not isinstance(rows, Project) or not isinstance(rows.input, Union):
        return rows
    parts = []
    for part in rows.input.inputs:
        assert isinstance(part, Project)
        columns = relational.attributes(rows.input)
        meaning = {ref: output.value for ref, output in zip(columns, part.outputs, strict=True)}
        outputs = tuple(Output(each.name, substitute(each.value, meaning)) for each in rows.outputs)
        parts.append(Project(part.input, part.alias, outputs))
    scope.context.names.unions.add(rows.alias)
    return Union(rows.alias, tuple(parts))


def _padded(rows: relational.Source, scope: Scope) -> Union:
    """Return the row of ``rows``, or a row with NULL while there is none."""
    (ref,) = relational.attributes(rows)
    values = Project(rows, scope.fresh("value"), (Output(ref.column, ref),))
    missing = Select(one_row(scope.fresh("value")), NotExists(scope.copy_of(rows)))
    null = Cast(Literal(None, NULL, fixed=True), ref.type)
    padding = Project(missing, scope.fresh("value"), (Output(ref.column, null),))
    alias = scope.fresh("value")
    scope.context.names.unions.add(alias)
    return Union(alias, (values, padding))


def lower_quantified(operator: str, value: Scalar, node: exp.Any | exp.All, positive: bool, scope: Scope) -> Predicate:
    """Return the predicate "value operator ANY or ALL (…) is true", or "is false" if ``positive`` is False."""
    if isinstance(node, exp.All):
        if operator not in NEGATED:
            raise refuse(f"{operator} ALL", node, "it has no negation")
        operator, positive = NEGATED[operator], not positive
    if mentions_now(value):
        raise refuse("NOW() compared with ANY or ALL", node, "write EXISTS with the comparison inside")
    body, columns = scope.context.subquery(node.this, scope)
    if len(columns) != 1:
        raise SqlError("the subquery of ANY or ALL must have one column", where=place(node))
    left, right = comparable(value, columns[0], node)
    compared: Scalar = Call(operator, (left, right), BOOLEAN)
    if positive:
        return Exists(Select(body, Plain(compared)))
    unknown = (call("is null", left), call("is null", right))
    return NotExists(Select(body, Plain(call("or", compared, *unknown))))


def not_in(left: Scalar, right: Scalar, body: relational.Relation, scope: Scope) -> Predicate:
    """Return the conjunction for "x IN (SELECT y …) is false" (``predicate``).

    The first part is an equality, which a lookup can evaluate.  A nested NOT IN is not split, to limit the text's size.
    """
    equal, unknown = call("=", left, right), call("is null", right)
    missing = [] if _never_null(body) else [unknown]
    never_null = left in scope.starts()
    if scope.copied:
        anything = call("or", equal, *missing, *([] if never_null else [call("is null", left)]))
        return NotExists(Select(body, Plain(anything if len(anything.args) > 1 else equal)))
    parts: list[Predicate] = [NotExists(Select(body, Plain(equal)))]
    parts += [NotExists(Select(body, Plain(each))) for each in missing]
    if not never_null:
        parts.append(relational.disjunction(Plain(call("is not null", left)), NotExists(body)))
    return relational.conjunction(parts[0], *(scope.copy_of(part) for part in parts[1:]))


def _never_null(body: relational.Relation) -> bool:
    """Return whether the only column of a subquery is never NULL.

    The column is never NULL if it holds the start time of each row, or if WHERE tests it.
    """
    match body:
        case Distinct(input=inner):
            return _never_null(inner)
        case Union(inputs=inputs):
            return all(_never_null(part) for part in inputs)
        case Project(input=inner, outputs=(Output(value=value),)):
            starts = [source.start for source in relational.sources(inner) if isinstance(source, relational.Scan)]
            required = (call("not", call("is null", value)), call("is not null", value))
            conditions = [
                item.condition for item in relational.conjuncts(relational.condition(inner)) if isinstance(item, Plain)
            ]
            return value in starts or any(each in conditions for each in required)
        case _:
            return False
