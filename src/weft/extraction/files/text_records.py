"""The records of CSV and of JSON lines as cells of text, each with the bytes it was read from.

Nothing is lost: a line that is no record comes out with the problem named.  CSV is parsed by the standard library, in
its strict mode; a record that goes wrong over several lines (an unclosed quote) costs its first line only, and
reading goes on at the second.
"""

from __future__ import annotations

import csv
import io
import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from weft.errors import Refused
from weft.extraction.batches import MAX_LINE, MAX_RECORD
from weft.extraction.byte_streams import BOM, PushBack, damage, long_line
from weft.printable import counted

Cells = list[str | None]


@dataclass(frozen=True, slots=True)
class TextRecord:
    """One record: its first line's number (from 1), its bytes, and its cells or the problem.

    ``kinds`` tells for JSON what each value was; for CSV it is None.
    """

    line: int
    raw: bytes
    cells: dict[str, str | None] | Cells | None
    problem: str | None = None
    kinds: dict[str, str] | None = None


@dataclass(frozen=True)
class Dialect:
    """How a CSV is written."""

    delimiter: str = ","
    quote: str = '"'
    escape: str | None = None


DEFAULT_DIALECT: Final = Dialect()
_MOST_LINES: Final = 100_000
"""Lines of one record of CSV."""


class _Lines:
    """Numbered lines of bytes, none longer than MAX_LINE + 1; lines can be put back.  As an iterator: decoded lines.

    ``number`` is how many ended before the stream's first byte.
    """

    def __init__(self, stream: io.BufferedReader | PushBack, number: int = 0) -> None:
        self._stream = stream
        self._back: deque[bytes] = deque()
        self.held_size = 0
        self.number = number
        self.taken: list[bytes] = []
        self.taken_size = 0

    @property
    def damage(self) -> str | None:
        """Why the lines ended before their time, once they have."""
        return damage(self._stream.of if isinstance(self._stream, PushBack) else self._stream)

    @property
    def held(self) -> bytes:
        """What was read of the stream, and put back."""
        return b"".join(self._back)

    def take(self) -> bytes:
        """The next line (b"" at the end), noted in ``taken``."""
        if self._back:
            line = self._back.popleft()
            self.held_size -= len(line)
        else:
            line = self._read()
        if line:
            self.taken.append(line)
            self.number += line.endswith(b"\n")
        return line

    def _read(self) -> bytes:
        line = self._stream.readline(MAX_LINE + 1)
        return line.removeprefix(BOM) if self.number == 0 and not self.taken else line

    def put_back(self, lines: list[bytes]) -> None:
        """Makes them the next ones again."""
        self._back.extendleft(reversed(lines))
        self.held_size += sum(map(len, lines))
        self.number -= sum(line.endswith(b"\n") for line in lines)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self.take()
        if not line:
            raise StopIteration
        self.taken_size = self.taken_size + len(line) if len(self.taken) > 1 else len(line)
        if self.taken_size > MAX_RECORD or len(self.taken) > _MOST_LINES:
            raise csv.Error(f"a record of more than {MAX_RECORD >> 20} MiB, or {_MOST_LINES:,} lines")
        return line.decode("utf-8", "surrogateescape")


def _next_line(lines: _Lines) -> bytes:
    """The next line, b"" at the end; of one that is too long the first MAX_LINE + 1 bytes."""
    lines.taken = []
    return lines.take()


def _too_long(lines: _Lines, line: bytes) -> Iterator[TextRecord]:
    """A line of which so much was read, to its end, in pieces of at most MAX_RECORD bytes."""
    number, held, size = lines.number + (not line.endswith(b"\n")), [line], len(line)
    while line and not line.endswith(b"\n"):
        lines.taken = []
        line = lines.take()
        if size + len(line) > MAX_RECORD:
            yield TextRecord(number, b"".join(held), None, long_line())
            held, size = [], 0
        held.append(line)
        size += len(line)
    lines.taken = []
    if size:
        yield TextRecord(number, b"".join(held), None, long_line())


