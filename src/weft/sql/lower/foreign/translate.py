"""Translate the text of a query in another dialect, and find the places of the original in what is said about it.

sqlglot parses the original.  ``meaning`` and ``functions`` have the constructs that mean the same; everything else is
refused at its place.  The ordinary front end then reads the text in Spark's dialect like any other.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError, UnsupportedError
from sqlglot.generators.spark import SparkGenerator

from weft.algebra.schema import TableSchema
from weft.errors import Reasons, Refused, SqlError
from weft.sql.lower.foreign.functions import translate_call
from weft.sql.lower.foreign.kinds import TYPES, Kinds
from weft.sql.lower.foreign.meaning import check_meaning
from weft.sql.lower.parse import MAX_TEXT, QueryText, not_sql

Foreign: TypeAlias = Literal["postgres", "duckdb", "snowflake", "bigquery", "tsql"]
DIALECTS: Final[tuple[Foreign, ...]] = get_args(Foreign)
_CASTS: Final = ("CAST", "TRY_CAST", "SAFE_CAST", "EXTRACT")
_MARK: Final = re.compile("\ue000([0-9]+)\ue001")
_PLACE: Final = re.compile(r"line (\d+), column (\d+)")


@dataclass(frozen=True)
class Translation:
    """A query in Spark's dialect, and its ``original``.

    ``marks`` are pairs (offset in the text, offset in the original) of names, in order.
    """

    text: str
    original: str
    dialect: Foreign
    marks: tuple[tuple[int, int], ...]

    @property
    def stored(self) -> str:
        """The text with the original in a comment above it."""
        lines = [f"-- {line}".rstrip() for line in (f"In the dialect {self.dialect}:", *self.original.splitlines())]
        return "\n".join([*lines, self.text])

    @contextmanager
    def placed(self, *, stored: bool = False) -> Iterator[None]:
        """Let errors of the ``with`` block name places in the original instead of ``text``, or of ``stored``."""
        above = self.stored.count("\n") - self.text.count("\n") if stored else 0
        try:
            yield
        except Refused as error:
            if error.where is not None:
                error.where = _PLACE.sub(partial(self._place, above), error.where)
            raise

    def _place(self, above: int, found: re.Match[str]) -> str:
        line, column = int(found[1]) - above, int(found[2])
        offset = sum(len(each) + 1 for each in self.text.split("\n")[: line - 1]) + column - 1
        number = bisect_right(self.marks, (offset, len(self.original))) - 1
        return place_of(self.original, self.marks[max(number, 0)][1]) if self.marks else found[0]


def place_of(text: str, offset: int) -> str:
    """Return the line and column of an offset.

    >>> place_of("a\\nbc", 3)
    'line 2, column 2'
    """
    return f"line {text.count(chr(10), 0, offset) + 1}, column {offset - text.rfind(chr(10), 0, offset)}"


def translated(text: str, dialect: str, schemas: Iterable[TableSchema]) -> Translation:
    """Translate one query.  ``schemas`` are the tables that it may read.

    Raise Refused for an unknown dialect.  Raise SqlError if the text is not one query, or if a part of it means
    something else in Spark's dialect.  The places of the error are those of ``text``.
    """
    if dialect not in DIALECTS:
        raise Refused(f"{dialect!r} is not a dialect", hint=f"Choose one of {', '.join(DIALECTS)}.")
    tree = _parsed(text, dialect)
    kinds = Kinds(tree, schemas, "double" if dialect == "bigquery" else "decimal")
    reasons = Reasons()
    check_meaning(tree, dialect, kinds, reasons)
    for call in reversed(list(tree.find_all(exp.Anonymous))):
        with reasons.part():
            made = translate_call(call, dialect, kinds)
            if made is not call:
                made.meta.update(call.meta)
                call.replace(made)
    reasons.check()
    for number in list(tree.find_all(exp.Literal)):
        if kinds.of(number) == "double":
            number.replace(exp.Cast(this=number.copy(), to=exp.DataType.build("DOUBLE")))
    for node in list(tree.find_all(exp.DataType)):
        node.replace(_spark_type(node, dialect))
    try:
        marked = _Generator(dialect="spark", comments=False, unsupported_level=ErrorLevel.RAISE).generate(tree)
    except UnsupportedError as error:
        raise SqlError(f"a part of the query is not translated: {error}", hint="Write it in Spark's dialect.") from None
    translation = _with_marks(marked, text, dialect)
    _require_whole(tree, translation.text)
    return translation


def _require_whole(tree: exp.Expr, text: str) -> None:
    """Raise SqlError if the text in Spark's dialect lacks a part of the tree: the generator may drop parts silently."""
    try:
        read = QueryText().parse(text)
    except SqlglotError:
        return  # the front end says why
    if len(read) != 1 or read[0] is None or _outline(read[0]) != _outline(tree):
        raise SqlError("a part of the query cannot be written in Spark's dialect", hint="Write it in Spark's dialect.")


