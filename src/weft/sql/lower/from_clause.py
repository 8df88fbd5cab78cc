"""Translate VALUES, and the tables, derived tables, common table expressions and joins of FROM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from weft.algebra import relation as relational
from weft.algebra.scalar import Call, Cast, ColumnRef, Scalar, call, mentions_now
from weft.algebra.schema import NULL, Column, DataType
from weft.algebra.traverse import range_variables
from weft.errors import Reasons, SqlError, of_each
from weft.printable import counted
from weft.sql.functions import common
from weft.sql.lower.advice import advice
from weft.sql.lower.conversion import comparable, converted, typed
from weft.sql.lower.decorrelate import with_outer_groups
from weft.sql.lower.history import held, refuse_in_view
from weft.sql.lower.nested import as_column
from weft.sql.lower.outer import Shared, Side, joined, outer_join
from weft.sql.lower.pivots import pivoted
from weft.sql.lower.predicate import lower_predicate
from weft.sql.lower.recursive import Rows, lower_recursive, recurrence
from weft.sql.lower.refusal import only, place, refuse
from weft.sql.lower.scalar import lower_scalar
from weft.sql.lower.scope import RESULTS, CommonTable, Merged, Scope, Variable, of_text
from weft.sql.lower.unnest import exploding, lower_unnest

_INNER: Final = ("", "INNER", "CROSS")
RESERVED: Final = ("_instant", "_first_at", "_ordinal", "_tick", "_query_id")
"""The names of the columns that Weft adds to rows."""
_NESTED_JOIN: Final = "Write ON b.x = c.x instead of USING (x), and no alias."
_HALF: Final = ("SEMI", "ANTI")
_OUTER: Final = ("LEFT", "RIGHT", "FULL")


def lower_from(select: exp.Select, scope: Scope, rows: Rows) -> tuple[relational.Relation, list[relational.Predicate]]:
    """Translate FROM into a relation and join conditions.  Add the range variables of FROM to ``scope``.

    As in Spark, each join takes everything before it as its left side.
    """
    reasons = Reasons()
    relations: list[relational.Relation] = []
    conditions: list[relational.Predicate] = []
    with reasons.part():
        relations.append(_source(select.args["from_"].this, scope, rows))
    for join in select.args.get("joins") or ():
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
        with reasons.part():
            _refuse_other(join, side, kind, scope)
        with reasons.part():
            if kind in _HALF:
                conditions.append(_half_join(join, kind, scope, rows))
            elif side and isinstance(join.this, exp.Lateral) and exploding(join.this.this) is not None:
                relations.append(_all_elements(join, side, scope, rows))
            elif side:
                left = relational.block((*relations, *(scope.values or ())), _all(conditions))
                scope.values = None if scope.values is None else []
                union = _outer_join(join, side, left, scope, rows)
                relations, conditions = [union], []
            else:
                source, demanded, _ = _joined(join, "", scope, rows)
                relations.append(source)
                conditions += demanded
    for view in select.args.get("laterals") or ():
        with reasons.part():
            relations.append(_source(view, scope, rows))
    reasons.check()
    return relations[0] if len(relations) == 1 else relational.Join(tuple(relations)), conditions


def _all(conditions: Sequence[relational.Predicate]) -> relational.Predicate:
    return relational.conjunction(*conditions)


def _refuse_other(join: exp.Join, side: str, kind: str, scope: Scope) -> None:
    method = str(join.args.get("method") or "").upper()
    inner, half = kind in _INNER and not side, kind in _HALF and side in ("", "LEFT")
    outer = kind in ("", "OUTER") and side in _OUTER
    if join.this.args.get("pivots"):
        hint = "Write the clause after a query: FROM a JOIN (SELECT * FROM b PIVOT (…)) AS p."
        raise refuse("PIVOT or UNPIVOT after JOIN", join, "in Spark it applies to the whole join", hint)
    if (inner or outer or half) and (not method or (method == "NATURAL" and not half)):
        return
    words = " ".join(w for w in (method, side, kind, "JOIN") if w)
    raise refuse(words, join, "Spark does not have it", advice(words) or "Write JOIN … ON or USING.")


def _joined(
    join: exp.Join, side: str, scope: Scope, rows: Rows
) -> tuple[relational.Relation, list[relational.Predicate], list[Shared]]:
    """Return the right side of a join, the join conditions, and the columns of USING."""
    only(join, "this", "on", "using", "kind", "side", "method")
    before = replace(scope, variables=dict(scope.variables), merged=dict(scope.merged))
    conditions: list[relational.Predicate] = []
    reasons = Reasons()
    with reasons.part():
        source = _source(join.this, scope, rows)
    with reasons.part():
        if join.args.get("on") is not None:
            around = replace(scope, values=None) if side else scope
            conditions.append(lower_predicate(join.args["on"], True, around))
    reasons.check()
    alias = _right_side(join, before, scope)
    using, shared = {}, []
    natural = _common_columns(before, scope.variables[alias]) if join.args.get("method") else ()
    for column in join.args.get("using") or natural:
        condition, left, right, owners = _using(column, before, scope.variables[alias])
        conditions.append(condition)
        ref = right if side == "RIGHT" else left
        if side == "FULL":
            type = common([left.type, right.type])
            ref = ColumnRef(scope.fresh("using"), left.column, type)
            shared.append(Shared(ref, typed(converted(left, type), type), typed(converted(right, type), type)))
        using[column.name.lower()] = Merged(ref, owners | {alias})
    # As in Spark, the columns of a later USING precede those of an earlier USING.
    scope.merged = {**using, **{name: each for name, each in scope.merged.items() if name not in using}}
    return source, conditions, shared


def _right_side(join: exp.Join, before: Scope, scope: Scope) -> str:
    """Return the alias of the right side of a join, the first one of a join in parentheses."""
    alias, *others = (each for each in scope.variables if each not in before.variables)
    if others and (join.args.get("using") or join.args.get("method")):
        raise refuse("USING with a join in parentheses", join, "it names a column of one table", "Write ON a.x = b.y.")
    return alias


def _common_columns(before: Scope, right: Variable) -> list[exp.Column]:
    """Return the columns that NATURAL JOIN compares."""
    names = {name: None for variable in before.variables.values() for name in (ref.column for ref in variable.listed)}
    listed = {ref.column.lower() for ref in right.listed}
    return [exp.column(name) for name in names if name.lower() in listed]


def _all_elements(join: exp.Join, side: str, scope: Scope, rows: Rows) -> relational.Relation:
    """Translate LEFT JOIN LATERAL EXPLODE(…) ON TRUE, which is EXPLODE_OUTER."""
    on = join.args.get("on")
    if side != "LEFT" or join.args.get("using") or not (on is None or (isinstance(on, exp.Boolean) and on.this)):
        hint = "Write LEFT JOIN LATERAL EXPLODE(…) AS t(a) ON TRUE."
        raise refuse(f"{side} JOIN LATERAL EXPLODE with this ON", join, "the elements depend on the row", hint)
    join.this.set("outer", True)
    return _source(join.this, scope, rows)


def _outer_join(join: exp.Join, side: str, left: relational.Relation, scope: Scope, rows: Rows) -> relational.Union:
    if isinstance(join.this, exp.Lateral) and side != "LEFT":
        raise refuse(f"{side} JOIN LATERAL", join, "its rows depend on the left side", "Write LEFT JOIN LATERAL.")
    own = dict(scope.variables)
    known = [ref for variable in own.values() for ref in variable.columns]
    known += [each.ref for each in scope.merged.values() if each.ref not in known]
    source, conditions, shared = _joined(join, side, scope, rows)
    unions = scope.context.names.unions & {*range_variables(left), *range_variables(source)}
    if scope.context.view and len(unions) > 1:  # two outer joins have three unions, or two if none is within the other
        reason, hint = "a view has at most two in one FROM", "Make a view of the first two, and join that view."
        raise refuse("a third outer join", join, reason, hint)
    new = [alias for alias in scope.variables if alias not in own]
    scope.nullable |= set(new) if side == "LEFT" else set(own) if side == "RIGHT" else set(scope.variables)
    columns = tuple(ref for alias in new for ref in scope.variables[alias].columns)
    sides = Side(left, tuple(known)), Side(source, columns)
    return outer_join(side, *sides, _all(conditions), scope, shared)


def _half_join(join: exp.Join, kind: str, scope: Scope, rows: Rows) -> relational.Predicate:
    """Translate LEFT SEMI JOIN to EXISTS, and LEFT ANTI JOIN to NOT EXISTS."""
    only(join, "this", "on", "using", "kind", "side", "method")
    beside = replace(scope, variables=dict(scope.variables), merged=dict(scope.merged), values=None)
    reasons = Reasons()
    with reasons.part():
        source = _source(join.this, beside, rows)
    on = join.args.get("on")
    demanded: relational.Predicate = relational.TRUE
    with reasons.part():
        if on is not None:
            demanded = lower_predicate(on, True, beside)
    reasons.check()
    right = beside.variables[_right_side(join, scope, beside)]
    using = [_using(column, scope, right)[0] for column in join.args.get("using") or ()]
    body = relational.Select(source, relational.conjunction(demanded, *using))
    return relational.Exists(body) if kind == "SEMI" else relational.NotExists(body)


def _using(
    column: exp.Expr, before: Scope, right: Variable
) -> tuple[relational.Predicate, ColumnRef, ColumnRef, frozenset[str]]:
    """For a column of USING, return the equality, both columns, and the aliases of all tables that share the left
    column.
    """
    shared, own = before.owners(column.name, column), right.find(column.name)
    if shared is None or own is None:
        hint = "Write JOIN … ON a.x = b.y."
        raise SqlError(f"USING: both sides need a column {column.name!r}", where=place(column), hint=hint)
    left, owners = shared
    return relational.Plain(Call("=", comparable(left, own, column), call("=").type)), left, own, owners


def _source(node: exp.Expr, scope: Scope, rows: Rows) -> relational.Relation:
    if isinstance(node, (exp.Table, exp.Subquery)) and node.args.get("joins"):
        scope.refused |= _names(node)
        hint = "Write parentheses: a LEFT JOIN (b JOIN c ON …) ON …."
        raise refuse("a join between a table and its ON", node, "each ON belongs to the join before it", hint)
    if isinstance(node, exp.Subquery) and isinstance(node.unnest(), exp.Table):
        return _nested_join(node, scope, rows)
    with scope.source(node):
        return _read_source(node, scope, rows)


def _names(node: exp.Expr) -> set[str]:
    """Return the aliases in an item of FROM, in lower case."""
    return {each.alias_or_name.lower() for each in node.find_all(exp.Table, exp.Subquery) if each.alias_or_name}


def _nested_join(node: exp.Subquery, scope: Scope, rows: Rows) -> relational.Relation:
    """Translate joins in parentheses.  Their ON names only tables in the parentheses."""
    inner = replace(scope, variables={}, merged={}, values=None, joined={})
    try:
        only(node, "this", "alias")
        first = node.this.copy()
        joins = first.args.pop("joins", None) or []
        if node.alias or any(join.args.get(part) for join in joins for part in ("using", "method")):
            reason = "joins in parentheses have ON, and no alias"
            raise refuse("this join in parentheses", node, reason, _NESTED_JOIN)
        relation, conditions = lower_from(exp.Select(from_=exp.From(this=first), joins=joins), inner, rows)
    except SqlError:
        scope.refused |= _names(node)
        raise
    for alias, variable in inner.variables.items():
        scope.add(alias, variable, node)
    relation = joined(relation, inner)
    scope.joined |= inner.joined
    return relational.Select(relation, joined(_all(conditions), inner)) if conditions else relation


def _read_source(node: exp.Expr, scope: Scope, rows: Rows) -> relational.Source:
    if node.args.get("pivots"):
        return _pivot(node.copy(), scope, rows)
    match node:
        case exp.Table(this=exp.Identifier()):
            return _table(node, scope, rows)
        case exp.Subquery() | exp.Values():
            only(node, "this", "alias", "expressions")
            query = node if isinstance(node, exp.Values) else node.this
            alias = node.args.get("alias")
            return _unnamed(query, scope, rows) if alias is None else _derived(query, alias, scope, rows)
        case exp.Select() | exp.SetOperation():
            raise refuse("a query in FROM without parentheses", node, "it needs an alias", "Write (SELECT …) AS d.")
        case exp.Lateral():
            return _lateral(node, scope, rows)
        case exp.Unnest():
            raise refuse("UNNEST in FROM", node, "Spark does not have it", "Write LATERAL EXPLODE(x) AS t(a).")
        case _:
            raise refuse(f"{node.sql('spark')} in FROM", node, "only tables of this home can be read")


def _pivot(node: exp.Expr, scope: Scope, rows: Rows) -> relational.Source:
    """Translate a source with PIVOT or UNPIVOT, which names some of the source's columns and leaves the others."""
    for pivot in node.args.pop("pivots"):
        names, inner = scope.context.names, scope.inner(lateral=False)
        taken = set(names.taken)
        _read_source(node.copy(), inner, rows)
        columns = [ref.column for variable in inner.variables.values() for ref in variable.listed]

        def kinds(query: exp.Query) -> list[DataType]:
            trial = rows(query, scope.inner(lateral=False), "derived", ())
            return [ref.type for ref in relational.attributes(trial)]

        node = exp.Subquery(this=pivoted(node, pivot, columns, kinds), alias=pivot.args.get("alias"))
        names.taken = taken
    return _read_source(node, scope, rows)


