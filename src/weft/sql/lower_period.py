"""The period functions of temporal views: ``PERIOD_START(e)``, e being an alias of FROM (paper, section 3.1)."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from weft.algebra.relation import attributes
from weft.algebra.scalar import Call, PeriodOf, Scalar, children
from weft.algebra.schema import BOOLEAN, INTERVAL, TIMESTAMP, DataType
from weft.errors import SqlError
from weft.sql.refusal import place, refuse
from weft.sql.rewriting import NOT_TODAY, viewed
from weft.sql.scope import Scope, suggestion

PERIOD_FUNCTIONS: Final[dict[str, tuple[int, DataType]]] = {
    "period_start": (1, TIMESTAMP),
    "period_end": (1, TIMESTAMP),
    "period_length": (1, INTERVAL),
    "period_contains": (2, BOOLEAN),
    "period_overlaps": (2, BOOLEAN),
}
"""Name -> how many aliases it takes, and the type of what it gives."""


def for_views_only(scope: Scope) -> str:
    """Where what is of views alone can be asked: the same text as a view, where all of its tables are tracked."""
    text, other = scope.context.text, scope.context.other()
    if other is not None and other != NOT_TODAY:
        return other
    if text is not None and other is None:
        return (
            f'Keep it as a view, and read that when you want to: {viewed(text)}, then weft try "SELECT * FROM NAME". '
            "A standing query over it cannot be asked today."
        )
    return f"{NOT_TODAY} Periods are recorded of tracked tables; of other tables ts is the only instant of a row."


def period_call(name: str, node: exp.Anonymous, scope: Scope) -> Scalar:
    """A period function; raises SqlError outside of views, and for an argument that is no alias of FROM."""
    if not scope.context.view:
        reason = "a row of a standing query has one life, which its ts begins"
        raise refuse(f"{name.upper()}()", node, reason, for_views_only(scope))
    wanted, type = PERIOD_FUNCTIONS[name]
    if len(node.expressions) != wanted:
        raise SqlError(f"{name.upper()} takes {wanted} aliases of FROM, not {len(node.expressions)}", where=place(node))
    return Call(name, tuple(_period_of(name, part, scope) for part in node.expressions), type)


def _period_of(name: str, node: exp.Expr, scope: Scope) -> PeriodOf:
    plain = isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and not node.table
    variables = scope.visible_variables()
    found = variables.get(node.name.lower()) if plain else None
    if found is None:
        told = f"{name.upper()} takes an alias of FROM, not {node.sql('spark')}"
        error = SqlError(told, where=place(node), hint=suggestion(node.name, variables, "aliases"))
        raise scope.consequence(error, node.name.lower())
    return PeriodOf(attributes(found.relation)[0].scan)


def mentions_period(scalar: Scalar) -> bool:
    """Whether a period function occurs in it."""
    return isinstance(scalar, PeriodOf) or any(map(mentions_period, children(scalar)))
