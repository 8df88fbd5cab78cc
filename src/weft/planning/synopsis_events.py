"""Generate the SQL for the events of a synopsis and for its answers.

An event is a row of a predicate.  The name of a predicate is a hash of the definition of its rows.  Equal subformulas
of different queries therefore have equal predicates.  The SQL is for DuckDB (``sql.dialects.duckdb_dialect``).  The
module refuses an expression that Spark might compute differently.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from weft.algebra import formula as algebra
from weft.algebra.relation import Plain, Project, Query, Scan, condition, conjuncts, sources
from weft.algebra.scalar import ColumnRef, Scalar, columns
from weft.algebra.schema import BIGINT, STRING, Column, DataType, TableSchema
from weft.algebra.traverse import substitute
from weft.derivation.synopsis.conjunctive import Nest, nests
from weft.errors import SynopsisError, of_each
from weft.planning.carried import ValueEncoding
from weft.sql.dialects.duckdb_dialect import unlike
from weft.sql.rendering import render
from weft.sql.rendering.null_on_overflow import all_within_range

EVENT: Final = "e"
"""The alias of a table in the SQL of events."""
ANSWER: Final = "a"
"""The alias of encoded answers, with the columns ``tp, c1 … ck [, n]``."""
VALUES: Final = "v"
"""The alias of decoded answers in the SQL of outputs, with the columns ``tp, v1 … vk [, n]``."""
_HINT: Final = "Remove --keep synopsis: Weft then evaluates the query over the tables' history."


@dataclass(frozen=True)
class Events:
    """The rows of a predicate: the rows of ``table`` that satisfy all ``conditions``.

    ``columns`` contains the SQL of the predicate's terms.  The table has the alias ``e`` in the SQL.  ``reads`` are the
    columns of the table that occur in the SQL.
    """

    predicate: str
    table: TableSchema
    reads: tuple[str, ...]
    columns: tuple[str, ...]
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class FormulaEvents:
    """A formula of a query, with the events of the formula's predicates.

    ``values`` is SQL that decodes the formula's answers ``a.c1 … a.ck`` into v1 … vk.  ``outputs`` are the columns of
    the query's answer.  Each output has a type and SQL over the decoded answers, with the alias ``v``.
    """

    formula: algebra.Formula
    events: tuple[Events, ...]
    values: tuple[str, ...]
    outputs: tuple[tuple[str, DataType], ...]


def of_query(query: Query) -> tuple[FormulaEvents, ...]:
    """Return a formula with its events for each SELECT of a query.  Raise SynopsisError if the query has no
    synopsis.
    """
    return tuple(of_each(_part, nests(query)))


def of_atoms(
    formula: algebra.Formula,
    columns: Sequence[algebra.Variable],
    tables: Mapping[str, TableSchema],
    *,
    log: bool,
    count: DataType | None,
) -> FormulaEvents:
    """Return ``formula`` with the rows of ``tables`` as the events of its predicates.

    If ``log`` is true, the tables belong to a log with numbered states.  An answer has the time point, the values of
    ``columns``, and a count unless ``count`` is None.
    """
    events = {name: _whole_rows(table, log) for name, table in tables.items()}
    names = {algebra.POINTS: algebra.POINTS}
    for name, each in events.items():
        names |= {name: each.predicate, algebra.dated(name): algebra.dated(each.predicate)}
    renamed = algebra.rewritten(
        formula,
        lambda part: replace(part, predicate=names[part.predicate]) if isinstance(part, algebra.Atom) else part,
    )
    free = {each: f"{VALUES}.v{n}" for n, each in enumerate(algebra.free_variables(formula), 1)}
    outputs = [(f"{VALUES}.tp", BIGINT), *((free[each], each.type) for each in columns)]
    if count is not None:
        outputs.append((f"{VALUES}.n", count))
    values = tuple(f"{ANSWER}.c{n}" for n in range(1, len(free) + 1))
    return FormulaEvents(renamed, tuple(dict.fromkeys(events.values())), values, tuple(outputs))


def terms_of(table: TableSchema, *, log: bool) -> tuple[tuple[Column, DataType | None], ...]:
    """Return the columns of a table's predicate, each with the type of its values in a formula.

    If a formula cannot use the values of a column, the type is None.  The values then become text, so that rows with
    different values remain distinct.
    """
    hidden = ("ts", "tp") if log else ("ts",)
    return tuple((each, algebra.term_type(each.type)) for each in table.columns if each.name.lower() not in hidden)


def _whole_rows(table: TableSchema, log: bool) -> Events:
    """Rows with a NULL are no events, because a NULL matches no term."""
    values, conditions, reads = [], [], []
    for column, type_ in terms_of(table, log=log):
        ref = f"{EVENT}.{render.quoted(column.name)}"
        values.append(f"CAST({ref} AS {type_ or STRING})")
        conditions.append(f"{ref} IS NOT NULL")
        reads.append(column.name)
    return Events(_predicate(table, values, conditions), table, tuple(reads), tuple(values), tuple(conditions))


def _predicate(table: TableSchema, taken: Sequence[str], conditions: Sequence[str]) -> str:
    definition = repr((table.id, tuple(taken), sorted(set(conditions))))
    return f"p{hashlib.sha256(definition.encode()).hexdigest()[:16]}"


def _part(nest: Nest) -> FormulaEvents:
    scans = {project.alias: _scan(project) for project in nest.inputs}
    of_each(_require_plain, dict.fromkeys(scan.table for scan in scans.values()))
    joined = _joined(nest.formula)
    atoms = {part.predicate: part for part in algebra.subformulas(nest.formula) if isinstance(part, algebra.Atom)}
    carried: dict[algebra.Variable, ValueEncoding] = {}
    for project in nest.inputs:
        for variable, output in zip(_variables(atoms[project.alias]), project.outputs, strict=True):
            column = scans[project.alias].table.column(output.name)
            nullable = column is None or column.nullable
            carried[variable] = ValueEncoding(variable.type, nullable=nullable and variable not in joined)
    _require_ordered(nest.formula, carried)
    rows = of_each(lambda project: _rows(project, _variables(atoms[project.alias]), carried), nest.inputs)
    events = {project.alias: each for project, each in zip(nest.inputs, rows, strict=True)}
    formula = algebra.rewritten(nest.formula, lambda part: _with_carried(part, carried, events))
    values = tuple(
        carried[each].decoded(f"{ANSWER}.c{n}") for n, each in enumerate(algebra.free_variables(nest.formula), 1)
    )
    return FormulaEvents(formula, tuple(dict.fromkeys(events.values())), values, _outputs(nest))


def _scan(project: Project) -> Scan:
    (scan,) = sources(project.input)
    assert isinstance(scan, Scan)
    return scan


def _require_plain(table: TableSchema) -> None:
    if table.source == "results":
        raise SynopsisError(
            f"this query has no synopsis: it reads {table.name}, the answers of another query", hint=_HINT
        )
    if not table.append_only:
        raise SynopsisError(f"this query has no synopsis: {table.name} is a tracked table, whose rows end", hint=_HINT)


def _variables(atom: algebra.Atom) -> list[algebra.Variable]:
    return [term for term in atom.terms if isinstance(term, algebra.Variable)]


def _joined(formula: algebra.Formula) -> set[algebra.Variable]:
    """Return the variables that are joined or compared.  Other variables only pass through to the answer."""
    places: Counter[algebra.Variable] = Counter()
    joined: set[algebra.Variable] = set()
    for atom in {part for part in algebra.subformulas(formula) if isinstance(part, algebra.Atom)}:
        places.update(_variables(atom))
    for part in algebra.subformulas(formula):
        if isinstance(part, algebra.Comparison):
            joined |= {*algebra.variables_of(part.left), *algebra.variables_of(part.right)}
    return joined | {variable for variable, count in places.items() if count > 1}


def _require_ordered(formula: algebra.Formula, carried: Mapping[algebra.Variable, ValueEncoding]) -> None:
    for part in algebra.subformulas(formula):
        if isinstance(part, algebra.Comparison) and part.operator in ("<", "<="):
            for variable in (*algebra.variables_of(part.left), *algebra.variables_of(part.right)):
                if not carried[variable].ordered:
                    raise SynopsisError(
                        f"this query has no synopsis: it compares {variable.name}, a {variable.type}, with "
                        "a column of another table",
                        hint="Such values support only = and <>. " + _HINT,
                    )


def _rows(
    project: Project, variables: Sequence[algebra.Variable], carried: Mapping[algebra.Variable, ValueEncoding]
) -> Events:
    """The name of the predicate is a hash of Spark's SQL, so a change of DuckDB's SQL does not change the name."""
    table = _scan(project).table
    for demanded in conjuncts(condition(project.input)):
        assert isinstance(demanded, Plain)
        _require_local(demanded.condition)
    predicate = _predicate(table, *_selected(project, variables, carried, render.scalar))
    reads = tuple(sorted({ref.column for ref in _mentioned(project)}))
    return Events(predicate, table, reads, *_selected(project, variables, carried, _local_sql))


def _selected(
    project: Project,
    variables: Sequence[algebra.Variable],
    carried: Mapping[algebra.Variable, ValueEncoding],
    rendered: Callable[[Scalar], str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    own = {ref: ColumnRef(EVENT, ref.column, ref.type) for ref in _mentioned(project)}
    demanded = (part.condition for part in conjuncts(condition(project.input)) if isinstance(part, Plain))
    conditions = [rendered(substitute(each, own)) for each in demanded]
    values = [rendered(substitute(output.value, own)) for output in project.outputs]
    pairs = list(zip(variables, values, strict=True))
    conditions += [f"{value} IS NOT NULL" for variable, value in pairs if not carried[variable].nullable]
    return tuple(carried[variable].encoded(value) for variable, value in pairs), tuple(conditions)


def _local_sql(scalar: Scalar) -> str:
    """Return SQL for DuckDB that computes the same value as Spark."""
    return render.scalar(all_within_range(scalar))


def _mentioned(project: Project) -> set[ColumnRef]:
    conditions = [part.condition for part in conjuncts(condition(project.input)) if isinstance(part, Plain)]
    return {ref for scalar in (*conditions, *(output.value for output in project.outputs)) for ref in columns(scalar)}


def _require_local(scalar: Scalar) -> None:
    differing = unlike(scalar)
    if differing is not None:
        raise SynopsisError(
            f"this query has no synopsis: {render.scalar(differing)} may have a different value when Weft "
            "computes it without Spark",
            hint=_HINT,
        )


def _with_carried(
    part: algebra.Formula, carried: Mapping[algebra.Variable, ValueEncoding], events: Mapping[str, Events]
) -> algebra.Formula:
    def variable(original: algebra.Variable) -> algebra.Variable:
        return algebra.Variable(original.name, carried[original].type)

    match part:
        case algebra.Atom(predicate=predicate):
            part = replace(part, predicate=events[predicate].predicate)
        case algebra.Exists(variables=bound):
            part = replace(part, variables=tuple(map(variable, bound)))
        case _:
            pass
    return algebra.with_terms(part, lambda term: algebra.with_variables(term, variable))


def _outputs(nest: Nest) -> tuple[tuple[str, DataType], ...]:
    places = {variable.name: f"v{n}" for n, variable in enumerate(algebra.free_variables(nest.formula), 1)}
    outputs = []
    for output in nest.outputs:
        _require_local(output.value)
        if output.value.type.name in ("INTERVAL", "ARRAY", "NULL"):
            raise SynopsisError(
                f"this query has no synopsis: its column {output.name} has the type {output.value.type}", hint=_HINT
            )
        own = {ref: ColumnRef(VALUES, places[ref.column], ref.type) for ref in columns(output.value)}
        outputs.append((_local_sql(substitute(output.value, own)), output.value.type))
    return tuple(outputs)
