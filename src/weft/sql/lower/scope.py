"""Resolve names in the text to range variables and columns."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlglot import exp

from weft.algebra.relation import (
    TRUE,
    AggregateFunction,
    Materialized,
    Measure,
    Predicate,
    Relation,
    Scan,
    Source,
    WindowFunction,
    attributes,
    sources,
)
from weft.algebra.scalar import ColumnRef, Element, Scalar
from weft.algebra.schema import VALID_FROM, VALID_TO, Column, DataType, TableSchema
from weft.algebra.traverse import N, Node, range_variables, rename, walk
from weft.errors import SqlError, TooLarge
from weft.sql.functions import aggregate_type
from weft.sql.lower.advice import TIMES, advice
from weft.sql.lower.refusal import place
from weft.sql.lower.rewriting import installed

RESULTS: Final = "results"
"""The qualifier of answer tables.  The table ``results.NAME`` contains the answers of the standing query NAME."""
MOST_RANGE_VARIABLES: Final = 500
"""The maximal number of range variables.

Each use of a common table expression inserts a copy.  Nested expressions could therefore grow without bound.
"""

_MADE_UP: Final = re.compile(r"_(?:was|before|outer|step|or\d+|\d+)$", re.IGNORECASE)
"""The suffixes of range variables that the rewriting creates.  Weft appends an underscore to a user's alias with one of
these suffixes.
"""
UNNAMED: Final = ("answer", "sub", "derived")
"""The range variables of derived relations that have no name in the text: the result and the operands of EXCEPT,
subqueries, and derived tables without an alias.
"""
_OF_WEFT: Final = re.compile(rf"({'|'.join(UNNAMED)})(?:_right)*(_*)", re.IGNORECASE)
"""A range variable of an unnamed derived relation.  Weft appends an underscore to an alias of the text that is one."""


def suggestion(wrong: str, known: Iterable[str], what: str, alike: float = 0.5) -> str:
    """Return "Did you mean …" with names similar to ``wrong``, or a list of the known names.

    ``alike`` is the minimal similarity of a suggested name, between 0 and 1.
    """
    names = sorted(set(known))
    close = difflib.get_close_matches(wrong.lower(), [name.lower() for name in names], n=3, cutoff=alike)
    meant = [name for name in names if name.lower() in close]
    if meant:
        return f"Did you mean {' or '.join(meant)}?"
    if not names:
        return f"There are no {what}."
    return f"The {what} are {', '.join(names[:12])}{' …' if len(names) > 12 else ''}."


def as_written(alias: str) -> str:
    """Return the name of a range variable in the query's text, without the suffixes that Weft appended.

    >>> as_written("m"), as_written("m_2"), as_written("r_2_was_was"), as_written("msgs_before"), as_written("r_was_")
    ('m', 'm', 'r', 'msgs', 'r_was')
    >>> as_written("answer_2"), as_written("answer_"), as_written("answer__2")
    ('answer', 'answer', 'answer')
    """
    alias = without_suffixes(alias)
    escaped = alias.endswith("_") and (_MADE_UP.search(alias[:-1]) or _OF_WEFT.fullmatch(alias[:-1]))
    return alias[:-1] if escaped else alias


def without_suffixes(alias: str) -> str:
    """Return a range variable without the suffixes that make it unique or name the part of a rewriting."""
    while (suffix := _MADE_UP.search(alias)) is not None and suffix.start():
        alias = alias[: suffix.start()]
    return alias


def is_unnamed(alias: str, kinds: Sequence[str] = UNNAMED) -> bool:
    """Return whether a range variable belongs to a derived relation of one of the ``kinds`` without a name in the text.

    >>> is_unnamed("answer_right_right_2"), is_unnamed("answer_"), is_unnamed("sub", ["derived"])
    (True, False, False)
    """
    found = _OF_WEFT.fullmatch(without_suffixes(alias))
    return found is not None and found[1].lower() in kinds and not found[2]


def of_text(name: str) -> str:
    """Return the range variable for a name in the text. It differs from those of unnamed derived relations.

    >>> of_text("m"), of_text("Answer"), of_text("answer_right")
    ('m', 'Answer_', 'answer_right_')
    """
    return f"{name}_" if _OF_WEFT.fullmatch(name) else name


@dataclass
class Names:
    """A generator of range variables that are unique in a query."""

    taken: set[str] = field(default_factory=set)
    unions: set[str] = field(default_factory=set)
    """The range variables of outer joins."""
    hidden: int = 0
    """The number of made-up range variables that stand for columns until their relation is known."""
    copies: dict[str, str] = field(default_factory=dict)
    """The original of each range variable in a copy of a side of an outer join."""

    def made_up(self) -> str:
        """Return a range variable that no relation has."""
        self.hidden += 1
        return f"_columns_{self.hidden}"

    def fresh(self, wanted: str) -> str:
        """Return ``wanted``, followed by a number if the name is in use.

        Raise SqlError if the query has too many range variables.
        """
        if len(self.taken) >= MOST_RANGE_VARIABLES:
            raise TooLarge(
                f"the query has more than {MOST_RANGE_VARIABLES} tables and derived tables after CTEs are expanded",
                hint="Split the query into several queries.",
            )
        if wanted.startswith("_"):  # reserved for the rewriting
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
    """A range variable of FROM: a relation, and the columns that the text can name, in order.

    If the relation is derived, ``*`` omits the columns in ``unlisted``.
    """

    relation: Source
    columns: tuple[ColumnRef, ...]
    unlisted: frozenset[str] = frozenset()

    @classmethod
    def of(cls, relation: Source, hidden: tuple[str, ...] = ()) -> Variable:
        """Return a range variable with all columns of ``relation`` except ``hidden``."""
        return cls(relation, tuple(ref for ref in attributes(relation) if ref.column not in hidden))

    @property
    def listed(self) -> tuple[ColumnRef, ...]:
        """The columns that ``*`` selects.

        ``*`` omits the instant and the ordinal of answers, and the start and the end of periods in tracked tables.
        """
        if not isinstance(self.relation, Scan):
            return tuple(ref for ref in self.columns if ref.column not in self.unlisted)
        table = self.relation.table
        hidden = (VALID_FROM, VALID_TO) if table.end == VALID_TO else ()
        results = table.source == "results"
        return tuple(
            ref for ref in self.columns if ref.column not in hidden and not (results and ref.column.startswith("_"))
        )

    def find(self, name: str) -> ColumnRef | None:
        """Return the column called ``name``, or None.  The search ignores case."""
        return next((ref for ref in self.columns if ref.column.lower() == name.lower()), None)


@dataclass(frozen=True)
class Merged:
    """A column of USING that several range variables share.

    ``ref`` is the column of the first range variable.
    """

    ref: ColumnRef
    aliases: frozenset[str]


@dataclass(frozen=True)
class Context:
    """The state that all parts of a text share."""

    tables: Mapping[str, TableSchema]
    names: Names
    subquery: Callable[[exp.Expr, Scope], tuple[Relation, tuple[ColumnRef, ...]]]
    """The function that translates a subquery into a relation and its columns."""
    body: Callable[[exp.Expr, Scope], Relation]
    """The function that translates the subquery of EXISTS.  The columns of the subquery have no effect."""
    view: bool = False
    """Whether the text defines a temporal view.  A view reads tracked tables, and may use periods, NOW anywhere in a
    condition, and GROUP BY.
    """
    text: str | None = None
    """The whole text, or None in a trial.  A trial only checks whether Weft accepts the text."""
    other: Callable[[], str | None] = lambda: None
    """The function that tries the text of a query as a view, or the text of a view as a standing query.  The function
    returns None if the language accepts the text, otherwise a hint.
    """


@dataclass
class Grouping:
    """The grouping expressions and aggregates of a SELECT, as columns of the range variable ``alias``."""

    alias: str
    groups: dict[Scalar, ColumnRef] = field(default_factory=dict)
    measures: list[Measure] = field(default_factory=list)
    sets: list[tuple[Scalar, ...]] | None = None
    """The grouping expressions of each set of ROLLUP, CUBE or GROUPING SETS, or None if GROUP BY has none of these."""
    marks: dict[tuple[Scalar, ...], dict[DataType, ColumnRef]] = field(default_factory=dict)
    """The columns that number the missing ones among some grouping expressions, by type: the first is the highest bit.
    """
    values: list[Source] = field(default_factory=list)
    """The subqueries that stand for values in GROUP BY and in aggregates, as sources beside FROM."""
    known: dict[str, Scalar] = field(default_factory=dict)
    """The columns of the subqueries in GROUP BY, by their text.  The select list may repeat the text."""
    incomplete: bool = False
    """Whether GROUP BY contains a refused item.  An apparently ungrouped column may then be the refused item."""

    def group(self, value: Scalar) -> None:
        """Add a grouping expression."""
        self.groups.setdefault(value, ColumnRef(self.alias, f"group_{len(self.groups) + 1}", value.type))

    def measure(
        self, function: AggregateFunction, argument: Scalar | None, distinct: bool = False, by: Scalar | None = None
    ) -> ColumnRef:
        """Return the column of an aggregate.  Equal aggregates have the same column.

        Raise TypeError if the aggregate does not accept the type of ``argument``.
        """
        wanted = (function, argument, distinct, by)
        for known in self.measures:
            if (known.function, known.argument, known.distinct, known.by) == wanted:
                return known.output
        type = aggregate_type(function, None if argument is None else argument.type)
        output = ColumnRef(self.alias, f"measure_{len(self.measures) + 1}", type)
        self.measures.append(Measure(function, argument, output, distinct, by))
        return output

    def mark(self, values: tuple[Scalar, ...], type: DataType) -> ColumnRef:
        """Return the column with a bit for each of some grouping expressions: 1 if it is missing in the set."""
        known = self.marks.setdefault(values, {})
        count = sum(map(len, self.marks.values()))
        return known.setdefault(type, ColumnRef(self.alias, f"mark_{count + 1}", type))

    def columns(self) -> tuple[ColumnRef, ...]:
        """Return all columns: the grouping expressions, the aggregates, and the marks."""
        marks = (mark for each in self.marks.values() for mark in each.values())
        return (*self.groups.values(), *(each.output for each in self.measures), *marks)


@dataclass
class Windows:
    """The window functions of a SELECT, as columns of the range variable ``alias``.

    Each function has its partition.  A function may name the columns of earlier functions.
    """

    alias: str
    definitions: Mapping[str, exp.Window] = field(default_factory=dict)
    """The named windows of the clause WINDOW, by name in lower case."""
    functions: list[tuple[tuple[Scalar, ...], WindowFunction]] = field(default_factory=list)
    demanded: Predicate = TRUE
    """The condition of QUALIFY."""

    def column(self, partition: tuple[Scalar, ...], function: WindowFunction) -> ColumnRef:
        """Return the column of a function.  Equal functions have the same column."""
        for known in self.functions:
            if known == (partition, replace(function, output=known[1].output)):
                return known[1].output
        output = replace(function.output, scan=self.alias, column=f"{function.function}_{len(self.functions) + 1}")
        self.functions.append((partition, replace(function, output=output)))
        return output

    def change(self, rewrite: Callable[[Any], Any]) -> None:
        """Apply ``rewrite`` to every scalar of the functions and to the condition of QUALIFY."""
        changed = []
        for partition, each in self.functions:
            args = tuple(map(rewrite, each.args))
            order = tuple(replace(key, value=rewrite(key.value)) for key in each.order)
            changed.append((tuple(map(rewrite, partition)), replace(each, args=args, order=order)))
        self.functions, self.demanded = changed, rewrite(self.demanded)


@dataclass
class CommonTable:
    """A common table expression: its query, its scope, and its column names if the text contains them.

    If Weft has refused the expression, ``refused`` is true, and later uses of the expression add no reasons.
    ``recursive`` is true if the query reads the expression itself.  Within the step of a recursion, ``recurrence`` has
    the columns of the recursion.
    """

    query: exp.Expr
    columns: tuple[str, ...]
    scope: Scope
    refused: bool = False
    recursive: bool = False
    recurrence: tuple[Column, ...] | None = None


TIME_WINDOW: Final = "window"
"""The function that returns the window of time of a row (``time_windows``)."""


@dataclass
class Scope:
    """The range variables of one SELECT, and the enclosing scope."""

    context: Context
    parent: Scope | None = None
    variables: dict[str, Variable] = field(default_factory=dict)
    merged: dict[str, Merged] = field(default_factory=dict)
    shared: dict[str, CommonTable] = field(default_factory=dict)
    lateral: bool = True
    """Whether the range variables of ``parent`` are visible.

    A derived table sees only the common table expressions of the enclosing scopes.
    """
    copied: bool = False
    """Whether the rewriting copies this part of the text.  For example, the rewriting copies the subquery of a NOT
    IN.
    """
    elements: Mapping[str, Element] = field(default_factory=dict)
    """The array elements in scope, by name in lower case.

    The text declares the name of an array element before ``->`` in a condition on the element.
    """
    grouping: Grouping | None = None
    """The groups if this part of the text allows aggregates, otherwise None."""
    windows: Windows | None = None
    """The window functions if this part of the text allows them, otherwise None."""
    values: list[Source] | None = None
    """The subqueries that stand for values, as sources beside FROM, or None where none may stand."""
    known: dict[str, Scalar] | None = None
    """The subqueries in GROUP BY (``Grouping.known``), or None where an equal text is another subquery."""
    side: str = ""
    """The suffix of the range variables on one side of EXCEPT or INTERSECT."""
    joined: dict[Any, Any] = field(default_factory=dict)
    """The column of the outer join for each column of its sides (``outer``)."""
    nullable: set[str] = field(default_factory=set)
    """The aliases whose columns are all NULL in some rows of an outer join."""
    time_windows: dict[exp.Expr, Scalar] = field(default_factory=dict)
    """The value of the call of WINDOW."""
    refused: set[str] = field(default_factory=set)
    """The aliases of refused items of FROM.  The columns of a refused item are unknown."""

    def inner(self, *, lateral: bool = True) -> Scope:
        """Return a new scope for a SELECT nested in this scope."""
        return Scope(self.context, self, lateral=lateral, copied=self.copied, side=self.side)

    def fresh(self, wanted: str) -> str:
        """Return an unused range variable with a name similar to ``wanted``."""
        names = self.context.names
        while self.side and wanted.lower() in names.taken:
            wanted = f"{wanted}_{self.side}"
        return names.fresh(wanted)

    def copy_of(self, node: N, bound: Node | None = None) -> N:
        """Return a copy of ``node`` with other range variables, because range variables are unique in a query.

        If ``bound`` is given, only the range variables that ``bound`` binds are other ones.  The range variables inside
        a ``Materialized`` remain.
        """
        kept = [part.input for part in walk(node) if isinstance(part, Materialized)]
        inside = {alias for part in kept for alias in range_variables(part)}
        own = (alias for alias in range_variables(bound or node) if alias not in inside)
        names = {alias: self.fresh(without_suffixes(alias)) for alias in own}
        known = self.context.names
        known.copies.update({copy: alias for alias, copy in names.items()})
        known.unions.update(copy for alias, copy in names.items() if alias in known.unions)
        return rename(node, names)

    @contextmanager
    def source(self, node: exp.Expr) -> Iterator[None]:
        """If the ``with`` block raises SqlError, mark the item of FROM as refused and raise the error again.

        The columns of a refused item cause no further errors.
        """
        try:
            yield
        except SqlError:
            named = (node.args.get("pivots") or [node])[-1]
            self.refused.add((named.alias_or_name or node.alias_or_name).lower())
            raise

    def scan(self, table: exp.Table) -> Scan:
        """Return the scan of a table in FROM.  Raise SqlError if the table does not exist."""
        name = f"{RESULTS}.{table.name}" if table.args.get("db") else table.name
        tables = self.context.tables
        schema = {key.lower(): schema for key, schema in tables.items()}.get(name.lower())
        if schema is None:
            if table.args.get("db"):
                plain = next((key for key in tables if key.lower() == table.name.lower()), None)
                other = f"Write FROM {plain}." if plain else "`weft queries` lists the queries."
                raise SqlError(
                    f"{name} does not exist, because there is no query {table.name!r}", where=place(table), hint=other
                )
            known = [*tables, *(shared for scope in self._chain() for shared in scope.shared)]
            nearest = (
                suggestion(name, known, "tables") if known else "There is no table yet, or none that you may read."
            )
            own = table.find_ancestor(exp.CTE)
            if own is not None and own.alias.lower() == name.lower():
                nearest = f"Write WITH RECURSIVE {own.alias}: otherwise a query in WITH does not see its own name."
            raise SqlError(f"there is no table {name!r}", where=place(table), hint=nearest)
        if self.context.view and (schema.start, schema.end) != (VALID_FROM, VALID_TO):
            hint = self.context.other()
            if hint is None and self.context.text is not None:
                hint = f"Install the statement as a query: {installed(self.context.text)}."
            raise SqlError(
                f"a view cannot read {name!r}: the table is append-only, so its rows have no periods",
                where=place(table),
                hint=hint,
            )
        alias = table.alias or table.name
        return Scan(schema, self.fresh(of_text(alias) if alias.endswith("_") else alias))

    def variable(self, relation: Source) -> Variable:
        """Return the range variable of a relation in FROM.

        In a view, the start column and the end column of periods are hidden.
        """
        return Variable.of(relation, (VALID_FROM, VALID_TO) if self.context.view and isinstance(relation, Scan) else ())

    def visible_variables(self) -> dict[str, Variable]:
        """Return the visible range variables by alias.

        An inner range variable hides an outer range variable with the same alias.
        """
        variables: dict[str, Variable] = {}
        for scope in self._visible():
            variables = {**scope.variables, **variables}
        return variables

    def in_outer_join(self, alias: str) -> bool:
        """Return whether a visible range variable is a side of an outer join."""
        columns = (part for scope in self._visible() for part in scope.joined)
        return any(isinstance(part, ColumnRef) and part.scan == alias for part in columns)

    def common(self, name: str) -> CommonTable | None:
        """Return the innermost common table expression with the given name, or None."""
        return next((scope.shared[name.lower()] for scope in self._chain() if name.lower() in scope.shared), None)

    def add(self, alias: str, variable: Variable, node: exp.Expr) -> None:
        """Add a range variable of FROM.  Raise SqlError if FROM already has the alias."""
        if alias.lower() in self.variables:
            raise SqlError(
                f"{alias!r} names two tables of one FROM", where=place(node), hint="Give each table its own alias."
            )
        self.variables[alias.lower()] = variable

    def resolve(self, column: exp.Column) -> ColumnRef:
        """Return the column for a name.  Raise SqlError if the name is unknown or ambiguous."""
        if column.args.get("db") or column.args.get("catalog"):
            raise self._of_too_many_parts(column)
        if not isinstance(column.this, exp.Identifier):
            raise SqlError(f"{column.sql('spark')} is not a column", where=place(column))
        ref = self._find(column.table, column.name, column)
        if ref is not None:
            return ref
        shown = f"{column.table}.{column.name}" if column.table else column.name
        hint = advice(column.name) if column.name.lower() in TIMES else self._hint(column)
        if self.context.view and column.name.lower() in (VALID_FROM, VALID_TO):
            alias = column.table or next(iter(self.variables), "e")
            hint = (
                f"Write PERIOD_START({alias}) or PERIOD_END({alias}) in WHERE; within a view, tables have no "
                "period columns."
            )
        raise self.consequence(
            SqlError(f"there is no column {shown!r}", where=place(column), hint=hint), column.table.lower()
        )

    def visible(self, column: exp.Column) -> bool:
        """Return whether FROM or an outer FROM has a column for a name."""
        return self._find(column.table, column.name, column) is not None

    def consequence(self, error: SqlError, qualifier: str = "") -> SqlError:
        """Mark the error as a consequence if it concerns a column of a refused table.  Return the error.

        ``qualifier`` is the alias of the table, or empty if the column name is not qualified.
        """
        refused = {alias for scope in self._visible() for alias in scope.refused}
        error.consequence = qualifier in refused if qualifier else bool(refused)
        return error

    def path(self, column: exp.Column) -> tuple[ColumnRef, list[exp.Expr]]:
        """Split a dotted name into its column and the field names after the column.

        As in Spark, ``a.b`` is the column ``b`` of the alias ``a``, or else the field ``b`` of a column ``a``.
        A column without a nested type has no fields.  Raise SqlError in the same cases as ``resolve``.
        """
        first, *behind = column.parts
        if behind:
            ref = self._find(first.name, behind[0].name, column)
            if ref is not None and (ref.type.json is not None or ref.type.nested):
                return ref, behind[1:]
            own = self._find("", first.name, column) if ref is None else None
            if own is not None and (own.type.json is not None or own.type.nested):
                return own, behind
        return self.resolve(column), []

    def _of_too_many_parts(self, column: exp.Column) -> SqlError:
        alias, name, *parts = (part.name for part in column.parts)
        hint = "Write alias.column."
        if self._find(alias, name, column) is not None:
            path = ".".join(parts)
            hint = f"For a part of the JSON text in {alias}.{name} write GET_JSON_OBJECT({alias}.{name}, '$.{path}')."
        return SqlError(f"{column.sql('spark')} has more than two parts", where=place(column), hint=hint)

    def element(self, name: str) -> Element | None:
        """Return the array element with the given name, or None.  The search ignores case."""
        return self.elements.get(name.lower())

    def owners(self, name: str, node: exp.Expr) -> tuple[ColumnRef, frozenset[str]] | None:
        """Return the column called ``name`` in FROM and the aliases of the tables that share it, or None.

        Raise SqlError if several tables have a column with this name and do not share it.
        """
        merged = self.merged.get(name.lower())
        owned = {
            frozenset((alias,)): ref
            for alias, variable in self.variables.items()
            if not (merged and alias in merged.aliases) and (ref := variable.find(name))
        }
        if merged:
            owned[merged.aliases] = merged.ref
        if len(owned) > 1:
            shown = ", ".join(sorted(" with ".join(sorted(aliases)) for aliases in owned))
            raise SqlError(
                f"{name!r} is ambiguous: it is in {shown}", where=place(node), hint="Qualify the column: alias.column."
            )
        return next(((ref, aliases) for aliases, ref in owned.items()), None)

    def starts(self) -> frozenset[ColumnRef]:
        """Return the visible columns that contain start times of rows and are never NULL."""
        variables = (
            variable
            for scope in self._visible()
            for alias, variable in scope.variables.items()
            if alias not in scope.nullable
        )
        scans = (part for variable in variables for part in sources(variable.relation))
        return frozenset(scan.start for scan in scans if isinstance(scan, Scan))

    def _find(self, qualifier: str, name: str, column: exp.Column) -> ColumnRef | None:
        for scope in self._visible():
            if not qualifier:
                match = scope.owners(name, column)
                if match is not None:
                    return match[0]
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
                return f"For a part of the JSON text in {column.table} write {part}."
            return f"{column.table!r} is not a table or alias of FROM. " + suggestion(
                column.table, everything, "aliases"
            )
        wanted = [everything[qualifier]] if qualifier else list(everything.values())
        return suggestion(column.name, {ref.column for variable in wanted for ref in variable.columns}, "columns")