def _lateral(node: exp.Lateral, scope: Scope, rows: Rows) -> relational.Source:
    """Translate LATERAL (SELECT …), LATERAL EXPLODE(…) and LATERAL VIEW EXPLODE(…)."""
    only(node, "this", "alias", "view", "outer")
    if scope.context.view:
        raise refuse("LATERAL", node, "views do not support it")
    alias = node.args.get("alias")
    name = "exploded" if alias is None or alias.this is None else alias.name
    columns = () if alias is None else tuple(each.name for each in alias.args.get("columns") or ())
    relation: relational.Source
    if (call_ := exploding(node.this)) is not None:
        relation = lower_unnest(call_, name, columns, scope, lower_scalar, outer=bool(node.args.get("outer")))
    elif isinstance(node.this, exp.Subquery) and alias is not None:
        only(node.this, "this")
        relation = with_outer_groups(rows(node.this.this, scope.inner(), of_text(name), columns), scope.fresh, node)
    else:
        reason = "LATERAL takes a named query, EXPLODE or POSEXPLODE"
        raise refuse(f"{node.this.sql('spark')} after LATERAL", node, reason, "Write LATERAL (SELECT …) AS d.")
    scope.add(name, scope.variable(relation), node)
    return relation


def _unnamed(query: exp.Expr, scope: Scope, rows: Rows) -> relational.Source:
    """Translate a derived table without an alias, whose columns have no qualifier."""
    relation = rows(query, scope.inner(lateral=False), "derived", ())
    scope.add(f"(derived table {len(scope.variables) + 1})", scope.variable(relation), query)
    return relation


