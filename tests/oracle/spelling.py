"""One text in two spellings: Spark's, which Weft reads, and a plain one, which DuckDB and SQLite also read.

The grammar writes ``⟦Spark's¦plain⟧`` where the two differ: LEFT SEMI JOIN and EXISTS, names of columns after an alias
and after AS, operands of UNION in parentheses and as derived tables. The grammar writes both itself, so the plain
spelling does not depend on Weft.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

OPEN, BAR, CLOSE = "⟦¦⟧"
_INNERMOST: Final = re.compile(f"{OPEN}([^{OPEN}{BAR}{CLOSE}]*){BAR}([^{OPEN}{BAR}{CLOSE}]*){CLOSE}")
_TOKEN: Final = re.compile(r"'[^']*'|\d+|\w+|[^\w\s]+")
_KEPT: Final = frozenset(["k", "n", "x", "d", "f", "ts", "m", "r", "u"])


@dataclass(frozen=True)
class Text:
    """A query in both spellings."""

    spark: str
    plain: str


def spelled(marked: str) -> Text:
    """Both spellings of a marked text."""
    return Text(_chosen(marked, 1), _chosen(marked, 2))


def _chosen(marked: str, which: int) -> str:
    count = 1
    while count:
        marked, count = _INNERMOST.subn(lambda found: found[which], marked)
    return marked


def differs(spark: str, plain: str) -> str:
    """A part that is spelled in two ways."""
    return f"{OPEN}{spark}{BAR}{plain}{CLOSE}"


def folded(text: str) -> str:
    """A text without its constants, aliases and white space: two texts that fold alike are the same one.

    >>> folded("SELECT a.k AS c0 FROM m AS a WHERE a.x = 'b'") == folded("SELECT b.k AS c1 FROM m  AS b WHERE b.x = ''")
    True
    """
    names: dict[str, str] = {}

    def one(token: str) -> str:
        if token[0] == "'":
            return "''"
        if token.isdigit():
            return "0"
        if token != token.lower() or not token[0].isalpha() or token in _KEPT:
            return token
        return names.setdefault(token, f"a{len(names)}")

    return " ".join(one(token) for token in _TOKEN.findall(text))
