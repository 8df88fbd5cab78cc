"""Find and rename the free variables of syntax trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias, cast

from weft.algebra.tree import ITEMS, parts_in, with_parts_in
from weft.formula import syntax_tree
from weft.formula.syntax_tree import Written, WrittenTerm

Renaming: TypeAlias = Mapping[str, str]


_PARTS: Final[dict[type, tuple[str, ...]]] = {
    **dict.fromkeys((syntax_tree.Joined, syntax_tree.Since), ("left", "right")),
    **dict.fromkeys((syntax_tree.Negated, syntax_tree.Quantified, syntax_tree.Once), ("formula",)),
    **dict.fromkeys((syntax_tree.Aggregated, syntax_tree.Single), ("formula",)),
    syntax_tree.Let: ("body", "within"),
    syntax_tree.Least: ("rules", "within"),
}
ITEMS[syntax_tree.Rule] = ("body",)
_TERMS: Final[dict[type, tuple[str, ...]]] = {
    syntax_tree.Applied: ("terms",),
    syntax_tree.Compared: ("left", "right"),
    syntax_tree.Matched: ("text", "pattern", "groups"),
}


def below(formula: Written) -> tuple[Written, ...]:
    """Return the direct subformulas of a formula."""
    return parts_in(formula, _PARTS.get(type(formula), ()))


def over(formula: Written, parts: tuple[Written, ...]) -> Written:
    """Replace the direct subformulas of a formula.  ``parts`` and the result of ``below`` have the same order."""
    return cast("Written", with_parts_in(formula, _PARTS.get(type(formula), ()), iter(parts)))


def term_names(term: WrittenTerm) -> tuple[str, ...]:
    """Return the variables of a term, in the order of their first occurrences."""
    match term:
        case syntax_tree.Name(name=name):
            return (name,)
        case syntax_tree.Value():
            return ()
        case syntax_tree.Call(arguments=arguments):
            return tuple(dict.fromkeys(name for argument in arguments for name in term_names(argument)))


def terms_of(formula: Written) -> tuple[WrittenTerm, ...]:
    """Return the terms of a formula, but not the terms of its subformulas."""
    return parts_in(formula, _TERMS.get(type(formula), ()))


def with_terms(formula: Written, change: Callable[[WrittenTerm], WrittenTerm]) -> Written:
    """Return a copy of the formula after applying ``change`` to its terms, but not to the terms of subformulas."""
    return cast("Written", with_parts_in(formula, _TERMS.get(type(formula), ()), map(change, terms_of(formula))))


def free_names(formula: Written) -> tuple[str, ...]:
    """Return the free variables in the order of occurrence, with the right side of SINCE before the left side."""
    match formula:
        case syntax_tree.Quantified(names=bound, formula=inner):
            return tuple(name for name in free_names(inner) if name not in bound)
        case syntax_tree.Aggregated(output=output, groups=groups):
            return tuple(dict.fromkeys((output, *groups)))
        case syntax_tree.Let(within=within) | syntax_tree.Least(within=within):
            return free_names(within)
        case syntax_tree.Since(left=left, right=right):
            return tuple(dict.fromkeys((*free_names(right), *free_names(left))))
        case _:
            return _met(formula)


def _met(formula: Written) -> tuple[str, ...]:
    names = [name for term in terms_of(formula) for name in term_names(term)]
    names += [name for part in below(formula) for name in free_names(part)]
    return tuple(dict.fromkeys(names))


def with_its_parameters(name: str, body: Written) -> tuple[Written, tuple[str, ...]]:
    """Turn the free variables of a fixpoint's body into parameters, and pass the parameters in each use."""
    parameters = free_names(body)
    terms = tuple(syntax_tree.Name(parameter) for parameter in parameters)

    def with_arguments(formula: Written) -> Written:
        if isinstance(formula, syntax_tree.Applied) and formula.name == name and not formula.terms:
            return replace(formula, terms=terms)
        return over(formula, tuple(with_arguments(part) for part in below(formula)))

    return with_arguments(body), parameters


def renamed(formula: Written, names: Renaming, fresh: Callable[[str], str]) -> Written:
    """Rename free variables.  Also rename bound variables that would capture a new name."""
    names = {old: new for old, new in names.items() if old != new}
    if not names:
        return formula
    match formula:
        case syntax_tree.Quantified(names=bound, formula=inner):
            variables, others = _rename_clashing(bound, names, fresh)
            return replace(formula, names=variables, formula=renamed(inner, others, fresh))
        case syntax_tree.Aggregated(output=output, groups=groups, formula=inner):
            hidden = tuple(name for name in free_names(inner) if name not in groups)
            variables, others = _rename_clashing(hidden, names, fresh)
            others = {name: others.get(name, name) for name in free_names(inner)}
            grouped = tuple(names.get(group, group) for group in groups)
            item = others.get(formula.item, formula.item)
            renewed = renamed(inner, others, fresh)
            return replace(formula, output=names.get(output, output), item=item, groups=grouped, formula=renewed)
        case syntax_tree.Let(within=within) | syntax_tree.Least(within=within):
            return replace(formula, within=renamed(within, names, fresh))
        case syntax_tree.Applied() | syntax_tree.Compared() | syntax_tree.Matched():
            return with_terms(formula, lambda term: _renamed_term(term, names))
        case _:
            return over(formula, tuple(renamed(part, names, fresh) for part in below(formula)))


def _rename_clashing(
    bound: tuple[str, ...], names: Renaming, fresh: Callable[[str], str]
) -> tuple[tuple[str, ...], Renaming]:
    """Rename the bound variables that clash with a new name.  Also return the renaming for the quantified formula."""
    taken = {new for old, new in names.items() if old not in bound}
    variables = {name: fresh(name) if name in taken else name for name in bound}
    return tuple(variables.values()), {**{old: new for old, new in names.items() if old not in bound}, **variables}


def _renamed_term(term: WrittenTerm, names: Renaming) -> WrittenTerm:
    match term:
        case syntax_tree.Name(name=name):
            return replace(term, name=names.get(name, name))
        case syntax_tree.Call(arguments=arguments):
            return replace(term, arguments=tuple(_renamed_term(argument, names) for argument in arguments))
        case _:
            return term
