"""Compute answers with DuckDB in this process, without a Spark job, where it computes each expression as Spark does.

- The branches of a tick over rows in the driver's memory (``small_answers``).
- The first tick of a query (Q^M) over whole tables, and other windows with many new rows (``large_answers``). DuckDB
  reads the tables' files, keeps each row once, and sorts the rows. A commit streams the rows into files. Rows that do
  not fit into DuckDB's memory are on disk.

``planning.state_engine`` decides which expressions are the same. Spark computes the others, repeats
a failed computation, and computes a window with more than ``EngineBounds.steps`` new answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.access import FullScan
from weft.algebra.scalar import ColumnRef
from weft.algebra.schema import DataType
from weft.derivation.stateful import states as states_of
from weft.execution.driver_reader import DriverReader, LocalRows
from weft.execution.engines import choosing
from weft.execution.engines.duckdb import BeyondBounds, DuckdbFailed, duckdb_failures
from weft.execution.executor_files import row_groups
from weft.execution.groups import Crowd, Group
from weft.execution.guarded import MOST_ROWS
from weft.execution.parameters import parameters, relevant_parameters, typed
from weft.execution.reader import Reader
from weft.execution.temp_views import NotSmall, States, TempViews
from weft.execution.whole_tables import WholeTables
from weft.planning.alike_branches import PAIRS, WithPairs, alike_selects
from weft.planning.plan import PARAMETER_TABLE, Branch, columns_read, encoded_in_duckdb, hash_in_duckdb
from weft.planning.state_causes import all_states
from weft.planning.state_engine import branch_same_in_duckdb, constants_same_in_duckdb, same_in_duckdb
from weft.sql.rendering.render import quoted
from weft.storage.columns import conformed
from weft.storage.data_files import FileForm, NewFile
from weft.storage.ledger import Added, ledger_schema
from weft.storage.temporal_sql import TemporalSql, temporal_sql

Work: TypeAlias = Sequence[tuple[Group, Sequence[Branch]]]

_ROWS_OF_A_FILE: Final = 1_000_000
_SELECTS: Final = 100
"""The most SELECTs of a statement over rows in memory."""
_ANSWERS, _KNOWN = "new answers", "known answers"  # names with a space, because no table of a home has one


@dataclass(frozen=True)
class LargeAnswers:
    """New answers of queries in a table of DuckDB: query after query, in the order of their ordinals.

    The ordinal of a row is its place minus the number to which ``begins`` maps its query. The queries of ``omitted``
    are left out.
    """

    sql: TemporalSql
    added: Mapping[int, Added]
    first: Mapping[int, int]
    begins: Mapping[int, int]
    omitted: frozenset[int] = frozenset()

    def without(self, queries: Collection[int]) -> LargeAnswers:
        """Return the answers of all queries except ``queries``."""
        return replace(self, omitted=self.omitted.union(queries))

    def written(self, form: FileForm, tick_id: int) -> list[NewFile]:
        """Write the answers into files of about a million rows. Raise DuckdbFailed if DuckDB fails."""
        pieces = row_groups(self._batches(tick_id))
        with duckdb_failures():
            return [form.write(_of_one_file(first, pieces)) for first in pieces]

    def first_rows(self, keys: Sequence[str], limit: int | None) -> pa.Table:
        """Return the columns first_at and row of the first ``limit`` answers of the only query.

        The answers are sorted by ``keys`` (``ordering.duckdb_keys``), then by their ordinals.
        """
        cut = "" if limit is None else f" LIMIT {limit}"
        order = ", ".join([*keys, "rowid"])
        return self.sql.rows(f"SELECT first_at, row FROM {quoted(_ANSWERS)} ORDER BY {order}{cut}")

    def by_interval(self, begin: int, length: int) -> dict[int, int]:
        """Count the answers by interval. Interval 0 begins at ``begin``. Both arguments are microseconds."""
        part = f"(epoch_us(first_at) - {begin}) // {length}"
        counted = self.sql.rows(f"SELECT {part} AS part, count(*) AS n FROM {quoted(_ANSWERS)} GROUP BY part")
        return dict(zip(*(counted.column(name).to_pylist() for name in ("part", "n")), strict=True))

    def _batches(self, tick_id: int) -> Iterator[pa.RecordBatch]:
        kept = sorted(self.begins.keys() - self.omitted)
        queries = pa.array(kept, pa.int64())
        before = pa.array([self.begins[each] for each in kept], pa.int64())
        schema = ledger_schema()
        for batch in self.sql.batches(f"SELECT *, rowid AS place FROM {quoted(_ANSWERS)}"):
            rows = batch.filter(pc.is_in(batch.column("query_id"), value_set=queries))
            begins = before.take(pc.index_in(rows.column("query_id"), value_set=queries))
            given = {name: rows.column(name) for name in rows.schema.names}
            given["ordinal"] = pc.subtract(rows.column("place"), begins)
            given["tick"] = pa.repeat(pa.scalar(tick_id, pa.int64()), rows.num_rows)
            columns = [given[field.name].cast(field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _of_one_file(first: pa.Table, pieces: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    rows = first.num_rows
    while rows < _ROWS_OF_A_FILE and (piece := next(pieces, None)) is not None:
        rows += piece.num_rows
        yield piece


def goes_to_duckdb(reader: DriverReader, group: Group) -> bool:
    """Return whether DuckDB should read the whole tables of the group, if its rows are not in the driver's memory."""
    if isinstance(group.members, Crowd):
        return False
    branches = group.branches()
    names = {path.table for branch in branches for path in branch.paths.values()}
    below = [state for branch in branches for state in all_states(branch.event.relation)]
    if not reader.fits_duckdb(*(name for name in names if name in reader.tables)):
        return False
    return is_same(group, branches) and all(map(same_in_duckdb, below))


