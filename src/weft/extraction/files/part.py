"""The part of a file that one reader reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Part:
    """The records that begin at a position or after it, and before ``end``. The default is a whole file.

    In a text file, positions are bytes, and a record begins at ``position``. ``before`` is the number of lines before.
    In a Parquet file, positions are numbers of row groups, and ``before`` is the number of rows before.

    ``end`` is None if the part ends with the file. The last record of a part may end behind ``end``. When a part is
    read, it begins behind its last record.
    """

    position: int = 0
    before: int = 0
    end: int | None = None

    @property
    def size(self) -> int | None:
        """The number of bytes or row groups in which records of the part begin, or None up to the end of the file."""
        return None if self.end is None else max(self.end - self.position, 0)

    def advance(self, count: int, before: int) -> None:
        """Begin ``count`` bytes or row groups later. ``before`` is the number of lines or rows before that place."""
        self.position += count
        self.before = before
