"""A whole session on the command line: load a history, try and install queries, tick, deliver."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from weft.cli.app import run
from weft.demo.netnews import Article, write_spool
from weft.execution import states
from weft.planning import state_text
from weft.storage.temporal_sql import TemporalSql

BEGIN = datetime(1993, 4, 5, tzinfo=timezone.utc)
Q3 = "SELECT m.msgid FROM msgs m, msgs m1 WHERE m1.inreplyto = m.msgid AND m1.newsgroup = 'comp.databases'"
Q4 = (
    "SELECT m.msgid FROM msgs m WHERE m.ts < NOW() - INTERVAL 4 WEEKS "
    "AND NOT EXISTS (SELECT * FROM msgs m1 WHERE m1.inreplyto = m.msgid)"
)
QUIET = (
    "SELECT m.msgid FROM msgs m WHERE NOT EXISTS "
    "(SELECT * FROM msgs r WHERE r.inreplyto = m.msgid AND r.ts > NOW() - INTERVAL 14 DAYS)"
)
"""The query has no closed form. Its first delivery runs the branches with an open window."""


def _article(name: str, days: float, group: str = "comp.databases", to: str | None = None) -> Article:
    date = BEGIN + timedelta(days=days)
    return Article(f"{name}@x", "ada", name, date, (group,), (f"{to}@x",) if to else (), "text")


@pytest.fixture
def weft(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """Run a command that must succeed. Return the value of its JSON output with --json, otherwise its text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_HOME", raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        found = run(arguments)
        captured = capsys.readouterr()
        assert found == code, captured.out + captured.err
        assert "Traceback" not in captured.out + captured.err
        if "--json" in arguments and arguments[0] != "results":
            return json.loads(captured.out)
        return captured.out + captured.err

    return call


def _ids(weft: Callable[..., Any], name: str, *more: str) -> list[str]:
    return [json.loads(line)["msgid"] for line in weft("results", name, "--json", *more).splitlines()]


def test_a_whole_session(weft: Callable[..., Any], tmp_path: Path, spark: SparkSession) -> None:
    numbers: dict[str, int] = {}
    write_spool([_article("a", 1), _article("b", 2, "sci.space"), _article("c", 3, to="a")], tmp_path / "one", numbers)
    (tmp_path / "one" / "sci" / "space" / "99").write_bytes(b"Message-ID: <noise@x>\n\n\x00")
    weft("init", "--clock", "replay")
    loaded = weft("ingest", "mail", "one", "--ts-from", "date", "--json")
    assert (loaded["stored"], loaded["quarantined"], loaded["late"]) == (3, 1, 0)
    assert weft("ingest", "mail", "one", "--ts-from", "date", "--json")["known"] == 4

    assert weft("tables", "--json")[0]["rows"] == 3
    assert weft("describe", "msgs", "--json")["samples"]
    tried = weft("try", Q3, "--json")
    assert (tried["rows"], tried["count"], tried["now"]) == ([{"msgid": "a@x"}], 1, "1993-04-08T00:00:00Z")
    assert weft("try", Q4, "--now", "1993-05-20", "--json")["count"] == 2
    assert weft("try", Q4, "--now", "1993-05-20", "--limit", "1", "--json")["rows"] == [{"msgid": "b@x"}]
    weft("try", "SELECT msgid FROM nowhere", code=2)

    weft("install", "q3", Q3, "--user", "anna", "--to", "file:q3.jsonl")
    weft("install", "q4", Q4, "--user", "ben")
    weft("install", "quiet", QUIET)
    weft("install", "late", Q3, "--from", "now")
    result = weft("tick", "--now", "1993-04-12", "--json")["ticks"][0]["queries"]
    assert [(each["name"], each["rows"]) for each in result] == [("q3", 1), ("q4", 0), ("quiet", 3), ("late", 0)]
    q4 = result[1]
    assert q4["next_by_time"] == "1993-05-05T00:00:00.000001Z"  # b, four weeks old
    assert _ids(weft, "quiet") == ["a@x", "b@x", "c@x"]

    text = weft("tick", "--now", "1993-05-10")
    assert "no answer is due by time alone" in text
    assert sorted(_ids(weft, "q4")) == ["b@x", "c@x"]

    write_spool([_article("d", 36, to="b")], tmp_path / "two", numbers)
    weft("ingest", "mail", "two", "--ts-from", "date")
    weft("tick", "--now", "1993-05-17")
    assert _ids(weft, "q3") == ["a@x", "b@x"]
    assert _ids(weft, "q3", "--after", "1", "--limit", "5") == ["b@x"]
    assert _ids(weft, "late") == ["b@x"]
    assert sorted(_ids(weft, "q4")) == ["b@x", "c@x"]  # the late reply does not retract an answer
    lines = (tmp_path / "weft-home" / "files" / "q3.jsonl").read_text().splitlines()
    assert [json.loads(line)["msgid"] for line in lines] == ["a@x", "b@x"]
    assert weft("show", "q3", "--json")["channels"][0]["delivered"] == 2

    _pausing_and_removing(weft, tmp_path, numbers)
    assert "99" in weft("quarantine", "list")
    assert "1 stay" in weft("quarantine", "retry")
    assert all(check["ok"] for check in weft("doctor", "--json"))


