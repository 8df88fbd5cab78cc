"""Delta tables of a user's own, each with the answers of one query, appended without Spark, each once.

The table says whose answers it has (its properties ``weft.…``), and its log how far they go: each commit carries the
query's transaction, whose version is the last ordinal.  So what was committed before is never appended again, whatever
its sender remembers.  Ordinals below it that were never given to the table are noted in its properties, too: they
cannot be told from rows that its owner has deleted, so that they are refused when they are sent later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from weft.catalog.records import ORDINAL
from weft.errors import Conflict, StorageError
from weft.failpoint import failpoint
from weft.location import Location
from weft.storage.commit import PROPERTIES, append_rows, first_line, schema_of
from weft.storage.data_files import read_data_files
from weft.storage.delta_log import (
    DataFile,
    delta_errors,
    delta_snapshot,
    has_commits,
    open_table,
    transaction_version,
)
from weft.storage.fence import find_version, make_durable
from weft.storage.ledger import Answers, ResultRow
from weft.storage.nested import field_names
from weft.storage.typed_answers import answers_schema, answers_table

_HOME: Final = "weft.home"
_QUERY: Final = "weft.query"
_NAME: Final = "weft.name"
_GAPS: Final = "weft.gaps"
"""First and last ordinals that the table was never given: ``1-2,7-9``."""
_HINT: Final = "Move the table away, or deliver to another path."
_NO_NAME: Final = set(" ,;{}()\n\t=")
"""What no column of a Delta table has in its name."""


def require_fit(answers: Answers) -> None:
    """Raises Conflict where no Delta table can have such columns."""
    for name, kind in answers.columns:
        if not _NO_NAME.isdisjoint(name):
            raise Conflict(
                f"no column of a Delta table can be named {name!r}",
                hint="Give it a name of letters, digits and _ in the query: … AS name.",
            )
        fields = () if kind.shape is None else field_names(kind.shape)
        if (found := next((each for each in fields if not _NO_NAME.isdisjoint(each)), None)) is not None:
            raise Conflict(
                f"no field of a Delta table can be named {found!r}, as one of the column {name} is",
                hint="Select its parts under other names: … AS name; or its text: TO_JSON(…).",
            )


def table_id(table: Location) -> str | None:
    """What tells the Delta table from any other that is ever made there; None where there is none."""
    return str(_metadata(table).id) if has_commits(table) else None


def require_own(table: Location, answers: Answers) -> None:
    """Raises Conflict where there is a table that is not of these answers, or has other columns; StorageError."""
    if not has_commits(table):
        return
    described, there = _metadata(table), _schema(table)
    told = described.configuration
    if _QUERY not in told:
        raise Conflict("another Delta table is there, which Weft did not make", where=str(table), hint=_HINT)
    if (told.get(_HOME), told[_QUERY]) != (answers.home_id, str(answers.query_id)):
        other = "of another home" if told.get(_HOME) != answers.home_id else "another one by now"
        raise Conflict(
            f"the table has the answers of the query {told.get(_NAME)}, {other}", where=str(table), hint=_HINT
        )
    wanted = answers_schema(answers.columns)
    if described.partition_columns or not there.equals(wanted):
        raise Conflict(
            f"the table has other columns than the query {answers.name}: {_differences(wanted, there)}",
            where=str(table),
            hint=_HINT,
        )


def append_answers(table: Location, answers: Answers, rows: Sequence[ResultRow]) -> None:
    """Appends the rows that are not in the table yet, in one commit, and makes the table where there is none.

    When it returns they are on the disk.  Raises as ``require_own``, and Conflict where the table has other answers
    under their ordinals, as one has that is ahead of a home that was restored from a copy, or went on without some of
    the rows.
    """
    _require_made(table, answers)
    before = transaction_version(table, _app_id(answers)) or 0
    known = [row for row in rows if row.ordinal <= before]
    if known:
        _require_given(table, answers, known)
        _require_same(table, answers, known)
        version = find_version(table, _app_id(answers), before)
    new = [row for row in rows if row.ordinal > before]
    if new:
        _note_gap(table, before, new[0].ordinal)
        version = append_rows(table, answers_table(answers.columns, new), _app_id(answers), new[-1].ordinal)
        failpoint("delta.committed")
    if version is not None:
        make_durable(table, version)


def _require_made(table: Location, answers: Answers) -> None:
    require_own(table, answers)
    if has_commits(table):
        return
    require_fit(answers)
    from deltalake import DeltaTable

    try:
        DeltaTable.create(
            table.uri,
            answers_schema(answers.columns),
            description=f"Answers of the query {answers.name}, appended by Weft",
            configuration={
                **PROPERTIES,
                _HOME: answers.home_id,
                _QUERY: str(answers.query_id),
                _NAME: answers.name,
            },
            raise_if_key_not_exists=False,  # the properties are Weft's own
        )
    except delta_errors() as error:
        raise StorageError(f"the table could not be made: {first_line(error)}", where=str(table)) from error
    failpoint("delta.made")
    make_durable(table, 0)


def _gaps(table: Location) -> list[tuple[int, int]]:
    told = str(_metadata(table).configuration.get(_GAPS) or "")
    pairs = (each.partition("-") for each in told.split(",") if each)
    return [(int(first), int(last)) for first, _, last in pairs]


def _note_gap(table: Location, before: int, first: int) -> None:
    """Notes that the table goes on with the ordinal ``first`` after ``before``, where some lie between."""
    noted = _gaps(table)
    wanted = [gap for gap in noted if gap[1] <= before]  # another was noted by an append that did not come to its end
    if first > before + 1:
        wanted.append((before + 1, first - 1))
    if wanted == noted:
        return
    opened = open_table(table)
    told = ",".join(f"{begin}-{end}" for begin, end in wanted)
    try:
        opened.alter.set_table_properties({_GAPS: told}, raise_if_not_exists=False)
    except delta_errors() as error:
        raise StorageError(f"the table could not be changed: {first_line(error)}", where=str(table)) from error
    failpoint("delta.noted")
    make_durable(table, opened.version())


def _require_given(table: Location, answers: Answers, rows: Sequence[ResultRow]) -> None:
    """Raises Conflict where the table went on without some of these rows."""
    first, last = rows[0].ordinal, rows[-1].ordinal
    gap = next((each for each in _gaps(table) if each[0] <= last and first <= each[1]), None)
    if gap is not None:
        missing = f"the answers {gap[0]} to {gap[1]}" if gap[0] < gap[1] else f"the answer {gap[0]}"
        raise Conflict(
            f"the table has gone on without {missing} of the query {answers.name}, and cannot take them any more",
            where=str(table),
            hint="Deliver to another path; a new table takes them all.",
        )


def _require_same(table: Location, answers: Answers, rows: Sequence[ResultRow]) -> None:
    """Raises Conflict where the table has other answers under the rows' ordinals; some may be gone by its owner."""
    import pyarrow.compute as pc

    first, last = rows[0].ordinal, rows[-1].ordinal
    wanted = answers_table(answers.columns, rows)
    files = [file for file in delta_snapshot(table, check_files=False).files if _may_hold(file, first, last)]
    between = (pc.field(ORDINAL) >= first) & (pc.field(ORDINAL) <= last)
    there = read_data_files(files, wanted.schema, between)
    expected = dict(zip(wanted.column(ORDINAL).to_pylist(), _texts(wanted), strict=True))
    for ordinal, found in zip(there.column(ORDINAL).to_pylist(), _texts(there), strict=True):
        if expected.get(ordinal) != found:
            raise Conflict(
                f"the table has another answer under the ordinal {ordinal} than the query {answers.name}: "
                "it was written by a home that has gone on from here",
                where=str(table),
                hint=_HINT,
            )


