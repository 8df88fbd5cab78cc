"""Split an mbox or a pipermail text archive into messages, line by line.

A message starts at a line ``From ADDRESS … hh:mm … YYYY`` with a header field in the next line. The header field is
required, because bodies contain unescaped lines that start with ``From ``. A blank line before a message is not
required, because Mailman sometimes omits it. ``>From`` in bodies is not unescaped, because it is unknown which programs
escaped the line and how often.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Final

from weft.extraction.batches import MAX_LINE, MAX_RECORD, RawRecord
from weft.extraction.byte_streams import damage, long_line

_SEPARATOR: Final = re.compile(rb"From .*\d{1,2}:\d\d(:\d\d)?\b.*\d{4}[^\n]{0,20}\r?\n?$")
_FIELD: Final = re.compile(rb">?From |[!-9;-~]+[ \t]*:")


def split_mbox(stream: io.BufferedReader) -> Iterator[RawRecord]:
    """Yield the messages in order. The position ``message N (byte B)`` counts messages from 1 and bytes from 0.

    Text before the first separator is a record. If a message is damaged, the part before the damage is also a record. A
    record that is too large is split into pieces.
    """
    record = _Collected(1, 0)
    offset = 0
    pieces = _pieces(stream)
    current = next(pieces, None)
    while current is not None:
        piece, starts_line = current
        following = next(pieces, None)
        begins = starts_line and piece.startswith(b"From ") and _is_separator(piece, following)
        if begins and record.size:
            yield from record.finish()
            record = _Collected(record.number + record.counts, offset)
        offset += len(piece)
        yield from record.add(piece)
        current = following
    broken = damage(stream)
    if broken is not None:
        record.problem = f"the file is damaged, and the rest of it cannot be read: {broken}"
    yield from record.finish()


def _pieces(stream: io.BufferedReader) -> Iterator[tuple[bytes, bool]]:
    """Yield lines in pieces of at most ``MAX_LINE`` + 1 bytes. A flag marks the first piece of a line."""
    starts_line = True
    while piece := stream.readline(MAX_LINE + 1):
        yield piece, starts_line
        starts_line = piece.endswith(b"\n")


def _is_separator(piece: bytes, following: tuple[bytes, bool] | None) -> bool:
    return (
        following is not None
        and len(piece) < 1_000
        and _SEPARATOR.match(piece) is not None
        and _FIELD.match(following[0]) is not None
    )


class _Collected:
    def __init__(self, number: int, offset: int) -> None:
        self.number = number
        self.offset = offset
        self.size = 0
        self.problem: str | None = None
        self.counts = 0
        self._held = 0
        self._pieces: list[bytes] = []
        self._given = 0

    def add(self, piece: bytes) -> Iterator[RawRecord]:
        if len(piece) > MAX_LINE:
            self.problem = long_line()
        if self._held + len(piece) > MAX_RECORD:
            self.problem = f"larger than {MAX_RECORD >> 20} MiB"
            yield self._give()
        self._pieces.append(piece)
        self._held += len(piece)
        self.size += len(piece)

    def finish(self) -> Iterator[RawRecord]:
        """Emit the remaining lines. Blank lines before the first separator are not a message."""
        if self.problem is not None or b"".join(self._pieces[:64]).strip() or self._held > 4096:
            self.counts = 1
            yield self._give()

    def _give(self) -> RawRecord:
        raw = b"".join(self._pieces)
        if self.problem is None:
            raw = _without_separating_line(raw)
        self._given += 1
        piece = f", piece {self._given}" if self._given > 1 else ""
        self._pieces.clear()
        self._held = 0
        return RawRecord(f"message {self.number} (byte {self.offset}{piece})", raw, self.problem)


def _without_separating_line(raw: bytes) -> bytes:
    if raw.endswith(b"\r\n\r\n"):
        return raw[:-2]
    return raw[:-1] if raw.endswith(b"\n\n") else raw
