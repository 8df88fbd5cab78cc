"""Expand the items that a user names into files. An item is a path, a pattern such as ``*.csv``, a folder or a stream.

:mod:`weft.extraction.paths` defines which local files may be read, and :mod:`weft.extraction.files.objects` finds
objects in an object store.
"""

from __future__ import annotations

import glob
import io
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

from weft.errors import NotFound, Refused
from weft.extraction.batches import printable
from weft.extraction.files.objects import input_object, objects
from weft.extraction.files.probe import InputFile, format_by_name, refuse_delta_table, unreadable
from weft.extraction.paths import copied, descriptor, kind_of_path, matching, walked
from weft.printable import counted
from weft.store import S3Access, uri_of

Given: TypeAlias = "str | os.PathLike[str] | BinaryIO | Uploaded"
"""A path, a pattern, a folder, or a stream of bytes."""


class Uploaded(io.FileIO):
    """The bytes of a file that somebody sent under the name ``sent_as``, whose suffix names the format."""

    def __init__(self, path: str | os.PathLike[str], sent_as: str) -> None:
        super().__init__(path)
        self.sent_as = sent_as


@dataclass(frozen=True)
class InputFiles:
    """The files to read, and the paths in a folder or pattern that are skipped."""

    files: list[InputFile]
    skipped: tuple[Path, ...] = ()

    def notes(self) -> list[str]:
        """Return sentences about skipped paths."""
        if not self.skipped:
            return []
        named = ", ".join(printable(str(path)) for path in self.skipped[:_NAMED])
        more = f" and {len(self.skipped) - _NAMED} more" if len(self.skipped) > _NAMED else ""
        return [
            (
                f"skipped, because Weft does not follow links and devices in a folder: {named}{more}. To load "
                "them, name them"
            )
        ]


_NAMED = 5
"""The maximum number of skipped paths in a note."""


@contextmanager
def input_files(items: Sequence[Given], access: S3Access) -> Iterator[InputFiles]:
    """Yield the files in the order given. The files of a pattern or a folder tree are sorted by name.

    In a folder, only files with a known suffix (``.csv``, ``.jsonl.gz``, …) are read. Hidden files are skipped, and
    repeated files are left out. A stream or file descriptor is copied into a temporary file. ``access`` says how
    objects are reached, which are not copied yet.

    Raises NotFound for a missing path, and ExtractionError for a path that cannot be read. Raises Refused if ``items``
    is empty, or if an item is neither a path nor a stream of bytes. Raises StorageError if an object store fails.
    """
    given = [os.fspath(each) if isinstance(each, str | os.PathLike) else each for each in items]
    named = [Path(os.path.abspath(each)) for each in given if isinstance(each, str) and uri_of(each) is None]
    with tempfile.TemporaryDirectory(prefix="weft-stdin-") as folder, _copied(named) as copies:
        files: dict[str, InputFile] = {}
        skipped: list[Path] = []
        for number, each in enumerate(given):
            if isinstance(each, str) and (uri := uri_of(each)) is not None:
                for place in objects(uri, access):
                    files.setdefault(str(place), input_object(place, Path(folder, f"object-{len(files)}")))
            elif isinstance(each, str):
                for path in _files(each, skipped):
                    file = copies.get(path, path)
                    files.setdefault(os.path.realpath(file), InputFile(file, printable(str(path))))
            else:
                _refuse_no_bytes(each)
                written = format_by_name(Path(each.sent_as)) if isinstance(each, Uploaded) else None
                copied = Path(folder, f"{number}.{written}" if written else str(number))
                with copied.open("wb") as copy:
                    shutil.copyfileobj(each, copy)
                name = printable(each.sent_as) if isinstance(each, Uploaded) else "stdin"
                files[str(copied)] = InputFile(copied, name)
        if not files:
            raise Refused("no path was given", hint="Name files, patterns such as '*.csv', folders, or - for stdin.")
        yield InputFiles(list(files.values()), tuple(skipped))


@contextmanager
def _copied(paths: Sequence[Path]) -> Iterator[dict[Path, Path]]:
    """Copy the streams among the paths, except closed file descriptors."""
    with copied([path for path in paths if descriptor(path) is not None and path.exists()]) as copies:
        yield copies


def _refuse_no_bytes(item: object) -> None:
    if isinstance(item, io.TextIOBase) or not hasattr(item, "read"):
        raise Refused(
            f"a {type(item).__name__} is neither a path nor a stream of bytes",
            hint="Pass paths, or streams such as open(path, 'rb') and io.BytesIO. Use append for rows.",
        )


def _files(pattern: str, skipped: list[Path]) -> list[Path]:
    path = Path(os.path.abspath(pattern))
    before = len(skipped)
    if path.is_dir():
        refuse_delta_table(printable(str(path)), (path / "_delta_log").is_dir())
        try:
            paths = [each for each in walked(path, skipped) if format_by_name(each) is not None]
        except OSError as error:
            raise unreadable(InputFile.of(path), error) from None
        missing = "the folder has no file with a known suffix (.csv, .tsv, .jsonl, .ndjson, .json, .parquet, .pq)"
    elif path.exists() or not glob.has_magic(pattern):
        return [_named(path)]
    else:
        paths = list(matching(pattern, skipped))
        missing = "no file matches the pattern"
    skipped[before:] = [each for each in skipped[before:] if each.is_dir() or format_by_name(each) is not None]
    if not paths:
        unread = counted(len(skipped) - before, "link or device is", "links or devices are")
        links = f" ({unread} not followed)" if len(skipped) > before else ""
        raise NotFound(f"{missing}{links}: {printable(str(path))}", hint="Name CSV, JSON lines or Parquet files.")
    return paths


def _named(path: Path) -> Path:
    try:
        kind_of_path(path)
    except OSError as error:
        raise unreadable(InputFile.of(path), error) from None
    return path
