"""Lay out long SQL in lines for readers.  Only white space changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 112
"""A line has at most this number of characters, unless one of its parts is longer."""
_TOKENS: Final = re.compile(r"(\s*)([(),]|(?:'(?:[^'\\]|\\.)*'|`[^`]*`|[^\s(),'`])+)", re.DOTALL)
_JOINS: Final = ("LEFT", "CROSS", "SEMI", "ANTI")
_CLAUSES: Final = ("FROM", "WHERE", "HAVING", "GROUP", "ORDER", "UNION", "JOIN", "LATERAL", *_JOINS)
_HEADS: Final = ("SELECT", "WITH")


@dataclass(frozen=True)
class _Part:
    """A word, or the parts in parentheses.  ``space`` is the space before it."""

    space: str
    word: str
    inner: tuple[_Part, ...] | None = None

    @property
    def is_query(self) -> bool:
        return bool(self.inner) and self.inner[0].word in _HEADS  # type: ignore[index]

    @property
    def breaks(self) -> bool:
        """Whether a line can break before the part, besides after a comma."""
        return self.word in ("AND", "OR")

    @property
    def text(self) -> str:
        inner = self.word if self.inner is None else f"({''.join(part.text for part in self.inner).strip()})"
        return f"{self.space}{inner}"


def laid_out(sql: str) -> str:
    """Return the SQL with a line for each clause, and with indented subqueries.

    >>> print(laid_out("SELECT a FROM (SELECT a, f(b) AS b FROM t WHERE a = '( x' UNION ALL SELECT 1, 2) AS u"))
    SELECT a
      FROM (
        SELECT a, f(b) AS b
          FROM t
          WHERE a = '( x'
        UNION ALL SELECT 1, 2
      ) AS u
    """
    tokens = (match.groups() for match in _TOKENS.finditer(sql))
    return "\n".join(_lines(_nested(tokens), 0))


def _nested(tokens: Iterator[tuple[str, ...]]) -> tuple[_Part, ...]:
    """Return the parts up to the closing parenthesis."""
    parts = []
    for white, word in tokens:
        if word == ")":
            break
        parts.append(_Part(" " if white else "", word, _nested(tokens) if word == "(" else None))
    return tuple(parts)


def _lines(parts: Sequence[_Part], depth: int) -> list[str]:
    """Return the lines of a query, which begin at ``depth``."""
    lines: list[str] = []
    for clause in _clauses(parts):
        lines += _clause(clause, depth + (0 if clause[0].word in (*_HEADS, "UNION") else 2))
    return lines


def _clauses(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    clause: list[_Part] = []
    for part in parts:
        last = clause[-1].word if clause else ""
        joined = part.word == "JOIN" and last in _JOINS
        distinct = part.word == "FROM" and last == "DISTINCT"  # IS NOT DISTINCT FROM
        if part.word in _CLAUSES and clause and not joined and not distinct:
            yield clause
            clause = []
        clause.append(part)
    if clause:
        yield clause


def _clause(clause: Sequence[_Part], depth: int) -> list[str]:
    """Return the lines of a clause.  A subquery has lines of its own, and a long list continues on indented lines."""
    lines, after_comma = [" " * depth], False
    for position, part in enumerate(clause):
        if part.is_query:
            lines[-1] += f"{part.space}("
            lines += [*_lines(part.inner or (), depth + 2), f"{' ' * depth})"]
        elif (after_comma or part.breaks) and len(lines[-1]) + _length(clause[position:]) > WIDTH:
            lines.append(" " * (depth + 4) + part.text.strip())
        else:
            lines[-1] += part.text if lines[-1].strip() else part.text.strip()
        after_comma = part.word == ","
    return [line.rstrip() for line in lines]


def _length(rest: Sequence[_Part]) -> int:
    """Return the length of the text up to the next place at which a line can break."""
    length = 0
    for position, part in enumerate(rest):
        if part.is_query or (position and (part.breaks or part.word == ",")):
            break
        length += len(part.text)
    return length
