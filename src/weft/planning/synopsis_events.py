"""The events of a synopsis: which rows of which tables its predicates have, and its answers as SQL over variables.

A predicate's name is a hash of what its rows are, so that equal subformulas of different queries are equal formulas.
SQL here is for DuckDB (``sql.local``); what Spark might compute otherwise is refused.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from weft.algebra.formula import (
    Atom,
    Comparison,
    Exists,
    Formula,
    Variable,
    free_variables,
    rewritten,
    subformulas,
    term_type,
    variables_of,
    with_terms,
    with_variables,
)
from weft.algebra.relation import Plain, Project, Query, Scan, condition, conjuncts, sources
from weft.algebra.scalar import ColumnRef, Scalar, columns
from weft.algebra.schema import BIGINT, STRING, Column, DataType, TableSchema
from weft.algebra.traverse import substitute
from weft.algebra.two_sorted import POINTS, dated
from weft.derivation.synopsis.conjunctive import Nest, nests
from weft.errors import SynopsisError, of_each
from weft.planning.carried import Carried
from weft.sql import render
from weft.sql.duckdb_dialect import unlike
from weft.sql.null_on_overflow import all_within_range

EVENT: Final = "e"
"""The range variable of a table's rows in the SQL of events."""
ANSWER: Final = "a"
"""That of answers ``tp, c1 … ck [, n]``."""
VALUES: Final = "v"
"""That of what they stand for, ``tp, v1 … vk [, n]``, in the SQL of outputs."""
_HINT: Final = "Leave --keep synopsis out: then the tables' history answers it."


@dataclass(frozen=True)
class Events:
    """The rows of a predicate: ``columns`` is SQL over those rows of ``table`` (as e) that meet all ``conditions``.

    ``reads`` are the table's columns that they speak of.
    """

    predicate: str
    table: TableSchema
    reads: tuple[str, ...]
    columns: tuple[str, ...]
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """A formula and its events.

    ``values`` is SQL of what its answers' ``a.c1 … a.ck`` stand for, v1 … vk; ``outputs`` the answer's columns as SQL
    over these (as v), each with its type.
    """

    formula: Formula
    events: tuple[Events, ...]
    values: tuple[str, ...]
    outputs: tuple[tuple[str, DataType], ...]


def of_query(query: Query) -> tuple[Part, ...]:
    """The SELECTs of a query, each as a formula; raises SynopsisError where no synopsis can be kept of it."""
    return tuple(of_each(_part, nests(query)))


def of_atoms(
    formula: Formula,
    columns: Sequence[Variable],
    tables: Mapping[str, TableSchema],
    *,
    log: bool,
    count: DataType | None,
) -> Part:
    """A formula whose predicates are tables, ``log``: of a log of states that are numbered.

    Its answers are the time point and the values of ``columns``, with their count where that has a type.
    """
    events = {name: _whole_rows(table, log) for name, table in tables.items()}
    names = {POINTS: POINTS}
    for name, each in events.items():
        names |= {name: each.predicate, dated(name): dated(each.predicate)}
    renamed = rewritten(
        formula,
        lambda part: replace(part, predicate=names[part.predicate]) if isinstance(part, Atom) else part,
    )
    free = {each: f"{VALUES}.v{n}" for n, each in enumerate(free_variables(formula), 1)}
    outputs = [(f"{VALUES}.tp", BIGINT), *((free[each], each.type) for each in columns)]
    if count is not None:
        outputs.append((f"{VALUES}.n", count))
    values = tuple(f"{ANSWER}.c{n}" for n in range(1, len(free) + 1))
    return Part(renamed, tuple(dict.fromkeys(events.values())), values, tuple(outputs))


def terms_of(table: TableSchema, *, log: bool) -> tuple[tuple[Column, DataType | None], ...]:
    """The columns of a table as a predicate's, each with the type of its terms.

    None: no formula can use the values; they are texts, so that rows that differ in them are different ones.
    """
    left = ("ts", "tp") if log else ("ts",)
    return tuple((each, term_type(each.type)) for each in table.columns if each.name.lower() not in left)


def _whole_rows(table: TableSchema, log: bool) -> Events:
    """All rows of a table; one with a NULL agrees with no terms."""
    taken, conditions, reads = [], [], []
    for column, type_ in terms_of(table, log=log):
        ref = f"{EVENT}.{render.name(column.name)}"
        taken.append(f"CAST({ref} AS {type_ or STRING})")
        conditions.append(f"{ref} IS NOT NULL")
        reads.append(column.name)
    return Events(_predicate(table, taken, conditions), table, tuple(reads), tuple(taken), tuple(conditions))


def _predicate(table: TableSchema, taken: Sequence[str], conditions: Sequence[str]) -> str:
    """The name of the predicate whose rows are these."""
    told = repr((table.id, tuple(taken), sorted(set(conditions))))
    return f"p{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def _part(nest: Nest) -> Part:
    scans = {project.alias: _scan(project) for project in nest.inputs}
    of_each(_require_plain, dict.fromkeys(scan.table for scan in scans.values()))
    joined = _joined(nest.formula)
    atoms = {part.predicate: part for part in subformulas(nest.formula) if isinstance(part, Atom)}
    carried: dict[Variable, Carried] = {}
    for project in nest.inputs:
        for variable, output in zip(_variables(atoms[project.alias]), project.outputs, strict=True):
            column = scans[project.alias].table.column(output.name)
            nullable = column is None or column.nullable
            carried[variable] = Carried(variable.type, nullable=nullable and variable not in joined)
    _require_ordered(nest.formula, carried)
    rows = of_each(lambda project: _rows(project, _variables(atoms[project.alias]), carried), nest.inputs)
    events = {project.alias: each for project, each in zip(nest.inputs, rows, strict=True)}
    formula = rewritten(nest.formula, lambda part: _with_carried(part, carried, events))
    values = tuple(carried[each].given(f"{ANSWER}.c{n}") for n, each in enumerate(free_variables(nest.formula), 1))
    return Part(formula, tuple(dict.fromkeys(events.values())), values, _outputs(nest))


