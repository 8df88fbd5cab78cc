"""Whether the process that holds a lease still runs.

A process that holds one locks a file of its own in the home, for as long as the home is open.  The kernel releases the
lock when the process ends, however it ends, before its parent has waited for it (a zombie holds no lock), and across a
restart of the machine.  The number of a process says less: the system gives it again, and a container counts from 1.
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
"""The number of this process and its name among holders: a process that was forked has another."""


def this_process() -> str:
    """The name under which this process holds leases: its number, its host, and a UUID that no other process has."""
    global _own
    known, pid = _own, os.getpid()
    if known is None or known[0] != pid:
        known = _own = (pid, f"process {pid} of {socket.gethostname()}, {uuid.uuid4().hex}")
    return known[1]


def shown(holder: str) -> str:
    """The holder of a lease without what tells it from others of its number and host."""
    return holder.rpartition(", ")[0] if _HOLDER.fullmatch(holder) else holder


class Liveness:
    """The locks of those that hold leases of one home, in the folder ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locked: dict[str, int] = {}
        self.given_back: set[tuple[str, int]] = set()
        """Names and tokens of leases that this process gave back, while the catalog does not say so."""
        self._mutex = threading.Lock()
        _all.add(self)

    def announce(self, holder: str) -> None:
        """Locks the file of this process, before it holds anything; nothing is done for a name of another form.

        Without a lock, on a file system that has none, the process counts as alive until its lease runs out.
        """
        name = _name(holder)
        with self._mutex:
            if name is None or name in self._locked:
                return
            make_folder(self._folder)
            self._remove_unlocked()
            self._locked[name] = _locked(self._folder / name)

    def is_gone(self, holder: str) -> bool:
        """Whether the holder is a process that has ended, on whichever host and in whichever container it ran.

        False where that cannot be known: a name of another form.  Its lease must then run out.
        """
        name = _name(holder)
        if name is None:
            return False
        try:
            return _unlocked(self._folder / name)
        except FileNotFoundError:  # it was locked before anybody could know the holder, and removed once it was not
            return True
        except OSError:
            return False

    def close(self) -> None:
        """Releases the locks."""
        with self._mutex:
            while self._locked:
                os.close(self._locked.popitem()[1])

    def let_go(self) -> None:
        """In a process that was forked: closes what it has inherited, which leaves the locks to its parent alone."""
        self._mutex = threading.Lock()  # another thread of the parent may have held it
        self.close()

    def _remove_unlocked(self) -> None:
        for path in self._folder.iterdir():
            if _FILE.fullmatch(path.name):
                with suppress(OSError):
                    _unlocked(path, remove=True)


_all: Final[WeakSet[Liveness]] = WeakSet()


def _let_go() -> None:
    for each in list(_all):
        each.let_go()


os.register_at_fork(after_in_child=_let_go)


def _name(holder: str) -> str | None:
    matched = _HOLDER.fullmatch(holder)
    return None if matched is None else matched[1]


def _locked(path: Path) -> int:
    """A descriptor of the file, which is made, and locked through it."""
    while True:
        make_folder(path.parent)
        try:
            make_file(path)
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # removed by another process, which found it not locked yet
            continue
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def _unlocked(path: Path, *, remove: bool = False) -> bool:
    """Whether nobody has locked the file, which is then removed if that is asked for.

    Raises OSError where there is none, or the file system has no locks.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if remove:  # while it is locked: who waits for the lock sees that the file is gone
            path.unlink()
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
