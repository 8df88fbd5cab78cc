"""Print answers in MonPoly's format."""

from __future__ import annotations

from collections.abc import Sequence

from weft.formula.states import Row, Value

_SECOND = 1_000_000


def verdict(at: int, number: int, answer: str) -> str:
    """Return a line ``@10 (time point 3): (1,"a")``; ``at`` is in microseconds, the output in seconds."""
    seconds, rest = divmod(at, _SECOND)
    shown = str(seconds) if not rest else f"{at / _SECOND:.6f}".rstrip("0")
    return f"@{shown} (time point {number}): {answer}"


def answers(
    rows: Sequence[Row], counts: Sequence[int] | None = None, *, closed: bool, every_point: bool = False
) -> str | None:
    """Return the sorted answers at a time point; None if there are none, unless ``every_point``.

    A closed formula has the answers ``true`` or ``false``.  With ``every_point`` (MonPoly's -verbose) the rows form one
    list.  With ``counts``, ``*`` and the count follow each row.
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
    """Return a row as ``(1,"a",2.5)``."""
    return f"({','.join(map(value_text, row))})"


def value_text(value: Value) -> str:
    """Return a value: a text in quotes unless it already has quotes, a float in the format %g of C."""
    if isinstance(value, str):
        return value if len(value) > 1 and value[0] == value[-1] == '"' else f'"{value}"'
    return f"{value:g}" if isinstance(value, float) else str(value)


def _order(row: Row) -> tuple[tuple[int, object], ...]:
    """Return the sort key of a row: numbers by size, texts by bytes, as in OCaml."""
    return tuple((1, value.encode()) if isinstance(value, str) else (0, value) for value in row)
