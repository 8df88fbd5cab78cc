"""Instants taken apart: a base and the intervals added to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from weft.algebra.scalar import Call, Literal, Scalar
from weft.algebra.schema import INTERVAL


@dataclass(frozen=True)
class Shifted:
    """``base`` + ``micros`` + Σ count · interval: an instant taken apart."""

    base: Scalar
    micros: int
    intervals: tuple[tuple[Scalar, int], ...]


def shifted(instant: Scalar) -> Shifted:
    """An instant as a base and the intervals added to it.

    >>> from weft.algebra.scalar import ColumnRef
    >>> from weft.algebra.schema import TIMESTAMP
    >>> x = ColumnRef("m", "ts", TIMESTAMP)
    >>> shifted(Call("+", (x, Literal(5, INTERVAL)), TIMESTAMP)).micros
    5
    """
    micros, intervals = 0, Counter[Scalar]()
    while isinstance(instant, Call) and instant.name in "+-" and instant.args[1].type == INTERVAL:
        sign = 1 if instant.name == "+" else -1
        instant, amount = instant.args
        if isinstance(amount, Literal) and isinstance(amount.value, int):
            micros += sign * amount.value
        else:
            intervals[amount] += sign
    return Shifted(instant, micros, tuple((k, n) for k, n in intervals.items() if n))
