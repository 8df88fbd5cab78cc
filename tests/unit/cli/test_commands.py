"""Commands that need no Spark, through the real command line: what they print, and their exit codes."""

from __future__ import annotations

import errno
import json
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from definitions import statements
from delta_tables import write_ledger
from letters import letter, spool
from weft.api import Weft as Home
from weft.catalog.records import Choice, Count
from weft.cli import table_commands as tables_commands
from weft.runtime.session import session_started

Weft = Callable[..., Any]

UNANSWERED = (
    "SELECT m.msgid FROM msgs m WHERE m.ts < NOW() - INTERVAL 4 WEEKS "
    "AND NOT EXISTS (SELECT * FROM msgs m1 WHERE m1.inreplyto = m.msgid)"
)


@pytest.fixture
def made(weft: Weft, home: Path) -> Path:
    """A replay home with the table of mail, empty."""
    from weft.api.weft import Weft as Home
    from weft.extraction.mail.message import MAIL_COLUMNS, MAIL_KEY

    assert weft("init", "--clock", "replay").code == 0
    with Home.open(home) as opened:
        opened.catalog.tables.create("msgs", MAIL_COLUMNS, MAIL_KEY, "date")
    return home


def test_no_home_is_a_refusal_that_says_what_to_do(weft: Weft) -> None:
    told = weft("tables")
    assert told.code == 2
    assert "weft init" in told.err
    assert not told.out


def test_a_homes_clock_is_fixed(weft: Weft) -> None:
    assert weft("init", "--clock", "replay", "--json").json["clock"] == "replay"
    assert weft("init", "--clock", "replay").code == 0
    told = weft("init", "--clock", "wall")
    assert told.code == 2
    assert "replay" in told.err


def test_a_wrong_command_gets_the_nearest(weft: Weft) -> None:
    told = weft("instal", "x", "SELECT 1")
    assert told.code == 2
    assert "install" in told.err


def test_usage_errors_are_refusals(weft: Weft) -> None:
    assert weft("describe").code == 2
    assert weft("tables", "--nonsense").code == 2
    assert weft("results", "x", "--limit", "many").code == 2


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("redeliver a1 1", "takes only NAME; not expected: 1 Write it with its option: --from ORDINAL."),
        ("mute a1 file:a1.csv", "takes only NAME; not expected: file:a1.csv Write it with its option: --to CHANNEL."),
        ("resume a1 a2", "takes only NAME; not expected: a2 See `weft resume --help`."),
        ("results a1 7", "--after N or --limit N."),
        ("install q SELECT a FROM t", "not expected: a FROM t Put the whole query in quotes."),
        ("tables t", "weft tables takes no arguments; not expected: t See `weft tables --help`."),
    ],
)
def test_an_argument_too_many_gets_the_option_that_it_may_be_for(weft: Weft, typed: str, named: str) -> None:
    told = weft(*typed.split())
    assert told.code == 2 and "Usage: weft" in told.err
    assert named in " ".join(told.err.replace("│", " ").split())
    error = json.loads(weft(*typed.split(), "--json").err)["error"]
    assert f"{error['message']} {error['hint']}".endswith(named.split("│")[0])


