"""Conditions on months and zones below aggregates: laws 1 and 2, and the exact deltas of a state.

The reference runs the text itself in DuckDB at every instant at which it can change: around the ends of months, changes
of the clock, and the times of the rows, each with the microsecond after it.  The rows have instants at ends of months.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import duckdb
import pytest

from evaluated import instant_of, months_later, shown, truncated
from oracle.derived import Standing, StateTables, earliest, rows_of, run, schemas
from oracle.engines import EPOCH, DuckDb, Row
from oracle.histories import History
from oracle.reference import over_views
from oracle.test_calendar_conditions import BERLIN, HOUR, MICRO, _readable, a_time, micros
from weft.derivation.stateful import states

INLINED = re.compile(r"LATERAL INLINE\((.*?)\) AS (`?_p\d+`?)\((.*?)\)")
CONDITIONS = (
    "{d} > NOW() - INTERVAL 1 MONTH",
    "NOW() - INTERVAL 1 MONTH >= {d}",
    "NOT (NOW() - INTERVAL 2 MONTHS < {d})",
    "{d} BETWEEN NOW() - INTERVAL 1 MONTH AND NOW()",
    "NOW() - INTERVAL 1 MONTH = {d}",
    "NOW() - INTERVAL 1 MONTH <> {d}",
    "{d} > NOW() - INTERVAL 1 QUARTER",
    "NOW() - INTERVAL 1 YEAR > {d}",
    "{d} <= NOW() - INTERVAL 1 MONTH - INTERVAL 1 DAY",
    f"{{d}} > FROM_UTC_TIMESTAMP(NOW(), '{BERLIN}') - INTERVAL 1 MONTH",
    f"FROM_UTC_TIMESTAMP(NOW(), '{BERLIN}') - INTERVAL 1 MONTH >= {{d}}",
    f"FROM_UTC_TIMESTAMP(NOW(), '{BERLIN}') < {{d}}",
    f"FROM_UTC_TIMESTAMP(NOW() - INTERVAL 1 MONTH, '{BERLIN}') > {{d}}",
    "NOW() > {d}",
)
PLACES = (
    "SELECT a.x AS c0, COUNT(*) AS c1 FROM m AS a WHERE {own} GROUP BY a.x",
    "SELECT COUNT(*) AS c0, MAX(a.d) AS c1 FROM m AS a WHERE {own}",
    "SELECT a.x AS c0, COUNT(*) FILTER (WHERE {own}) AS c1, COUNT(*) AS c2 FROM m AS a GROUP BY a.x",
    "SELECT a.x AS c0, SUM(CASE WHEN {own} THEN 1 WHEN {other} THEN 10 ELSE 100 END) AS c1 FROM m AS a GROUP BY a.x",
    "SELECT a.x AS c0, COUNT(*) AS c1 FROM m AS a GROUP BY a.x HAVING {above}",
    "SELECT a.x AS c0, COUNT(*) AS c1 FROM m AS a WHERE {own} OR {other} GROUP BY a.x",
    "SELECT a.x AS c0, COUNT(*) AS c1 FROM m AS a WHERE {own} AND NOT ({other}) GROUP BY a.x",
    "SELECT a.x AS c0, COUNT(*) AS c1 FROM m AS a WHERE a.k = 1 OR {own} GROUP BY a.x",
    "SELECT a.x AS c0, COUNT(*) AS c1 FROM m AS a JOIN r AS b ON a.k = b.k WHERE {own} AND {of_r} GROUP BY a.x",
    "SELECT a.x AS c0, COUNT(*) AS c1 FROM m AS a WHERE NOT EXISTS (SELECT 1 FROM r AS b WHERE a.k = b.k AND {of_r}) "
    "AND {own} GROUP BY a.x",
    "SELECT a.x AS c0, a.k AS c1 FROM m AS a WHERE {of_last}",
    "SELECT a.x AS c0, b.x AS c1 FROM m AS a LEFT JOIN r AS b ON a.k = b.k WHERE {of_r} OR NOT ({of_r})",
)
LAST = "(SELECT MAX(b.d) FROM r AS b WHERE b.k = a.k)"
ZONED = f"FROM_UTC_TIMESTAMP(NOW(), '{BERLIN}')"
KEPT = (
    PLACES[0].format(own="a.ts > NOW() - INTERVAL 1 MONTH"),
    PLACES[2].format(own="a.ts > NOW() - INTERVAL 1 MONTH"),
    PLACES[0].format(own=f"a.ts > {ZONED} - INTERVAL 1 MONTH"),
    PLACES[2].format(own=f"a.d <= {ZONED} - INTERVAL 1 QUARTER"),
    PLACES[3].format(own="a.ts > NOW() - INTERVAL 1 MONTH", other="a.ts > NOW() - INTERVAL 1 YEAR"),
    PLACES[4].format(above="MAX(a.ts) <= NOW() - INTERVAL 1 MONTH"),
    PLACES[5].format(own="a.d > NOW() - INTERVAL 1 MONTH", other="a.ts <= NOW() - INTERVAL 3 MONTHS"),
    PLACES[2].format(own="NOW() - INTERVAL 1 MONTH - INTERVAL 1 DAY * a.k > a.ts"),
    PLACES[6].format(own="a.ts <= NOW() - INTERVAL 1 MONTH", other="a.ts <= NOW() - INTERVAL 2 MONTHS"),
    PLACES[-2].format(of_last=f"{LAST} < NOW() - INTERVAL 1 MONTH"),
    PLACES[-2].format(of_last=f"NOT ({LAST} < NOW() - INTERVAL 1 MONTH) OR {LAST} IS NULL"),
    PLACES[-1].format(of_r="b.d < NOW() - INTERVAL 1 MONTH"),
)


class Calendar(DuckDb):
    """DuckDB with Spark's functions of times."""

    now = "times.now_at"

    def __init__(self) -> None:
        super().__init__()
        run = self.connection.execute
        run("PRAGMA enable_optimizer")
        run("CREATE MACRO unix_micros(x) AS epoch_us(x)")
        run("CREATE MACRO timestamp_micros(x) AS make_timestamp(x)")
        run("CREATE MACRO named_struct(k, a, l, b) AS struct_pack(begun := a, ended := b)")
        for name, function in (("from_utc_timestamp", shown), ("to_utc_timestamp", instant_of)):
            self.connection.create_function(name, function, ["TIMESTAMP", "VARCHAR"], "TIMESTAMP")

    @staticmethod
    def translated(text: str) -> str:
        """The text with DuckDB's spelling of INLINE, too."""
        spelled = r"LATERAL (SELECT UNNEST(\1, recursive := true)) AS \2(\3)"
        return DuckDb.translated(INLINED.sub(spelled, text).replace("(ARRAY(", "(LIST_VALUE("))


