"""Read logs in MonPoly's format as streams of time points.

A time point is ``@TIME``, followed by predicates with their rows: ``@10 P (1) (2) Q("a b", c)``.  A ``;`` may end a
time point.  A comment begins with ``#``, and texts may be quoted.  TIME is in seconds and never decreases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Final, NoReturn, TextIO

from weft.algebra.schema import BIGINT, DOUBLE, DataType
from weft.errors import FormulaError
from weft.formula.signature import Row, Signature, TimePoint, Value
from weft.printable import counted

_SKIPPED: Final = re.compile(r"\s*(?:#[^\n]*\s*)*")
_WORD: Final = re.compile(
    r"(?:(?P<name>[A-Za-z0-9_\[\]/:.!-]+)"
    r"|(?P<row>\([A-Za-z0-9_\[\]/:.!,\s-]*\))"
    r'|(?P<quoted>r?"(?:[^"\\]|\\.)*")'
    r"|(?P<sign>[@();,<>]))\s*",
    re.DOTALL,
)
_SECOND: Final = 1_000_000
_CHUNK: Final = 1 << 18
_LONGEST: Final = 1 << 20
"""The maximum length of a token or a comment, in characters."""
_BLANK: Final = " \t\r\n\f\v#"
_LARGEST: Final = 2**63
_SKIPPED_COMMANDS: Final = ("print", "get_pos")
_LAST_COMMANDS: Final = ("terminate", "print_and_exit")


def time_points(stream: TextIO, known: Signature, name: str = "the log") -> Iterator[TimePoint]:
    """Yield the time points of a log in order.  Raise FormulaError with the line of a syntax error."""
    return _Log(stream, known, name).points()


class _Log:
    def __init__(self, stream: TextIO, known: Signature, name: str) -> None:
        self.stream = stream
        self.known = known
        self.name = name
        self.words = self._words()
        self.kind, self.text = "", ""
        self.buffer, self.at, self.passed = "", 0, 0
        self.readers = {name: tuple(map(_reader, predicate.types)) for name, predicate in known.items()}

    def _words(self) -> Iterator[tuple[str, str]]:
        """Yield (kind, text) for each token.  After the last token, yield ``("end", "")`` forever."""
        ended = False
        while not ended:
            chunk = self.stream.read(_CHUNK)
            ended = not chunk
            self.passed += self.buffer.count("\n", 0, self.at)
            self.buffer, self.at = self.buffer[self.at :] + chunk, 0
            if len(self.buffer) > _LONGEST + _CHUNK:
                self.refuse(f"a token or a comment is longer than {_LONGEST >> 20} MiB")
            yield from self._words_here(ended)
        while True:
            yield "end", ""

    def _words_here(self, ended: bool) -> Iterator[tuple[str, str]]:
        """Yield the complete tokens.  Before the end of the log, the last token in the buffer may be incomplete."""
        buffer, size = self.buffer, len(self.buffer)
        at = self.at
        while True:
            if at < size and buffer[at] in _BLANK and (skipped := _SKIPPED.match(buffer, at)):
                if not ended and skipped.end() == size:
                    return
                self.at = at = skipped.end()
            if at >= size:
                return
            word = _WORD.match(buffer, at)
            if not ended and (word is None or word.end() == size):
                return
            if word is None:
                self.refuse(f"{buffer[at : at + 20].splitlines()[0]!r} is not allowed in a log")
            kind = word.lastgroup or ""
            yield kind, word[kind]
            self.at = at = word.end()

    def refuse(self, message: str, hint: str | None = None) -> NoReturn:
        line = 1 + self.passed + self.buffer.count("\n", 0, self.at)
        raise FormulaError(f"{self.name}: {message}", hint=hint, where=f"line {line}")

    def take(self) -> None:
        self.kind, self.text = next(self.words)

    def points(self) -> Iterator[TimePoint]:
        number, latest = 0, None
        self.take()
        while self.kind != "end":
            if self.text == ">":
                if self._command():
                    return
                continue
            if self.text == ";":
                self.take()
                continue
            at = self._time()
            if latest is not None and at < latest:
                self.refuse(
                    f"time point {number} is at {at // _SECOND}, which is earlier than the preceding time "
                    f"point at {latest // _SECOND}",
                    "Sort the log by time.",
                )
            yield TimePoint(number, at, self._rows())
            number, latest = number + 1, at

    def _command(self) -> bool:
        """Skip a command ``> name … <``.  Return whether the command ends the log."""
        self.take()
        command = self.text
        if command not in (*_SKIPPED_COMMANDS, *_LAST_COMMANDS):
            self.refuse(
                f"the command {command!r} is not supported",
                "Remove commands from the log; Weft stores its state in its own tables.",
            )
        while self.text != "<":
            if self.kind == "end":
                self.refuse(f"the command {command!r} is not ended by '<'")
            self.take()
        self.take()
        return command in _LAST_COMMANDS

    def _time(self) -> int:
        """Return the time in microseconds."""
        if self.text != "@":
            self.refuse(f"'@' and a time are expected; found {self.text!r}")
        self.take()
        try:
            micros = Decimal(self.text) * _SECOND
        except InvalidOperation:
            self.refuse(f"{self.text!r} is not a time; a time is a number of seconds")
        if not micros.is_finite() or micros != int(micros) or not -_LARGEST <= micros < _LARGEST:
            self.refuse(f"{self.text!r} is not a time: a time is a whole number of microseconds in 64 bits")
        self.take()
        return int(micros)

    def _rows(self) -> dict[str, list[Row]]:
        relations: dict[str, list[Row]] = {}
        while self.kind in ("name", "quoted"):
            name = self.text
            predicate = self.known.get(name)
            if predicate is None:
                self.refuse(
                    f"{name} is not a predicate of the signature", f"The signature has {', '.join(sorted(self.known))}."
                )
            rows = relations.setdefault(name, [])
            self.take()
            if self.kind != "row" and self.text != "(":
                rows.append(self._row(name, [], predicate.types))
            while self.kind == "row" or self.text == "(":
                rows.append(self._row(name, self._fields(), predicate.types))
                self.take()
        if self.text not in ("@", ";", ">", ""):
            self.refuse(f"a predicate, '@', ';' or '>' is expected; found {self.text!r}")
        return relations

    def _fields(self) -> list[str]:
        """Errors must name the line of the row, so the last token of the row stays the current token."""
        if self.kind == "row":
            inner = self.text[1:-1].strip()
            if not inner:
                return []
            fields = inner.split(",")
            if " " in inner or "\n" in inner or "\t" in inner or not all(fields):
                fields = [field.strip() for field in fields]
                if not all(fields) or any(character.isspace() for field in fields for character in field):
                    self.refuse(f"({inner}) is not a row: values are separated by ','")
            return fields
        fields = []
        self.take()
        while True:
            if self.kind not in ("name", "quoted"):
                self.refuse(f"a value is expected; found {self.text!r}")
            fields.append(self.text if self.kind == "name" else self.text[self.text.index('"') + 1 : -1])
            self.take()
            if self.text == ")":
                return fields
            if self.text != ",":
                self.refuse(f"',' or ')' is expected after a value; found {self.text!r}")
            self.take()

    def _row(self, name: str, fields: list[str], types: tuple[DataType, ...]) -> Row:
        if len(fields) != len(types):
            self.refuse(
                f"{name} has {counted(len(types), 'column')}, but this row has {counted(len(fields), 'value')}: "
                f"({', '.join(fields)})"
            )
        try:
            row = tuple([read(field) for read, field in zip(self.readers[name], fields, strict=True)])
        except ValueError:
            wanted = ", ".join(type.name for type in types)
            self.refuse(f"({', '.join(fields)}) is not a row of {name}, whose columns are {wanted}")
        return row


def _reader(type: DataType) -> Callable[[str], Value]:
    return _integer if type == BIGINT else float if type == DOUBLE else str


def _integer(text: str) -> int:
    value = int(text)
    if not -_LARGEST <= value < _LARGEST:
        raise ValueError
    return value
