"""Parse MonPoly's formula language to a syntax tree.

The operators have MonPoly's precedence, from the weakest to the strongest: LET and the formula of an aggregation;
SINCE; PREVIOUS, ONCE and PAST_ALWAYS; EXISTS and FORALL; EQUIV; IMPLIES; OR; AND; NOT.  A prefix operator may follow
any other operator and extends as far as its precedence permits.  For example, ``A AND ONCE B AND C`` is ``A AND (ONCE
(B AND C))``.

With ``extended``, the parser also accepts these constructs of the paper's µTL:

- ``DISTINCT Q``, with the precedence of NOT;
- ``MU X. Q`` and ``MU X(x, y). Q``, the relation that Q defines;
- ``MU X(x) = Q, Y(y) = R IN F``, mutually recursive relations;
- ``SINCE1``, ``SINCE2``, ``ONCE1`` and ``ONCE2``.

All forms of MU extend as far as possible.
"""

from __future__ import annotations

from typing import Final, cast

from weft.algebra.formula import AggregateFunction, Counting
from weft.errors import FormulaError
from weft.formula import syntax_tree
from weft.formula.scoping import with_its_parameters
from weft.formula.syntax_tree import UNITS, Bounds, Connective, Written
from weft.formula.terms import EXTENDED_TERM_WORDS, TERM_WORDS, TermParser
from weft.formula.tokens import END, Symbols, Token, refused_at, tokens

_FUTURE: Final = {
    "NEXT": "PREVIOUS",
    "EVENTUALLY": "ONCE",
    "SOMETIMES": "ONCE",
    "ALWAYS": "PAST_ALWAYS",
    "UNTIL": "SINCE",
}

_NOT_TAKEN: Final = {
    "MATCHF": "regular expressions over time points",
    "FORWARD": "regular expressions over time points",
    "MATCHP": "regular expressions over time points",
    "BACKWARD": "regular expressions over time points",
    "null": "records and null; a row has a value in each column",
}
_SIGNS: Final = {
    "∧": "AND",
    "∨": "OR",
    "¬": "NOT",
    "→": "IMPLIES",
    "↔": "EQUIV",
    "∃": "EXISTS",
    "∀": "FORALL",
    "●": "PREVIOUS",
    "⧫": "ONCE",
    "◆": "ONCE",
    "■": "PAST_ALWAYS",
    "⊤": "TRUE",
    "⊥": "FALSE",
    "≤": "<=",
    "≥": ">=",
    "≠": "NOT … = …",
    "○": "NEXT",
    "◊": "EVENTUALLY",
    "◇": "EVENTUALLY",
    "□": "ALWAYS",
}
"""The symbols of WhyMon, each with MonPoly's keyword for the same operator."""
KEYWORDS: Final = (
    *("FALSE", "TRUE", "LET", "LETPAST", "IN", "NOT", "AND", "OR", "IMPLIES", "EQUIV", "EXISTS", "FORALL"),
    *("PREV", "PREVIOUS"),
    *("ONCE", "PAST_ALWAYS", "HISTORICALLY", "SINCE", "CNT", "MIN", "MAX", "SUM", "AVG", "MED"),
    *_FUTURE,
    *_NOT_TAKEN,
)
EXTENSION: Final = ("DISTINCT", "MU", "SINCE1", "SINCE2", "ONCE1", "ONCE2")

WORDS: Final = (
    ("duration", r"[0-9]+(?:us|ms|[A-Za-z])"),
    *((sign, expression) for sign, expression in (("[", r"\["), ("]", r"\]"), (".", r"\."), (";", ";"))),
    ("<-", "<-"),
    ("regexes", r"\|>|<\||▷|◁"),
    ("sign", f"[{''.join(_SIGNS)}]"),
    ("record", "[{}]"),
    (":", ":"),
)
SKIPPED: Final = r"(?:\s|\(\*(?:.|\n)*?\*\)|#[^\n\r]*)*"
_ORDINARY: Final = Symbols.of(SKIPPED, (*((word, word) for word in KEYWORDS), *WORDS, *TERM_WORDS))
_EXTENDED: Final = Symbols.of(
    SKIPPED, (*((word, word) for word in (*KEYWORDS, *EXTENSION)), *WORDS, *EXTENDED_TERM_WORDS)
)

