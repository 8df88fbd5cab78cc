"""From what a person names to files: paths, patterns such as ``*.csv``, folders, and streams."""

from __future__ import annotations

import glob
import io
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias

from weft.errors import NotFound, Refused
from weft.extraction.batches import printable
from weft.extraction.files.looking import GivenFile, format_by_name

Given: TypeAlias = "str | os.PathLike[str] | BinaryIO"
"""A path, a pattern, a folder, or a stream of bytes."""


@contextmanager
def found_files(given: Sequence[Given]) -> Iterator[list[GivenFile]]:
    """The files, in the order given; those of a pattern or of a folder, and of its folders, in that of their names.

    In a folder those count whose names say what they are (``.csv``, ``.jsonl.gz``, …) and that are not hidden.  A file
    that is named again is left out.  A stream is copied into a file that is there for
    the block.  Raises NotFound for a path that is not there, Refused where nothing is named by it, and for what is no
    path and no stream of bytes.
    """
    with tempfile.TemporaryDirectory(prefix="weft-stdin-") as folder:
        files: dict[str, GivenFile] = {}
        for number, each in enumerate(given):
            if isinstance(each, str | os.PathLike):
                for path in _files(os.fspath(each)):
                    files.setdefault(os.path.realpath(path), GivenFile.of(path))
            else:
                _refuse_no_bytes(each)
                copied = Path(folder, str(number))
                with copied.open("wb") as copy:
                    shutil.copyfileobj(each, copy)
                files[str(copied)] = GivenFile(copied, "stdin")
        if not files:
            raise Refused("no path was given", hint="Name files, patterns such as '*.csv', folders, or - for stdin.")
        yield list(files.values())


def _refuse_no_bytes(given: object) -> None:
    if isinstance(given, io.TextIOBase) or not hasattr(given, "read"):
        raise Refused(
            f"this {type(given).__name__} is no path, and no stream of bytes",
            hint="Give paths, or streams such as open(path, 'rb') and io.BytesIO; rows are for append.",
        )


def _files(given: str) -> list[Path]:
    path = Path(os.path.abspath(given))
    if path.is_dir():
        if (path / "_delta_log").is_dir():
            raise Refused(
                f"{printable(str(path))} is a Delta table, which has more files than rows that hold",
                hint="Follow it as a source: weft source add NAME --kind changes --at FOLDER --key COLS.",
            )
        found = [each for each in _walked(path) if format_by_name(each) is not None]
        missing = "the folder has no file with a known suffix (.csv, .tsv, .jsonl, .ndjson, .json, .parquet, .pq)"
    elif path.exists() or not glob.has_magic(given):
        return [path]  # one that is not there is told when it is opened
    else:
        found = [each for each in map(Path, sorted(glob.glob(str(path), recursive=True))) if each.is_file()]
        missing = "no file has a name of this pattern"
    if not found:
        raise NotFound(f"{missing}: {printable(str(path))}", hint="Name CSV, JSON lines or Parquet files.")
    return found


def _walked(folder: Path) -> Iterator[Path]:
    for here, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if not name.startswith("."))
        yield from (Path(here, name) for name in sorted(files) if not name.startswith("."))
