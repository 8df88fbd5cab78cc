"""Append the answers of a query to a Delta table of the user, without Spark and without duplicates.

The table's properties (``weft.…``) identify the query. Each commit has the query's transaction ID. The transaction
version is the last ordinal of the commit. Weft therefore never appends a committed answer again, even if the sender has
no record of the commit. The table's properties also record skipped ordinals. Weft refuses to append a skipped ordinal
later. Without the record of skipped ordinals, a skipped answer would look like an answer that the table's owner
deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from weft.catalog.records import ORDINAL
from weft.errors import Conflict
from weft.failpoint import failpoint
from weft.storage.data_files import read_data_files
from weft.storage.ledger import Answers, ResultRow
from weft.storage.nested import field_names
from weft.storage.table import Fence, Table
from weft.storage.typed_answers import answers_schema, answers_table

_HOME: Final = "weft.home"
_QUERY: Final = "weft.query"
_NAME: Final = "weft.name"
_GAPS: Final = "weft.gaps"
"""The property that lists the skipped ordinals as ranges, such as ``1-2,7-9``."""
_HINT: Final = "Move the table away, or deliver to another path."
_NO_NAME: Final = set(" ,;{}()\n\t=")
"""The characters that Delta forbids in column names."""


def require_fit(answers: Answers) -> None:
    """Raise Conflict if a Delta table does not allow the name of a column or field of the answers."""
    for name, kind in answers.columns:
        if not _NO_NAME.isdisjoint(name):
            raise Conflict(
                f"a Delta table cannot have a column named {name!r}",
                hint="Rename the column in the query, with letters, digits and _: … AS name.",
            )
        fields = () if kind.json is None else field_names(kind.json)
        if (field := next((each for each in fields if not _NO_NAME.isdisjoint(each)), None)) is not None:
            raise Conflict(
                f"a Delta table cannot have a field named {field!r}, but the column {name} has such a field",
                hint=(
                    "Select the fields of the column under other names: … AS name; or select the column as text: "
                    "TO_JSON(…)."
                ),
            )


def table_id(table: Table) -> str | None:
    """Return the ID that Delta gave the table, or None if the table does not exist."""
    return str(table.metadata().id) if table.exists() else None


def require_own(table: Table, answers: Answers) -> None:
    """Raise Conflict if the table belongs to another query or program, or if the columns differ.

    If the table does not exist, do nothing. Raise StorageError if the table's log cannot be read.
    """
    if not table.exists():
        return
    described, there = table.metadata(), _schema(table)
    properties = described.configuration
    if _QUERY not in properties:
        raise Conflict("the path has a Delta table that Weft did not create", where=str(table), hint=_HINT)
    if (properties.get(_HOME), properties[_QUERY]) != (answers.home_id, str(answers.query_id)):
        owner = f"the query {properties.get(_NAME)} of another home"
        if properties.get(_HOME) == answers.home_id:
            owner = f"another query, {properties.get(_NAME)}"
        raise Conflict(f"the table holds the answers of {owner}", where=str(table), hint=_HINT)
    wanted = answers_schema(answers.columns)
    if described.partition_columns or not there.equals(wanted):
        raise Conflict(
            f"the table and the query {answers.name} have different columns: {_differences(wanted, there)}",
            where=str(table),
            hint=_HINT,
        )


def append_answers(table: Table, answers: Answers, rows: Sequence[ResultRow]) -> None:
    """Append the rows that the table lacks, in one commit. Create the table if it does not exist.

    The rows are on disk when the function returns. The errors of ``require_own`` pass through. Raise Conflict if the
    table skipped the ordinal of a row or has another answer with the same ordinal. Two answers can have the same
    ordinal if the home was restored from a copy while the original home continued to send.
    """
    _create_table(table, answers)
    before = table.number(_app_id(answers)) or 0
    known = [row for row in rows if row.ordinal <= before]
    if known:
        _require_not_skipped(table, answers, known)
        _require_same(table, answers, known)
        table.find(_app_id(answers), before)  # forces the commit to disk
    new = [row for row in rows if row.ordinal > before]
    if new:
        _record_gap(table, answers, before, new[0].ordinal)
        table.append(answers_table(answers.columns, new), Fence(_app_id(answers), new[-1].ordinal))
        failpoint("delta.committed")


def _create_table(table: Table, answers: Answers) -> None:
    require_own(table, answers)
    if table.exists():
        return
    require_fit(answers)
    properties = {_HOME: answers.home_id, _QUERY: str(answers.query_id), _NAME: answers.name}
    described = f"Answers of the query {answers.name}, appended by Weft"
    table.ensure(answers_schema(answers.columns), properties, described)
    failpoint("delta.made")


def _gaps(table: Table) -> list[tuple[int, int]]:
    gaps = str(table.metadata().configuration.get(_GAPS) or "")
    pairs = (each.partition("-") for each in gaps.split(",") if each)
    return [(int(first), int(last)) for first, _, last in pairs]


def _record_gap(table: Table, answers: Answers, before: int, first: int) -> None:
    """Record that the table skips the ordinals between ``before`` and ``first``."""
    noted = _gaps(table)
    wanted = [gap for gap in noted if gap[1] <= before]  # drops the gap of an append that died
    if first > before + 1:
        wanted.append((before + 1, first - 1))
    if wanted == noted:
        return
    gaps = ",".join(f"{begin}-{end}" for begin, end in wanted)
    table.set_properties({_GAPS: gaps}, Fence(_app_id(answers), before, repeats=True), "answers were being appended")
    failpoint("delta.noted")


def _require_not_skipped(table: Table, answers: Answers, rows: Sequence[ResultRow]) -> None:
    first, last = rows[0].ordinal, rows[-1].ordinal
    gap = next((each for each in _gaps(table) if each[0] <= last and first <= each[1]), None)
    if gap is not None:
        missing = f"the answers {gap[0]} to {gap[1]}" if gap[0] < gap[1] else f"the answer {gap[0]}"
        raise Conflict(
            f"the table skipped {missing} of the query {answers.name}, and cannot receive skipped answers later",
            where=str(table),
            hint="Deliver to another path: a new table receives all answers.",
        )


def _require_same(table: Table, answers: Answers, rows: Sequence[ResultRow]) -> None:
    """Raise Conflict if the table has another answer for an ordinal in ``rows``. Missing ordinals are accepted."""
    import pyarrow.compute as pc

    first, last = rows[0].ordinal, rows[-1].ordinal
    wanted = answers_table(answers.columns, rows)
    files = [file for file in table.files() if file.may_hold(ORDINAL, first, last)]
    between = (pc.field(ORDINAL) >= first) & (pc.field(ORDINAL) <= last)
    there = read_data_files(files, wanted.schema, between)
    expected = dict(zip(wanted.column(ORDINAL).to_pylist(), _texts(wanted), strict=True))
    for ordinal, stored in zip(there.column(ORDINAL).to_pylist(), _texts(there), strict=True):
        if expected.get(ordinal) != stored:
            raise Conflict(
                f"the answer {ordinal} in the table differs from the answer {ordinal} of the query "
                f"{answers.name}: another copy of this home has written to the table",
                where=str(table),
                hint=_HINT,
            )


def _app_id(answers: Answers) -> str:
    return f"weft-{answers.home_id}-{answers.query_id}"


def _texts(rows: pa.Table) -> list[str]:
    """Return each row as text for comparisons. NaN equals NaN, and all years are supported."""
    plain = [column.cast(_without_instants(column.type)) for column in rows.columns]
    return [repr(each) for each in zip(*(column.to_pylist() for column in plain), strict=True)]


def _without_instants(kind: pa.DataType) -> pa.DataType:
    """Replace instants and dates by integers, at all levels of nesting."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_instants(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _without_instants(kind.item_type))
    return pa.list_(kind.value_field.with_type(_without_instants(kind.value_type))) if pa.types.is_list(kind) else kind


def _differences(wanted: pa.Schema, there: pa.Schema) -> str:
    ours = [f"{field.name} {field.type}" for field in wanted if field not in there]
    theirs = [f"{field.name} {field.type}" for field in there if field not in wanted]
    differences = [f"the table also has {', '.join(theirs)}"] if theirs else []
    differences += [f"the table lacks {', '.join(ours)}"] if ours else []
    return "; ".join(differences) or "the columns are in another order or the table is partitioned"


def _schema(table: Table) -> pa.Schema:
    """Return the schema without field metadata, because users may add comments to columns."""
    return pa.schema([pa.field(field.name, field.type) for field in table.schema()])
