"""Expand LET: replace each use of a definition by its body, and each parameter by its argument."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from weft.formula import syntax_tree
from weft.formula.scoping import below, free_names, over, renamed
from weft.formula.syntax_tree import Written
from weft.formula.tokens import refused_at

Key: TypeAlias = "tuple[str, int]"


@dataclass(frozen=True)
class _Defined:
    parameters: tuple[str, ...]
    body: Written


Known: TypeAlias = "Mapping[Key, _Defined | str]"
"""A mapping from (name, number of columns) to a definition of LET, or to the new name of a fixpoint relation."""


class Fresh:
    """A generator of names that do not occur in a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.number = 0

    def __call__(self, name: str) -> str:
        """Return ``name`` with a number appended."""
        while True:
            self.number += 1
            candidate = f"{name}_{self.number}"
            if candidate not in self.text:
                return candidate


def unfolded(formula: Written, text: str) -> Written:
    """Return the formula without LET.  Raise FormulaError if the parameters differ from the free variables."""
    return _unfolded(formula, {}, Fresh(text), text)


def _unfolded(formula: Written, known: Known, fresh: Callable[[str], str], text: str) -> Written:
    match formula:
        case syntax_tree.Let(name=name, parameters=parameters, body=body, within=within):
            _check_parameters(formula, text)
            defined = _Defined(parameters, _unfolded(body, known, fresh, text))
            return _unfolded(within, {**known, (name, len(parameters)): defined}, fresh, text)
        case syntax_tree.Least():
            formula, known = _without_capture(formula, known, fresh)
        case syntax_tree.Applied(name=name, terms=terms) if (name, len(terms)) in known:
            meant = known[name, len(terms)]
            return _applied(formula, meant, fresh) if isinstance(meant, _Defined) else replace(formula, name=meant)
    return over(formula, tuple(_unfolded(part, known, fresh, text) for part in below(formula)))


def _without_capture(
    formula: syntax_tree.Least, known: Known, fresh: Callable[[str], str]
) -> tuple[syntax_tree.Least, Known]:
    """Rename each relation of the fixpoint whose name occurs in the body of an enclosing LET.

    Return the renamed fixpoint and the definitions that apply inside it.  For example, a fixpoint inside LET A(v) =
    X(v) IN … may define another X.  After the expansion, A must still refer to the outer X.
    """
    own = {(rule.name, len(rule.parameters)) for rule in formula.rules}
    within: dict[Key, _Defined | str] = {key: meant for key, meant in known.items() if key not in own}
    spoken_of = {
        name for meant in within.values() if isinstance(meant, _Defined) for name in _applied_names(meant.body)
    }
    rules = []
    for rule in formula.rules:
        if rule.name in spoken_of:
            other = fresh(rule.name)
            within[rule.name, len(rule.parameters)] = other
            rule = replace(rule, name=other)
        rules.append(rule)
    return replace(formula, rules=tuple(rules)), within


def _applied_names(formula: Written) -> Iterator[str]:
    if isinstance(formula, syntax_tree.Applied):
        yield formula.name
    for part in below(formula):
        yield from _applied_names(part)


def _check_parameters(formula: syntax_tree.Let, text: str) -> None:
    free = free_names(formula.body)
    if len(set(formula.parameters)) != len(formula.parameters):
        raise refused_at(text, formula.at, f"LET {formula.name}: a parameter is named twice")
    if set(free) != set(formula.parameters):
        raise refused_at(
            text,
            formula.at,
            f"LET {formula.name}: the parameters are ({', '.join(formula.parameters)}), but the free "
            f"variables of the formula are ({', '.join(free)})",
            "Name each free variable of the formula as a parameter, and no other.",
        )


def _applied(use: syntax_tree.Applied, defined: _Defined, fresh: Callable[[str], str]) -> Written:
    """If an argument is a variable that no earlier argument uses, the variable replaces the parameter.  For each other
    argument, the parameter becomes a new variable that must equal the argument.
    """
    names: dict[str, str] = {}
    equal: list[tuple[str, syntax_tree.WrittenTerm]] = []
    used = [term.name for term in use.terms if isinstance(term, syntax_tree.Name)]
    for parameter, term in zip(defined.parameters, use.terms, strict=True):
        if isinstance(term, syntax_tree.Name) and term.name not in names.values():
            names[parameter] = term.name
        else:
            names[parameter] = fresh(parameter if parameter not in used else f"{parameter}_")
            equal.append((names[parameter], term))
    formula = renamed(defined.body, names, fresh)
    for name, term in equal:
        formula = syntax_tree.Joined(
            "AND", formula, syntax_tree.Compared("=", syntax_tree.Name(name, use.at), term, use.at), use.at
        )
    return syntax_tree.Quantified("EXISTS", tuple(name for name, _ in equal), formula, use.at) if equal else formula
