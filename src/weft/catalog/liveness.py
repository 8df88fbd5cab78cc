"""Determine whether the process that holds a lease is still running.

A process that holds a lease also holds a lock, which it loses when it ends.  With a SQLite catalog, the lock is on a
file in the home, because all processes run on one machine.  The kernel releases the lock when the process ends or the
machine restarts.  With a PostgreSQL catalog, the lock is an advisory lock, which the server releases when the session
of the process ends.  Process IDs are less reliable, because the system reuses them and each container counts from 1.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import threading
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol
from weakref import WeakSet

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DBAPIError

from weft.access import make_file, make_folder
from weft.catalog.dialects import SERVER_START, SERVER_TIME, lock_key

_HOLDER: Final = re.compile(r"process \d+ of .*, ([0-9a-f]{32})", re.DOTALL)
_FILE: Final = re.compile("[0-9a-f]{32}")

_own: tuple[int, str] | None = None
"""The process ID and the lease-holder name of this process.  A forked process gets another name."""


def this_process() -> str:
    """Return the name of this process as a lease holder: the process ID, the host and a UUID."""
    global _own
    known, pid = _own, os.getpid()
    if known is None or known[0] != pid:
        known = _own = (pid, f"process {pid} of {socket.gethostname()}, {uuid.uuid4().hex}")
    return known[1]


def shown(holder: str) -> str:
    """Return the holder's name without its UUID."""
    return holder.rpartition(", ")[0] if _HOLDER.fullmatch(holder) else holder


class Liveness(Protocol):
    """The locks of the processes that hold leases of one home."""

    def announce(self, holder: str) -> None:
        """Take the lock of this process.  A process must call this method before it takes or renews a lease.

        Ignore names that are not from ``this_process``.
        """

    def is_gone(self, holder: str, seen_at: int) -> bool:
        """Return whether a process has ended that took or renewed its lease at ``seen_at`` (microseconds UTC).

        Return False if ``holder`` is not a name from ``this_process``.
        """

    def close(self) -> None:
        """Release the locks of this process."""


class FileLocks:
    """The lock files of the processes that hold leases of one home.

    On a file system without locks, a process counts as alive until its lease expires.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locked: dict[str, int] = {}
        self._mutex = threading.Lock()
        _all.add(self)

    def announce(self, holder: str) -> None:
        """Lock the file of this process."""
        name = _name(holder)
        with self._mutex:
            if name is None or name in self._locked:
                return
            make_folder(self._folder)
            self._remove_unlocked()
            self._locked[name] = _locked(self._folder / name)

    def is_gone(self, holder: str, seen_at: int) -> bool:
        """Return whether the lock on the process's file is free."""
        name = _name(holder)
        if name is None:
            return False
        try:
            return _unlocked(self._folder / name)
        except (
            FileNotFoundError
        ):  # the file was locked before its name was published, and removed after the lock was released
            return True
        except OSError:
            return False

    def close(self) -> None:
        """Release the locks of this process."""
        with self._mutex:
            while self._locked:
                os.close(self._locked.popitem()[1])

    def close_inherited(self) -> None:
        """Close the inherited file descriptors in a forked process, so that only the parent holds the locks."""
        self._mutex = threading.Lock()  # another thread of the parent may have held the old one
        self.close()

    def _remove_unlocked(self) -> None:
        for path in self._folder.iterdir():
            if _FILE.fullmatch(path.name):
                with suppress(OSError):
                    _unlocked(path, remove=True)


_RECONNECT_US: Final = 45 * 1_000_000
"""The time in which a process renews its lease after a restart of the server.  A restart ends all sessions, and the
process locks its name again when it renews its lease.
"""


class SessionLocks:
    """The advisory locks of the processes that hold leases of one home, in a session for these locks alone."""

    def __init__(self, engine: Engine, schema: str) -> None:
        self._engine = engine
        self._schema = schema
        self._names: set[str] = set()
        self._session: Connection | None = None
        self._mutex = threading.Lock()
        _all.add(self)

    def announce(self, holder: str) -> None:
        """Lock the name of this process.  Other sessions of the process can also hold this shared lock."""
        name = _name(holder)
        if name is None:
            return
        with self._mutex:
            session = self._living_session()
            if name not in self._names:
                session.execute(select(func.pg_advisory_lock_shared(self._key(name))))
                self._names.add(name)

    def is_gone(self, holder: str, seen_at: int) -> bool:
        """Return whether no session locks the name of the process, and whether a lost lock would have been noticed."""
        name = _name(holder)
        if name is None:
            return False
        with self._mutex:
            session = self._living_session()
            if name in self._names:  # a session could lock its own name twice
                return False
            free = func.pg_try_advisory_xact_lock(self._key(name))
            is_free, started, now = session.execute(select(free, SERVER_START, SERVER_TIME)).one()
        return bool(is_free) and (started < seen_at or now - started > _RECONNECT_US)

    def close(self) -> None:
        """Close the session, which releases its locks."""
        with self._mutex:
            self._names.clear()
            if self._session is not None:
                self._session.close()
                self._session = None

    def close_inherited(self) -> None:
        """Close the socket of the session in a forked process.  All sessions continue in the parent."""
        self._engine.dispose(close=False)
        self._mutex = threading.Lock()
        session, self._session = self._session, None
        self._names.clear()
        if session is not None:
            _inherited.append(session)  # its destruction must not end the session of the parent
            os.close(session.connection.dbapi_connection.fileno())  # type: ignore[union-attr]

    def _living_session(self) -> Connection:
        if self._session is not None:
            try:
                self._session.execute(select(1))
            except DBAPIError:
                self._session.invalidate()
                self._session = None
                self._names.clear()
            else:
                return self._session
        self._session = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self._session.detach()  # the connections of the pool remain available to transactions
        return self._session

    def _key(self, name: str) -> int:
        return lock_key(f"{name} in {self._schema}")


_all: Final[WeakSet[FileLocks | SessionLocks]] = WeakSet()
_inherited: Final[list[Connection]] = []


def _close_inherited() -> None:
    for each in list(_all):
        each.close_inherited()


os.register_at_fork(after_in_child=_close_inherited)


def _name(holder: str) -> str | None:
    matched = _HOLDER.fullmatch(holder)
    return None if matched is None else matched[1]


def _locked(path: Path) -> int:
    while True:
        make_folder(path.parent)
        try:
            make_file(path)
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # removed by another process before it was locked
            continue
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def _unlocked(path: Path, *, remove: bool = False) -> bool:
    """Return whether no process has locked the file.  With ``remove``, delete an unlocked file.

    Raise OSError if the file does not exist or the file system has no locks.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if remove:  # removed under the lock, so that a waiting process sees that the file is gone
            path.unlink()
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