class CsvRecords:
    """The records of a CSV, the line of names among them; ``width`` is how many cells one has (None: as the first).

    An empty cell is None.  Blank lines are no records.  Between two records another may read the stream on: ``held``
    is what was read of it and belongs to none yet, ``line`` how many lines have ended so far.
    """

    def __init__(
        self, stream: io.BufferedReader | PushBack, dialect: Dialect, width: int | None = None, line: int = 0
    ) -> None:
        self.width = width
        self._lines = _Lines(stream, line)
        csv.field_size_limit(MAX_LINE)
        self._reader = csv.reader(
            self._lines,
            delimiter=dialect.delimiter,
            quotechar=dialect.quote,
            escapechar=dialect.escape,
            doublequote=dialect.escape is None,
            strict=True,
        )

    @property
    def line(self) -> int:
        """How many lines have ended before the next record."""
        return self._lines.number

    @property
    def held(self) -> bytes:
        """What was read of the stream beyond the last record."""
        return self._lines.held

    @property
    def held_size(self) -> int:
        """Its bytes, counted."""
        return self._lines.held_size

    def __iter__(self) -> Iterator[TextRecord]:
        lines = self._lines
        while line := _next_line(lines):
            if len(line) > MAX_LINE:
                yield from _too_long(lines, line)
                continue
            lines.put_back(lines.taken)
            lines.taken = []
            record = _csv_record(self._reader, lines, self.width)
            if record is None:
                continue
            if self.width is None and isinstance(record.cells, list):
                self.width = len(record.cells)
            yield record
        yield from _broken_off(lines)

    def names(self) -> tuple[TextRecord | None, list[TextRecord]]:
        """Reads up to the line of names, the first record that can be read: it (None: none can), and those before.

        Raises Refused where these have more than MAX_RECORD bytes.
        """
        before: list[TextRecord] = []
        size = 0
        for record in self:
            if record.problem is None:
                return record, before
            before.append(record)
            size += len(record.raw)
            if size > MAX_RECORD:
                raise Refused(
                    f"the file has no line of names in its first {MAX_RECORD >> 20} MiB: line {before[0].line} has "
                    f"the problem: {before[0].problem}",
                    hint="CSV needs the names of its columns in the first line.",
                )
        return None, before


def _csv_record(reader: Any, lines: _Lines, width: int | None) -> TextRecord | None:
    number = lines.number + 1
    cells: list[str] | None = None
    try:
        cells = next(reader)
        problem = None
    except csv.Error as error:
        problem = f"not CSV: {error}"
    if cells == []:
        return None
    if cells is not None and width is not None and len(cells) != width:
        problem = f"{counted(len(cells), 'cell')} where there should be {width}"
    if problem is not None:
        lines.put_back(lines.taken[1:])
        return TextRecord(number, lines.taken[0], None, problem)
    raw = b"".join(lines.taken)
    return TextRecord(number, raw, [cell or None for cell in cells or ()], _not_text(raw))


def _not_text(raw: bytes) -> str | None:
    if b"\0" in raw:
        return "NUL bytes"
    if not raw.isascii():
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError:
            return "broken encoding: not UTF-8"
    return None


def _broken_off(lines: _Lines) -> Iterator[TextRecord]:
    if lines.damage is not None:
        yield TextRecord(lines.number + 1, b"", None, f"damaged file, the rest of it is lost: {lines.damage}")


class _Number(str):
    """A number as the JSON writes it: exact, however long."""

    __slots__ = ()


class _Repeated(ValueError):
    """A name that occurs twice in one object."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Repeated("a name occurs twice")
    return found


_EXACT: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_Number, parse_int=_Number, parse_constant=_Number
)


Told = Callable[[Any], "dict[str, Any] | str | None"]
"""What a line's JSON says as a record: an object, the problem, or None where it is no record."""


def _an_object(found: Any) -> dict[str, Any] | str:
    return found if isinstance(found, dict) else "not a JSON object"


def json_records(stream: io.BufferedReader, told: Told = _an_object) -> Iterator[TextRecord]:
    """The records of JSON lines, one object a line; blank lines are none.  Nested values are cells of JSON text."""
    lines = _Lines(stream)
    while line := _next_line(lines):
        if len(line) > MAX_LINE:
            yield from _too_long(lines, line)
        elif line.strip():
            record = json_record(lines.number + (not line.endswith(b"\n")), line, told)
            if record is not None:
                yield record
    yield from _broken_off(lines)


def json_record(number: int, line: bytes, told: Told = _an_object) -> TextRecord | None:
    """One line as a record, or with the problem; None where it is none.  Its numbers are given to ``told`` as texts."""
    problem = _not_text(line)
    if problem is not None:
        return TextRecord(number, line, None, problem)
    try:
        found = told(_EXACT.decode(line.decode("utf-8").strip()))
        if found is None:
            return None
        if isinstance(found, str):
            return TextRecord(number, line, None, found)
        cells: dict[str, str | None] = {}
        kinds: dict[str, str] = {}
        for name, value in found.items():
            if value is not None:
                kinds[name], cells[name] = _cell(value)
            else:
                cells[name] = None
        # A lone surrogate is written in ASCII and is no text.
        "".join([*cells, *(text for text in cells.values() if text)]).encode("utf-8")
    except (ValueError, RecursionError) as error:
        return TextRecord(number, line, None, f"not a line of JSON: {' '.join(str(error).split())[:200]}")
    return TextRecord(number, line, cells, None, kinds)


def _cell(value: Any) -> tuple[str, str]:
    if isinstance(value, _Number):
        return "number", str(value)
    if isinstance(value, str):
        return "string", value
    if isinstance(value, bool):
        return "boolean", "true" if value else "false"
    return "nested", _nested(value)


def _nested(value: Any) -> str:
    """JSON text of an array or object, its numbers as they were written."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, list):
        return f"[{','.join(_nested(item) for item in value)}]"
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{_nested(item)}" for name, item in value.items())
            + "}"
        )
    return json.dumps(value, ensure_ascii=False)
