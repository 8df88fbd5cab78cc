"""``weft bench paper``: repeat figures 5 to 9 of the paper, with other systems beside Weft.

    weft bench paper --messages 38000 --messages 380000 --messages 3800000 --postgres postgresql:///test

Figures 5 to 7 and 9 vary the part of the table that is new to a query: all of it, 10 %, 1 % and 0.1 %. Figure 8 varies
the size of the table, while 3,800 messages are new to each query. Beside a tick of Weft, Spark and DuckDB run the full
query over the same files, Structured Streaming processes the same batches, and PostgreSQL runs the paper's incremental
queries and maintains the results with triggers. Weft and PostgreSQL must find as many rows as DuckDB does.

Figure 6 has variants of Q3 and Q5 that assume that a reply arrives after the message to which it replies. Here they are
queries of their own (``ORDERED``), whose texts state the assumption. Weft never adds it.

The report gives medians of processor seconds, because those hardly depend on other load. The JSON also has the seconds
on the clock.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from math import exp, log
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow.parquet as pq

from weft.bench.bench_home import BEGIN, NEW, QUERIES, arrival, messages
from weft.bench.other_systems import DuckdbQueries, PostgresQueries, with_ts
from weft.bench.suites import QueryTimes, Record, Rounds, streams
from weft.bench.tapestry import Bench, require_room
from weft.bench.times import Times, folder_for_tables, processor_seconds, write_figures
from weft.charts import Line, Panel, figure
from weft.errors import ExecutionError
from weft.execution.reader import stored_files
from weft.instants import format_instant
from weft.runtime.session import stop_session

ORDERED: Final = {
    "Q3_ordered": f"{QUERIES['Q3']} AND m1.ts >= m.ts",
    "Q5_ordered": f"{QUERIES['Q5']} AND m1.ts >= m.ts AND m2.ts >= m1.ts",
}
"""Q3' and Q5' of figure 6. Each generated reply arrives later, so their answers are those of Q3 and Q5."""
WINDOWS: Final = {
    "Q1": "ts >= {tau} AND ts < {t}",
    "Q2": "ts >= {tau} AND ts < {t}",
    "Q3": "m.ts < {t} AND m1.ts < {t} AND (m.ts >= {tau} OR m1.ts >= {tau})",
    "Q3_ordered": "m1.ts >= {tau} AND m1.ts < {t}",
    "Q5": "m.ts < {t} AND m1.ts < {t} AND m2.ts < {t} AND (m.ts >= {tau} OR m1.ts >= {tau} OR m2.ts >= {tau})",
    "Q5_ordered": "m2.ts >= {tau} AND m2.ts < {t}",
}
"""The conditions with which the paper makes a query incremental (figure 6 for the ordered ones)."""
_Q4: Final = (
    "SELECT DISTINCT m.msgid FROM msgs m WHERE m.ts + INTERVAL '4 weeks' >= {tau} AND m.ts + INTERVAL '4 weeks' < {t} "
    "AND NOT EXISTS (SELECT * FROM msgs m1 WHERE m1.inreplyto = m.msgid AND m1.ts <= m.ts + INTERVAL '4 weeks')"
)
"""Incremental Q4. A message becomes an answer when it is four weeks old, if no reply has arrived until then."""
WITHOUT_TIME: Final = {name: text for name, text in QUERIES.items() if "NOW()" not in text}
"""The queries that triggers can maintain."""
SHARES: Final = (1.0, 0.1, 0.01, 0.001)
ALL: Final = "all five"
_WARM: Final = 4
"""The rounds at each size that are not counted."""
_LOADED: Final = 200_000
_LIMIT: Final = 3_600.0
"""The time limit of a stream's batch, in seconds."""

WEFT, SPARK, DUCKDB = "Weft's tick", "Spark, in full", "DuckDB, in full"
STREAM, TRIGGERS = "Structured Streaming", "PostgreSQL, triggers"
PAPER, TOGETHER = "PostgreSQL, the paper's SQL", "with an index on (newsgroup, ts)"


@dataclass
class Cost(Times):
    """The cost of a query in one system. ``share`` is the part of the table that is new to the query, if that varies.

    ``rows`` is the number of rows found. The rows of Spark's full queries and of its streams are not counted.
    """

    figure: str
    query: str
    how: str
    messages: int
    share: float | None = None
    rows: int = 0


Work: TypeAlias = Callable[[], int]


