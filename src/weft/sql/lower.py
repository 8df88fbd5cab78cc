"""AST -> algebra: one SELECT becomes a ``Query``.

Three-valued logic ends here (design section 2).  ``_predicate(node, positive)`` gives "node is true" for
``positive`` and "node is false" otherwise; NOT changes between the two by De Morgan's laws, which Kleene's logic keeps:

    x IN (SELECT y …)      is true   iff  some y:  x = y
    x IN (SELECT y …)      is false  iff  no y:    (x = y) IS NOT FALSE
                           that is   no y with x = y, no y that is NULL, and x is not NULL or there is no y
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import exp

from weft.algebra.relation import (
    FALSE,
    TRUE,
    Exists,
    Filter,
    NotExists,
    Output,
    Plain,
    Predicate,
    Product,
    Query,
    Relation,
    Scan,
    all_scans,
    conjunction,
    conjuncts,
    disjunction,
    rename_predicate,
)
from weft.algebra.scalar import Call, ColumnRef, Scalar, call, mentions_now
from weft.algebra.schema import INTERVAL, NULL, TableSchema
from weft.errors import SqlError
from weft.sql.conversion import comparable
from weft.sql.limits import within_limits
from weft.sql.lower_now import now_comparison
from weft.sql.lower_scalar import (
    COMPARISONS,
    NOW_NAMES,
    listed,
    lower_boolean,
    lower_comparison,
    lower_scalar,
    only_known_parts,
)
from weft.sql.parse import parse, place
from weft.sql.refusal import only, refuse
from weft.sql.render import name as quoted
from weft.sql.scope import RESULTS, Names, Scope

_JOINS: Final = ("", "INNER", "CROSS")


def bind(text: str, tables: Mapping[str, TableSchema]) -> Query:
    """The query that ``text`` means over ``tables`` (by name).

    Raises SqlError, naming construct, place and reason, for everything outside the class of the language.
    """
    try:
        query = lower_select(parse(text), tables)
        within_limits(query)
    except RecursionError:
        raise SqlError("the query is nested too deeply to be read", hint="Take it apart.") from None
    return query


def expanded(text: str, tables: Mapping[str, TableSchema]) -> str:
    """The text with ``*`` replaced by the columns there are now: what is installed keeps its columns for ever.

    Raises SqlError as ``bind`` does.
    """
    select = parse(text)
    scope = Scope(tables, Names())
    _body(select, scope)
    aliases = {scan.alias: alias for alias, scan in scope.scans.items()}
    for item in reversed(select.expressions):  # the last first, so that places before it stay what they are
        refs = [output.value for output in _star(item, scope) if isinstance(output.value, ColumnRef)]
        if refs:
            star = item if isinstance(item, exp.Star) else item.this
            first = star if star is item else item.args["table"]
            columns = ", ".join(f"{quoted(aliases[ref.scan])}.{quoted(ref.column)}" for ref in refs)
            text = text[: first.meta["start"]] + columns + text[star.meta["end"] + 1 :]
    return text


def lower_select(select: exp.Select, tables: Mapping[str, TableSchema]) -> Query:
    """The outermost SELECT."""
    scope = Scope(tables, Names())
    _reserve(select, scope.names)
    relation = _body(select, scope)
    return Query(relation, _outputs(select, scope))


def _reserve(select: exp.Select, names: Names) -> None:
    """Keeps the names that the rewriting itself uses out of the user's way."""
    names.taken.update({"p"})


def _body(select: exp.Select, scope: Scope) -> Relation:
    """FROM and WHERE."""
    only(select, "expressions", "from_", "joins", "where", "distinct")
    distinct = select.args.get("distinct")
    if distinct is not None:
        only(distinct)
    source = select.args.get("from_")
    if source is None:
        raise refuse("SELECT without FROM", select, "it names no table whose rows could make it true")
    scans: list[Relation] = [_table(source.this, scope)]
    conditions: list[Predicate] = []
    for join in select.args.get("joins") or ():
        scans.append(_joined(join, scope, conditions))
    where = select.args.get("where")
    if where is not None:
        conditions.append(_predicate(where.this, True, scope))
    base = scans[0] if len(scans) == 1 else Product(tuple(scans))
    predicate = conjunction(*conditions)
    return base if predicate == TRUE else Filter(base, predicate)


def _table(node: exp.Expr, scope: Scope) -> Scan:
    if isinstance(node, (exp.Subquery, exp.Select)):
        raise refuse("a subquery in FROM", node, "derived tables come in a later release", "Join the tables directly.")
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise refuse(f"{node.sql('spark')} in FROM", node, "only tables of this home can be read")
    only(node, "this", "alias", "db", "catalog", "joins")
    if node.args.get("catalog") or (node.args.get("db") and node.db.lower() != RESULTS):
        raise refuse(f"{node.sql('spark')} in FROM", node, "only tables of this home can be read, by their plain name")
    if node.args.get("joins"):
        raise refuse("a join in parentheses", node, "write the joins one after another")
    alias = node.args.get("alias")
    if alias is not None:
        only(alias, "this")
        _plain_name(alias)
    return scope.add(node)


