"""Lay out long SQL in lines for readers.  Only white space changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

WIDTH: Final = 112
"""A line has at most this number of characters, unless one of its parts is longer."""
_TOKENS: Final = re.compile(r"[(),]|(?:'(?:[^'\\]|\\.)*'|`[^`]*`|[^\s(),'`])+", re.DOTALL)
_CLAUSES: Final = frozenset("FROM WHERE HAVING GROUP ORDER UNION JOIN LEFT CROSS SEMI ANTI LATERAL".split())
_HEADS: Final = ("SELECT", "WITH")

Part: TypeAlias = "str | list[Part]"


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
    tokens = iter(match[0] for match in _TOKENS.finditer(sql))
    return "\n".join(_lines(_nested(tokens), 0))


def _nested(tokens: Iterator[str]) -> list[Part]:
    """Return the tokens up to the closing parenthesis, with a list for each part in parentheses."""
    parts: list[Part] = []
    for token in tokens:
        if token == ")":
            break
        parts.append(_nested(tokens) if token == "(" else token)
    return parts


def _is_query(part: Part) -> bool:
    return isinstance(part, list) and bool(part) and part[0] in _HEADS


def _lines(parts: Sequence[Part], depth: int) -> list[str]:
    """Return the lines of a query, which begin at ``depth``."""
    lines: list[str] = []
    for clause in _clauses(parts):
        deeper = depth + (0 if clause[0] in (*_HEADS, "UNION") else 2)
        lines += _clause(clause, deeper)
    return lines


def _clauses(parts: Sequence[Part]) -> Iterator[list[Part]]:
    clause: list[Part] = []
    for part in parts:
        begins = isinstance(part, str) and part in _CLAUSES
        joined = part == "JOIN" and clause[-1:] in (["LEFT"], ["CROSS"], ["SEMI"], ["ANTI"])
        distinct = part == "FROM" and bool(clause) and clause[-1] == "DISTINCT"  # IS NOT DISTINCT FROM
        if begins and clause and not joined and not distinct:
            yield clause
            clause = []
        clause.append(part)
    if clause:
        yield clause


def _clause(clause: Sequence[Part], depth: int) -> list[str]:
    """Return the lines of a clause.  A subquery begins a line, and a long list continues on indented lines."""
    lines = [" " * depth]
    for position, part in enumerate(clause):
        before = clause[position - 1] if position else ""
        if _is_query(part) and isinstance(part, list):
            lines[-1] += _space(lines[-1], before) + "("
            lines += [*_lines(part, depth + 2), " " * depth + ")"]
            continue
        text = _inline(part)
        glue = "" if part == "," else _space(lines[-1], before, called=isinstance(part, list))
        breaks = before == "," or part in ("AND", "OR")
        if breaks and len(lines[-1]) + len(_chunk(clause[position:])) + 1 > WIDTH:
            lines.append(" " * (depth + 4) + text)
        else:
            lines[-1] += glue + text
    return [line.rstrip() for line in lines]


def _chunk(rest: Sequence[Part]) -> str:
    """Return the text up to the next place at which a line can break."""
    text = ""
    for position, part in enumerate(rest):
        if (position and part in (",", "AND", "OR")) or _is_query(part):
            break
        text += _space(text, rest[position - 1] if position else "", called=isinstance(part, list)) + _inline(part)
    return text


def _inline(part: Part) -> str:
    if isinstance(part, str):
        return part
    text = ""
    for position, inner in enumerate(part):
        before = part[position - 1] if position else ""
        text += ("" if inner == "," else _space(text, before, called=isinstance(inner, list))) + _inline(inner)
    return f"({text})"


_BEFORE_PARENTHESES: Final = frozenset(
    "SELECT FROM WHERE AND OR NOT IN AS ON JOIN THEN WHEN ELSE OVER BY ALL VALUES HAVING INTERVAL CASE DISTINCT EXISTS "
    "MATERIALIZED DIV".split()
)


def _space(text: str, before: Part, *, called: bool = False) -> str:
    """Return the space before a part.  Only parentheses after a word of SQL or an operator have a space before them."""
    if not text.strip():
        return ""
    if called and isinstance(before, str) and re.fullmatch(r"[\w.`]+", before) and before not in _BEFORE_PARENTHESES:
        return ""
    return " "
