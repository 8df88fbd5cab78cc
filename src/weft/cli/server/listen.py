"""Opening the door of a home: one server at a time, a socket of its owner's, and the file that names it.

A socket lies in the home, or where that cannot be (a path longer than the system takes, a file system without sockets)
in the user's runtime folder; the file in the home names it either way.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from weft.cli.server import address
from weft.errors import Conflict, ExecutionError, StorageError

_ANSWER_SECONDS: Final = 1.0
_LONGEST: Final = 103
"""Bytes of a socket's path that every system takes (Linux 107, others 103)."""


@contextmanager
def listening(home: Path) -> Iterator[socket.socket]:
    """The home's listening socket, named in the home while the block runs; what a killed server left is removed.

    Raises Conflict where the home has a server, StorageError where the home cannot be written to, ExecutionError where
    no place takes a socket.
    """
    try:
        folder = _private(home / address.FOLDER)
    except OSError as error:
        raise StorageError(f"no door can be made: {error.strerror}", where=str(home)) from None
    with _only_server(folder):
        path, listener = _bound([folder / address.SOCKET, *_elsewhere(home)])
        pointer, made = folder / address.POINTER, path.lstat()
        try:
            listener.listen(128)
            _write(pointer, json.dumps({"socket": str(path), "pid": os.getpid()}))
            yield listener
        finally:
            pointer.unlink(missing_ok=True)
            if _is_same(path, made):
                path.unlink(missing_ok=True)
            listener.close()


@contextmanager
def _only_server(folder: Path) -> Iterator[None]:
    """Holds the lock of the home's server, which the system lets go of however the process ends."""
    lock = folder / address.LOCK
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise StorageError(f"the server's lock cannot be opened: {error.strerror}", where=str(lock)) from None
    with os.fdopen(descriptor, "r+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Conflict(
                f"this home has a server already: process {file.read().strip() or 'unknown'}",
                where=str(folder.parent),
                hint="Commands find it by themselves. Stop that one first to start another.",
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _private(folder: Path) -> Path:
    """A folder that only this user can enter, made where it is not there; raises OSError for one of another user."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(1, "it is another user's, or no folder", str(folder))
    folder.chmod(0o700)
    return folder


def _elsewhere(home: Path) -> Iterator[Path]:
    """Where the socket goes that the home cannot have; one name a home."""
    name = hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:16]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    places = [Path(runtime, "weft")] if runtime else []
    for folder in (*places, Path(tempfile.gettempdir(), f"weft-{os.getuid()}")):
        with suppress(OSError):
            yield _private(folder) / name


def _bound(places: list[Path]) -> tuple[Path, socket.socket]:
    """A socket at the first of the places that takes one, with its path."""
    reasons = []
    for path in places:
        if len(os.fsencode(path)) > _LONGEST:
            reasons.append(f"{path}: longer than {_LONGEST} bytes")
            continue
        _remove_left(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Nobody else can enter the folder meanwhile.  The umask would be every thread's.
            listener.bind(str(path))
            path.chmod(0o600)
        except OSError as error:
            listener.close()
            reasons.append(f"{path}: {error.strerror}")
            continue
        return path, listener
    raise ExecutionError(
        f"no place takes a socket ({'; '.join(reasons)})",
        hint="Name a folder of yours with a short path in XDG_RUNTIME_DIR, or use `weft run`, which needs none.",
    )


def _remove_left(path: Path) -> None:
    """Removes the socket that a killed server left; raises Conflict for anything else, which stays as it is."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
        raise Conflict(
            "another file is where the server's socket goes",
            where=str(path),
            hint="Weft has not made it and leaves it as it is: move it away.",
        )
    if _is_listened_to(path):
        raise Conflict(
            "another program listens at the server's socket", where=str(path), hint="Stop that program first."
        )
    path.unlink(missing_ok=True)


def _is_listened_to(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        asked.settimeout(_ANSWER_SECONDS)
        try:
            asked.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:  # it has more waiting than it takes
            return True
    return True


def _is_same(path: Path, made: os.stat_result) -> bool:
    """Whether a file is still the one that was made."""
    try:
        return os.path.samestat(path.lstat(), made)
    except OSError:
        return False


def _write(file: Path, text: str) -> None:
    """Writes a file of the user's own, whole or not at all."""
    draft = file.with_suffix(f".{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    draft.replace(file)
