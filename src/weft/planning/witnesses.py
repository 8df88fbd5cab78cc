"""Derive the queries that name the causes of an answer: its driver, the rows that joined it, and the rows that were
absent.

A branch of Q^I returns a row of the answer at the instant at which its driver begins.  ``causes`` keeps the columns of
the tables that a branch joins.  The branch, restricted to the first instant of an answer and to the answer's row, then
returns the *witnesses* of the answer.  An EXISTS of the branch becomes a join, so its rows are witnesses, too.  A NOT
EXISTS has no witness: ``Cause.absent`` has the condition that no row satisfies.

Law: without a witness, the answer does not hold at its first instant, or another witness takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from typing import Literal as OneOf

from weft.algebra.event import INSTANT, Event
from weft.algebra.relation import (
    Distinct,
    Exists,
    Grouped,
    NotExists,
    Output,
    Plain,
    Predicate,
    Query,
    Recurrence,
    Recursive,
    Relation,
    Scan,
    Select,
    Source,
    StateSchema,
    Union,
    Windowed,
    attributes,
    block,
    condition,
    conjunction,
    conjuncts,
    sources,
)
from weft.algebra.scalar import TIME_START, TRUE, ColumnRef, Literal, Scalar, call, columns
from weft.algebra.schema import INTERVAL, STRING, TableSchema
from weft.algebra.traverse import Node, scans, substitute, transform, walk
from weft.derivation.stateful import written
from weft.planning.event_words import why
from weft.planning.plan import (
    Branch,
    Plan,
    encoded,
    encoded_in_duckdb,
    events_at,
    for_one,
    identity,
    ready,
    with_constants,
)
from weft.planning.words import condition_words, meanings, scalar_words, spoken
from weft.sql.lower.intervals import as_interval
from weft.sql.lower.scope import as_written
from weft.sql.rendering import render

Role = OneOf["driver", "joined", "exists"]
"""The part of a witness: the row that began or ended, a row of FROM, or a row of an EXISTS."""

OWN: Final = "own"
_WITNESS: Final = "w"


@dataclass(frozen=True)
class WitnessSource:
    """A relation of a branch, whose rows are witnesses.

    ``refs`` are the relation's columns.  ``names`` has the names of the columns in the words of the query's text.
    ``table`` is None for constant rows and for the elements of an array.
    """

    source: Source
    role: Role
    refs: tuple[ColumnRef, ...]
    names: tuple[str, ...]

    @property
    def alias(self) -> str:
        """The range variable in the query's text, or a noun for the row of an aggregate or of a window function."""
        state = self.state
        if state is None:
            return as_written(_alias(self.source))
        if isinstance(state.operator, Recursive):
            return state.operator.name
        return "group" if isinstance(state.operator, Grouped) else "row"

    @property
    def state(self) -> StateSchema | None:
        """The aggregate or window function whose row is the witness, or None for another relation."""
        scan = self.source
        return scan.table if isinstance(scan, Scan) and isinstance(scan.table, StateSchema) else None


@dataclass(frozen=True)
class Cause:
    """A branch that can give an answer, with the columns of its witnesses.

    ``why`` is the reason in words.  ``absent`` are the subqueries that had no row.
    """

    why: str
    branch: Branch
    sources: tuple[WitnessSource, ...]
    absent: tuple[NotExists, ...]

    @property
    def refs(self) -> tuple[ColumnRef, ...]:
        """The columns of all witnesses."""
        return tuple(ref for source in self.sources for ref in source.refs)

    def sql(self, number: int, row: Sequence[str | None], *, duckdb: bool) -> str:
        """Return SQL for the witnesses of the answer whose stored texts are ``row``, for DuckDB or for Spark.

        A row of the SQL has ``number`` and an ARRAY of the texts of all ``refs``.
        """
        outputs = self.branch.outputs
        shown = [ColumnRef("b", output.name, output.value.type) for output in outputs]
        answer, witnesses = shown[: len(row)], shown[len(row) : len(row) + len(self.refs)]
        known = encoded_in_duckdb if duckdb else identity
        same = " AND ".join(f"{known(ref)} <=> {_text(text)}" for ref, text in zip(answer, row, strict=True))
        found = _texts(witnesses, duckdb=duckdb)
        return f"SELECT {number} AS part, {found} AS row\nFROM ({self.branch.sql}) AS b\nWHERE {same or 'TRUE'}"


