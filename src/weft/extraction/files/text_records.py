"""Split CSV and JSON lines into records of text cells, each with its bytes.

No line is lost. A line that is not a record is returned with its problem. The standard library's strict parser reads
the CSV. If a record of several lines is malformed (an unclosed quote), only its first line is rejected.
"""

from __future__ import annotations

import csv
import io
import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from weft.errors import ExtractionError, Refused
from weft.extraction.batches import MAX_LINE, MAX_RECORD
from weft.extraction.byte_streams import BOM, PushBack, damage, long_line
from weft.extraction.files.part import Part
from weft.printable import counted

Cells = list[str | None]


@dataclass(frozen=True, slots=True)
class TextRecord:
    """A record: the number of its first line (from 1), its bytes, and either its cells or its problem.

    For JSON, ``kinds`` contains the JSON type of each value. For CSV, ``kinds`` is None.
    """

    line: int
    raw: bytes
    cells: dict[str, str | None] | Cells | None
    problem: str | None = None
    kinds: dict[str, str] | None = None


@dataclass(frozen=True)
class Dialect:
    """The delimiter, quote and escape characters of a CSV file."""

    delimiter: str = ","
    quote: str = '"'
    escape: str | None = None


DEFAULT_DIALECT: Final = Dialect()
_MOST_LINES: Final = 100_000


class _Lines:
    """Numbered lines of bytes, with push-back. Lines are cut at ``MAX_LINE`` + 1 bytes. Iteration yields decoded lines.

    ``number`` is the number of lines that have ended, including the lines before the stream. ``position`` is the number
    of bytes that were taken.
    """

    def __init__(self, stream: io.BufferedReader | PushBack, number: int = 0) -> None:
        self._stream = stream
        self._back: deque[bytes] = deque()
        self.position = 0
        self.number = number
        self.taken: list[bytes] = []
        self.taken_size = 0

    @property
    def damage(self) -> str | None:
        return damage(self._stream.of if isinstance(self._stream, PushBack) else self._stream)

    @property
    def held(self) -> bytes:
        """The bytes that were read from the stream and put back."""
        return b"".join(self._back)

    def take(self) -> bytes:
        """Return the next line, or b"" at the end, and append it to ``taken``."""
        line = self._back.popleft() if self._back else self._read()
        if line:
            self.taken.append(line)
            self.position += len(line)
            self.number += line.endswith(b"\n")
        return line

    def _read(self) -> bytes:
        line = self._stream.readline(MAX_LINE + 1)
        if self.number == 0 and not self.taken and line.startswith(BOM):
            self.position += len(BOM)
            return line.removeprefix(BOM)
        return line

    def put_back(self, lines: list[bytes]) -> None:
        """Put the lines back at the start."""
        self._back.extendleft(reversed(lines))
        self.position -= sum(map(len, lines))
        self.number -= sum(line.endswith(b"\n") for line in lines)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self.take()
        if not line:
            raise StopIteration
        self.taken_size = self.taken_size + len(line) if len(self.taken) > 1 else len(line)
        if self.taken_size > MAX_RECORD or len(self.taken) > _MOST_LINES:
            raise csv.Error(f"a record has more than {MAX_RECORD >> 20} MiB or {_MOST_LINES:,} lines")
        return line.decode("utf-8", "surrogateescape")


def _next_line(lines: _Lines) -> bytes:
    lines.taken = []
    return lines.take()


