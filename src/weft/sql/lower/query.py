"""Translate a syntax tree into algebra.  SELECT, UNION, INTERSECT, EXCEPT, VALUES and WITH become a relation.

    A INTERSECT B   the rows of A that are also in B:   A where EXISTS (B = A, null-safe)
    A EXCEPT B      the rows of A that are not in B:    A where NOT EXISTS (B = A, null-safe)

``lower_from`` translates FROM, ``lower_predicate`` translates conditions, and ``lower_scalar`` translates scalars.

The module limits the size of a query, because every part of a query enlarges all derived queries.  The limits are far
above practical needs.  The limits ensure that an explanation takes seconds at most, and protect Spark from texts of
several megabytes (design section 8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from sqlglot import exp

from weft.algebra import relation as relational
from weft.algebra.scalar import Case, Cast, ColumnRef, Literal, Scalar, call, children, mentions_now
from weft.algebra.schema import BOOLEAN, MONTHS, NULL, VALID_FROM, VALID_TO, DataType, TableSchema
from weft.algebra.traverse import mentioned, scalars, scans, turn_count, walk
from weft.errors import Reasons, SqlError, of_each
from weft.sql.functions import common
from weft.sql.lower.aggregate import has_aggregate
from weft.sql.lower.calls import mentions_period
from weft.sql.lower.decorrelate import with_outer_groups
from weft.sql.lower.excluded_parts import decided
from weft.sql.lower.from_clause import bare_values, lower_from, lower_values, named, plain_name, stars
from weft.sql.lower.group import is_grouped, lower_grouped
from weft.sql.lower.limit import Limit, limit_of, rows_within, with_limit
from weft.sql.lower.nested import as_column, field_name
from weft.sql.lower.now_conditions import now_cases
from weft.sql.lower.ordering import at_the_end, lower_order
from weft.sql.lower.outer import joined, narrowed
from weft.sql.lower.parse import parse
from weft.sql.lower.pivots import UNPIVOT
from weft.sql.lower.predicate import lower_predicate
from weft.sql.lower.recursive import names_itself
from weft.sql.lower.refusal import only, place, refuse
from weft.sql.lower.rewriting import NOT_TODAY
from weft.sql.lower.scalar import lower_scalar
from weft.sql.lower.scope import CommonTable, Context, Names, Scope, Windows
from weft.sql.lower.time_windows import with_time_window
from weft.sql.lower.unnest import exploded
from weft.sql.lower.value import chosen, with_values
from weft.sql.lower.windowed import windowed, with_copies_numbered

_ANSWER: Final = "answer"


def bind(text: str, tables: Mapping[str, TableSchema]) -> relational.Query:
    """Translate the text of a standing query.  ``tables`` maps names to tables.

    Raise SqlError for a construct outside the language.  The error names the construct, the place and the reason.
    """
    return _bound(text, tables, view=False)


def bind_view(text: str, tables: Mapping[str, TableSchema]) -> relational.Query:
    """Translate the text of a temporal view.  ``tables`` maps names to tracked tables and other views.

    A view may also use period functions, NOW anywhere in a condition, intervals of months and years, and GROUP BY.
    ``derivation.temporal.sequenced`` defines the meaning of a view over time.  Raise SqlError in the same cases as
    ``bind``.
    """
    return _bound(text, tables, view=True)


def _bound(text: str, tables: Mapping[str, TableSchema], *, view: bool) -> relational.Query:
    try:
        query = lower_query(parse(text), tables, view=view, text=text)
        within_limits(query)
    except RecursionError:
        raise SqlError("the query is nested too deeply", hint="Split the query into several queries.") from None
    return query


def lower_query(
    node: exp.Expr, tables: Mapping[str, TableSchema], *, view: bool = False, text: str | None = None
) -> relational.Query:
    """Translate the outermost query ``node``.

    ``text`` is the text of the query.  Hints in error messages quote modified versions of this text.
    """
    other = (lambda: None) if text is None else partial(_refused_otherwise, text, tables, view=not view)
    scope = Scope(Context(tables, Names(), _subquery, _body_only, view, text, other))
    order = None if view else node.args.get("order")
    relation: relational.Relation
    if isinstance(node, exp.Select):
        relation, outputs = _select(node, scope)
    else:
        relation = lower_rows(node, scope, _ANSWER)
        outputs = tuple(relational.Output(ref.column, ref) for ref in relational.attributes(relation))
    reasons = Reasons()
    with reasons.part():
        of_each(lambda output: _answerable(output, node, view=view), outputs)
    with reasons.part():
        if order is not None and limit_of(node, scope) is None:
            lower_order(order, node, [output.name for output in outputs])
    reasons.check()
    query = relational.Query(relation, outputs)
    # A view counts distinct rows: without a column, the rows of an outer join could be equal.
    counted = view and any(isinstance(part, relational.Grouped) for part in walk(query))
    return query if counted else narrowed(query, scope.context.names.unions)


def _refused_otherwise(text: str, tables: Mapping[str, TableSchema], *, view: bool) -> str | None:
    """Return None if the language accepts the text, otherwise a hint."""
    try:
        lower_query(parse(text), tables, view=view)
    except SqlError as error:
        return next((reason.hint for reason in (error.reasons or (error,)) if reason.hint), NOT_TODAY)
    return None


def _answerable(output: relational.Output, node: exp.Expr, *, view: bool) -> None:
    if view and output.name.lower() in (VALID_FROM, VALID_TO):
        reason = "views use this name for the periods of their rows"
        raise refuse(f"the column name {output.name!r}", node, reason, "Rename the column with AS.")
    if output.value.type in (MONTHS, NULL):
        kind = output.value.type
        months = "Select the number of months."
        hint = "Write CAST(NULL AS STRING), or cast to another type." if kind == NULL else months
        raise refuse(f"the column {output.name} of type {kind}", node, "this type cannot be stored", hint)


def lower_rows(node: exp.Expr, scope: Scope, alias: str, columns: Sequence[str] = ()) -> relational.Source:
    """Translate a query into a derived relation with the range variable ``alias``.

    ``columns`` are new names for the columns, or empty.
    """
    match node:
        case exp.Subquery():
            only(node, "this", "alias", "with_", *at_the_end(node, scope))
            _with(node, scope)
            return _within(
                node, lambda names: lower_rows(node.this, scope.inner(), alias, names), scope, alias, columns
            )
        case exp.Select() if (values := bare_values(node)) is not None:
            return lower_values(values, scope, alias, columns)
        case exp.Select():
            inner, outputs = _select(node, scope, columns)
            project = relational.Project(inner, scope.fresh(alias), outputs)
            once = node.args.get("distinct") is not None and limit_of(node, scope) is None
            return relational.Distinct(project) if once else project
        case exp.SetOperation():
            return _within(node, lambda names: _set_operation(node, scope, alias, names), scope, alias, columns)
        case exp.Values():
            return lower_values(node, scope, alias, columns)
        case _:
            kind = type(node).__name__.upper()
            raise refuse(f"{kind} as a query", node, "a query is SELECT, VALUES or a set operation")


def _within(
    node: exp.Expr,
    rows: Callable[[Sequence[str]], relational.Source],
    scope: Scope,
    alias: str,
    columns: Sequence[str],
) -> relational.Source:
    """Return the rows that ORDER BY and LIMIT leave.  ORDER BY does not see the new names ``columns``."""
    limit = limit_of(node, scope)
    if limit is None:
        return rows(columns)
    chosen, outputs = rows_within(limit, rows(()), node, scope)
    return relational.Project(chosen, scope.fresh(alias), _named(outputs, columns, node))


def _named(
    outputs: tuple[relational.Output, ...], columns: Sequence[str], node: exp.Expr
) -> tuple[relational.Output, ...]:
    if not columns:
        return outputs
    names = named(columns, len(outputs), node)
    return tuple(relational.Output(name, output.value) for name, output in zip(names, outputs, strict=True))


def _select(
    select: exp.Select, scope: Scope, columns: Sequence[str] = ()
) -> tuple[relational.Relation, tuple[relational.Output, ...]]:
    reasons = Reasons()
    inner: relational.Relation = relational.UNIT
    with reasons.part():
        inner = _from_and_where(select, scope)
    if not select.args.get("from_"):
        reasons.check()
    scope.values = []
    with reasons.part():
        inner = with_time_window(select, inner, scope)
    limit: Limit | None = None
    with reasons.part():
        limit = limit_of(select, scope)
    hidden = () if limit is None else limit.hidden(select)
    scope.windows = windows = None if scope.context.view else _windows(select, scope)
    outputs: tuple[relational.Output, ...] = ()
    with reasons.part():
        if is_grouped(select):
            inner, outputs = lower_grouped(select, inner, scope, _output, hidden)
        else:
            outputs = _outputs(select, scope, hidden)
    reasons.check()
    relation, count = joined(with_values(inner, scope), scope), len(outputs) - len(hidden)
    names = [output.name for output in outputs[:count]]  # ORDER BY does not see the new names
    outputs = (*_named(outputs[:count], columns, select), *outputs[count:])
    _without_duplicate_names(outputs[:count], select)
    outputs = tuple(relational.Output(output.name, joined(output.value, scope)) for output in outputs)
    if windows is not None:
        windows.change(lambda each: joined(each, scope))
        relation, outputs = windowed(relation, outputs, windows, scope)
    if limit is None:
        return relation, outputs
    return with_limit(limit, relation, outputs[:count], names, outputs[count:], select, scope)


def _windows(select: exp.Select, scope: Scope) -> Windows:
    definitions = {each.name.lower(): each for each in select.args.get("windows") or ()}
    return Windows(scope.context.names.made_up(), definitions)


def _from_and_where(select: exp.Select, scope: Scope) -> relational.Relation:
    reasons = Reasons()
    with reasons.part():
        _with(select, scope)
    with reasons.part():
        parts = ("expressions", "from_", "joins", "where", "distinct", "with_", "group", "having", "laterals")
        only(select, *parts, *at_the_end(select, scope))
    distinct = select.args.get("distinct")
    with reasons.part():
        if distinct is not None:
            only(distinct)
    if select.args.get("from_") is None:
        reasons.add(
            refuse(
                "SELECT without FROM",
                select,
                "it names no table",
                "For constants write SELECT * FROM (VALUES (1, 'a')) AS v(id, name).",
            )
        )
        reasons.check()
    relation: relational.Relation = relational.UNIT
    conditions: list[relational.Predicate] = []
    scope.values = []
    with reasons.part():
        relation, conditions = lower_from(select, scope, lower_rows)
    where = select.args.get("where")
    with reasons.part():
        if where is not None:
            _refuse_items(where, select, scope)
            conditions.append(lower_predicate(where.this, True, scope))
    reasons.check()
    predicate = relational.conjunction(*conditions)
    relation = with_values(relation, scope)
    whole = relation if predicate == relational.TRUE else relational.Select(relation, predicate)
    if scope.context.names.unions:
        whole = decided(joined(whole, scope), scope)
        scope.joined[whole] = whole
    return whole


def _refuse_items(where: exp.Expr, select: exp.Select, scope: Scope) -> None:
    """Raise SqlError if WHERE names an item of the select list, as other databases allow."""
    items = {each.alias.lower(): each.unalias() for each in select.expressions if isinstance(each, exp.Alias)}
    for part in where.walk(prune=lambda each: isinstance(each, exp.Query)):
        if not isinstance(part, exp.Column) or part.table or scope.refused or part.name.lower() not in items:
            continue
        if scope.visible(part):
            continue
        item = items[part.name.lower()]
        hint = f"Write {item.sql('spark')}."
        if has_aggregate(item):
            hint = f"Write the condition on {part.name} in HAVING, which chooses groups."
        elif item.find(exp.Window):
            hint = f"Write the condition on {part.name} in QUALIFY."
        raise SqlError(f"WHERE cannot use {part.name!r}, an item of the select list", where=place(part), hint=hint)


def _with(node: exp.Expr, scope: Scope) -> None:
    """Add the common table expressions of WITH to the scope.  An expression may refer to earlier expressions."""
    clause = node.args.get("with_")
    if clause is None:
        return
    reasons = Reasons()
    with reasons.part():
        only(clause, "expressions", "recursive")
    for cte in clause.expressions:
        alias = cte.args["alias"]
        name = alias.name.lower()
        inside = Scope(scope.context, scope.parent, shared=dict(scope.shared), lateral=False)
        shared = CommonTable(cte.this, tuple(name.name for name in alias.args.get("columns") or ()), inside)
        with reasons.part():
            only(cte, "this", "alias")
            only(alias, "this", "columns")
            plain_name(alias)
            if name in scope.shared:
                raise SqlError(f"WITH defines {alias.name!r} twice", where=place(cte), hint="Choose another name.")
        shared.recursive = bool(clause.args.get("recursive")) and names_itself(cte)
        shared.refused = bool(reasons)
        scope.shared[name] = shared
    reasons.check()


def _set_operation(node: exp.SetOperation, scope: Scope, alias: str, columns: Sequence[str]) -> relational.Source:
    all_rows = node.args.get("distinct") is False
    reasons = Reasons()
    with reasons.part():
        only(node, "this", "expression", "distinct", "with_", *at_the_end(node, scope))
    with reasons.part():
        _with(node, scope)
    if all_rows and not isinstance(node, exp.Union) and scope.context.view:
        reason, hint = "views do not support it", f"Write {node.key.upper()}, which returns each row once."
        reasons.add(refuse(f"{node.key.upper()} ALL", node, reason, hint))
    operand = alias if isinstance(node, exp.Union) else _ANSWER  # the text has no names for operands
    with reasons.part():
        left = lower_rows(node.this, scope.inner(), operand, columns)
    with reasons.part():
        inner = scope.inner()
        if not isinstance(node, exp.Union):
            inner.side = "right"
        right = lower_rows(node.expression, inner, operand)
    reasons.check()
    first, second = _alike(left, right, node, scope)
    if isinstance(node, exp.Union):
        union = relational.Union(scope.fresh(alias), (first, second))
        return union if all_rows else relational.Distinct(union)
    width = len(relational.attributes(first))
    if all_rows:
        first, second = with_copies_numbered(first, scope), with_copies_numbered(second, scope)
    pairs = zip(relational.attributes(second), relational.attributes(first), strict=True)
    same = relational.Select(second, relational.conjunction(*(relational.Plain(call("<=>", *pair)) for pair in pairs)))
    matching = relational.Select(
        first, relational.Exists(same) if isinstance(node, exp.Intersect) else relational.NotExists(same)
    )
    shown = relational.attributes(first)[:width]
    outputs = tuple(relational.Output(ref.column, ref) for ref in shown)
    project = relational.Project(matching, scope.fresh(alias), outputs)
    return project if all_rows else relational.Distinct(project)


def _alike(
    left: relational.Source, right: relational.Source, node: exp.Expr, scope: Scope
) -> tuple[relational.Source, relational.Source]:
    """Convert the columns of both sides of a set operation to common types."""
    one, other = relational.attributes(left), relational.attributes(right)
    if len(one) != len(other):
        raise SqlError(
            f"the two sides of {node.key.upper()} have {len(one)} and {len(other)} columns",
            where=place(node),
            hint="Select the same number of columns on both sides.",
        )
    types = []
    for a, b in zip(one, other, strict=True):
        try:
            types.append(common([a.type, b.type]))
        except TypeError:
            kinds = f"{a.type.declared} on one side and {b.type.declared} on the other"
            if node.meta.get(UNPIVOT):
                message = f"the columns of UNPIVOT have the types {a.type.declared} and {b.type.declared}"
                hint = "Convert them in a derived table: FROM (SELECT CAST(x AS STRING) AS x, … FROM t) UNPIVOT …"
                raise SqlError(message, where=place(node), hint=hint) from None
            raise SqlError(
                f"{node.key.upper()}: column {a.column!r} is {kinds}",
                where=place(node),
                hint="Convert one of the two columns: CAST(… AS …).",
            ) from None
    return _typed(left, types, scope), _typed(right, types, scope)


def _typed(relation: relational.Source, types: Sequence[DataType], scope: Scope) -> relational.Source:
    refs = relational.attributes(relation)
    if all(ref.type == type and ref.type.shape == type.shape for ref, type in zip(refs, types, strict=True)):
        return relation
    pairs = zip(refs, types, strict=True)
    values = (replace(ref, type=type) if ref.type == type else Cast(ref, type) for ref, type in pairs)
    outputs = tuple(relational.Output(ref.column, value) for ref, value in zip(refs, values, strict=True))
    return relational.Project(relation, scope.fresh(refs[0].scan), outputs)


def _outputs(select: exp.Select, scope: Scope, hidden: Sequence[exp.Expr]) -> tuple[relational.Output, ...]:
    """Return the select list, followed by the scalars of ``hidden``.  Translate QUALIFY, too."""
    if not select.expressions:
        raise refuse("SELECT without columns", select, "it selects nothing", "Write SELECT * FROM …")
    outputs: list[relational.Output] = []
    reasons = Reasons()
    for item in select.expressions:
        with reasons.part():
            several = stars(item, scope) or exploded(item, scope, lower_scalar)
            outputs += several or [_output(item, scope, len(outputs))]
    with reasons.part():
        outputs += of_each(lambda item: _output(item, scope, 0), hidden)
    with reasons.part():
        if scope.windows is not None and (qualify := select.args.get("qualify")) is not None:
            scope.windows.demanded = _qualify(qualify, select, scope)
    reasons.check()
    return tuple(outputs)


def _qualify(qualify: exp.Qualify, select: exp.Select, scope: Scope) -> relational.Predicate:
    """As in HAVING, the name of an item of the select list stands for the item, unless FROM has such a column."""
    only(qualify, "this")
    items = {each.alias.lower(): each.unalias() for each in select.expressions if isinstance(each, exp.Alias)}
    for part in list(qualify.walk(prune=lambda each: isinstance(each, exp.Query))):
        named = isinstance(part, exp.Column) and not part.table and part.name.lower() in items
        if named and scope.owners(part.name, part) is None:
            part.replace(exp.paren(items[part.name.lower()].copy()))
    return lower_predicate(qualify.this, True, scope)


def _without_duplicate_names(outputs: Sequence[relational.Output], select: exp.Select) -> None:
    names: set[str] = set()
    for output in outputs:
        if output.name.lower() in names:
            raise SqlError(
                f"two columns of the answer are named {output.name!r}",
                where=place(select),
                hint="Rename one of the two columns with AS.",
            )
        names.add(output.name.lower())


def _output(item: exp.Expr, scope: Scope, position: int) -> relational.Output:
    if isinstance(item, exp.Alias):
        plain_name(item)
    value = lower_scalar(item.unalias(), scope)
    if mentions_now(value):
        value = _chosen_by_now(value, item, scope)
    if mentions_period(value):
        raise refuse(
            "a period function in the select list",
            item,
            "a view returns the periods of its rows as valid_from and valid_to",
            "Use the period function in WHERE.",
        )
    called = isinstance(item.unalias(), (exp.Anonymous, exp.Any, exp.Filter))
    stored = as_column(value)
    column = stored.column if isinstance(stored, ColumnRef) and not called else ""
    name = item.alias if isinstance(item, exp.Alias) else column
    if name.startswith("_"):
        raise refuse(
            f"the column name {name!r}",
            item,
            "names that begin with _ are reserved for Weft",
            "Rename the column with AS.",
        )
    field = item.name if isinstance(item, exp.Dot) and not item.name.startswith("_") else field_name(value)
    return relational.Output(name or field or f"col{position + 1}", stored)


def _chosen_by_now(value: Scalar, item: exp.Expr, scope: Scope) -> Scalar:
    """Return a column with the value of a condition, or of CASE and similar expressions whose conditions have NOW.

    Raise SqlError if NOW occurs outside conditions.
    """
    error = refuse(
        "NOW() in the select list",
        item,
        "the answer would be a new row every microsecond",
        "Select the columns that the query compares with NOW(), or compare in CASE: CASE WHEN due < NOW() THEN "
        "'late' ELSE 'open' END. Weft delivers the first instant of each answer as _first_at.",
    )
    windows = "" if scope.windows is None else scope.windows.alias
    if scope.values is None or scope.context.view or any(ref.scan == windows for ref in mentioned(value)):
        raise error
    if value.type == BOOLEAN:
        found = (Literal(truth, BOOLEAN, fixed=True) for truth in (True, False))
        value = Case(tuple(zip((value, call("not", value)), found, strict=True)), None, BOOLEAN)
    cases = []
    for truth, (each,) in now_cases((value,), item, error):
        cases.append((truth, each if each.type == value.type else Cast(each, value.type)))
    return chosen(cases, scope)


def _subquery(node: exp.Expr, scope: Scope) -> tuple[relational.Relation, tuple[ColumnRef, ...]]:
    relation = with_outer_groups(lower_rows(node, scope.inner(), "sub"), scope.fresh, node)
    return relation, relational.attributes(relation)


def _body_only(node: exp.Expr, scope: Scope) -> relational.Relation:
    """Translate the subquery of EXISTS.  The select list of the subquery has no effect, but must be valid."""
    while isinstance(node, exp.Subquery) and not node.args.get("with_"):
        only(node, "this")
        node = node.this
    inner = scope.inner()
    _without_limit(node)
    rows_first = any(node.args.get(key) for key in ("qualify", "limit", "offset"))
    if not isinstance(node, exp.Select) or bare_values(node) is not None or is_grouped(node) or rows_first:
        return with_outer_groups(lower_rows(node, inner, "sub"), scope.fresh, node)
    reasons = Reasons()
    body: relational.Relation = relational.UNIT
    with reasons.part():
        body = _from_and_where(node, inner)
    with reasons.part():
        if not node.expressions:
            raise refuse("SELECT without columns", node, "Spark does not accept it", "Write SELECT 1 FROM …")
    for item in node.expressions:
        with reasons.part():
            if not isinstance(item, exp.Star) and not (
                isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
            ):
                lower_scalar(item.unalias(), inner)
    reasons.check()
    return joined(body, inner)


def _without_limit(query: exp.Expr) -> None:
    """Remove LIMIT and ORDER BY from the subquery of EXISTS if they leave a row wherever there is one."""
    limit = query.args.get("limit")
    constant = isinstance(limit, exp.Limit) and isinstance(limit.expression, exp.Literal) and limit.expression.name
    if constant and constant.isdigit() and int(constant) > 0 and query.args.get("offset") is None:
        query.set("limit", None)
        query.set("order", None)


MOST_DRIVERS: Final = 64
"""The maximal number of tables and time thresholds in a query.

