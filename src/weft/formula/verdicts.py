"""Answers printed as MonPoly prints them."""

from __future__ import annotations

from collections.abc import Sequence

from weft.formula.states import Row, Value

_SECOND = 1_000_000


def verdict(at: int, number: int, answer: str) -> str:
    """A line: ``@10 (time point 3): (1,"a")``; ``at`` in microseconds is shown in seconds."""
    seconds, rest = divmod(at, _SECOND)
    shown = str(seconds) if not rest else f"{at / _SECOND:.6f}".rstrip("0")
    return f"@{shown} (time point {number}): {answer}"


def answers(
    rows: Sequence[Row], counts: Sequence[int] | None = None, *, closed: bool, every_point: bool = False
) -> str | None:
    """The answers at a time point, in order; None where there is none, unless ``every_point``.

    A closed formula is ``true`` or ``false``.  With ``every_point`` (MonPoly's -verbose) the rows stand in one list.
    Where they are counted, each is followed by ``*`` and its count.
    """
    often = None if counts is None else dict(zip(rows, counts, strict=True))
    found = sorted(set(rows), key=_order)
    if closed and not found:
        return "false" if every_point else None
    shown = ["true" if closed else row_text(row) for row in found]
    if often is not None:
        shown = [f"{text}*{often[row]}" for text, row in zip(shown, found, strict=True)]
    if every_point and not closed:
        return f"({','.join(shown)})"
    return " ".join(shown) or None


def row_text(row: Row) -> str:
    """A row: ``(1,"a",2.5)``."""
    return f"({','.join(map(value_text, row))})"


def value_text(value: Value) -> str:
    """A value: a text in quotes unless it stands in quotes itself, a float as C's %g has it."""
    if isinstance(value, str):
        return value if len(value) > 1 and value[0] == value[-1] == '"' else f'"{value}"'
    return f"{value:g}" if isinstance(value, float) else str(value)


def _order(row: Row) -> tuple[tuple[int, object], ...]:
    """Numbers by size, texts by their bytes, as OCaml compares."""
    return tuple((1, value.encode()) if isinstance(value, str) else (0, value) for value in row)
