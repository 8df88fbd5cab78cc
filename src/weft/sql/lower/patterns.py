"""Check regular expressions by Java's rules, because Spark reports an invalid pattern only at the first row.

The module accepts the usual syntax of ``java.util.regex.Pattern``.  The module refuses flags for comments, nested
character classes, and octal escapes.  Java compiles every accepted pattern, as a test verifies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from weft.errors import SqlError
from weft.sql.lower.refusal import place

_PLAIN_ESCAPES: Final = frozenset("dDsSwWhHvVtnrfae")
_EDGES: Final = frozenset("bBAzZG")
_CATEGORIES: Final = """
    L Lu Ll Lt Lm Lo M N Nd Nl No P S Sm Sc Z Zs C Lower Upper ASCII Alpha Digit Alnum Punct Graph Print Blank Cntrl
    XDigit Space IsAlphabetic IsLetter IsDigit IsLatin IsGreek IsCyrillic IsHan InGreek
"""
_PROPERTIES: Final = frozenset(_CATEGORIES.split())
_MOST: Final = 1_000
"""The largest repetition count in a pattern.  Compilation unrolls the pattern, so larger counts are refused."""
_DEEPEST: Final = 50
_BOUND: Final = re.compile(r"\{(\d{1,9})(?:(,)(\d{1,9})?)?\}")
_OPENING: Final = re.compile(r"\(\?(?::|=|!|<=|<!|>|[ims]+:|<([A-Za-z][A-Za-z0-9]*)>)")
_FLAGS: Final = re.compile(r"\(\?[ims]+\)")
_CODE: Final = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[pP](?:\{(\w+)\}|([LMNPSZC])))")


@dataclass
class _Reader:
    text: str
    at: int = 0
    groups: int = 0
    names: set[str] = field(default_factory=set)
    behind: int = 0
    depth: int = 0

    def alternatives(self) -> None:
        """Check the pattern up to its end, or up to the closing ``)``."""
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self.text[self.at] == "|":
                self.at += 1
            else:
                self.element()

    def element(self) -> None:
        sign = self.text[self.at]
        flags = _FLAGS.match(self.text, self.at)
        if flags is not None:
            self.at = flags.end()
            return
        if sign == "(":
            self.group()
        elif sign == "[":
            self.bracket()
        elif sign == "\\":
            self.escape(within=False)
        elif sign in "*+?{":
            raise ValueError(f"nothing precedes {sign}")
        else:
            self.at += 1
        self.repetition()

    def group(self) -> None:
        opening = _OPENING.match(self.text, self.at)
        if opening is None and self.text.startswith("(?", self.at):
            raise ValueError(f"{self.text[self.at : self.at + 4]} is not a kind of group")
        label = opening[1] if opening else None
        if label is not None and label in self.names:
            raise ValueError(f"two groups are named {label}")
        if opening is None or label is not None:
            self.groups += 1
        if label is not None:
            self.names.add(label)
        backwards = opening is not None and opening[0] in ("(?<=", "(?<!")
        self.at = opening.end() if opening else self.at + 1
        self.behind, self.depth = self.behind + backwards, self.depth + 1
        if self.depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} nested groups")
        self.alternatives()
        self.behind, self.depth = self.behind - backwards, self.depth - 1
        if self.at >= len(self.text):
            raise ValueError("a ( is not closed")
        self.at += 1

    def bracket(self) -> None:
        self.at += 2 if self.text.startswith("[^", self.at) else 1
        first, low = self.at, None
        while self.at < len(self.text):
            sign = self.text[self.at]
            if sign == "]" and self.at > first:
                self.at += 1
                return
            if sign in "[]" or self.text.startswith("&&", self.at):
                raise ValueError(f"{sign} within [ ] needs a \\ before it")
            ranged = sign == "-" and low is not None and self.text[self.at + 1 : self.at + 2] not in ("]", "")
            if ranged:
                self.at += 1
                if self.text[self.at] in "[]&":
                    raise ValueError("a range has no end")
            value = self.member()
            if ranged and (low is None or value is None or value < low):
                raise ValueError("a range within [ ] runs backwards")
            low = None if ranged else value
        raise ValueError("a [ is not closed")

    def member(self) -> str | None:
        """Check one member of a character class.  Return the character, or None for a predefined class."""
        start = self.at
        if self.text[start] != "\\":
            self.at += 1
            return self.text[start]
        self.escape(within=True)
        escaped = self.text[start + 1]
        return escaped if not escaped.isalnum() else None

    def escape(self, within: bool) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        code = _CODE.match(self.text, self.at)
        if not following:
            raise ValueError("it ends in a \\")
        if code is not None:
            label = code[1] or code[2]
            if label is not None and label not in _PROPERTIES:
                raise ValueError(f"the class \\p{{{label}}} does not exist")
            self.at = code.end()
        elif (
            following in _PLAIN_ESCAPES
            or (not following.isalnum() and following.isascii())
            or (following in _EDGES and not within)
        ):
            self.at += 2
        elif following in "123456789" and not within and not self.behind:
            if int(following) > self.groups:
                raise ValueError(f"no group {following} precedes \\{following}")
            self.at += 2
        else:
            raise ValueError(f"\\{following} is not an escape")

    def repetition(self) -> None:
        sign = self.text[self.at : self.at + 1]
        if not sign or sign not in "*+?{":
            return
        bounds = _BOUND.match(self.text, self.at)
        if sign == "{" and bounds is None:
            raise ValueError("{ needs a number: {2} or {2,5}")
        unbounded = sign in "*+"
        if bounds is not None:
            least, most = int(bounds[1]), int(bounds[3] or bounds[1])
            unbounded = bounds[2] is not None and bounds[3] is None
            if most < least or most > _MOST:
                raise ValueError(f"{bounds[0]} is not a repetition, or exceeds {_MOST}")
        if unbounded and self.behind:
            raise ValueError("a look-behind must have a bounded length")
        self.at = bounds.end() if bounds is not None else self.at + 1
        if self.text[self.at : self.at + 1] in ("?", "+"):
            self.at += 1
        if self.text[self.at : self.at + 1] in ("*", "+", "?", "{"):
            raise ValueError("a repetition is repeated")


def check_pattern(text: str, node: exp.Expr) -> int:
    """Return the number of groups in a regular expression.  Raise SqlError if Java would not compile the pattern.

    ``text`` is the pattern without the escapes of the SQL string.
    """
    reader = _Reader(text)
    try:
        reader.alternatives()
        if reader.at < len(text):
            raise ValueError("a ) closes nothing")
    except ValueError as error:
        raise SqlError(
            f"{text!r} is not a supported regular expression: {error}",
            where=place(node),
            hint="The syntax is Java's. Write \\ twice in an SQL string: '\\\\d+' finds digits.",
        ) from None
    return reader.groups


def check_replacement(text: str, groups: int, node: exp.Expr) -> None:
    r"""Check the replacement of REGEXP_REPLACE.

    Raise SqlError if the replacement refers to a missing group, or ends in a backslash or a $.
    """
    for sign, digit in re.findall(r"(\\|\$)(.?)", re.sub(r"\\.", "", text, flags=re.DOTALL), re.DOTALL):
        if sign == "\\" or not re.fullmatch("[0-9]", digit) or int(digit) > groups:
            raise SqlError(
                f"{text!r} is not a valid replacement: {sign}{digit} does not name a group of the pattern",
                where=place(node),
                hint="$1 is the first group; write \\\\$ for a literal $.",
            )