_SINCE: Final[dict[str, Counting]] = {"SINCE": "any", "SINCE1": "first", "SINCE2": "second"}
_ONCE: Final[dict[str, Counting]] = {"ONCE": "any", "ONCE1": "first", "ONCE2": "second"}
_STRENGTH: Final = {**dict.fromkeys(_SINCE, 10), "EQUIV": 40, "IMPLIES": 50, "OR": 60, "AND": 70}
_RIGHT_TO_LEFT: Final = (*_SINCE, "IMPLIES")
_AGGREGATES: Final = ("CNT", "MIN", "MAX", "SUM", "AVG", "MED")
_DEEPEST: Final = 100
_LONGEST: Final = 150


def parsed(text: str, *, extended: bool = False) -> Written:
    """Parse a formula.  Raise FormulaError with the position of a syntax error."""
    parser = FormulaParser(text, tokens(text, _EXTENDED if extended else _ORDINARY, "the formula"), "the formula")
    formula = parser.formula(0)
    if not parser.at(END):
        raise parser.unexpected("an operator or the end is expected here")
    return formula


def _require_words(text: str, scanned: list[Token]) -> None:
    for token in scanned:
        if token.kind == "sign":
            word = _SIGNS[token.text]
            hint = f"Write {word}, and all other symbols as keywords."
            if word in _FUTURE:
                hint = f"{word} looks into the future. {_look_back(word)}"
            raise refused_at(
                text, token.at, f"{token.text} is not supported: formulas are written with MonPoly's keywords", hint
            )
        if token.kind == "record":
            raise refused_at(
                text, token.at, "records are not supported", "Declare one column for each field of the record."
            )


def _look_back(word: str) -> str:
    return (
        f"Rewrite the formula so that it looks back: use {_FUTURE[word]} instead of {word}. "
        "Each answer then appears at the first time point at which it is certain."
    )