def compare(
    sizes: Sequence[int],
    changed: int,
    rounds: int,
    postgres: str | None,
    folder: Path | None,
    out: Path | None,
    charts: Path | None,
    progress: Callable[[str], None],
) -> None:
    """Measure, print the results, write the figures to ``out`` as JSON and draw charts in the folder ``charts``.

    The file ``out`` is written again after each measurement, so that an interruption loses none. ``changed`` is the
    size of the table of which a part is new, 0 to omit figures 5 to 7 and 9. Raise ExecutionError if two systems find
    different numbers of rows.
    """
    costs: list[Cost] = []
    for measure, each_of in ((_parts_new, [changed] if changed else []), (_sizes, sizes)):
        for count in each_of:
            with folder_for_tables(folder) as place:
                require_room(count, place)
                for cost in measure(place / "home", count, rounds, postgres, progress):
                    costs.append(cost)
                    write_figures(out, _as_json(costs), lambda _: None)
                    progress(f"  {_line(cost)}")
                stop_session()
    progress(report(costs))
    write_figures(out, _as_json(costs), progress)
    if charts is not None:
        draw(costs, charts)


def _as_json(costs: Sequence[Cost]) -> str:
    return json.dumps([asdict(each) for each in costs], indent=1) + "\n"


def _measured(cost: Cost, works: Sequence[Work], processor: Callable[[], float] = processor_seconds) -> Cost:
    """Measure each of ``works`` but the first."""
    for number, work in enumerate(works):
        _run(cost, work, counted=number > 0, processor=processor)
    return cost


def _run(cost: Cost, work: Work, *, counted: bool, processor: Callable[[], float] = processor_seconds) -> None:
    cost.rows = cost.measure(work, processor) if counted else work()


def incremental(name: str, tau: int, t: int) -> str:
    """Return the paper's incremental query for the window [tau, t) in SQL that DuckDB and PostgreSQL understand.

    >>> print(incremental("Q3_ordered", 0, 60_000_000))
    SELECT DISTINCT m.msgid FROM msgs m, msgs m1 WHERE m1.inreplyto = m.msgid AND m1.newsgroup = 'comp.databases' AND \
m1.ts >= TIMESTAMPTZ '1970-01-01 00:00:00+00' AND m1.ts < TIMESTAMPTZ '1970-01-01 00:01:00+00'
    """
    text = QUERIES[name.removesuffix("_ordered")].replace("SELECT ", "SELECT DISTINCT ", 1)
    whole = _Q4 if name == "Q4" else f"{text} AND {WINDOWS[name]}"
    return whole.format(tau=_literal(tau), t=_literal(t))


def _in_full(name: str, now: int) -> str:
    text = QUERIES[name.removesuffix("_ordered")].replace("SELECT ", "SELECT DISTINCT ", 1)
    return text.replace("NOW()", _literal(now)).replace("INTERVAL 4 WEEKS", "INTERVAL '4 weeks'")


def _literal(instant: int) -> str:
    return f"TIMESTAMPTZ '{format_instant(instant).removesuffix(' UTC')}+00'"


def _files(bench: Bench) -> list[str]:
    data = bench.catalog.data
    return [str(file.location) for file in stored_files(data, bench.catalog.tables.named("msgs").path, {})]


def _parts_new(
    home: Path, count: int, rounds: int, postgres: str | None, progress: Callable[[str], None]
) -> Iterator[Cost]:
    """Figures 5 to 7 and 9: the parts of one table that are new to a query."""
    bench, duckdb, now = Bench(home), DuckdbQueries(), arrival(count)
    bench.load(count)
    duckdb.over(_files(bench))
    progress(f"{count:,} messages: parts of the table are new to a query")
    for name, work in bench.in_full().items():
        yield _measured(Cost("5", name, SPARK, count), [work] * (rounds + 1))
        text = _in_full(name, now)
        yield _measured(Cost("5", name, DUCKDB, count), [partial(duckdb.count, text)] * (rounds + 1))
    wanted: dict[tuple[str, float], int] = {}
    for share in SHARES:
        tau = now - round((now - BEGIN) * share)
        for number, name in enumerate((*QUERIES, *ORDERED)):
            wanted[name, share] = duckdb.count(incremental(name, tau, now))
            copies = [f"w{number}_{share}_{copy}" for copy in range(rounds + 1)]
            bench.install(dict.fromkeys(copies, {**QUERIES, **ORDERED}[name]), tau)
            cost = Cost("6" if name in ORDERED else "5", name, WEFT, count, share)
            yield _require(_measured(cost, [partial(_tick, bench, [copy]) for copy in copies]), wanted[name, share])
    bench.close()
    duckdb.close()
    if postgres is not None:
        yield from _parts_in_postgres(postgres, count, rounds, wanted)


def _tick(bench: Bench, names: Sequence[str] | None = None) -> int:
    return bench.tick(names)[2]


