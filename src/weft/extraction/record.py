"""What reading a source gives: rows, and records that could not be read.

Reading never raises for content: whatever a source holds comes out either as a :class:`Row` or, with all its bytes
and the reason, as :class:`Rejected` (design section 1; the ingest puts those in quarantine).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MAX_LINE: Final = 1 << 20
"""Longest line of a message, in bytes.  RFC 5322 allows 998; a longer one than this is damage or an attack."""

MAX_RECORD: Final = 64 << 20
"""Most bytes held for one record.  A larger one is rejected in pieces of this size, so that memory stays bounded."""

Progress = Callable[[int], None]
"""Called now and then with the number of records read so far."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """The bytes of one message as they lie in their source; ``problem`` says why they cannot be parsed at all."""

    position: str
    raw: bytes
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that cannot be read: its whole bytes, where it lay and why it was refused.

    ``source`` is the absolute path of what the user named (or found in it), ``position`` the place in it.
    ``stem`` is the name that the source would have lent to a message without a group, kept for a later retry.
    """

    source: str
    position: str
    reason: str
    raw: bytes
    stem: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One row to be stored: values by column name, instants as microseconds UTC.

    ``own_time`` is the running maximum of the row's own time in its source's order of arrival (design section 1),
    or None where the load gives no own time.
    """

    values: dict[str, object]
    own_time: int | None


def printable(name: str) -> str:
    """A file's name as text that any store takes: bytes that are not UTF-8 are written ``\\xNN``.

    >>> printable("caf\\udce9")
    'caf\\\\xe9'
    """
    return os.fsencode(name).decode("utf-8", "backslashreplace")
