"""Parse a text that contains exactly one query in Spark's dialect.  For any other text, raise an error with the place.

The parser does not recognize functions.  Every function call becomes an ``exp.Anonymous`` node.  This module checks
only that the text is one query.  The translation into algebra decides which constructs are allowed (design section 8).
"""

from __future__ import annotations

import logging
import re
from itertools import pairwise
from typing import Any, ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from weft.errors import SqlError
from weft.sql.lower.advice import unreadable
from weft.sql.lower.precedence import WRITTEN, check_precedence
from weft.sql.rendering.render import KEYWORDS, quoted

_STATEMENTS: Final = (
    exp.Alter, exp.Cache, exp.Copy, exp.Declare, exp.Delete, exp.Describe, exp.Drop, exp.Insert, exp.Kill, exp.LoadData,
    exp.Merge, exp.MultitableInserts, exp.Refresh, exp.Set, exp.TruncateTable, exp.Update, exp.Use, exp.Values,
)  # fmt: skip
MAX_TEXT: Final = 100_000
"""The maximal number of characters in a query.  Parsing a longer text would take too long."""

logging.getLogger("sqlglot").setLevel(logging.ERROR)


class QueryText(Spark):
    """Spark's dialect without the recognition of functions, except CAST, TRY_CAST and EXTRACT."""

    class Tokenizer(Spark.Tokenizer):
        """A tokenizer without the operators ISNULL and NOTNULL, which are function names in Spark."""

        KEYWORDS: ClassVar[dict[str, Any]] = {
            word: token for word, token in Spark.Tokenizer.KEYWORDS.items() if word not in ("ISNULL", "NOTNULL")
        }

    def tokenize(self, sql: str, dialect: Any = None) -> list[Any]:
        """Return the tokens of a text.  WINDOW is a name if it is a function or has a field, as in Spark."""
        tokens = super().tokenize(sql, dialect)
        for token, following in pairwise(tokens):
            if token.token_type is TokenType.WINDOW and following.token_type in (TokenType.L_PAREN, TokenType.DOT):
                token.token_type = TokenType.VAR
        return tokens

    class Parser(SparkParser):
        """A parser that recognizes only the functions CAST, TRY_CAST and EXTRACT."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: SparkParser.FUNCTION_PARSERS[name]
            for name in ("CAST", "TRY_CAST", "EXTRACT")
            if name in SparkParser.FUNCTION_PARSERS
        }

        QUERY_MODIFIER_TOKENS: ClassVar[set[TokenType]] = {*SparkParser.QUERY_MODIFIER_TOKENS, TokenType.UNION}
        """The tokens that end GROUP BY ALL.  UNION before a parenthesis is no function."""

        def _parse_paren(self) -> exp.Expr | None:
            """Mark the parentheses in the text, because the parser inserts other parentheses."""
            node = super()._parse_paren()
            if isinstance(node, exp.Paren):
                node.meta[WRITTEN] = True
            return node


def parse(text: str) -> exp.Select | exp.SetOperation | exp.Values:
    """Return the syntax tree of the query in ``text``.

    Raise SqlError if the text is not exactly one query (SELECT, set operation or VALUES).  Also raise SqlError if Spark
    would group the operators differently.
    """
    if len(text) > MAX_TEXT:
        raise SqlError(f"the query has {len(text):,} characters, more than {MAX_TEXT:,}", hint="Shorten the query.")
    try:
        statements = [statement for statement in QueryText().parse(text) if statement is not None]
    except SqlglotError as error:
        raise not_sql(error, text) from None
    except RecursionError:
        raise SqlError("the query is nested too deeply", hint="Split the query into several queries.") from None
    if len(statements) != 1:
        what = "no statement" if not statements else f"{len(statements)} statements"
        hint = "Install each query under its own name." if statements else "Write SELECT … FROM …"
        raise SqlError(f"expected one SELECT, found {what}", hint=hint)
    statement = statements[0]
    if isinstance(statement, exp.Subquery) and _bare(statement):
        statement = statement.unnest()
    if not isinstance(statement, (exp.Select, exp.SetOperation, exp.Values)):
        raise SqlError(
            f"this is not a query but {_kind(statement)}",
            hint="A query begins with SELECT and changes nothing.",
        )
    check_precedence(statement)
    return statement


def first_statement(text: str) -> tuple[str, str | None]:
    """Split a text at the first semicolon outside strings, names and comments.

    Return the text and None if no semicolon is found, or if a string is not closed.
    """
    try:
        tokens = QueryText().tokenize(text)
    except SqlglotError:
        return text, None
    end = next((token for token in tokens if token.token_type is TokenType.SEMICOLON), None)
    return (text, None) if end is None else (text[: end.start], text[end.end + 1 :])


def _in_words(problem: str, near: str) -> str:
    place = f" near {near!r}" if near else ""
    missing = re.search(r"Expecting (\S)$", problem)
    if missing is not None:
        return f"a {missing[1]} is missing{place}"
    if "Required keyword" in problem or "Expected" in problem:
        return f"something is missing or misspelt{place}"
    if "tokeniz" in problem or not problem:
        return "a quote, a comment or a quoted name is not closed"
    return f"{near!r} is unexpected" if near else "a part of it is unexpected"


def _bare(subquery: exp.Subquery) -> bool:
    return all(not value for key, value in subquery.args.items() if key != "this")


def _kind(statement: exp.Expr) -> str:
    if isinstance(statement, exp.Command):
        return f"the command {str(statement.this).upper()}"
    if not isinstance(statement, (exp.DDL, exp.DML, exp.Query, *_STATEMENTS)):
        return "an expression or an unknown command"
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(statement).__name__).upper()
    return f"{'an' if words[0] in 'AEIO' or words == 'UPDATE' else 'a'} {words} statement"


def not_sql(error: SqlglotError, text: str, usual: str = "Weft reads one SELECT in Spark's dialect.") -> SqlError:
    """Return the error for a text that cannot be parsed.  ``usual`` is the hint if there is no better one."""
    details = getattr(error, "errors", None) or [{}]
    first = details[0]
    line, column = first.get("line"), first.get("col")
    where = f"line {line}, column {column}" if line else None
    near = first.get("highlight") or ""
    shown = f"this is not valid SQL: {_in_words(first.get('description') or '', near)}"
    foreign = unreadable(text)
    if foreign is not None:
        return SqlError(f"{shown}; {foreign[0]} is not part of the language", where=where, hint=foreign[1])
    hint = usual
    if re.search(r"\bWINDOW\s+INTERVAL\s*$", first.get("start_context") or "", re.IGNORECASE):
        hint = "In a view, write the moving window in GROUP BY: MOVING_WINDOW(INTERVAL 7 DAYS)."
    elif near.upper() == "FOR":
        hint = "Write FOR SYSTEM_TIME after a table and before its alias: FROM staff FOR SYSTEM_TIME ALL AS s."
    elif near.upper() in KEYWORDS:
        hint += f" If {near} is a column or a table, quote it with backquotes: {quoted(near)}."
    return SqlError(shown, where=where, hint=hint)