def _parts_in_postgres(uri: str, count: int, rounds: int, wanted: Mapping[tuple[str, float], int]) -> Iterator[Cost]:
    server, now = PostgresQueries(uri), arrival(count)
    _fill(server, count)
    for how, names in ((PAPER, (*QUERIES, *ORDERED)), (TOGETHER, ("Q1", "Q3", "Q3_ordered"))):
        if how == TOGETHER:
            server.index_together()
        for name in names:
            for share in (None, *SHARES):
                tau = now - round((now - BEGIN) * (share or 0))
                text = _in_full(name, now) if share is None else incremental(name, tau, now)
                cost = Cost("9" if how == TOGETHER else "6" if name in ORDERED else "5", name, how, count, share)
                _measured(cost, [partial(server.count, text)] * (rounds + 1), lambda: server.processor)
                yield cost if share is None else _require(cost, wanted[name, share])
    server.close()


def _fill(server: PostgresQueries, count: int) -> None:
    for first in range(0, count, _LOADED):
        server.load(with_ts(messages(first, min(_LOADED, count - first))))
    server.index()


def _require(cost: Cost, rows: int) -> Cost:
    if cost.rows != rows:
        raise ExecutionError(f"{cost.query} by {cost.how}: {cost.rows:,} rows instead of {rows:,} ({cost.share})")
    return cost


def _sizes(
    home: Path, count: int, rounds: int, postgres: str | None, progress: Callable[[str], None]
) -> Iterator[Cost]:
    """Figure 8: 3,800 messages are new to each query, over tables of different sizes."""
    bench, duckdb = Bench(home), DuckdbQueries()
    bench.load(count)
    bench.install(QUERIES)
    bench.tick()
    progress(f"{count:,} messages: {NEW:,} are new to each query")
    costs = {(name, how): Cost("8", name, how, count) for name in QUERIES for how in (WEFT, SPARK, DUCKDB)}
    together = Cost("8", ALL, WEFT, count)
    for number in range(_WARM + rounds):
        counted = number >= _WARM
        bench.load(NEW)
        _run(together, partial(_tick, bench), counted=counted)
        bench.load(NEW)
        duckdb.over(_files(bench))
        full = bench.in_full() if number >= _WARM - 1 else {}
        for name in QUERIES:
            _run(costs[name, WEFT], partial(_tick, bench, [name]), counted=counted)
            new = partial(duckdb.new_rows, name, _in_full(name, arrival(bench.count)))
            _run(costs[name, DUCKDB], new, counted=counted)
            if full:
                _run(costs[name, SPARK], full[name], counted=counted)
    for name in QUERIES:
        found = bench.catalog.queries.named(name).rows
        _require(Cost("8", name, WEFT, count, rows=found), duckdb.count(incremental(name, BEGIN, arrival(bench.count))))
    yield from (together, *costs.values())
    bench.close()
    duckdb.close()
    yield from _as_streams(home.parent, count, rounds, progress)
    if postgres is not None:
        yield from _by_triggers(postgres, count, rounds)


def _as_streams(place: Path, count: int, rounds: int, progress: Callable[[str], None]) -> Iterator[Cost]:
    """Streams deliver a row again when it is found again, because an exact stream cannot forget what it delivered."""
    parts = [{"msgs": _written(place / "first.parquet", 0, count)}]
    for number in range(1 + rounds):
        file = place / f"batch{number}.parquet"
        parts.append({"msgs": _written(file, count + number * NEW, NEW)})
    times = {name: QueryTimes(name) for name in QUERIES}
    streams(QUERIES, Rounds(1, rounds, 1, 0.0), parts, place / "streams", Record(times, _LIMIT, None, progress))
    for name, each in times.items():
        if each.ended:
            progress(f"  {name} as a stream: {each.ended['stream']}")
        elif each.stream.seconds:
            yield Cost("8", name, STREAM, count, **asdict(each.stream))
        else:
            progress(f"  {name} as a stream is refused: {each.stream_refused}")


def _written(file: Path, first: int, count: int) -> Path:
    with pq.ParquetWriter(file, with_ts(messages(0, 1)).schema) as writer:
        for at in range(first, first + count, _LOADED):
            writer.write_table(with_ts(messages(at, min(_LOADED, first + count - at))))
    return file


def _by_triggers(uri: str, count: int, rounds: int) -> Iterator[Cost]:
    server = PostgresQueries(uri)
    _fill(server, count)
    server.maintain(WITHOUT_TIME)
    costs = {name: Cost("8", name, TRIGGERS, count) for name in WITHOUT_TIME}
    for number in range(1 + rounds):
        for name, (seconds, processor) in server.arrive(with_ts(messages(count + number * NEW, NEW))).items():
            if number:
                costs[name].seconds.append(seconds)
                costs[name].processor.append(processor)
    for name, cost in costs.items():
        cost.rows = server.count(f"SELECT * FROM {name}")
        yield _require(cost, server.count(_in_full(name, 0)))
    server.close()


