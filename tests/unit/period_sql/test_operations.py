"""Each operation over periods and over time points gives at each instant what plain Python says of that instant."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, get_args

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from every_period import (
    FAR,
    LAST,
    RELATIONS,
    ROWS,
    AtInstants,
    Key,
    Row,
    aggregates,
    at_each_instant,
    closed,
    counted,
    disjoint,
    less,
    narrowed,
    once,
    plain,
    prolonged,
)
from oracle.spark_engine import spark_engine
from weft.algebra import relation as relational
from weft.algebra.relation import AggregateFunction
from weft.algebra.scalar import ColumnRef
from weft.algebra.schema import DataType
from weft.errors import ExecutionError
from weft.period_sql.groups import Grouping, Measure, measure_of
from weft.period_sql.notation import DUCKDB, POINTS, SPARK, VALID_TIME, Axis, Dialect, listed
from weft.period_sql.sweep import Sweep
from weft.sql.dialects.duckdb_dialect import local_text
from weft.sql.functions import aggregate_type
from weft.storage.temporal_sql import TemporalSql, temporal_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AXES: Final = {"periods": VALID_TIME, "time points": POINTS}
EXAMPLES: Final = 8
"""Pairs of cases. `make test-long` tries 15 times as many."""
DIALECTS: Final = {
    "DuckDB": DUCKDB,
    "DuckDB with Spark's windows": replace(DUCKDB, in_sequence=False, materialized=False),
}
COLUMNS: Final = {
    "whole": DataType("BIGINT"),
    "real": DataType("DOUBLE"),
    "exact": DataType("DECIMAL", 38, 2),
    "text": DataType("STRING"),
    "flag": DataType("BOOLEAN"),
}
EXACT: Final = ("count", "count whole", "sum whole", "avg whole", "sum exact", "count real")
FROM_SCRATCH: Final = (
    "count",
    "min whole",
    "max real",
    "median whole",
    "sum real",
    "avg real",
    "sum whole",
    "min exact",
)
OTHERS: Final = (
    *("count distinct whole", "count distinct text", "sum distinct whole", "avg distinct whole", "sum distinct real"),
    *("min_by text whole", "max_by text whole", "min_by flag text", "max_by whole real", "min flag", "max flag"),
    *("stddev_samp real", "stddev_pop whole", "var_samp exact", "var_pop distinct real", "median distinct whole"),
    *("array_agg text", "collect_set text", "array_agg whole", "collect_set flag", "collect_set exact"),
)
RULES: Final = (
    *("coalesced", "once", "summed", "extended", "subtracted", "subtracted counts", "added up", "greatest"),
    *("running totals of groups", "running totals of everything", "groups from scratch", "everything from scratch"),
    *("other measures of groups", "other measures of everything"),
    *("groups of single instants", "everything at single instants"),
)


@dataclass(frozen=True)
class Case:
    """Two relations, the number of columns that are keys, and the numbers of an extension."""

    left: tuple[Row, ...]
    right: tuple[Row, ...]
    width: int
    by: int
    last: int


def cases(rows: st.SearchStrategy[list[Row]], widths: Sequence[int]) -> st.SearchStrategy[Case]:
    relations = rows.map(tuple)
    return st.builds(Case, relations, relations, st.sampled_from(widths), st.integers(0, 3), st.integers(2, LAST))


CASES = st.tuples(cases(RELATIONS, (0,)), cases(RELATIONS, (1, 2)))
"""A case without keys and one with keys, so that few examples reach all rules."""
LARGE = st.tuples(*(cases(st.lists(ROWS, min_size=12, max_size=30), [width]) for width in (0, 2)))
"""Few cases with many rows, since each query takes Spark a second."""
Register = Callable[[str, pa.Table], None]
Ask = Callable[[str], pa.Table]


def stored(rows: Sequence[Row], axis: Axis, width: int) -> pa.Table:
    """The rows as a table of the axis, with the columns of their measures."""
    timely = axis is VALID_TIME
    bound = pa.timestamp("us", "UTC") if timely else pa.int64()
    keys = [
        pa.array([row.key[place] for row in rows], type) for place, type in zip(range(width), KEY_TYPES, strict=False)
    ]
    numbers = [pa.array([row.count for row in rows], pa.int64())]
    numbers += [pa.array([getattr(row, name) for row in rows], type) for name, type in NUMBER_TYPES.items()]
    periods = [pa.array([row.start for row in rows], bound), pa.array([row.end for row in rows], bound)]
    return pa.table([*keys, *numbers, *periods], names=[*axis.columns(width), "n", *NUMBER_TYPES, *axis.period])


KEY_TYPES: Final = (pa.string(), pa.float64())
NUMBER_TYPES: Final = {
    "whole": pa.int64(),
    "real": pa.float64(),
    "exact": pa.decimal128(38, 2),
    "text": pa.string(),
    "flag": pa.bool_(),
}


def measures(names: Sequence[str]) -> list[Measure]:
    """The measures of ``every_period.measured``, built as those of a query are."""
    found = []
    for name in names:
        function, *columns = name.split()
        distinct = columns[:1] == ["distinct"]
        columns = columns[int(distinct) :]
        args = [ColumnRef("r", column, COLUMNS[column]) for column in columns]
        type = aggregate_type(_function(function), args[0].type if args else None)
        if name == "sum exact":
            type = COLUMNS["exact"]
        asked = relational.Measure(
            _function(function), args[0] if args else None, ColumnRef("g", "m", type), distinct, *args[1:]
        )
        found.append(measure_of(asked, columns))
    return found


def _function(name: str) -> AggregateFunction:
    assert name in get_args(AggregateFunction)
    return name  # type: ignore[return-value]


@dataclass
class Trial:
    """The operations of one case on one engine."""

    case: Case
    axis: Axis
    dialect: Dialect
    register: Register
    ask: Ask

    @property
    def sweep(self) -> Sweep:
        return Sweep(self.axis, self.dialect)

    @property
    def open_end(self) -> bool:
        return bool(self.axis.forever)

    def given(self, name: str, rows: Sequence[Row], width: int) -> list[Row]:
        """Register the rows as the axis has them, and return them."""
        made = self.as_axis(rows)
        self.register(name, stored(made, self.axis, width))
        return made

    def as_axis(self, rows: Sequence[Row]) -> list[Row]:
        return narrowed(rows if self.open_end else closed(rows), self.case.width)

    def run(self) -> Iterator[tuple[str, AtInstants]]:
        """Compare each operation with its meaning, and yield its name with what it gave."""
        width, axis, sweep = self.case.width, self.axis, self.sweep
        keys = listed(axis.columns(width), axis.period)
        rows = self.given("raw", self.case.left, width)
        yield self.checked("coalesced", sweep.coalesced(f"SELECT {keys} FROM raw", width), once(rows), maximal=True)
        counts = f"SELECT {listed(axis.columns(width), 'n', axis.period)} FROM raw"
        yield self.checked("added up", sweep.added_up(counts, width), counted(rows, sum))
        yield self.checked("greatest", sweep.greatest(counts, width), counted(rows, max))
        yield from self.differences()
        signs = {"plus": (self.case.left, 1), "minus": (self.case.right, -1)}
        signed = [replace(row, count=n) for name, (each, n) in signs.items() for row in self.given(name, each, width)]
        sums = {at: Counter({row: 1 for row in there if row[-1]}) for at, there in counted(signed, sum).items()}
        summed = sweep.summed([(name, n) for name, (_, n) in signs.items()], width, "<> 0")
        yield self.checked("summed", summed, sums, maximal=True)
        if width:
            alone = self.given("alone", [*{row.key[:width]: row for row in self.case.left}.values()], width)
            yield self.checked("once", sweep.once(f"SELECT {keys} FROM alone", width), once(alone), maximal=True)
        early = self.given("early", [row for row in self.case.left if row.start <= self.case.last], width)
        by = f"INTERVAL '{self.case.by}' MICROSECOND" if self.open_end else str(self.case.by)
        wanted = prolonged(early, self.case.by, self.case.last, open_end=self.open_end)
        yield self.checked(
            "extended", sweep.extended("early", width, by, self.instant(self.case.last)), wanted, maximal=True
        )
        yield from self.groups(rows)

    def instant(self, number: int) -> str:
        return f"TIMESTAMP '1970-01-01 00:00:00.00000{number}+00:00'" if self.open_end else str(number)

    def differences(self) -> Iterator[tuple[str, AtInstants]]:
        width = self.case.width
        for name, counts in (("subtracted", False), ("subtracted counts", True)):
            left, right = (
                self.given(f"{name.replace(' ', '_')}_{side}", disjoint(self.as_axis(rows), counts=counts), width)
                for side, rows in (("from", self.case.left), ("less", self.case.right))
            )
            n = "n" if counts else "1"
            sources = [f"{name.replace(' ', '_')}_{side}" for side in ("from", "less")]
            query = self.sweep.subtracted(*sources, width, (n, n))
            wanted = less(left, right)
            if not counts:
                wanted = {instant: Counter(row[:-1] for row in there) for instant, there in wanted.items()}
            yield self.checked(name, query, wanted, maximal=not counts)

    def groups(self, rows: Sequence[Row]) -> Iterator[tuple[str, AtInstants]]:
        width = self.case.width
        span = None if width else (self.instant(0), self.axis.forever or str(LAST))
        which = "groups" if width else "everything"
        others = f"other measures of {which}"
        for name, wanted in (
            (f"running totals of {which}", EXACT),
            (f"{which} from scratch", FROM_SCRATCH),
            (others, OTHERS),
        ):
            yield self.grouped(name, "raw", rows, wanted, span)
        if self.open_end:
            return
        single = [replace(row, end=row.start + 1) for row in rows]
        self.register("single", stored(single, self.axis, width))
        name = "groups of single instants" if width else "everything at single instants"
        yield self.grouped(name, "single", single, (*FROM_SCRATCH, *OTHERS), span, points=True)

    def grouped(
        self,
        name: str,
        source: str,
        rows: Sequence[Row],
        wanted: Sequence[str],
        span: tuple[str, str] | None,
        *,
        points: bool = False,
    ) -> tuple[str, AtInstants]:
        width = self.case.width
        given_rows = f"SELECT {listed(self.axis.columns(width), COLUMNS, self.axis.period)} FROM {source}"
        grouping = Grouping(self.sweep, given_rows, width, measures(wanted), span, points=points)
        ends = None if self.open_end else LAST
        return self.checked(name, grouping.measured(), aggregates(rows, wanted, ends, width))

    def checked(self, name: str, query: str, wanted: AtInstants, *, maximal: bool = False) -> tuple[str, AtInstants]:
        rows = []
        for *key, start, end in zip(*(column.to_pylist() for column in self.ask(query).columns), strict=True):
            assert end is None or instant_of(start) < instant_of(end), f"{name}: an empty period"
            assert end is not None or self.open_end, f"{name}: an open period"
            assert end is None or instant_of(end) <= LAST + 1, f"{name}: the infinite end is spelled out"
            rows.append((tuple(key), instant_of(start), None if end is None else instant_of(end)))
        found = at_each_instant(rows)
        ours, meant = shown(found), shown(wanted)
        wrong = {at: (ours.get(at), meant.get(at)) for at in ours | meant if ours.get(at) != meant.get(at)}
        assert not wrong, f"{name}: {wrong}"
        if maximal:
            assert not touching(rows), f"{name}: periods that touch"
        return name, found


def instant_of(bound: Any) -> int:
    if isinstance(bound, dt.datetime):
        return (bound.replace(tzinfo=None) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    return int(bound)


def shown(found: AtInstants) -> dict[int, Counter[str]]:
    """The rows of each instant as text.  Averages are compared to ten digits."""
    return {instant: Counter(map(_shown, rows.elements())) for instant, rows in found.items() if rows}


def _shown(row: Key) -> str:
    texts = (
        f"{value:.10g}" if isinstance(value, float) else f"{value:.2f}" if isinstance(value, Decimal) else repr(value)
        for value in row
    )
    return ", ".join(texts)


def touching(rows: Sequence[tuple[Key, int, int | None]]) -> bool:
    """Whether two periods of equal rows overlap or are adjacent."""
    ordered = sorted((repr(plain(key)), start, FAR if end is None else end) for key, start, end in rows)
    return any(one[0] == other[0] and other[1] <= one[2] for one, other in pairwise(ordered))


def wanted_rules(axis: Axis) -> set[str]:
    return {name for name in RULES if "instants" not in name or not axis.forever}


def executed(sql: TemporalSql, query: str) -> pa.Table:
    """The rows of a query. ``sql.rows`` has DuckDB plan it twice, which takes a quarter of its processor time."""
    return sql.connection.execute(local_text(query)).to_arrow_table()


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result")  # the copy costs less than the second plan
@pytest.mark.parametrize("examples", [EXAMPLES, pytest.param(15 * EXAMPLES, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("axis", AXES)
def test_on_duckdb(axis: str, dialect: str, examples: int) -> None:
    fired, seen = Counter[str](), set[Case]()

    @settings(max_examples=examples)
    @given(CASES)
    def tried(pair: tuple[Case, Case]) -> None:
        for case in pair:
            with temporal_sql(1) as sql:
                ask = partial(executed, sql)
                for name, found in Trial(case, AXES[axis], DIALECTS[dialect], sql.given, ask).run():
                    fired[name] += bool(found)
            seen.add(case)

    tried()
    print(dict(fired), len(seen), "cases")
    assert len(seen) >= 1.6 * examples, "too many cases are the same"
    assert {name for name, times in fired.items() if times >= max(1, examples // 20)} == wanted_rules(AXES[axis])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("axis", AXES)
def test_on_spark(spark: SparkSession, axis: str) -> None:
    fired, seen = Counter[str](), set[Case]()

    @settings(max_examples=4, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(LARGE)
    def tried(cases: tuple[Case, ...]) -> None:
        for case in cases:
            with spark_engine(spark, few=True) as engine:
                for name, found in Trial(case, AXES[axis], SPARK, engine.given, engine.rows).run():
                    fired[name] += bool(found)
            seen.add(case)

    tried()
    print(dict(fired), len(seen), "cases")
    assert len(seen) >= 4
    assert set(+fired) == wanted_rules(AXES[axis])


def test_a_sum_that_must_fit_fails_otherwise() -> None:
    rows = [Row(("a", 0.0), 1, 2**62, None, None, start, start + 2) for start in (0, 1)]
    with temporal_sql(1) as sql:
        sql.given("raw", stored(rows, POINTS, 1))
        query = "SELECT v1, whole, from_tp, to_tp FROM raw"
        grouping = Grouping(Sweep(POINTS, DUCKDB), query, 1, measures(["sum whole"]), fails=True)
        with pytest.raises(ExecutionError, match=r"cast|out of range"):
            sql.rows(grouping.measured())
        found = sql.rows(replace(grouping, fails=False).measured()).column("v2").to_pylist()
    assert Counter(found) == {2**62: 2, None: 1}


def test_a_value_for_no_rows_at_all() -> None:
    with temporal_sql(1) as sql:
        sql.given("raw", stored([], POINTS, 0))
        given_measures = [replace(each, of_nothing="7") for each in measures(["sum whole", "avg whole", "count"])]
        exact = Grouping(Sweep(POINTS, DUCKDB), "SELECT whole, from_tp, to_tp FROM raw", 0, given_measures, ("2", "5"))
        from_scratch = replace(
            exact, measures=[replace(each, of_nothing="7") for each in measures(["min whole", "median whole"])]
        )
        assert sql.rows(exact.measured()).to_pylist() == [{"v1": 7, "v2": 7.0, "v3": 0, "from_tp": 2, "to_tp": 5}]
        assert sql.rows(from_scratch.measured()).to_pylist() == [{"v1": 7, "v2": 7.0, "from_tp": 2, "to_tp": 5}]
