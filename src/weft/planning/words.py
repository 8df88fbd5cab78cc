"""Why a branch gives an answer, in words: which row's arrival, or which instant reached, makes it one."""

from __future__ import annotations

from typing import Final, Literal

from weft.algebra.event import Event
from weft.algebra.scalar import Call, ColumnRef, Scalar, columns, shifted
from weft.sql import render

_UNITS: Final = (
    (604_800_000_000, "week"),
    (86_400_000_000, "day"),
    (3_600_000_000, "hour"),
    (60_000_000, "minute"),
    (1_000_000, "second"),
    (1_000, "millisecond"),
    (1, "microsecond"),
)
_WAS: Final = "_was"
"""What the derivation appends to the range variable of a blocker that drives (``replay.not_exists.witness``)."""

_JUST: Final = "just after "


def length(micros: int, *, weeks: bool = True) -> str:
    """A length of time in its largest whole unit.

    >>> length(28 * 86_400_000_000), length(28 * 86_400_000_000, weeks=False), length(5_400_000_000)
    ('4 weeks', '28 days', '90 minutes')
    """
    for size, unit in _UNITS if weeks else _UNITS[1:]:
        if micros % size == 0:
            count = micros // size
            return f"{count:,} {unit}" + ("" if abs(count) == 1 else "s")
    return f"{micros} microseconds"


def why(event: Event) -> str:
    """The reason why rows of this branch become answers, as a clause."""
    driver = event.driver
    depth = driver.inside.count("NOT EXISTS")
    nested = _nested(driver.inside)
    match driver.kind:
        case "arrival":
            assert driver.scan is not None
            table, alias = driver.scan.table.name, _plain(driver.scan.alias, depth)
            named = table if alias.lower() == table.lower() else f"{table} (as {alias})"
            return f"a new row of {named} arrives{nested}"
        case "departure":
            assert driver.scan is not None
            table, alias = driver.scan.table.name, _plain(driver.scan.alias, depth)
            ended = f"a row of {table} (as {alias}) ends"
            return f"{ended}: the last blocker under NOT EXISTS is gone" if depth % 2 else f"{ended}{nested}"
        case "now_from":
            return f"{reached(driver.instant, depth)}{nested}"
        case "now_before":
            return f"the last blocker under NOT EXISTS ends: {reached(driver.instant, depth)}"
        case "beginning":
            return f"time begins: what is constant holds from the first instant on{nested}"
        case "greatest":
            return f"from the first instant on at which all of it holds: {_latest(driver.instant)}"


def _latest(instant: Scalar) -> str:
    if isinstance(instant, Call) and instant.name == "greatest":
        return f"the latest of {', '.join(instant_words(part, 0) for part in instant.args)}"
    return instant_words(instant, 0)


def reached(instant: Scalar, depth: int = 0) -> str:
    """That NOW reaches an instant.

    >>> from weft.algebra.scalar import Literal
    >>> from weft.algebra.schema import INTERVAL, TIMESTAMP
    >>> ts = ColumnRef("m", "ts", TIMESTAMP)
    >>> reached(Call("+", (ts, Literal(28 * 86_400_000_000, INTERVAL)), TIMESTAMP))
    '4 weeks after m.ts have passed (NOW reaches m.ts + 28 days)'
    """
    parts = shifted(instant)
    exact = instant_words(instant, depth)
    if isinstance(parts.base, ColumnRef) and not parts.intervals:
        name = instant_words(parts.base, depth)
        if parts.micros == 1:
            return f"NOW passes {name}"
        if parts.micros % 1_000 == 1:  # NOW > c is NOW >= c + 1 µs
            whole = parts.micros - 1
            if whole > 0:
                return f"more than {_many(whole, 'have')} passed since {name} (NOW passes {name} {_signed(whole)})"
            return f"less than {_many(-whole, 'are')} left until {name} (NOW passes {name} {_signed(whole)})"
        if parts.micros > 0:
            counted, have = _many(parts.micros, "have").rsplit(" ", 1)
            return f"{counted} after {name} {have} passed (NOW reaches {exact})"
        if parts.micros < 0:
            return f"it is {length(-parts.micros)} before {name} (NOW reaches {exact})"
    return f"NOW passes {exact.removeprefix(_JUST)}" if exact.startswith(_JUST) else f"NOW reaches {exact}"


def _many(micros: int, verb: Literal["have", "are"]) -> str:
    """A length of time with its verb.

    >>> _many(7 * 86_400_000_000, "have"), _many(2 * 3_600_000_000, "are")
    ('1 week has', '2 hours are')
    """
    counted = length(micros)
    one = {"have": "has", "are": "is"}
    return f"{counted} {one[verb] if counted.startswith('1 ') else verb}"


def instant_words(instant: Scalar, depth: int) -> str:
    """An instant as a person writes it: ``m.ts + 28 days``."""
    parts = shifted(instant)
    text, micros = render.scalar(parts.base), parts.micros
    just = ""
    if micros % 1_000 == 1:  # NOW > c is NOW >= c + 1 µs
        just, micros = _JUST, micros - 1
    for ref in columns(parts.base):
        text = text.replace(f"{ref.scan}.", f"{_plain(ref.scan, depth)}.")
    if micros:
        text += f" {_signed(micros)}"
    for interval, count in parts.intervals:
        text += f" {'+' if count > 0 else '-'} {render.scalar(interval)}" * abs(count)
    return just + text


def _signed(micros: int) -> str:
    return f"{'+' if micros > 0 else '-'} {length(abs(micros), weeks=False)}"


def _plain(alias: str, depth: int) -> str:
    """The range variable as the user named it."""
    for _ in range(depth):
        alias = alias.removesuffix(_WAS)
    return alias


def _nested(inside: tuple[str, ...]) -> str:
    if not inside:
        return ""
    if "NOT EXISTS" in inside:
        return ", and ends what blocked under NOT EXISTS"
    return ", and makes the EXISTS true"
