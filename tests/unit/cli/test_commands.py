"""Commands that need no Spark, through the real command line: what they print, and their exit codes."""

from __future__ import annotations

import errno
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
from letters import letter, spool
from weft.api import Weft as Home
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


def test_a_defect_is_one_line_and_a_log(weft: Weft, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object, **__: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(tables_commands, "table", break_down)
    output = weft("tables")
    assert output.code == 1
    assert "on purpose" in output.err
    assert "ZeroDivisionError: on purpose" in (made / "logs" / "weft.log").read_text()


def test_a_full_disk_is_no_defect(weft: Weft, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "weft.out")

    monkeypatch.setattr(tables_commands, "table", fill)
    output = weft("tables")
    assert output.code == 1
    assert output.err.startswith("failed: No space left on device (weft.out)")


def test_an_interrupt_ends_quietly(weft: Weft, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tables_commands, "table", interrupt)
    assert weft("tables").code == 130


def test_an_interrupt_while_modules_are_imported_ends_quietly() -> None:
    script = (
        "import signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'weft.cli.app':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.argv = ['weft', 'tables']\n"
        "from weft.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_tick_of_many_queries_prints_a_few(weft: Weft, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from weft.api.standing import NewQuery
    from weft.api.weft import Weft as Home
    from weft.cli.ticks import print_tick
    from weft.execution.ticks.tick_report import QueryOutcome, TickReport

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
    output = [
        line.split()[0] for line in lines if line.split() and line.split()[0][1:].isdigit() and "quer" not in line
    ]
    assert output == [f"q{number}" for number in range(299, 259, -1)]
    assert lines[-2:] == [
        "59 more queries with 1,770 new answers",
        "201 queries: nothing came; no answer is due by time alone",
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


def test_loading_starts_no_jvm(weft: Weft, home: Path, tmp_path: Path) -> None:
    assert weft("init", "--clock", "replay").code == 0
    spool(tmp_path / "spool", {"1": letter(Date="1 Apr 93 00:00 GMT"), "2": b"\0"})
    orders = tmp_path / "orders.csv"
    into = ("--table", "orders", "--key", "id", "--ts-from", "placed", "--evolve")
    first = "id,placed\n1,1993-04-01\n2,1993-04-02\n"
    for lines in (first, "id,placed,paid\n2,1993-04-02,1993-04-05\n3,1993-04-03,\n"):
        orders.write_text(lines)
        output = weft("ingest", "file", str(orders), *into)
        assert output.code == 0, output.err
    assert "1 stored, 1 known" in output.out
    for counts in ("1 stored, 0 known, 1 quarantined", "0 stored, 2 known"):
        assert counts in weft("ingest", "mail", str(tmp_path / "spool"), "--ts-from", "date").out
    assert weft("quarantine", "retry").code == 0
    assert weft("describe", "orders").code == 0
    assert [each["rows"] for each in weft("tables", "--json").json] == [3, 1]
    assert not session_started()


def test_run_with_json_prints_nothing_else(weft: Weft, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.api.weft import Weft as Home
    from weft.delivery.outbox import Delivered
    from weft.errors import LeaseBusy

    def run(self: Home, stop: object, *, delivered: Any, troubled: Any, **_: object) -> None:
        troubled(LeaseBusy("another process is writing to this home"))
        delivered([Delivered("q", "file:q.jsonl", 2, 2, None, False)])

    monkeypatch.setattr(Home, "run", run)
    assert weft("init").code == 0
    output = weft("run", "--json")
    assert output.json["delivered"] == [{"query": "q", "channel": "file:q.jsonl", "rows": 2, "error": None}]
    assert "another process is writing to this home" in output.err


def test_doctor_prints_a_line_for_each_check(weft: Weft, made: Path) -> None:
    found = weft("doctor", "--json").json
    assert {"python", "java", "spark", "home"} <= {check["name"] for check in found}


def test_explain_is_quick_and_loads_nothing_heavy(made: Path) -> None:
    script = (
        "import sys\n"
        "from weft.cli.app import run\n"
        f"code = run(['explain', '--full', {UNANSWERED!r}])\n"
        "heavy = {'pyspark', 'duckdb', 'pyarrow', 'deltalake', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert "msgs__by_inreplyto" in done.stdout
    # The processor's time, start of the process included: the wall's would measure what else the machine does.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.8


def test_commands_load_only_what_they_need(made: Path) -> None:
    """A command that needs only the catalog takes half of the time without the compiler and without the data."""
    with Home.open(made) as opened:
        opened.install("q", "SELECT msgid FROM msgs")
    script = (
        "import sys\n"
        "from weft.cli.app import run\n"
        "import weft.runtime.launch\n"
        "never = {'pyspark', 'duckdb', 'pandas', 'deltalake'}\n"
        "for command in ('queries', 'pause q', 'results q', 'tables', 'status'):\n"
        f"    if run([*command.split(), '--home', {str(made)!r}]):\n"
        "        sys.exit(f'{command} fails')\n"
        "    others = {'sqlglot', 'weft.planning.plan', 'http.client'} if command != 'status' else set()\n"
        "    algebra = {'weft.algebra.relation'} if command not in ('tables', 'status') else set()\n"
        "    if heavy := (never | others | algebra) & set(sys.modules):\n"
        "        sys.exit(f'{command} loads {heavy}')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, input="")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("command", "short"), [("queries", True), ("run --json", False)])
def test_only_a_short_command_does_without_collections_of_garbage(made: Path, command: str, short: bool) -> None:
    script = (
        "import gc, sys\n"
        "import weft.cli.server.address, weft.cli.terminal\n"
        f"if not {short}:\n"
        "    from weft.api import Weft\n"
        "    Weft.run = lambda *_, **__: None\n"
        "gc.collect()\n"
        f"sys.argv = ['weft', *{command.split()!r}, '--home', {str(made)!r}]\n"
        "done = gc.get_stats()[0]['collections']\n"
        "try:\n"
        "    weft.cli.main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        f"assert (gc.get_freeze_count() > 10_000) == {short}  # no collection at the end of the process\n"
        f"sys.exit((gc.get_stats()[0]['collections'] == done) != {short})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, input="")
    assert done.returncode == 0, (done.stderr, done.stdout)


def test_a_command_that_uses_duckdb_prints_nothing_at_its_end(made: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "weft", "tick", "--now", "1993-05-05"]
    command += ["--home", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, input="")
    lines = done.stderr.splitlines()
    assert any(line.endswith(" _duckdb") for line in lines)
    assert [line for line in lines if not line.startswith("import time:")] == []


def test_a_reader_that_has_seen_enough_is_no_failure(made: Path) -> None:
    command = [sys.executable, "-m", "weft", "tables", "--home", str(made)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


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


def test_a_query_that_no_longer_fits_is_listed_with_the_others(weft: Weft, made: Path) -> None:
    assert weft("install", "bad", "SELECT msgid FROM msgs").code == 0
    assert weft("install", "good", "SELECT subject FROM msgs").code == 0
    with sqlite3.connect(made / "catalog.sqlite") as connection:
        connection.execute("UPDATE plans SET signature = 'another' WHERE plan_id = 1")
    connection.close()
    output = weft("tick", "--now", "1993-05-01")
    assert output.code == 1
    assert "good" in output.out
    assert "msgs is empty" in output.out
    assert "set aside" in output.out
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
    script = "import sys; from weft.cli.app import run; sys.exit(max(map(run, eval(sys.argv[1]))))"
    command = [*(without if os.geteuid() == 0 else []), sys.executable, "-c", script]
    env = {**os.environ, "WEFT_HOME": str(made)}

    def typed(*lines: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, repr(lines)], capture_output=True, text=True, check=False, env=env)

    try:
        for place in places:
            place.chmod(0o555 if place.is_dir() else 0o444)
        done = typed(["show", "q"], ["results", "q"], ["tables"], ["explain", "SELECT msgid FROM msgs"])
        assert done.returncode == 0, done.stderr
        assert not killed or "for ben" in done.stdout
        refused = typed(["pause", "q"])
        assert refused.returncode == 1
        assert "is writable" in refused.stderr
    finally:
        for place, mode in modes.items():
            place.chmod(mode)
