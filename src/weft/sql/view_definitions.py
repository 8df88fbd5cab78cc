"""Views in a standing query: a view that depends on NOW is replaced by its definition (design section 11).

    FROM due   is   FROM (SELECT DISTINCT id FROM s WHERE due < NOW()) AS due

A view is judged at one instant when it is read, and puts rows in and takes them out with their whole past.  A standing
query is asked at every instant: its answer at s has the rows of the view's definition with NOW = s (law 5).  The kept
periods of a view without NOW, period functions and moving windows are those instants, and are read as they are.

A view is bound with NOW as it is written.  Here its conditions become thresholds of NOW, as ``lower_predicate`` makes
them of a query's text.
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
    Predicate,
    Project,
    Query,
    Scan,
    ViewSchema,
    conjunction,
    disjunction,
    needs_definition,
)
from weft.algebra.scalar import Call, ColumnRef, Literal, Now, PeriodOf, Scalar, call, mentions_now
from weft.algebra.schema import MONTHS, TableSchema
from weft.algebra.traverse import mentioned, range_variables, rename, scans, transform, walk
from weft.errors import SqlError
from weft.sql.lower_now import NEGATED, now_comparison
from weft.sql.lower_period import PERIOD_FUNCTIONS
from weft.sql.render import scalar as rendered
from weft.sql.scope import Names, as_written

_NO_PLACE: Final = exp.Null()
"""A view is kept as it was bound: a part of it has no place in the text of the query."""
_COMPARISONS: Final = frozenset((*NEGATED, "<=>"))
_TRY: Final = "`weft try` reads a view as of now."
_GROUPS: Final = (
    "Group in a view without NOW(), and compare with NOW() in the query over it: "
    "SELECT dept FROM latest WHERE last < NOW() - INTERVAL 30 MINUTES, over the view latest, "
    "SELECT dept, MAX(at) AS last FROM t GROUP BY dept."
)
_BEGINNING: Final = (
    "A query over the table itself may compare valid_from, where a row's present period begins, with NOW()."
)
_PERIOD_HINTS: Final = {
    "period_start": _BEGINNING,
    "period_length": _BEGINNING,
    "period_end": "A standing query sees the rows that hold, and none of them has ended.",
}


def depends_on_now(query: Query) -> bool:
    """Whether the rows of a view at an instant depend on the instant at which it is asked.

    NOW, a period function or a moving window in it, or a view of which this is so.
    """
    return any(
        isinstance(part, (Now, PeriodOf))
        or (isinstance(part, Grouped) and part.window is not None)
        or (isinstance(part, Scan) and needs_definition(part.table))
        for part in walk(query)
    )


def with_definitions(query: Query) -> tuple[Query, tuple[TableSchema, ...]]:
    """A bound query with the definitions of the views that depend on NOW; those views, in the order of the text.

    Raises SqlError with all reasons why standing queries cannot have a definition, and where the query asks for the
    periods of such a view.
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
                f"a standing query cannot speak of {ref.column} of the view {name}: the view depends on NOW(), so the "
                "query has its definition in the place of its kept periods",
                hint="Leave it out: each answer is delivered with _first_at, the first instant at which it holds.",
            )


@dataclass
class _Writing:
    """The views whose definitions are written into one query, and what standing queries do not have of them."""

    names: Names
    views: dict[TableSchema, None] = field(default_factory=dict)
    refused: dict[tuple[str, ...], dict[str, str | None]] = field(default_factory=dict)
    """By the view, and the views through which it is read: each reason with its hint."""

    def over(self, query: Query, path: tuple[str, ...]) -> Query:
        """The query with definitions; ``path`` are the views that it is the definition of, the outermost last."""

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
        apart = {each: self.names.fresh(as_written(each)) for each in range_variables(table.definition)}
        asked = transform(table.definition, lambda node: self._asked(node, path))
        own = self.over(rename(asked, apart), path)
        outputs = tuple(Output(output.name, _typed(output, table)) for output in own.outputs)
        return Distinct(Project(own.input, scan.alias, outputs))

    def _asked(self, node: Any, path: tuple[str, ...]) -> Any:
        """A node of a view as a standing query has it."""
        match node:
            case Plain(condition=condition) if mentions_now(condition):
                try:
                    return _threshold(condition, True)
                except SqlError as error:
                    told = f"in {rendered(condition)}: {error.message}"
                    self.refused.setdefault(path, {}).setdefault(told, error.hint)
                    return node
            case Call(name="+" | "-" as sign, args=(time, Literal(value=int(count), type=kind))) if kind == MONTHS:
                # As DATEADD(MONTH, …) is bound in a query: the months are no parameter of a plan.
                months = Literal(count if sign == "+" else -count, MONTHS, fixed=True)
                return replace(node, name="+", args=(time, months))
            case _:
                return node


def _typed(output: Output, table: TableSchema) -> Scalar:
    """A column of the definition with the type that the view's column has: fields may have been added since."""
    column = table.column(output.name)
    value = output.value
    if column is None or not isinstance(value, ColumnRef) or value.type != column.type:
        return value
    return replace(value, type=column.type)


def _not_standing(definition: Query) -> Iterator[tuple[str, str | None]]:
    """What of a view's own definition no standing query has, each with a hint."""
    for part in walk(definition):
        match part:
            case Grouped(window=None):
                yield "standing queries have no GROUP BY and no aggregates", _GROUPS
            case Grouped():
                yield "standing queries have no MOVING_WINDOW", None
            case Call(name=name) if name in PERIOD_FUNCTIONS:
                yield f"standing queries have no {name.upper()}()", _PERIOD_HINTS.get(name)


def _threshold(condition: Scalar, positive: bool) -> Predicate:
    """ "condition is true", or with ``positive`` false: "condition is false"; raises SqlError."""
    match condition:
        case _ if not mentions_now(condition):
            return Plain(condition if positive else call("not", condition))
        case Call(name="not", args=(inner,)):
            return _threshold(inner, not positive)
        case Call(name="and" | "or" as name, args=parts):
            joined = conjunction if (name == "and") == positive else disjunction
            return joined(*(_threshold(part, positive) for part in parts))
        case Call(name="in", args=(value, *items)):
            joined = disjunction if positive else conjunction
            return joined(*(_threshold(call("=", value, item), positive) for item in items))
        case Call(name=name) if name in _COMPARISONS:
            return now_comparison(condition, positive, _NO_PLACE)
        case _:
            raise SqlError("NOW() can be compared, with AND, OR and NOT around it, nothing else for now")


def _refusal(refused: dict[tuple[str, ...], dict[str, str | None]]) -> SqlError:
    told = [f"{', read by '.join(path)}: {'; '.join(reasons)}" for path, reasons in refused.items()]
    hints = dict.fromkeys(hint for reasons in refused.values() for hint in reasons.values() if hint)
    what = "the view" if len(told) == 1 else "the views"
    return SqlError(
        "a standing query uses the definition of a view that depends on NOW(), and asks it at every instant; it cannot "
        f"use that of {what} {'; '.join(told)}",
        hint=" ".join((*hints, _TRY)),
    )
