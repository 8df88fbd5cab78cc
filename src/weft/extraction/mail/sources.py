"""From paths to sources of mail: a file (mbox, single article, tar, compressed or not) or a directory of such."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from weft.errors import ExtractionError, NotFound, Refused
from weft.extraction.batches import RawRecord, printable
from weft.extraction.byte_streams import DAMAGE, kind_of, plain, stem
from weft.extraction.mail.entries import Entry, Opening, Records, Source, given, read_entry, sources_of
from weft.extraction.mail.tar_archive import tar_contents

_HINT = "Name an mbox file, a directory of articles, or a tar archive of them; they may be compressed."


def find_sources(paths: Sequence[str | os.PathLike[str]]) -> list[Source]:
    """The sources in the paths, in the order given.  Every path is looked at before anything is read.

    Raises NotFound for a path that is not there, ExtractionError for one that cannot be opened or is neither file nor
    directory, Refused where there is none.
    """
    if not paths:
        raise Refused("no path was given", hint=_HINT)
    absolute = [Path(os.path.abspath(path)) for path in paths]
    for path in absolute:
        _check(path)
    return [source for path in absolute for source in _found(path)]


def _check(path: Path) -> None:
    name = printable(str(path))
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            with os.scandir(path):
                return
        if not stat.S_ISREG(mode):
            raise ExtractionError(f"neither a file nor a directory: {name}", hint=_HINT)
        with path.open("rb"):
            return
    except FileNotFoundError:
        raise NotFound(f"no such file or directory: {name}", hint=_HINT) from None
    except OSError as error:
        raise ExtractionError(f"cannot be read: {name} ({error.strerror or error})", hint=_HINT) from None


def _found(path: Path) -> Iterator[Source]:
    if path.is_dir():
        yield from _directory_sources(path)
    elif _kind(path) == "tar":
        yield from _tar_sources(path)
    else:
        name = printable(path.name)
        yield Source(printable(str(path)), stem(name), _file_records(Entry("", name, _opening(path))))


def _file_records(entry: Entry) -> Callable[[], Records]:
    def records() -> Records:
        with contextlib.suppress(*DAMAGE), entry.opened() as stream:
            if kind_of(stream) == "empty":
                return
        yield from read_entry(entry, "")

    return records


def _opening(path: Path) -> Opening:
    @contextlib.contextmanager
    def opened() -> Iterator[io.BufferedReader]:
        with path.open("rb", buffering=0) as raw:
            yield plain(raw)

    return opened


def _kind(path: Path) -> str:
    try:
        with _opening(path)() as stream:
            return kind_of(stream)
    except DAMAGE:
        return "article"


def _tar_sources(path: Path) -> list[Source]:
    contents = tar_contents(path)
    name = printable(str(path))
    found = sources_of(name, contents.entries, stem(printable(path.name)))
    if contents.damaged:
        found.append(Source(name, stem(printable(path.name)), lambda: given(contents.damaged)))
    return found


def _directory_sources(path: Path) -> Iterator[Source]:
    """A directory's articles and mboxes as they fall into sources, then its archives; hidden files are left out."""
    entries: list[Entry] = []
    archives: list[Path] = []
    skipped: list[RawRecord] = []
    for folder, names, files in os.walk(path):
        names[:] = sorted(name for name in names if not name.startswith("."))
        below = printable(os.path.relpath(folder, path)).removeprefix(".").removeprefix("/")
        for name in sorted(files):
            file = Path(folder, name)
            if name.startswith("."):
                continue
            if not stat.S_ISREG(file.lstat().st_mode):
                place = printable(os.path.relpath(file, path))
                skipped.append(RawRecord(place, b"", "not a regular file: links and devices are not followed"))
                continue
            entry = Entry(below, printable(name), _opening(file))
            if entry.number is None and _kind(file) == "tar":
                archives.append(file)
            else:
                entries.append(entry)
    name = printable(str(path))
    yield from sources_of(name, entries, printable(path.name))
    if skipped:
        yield Source(name, printable(path.name), lambda: given(skipped))
    for archive in archives:
        yield from _tar_sources(archive)
