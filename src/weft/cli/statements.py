"""Split the shell's input into command lines: SQL ends with a semicolon, other commands with the line."""

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


def split_statements(text: str, *, ended: bool) -> tuple[list[list[str]], str]:
    r"""Return the command lines in ``text``, whose lines end in line feeds, and the rest that needs more lines.

    With ``ended`` no more lines follow, so the rest is complete.  SQL comments are skipped where a command line could
    begin.  Raises ValueError for an unterminated quotation.

    >>> split_statements("SELECT a\n", ended=False)
    ([], 'SELECT a\n')
    >>> split_statements("SELECT a\nFROM b; tables\n", ended=False)
    ([['try', 'SELECT a\nFROM b'], ['tables']], '')
    >>> split_statements("-- all of them\nweft explain WITH b AS (SELECT 1) SELECT a FROM b\n", ended=True)
    ([['explain', 'WITH b AS (SELECT 1) SELECT a FROM b']], '')
    """
    commands: list[list[str]] = []
    while text := _without_comments(text):
        sql = _SQL.match(text)
        statement = _query(sql, text, ended) if sql else _command(text, ended)
        if statement is None:
            break
        words, text = statement
        commands.append(words)
    return commands, text


def _without_comments(text: str) -> str:
    comments = _COMMENTS.match(text)
    return text[comments.end() :] if comments else text


def _query(sql: re.Match[str], text: str, ended: bool) -> tuple[list[str], str] | None:
    query, rest = first_statement(text[sql.end() :])
    if rest is None and not ended:
        return None
    return [(sql["verb"] or "try").lower(), query.strip()], rest or ""


def _command(text: str, ended: bool) -> tuple[list[str], str] | None:
    """Split off a command, which continues on the next line after a backslash or in an open quotation."""
    ends = [match.start() for match in _END.finditer(text)]
    for end in [*ends, *([len(text)] if ended else [])]:
        with suppress(ValueError):  # a quotation is open there
            words = shlex.split(text[:end].replace("\\\n", " "))
            return words[words[0].lower() == "weft" :], text[end:]
    if ended:
        raise ValueError("a quotation is not terminated")
    return None
