"""Detect the encoding of a text file, and recode the file as UTF-8.

A byte order mark or the zero bytes of UTF-16 determine the encoding. Any other text is UTF-8 if at least one of its
non-ASCII lines is valid UTF-8. For all other text, ``charset-normalizer`` chooses one of the common legacy encodings.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from weft.errors import Refused
from weft.extraction.batches import MAX_LINE
from weft.extraction.byte_streams import damage

UTF_8: Final = "utf-8"
_MARKS: Final = (
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF32_LE, "utf-32"),  # must precede the UTF-16 mark, which is a prefix of this one
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WESTERN: Final = "cp1252"
_OTHERS: Final = ("cp1250", "cp1251", "koi8_r", "cp1253", "shift_jis", "euc_jp", "gb18030", "big5", "euc_kr")
_HIGH: Final = re.compile(rb"[\x80-\xff]+")
"""A run of non-ASCII bytes: usually one letter in Western text, but a whole word in other scripts."""
_BLOCK: Final = 1 << 18
_SAMPLE: Final = 1 << 16
"""The size of the sample of lines with invalid UTF-8, in bytes."""


def codec_name(encoding: str) -> str:
    """Return Python's name for the encoding. Raise Refused if the encoding is unknown or not a text encoding."""
    try:
        codec = codecs.lookup(encoding)
        codec.name.encode(codec.name).decode(codec.name)
    except (LookupError, UnicodeError, TypeError, AssertionError):
        raise Refused(
            f"{encoding!r} is not a text encoding",
            hint="Name an encoding such as utf-8, utf-16, latin-1 or windows-1251.",
        ) from None
    return codec.name


def detect_encoding(stream: io.BufferedReader) -> str:
    """Return the encoding of the stream. The whole stream is read unless the first bytes show the encoding."""
    return encoding_of_head(stream.peek(512)[:512]) or _by_lines(stream)


def encoding_of_head(head: bytes) -> str | None:
    """Return the encoding that the first 512 bytes of a text show, or None if they do not show it."""
    marked = next((encoding for mark, encoding in _MARKS if head.startswith(mark)), None)
    return _without_mark(head) if marked is None else marked


def _without_mark(head: bytes) -> str | None:
    """If the text seems to be UTF-16 without a byte order mark, return its encoding, otherwise None.

    In mostly ASCII text in UTF-16, every second byte is zero.
    """
    pairs = len(head) // 2
    even, odd = head[0 : 2 * pairs : 2].count(0), head[1 : 2 * pairs : 2].count(0)
    if pairs < 2 or max(even, odd) < 0.7 * pairs or min(even, odd) > 0.1 * pairs:
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


@dataclass(frozen=True)
class Letters:
    """Whether a text has lines beyond ASCII that are UTF-8 (``right``), and a sample of those that are not."""

    right: bool = False
    wrong: bytes = b""

    def __add__(self, later: Letters) -> Letters:
        return Letters(self.right or later.right, (self.wrong + later.wrong)[:_SAMPLE])

    @property
    def encoding(self) -> str:
        """The encoding of the text."""
        return UTF_8 if self.right or not self.wrong else _of_letters(self.wrong)


def letters_of(text: bytes) -> Letters:
    """Return what the lines of a text show. The text has whole lines."""
    if text.isascii():
        return Letters()
    if _is_utf_8(text):
        return Letters(right=True)
    right, size, wrong = False, 0, []
    for line in text.splitlines(keepends=True):
        if line.isascii():
            continue
        if _is_utf_8(line):
            right = True
        elif size < _SAMPLE:
            wrong.append(line)
            size += len(line)
    return Letters(right, b"".join(wrong)[:_SAMPLE])


def _by_lines(stream: io.BufferedReader) -> str:
    return sum(map(letters_of, _blocks_of_lines(stream)), Letters()).encoding


def _blocks_of_lines(stream: io.BufferedReader) -> Iterator[bytes]:
    """Yield the text in blocks of whole lines. A line over ``MAX_LINE`` may be split."""
    rest = b""
    while block := stream.read(_BLOCK):
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end]
            rest = block[end:]
        elif len(rest) + len(block) <= MAX_LINE:
            rest += block
        else:
            yield rest + block
            rest = b""
    if rest:
        yield rest


def _is_utf_8(text: bytes) -> bool:
    try:
        text.decode(UTF_8)
    except UnicodeDecodeError:
        return False
    return True


def _of_letters(text: bytes) -> str:
    """Return the most likely encoding of text that is not UTF-8. If no encoding fits, return UTF-8."""
    if b"\0" in text:
        return UTF_8
    runs = _HIGH.findall(text)
    if 2 * len(runs) > sum(map(len, runs)) and _decodes(text, _WESTERN):
        return _WESTERN
    from charset_normalizer import from_bytes

    match = from_bytes(text, cp_isolation=[_WESTERN, *_OTHERS]).best()
    return UTF_8 if match is None else codec_name(match.encoding)


def _decodes(text: bytes, encoding: str) -> bool:
    try:
        text.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def as_utf_8(stream: io.BufferedReader, encoding: str) -> io.BufferedReader:
    """Return a stream with the text of ``stream`` in UTF-8.

    Bytes that are invalid in the encoding stay unchanged. Records with invalid bytes are later rejected.
    """
    if encoding == UTF_8:
        return stream
    if encoding == "utf-16":
        head = stream.peek(512)[:512]
        if not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            encoding = _without_mark(head) or "utf-16-le"
    return io.BufferedReader(_Recoded(stream, encoding), _BLOCK)


class _Recoded(io.RawIOBase):
    def __init__(self, of: io.BufferedReader, encoding: str) -> None:
        self.of = of
        self._decoder = codecs.getincrementaldecoder(encoding)(errors=_ERRORS)
        self._ready = b""
        self._ended = False

    @property
    def damage(self) -> str | None:
        return damage(self.of)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._ended:
            block = self.of.read(_BLOCK)
            self._ended = not block
            text = self._decoder.decode(block, final=self._ended)
            self._ready = text.encode(UTF_8, "surrogateescape")
        chunk = self._ready[: len(buffer)]
        self._ready = self._ready[len(chunk) :]
        buffer[: len(chunk)] = chunk
        return len(chunk)


def _undecodable(error: UnicodeError) -> tuple[str, int]:
    """Replace each undecodable byte by a character that ``surrogateescape`` encodes as the same byte."""
    assert isinstance(error, UnicodeDecodeError)
    wrong = error.object[error.start : error.end]
    return "".join(chr(0xDC00 + byte) if byte >= 0x80 else chr(byte) for byte in wrong), error.end


_ERRORS: Final = "weft.undecodable"
codecs.register_error(_ERRORS, _undecodable)
