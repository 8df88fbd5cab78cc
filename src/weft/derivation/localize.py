"""Rewrite subqueries so that they refer at most to the directly enclosing SELECT, as Spark requires.

Spark resolves a correlated name only in the SELECT directly around a subquery.  If a nested subquery refers to a more
distant SELECT, the rewrite adds a *domain* to the subquery in between.  The domain is a derived table with the distinct
values of the outer columns.  The subquery is joined with the domain by null-safe equality.

The module also adds a domain if an OR combines a condition on an outer row with a subquery.  Without a domain, Spark
would move the OR into the outer join, where the rows of the subquery are not available (SPARK-59351).

Law: EXISTS (B) = EXISTS (D ⋈ B[c := d.c] with d.c <=> c).  Here ``c`` denotes the outer columns in B.  The domain D = δ
π_c(outside) has every value of ``c``.

Proof: proofs/Rewrites.v: localize_rule.
"""

from __future__ import annotations

from weft.algebra import relation as relational
from weft.algebra.event import Event
from weft.algebra.scalar import ColumnRef, Scalar, call
from weft.algebra.traverse import mentioned, range_variables, substitute, walk


def localize(event: Event) -> Event:
    """Rewrite all subqueries of the event.  The input of the event's projection must be one block."""
    own, whole = relational.sources(event.block), relational.condition(event.block)
    return event.with_block(relational.block(own, _predicate(whole, own, whole)))


def _predicate(
    predicate: relational.Predicate, around: tuple[relational.Source, ...], whole: relational.Predicate
) -> relational.Predicate:
    match predicate:
        case relational.Plain() | relational.NowFrom() | relational.NowBefore() | relational.Turns():
            return predicate
        case relational.And(items=items):
            return relational.conjunction(*(_predicate(item, around, whole) for item in items))
        case relational.Or(items=items):
            return relational.disjunction(*(_predicate(item, around, whole) for item in items))
        case relational.Exists(body=body):
            return relational.Exists(_body(body, around, whole))
        case relational.NotExists(body=body):
            return relational.NotExists(_body(body, around, whole))


def _body(
    body: relational.Relation, around: tuple[relational.Source, ...], whole: relational.Predicate
) -> relational.Relation:
    own, demanded = relational.sources(body), relational.condition(body)
    outside = _aliases(around)
    reached = {ref for item in relational.conjuncts(demanded) if _has_subquery(item) for ref in mentioned(item)}
    far = sorted((ref for ref in reached if ref.scan in outside), key=lambda ref: (ref.scan, ref.column))
    if far:
        domain = _domain(tuple(far), around, whole, _alias(own[0]))
        copies: dict[Scalar, Scalar] = dict(zip(far, relational.attributes(domain), strict=True))
        demanded = _substituted(demanded, copies)
        links = [relational.Plain(call("<=>", copies[ref], ref)) for ref in far]
        own, demanded = (domain, *own), relational.conjunction(*links, demanded)
    return relational.block(own, _predicate(demanded, own, demanded))


def _domain(
    far: tuple[ColumnRef, ...], around: tuple[relational.Source, ...], whole: relational.Predicate, inner: str
) -> relational.Distinct:
    wanted = _connected({ref.scan for ref in far}, whole, _aliases(around))
    needed = tuple(source for source in around if _alias(source) in wanted)
    narrow = [item for item in _plain(whole) if {ref.scan for ref in mentioned(item)} <= wanted]
    outputs = tuple(relational.Output(f"_c{number}", ref) for number, ref in enumerate(far, 1))
    return relational.Distinct(
        relational.Project(relational.block(needed, relational.conjunction(*narrow)), f"{inner}_outer", outputs)
    )


def _alias(source: relational.Source) -> str:
    return relational.attributes(source)[0].scan if relational.attributes(source) else range_variables(source)[0]


def _aliases(around: tuple[relational.Source, ...]) -> set[str]:
    return set(map(_alias, around))


def _connected(wanted: set[str], whole: relational.Predicate, own: set[str]) -> set[str]:
    """Add the connected sources, because the domain would otherwise be a large cross product."""
    ties = [{ref.scan for ref in mentioned(item)} for item in _plain(whole)]
    reached = set(wanted)
    while True:
        more = {name for tie in ties if tie & reached and tie <= own for name in tie} | reached
        if more == reached:
            return reached
        reached = more


def _plain(predicate: relational.Predicate) -> list[relational.Plain]:
    return [item for item in relational.conjuncts(predicate) if isinstance(item, relational.Plain)]


def _has_subquery(predicate: relational.Predicate) -> bool:
    return any(isinstance(part, (relational.Exists, relational.NotExists)) for part in walk(predicate))


def _substituted(predicate: relational.Predicate, copies: dict[Scalar, Scalar]) -> relational.Predicate:
    """Replace outer columns only in conjuncts with subqueries, because other conjuncts may name outer columns."""
    return relational.conjunction(
        *(substitute(item, copies) if _has_subquery(item) else item for item in relational.conjuncts(predicate))
    )
