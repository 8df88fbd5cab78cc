"""Build the parameter table of a plan with the IDs, window starts and constants of several queries (design section 5).

The new rows of a tick often concern few queries. A branch may test whether a column equals a constant of the query. If
the driver's memory holds the tested column, Spark receives only the queries whose constants occur in this column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.scalar import ColumnRef
from weft.algebra.schema import INTEGRAL, DataType, TableSchema
from weft.catalog.records import Parameter
from weft.derivation.access_paths import keys_of
from weft.execution.driver_reader import LocalRows, local_frame
from weft.execution.groups import Crowd, Group
from weft.planning.form import restored_values
from weft.planning.plan import PARAMETERS, Branch
from weft.storage.columns import arrow_type

Tie = tuple[ColumnRef, ColumnRef]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW: Final = 1_000
"""Up to this number of queries, Spark receives all queries of a group, even queries that cannot get a row."""
_JOINED: Final = 1_000_000
"""Greatest number of rows in a join that the driver computes."""
_COMPARED: Final = (*INTEGRAL, "STRING")
"""Arrow and Spark agree about the equality of values of these types."""


def register_parameters(
    spark: SparkSession, group: Group, branches: Sequence[Branch], local: Mapping[str, LocalRows]
) -> None:
    """Register the view with the parameters of a group. ``local`` maps view names to rows in the driver's memory."""
    if len(group.members) == 1:
        return
    table = group.table
    rows = relevant_parameters(parameters(group, table), branches, local)
    local_frame(spark, rows).selectExpr(*typed(table)).createOrReplaceTempView(table.name)


def typed(table: TableSchema) -> list[str]:
    """Return SQL for the columns of a parameter table, from the columns of ``parameters``."""
    return [_typed(column.name, column.type.name) for column in table.columns]


def parameters(group: Group, table: TableSchema) -> pa.Table:
    """Return the parameters of all queries of a group, in the order of the group's members.

    Instants and intervals are sent as numbers, because a conversion between Arrow and Spark could shift or round a
    value.
    """
    if isinstance(group.members, Crowd):
        tau = pa.repeat(pa.scalar(group.members.tau, pa.int64()), len(group.members))
        return group.members.constants.add_column(1, "tau", tau)
    queries = [member.query for member in group.members]
    constants = constant_columns([each.query_id for each in queries], [each.parameters for each in queries], table)
    return constants.add_column(1, "tau", pa.array([member.tau for member in group.members], pa.int64()))


def constant_columns(
    query_ids: Sequence[int], constants: Sequence[Sequence[Parameter]], table: TableSchema
) -> pa.Table:
    """Return the columns query_id, p1, p2 … of a parameter table."""
    columns = {"query_id": pa.array(query_ids, pa.int64())}
    for number, column in enumerate(table.columns[2:]):
        columns[column.name] = pa.array(restored_values(each[number] for each in constants), _sent(column.type))
    return pa.table(columns)


def relevant_parameters(rows: pa.Table, branches: Sequence[Branch], local: Mapping[str, LocalRows]) -> pa.Table:
    """Return the parameters of the queries that may get a row from a branch. The result may contain further queries.

    Law: a branch yields a row for a parameter row only if the parameter row has a match in some view. In a match, each
    key (``keys_of``) of the parameter row equals the corresponding column of the view's row.
    """
    if rows.num_rows <= FEW or not branches:
        return rows
    # Arrow cannot join tables that have list columns. Lists are not compared here.
    plain = rows.select([field.name for field in rows.schema if not pa.types.is_nested(field.type)])
    numbered = plain.append_column("_place", pa.array(range(rows.num_rows), pa.int64()))
    places = []
    for branch in branches:
        met = _met(numbered, branch, local)
        if met is None:
            return rows
        places.append(met)
    return rows.take(pa.concat_arrays(places).unique().sort())


def _met(rows: pa.Table, branch: Branch, local: Mapping[str, LocalRows]) -> pa.Array | None:
    """Return the positions of the parameter rows that match the branch's rows.

    Return None if the branch compares no parameter with a relation in the driver's memory.
    """
    together: list[pa.Table] = []
    for alias, path in branch.paths.items():
        if path.view not in local:
            continue
        tied = _comparable(keys_of(branch.event, PARAMETERS), alias)
        if tied:
            linked = [(own, other) for own, other in keys_of(branch.event, alias) if own.type.name in _COMPARED]
            _add(together, local[path.view], tied, linked, rows.schema)
    if not together:
        return None
    for values in together:
        names = [name for name in values.column_names if name in rows.column_names]
        rows = rows.join(values.select(names), keys=names, join_type="left semi")
    return rows.column("_place").combine_chunks()


def _comparable(ties: Sequence[Tie], alias: str) -> dict[str, ColumnRef]:
    return {own.column: other for own, other in ties if other.scan == alias and other.type.name in _COMPARED}


def _add(
    together: list[pa.Table], there: LocalRows, tied: Mapping[str, ColumnRef], linked: Sequence[Tie], types: pa.Schema
) -> None:
    columns = {name: there.column(ref.column).cast(types.field(name).type) for name, ref in tied.items()}
    columns |= {_label(own): there.column(own.column) for own, _ in linked}
    mine = pa.table(columns)
    for number, table in enumerate(together):
        by_other = {_label(other): _label(own) for own, other in linked if _label(other) in table.column_names}
        ties = {
            own: other for other, own in by_other.items()
        }  # Arrow joins by a column once only; fewer ties keep more rows
        apart = not tied.keys() & set(table.column_names)
        if ties and apart and _pairs(table, mine, ties) <= _JOINED:
            joined = table.join(mine, keys=list(ties.values()), right_keys=list(ties), join_type="inner")
            together[number] = joined
            return
    together.append(mine)


def _label(ref: ColumnRef) -> str:
    return f"{ref.scan}.{ref.column}"


def _pairs(left: pa.Table, right: pa.Table, ties: Mapping[str, str]) -> int:
    there = left.group_by(list(ties.values())).aggregate([([], "count_all")])
    here = right.group_by(list(ties)).aggregate([([], "count_all")])
    met = there.join(here, keys=list(ties.values()), right_keys=list(ties), join_type="inner", right_suffix="_here")
    return int(pc.sum(pc.multiply(met.column("count_all"), met.column("count_all_here"))).as_py() or 0)


def _sent(type: DataType) -> pa.DataType:
    """Return the Arrow type for a constant. Integers, instants and intervals become 64-bit integers."""
    match type.name:
        case "ARRAY":
            return pa.list_(_sent(type.element or type))
        case "DOUBLE" | "FLOAT":
            return pa.float64()
        case "DECIMAL" | "STRING" | "BINARY":
            return arrow_type(type)
        case _:
            return pa.int64()


def _typed(name: str, type_name: str) -> str:
    match type_name:
        case "TIMESTAMP":
            return f"TIMESTAMP_MICROS({name}) AS {name}"
        case "INTERVAL":
            return f"TIMESTAMP_MICROS({name}) - TIMESTAMP_MICROS(0) AS {name}"  # DuckDB multiplies 32-bit numbers only
        case "DATE":
            return f"DATE_FROM_UNIX_DATE(CAST({name} AS INT)) AS {name}"
        case "STRING" | "BIGINT" | "BINARY" | "DECIMAL" | "DOUBLE" | "ARRAY":
            return name
        case _:
            return f"CAST({name} AS {type_name}) AS {name}"
