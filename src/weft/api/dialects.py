"""Take queries in the dialects of other databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from weft.algebra.schema import TableSchema
from weft.errors import Refused


@contextmanager
def in_dialect(
    sql: str,
    dialect: str | None,
    schemas: Callable[[str], Mapping[str, TableSchema]],
    *,
    stored: bool = False,
    language: str = "sql",
) -> Iterator[str]:
    """Yield the text of a query in Spark's dialect.  With ``stored``, the original is a comment in the text.

    ``dialect`` is None for a text in Spark's dialect.  ``schemas`` returns the tables that a text may read.  Errors of
    the ``with`` block name places in ``sql``.  Raise Refused for an unknown dialect, or for a formula.  Raise SqlError
    if a part of the query means something else in Spark's dialect.
    """
    if dialect is None:
        yield sql
        return
    if language != "sql":
        raise Refused(f"--dialect applies to SQL, but the language is {language}", hint="Omit --dialect.")
    from weft.sql.lower.foreign.translate import translated

    translation = translated(sql, dialect, schemas(sql).values())
    with translation.placed(stored=stored):
        yield translation.stored if stored else translation.text
