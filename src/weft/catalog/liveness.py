"""Determine whether the process that holds a lease is still running.

A process that holds a lease locks its own file in the home.  The kernel releases the lock when the process ends or the
machine restarts.  Process IDs are less reliable, because the system reuses them and each container counts from 1.
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
from typing import Final
from weakref import WeakSet

from weft.access import make_file, make_folder

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


class Liveness:
    """The lock files of the processes that hold leases of one home."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locked: dict[str, int] = {}
        self.given_back: set[tuple[str, int]] = set()
        """The (name, token) of each lease that this process released, but that the catalog still records as held."""
        self._mutex = threading.Lock()
        _all.add(self)

    def announce(self, holder: str) -> None:
        """Lock the file of this process.  A process must call this method before it takes a lease.

        Ignore names that are not from ``this_process``.  Without file locks, a process counts as alive until its lease
        expires.
        """
        name = _name(holder)
        with self._mutex:
            if name is None or name in self._locked:
                return
            make_folder(self._folder)
            self._remove_unlocked()
            self._locked[name] = _locked(self._folder / name)

    def is_gone(self, holder: str) -> bool:
        """Return whether a process has ended.  Return False if ``holder`` is not a name from ``this_process``."""
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


_all: Final[WeakSet[Liveness]] = WeakSet()


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
