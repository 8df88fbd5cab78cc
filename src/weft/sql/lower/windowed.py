"""Build the relations that compute window functions, LIMIT, and the numbers of equal rows.

    SELECT id, RANK() OVER (PARTITION BY a ORDER BY b) AS r FROM t QUALIFY r <= 3
    π id, r  σ r <= 3  Windowed(t; id, a, b; partition a; rank)

Functions with one partition share a ``Windowed``.  A function that uses the column of another function stands above
it.  ROW_NUMBER, LAG, LEAD, frames of ROWS, and the values at the end of a partition depend on the order of rows that
tie in ORDER BY.  All columns that the query uses break such ties, in ascending order.  Rows that are equal in all these
columns are interchangeable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from weft.algebra import relation as relational
from weft.algebra.relation import SortKey, Windowed, WindowFunction
from weft.algebra.scalar import ColumnRef, Literal, Scalar, call
from weft.algebra.schema import INT
from weft.algebra.traverse import mentioned, substitute
from weft.sql.lower.nested import as_column
from weft.sql.lower.scope import Scope, Windows

_IN_TOTAL_ORDER: Final = ("row_number", "lag", "lead", "first_value", "last_value", "nth_value")


@dataclass
class _Stage:
    """Functions that one ``Windowed`` computes.  ``order`` is the order of those with a total order, or None."""

    partition: tuple[Scalar, ...]
    order: tuple[SortKey, ...] | None = None
    functions: list[WindowFunction] = field(default_factory=list)

    def takes(self, partition: tuple[Scalar, ...], order: tuple[SortKey, ...] | None) -> bool:
        """Return whether a function with the total order ``order``, or without one, may join the stage."""
        return partition == self.partition and (order is None or self.order in (None, order))


def windowed(
    relation: relational.Relation, outputs: Sequence[relational.Output], windows: Windows, scope: Scope
) -> tuple[relational.Relation, tuple[relational.Output, ...]]:
    """Return the relation of a SELECT with window functions and its select list.

    ``relation`` is the relation of FROM, WHERE and GROUP BY.
    """
    if not windows.functions:
        return relation, tuple(outputs)
    own = {ref for source in relational.sources(relation) for ref in relational.attributes(source)}
    used = dict.fromkeys(ref for ref in _mentioned(outputs, windows) if ref in own)
    names = _Columns({ref: ref.column for ref in used})
    current, known = relation, dict[Any, Any]()
    for stage in _stages(windows):
        alias = scope.fresh("windowed")
        current, columns = _over(current, stage, names, known, alias)
        known = columns
    demanded = substitute(windows.demanded, known)
    listed = tuple(relational.Output(each.name, substitute(each.value, known)) for each in outputs)
    return current if demanded == relational.TRUE else relational.Select(current, demanded), listed


class _Columns:
    """The columns that the stages pass on, with unique names."""

    def __init__(self, wanted: dict[ColumnRef, str]) -> None:
        self.taken: set[str] = set()
        self.names = {ref: self.unique(name) for ref, name in wanted.items()}

    def unique(self, wanted: str) -> str:
        """Return an unused name.  Names that begin with _ are reserved for Weft."""
        plain = wanted.lstrip("_") or "column"
        name, count = plain, 1
        while name.lower() in self.taken:
            count += 1
            name = f"{plain}_{count}"
        self.taken.add(name.lower())
        return name


def _mentioned(outputs: Sequence[relational.Output], windows: Windows) -> Iterable[ColumnRef]:
    """Yield the columns that the outputs, the functions and QUALIFY name."""
    for output in outputs:
        yield from _sorted(output.value)
    for partition, each in windows.functions:
        for part in (*partition, *each.args, *(key.value for key in each.order)):
            yield from _sorted(part)
    yield from _sorted(windows.demanded)


def _sorted(node: Scalar | relational.Predicate) -> list[ColumnRef]:
    return sorted(mentioned(node), key=lambda ref: (ref.scan, ref.column))


def _stages(windows: Windows) -> list[_Stage]:
    stages: list[_Stage] = []
    at: dict[ColumnRef, int] = {}
    for partition, function in windows.functions:
        parts = (*partition, *function.args, *(key.value for key in function.order))
        least = max((at[ref] + 1 for part in parts for ref in mentioned(part) if ref in at), default=0)
        order = function.order if is_total(function) else None
        for number, stage in enumerate(stages):
            if number >= least and stage.takes(partition, order):
                break
        else:
            number, stage = len(stages), _Stage(partition)
            stages.append(stage)
        stage.order = order if stage.order is None else stage.order
        stage.functions.append(function)
        at[function.output] = number
    return stages


def is_total(function: WindowFunction) -> bool:
    """Return whether the function depends on the order of rows that tie in its ORDER BY."""
    rows = function.frame is not None and function.frame.unit == "rows"
    return function.function in _IN_TOTAL_ORDER or (rows and function.frame != relational.Frame("rows", None, None))


def _over(
    current: relational.Relation, stage: _Stage, columns: _Columns, known: dict[Any, Any], alias: str
) -> tuple[Windowed, dict[Any, Any]]:
    outputs = [relational.Output(name, known.get(ref, ref)) for ref, name in columns.names.items()]
    shown = {output.value for output in outputs}
    partition = tuple(substitute(value, known) for value in stage.partition)
    outputs += [relational.Output(columns.unique("key"), value) for value in partition if value not in shown]
    ties = [output.value for output in outputs if output.value not in partition]
    functions = []
    for function in stage.functions:
        order = tuple(replace(key, value=substitute(key.value, known)) for key in function.order)
        if is_total(function):
            sorted_by = {key.value for key in order}
            order = (*order, *(SortKey(as_column(value)) for value in ties if value not in sorted_by))
        name = columns.names[function.output] = columns.unique(function.function)
        args = tuple(substitute(each, known) for each in function.args)
        output = ColumnRef(alias, name, function.output.type)
        functions.append(replace(function, args=args, order=order, output=output))
    made = Windowed(current, alias, tuple(outputs), partition, tuple(functions))
    return made, {ref: ColumnRef(alias, name, ref.type) for ref, name in columns.names.items()}


def limited(
    relation: relational.Relation,
    outputs: Sequence[relational.Output],
    order: Sequence[SortKey],
    bounds: tuple[int | None, int],
    scope: Scope,
) -> tuple[relational.Relation, tuple[relational.Output, ...]]:
    """Return the rows of LIMIT and OFFSET: those whose numbers in ``order`` lie within ``bounds``.

    ``bounds`` are the number of rows, or None without LIMIT, and the number of rows that OFFSET skips.
    """
    count, skipped = bounds
    windows = Windows(scope.context.names.made_up())
    number = windows.column((), WindowFunction("row_number", (), tuple(order), None, ColumnRef("", "", INT)))
    conditions = []
    if skipped:
        conditions.append(relational.Plain(call(">", number, Literal(skipped, INT))))
    if count is not None:
        conditions.append(relational.Plain(call("<=", number, Literal(skipped + count, INT))))
    windows.demanded = relational.conjunction(*conditions)
    return windowed(relation, outputs, windows, scope)


def with_copies_numbered(relation: relational.Source, scope: Scope) -> Windowed:
    """Return the rows of ``relation`` with a last column that numbers equal rows from 1."""
    refs = relational.attributes(relation)
    outputs = tuple(relational.Output(ref.column, ref) for ref in refs)
    alias = scope.fresh(refs[0].scan)
    taken = {ref.column.lower() for ref in refs}
    name = next(each for number in range(1, len(refs) + 2) if (each := f"copy_{number}") not in taken)
    function = WindowFunction("row_number", (), tuple(map(SortKey, refs)), None, ColumnRef(alias, name, INT))
    return Windowed(relation, alias, outputs, refs, (function,))
