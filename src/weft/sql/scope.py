"""Names: which range variable and column a name in the text means."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from weft.algebra.relation import Measure, Relation, Scan, Source, attributes, sources
from weft.algebra.scalar import ColumnRef, Element, Scalar
from weft.algebra.schema import TableSchema
from weft.algebra.temporal import VALID_FROM, VALID_TO
from weft.errors import SqlError, TooLarge
from weft.sql.advice import TIMES, advice
from weft.sql.aggregates import Aggregate, aggregate_type
from weft.sql.refusal import place
from weft.sql.rewriting import installed

RESULTS: Final = "results"
"""``results.NAME`` are the answers of the standing query NAME."""
MOST_RANGE_VARIABLES: Final = 500
"""A CTE is written out wherever it is named: CTEs that name one another twice grow beyond any limit."""

_MADE_UP: Final = re.compile(r"_(?:was|before|outer|or\d+|\d+)$", re.IGNORECASE)
"""How range variables end that the rewriting makes out of others. A user's alias that ends so gets one more _: it must
never be what another alias is renamed to."""


def suggestion(wrong: str, known: Iterable[str], what: str, alike: float = 0.5) -> str:
    """ "Did you mean …", or the names there are; ``alike`` is how near a name must come, up to 1."""
    names = sorted(set(known))
    close = difflib.get_close_matches(wrong.lower(), [name.lower() for name in names], n=3, cutoff=alike)
    meant = [name for name in names if name.lower() in close]
    if meant:
        return f"Did you mean {' or '.join(meant)}?"
    if not names:
        return f"There are no {what} yet."
    return f"The {what} are {', '.join(names[:12])}{' …' if len(names) > 12 else ''}."


def as_written(alias: str) -> str:
    """A range variable as the query's text names it: without what binding and the rules put behind it.

    >>> as_written("m"), as_written("m_2"), as_written("r_2_was_was"), as_written("msgs_before"), as_written("r_was_")
    ('m', 'm', 'r', 'msgs', 'r_was')
    """
    while (found := _MADE_UP.search(alias)) is not None and found.start():
        alias = alias[: found.start()]
    return alias[:-1] if alias.endswith("_") and _MADE_UP.search(alias[:-1]) else alias


@dataclass
class Names:
    """Hands out range variables that are unique in a whole query."""

    taken: set[str] = field(default_factory=set)

    def fresh(self, wanted: str) -> str:
        """``wanted``, or ``wanted_2`` … where that is taken; raises SqlError for too many."""
        if len(self.taken) >= MOST_RANGE_VARIABLES:
            raise TooLarge(
                f"the query has more than {MOST_RANGE_VARIABLES} tables and derived tables, CTEs written out",
                hint="Take it apart into several queries.",
            )
        if wanted.startswith("_"):  # those are the rewriting's own
            wanted = f"t{wanted}"
        if _MADE_UP.search(wanted):
            wanted += "_"
        name, count = wanted, 1
        while name.lower() in self.taken:
            count += 1
            name = f"{wanted}_{count}"
        self.taken.add(name.lower())
        return name


@dataclass(frozen=True)
class Variable:
    """What an alias of FROM stands for: a relation, and the columns that can be named, in their order.

    ``unlisted`` are names of columns of a derived relation that ``*`` leaves out.
    """

    relation: Source
    columns: tuple[ColumnRef, ...]
    unlisted: frozenset[str] = frozenset()

    @classmethod
    def of(cls, relation: Source, hidden: tuple[str, ...] = ()) -> Variable:
        """All columns of a relation but those that are hidden."""
        return cls(relation, tuple(ref for ref in attributes(relation) if ref.column not in hidden))

    @property
    def listed(self) -> tuple[ColumnRef, ...]:
        """What ``*`` stands for: when and in which order an answer was given is no part of the answer, nor are the
        periods of a tracked table part of its rows."""
        if not isinstance(self.relation, Scan):
            return tuple(ref for ref in self.columns if ref.column not in self.unlisted)
        table = self.relation.table
        hidden = (VALID_FROM, VALID_TO) if table.end == VALID_TO else ()
        results = table.source == "results"
        return tuple(
            ref for ref in self.columns if ref.column not in hidden and not (results and ref.column.startswith("_"))
        )

    def find(self, name: str) -> ColumnRef | None:
        """The column of that name, in any case."""
        return next((ref for ref in self.columns if ref.column.lower() == name.lower()), None)


@dataclass(frozen=True)
class Merged:
    """A column of USING: one column of several range variables, given as the first one's."""

    ref: ColumnRef
    aliases: frozenset[str]