Each table and each threshold adds a branch and enlarges all other branches.
"""
_APART: Final = (
    "Split the query into several queries. NOT IN counts its subquery up to three times, NOT EXISTS once; as a value, "
    "IN counts it up to seven times, EXISTS twice."
)
DEEPEST: Final = 64
"""The maximal depth of nested operators in one expression."""
LARGEST: Final = 2_000
"""The maximal number of operators and columns in one expression.

Each level of derived tables can double the number of operators.
"""


def within_limits(query: relational.Query) -> None:
    """Raise SqlError if a query exceeds a limit."""
    constants = sum(1 for part in walk(query) if isinstance(part, relational.Values))
    drivers = constants + len(set(scans(query))) + turn_count(query)
    _at_most(drivers, MOST_DRIVERS, "tables and comparisons with NOW() (=, <> and BETWEEN count as two)")
    _at_most(max(map(_depth, scalars(query)), default=0), DEEPEST, "nested operators in one expression")
    _at_most(_written_out(query), LARGEST, "operators and columns in one expression after derived tables are expanded")


def _written_out(query: relational.Query) -> int:
    """Return the size of the query's largest expression after expanding the columns of derived relations."""
    parts: dict[ColumnRef, int] = {}

    def count(scalar: Scalar) -> int:
        if isinstance(scalar, ColumnRef):
            return parts.get(scalar, 1)
        return 1 + sum(map(count, children(scalar)))

    most = 0
    for node in reversed(
        list(walk(query))
    ):  # inputs come after their relation in the list, so reversed they come first
        match node:
            case relational.Project(outputs=outputs):
                parts |= {ref: count(out.value) for ref, out in zip(relational.attributes(node), outputs, strict=True)}
                most = max(most, *(parts[ref] for ref in relational.attributes(node)))
            case relational.Union(inputs=inputs):
                by_place = zip(*(map(count, relational.attributes(part)) for part in inputs), strict=True)
                parts |= {ref: max(same) for ref, same in zip(relational.attributes(node), by_place, strict=True)}
            case _:
                continue
    return max([most, *map(count, scalars(query))], default=0)


def _at_most(count: int, most: int, what: str) -> None:
    if count > most:
        raise SqlError(f"the query has {count} {what}; at most {most} are allowed", hint=_APART)


def _depth(scalar: Scalar) -> int:
    return 1 + max(map(_depth, children(scalar)), default=0)
