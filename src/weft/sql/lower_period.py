"""The period functions of temporal views: ``PERIOD_START(e)``, where e is an alias of FROM (paper, section 3.1)."""

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
"""Name -> the number of aliases that it takes, and the type of its result."""


def for_views_only(scope: Scope) -> str:
    """Return the hint for a construct of views: create the text as a view, if all of its tables are tracked."""
    text, other = scope.context.text, scope.context.other()
    if other is not None and other != NOT_TODAY:
        return other
    if text is not None and other is None:
        return (
            f'Create a view and read it when you need it: {viewed(text)}, then weft try "SELECT * FROM NAME". '
            "A standing query over the view is not supported today."
        )
    return f"{NOT_TODAY} Only tracked tables record periods; rows of other tables have only ts."


def period_call(name: str, node: exp.Anonymous, scope: Scope) -> Scalar:
    """Lower a period function; raise SqlError outside views, and for an argument that is not an alias of FROM."""
    if not scope.context.view:
        reason = "only views have periods; a row in a standing query has one life, which begins at ts"
        raise refuse(f"{name.upper()}()", node, reason, for_views_only(scope))
    wanted, type = PERIOD_FUNCTIONS[name]
    if len(node.expressions) != wanted:
        raise SqlError(f"{name.upper()} takes {wanted} alias{'es' * (wanted > 1)} of FROM", where=place(node))
    return Call(name, tuple(_period_of(name, part, scope) for part in node.expressions), type)


def _period_of(name: str, node: exp.Expr, scope: Scope) -> PeriodOf:
    plain = isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and not node.table
    variables = scope.visible_variables()
    variable = variables.get(node.name.lower()) if plain else None
    if variable is None:
        message = f"{name.upper()} takes an alias of FROM, not {node.sql('spark')}"
        error = SqlError(message, where=place(node), hint=suggestion(node.name, variables, "aliases"))
        raise scope.consequence(error, node.name.lower())
    return PeriodOf(attributes(variable.relation)[0].scan)


def mentions_period(scalar: Scalar) -> bool:
    """Return whether a period function occurs in the scalar."""
    return isinstance(scalar, PeriodOf) or any(map(mentions_period, children(scalar)))
