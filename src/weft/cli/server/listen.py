"""Open the socket of a home's server.  Each home has at most one server on each machine.

The socket is in the home.  If the home cannot contain a socket, the socket is in the user's runtime folder.  The
pointer file in the home names the socket.
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
"""The maximum length of a socket's path in bytes (Linux allows 107, other systems 103)."""


@contextmanager
def listening(home: Path) -> Iterator[socket.socket]:
    """Open the listening socket of the home for a ``with`` block, and name the socket in the pointer file.

    The function removes the socket of a killed server.  Raises Conflict if the home has a server.  Raises StorageError
    if the home is not writable.  Raises ExecutionError if no folder accepts a socket.
    """
    try:
        folder = Path(address.server_folder(home))
        _private(folder.parent)
        _private(folder)
    except OSError as error:
        raise StorageError(f"the server's folder cannot be created: {error.strerror}", where=str(home)) from None
    with _only_server(folder):
        path, listener = _bind([folder / address.SOCKET, *_elsewhere(home)])
        pointer, created = folder / address.POINTER, path.lstat()
        try:
            listener.listen(128)
            _write(pointer, json.dumps({"socket": str(path), "pid": os.getpid()}))
            yield listener
        finally:
            pointer.unlink(missing_ok=True)
            if _is_same_file(path, created):
                path.unlink(missing_ok=True)
            listener.close()


@contextmanager
def _only_server(folder: Path) -> Iterator[None]:
    """When the process ends, the system releases the lock."""
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
                f"this home already has a server: process {file.read().strip() or 'unknown'}",
                where=str(folder.parent.parent),
                hint=(
                    "Let commands use the running server, which they do automatically. To start another server, stop "
                    "the running server first."
                ),
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _private(folder: Path) -> Path:
    """Create the folder with access for this user only.  Raise OSError if the folder belongs to another user."""
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(1, "the folder belongs to another user, or is not a folder", str(folder))
    folder.chmod(0o700)
    return folder


def _elsewhere(home: Path) -> Iterator[Path]:
    """Yield alternative paths of the socket outside the home.  The file name is unique to the home and the machine."""
    name = hashlib.sha256(os.fsencode(address.server_folder(home.resolve()))).hexdigest()[:16]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    places = [Path(runtime, "weft")] if runtime else []
    for folder in (*places, Path(tempfile.gettempdir(), f"weft-{os.getuid()}")):
        with suppress(OSError):
            yield _private(folder) / name


def _bind(places: list[Path]) -> tuple[Path, socket.socket]:
    reasons = []
    for path in places:
        if len(os.fsencode(path)) > _LONGEST:
            reasons.append(f"{path}: longer than {_LONGEST} bytes")
            continue
        _remove_stale(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # The folder is private, so no other user can connect before chmod.  A umask would affect every thread.
            listener.bind(str(path))
            path.chmod(0o600)
        except OSError as error:
            listener.close()
            reasons.append(f"{path}: {error.strerror}")
            continue
        return path, listener
    raise ExecutionError(
        f"no folder accepts a socket ({'; '.join(reasons)})",
        hint="Set XDG_RUNTIME_DIR to a folder of your own with a short path, or use `weft run`, which needs no socket.",
    )


def _remove_stale(path: Path) -> None:
    """Raise Conflict if the file is not the socket of a killed server."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.getuid():
        raise Conflict(
            "another file has the path of the server's socket",
            where=str(path),
            hint="Move the file away: Weft did not create it.",
        )
    if _is_listened_to(path):
        raise Conflict(
            "another program listens on the server's socket", where=str(path), hint="Stop that program first."
        )
    path.unlink(missing_ok=True)


def _is_listened_to(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_ANSWER_SECONDS)
        try:
            client.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:  # its queue of connections is full
            return True
    return True


def _is_same_file(path: Path, created: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.lstat(), created)
    except OSError:
        return False


def _write(file: Path, text: str) -> None:
    draft = file.with_suffix(f".{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    draft.replace(file)