def _too_long(lines: _Lines, line: bytes) -> Iterator[TextRecord]:
    """Reject the long line that begins with ``line``, in records of at most ``MAX_RECORD`` bytes."""
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
    """The records of a CSV file, including the header line.

    ``width`` is the number of cells of a record. If ``width`` is None, the first record sets it. An empty cell is None.
    Blank lines are skipped. ``line`` is the number of lines before the stream. If ``size`` is not None, only the
    records that begin in the first ``size`` bytes are read. Another reader may then continue: ``held`` contains the
    bytes that were read after the last record. That reader also reports damage of the file.
    """

    def __init__(
        self,
        stream: io.BufferedReader | PushBack,
        dialect: Dialect,
        width: int | None = None,
        line: int = 0,
        size: int | None = None,
    ) -> None:
        self.width = width
        self._size = size
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
        """The number of lines that have ended before the next record."""
        return self._lines.number

    @property
    def position(self) -> int:
        """The number of bytes before the next record."""
        return self._lines.position

    @property
    def held(self) -> bytes:
        """The bytes that were read after the last record."""
        return self._lines.held

    def __iter__(self) -> Iterator[TextRecord]:
        lines = self._lines
        while (self._size is None or lines.position < self._size) and (line := _next_line(lines)):
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
        if self._size is None:
            yield from _broken_off(lines)

    def names(self) -> tuple[TextRecord | None, list[TextRecord]]:
        """Return the header line and the rejected records before it. The first readable record is the header line.

        The header line is None if no record is readable. Raise Refused if the rejected records are too large.
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
                    f"the file has no header line in its first {MAX_RECORD >> 20} MiB; line {before[0].line} cannot be "
                    f"read: {before[0].problem}",
                    hint="Write the column names in the first line of the CSV file.",
                )
        return None, before


def _csv_record(reader: Any, lines: _Lines, width: int | None) -> TextRecord | None:
    number = lines.number + 1
    cells: list[str] | None = None
    try:
        cells = next(reader)
        problem = None
    except csv.Error as error:
        problem = f"invalid CSV: {error}"
    if cells == []:
        return None
    if cells is not None and width is not None and len(cells) != width:
        problem = f"{counted(len(cells), 'cell')}, but the header has {width}"
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
            return "invalid UTF-8"
    return None


def _broken_off(lines: _Lines) -> Iterator[TextRecord]:
    if lines.damage is not None:
        yield TextRecord(
            lines.number + 1, b"", None, f"the file is damaged, and the rest of it cannot be read: {lines.damage}"
        )


def broken_off(reason: str) -> ExtractionError:
    """Return the error for a file whose stream ends within a part that has an end."""
    return ExtractionError(
        f"the file is damaged in the middle: {reason}", hint="Repeat the load, which continues where it stopped."
    )


class _Number(str):
    __slots__ = ()


class _Repeated(ValueError):
    """The error for an object that contains a name twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Repeated("a JSON object contains a name twice")
    return members


_EXACT: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_Number, parse_int=_Number, parse_constant=_Number
)


ToObject = Callable[[Any], "dict[str, Any] | str | None"]
"""A function that converts the JSON value of a line to an object, a problem, or None (no record)."""


def _an_object(value: Any) -> dict[str, Any] | str:
    return value if isinstance(value, dict) else "not a JSON object"


def json_records(
    stream: io.BufferedReader, to_object: ToObject = _an_object, part: Part | None = None
) -> Iterator[TextRecord]:
    """Yield one record for each JSON line that is not blank. A nested value becomes a cell of JSON text.

    The stream begins where ``part`` begins. When the part is read, ``part`` begins behind its last line. Raise
    ExtractionError if the stream is damaged in a part that has an end.
    """
    part = part or Part()
    lines = _Lines(stream, part.before)
    size = part.size
    while (size is None or lines.position < size) and (line := _next_line(lines)):
        if len(line) > MAX_LINE:
            yield from _too_long(lines, line)
        elif line.strip():
            record = json_record(lines.number + (not line.endswith(b"\n")), line, to_object)
            if record is not None:
                yield record
    if size is None:
        yield from _broken_off(lines)
    elif lines.damage is not None:
        raise broken_off(lines.damage)
    part.advance(lines.position, lines.number)


def json_record(number: int, line: bytes, to_object: ToObject = _an_object) -> TextRecord | None:
    """Return a record with the cells of a JSON line, or with a problem. Return None if ``to_object`` returns None.

    Numbers are passed to ``to_object`` as strings.
    """
    problem = _not_text(line)
    if problem is not None:
        return TextRecord(number, line, None, problem)
    try:
        members = to_object(_EXACT.decode(line.decode("utf-8").strip()))
        if members is None:
            return None
        if isinstance(members, str):
            return TextRecord(number, line, None, members)
        cells: dict[str, str | None] = {}
        kinds: dict[str, str] = {}
        for name, value in members.items():
            if value is not None:
                kinds[name], cells[name] = _cell(value)
            else:
                cells[name] = None
        # Reject lone surrogates, which are not valid text although JSON can escape them.
        "".join([*cells, *(text for text in cells.values() if text)]).encode("utf-8")
    except (ValueError, RecursionError) as error:
        return TextRecord(number, line, None, f"invalid JSON: {' '.join(str(error).split())[:200]}")
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
