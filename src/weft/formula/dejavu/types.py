"""Infer types in DejaVu's formulas: values that are compared by order are numbers, and others are texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.algebra import formula as algebra
from weft.algebra.formula import Constant, Formula, Term, Variable
from weft.algebra.schema import DataType
from weft.formula import syntax_tree
from weft.formula.dejavu.names import Named
from weft.formula.lowering import Lowering, Scope, beyond_64_bits
from weft.formula.scoping import below
from weft.formula.syntax_tree import Written, WrittenTerm
from weft.formula.types import Clash, settled
from weft.formula.unseen_values import Occurrences


@dataclass(frozen=True)
class Typed:
    """A typed property with its rules and the column types of its events."""

    formula: Formula
    rules: Mapping[str, algebra.Definition]
    events: Mapping[str, tuple[DataType, ...]]


def typed(written: Named, text: str) -> Typed:
    """Return the property with types.  Raise FormulaError if an event or a value would need two types."""
    return _Typing(written, text).typed()


class _Typing(Lowering):
    """A ``Lowering`` without a signature.  Variable names are unique, so one table has the types of all variables."""

    def __init__(self, written: Named, text: str) -> None:
        super().__init__({}, text)
        self.written = written
        self.events: dict[str, tuple[DataType, ...]] = {}
        for rule in written.rules:
            self.rules[rule.name] = (rule.name, tuple(self.type_of(name, {}) for name in rule.parameters), None)

    def typed(self) -> Typed:
        """Return the property with types."""
        bodies = {rule.name: self._guarded(rule) for rule in self.written.rules}
        formula = self.formula(self.written.formula, {})
        known = {name: self._settled(body) for name, body in bodies.items()}
        tree = self._settled(formula)
        parts = (part for each in (tree, *known.values()) for part in algebra.subformulas(each))
        occurrences = Occurrences(part for part in parts if isinstance(part, algebra.Atom) and part.predicate != _SEEN)
        definitions = {}
        for rule in self.written.rules:
            parameters = tuple(Variable(name, self.types.settled(self.free[name])) for name in rule.parameters)
            body = _with_seen(known[rule.name], occurrences)
            definitions[rule.name] = algebra.Definition(rule.name, parameters, body)
        events = {name: tuple(self.types.settled(each) for each in columns) for name, columns in self.events.items()}
        return Typed(_with_seen(tree, occurrences), definitions, events)

    def _settled(self, formula: Formula) -> Formula:
        try:
            return settled(formula, self.types)
        except ValueError as reason:
            raise self.refused(self.written.at, f"{self.written.name}: {reason}") from None

    def _guarded(self, rule: syntax_tree.Rule) -> Formula:
        self._check_guarded(rule.body, rule)
        return self.formula(rule.body, {})

    def _check_guarded(self, formula: Written, rule: syntax_tree.Rule) -> None:
        """Raise FormulaError for a reference to a rule at the same time point, that is, without ``@``."""
        if isinstance(formula, syntax_tree.Applied) and formula.name in self.rules:
            raise self.refused(formula.at, f"the rule {rule.name} uses {formula.name} without @ before it")
        if not (isinstance(formula, syntax_tree.Once) and formula.operator == "PREVIOUS"):
            for part in below(formula):
                self._check_guarded(part, rule)

    def equivalent(self, left: Formula, right: Formula) -> Formula:
        return algebra.Or(algebra.And(left, right), algebra.And(algebra.Not(left), algebra.Not(right)))

    def quantified(self, written: syntax_tree.Quantified, scope: Scope) -> Formula:
        (name,) = written.names
        variable = Variable(name, self.type_of(name, scope))
        inner = self.formula(written.formula, scope)
        if written.quantifier == "FORALL":
            inner = algebra.Not(inner)
        if written.seen:
            inner = algebra.And(algebra.Atom(_SEEN, (variable,)), inner)
        exists = algebra.Exists((variable,), inner)
        return algebra.Not(exists) if written.quantifier == "FORALL" else exists

    def of_signature(self, written: syntax_tree.Applied, scope: Scope) -> Formula:
        """Translate an event.  Its first use determines the number of its columns."""
        types = self.events.setdefault(written.name, tuple(self.types.new() for _ in written.terms))
        if len(types) != len(written.terms):
            raise self.refused(
                written.at, f"{written.name} has {len(types)} columns elsewhere, but {len(written.terms)} here"
            )
        return algebra.Atom(written.name, self.arguments(written, types, scope))

    def compared(self, written: syntax_tree.Compared, scope: Scope) -> Formula:
        """Translate a comparison.  Values that are compared by order are numbers."""
        both = self.types.new(number=written.operator != "=")
        left, right = self.term(written.left, scope), self.term(written.right, scope)
        self.join(left.type, both, written.left.at, "")
        self.join(right.type, both, written.right.at, "")
        if isinstance(left, Constant) and isinstance(right, Constant):
            return algebra.Truth(_holds(written, left, right))
        return algebra.Comparison(written.operator, left, right)

    def term(self, written: WrittenTerm, scope: Scope) -> Term:
        """Translate a term.  The uses of a constant determine its type."""
        if isinstance(written, syntax_tree.Value):
            if beyond_64_bits(written.value):
                raise self.refused(written.at, f"{written.value} does not fit into 64 bits")
            return Constant(written.value, self.types.new())
        return super().term(written, scope)

    def join(self, given: DataType, wanted: DataType, at: int, what: str) -> None:
        try:
            self.types.join(given, wanted)
        except Clash:
            raise self.refused(at, "the value is a number in one place and a text in another") from None


def _holds(written: syntax_tree.Compared, left: Constant, right: Constant) -> bool:
    if written.operator == "=":
        return str(left.value) == str(right.value)
    return int(left.value) < int(right.value) + (written.operator == "<=")


_SEEN = "\0seen"
"""A placeholder predicate for "an event has shown the value of the variable".

The module replaces the placeholder after it has found all events with the variable.
"""


def _with_seen(formula: Formula, occurrences: Occurrences) -> Formula:
    def with_seen(part: Formula) -> Formula:
        if isinstance(part, algebra.Atom) and part.predicate == _SEEN:
            variable = part.terms[0]
            assert isinstance(variable, Variable)
            return occurrences.seen(variable)
        return part

    return algebra.rewritten(formula, with_seen)
