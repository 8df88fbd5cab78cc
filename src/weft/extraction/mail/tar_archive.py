"""Read the members of a tar archive in any order.

Members are stored in the order of packing, not of arrival. A merge also reads several folders at the same time. A
compressed archive is therefore decompressed once into a temporary file. The operating system deletes the temporary file
when it is closed. Members are read from the temporary file by position, never extracted by name.
"""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from errno import EFBIG
from pathlib import Path
from typing import Any, BinaryIO

from weft.errors import ExtractionError
from weft.extraction.batches import MAX_LINE, MAX_RECORD, RawRecord, printable
from weft.extraction.byte_streams import DAMAGE, damage, is_compressed, plain
from weft.extraction.mail.entries import Entry, Records
from weft.extraction.paths import opened


@dataclass(frozen=True, slots=True)
class TarContents:
    """The regular files of an archive. A call of ``damaged`` yields the unreadable parts."""

    entries: list[Entry]
    damaged: Callable[[], Records]


class _Region(io.RawIOBase):
    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file = file
        self._next = start
        self._end = start + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        wanted = min(len(buffer), self._end - self._next)
        if wanted <= 0:
            return 0
        self._file.seek(self._next)
        chunk = self._file.read(wanted)
        if not chunk:
            raise EOFError("the archive ends inside this member")
        buffer[: len(chunk)] = chunk
        self._next += len(chunk)
        return len(chunk)


def tar_contents(path: Path) -> TarContents:
    """Return the files of an archive. A compressed archive is decompressed first. The result keeps one file open.

    A hard link in the archive stands for its target, because news servers store cross-posts as links. ``damaged``
    contains symbolic links, devices, sparse files, and everything after damage.
    """
    damaged: list[RawRecord] = []
    file = _unpacked(path, damaged)
    places, end = _members(file, damaged)

    def broken() -> Records:
        yield from damaged
        yield from _rest(file, end)

    return TarContents([_entry(file, name, start, size) for name, (start, size) in places.items()], broken)


class _Member(tarfile.TarInfo):
    """An archive member with a name of limited length. The library would read a name of any length into memory."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.type in _LONG_NAMES and self.size > MAX_LINE:
            raise tarfile.ReadError("a member's name is too long")
        return super()._proc_member(archive)  # type: ignore[misc]


_LONG_NAMES = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
_MOST_MEMBERS = 500_000
"""Each member of an archive takes about a kilobyte of memory."""
_LEAST_ROOM = 1 << 30
_MOST_TIMES = 100
"""A compressed archive may expand to this many times its size. The limit is at least one GiB. Compressed mail
expands to about four times its size.
"""


def _unpacked(path: Path, damaged: list[RawRecord]) -> BinaryIO:
    with opened(path) as raw:
        stream = plain(raw)
        if not is_compressed(stream):
            return io.BufferedReader(opened(path))
        file = tempfile.TemporaryFile(prefix="weft-tar-")  # noqa: SIM115 - lives as long as the entries
        try:
            _copy(stream, file, max(_LEAST_ROOM, _MOST_TIMES * os.fstat(raw.fileno()).st_size))
        except OSError as error:
            file.close()
            raise ExtractionError(
                f"cannot be read: {printable(str(path))} ({error.strerror})",
                hint="Unpack the archive, and name the folder with the unpacked files.",
            ) from None
        broken = damage(stream)
    if broken is not None:
        damaged.append(
            RawRecord("archive", b"", f"the archive is damaged, and the rest of it cannot be read: {broken}")
        )
    file.seek(0)
    return file


def _copy(stream: io.BufferedReader, file: BinaryIO, most: int) -> None:
    copied = 0
    while chunk := stream.read(1 << 20):
        copied += len(chunk)
        if copied > most:
            raise OSError(
                EFBIG,
                f"the decompressed archive is larger than {most >> 20:,} MiB and {_MOST_TIMES} times the size of "
                "the compressed archive",
            )
        file.write(chunk)
    file.flush()


def _members(file: BinaryIO, damaged: list[RawRecord]) -> tuple[dict[str, tuple[int, int]], int]:
    places: dict[str, tuple[int, int]] = {}
    end = 0
    with contextlib.suppress(tarfile.TarError):
        archive = tarfile.open(fileobj=file, mode="r:", tarinfo=_Member)  # noqa: SIM115 - closing it is not closing the file
        with contextlib.suppress(tarfile.TarError, *DAMAGE):
            for count, member in enumerate(archive):
                if count == _MOST_MEMBERS:
                    break
                _place(member, places, damaged)
                end = member.offset_data + (_blocks(member.size) if member.isreg() else 0)
                # The library appends every member to a list. Clear this list, because it would grow with the archive.
                archive.members = []  # type: ignore[attr-defined]
    return places, end


def _place(member: tarfile.TarInfo, places: dict[str, tuple[int, int]], damaged: list[RawRecord]) -> None:
    name = printable(member.name)
    if member.isdir() or os.path.basename(name).startswith("."):
        return
    if member.islnk() and printable(member.linkname) in places:
        places[_free(name, places)] = places[printable(member.linkname)]
    elif member.isreg() and not member.issparse():
        places[_free(name, places)] = (member.offset_data, member.size)
    else:
        target = os.fsencode(member.linkname)
        damaged.append(
            RawRecord(name, target, "not a regular file: Weft does not follow links and devices of an archive")
        )


def _free(name: str, places: dict[str, tuple[int, int]]) -> str:
    """Return a unique name, because an archive may contain the same name twice."""
    if name not in places:
        return name
    count = 2
    while f"{name}~{count}" in places:
        count += 1
    return f"{name}~{count}"


def _blocks(size: int) -> int:
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _rest(file: BinaryIO, end: int) -> Iterator[RawRecord]:
    """Yield the bytes after the last readable member. The zeros at the end of an archive are skipped."""
    position = end
    file.seek(position)
    while chunk := file.read(MAX_RECORD):
        if chunk.count(b"\0") == len(chunk):
            position += len(chunk)
            continue
        reason = f"damaged archive: no valid member header at this position, or more than {_MOST_MEMBERS:,} members"
        yield RawRecord(f"byte {position}", chunk, reason)
        position += len(chunk)


def _entry(file: BinaryIO, name: str, start: int, size: int) -> Entry:
    @contextlib.contextmanager
    def opened() -> Iterator[io.BufferedReader]:
        yield plain(_Region(file, start, size))

    folder, _, base = name.removeprefix("./").rpartition("/")
    return Entry(folder, base, opened)
