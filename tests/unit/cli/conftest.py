"""The command line, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from postgresql_server import Server
from weft.cli.app import run


@dataclass(frozen=True)
class Output:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home that commands use here; nobody has made it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_HOME", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "weft-home"


@pytest.fixture
def weft(home: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Output]:
    def call(*arguments: str) -> Output:
        capsys.readouterr()
        code = run(arguments)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Output(code, captured.out, captured.err)

    return call


@pytest.fixture
def url(database_server: Server) -> Iterator[str]:
    """The URL of an empty database, which is dropped at the end: a database has a thousand files."""
    name = database_server.new_database()
    yield database_server.uri(name)
    with psycopg.connect(database_server.uri("postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
