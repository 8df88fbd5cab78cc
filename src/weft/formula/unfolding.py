"""LET taken away: each use of a definition becomes its body with the arguments in place of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from weft.formula import syntax
from weft.formula.scoping import below, free_names, over, renamed
from weft.formula.syntax import Written
from weft.formula.tokens import refused_at

Key: TypeAlias = "tuple[str, int]"


@dataclass(frozen=True)
class _Defined:
    parameters: tuple[str, ...]
    body: Written


class Fresh:
    """Names that occur nowhere in a text: the name asked for, a ``'``-free number behind it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.number = 0

    def __call__(self, name: str) -> str:
        """A new name like the one given."""
        while True:
            self.number += 1
            candidate = f"{name}_{self.number}"
            if candidate not in self.text:
                return candidate


def unfolded(formula: Written, text: str) -> Written:
    """The formula without LET; raises FormulaError where parameters are not the free variables of their body."""
    return _unfolded(formula, {}, Fresh(text), text)


def _unfolded(formula: Written, known: Mapping[Key, _Defined], fresh: Callable[[str], str], text: str) -> Written:
    match formula:
        case syntax.Let(name=name, parameters=parameters, body=body, within=within):
            _check_parameters(formula, text)
            defined = _Defined(parameters, _unfolded(body, known, fresh, text))
            return _unfolded(within, {**known, (name, len(parameters)): defined}, fresh, text)
        case syntax.Least(rules=rules):
            own = {(rule.name, len(rule.parameters)) for rule in rules}
            known = {key: defined for key, defined in known.items() if key not in own}
        case syntax.Applied(name=name, terms=terms) if (name, len(terms)) in known:
            return _applied(formula, known[name, len(terms)], fresh)
    return over(formula, tuple(_unfolded(part, known, fresh, text) for part in below(formula)))


def _check_parameters(formula: syntax.Let, text: str) -> None:
    free = free_names(formula.body)
    if len(set(formula.parameters)) != len(formula.parameters):
        raise refused_at(text, formula.at, f"LET {formula.name}: a parameter is named twice")
    if set(free) != set(formula.parameters):
        raise refused_at(
            text,
            formula.at,
            f"LET {formula.name}: its parameters are ({', '.join(formula.parameters)}), "
            f"the free variables of its formula are ({', '.join(free)})",
            "name each free variable of the formula as a parameter, and no other",
        )


def _applied(use: syntax.Applied, defined: _Defined, fresh: Callable[[str], str]) -> Written:
    """A definition over the terms of a use: variables take the parameters' places, other terms are equal to one."""
    names: dict[str, str] = {}
    equal: list[tuple[str, syntax.WrittenTerm]] = []
    used = [term.name for term in use.terms if isinstance(term, syntax.Name)]
    for parameter, term in zip(defined.parameters, use.terms, strict=True):
        if isinstance(term, syntax.Name) and term.name not in names.values():
            names[parameter] = term.name
        else:
            names[parameter] = fresh(parameter if parameter not in used else f"{parameter}_")
            equal.append((names[parameter], term))
    formula = renamed(defined.body, names, fresh)
    for name, term in equal:
        formula = syntax.Joined("AND", formula, syntax.Compared("=", syntax.Name(name, use.at), term, use.at), use.at)
    return syntax.Quantified("EXISTS", tuple(name for name, _ in equal), formula, use.at) if equal else formula
