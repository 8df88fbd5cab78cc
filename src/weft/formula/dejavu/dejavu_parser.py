"""Parse DejaVu's specifications to the syntax tree of MonPoly's formulas.

The syntax tree also has DejaVu's four quantifiers.  ``Exists`` and ``Forall`` range over all values.  ``exists`` and
``forall`` range over the values seen so far.  DejaVu writes PREVIOUS, ONCE and PAST_ALWAYS as ``@``, ``P`` and ``H``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.formula import syntax_tree
from weft.formula.syntax_tree import Bounds, Connective, Written, WrittenTerm
from weft.formula.tokens import END, Cursor, Symbols, refused_at, tokens

_WORDS: Final = ("prop", "where", "preds", "pred", "events", "event", "Forall", "Exists", "forall", "exists")
_SYMBOLS: Final = Symbols.of(
    r"(?:\s|//[^\n]*|/\*(?:.|\n)*?\*/)*",
    (
        *((word, word) for word in (*_WORDS, "true", "false", "H", "P", "S", "Z")),
        *((sign, sign) for sign in ("->", "<->", ":=", "<=", ">=", "<", ">", "=", "!", "@", "&", ",", ":")),
        *((sign, "\\" + sign) for sign in ("|", "(", ")", "[", "]", ".")),
        ("int", r"-?[0-9]+"),
        ("text", r'"(?:[^"\\]|\\.)*"'),
        ("name", r"[A-Za-z_][A-Za-z0-9_]*"),
    ),
)
_SECOND: Final = 1_000_000
_CONNECTIVES: Final[tuple[dict[str, Connective], ...]] = (
    {"->": "IMPLIES", "<->": "EQUIV"},
    {"|": "OR"},
    {"&": "AND"},
)
_DEEPEST: Final = 120


@dataclass(frozen=True)
class Macro:
    """A macro, written ``pred name(parameters) = body``."""

    name: str
    parameters: tuple[str, ...]
    body: Written
    at: int


@dataclass(frozen=True)
class WrittenProperty:
    """A property, written ``prop name : formula where rules``."""

    name: str
    formula: Written
    rules: tuple[syntax_tree.Rule, ...]
    at: int


@dataclass(frozen=True)
class Specification:
    """The contents of a ``.qtl`` file.  ``events`` maps each declared event to its number of columns."""

    properties: tuple[WrittenProperty, ...]
    macros: tuple[Macro, ...]
    events: dict[str, int]


def specification(text: str) -> Specification:
    """Parse a specification.  Raise FormulaError with the position of a syntax error."""
    return _Parser(text, tokens(text, _SYMBOLS, "the specification"), "the specification").specification()


class _Parser(Cursor):
    depth = 0

    def specification(self) -> Specification:
        """Parse all definitions, in any order."""
        properties: list[WrittenProperty] = []
        macros: list[Macro] = []
        events: dict[str, int] = {}
        while not self.at(END):
            if self.taken("prop"):
                properties.append(self._property())
            elif self.at("pred", "preds", "event", "events"):
                macro = self._macro_or_events(events)
                macros += [macro] if macro else []
            else:
                raise self.refused("prop, pred or event is expected here")
        if not properties:
            raise refused_at(self.text, 0, "the specification has no property (prop name : formula)")
        return Specification(tuple(properties), tuple(macros), events)

    def _property(self) -> WrittenProperty:
        named = self.expect("name", "the property's name")
        self.expect(":", "':' after the property's name")
        formula = self.formula(0)
        rules: list[syntax_tree.Rule] = []
        if self.taken("where"):
            rules.append(self._rule())
            while self.taken(","):
                rules.append(self._rule())
        return WrittenProperty(named.text, formula, tuple(rules), named.at)

    def _rule(self) -> syntax_tree.Rule:
        named = self.expect("name", "a rule's name")
        parameters = self._parameters()
        self.expect(":=", "':=' and the rule's formula")
        return syntax_tree.Rule(named.text, parameters, self.formula(0), named.at)

    def _macro_or_events(self, events: dict[str, int]) -> Macro | None:
        self.take()
        named = self.expect("name", "a name")
        parameters = self._parameters()
        if self.taken("="):
            return Macro(named.text, parameters, self.formula(0), named.at)
        events[named.text] = len(parameters)
        while self.taken(","):
            name = self.expect("name", "an event's name").text
            events[name] = len(self._parameters())
        return None

    def _parameters(self) -> tuple[str, ...]:
        names: list[str] = []
        if self.taken("("):
            while not self.at(")"):
                names.append(self.expect("name", "a parameter").text)
                if not self.taken(","):
                    break
            self.expect(")", "',' or ')' after a parameter")
        return tuple(names)

    def formula(self, level: int) -> Written:
        """Parse a formula whose connectives have precedence ``level`` or higher."""
        if level == len(_CONNECTIVES):
            return self._since()
        left = self.formula(level + 1)
        links = 0
        while self.ahead().kind in _CONNECTIVES[level]:
            links += 1
            if links > _DEEPEST:
                raise self.refused(
                    f"a chain of more than {_DEEPEST} formulas", hint="Put parts of the chain in brackets."
                )
            token = self.take()
            left = syntax_tree.Joined(_CONNECTIVES[level][token.kind], left, self.formula(level + 1), token.at)
        return left

    def _since(self) -> Written:
        left = self._single()
        token = self.ahead()
        if not self.at("S", "Z"):
            return left
        self.take()
        bounds, strict = self._bounds(), token.kind == "Z"
        if strict and bounds.high is None:
            raise self.refused("Z needs a time, as in p Z[<=3] q", token)
        return syntax_tree.Since(bounds, left, self._single(), "any", token.at, strict)

    def _bounds(self) -> Bounds:
        """Parse ``[<=3]`` or ``[>3]``.  Ignore any other ``[``, which may begin the formula ``[p, q)``."""
        if not (self.at("[") and self.ahead(1).kind in ("<=", ">")):
            return Bounds(at=self.ahead().at)
        at = self.take().at
        within = self.take().kind == "<="
        length = int(self.expect("int", "a number of units of time").text) * _SECOND
        self.expect("]", "']' after the time")
        return Bounds(0, False, length, False, at) if within else Bounds(length, True, at=at)

    def _single(self) -> Written:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.refused(f"formulas are nested more than {_DEEPEST} deep")
        operand = self._operand()
        self.depth -= 1
        return operand

    def _operand(self) -> Written:
        token = self.ahead()
        match token.kind:
            case "true" | "false":
                return syntax_tree.Holds(self.take().kind == "true", token.at)
            case "!":
                self.take()
                return syntax_tree.Negated(self._single(), token.at)
            case "@":
                self.take()
                return syntax_tree.Once("PREVIOUS", Bounds(at=token.at), self._single(), at=token.at)
            case "P" | "H":
                self.take()
                operator = "ONCE" if token.kind == "P" else "PAST_ALWAYS"
                return syntax_tree.Once(
                    "ONCE" if operator == "ONCE" else "PAST_ALWAYS", self._bounds(), self._single(), at=token.at
                )
            case "[" | "(":
                return self._enclosed()
            case "Exists" | "Forall" | "exists" | "forall":
                return self._quantified()
            case "name":
                return self._atom()
            case _:
                raise self.refused("a formula is expected here")

    def _enclosed(self) -> Written:
        """The formula ``[p, q)`` is an abbreviation of ``!q S p``."""
        token = self.take()
        inner = self.formula(0)
        if token.kind == "(":
            self.expect(")", "')'")
            return inner
        self.expect(",", "',' and the formula that ends the interval")
        end = self.formula(0)
        self.expect(")", "')' after the interval")
        return syntax_tree.Since(Bounds(at=token.at), syntax_tree.Negated(end, token.at), inner, "any", token.at)

    def _quantified(self) -> Written:
        token = self.take()
        name = self.expect("name", "a variable").text
        self.expect(".", "'.' after the variable")
        inner = self.formula(0)
        exists = token.kind in ("Exists", "exists")
        seen = token.kind in ("exists", "forall")
        return syntax_tree.Quantified("EXISTS" if exists else "FORALL", (name,), inner, token.at, seen)

    def _atom(self) -> Written:
        token = self.take()
        following = self.ahead()
        if following.kind in ("<", "<=", ">", ">=", "="):
            self.take()
            sides: tuple[WrittenTerm, WrittenTerm] = (syntax_tree.Name(token.text, token.at), self._term())
            if following.kind in (">", ">="):
                sides = (sides[1], sides[0])
            operator = following.kind.replace(">", "<")
            return syntax_tree.Compared("=" if operator == "=" else "<" if operator == "<" else "<=", *sides, token.at)
        terms: list[WrittenTerm] = []
        if self.taken("("):
            while not self.at(")"):
                terms.append(self._term())
                if not self.taken(","):
                    break
            self.expect(")", "',' or ')' after a value or variable")
        return syntax_tree.Applied(token.text, tuple(terms), token.at)

    def _term(self) -> WrittenTerm:
        token = self.take()
        match token.kind:
            case "name":
                return syntax_tree.Name(token.text, token.at)
            case "int":
                return syntax_tree.Value(int(token.text), at=token.at)
            case "text":
                return syntax_tree.Value(token.text[1:-1], at=token.at)
            case _:
                raise self.refused("a variable or a constant is expected", token)
