"""Expand the macros of a specification and give each variable a unique name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.errors import FormulaError
from weft.formula import syntax_tree
from weft.formula.dejavu.dejavu_parser import Macro, Specification, WrittenProperty
from weft.formula.scoping import below, over, with_terms
from weft.formula.syntax_tree import Written, WrittenTerm
from weft.formula.tokens import refused_at
from weft.printable import counted


@dataclass(frozen=True)
class Named:
    """A property with expanded macros and unique variable names."""

    name: str
    formula: Written
    rules: tuple[syntax_tree.Rule, ...]
    at: int


def named(spec: Specification, text: str) -> tuple[Named, ...]:
    """Return the properties with expanded macros and unique variable names.

    Raise FormulaError for an unbound variable or a wrong number of columns.
    """
    macros = {macro.name: macro for macro in spec.macros}
    return tuple(_Naming(spec, macros, each, text).named(each) for each in spec.properties)


class _Naming:
    def __init__(self, spec: Specification, macros: Mapping[str, Macro], written: WrittenProperty, text: str) -> None:
        self.events = spec.events
        self.macros = macros
        self.rules = {rule.name: rule for rule in written.rules}
        self.text = text
        self.names: set[str] = set()
        self.open: list[str] = []

    def named(self, written: WrittenProperty) -> Named:
        """Return the property with expanded macros and unique variable names."""
        formula = self._formula(written.formula, {})
        rules = []
        for rule in written.rules:
            own = {name: syntax_tree.Name(self._own(name), rule.at) for name in rule.parameters}
            parameters = tuple(name.name for name in own.values())
            rules.append(syntax_tree.Rule(rule.name, parameters, self._formula(rule.body, own), rule.at))
        return Named(written.name, formula, tuple(rules), written.at)

    def _own(self, name: str) -> str:
        own, number = name, 0
        while own in self.names:
            number += 1
            own = f"{name}_{number}"
        self.names.add(own)
        return own

    def refused(self, at: int, message: str) -> FormulaError:
        """Return an error with the line and column of the offset ``at``."""
        return refused_at(self.text, at, message)

    def _formula(self, formula: Written, terms: Mapping[str, WrittenTerm]) -> Written:
        match formula:
            case syntax_tree.Quantified(names=names, formula=inner, at=at):
                own = {name: syntax_tree.Name(self._own(name), at) for name in names}
                renewed = self._formula(inner, {**terms, **own})
                return replace(formula, names=tuple(name.name for name in own.values()), formula=renewed)
            case syntax_tree.Applied():
                return self._applied(formula, terms)
            case syntax_tree.Compared():
                return with_terms(formula, lambda term: self._term(term, terms))
            case _:
                return over(formula, tuple(self._formula(part, terms) for part in below(formula)))

    def _applied(self, formula: syntax_tree.Applied, terms: Mapping[str, WrittenTerm]) -> Written:
        given = tuple(self._term(term, terms) for term in formula.terms)
        macro = self.macros.get(formula.name)
        expected = self._columns(formula)
        if expected is not None and expected != len(given):
            raise self.refused(
                formula.at, f"{formula.name} has {counted(expected, 'column')}, but {len(given)} values are given"
            )
        if macro is None:
            return replace(formula, terms=given)
        if macro.name in self.open:
            raise self.refused(formula.at, f"{macro.name} is used in its own definition; use a rule (where) instead")
        self.open.append(macro.name)
        expanded = self._formula(macro.body, dict(zip(macro.parameters, given, strict=True)))
        self.open.pop()
        return expanded

    def _columns(self, formula: syntax_tree.Applied) -> int | None:
        """Return None for an event if the specification declares no events."""
        if formula.name in self.macros:
            return len(self.macros[formula.name].parameters)
        if formula.name in self.rules:
            return len(self.rules[formula.name].parameters)
        if not self.events:
            return None
        if formula.name not in self.events:
            known = ", ".join(sorted(self.events))
            raise self.refused(formula.at, f"{formula.name} is not one of the declared events: {known}")
        return self.events[formula.name]

    def _term(self, term: WrittenTerm, terms: Mapping[str, WrittenTerm]) -> WrittenTerm:
        if not isinstance(term, syntax_tree.Name):
            return term
        meaning = terms.get(term.name)
        if meaning is None:
            raise self.refused(term.at, f"nothing binds the variable {term.name}")
        return meaning
