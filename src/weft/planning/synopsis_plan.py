"""Plan a query as a synopsis: its events, its formulas over them, and its answers.

As for a plan (``planning.form``), the catalog stores the bound form: for SQL the query, from which the formulas are
derived again; for a formula the formula and its tables.  The signature is a hash of that form.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Literal

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
from weft.planning.synopsis_events import FormulaEvents, of_atoms, of_query

Language = Literal["sql", "monpoly", "mutl", "mutl-minmax", "2fol"]
"""``mutl-minmax`` is µTL in which AND takes the smaller of two counts, OR and EXISTS the greatest (Toman 2007, sec.
5).
"""
FORMAT: Final = 1
_TABLE: Final = re.compile(r'\["table",(\d+)\]')
TIME_POINTS: Final = "time_points"
"""The table of all states of a log.  A table of the log has a column ``tp`` with the state of each row."""
TP: Final = "tp"
AT: Final = "at"


@dataclass(frozen=True)
class FormulaOver:
    """A formula, and the table of each of its predicates, with columns in order.

    ``columns`` are its free variables in the order of its answers.  ``points`` is the table of all states if the tables
    belong to a log; otherwise a state is an instant at which rows arrived.  For a two-sorted formula, ``asked`` is its
    text and ``why`` the reason if it has no synopsis; the catalog stores neither.
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
    """A synopsis whose ``parts`` are evaluated together; the answers are the distinct rows of all parts.

    With ``discard``, rows of its tables are deleted once they are processed.
    """

    source: Query | FormulaOver
    discard: bool = False

    @cached_property
    def parts(self) -> tuple[FormulaEvents, ...]:
        """The formulas; raises SynopsisError if the query has none."""
        if isinstance(self.source, Query):
            return of_query(self.source)
        of, log = self.source, self.points is not None
        return (of_atoms(of.formula, of.columns, of.tables, log=log, count=self._count),)

    @property
    def _count(self) -> DataType | None:
        """The type of a formula's counts, or None without counts; STRING if they may be of any size."""
        if isinstance(self.source, Query) or self.semantics == "set":
            return None
        return STRING if stepped(prepared(self.source.formula, self.semantics)) else BIGINT

    @property
    def language(self) -> Language:
        """The language of the query."""
        return "sql" if isinstance(self.source, Query) else self.source.language

    @property
    def semantics(self) -> Semantics:
        """Whether answers are counted."""
        return "set" if isinstance(self.source, Query) else self.source.semantics

    @property
    def points(self) -> TableSchema | None:
        """The table of all states (``FormulaOver``)."""
        return None if isinstance(self.source, Query) else self.source.points

    @cached_property
    def synopsis(self) -> Synopsis:
        """∅, Δ and Γ of its formulas; raises Refused for a formula that cannot be computed."""
        return shared([part.formula for part in self.parts], self.semantics)

    @cached_property
    def history(self) -> bool:
        """Whether each tick reads the stored history, because no synopsis exists."""
        return any(undated(name) or name == POINTS for name, _ in self.synopsis.predicates)

    @property
    def stored(self) -> tuple[Stored, ...]:
        """The relations stored between ticks."""
        return () if self.history else self.synopsis.stored

    @cached_property
    def tables(self) -> tuple[TableSchema, ...]:
        """The tables that it reads, including the table of states."""
        read = {events.table.id: events.table for part in self.parts for events in part.events}
        if self.points is not None:
            read[self.points.id] = self.points
        return tuple(read[key] for key in sorted(read))

    @property
    def columns(self) -> tuple[tuple[str, DataType], ...]:
        """The answer's columns."""
        if isinstance(self.source, Query):
            return columns_of(self.source)
        columns = ((each.name, each.type) for each in self.source.columns)
        return ((TP, BIGINT), *columns, *(() if self._count is None else (("n", self._count),)))

    @property
    def states(self) -> str:
        """A key of the sequence of states; queries with the same key share it."""
        if self.points is not None:
            return f"log:{self.points.id}"
        return "tables:" + ",".join(str(table.id) for table in self.tables)

    def relation(self, stored: Stored) -> str:
        """Return the name of a stored relation, equal for queries with the same states and the same relation."""
        # Earlier versions stored runs as single instants; such a table must not be read as a relation of runs.
        form = ["runs"] if stored.runs else []
        key = json.dumps([self.states, stored.semantics, stored_formula.encoded(stored.formula), *form])
        return hashlib.sha256(key.encode()).hexdigest()[:20]

    MARK: ClassVar = '{"synopsis":'
    """The prefix of every stored synopsis."""
    has_constants: ClassVar = False
    time_driven: ClassVar = False

    @cached_property
    def body(self) -> str:
        """The form that the catalog stores."""
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
        # Include the stored relations, so that a version that names them differently does not read them as empty.
        relations = [self.relation(each) for each in self.stored]
        special = {**({"discard": True} if self.discard else {}), **({"history": True} if self.history else {})}
        marks = {"synopsis": FORMAT, **special, "language": self.language}
        content = {**marks, **form, "relations": relations}
        return json.dumps(content, separators=(",", ":"))

    @cached_property
    def signature(self) -> str:
        """A hash that is equal for two queries exactly if they are the same query over the same tables."""
        return hashlib.sha256(self.body.encode()).hexdigest()[:16]


