"""``weft bench many``: compare a tick of one query with a tick of many queries, of one shape or of many shapes.

    weft bench many --queries 1 --queries 100000

The benchmark loads a table of messages once and copies the home for each number of queries. The queries of a home
differ only in their constants. Each round runs one tick of each home, with 3,800 new messages. Then the benchmark
measures queries of different shapes in the same way. The report gives medians. Absolute times depend on the machine.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations, islice, product
from pathlib import Path
from typing import Any, Final

from weft.api.standing import NewQuery
from weft.api.weft import Weft
from weft.bench.bench_home import GROUPS, NEW, BenchHome, TickTimes
from weft.bench.times import folder_for_tables, processor_seconds, write_figures
from weft.execution.phases import measure_phases
from weft.runtime.session import stop_session

_SENDERS: Final = 5_000
_ONE_BY_ONE: Final = 100
"""The maximum number of queries that are installed one at a time. A larger set of queries is installed in one call."""

SHAPES: Final[Mapping[str, str]] = {
    "messages of an author in a group": (
        "SELECT msgid, subject FROM msgs WHERE sender = 'user{sender}' AND newsgroup = '{group}'"
    ),
    "replies to an author in a group": (
        "SELECT r.msgid, r.sender, r.subject FROM msgs m, msgs r "
        "WHERE r.inreplyto = m.msgid AND m.sender = 'user{sender}' AND r.newsgroup = '{group}'"
    ),
}
"""The template of each shape.
With all authors and groups, each shape has up to a quarter of a million queries.
"""


@dataclass
class QuerySet(TickTimes):
    """A set of queries and the measurements of its ticks."""

    shape: str
    queries: int
    installs: float = 0.0
    """The number of queries installed per second, one at a time or together (``_ONE_BY_ONE``)."""
    processor: list[float] = field(default_factory=list)
    """The processor seconds of each tick."""
    first_tick: float = 0.0
    first_rows: int = 0
    catalog: int = 0
    """The size of the catalog in bytes after the last tick."""


def compare(
    queries: Sequence[int],
    shapes: Sequence[int],
    messages: int,
    ticks: int,
    warm: int,
    folder: Path | None,
    out: Path | None,
    progress: Callable[[str], None],
) -> None:
    """Measure each number of queries of each shape, and each number of different shapes.

    Print the results, and write the figures to ``out`` as JSON.
    """
    cases: list[QuerySet] = []
    with folder_for_tables(folder) as place:
        _load(place / "loaded", messages)
        for shape, text in SHAPES.items():
            sets = {count: (shape, list(islice(_queries_of_shape(text), count))) for count in queries}
            cases += _measure(place, messages, sets, ticks, warm, progress)
        many = {count: ("different shapes", list(islice(_queries_of_many_shapes(), count))) for count in shapes}
        cases += _measure(place, messages, many, ticks, warm, progress)
    progress(report(cases))
    write_figures(out, json.dumps([_json(case) for case in cases], indent=2) + "\n", progress)
    stop_session()


def _load(home: Path, messages: int) -> None:
    bench = BenchHome(home)
    bench.load(messages)
    bench.close()


def _queries_of_shape(text: str) -> Iterator[str]:
    """Yield distinct queries of one shape. Each group is combined with authors from the entire range."""
    for number in range(_SENDERS * len(GROUPS)):
        sender = (number * 37 + number // _SENDERS) % _SENDERS
        yield text.format(sender=sender, group=GROUPS[(number // _SENDERS + sender) % len(GROUPS)])


def _queries_of_many_shapes() -> Iterator[str]:
    """Yield queries of 1,008 shapes. Half of them join the messages with those to which they reply."""
    few = ("m.newsgroup = 'comp.databases'", "m.sender = 'user42'", "m.subject LIKE 'word12%'")
    most = ("m.inreplyto IS NOT NULL", "m.newsgroup <> 'misc.group07'", "m.sender <> 'user7'")
    conditions = [" AND ".join((*some, *others)) for some in _subsets(few) if some for others in _subsets(most)]
    columns = [
        ", ".join(some) for some in product(("m.msgid", "m.sender", "m.date"), ("m.newsgroup", "m.subject", "m.ts"))
    ]
    for shown, text in product(columns, conditions):
        yield f"SELECT {shown} FROM msgs m WHERE {text}"
        yield f"SELECT {shown}, r.sender AS other FROM msgs m, msgs r WHERE m.inreplyto = r.msgid AND {text}"


def _subsets(items: Sequence[str]) -> list[tuple[str, ...]]:
    return [some for count in range(len(items) + 1) for some in combinations(items, count)]


def _measure(
    place: Path,
    messages: int,
    sets: Mapping[int, tuple[str, Sequence[str]]],
    ticks: int,
    warm: int,
    progress: Callable[[str], None],
) -> list[QuerySet]:
    """``sets`` maps a number of queries to a description and the query texts."""
    prepared = [_prepared(place, messages, shape, texts, progress) for shape, texts in sets.values()]
    for number in range(warm + ticks):
        for bench, case in prepared:
            bench.load(NEW)
            used = processor_seconds()
            with measure_phases() as parts:
                seconds, jobs, rows = bench.tick()
            used = processor_seconds() - used
            progress(f"  {case.queries:,}: tick {seconds:.2f} s, processor {used:.2f} s, {jobs} jobs, {rows} rows")
            if number >= warm:
                case.count((seconds, jobs, rows), parts)
                case.processor.append(used)
    for bench, case in prepared:
        case.catalog = sum(file.stat().st_size for file in bench.catalog.path.glob("catalog.sqlite*"))
        bench.close()
        shutil.rmtree(bench.catalog.path)
    return [case for _, case in prepared]


def _prepared(
    place: Path, messages: int, shape: str, texts: Sequence[str], progress: Callable[[str], None]
) -> tuple[BenchHome, QuerySet]:
    home = place / f"home-{len(texts)}"
    shutil.copytree(place / "loaded", home)
    case = QuerySet(shape, len(texts))
    case.installs = _install(home, texts)
    bench = BenchHome(home, messages)
    case.first_tick, _, case.first_rows = bench.tick()
    progress(
        f"{len(texts):,} queries ({shape}): {case.installs:.0f} installed a second, "
        f"first delivery of {case.first_rows:,} answers in {case.first_tick:.1f} s"
    )
    return bench, case


def _install(home: Path, texts: Sequence[str]) -> float:
    """Install the queries through the Python API, and return the number of queries installed per second."""
    with Weft.open(home, create=True) as weft:
        queries = [NewQuery(f"q{number}", text, "bench") for number, text in enumerate(texts)]
        before = time.perf_counter()
        if len(queries) > _ONE_BY_ONE:
            weft.install_all(queries)
        else:
            for query in queries:
                weft.install(query.name, query.sql, user=query.user)
        return len(queries) / (time.perf_counter() - before)


def report(cases: Sequence[QuerySet]) -> str:
    """Return two lines per set of queries: the tick and its phases.

    The processor seconds of each tick are compared with those for the smallest set of the same shape.

    >>> few = QuerySet("of an author", 1, ticks=[0.5], processor=[0.2], jobs=[1], rows=[2], parts={"commit": [0.1]})
    >>> many = QuerySet("of an author", 9_000, ticks=[2], processor=[0.8], jobs=[1], rows=[40], parts={"commit": [0.1]})
    >>> print(report([few, many]))
    of an author: 1 queries, tick 0.50 s, processor 0.20 s, 1.0 times that of 1; jobs 1, rows 2
      commit 0.10 s
    of an author: 9,000 queries, tick 2.00 s, processor 0.80 s, 4.0 times that of 1; jobs 1, rows 40
      commit 0.10 s
    """
    lines = []
    for case in cases:
        least = min((each for each in cases if each.shape == case.shape), key=lambda each: each.queries)
        used, of_least = (statistics.median(each.processor) for each in (case, least))
        jobs, rows = statistics.median(case.jobs), statistics.median(case.rows)
        lines.append(
            f"{case.shape}: {case.queries:,} queries, tick {case.tick:.2f} s, processor {used:.2f} s, "
            f"{used / of_least:.1f} times that of {least.queries:,}; jobs {jobs:.0f}, rows {rows:.0f}"
        )
        lines.append("  " + ", ".join(f"{name} {statistics.median(part):.2f} s" for name, part in case.parts.items()))
    return "\n".join(lines)


def _json(case: QuerySet) -> dict[str, Any]:
    return {**asdict(case), "tick": case.tick}
