"""Plan a query as a synopsis: its events, its formulas over the events, and its answers.

The catalog stores the plan after the resolution of names, as in ``planning.form``.  For an SQL query, the catalog
stores the query itself, and Weft derives the formulas again.  For a formula, the catalog stores the formula and its
tables.  The signature of the plan is a hash of the stored text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

from weft.algebra import stored_formula
from weft.algebra.formula import POINTS, Formula, Variable, undated
from weft.algebra.relation import Query
from weft.algebra.schema import BIGINT, STRING, DataType, TableSchema
from weft.algebra.stored import TableKey, restored, stored
from weft.derivation.normalize import normalize
from weft.derivation.synopsis.construct import Stored, Synopsis, shared
from weft.derivation.synopsis.fixpoints import stepped
from weft.derivation.synopsis.prepared import Semantics, prepared
from weft.errors import DerivationError, PlanMismatch
from weft.planning.plan import bind_standing, columns_of, planned
from weft.planning.stored_synopsis import Language
from weft.planning.synopsis_events import FormulaEvents, of_atoms, of_query

FORMAT: Final = 1
TIME_POINTS: Final = "time_points"
"""The name of the table with all states of a log.

A table of the log has a column ``tp`` with the state of each row.
"""
TP: Final = "tp"
AT: Final = "at"


@dataclass(frozen=True)
class FormulaOver:
    """A formula, with a table for each predicate.  The columns of a table are in the order of the predicate's terms.

    ``columns`` are the free variables in the order of the answer's columns.  ``points`` is the table of all states if
    the tables belong to a log.  If ``points`` is None, each instant at which rows arrived is a state.  For a formula of
    2-FOL, ``asked`` is the formula's text.  If the formula has no synopsis, ``why`` is the reason.  The catalog does
    not store ``asked`` and ``why``.
    """

    language: Language
    formula: Formula
    columns: tuple[Variable, ...]
    semantics: Semantics
    tables: Mapping[str, TableSchema]
    points: TableSchema | None
    asked: str | None = None
    why: str | None = None


@dataclass(frozen=True)
class SynopsisPlan:
    """A synopsis whose answers are the distinct rows of all ``parts``.

    If ``discard`` is true, Weft deletes processed rows from the tables.
    """

    source: Query | FormulaOver
    discard: bool = False

    @cached_property
    def parts(self) -> tuple[FormulaEvents, ...]:
        """The formulas of the query, with their events.  Raise SynopsisError if the query has no synopsis."""
        if isinstance(self.source, Query):
            return of_query(self.source)
        of, log = self.source, self.points is not None
        return (of_atoms(of.formula, of.columns, of.tables, log=log, count=self._count),)

    @property
    def _count(self) -> DataType | None:
        """The type is STRING if a count may exceed a BIGINT, and None if answers have no counts."""
        if isinstance(self.source, Query) or self.semantics == "set":
            return None
        return STRING if stepped(prepared(self.source.formula, self.semantics)) else BIGINT

    @property
    def language(self) -> Language:
        """The language of the query."""
        return "sql" if isinstance(self.source, Query) else self.source.language

    @property
    def semantics(self) -> Semantics:
        """The semantics of the answers: sets, or one of two ways to count."""
        return "set" if isinstance(self.source, Query) else self.source.semantics

    @property
    def points(self) -> TableSchema | None:
        """The table of all states if the tables belong to a log, otherwise None."""
        return None if isinstance(self.source, Query) else self.source.points

    @cached_property
    def synopsis(self) -> Synopsis:
        """The initial state ∅, the step Δ and the answer Γ.  Raise Refused if a formula cannot be computed."""
        return shared([part.formula for part in self.parts], self.semantics)

    @cached_property
    def history(self) -> bool:
        """Whether each tick reads the stored history in place of a synopsis."""
        return any(undated(name) or name == POINTS for name, _ in self.synopsis.predicates)

    @property
    def stored(self) -> tuple[Stored, ...]:
        """The relations that are stored between ticks."""
        return () if self.history else self.synopsis.stored

    @cached_property
    def tables(self) -> tuple[TableSchema, ...]:
        """The tables that the synopsis reads, including the table of states."""
        read = {events.table.id: events.table for part in self.parts for events in part.events}
        if self.points is not None:
            read[self.points.id] = self.points
        return tuple(read[key] for key in sorted(read))

    @property
    def columns(self) -> tuple[tuple[str, DataType], ...]:
        """The names and types of the answer's columns."""
        if isinstance(self.source, Query):
            return columns_of(self.source)
        columns = ((each.name, each.type) for each in self.source.columns)
        return ((TP, BIGINT), *columns, *(() if self._count is None else (("n", self._count),)))

    @property
    def states(self) -> str:
        """A key that identifies the sequence of states.  Queries with the same key have the same states."""
        if self.points is not None:
            return f"log:{self.points.id}"
        return "tables:" + ",".join(str(table.id) for table in self.tables)

    def relation(self, stored: Stored) -> str:
        """Return the name of a stored relation.  Queries with the same states share a relation under one name."""
        # Earlier versions stored the single instants of runs.  The mark gives the relation a new name, so that this
        # version does not read such a table.
        form = ["runs"] if stored.runs else []
        key = json.dumps([self.states, stored.semantics, stored_formula.encoded(stored.formula), *form])
        return hashlib.sha256(key.encode()).hexdigest()[:20]

    has_constants: ClassVar = False
    time_driven: ClassVar = False

    @cached_property
    def body(self) -> str:
        """The JSON text that the catalog stores."""
        form: dict[str, Any]
        if isinstance(self.source, Query):
            form = {"query": json.loads(stored(self.source))}
        else:
            form = {
                "formula": stored_formula.encoded(self.source.formula),
                "columns": stored_formula.encoded(self.source.columns),
                "semantics": self.semantics,
                "predicates": {name: _stored_table(table) for name, table in sorted(self.source.tables.items())},
                "points": None if self.source.points is None else _stored_table(self.source.points),
            }
        # The text includes the names of the stored relations, so that a version with other names does not read empty
        # relations.
        relations = [self.relation(each) for each in self.stored]
        special = {**({"discard": True} if self.discard else {}), **({"history": True} if self.history else {})}
        marks = {"synopsis": FORMAT, **special, "language": self.language}
        content = {**marks, **form, "relations": relations}
        return json.dumps(content, separators=(",", ":"))

    @cached_property
    def signature(self) -> str:
        """A hash of ``body``.  Two plans have the same hash exactly if their queries and their tables are the same."""
        return hashlib.sha256(self.body.encode()).hexdigest()[:16]