def large_answers(reader: Reader, groups: Sequence[Group], known: pa.Table, states: States) -> LargeAnswers | None:
    """Compute new answers over whole tables and states. The tables of DuckDB exist until the reader is released.

    ``known`` has the query IDs and hashes of all answers that the queries already have. ``states`` raises NotSmall if
    Spark must compute a state. Return None in this case, if DuckDB fails, or if there are more than
    ``EngineBounds.steps`` new answers. Spark then repeats the computation.
    """
    try:
        with duckdb_failures(), reader.whole_tables() as whole:
            sql = whole.sql
            sql.table(_ANSWERS, _EMPTY)
            sql.given(_KNOWN, known)
            _read_whole(reader, whole, groups, states)
            left = choosing.BOUNDS.steps
            for number, group in enumerate(groups):
                left -= _add(sql, number, group, left)
            text = (
                "SELECT query_id, count(*) AS n, min(first_at) AS first, max(first_at) AS last, min(rowid) AS begins "
                f"FROM {quoted(_ANSWERS)} GROUP BY query_id"
            )
            counted = sql.rows(text)
    except (DuckdbFailed, NotSmall):
        return None
    first, last = (counted.column(name).cast(pa.int64()).to_pylist() for name in ("first", "last"))
    ids, numbers, begins = (counted.column(name).to_pylist() for name in ("query_id", "n", "begins"))
    added = {key: Added(number, at) for key, number, at in zip(ids, numbers, last, strict=True)}
    before = {member.query.query_id: member.query.rows for group in groups for member in group.members}
    places = {key: begin - 1 - before[key] for key, begin in zip(ids, begins, strict=True)}
    return LargeAnswers(sql, added, dict(zip(ids, first, strict=True)), places)


_EMPTY: Final = (
    "SELECT 0::BIGINT AS query_id, TIMESTAMP '1970-01-01' AS first_at, ''::BLOB AS row_hash, ['']::VARCHAR[] AS row "
    "LIMIT 0"
)


def _read_whole(reader: Reader, whole: WholeTables, groups: Sequence[Group], states: States) -> None:
    """Make views of the whole tables and of all rows of the states that the groups read."""
    branches = [branch for group in groups for branch in group.branches()]
    columns = columns_read(branches)
    for state in {each for branch in branches for each in states_of(branch.event.relation)}:
        rows = states.read(state, [FullScan(state.name)], {})
        if not isinstance(rows, LocalRows):
            raise NotSmall
        whole.given(f"all {state.name}", rows.data)
    for view, name in {path.view: path.table for branch in branches for path in branch.paths.values()}.items():
        if name in reader.tables:
            whole.view(view, reader.stored(name), reader.files(name), columns[name])
        elif not name.startswith(PARAMETER_TABLE):
            whole.sql.view(view, f"SELECT * FROM {quoted(f'all {name}')}")


def _add(sql: TemporalSql, number: int, group: Group, most: int) -> int:
    """Add the new answers of a group, and return their number. Raise BeyondBounds if there are more than ``most``."""
    branches = group.branches()
    if len(group.members) > 1:
        _give_parameters(sql, group, number, parameters(group, group.table))
    if not branches:
        return 0
    types, query_id = _types(branches), _only_query(group)
    order = ", ".join(["query_id", "first_at", *(f"{ref.column} NULLS FIRST" for ref in _values(types))])
    answers = _answers(types, [_selected(branch, query_id) for branch in branches])
    same = "k.query_id = b.query_id AND k.row_hash = b.row_hash"
    new = f"SELECT b.* FROM ({answers}) AS b ANTI JOIN {quoted(_KNOWN)} AS k ON {same}"
    new = f"SELECT query_id, first_at, row_hash, row FROM ({new} LIMIT {most + 1}) AS new ORDER BY {order}"
    added = sql.insert(_ANSWERS, new)
    if added > most:
        raise BeyondBounds(f"the queries have more than {choosing.BOUNDS.steps:,} new answers")
    return added