def test_the_home_comes_from_the_environment(weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_HOME", str(tmp_path / "elsewhere"))
    assert weft("init").code == 0
    assert (tmp_path / "elsewhere" / "catalog.sqlite").exists()


def test_a_defect_is_one_line_and_a_log(weft: Weft, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object, **__: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(tables_commands, "table", break_down)
    told = weft("tables")
    assert told.code == 1
    assert "on purpose" in told.err
    assert "ZeroDivisionError: on purpose" in (made / "logs" / "weft.log").read_text()


def test_a_full_disk_is_no_defect(weft: Weft, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "weft.out")

    monkeypatch.setattr(tables_commands, "table", fill)
    told = weft("tables")
    assert told.code == 1
    assert told.err.startswith("failed: No space left on device (weft.out)")


def test_an_interrupt_ends_quietly(weft: Weft, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tables_commands, "table", interrupt)
    assert weft("tables").code == 130


def test_explain_works_before_there_is_a_home(weft: Weft, home: Path) -> None:
    told = weft("explain", UNANSWERED)
    assert told.code == 0
    assert "is not a Weft home yet" in told.out
    assert "4 weeks have passed since m.ts" in told.out
    assert not home.exists()


def test_explain_is_short_and_of_what_is_installed_too(weft: Weft, made: Path) -> None:
    brief = weft("explain", UNANSWERED).out.splitlines()
    assert brief[:2] == [
        "An answer appears when more than 4 weeks have passed since m.ts",
        "if at that instant there is no row of msgs (as m1) with m1.inreplyto = m.msgid",
    ]
    assert len(brief) <= 10 and brief[-2].startswith("Next due: the next tick after") and "--full" in brief[-1]
    assert weft("install", "q4", UNANSWERED).code == 0
    installed = weft("explain", "Q4").out.splitlines()
    assert installed[:2] == brief[:2] and installed[-3:-1] == [
        "Answers so far: none.",
        "Next due: the next tick, which is its first.",
    ]
    whole = weft("explain", UNANSWERED, "--full").out
    assert weft("explain", "q4", "--full").out == whole and "msgs__by_inreplyto" in whole
    assert weft("pause", "q4").code == 0 and "never while it is paused" in weft("explain", "q4").out
    found = weft("explain", "q4", "--json").json
    assert (found["name"], found["brief"][0], len(found["q_i"])) == ("q4", brief[0], 1)
    for wrong in (("q5",), ("q4", "--once"), ("q4", "--from", "now"), ("--tick", "q4", "--full")):
        assert weft("explain", *wrong).code == 2


def test_explain_once_shows_what_is_asked_at_one_instant(weft: Weft, home: Path) -> None:
    text = "SELECT msgid FROM msgs FOR SYSTEM_TIME AS OF TIMESTAMP '1993-04-05'"
    refused = weft("explain", text)
    assert refused.code == 2 and "weft try" in refused.err
    told = weft("explain", text, "--once").out
    assert "msgs FOR SYSTEM_TIME ALL" in told and "ts <= TIMESTAMP '1993-04-05" in told and ":t AS _first_at" in told
    assert len(weft("explain", text, "--once", "--json").json["selects"]) == 1


def test_explain_as_json(weft: Weft, made: Path) -> None:
    found = weft("explain", UNANSWERED, "--json").json
    assert found["assumed"] is None
    assert found["rows_without_new_data"] is True
    assert [branch["driver"] for branch in found["q_i"]] == ["now_from"]
    assert ":tau" in found["q_i"][0]["sql"]
    assert found["parameters"] == [{"name": "p1", "type": "INTERVAL", "value": "INTERVAL '28' DAY"}]
    assert {view["name"] for view in found["views"]} == {"msgs__news", "msgs__by_inreplyto"}


def test_a_refused_query_points_at_the_place(weft: Weft, made: Path) -> None:
    told = weft("explain", "SELECT msgid, sbject FROM msgs")
    assert told.code == 2
    assert "subject" in told.err
    line, mark = told.err.splitlines()[1:3]
    assert line[mark.index("^") :].startswith("sbject")


def test_a_query_comes_from_a_file_too(weft: Weft, made: Path, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT msgid\nFROM msgs")
    assert weft("explain", "-f", "q.sql").code == 0
    assert weft("explain", "-f", "none.sql").code == 2
    assert weft("explain", "SELECT 1", "-f", "q.sql").code == 2


def test_installing_listing_and_changing(weft: Weft, made: Path) -> None:
    told = weft("install", "q4", UNANSWERED, "--user", "anna", "--every", "10m", "--to", "file:q4.jsonl", "--json")
    assert told.json["every_us"] == 600_000_000
    assert told.json["user"] == "anna"
    assert weft("install", "q4", UNANSWERED).code == 2
    assert weft("install", "q5", UNANSWERED, "--to", "file:../q4.jsonl").code == 2
    assert weft("install", "q5", UNANSWERED, "--to", "pigeon:home").code == 2
    assert weft("install", "q5", UNANSWERED, "--every", "soon").code == 2
    assert weft("install", "bad name", UNANSWERED).code == 2
    assert weft("install", "other", UNANSWERED.replace("4 WEEKS", "2 WEEKS")).out.count("with 1 other query") == 1
    assert [query["name"] for query in weft("queries", "--json").json] == ["q4", "other"]
    shown = weft("show", "q4", "--json").json
    (channel,) = shown["channels"]
    found = tuple(channel[key] for key in ("channel", "delivered", "state", "error"))
    assert found == ("file:q4.jsonl", 0, "active", None)
    assert shown["queries_of_the_plan"] == 2
    assert "file:q4.jsonl" in weft("show", "q4").out
    assert weft("pause", "q4", "--json").json["state"] == "paused"
    assert weft("pause", "q4").code == 2
    assert weft("tick", "q4", "--now", "1993-05-01").code == 2
    assert weft("resume", "q4").code == 0
    assert weft("remove", "q4").code == 0
    told = weft("show", "q4")
    assert told.code == 2
    assert "other" in told.err


def test_results_of_a_query_without_any(weft: Weft, made: Path) -> None:
    weft("install", "q", "SELECT msgid FROM msgs")
    assert weft("results", "q", "--json").out == ""
    assert "0 of 0" in weft("results", "q").out


def test_answers_are_a_table_that_can_be_described(weft: Weft, made: Path) -> None:
    assert weft("install", "late-ones", "SELECT m.msgid, m.date AS _ordinal_2 FROM msgs m", "--user", "ann").code == 2
    assert weft("install", "late-ones", "SELECT m.msgid FROM msgs m", "--user", "ann").code == 0
    assert "results.NAME: see `weft describe results.NAME`" in weft("tables").out
    empty = weft("describe", "results.late-ones")
    assert empty.out.startswith("results.late-ones: 0 answers of the query late-ones\n")
    with Home.open(made) as home, home.writing("a test") as writer:
        query = home.catalog.queries.named("late-ones")
        tick = writer.ticks.plan(10, Choice((query.query_id,)), 0)
        write_ledger(made / "ledger", tick.tick_id, [(query.query_id, n, 5, [f"<{n}@x>"]) for n in (1, 2, 3)])
        writer.ticks.commit(tick.tick_id, {query.query_id: Count(3, None, None, 5)}, [], 0)
    told = weft("describe", "Results.LATE-ones", "--samples", "1")
    assert (
        "results.late-ones: 3 answers of the query late-ones, _first_at from 1970-01-01 00:00:00.000005 UTC" in told.out
    )
    assert [line.split() for line in told.out.splitlines() if "<" in line] == [["msgid", "STRING", "<3@x>"]]
    assert "FROM results.`late-ones`" in told.out
    found = weft("describe", "results.late-ones", "--json", "--samples", "2").json
    assert found["samples"][1] == {"msgid": "<3@x>", "_first_at": "1970-01-01T00:00:00.000005Z", "_ordinal": 3}
    missing = weft("describe", "results.late")
    assert (missing.code, "Did you mean late-ones?" in missing.err) == (2, True)
    unknown = weft("explain", "SELECT n FROM results.msgs")
    assert "there is no query 'msgs', so no results.msgs" in unknown.err
    assert "Write FROM msgs." in unknown.err


def test_a_channel_that_cannot_take_the_answers_is_refused_when_the_query_is_installed(weft: Weft, made: Path) -> None:
    (made / "files").mkdir(exist_ok=True)
    (made / "files/a.jsonl").write_text('{"_ordinal": 1, "_first_at": "", "_tick": 1, "sender": "ann"}\n')
    told = weft("install", "q", "SELECT m.msgid FROM msgs m", "--to", "file:a.jsonl")
    assert (told.code, "does not have the columns _ordinal, _first_at, _tick, msgid (file:a.jsonl)" in told.err) == (
        2,
        True,
    )
    told = weft("install", "q", "SELECT m.msgid AS `a b` FROM msgs m", "--to", "delta:t")
    assert (told.code, "a Delta table cannot have a column named 'a b'" in told.err) == (2, True)
    assert weft("queries", "--json").json == []
    assert weft("install", "q", "SELECT m.sender FROM msgs m", "--to", "file:a.jsonl", "--to", "delta:t").code == 0


def test_a_tick_of_many_queries_tells_of_few(weft: Weft, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from weft.api.standing import NewQuery
    from weft.api.weft import Weft as Home
    from weft.cli.ticks import print_tick
    from weft.execution.tick_report import QueryOutcome, TickReport

    with Home.open(made) as opened:
        queries = opened.install_all(
            NewQuery(f"q{n}", f"SELECT msgid FROM msgs WHERE sender = '{n}'") for n in range(300)
        )
        outcomes = tuple(
            QueryOutcome(query, 0, 5, max(0, number - 200), None if number > 200 else "nothing came", None)
            for number, query in enumerate(queries)
        )
        capsys.readouterr()
        with statements() as seen:
            print_tick(opened, TickReport(1, 5, outcomes))
        assert len(seen) < 20
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 50
    told = [line.split()[0] for line in lines if line.split() and line.split()[0][1:].isdigit() and "quer" not in line]
    assert told == [f"q{number}" for number in range(299, 259, -1)]
    assert lines[-2:] == [
        "59 more queries with 1,770 new answers",
        "201 queries: nothing came; time alone adds no answers",
    ]


def test_one_of_many_queries_that_cannot_stand_is_named(made: Path) -> None:
    from weft.api.standing import NewQuery
    from weft.api.weft import Weft as Home
    from weft.errors import WeftError

    with Home.open(made) as opened:
        for bad in (NewQuery("bad", "SELECT nothing FROM msgs"), NewQuery("bad", "SELECT msgid FROM msgs", every="x")):
            with pytest.raises(WeftError) as refused:
                opened.install_all([NewQuery("good", "SELECT msgid FROM msgs"), bad])
            assert "bad" in str(refused.value)
        assert opened.queries() == ()


def test_an_idle_tick_says_why_and_starts_no_jvm(weft: Weft, made: Path) -> None:
    weft("install", "q", "SELECT msgid FROM msgs")
    told = weft("tick", "--now", "1993-05-01")
    assert told.code == 0
    assert "msgs is empty" in told.out
    (query,) = weft("tick", "--now", "1993-05-02", "--json").json["ticks"][0]["queries"]
    assert query["rows"] == 0
    assert "nothing arrived" in query["reason"]
    assert weft("tick", "--now", "1993-05-01").code == 2
    assert weft("quarantine", "list").code == 0
    assert weft("tables", "--json").json[0]["rows"] == 0
    assert weft("describe", "msgs").code == 0
    assert not session_started()


def test_loading_starts_no_jvm(weft: Weft, home: Path, tmp_path: Path) -> None:
    assert weft("init", "--clock", "replay").code == 0
    spool(tmp_path / "spool", {"1": letter(Date="1 Apr 93 00:00 GMT"), "2": b"\0"})
    orders = tmp_path / "orders.csv"
    into = ("--table", "orders", "--key", "id", "--ts-from", "placed", "--evolve")
    first = "id,placed\n1,1993-04-01\n2,1993-04-02\n"
    for lines in (first, "id,placed,paid\n2,1993-04-02,1993-04-05\n3,1993-04-03,\n"):
        orders.write_text(lines)
        told = weft("ingest", "file", str(orders), *into)
        assert told.code == 0, told.err
    assert "1 stored, 1 known" in told.out
    for counts in ("1 stored, 0 known, 1 quarantined", "0 stored, 2 known"):
        assert counts in weft("ingest", "mail", str(tmp_path / "spool"), "--ts-from", "date").out
    assert weft("quarantine", "retry").code == 0
    assert weft("describe", "orders").code == 0
    assert [each["rows"] for each in weft("tables", "--json").json] == [3, 1]
    assert not session_started()


def test_from_now_closes_what_lies_before(weft: Weft, made: Path) -> None:
    assert weft("install", "q", "SELECT msgid FROM msgs", "--from", "now").code == 2  # nothing has set the clock
    weft("tick", "--now", "1993-05-01")
    told = weft("install", "q", "SELECT msgid FROM msgs", "--from", "now", "--json")
    assert told.json["from_instant"] == "1993-05-01T00:00:00Z"
    assert weft("tick", "--now", "1993-04-30").code == 2
    assert weft("tick", "--now", "1993-05-02").code == 0


def test_run_is_for_wall_homes(weft: Weft, made: Path) -> None:
    told = weft("run")
    assert told.code == 2
    assert "--now" in told.err


def test_run_with_json_prints_nothing_else(weft: Weft, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.api.weft import Weft as Home
    from weft.delivery.outbox import Delivered
    from weft.errors import LeaseBusy

    def run(self: Home, stop: object, *, delivered: Any, troubled: Any, **_: object) -> None:
        troubled(LeaseBusy("another writer is at work"))
        delivered([Delivered("q", "file:q.jsonl", 2, 2, None, False)])

    monkeypatch.setattr(Home, "run", run)
    assert weft("init").code == 0
    told = weft("run", "--json")
    assert told.json["delivered"] == [{"query": "q", "channel": "file:q.jsonl", "rows": 2, "error": None}]
    assert "another writer is at work" in told.err


def test_doctor_tells_line_by_line(weft: Weft, made: Path) -> None:
    found = weft("doctor", "--json").json
    assert {"python", "java", "spark and delta", "home"} <= {check["name"] for check in found}


def test_explain_is_quick_and_loads_nothing_heavy(made: Path) -> None:
    script = (
        "import sys\n"
        "from weft.cli.app import run\n"
        f"code = run(['explain', '--full', {UNANSWERED!r}])\n"
        "heavy = {'pyspark', 'sqlalchemy', 'duckdb', 'pyarrow', 'deltalake', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert "msgs__by_inreplyto" in done.stdout
    # The processor's time, start of the process included: the wall's would measure what else the machine does.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.8


def test_a_text_with_control_characters_is_shown_harmless(weft: Weft, made: Path) -> None:
    sql = "SELECT msgid FROM msgs\nWHERE subject = '\x1b]0;t\x07'"
    assert weft("install", "q", sql).code == 0
    for told in (weft("show", "q"), weft("explain", sql)):
        assert told.code == 0
        assert not {"\x1b", "\x07"} & set(told.out)
        assert r"'\x1b]0;t\x07'" in told.out


def test_a_reader_that_has_seen_enough_is_no_failure(made: Path) -> None:
    command = [sys.executable, "-m", "weft", "tables", "--home", str(made)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


def test_explain_takes_no_damaged_home_for_an_empty_one(weft: Weft, made: Path) -> None:
    (made / "tables" / "1-msgs").mkdir(parents=True)
    (made / "catalog.sqlite").unlink()
    told = weft("explain", "SELECT msgid FROM msgs")
    assert told.code == 1
    assert "its data exists" in told.err


def test_a_channel_that_failed_is_resumed_before_it_is_parked(weft: Weft, made: Path) -> None:
    from weft.api.weft import Weft as Home

    assert weft("install", "q", "SELECT msgid FROM msgs", "--to", "file:q.jsonl").code == 0
    assert weft("resume", "q").code == 2
    with Home.open(made) as opened, opened.catalog.delivering(opened.clock) as sender:
        [subscription] = opened.catalog.subscriptions.all()
        sender.subscriptions.note_failure(subscription.sub_id, "the disk is full", 10**18)
    assert weft("resume", "q").code == 0
    with Home.open(made) as opened:
        [subscription] = opened.catalog.subscriptions.all()
    assert (subscription.next_attempt_at, subscription.last_error, subscription.attempts) == (None, None, 0)


def test_data_cannot_speak_to_the_terminal() -> None:
    from weft.cli.printing import plain

    assert "\x1b" not in plain("\x1b[31mred\x07")
    assert plain("a\n b") == "a b"
    assert len(plain("x" * 10_000)) <= 300


def test_a_query_that_fits_no_more_is_told_beside_the_others(weft: Weft, made: Path) -> None:
    assert weft("install", "bad", "SELECT msgid FROM msgs").code == 0
    assert weft("install", "good", "SELECT subject FROM msgs").code == 0
    with sqlite3.connect(made / "catalog.sqlite") as connection:
        connection.execute("UPDATE plans SET signature = 'another' WHERE plan_id = 1")
    connection.close()
    told = weft("tick", "--now", "1993-05-01")
    assert told.code == 1
    assert "good" in told.out
    assert "msgs is empty" in told.out
    assert "set aside" in told.out
    assert weft("show", "bad", "--json").json["state"] == "failed"
    again = weft("tick", "--now", "1993-05-02", "--json")
    assert again.code == 0
    assert [query["name"] for query in again.json["ticks"][0]["queries"]] == ["good"]


@pytest.mark.parametrize("killed", [False, True])
def test_a_home_that_cannot_be_written_is_read(weft: Weft, made: Path, killed: bool) -> None:
    """``killed``: SQLite's log is still beside the catalog, as a process leaves it that was killed."""
    assert weft("install", "q", "SELECT msgid FROM msgs").code == 0
    if killed:
        program = (
            "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
            "c.execute(\"UPDATE queries SET user = 'ben'\"); c.commit(); os.kill(os.getpid(), 9)"
        )
        subprocess.run([sys.executable, "-c", program, str(made / "catalog.sqlite")], check=False)
        assert (made / "catalog.sqlite-wal").stat().st_size
        (made / "catalog.sqlite-shm").unlink()
    places = [made, *made.rglob("*")]
    modes = {place: place.stat().st_mode for place in places}
    # Root may write whatever the modes say, unless it goes without that right.
    without = ["setpriv", "--bounding-set", "-dac_override", "--inh-caps", "-dac_override"]
    command = [*(without if os.geteuid() == 0 else []), sys.executable, "-m", "weft"]
    env = {**os.environ, "WEFT_HOME": str(made)}
    try:
        for place in places:
            place.chmod(0o555 if place.is_dir() else 0o444)
        for arguments in (["show", "q"], ["results", "q"], ["tables"], ["explain", "SELECT msgid FROM msgs"]):
            done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, env=env)
            assert done.returncode == 0, done.stderr
            assert arguments[0] != "show" or not killed or "for ben" in done.stdout
        refused = subprocess.run([*command, "pause", "q"], capture_output=True, text=True, check=False, env=env)
        assert refused.returncode == 1
        assert "is writable" in refused.stderr
    finally:
        for place, mode in modes.items():
            place.chmod(mode)


def test_all_reasons_of_a_refused_query_are_printed(weft: Weft, made: Path) -> None:
    text = "SELECT nosuch, COUNT(*) AS n FROM msgs WHERE rand() < 1"
    told = weft("explain", text)
    assert told.code == 2
    lines = told.err.splitlines()
    assert lines[0] == "refused: 3 reasons"
    assert lines[1:4] == ["1. there is no column 'nosuch' (line 1, column 8)", f"    {text}", "           ^"]
    assert [line[:10] for line in lines if line[:2] in ("2.", "3.")] == ["2. COUNT()", "3. RAND() "]
    error = json.loads(weft("explain", text, "--json").err)["error"]
    assert error["outcome"] == "refused"
    assert [reason["where"] for reason in error["reasons"]] == [
        "line 1, column 8",
        "line 1, column 16",
        "line 1, column 46",
    ]
    assert all(reason["hint"] for reason in error["reasons"])


def test_an_order_is_told_by_explain_and_install(weft: Weft, made: Path) -> None:
    text = "SELECT msgid, ts FROM msgs ORDER BY ts DESC"
    told = "`weft try` and `weft results`; answers are delivered"
    assert told in weft("explain", text).out
    assert told in weft("install", "sorted", text).out
    assert told in weft("explain", "sorted").out
    assert told not in weft("install", "plain", "SELECT msgid FROM msgs").out