def _derived(query: exp.Expr, alias: exp.Expr, scope: Scope, rows: Rows) -> relational.Source:
    only(alias, "this", "columns")
    plain_name(alias)
    columns = tuple(name.name for name in alias.args.get("columns") or ())
    relation = rows(query, scope.inner(lateral=False), of_text(alias.name), columns)
    scope.add(alias.name, scope.variable(relation), alias)
    return relation


def _table(node: exp.Table, scope: Scope, rows: Rows) -> relational.Source:
    only(node, "this", "alias", "db", "catalog", "version")
    if node.args.get("catalog") or (node.args.get("db") and node.db.lower() != RESULTS):
        known = node.name.lower() in {name.lower() for name in scope.context.tables}
        raise refuse(
            f"{node.sql('spark')} in FROM",
            node,
            "only tables of this home can be read, by their unqualified names",
            f"Write {node.name}." if known else None,
        )
    alias = node.args.get("alias")
    columns: tuple[str, ...] = ()
    if alias is not None:
        only(alias, "this", "columns")
        plain_name(alias)
        columns = tuple(name.name for name in alias.args.get("columns") or ())
    shared = None if node.args.get("db") else scope.common(node.name)
    shown = node.alias or node.name
    version = node.args.get("version")
    if shared is not None:
        if version is not None:
            hint = "Write FOR SYSTEM_TIME after the tables within WITH."
            raise refuse("FOR SYSTEM_TIME after a name of WITH", node, "FOR SYSTEM_TIME applies only to tables", hint)
        variable = scope.variable(_shared(shared, scope, node, rows))
    elif version is not None:
        variable = _at_other_times(version, shown, scope, node)
    else:
        variable = scope.variable(scope.scan(node))
    if columns:
        variable = scope.variable(_renamed(variable, columns, shown, scope, node))
    scope.add(shown, variable, node)
    return variable.relation