def small_answers(work: Work, views: TempViews) -> pa.Table | None:
    """Compute the branches over rows in the driver's memory. The same row of a query may occur several times.

    Return None if DuckDB may differ from Spark, if it cannot compute the rows, or if they are too many for the driver.
    """
    work = [(group, branches) for group, branches in work if branches]
    if not all(is_same(group, branches) for group, branches in work):
        return None
    schema = ledger_schema("query_id", "first_at", "row_hash", "row")
    if not work:
        return schema.empty_table()
    try:
        with duckdb_failures(), temporal_sql(1) as sql:
            for view, rows in views.local.items():
                sql.given(f"rows of {view}", rows.table(views.columns))
                # DuckDB counts the rows of tables only, and would join others by any condition.
                sql.table(view, f"SELECT * FROM {quoted(f'rows of {view}')}")
            for number, (group, branches) in enumerate(work):
                if len(group.members) > 1:
                    given = relevant_parameters(parameters(group, group.table), branches, views.local)
                    _give_parameters(sql, group, number, given)
            found = pa.concat_tables(map(sql.rows, _statements(work, views)))
    except DuckdbFailed:
        return None
    many = (pc.sum(found.column("copies")).as_py() or 0) > MOST_ROWS
    return None if many else conformed(found.drop_columns(["copies"]), schema)


def _statements(work: Work, views: TempViews) -> Iterator[str]:
    """Yield statements for the groups: the answers of each have the same types, and it has few SELECTs and pairs.

    DuckDB plans the encoding of the answers once for each statement. It plans many SELECTs in more than linear time.
    """
    rows = {view: each.data.num_rows for view, each in views.local.items()}
    of_types: dict[tuple[DataType, ...], tuple[list[tuple[Branch, int]], list[str]]] = {}
    for group, branches in work:
        alone, several = of_types.setdefault(_types(branches), ([], []))
        query_id = _only_query(group)
        if query_id is None:
            several += (_selected(branch, None) for branch in branches)
        else:
            alone += ((branch, query_id) for branch in branches)
    for types, (alone, several) in of_types.items():
        selects, others = alike_selects(alone, rows)
        selects += [(text, 0) for text in (*(_selected(*each) for each in others), *several)]
        for some in _divided(selects):
            yield _answers(types, some, most=MOST_ROWS)


def _divided(selects: Sequence[WithPairs]) -> Iterator[list[str]]:
    """Divide SELECTs into those of each statement.

    >>> list(_divided([("a", PAIRS), ("b", PAIRS - 1), ("c", 1), ("d", 0), ("e", 1)]))
    [['a'], ['b', 'c', 'd'], ['e']]
    """
    some, held = list[str](), 0
    for text, pairs in selects:
        if some and (len(some) == _SELECTS or held + pairs > PAIRS):
            yield some
            some, held = [], 0
        some.append(text)
        held += pairs
    yield some


def is_same(group: Group, branches: Sequence[Branch]) -> bool:
    """Return whether DuckDB computes the branches of the group as Spark does."""
    if len(group.members) > 1 and not constants_same_in_duckdb(group.table):
        return False
    return all(map(branch_same_in_duckdb, branches))


def _give_parameters(sql: TemporalSql, group: Group, number: int, rows: pa.Table) -> None:
    sql.given(f"constants {number}", rows)
    sql.view(group.table.name, f"SELECT {', '.join(typed(group.table))} FROM {quoted(f'constants {number}')}")


def _types(branches: Sequence[Branch]) -> tuple[DataType, ...]:
    return tuple(output.value.type for output in branches[0].outputs if output.name != "_query_id")


def _values(types: Sequence[DataType]) -> list[ColumnRef]:
    return [ColumnRef("b", f"v{place}", type_) for place, type_ in enumerate(types)]


def _answers(types: Sequence[DataType], selects: Sequence[str], most: int | None = None) -> str:
    """Return SQL for the rows of SELECTs in the ledger's general form, each row once, with its earliest instant.

    The SELECTs return the ID of a query, values of the given types, and an instant. If ``most`` is given, DuckDB stops
    after that number of rows and one more, and the column ``copies`` counts them.
    """
    values, parts = _values(types), " UNION ALL ".join(selects)
    known = ", ".join(["query_id", *(ref.column for ref in values)])
    measures, counted = "MIN(first_at) AS first_at", ""
    if most is not None:
        parts = f"SELECT * FROM ({parts}) AS p LIMIT {most + 1}"
        measures, counted = f"{measures}, COUNT(*) AS copies", ", copies"
    once = f"SELECT {known}, {measures} FROM ({parts}) AS u({known}, first_at) GROUP BY {known}"
    texts = list(map(encoded_in_duckdb, values))
    row = f"{hash_in_duckdb(texts, types)} AS row_hash, [{', '.join(texts)}]::VARCHAR[] AS row"
    typed_values = "" if most is not None else "".join(f", {ref.column}" for ref in values)
    return f"SELECT query_id, first_at, {row}{counted}{typed_values} FROM ({once}) AS b"


def _only_query(group: Group) -> int | None:
    return group.members[0].query.query_id if len(group.members) == 1 else None


def _selected(branch: Branch, query_id: int | None) -> str:
    key = "b._query_id" if query_id is None else f"CAST({query_id} AS BIGINT)"
    names = [f"b.{quoted(output.name)}" for output in branch.outputs if output.name != "_query_id"]
    return f"SELECT {', '.join([key, *names, 'b._first_at'])} FROM ({branch.sql}) AS b"
