"""Read texts of temporal logic from files: formulas, signatures and logs, compressed with gzip (``.gz``) or not."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from weft.errors import FormulaError, NotFound, Refused
from weft.extraction.batches import MAX_LINE
from weft.extraction.byte_streams import long_line
from weft.extraction.paths import opened

STDIN = "-"
_MOST_TEXT = 16 << 20
"""The most characters of a formula or a signature."""


def text_of(path: Path) -> str:
    """Return the text of a file. Raises NotFound, and Refused if it cannot be read."""
    with opened_text(path) as stream:
        text = stream.read(_MOST_TEXT + 1)
    if len(text) > _MOST_TEXT:
        raise Refused(f"the file has more than {_MOST_TEXT >> 20} MiB of text", where=str(path))
    return text


def lines_of(stream: TextIO, where: str) -> Iterator[str]:
    """Yield the lines of a text. Raise FormulaError for a line over MAX_LINE."""
    number = 0
    while line := stream.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise FormulaError(f"{where}: {long_line()}", where=f"line {number}")
        yield line


@contextmanager
def in_file(path: Path) -> Iterator[None]:
    """Add the file's path to the errors of its text."""
    try:
        yield
    except FormulaError as error:
        place = f"{path}, {error.where}" if error.where else str(path)
        raise FormulaError(error.message, hint=error.hint, where=place, excerpt=error.excerpt) from None


@contextmanager
def opened_text(path: Path) -> Iterator[TextIO]:
    """Open a file or stdin for reading. Raises NotFound and Refused, also for errors while the context reads it."""
    try:
        with _opened(path) as stream:
            yield stream
    except UnicodeDecodeError:
        raise Refused("the file is not UTF-8 text", where=str(path)) from None
    except gzip.BadGzipFile:
        raise Refused("the file is not compressed with gzip, although its name ends in .gz", where=str(path)) from None
    except (EOFError, zlib.error):
        raise Refused("the compressed file is damaged or truncated", where=str(path)) from None


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    if str(path) == STDIN:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8", errors="strict")
        yield sys.stdin
        return
    try:
        packed = path.suffix == ".gz"
        raw = opened(path, streams=True)
        stream: TextIO = _unpacked(raw) if packed else io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8")
    except FileNotFoundError:
        raise NotFound("the file does not exist", where=str(path)) from None
    except OSError as error:
        raise Refused(f"the file cannot be read: {error.strerror}", where=str(path)) from None
    with stream:
        yield stream


def _unpacked(raw: io.FileIO) -> TextIO:
    return io.TextIOWrapper(cast(BinaryIO, gzip.open(raw)), encoding="utf-8")
