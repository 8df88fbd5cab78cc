"""A query that is kept as a synopsis: which rows are its events, its formulas over them, and what answers are made of.

What the catalog keeps is what was bound, as of a plan (``planning.form``): for SQL the query, from which the formulas
are made again, for a formula the formula and its tables.  The signature is a hash of that.
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
from weft.algebra.formula import Formula, Variable
from weft.algebra.relation import Query
from weft.algebra.schema import BIGINT, STRING, DataType, TableSchema
from weft.algebra.stored import TableKey, restored, stored
from weft.algebra.two_sorted import POINTS, undated
from weft.derivation.normalize import normalize
from weft.derivation.synopsis.construct import Stored, Synopsis, shared
from weft.derivation.synopsis.fixpoints import stepped
from weft.derivation.synopsis.prepared import Semantics, prepared
from weft.errors import DerivationError, PlanMismatch
from weft.planning.plan import bind_standing, columns_of, planned
from weft.planning.synopsis_events import Part, of_atoms, of_query

Language = Literal["sql", "monpoly", "mutl", "mutl-minmax", "2fol"]
"""µTL twice: in ``mutl-minmax`` AND has the smaller of two counts, OR and EXISTS the greatest (Toman 2007, sec. 5)."""
FORMAT: Final = 1
_TABLE: Final = re.compile(r'\["table",(\d+)\]')
TIME_POINTS: Final = "time_points"
"""The table of all states of a log; a table of a log has the column ``tp`` of the state that a row is of."""
TP: Final = "tp"
AT: Final = "at"


@dataclass(frozen=True)
class FormulaOver:
    """A formula, and by the names of its predicates the tables whose rows they are, columns in their order.

    ``columns`` are its free variables in the order of its answers.  ``points`` is the table of all states, where the
    tables are of a log; else a state is an instant at which rows arrived.  Of a formula of two sorts ``asked`` is its
    text, and ``why`` the reason for which it has no synopsis, where it has none; neither is in the catalog.
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
    """``parts`` are evaluated together; the answers are the distinct rows of all of them.

    ``discard``: rows of its tables go once they are taken in.
    """

    source: Query | FormulaOver
    discard: bool = False

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The formulas; raises SynopsisError where there are none for the query."""
        if isinstance(self.source, Query):
            return of_query(self.source)
        of, log = self.source, self.points is not None
        return (of_atoms(of.formula, of.columns, of.tables, log=log, count=self._count),)

    @property
    def _count(self) -> DataType | None:
        """The type of a formula's counts, None where answers are not counted: text, where they may be of any size."""
        if isinstance(self.source, Query) or self.semantics == "set":
            return None
        return STRING if stepped(prepared(self.source.formula, self.semantics)) else BIGINT

    @property
    def language(self) -> Language:
        """In which it is written."""
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
        """∅, Δ, Γ of its formulas; raises Refused for what cannot be computed."""
        return shared([part.formula for part in self.parts], self.semantics)

    @cached_property
    def history(self) -> bool:
        """Whether it is asked of the kept history at each tick, there being no synopsis of it."""
        return any(undated(name) or name == POINTS for name, _ in self.synopsis.predicates)

    @property
    def stored(self) -> tuple[Stored, ...]:
        """What is stored between ticks."""
        return () if self.history else self.synopsis.stored

    @cached_property
    def tables(self) -> tuple[TableSchema, ...]:
        """The tables read, that of the states among them."""
        read = {events.table.id: events.table for part in self.parts for events in part.events}
        if self.points is not None:
            read[self.points.id] = self.points
        return tuple(read[key] for key in sorted(read))

    @property
    def columns(self) -> tuple[tuple[str, DataType], ...]:
        """The answer's columns."""
        if isinstance(self.source, Query):
            return columns_of(self.source)
        found = ((each.name, each.type) for each in self.source.columns)
        return ((TP, BIGINT), *found, *(() if self._count is None else (("n", self._count),)))

    @property
    def states(self) -> str:
        """What tells its states: queries for which it is the same go through the same ones."""
        if self.points is not None:
            return f"log:{self.points.id}"
        return "tables:" + ",".join(str(table.id) for table in self.tables)

    def relation(self, stored: Stored) -> str:
        """The name of a stored relation: the same for queries that go through the same states and store the same."""
        # Runs were stored as their single instants once: a table of these is none of a relation of runs.
        form = ["runs"] if stored.runs else []
        told = json.dumps([self.states, stored.semantics, stored_formula.encoded(stored.formula), *form])
        return hashlib.sha256(told.encode()).hexdigest()[:20]

    MARK: ClassVar = '{"synopsis":'
    """What the stored form of every synopsis begins with."""
    has_constants: ClassVar = False
    time_driven: ClassVar = False

    @cached_property
    def body(self) -> str:
        """What the catalog keeps."""
        form: dict[str, Any]
        if isinstance(self.source, Query):
            form = {"query": json.loads(stored(self.source))}
        else:
            form = {
                "formula": stored_formula.encoded(self.source.formula),
                "columns": stored_formula.encoded(self.source.columns),
                "semantics": self.semantics,
                "predicates": {name: _told(table) for name, table in sorted(self.source.tables.items())},
                "points": None if self.source.points is None else _told(self.source.points),
            }
        # With what is stored: a Weft that would look for it elsewhere must not take it for empty.
        relations = [self.relation(each) for each in self.stored]
        special = {**({"discard": True} if self.discard else {}), **({"history": True} if self.history else {})}
        marks = {"synopsis": FORMAT, **special, "language": self.language}
        whole = {**marks, **form, "relations": relations}
        return json.dumps(whole, separators=(",", ":"))

    @cached_property
    def signature(self) -> str:
        """The same for two queries exactly if they are the same one over the same tables."""
        return hashlib.sha256(self.body.encode()).hexdigest()[:16]


