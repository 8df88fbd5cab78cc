"""Formats of times, such as ``yyyy-MM-dd HH:mm``: which of them Spark takes at every row.

A format is letters in groups, text in quotes, and other characters as they are.  Spark refuses some letters, some
lengths, and in reading some more; it does so at the first row, so they are refused when the query is read.
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from weft.errors import SqlError
from weft.sql.refusal import place

_GROUPS: Final = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']")
_MOST: Final = {
    "y": 6, "M": 4, "L": 4, "d": 2, "H": 2, "h": 2, "K": 2, "k": 2, "m": 2, "s": 2, "S": 9, "a": 1, "X": 3, "x": 3,
}  # fmt: skip
"""How many of a letter there may be, in writing and reading."""
_WRITTEN_ONLY: Final = {"E": 4, "D": 3, "Q": 2, "G": 4}
_MEANT: Final = {
    "Y": "yyyy for the year",
    "D": "dd for the day of the month",
    "T": "'T' in quotes",
    "Z": "XXX for the zone",
}
LETTERS: Final = "yyyy, MM, MMM, dd, HH, hh, a, mm, ss, SSS, XXX"


def check_format(text: str, node: exp.Expr, *, read: bool) -> None:
    """Raises SqlError for a format that Spark would not take at every row; ``read`` tells that texts are read by it.

    >>> check_format("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", exp.null(), read=True)
    >>> check_format("YYYY-MM-DD", exp.null(), read=False)
    Traceback (most recent call last):
    ...
    weft.errors.SqlError: the format 'YYYY-MM-DD' has 'YYYY', which Weft does not take here
      Write yyyy for the year; the letters are yyyy, MM, MMM, dd, HH, hh, a, mm, ss, SSS, XXX.
    """
    begin = 0
    while begin < len(text):
        found = _GROUPS.match(text, begin)
        if found is None:
            raise SqlError(f"the format {text!r} has a quote that does not end", where=place(node))
        letter, group = found[1], found[0]
        known = _MOST if read else {**_MOST, **_WRITTEN_ONLY}
        if (letter and len(group) > known.get(letter, 0)) or group in "[]{}#":
            raise SqlError(
                f"the format {text!r} has {group!r}, which Weft does not take here",
                where=place(node),
                hint=_hint(group),
            )
        begin = found.end()


def _hint(group: str) -> str:
    known = _MEANT.get(group[0])
    return f"Write {known}; the letters are {LETTERS}." if known else f"The letters are {LETTERS}."