_UNLIKE: Final = ("typed", "safe")
"""Arguments in which sqlglot notes the dialect of an operator."""


def _outline(tree: exp.Expr) -> list[tuple[str, tuple[str, ...]]]:
    """Return the class and the arguments of each node.

    A cast is a TRY_CAST in Spark without ANSI mode.  Spark's parser reads a comma in FROM as a CROSS JOIN.
    """
    return [
        (
            type(node).__name__.removeprefix("Try"),
            tuple(
                sorted(
                    key
                    for key, value in node.args.items()
                    if value not in (None, False, [], "CROSS") and key not in _UNLIKE
                )
            ),
        )
        for node in tree.walk()
    ]


def _spark_type(node: exp.DataType, dialect: Foreign) -> exp.DataType:
    name, kind = TYPES[node.this]
    if kind == "whole" and dialect in ("snowflake", "bigquery"):
        name = "BIGINT"  # all their types of whole numbers have at least 64 bits
    if kind == "double" and dialect == "snowflake":
        name = "DOUBLE"
    return exp.DataType.build(name, dialect="spark") if name != "DECIMAL" else node


def _parsed(text: str, dialect: Foreign) -> exp.Query:
    if len(text) > MAX_TEXT:
        raise SqlError(f"the query has {len(text):,} characters, more than {MAX_TEXT:,}", hint="Shorten the query.")
    if _MARK.search(text):
        raise SqlError("the query contains a character for private use", hint="Remove the character.")
    known = sqlglot.Dialect.get_or_raise(dialect)
    try:
        parser = _parser(dialect)(dialect=known)
        statements = [each for each in parser.parse(known.tokenize(text), text) if each is not None]
    except SqlglotError as error:
        raise not_sql(error, text, f"Weft reads one SELECT in the dialect {dialect}.") from None
    except RecursionError:
        raise SqlError("the query is nested too deeply", hint="Split the query into several queries.") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise SqlError(f"this is not one query in the dialect {dialect}", hint="Write one SELECT … FROM …")
    return statements[0]


@cache
def _parser(dialect: Foreign) -> Any:
    """Return a parser that knows the syntax of the dialect, but no functions except casts and EXTRACT."""
    usual: Any = sqlglot.Dialect.get_or_raise(dialect).parser_class
    kept = {name: usual.FUNCTION_PARSERS[name] for name in _CASTS if name in usual.FUNCTION_PARSERS}
    return type("Parser", (usual,), {"FUNCTIONS": {}, "FUNCTION_PARSERS": kept})


class _Generator(SparkGenerator):
    """A generator that marks names with their places in the original, and that leaves QUALIFY as it is."""

    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        kind: rule for kind, rule in SparkGenerator.TRANSFORMS.items() if kind is not exp.Select
    }

    def identifier_sql(self, expression: exp.Identifier) -> str:
        return _mark(expression) + str(super().identifier_sql(expression))

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        return _mark(expression) + str(super().anonymous_sql(expression))


def _mark(node: exp.Expr) -> str:
    start = node.meta.get("start")
    return f"\ue000{start}\ue001" if isinstance(start, int) else ""


def _with_marks(marked: str, original: str, dialect: Foreign) -> Translation:
    parts, marks, done, length = [], [], 0, 0
    for found in _MARK.finditer(marked):
        parts.append(marked[done : found.start()])
        length += len(parts[-1])
        marks.append((length, int(found[1])))
        done = found.end()
    parts.append(marked[done:])
    return Translation("".join(parts), original.strip(), dialect, tuple(marks))
