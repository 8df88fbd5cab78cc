"""Check formats of times, such as ``yyyy-MM-dd HH:mm``, because Spark reports an invalid one only at the first row.

A format consists of groups of letters, text in quotes, and other characters.  Spark refuses some letters and some
lengths, and more of them in reading than in writing.
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
"""The greatest length of a group of each letter, in reading and writing."""
_WRITTEN_ONLY: Final = {"E": 4, "D": 3, "Q": 2, "G": 4}
_MEANT: Final = {
    "Y": "yyyy for the year",
    "D": "dd for the day of the month",
    "T": "'T' in quotes",
    "Z": "XXX for the zone",
}
LETTERS: Final = "yyyy, MM, MMM, dd, HH, hh, a, mm, ss, SSS, XXX"


def check_format(text: str, node: exp.Expr, *, read: bool) -> None:
    """Raise SqlError for a format that Spark would not accept at every row; ``read`` means that it reads texts.

    >>> check_format("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", exp.null(), read=True)
    >>> check_format("YYYY-MM-DD", exp.null(), read=False)
    Traceback (most recent call last):
    ...
    weft.errors.SqlError: the format 'YYYY-MM-DD' has 'YYYY', which Weft does not support here
      Write yyyy for the year; the letters are yyyy, MM, MMM, dd, HH, hh, a, mm, ss, SSS, XXX.
    """
    begin = 0
    while begin < len(text):
        match = _GROUPS.match(text, begin)
        if match is None:
            raise SqlError(f"the format {text!r} has a quote that is not closed", where=place(node))
        letter, group = match[1], match[0]
        known = _MOST if read else {**_MOST, **_WRITTEN_ONLY}
        if (letter and len(group) > known.get(letter, 0)) or group in "[]{}#":
            raise SqlError(
                f"the format {text!r} has {group!r}, which Weft does not support here",
                where=place(node),
                hint=_hint(group),
            )
        begin = match.end()


def _hint(group: str) -> str:
    known = _MEANT.get(group[0])
    return f"Write {known}; the letters are {LETTERS}." if known else f"The letters are {LETTERS}."
