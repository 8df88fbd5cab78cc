"""The new messages of a maildir, an IMAP folder or a newsgroup, in parts of limited size."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weft.extraction.batches import RawRecord
from weft.extraction.byte_streams import whole_record

MOST_MESSAGES: Final = 5_000
MOST_BYTES: Final = 64 << 20
"""The maximum size of one part: ``MOST_MESSAGES`` messages and about ``MOST_BYTES`` bytes."""


@dataclass(frozen=True)
class NewMessages:
    """Messages in the order of their arrival. ``seen`` is the position after them (JSON-able).

    ``stem`` is the group of messages that name no group.
    """

    records: Sequence[RawRecord]
    seen: Mapping[str, Any]
    stem: str


def whole(raw: bytes, position: str) -> list[RawRecord]:
    """Return a message as one record. A message that is too large becomes several records with a ``problem``."""
    return list(whole_record(io.BufferedReader(io.BytesIO(raw)), position))


def parts(keys: Iterable[int], sizes: Mapping[int, int], most_bytes: int = MOST_BYTES) -> Iterator[list[int]]:
    """Yield the keys in parts of at most ``MOST_MESSAGES`` messages and ``most_bytes`` bytes, or one larger message.

    >>> list(parts([1, 2, 3, 4], {1: 5, 2: 9, 3: 3, 4: 7}, 10))
    [[1], [2], [3, 4]]
    """
    held: list[int] = []
    size = 0
    for key in keys:
        if held and (len(held) >= MOST_MESSAGES or size + sizes[key] > most_bytes):
            yield held
            held, size = [], 0
        held.append(key)
        size += sizes[key]
    if held:
        yield held
