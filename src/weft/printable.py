"""Escape the characters of a text that a terminal or a mail program would interpret."""

from __future__ import annotations

import re
from html import escape
from typing import Final

from weft.errors import Refused

_LONGEST: Final = 160
_SHOWN: Final = 60
_NOT_UTF_8: Final = re.compile("[\udc80-\udcff]")
"""The surrogates that Python uses for bytes that are not UTF-8 (PEP 383). Arguments, environment variables and file
names may contain surrogates.
"""


def visible(text: str, allowed: str = "") -> str:
    r"""Escape the control characters of a text, except those in ``allowed``.

    >>> visible("a\n\x1b[31m", allowed="\n")
    'a\n\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in allowed else c.encode("unicode_escape").decode() for c in text)


def require_text(text: str, what: str) -> str:
    r"""Return ``text``. Raise Refused if ``text`` contains bytes that are not UTF-8.

    ``what`` names the text in the error message.

    >>> require_text("caf\u00e9", "the argument")
    'café'
    >>> require_text("caf\udce9", "the argument")
    Traceback (most recent call last):
    weft.errors.Refused: the argument is not UTF-8 text: caf\xe9
      Encode the text in UTF-8: Weft stores every text in UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        start = max(0, error.start - _SHOWN)
        near = text[start : error.start + _SHOWN]
        shown = visible(_NOT_UTF_8.sub(lambda byte: f"\\x{ord(byte[0]) - 0xDC00:02x}", near))
        raise Refused(
            f"{what} is not UTF-8 text: {'…' if start else ''}{shown}",
            hint="Encode the text in UTF-8: Weft stores every text in UTF-8.",
        ) from None
    return text


def one_line(text: str, longest: int, allowed: str = "") -> str:
    r"""Return ``text`` on one line of at most ``longest`` characters.

    Successive white space becomes one space. Control characters are escaped as in ``visible``.

    >>> one_line("a\nb\x1b[31m", 80), one_line("abcdef", 4)
    ('a b\\x1b[31m', 'abc…')
    """
    head = text[: longest * 4]
    safe = visible(" ".join(head.split()), allowed)
    return safe if len(safe) <= longest and len(head) == len(text) else safe[: longest - 1] + "…"


class Brief:
    """An object whose ``repr`` is one line of at most 160 characters, for programs and notebooks.

    A subclass that is a dataclass needs ``repr=False``, because a dataclass otherwise generates ``__repr__``.
    """

    def _brief(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{one_line(self._brief(), _LONGEST)}>"


class InLines(Brief):
    """An object described by several lines (``brief``). A notebook shows all lines. ``repr`` joins the lines."""

    @property
    def brief(self) -> tuple[str, ...]:
        """The lines that describe the object."""
        raise NotImplementedError

    def _brief(self) -> str:
        return "; ".join(self.brief)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(visible(chr(10).join(self.brief), allowed=chr(10)))}</pre>"


def counted(number: int, one: str, several: str | None = None) -> str:
    """Format a number with its noun, in the singular or the plural.

    >>> counted(1, "row"), counted(2000, "query", "queries")
    ('1 row', '2,000 queries')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def size(count: int) -> str:
    """Format a number of bytes.

    >>> size(512), size(40_750), size(3_456_789_012)
    ('512 bytes', '40.8 kB', '3.5 GB')
    """
    if count < 1_000:
        return f"{count} bytes"
    unit, value = "kB", count / 1e3
    for larger in ("MB", "GB", "TB"):
        if value >= 1e3:
            unit, value = larger, value / 1e3
    return f"{value:.1f} {unit}"
