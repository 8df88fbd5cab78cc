"""Make SQL fail after a number of rows: the rows of a branch, and combinations of tables that no equality connects.

A forgotten join condition makes an engine combine each row of a table with each row of another one.  The engine would
run up to the time limit, and fill the disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from weft.algebra.join_graph import unconnected
from weft.algebra.relation import Plain, Relation, Scan, Source, StateSchema, condition, conjuncts, sources
from weft.algebra.scalar import Literal, Scalar
from weft.algebra.schema import STRING, remembered
from weft.errors import LimitExceeded
from weft.period_sql.notation import Dialect
from weft.planning.words import named
from weft.sql.rendering import render

MOST_PAIRS: Final = 50_000_000
"""The most rows that an engine may make of tables that no equality connects: on Spark, the most rows of a task."""
_ROWS_OF_A_TASK: Final = 2**33 - 1
_PAIRS: Final = "no equality connects "
"""The beginning of the message of ``guarded_pairs``.  The rest is JSON: for each part, its tables and their words."""


class PairsExceeded(LimitExceeded):
    """The SQL of ``guarded_pairs`` made too many rows.  ``guard`` is the message in the SQL."""

    def __init__(self, guard: str, one: str, other: str) -> None:
        super().__init__(
            f"no equality connects {one} to {other}, and the query makes more than {MOST_PAIRS:,} combinations of "
            "their rows",
            hint=(
                "Add an equality between their columns to WHERE or ON, such as a.order_id = b.id. Or restrict one of "
                "them to few rows."
            ),
        )
        self.guard = guard


def guarded(select: str, most: int, message: str, dialect: Dialect) -> str:
    """Make the SELECT fail with the error ``message`` after ``most`` rows, on Spark after as many rows of a task."""
    error = render.literal(Literal(message, STRING))
    return f"SELECT * FROM (\n{select}\n) AS g\n{dialect.guard.format(min(most, _ROWS_OF_A_TASK), error)}"


def guarded_pairs(select: str, read: Sequence[Source], conditions: Iterable[Scalar], dialect: Dialect) -> str:
    """Make the SELECT over the relations ``read`` fail after MOST_PAIRS rows if no equality connects some of them.

    The relations are those of a state, in which tables do not have the names that the query's text gives them.
    """
    message = _message(unconnected(read, conditions), table_words)
    return select if message is None else guarded(select, MOST_PAIRS, message, dialect)


def guarded_block(select: str, block: Relation, dialect: Dialect) -> str:
    """Make the SELECT over a join fail as ``guarded_pairs`` does."""
    message = message_of(block)
    return select if message is None else guarded(select, MOST_PAIRS, message, dialect)


@remembered
def message_of(block: Relation) -> str | None:
    """Return the message of ``guarded_pairs`` for a join, or None if equalities connect its tables."""
    plain = (each.condition for each in conjuncts(condition(block)) if isinstance(each, Plain))
    return _message(unconnected(sources(block), plain), named)


def _message(parts: Sequence[Sequence[Scan]], words: Callable[[Scan], str]) -> str | None:
    tables = [[(_table(scan), words(scan)) for scan in part] for part in parts]
    return _PAIRS + json.dumps(tables) if parts else None


def table_words(scan: Scan) -> str:
    """Return the name of a table without its range variable, or the words for a state."""
    return _table(scan) or named(scan)


def _table(scan: Scan) -> str | None:
    return None if isinstance(scan.table, StateSchema) else scan.table.name


def pairs_exceeded(message: str | None, size: Callable[[str], float | None] = lambda _: None) -> LimitExceeded | None:
    """Return the error for the message of ``guarded_pairs``, or None for another message.

    ``size`` gives the number of rows of a table, if it is known.
    """
    if message is None or not message.startswith(_PAIRS):
        return None
    one, other, *_ = json.loads(message.removeprefix(_PAIRS))
    return PairsExceeded(message, _listed(one, size), _listed(other, size))


def _listed(part: Sequence[tuple[str | None, str]], size: Callable[[str], float | None]) -> str:
    sizes = ((words, None if table is None else size(table)) for table, words in part)
    return " and ".join(words if rows is None else f"{words} with {rows:,} rows" for words, rows in sizes)
