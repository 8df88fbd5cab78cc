"""Translate DejaVu's properties to formulas that are true if the properties are violated.

The translation expands macros and gives each variable a unique name and a type.  Variables that are compared by order
are numbers, and all other variables are texts.  ``Exists`` and ``Forall`` range over all values, but events have shown
only finitely many values.  ``weft.formula.safe`` expresses these quantifiers with finite relations.  Rules (``where``)
become fixpoints.  If a rule holds for all but finitely many values, Weft stores the complement of the rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

from weft.algebra import formula as algebra
from weft.algebra.formula import Formula, Not
from weft.algebra.schema import DataType
from weft.errors import FormulaError
from weft.formula.dejavu.dejavu_parser import specification
from weft.formula.dejavu.names import Named, named
from weft.formula.dejavu.types import typed
from weft.formula.safe import Safe
from weft.formula.tokens import refused_at
from weft.formula.unseen_values import Occurrences
from weft.formula.written import written as formula_text


@dataclass(frozen=True)
class Property:
    """A property: its name, and a closed formula that is true if the property is violated."""

    name: str
    violated: Formula


@dataclass(frozen=True)
class Properties:
    """The properties of a specification with the column types of their events."""

    properties: tuple[Property, ...]
    events: Mapping[str, tuple[DataType, ...]]


def properties(text: str) -> Properties:
    """Parse a ``.qtl`` file.  Raise FormulaError for a syntax error, or for a property that cannot be expressed."""
    negated = []
    events: dict[str, tuple[DataType, ...]] = {}
    spec = specification(text)
    for each in named(spec, text):
        tree = typed(each, text)
        for name, columns in tree.events.items():
            if len(events.setdefault(name, columns)) != len(columns):
                raise refused_at(
                    text, each.at, f"{name} has {len(events[name])} columns elsewhere, but {len(columns)} here"
                )
            if events[name] != columns:
                raise refused_at(text, each.at, f"the columns of {name} are numbers in one property, texts in another")
        negated.append(Property(each.name, _violated(each, tree.formula, tree.rules, text)))
    return Properties(tuple(negated), events)


def _violated(written: Named, formula: Formula, rules: Mapping[str, algebra.Definition], text: str) -> Formula:
    """Return the negation of a property.  Raise FormulaError if finite relations cannot express the negation."""
    bodies = (formula, *(rule.body for rule in rules.values()))
    atoms = [part for body in bodies for part in algebra.subformulas(body) if isinstance(part, algebra.Atom)]
    for turned in product((False, True), repeat=len(rules)):
        opposite = {name for name, is_turned in zip(rules, turned, strict=True) if is_turned}
        safe = Safe(Occurrences(atoms))
        relations = {name: _rule(safe, rule, opposite) for name, rule in rules.items()}
        definitions = tuple(rule for rule in relations.values() if rule is not None)
        violated = safe.finite(_with_opposites(Not(formula), opposite))
        if len(definitions) == len(rules) and violated is not None:
            return _with_fixpoints(violated, definitions)
    raise _unsafe(written, text, Safe(Occurrences(atoms)).culprit(bodies))


def _rule(safe: Safe, rule: algebra.Definition, opposite: set[str]) -> algebra.Definition | None:
    body = _with_opposites(rule.body, opposite)
    finite = safe.finite(Not(body) if rule.name in opposite else body)
    if finite is None or set(algebra.free_variables(finite)) != set(rule.parameters):
        return None
    return replace(rule, body=finite)


def _with_opposites(formula: Formula, opposite: set[str]) -> Formula:
    """For each rule in ``opposite``, replace every use of the rule by the negation of its complement."""

    def turned(part: Formula) -> Formula:
        return Not(part) if isinstance(part, algebra.Defined) and part.name in opposite else part

    return algebra.rewritten(formula, turned)


def _with_fixpoints(formula: Formula, definitions: tuple[algebra.Definition, ...]) -> Formula:
    def asked(part: Formula) -> Formula:
        if isinstance(part, algebra.Defined):
            return algebra.Fixpoint(definitions, part.name, part.arguments)
        return part

    return algebra.rewritten(formula, asked)


def _unsafe(written: Named, text: str, culprit: Formula) -> FormulaError:
    return refused_at(
        text,
        written.at,
        f"the property {written.name} has no equivalent with finitely many values: neither {formula_text(culprit)} nor "
        "its negation has finitely many answers",
        "Quantify over seen values (forall, exists), or remove the intervals from the parts about unseen values.",
    )
