"""The server of ``weft serve``, with real commands without Spark: the same output and exit codes, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from weft.api.weft import Weft
from weft.cli import _through_server
from weft.cli.app import run
from weft.cli.server import address
from weft.cli.server.address import pointer_file, server_folder
from weft.cli.server.client import server_state
from weft.cli.server.listen import listening
from weft.cli.server.server import LocalServer, serving
from weft.errors import Conflict

SERVER = """
import sys
from weft.api.weft import Weft
from weft.cli.app import run
from weft.cli.server.listen import listening
from weft.cli.server.server import LocalServer, serving
home = Weft.open(sys.argv[1], create=True)
with home as weft, listening(weft.home) as listener, serving(LocalServer(weft, run), listener):
    print("ready", flush=True)
    sys.stdin.read()
"""
"""A server without ticks, which would start Spark."""


STRANGER = r"""
import os, socket, sys
os.setuid(65534)
there = socket.socket(socket.AF_UNIX)
there.connect(sys.argv[1])
there.send(b'POST /greeting HTTP/1.1\r\nHost: weft\r\nContent-Length: 16\r\n\r\n{"settings": {}}')
print(there.recv(100))
"""


@contextmanager
def _serving(home: Path) -> Iterator[LocalServer]:
    with Weft.open(home, create=True) as weft, listening(weft.home) as listener:
        server = LocalServer(weft, run)
        with serving(server, listener):
            yield server


@pytest.fixture
def made(home: Path) -> Path:
    Path("orders.jsonl").write_text('{"id": 1, "who": "zoë"}\n{"id": 2, "who": "ben"}\n', encoding="utf-8")
    for line in (
        ["init"],
        ["ingest", "file", "orders.jsonl", "--table", "orders"],
        ["install", "q", "SELECT id FROM orders"],
    ):
        assert run(line) == 0
    return home


@pytest.fixture
def process(made: Path) -> Iterator[subprocess.Popen[str]]:
    """A server of the home in a process of its own."""
    command = [sys.executable, "-c", SERVER, str(made)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield server
        server.kill()


def _typed(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    """A command in a process of its own, which Ctrl-C reaches."""
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from weft.cli import main; main()"
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", start, *arguments], text=True, **{**pipes, **more})


def _through(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int | None, str, str]:
    capsys.readouterr()
    code = _through_server(arguments)
    return code, *capsys.readouterr()


def test_the_page_names_the_commands_that_run_on_the_server() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/commands.md").read_text(encoding="utf-8")
    output = page.partition("These commands go through the server:")[2].partition(". Their output")[0]
    assert re.findall(r"`([a-z]+)`", output) == sorted(address.COMMANDS)
    assert address.runs_on_server(["backtest", "SELECT 1"])


LINES = (
    ["tables"],
    ["tables", "--json"],
    ["describe", "orders"],
    ["describe", "nothing"],
    ["queries"],
    ["show", "q"],
    ["results", "q"],
    ["explain", "SELECT id FROM orders"],
    ["explain", "SELECT nix FROM orders"],
    ["quarantine", "list"],
    ["pause", "nobody"],
    ["ingest", "file", "missing.csv", "--table", "t"],
    ["install", "other", "SELECT id FROM orders WHERE who = 'caf\udce9'"],
    ["append", "orders", "id=1", "--user", "caf\udce9"],
)


def test_commands_say_the_same_with_and_without_a_server(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = []
    for line in LINES:
        capsys.readouterr()
        expected.append((run(line), *capsys.readouterr()))
    with _serving(made):
        for line, wanted in zip(LINES, expected, strict=True):
            code, out, err = _through(line, capsys)
            assert (code, out, err) == wanted, line
            assert out or err


def test_a_terminal_is_drawn_for(made: Path) -> None:
    with _serving(made):
        near, far = pty.openpty()
        client = _typed(
            "queries", stdout=far, stderr=far, env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "60"}
        )
        assert client.wait(60) == 0
        os.close(far)
        output = os.read(near, 10_000).decode()
        os.close(near)
    assert "\x1b[1m" in output, "headings are bold where somebody watches"


def test_a_closed_stdin_and_a_folder_that_is_gone_hinder_nobody(made: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with _serving(made):
        start = "import os, sys; os.rmdir(os.getcwd()); from weft.cli import main; main()"
        for command in (
            f"{sys.executable} -m weft tables --home {made} <&-",
            f"{sys.executable} -c '{start}' tables --home {made}",
        ):
            gone.mkdir()
            done = subprocess.run(
                command, shell=True, cwd=gone, capture_output=True, text=True, timeout=30, check=False
            )
            assert (done.returncode, done.stderr) == (0, "")
            assert "orders" in done.stdout
            if gone.exists():
                gone.rmdir()


def test_other_commands_run_in_this_process(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with _serving(made), Weft.open(made.parent / "other", create=True):
        for line in (["init"], ["doctor"], ["shell"], ["tables", "--help"], ["tables", "--nix"], ["ingest"], []):
            assert _through(line, capsys) == (None, "", "")
        assert _through(["tables", "--home", "other"], capsys) == (None, "", "")
        # The home that was meant is read by the command itself, not by where the server was found.
        (made.parent / "other" / "serve").symlink_to(made / "serve")
        assert _through(["tables", "--home", "other"], capsys) == (None, "", "")


def test_paths_and_width_are_those_of_where_it_was_typed(made: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "more.jsonl").write_text('{"id": 3, "who": "x"}\n')
    (elsewhere / "q.sql").write_text("SELECT who FROM orders")
    narrow = {**os.environ, "COLUMNS": "30", "WEFT_HOME": "../weft-home"}
    with _serving(made) as server:
        ways = []
        server.line = lambda line: ways.append(line) or run(line)  # type: ignore[func-returns-value]
        for words in (
            ["ingest", "file", "more.jsonl", "--table", "orders"],
            ["explain", "-f", "q.sql"],
            ["tables", "--home", "../weft-home"],
        ):
            done = _typed(*words, cwd=elsewhere, env=narrow)
            out, err = done.communicate(timeout=30)
            assert done.returncode == 0, err
    assert len(ways) == 3
    assert "3" in out
    *grid, words = out.splitlines()
    assert max(map(len, grid)) <= 30
    assert words.startswith("The answers of a query are the table")


def test_a_query_from_stdin_goes_through(made: Path) -> None:
    with _serving(made):
        done = _typed("explain", stdin=subprocess.PIPE)
        out, err = done.communicate("SELECT id FROM orders WHERE who = 'zoë'", timeout=30)
    assert done.returncode == 0, err
    assert "zoë" in out


def test_stdin_that_is_not_utf_8_is_refused_as_without_a_server(made: Path) -> None:
    query, output = b"SELECT id FROM orders WHERE who = 'caf\xe9'", []
    for served in (False, True):
        with _serving(made) if served else nullcontext():
            for locale in ("C.UTF-8", "en_US.UTF-8"):
                command = [sys.executable, "-m", "weft", "explain", "--json"]
                environ = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0"}
                done = subprocess.run(command, input=query, env=environ, capture_output=True, check=False)
                output.append((done.returncode, json.loads(done.stderr)["error"]["message"]))
    assert output == [(2, "stdin is not UTF-8 text: SELECT id FROM orders WHERE who = 'caf\\xe9'")] * 4


def test_other_settings_and_another_weft_are_said(
    made: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with _serving(made) as server:
        monkeypatch.setenv("WEFT_QUERY_ROWS", "5")
        code, out, err = _through(["tables"], capsys)
        assert (code, out) == (None, "")
        assert "WEFT_QUERY_ROWS" in err
        assert str(os.getpid()) in err
        monkeypatch.delenv("WEFT_QUERY_ROWS")
        server._code = "that of yesterday"
        code, out, err = _through(["tables"], capsys)
        assert (code, out) == (None, "")
        assert "another version of Weft" in err
        ok, seen, fix = server_state(made)
        assert (ok, fix) == (False, "`weft serve --reload` restarts it")
        assert "another version of Weft" in seen


def test_the_fingerprint_is_of_the_code(tmp_path: Path) -> None:
    files = list(address._files(str(Path(address.__file__).parent)))
    assert any("address.py" in each for each in files)
    before = tmp_path / "a.py"
    before.write_text("x")
    output = list(address._files(str(tmp_path)))
    before.write_text("xy")
    assert list(address._files(str(tmp_path))) != output


def test_a_second_server_is_refused_with_the_first_ones_process(
    made: Path, process: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with Weft.open(made, create=True), pytest.raises(Conflict, match=f"process {process.pid}"), listening(made):
        pass
    assert _through(["tables"], capsys)[0] == 0, "the first one goes on"
    assert run(["doctor"]) in (0, 1)
    assert f"server: process {process.pid}" in capsys.readouterr().out


def test_a_killed_server_leaves_a_socket_that_hinders_nobody(
    made: Path, process: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    process.kill()
    process.wait()
    assert (Path(server_folder(made)) / "socket").is_socket()
    assert _through(["tables"], capsys) == (None, "", "")
    assert server_state(made)[0]
    with _serving(made):
        assert _through(["tables"], capsys)[0] == 0
    assert [each.name for each in Path(server_folder(made)).iterdir()] == ["lock"]


def test_a_server_that_does_not_answer_is_reported(
    made: Path, process: subprocess.Popen[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.cli.server.client._ANSWER_SECONDS", 0.5)
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)  # else it may answer the greeting, and stop before the command
    code, out, err = _through(["tables"], capsys)
    assert (code, out) == (None, "")
    assert "does not answer" in err


@contextmanager
def _waiting(home: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that waits for the lease, in the server."""
    with Weft.open(home, create=True) as weft, weft.writing("a test"), _typed(*arguments) as client:
        while '"commands": 1' not in json.dumps(_greeting(home)):
            assert client.poll() is None
        yield client