def sql_synopsis(text: str, tables: Mapping[str, TableSchema]) -> SynopsisPlan:
    """Return the synopsis of a query's text over ``tables``.

    Raise SqlError if the query cannot be installed, SynopsisError if it has no synopsis.
    """
    query, _ = bind_standing(text, tables)
    planned(query)  # raises SqlError if it is too large
    return complete(SynopsisPlan(normalize(query)))


def complete(plan: SynopsisPlan) -> SynopsisPlan:
    """Return the plan after deriving all of it, so that errors occur now and not in a tick."""
    assert plan.signature
    return plan


def is_synopsis(body: str) -> bool:
    """Return whether a stored plan is a synopsis."""
    return body.startswith(SynopsisPlan.MARK)


def relations_of(body: str) -> tuple[str, ...]:
    """Return the names of the stored relations of a stored plan."""
    return tuple(json.loads(body)["relations"])


def discards(body: str) -> bool:
    """Return whether a stored plan discards the rows of its tables."""
    return bool(json.loads(body).get("discard"))


def asks_history(body: str) -> bool:
    """Return whether a stored plan reads the stored history."""
    return bool(json.loads(body).get("history"))


def tables_of(body: str) -> tuple[int, ...]:
    """Return the ids of the tables that a stored plan reads."""
    return tuple(sorted({int(table_id) for table_id in _TABLE.findall(body)}))


def restored_synopsis(body: str, expected: str, tables: Iterable[TableSchema]) -> SynopsisPlan:
    """Return the plan of a stored form over current schemas; raise PlanMismatch as ``form.restored_plan`` does."""
    by_key: dict[TableKey, TableSchema] = {(table.source, table.id): table for table in tables}
    try:
        form = json.loads(body)
        if form.get("synopsis") != FORMAT:
            raise DerivationError(f"the synopsis has format {form.get('synopsis')}, this Weft reads {FORMAT}")
        plan = SynopsisPlan(_source(form, by_key), form.get("discard", False))
    except (DerivationError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlanMismatch(f"the stored synopsis {expected} cannot be read: {error}") from error
    if plan.signature != expected:
        raise PlanMismatch(
            f"the stored synopsis {expected} reads back as {plan.signature}: another version of Weft installed it",
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
    """Serialize a table: its id, and the ids and types of its columns."""
    return [["table", table.id], [[column.id, str(column.type)] for column in table.columns]]


def _table(stored_table: Any, tables: Mapping[TableKey, TableSchema]) -> TableSchema:
    """Return the table with its columns at installation; later columns do not belong to the predicate."""
    (source, key), columns = stored_table
    table = tables.get((source, key))
    if table is None:
        raise DerivationError(f"the stored synopsis reads a table with id {key}, which does not exist")
    there = {(column.id, str(column.type)): column for column in table.columns}
    columns_now = [there.get((each, type_)) for each, type_ in columns]
    if None in columns_now:
        raise DerivationError(f"{table.name} does not have the columns that the stored synopsis reads")
    return TableSchema(table.id, table.name, tuple(each for each in columns_now if each), table.start, table.end)
