"""Describe the conditions of a query at one instant, in words and with the names of its text."""

from __future__ import annotations

from weft.algebra.relation import (
    And,
    Distinct,
    Exists,
    NotExists,
    NowBefore,
    NowFrom,
    Or,
    Plain,
    Predicate,
    Relation,
    Scan,
    Source,
    condition,
    conjuncts,
    sources,
)
from weft.algebra.scalar import Call, Scalar, shifted
from weft.planning.words import JUST_AFTER, instant_words, named, scalar_words
from weft.sql.scope import as_written


def condition_words(predicate: Predicate) -> str:
    """Return a condition as a clause.

    >>> from shown import M, R, TIED
    >>> from weft.algebra.relation import Select, conjunction
    >>> condition_words(conjunction(NowFrom(M.ref("due")), NotExists(Select(R, TIED))))
    'NOW() >= m.due and there is no row of replies (as r) with r.inreplyto = m.msgid'
    """
    match predicate:
        case Plain(condition=Call(name="or") as scalar):
            return f"({scalar_words(scalar)})"
        case Plain(condition=scalar):
            return scalar_words(scalar)
        case NowFrom(threshold=threshold):
            return _compared(threshold, ">", ">=")
        case NowBefore(threshold=threshold):
            return _compared(threshold, "<=", "<")
        case And(items=items):
            return " and ".join(map(condition_words, items))
        case Or(items=items):
            parts = (f"({condition_words(each)})" if isinstance(each, And) else condition_words(each) for each in items)
            return f"({' or '.join(parts)})"
        case Exists(body=body):
            return _rows(body, "there is a row of", "there are rows of")
        case NotExists(body=body):
            return _rows(body, "there is no row of", "there are no rows of")


def _compared(threshold: Scalar, after: str, at: str) -> str:
    """Compare NOW with a threshold; one microsecond after an instant turns >= into >, and < into <=."""
    words = instant_words(threshold)
    if shifted(threshold).micros % 1_000 == 1:
        return f"NOW() {after} {words.removeprefix(JUST_AFTER)}"
    return f"NOW() {at} {words}"


def _rows(body: Relation, one: str, several: str) -> str:
    read, demanded = sources(body), conjuncts(condition(body))
    clause = f"{one if len(read) == 1 else several} {' and '.join(map(_source, read))}"
    nested = [each for each in demanded if isinstance(each, (Exists, NotExists))]
    own = [condition_words(each) for each in demanded if each not in nested]
    clause += f" with {' and '.join(own)}" if own else ""
    return clause + "".join(f"{' and' if n else ''} for which {condition_words(each)}" for n, each in enumerate(nested))


def _source(source: Source) -> str:
    match source:
        case Scan():
            return named(source)
        case Distinct(input=inner):
            return " and ".join(map(_source, sources(inner)))
        case _:
            return as_written(source.alias)