def _greeting(home: Path) -> dict[str, Any]:
    from weft.cli.server.client import greeting

    return greeting(pointer_file(home))[1]


def test_ctrl_c_stops_a_command_that_waits(made: Path) -> None:
    with _serving(made):
        with _waiting(made, "pause", "q") as client:
            client.send_signal(signal.SIGINT)
            out, err = client.communicate(timeout=60)
        assert (client.returncode, out, err) == (130, "", "")
        assert _greeting(made)["commands"] == 0
        with Weft.open(made, create=True) as weft:
            assert weft.show("q").query.state == "active"


def test_a_second_ctrl_c_leaves_the_command_to_the_server(made: Path) -> None:
    with _serving(made) as server:
        server.line = lambda _: signal.sigtimedwait([signal.SIGUSR1], 3) or 0  # type: ignore[assignment]
        with _typed("pause", "q") as client:
            while not _greeting(made)["commands"]:
                pass
            client.send_signal(signal.SIGINT)
            assert client.stderr is not None
            assert "first finishes its running step" in client.stderr.readline()
            client.send_signal(signal.SIGINT)
            assert "finishes the running step" in client.communicate(timeout=60)[1]
            assert client.returncode == 130


def test_a_client_that_vanishes_takes_its_command_along(made: Path) -> None:
    with _serving(made):
        with _waiting(made, "pause", "q") as client:
            client.kill()
            client.wait()
            while _greeting(made)["commands"]:
                pass
        with Weft.open(made, create=True) as weft:
            assert weft.show("q").query.state == "active"