def sql_synopsis(text: str, tables: Mapping[str, TableSchema]) -> SynopsisPlan:
    """The synopsis of a query's text over ``tables``.

    Raises SqlError for what cannot stand, SynopsisError where no synopsis can be kept of it.
    """
    query, _ = bind_standing(text, tables)
    planned(query)  # raises where it is too large
    return complete(SynopsisPlan(normalize(query)))


def complete(plan: SynopsisPlan) -> SynopsisPlan:
    """The plan, all of which has been derived: what cannot be is refused now, and not in a tick."""
    assert plan.signature
    return plan


def is_synopsis(body: str) -> bool:
    """Whether a stored plan is one of a synopsis."""
    return body.startswith(SynopsisPlan.MARK)


def relations_of(body: str) -> tuple[str, ...]:
    """The names of the stored relations of a stored plan."""
    return tuple(json.loads(body)["relations"])


def discards(body: str) -> bool:
    """Whether a stored plan discards the rows of its tables."""
    return bool(json.loads(body).get("discard"))


def asks_history(body: str) -> bool:
    """Whether a stored plan is asked of the kept history."""
    return bool(json.loads(body).get("history"))


def tables_of(body: str) -> tuple[int, ...]:
    """The ids of the tables that a stored plan reads."""
    return tuple(sorted({int(found) for found in _TABLE.findall(body)}))


def restored_synopsis(body: str, expected: str, tables: Iterable[TableSchema]) -> SynopsisPlan:
    """The plan of a stored form over the tables as they are now; raises PlanMismatch as ``form.restored_plan``."""
    by_key: dict[TableKey, TableSchema] = {(table.source, table.id): table for table in tables}
    try:
        form = json.loads(body)
        if form.get("synopsis") != FORMAT:
            raise DerivationError(f"the synopsis has format {form.get('synopsis')}, this Weft reads {FORMAT}")
        found = SynopsisPlan(_source(form, by_key), form.get("discard", False))
    except (DerivationError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlanMismatch(f"the stored synopsis {expected} cannot be read: {error}") from error
    if found.signature != expected:
        raise PlanMismatch(
            f"the stored synopsis {expected} reads back as {found.signature}: another version of Weft installed it",
            hint="Install it again, under another name or once it is removed.",
        )
    return found


def _source(form: Mapping[str, Any], tables: Mapping[TableKey, TableSchema]) -> Query | FormulaOver:
    if "query" in form:
        return restored(json.dumps(form["query"]), tables)
    points = None if form["points"] is None else _table(form["points"], tables)
    predicates = {name: _table(told, tables) for name, told in form["predicates"].items()}
    formula = stored_formula.decoded(form["formula"])
    columns = tuple(map(stored_formula.decoded_variable, form["columns"][1:]))
    return FormulaOver(form["language"], formula, columns, form["semantics"], predicates, points)


def _told(table: TableSchema) -> list[Any]:
    """A table and the columns that there are of it."""
    return [["table", table.id], [[column.id, str(column.type)] for column in table.columns]]


def _table(told: Any, tables: Mapping[TableKey, TableSchema]) -> TableSchema:
    """The table with the columns that there were: those that came later are none of the predicate's."""
    (source, key), columns = told
    table = tables.get((source, key))
    if table is None:
        raise DerivationError(f"the stored synopsis reads a table with id {key}, which is not there")
    there = {(column.id, str(column.type)): column for column in table.columns}
    kept = [there.get((each, type_)) for each, type_ in columns]
    if None in kept:
        raise DerivationError(f"{table.name} does not have the columns that the stored synopsis reads")
    return TableSchema(table.id, table.name, tuple(each for each in kept if each), table.start, table.end)
