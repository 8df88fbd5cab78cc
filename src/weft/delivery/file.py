"""Files: answers appended as JSON lines or CSV, each once, under one folder.

A message is one append from an offset that the outbox stored before; what an interrupted append left is cut off again.
So a file belongs to one query, and nobody else should append to it.
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

from weft.delivery.channel import Message, Recovery
from weft.delivery.places import below
from weft.delivery.rendering import csv_header, csv_line, field_names, json_line
from weft.delivery.retrying import DOUBLING
from weft.errors import Conflict, DeliveryError, Refused
from weft.failpoint import failpoint
from weft.storage.ledger import Answers

_JSON_SUFFIXES: Final = (".jsonl", ".ndjson", ".json")
_CSV_SUFFIX: Final = ".csv"
_TAIL_BYTES: Final = 64 * 1024


def relative_path(text: str, root: Path) -> PurePosixPath:
    """The file's path under ``root``; raises Refused for one that leaves it or whose suffix names no format.

    >>> relative_path("a/./b.jsonl", Path("/srv/files"))
    PurePosixPath('a/b.jsonl')
    """
    given = below(text, root, usage="file:NAME.jsonl or file:NAME.csv", variable="WEFT_FILES_ROOT")
    if given.suffix.lower() not in (*_JSON_SUFFIXES, _CSV_SUFFIX):
        raise Refused(
            f"the suffix of {text!r} names no format", hint="Use .jsonl, .ndjson or .json for JSON lines, .csv for CSV."
        )
    return given


class _Gone(DeliveryError):
    """The file, or a folder on the way to it, is not there."""


class FileChannel:
    """One file under ``root``; folders on the way are made, symbolic links on the way are refused."""

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
        """The channel's one name, whichever way it was written."""
        return f"file:{self._path}"

    def require(self, answers: Answers) -> None:
        """Raises Conflict where the file has other columns."""
        try:
            with self._opened(create=False) as file:
                if os.fstat(file).st_size:
                    self._require_columns(file, field_names(name for name, _ in answers.columns))
        except _Gone:
            return
        except DeliveryError as error:
            raise Conflict(error.message, where=error.where, hint=error.hint) from error

    def prepare(self) -> str:
        """Makes the file where there is none; its size, and by what it is known again: what it ends with.

        Not its number in the file system alone: a home that was restored from a copy goes on.
        """
        with self._opened(create=True) as file:
            found = os.fstat(file)
            return json.dumps({"offset": found.st_size, "tail": _tail(file, found.st_size), "inode": found.st_ino})

    def send(self, message: Message, position: str | None) -> None:
        """Appends the message's rows at the position and waits until they are on the disk."""
        place = _read_position(position)
        offset = place.offset
        names = field_names(name for name, _ in message.columns)
        with self._opened(create=False) as file:
            if not place.is_in(file):
                raise DeliveryError("the file was replaced while it was written to", where=self.address)
            if offset:
                self._require_columns(file, names)
            content = self._content(file, message, names, offset)
            os.ftruncate(file, offset)
            half = len(content) // 2
            _write_at(file, content[:half], offset)
            failpoint("delivery.torn")
            _write_at(file, content[half:], offset + half)
            os.fsync(file)

    def test(self, message: Message) -> str:
        """Opens the file as a delivery does.  No row is added: a file has answers only, and programs read them."""
        self.prepare()
        return "it can be written to; no row was added, since a file has answers only"

    def recover(self, position: str | None) -> Recovery:
        """Cuts the file back to the position; ``unknown`` where it is another file by now, or a shorter one."""
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
        # A line that someone left without its end must not run into the first of ours.
        joint = "\n" if offset and os.pread(file, 1, offset - 1) != b"\n" else ""
        return (joint + head + "".join(lines)).encode("utf-8", errors="surrogatepass")

    def _require_columns(self, file: int, names: list[str]) -> None:
        """Raises DeliveryError where the file's first line is not that of rows with such columns."""
        line = _first_line(file)
        if (line + b"\n" == csv_header(names).encode()) if self._csv else (_fields(line) == names):
            return
        raise DeliveryError(
            f"the file has other columns than {', '.join(names)}",
            where=self.address,
            hint="Move the file away, or deliver to another one.",
        )

    @contextmanager
    def _opened(self, *, create: bool) -> Iterator[int]:
        """The file, open for reading and writing; raises DeliveryError."""
        with contextlib.ExitStack() as stack:
            try:
                yield self._open(stack, create=create)
            except FileNotFoundError as error:
                raise _Gone("the file is not there any more", where=self.address) from error
            except OSError as error:
                raise self._explained(error) from error

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
            # Step by step and never through a link: what was a folder at install may be a link by now.
            folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            stack.callback(os.close, folder)
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        if create:
            flags |= os.O_CREAT
        file = os.open(self._path.name, flags, 0o666, dir_fd=folder)
        stack.callback(os.close, file)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise DeliveryError("this is not an ordinary file", where=self.address, hint="Deliver to another one.")
        if create:
            os.fsync(folder)
        return file

    def _explained(self, error: OSError) -> DeliveryError:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            return DeliveryError(
                "the path goes through a symbolic link or something that is no folder",
                where=self.address,
                hint=f"Deliver to a file in real folders under {self._root}.",
            )
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return DeliveryError("the disk is full", where=self.address, hint="Make room: it is tried again.")
        return DeliveryError(f"the file cannot be written: {error.strerror}", where=self.address)


@dataclass(frozen=True)
class _Place:
    """Where a message begins; ``tail`` is the digest of what comes right before, None in notes of an older Weft."""

    offset: int
    tail: str | None
    inode: int

    def is_in(self, file: int) -> bool:
        """Whether this is the file: the same one, or a copy that has the same before the place."""
        found = os.fstat(file)
        if found.st_size < self.offset:
            return False
        if self.tail is not None and _tail(file, self.offset) != self.tail:
            return False
        # Of a message that begins the file nothing comes before: another file there must not be cut.
        return found.st_ino == self.inode or (self.tail is not None and (self.offset > 0 or found.st_size == 0))


def _read_position(position: str | None) -> _Place:
    if position is None:
        raise DeliveryError("a file's message has no position")
    note = json.loads(position)
    return _Place(int(note["offset"]), note.get("tail"), int(note["inode"]))


def _tail(file: int, offset: int) -> str:
    """A digest of the bytes right before the offset."""
    length = min(offset, _TAIL_BYTES)
    return hashlib.sha256(os.pread(file, length, offset - length)).hexdigest()


def _first_line(file: int) -> bytes:
    """The file's first line, without its end."""
    found = b""
    while b"\n" not in found and (more := os.pread(file, _TAIL_BYTES, len(found))):
        found += more
    return found.partition(b"\n")[0]


def _fields(line: bytes) -> list[str] | None:
    """The names in a line of JSON, in their order; None where it is no such line."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return list(found) if isinstance(found, dict) else None


def _write_at(file: int, content: bytes, offset: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(file, view, offset)
        view = view[written:]
        offset += written