@dataclass(frozen=True)
class Context:
    """What the whole of a text shares: the tables, the names given out, and how a subquery is lowered."""

    tables: Mapping[str, TableSchema]
    names: Names
    subquery: Callable[[exp.Expr, Scope], tuple[Relation, tuple[ColumnRef, ...]]]
    """A query in parentheses as the relation of its rows, and its columns."""
    body: Callable[[exp.Expr, Scope], Relation]
    """A query in parentheses of which only matters whether it has a row."""
    view: bool = False
    """Whether the text is a temporal view: it is over tracked tables, and may have periods, NOW anywhere, GROUP BY."""
    text: str | None = None
    """The whole text; None while it is read to see whether it could stand as something else."""
    other: Callable[[], str | None] = lambda: None
    """Reads the text as a view, or a view's as a standing query: None where it stands, else a hint for where not."""


@dataclass
class Grouping:
    """The columns of a SELECT's groups under the range variable ``alias``: what is grouped by, and the aggregates."""

    alias: str
    groups: dict[Scalar, ColumnRef] = field(default_factory=dict)
    measures: list[Measure] = field(default_factory=list)
    incomplete: bool = False
    """Whether an item of GROUP BY is refused, so that a column which is not in it may be that item."""

    def group(self, value: Scalar) -> None:
        """Adds what is grouped by."""
        self.groups.setdefault(value, ColumnRef(self.alias, f"group_{len(self.groups) + 1}", value.type))

    def measure(self, function: Aggregate, argument: Scalar | None) -> ColumnRef:
        """The column of an aggregate, the same one for the same aggregate; raises TypeError where it has no type."""
        for known in self.measures:
            if (known.function, known.argument) == (function, argument):
                return known.output
        type = aggregate_type(function, None if argument is None else argument.type)
        output = ColumnRef(self.alias, f"measure_{len(self.measures) + 1}", type)
        self.measures.append(Measure(function, argument, output))
        return output

    def columns(self) -> tuple[ColumnRef, ...]:
        """All columns, those that are grouped by first."""
        return (*self.groups.values(), *(each.output for each in self.measures))


@dataclass
class Shared:
    """A common table expression: its name, its text, the names of its columns where given, and where it stands.

    ``refused``: its text was refused already, so that reading it again gives no other reason.
    """

    query: exp.Expr
    columns: tuple[str, ...]
    scope: Scope
    refused: bool = False