def _pausing_and_removing(weft: Callable[..., Any], tmp_path: Path, numbers: dict[str, int]) -> None:
    weft("pause", "q3")
    write_spool([_article("e", 45), _article("f", 46, to="e")], tmp_path / "three", numbers)
    weft("ingest", "mail", "three", "--ts-from", "date")
    weft("tick", "--now", "1993-05-24")
    weft("resume", "q3", "--skip")
    weft("tick", "--now", "1993-05-25")
    assert _ids(weft, "q3") == ["a@x", "b@x"]
    assert _ids(weft, "late") == ["b@x", "e@x"]

    weft("remove", "late", "--purge")
    weft("results", "late", code=2)
    assert _ids(weft, "q3") == ["a@x", "b@x"]
    weft("tick", "--now", "1993-06-30")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The SQL that Spark runs in this test, and the SQL with which DuckDB computes states and answers."""
    ran: list[str] = []
    of_spark, of_duckdb, in_pieces = SparkSession.sql, TemporalSql.rows, TemporalSql.batches

    def listening(self: SparkSession, text: str, *more: Any, **named: Any) -> Any:
        ran.append(text)
        return of_spark(self, text, *more, **named)

    def computing(self: TemporalSql, text: str) -> Any:
        ran.append(text)
        return of_duckdb(self, text)

    monkeypatch.setattr(SparkSession, "sql", listening)

    def piece_by_piece(self: TemporalSql, text: str) -> Any:
        ran.append(text)
        return in_pieces(self, text)

    monkeypatch.setattr(TemporalSql, "rows", computing)
    monkeypatch.setattr(TemporalSql, "batches", piece_by_piece)
    return ran


def test_a_tick_runs_what_explain_prints(
    weft: Callable[..., Any], tmp_path: Path, spark: SparkSession, ran: list[str]
) -> None:
    write_spool([_article("a", 1), _article("c", 3, to="a")], tmp_path / "one", {})
    weft("init", "--clock", "replay")
    weft("ingest", "mail", "one", "--ts-from", "date")
    weft("install", "q4", Q4)
    explained = weft("explain", Q4, "--json")
    weft("tick", "--now", "1993-05-01")
    first = [sql["sql"].replace(":t", "TIMESTAMP '1993-05-01 00:00:00.000000+00:00'") for sql in explained["q_m"]]
    assert all(any(text in each for each in ran) for text in first)
    ran.clear()
    weft("tick", "--now", "1993-05-10")
    tau, t = (f"TIMESTAMP '1993-05-{day} 00:00:00.000000+00:00'" for day in ("01", "10"))
    later = [sql["sql"].replace(":tau", tau).replace(":t", t) for sql in explained["q_i"]]
    assert all(any(text in each for each in ran) for text in later)


STATES = {
    "counts": "SELECT newsgroup, COUNT(*) AS n FROM msgs GROUP BY newsgroup HAVING COUNT(*) > 1",
    "senders": "SELECT newsgroup, COUNT(DISTINCT sender) AS n FROM msgs WHERE ts > NOW() - INTERVAL 30 DAYS "
    "GROUP BY newsgroup",
    "joined": "SELECT m.msgid, r.n FROM msgs m JOIN (SELECT inreplyto, COUNT(DISTINCT sender) AS n FROM msgs "
    "GROUP BY inreplyto) r ON r.inreplyto = m.msgid",
}


def _plain(sql: str) -> str:
    """The name of a state depends on its window, and explain lays out the SQL."""
    return re.sub(r"\s+", "", re.sub(r"state_[0-9a-f]{12}", "state", sql))


@pytest.mark.parametrize(
    ("name", "engine"), [("counts", "Spark"), ("senders", "DuckDB"), ("joined", "Spark")], ids=lambda each: each
)
def test_a_tick_computes_states_as_explain_prints(
    weft: Callable[..., Any],
    tmp_path: Path,
    spark: SparkSession,
    ran: list[str],
    name: str,
    engine: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if engine == "Spark":
        for module in (states, state_text):
            monkeypatch.setattr(module, "same_in_duckdb", lambda _: False)
    numbers: dict[str, int] = {}
    write_spool([_article("a", 1), _article("c", 3, to="a")], tmp_path / "one", numbers)
    weft("init", "--clock", "replay")
    weft("ingest", "mail", "one", "--ts-from", "date")
    weft("install", name, STATES[name])
    explained = weft("explain", name, "--json")
    t, tau = (f"TIMESTAMP '1993-05-{day} 00:00:00.000000+00:00'" for day in ("10", "01"))
    weft("tick", "--now", "1993-05-01")
    first = [step["sql"].replace(":t", tau) for state in explained["q_m_states"] for step in state["steps"][-1:]]
    assert first and all(any(_plain(text) in _plain(each) for each in ran) for text in first)
    ran.clear()
    write_spool([_article("d", 28, to="a"), _article("e", 29, to="c")], tmp_path / "two", numbers)
    weft("ingest", "mail", "two", "--ts-from", "date")
    result = weft("explain", "--tick", name, "--json")
    print(weft("explain", "--tick", name))
    assert result["way"] == "duckdb" and {each["by"] for each in result["relations"]} == {"driver"}
    assert any("__news__of_state_" in each["view"] and each["rows"] == 2 for each in result["relations"])
    weft("tick", "--now", "1993-05-10")
    steps = [step for state in explained["states"] for step in state["steps"]]
    ends = [state["steps"][-1] for state in (*explained["q_m_states"], *explained["states"])]
    own = name == "counts"  # DuckDB continues running totals
    assert {each["engine"] for each in ends} == {engine, *(("DuckDB",) if own else ())}
    texts = [step["sql"].replace(":tau", tau).replace(":t", t) for step in steps]
    run = [text for text in texts if text.count("\n") > 3]  # the other steps are views over tables
    missing = [text for text in run if not any(_plain(text) in _plain(each) for each in ran)]
    assert len(run) >= 2 and not missing, missing
    read = set(re.findall(r"\w+", " ".join(texts)))
    assert {step["name"] for step in steps[:-1] if step["name"] not in read} <= {explained["states"][0]["name"]}