def _texts(columns: Sequence[ColumnRef], *, duckdb: bool) -> str:
    """Return an ARRAY of the texts of columns."""
    if duckdb:
        return f"[{', '.join(map(encoded_in_duckdb, columns))}]::VARCHAR[]"
    return f"ARRAY({', '.join(map(encoded, columns))})" if columns else "CAST(ARRAY() AS ARRAY<STRING>)"


def _text(text: str | None) -> str:
    if text is None:
        return "CAST(NULL AS STRING)"
    return render.literal(Literal("0.0" if text == "-0.0" else text, STRING))


def causes(plan: Plan, window: Mapping[str, Scalar]) -> tuple[Cause, ...]:
    """Return the branches of a query with the columns of their witnesses.

    ``window`` binds tau, t and t0: the window contains the first instant of the answer and no other instant.
    """
    known = meanings(plan.evaluated)
    shape = replace(plan, from_now=False).with_numbered_columns
    return tuple(_cause(with_constants(event, plan.values), window, known) for event in shape.branches)


def _cause(event: Event, window: Mapping[str, Scalar], known: Mapping[ColumnRef, Scalar]) -> Cause:
    own = {_alias(source): source for source in sources(event.block)}
    demanded, existing = _joined(condition(event.block), own)
    driver = event.driver.scan
    found = []
    for alias, source in own.items():
        role: Role = "driver" if driver is not None and driver.alias == alias else "joined"
        found.append(_source(source, "exists" if alias in existing and role == "joined" else role, known))
    refs = [ref for source in found for ref in source.refs]
    project = event.projection
    answer = [output for output in project.outputs if output.name != INSTANT]
    last = [output for output in project.outputs if output.name == INSTANT]
    columns = [Output(f"{_WITNESS}{number}", ref) for number, ref in enumerate(refs, 1)]
    kept = replace(project, input=block(tuple(own.values()), demanded), outputs=(*answer, *columns, *last))
    absent = tuple(
        NotExists(_timeless(each.body, event.instant)) for each in conjuncts(demanded) if isinstance(each, NotExists)
    )
    return Cause(why(spoken(event, known)), for_one(event.over(kept), (), window, False), tuple(found), absent)


def _joined(predicate: Predicate, own: dict[str, Source]) -> tuple[Predicate, set[str]]:
    """Replace each EXISTS by a join.  Add its relations to ``own``, and return their range variables."""
    items, added = list[Predicate](), set[str]()
    for item in conjuncts(predicate):
        inner = sources(item.body) if isinstance(item, Exists) else ()
        if not isinstance(item, Exists) or any(_alias(each) in own for each in inner):
            items.append(item)
            continue
        own |= {_alias(each): each for each in inner}
        more, names = _joined(condition(item.body), own)
        items.append(more)
        added |= {_alias(each) for each in inner} | names
    return conjunction(*items), added


def _alias(source: Source) -> str:
    return attributes(source)[0].scan if isinstance(source, Distinct) else source.alias


def _timeless(body: Relation, instant: Scalar) -> Relation:
    """Omit the conditions that the rows of a subquery hold at the instant of the branch."""
    periods = {
        ref for each in scans(body) for ref in attributes(each) if ref.column in (each.table.start, each.table.end)
    }

    def of_period(item: Predicate) -> bool:
        if not isinstance(item, Plain) or all(part != instant for part in walk(item.condition)):
            return False
        there = transform(item.condition, lambda part: TIME_START if part == instant else part)
        return columns(there) <= periods

    kept = (item for item in conjuncts(condition(body)) if not of_period(item))
    return block(sources(body), conjunction(*kept))


def _source(source: Source, role: Role, known: Mapping[ColumnRef, Scalar]) -> WitnessSource:
    refs = attributes(source)
    if isinstance(source, Scan):
        # The end of a row is unknown while the row holds.  The period of a state is cut to the window.
        hidden = (source.table.end, source.table.start if isinstance(source.table, StateSchema) else None)
        refs = tuple(_with_unit(ref, source.table) for ref in refs if ref.column not in hidden)
        known = {**meanings(source), **known}
    return WitnessSource(source, role, refs, tuple(_name(known.get(ref, ref)) for ref in refs))


def _with_unit(ref: ColumnRef, table: TableSchema) -> ColumnRef:
    """Return a column of a mean of intervals with this shape.  A state stores the mean as a DOUBLE of microseconds."""
    operator = table.operator if isinstance(table, StateSchema) else None
    for measure in operator.measures if isinstance(operator, Grouped) else ():
        of_intervals = measure.argument is not None and measure.argument.type.shape == INTERVAL
        if measure.function == "avg" and of_intervals and measure.output.column == ref.column:
            return replace(ref, type=replace(ref.type, shape=INTERVAL))
    return ref


