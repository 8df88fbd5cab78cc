"""If DuckDB fails in the middle of a tick, the tick computes the same answers in another way."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from replayed import HOUR, START, Answers, answers, load, replay_home
from weft.api import Weft
from weft.errors import ExecutionError
from weft.storage.temporal_sql import TemporalSql

TOTALS = {
    "counts": "SELECT newsgroup, COUNT(*) AS n, COUNT(inreplyto) AS replies FROM msgs GROUP BY newsgroup",
    "first": "SELECT newsgroup, inreplyto, n FROM (SELECT *, RANK() OVER (PARTITION BY newsgroup ORDER BY n DESC) AS p "
    "FROM (SELECT newsgroup, inreplyto, COUNT(*) AS n FROM msgs GROUP BY newsgroup, inreplyto) t) r WHERE p <= 1",
    "threads": "SELECT m.msgid, g.n FROM msgs m LEFT JOIN "
    "(SELECT inreplyto, COUNT(*) AS n FROM msgs GROUP BY inreplyto) g ON g.inreplyto = m.msgid",
    "before": "SELECT msgid, LAG(msgid) OVER (PARTITION BY newsgroup ORDER BY ts, msgid) AS back FROM msgs",
}
RECURSION = {
    "above": "WITH RECURSIVE up AS (SELECT msgid AS low, inreplyto AS high FROM msgs UNION "
    "SELECT up.low, m.inreplyto FROM up JOIN msgs m ON m.msgid = up.high) SELECT low, high FROM up"
}


def messages(first: int, last: int) -> list[tuple[Any, ...]]:
    return [(f"m{n}", f"g{n % 3}", f"m{n * 2 // 3}" if n % 4 else None, START + n * HOUR) for n in range(first, last)]


@dataclass(frozen=True)
class Failed:
    """The answers after a failed statement, the statements of that tick, and whether the tick asked for Spark."""

    answers: dict[str, Answers]
    statements: int
    asked: bool


class SparkAsked(Exception):
    """Raised where a tick would start Spark to repeat a computation."""


def no_spark() -> Any:
    raise SparkAsked


def home(folder: Path, queries: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Weft:
    """Open or make a home in which Spark cannot start. A new home has the queries, ticked at its thirtieth message."""
    new = not folder.exists()
    weft = replay_home(folder)
    monkeypatch.setattr(weft.opened, "session", no_spark)
    if new:
        for name, text in queries.items():
            load(weft, None, "msgs", [])  # type: ignore[arg-type]
            weft.install(name, text)
        ticked(weft, 0, 30)
    return weft


def ticked(weft: Weft, first: int, last: int) -> None:
    load(weft, None, "msgs", messages(first, last))  # type: ignore[arg-type]
    weft.tick(now=START + last * HOUR)
    assert {query.reason for query in weft.queries()} == {None}


@contextmanager
def failing(patch: pytest.MonkeyPatch, place: int) -> Iterator[list[str]]:
    """Let the statement of DuckDB with this number fail. The list has the statements so far."""
    seen: list[str] = []

    def counted(run: Callable[..., Any]) -> Callable[..., Any]:
        def counting(self: TemporalSql, sql: str) -> Any:
            seen.append(sql)
            if len(seen) == place:
                raise ExecutionError("the rows cannot be computed: Out of Memory Error")
            return run(self, sql)

        return counting

    def in_the_middle(self: TemporalSql, sql: str) -> Iterator[Any]:
        seen.append(sql)
        fails = len(seen) == place
        for piece in pieces(self, sql):
            yield piece
            if fails:
                break
        if fails:
            raise ExecutionError("the rows cannot be computed: Out of Memory Error")

    pieces = TemporalSql.batches
    with patch.context() as patched:
        patched.setattr(TemporalSql, "batches", in_the_middle)
        for name in ("rows", "one"):
            patched.setattr(TemporalSql, name, counted(getattr(TemporalSql, name)))
        yield seen


def begun_and_failed(folder: Path, queries: dict[str, str], monkeypatch: pytest.MonkeyPatch, place: int) -> Failed:
    """Tick a copy of the home ``begun`` twice. In the first of these ticks, a statement fails."""
    shutil.copytree(folder / "begun", folder / "home")
    weft, repeated = home(folder / "home", queries, monkeypatch), True
    with failing(monkeypatch, place) as seen, suppress(SparkAsked):
        ticked(weft, 30, 36)
        repeated = False
    ticked(weft, 36, 40)  # what the tick before stored is right, or is not there
    found = {name: answers(weft, name) for name in queries}
    weft.close()
    shutil.rmtree(folder / "home")
    return Failed(found, len(seen), repeated)


@pytest.mark.parametrize("sample", [8, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize("queries", [TOTALS, RECURSION], ids=["totals", "recursion"])
def test_each_statement_that_continues_a_state_may_fail(
    queries: dict[str, str], sample: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tick asks for Spark only if DuckDB cannot compute the rows from the tables either."""
    home(tmp_path / "begun", queries, monkeypatch).close()
    wanted = begun_and_failed(tmp_path, queries, monkeypatch, 0)
    assert wanted.statements > 20 and not wanted.asked
    places = list(range(1, wanted.statements + 1))
    tried = [
        begun_and_failed(tmp_path, queries, monkeypatch, place)
        for place in (places if sample is None else random.Random(27).sample(places, sample))
    ]
    assert [each.answers for each in tried] == [wanted.answers] * len(tried)
    assert 0 < sum(each.asked for each in tried) < len(tried)