def _shared(shared: CommonTable, scope: Scope, node: exp.Table, rows: Rows) -> relational.Source:
    """If the common table expression was refused, the errors of each use are marked as consequences."""
    if shared.refused:
        error = SqlError(f"{node.name} was refused", where=place(node))
        error.consequence = True
        raise error
    if shared.recurrence is not None:
        return recurrence(shared.recurrence, node, scope)
    inside = shared.scope.inner(lateral=False)
    inside.side = scope.side
    try:
        if shared.recursive:
            return lower_recursive(shared, node, scope, rows)
        return rows(shared.query, inside, of_text(node.alias or node.name), shared.columns)
    except SqlError:
        shared.refused = True
        raise


def _renamed(
    variable: Variable, columns: Sequence[str], alias: str, scope: Scope, node: exp.Expr
) -> relational.Project:
    refs = variable.listed
    outputs = tuple(
        relational.Output(name, ref) for name, ref in zip(named(columns, len(refs), node), refs, strict=True)
    )
    return relational.Project(variable.relation, scope.fresh(of_text(alias)), outputs)


def _at_other_times(version: exp.Version, shown: str, scope: Scope, node: exp.Table) -> Variable:
    """For a range of instants, ``*`` includes the start column and the end column."""
    if scope.context.view:
        raise refuse_in_view(version, shown)
    scan = replace(scope.scan(node), whole=True)
    relation = relational.Project(
        relational.Select(scan, held(version, scan, scope)),
        scope.fresh(of_text(shown)),
        tuple(relational.Output(ref.column, ref) for ref in relational.attributes(scan)),
    )
    unlisted = {ref.column for ref in scope.variable(scan).columns} - {
        ref.column for ref in scope.variable(scan).listed
    }
    if version.args["kind"] != "AS OF":
        unlisted -= {scan.table.start, scan.table.end}
    return Variable(relation, relational.attributes(relation), frozenset(unlisted))