def test_a_server_that_is_killed_in_a_command_fails_it_plainly(made: Path, process: subprocess.Popen[str]) -> None:
    with _waiting(made, "pause", "q") as client:
        process.kill()
        out, err = client.communicate(timeout=60)
    assert (client.returncode, out) == (1, "")
    assert "ended during this command" in err
    assert "Traceback" not in err
    done = _typed("pause", "q")
    assert "is paused" in done.communicate(timeout=30)[0]


def test_reading_does_not_wait_for_a_writer(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with _serving(made), _waiting(made, "pause", "q") as client:
        assert _through(["tables"], capsys)[0] == 0
        assert _through(["results", "q"], capsys)[0] == 0
        assert client.poll() is None
        client.kill()


def test_a_server_that_is_stopped_lets_the_commands_under_way_end(made: Path) -> None:
    with _serving(made) as server:
        with Weft.open(made) as weft, weft.writing("a test"):
            client = _typed("pause", "q")
            while not _greeting(made)["commands"]:
                assert client.poll() is None
            closing = threading.Thread(target=server.close)
            closing.start()
            time.sleep(1)
            assert client.poll() is None
            assert run(["tables"]) == 0, "a command that comes now runs by itself"
        out, err = client.communicate(timeout=60)
        closing.join()
    assert (client.returncode, err) == (0, "")
    assert "q is paused" in out


def test_a_command_that_does_not_end_in_time_is_stopped_where_nothing_is_half_done(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.cli.server.server.GRACE_SECONDS", 0.5)
    with _serving(made):
        waiting = _waiting(made, "pause", "q")
        client = waiting.__enter__()
    out, err = client.communicate(timeout=60)
    waiting.__exit__(None, None, None)
    assert (client.returncode, out) == (1, ""), "130 is Ctrl-C's, which nobody has typed"
    assert "`weft serve` was stopped before this command ended" in err
    with Weft.open(made) as weft:
        assert weft.show("q").query.state == "active"


RELOADABLE = """
import sys, threading
from weft.api.weft import Weft
from weft.cli import serve
from weft.cli.app import run
from weft.cli.server.listen import listening
from weft.cli.server.server import LocalServer, serving
stopped = threading.Event()
with Weft.open(sys.argv[1]) as weft, listening(weft.home) as listener:
    server = LocalServer(weft, run, stopped.set)
    with serving(server, listener):
        print("ready", flush=True)
        stopped.wait()
serve._restart(server.reload)
"""


def _in_words(made: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    client = _typed(*words, env={**os.environ, **variables})
    out, err = client.communicate(timeout=60)
    return client.returncode, out, err


@pytest.fixture
def reloadable(made: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", RELOADABLE, str(made)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield server
        server.kill()


def test_a_variable_that_the_server_lacks_is_reported_and_passed_to_it(
    made: Path, reloadable: subprocess.Popen[str]
) -> None:
    (made / "weft.toml").write_text('[smtp]\npassword_env = "MAIL_WORD"\n')
    before = _greeting(made)["instance"]
    assert _in_words(made, "tables")[0::2] == (0, "")
    given = {"WEFT_QUERY_ROWS": "77", "MAIL_WORD": "open sesame"}
    code, _, err = _in_words(made, "tables", **given)
    assert code == 0
    assert re.fullmatch(
        r"note: this command runs in process \d+, not on the server. `weft serve` of this home "
        rf"\(process {reloadable.pid}\) has other settings than this terminal: WEFT_QUERY_ROWS is set here only; "
        r"MAIL_WORD is set here only. `weft serve --reload` restarts the server with the settings of this terminal.\n",
        err,
    )
    code, out, err = _in_words(made, "serve", "--reload", **given)
    assert (code, err) == (0, "")
    assert f"Process {reloadable.pid} serves weft-home, restarted with" in out
    assert "MAIL_WORD, " in out and "WEFT_QUERY_ROWS" in out
    assert "sesame" not in out
    assert _greeting(made)["instance"] != before
    assert _in_words(made, "tables", **given)[0::2] == (0, "")
    assert "WEFT_QUERY_ROWS is set on the server only" in _in_words(made, "tables")[2]
    assert "MAIL_WORD is set differently" in _in_words(made, "tables", **{**given, "MAIL_WORD": "x"})[2]


def test_reload_without_a_server_is_refused(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--reload"]) == 2
    assert "this home has no server" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_failure(made: Path) -> None:
    with _serving(made), _typed("explain", "SELECT id FROM orders") as client:
        assert client.stdout is not None
        client.stdout.close()
        assert client.wait(60) == 0
        assert client.stderr is not None
        assert client.stderr.read() == ""


def test_a_full_disk_where_the_output_goes_is_not_taken_for_a_dead_server(made: Path) -> None:
    with _serving(made), Path("/dev/full").open("w") as full:
        client = _typed("tables", stdout=full)
        err = client.communicate(timeout=60)[1]
    assert client.returncode == 1
    assert "No space left on device" in err


def test_a_home_with_a_long_path_is_served_from_the_runtime_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime = tmp_path / "run"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    home = tmp_path / ("long" * 30) / "home"
    assert run(["init", "--home", str(home)]) == 0
    with _serving(home):
        assert _through(["tables", "--home", str(home)], capsys)[0] == 0
        [there] = (runtime / "weft").iterdir()
        assert there.is_socket()
        assert there.stat().st_mode & 0o777 == 0o600
    assert not list((runtime / "weft").iterdir())


def test_a_home_that_takes_no_socket_is_served_from_the_runtime_folder(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(address, "SOCKET", "missing/socket")  # bind fails there as on a file system without sockets
    with _serving(made):
        assert _through(["tables"], capsys)[0] == 0
        assert [each.stat().st_mode & 0o777 for each in (tmp_path / f"weft-{os.getuid()}").iterdir()] == [0o600]


def test_only_the_owner_may_enter(made: Path) -> None:
    with _serving(made):
        assert Path(server_folder(made)).stat().st_mode & 0o777 == 0o700
        assert (Path(server_folder(made)) / "socket").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_is_hung_up_on_even_where_the_socket_lets_them_in(made: Path) -> None:
    path = Path("/tmp", f"weft-test-{os.getpid()}")
    with _serving(made) as server, socket.socket(socket.AF_UNIX) as listener:
        assert server
        listener.bind(str(path))
        path.chmod(0o666)
        listener.listen()
        try:
            with serving(LocalServer(server.weft, run), listener):
                found = subprocess.run(
                    [sys.executable, "-c", STRANGER, str(path)], capture_output=True, text=True, timeout=60, check=False
                )
        finally:
            path.unlink()
    assert "HTTP" not in found.stdout
    assert found.stdout == "b''\n" or "ConnectionReset" in found.stderr or "BrokenPipe" in found.stderr


def test_much_output_arrives_whole(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from weft.cli import terminal

    def much(_: object) -> int:
        for number in range(60_000):
            terminal.out().write(f"{number} {'x' * 50}\n")
        return 0

    with _serving(made) as server:
        server.line = much
        code, out, _ = _through(["tables"], capsys)
    assert code == 0
    assert out.splitlines() == [f"{number} {'x' * 50}" for number in range(60_000)]


def test_ctrl_c_stops_a_load_between_two_batches_and_nothing_is_lost(made: Path) -> None:
    rows = 130_000
    Path("many.jsonl").write_text("".join(f'{{"id": {number}}}\n' for number in range(rows)))
    load = ("ingest", "file", "many.jsonl", "--table", "many")
    with _serving(made), Weft.open(made, create=True) as weft:
        with _typed(*load) as client:
            while not any(each.name == "many" and each.rows for each in weft.tables()):
                assert client.poll() is None
            client.send_signal(signal.SIGINT)
            assert client.wait(60) == 130
        assert 0 < next(each.rows for each in weft.tables() if each.name == "many") < rows
        with _typed(*load) as client:
            assert client.wait(60) == 0, "the load goes on where it was"
        assert next(each.rows for each in weft.tables() if each.name == "many") == rows
