"""Random texts of formulas close to the limits of what can be monitored, with their literal meaning.

The texts have comparisons and negations whose variables another part binds, and nested definitions (LET, LETPAST) that
use the same few names. ``Literally`` evaluates the written tree by the definitions, with sets: it tries all assignments
of values to the variables of a formula. It uses neither unique names, nor safe forms, nor stored relations.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from oracle.past_logic import Log
from weft.formula import syntax_tree
from weft.formula.scoping import free_names
from weft.formula.syntax_tree import Written, WrittenTerm

NAMES = ("X", "X_2", "X_3", "Y")
"""Of definitions; ``X_2`` is also what a second X could be called."""
DOMAIN = (0, 1, 2, 3)
"""The values of logs and of constants, and one more."""
SIGNATURE = "e() p(a:int) q(a:int, b:int)"
Environment = Mapping[str, int]
Around = dict[tuple[str, int], "_Relation"]
"""The relations that may be applied, by name and number of columns."""


@dataclass
class Writing:
    """Draws one text.  ``rules`` are the names that may be applied, with how many terms they have."""

    chance: random.Random
    used: int = 0

    def text(self) -> str:
        return self.formula(self.chance.choice(((), ("x",), ("x",), ("x", "y"))), self.chance.choice((2, 3, 3, 4)), {})

    def formula(self, free: Sequence[str], depth: int, rules: Mapping[str, tuple[int, bool]]) -> str:
        """A text with these free variables; of each rule its columns, and whether it may stand without PREVIOUS."""
        if not depth:
            return self.applied(free, rules)
        shapes = [self.conjunction, self.conjunction, self.disjunction, self.looking_back, self.since, self.hidden]
        shapes += [self.defined] * 4
        return self.chance.choice(shapes)(free, depth - 1, rules)

    def applied(self, free: Sequence[str], rules: Mapping[str, tuple[int, bool]]) -> str:
        """A predicate or a relation over exactly these variables, and perhaps a constant."""
        fitting = [name for name, (columns, _) in rules.items() if columns >= len(free) and (columns or not free)]
        if fitting and self.chance.random() < 0.6:
            name = self.chance.choice(fitting)
            columns, alone = rules[name]
            made = f"{name}({', '.join(self.terms(free, columns))})"
            return made if alone else f"(PREVIOUS {made})"
        columns = max(len(free), self.chance.choice((1, 1, 2))) if free else self.chance.choice((0, 1))
        return f"{('e', 'p', 'q')[columns]}({', '.join(self.terms(free, columns))})"

    def terms(self, free: Sequence[str], columns: int) -> list[str]:
        more = [self.chance.choice((*free, "0", "1", "2")) for _ in range(columns - len(free))]
        terms = [*free, *more]
        self.chance.shuffle(terms)
        return terms

    def test(self, free: Sequence[str]) -> str:
        left = self.chance.choice(free) if free else self.chance.choice("012")
        right = self.chance.choice((*free, "0", "1", "2"))
        made = f"{left} {self.chance.choice(('<', '<=', '=', '='))} {right}"
        return f"(NOT ({made}))" if self.chance.random() < 0.3 else f"({made})"

    def part(self, free: Sequence[str]) -> list[str]:
        return [each for each in free if self.chance.random() < 0.7]

    def conjunction(self, free: Sequence[str], depth: int, rules: Mapping[str, tuple[int, bool]]) -> str:
        parts = [self.formula(free, depth, rules)]
        for _ in range(self.chance.choice((1, 1, 2))):
            roll, some = self.chance.random(), self.part(free)
            if roll < 0.5:
                parts.append(self.test(free))
            else:
                other = self.formula(some, depth, rules)
                parts.append(f"(NOT {other})" if roll < 0.8 else other)
        self.chance.shuffle(parts)
        return f"({' AND '.join(parts)})"

    def disjunction(self, free: Sequence[str], depth: int, rules: Mapping[str, tuple[int, bool]]) -> str:
        return f"({self.formula(free, depth, rules)} OR {self.formula(free, depth, rules)})"

    def looking_back(self, free: Sequence[str], depth: int, rules: Mapping[str, tuple[int, bool]]) -> str:
        operator = self.chance.choice(("ONCE", "PREVIOUS", "PREVIOUS"))
        within = rules if operator == "ONCE" else {name: (columns, True) for name, (columns, _) in rules.items()}
        return f"({operator}{self.interval()} {self.formula(free, depth, within)})"

    def since(self, free: Sequence[str], depth: int, rules: Mapping[str, tuple[int, bool]]) -> str:
        roll = self.chance.random()
        left = self.test(free) if roll < 0.4 else self.formula(self.part(free), depth, rules)
        left = f"(NOT {left})" if roll > 0.7 else left
        return f"({left} SINCE{self.interval()} {self.formula(free, depth, rules)})"

    def interval(self) -> str:
        return self.chance.choice(("", "", "[0,3s]", "[1s,5s]", "[1s,*)"))

    def hidden(self, free: Sequence[str], depth: int, rules: Mapping[str, tuple[int, bool]]) -> str:
        self.used += 1
        return (
            f"(EXISTS v{self.used}. {self.formula((*free, f'v{self.used}')[-2:], depth, rules)})"
            if not free[1:]
            else (self.conjunction(free, depth, rules))
        )

    def defined(self, free: Sequence[str], depth: int, rules: Mapping[str, tuple[int, bool]]) -> str:
        """LET or LETPAST; of LETPAST often one that keeps what it was, as long as something holds."""
        name, columns = self.chance.choice(NAMES), self.chance.choice((1, 1, 2)) if free else self.chance.choice((0, 1))
        parameters = ("a", "b")[:columns]
        letpast = self.chance.random() < 0.8
        inside = {**rules, name: (columns, False)} if letpast else rules
        if letpast and self.chance.random() < 0.6:
            kept = [f"(PREVIOUS {name}({', '.join(parameters)}))"]
            for _ in range(self.chance.choice((0, 1, 1, 2))):
                other = self.formula(self.part(parameters), min(depth, 1), rules)
                kept.append(self.test(parameters) if self.chance.random() < 0.6 else f"(NOT {other})")
            self.chance.shuffle(kept)
            either = [self.formula(parameters, depth, rules), f"({' AND '.join(kept)})"]
            self.chance.shuffle(either)
            body = " OR ".join(either)
        else:
            body = self.formula(parameters, depth, inside)
        within = self.formula(free, depth, {**rules, name: (columns, True)})
        return f"({'LETPAST' if letpast else 'LET'} {name}({', '.join(parameters)}) = {body} IN {within})"


@dataclass(frozen=True)
class _Relation:
    """A definition, and the relations that its body may speak of."""

    parameters: tuple[str, ...]
    body: Written
    around: Around = field(repr=False, hash=False, compare=False)


@dataclass
class Literally:
    """The literal meaning of a written formula over a log."""

    log: Log
    known: dict[tuple[int, int, tuple[tuple[str, int], ...], int], bool] = field(default_factory=dict)
    kept: list[object] = field(default_factory=list)

    def answers(self, formula: Written) -> list[set[tuple[int, ...]]]:
        """At each time point the values of the free variables, in their order."""
        names, nothing = free_names(formula), Around()
        return [
            {
                values
                for values in product(DOMAIN, repeat=len(names))
                if self.holds(formula, tp, dict(zip(names, values, strict=True)), nothing)
            }
            for tp in range(len(self.log))
        ]

    def holds(self, formula: Written, tp: int, given: Environment, around: Around) -> bool:
        needed = tuple((name, given[name]) for name in free_names(formula))
        key = id(formula), tp, needed, id(around)
        if key not in self.known:
            self.kept += [formula, around]
            self.known[key] = self._holds(formula, tp, dict(needed), around)
        return self.known[key]

    def _holds(self, formula: Written, tp: int, given: Environment, around: Around) -> bool:
        match formula:
            case syntax_tree.Applied():
                return self._applied(formula, tp, given, around)
            case syntax_tree.Compared(operator=operator, left=left, right=right):
                one, other = _value(left, given), _value(right, given)
                return {"=": one == other, "<": one < other, "<=": one <= other}[operator]
            case syntax_tree.Negated(formula=inner):
                return not self.holds(inner, tp, given, around)
            case syntax_tree.Joined(connective=connective, left=left, right=right):
                both = self.holds(left, tp, given, around), self.holds(right, tp, given, around)
                return all(both) if connective == "AND" else any(both)
            case syntax_tree.Quantified(names=names, formula=inner):
                tried = (dict(zip(names, values, strict=True)) for values in product(DOMAIN, repeat=len(names)))
                return any(self.holds(inner, tp, {**given, **each}, around) for each in tried)
            case syntax_tree.Once(operator="PREVIOUS", bounds=bounds, formula=inner):
                return tp > 0 and self._near(bounds, tp - 1, tp) and self.holds(inner, tp - 1, given, around)
            case syntax_tree.Once(bounds=bounds, formula=inner):
                return any(self.holds(inner, then, given, around) for then in self._seen(bounds, tp))
            case syntax_tree.Since(bounds=bounds, left=left, right=right):
                return any(
                    self.holds(right, then, given, around)
                    and all(self.holds(left, each, given, around) for each in range(then + 1, tp + 1))
                    for then in self._seen(bounds, tp)
                )
            case syntax_tree.Let(name=name, parameters=parameters, body=body, within=within):
                return self.holds(within, tp, given, self._with(formula, around, {name: (parameters, body)}, own=False))
            case syntax_tree.Least(rules=rules, within=within):
                defined = {rule.name: (rule.parameters, rule.body) for rule in rules}
                return self.holds(within, tp, given, self._with(formula, around, defined, own=True))
            case _:
                raise AssertionError(formula)

    def _with(
        self,
        formula: Written,
        around: Around,
        defined: Mapping[str, tuple[tuple[str, ...], Written]],
        *,
        own: bool,
    ) -> Around:
        """The relations in the scope of a definition, the same object each time; ``own``: its body sees itself."""
        key = id(formula), id(around)
        if key not in self._scopes:
            inside = dict(around)
            seen = inside if own else around
            inside.update({(name, len(each[0])): _Relation(*each, seen) for name, each in defined.items()})
            self._scopes[key] = inside
            self.kept += [formula, around]
        return self._scopes[key]

    def __post_init__(self) -> None:
        self._scopes: dict[tuple[int, int], Around] = {}

    def _applied(self, formula: syntax_tree.Applied, tp: int, given: Environment, around: Around) -> bool:
        values = tuple(_value(term, given) for term in formula.terms)
        relation = around.get((formula.name, len(values)))
        if relation is None:
            return values in self.log.states[tp].get(formula.name, ())
        return self.holds(relation.body, tp, dict(zip(relation.parameters, values, strict=True)), relation.around)

    def _seen(self, bounds: syntax_tree.Bounds, tp: int) -> Iterator[int]:
        return (then for then in range(tp + 1) if self._near(bounds, then, tp))

    def _near(self, bounds: syntax_tree.Bounds, then: int, tp: int) -> bool:
        length = self.log.at[tp] - self.log.at[then]
        low = length > bounds.low if bounds.low_open else length >= bounds.low
        if bounds.high is None:
            return low
        return low and (length < bounds.high if bounds.high_open else length <= bounds.high)


def _value(term: WrittenTerm, given: Environment) -> int:
    if isinstance(term, syntax_tree.Name):
        return given[term.name]
    assert isinstance(term, syntax_tree.Value) and isinstance(term.value, int)
    return term.value