def _name(value: Scalar) -> str:
    if isinstance(value, ColumnRef):
        return value.column
    return scalar_words(value)


def absent_words(absent: NotExists, values: Mapping[ColumnRef, Literal], known: Mapping[ColumnRef, Scalar]) -> str:
    """Return the condition that no row satisfied, with the values of the witnesses in place of their columns."""
    shown = {ref: as_interval(value) for ref, value in values.items()}
    return condition_words(substitute(substitute(NotExists(absent.body), shown), known))


@dataclass(frozen=True)
class Members:
    """Some of the rows from which the row of a state follows at one instant: a branch with the columns of its sources.

    The column ``OWN`` of the branch is true for the row to which window functions were added.
    """

    branch: Branch
    sources: tuple[WitnessSource, ...]

    def sql(self, number: int, *, duckdb: bool) -> str:
        """Return SQL for the rows, with ``number``, an ARRAY of the texts of their columns, and ``OWN``.

        The SQL is for DuckDB or for Spark.
        """
        outputs = self.branch.outputs
        shown = [ColumnRef("b", each.name, each.value.type) for each in outputs if each.name.startswith(_WITNESS)]
        return f"SELECT {number} AS part, {_texts(shown, duckdb=duckdb)} AS row, b.{OWN}\nFROM ({self.branch.sql}) AS b"


def members(state: StateSchema, values: Mapping[str, Literal], s: Scalar) -> tuple[Members, ...]:
    """Return the rows from which a row of a state follows at the instant ``s``: its group, its partition, or the rows
    of a step of a recursion.

    ``values`` has the values of the row by name.  Return nothing if a value that restricts the rows is not among them.
    """
    below = _rows_below(state, values)
    if below is None:
        return ()
    relation, same, own = below
    known = meanings(relation)
    query = Query(Select(relation, conjunction(*same)), (Output(OWN, own),))
    found = []
    for event in events_at(query, s):
        read = tuple(_source(each, "joined", known) for each in sources(event.block))
        refs = [ref for source in read for ref in source.refs]
        if refs:
            project = event.projection
            columns = tuple(Output(f"{_WITNESS}{number}", ref) for number, ref in enumerate(refs, 1))
            kept = replace(project, outputs=(*project.outputs[:1], *columns, *project.outputs[1:]))
            found.append(Members(ready(event.over(kept), whole=True), read))
    return tuple(found)


def _rows_below(state: StateSchema, values: Mapping[str, Literal]) -> tuple[Relation, list[Predicate], Scalar] | None:
    """Return the relation below a state, the conditions that choose the rows, and whether a row is the row's own."""
    operator, given = written(state), [values.get(column.name) for column in state.columns]
    rows: Relation
    match operator:
        case Grouped(input=rows, groups=groups):
            chosen = [group.value for group in groups]
        case Windowed(input=rows, partition=partition, outputs=outputs):
            row = {each.value: value for each, value in zip(outputs, given, strict=False) if value is not None}
            own: Scalar = TRUE
            for pair in row.items():
                own = call("and", own, call("<=>", *pair))
            of_row = [(key, substitute(key, row)) for key in partition]
            if any(columns(value) for _, value in of_row):
                return None
            return rows, [Plain(call("<=>", *pair)) for pair in of_row], own
        case Recursive():
            rows = _with_parents(state, operator)
            chosen = list(attributes(rows))
        case _:
            rows = operator.input if isinstance(operator, Distinct) else operator
            chosen = list(attributes(rows))
    same = [Plain(call("<=>", key, value)) for key, value in zip(chosen, given, strict=False) if value is not None]
    return (rows, list[Predicate](same), TRUE) if len(same) == len(chosen) else None


def _with_parents(state: StateSchema, operator: Recursive) -> Relation:
    """Return the first rows and the step of a recursion, where the step reads all rows of the recursion."""
    parts = [part for part in walk(operator) if isinstance(part, Recurrence)]
    places = {
        (part.alias, column.name): own.name
        for part in parts
        for column, own in zip(part.columns, state.columns, strict=False)
    }

    def change(node: Node) -> Node:
        match node:
            case Recurrence(alias=alias):
                return Scan(state, alias)
            case ColumnRef(scan=scan, column=column) if (scan, column) in places:
                return replace(node, column=places[scan, column])
            case _:
                return node

    return Union(operator.alias, (operator.seed, transform(operator.step, change)))
