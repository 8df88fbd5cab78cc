"""Check the column names of a file, and match its columns to the columns of the table."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weft.algebra.schema import DataType, TableSchema
from weft.catalog.records import BY
from weft.errors import Refused
from weft.execution.append_rows import OWN_TIME, SEQ

TS: Final = "ts"
MAX_COLUMNS: Final = 2_000
_RESERVED: Final = frozenset({OWN_TIME, SEQ, "_ordinal", "_first_at", "_tick"})
_NAME: Final = re.compile(r"[^\W\d][^\s\x00-\x1f,;{}()=\\/`\"']{0,127}")


@dataclass(frozen=True)
class FileColumns:
    """The columns of a file compared with the columns of the table.

    - ``stored`` are the columns of the file that the load stores.
    - ``added`` are those stored columns that are not in the table.
    - ``absent`` are the columns of the table that are not in the file. An absent column is NULL in every row.
    - ``own_time`` is the name of the column with the event times, as spelled in the file, or None.
    - ``extended`` are nested columns with new types, which also include the fields of the file.
    """

    stored: tuple[tuple[str, DataType], ...]
    added: tuple[tuple[str, DataType], ...]
    absent: tuple[tuple[str, DataType], ...]
    own_time: str | None
    extended: tuple[tuple[str, DataType], ...] = ()


def may_name_column(name: str) -> bool:
    """Return whether a column may have the name. Names that start with ``_`` are reserved for Weft."""
    return _NAME.fullmatch(name) is not None and not name.startswith("_")


def check_names(names: Sequence[str], where: str) -> None:
    """Raise Refused if one of the names is invalid, or if two names differ only in case."""
    seen: dict[str, tuple[int, str]] = {}
    for number, name in enumerate(names, 1):
        if not may_name_column(name) or name.lower() in _RESERVED:
            proposal = re.sub(r"\W+", "_", name).strip("_") or "column"
            raise Refused(
                f"{name!r} is not a valid column name",
                hint=f"Rename the column, for example to {proposal!r}.",
                where=where,
            )
        if name.lower() in seen:
            first, other = seen[name.lower()]
            raise Refused(
                f"columns {first} and {number} have the same name: {other!r} and {name!r}",
                hint="Rename one of the two columns: the comparison of column names ignores case.",
                where=where,
            )
        seen[name.lower()] = (number, name)
    if len(names) > MAX_COLUMNS:
        raise Refused(
            f"more than {MAX_COLUMNS} columns",
            hint="Combine some columns into nested values: Weft stores a nested value as one column of JSON text.",
            where=where,
        )
    if not names:
        raise Refused(
            "the file has no columns", hint="Check the file: none of its lines is a valid record.", where=where
        )


def chosen_of(
    available: Sequence[tuple[str, DataType]], chosen: Sequence[tuple[str, DataType | None]], where: str
) -> list[tuple[str, DataType]]:
    """Return the chosen columns in the order of ``chosen``. A type in ``chosen`` replaces the type of its column.

    Raise Refused if a chosen column is not available.
    """
    by_name = {name.lower(): (name, kind) for name, kind in available}
    columns = []
    for name, kind in chosen:
        if name.lower() not in by_name:
            hint = f"The columns are: {', '.join(each for each, _ in available)}."
            raise Refused(f"there is no column {name!r}", hint=hint, where=where)
        own, inferred = by_name[name.lower()]
        columns.append((own, kind or inferred))
    return columns


def typed(
    columns: Sequence[tuple[str, DataType]],
    types: Sequence[tuple[str, DataType]],
    schema: TableSchema | None,
    where: str,
) -> list[tuple[str, DataType]]:
    """Return the columns of the file. A type in ``types`` replaces the type of its column.

    Raise Refused if a column in ``types`` is missing in the file, or has another type in the table.
    """
    chosen_of(columns, types, where)  # raises Refused for a missing column
    wanted = {name.lower(): kind for name, kind in types}
    for name, kind in wanted.items():
        column = None if schema is None else schema.column(name)
        if column is not None and column.type.declared != kind.declared:
            raise Refused(
                f"{column.name} is {kind.declared} in --types, but {column.type.declared} in the table",
                hint="A column has the type of its first load. Omit the column in --types, or choose another table.",
                where=where,
            )
    return [(name, wanted.get(name.lower(), kind)) for name, kind in columns]


def match_columns(
    columns: Sequence[tuple[str, DataType]],
    schema: TableSchema | None,
    ts_from: str | None,
    evolve: bool,
    where: str,
    form: str | None = None,
) -> FileColumns:
    """Match the columns of the file to the columns of the table. If ``schema`` is None, the load creates the table.

    A file may have the reserved column ``ts`` only if ``ts_from`` names it. No file may have the column ``_by``, which
    records the author of an appended row. Raise Refused for missing and additional columns, unless ``evolve`` is True.
    Raise Refused if the ``ts_from`` column has no instant type and ``form`` gives no format.
    """
    own_time = _own_time(columns, ts_from, where, form)
    stored = [(name, kind) for name, kind in columns if name.lower() != TS]
    if schema is None:
        return FileColumns(tuple(stored), (), (), own_time)
    in_file = {name.lower() for name, _ in stored}
    known = [(column.name, column.type) for column in schema.columns if column.name != schema.start]
    types = {name.lower(): (name, kind) for name, kind in known}
    added = tuple((name, kind) for name, kind in stored if name.lower() not in types)
    absent = tuple((name, kind) for name, kind in known if name.lower() not in in_file)
    missed = [name for name, _ in absent if name != BY]
    if (added or missed) and not evolve:
        _refuse_others(schema.name, [name for name, _ in added], missed, where)
    matched = tuple(types.get(name.lower(), (name, kind)) for name, kind in stored)
    extended = _extended(stored, matched) if evolve else ()
    return FileColumns(matched, added, absent, own_time, extended)


def _extended(
    stored: Sequence[tuple[str, DataType]], matched: Sequence[tuple[str, DataType]]
) -> tuple[tuple[str, DataType], ...]:
    extended = []
    for (_, kind), (name, own) in zip(stored, matched, strict=True):
        if kind.shape is not None and own.shape is not None and (all_of := own.shape.extended(kind.shape)) != own.shape:
            extended.append((name, DataType.of_json(all_of)))
    return tuple(extended)


def _own_time(columns: Sequence[tuple[str, DataType]], ts_from: str | None, where: str, form: str | None) -> str | None:
    names = [name for name, _ in columns]
    has_ts = next((name for name in names if name.lower() == TS), None)
    if ts_from is None:
        if has_ts is not None:
            raise Refused(
                "the column name ts is reserved for the instant at which a row begins",
                hint=(
                    "If the file's ts is that instant, load the file with --ts-from ts. Otherwise rename the "
                    "column: --rename ts=changed_at. For a source, you can also omit ts: list the other columns "
                    "with --columns."
                ),
                where=where,
            )
        return None
    named = next((pair for pair in columns if pair[0].lower() == ts_from.lower()), None)
    if named is None:
        near = difflib.get_close_matches(ts_from, names, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"The columns are: {', '.join(names)}."
        raise Refused(f"the file has no column {ts_from!r} from which ts could be taken", hint=hint, where=where)
    if has_ts is not None and named[0] != has_ts:
        raise Refused(
            "the file has a column ts, but --ts-from names another column",
            hint="Rename the column ts: --rename ts=changed_at.",
            where=where,
        )
    if form is None and named[1].name not in ("TIMESTAMP", "DATE"):
        raise Refused(
            f"{named[0]!r} is {named[1]}, not an instant",
            hint=(
                "Write instants in ISO 8601, or as numbers since 1970 in one unit, from 1973 on. For other "
                "formats use --ts-format: s, ms, us, ns, or a format such as '%d.%m.%Y %H:%M'."
            ),
            where=where,
        )
    return named[0]


def _refuse_others(table: str, added: list[str], absent: list[str], where: str) -> None:
    parts = []
    if absent:
        parts.append(f"lacks {', '.join(absent)}")
    if added:
        parts.append(f"also has {', '.join(added)}")
    raise Refused(
        f"the file's columns do not match the table {table}: the file {' and '.join(parts)}",
        hint="Add --evolve, which adds new columns to the table and reads missing columns as NULL.",
        where=where,
    )