def plain_name(alias: exp.Expr) -> None:
    """Raise SqlError for an alias that is not a plain name.

    The parser also accepts a table with a version, such as ``msgs@v1``, as an alias.
    """
    name = alias.args.get("alias") if isinstance(alias, exp.Alias) else alias.this
    if not isinstance(name, exp.Identifier):
        raise refuse(alias.sql("spark"), alias, "an alias must be a plain name")


def stars(item: exp.Expr, scope: Scope) -> list[relational.Output]:
    """Return the columns of ``*`` or ``alias.*``.  For other items of a select list, return an empty list.

    The columns of USING precede other columns and occur only once.
    """
    if isinstance(item, exp.Star):
        only(item)
        if not item.meta.get("start"):  # inserted by the parser; a * of the text is never its first character
            raise refuse("FROM without SELECT", item, "it selects nothing", "Write SELECT * FROM …")
        if scope.refused:
            raise scope.consequence(SqlError("the columns of * are not known", where=place(item)))
        merged = [each.ref for each in scope.merged.values()]
        refs = [
            *merged,
            *(ref for alias, variable in scope.variables.items() for ref in _others(alias, variable, scope)),
        ]
    elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        only(item.this)
        variable = scope.variables.get(item.table.lower())
        if variable is None:
            error = SqlError(f"{item.table!r} is not a table or alias of FROM", where=place(item))
            raise scope.consequence(error, item.table.lower())
        refs = list(variable.listed)
    else:
        return []
    for ref in refs:
        if ref.column.lower() in RESERVED:
            raise refuse(f"the column name {ref.column!r}", item, "it is reserved for Weft", "List the columns.")
    return [relational.Output(ref.column, ref) for ref in refs]


