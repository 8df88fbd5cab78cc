"""Cut files into parts that several readers read at the same time.

A reader needs to know where a record begins. A line end may be within quotes, and whether it is depends on everything
before it. Therefore each block of a file is first surveyed on its own: the survey counts quotes and line ends. If all
quotes are in pairs, the counts show where the first record of each block begins. A broken quote makes these places
wrong. Therefore they are only a proposal: each reader reports where its last record ended, and a part counts only if
its predecessor ended where the part begins (``Walk.take``). By induction, the parts then have the records that one
reader of the whole file finds, with the same positions and problems.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import BinaryIO, Final, Protocol

from weft.errors import ExtractionError
from weft.extraction.batches import MAX_LINE
from weft.extraction.files.encoding import Letters, letters_of
from weft.extraction.files.part import Part

BLOCK: Final = 64 << 20
"""The size of a block in bytes, and the approximate size of a part. It is a multiple of ``DIGEST_BLOCK``."""

DIGEST_BLOCK: Final = 64 << 20
"""The bytes for each SHA-256 of ``digest_of_blocks``. Homes store such digests, so the number must not change."""

BY_BLOCKS: Final = "blocks-"
"""The begin of a digest that is not the SHA-256 of the file."""

_HEAD: Final = 512
_SLICE: Final = 4 << 20
"""The bytes of a block that are decoded at a time."""
_NEWLINE: Final = b"\n"

Place = tuple[int, int]
"""A position in a file, and the number of lines or rows before it."""


@dataclass(frozen=True)
class Surveyed:
    """What one block of a text file has.

    - ``sha256`` has the digest of each ``DIGEST_BLOCK`` of its ``size`` bytes, one after another.
    - ``lines`` and ``quotes`` are the numbers of line ends and of quotes.
    - ``outside`` and ``inside`` are the places where the first record begins if the block begins outside or inside
      quotes, relative to the block. A place is None if it is not near the begin of the block.
    - ``letters`` is true if the lines that begin in the block are UTF-8.
    - ``head`` has the first bytes of the file, if the block is the first.
    """

    sha256: bytes
    size: int
    lines: int = 0
    quotes: int = 0
    outside: Place | None = None
    inside: Place | None = None
    letters: Letters = field(default_factory=Letters)
    head: bytes = b""


def survey(stream: BinaryIO, begin: int, size: int, quote: bytes | None) -> Surveyed:
    """Return what the block of ``size`` bytes that begins at ``begin`` has.

    ``quote`` is the quote character of a CSV file, and empty for other text. If ``quote`` is None, the file has no
    lines, and only the digest is computed. Errors of the stream pass through.
    """
    stream.seek(begin)
    raw = stream.read(size)
    digest = b"".join(
        hashlib.sha256(memoryview(raw)[at : at + DIGEST_BLOCK]).digest() for at in range(0, len(raw), DIGEST_BLOCK)
    )
    if quote is None:
        return Surveyed(digest, len(raw))
    places = _first_places(raw, quote)
    first = 0 if begin == 0 else raw.find(_NEWLINE) + 1
    letters = _letters(raw, first, stream.readline(MAX_LINE)) if first or begin == 0 else Letters()
    quotes = raw.count(quote) if quote else 0
    return Surveyed(digest, len(raw), raw.count(_NEWLINE), quotes, *places, letters, raw[:_HEAD] if begin == 0 else b"")


def _letters(raw: bytes, first: int, rest: bytes) -> Letters:
    """Return what the lines of ``raw`` from ``first`` on show. ``rest`` is the end of the last line."""
    letters, at = Letters(), first
    while (end := raw.find(_NEWLINE, at + _SLICE) + 1) > 0:
        letters, at = letters + letters_of(raw[at:end]), end
    return letters + letters_of(raw[at:] + rest)


def _first_places(raw: bytes, quote: bytes) -> tuple[Place | None, Place | None]:
    """Return the places behind the first line ends after an even and after an odd number of quotes."""
    found: list[Place | None] = [None, None]
    at = quotes = lines = 0
    while None in found and at < 2 * MAX_LINE and (end := raw.find(_NEWLINE, at)) >= 0:
        quotes += raw.count(quote, at, end) if quote else 0
        lines += 1
        at = end + 1
        if found[quotes % 2] is None:
            found[quotes % 2] = at, lines
        if not quote:
            break
    return found[0], found[1]


def digest_of_blocks(blocks: Iterable[bytes]) -> str:
    """Return the digest of a file from the SHA-256 of each ``DIGEST_BLOCK``, which several readers can compute.

    The digest of a file with one block is its SHA-256 (hexadecimal). Any other digest begins with ``BY_BLOCKS``.
    """
    all_of_them = b"".join(blocks)
    if len(all_of_them) <= hashlib.sha256().digest_size:
        return (all_of_them or hashlib.sha256().digest()).hex()
    return BY_BLOCKS + hashlib.sha256(all_of_them).hexdigest()


def changed(where: str | None = None) -> ExtractionError:
    """Return the error for a file that changed between its survey and the end of its load."""
    return ExtractionError(
        "the file changed while it was read",
        where=where,
        hint="Wait until no program writes the file. Undo what this load has stored (`weft loads`), and load again.",
    )


class Cut(Protocol):
    """The places at which a file can be cut."""

    def ends(self, after: int) -> Iterable[Place]:
        """Return the places behind the position ``after`` at which a part may end, in order."""

    def correct(self, proposed: int) -> None:
        """Take note that no record begins at the proposed place, although it was in ``ends``."""


class TextCut:
    """The places at which records of a text file begin, if its quotes are in pairs."""

    def __init__(self, blocks: Sequence[Surveyed]) -> None:
        self._blocks = blocks
        self._begins = [0, *accumulate(block.size for block in blocks)]
        self._lines = [0, *accumulate(block.lines for block in blocks)]
        self._inside = [odd % 2 == 1 for odd in accumulate((block.quotes for block in blocks), initial=0)]

    def ends(self, after: int) -> Iterable[Place]:
        """Return the proposed begins of the first records of the blocks behind the position ``after``."""
        for number in range(max(bisect_right(self._begins, after) - 1, 1), len(self._blocks)):
            # A block without quotes has one place. After a stray quote, it is where a record begins nevertheless.
            likely, other = self._places(number)
            place = likely or other
            if place is not None and self._begins[number] + place[0] > after:
                yield self._begins[number] + place[0], self._lines[number] + place[1]

    def correct(self, proposed: int) -> None:
        """From the block of the proposed place on, exchange inside and outside of quotes.

        Do nothing if the place was only proposed because the block had no other.
        """
        number = bisect_right(self._begins, proposed - 1) - 1
        if self._places(number)[0] is not None:
            self._inside[number:] = [not inside for inside in self._inside[number:]]

    def _places(self, number: int) -> tuple[Place | None, Place | None]:
        block = self._blocks[number]
        return (block.inside, block.outside) if self._inside[number] else (block.outside, block.inside)


class GroupCut:
    """The row groups of a Parquet file. ``groups`` has the bytes and the rows of each."""

    def __init__(self, groups: Sequence[tuple[int, int]]) -> None:
        rows = [0, *accumulate(rows for _, rows in groups)]
        self._places: list[Place] = []
        held = 0
        for number, (size, _) in enumerate(groups):
            if held and held + size > BLOCK:
                self._places.append((number, rows[number]))
                held = 0
            held += size

    def ends(self, after: int) -> Iterable[Place]:
        """Return the row groups behind ``after`` at which a part may end."""
        return (place for place in self._places if place[0] > after)

    def correct(self, proposed: int) -> None:
        """Raise AssertionError: the row groups of a file are known."""
        raise AssertionError(f"a part of a Parquet file did not end at the row group {proposed}")


@dataclass(frozen=True)
class Stretch:
    """A part of one of several files: the number of the file, the first place, and where the part should end."""

    file: int
    begin: Place
    end: Place | None

    def part(self) -> Part:
        """Return the part, for a reader."""
        return Part(*self.begin, None if self.end is None else self.end[0])


class Walk:
    """Walks through the parts of several files, in order. The caller reads ``most`` parts at the same time."""

    def __init__(self, cuts: Sequence[Cut], most: int) -> None:
        self._cuts = cuts
        self._limit = self._most = most
        self._file = 0
        self._place: Place = (0, 0)

    def ahead(self) -> list[Stretch]:
        """Return the next parts, or an empty list at the end. Only the first certainly begins with a record."""
        stretches: list[Stretch] = []
        begin = self._place
        for number in range(self._file, len(self._cuts)):
            for end in self._cuts[number].ends(begin[0]):
                if len(stretches) == self._most:
                    return stretches
                stretches.append(Stretch(number, begin, end))
                begin = end
            if len(stretches) == self._most:
                return stretches
            stretches.append(Stretch(number, begin, None))
            begin = (0, 0)
        return stretches

    @staticmethod
    def right(stretches: Sequence[Stretch], reached: Sequence[Place]) -> int:
        """Return how many of the stretches begin where a record begins: where their predecessor has ended.

        ``reached`` has the places that their readers have reached, of all or of the first ones.
        """
        right = 1
        for one, place, other in zip(stretches, reached, stretches[1:], strict=False):
            if one.file == other.file and other.begin != place:
                break
            right += 1
        return right

    def take(self, stretches: Sequence[Stretch], reached: Sequence[Place]) -> int:
        """Go on behind the stretches that count (``right``), and return their number.

        After a wrong proposal, fewer parts are read at the same time. Raise ExtractionError if a reader has not reached
        the end of its part: the file has become shorter.
        """
        right = self.right(stretches, reached)
        if any(one.end is not None and place < one.end for one, place in zip(stretches[:right], reached, strict=False)):
            raise changed()
        if right < len(stretches):
            self._cuts[stretches[right].file].correct(stretches[right].begin[0])
        last = stretches[right - 1]
        self._file, self._place = (last.file, reached[right - 1]) if last.end is not None else (last.file + 1, (0, 0))
        self._most = min(2 * self._most, self._limit) if right == len(stretches) else right
        return right
