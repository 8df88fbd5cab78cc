"""Parse the terms and comparisons of MonPoly's language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from weft.formula import syntax_tree
from weft.formula.syntax_tree import Written, WrittenTerm
from weft.formula.tokens import Cursor, Token

_FUNCTIONS: Final = ("f2i", "i2f")
_NOT_TAKEN: Final = (
    *("i2s", "s2i", "f2s", "s2f", "r2s", "s2r", "DAY_OF_MONTH", "MONTH", "YEAR", "FORMAT_DATE", "true", "false"),
)

TERM_WORDS: Final = (
    *((word, word) for word in ("MOD", "SUBSTRING", "MATCHES", *_FUNCTIONS)),
    *(("function", word) for word in _NOT_TAKEN),
    *(("(", r"\("), (")", r"\)"), (",", ","), ("+", r"\+"), ("-", "-"), ("*", r"\*"), ("/", "/")),
    *((sign, sign) for sign in ("=", "<", "<=", ">", ">=")),
    ("?", r"\?"),
    ("_", "_"),
    ("int", r"[0-9]+"),
    ("float", r"[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?"),
    ("text", r'"(?:[^"\\]|\\.)*"'),
    ("regex", r'r"(?:[^"\\]|\\.)*"'),
    ("name", r"[A-Za-z0-9_][A-Za-z0-9_']*"),
)
"""The token kinds of terms, each with a regular expression.  A language adds its keywords before these tokens."""
EXTENDED_TERM_WORDS: Final = (("quoted", r"'(?:[^']|'')*'"), ("re2", r"re'(?:[^']|'')*'"), ("<>", "<>"), *TERM_WORDS)
"""The tokens of terms, the token ``<>``, texts in single quotes, and regular expressions of RE2 in the form ``re'…'``.

Inside single quotes, ``''`` stands for a single quote.
"""
_ADDED: Final = ("+", "-")
_MULTIPLIED: Final = ("*", "/", "MOD")
_ORDERS: Final[dict[str, tuple[Literal["=", "<>", "<", "<="], bool]]] = {
    "=": ("=", False),
    "<": ("<", False),
    "<=": ("<=", False),
    ">": ("<", True),
    ">=": ("<=", True),
    "<>": ("<>", False),
}
"""A mapping from comparison tokens to (operator, whether to exchange the two sides)."""
_DEEPEST: Final = 40
_LONGEST: Final = 150


class TermParser(Cursor):
    """A parser of terms and comparisons."""

    unnamed = 0
    nested = 0

    def __init__(self, text: str, scanned: list[Token], what: str) -> None:
        super().__init__(text, scanned, what)

    def variable(self, wanted: str) -> str:
        """Parse a variable.  ``?x`` is the variable x, and each ``_`` is a new variable."""
        if self.taken("_"):
            self.unnamed += 1
            return f"_{self.unnamed}"
        self.taken("?")
        return self.expect("name", wanted).text

    def compared(self) -> Written:
        """Parse a comparison of two terms, or a match of a term with a regular expression."""
        left = self.term()
        token = self.ahead()
        if token.kind == "SUBSTRING":
            self.take()
            return syntax_tree.Compared("substring", left, self.term(), token.at)
        if token.kind == "MATCHES":
            self.take()
            pattern = self.term()
            return syntax_tree.Matched(left, pattern, self._groups() if self.at("(") else (), token.at)
        if token.kind not in _ORDERS:
            raise self.refused("a comparison (=, <, <=, >, >=, SUBSTRING, MATCHES) is expected after a term")
        self.take()
        operator, turned = _ORDERS[token.kind]
        right = self.term()
        sides = (right, left) if turned else (left, right)
        return syntax_tree.Compared(operator, *sides, token.at)

    def _groups(self) -> tuple[WrittenTerm | None, ...]:
        self.take()
        groups: list[WrittenTerm | None] = []
        while not self.at(")"):
            groups.append(None if self.taken("_") else self.term())
            if not self.taken(","):
                break
        self.expect(")", "',' or ')' after a group")
        return tuple(groups)

    def term(self) -> WrittenTerm:
        """Parse a term, which is a sum of products."""
        return self._chain(_ADDED, self._product)

    def _product(self) -> WrittenTerm:
        return self._chain(_MULTIPLIED, self.single)

    def _chain(self, operators: tuple[str, ...], part: Callable[[], WrittenTerm]) -> WrittenTerm:
        left = part()
        links = 0
        while self.at(*operators):
            links += 1
            if links > _LONGEST:
                raise self.refused(f"a chain of more than {_LONGEST} terms", hint="Put parts of the chain in brackets.")
            token = self.take()
            left = syntax_tree.Call(token.kind, (left, part()), token.at)
        return left

    def single(self) -> WrittenTerm:
        """Parse a term without infix operators outside parentheses."""
        token = self.ahead()
        match token.kind:
            case "int":
                return syntax_tree.Value(int(self.take().text), at=token.at)
            case "float":
                return syntax_tree.Value(float(self.take().text), at=token.at)
            case "text":
                return syntax_tree.Value(self.take().text[1:-1], at=token.at)
            case "regex":
                return syntax_tree.Value(self.take().text[2:-1], regular=True, at=token.at)
            case "quoted":
                return syntax_tree.Value(self.take().text[1:-1].replace("''", "'"), at=token.at)
            case "re2":
                expression = self.take().text[3:-1].replace("''", "'")
                return syntax_tree.Value(expression, regular=True, translated=True, at=token.at)
            case "name" | "_" | "?":
                return syntax_tree.Name(self.variable("a variable"), token.at)
            case "-":
                self.take()
                self._deeper()
                inner = self.single()
                self.nested -= 1
                return _negative(inner, token.at)
            case "f2i" | "i2f":
                self.take()
                self.expect("(", f"'(' after {token.text}")
                return syntax_tree.Call(token.kind, (self._bracketed(),), token.at)
            case "(":
                self.take()
                return self._bracketed()
            case "function":
                raise self.refused(
                    f"{token.text} is not supported; the operators of terms are + - * / MOD, f2i and i2f"
                )
            case _:
                raise self.refused("a formula or a term is expected here")

    def _deeper(self) -> None:
        self.nested += 1
        if self.nested > _DEEPEST:
            raise self.refused(f"terms are nested more than {_DEEPEST} deep")

    def _bracketed(self) -> WrittenTerm:
        self._deeper()
        inner = self.term()
        self.expect(")", "')' after a term")
        self.nested -= 1
        return inner


def _negative(term: WrittenTerm, at: int) -> WrittenTerm:
    if isinstance(term, syntax_tree.Value) and isinstance(term.value, (int, float)):
        return syntax_tree.Value(-term.value, at=at)
    return syntax_tree.Call("negate", (term,), at)