def _plain_name(alias: exp.Expr) -> None:
    """Refuses what stands where an alias should: ``msgs@v1`` is read as a table and a mark for its alias."""
    name = alias.args.get("alias") if isinstance(alias, exp.Alias) else alias.this
    if not isinstance(name, exp.Identifier):
        raise refuse(alias.sql("spark"), alias, "an alias is a plain name")


def _joined(join: exp.Join, scope: Scope, conditions: list[Predicate]) -> Scan:
    side, kind = str(join.args.get("side") or ""), str(join.args.get("kind") or "")
    if side or kind.upper() not in _JOINS or join.args.get("method"):
        words = " ".join(w for w in (str(join.args.get("method") or ""), side, kind, "JOIN") if w).upper()
        hint = "Write EXISTS or NOT EXISTS." if kind.upper() in ("SEMI", "ANTI") else "Use an inner join."
        raise refuse(words, join, "only inner joins are taken for now", hint)
    only(join, "this", "on", "using", "kind")
    before = dict(scope.scans)
    scan = _table(join.this, scope)
    if join.args.get("on") is not None:
        conditions.append(_predicate(join.args["on"], True, scope))
    for column in join.args.get("using") or ():
        conditions.append(_using(column, before, scan, scope))
    return scan


def _using(column: exp.Expr, before: dict[str, Scan], scan: Scan, scope: Scope) -> Predicate:
    owners = [other for other in before.values() if other.table.column(column.name)]
    if not owners or scan.table.column(column.name) is None:
        raise SqlError(f"USING: not both sides have a column {column.name!r}", where=place(column))
    scope.merged.add(column.name.lower())
    pair = comparable(owners[0].ref(column.name), scan.ref(column.name), column)
    return Plain(Call("=", pair, call("=").type))


def _outputs(select: exp.Select, scope: Scope) -> tuple[Output, ...]:
    outputs: list[Output] = []
    for item in select.expressions:
        outputs += _star(item, scope) or [_output(item, scope, len(outputs))]
    names: dict[str, exp.Expr] = {}
    for output in outputs:
        if output.name.lower() in names:
            raise SqlError(
                f"two columns of the answer are named {output.name!r}", where=place(select), hint="Name one with AS."
            )
        names[output.name.lower()] = select
    return tuple(outputs)


def _star(item: exp.Expr, scope: Scope) -> list[Output]:
    if isinstance(item, exp.Star):
        only(item)
        if not item.meta.get("start"):  # made up by the parser: no star is the first character of a text
            raise refuse("FROM without SELECT", item, "it says nothing of what is wanted", "Write SELECT * FROM …")
        chosen = list(scope.scans.values())
    elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        only(item.this)
        scan = scope.scans.get(item.table.lower())
        if scan is None:
            raise SqlError(f"{item.table!r} is no table or alias of FROM", where=place(item))
        chosen = [scan]
    else:
        return []
    outputs, merged = [], set()
    for scan in chosen:
        for column in scan.table.columns:
            if scan.table.source == "results" and column.name.startswith("_"):
                continue  # when and in which order an answer was given is no part of the answer
            if column.name.lower() in scope.merged:
                if column.name.lower() in merged:
                    continue
                merged.add(column.name.lower())
            outputs.append(Output(column.name, scan.ref(column.name)))
    return outputs


def _output(item: exp.Expr, scope: Scope, position: int) -> Output:
    if isinstance(item, exp.Alias):
        _plain_name(item)
    value = lower_scalar(item.unalias(), scope)
    if mentions_now(value):
        raise refuse(
            "NOW() in the select list",
            item,
            "the answer would be a new row every microsecond",
            "Select the columns that NOW() is compared with; each answer's first instant is delivered as _first_at.",
        )
    if value.type in (INTERVAL, NULL):
        raise refuse(f"a column of type {value.type}", item, "it cannot be stored", "Convert it with CAST(… AS …).")
    name = item.alias if isinstance(item, exp.Alias) else value.column if isinstance(value, ColumnRef) else ""
    if name.startswith("_"):
        raise refuse(f"the column name {name!r}", item, "names that begin with _ are Weft's own", "Name it with AS.")
    return Output(name or f"col{position + 1}", value)