def sql_synopsis(text: str, tables: Mapping[str, TableSchema]) -> SynopsisPlan:
    """Return the synopsis of the SQL query ``text`` over ``tables``.

    Raise SqlError if the query cannot be installed.  Raise SynopsisError if the query has no synopsis.
    """
    query, _ = bind_standing(text, tables)
    planned(query)  # raises SqlError if it is too large
    return complete(SynopsisPlan(normalize(query)))


def complete(plan: SynopsisPlan) -> SynopsisPlan:
    """Derive all parts of the plan, so that an error occurs now and not in a tick."""
    assert plan.signature
    return plan


def restored_synopsis(body: str, expected: str, tables: Iterable[TableSchema]) -> SynopsisPlan:
    """Return the synopsis of the stored plan ``body``, with the current schemas ``tables``.

    Raise PlanMismatch if the plan has another format, if a table or column is missing, or if the signature is not
    ``expected``.
    """
    by_key: dict[TableKey, TableSchema] = {(table.source, table.id): table for table in tables}
    try:
        form = json.loads(body)
        if form.get("synopsis") != FORMAT:
            raise DerivationError(
                f"the synopsis has format {form.get('synopsis')}, but this version of Weft reads {FORMAT}"
            )
        plan = SynopsisPlan(_source(form, by_key), form.get("discard", False))
    except (DerivationError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlanMismatch(f"the stored synopsis {expected} cannot be read: {error}") from error
    if plan.signature != expected:
        raise PlanMismatch(
            f"the stored synopsis {expected} reads back as {plan.signature}, because another version of Weft "
            "installed the query",
            hint="Remove the query and install it again, or install it under another name.",
        )
    return plan


def _source(form: Mapping[str, Any], tables: Mapping[TableKey, TableSchema]) -> Query | FormulaOver:
    if "query" in form:
        return restored(json.dumps(form["query"]), tables)
    points = None if form["points"] is None else _table(form["points"], tables)
    predicates = {name: _table(stored_table, tables) for name, stored_table in form["predicates"].items()}
    formula = stored_formula.decoded(form["formula"])
    columns = tuple(map(stored_formula.decoded_variable, form["columns"][1:]))
    return FormulaOver(form["language"], formula, columns, form["semantics"], predicates, points)


def _stored_table(table: TableSchema) -> list[Any]:
    return [["table", table.id], [[column.id, str(column.type)] for column in table.columns]]


def _table(stored_table: Any, tables: Mapping[TableKey, TableSchema]) -> TableSchema:
    """The result has no columns that the table gained after the installation of the query."""
    (source, key), columns = stored_table
    table = tables.get((source, key))
    if table is None:
        raise DerivationError(f"the stored synopsis reads a table with id {key}, which does not exist")
    there = {(column.id, str(column.type)): column for column in table.columns}
    columns_now = [there.get((each, type_)) for each, type_ in columns]
    if None in columns_now:
        raise DerivationError(f"{table.name} does not have the columns that the stored synopsis reads")
    return TableSchema(table.id, table.name, tuple(each for each in columns_now if each), table.start, table.end)
