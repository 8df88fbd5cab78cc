"""Refuse an aggregate in a standing query, and suggest an equivalent text that Weft accepts today.

The module tries these equivalents in order.  If no equivalent exists, the hint says so.

- SELECT DISTINCT with a condition in WHERE, if the query has no aggregates
- NOT EXISTS for MIN and MAX
- a temporal view, if all tables are tracked
- a formula of past temporal logic

A SELECT with aggregates over one table becomes a formula as in this example.

    SELECT user FROM logins WHERE ok = 0 AND ts > NOW() - INTERVAL 10 MINUTES GROUP BY user HAVING COUNT(*) > 5
    (n <- CNT id; user (ONCE[0,10m) (logins(id, user, ok) AND ok = 0))) AND n > 5

The condition with NOW() becomes the interval of ONCE.  Other conditions follow the atom.  An aggregation counts the
distinct rows of its formula.  ``_`` stands for a column whose type a formula cannot use.  Rows that differ only in
``ts`` and such columns count once.  Rows with a NULL do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from sqlglot import exp

from weft.algebra import relation as relational
from weft.algebra.formula import term_type
from weft.algebra.scalar import Call, ColumnRef, Literal, Scalar, shifted
from weft.algebra.schema import BIGINT, DOUBLE, STRING, DataType
from weft.algebra.traverse import scans, thresholds
from weft.errors import SqlError
from weft.sql.functions import AGGREGATES, DISTINCT, MEASURES
from weft.sql.refusal import refuse
from weft.sql.render import quoted
from weft.sql.rewriting import NOT_TODAY, installed, known, of_alias, same, single_table, viewed, where_of
from weft.sql.scope import Context

LATER: Final = "standing queries do not support aggregates yet"
_ROWS: Final = "Select the rows themselves; each row is then an answer."


def aggregates_refused(
    select: exp.Select, grouped: relational.Relation | None, context: Context, *, nested: bool
) -> SqlError:
    """Return the error for a SELECT with GROUP BY, HAVING or aggregates.

    ``grouped`` is the relation of the SELECT, or None if the computation of the relation failed.  For a subquery,
    ``nested`` is True, and the hint suggests an equivalent for the subquery alone.
    """
    construct, node = _construct(select)
    if _measures(select) is None:
        return refuse(construct, node, "nothing is aggregated", _without_groups(select, nested=nested))
    return refuse(construct, node, LATER, _instead(select, grouped, context, nested=nested))


def is_plain(select: exp.Select) -> bool:
    """Return whether the SELECT has neither GROUP BY nor aggregates, so that HAVING filters single rows."""
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
    having = select.args.get("having")
    for part in (*select.expressions, *(() if having is None else (having.this,))):
        for node in part.walk(prune=lambda each: isinstance(each, (exp.Query, exp.Window))):
            if isinstance(node, exp.Anonymous) and node.name.lower() in (AGGREGATES | MEASURES.keys()):
                return node
    return None


def _without_groups(select: exp.Select, *, nested: bool) -> str:
    plain = select.copy()
    having = plain.args.pop("having", None)
    plain.args.pop("group", None)
    if having is not None:
        plain = plain.where(having.this)
    if select.args.get("group") is not None:
        plain = plain.distinct()
    text = plain.sql("spark")
    return f"Write {text}" if nested else f"Write {installed(text)}."


def _instead(select: exp.Select, grouped: relational.Relation | None, context: Context, *, nested: bool) -> str:
    if grouped is None:
        return "Correct the other errors first. Then this message shows an equivalent text, if one exists."
    prefix = f"{NOT_TODAY} Only the subquery has an equivalent. " if nested else ""
    read = tuple(scans(grouped))
    greatest = _greatest(select)
    if greatest is not None:
        return f"{prefix}{greatest}"
    if read and all(scan.table.end is not None for scan in read):
        return _as_view(grouped, context, nested=nested)
    try:
        formula, ignored = aggregate_formula(grouped)
    except NoFormula as reason:
        return f"{NOT_TODAY} No formula can replace the query either, because {reason}. {_ROWS}"
    command = installed(formula, language="monpoly")
    return (
        f"{prefix}Install the query as a formula: {command}. Weft evaluates the formula whenever rows arrive, "
        f"and delivers an answer each time the formula holds. Rows that differ only in {' or '.join(ignored)} count as "
        "one row, and rows with a NULL in any column do not count."
    )


def _as_view(grouped: relational.Relation, context: Context, *, nested: bool) -> str:
    """Return a hint that suggests a view over tracked tables.

    For a view over NOW() or a moving window, the hint names `weft try`, because no standing query can read the view.
    """
    if nested or context.text is None or context.other() is not None:
        return f"{NOT_TODAY} {_ROWS}"
    inner = grouped.input if isinstance(grouped, relational.Select) else grouped
    timely = any(True for _ in thresholds(grouped))
    if timely or (isinstance(inner, relational.Grouped) and inner.window is not None):
        over = "NOW()" if timely else "a moving window"
        return (
            f"Create a view, and read the view when you need its rows: {viewed(context.text)}, then weft try "
            '"SELECT * FROM NAME". A standing query over the view is not supported today, because the view '
            f"aggregates over {over}."
        )
    reader = installed("SELECT * FROM NAME", name="NAME2")
    return f"Create a view, and install a query over the view: {viewed(context.text)}, then {reader}."


def _greatest(select: exp.Select) -> str | None:
    """Return a hint with NOT EXISTS in place of MIN or MAX of one column, or None."""
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
    omission = f" This query omits rows with a NULL in {' or '.join(omitted)}." if omitted else ""
    return f"For the {words[0]} value, require that no row has a {words[1]} value: {installed(text)}.{omission}"


def _of_row(part: exp.Expr, measure: exp.Anonymous) -> str:
    """Rewrite an expression over a group for a single row.  The row has the least or greatest value of the group."""
    expression = exp.paren(part.copy()) if isinstance(part, exp.Or) else part.copy()
    holder = exp.Tuple(expressions=[expression])
    for each in list(holder.find_all(exp.Anonymous)):
        if each == measure:
            each.replace(each.expressions[0].copy())
    return of_alias(holder.expressions[0], "t").sql("spark")


_NAME: Final = re.compile(r"[a-z][a-zA-Z0-9_]*")
_RESERVED: Final = frozenset(("null", "f2i", "i2f"))
_PREDICATE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_FUNCTIONS: Final = {"count": "CNT", "sum": "SUM", "avg": "AVG", "min": "MIN", "max": "MAX"}
_COMPARISONS: Final = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MIRRORED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_UNITS: Final = ((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"))


class NoFormula(Exception):
    """An error for a query without an equivalent formula.  The message of the error contains the reason."""


@dataclass(frozen=True)
class _Names:
    """Names of the columns that a formula can use, with their types.

    ``terms`` are the terms of the atom.  ``_`` is the term of each column in ``ignored``, because its type has no
    values in a formula.
    """

    variables: Mapping[ColumnRef, str]
    types: Mapping[ColumnRef, DataType]
    terms: tuple[str, ...] = ()
    ignored: tuple[ColumnRef, ...] = ()

    def require(self, value: Scalar | None, reason: str) -> ColumnRef:
        """Return ``value`` if it is a column with a name.  Otherwise raise NoFormula with the reason."""
        if isinstance(value, ColumnRef) and value in self.variables:
            return value
        if isinstance(value, ColumnRef) and value in self.ignored:
            reason = (
                f"a formula can use only integers, doubles and strings, but the column {value.column} is {value.type}"
            )
        raise NoFormula(reason)


def aggregate_formula(relation: relational.Relation) -> tuple[str, tuple[str, ...]]:
    """Return the formula for a grouped relation, or for a HAVING selection over a grouped relation.

    The second result names the columns that do not distinguish the rows of the formula.  Raise NoFormula if no formula
    is equivalent.
    """
    having = relational.condition(relation)
    grouped = relation.input if isinstance(relation, relational.Select) else relation
    if not isinstance(grouped, relational.Grouped) or grouped.window is not None:
        raise NoFormula("only views have MOVING_WINDOW")
    scan = _scan(grouped)
    names = _names(scan)
    rows = _rows(grouped, scan, names)
    measured = _measured(grouped.measures, names)
    parts = [_aggregation(each, measured[each.output], grouped, names, rows) for each in grouped.measures]
    groups = {
        ColumnRef(grouped.alias, output.name, output.value.type): output.value
        for output in grouped.groups
        if isinstance(output.value, ColumnRef)
    }
    group_names = _Names(
        {**{ref: names.variables[value] for ref, value in groups.items()}, **measured},
        {
            **{ref: names.types[value] for ref, value in groups.items()},
            **{each.output: _measure_type(each, names) for each in grouped.measures},
        },
    )
    conditions = [_condition(each, group_names) for each in relational.conjuncts(having) if each != relational.TRUE]
    text = " AND ".join((*(f"({part})" for part in parts), *conditions))
    return parts[0] if len(parts) + len(conditions) == 1 else text, ("ts", *(ref.column for ref in names.ignored))


def _scan(grouped: relational.Grouped) -> relational.Scan:
    read = relational.sources(grouped.input)
    if len(read) != 1 or not isinstance(read[0], relational.Scan):
        raise NoFormula("a formula can aggregate only one table, without joins or subqueries in FROM")
    table = read[0].table
    if table.source == "results" or not table.append_only:
        raise NoFormula(
            f"a formula reads only append-only tables of the home, and {table.name} is another kind of table"
        )
    if not _PREDICATE.fullmatch(table.name) or table.name.isupper():
        raise NoFormula(f"{table.name} is not a valid predicate name")
    return read[0]


def _names(scan: relational.Scan) -> _Names:
    refs = [scan.ref(column.name) for column in scan.table.columns if column.name.lower() != "ts"]
    types = {ref: type for ref in refs if (type := term_type(ref.type)) is not None}
    variables = {
        ref: ref.column if _NAME.fullmatch(ref.column) and ref.column not in _RESERVED else f"x{number}"
        for number, ref in enumerate(refs, 1)
        if ref in types
    }
    if len(set(variables.values())) < len(variables):
        variables = {ref: f"x{number}" for number, ref in enumerate(refs, 1) if ref in types}
    terms = tuple(variables.get(ref, "_") for ref in refs)
    return _Names(variables, types, terms, tuple(ref for ref in refs if ref not in types))


def _rows(grouped: relational.Grouped, scan: relational.Scan, names: _Names) -> str:
    atom = f"{scan.table.name}({', '.join(names.terms)})"
    demanded, least, most = [], "[0", "*]"
    for item in relational.conjuncts(relational.condition(grouped.input)):
        match item:
            case relational.NowFrom(threshold=threshold):
                least = _bound(threshold, scan, "[", "(")
            case relational.NowBefore(threshold=threshold):
                most = _bound(threshold, scan, ")", "]")
            case _:
                demanded.append("" if item == relational.TRUE else _condition(item, names))
    filtered = " AND ".join((atom, *(each for each in demanded if each)))
    interval = "" if (least, most) == ("[0", "*]") else f"{least},{most}"
    return f"ONCE{interval} {filtered if filtered == atom else f'({filtered})'}"


def _bound(threshold: Scalar, scan: relational.Scan, reached: str, passed: str) -> str:
    """Return one bound of the interval of ONCE.  ``threshold`` is ``ts`` plus a constant interval.

    ``reached`` is the bracket for an interval in whole seconds, and ``passed`` for an interval one microsecond longer.
    """
    parts = shifted(threshold)
    beyond = parts.micros % 1_000_000 == 1
    micros = parts.micros - beyond
    unit_size = next(((size, unit) for size, unit in _UNITS if micros % size == 0), None)
    if (
        parts.base != scan.start
        or parts.intervals
        or micros < 0
        or unit_size is None
        or (reached == ")" and not micros)
    ):
        raise NoFormula(f"a formula can compare {scan.table.start} only with NOW() - INTERVAL n SECONDS")
    length = f"{micros // unit_size[0]}{unit_size[1]}" if micros else "0"
    sign = passed if beyond else reached
    return f"{sign}{length}" if sign in "[(" and reached == "[" else f"{length}{sign}"


def _measured(measures: Iterable[relational.Measure], names: _Names) -> dict[ColumnRef, str]:
    taken, variables = set(names.variables.values()), {}
    for number, measure in enumerate(measures, 1):
        name = measure.output.column
        if name in taken or not _NAME.fullmatch(name) or name.startswith("measure_"):
            name = f"{measure.function[0] if measure.function != 'count' else 'n'}{number if number > 1 else ''}"
        while name in taken:
            name += "_"
        taken.add(name)
        variables[measure.output] = name
    return variables


def _aggregation(measure: relational.Measure, name: str, grouped: relational.Grouped, names: _Names, rows: str) -> str:
    groups = [names.require(each.value, "a formula groups only by columns other than ts") for each in grouped.groups]
    counted, bound = measure.argument, set[ColumnRef]()
    if isinstance(counted, Call) and counted.name == DISTINCT:
        counted = counted.args[0]
        bound = names.variables.keys() - {counted, *groups}
    if counted is None:
        counted = next((ref for ref in names.variables if ref not in groups), None)
        if counted is None:
            raise NoFormula("no column outside GROUP BY has values that a formula can count")
    counted = names.require(counted, "a formula aggregates only a column other than ts")
    by = ", ".join(names.variables[each] for each in groups)
    over = f"{names.variables[counted]}{f'; {by}' if by else ''}"
    others = ", ".join(variable for ref, variable in names.variables.items() if ref in bound)
    return f"{name} <- {_FUNCTIONS[measure.function]} {over} ({f'EXISTS {others}. ' if others else ''}{rows})"


def _measure_type(measure: relational.Measure, names: _Names) -> DataType:
    if measure.function == "count" or measure.argument is None:
        return BIGINT
    if measure.function == "avg":
        return DOUBLE
    return names.types[measure.argument] if isinstance(measure.argument, ColumnRef) else BIGINT


def _condition(predicate: relational.Predicate, names: _Names) -> str:
    """Return the text of a condition.  The text is empty if every row of a formula satisfies the condition."""
    if not isinstance(predicate, relational.Plain):
        raise NoFormula("a formula can filter its table only by comparing columns with constants")
    return _compared(predicate.condition, names)


def _compared(scalar: Scalar, names: _Names) -> str:
    match scalar:
        case Call(name="and", args=parts):
            return " AND ".join(filter(None, (_compared(part, names) for part in parts)))
        case Call(name="in", args=(column, *values)):
            return f"({' OR '.join(_comparison('=', column, value, names) for value in values)})"
        case Call(name="<>", args=(left, right)):
            return f"NOT ({_comparison('=', left, right, names)})"
        case Call(name="not", args=(Call(name="is null", args=(column,)),)) if column in (
            *names.variables,
            *names.ignored,
        ):
            return ""
        case Call(name=name, args=(left, right)) if name in _COMPARISONS:
            return _comparison(name, left, right, names)
        case _:
            raise NoFormula("a formula can filter its table only by comparing columns with constants")


def _comparison(operator: str, left: Scalar, right: Scalar, names: _Names) -> str:
    if isinstance(left, Literal):
        left, right, operator = right, left, _MIRRORED[operator]
    column = names.require(left, "a formula can filter its table only by comparing columns with constants")
    return f"{names.variables[column]} {operator} {_constant(right, names.types[column])}"


def _constant(value: Scalar, type: DataType) -> str:
    constant = value.value if isinstance(value, Literal) else None
    match constant:
        case int() if type == BIGINT and value.type.numeric:
            return str(constant)
        case int() | float() | Decimal() if type == DOUBLE and value.type.numeric:
            text = f"{float(constant)}"
            if not re.fullmatch(r"-?\d+\.\d+", text):
                raise NoFormula(f"{text} is not a valid constant in a formula")
            return text
        case str() if type == STRING and value.type == STRING and not re.search(r"[\"'\\$`!\n]", constant):
            return f'"{constant}"'
        case _:
            raise NoFormula("a formula can filter its table only by comparing columns with constants")
