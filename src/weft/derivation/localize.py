"""Subqueries that see no further than one SELECT out.

Spark resolves a correlated name only against the SELECT directly around a subquery.  Where a nested subquery mentions a
row from further out, the subquery between them is joined with the *domain* of those columns: the distinct values that
they take outside, found again by null-safe equality.  So it is where OR puts a row from outside beside a subquery:
Spark moves the whole OR out into its join, and the subquery with it, away from the rows that it is about (SPARK-59351).

Law: EXISTS (B) = EXISTS (Domain(c) ⋈ B[c := d.c] with d.c <=> c), since
the domain holds every value that c takes, once.
"""

from __future__ import annotations

from dataclasses import replace

from weft.algebra.event import Event
from weft.algebra.relation import (
    And,
    Domain,
    Exists,
    NotExists,
    NowBefore,
    NowFrom,
    Or,
    Plain,
    Predicate,
    Relation,
    Source,
    block,
    condition,
    conjunction,
    conjuncts,
    disjunction,
    map_scalars,
    mentioned,
    sources,
    substitute,
)
from weft.algebra.scalar import ColumnRef, Scalar, call, columns


def localize(event: Event) -> Event:
    """The event with every subquery made local."""
    return replace(event, condition=_predicate(event.condition, event.sources, event.condition))


def _predicate(predicate: Predicate, around: tuple[Source, ...], whole: Predicate) -> Predicate:
    match predicate:
        case Plain() | NowFrom() | NowBefore():
            return predicate
        case And(items=items):
            return conjunction(*(_predicate(item, around, whole) for item in items))
        case Or(items=items):
            return disjunction(*(_predicate(item, around, whole) for item in items))
        case Exists(body=body):
            return Exists(_body(body, around, whole))
        case NotExists(body=body):
            return NotExists(_body(body, around, whole))


def _body(body: Relation, around: tuple[Source, ...], whole: Predicate) -> Relation:
    own, demanded = sources(body), condition(body)
    outside = {source.alias for source in around}
    reached = {ref for item in _with_subqueries(demanded) for ref in mentioned(item)}
    far = sorted((ref for ref in reached if ref.scan in outside), key=lambda ref: (ref.scan, ref.column))
    if far:
        domain = _domain(tuple(far), around, whole, own[0].alias)
        copies: dict[Scalar, Scalar] = {ref: domain.ref(ref) for ref in far}
        demanded = _substituted(demanded, copies)
        links = [Plain(call("<=>", domain.ref(ref), ref)) for ref in far]
        own, demanded = (domain, *own), conjunction(*links, demanded)
    return block(own, _predicate(demanded, own, demanded))


def _domain(far: tuple[ColumnRef, ...], around: tuple[Source, ...], whole: Predicate, inner: str) -> Domain:
    """The values of ``far`` outside, narrowed by whatever plain condition concerns the same sources alone."""
    wanted = _connected({ref.scan for ref in far}, whole, {source.alias for source in around})
    kept = tuple(source for source in around if source.alias in wanted)
    narrow = [item for item in _plain(whole) if {ref.scan for ref in columns(item.condition)} <= wanted]
    return Domain(f"{inner}_outer", far, block(kept, conjunction(*narrow)))


def _connected(wanted: set[str], whole: Predicate, own: set[str]) -> set[str]:
    """The sources tied to ``wanted`` by a condition: a product of sources that nothing ties would be too large."""
    ties = [{ref.scan for ref in columns(item.condition)} for item in _plain(whole)]
    reached = set(wanted)
    while True:
        more = {name for tie in ties if tie & reached and tie <= own for name in tie} | reached
        if more == reached:
            return reached
        reached = more


def _plain(predicate: Predicate) -> list[Plain]:
    return [item for item in conjuncts(predicate) if isinstance(item, Plain)]


def _with_subqueries(predicate: Predicate) -> list[Predicate]:
    """The conjuncts that are or have a subquery."""
    return [item for item in conjuncts(predicate) if _has_subquery(item)]


def _has_subquery(predicate: Predicate) -> bool:
    match predicate:
        case Exists() | NotExists():
            return True
        case And(items=items) | Or(items=items):
            return any(_has_subquery(item) for item in items)
        case Plain() | NowFrom() | NowBefore():
            return False


def _substituted(predicate: Predicate, copies: dict[Scalar, Scalar]) -> Predicate:
    """Names from outside replaced in conjuncts with subqueries; the others see them as they are."""

    def local(item: Predicate) -> Predicate:
        return map_scalars(item, lambda scalar: substitute(scalar, copies)) if _has_subquery(item) else item

    return conjunction(*(local(item) for item in conjuncts(predicate)))
