"""Group the files of a directory or a tar archive into sources.

A *source* is one mbox or one folder of single articles. The records of a source are in the order of arrival. In a
folder, a numeric file name is the article number assigned on arrival. A file is open only while it is read. A folder of
a million articles therefore needs little memory and few file handles.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from weft.extraction.batches import RawRecord
from weft.extraction.byte_streams import DAMAGE, kind_of, stem, whole_record
from weft.extraction.mail.mbox import split_mbox

Records = Generator[RawRecord, None, None]
Opening = Callable[[], AbstractContextManager[io.BufferedReader]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: the printable names of its folder and of the file, and a function that opens the decompressed file."""

    folder: str
    name: str
    opened: Opening

    @property
    def path(self) -> str:
        """The path relative to the source."""
        return f"{self.folder}/{self.name}" if self.folder else self.name

    @property
    def number(self) -> int | None:
        """The article number if the file name is a number, otherwise None."""
        bare = stem(self.name)
        return int(bare) if bare.isascii() and bare.isdigit() and len(bare) < 20 else None


@dataclass(frozen=True, slots=True)
class Source:
    """A source whose records are in the order of arrival.

    ``records()`` can be called repeatedly.
    """

    path: str
    stem: str
    records: Callable[[], Records]


def sources_of(path: str, entries: list[Entry], root_stem: str) -> list[Source]:
    """Return the sources in the entries, sorted by path. Each mbox and each folder of articles is one source.

    A file with a numeric name is an article of its folder, even if it is an mbox. The articles of a folder are sorted
    by number. Files with other names follow, sorted by name.
    """
    folders: dict[str, list[Entry]] = {}
    sources: list[tuple[str, Source]] = []
    for entry in entries:
        if entry.number is None and _holds_mbox(entry):
            sources.append((entry.path, Source(path, stem(entry.name), _mbox_records(entry))))
        else:
            folders.setdefault(entry.folder, []).append(entry)
    for folder, members in folders.items():
        members.sort(key=_arrival)
        sources.append((folder, Source(path, _folder_stem(folder, root_stem), _article_records(members))))
    return [source for _, source in sorted(sources, key=lambda pair: pair[0])]


def _arrival(entry: Entry) -> tuple[bool, int, str]:
    number = entry.number
    return number is None, number or 0, entry.name


def _folder_stem(folder: str, root_stem: str) -> str:
    """For ``cur`` and ``new`` in a maildir, return the name of the maildir."""
    parts = [part for part in folder.split("/") if part not in ("", ".")]
    if parts and parts[-1] in ("cur", "new", "tmp"):
        parts.pop()
    return parts[-1] if parts else root_stem


def _holds_mbox(entry: Entry) -> bool:
    try:
        with entry.opened() as stream:
            return kind_of(stream) == "mbox"
    except DAMAGE:
        return False


def _mbox_records(entry: Entry) -> Callable[[], Records]:
    def records() -> Records:
        return read_entry(entry, f"{entry.path}: ")

    return records


def _article_records(members: list[Entry]) -> Callable[[], Records]:
    def records() -> Records:
        for entry in members:
            yield from read_entry(entry, f"{entry.path}: ")

    return records


def read_entry(entry: Entry, prefix: str) -> Records:
    """Yield the messages of one file, an article or an mbox. Positions in an mbox start with ``prefix``."""
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(entry.opened())
        except DAMAGE as error:
            yield RawRecord(entry.path, b"", f"cannot be opened: {error}")
            return
        if kind_of(stream) != "mbox":
            yield from whole_record(stream, entry.path)
            return
        for record in split_mbox(stream):
            yield RawRecord(prefix + record.position, record.raw, record.problem)


def given(records: list[RawRecord]) -> Records:
    """Yield the given records."""
    yield from records
