"""Replace views that depend on NOW by their definitions in a standing query (design section 11).

    FROM due   is   FROM (SELECT DISTINCT id FROM s WHERE due < NOW()) AS due

A view is evaluated at one instant.  The next evaluation may add or remove rows with their entire past.  A standing
query is evaluated at every instant.  The answer of a standing query at the instant s contains the rows of the view's
definition with NOW = s (law 5).  The stored periods of a view give the same rows as its definition, unless the
definition contains NOW, a period function or a moving window.  A standing query reads the stored periods of a view
that does not depend on NOW.

This module turns comparisons with NOW in a stored definition into thresholds of NOW, as ``lower_predicate`` does for a
query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlglot import exp

from weft.algebra.relation import (
    Distinct,
    Grouped,
    Output,
    Plain,
    Project,
    Query,
    Relation,
    Scan,
    Union,
    ViewSchema,
    needs_definition,
)
from weft.algebra.scalar import Call, ColumnRef, Literal, Now, PeriodOf, Scalar, mentions_now
from weft.algebra.schema import MONTHS, TableSchema
from weft.algebra.traverse import mentioned, range_variables, rename, scans, transform, walk
from weft.errors import SqlError
from weft.sql.lower.calls import PERIOD_FUNCTIONS
from weft.sql.lower.now_conditions import now_condition
from weft.sql.lower.scope import Names, without_suffixes
from weft.sql.rendering.render import scalar as rendered

_NO_PLACE: Final = exp.Null()
"""The place of an error in a stored view.  The text of a query does not contain the text of a view."""
_TRY: Final = "`weft try` reads a view as of now."
_BEGINNING: Final = (
    "In a query over the table itself, compare NOW() with valid_from, the start of a row's present period."
)
_PERIOD_HINTS: Final = {
    "period_start": _BEGINNING,
    "period_length": _BEGINNING,
    "period_end": "A standing query reads only rows whose period has not ended.",
}


def depends_on_now(query: Query) -> bool:
    """Return whether the rows of a view at an instant depend on the instant of the evaluation.

    The result is true if the view, or a view that it reads, contains NOW, a period function or a moving window.
    """
    return any(
        isinstance(part, (Now, PeriodOf))
        or (isinstance(part, Grouped) and part.window is not None)
        or (isinstance(part, Scan) and needs_definition(part.table))
        for part in walk(query)
    )


def with_definitions(query: Query) -> tuple[Query, tuple[TableSchema, ...]]:
    """Replace the views that depend on NOW by their definitions.  Return the new query and the replaced views.

    Raise SqlError with all reasons if standing queries do not support a definition.  Also raise SqlError if the query
    uses the periods of a view that depends on NOW.
    """
    if not any(needs_definition(scan.table) for scan in scans(query)):
        return query, ()
    _refuse_periods(query)
    writing = _Writing(Names({alias.lower() for alias in range_variables(query)}))
    written = writing.over(query, ())
    if writing.refused:
        raise _refusal(writing.refused)
    return written, tuple(writing.views)


def _refuse_periods(query: Query) -> None:
    starts = {(scan.alias, scan.table.start): scan.table.name for scan in scans(query) if needs_definition(scan.table)}
    for ref in sorted(mentioned(query), key=repr):
        if (ref.scan, ref.column) in starts:
            name = starts[ref.scan, ref.column]
            raise SqlError(
                f"a standing query cannot use {ref.column} of the view {name}: the view depends on NOW(), so "
                "the query evaluates the view's definition and does not read the stored periods",
                hint=(
                    "Remove the column. Weft delivers each answer with _first_at, the first instant at which the "
                    "answer holds."
                ),
            )


@dataclass
class _Writing:
    names: Names
    views: dict[TableSchema, None] = field(default_factory=dict)
    refused: dict[tuple[str, ...], dict[str, str | None]] = field(default_factory=dict)
    """The reasons and hints for each path of views.  A path is a refused view, followed by the views that read it."""

    def over(self, query: Query, path: tuple[str, ...]) -> Query:
        """Replace the views of the query.

        ``path`` contains the views whose definitions contain the query, the outermost last.
        """

        def change(node: Any) -> Any:
            return self._defined(node, path) if isinstance(node, Scan) and needs_definition(node.table) else node

        return transform(query, change)

    def _defined(self, scan: Scan, path: tuple[str, ...]) -> Distinct:
        table = scan.table
        assert isinstance(table, ViewSchema) and table.definition is not None, f"{table.name} has no definition here"
        self.views.setdefault(table)
        path = (table.name, *path)
        for reason, hint in _not_standing(table.definition):
            self.refused.setdefault(path, {}).setdefault(reason, hint)
        fresh_names = {each: self.names.fresh(without_suffixes(each)) for each in range_variables(table.definition)}
        rewritten = transform(table.definition, lambda node: self._asked(node, path))
        own = self.over(rename(rewritten, fresh_names), path)
        outputs = tuple(Output(output.name, _typed(output, table)) for output in own.outputs)
        return Distinct(Project(own.input, scan.alias, outputs))

    def _asked(self, node: Any, path: tuple[str, ...]) -> Any:
        match node:
            case Plain(condition=condition) if mentions_now(condition):
                try:
                    return now_condition(condition, True, _NO_PLACE)
                except SqlError as error:
                    reason = f"in {rendered(condition)}: {error.message}"
                    self.refused.setdefault(path, {}).setdefault(reason, error.hint)
                    return node
            case Call(name="+" | "-" as sign, args=(time, Literal(value=int(count), type=kind))) if kind == MONTHS:
                # The number of months is fixed, so it does not become a parameter of a plan.
                if mentions_now(time):
                    return replace(node, args=(time, Literal(count, MONTHS, fixed=True)))
                months = Literal(count if sign == "+" else -count, MONTHS, fixed=True)
                return replace(node, name="+", args=(time, months))
            case Grouped(input=inner):
                return replace(node, input=_as_sets(inner))
            case _:
                return node


def _as_sets(relation: Relation) -> Relation:
    """Every relation of a view is a set, and an aggregate depends on the number of equal rows."""

    def change(node: Any) -> Any:
        match node:
            case Project() | Union():
                return Distinct(node)
            case Distinct(input=Distinct() as inner):
                return inner
            case _:
                return node

    return transform(relation, change)


def _typed(output: Output, table: TableSchema) -> Scalar:
    """A nested type may have additional fields since the definition was stored."""
    column = table.column(output.name)
    value = output.value
    if column is None or not isinstance(value, ColumnRef) or value.type != column.type:
        return value
    return replace(value, type=column.type)


def _not_standing(definition: Query) -> Iterator[tuple[str, str | None]]:
    """Yield the constructs that standing queries do not support, each with a hint or None."""
    for part in walk(definition):
        match part:
            case Grouped(window=Literal()):
                yield "standing queries do not support MOVING_WINDOW", None
            case Call(name=name) if name in PERIOD_FUNCTIONS:
                yield f"standing queries do not support {name.upper()}()", _PERIOD_HINTS.get(name)


def _refusal(refused: dict[tuple[str, ...], dict[str, str | None]]) -> SqlError:
    reasons_by_view = [f"{', read by '.join(path)}: {'; '.join(reasons)}" for path, reasons in refused.items()]
    hints = dict.fromkeys(hint for reasons in refused.values() for hint in reasons.values() if hint)
    what = "the view" if len(reasons_by_view) == 1 else "the views"
    return SqlError(
        "at every instant, a standing query must evaluate the definition of a view that depends on NOW(); "
        f"this is not possible for {what} {'; '.join(reasons_by_view)}",
        hint=" ".join((*hints, _TRY)),
    )
