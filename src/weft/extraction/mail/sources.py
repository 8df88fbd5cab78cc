"""Expand paths into sources of mail: files and directories of files. A file is an mbox, an article or a tar archive."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from weft.errors import ExtractionError, NotFound, Refused
from weft.extraction.batches import RawRecord, printable
from weft.extraction.byte_streams import DAMAGE, kind_of, plain, stem
from weft.extraction.mail.entries import Entry, Opening, Records, Source, given, read_entry, sources_of
from weft.extraction.mail.tar_archive import tar_contents
from weft.extraction.paths import SKIPPED, copied, descriptor, kind_of_path, opened, walked

_HINT = "Name an mbox file, a folder of articles, or a tar archive of such files; they may be compressed."


def find_sources(paths: Sequence[str | os.PathLike[str]], names: Mapping[Path, str] | None = None) -> list[Source]:
    """Return the sources of the paths, in the order given. All paths are checked before the first is read.

    ``names`` maps a path to another name in messages. Raises NotFound for a missing path, and Refused if no path is
    given. Raises ExtractionError for a path that cannot be opened or is neither a file nor a directory.
    """
    if not paths:
        raise Refused("no path was given", hint=_HINT)
    absolute = [Path(os.path.abspath(path)) for path in paths]
    for path in absolute:
        _check(path)
    return [
        source for path in absolute for source in _sources_in(path, (names or {}).get(path) or printable(str(path)))
    ]


@contextmanager
def mail_paths(paths: Sequence[str | os.PathLike[str]]) -> Iterator[tuple[list[Path], dict[Path, str]]]:
    """Yield paths that can be read repeatedly. Also yield a dict that maps the copies of streams to the original names.

    Raises NotFound if a path does not exist, or ExtractionError if a path cannot be read.
    """
    absolute = [Path(os.path.abspath(path)) for path in paths]
    for path in absolute:
        if descriptor(path) is not None:
            _check(path)
    with copied(absolute) as copies:
        yield [copies.get(path, path) for path in absolute], {copy: str(path) for path, copy in copies.items()}


def _check(path: Path) -> None:
    name = printable(str(path))
    try:
        match kind_of_path(path):
            case "folder":
                os.scandir(path).close()
            case "file":
                opened(path).close()
            case "stream":
                pass
    except FileNotFoundError:
        raise NotFound(f"no such file or folder: {name}", hint=_HINT) from None
    except OSError as error:
        raise ExtractionError(f"cannot be read: {name} ({error.strerror or error})", hint=_HINT) from None


def _sources_in(path: Path, name: str) -> Iterator[Source]:
    if path.is_dir():
        yield from _directory_sources(path)
    elif _kind(path) == "tar":
        yield from _tar_sources(path, name)
    else:
        own = printable(path.name)
        yield Source(name, stem(own), _file_records(Entry("", own, _opening(path))))


def _file_records(entry: Entry) -> Callable[[], Records]:
    def records() -> Records:
        with contextlib.suppress(*DAMAGE), entry.opened() as stream:
            if kind_of(stream) == "empty":
                return
        yield from read_entry(entry, "")

    return records


def _opening(path: Path) -> Opening:
    @contextmanager
    def reading() -> Iterator[io.BufferedReader]:
        with opened(path) as raw:
            yield plain(raw)

    return reading


def _kind(path: Path) -> str:
    try:
        with _opening(path)() as stream:
            return kind_of(stream)
    except DAMAGE:
        return "article"


def _tar_sources(path: Path, name: str) -> list[Source]:
    contents = tar_contents(path)
    sources = sources_of(name, contents.entries, stem(printable(path.name)))
    return [*sources, Source(name, stem(printable(path.name)), contents.damaged)]


def _directory_sources(path: Path) -> Iterator[Source]:
    entries: list[Entry] = []
    archives: list[Path] = []
    skipped: list[Path] = []
    try:
        files = list(walked(path, skipped))
    except OSError as error:
        raise ExtractionError(f"cannot be read: {printable(str(error.filename))} ({error.strerror})") from None
    for file in files:
        below = printable(os.path.relpath(file.parent, path)).removeprefix(".").removeprefix("/")
        entry = Entry(below, printable(file.name), _opening(file))
        if entry.number is None and _kind(file) == "tar":
            archives.append(file)
        else:
            entries.append(entry)
    name = printable(str(path))
    yield from sources_of(name, entries, printable(path.name))
    if skipped:
        others = [RawRecord(printable(os.path.relpath(each, path)), b"", SKIPPED) for each in skipped]
        yield Source(name, printable(path.name), lambda: given(others))
    for archive in archives:
        yield from _tar_sources(archive, printable(str(archive)))
