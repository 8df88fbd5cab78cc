"""Open files that may be compressed, and distinguish mbox, tar and single articles by their first bytes.

File names are not reliable. Collections of news often contain uncompressed ``.gz`` files.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, Literal

from weft.extraction.batches import MAX_LINE, MAX_RECORD, RawRecord

DAMAGE: Final = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""The errors that a damaged or truncated file raises. A load continues after an error from a damaged file."""

COMPRESSED: Final = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")
"""The magic numbers of gzip, bzip2 and xz."""
_BUFFER: Final = 1 << 18
_XZ_MEMORY: Final = 256 << 20
"""The memory limit for decompressing xz, in bytes. A file made with `xz -9` needs 65 MiB."""
_BLANK: Final = b"\r\n \t"
BOM: Final = b"\xef\xbb\xbf"
"""The byte order mark that some programs write before UTF-8."""
_SUFFIXES: Final = re.compile(r"\.(gz|bz2|xz|tgz|tar|txt|mbox|mbx|mail|eml|msg|news)$", re.IGNORECASE)

Kind = Literal["empty", "mbox", "tar", "article"]


class _Bytes(io.RawIOBase):
    """A raw stream that ends at damage instead of raising an error."""

    def __init__(self, source: Any, compressed: bool) -> None:
        self._source = source
        self.compressed = compressed
        self.damage: str | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            chunk: bytes = self._source.read1(len(buffer)) if self.compressed else self._source.read(len(buffer))
        except DAMAGE as error:
            self.damage = " ".join(str(error).split()) or type(error).__name__
            return 0
        buffer[: len(chunk)] = chunk
        return len(chunk)


class _Xz:
    """A decompressor for xz files with a memory limit.

    ``lzma.LZMAFile`` has no memory limit, but a file may demand a dictionary of any size.
    """

    def __init__(self, stored: io.BufferedReader) -> None:
        self._stored = stored
        self._decompressor = _xz_decompressor()

    def read1(self, size: int) -> bytes:
        """Return at most ``size`` bytes, or b"" at the end.

        Raises LZMAError if the data is damaged, or EOFError if it is truncated.
        """
        while True:
            if self._decompressor.eof:
                following = (self._decompressor.unused_data or self._stored.read(_BUFFER)).lstrip(b"\0")
                if not following:
                    return b""
                self._decompressor = _xz_decompressor()
                chunk = self._decompressor.decompress(following, size)
            else:
                raw = self._stored.read(_BUFFER) if self._decompressor.needs_input else b""
                if not raw and self._decompressor.needs_input:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
                chunk = self._decompressor.decompress(raw, size)
            if chunk:
                return chunk


def _xz_decompressor() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


class PushBack:
    """A stream with unlimited push-back."""

    def __init__(self, of: io.BufferedReader) -> None:
        self.of = of
        self._back: list[io.BytesIO] = []

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes, or fewer at the end of the stream."""
        data = b""
        while self._back and len(data) < size:
            data += self._back[-1].read(size - len(data))
            self._drop_empty()
        if len(data) < size:
            data += self.of.read(size - len(data))
        return data

    def readline(self, limit: int) -> bytes:
        """Return the next line, limited to ``limit`` bytes, or b"" at the end."""
        line = b""
        while self._back and not line.endswith(b"\n") and len(line) < limit:
            line += self._back[-1].readline(limit - len(line))
            self._drop_empty()
        if not line.endswith(b"\n") and len(line) < limit:
            line += self.of.readline(limit - len(line))
        return line

    def put_back(self, data: bytes) -> None:
        """Put the bytes back at the start of the stream."""
        if data:
            self._back.append(io.BytesIO(data))

    def _drop_empty(self) -> None:
        last = self._back[-1]
        if last.tell() == len(last.getbuffer()):
            self._back.pop()


def plain(raw: BinaryIO | io.RawIOBase, compressed: bool | None = None) -> io.BufferedReader:
    """Return the decompressed stream. The magic number shows whether the stream is compressed with gzip, bzip2 or xz.

    If ``compressed`` is False, the stream begins within a file that is not compressed. If the file is damaged, the
    stream ends there without an error. :func:`damage` then returns the reason.
    """
    stored: io.BufferedReader = io.BufferedReader(_Bytes(raw, False), _BUFFER)
    if compressed is False:
        return stored
    magic = stored.peek(6)[:6]
    opened: gzip.GzipFile | bz2.BZ2File | _Xz
    gzipped, bzipped, xzipped = map(magic.startswith, COMPRESSED)
    if gzipped:
        opened = gzip.GzipFile(fileobj=stored)
    elif bzipped:
        opened = bz2.BZ2File(stored)
    elif xzipped:
        opened = _Xz(stored)
    else:
        return stored
    return io.BufferedReader(_Bytes(opened, True), _BUFFER)


def damage(stream: io.BufferedReader) -> str | None:
    """Return the damage that ended the stream early, or None."""
    reason: str | None = getattr(stream.raw, "damage", None)
    return reason


def is_compressed(stream: io.BufferedReader) -> bool:
    """Return whether ``plain`` decompresses the stream."""
    return isinstance(stream.raw, _Bytes) and stream.raw.compressed


def kind_of(stream: io.BufferedReader) -> Kind:
    """Return the kind of the stream's contents. The function peeks at the first 512 bytes without consuming them.

    A damaged stream counts as an article, which is rejected later.
    """
    head = stream.peek(512)[:512]
    if not head:
        return "empty" if damage(stream) is None else "article"
    if len(head) == 512 and _is_tar_header(head):
        return "tar"
    return "mbox" if head.removeprefix(BOM).lstrip(_BLANK).startswith(b"From ") else "article"


def _is_tar_header(block: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def stem(name: str) -> str:
    """Return a file name without archive suffixes. The dots of a newsgroup name remain.

    >>> stem("2004-April.txt.gz"), stem("comp.databases")
    ('2004-April', 'comp.databases')
    """
    shorter = _SUFFIXES.sub("", name)
    return name if not shorter else shorter if shorter == name else stem(shorter)


def whole_record(stream: io.BufferedReader, position: str) -> Iterator[RawRecord]:
    """Yield the stream as one article. If the stream is too large or damaged, yield pieces with a ``problem``."""
    count = 0
    while True:
        chunk = stream.read(MAX_RECORD)
        last = len(chunk) < MAX_RECORD
        broken = damage(stream)
        problem: str | None = None
        if broken is not None:
            problem = f"damaged file: {broken}"
        elif not last or count:
            problem = f"larger than {MAX_RECORD >> 20} MiB"
        elif _has_long_line(chunk):
            problem = long_line()
        if chunk or not count:
            count += 1
            yield RawRecord(position if count == 1 else f"{position} (piece {count})", chunk, problem)
        if last:
            return


def long_line() -> str:
    """Return the reason for rejecting a line of more than ``MAX_LINE`` bytes."""
    return f"a line of more than {MAX_LINE >> 20} MiB"


def _has_long_line(raw: bytes) -> bool:
    return len(raw) > MAX_LINE and any(len(line) > MAX_LINE for line in raw.split(b"\n"))
