"""Render the aggregates that read the values of a group in ascending order.

Weft looks up rows by value.  The same values of a group must therefore always give the same result: in both engines, to
the last bit of a DOUBLE, and for each order of arrival.  An aggregate first sorts the values into a list, without
NULLs, and folds the list.

The variance is computed by Welford's steps over the list, as n, the mean m, and s, the sum of squared differences to
the mean:  n' = n + 1,  m' = m + (x - m) / n',  s' = s + (x - m) * (x - m').
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from weft.algebra.schema import INTEGRAL, DataType

_SPREADS: Final = {
    "var_pop": "CASE WHEN t.n > 0 THEN t.s / t.n END",
    "var_samp": "CASE WHEN t.n > 1 THEN t.s / (t.n - 1) END",
    "stddev_pop": "CASE WHEN t.n > 0 THEN SQRT(t.s / t.n) END",
    "stddev_samp": "CASE WHEN t.n > 1 THEN SQRT(t.s / (t.n - 1)) END",
}
"""The results over the fields of ``t``."""
_MEAN: Final = "t.m + ({x} - t.m) / (t.n + 1)"
_SQUARES: Final = "t.s + ({x} - t.m) * ({x} - ({mean}))"


class Ordered(ABC):
    """The aggregates over ordered values, as SQL for an engine.

    ``number`` is SQL for a DOUBLE.  With ``distinct``, equal values count once.
    """

    @abstractmethod
    def total(self, number: str, *, distinct: bool) -> str:
        """Return SQL for the sum of at least one number."""

    @abstractmethod
    def spread(self, function: str, number: str, *, distinct: bool) -> str:
        """Return SQL for VAR_POP, VAR_SAMP, STDDEV_POP or STDDEV_SAMP, named in lower case."""

    @abstractmethod
    def middle(self, number: str, *, distinct: bool) -> str:
        """Return SQL for the median: the number in the middle, or half the sum of the two numbers there, or NULL."""

    @abstractmethod
    def chosen(self, value: str, by: str, *, greatest: bool) -> str:
        """Return SQL for the least value, or NULL if there is none, among the rows with the least or greatest ``by``.

        Rows in which ``by`` is NULL do not count.
        """

    @abstractmethod
    def text(self, value: str, type: DataType, *, distinct: bool) -> str:
        """Return SQL for the JSON text of the array of all values."""


class SparkOrdered(Ordered):
    """The aggregates in Spark."""

    def total(self, number: str, *, distinct: bool) -> str:  # noqa: D102
        return f"AGGREGATE({_collected(number, distinct)}, CAST(0 AS DOUBLE), (a, b) -> a + b)"

    def spread(self, function: str, number: str, *, distinct: bool) -> str:  # noqa: D102
        zero, mean = "NAMED_STRUCT('n', 0D, 'm', 0D, 's', 0D)", _MEAN.format(x="v")
        step = f"NAMED_STRUCT('n', t.n + 1D, 'm', {mean}, 's', {_SQUARES.format(x='v', mean=mean)})"
        values = _collected(f"{number} + 0D", distinct)
        return f"AGGREGATE({values}, {zero}, (t, v) -> {step}, t -> {_SPREADS[function]})"

    def middle(self, number: str, *, distinct: bool) -> str:  # noqa: D102
        places = ("(SIZE(l) - 1) DIV 2", "SIZE(l) DIV 2")
        lower, upper = (f"GET(l, CAST({place} AS INT))" for place in places)
        return f"TRANSFORM(ARRAY({_collected(number, distinct)}), l -> ({lower} + {upper}) / 2D)[0]"

    def chosen(self, value: str, by: str, *, greatest: bool) -> str:  # noqa: D102
        if not greatest:
            row = f"NAMED_STRUCT('b', {by}, 'n', {value} IS NULL, 'a', {value})"
            return f"MIN(CASE WHEN {by} IS NOT NULL THEN {row} END).a"
        rows = f"COLLECT_LIST(NAMED_STRUCT('b', {by}, 'a', {value}))"
        return f"ARRAY_MIN(TRANSFORM(FILTER({rows}, e -> e.b = MAX({by})), e -> e.a))"

    def text(self, value: str, type: DataType, *, distinct: bool) -> str:  # noqa: D102
        options = r"MAP('timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')"
        return f"TO_JSON({_collected(value, distinct)}, {options})"


def _collected(value: str, distinct: bool) -> str:
    return f"ARRAY_SORT(COLLECT_{'SET' if distinct else 'LIST'}({value}))"


class DuckdbOrdered(Ordered):
    """The aggregates in DuckDB."""

    def total(self, number: str, *, distinct: bool) -> str:  # noqa: D102
        return f"LIST_SUM({_listed(number, distinct)})"

    def spread(self, function: str, number: str, *, distinct: bool) -> str:  # noqa: D102
        mean = _MEAN.format(x="v.m")
        step = f"{{'n': t.n + 1, 'm': {mean}, 's': {_SQUARES.format(x='v.m', mean=mean)}}}"
        single = "{'n': 1::DOUBLE, 'm': x, 's': 0::DOUBLE}"
        singles = f"LIST_TRANSFORM({_listed(f'{number} + 0', distinct)}, lambda x: {single})"
        all_values = f"LIST_PREPEND({{'n': 0::DOUBLE, 'm': 0::DOUBLE, 's': 0::DOUBLE}}, {singles})"
        return f"LIST_TRANSFORM([LIST_REDUCE({all_values}, lambda t, v: {step})], lambda t: {_SPREADS[function]})[1]"

    def middle(self, number: str, *, distinct: bool) -> str:  # noqa: D102
        halves = "(l[(LEN(l) + 1) // 2] + l[LEN(l) // 2 + 1]) / 2"
        return f"LIST_TRANSFORM([{_listed(number, distinct)}], lambda l: {halves})[1]"

    def chosen(self, value: str, by: str, *, greatest: bool) -> str:  # noqa: D102
        order = f"{by}{' DESC' if greatest else ''} NULLS LAST, {value} NULLS LAST"
        return f"FIRST({value} ORDER BY {order}) FILTER (WHERE {by} IS NOT NULL)"

    def text(self, value: str, type: DataType, *, distinct: bool) -> str:  # noqa: D102
        values = f"COALESCE({_listed(value, distinct)}, [])"
        if type.name in (*INTEGRAL, "DECIMAL", "BOOLEAN"):
            return _joined(f"LIST_TRANSFORM({values}, lambda x: CAST(x AS VARCHAR))")
        if type.name == "TIMESTAMP":
            return _joined(f"""LIST_TRANSFORM({values}, lambda x: STRFTIME(x, '"%Y-%m-%dT%H:%M:%S.%fZ"'))""")
        return f"CAST(TO_JSON({values}) AS VARCHAR)"


def _listed(value: str, distinct: bool) -> str:
    return f"LIST_SORT(LIST({'DISTINCT ' if distinct else ''}{value}) FILTER (WHERE {value} IS NOT NULL))"


def _joined(texts: str) -> str:
    return f"'[' || ARRAY_TO_STRING({texts}, ',') || ']'"
