"""Rewrite subqueries so that they refer at most to the directly enclosing SELECT, as Spark requires.

Spark resolves a correlated name only against the SELECT directly around a subquery.  If a nested subquery refers to a
SELECT further out, the subquery around it is joined with the *domain* of the columns that are referred to.  The domain
is a derived table with the distinct outer values of these columns, and is joined by null-safe equality.

The module does the same if an OR combines a condition on an outer row with a subquery.  Spark would move that OR into
the outer join, away from the inner rows that the subquery refers to (SPARK-59351).

Law: EXISTS (B) = EXISTS (D ⋈ B[c := d.c] with d.c <=> c), where D = δ π_c(outside) has every value that c takes.
"""

from __future__ import annotations

from weft.algebra.event import Event
from weft.algebra.relation import (
    And,
    Distinct,
    Exists,
    NotExists,
    NowBefore,
    NowFrom,
    Or,
    Output,
    Plain,
    Predicate,
    Project,
    Relation,
    Source,
    attributes,
    block,
    condition,
    conjunction,
    conjuncts,
    disjunction,
    sources,
)
from weft.algebra.scalar import ColumnRef, Scalar, call
from weft.algebra.traverse import mentioned, range_variables, substitute, walk


def localize(event: Event) -> Event:
    """Return the event with all its subqueries made local; the event must be a projection of one block."""
    own, whole = sources(event.block), condition(event.block)
    return event.with_block(block(own, _predicate(whole, own, whole)))


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
    outside = _aliases(around)
    reached = {ref for item in conjuncts(demanded) if _has_subquery(item) for ref in mentioned(item)}
    far = sorted((ref for ref in reached if ref.scan in outside), key=lambda ref: (ref.scan, ref.column))
    if far:
        domain = _domain(tuple(far), around, whole, _alias(own[0]))
        copies: dict[Scalar, Scalar] = dict(zip(far, attributes(domain), strict=True))
        demanded = _substituted(demanded, copies)
        links = [Plain(call("<=>", copies[ref], ref)) for ref in far]
        own, demanded = (domain, *own), conjunction(*links, demanded)
    return block(own, _predicate(demanded, own, demanded))


def _domain(far: tuple[ColumnRef, ...], around: tuple[Source, ...], whole: Predicate, inner: str) -> Distinct:
    """Return the distinct outer values of the columns ``far``.

    The result satisfies the plain conditions of ``whole`` that concern only the sources of these columns.
    """
    wanted = _connected({ref.scan for ref in far}, whole, _aliases(around))
    kept = tuple(source for source in around if _alias(source) in wanted)
    narrow = [item for item in _plain(whole) if {ref.scan for ref in mentioned(item)} <= wanted]
    outputs = tuple(Output(f"_c{number}", ref) for number, ref in enumerate(far, 1))
    return Distinct(Project(block(kept, conjunction(*narrow)), f"{inner}_outer", outputs))


def _alias(source: Source) -> str:
    return attributes(source)[0].scan if attributes(source) else range_variables(source)[0]


def _aliases(around: tuple[Source, ...]) -> set[str]:
    return set(map(_alias, around))


def _connected(wanted: set[str], whole: Predicate, own: set[str]) -> set[str]:
    """Return the sources in ``wanted`` and all sources that conditions connect to them.

    Without the connected sources, the domain would be a cross product that is too large.
    """
    ties = [{ref.scan for ref in mentioned(item)} for item in _plain(whole)]
    reached = set(wanted)
    while True:
        more = {name for tie in ties if tie & reached and tie <= own for name in tie} | reached
        if more == reached:
            return reached
        reached = more


def _plain(predicate: Predicate) -> list[Plain]:
    return [item for item in conjuncts(predicate) if isinstance(item, Plain)]


def _has_subquery(predicate: Predicate) -> bool:
    return any(isinstance(part, (Exists, NotExists)) for part in walk(predicate))


def _substituted(predicate: Predicate, copies: dict[Scalar, Scalar]) -> Predicate:
    """Replace outer columns by ``copies`` in the conjuncts that contain subqueries; other conjuncts may name outer
    columns.
    """
    return conjunction(*(substitute(item, copies) if _has_subquery(item) else item for item in conjuncts(predicate)))