def _line(cost: Cost) -> str:
    part = "" if cost.share is None else f", {cost.share:.1%} new"
    found = "" if cost.how in (SPARK, STREAM) else f", {cost.rows:,} rows"
    return (
        f"figure {cost.figure}: {cost.query}, {cost.messages:,} messages{part}, {cost.how}: {cost.median:.3f} s of "
        f"processors, {statistics.median(cost.seconds):.3f} s on the clock{found}"
    )


def report(costs: Sequence[Cost]) -> str:
    """Compare Weft's tick with each other system, and find the size of the table from which on the tick is cheaper.

    >>> costs = []
    >>> for how, small, large in ((WEFT, 1.0, 1.0), (DUCKDB, 0.1, 10.0), (SPARK, 2.0, 3.0), (TRIGGERS, 0.1, 0.1)):
    ...     costs.append(Cost("8", "Q1", how, 1_000, processor=[small]))
    ...     costs.append(Cost("8", "Q1", how, 100_000, processor=[large]))
    >>> print(report(costs))
    Q1: Spark, in full costs more at each size
    Q1: DuckDB, in full costs more from 10,000 messages on
    Q1: PostgreSQL, triggers costs less at each size
    """
    lines = []
    for query in dict.fromkeys(each.query for each in costs if each.figure == "8"):
        own = _by_size(costs, query, WEFT)
        others = {how: _by_size(costs, query, how) for how in (SPARK, DUCKDB, STREAM, TRIGGERS)}
        lines += [f"{query}: {how} {_crossing(own, other)}" for how, other in others.items() if other]
    return "\n".join(lines)


def _by_size(costs: Sequence[Cost], query: str, how: str) -> dict[int, float]:
    """Return the processor seconds by the size of the table. For all queries, add up those of another system."""
    queries = {*QUERIES} if query == ALL and how != WEFT else {query}
    own = [each for each in costs if each.figure == "8" and each.how == how and each.query in queries]
    if {each.query for each in own} != queries:
        return {}
    found: dict[int, float] = {}
    for each in own:
        found[each.messages] = found.get(each.messages, 0.0) + each.median
    return found


def _crossing(own: Mapping[int, float], other: Mapping[int, float]) -> str:
    """Between two sizes, the logarithms of the seconds are interpolated."""
    ratios = [(size, log(other[size] / own[size])) for size in sorted(own.keys() & other.keys())]
    if all(ratio >= 0 for _, ratio in ratios):
        return "costs more at each size"
    if all(ratio < 0 for _, ratio in ratios):
        return "costs less at each size"
    for (low, below), (high, above) in pairwise(ratios):
        if below < 0 <= above:
            crossed = exp(log(low) + (log(high) - log(low)) * -below / (above - below))
            return f"costs more from {float(f'{crossed:.2g}'):,.0f} messages on"
    return "costs less from some size on"


def draw(costs: Sequence[Cost], folder: Path) -> None:
    """Write a chart for figures 5 and 7, one for figures 6 and 9, and one for figure 8."""
    folder.mkdir(parents=True, exist_ok=True)
    shares = [_panel(costs, name, "% of the table is new", _by_share) for name in QUERIES]
    variants = [_panel(costs, name, "% of the table is new", _by_share) for name in ORDERED]
    sizes = [_panel(costs, name, "messages", _by_messages) for name in (*QUERIES, ALL)]
    for name, title, panels in (
        ("paper-parts", "Processor seconds against the part of the table that is new (figures 5, 7 and 9)", shares),
        ("paper-ordered", "The same if the text states that replies arrive later (figures 6 and 9)", variants),
        ("paper-sizes", "Processor seconds against the size of the table (figure 8)", sizes),
    ):
        shown = [panel for panel in panels if panel.lines]
        if shown:
            (folder / f"{name}.svg").write_text(figure(title, shown), encoding="utf-8")


Points: TypeAlias = "list[tuple[float, float]]"


def _panel(
    costs: Sequence[Cost], query: str, below: str, points: Callable[[Sequence[Cost], str, str], Points]
) -> Panel:
    found = {how: points(costs, query, how) for how in (WEFT, SPARK, DUCKDB, STREAM, TRIGGERS, PAPER, TOGETHER)}
    lines = [Line(how, each) for how, each in found.items() if each]
    return Panel(query.replace("_ordered", "′"), "processor seconds", below, lines)


def _by_share(costs: Sequence[Cost], query: str, how: str) -> Points:
    """A full query costs the same for each part."""
    own = [each for each in costs if each.figure != "8" and each.query == query and each.how == how]
    parts = [(100 * each.share, each.median) for each in own if each.share is not None]
    flat = [(100 * share, each.median) for each in own for share in SHARES if each.how in (SPARK, DUCKDB)]
    return sorted(parts or flat)


def _by_messages(costs: Sequence[Cost], query: str, how: str) -> Points:
    return sorted(_by_size(costs, query, how).items())
