"""A PostgreSQL server for tests, from the system's packages, with logical replication (wal_level = logical)."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

SETTINGS = ("wal_level=logical", "fsync=off", "max_replication_slots=40", "max_wal_senders=4", "listen_addresses=")
GUARDED = "guarded"
"""The user that needs a password.  The user ``postgres`` needs none."""
PASSWORD = "a-secret-of-the-database"


class Server:
    """A running server in a folder of its own."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self.folder = folder
        self._numbers = itertools.count(1)
        # A PostgreSQL server refuses to run as root.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        hba = folder / "data" / "pg_hba.conf"
        hba.write_text(f"local all {GUARDED} scram-sha-256\n{hba.read_text()}")
        self.start()
        with psycopg.connect(self.uri("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {GUARDED} LOGIN SUPERUSER PASSWORD '{PASSWORD}'")

    def uri(self, database: str, user: str = "postgres") -> str:
        """Return the URI of a database on the server."""
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """Create an empty database and return its name."""
        name = f"db{next(self._numbers)}"
        with psycopg.connect(self.uri("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return name

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        options = " ".join(f"-c {each}" for each in (*SETTINGS, f"unix_socket_directories={self.folder}"))
        self._run("pg_ctl", "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server, which breaks all connections. A transaction that has not committed is lost."""
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def restart(self) -> None:
        """Stop the server, and start it again."""
        self.stop()
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), "-D", str(self.folder / "data"), *arguments]
        subprocess.run(command, check=True, cwd=self.folder, user=self._user, capture_output=True, timeout=60)


@contextmanager
def postgresql_server() -> Iterator[Server]:
    """Run a server. If PostgreSQL is not installed, the test is skipped with a message."""
    programs = _programs()
    if programs is None:
        pytest.skip("NOT TRIED ON POSTGRESQL: its server is not installed (Debian: apt install postgresql-15)")
    folder = Path(tempfile.mkdtemp(prefix="weft-pg-"))
    server = Server(programs, folder)
    try:
        yield server
    finally:
        server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    """Return the folder of the programs of the newest installed server."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda each: int(each.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).resolve().parent
