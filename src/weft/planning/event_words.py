"""Explain in words why a branch gives an answer: a row arrives, or NOW reaches an instant.

The text has the names from the query's text.
"""

from __future__ import annotations

from weft.algebra.calendar import near
from weft.algebra.event import Event
from weft.algebra.relation import Plain, condition, conjuncts
from weft.algebra.scalar import MICROSECOND, NEGATED, Call, Now, Scalar, children, mentions_now, minus
from weft.algebra.traverse import substitute
from weft.planning.words import begins, ceases, comparison_words, instant_words, turned


def why(event: Event) -> str:
    """Return a clause that says why the branch gives answers, with the names from the query's text."""
    driver = event.driver
    nested = _nested(driver.inside)
    match driver.kind:
        case "arrival":
            assert driver.scan is not None
            return f"{begins(driver.scan, 'a new row')}{nested}"
        case "departure":
            assert driver.scan is not None
            ended = ceases(driver.scan)
            blocked = driver.inside.count("NOT EXISTS") % 2
            return f"{ended}: the last blocker under NOT EXISTS is gone" if blocked else f"{ended}{nested}"
        case "now_from":
            return f"{reached(driver.instant)}{nested}"
        case "now_before":
            return f"the last blocker under NOT EXISTS ends: {reached(driver.instant)}"
        case "beginning":
            return f"time begins: constant rows hold from the first instant on{nested}"
        case "greatest":
            return f"from the first instant at which all conditions hold: {_latest(driver.instant)}"


def _nested(inside: tuple[str, ...]) -> str:
    if not inside:
        return ""
    if "NOT EXISTS" in inside:
        return ", and ends the last blocker under NOT EXISTS"
    return ", and makes the EXISTS true"


def _latest(instant: Scalar) -> str:
    if isinstance(instant, Call) and instant.name == "greatest":
        return f"the latest of {', '.join(dict.fromkeys(map(instant_words, instant.args)))}"
    return instant_words(instant)


def reached(instant: Scalar) -> str:
    """Return a clause that says that NOW reaches an instant.

    >>> from weft.algebra.scalar import ColumnRef, Literal
    >>> from weft.algebra.schema import INTERVAL, TIMESTAMP
    >>> ts = ColumnRef("m", "ts", TIMESTAMP)
    >>> reached(Call("+", (ts, Literal(28 * 86_400_000_000, INTERVAL)), TIMESTAMP))
    '4 weeks after m.ts have passed (NOW reaches m.ts + 28 days)'
    """
    relative, exact = turned(instant)
    return f"{relative} ({exact})" if relative else exact


def turning_comparisons(event: Event) -> tuple[str, ...]:
    """Return the comparisons with a function of NOW that may turn at an instant of the calendar.

    The conditions of the event contain them with the instant, or the microsecond before it, in place of NOW.  A
    comparison and its negation turn together, and have one text.
    """
    if not near(event.instant)[1]:
        return ()
    now: dict[Scalar, Scalar] = {event.instant: Now(), minus(event.instant, MICROSECOND): Now()}
    found = []
    for item in conjuncts(condition(event.block)):
        if isinstance(item, Plain) and isinstance(item.condition, Call) and item.condition.name in NEGATED:
            comparison = substitute(item.condition, now)
            if any(mentions_now(side) and side != Now() for side in children(comparison)):
                strict = NEGATED[item.condition.name] if item.condition.name in ("<=", ">=") else item.condition.name
                found.append(comparison_words(Call(strict, children(comparison), comparison.type)))
    return tuple(dict.fromkeys(found))
