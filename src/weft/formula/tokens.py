"""Split texts into tokens, and report errors with their position in the text.

Each language defines its tokens in a table of regular expressions.  The longest match wins.  If several matches are
longest, the first regular expression in the table wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from weft.errors import FormulaError


@dataclass(frozen=True)
class Token:
    """A token of a text, with its kind, its text and its offset."""

    kind: str
    text: str
    at: int


END = "end"
"""The kind of the token at the end of a text."""


@dataclass(frozen=True)
class Symbols:
    """The regular expressions of a language: one for each kind of token, and one for the text between tokens."""

    words: tuple[tuple[str, re.Pattern[str]], ...]
    skipped: re.Pattern[str]

    @classmethod
    def of(cls, skipped: str, words: Iterable[tuple[str, str]]) -> Symbols:
        """Compile the regular expressions."""
        return cls(tuple((kind, re.compile(expression)) for kind, expression in words), re.compile(skipped))


def tokens(text: str, symbols: Symbols, what: str) -> list[Token]:
    """Split the text into tokens.  Raise FormulaError at a character that cannot begin a token."""
    scanned: list[Token] = []
    at = 0
    while True:
        skipped = symbols.skipped.match(text, at)
        at = skipped.end() if skipped else at
        if at >= len(text):
            scanned.append(Token(END, "", len(text)))
            return scanned
        matches = [(match.end(), kind) for kind, word in symbols.words if (match := word.match(text, at))]
        if not matches:
            raise refused_at(text, at, f"{what} has {text[at]!r}, which is not allowed here")
        end = max(matches, key=lambda match: match[0])[0]
        kind = next(kind for stop, kind in matches if stop == end)
        scanned.append(Token(kind, text[at:end], at))
        at = end


def refused_at(text: str, at: int, message: str, hint: str | None = None) -> FormulaError:
    """Return an error with the line and column of the offset ``at``, and with a caret below this position."""
    at = min(at, len(text))
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start : end if end >= 0 else len(text)]
    place = f"line {text.count(chr(10), 0, at) + 1}, column {at - start + 1}"
    first = max(0, at - start - 60)
    window = line[first : first + 120].replace("\t", " ")
    shown = f"    {window}\n    {' ' * (at - start - first)}^"
    return FormulaError(message, hint=hint, where=place, excerpt=shown)


class Cursor:
    """A position in the tokens of a text.  All parsers are subclasses of this class."""

    def __init__(self, text: str, scanned: list[Token], what: str) -> None:
        self.text = text
        self.tokens = scanned
        self.what = what
        self.place = 0

    def ahead(self, steps: int = 0) -> Token:
        """Return the token that is ``steps`` positions after the next token, or a token of kind ``END``."""
        return self.tokens[min(self.place + steps, len(self.tokens) - 1)]

    def at(self, *kinds: str) -> bool:
        """Return whether the next token has one of the kinds."""
        return self.ahead().kind in kinds

    def take(self) -> Token:
        """Return the next token and advance."""
        token = self.ahead()
        self.place += 1
        return token

    def taken(self, kind: str) -> bool:
        """If the next token has this kind, advance and return True."""
        if self.at(kind):
            self.place += 1
            return True
        return False

    def expect(self, kind: str, wanted: str) -> Token:
        """Return the next token and advance.  Raise FormulaError with ``wanted`` if the token has another kind."""
        if not self.at(kind):
            raise self.refused(f"{wanted} is expected here")
        return self.take()

    def refused(self, message: str, token: Token | None = None, hint: str | None = None) -> FormulaError:
        """Return an error at a token, by default at the next token.  The message contains the token's text."""
        token = token or self.ahead()
        actual = f"; found {token.text!r}" if token.kind != END else "; the text ends"
        return refused_at(self.text, token.at, f"{self.what}: {message}{actual}", hint)