def _others(alias: str, variable: Variable, scope: Scope) -> list[ColumnRef]:
    merged = {name for name, each in scope.merged.items() if alias in each.aliases}
    return [ref for ref in variable.listed if ref.column.lower() not in merged]


def named(columns: Sequence[str], width: int, node: exp.Expr) -> tuple[str, ...]:
    """Return the column names of a derived table with ``width`` columns.

    Raise SqlError if the number of names is wrong, or if a name is duplicate or reserved.
    """
    if len(columns) != width:
        raise SqlError(
            f"the alias gives {counted(len(columns), 'column name')} for {counted(width, 'column')}", where=place(node)
        )
    seen: set[str] = set()
    for name in columns:
        if name.startswith("_"):
            raise refuse(
                f"the column name {name!r}",
                node,
                "names that begin with _ are reserved for Weft",
                "Choose another name.",
            )
        if name.lower() in seen:
            raise SqlError(f"two columns are named {name!r}", where=place(node), hint="Rename one of the two columns.")
        seen.add(name.lower())
    return tuple(columns)


def lower_values(node: exp.Values, scope: Scope, alias: str, columns: Sequence[str]) -> relational.Values:
    """Translate VALUES.  Raise SqlError if the rows differ in the number or the types of columns."""
    only(node, "expressions", "alias")
    rows = of_each(lambda row: _row(row, scope), node.expressions)
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise SqlError("the rows of VALUES differ in their number of columns", where=place(node))
    names = named(columns or [f"col{number}" for number in range(1, width + 1)], width, node)
    kinds = []
    for number, name in enumerate(names):
        try:
            kind = common([row[number].type for row in rows])
        except TypeError as error:
            raise SqlError(f"VALUES: {error} have no common type", where=place(node)) from None
        if kind == NULL:
            raise refuse(f"a column of NULLs ({name})", node, "it has no type", "Write CAST(NULL AS …).")
        kinds.append(kind)
    typed = tuple(
        tuple(value if value.type == kind else Cast(value, kind) for value, kind in zip(row, kinds, strict=True))
        for row in rows
    )
    heads = tuple(Column(n, name, kind) for n, (name, kind) in enumerate(zip(names, kinds, strict=True), 1))
    return relational.Values(scope.fresh(alias), heads, typed)


def bare_values(select: exp.Select) -> exp.Values | None:
    """If the parser has inserted SELECT * FROM in front of VALUES, return the VALUES.  Otherwise, return None.

    The parser inserts SELECT * FROM in UNION and in WITH.  An inserted * has no position in the text.
    """
    source = select.args.get("from_")
    made_up = len(select.expressions) == 1 and isinstance(select.expressions[0], exp.Star)
    if source is None or not isinstance(source.this, exp.Values) or not made_up:
        return None
    if select.expressions[0].meta.get("start"):
        return None
    only(select, "expressions", "from_")
    return source.this


def _row(node: exp.Expr, scope: Scope) -> tuple[Scalar, ...]:
    items = node.expressions if isinstance(node, exp.Tuple) else [node]
    if not items:
        raise refuse("an empty row of VALUES", node, "it has no column")
    values = of_each(lambda item: lower_scalar(item, scope.inner(lateral=False)), items)
    if any(mentions_now(value) for value in values):
        raise refuse("NOW() in VALUES", node, "the row would change every microsecond")
    return tuple(as_column(value) for value in values)
