"""Why a branch gives an answer, in words: which row's arrival, or which instant reached, makes it one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final, Literal

from weft.algebra.event import Event
from weft.algebra.relation import Scan
from weft.algebra.scalar import Call, Cast, ColumnRef, Element, Scalar, columns, shifted
from weft.algebra.schema import DATE
from weft.algebra.traverse import rename, transform
from weft.sql import render
from weft.sql.scope import as_written

_UNITS: Final = (
    (604_800_000_000, "week"),
    (86_400_000_000, "day"),
    (3_600_000_000, "hour"),
    (60_000_000, "minute"),
    (1_000_000, "second"),
    (1_000, "millisecond"),
    (1, "microsecond"),
)
_SPELLED: Final = re.compile(
    r"CAST\('(-?[\d.]+)' AS (?:DECIMAL\(\d+, ?\d+\)|DOUBLE)\)"
    r"|TIMESTAMP '([-\d]+ [\d:]+(?:\.\d+)?)\+00:00'"
    r"|'(?:[^'\\]|\\.)*'"
    r"|`(\w+)`",
    re.DOTALL,
)
"""In rendered SQL: a number, an instant, a text (left as it is), a name."""

JUST_AFTER: Final = "just after "
"""Before an instant in words: the first microsecond that is later."""


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
    """The reason why rows of this branch become answers, as a clause, in the names of the query's text."""
    driver = event.driver
    nested = _nested(driver.inside)
    match driver.kind:
        case "arrival":
            assert driver.scan is not None
            return f"a new row of {named(driver.scan)} {appears(driver.scan)}{nested}"
        case "departure":
            assert driver.scan is not None
            ended = f"a row of {named(driver.scan)} ends"
            blocked = driver.inside.count("NOT EXISTS") % 2
            return f"{ended}: the last blocker under NOT EXISTS is gone" if blocked else f"{ended}{nested}"
        case "now_from":
            return f"{reached(driver.instant)}{nested}"
        case "now_before":
            return f"the last blocker under NOT EXISTS ends: {reached(driver.instant)}"
        case "beginning":
            return f"time begins: what is constant holds from the first instant on{nested}"
        case "greatest":
            return f"from the first instant on at which all of it holds: {_latest(driver.instant)}"


def named(scan: Scan) -> str:
    """A table of a query with the alias that the query's text gives it, where that is another name."""
    table, alias = scan.table.name, as_written(scan.alias)
    return table if alias.lower() == table.lower() else f"{table} (as {alias})"


def appears(scan: Scan) -> str:
    """What a new row of a table does: it arrives, or, of one whose rows end, it begins."""
    return "arrives" if scan.table.append_only else "begins"


def _latest(instant: Scalar) -> str:
    if isinstance(instant, Call) and instant.name == "greatest":
        return f"the latest of {', '.join(dict.fromkeys(map(instant_words, instant.args)))}"
    return instant_words(instant)


def reached(instant: Scalar) -> str:
    """That NOW reaches an instant.

    >>> from weft.algebra.scalar import Literal
    >>> from weft.algebra.schema import INTERVAL, TIMESTAMP
    >>> ts = ColumnRef("m", "ts", TIMESTAMP)
    >>> reached(Call("+", (ts, Literal(28 * 86_400_000_000, INTERVAL)), TIMESTAMP))
    '4 weeks after m.ts have passed (NOW reaches m.ts + 28 days)'
    """
    told, exact = turned(instant)
    return f"{told} ({exact})" if told else exact


def turned(instant: Scalar) -> tuple[str | None, str]:
    """That NOW reaches an instant: in a length of time, where it is that long before or after a column; and exactly."""
    parts = shifted(instant)
    exact = instant_words(instant)
    if isinstance(_column(parts.base), ColumnRef) and not parts.intervals:
        name = instant_words(parts.base)
        if parts.micros == 1:
            return None, f"NOW passes {name}"
        if parts.micros % 1_000 == 1:  # NOW > c is NOW >= c + 1 µs
            whole = parts.micros - 1
            passes = f"NOW passes {name} {_signed(whole)}"
            if whole > 0:
                return f"more than {_many(whole, 'have')} passed since {name}", passes
            return f"less than {_many(-whole, 'are')} left until {name}", passes
        if parts.micros > 0:
            counted, have = _many(parts.micros, "have").rsplit(" ", 1)
            return f"{counted} after {name} {have} passed", f"NOW reaches {exact}"
        if parts.micros < 0:
            return f"it is {length(-parts.micros)} before {name}", f"NOW reaches {exact}"
    return None, f"NOW passes {exact.removeprefix(JUST_AFTER)}" if exact.startswith(
        JUST_AFTER
    ) else f"NOW reaches {exact}"


def _many(micros: int, verb: Literal["have", "are"]) -> str:
    """A length of time with its verb.

    >>> _many(7 * 86_400_000_000, "have"), _many(2 * 3_600_000_000, "are")
    ('1 week has', '2 hours are')
    """
    counted = length(micros)
    one = {"have": "has", "are": "is"}
    return f"{counted} {one[verb] if counted.startswith('1 ') else verb}"


def instant_words(instant: Scalar) -> str:
    """An instant as a person writes it: ``m.ts + 28 days``."""
    parts = shifted(instant)
    text, micros = scalar_words(_column(parts.base)), parts.micros
    just = ""
    if micros % 1_000 == 1:  # NOW > c is NOW >= c + 1 µs
        just, micros = JUST_AFTER, micros - 1
    if micros:
        text += f" {_signed(micros)}"
    for interval, count in parts.intervals:
        text += f" {'+' if count > 0 else '-'} {scalar_words(interval)}" * abs(count)
    return just + text


def _column(base: Scalar) -> Scalar:
    """The column itself where it is a day, which as an instant is its midnight."""
    return base.arg if isinstance(base, Cast) and base.arg.type == DATE else base


def scalar_words(scalar: Scalar) -> str:
    """An expression as SQL, in the names of the query's text, nothing quoted or converted that need not be to be read.

    >>> from decimal import Decimal
    >>> from weft.algebra.scalar import Literal, call
    >>> from weft.algebra.schema import STRING, DataType
    >>> u = ColumnRef("u_2", "name", STRING)
    >>> scalar_words(call("=", u, Literal("`a`", STRING)))
    "u.name = '`a`'"
    >>> scalar_words(call("<", u, Literal(Decimal("1.50"), DataType("DECIMAL", 38, 18))))
    'u.name < 1.50'
    """
    named_as = {ref.scan: as_written(ref.scan) for ref in columns(scalar)}
    text = render.scalar(rename(transform(scalar, _without_reading), named_as))
    return _SPELLED.sub(_plainly, text)


def _without_reading(part: Any) -> Any:
    """A nested column as such, where its JSON text is read with its own type; an element under a plain name."""
    match part:
        case Call(name="from_json", args=(ColumnRef() as ref, _)) if ref.type.shape is not None:
            return ref
        case Element(name=name):
            return replace(part, name=f"x{name.rpartition('_')[2]}")
        case _:
            return part


def _plainly(found: re.Match[str]) -> str:
    number, instant, name = found.groups()
    if instant is not None:
        return f"{instant.removesuffix('.000000')} UTC"
    return number or name or found[0]


def _signed(micros: int) -> str:
    return f"{'+' if micros > 0 else '-'} {length(abs(micros), weeks=False)}"


def _nested(inside: tuple[str, ...]) -> str:
    if not inside:
        return ""
    if "NOT EXISTS" in inside:
        return ", and ends what blocked under NOT EXISTS"
    return ", and makes the EXISTS true"
