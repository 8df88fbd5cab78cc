"""A PostgreSQL server for a test, with logical replication (wal_level = logical), from the system's packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SETTINGS = ("wal_level=logical", "fsync=off", "max_replication_slots=40", "max_wal_senders=4", "listen_addresses=")


@contextmanager
def logical_server() -> Iterator[str]:
    """The URI of a database on the server. If PostgreSQL is not installed, the test is skipped with a message."""
    programs = _programs()
    if programs is None:
        pytest.skip("NOT TRIED ON POSTGRESQL: its server is not installed (Debian: apt install postgresql-15)")
    folder = Path(tempfile.mkdtemp(prefix="weft-pg-"))
    # A PostgreSQL server refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)

    def run(program: str, *arguments: str) -> None:
        command = [str(programs / program), *arguments]
        subprocess.run(command, check=True, cwd=folder, user=user, capture_output=True, timeout=60)

    data = str(folder / "data")
    run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
    options = " ".join(f"-c {each}" for each in (*SETTINGS, f"unix_socket_directories={folder}"))
    run("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    """Return the folder of the programs of the newest installed server."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda each: int(each.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).resolve().parent
