"""What is typed in the shell, cut into command lines: SQL ends with a semicolon, any other command with its line."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from typing import Final

from weft.sql.parse import first_statement

_COMMENTS: Final = re.compile(r"(?:[\s;]+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)+", re.DOTALL)
_SQL: Final = re.compile(
    r"(?:weft\s+)?(?:(?P<verb>try|explain)\s+(?=(?:select|with|values)\b|\(|\Z)|(?=(?:select|with|values)\b|\())",
    re.IGNORECASE,
)
_END: Final = re.compile(r"(?<!\\)[;\n]")


def cut(text: str, *, ended: bool) -> tuple[list[list[str]], str]:
    """The command lines in ``text``, lines that each end in a line feed, and what of it waits for more lines.

    With ``ended`` nothing follows: what waits would be cut as it is.  Comments of SQL are left out where a command
    line could begin.  Raises ValueError for a quotation that never ends.

    >>> cut("SELECT a\\n", ended=False)
    ([], 'SELECT a\\n')
    >>> cut("SELECT a\\nFROM b; tables\\n", ended=False)
    ([['try', 'SELECT a\\nFROM b'], ['tables']], '')
    >>> cut("-- all of them\\nweft explain WITH b AS (SELECT 1) SELECT a FROM b\\n", ended=True)
    ([['explain', 'WITH b AS (SELECT 1) SELECT a FROM b']], '')
    """
    found: list[list[str]] = []
    while text := _without_comments(text):
        sql = _SQL.match(text)
        taken = _query(sql, text, ended) if sql else _command(text, ended)
        if taken is None:
            break
        words, text = taken
        found.append(words)
    return found, text


def _without_comments(text: str) -> str:
    comments = _COMMENTS.match(text)
    return text[comments.end() :] if comments else text


def _query(sql: re.Match[str], text: str, ended: bool) -> tuple[list[str], str] | None:
    query, rest = first_statement(text[sql.end() :])
    if rest is None and not ended:
        return None
    return [(sql["verb"] or "try").lower(), query.strip()], rest or ""


def _command(text: str, ended: bool) -> tuple[list[str], str] | None:
    """A command goes on in the next line after a backslash, and where a quotation is open."""
    ends = [match.start() for match in _END.finditer(text)]
    for end in [*ends, *([len(text)] if ended else [])]:
        with suppress(ValueError):  # a quotation is open there
            words = shlex.split(text[:end].replace("\\\n", " "))
            return words[words[0].lower() == "weft" :], text[end:]
    if ended:
        raise ValueError("a quotation never ends")
    return None