def _scan(project: Project) -> Scan:
    (scan,) = sources(project.input)
    assert isinstance(scan, Scan)
    return scan


def _require_plain(table: TableSchema) -> None:
    if table.source == "results":
        raise SynopsisError(
            f"no synopsis can be kept of this query: it reads {table.name}, the answers of another one", hint=_HINT
        )
    if not table.append_only:
        raise SynopsisError(
            f"no synopsis can be kept of this query: {table.name} is tracked, and its rows end", hint=_HINT
        )


def _variables(atom: Atom) -> list[Variable]:
    return [term for term in atom.terms if isinstance(term, Variable)]


def _joined(formula: Formula) -> set[Variable]:
    """The variables of which more is asked than to be handed on."""
    places: Counter[Variable] = Counter()
    found: set[Variable] = set()
    for atom in {part for part in subformulas(formula) if isinstance(part, Atom)}:
        places.update(_variables(atom))
    for part in subformulas(formula):
        if isinstance(part, Comparison):
            found |= {*variables_of(part.left), *variables_of(part.right)}
    return found | {variable for variable, count in places.items() if count > 1}


def _require_ordered(formula: Formula, carried: Mapping[Variable, Carried]) -> None:
    for part in subformulas(formula):
        if isinstance(part, Comparison) and part.operator in ("<", "<="):
            for variable in (*variables_of(part.left), *variables_of(part.right)):
                if not carried[variable].ordered:
                    raise SynopsisError(
                        f"no synopsis can be kept of this query: it compares {variable.name}, a {variable.type}, with "
                        "a column of another table",
                        hint="Only = and <> are asked of such values. " + _HINT,
                    )


def _rows(project: Project, variables: Sequence[Variable], carried: Mapping[Variable, Carried]) -> Events:
    """The events of one table, under a name that says what they are.

    The name is made of the SQL that a user reads, so that it stays as it is when the SQL for DuckDB changes.
    """
    table = _scan(project).table
    for demanded in conjuncts(condition(project.input)):
        assert isinstance(demanded, Plain)
        _require_local(demanded.condition)
    predicate = _predicate(table, *_selected(project, variables, carried, render.scalar))
    reads = tuple(sorted({ref.column for ref in _mentioned(project)}))
    return Events(predicate, table, reads, *_selected(project, variables, carried, _local_sql))


def _selected(
    project: Project,
    variables: Sequence[Variable],
    carried: Mapping[Variable, Carried],
    rendered: Callable[[Scalar], str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns and the conditions of the events of one table."""
    own = {ref: ColumnRef(EVENT, ref.column, ref.type) for ref in _mentioned(project)}
    demanded = (part.condition for part in conjuncts(condition(project.input)) if isinstance(part, Plain))
    conditions = [rendered(substitute(each, own)) for each in demanded]
    values = [rendered(substitute(output.value, own)) for output in project.outputs]
    given = list(zip(variables, values, strict=True))
    conditions += [f"{value} IS NOT NULL" for variable, value in given if not carried[variable].nullable]
    return tuple(carried[variable].taken(value) for variable, value in given), tuple(conditions)


def _local_sql(scalar: Scalar) -> str:
    """SQL for DuckDB that means there what it means in Spark."""
    return render.scalar(all_within_range(scalar))


def _mentioned(project: Project) -> set[ColumnRef]:
    asked = [part.condition for part in conjuncts(condition(project.input)) if isinstance(part, Plain)]
    return {ref for scalar in (*asked, *(output.value for output in project.outputs)) for ref in columns(scalar)}


def _require_local(scalar: Scalar) -> None:
    found = unlike(scalar)
    if found is not None:
        raise SynopsisError(
            f"no synopsis can be kept of this query: {render.scalar(found)} is computed without Spark then, and might "
            "come to something else",
            hint=_HINT,
        )


def _with_carried(part: Formula, carried: Mapping[Variable, Carried], events: Mapping[str, Events]) -> Formula:
    def variable(given: Variable) -> Variable:
        return Variable(given.name, carried[given].type)

    match part:
        case Atom(predicate=predicate):
            part = replace(part, predicate=events[predicate].predicate)
        case Exists(variables=bound):
            part = replace(part, variables=tuple(map(variable, bound)))
        case _:
            pass
    return with_terms(part, lambda term: with_variables(term, variable))


def _outputs(nest: Nest) -> tuple[tuple[str, DataType], ...]:
    """The answer's columns as SQL over ``v1 … vk``, what the free variables in their order stand for."""
    places = {variable.name: f"v{n}" for n, variable in enumerate(free_variables(nest.formula), 1)}
    found = []
    for output in nest.outputs:
        _require_local(output.value)
        if output.value.type.name in ("INTERVAL", "ARRAY", "NULL"):
            raise SynopsisError(
                f"no synopsis can be kept of this query: its column {output.name} is an {output.value.type}", hint=_HINT
            )
        own = {ref: ColumnRef(VALUES, places[ref.column], ref.type) for ref in columns(output.value)}
        found.append((_local_sql(substitute(output.value, own)), output.value.type))
    return tuple(found)