@dataclass
class Scope:
    """The range variables of one SELECT, and those around it."""

    context: Context
    parent: Scope | None = None
    variables: dict[str, Variable] = field(default_factory=dict)
    merged: dict[str, Merged] = field(default_factory=dict)
    shared: dict[str, Shared] = field(default_factory=dict)
    lateral: bool = True
    """Whether the range variables of ``parent`` can be named; a derived table sees its CTEs only."""
    copied: bool = False
    """Whether what stands here is written several times (the body of a NOT IN)."""
    elements: Mapping[str, Element] = field(default_factory=dict)
    """What the names before -> stand for, by their names in small letters, where a condition on an element stands."""
    grouping: Grouping | None = None
    """Where aggregates may stand: the groups they are of."""
    side: str = ""
    """The suffix of range variables on this side of EXCEPT or INTERSECT, where the other side has the same name."""
    refused: set[str] = field(default_factory=set)
    """The aliases of FROM whose relations are refused, so that their columns are not known."""

    def inner(self, *, lateral: bool = True) -> Scope:
        """The scope of a SELECT inside of this one."""
        return Scope(self.context, self, lateral=lateral, copied=self.copied, side=self.side)

    def fresh(self, wanted: str) -> str:
        """A range variable of its own."""
        names = self.context.names
        while self.side and wanted.lower() in names.taken:
            wanted = f"{wanted}_{self.side}"
        return names.fresh(wanted)

    @contextmanager
    def source(self, node: exp.Expr) -> Iterator[None]:
        """Where a relation of FROM is read: one that is refused is marked, for its columns not to be refused, too."""
        try:
            yield
        except SqlError:
            self.refused.add(node.alias_or_name.lower())
            raise

    def scan(self, table: exp.Table) -> Scan:
        """The table that a name of FROM means; raises SqlError where there is none."""
        name = f"{RESULTS}.{table.name}" if table.args.get("db") else table.name
        tables = self.context.tables
        schema = {key.lower(): schema for key, schema in tables.items()}.get(name.lower())
        if schema is None:
            if table.args.get("db"):
                plain = next((key for key in tables if key.lower() == table.name.lower()), None)
                other = f"Write FROM {plain}." if plain else "`weft queries` lists the queries."
                raise SqlError(f"there is no query {table.name!r}, so no {name}", where=place(table), hint=other)
            known = [*tables, *(shared for scope in self._chain() for shared in scope.shared)]
            raise SqlError(f"there is no table {name!r}", where=place(table), hint=suggestion(name, known, "tables"))
        if self.context.view and (schema.start, schema.end) != (VALID_FROM, VALID_TO):
            hint = self.context.other()
            if hint is None and self.context.text is not None:
                hint = f"It stands as a query: {installed(self.context.text)}."
            raise SqlError(f"{name!r} is append-only: its rows have no periods", where=place(table), hint=hint)
        return Scan(schema, self.fresh(table.alias or table.name))

    def variable(self, relation: Source) -> Variable:
        """A relation of FROM; in a view the bounds of a row's periods are no columns of it."""
        return Variable.of(relation, (VALID_FROM, VALID_TO) if self.context.view and isinstance(relation, Scan) else ())

    def visible_variables(self) -> dict[str, Variable]:
        """What the aliases that can be named here stand for, the innermost first."""
        found: dict[str, Variable] = {}
        for scope in self._visible():
            found = {**scope.variables, **found}
        return found

    def common(self, name: str) -> Shared | None:
        """The common table expression of that name, the innermost one."""
        return next((scope.shared[name.lower()] for scope in self._chain() if name.lower() in scope.shared), None)

    def add(self, alias: str, variable: Variable, node: exp.Expr) -> None:
        """Takes a range variable of FROM in; raises SqlError where its alias is used twice."""
        if alias.lower() in self.variables:
            raise SqlError(f"{alias!r} names two tables of one FROM", where=place(node), hint="Give each an alias.")
        self.variables[alias.lower()] = variable

    def resolve(self, column: exp.Column) -> ColumnRef:
        """The column a name means; raises SqlError for one that is unknown or ambiguous."""
        if column.args.get("db") or column.args.get("catalog"):
            raise self._of_too_many_parts(column)
        if not isinstance(column.this, exp.Identifier):
            raise SqlError(f"{column.sql('spark')} is not a column", where=place(column))
        found = self._find(column.table, column.name, column)
        if found is not None:
            return found
        shown = f"{column.table}.{column.name}" if column.table else column.name
        hint = advice(column.name) if column.name.lower() in TIMES else self._hint(column)
        if self.context.view and column.name.lower() in (VALID_FROM, VALID_TO):
            alias = column.table or next(iter(self.variables), "e")
            hint = (
                f"Periods are no columns of a view's FROM: write PERIOD_START({alias}), PERIOD_END({alias}) in WHERE."
            )
        raise self.consequence(
            SqlError(f"there is no column {shown!r}", where=place(column), hint=hint), column.table.lower()
        )

    def consequence(self, error: SqlError, qualifier: str = "") -> SqlError:
        """The error about a column of ``qualifier`` (none: of any table), marked where its table is refused."""
        refused = {alias for scope in self._visible() for alias in scope.refused}
        error.consequence = qualifier in refused if qualifier else bool(refused)
        return error

    def path(self, column: exp.Column) -> tuple[ColumnRef, list[exp.Expr]]:
        """The column that a name with points in it begins with, and the names of fields behind it.

        As Spark has it: ``a.b`` is the column b of the alias a, and only where there is none the field b of a column a.
        Raises SqlError as ``resolve``; a column without a shape has no fields.
        """
        first, *behind = column.parts
        if behind:
            found = self._find(first.name, behind[0].name, column)
            if found is not None and found.type.shape is not None:
                return found, behind[1:]
            own = self._find("", first.name, column) if found is None else None
            if own is not None and own.type.shape is not None:
                return own, behind
        return self.resolve(column), []

    def _of_too_many_parts(self, column: exp.Column) -> SqlError:
        alias, name, *parts = (part.name for part in column.parts)
        hint = "Write alias.column."
        if self._find(alias, name, column) is not None:
            path = ".".join(parts)
            hint = f"{alias}.{name} is a column; of JSON text GET_JSON_OBJECT({alias}.{name}, '$.{path}') is a part."
        return SqlError(f"{column.sql('spark')} has more than two parts", where=place(column), hint=hint)

    def element(self, name: str) -> Element | None:
        """The element of an array that a name before -> stands for, in any case."""
        return self.elements.get(name.lower())

    def owners(self, name: str, node: exp.Expr) -> tuple[ColumnRef, frozenset[str]] | None:
        """The column of that name in this SELECT's FROM, and whose it is; raises SqlError where several have it."""
        merged = self.merged.get(name.lower())
        found = {
            frozenset((alias,)): ref
            for alias, variable in self.variables.items()
            if not (merged and alias in merged.aliases) and (ref := variable.find(name))
        }
        if merged:
            found[merged.aliases] = merged.ref
        if len(found) > 1:
            shown = ", ".join(sorted(" with ".join(sorted(aliases)) for aliases in found))
            raise SqlError(f"{name!r} is in {shown}", where=place(node), hint="Write which one: alias.column.")
        return next(((ref, aliases) for aliases, ref in found.items()), None)

    def starts(self) -> frozenset[ColumnRef]:
        """The columns, of this SELECT and those around it, that hold a row's start: they are never NULL."""
        variables = (variable for scope in self._visible() for variable in scope.variables.values())
        scans = (part for variable in variables for part in sources(variable.relation))
        return frozenset(scan.start for scan in scans if isinstance(scan, Scan))

    def _find(self, qualifier: str, name: str, column: exp.Column) -> ColumnRef | None:
        for scope in self._visible():
            if not qualifier:
                found = scope.owners(name, column)
                if found is not None:
                    return found[0]
            elif qualifier.lower() in scope.variables:
                return scope.variables[qualifier.lower()].find(name)
        return None

    def _chain(self) -> Iterable[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def _visible(self) -> Iterable[Scope]:
        for scope in self._chain():
            yield scope
            if not scope.lateral:
                return

    def _hint(self, column: exp.Column) -> str:
        everything = self.visible_variables()
        qualifier = column.table.lower()
        if qualifier and qualifier not in everything:
            if self._find("", column.table, column) is not None:
                part = f"GET_JSON_OBJECT({column.table}, '$.{column.name}')"
                return f"{column.table} is a column; of JSON text {part} is a part."
            return f"{column.table!r} is no table or alias of FROM. " + suggestion(column.table, everything, "aliases")
        wanted = [everything[qualifier]] if qualifier else list(everything.values())
        return suggestion(column.name, {ref.column for variable in wanted for ref in variable.columns}, "columns")
