"""Compute the keys of parts of nested columns (``algebra.parts``) with DuckDB.

DuckDB and Spark read some JSON texts differently, for example objects that contain a name twice.  The key of such a
text is *unsure*: every look-up returns its row, and the branch compares the part itself.

Law: if a key is not unsure, and Spark's value of the part is not NULL, the key is Spark's value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from weft.algebra.parts import Key, Step
from weft.algebra.schema import STRING
from weft.arrangement.hashing import computed
from weft.storage.columns import arrow_type

VALUE: Final = "(value)"
UNSURE: Final = "(unsure)"
"""No column of a table has this name, because Delta allows no parentheses."""


def part_keys(texts: pa.ChunkedArray, key: Key) -> pa.Table:
    """Return the columns ``VALUE``, with the type of the part, and ``UNSURE`` (BOOLEAN) for stored JSON texts.

    An unsure key has the value NULL, and so has a text without the part.
    """
    assert key.part is not None
    path, kind = _path(key.steps), key.part.type
    text = f"json_extract_string(d, {path})"
    checked = computed(pa.table({"t": texts}), "t, CASE WHEN json_valid(t) THEN t END AS d")
    valued = computed(checked, f"t, d, {text if kind == STRING else f'TRY_CAST({text} AS {kind})'} AS v")
    own = "'VARCHAR'" if kind == STRING else "'BIGINT', 'UBIGINT'"
    doubts = (*_doubts(key.steps), _is_other(path, own), f"({text} IS NULL) <> (v IS NULL)")
    unsure = f"t IS NOT NULL AND (d IS NULL OR {' OR '.join(doubts)})"
    found = computed(valued, f"CASE WHEN NOT ({unsure}) THEN v END, {unsure}")
    return found.rename_columns([VALUE, UNSURE]).cast(key_schema(key))


def key_schema(key: Key) -> pa.Schema:
    """Return the schema of ``part_keys``."""
    assert key.part is not None
    return pa.schema([(VALUE, arrow_type(key.part.type)), (UNSURE, pa.bool_())])


def wanted_keys(values: pa.Array | pa.ChunkedArray, key: Key) -> pa.Table:
    """Return the keys in the columns of ``part_keys`` by which the rows with one of the values are looked up.

    The last key is that of the unsure rows.
    """
    schema = key_schema(key)
    sure = pa.table([values.cast(schema.field(VALUE).type), pa.repeat(False, len(values))], schema=schema)
    return pa.concat_tables([sure, pa.table([[None], [True]], schema=schema)])


def _doubts(steps: tuple[Step, ...]) -> Iterator[str]:
    """Yield the conditions that are true if the two engines may follow the steps to different values."""
    for number, step in enumerate(steps):
        path = _path(steps[:number])
        yield _is_other(path, "'ARRAY'" if isinstance(step, int) else "'OBJECT'")
        if isinstance(step, str):
            names = f"json_keys(d, {path})"
            yield f"COALESCE(len({names}) <> len(list_distinct({names})), FALSE)"


def _is_other(path: str, kinds: str) -> str:
    return f"COALESCE(json_type(d, {path}) NOT IN ('NULL', {kinds}), FALSE)"


def _path(steps: tuple[Step, ...]) -> str:
    parts = (f"[{step}]" if isinstance(step, int) else f'."{step}"' for step in steps)
    text = "$" + "".join(parts)
    return "'" + text.replace("'", "''") + "'"
