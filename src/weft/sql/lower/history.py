"""Translate FOR SYSTEM_TIME, which selects the rows that were valid at an instant or in a range of instants.

    FOR SYSTEM_TIME AS OF c             valid_from <= c  AND c  < valid_to
    FOR SYSTEM_TIME FROM c1 TO c2       valid_from <  c2 AND c1 < valid_to AND c1 < c2
    FOR SYSTEM_TIME BETWEEN c1 AND c2   valid_from <= c2 AND c1 < valid_to AND c1 <= c2
    FOR SYSTEM_TIME ALL                 every row that was ever valid

The semantics are those of SQL:2011, over all periods of the table.  A NULL ``valid_to`` is later than every instant.
An instant is a constant, or NOW() plus or minus intervals.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from weft.algebra.calendar import near
from weft.algebra.relation import TRUE, Plain, Predicate, Scan, conjunction, disjunction
from weft.algebra.scalar import Literal, Now, Scalar, call, mentions_now, shifted
from weft.algebra.schema import DATE, STRING, TIMESTAMP
from weft.algebra.traverse import substitute
from weft.errors import SqlError
from weft.sql.lower.conversion import as_time, converted
from weft.sql.lower.now import now_comparison
from weft.sql.lower.refusal import refuse
from weft.sql.lower.scalar import lower_scalar
from weft.sql.lower.scope import Scope

_SOME_INSTANT: Final = Literal(0, TIMESTAMP, fixed=True)
_CONSTRUCT: Final = "FOR SYSTEM_TIME"
_WRITE: Final = (
    "Write FOR SYSTEM_TIME AS OF TIMESTAMP '2026-01-01 12:00:00', or FROM TIMESTAMP '…' TO TIMESTAMP '…', after the "
    "table and before its alias."
)


def refuse_in_view(version: exp.Version, table: str) -> SqlError:
    """Return the error for FOR SYSTEM_TIME in a temporal view."""
    return refuse(
        f"{_CONSTRUCT} in a view",
        version,
        "a view already covers the whole past: at each instant, the view contains the result over the rows "
        "that are valid at that instant",
        'Remove FOR SYSTEM_TIME, and read the view with weft try "SELECT … FROM VIEW FOR SYSTEM_TIME AS OF '
        f'…". In WHERE, PERIOD_START({table}) and PERIOD_END({table}) give the period of a row.',
    )


def held(version: exp.Version, scan: Scan, scope: Scope) -> Predicate:
    """Return the condition that a row of ``scan`` was valid at the instants of ``version``.

    ``scan`` reads the whole history.  Raise SqlError for other time-travel clauses.  Also raise SqlError for an
    instant that is neither a constant nor derived from NOW().
    """
    if version.name.upper() != "TIMESTAMP":
        raise refuse("VERSION AS OF", version, "a query cannot name the version of a table", _WRITE)
    instants = version.expression
    match version.args["kind"]:
        case "ALL":
            return TRUE
        case "AS OF":
            at = _instant(instants, scope, version)
            return conjunction(_compared("<=", scan.start, at, version), _not_ended(scan, at, version))
        case "FROM" | "BETWEEN" as kind if isinstance(instants, exp.Tuple) and len(instants.expressions) == 2:
            first, last = (_instant(each, scope, version) for each in instants.expressions)
            operator = "<" if kind == "FROM" else "<="
            return conjunction(
                _in_order(operator, first, last, version),
                _compared(operator, scan.start, last, version),
                _not_ended(scan, first, version),
            )
        case kind:
            raise refuse(f"{_CONSTRUCT} {kind}", version, "it is not part of the language", _WRITE)


def _instant(node: exp.Expr | None, scope: Scope, version: exp.Version) -> Scalar:
    """``node`` is None if the text ends before the instant."""
    if node is None:
        raise refuse(f"{_CONSTRUCT} {version.args['kind']}", version, "it names no instant", _WRITE)
    named = node.find(exp.Column, exp.Query)
    if named is not None:
        raise refuse(
            f"{named.sql('spark')} in {_CONSTRUCT}",
            named,
            f"{_CONSTRUCT} needs instants that are the same for all rows: constants, or NOW() with intervals",
            "For an instant that differs by row, write FOR SYSTEM_TIME ALL and a condition in WHERE: valid_from <= x.",
        )
    value = lower_scalar(node, scope.inner(lateral=False))
    if value.type == STRING:
        value = as_time(value, TIMESTAMP, node)
    if value.type not in (TIMESTAMP, DATE):
        raise refuse(f"{_CONSTRUCT} with a value of type {value.type}", node, f"{_CONSTRUCT} takes instants", _WRITE)
    return converted(value, TIMESTAMP)


def _not_ended(scan: Scan, at: Scalar, node: exp.Expr) -> Predicate:
    if scan.table.end is None:
        return TRUE
    end = scan.ref(scan.table.end)
    return disjunction(Plain(call("is null", end)), _compared("<", at, end, node))


def _compared(operator: str, left: Scalar, right: Scalar, node: exp.Expr) -> Predicate:
    comparison = call(operator, left, right)
    if mentions_now(left) or mentions_now(right):
        return now_comparison(comparison, True, node)
    return Plain(comparison)


def _in_order(operator: str, first: Scalar, last: Scalar, node: exp.Expr) -> Predicate:
    """Return the condition that two instants are in order.  Raise SqlError for constants in the wrong order."""
    if mentions_now(first) and mentions_now(last):
        (begun, slack), (ended, more) = near(first), near(last)
        if slack or more:  # months, days, and the clock of a zone
            if begun.base == ended.base == Now() and begun.micros + slack < ended.micros - more:
                return TRUE
            raise refuse(f"{_CONSTRUCT} from an instant to another", node, "their order depends on NOW()", _WRITE)
        # Intervals have a fixed length at any NOW.
        first, last = (substitute(each, {Now(): _SOME_INSTANT}) for each in (first, last))
    begin, end = _constant(first), _constant(last)
    if begin is not None and end is not None and (begin > end or (begin == end and operator == "<")):
        target = "itself" if begin == end else "an earlier one"
        raise refuse(f"{_CONSTRUCT} from an instant to {target}", node, "there is no instant between the two", _WRITE)
    return _compared(operator, first, last, node)


def _constant(instant: Scalar) -> int | None:
    """Return the value of a constant instant (microseconds UTC), or None for any other scalar."""
    parts = shifted(instant)
    if isinstance(parts.base, Literal) and isinstance(parts.base.value, int) and not parts.intervals:
        return parts.base.value + parts.micros
    return None
