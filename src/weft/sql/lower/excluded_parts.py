"""Remove the parts of an outer join, and of a subquery that stands for a value, that WHERE excludes.

    SELECT a.id FROM a LEFT JOIN b ON b.k = a.id WHERE b.k IS NULL     only the rows without a partner remain
    SELECT a.id FROM a LEFT JOIN b ON b.k = a.id WHERE b.score > 5     only the pairs remain

In a pair, a column that ON compares is never NULL.  In a row without a partner, a comparison of the partner's columns
is never true.  In a comparison such as ``(SELECT COUNT(*) …) > 5``, only rows with a group remain.  If a single part of
the union remains, it replaces the union, and the query reads fewer tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import Final

from weft.algebra import relation as relational
from weft.algebra.scalar import Call, Cast, ColumnRef, Literal, Scalar
from weft.algebra.traverse import range_variables, rename, substitute
from weft.sql.lower.scope import Scope

_COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=", "like", "ilike", "startswith", "endswith", "contains")
_STRICT: Final = (*_COMPARISONS, "+", "-", "*", "/", "%", "not", "concat", "lower", "upper")
"""The functions that return NULL if an argument is NULL."""
_OF_NUMBERS: Final = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def decided(relation: relational.Relation, scope: Scope) -> relational.Relation:
    """Remove the parts of outer joins that WHERE excludes.  If one part of a union remains, it replaces the union.

    Record the new meaning of the columns in ``scope``.
    """
    demanded = relational.conjuncts(relational.condition(relation))
    for union in relational.sources(relation):
        if not isinstance(union, relational.Union) or union.alias not in scope.context.names.unions:
            continue
        parts = tuple(part for part in union.inputs if not _excluded(_meaning(union, part), part, demanded))
        if len(parts) == 1:
            return decided(_alone(relation, union, parts[0], scope), scope)
        if 1 < len(parts) < len(union.inputs):
            return decided(substitute(relation, {union: relational.Union(union.alias, parts)}), scope)
    return relation


def _alone(
    relation: relational.Relation, union: relational.Union, part: relational.Relation, scope: Scope
) -> relational.Relation:
    copies = scope.context.names.copies
    part = rename(part, {alias: copies[alias] for alias in range_variables(part) if alias in copies})
    assert isinstance(part, relational.Project)
    meaning = _meaning(union, part)
    scope.joined.update({ref: meaning.get(value, value) for ref, value in scope.joined.items()})
    replaced: relational.Relation = substitute(relation, {**meaning, union: part.input})
    demanded = [item for item in relational.conjuncts(relational.condition(replaced)) if not _always(item)]
    return relational.block(relational.sources(replaced), relational.conjunction(*demanded))


def _meaning(union: relational.Union, part: relational.Relation) -> dict[ColumnRef, Scalar]:
    assert isinstance(part, relational.Project)
    return dict(zip(relational.attributes(union), (output.value for output in part.outputs), strict=True))


def _excluded(
    meaning: dict[ColumnRef, Scalar], part: relational.Relation, demanded: tuple[relational.Predicate, ...]
) -> bool:
    assert isinstance(part, relational.Project)
    own = relational.conjuncts(relational.condition(part.input))
    present = {ref for item in own if isinstance(item, relational.Plain) for ref in _present(item.condition)}
    return any(_never(substitute(item, meaning), present) for item in demanded)


def _never(predicate: relational.Predicate, present: set[ColumnRef]) -> bool:
    """Return whether ``predicate`` is never true, if the columns ``present`` are never NULL."""
    match predicate:
        case relational.Plain(condition=test):
            return _not_true(test, present)
        case relational.NowFrom(threshold=threshold) | relational.NowBefore(threshold=threshold):
            return _null(threshold)
        case relational.Turns():
            return _null(relational.turn_value(predicate))
        case relational.Or(items=items):
            return all(_never(item, present) for item in items)
        case _:
            return False


def _always(predicate: relational.Predicate) -> bool:
    match predicate:
        case relational.Plain(condition=Call(name="is null", args=(value,))):
            return _null(value)
        case _:
            return False


def _not_true(test: Scalar, present: set[ColumnRef]) -> bool:
    match test:
        case Call(name="is null", args=(ColumnRef() as ref,)):
            return ref in present
        case Call(name="is not null", args=(value,)) | Call(name="not", args=(Call(name="is null", args=(value,)),)):
            return _null(value)
        case Call(name="and", args=args):
            return any(_not_true(each, present) for each in args)
        case Call(name="or", args=args):
            return all(_not_true(each, present) for each in args)
        case Call(name=name, args=(left, right)) if name in _OF_NUMBERS:
            one, other = _number(left), _number(right)
            return _null(test) if one is None or other is None else not _OF_NUMBERS[name](one, other)
        case _:
            return _null(test)


def _number(value: Scalar) -> int | Decimal | None:
    match value:
        case Cast(arg=arg, type=type) if type.numeric and type.name not in ("FLOAT", "DOUBLE"):
            return _number(arg)
        case Literal(value=int() | Decimal() as number, type=type) if type.numeric:
            return number
        case _:
            return None


def _null(value: Scalar) -> bool:
    match value:
        case Literal(value=None):
            return True
        case Cast(arg=arg):
            return _null(arg)
        case Call(name="in", args=(first, *_)):
            return _null(first)
        case Call(name=name, args=args) if name in _STRICT:
            return any(map(_null, args))
        case _:
            return False


def _present(test: Scalar) -> Iterator[ColumnRef]:
    """Yield columns that are not NULL where ``test`` is true."""
    match test:
        case Call(name="and", args=args):
            for each in args:
                yield from _present(each)
        case Call(name="is not null", args=(value,)) | Call(name="not", args=(Call(name="is null", args=(value,)),)):
            yield from _needed(value)
        case Call(name=name, args=args) if name in _COMPARISONS:
            for each in args:
                yield from _needed(each)


def _needed(value: Scalar) -> Iterator[ColumnRef]:
    """Yield the columns that are not NULL where ``value`` is not NULL."""
    match value:
        case ColumnRef():
            yield value
        case Cast(arg=arg):
            yield from _needed(arg)
        case Call(name=name, args=args) if name in _STRICT:
            for each in args:
                yield from _needed(each)
