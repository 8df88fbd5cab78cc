"""Deliver to files: append each answer once, as JSON lines or CSV.

The outbox stores the size of the file before each message.  Recovery truncates the file to the stored size.  Each file
therefore belongs to one query, and no other program should append to the file.  The path must lie below the root folder
in the settings.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from weft.delivery.channel import DOUBLING, Foreign, Message, Recovery
from weft.delivery.rendering import csv_header, csv_line, field_names, json_line
from weft.errors import Conflict, DeliveryError, Refused
from weft.failpoint import failpoint
from weft.storage.ledger import Answers

_JSON_SUFFIXES: Final = (".jsonl", ".ndjson", ".json")
_CSV_SUFFIX: Final = ".csv"
_TAIL_BYTES: Final = 64 * 1024


def relative_path(text: str, root: Path) -> PurePosixPath:
    """Return the path of the file relative to ``root``.  Raise Refused for a path outside ``root`` or an unknown
    suffix.

    >>> relative_path("a/./b.jsonl", Path("/srv/files"))
    PurePosixPath('a/b.jsonl')
    """
    path = path_below(text, root, usage="file:NAME.jsonl or file:NAME.csv", variable="WEFT_FILES_ROOT")
    if path.suffix.lower() not in (*_JSON_SUFFIXES, _CSV_SUFFIX):
        raise Refused(
            f"{text!r} has a suffix that is not a file format",
            hint="Use .jsonl, .ndjson or .json for JSON lines, and .csv for CSV.",
        )
    return path


class _Gone(DeliveryError):
    """The error for a missing file or a missing folder in its path."""


class FileChannel:
    """A file below the folder ``root``.  The channel creates missing folders and refuses symbolic links."""

    shown_rows: Final = None
    server: Final = None
    schedule: Final = DOUBLING
    person: Final = None

    def __init__(self, path: str, root: Path) -> None:
        self._root = root
        self._path = relative_path(path, root)
        self._csv = self._path.suffix.lower() == _CSV_SUFFIX

    @property
    def address(self) -> str:
        """The canonical name of the channel."""
        return f"file:{self._path}"

    def require(self, answers: Answers) -> None:
        """Raise Conflict if the file and the answers have different columns."""
        try:
            with self._opened(create=False) as file:
                if os.fstat(file).st_size:
                    self._require_columns(file, field_names(name for name, _ in answers.columns))
        except _Gone:
            return
        except DeliveryError as error:
            raise Conflict(error.message, where=error.where, hint=error.hint) from error

    def prepare(self) -> str:
        """Create the file if it is missing.  Return the size, the inode and a digest of the last bytes as JSON.

        A file that was restored from a backup has another inode.  Weft then recognizes the file by the digest.
        """
        with self._opened(create=True) as file:
            status = os.fstat(file)
            return json.dumps({"offset": status.st_size, "tail": _tail(file, status.st_size), "inode": status.st_ino})

    def send(self, message: Message, position: str | None) -> None:
        """Append the rows of the message at the offset of ``position``, the end of the file.  Sync the file.

        Raise Foreign if the file has grown since ``prepare``.
        """
        place = _read_position(position)
        offset = place.offset
        names = field_names(name for name, _ in message.columns)
        with self._opened(create=False) as file:
            if not place.is_in(file):
                raise DeliveryError("the file was replaced during the delivery", where=self.address)
            if os.fstat(file).st_size != offset:
                raise Foreign("another process has written to the file during the delivery", where=self.address)
            if offset:
                self._require_columns(file, names)
            content = self._content(file, message, names, offset)
            half = len(content) // 2
            _write_at(file, content[:half], offset)
            failpoint("delivery.torn")
            _write_at(file, content[half:], offset + half)
            os.fsync(file)

    def test(self, message: Message) -> str:
        """Check that the file is writable.  Add no row, because the readers of the file expect only answers."""
        self.prepare()
        return "the file can be written; no test row was added, because the file contains answers only"

    def recover(self, position: str | None) -> Recovery:
        """Truncate the file to the offset of ``position``.  Return ``unknown`` if the file was replaced or
        shortened.
        """
        place = _read_position(position)
        try:
            with self._opened(create=False) as file:
                if not place.is_in(file):
                    return "unknown"
                os.ftruncate(file, place.offset)
                os.fsync(file)
        except _Gone:
            return "unknown"
        return "undone"

    def _content(self, file: int, message: Message, names: list[str], offset: int) -> bytes:
        if self._csv:
            head = "" if offset else csv_header(names)
            lines = (csv_line(row) for row in message.rows)
        else:
            head = ""
            lines = (json_line(names, row, message.columns) for row in message.rows)
        joint = "\n" if offset and os.pread(file, 1, offset - 1) != b"\n" else ""
        return (joint + head + "".join(lines)).encode("utf-8", errors="surrogatepass")

    def _require_columns(self, file: int, names: list[str]) -> None:
        line = _first_line(file)
        if (line + b"\n" == csv_header(names).encode()) if self._csv else (_fields(line) == names):
            return
        raise DeliveryError(
            f"the file does not have the columns {', '.join(names)}",
            where=self.address,
            hint="Move the file away, or deliver to another file.",
        )

    @contextmanager
    def _opened(self, *, create: bool) -> Iterator[int]:
        with contextlib.ExitStack() as stack:
            try:
                yield self._open(stack, create=create)
            except FileNotFoundError as error:
                raise _Gone("the file no longer exists", where=self.address) from error
            except OSError as error:
                raise self._delivery_error(error) from error

    def _open(self, stack: contextlib.ExitStack, *, create: bool) -> int:
        if create:
            self._root.mkdir(parents=True, exist_ok=True)
        folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, folder)
        for part in self._path.parts[:-1]:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
                    os.fsync(folder)
            # Do not follow links.  A folder may have become a link after the installation of the query.
            folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            stack.callback(os.close, folder)
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        if create:
            flags |= os.O_CREAT
        file = os.open(self._path.name, flags, 0o666, dir_fd=folder)
        stack.callback(os.close, file)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise DeliveryError("this is not a regular file", where=self.address, hint="Deliver to another file.")
        if create:
            os.fsync(folder)
        return file

    def _delivery_error(self, error: OSError) -> DeliveryError:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            return DeliveryError(
                "the path contains a symbolic link, or a file in place of a folder",
                where=self.address,
                hint=f"Deliver to a file in real folders under {self._root}.",
            )
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return DeliveryError(
                "the disk is full", where=self.address, hint="Free some space; Weft then repeats the delivery."
            )
        return DeliveryError(f"the file cannot be written: {error.strerror}", where=self.address)


@dataclass(frozen=True)
class _Position:
    """``tail`` is the digest of the bytes before the offset."""

    offset: int
    tail: str
    inode: int

    def is_in(self, file: int) -> bool:
        """Accept a copy of the file if the bytes before the offset are the same."""
        status = os.fstat(file)
        if status.st_size < self.offset or _tail(file, self.offset) != self.tail:
            return False
        # At offset 0, there are no bytes to compare.  Require an empty file, so that recovery truncates no other file.
        return status.st_ino == self.inode or self.offset > 0 or status.st_size == 0


def _read_position(position: str | None) -> _Position:
    if position is None:
        raise DeliveryError("the outbox has no file position for this message")
    note = json.loads(position)
    return _Position(int(note["offset"]), note["tail"], int(note["inode"]))


def _tail(file: int, offset: int) -> str:
    """Return a digest of at most 64 KiB before the offset."""
    length = min(offset, _TAIL_BYTES)
    return hashlib.sha256(os.pread(file, length, offset - length)).hexdigest()


def _first_line(file: int) -> bytes:
    content = b""
    while b"\n" not in content and (more := os.pread(file, _TAIL_BYTES, len(content))):
        content += more
    return content.partition(b"\n")[0]


def _fields(line: bytes) -> list[str] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return list(value) if isinstance(value, dict) else None


def _write_at(file: int, content: bytes, offset: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(file, view, offset)
        view = view[written:]
        offset += written


def path_below(text: str, root: Path, *, usage: str, variable: str) -> PurePosixPath:
    """Return the path relative to ``root``.  Raise Refused for a path outside ``root``.

    Error messages contain ``usage`` (the syntax of the channel) and ``variable`` (the variable for the root folder).

    >>> path_below("a/./b", Path("/srv/files"), usage="file:NAME.csv", variable="WEFT_FILES_ROOT")
    PurePosixPath('a/b')
    """
    path = PurePosixPath(text)
    if not text or "\0" in text or text.endswith("/") or not path.parts:
        raise Refused(f"{text!r} is not a path", hint=f"Write {usage}.")
    if ".." in path.parts:
        raise Refused(f"the path {text!r} contains '..'", hint=f"Name a path under {root}.")
    if path.is_absolute():
        bases = (PurePosixPath(os.path.abspath(root)), PurePosixPath(os.path.realpath(root)))
        inside = [base for base in bases if path.is_relative_to(base) and path != base]
        if not inside:
            raise Refused(f"{text!r} is not under {root}", hint=f"Name a path under {root}, or set {variable}.")
        path = path.relative_to(inside[0])
    return path