def drawn(chance: random.Random) -> str:
    """A text with one or two conditions."""
    own, other, of_r = (chance.choice(CONDITIONS) for _ in range(3))
    columns = [chance.choice(("a.d", "a.ts")) for _ in range(2)]
    return chance.choice(PLACES).format(
        own=own.format(d=columns[0]),
        other=other.format(d=columns[1]),
        above=own.format(d=f"MAX({columns[0]})"),
        of_r=of_r.format(d="b.d"),
        of_last=of_r.format(d=LAST),
    )


def history(chance: random.Random) -> History:
    """Rows whose instants are near ends of months and changes of the clock."""

    def row() -> Row:
        d, ts = a_time(chance), a_time(chance)
        return (
            chance.choice([0, 1, 1, None]),
            0,
            chance.choice("ab"),
            None if chance.random() < 0.2 else micros(d),
            True,
            micros(ts),
            None,
        )

    return History({name: tuple(row() for _ in range(3)) for name in ("m", "r")} | {"u": ()}, ())


def instants(text: str, rows: Sequence[Row]) -> list[int]:
    """The instants at which an answer can change, each with the microsecond after it."""
    zoned = BERLIN in text
    times = {EPOCH + at * MICRO for row in rows for at in (row[3], row[5]) if at is not None}
    found = {EPOCH} | times
    for time in times:
        clocks = {dt.timedelta(0), time - truncated("DAY", time)}
        for months in (0, 1, 2, 3, 12):
            day = truncated("DAY", months_later(time, months))
            found |= {
                day + n * dt.timedelta(days=1) + clock + hours * HOUR
                for n in range(-1, 5)
                for clock in clocks
                for hours in ((-2, -1, 0, 1) if zoned else (0,))
            }
    found |= {dt.datetime(2001, month, day, 1) for month, day in ((3, 25), (4, 25), (10, 28), (11, 28))}
    return sorted({micros(at + more) for at in found for more in (0 * MICRO, MICRO) if at >= EPOCH})


