"""Bring a query into canonical form (design section 5).

Queries that differ only in spelling have the same canonical form, and therefore share a plan.  The canonical form
sorts the conjuncts of a condition, merges a list of constants into one constant, and gives decimal constants one type.

Proof: proofs/Rewrites.v: canonical_rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from weft.algebra.relation import (
    And,
    Exists,
    NotExists,
    NowBefore,
    NowFrom,
    Or,
    Plain,
    Predicate,
    Query,
    Scan,
    Turns,
)
from weft.algebra.scalar import Call, ColumnRef, Literal, Scalar
from weft.algebra.schema import INTEGRAL, INTERVAL, STRING, DataType
from weft.algebra.traverse import Node, children, range_variables, transform, walk

WIDE: Final = DataType("DECIMAL", 38, 18)
"""The type of a decimal constant in a comparison, with 20 digits before the point and 18 after the point."""
_COMPARED: Final = ("=", "<>", "<", "<=", ">", ">=", "<=>")
_LISTED: Final = ("STRING", *INTEGRAL)


def canonical(query: Query) -> Query:
    """Return an equivalent query in canonical form.

    >>> from shown import M, ids
    >>> from weft.algebra.relation import Select, conjunction
    >>> from weft.algebra.scalar import call
    >>> from weft.algebra.schema import STRING
    >>> a, b = (Plain(call("=", M.ref(name), Literal("x", STRING))) for name in ("msgid", "sender"))
    >>> canonical(ids(Select(M, conjunction(a, b)))) == canonical(ids(Select(M, conjunction(b, a))))
    True
    """
    tables = {part.alias: part.table.name for part in walk(query) if isinstance(part, Scan)}
    places = {alias: number for number, alias in enumerate(range_variables(query))}

    def change(node: Node) -> Node:
        match node:
            case And(items=items):
                return And(tuple(sorted(items, key=lambda item: _rank(item, tables, places))))
            case Call(name="in"):
                return one_list(node)
            case Call(name=name) if name in _COMPARED:
                return wide_decimals(node)
            case _:
                return node

    return transform(query, change)


def one_list(call: Call) -> Call:
    """Merge the constants of ``x IN (a, b, c)`` into one list if all are strings or all are whole numbers.

    >>> from weft.algebra.schema import INT
    >>> one_list(Call("in", tuple(Literal(n, INT) for n in (7, 2, 1, 2)), INT)).args[1].value
    (1, 2)
    """
    value, *items = call.args
    if not all(isinstance(each, Literal) and each.value is not None and each.type.name in _LISTED for each in items):
        return call
    kinds = {each.type for each in items}
    if len(kinds) > 1 and STRING in kinds:
        return call
    element = max(kinds, key=lambda kind: _LISTED.index(kind.name))
    values: list[Any] = [each.value for each in items if isinstance(each, Literal)]
    return replace(call, args=(value, Literal(tuple(sorted(set(values))), DataType("ARRAY", element=element))))


def wide_decimals(call: Call) -> Call:
    """Give a decimal constant in a comparison the type ``WIDE`` if the type of the other side permits it."""
    left, right = call.args
    args = (_widened(left, right), _widened(right, left))
    return call if args == call.args else replace(call, args=args)


def _widened(value: Scalar, other: Scalar) -> Scalar:
    if not isinstance(value, Literal) or not isinstance(value.value, Decimal) or not _fits(value.type):
        return value
    if other.type.name in (*INTEGRAL, "FLOAT", "DOUBLE") or (other.type.name == "DECIMAL" and _fits(other.type)):
        return replace(value, type=WIDE)
    return value


def _fits(type: DataType) -> bool:
    precision, scale = type.precision or 10, type.scale or 0
    return scale <= 18 and precision - scale <= 20


def _rank(
    predicate: Predicate, tables: Mapping[str, str], places: Mapping[str, int]
) -> tuple[int, str, tuple[int, ...]]:
    """Return the sort key of a conjunct.

    The key has three parts: the kind of the conjunct, its shape, and the positions in FROM of its outer range
    variables.  The shape omits constants and the names of range variables.  The positions distinguish ``a.x = c.x``
    from ``b.x = c.x`` if ``a`` and ``b`` are the same table.
    """
    order = (Plain, Or, And, NowFrom, NowBefore, Turns, Exists, NotExists)
    own = set(range_variables(predicate))
    named = (part.scan for part in walk(predicate) if isinstance(part, ColumnRef))
    outside = tuple(places[scan] for scan in named if scan not in own and scan in places)
    return order.index(type(predicate)), _shape(predicate, tables), outside


def _shape(node: Node, tables: Mapping[str, str]) -> str:
    match node:
        case ColumnRef(scan=scan, column=column):
            return f"{tables.get(scan, '')}.{column}"
        case Literal(type=kind):
            # The sign of an interval is part of the plan (``scalar.Param``).
            sign = (node.value > 0) - (node.value < 0) if kind == INTERVAL and isinstance(node.value, int) else ""
            return f":{kind}{sign}"
        case Scan(table=table, whole=whole):
            return f"{table.name}{' of all time' if whole else ''}"
        case _:
            label = f"{node.name}" if isinstance(node, Call) else type(node).__name__
            return f"{label}({','.join(_shape(part, tables) for part in children(node))})"
