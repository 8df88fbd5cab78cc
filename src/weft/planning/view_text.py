"""Print the views that the SQL of a tick reads, with their definitions over the tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal as OneOf

from weft.algebra.access import Access, DeltaScan, FullScan, KeyScan, Lookup
from weft.algebra.scalar import TICK_END, TICK_START, Literal, Scalar, minus
from weft.algebra.schema import INTERVAL
from weft.sql.rendering import render


@dataclass(frozen=True)
class ViewText:
    """A view in the SQL, with its definition over the tables.

    The last steps of a state have the ``engine`` that runs them.  If ``in_spark`` is not None, DuckDB runs the step
    while the driver's memory holds its inputs, and otherwise Spark runs ``in_spark``.
    """

    name: str
    sql: str
    engine: OneOf["DuckDB", "Spark"] | None = None
    in_spark: str | None = None


def view_texts(
    read: Iterable[Access], columns: Mapping[str, set[str]], states: Collection[str] = (), suffix: str = ""
) -> tuple[ViewText, ...]:
    """Return the views of access paths, in the order of evaluation.

    ``columns`` maps each table to the columns that the SQL reads.  ``suffix`` ends the names of the views.  The views
    of ``states`` and of keys have other definitions (``state_text``).  Without a suffix, a full scan has no view.
    """
    paths: dict[str, dict[Access, None]] = {}
    for path in read:
        while True:
            if not isinstance(path, KeyScan) and (suffix or not isinstance(path, FullScan)):
                paths.setdefault(path.view, {})[path] = None
            if not isinstance(path, Lookup):
                break
            path = path.via
    texts = []
    for view in sorted(paths, key=lambda name: (max(_step(path) for path in paths[name]), name)):
        same = list(paths[view])
        table = same[0].table
        if table in states and not suffix:
            continue
        shown = ", ".join(render.quoted(name) for name in sorted(columns[table]))
        body = view if table in states else f"{render.quoted(table)}{_rows(same, suffix)}"
        texts.append(ViewText(view + suffix, f"SELECT {shown or '1 AS one'}\n  FROM {body}"))
    return tuple(texts)


def _step(path: Access) -> int:
    return path.step if isinstance(path, Lookup) else 0


def _rows(same: Sequence[Access], suffix: str) -> str:
    news = dict.fromkeys(_slice(path) for path in same if isinstance(path, DeltaScan))
    look_ups = [path for path in same if isinstance(path, Lookup)]
    if look_ups:
        null_safe = any(path.null_safe for path in look_ups)
        keys = " UNION ".join(dict.fromkeys(_keys(path, suffix, only=null_safe) for path in look_ups))
        if null_safe:
            own = render.key(look_ups[0].key, look_ups[0].table)
            return f"\n  WHERE EXISTS (SELECT 1 FROM ({keys}) AS _keys(k) WHERE {own} <=> _keys.k)"
        return f"\n  WHERE {render.key(look_ups[0].key)} IN ({keys})"
    return "\n  WHERE " + "\n     OR ".join(news) if news else ""


def _keys(path: Lookup, suffix: str, *, only: bool) -> str:
    """``only`` excludes NULL from the keys of a look-up in which NULL does not equal NULL."""
    column = render.key(path.via_key)
    known = f" WHERE {column} IS NOT NULL" if only and not path.null_safe else ""
    return f"SELECT {column} FROM {render.quoted(path.via.view + suffix)}{known}"


def _slice(path: DeltaScan) -> str:
    column = render.quoted(path.column)
    ends = ((TICK_START, path.shift.micros + path.slack), (TICK_END, path.shift.micros - path.slack))
    low, high = (render.scalar(_back(instant, micros)) for instant, micros in ends)
    return f"({column} >= {low} AND {column} < {high})"


def _back(instant: Scalar, micros: int) -> Scalar:
    milliseconds = micros // 1_000 * 1_000  # NOW > c is NOW >= c + 1 µs; show the remainder separately
    for part in (milliseconds, micros - milliseconds):
        if part:
            instant = minus(instant, Literal(part, INTERVAL))
    return instant