def first_of_each(duck: Calendar, text: str, times: Sequence[int]) -> dict[Row, int]:
    """The reference: the first instant of each answer.  One statement runs the text at all instants."""
    listed = [EPOCH + at * MICRO for at in times]
    duck.connection.execute("CREATE OR REPLACE TABLE times AS SELECT UNNEST(?) AS now_at", [listed])
    found: dict[Row, int] = {}
    for at, *row in duck.run(f"SELECT times.now_at, q.* FROM times, LATERAL ({over_views(text, duck)}) AS q"):
        found[tuple(row)] = min(at, found.get(tuple(row), at))
    return found


def holds(duck: Calendar, text: str, chance: random.Random) -> Counter[str]:
    """Check a text over one history.  Return the number of its answers, and of comparisons of its deltas."""
    given = history(chance)
    duck.load(given.rows)
    times = instants(text, [row for rows in given.rows.values() for row in rows])
    wanted, standing = first_of_each(duck, text, times), Standing.of(text, schemas(given))
    cuts, end = sorted(chance.sample(times[1:], 2)), micros(dt.datetime(2005, 1, 1))
    delivered: dict[Row, int] = {}
    for tau, t in pairwise([0, *cuts, end]):
        group = standing.group([standing.member(1, tau or None)], t)
        tables = StateTables(duck, "FALSE")
        for row, s in earliest(run(duck, rows_of(group, None, None, tables))).items():
            delivered.setdefault(row, s)
    assert _readable(delivered) == _readable(wanted), (text, given.rows, [str(EPOCH + cut * MICRO) for cut in cuts])
    deltas = check_deltas(duck, standing, (cuts[0], cuts[1]), times)
    return Counter(answers=len(wanted), deltas=deltas)


def check_deltas(duck: Calendar, standing: Standing, window: tuple[int, int], times: Sequence[int]) -> int:
    """The rows just before the window and the exact deltas add up to the rows at each instant of the window.

    Return the number of comparisons.
    """
    tau, t = window
    group = standing.group([standing.member(1, tau)], t)
    tables, within = StateTables(duck, "FALSE"), [each for each in times if tau <= each < t]
    compared = 0
    for state in {each for branch in group.branches() for each in states(branch.event.relation)}:
        off = tables.off(state, within)
        assert not off, (off, window)
        compared += 0 if off is None else len(within)
    return compared


@pytest.fixture(scope="module")
def duck() -> Calendar:
    return Calendar()


@pytest.mark.parametrize("text", KEPT)
def test_fixed_texts(duck: Calendar, text: str) -> None:
    """Histories are drawn until one has an answer."""
    assert any(holds(duck, text, random.Random(seed))["answers"] for seed in ("kept", *range(12)))


@pytest.mark.parametrize(
    ("shard", "texts"), [(0, 2), *(pytest.param(shard, 4, marks=pytest.mark.slow) for shard in range(40))]
)
def test_drawn_texts(duck: Calendar, shard: int, texts: int) -> None:
    chance = random.Random(f"calendar below aggregates {shard}")
    counts = Counter[str]()
    for _ in range(texts):
        counts += holds(duck, drawn(chance), chance)
    assert counts["answers"] and counts["deltas"], counts


def test_the_reference_is_spark_s_calendar(duck: Calendar) -> None:
    """DuckDB moves a time by months as Spark does."""
    for text, wanted in (
        ("TIMESTAMP '2001-03-31 12:00:00' - INTERVAL 1 MONTH", dt.datetime(2001, 2, 28, 12)),
        ("TIMESTAMP '2000-02-29 12:00:00' + INTERVAL 1 YEAR", dt.datetime(2001, 2, 28, 12)),
        ("TIMESTAMP '2001-05-31 12:00:00' - INTERVAL 1 QUARTER", dt.datetime(2001, 2, 28, 12)),
    ):
        assert duck.connection.execute(f"SELECT {text}").fetchone() == (wanted,), (text, duckdb.__version__)
