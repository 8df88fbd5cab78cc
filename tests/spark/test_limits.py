"""The limits of a query with real Spark, in separate processes because the limits end JVMs (design section 8, 4).

The queries are a pattern that backtracks forever, a pattern with deep nesting, a product of three tables, and a query
with too many rows. The tick isolates each query with a message, keeps the other answers, and releases the lease. `weft
try` has the same limits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 10
"""Enough for a small query, even on a busy machine."""
ROWS = 1_000

BACKTRACKS = "SELECT id FROM texts WHERE body RLIKE '^(a+)+b$'"
DEEP = "SELECT id FROM texts WHERE body RLIKE '^(?:[a-z]|x)*z$'"
PRODUCT = """SELECT a.id FROM texts a, texts b, texts c, texts d, texts e, texts f
    WHERE a.id + b.id + c.id + d.id + e.id + f.id < 0"""
EXPLODES = "SELECT a.id AS a, b.id AS b, c.id AS c FROM texts a, texts b, texts c"
MANY = "SELECT a.id AS a, b.id AS b FROM texts a, texts b WHERE a.id < 10"
INNOCENT = "SELECT id FROM texts WHERE id < 5"

HOME = """
import json, sys
from pathlib import Path
from weft.api import Weft
folder = Path(sys.argv[1])
def load(weft, first, last):
    rows = folder / f"texts-{first}.csv"
    # Every third text is long.
    lines = [f"{n},1993-04-05T00:00:{n % 60:02}Z,{'a' * (20 if n % 3 else 20_000)}" for n in range(first, last)]
    rows.write_text("id,at,body\\n" + "\\n".join(lines) + "\\n")
    weft.ingest_file(rows, "texts", ts_from="at")
def made(name):
    weft = Weft.open(folder / name, clock="replay", create=True)
    load(weft, 0, 150)
    return weft
def outcomes_of(done):
    return {each.query.name: [each.rows, each.query.state, each.reason] for each in done.reports[-1].outcomes}
"""

TICKS = """
import os, signal
from pyspark.sql.classic import dataframe
from weft.cli.app import run
from weft.errors import JvmEnded
from weft.runtime.session import running_jvm, spark_session
from weft.runtime.watchdog import limited
queries, product = json.loads(sys.argv[2]), sys.argv[3]
known = [name for name in ("innocent", "explodes", "many") if name in queries]
weft, other = made("home"), made("other")
other.session()
for name, sql in queries.items():
    weft.install(name, sql)
first = weft.tick(now="1993-04-06")
free = weft.catalog.lease() is None
weft.resume(known[1])
again = weft.tick(now="1993-04-07")
def cut(*arguments, load=dataframe._load_from_socket):
    rows = load(*arguments)
    yield next(rows)
    os.kill(running_jvm().process.pid, signal.SIGKILL)
    yield from rows  # pyspark ends here as if that were all
tried = {name: run(["try", queries[name], "--home", str(folder / "home")]) for name in known}
count = other.try_query("SELECT id FROM texts").count
if product:  # the last, since it leaves a JVM that is cold
    tried["product"] = run(["try", product, "--home", str(folder / "home")])
try:
    with limited(60):
        data = spark_session(folder / "other").range(200_000).selectExpr("id", "repeat('x', 50) AS s")
        dataframe._load_from_socket = cut
        data.collect()
    broken_off = "taken for whole"
except JvmEnded as error:
    broken_off = "noticed, not known" if not error.known else "known"
print()
print(json.dumps({
    "broken off": broken_off,
    "first": outcomes_of(first),
    "free": free,
    "again": outcomes_of(again),
    "innocent": sorted(row.values[0] for row in weft.results("innocent")),
    "tried": tried,
    "other": count,
}))
"""

KILLED = """
import os, signal
from weft.execution.ticks import stratum
from weft.runtime.session import running_jvm
weft = made("home")
weft.session()
weft.install("one", "SELECT id FROM texts WHERE id < 5 AND body RLIKE '^a'")  # DuckDB computes no patterns
weft.install("two", "SELECT id, at FROM texts WHERE id < 7 AND body RLIKE '^a'")
computed, kills = stratum.new_answers, iter([True] * 3)  # twice of both together, then once of one of them alone
def killed(*arguments, **options):
    if next(kills, False):
        os.kill(running_jvm().process.pid, signal.SIGKILL)
    return computed(*arguments, **options)
stratum.new_answers = killed
print(json.dumps(outcomes_of(weft.tick(now="1993-04-06"))))
"""


def _run(script: str, *arguments: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    settings = {"WEFT_QUERY_SECONDS": str(SECONDS), "WEFT_QUERY_ROWS": str(ROWS), "WEFT_SPARK_MEMORY": "1g"}
    return subprocess.run(
        [sys.executable, "-c", HOME + script, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **settings, **environ},
        timeout=560,
        check=False,
    )


QUERIES = {"innocent": INNOCENT, "backtracks": BACKTRACKS, "deep": DEEP, "explodes": EXPLODES, "many": MANY}
LATE = (
    f"the query took longer than {SECONDS} s. Restrict the query. Or raise WEFT_QUERY_SECONDS and, if she has one, the "
    "limit of the user."
)
TOO_MANY = "the query found many times more rows in one tick than the limit of 1,000"
REASONS = {
    "backtracks": LATE,
    "deep": "the query nests too deep for Java",
    "explodes": TOO_MANY,
    "many": "the query found 1,500 new rows in one tick, but the limit is 1,000. "
    "Restrict the query to fewer rows, or raise WEFT_QUERY_ROWS.",
}


@pytest.mark.last
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("names", "product"),
    [(("innocent", "backtracks", "explodes"), ""), pytest.param(tuple(QUERIES), PRODUCT, marks=pytest.mark.slow)],
)
def test_a_query_beyond_its_limits_is_set_aside_and_the_others_continue(
    tmp_path: Path, names: tuple[str, ...], product: str
) -> None:
    done = _run(TICKS, tmp_path, json.dumps({name: QUERIES[name] for name in names}), product)
    assert done.stdout, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["first"]["innocent"][:2] == [5, "active"]
    for name in set(names) - {"innocent"}:
        rows, state, reason = result["first"][name]
        assert (rows, state) == (0, "failed"), name
        assert REASONS[name] in reason
        assert f"To run the query again: weft resume {name}." in reason
    assert result["free"]
    assert result["innocent"] == [0, 1, 2, 3, 4]
    assert result["again"]["innocent"][:2] == [0, "active"]
    assert result["again"]["explodes"][:2] == [0, "failed"]
    assert result["other"] == 150
    assert result["broken off"] == "noticed, not known"
    found = {"explodes": "3,375,000", "many": "1,500"}
    failed = {
        each: f"the query found {rows} new rows in one tick, but the limit is 1,000" for each, rows in found.items()
    }
    failed = {name: words for name, words in failed.items() if name in names}
    if product:
        failed["product"] = f"the query took longer than {SECONDS} s"
        assert "raise WEFT_QUERY_SECONDS" in done.stderr
    assert result["tried"] == {"innocent": 0, **dict.fromkeys(failed, 1)}
    assert all(f"failed: {words}" in done.stderr for words in failed.values())
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_jvm_that_is_killed_from_outside_is_no_querys_fault(tmp_path: Path) -> None:
    done = _run(KILLED, tmp_path, WEFT_QUERY_SECONDS="120")
    assert done.stderr == ""
    result = json.loads(done.stdout)
    assert {name: found[:2] for name, found in result.items()} == {"one": [5, "active"], "two": [7, "active"]}