def _app_id(answers: Answers) -> str:
    """The application under which Delta counts the ordinals that a table has."""
    return f"weft-{answers.home_id}-{answers.query_id}"


def _may_hold(file: DataFile, first: int, last: int) -> bool:
    return bool(file.greatest.get(ORDINAL, last) >= first and file.least.get(ORDINAL, first) <= last)


def _texts(rows: pa.Table) -> list[str]:
    """Each row as text: two NaN are the same, and an instant may lie beyond Python's years."""
    plain = [column.cast(_counted(column.type)) for column in rows.columns]
    return [repr(each) for each in zip(*(column.to_pylist() for column in plain), strict=True)]


def _counted(kind: pa.DataType) -> pa.DataType:
    """The type with numbers for instants and days, those within nested values too."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_counted(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _counted(kind.item_type))
    return pa.list_(kind.value_field.with_type(_counted(kind.value_type))) if pa.types.is_list(kind) else kind


def _differences(wanted: pa.Schema, there: pa.Schema) -> str:
    """The columns that only one of them has, or both in other types."""
    ours = [f"{field.name} {field.type}" for field in wanted if field not in there]
    theirs = [f"{field.name} {field.type}" for field in there if field not in wanted]
    told = [f"it has {', '.join(theirs)}"] if theirs else []
    told += [f"it lacks {', '.join(ours)}"] if ours else []
    return "; ".join(told) or "they are in another order or partitioned"


def _metadata(table: Location) -> Any:
    try:
        return open_table(table).metadata()
    except delta_errors() as error:
        raise StorageError(f"the table cannot be read: {first_line(error)}", where=str(table)) from error


def _schema(table: Location) -> pa.Schema:
    """Its columns, whatever else the table says of them (a user may have given them comments)."""
    return pa.schema([pa.field(field.name, field.type) for field in schema_of(open_table(table))])
