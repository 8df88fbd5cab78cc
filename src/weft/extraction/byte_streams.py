"""Opening what may be compressed, and telling mbox, tar and single article apart by their first bytes.

Names are not trusted: ``.gz`` files that are not, and archives without a suffix, are common in spools.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import tarfile
import zlib
from typing import BinaryIO, Final, Literal, cast

from weft.extraction.record import MAX_LINE, MAX_RECORD, RawRecord

DAMAGE: Final = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""What reading a damaged (or compressed and cut) file raises: content, not a failure of the load."""

_BUFFER: Final = 1 << 18
_BLANK: Final = b"\r\n \t"
_BOM: Final = b"\xef\xbb\xbf"
_SUFFIXES: Final = re.compile(r"\.(gz|bz2|xz|tgz|tar|txt|mbox|mbx|mail|eml|msg|news)$", re.IGNORECASE)

Kind = Literal["empty", "mbox", "tar", "article"]


def plain(raw: BinaryIO) -> io.BufferedReader:
    """The stream without its compression (gzip, bzip2, xz by their magic numbers); raises nothing until it is read."""
    buffered: io.BufferedReader = io.BufferedReader(cast("io.RawIOBase", raw), _BUFFER)
    magic = buffered.peek(6)[:6]
    opened: gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile
    if magic.startswith(b"\x1f\x8b"):
        opened = gzip.GzipFile(fileobj=buffered)
    elif magic.startswith(b"BZh"):
        opened = bz2.BZ2File(buffered)
    elif magic.startswith(b"\xfd7zXZ\x00"):
        opened = lzma.LZMAFile(buffered)  # noqa: SIM115 - closed by the stream that reads it
    else:
        return buffered
    return io.BufferedReader(cast("io.RawIOBase", opened), _BUFFER)


def kind_of(stream: io.BufferedReader) -> Kind:
    """What the stream holds, by its first 512 bytes, none consumed.  Damage counts as an article (rejected later)."""
    try:
        head = stream.peek(512)[:512]
    except DAMAGE:
        return "article"
    if not head:
        return "empty"
    if len(head) == 512 and _is_tar_header(head):
        return "tar"
    return "mbox" if head.removeprefix(_BOM).lstrip(_BLANK).startswith(b"From ") else "article"


def _is_tar_header(block: bytes) -> bool:
    """Whether it is a member's header with a right checksum."""
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def stem(name: str) -> str:
    """A file's name without the suffixes of archives: dots of a newsgroup's name stay.

    >>> stem("2004-April.txt.gz"), stem("comp.databases")
    ('2004-April', 'comp.databases')
    """
    shorter = _SUFFIXES.sub("", name)
    return name if not shorter else shorter if shorter == name else stem(shorter)


def whole_record(stream: io.BufferedReader, position: str) -> list[RawRecord]:
    """The stream as one article; as several pieces, each with the problem named, where it is too large or damaged."""
    records: list[RawRecord] = []
    problem: str | None = None
    while True:
        chunk, damage = _read_some(stream)
        if damage is not None:
            problem = f"damaged file: {damage}"
        elif len(chunk) == MAX_RECORD or records:
            problem = f"larger than {MAX_RECORD >> 20} MiB"
        elif _has_long_line(chunk):
            problem = long_line()
        if chunk or not records:
            place = position if not records else f"{position} (piece {len(records) + 1})"
            records.append(RawRecord(place, chunk, problem))
        if len(chunk) < MAX_RECORD or damage is not None:
            return records


def _read_some(stream: io.BufferedReader) -> tuple[bytes, str | None]:
    """Up to MAX_RECORD bytes, and what went wrong after them."""
    chunks: list[bytes] = []
    left = MAX_RECORD
    try:
        while left and (chunk := stream.read1(min(left, _BUFFER))):
            chunks.append(chunk)
            left -= len(chunk)
    except DAMAGE as error:
        return b"".join(chunks), damage_text(error)
    return b"".join(chunks), None


def damage_text(error: BaseException) -> str:
    """One line about what reading raised."""
    return " ".join(str(error).split()) or type(error).__name__


def long_line() -> str:
    """The reason given for a line over MAX_LINE."""
    return f"a line of more than {MAX_LINE >> 20} MiB"


def _has_long_line(raw: bytes) -> bool:
    return len(raw) > MAX_LINE and any(len(line) > MAX_LINE for line in raw.split(b"\n"))