def _predicate(node: exp.Expr, positive: bool, scope: Scope) -> Predicate:
    """ "node is true", or with ``positive`` false: "node is false"."""
    only_known_parts(node)
    match node:
        case exp.Paren():
            return _predicate(node.this, positive, scope)
        case exp.Not():
            return _predicate(node.this, not positive, scope)
        case exp.And() | exp.Or():
            joined = conjunction if isinstance(node, exp.And) == positive else disjunction
            return joined(*(_predicate(part, positive, scope) for part in node.flatten()))
        case exp.Boolean():
            return TRUE if bool(node.this) == positive else FALSE
        case exp.Exists():
            body = _subquery(node.this, scope)[0]
            return Exists(body) if positive else NotExists(body)
        case exp.In() if node.args.get("query") is not None:
            return _in_subquery(node, positive, scope)
        case exp.NullSafeNEQ():
            return _predicate(exp.NullSafeEQ(this=node.this, expression=node.expression), not positive, scope)
        case exp.In() if _timely(node):
            return _in_with_now(node, positive, scope)
        case exp.Between() if _timely(node):
            bounds = ((exp.GTE, "low"), (exp.LTE, "high"))
            parts = [kind(this=node.this.copy(), expression=node.args[key].copy()) for kind, key in bounds]
            joined = conjunction if positive else disjunction
            return joined(*(_predicate(part, positive, scope) for part in parts))
    if type(node) in COMPARISONS and _timely(node):
        return now_comparison(lower_comparison(node, scope), positive, node)
    condition = lower_boolean(node, scope)
    if mentions_now(condition):
        raise refuse("NOW() inside this expression", node, "it can be compared, with AND, OR and NOT around it")
    return Plain(condition if positive else call("not", condition))


def _timely(node: exp.Expr) -> bool:
    """Whether NOW occurs in it, as a name (before it is lowered)."""
    for part in node.walk():
        if isinstance(part, exp.CurrentTimestamp):
            return True
        if isinstance(part, exp.Anonymous) and str(part.this).lower() in NOW_NAMES and not part.expressions:
            return True
    return False


def _subquery(node: exp.Expr, scope: Scope) -> tuple[Relation, Scope]:
    if isinstance(node, exp.Subquery):
        only(node, "this")
        return _subquery(node.this, scope)
    if not isinstance(node, exp.Select):
        raise refuse(f"{type(node).__name__.upper()} as a subquery", node, "a subquery is one SELECT")
    inner = Scope(scope.tables, scope.names, parent=scope)
    body = _body(node, inner)
    for item in node.expressions:
        if not isinstance(item, exp.Star) and not (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            lower_scalar(item.this if isinstance(item, exp.Alias) else item, inner)
    return body, inner


def _in_subquery(node: exp.In, positive: bool, scope: Scope) -> Predicate:
    only(node, "this", "query")
    query = node.args["query"]
    if isinstance(node.this, exp.Tuple):
        raise refuse("IN with several columns", node, "write it as EXISTS")
    value = lower_scalar(node.this, scope)
    body, inner = _subquery(query, scope)
    select = query.this if isinstance(query, exp.Subquery) else query
    if len(select.expressions) != 1 or isinstance(select.expressions[0], exp.Star):
        raise SqlError("IN takes a subquery of one column", where=place(query))
    item = select.expressions[0]
    element = lower_scalar(item.this if isinstance(item, exp.Alias) else item, inner)
    if mentions_now(value) or mentions_now(element):
        raise refuse("NOW() compared by IN (SELECT …)", node, "compare it with EXISTS and =")
    left, right = comparable(value, element, node)
    if positive:
        return Exists(_where(body, Plain(call("=", left, right))))
    return _not_in(left, right, body, inner)


def _not_in(left: Scalar, right: Scalar, body: Relation, inner: Scope) -> Predicate:
    """No y with (x = y) IS NOT FALSE, in the three parts of the module's docstring.

    Taken apart so that the first is an equality, which can be looked up by key.
    """
    parts: list[Predicate] = [NotExists(_where(body, Plain(call("=", left, right))))]
    if not _never_null(right, body, inner):
        parts.append(NotExists(_where(body, Plain(call("is null", right)))))
    if not _never_null(left, None, inner):
        parts.append(disjunction(Plain(call("is not null", left)), NotExists(body)))
    return conjunction(parts[0], *(_apart(part, inner.names) for part in parts[1:]))


def _apart(predicate: Predicate, names: Names) -> Predicate:
    """The same under range variables of its own: copies of one body must not share names."""
    return rename_predicate(predicate, {scan.alias: names.fresh(scan.alias) for scan in all_scans(predicate)})


def _never_null(value: Scalar, body: Relation | None, scope: Scope) -> bool:
    required = call("not", call("is null", value)), call("is not null", value)
    if isinstance(body, Filter) and any(
        isinstance(part, Plain) and part.condition in required for part in conjuncts(body.predicate)
    ):
        return True
    return value in scope.starts()


def _where(body: Relation, predicate: Predicate) -> Relation:
    if isinstance(body, Filter):
        return Filter(body.input, conjunction(body.predicate, predicate))
    return Filter(body, predicate)


def _in_with_now(node: exp.In, positive: bool, scope: Scope) -> Predicate:
    only(node, "this", "expressions")
    equal: Callable[[exp.Expr], exp.EQ] = lambda item: exp.EQ(this=node.this.copy(), expression=item.copy())  # noqa: E731
    joined = disjunction if positive else conjunction
    return joined(*(_predicate(equal(item), positive, scope) for item in listed(node)))