class FormulaParser(TermParser):
    """A parser of formulas by operator precedence, with subclasses for other formula languages."""

    depth = 0

    def __init__(self, text: str, scanned: list[Token], what: str) -> None:
        super().__init__(text, scanned, what)
        _require_words(text, scanned)
        self.defined: list[str] = []

    def unexpected(self, message: str) -> FormulaError:
        """Return an error at the next token.  Add a hint if the token is a keyword that Weft does not support."""
        word = self.ahead().text
        if word in _FUTURE:
            return refused_at(
                self.text,
                self.ahead().at,
                f"{word} looks into the future, but Weft answers at each time point from the time points so far",
                _look_back(word),
            )
        if word in _NOT_TAKEN or self.at("regexes"):
            reason = _NOT_TAKEN.get(word, "regular expressions over time points")
            return refused_at(self.text, self.ahead().at, f"{word} is not supported: {reason}")
        return self.refused(message)

    def formula(self, weakest: int) -> Written:
        """Parse a formula whose outermost infix operators have a higher precedence than ``weakest``."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.refused(f"formulas are nested more than {_DEEPEST} deep")
        left = self.first()
        links = 0
        while (word := self.ahead().kind) in _STRENGTH and _STRENGTH[word] > weakest:
            links += 1
            if links > _LONGEST:
                raise self.refused(
                    f"a chain of more than {_LONGEST} formulas", hint="Put parts of the chain in brackets."
                )
            left = self._joined(left, word)
        if self.ahead().text in _FUTURE:
            raise self.unexpected("")
        self.depth -= 1
        return left

    def _joined(self, left: Written, word: str) -> Written:
        at = self.take().at
        strength = _STRENGTH[word] - (word in _RIGHT_TO_LEFT)
        if word in _SINCE:
            bounds = self._bounds()
            return syntax_tree.Since(bounds, left, self.formula(strength), _SINCE[word], at)
        connective = cast("Connective", word)
        return syntax_tree.Joined(connective, left, self.formula(strength), at)

    def first(self) -> Written:
        """Parse an atom, a formula in parentheses, or a prefix operator with its formula."""
        token = self.ahead()
        match token.kind:
            case "TRUE" | "FALSE":
                return syntax_tree.Holds(self.take().kind == "TRUE", token.at)
            case "NOT":
                self.take()
                return syntax_tree.Negated(self.formula(80), token.at)
            case "DISTINCT":
                self.take()
                return syntax_tree.Single(self.formula(80), token.at)
            case "EXISTS" | "FORALL":
                return self.quantified()
            case "PREV" | "PREVIOUS" | "ONCE" | "ONCE1" | "ONCE2" | "PAST_ALWAYS" | "HISTORICALLY":
                return self._once()
            case "LET" | "LETPAST":
                return self._let()
            case "MU":
                return self._least()
            case _:
                return self.atom()

    def quantified(self) -> Written:
        """Parse a quantifier with its variables and its formula."""
        token = self.take()
        names = self.names("a variable")
        self.expect(".", "'.' after the variables")
        return syntax_tree.Quantified(
            "EXISTS" if token.kind == "EXISTS" else "FORALL", names, self.formula(30), token.at
        )

    def _once(self) -> Written:
        token = self.take()
        bounds = self._bounds()
        inner = self.formula(20)
        if token.kind in _ONCE:
            return syntax_tree.Once("ONCE", bounds, inner, _ONCE[token.kind], token.at)
        always = token.kind in ("PAST_ALWAYS", "HISTORICALLY")
        return syntax_tree.Once("PAST_ALWAYS" if always else "PREVIOUS", bounds, inner, "any", token.at)

    def _let(self) -> Written:
        """LETPAST becomes a relation of MU, because its formula may refer to itself."""
        token = self.take()
        name, parameters = self._head("a predicate to define")
        self.expect("=", "'=' and a formula")
        body = self.formula(0)
        self.expect("IN", "IN and the formula that uses the definition")
        within = self.formula(0)
        if token.kind == "LETPAST":
            return syntax_tree.Least((syntax_tree.Rule(name, parameters, body, token.at),), within, token.at)
        return syntax_tree.Let(name, parameters, body, within, token.at)

    def _least(self) -> Written:
        """In ``MU X. Q``, the parameters of X are the free variables of Q."""
        at = self.take().at
        defined = len(self.defined)
        rules: list[syntax_tree.Rule] = []
        while True:
            name = self.expect("name", "a name for the fixpoint").text
            self.defined.append(name)
            parameters = self._parameters() if self.at("(") else None
            if parameters is None or not self.at("="):
                self.expect(".", "'.' and the fixpoint's formula")
                within = self._of_itself(name, parameters, at)
                break
            self.take()
            rules.append(syntax_tree.Rule(name, parameters, self.formula(0), at))
            if not self.taken(","):
                self.expect("IN", "',' and another relation, or IN and the formula that uses the relations,")
                within = syntax_tree.Least(tuple(rules), self.formula(0), at)
                break
        del self.defined[defined:]
        return within

    def _of_itself(self, name: str, parameters: tuple[str, ...] | None, at: int) -> syntax_tree.Least:
        body = self.formula(0)
        if parameters is None:
            body, parameters = with_its_parameters(name, body)
        terms = tuple(syntax_tree.Name(parameter, at) for parameter in parameters)
        return syntax_tree.Least(
            (syntax_tree.Rule(name, parameters, body, at),), syntax_tree.Applied(name, terms, at), at
        )

    def _parameters(self) -> tuple[str, ...]:
        self.expect("(", "'(' and the parameters, which are variables,")
        parameters = () if self.at(")") else self.names("a parameter, which is a variable,")
        self.expect(")", "')' after the parameters")
        return parameters

    def _head(self, wanted: str) -> tuple[str, tuple[str, ...]]:
        return self.expect("name", wanted).text, self._parameters()

    def names(self, wanted: str) -> tuple[str, ...]:
        """Parse variables separated by commas."""
        names = [self.variable(wanted)]
        while self.taken(","):
            names.append(self.variable(wanted))
        return tuple(names)

    def atom(self) -> Written:
        """Parse a predicate, an aggregation, a comparison, or a formula in parentheses."""
        token = self.ahead()
        if token.kind == "name" and self.ahead(1).kind == "(":
            return self.applied()
        if token.kind in ("name", "_", "?") and self._aggregates():
            return self._aggregated()
        if token.kind == "name" and token.text in self.defined and not self._comparison_follows():
            return syntax_tree.Applied(self.take().text, (), token.at)
        if token.kind == "name" and token.text in EXTENSION and not self._comparison_follows():
            raise refused_at(
                self.text, token.at, f"{token.text} is a word of µTL, not of MonPoly's language", "Add --language mutl."
            )
        started, nested = self.place, self.nested
        try:
            return self.compared()
        except FormulaError:
            self.nested = nested
            if token.kind != "(":
                if self.ahead().text in _FUTURE or self.ahead().text in _NOT_TAKEN or self.at("regexes"):
                    raise self.unexpected("") from None
                raise
        self.place = started + 1
        inner = self.formula(0)
        if not self.at(")"):
            raise self.unexpected("')' is expected here")
        self.take()
        return inner

    def _comparison_follows(self) -> bool:
        return self.ahead(1).kind in ("=", "<", "<=", ">", ">=", "+", "-", "*", "/", "MOD", "SUBSTRING", "MATCHES")

    def applied(self) -> Written:
        """Parse a predicate with its terms.  Each term ``_`` becomes a new variable under EXISTS."""
        token = self.take()
        self.take()
        terms: list[syntax_tree.WrittenTerm] = []
        while not self.at(")"):
            terms.append(self.term())
            if not self.taken(","):
                break
        self.expect(")", "',' or ')' after a term")
        unnamed = tuple(term.name for term in terms if isinstance(term, syntax_tree.Name) and term.name.startswith("_"))
        atom = syntax_tree.Applied(token.text, tuple(terms), token.at)
        return syntax_tree.Quantified("EXISTS", tuple(dict.fromkeys(unnamed)), atom, token.at) if unnamed else atom

    def _aggregates(self) -> bool:
        return self.ahead(1 + (self.ahead().kind == "?")).kind == "<-"

    def _aggregated(self) -> Written:
        at = self.ahead().at
        output = self.variable("a variable")
        self.take()
        if self.ahead().kind not in _AGGREGATES:
            raise self.refused(f"one of {', '.join(_AGGREGATES)} is expected here")
        function = cast("AggregateFunction", self.take().kind)
        item = self.variable("a variable to aggregate")
        grouped = self.taken(";") and self.at("name", "_", "?")
        groups = self.names("a variable to group by") if grouped else ()
        return syntax_tree.Aggregated(output, function, item, groups, self.formula(0), at)

    def _bounds(self) -> Bounds:
        """Without an interval in the text, return the interval that has no limits."""
        opened = self.ahead()
        steps = 1 + (self.ahead(1).kind == "-")
        bracket = opened.kind == "[" or (opened.kind == "(" and self.ahead(steps + 1).kind == ",")
        if not bracket or self.ahead(steps).kind not in ("int", "duration"):
            if opened.kind == "[":
                raise self.refused("the lower end of the interval is expected after '['", self.ahead(1))
            return Bounds(at=opened.at)
        self.take()
        low = self.length()
        self.expect(",", "',' and the upper end of the interval")
        high = None if self.taken("*") else self.length()
        if not self.at(")", "]"):
            raise self.refused("')' or ']' after the interval's upper end is expected here")
        high_open = self.take().kind == ")"
        return Bounds(low, opened.kind == "(", high, high_open and high is not None, opened.at)

    def length(self) -> int:
        """Parse a length of time and return it in microseconds.  A number without a unit is in seconds."""
        sign = -1 if self.taken("-") else 1
        token = self.ahead()
        if token.kind == "duration":
            number = token.text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
            unit = UNITS.get(token.text[len(number) :])
            if unit is None:
                raise self.refused(f"a unit of time is one of {', '.join(UNITS)}")
            self.take()
            return sign * int(number) * unit
        wanted = "a number of seconds, with or without a unit s m h d, or * for no end,"
        return sign * int(self.expect("int", wanted).text) * UNITS["s"]
