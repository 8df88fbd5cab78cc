"""Infer types in DejaVu's formulas: values that are compared by order are numbers, and others are texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.algebra import formula as algebra
from weft.algebra.formula import Constant, Formula, Interval, Term, Variable
from weft.algebra.schema import DataType
from weft.errors import FormulaError
from weft.formula import syntax_tree
from weft.formula.dejavu.names import Named
from weft.formula.lowering import beyond_64_bits
from weft.formula.scoping import below
from weft.formula.syntax_tree import Written, WrittenTerm
from weft.formula.tokens import refused_at
from weft.formula.types import Clash, Unknowns, settled
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


class _Typing:
    """Variable names are unique, so one table has the types of all variables."""

    def __init__(self, written: Named, text: str) -> None:
        self.written = written
        self.text = text
        self.types = Unknowns()
        self.variables: dict[str, DataType] = {}
        self.events: dict[str, tuple[DataType, ...]] = {}
        self.rules = {rule.name: tuple(self._of(name) for name in rule.parameters) for rule in written.rules}

    def typed(self) -> Typed:
        rules = {rule.name: self._rule(rule) for rule in self.written.rules}
        formula = self._formula(self.written.formula)
        known = {name: self._settled(rule.body) for name, rule in rules.items()}
        tree = self._settled(formula)
        atoms = [
            part
            for each in (tree, *known.values())
            for part in algebra.subformulas(each)
            if isinstance(part, algebra.Atom)
        ]
        occurrences = Occurrences(atom for atom in atoms if atom.predicate != _SEEN)
        definitions = {
            name: algebra.Definition(
                name,
                tuple(Variable(each.name, self.types.settled(each.type)) for each in rules[name].parameters),
                _with_seen(body, occurrences),
            )
            for name, body in known.items()
        }
        events = {name: tuple(self.types.settled(each) for each in columns) for name, columns in self.events.items()}
        return Typed(_with_seen(tree, occurrences), definitions, events)

    def _settled(self, formula: Formula) -> Formula:
        try:
            return settled(formula, self.types)
        except ValueError as reason:
            raise refused_at(self.text, self.written.at, f"{self.written.name}: {reason}") from None

    def _rule(self, rule: syntax_tree.Rule) -> algebra.Definition:
        self._check_guarded(rule.body, rule)
        parameters = tuple(Variable(name, self._of(name)) for name in rule.parameters)
        return algebra.Definition(rule.name, parameters, self._formula(rule.body))

    def _check_guarded(self, formula: Written, rule: syntax_tree.Rule) -> None:
        """Raise FormulaError for a reference to a rule at the same time point, that is, without ``@``."""
        if isinstance(formula, syntax_tree.Applied) and formula.name in self.rules:
            raise refused_at(self.text, formula.at, f"the rule {rule.name} uses {formula.name} without @ before it")
        if not (isinstance(formula, syntax_tree.Once) and formula.operator == "PREVIOUS"):
            for part in below(formula):
                self._check_guarded(part, rule)

    def _of(self, name: str) -> DataType:
        return self.variables.setdefault(name, self.types.new())

    def _formula(self, written: Written) -> Formula:
        match written:
            case syntax_tree.Holds(value=value):
                return algebra.Truth(value)
            case syntax_tree.Negated(formula=inner):
                return algebra.Not(self._formula(inner))
            case syntax_tree.Joined():
                return self._joined(written)
            case syntax_tree.Quantified():
                return self._quantified(written)
            case syntax_tree.Once(operator=operator, formula=inner):
                interval, operand = _interval(written.bounds), self._formula(inner)
                if operator == "PREVIOUS":
                    return algebra.Previous(interval, operand)
                if operator == "ONCE":
                    return algebra.Once(interval, operand)
                return algebra.Not(algebra.Once(interval, algebra.Not(operand)))
            case syntax_tree.Since(left=left, right=right, strict=strict):
                interval = _interval(written.bounds)
                return algebra.Since(interval, self._formula(left), self._formula(right), strict=strict)
            case syntax_tree.Applied():
                return self._applied(written)
            case syntax_tree.Compared():
                return self._compared(written)
            case _:
                raise refused_at(self.text, written.at, "DejaVu does not support this kind of formula")

    def _joined(self, written: syntax_tree.Joined) -> Formula:
        left, right = self._formula(written.left), self._formula(written.right)
        match written.connective:
            case "AND":
                return algebra.And(left, right)
            case "OR":
                return algebra.Or(left, right)
            case "IMPLIES":
                return algebra.Or(algebra.Not(left), right)
            case "EQUIV":
                both = algebra.And(left, right)
                return algebra.Or(both, algebra.And(algebra.Not(left), algebra.Not(right)))

    def _quantified(self, written: syntax_tree.Quantified) -> Formula:
        variable = Variable(written.names[0], self._of(written.names[0]))
        inner = self._formula(written.formula)
        if written.quantifier == "FORALL":
            inner = algebra.Not(inner)
        if written.seen:
            inner = algebra.And(algebra.Atom(_SEEN, (variable,)), inner)
        exists = algebra.Exists((variable,), inner)
        return algebra.Not(exists) if written.quantifier == "FORALL" else exists

    def _applied(self, written: syntax_tree.Applied) -> Formula:
        types = self.rules.get(written.name)
        if types is None:
            fresh = tuple(self.types.new() for _ in written.terms)
            types = self.events.setdefault(written.name, fresh)
        if len(types) != len(written.terms):
            raise refused_at(
                self.text,
                written.at,
                f"{written.name} has {len(types)} columns elsewhere, but {len(written.terms)} here",
            )
        terms = tuple(self._term(term, kind) for term, kind in zip(written.terms, types, strict=True))
        if written.name in self.rules:
            return algebra.Defined(written.name, terms)
        return algebra.Atom(written.name, terms)

    def _compared(self, written: syntax_tree.Compared) -> Formula:
        both = self.types.new(number=written.operator != "=")
        left, right = self._term(written.left, both), self._term(written.right, both)
        if isinstance(left, Constant) and isinstance(right, Constant):
            return algebra.Truth(self._holds(written, left, right))
        return algebra.Comparison(written.operator, left, right)

    def _holds(self, written: syntax_tree.Compared, left: Constant, right: Constant) -> bool:
        if written.operator == "=":
            return str(left.value) == str(right.value)
        return int(left.value) < int(right.value) + (written.operator == "<=")

    def _term(self, written: WrittenTerm, expected: DataType) -> Term:
        if isinstance(written, syntax_tree.Name):
            own = self._of(written.name)
            try:
                self.types.join(own, expected)
            except Clash:
                raise self._clash(written.at) from None
            return Variable(written.name, own)
        assert isinstance(written, syntax_tree.Value)
        if beyond_64_bits(written.value):
            raise refused_at(self.text, written.at, f"{written.value} does not fit into 64 bits")
        return Constant(written.value, expected)

    def _clash(self, at: int) -> FormulaError:
        return refused_at(self.text, at, "the value is a number in one place and a text in another")


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


def _interval(bounds: syntax_tree.Bounds) -> Interval:
    return Interval(bounds.low + bounds.low_open, bounds.high)
