"""Group the lines of a feed by transaction, and assign a time to each transaction."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

from weft.extraction.batches import MAX_LINE

_PIECE: Final = 1 << 16


def transaction_of(change: Mapping[str, Any]) -> str | None:
    """Return the transaction ID of a change in either form, or None."""
    source, transaction = change.get("source"), change.get("transaction")
    name = change.get("tx")
    if name is None and isinstance(transaction, dict):
        name = transaction.get("id")
    if name is None and isinstance(source, dict):
        name = source.get("txId")
    return None if name is None else str(name)


class TransactionTimes:
    """Assigns to each named transaction the time of its first line. Each time is unique in the feed.

    If a clock with milliseconds gives two transactions the same time, the later transaction gets the next free
    microsecond. ``last`` contains the last transaction and its time for the next poll.
    """

    def __init__(self, last: list[Any] | None = None) -> None:
        self.last = last
        self._times: dict[str, int | None] = {} if last is None else {last[0]: last[1]}
        self._taken = set(self._times.values())

    def of(self, name: str | None, own: int | None) -> int | None:
        """Return the time of the transaction ``name``. Times are in µs UTC or None.

        ``own`` is the time of a change in the transaction. If ``name`` is None, the change keeps its time.
        """
        if name is None:
            return own
        if name not in self._times:
            while own is not None and own in self._taken:
                own += 1
            self._times[name] = own
            self._taken.add(own)
        self.last = [name, self._times[name]]
        return self._times[name]


def end_of_lines(file: BinaryIO) -> int:
    """Return the position after the last complete line."""
    place = file.seek(0, os.SEEK_END)
    while place:
        begin = max(place - _PIECE, 0)
        file.seek(begin)
        newline = file.read(place - begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        place = begin
    return 0


def end_of_transactions(file: BinaryIO, end: int) -> int:
    """Return the position before the last transaction, or ``end`` if the last line names no transaction."""
    last: str | None = None
    for begin, line in _backwards(file, end):
        name = _named(line) if line.strip() not in (b"", b"null") else last
        if last is None:
            if name is None and line.strip() not in (b"", b"null"):
                return end
            last = name
        elif name != last:
            return begin + len(line)
    return end if last is None else 0


def _named(line: bytes) -> str | None:
    try:
        change = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(change, dict) and isinstance(change.get("payload"), dict):
        change = change["payload"]
    return transaction_of(change) if isinstance(change, dict) else None


def _backwards(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines before ``end`` with their positions, in reverse order. A line must end at ``end``."""
    held, place = b"", end
    while place:
        begin = max(place - _PIECE, 0)
        file.seek(begin)
        held = file.read(place - begin) + held
        place = begin
        if len(held) > MAX_LINE + _PIECE and b"\n" not in held[:-1]:
            yield place, held  # part of a line that is too long, which the poll rejects
            return
        while (cut := held.rfind(b"\n", 0, len(held) - 1)) >= 0:
            yield place + cut + 1, held[cut + 1 :]
            held = held[: cut + 1]
    if held:
        yield 0, held
