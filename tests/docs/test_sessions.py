"""The program prints what the consoles in the pages show. The test runs every console in the order of its page."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from docs.pages import PAGES, Block, assert_current, blocks, name_of, perform, retyped, steps
from mail_server import Post, serving
from postgresql_server import Server
from s3_server import access_to, environment, s3_server
from standalone_cluster import standalone_cluster
from weft.demo.play import weeks, write_week

MASTER = "spark://127.0.0.1:7077"
SESSIONS = [page for page in PAGES if "```console" in page.read_text()]


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch) -> Iterator[Post]:
    """A mail server on this machine."""
    found = Post()
    with serving(found) as port:
        monkeypatch.setenv("WEFT_SMTP_PORT", str(port))
        yield found


@pytest.fixture
def database(page: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The PostgreSQL server of a page that names one: it runs on this machine and has the user and database weft."""
    if "postgresql://weft@/" in page.read_text():
        server: Server = request.getfixturevalue("database_server")
        with psycopg.connect(server.uri("postgres"), autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'weft'").fetchall():
                connection.execute("CREATE ROLE weft LOGIN")
            connection.execute("DROP DATABASE IF EXISTS weft WITH (FORCE)")  # that of another page
            connection.execute("CREATE DATABASE weft OWNER weft")
        monkeypatch.setenv("PGHOST", str(server.folder))


@pytest.fixture
def bucket(page: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The S3 server of a page that names a bucket, which AWS's variables reach."""
    if "s3://weft-docs/" not in page.read_text():
        yield
        return
    with s3_server("weft-docs") as port:
        for name, value in environment(access_to(port)).items():
            monkeypatch.setenv(name, value)
        yield


@pytest.fixture
def master(page: Path) -> Iterator[str | None]:
    """The master URL of a cluster, for a page that names one."""
    if MASTER not in page.read_text():
        yield None
    else:
        with standalone_cluster() as cluster:
            yield cluster.url


@pytest.fixture
def terminal(
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    master: str | None,
) -> Callable[[str], str]:
    """A terminal in a folder that contains the articles of `make demo`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_HOME", raising=False)
    monkeypatch.delenv("WEFT_FILES_ROOT", raising=False)
    monkeypatch.setenv("COLUMNS", "110")
    numbers: dict[str, int] = {}
    for week, found in enumerate(weeks()):
        write_week(tmp_path / "demo-home" / "news", week, found, numbers)

    def captured() -> str:
        report = capsys.readouterr()
        return report.out + report.err

    def typed(command: str) -> str:
        if master is None:
            return perform(command, monkeypatch.setenv, captured)
        # The session of the tests is not on the cluster: each command runs in a process of its own.
        own = re.sub(r"^weft\b", f"{sys.executable} -m weft", command.replace(MASTER, master))
        return perform(own, monkeypatch.setenv, captured).replace(master, MASTER)

    return typed


def _turn(page: Path) -> Any:
    """Return a page as a parameter. Each command of a page with a cluster has a JVM, so only `make test-long` types it.

    ``tests/scenario/test_cluster.py`` runs the same on a cluster.
    """
    marks = [pytest.mark.slow, pytest.mark.timeout(900)] if MASTER in page.read_text() else []
    return pytest.param(page, marks=marks, id=name_of(page))


@pytest.mark.parametrize("page", [_turn(page) for page in SESSIONS])
@pytest.mark.usefixtures("bucket", "database")
def test_a_page_is_typed(page: Path, terminal: Callable[[str], str], post: Post, bless: bool) -> None:
    def output(block: Block) -> list[str]:
        if block.language == "console":
            return retyped(steps(block), terminal, bless)
        return _snippet(block.lines) if block.language == "python" else list(block.lines)

    assert_current(page, output, bless)
    shown = [
        block.text
        for block in blocks(page.read_text())
        if block.language == "text" and "You receive this because" in block.text
    ]
    assert [_letter(each.text) for each in post.letters] == [_letter(each) for each in shown]


def _letter(text: str) -> list[str]:
    """Return the lines of a letter without its date and the path of the home."""
    text = re.sub(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?[+-]\d\d:\d\d", "<instant>", text)
    text = re.sub(r"because the query (\w+) of \S+", r"because the query \1 of <user>", text)
    text = re.sub(r"--home \S+", "--home <home>", text)
    return [re.sub(r"[- ]+", " ", line).strip() for line in text.strip().splitlines()]


def _snippet(lines: tuple[str, ...]) -> list[str]:
    """Return a Python snippet, followed by its output in comments."""
    code = list(lines)
    while code and code[-1].startswith("# "):
        code.pop()
    report = io.StringIO()
    with contextlib.redirect_stdout(report):
        exec(compile("\n".join(code), "snippet", "exec"), {"__name__": "snippet"})
    return [*code, *("# " + line for line in report.getvalue().splitlines())]


def test_every_command_of_a_console_has_its_prompt() -> None:
    begins = {(name_of(page), block.begin): block.lines[0] for page in SESSIONS for block in _consoles(page)}
    assert not {place for place, line in begins.items() if not line.startswith("$ ")}


def _consoles(page: Path) -> Iterator[Block]:
    return (block for block in blocks(page.read_text()) if block.language == "console")


def test_there_are_consoles_to_type() -> None:
    typed = {name_of(page) for page in SESSIONS}
    guides = {name_of(page) for page in PAGES if "how-to" in page.parts}
    assert {"README.md", "docs/is-weft-for-me.md", "docs/synopses.md", "docs/reference/commands.md"} | guides <= typed
