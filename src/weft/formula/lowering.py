"""Translate a syntax tree to a formula: resolve names, infer types, expand shorthands.

As in MonPoly, IMPLIES, EQUIV, FORALL and PAST_ALWAYS become NOT, OR, AND and ONCE.  EXISTS drops variables that its
body does not use.  Constant terms are evaluated with MonPoly's arithmetic before the check of the formula.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain, count
from typing import Final

from weft.algebra import formula as algebra
from weft.algebra.formula import Computed, Constant, Formula, Interval, Operation, Term, Variable, free_variables
from weft.algebra.schema import BIGINT, DOUBLE, STRING, DataType
from weft.errors import FormulaError, Reasons, of_each
from weft.formula import syntax_tree
from weft.formula.patterns import groups_in, translated
from weft.formula.scoping import free_names
from weft.formula.signature import Predicate, Signature
from weft.formula.syntax_tree import Bounds, Written, WrittenTerm
from weft.formula.tokens import refused_at
from weft.formula.types import Clash, Unknowns, settled
from weft.printable import counted

_LONGEST: Final = 2**62
Scope = Mapping[str, DataType]


def lowered(formula: Written, signature: Signature, text: str) -> Formula:
    """Translate a syntax tree to a formula.  Raise FormulaError for an unknown name or a type clash."""
    lowering = Lowering(signature, text)
    tree = lowering.formula(formula, {})
    return settled(tree, lowering.types)


class Lowering:
    """The translation of one formula, with the types inferred so far."""

    def __init__(self, signature: Signature, text: str) -> None:
        self.signature = signature
        self.text = text
        self.types = Unknowns()
        self.free: dict[str, DataType] = {}
        self.rules: dict[str, tuple[str, tuple[DataType, ...], algebra.Fixpoint | None]] = {}
        self.taken: set[str] = set()

    def refused(self, at: int, message: str, hint: str | None = None) -> FormulaError:
        """Return an error with the line and column of the offset ``at``."""
        return refused_at(self.text, at, message, hint)

    def formula(self, written: Written, scope: Scope) -> Formula:
        """Translate a formula.  ``scope`` contains the types of the variables bound outside the formula."""
        match written:
            case syntax_tree.Holds(value=value):
                return algebra.Truth(value)
            case syntax_tree.Negated(formula=inner):
                return algebra.Not(self.formula(inner, scope))
            case syntax_tree.Joined():
                return self._joined(written, scope)
            case syntax_tree.Quantified():
                return self.quantified(written, scope)
            case syntax_tree.Single(formula=inner):
                return algebra.Distinct(self.formula(inner, scope))
            case syntax_tree.Once() | syntax_tree.Since():
                return self._temporal(written, scope)
            case syntax_tree.Aggregated():
                return self._aggregated(written, scope)
            case syntax_tree.Least():
                return self._least(written, scope)
            case syntax_tree.Let():
                raise self.refused(written.at, "LET must be expanded before lowering")
            case _:
                return self._atom(written, scope)

    def _joined(self, written: syntax_tree.Joined, scope: Scope) -> Formula:
        left, right = of_each(lambda part: self.formula(part, scope), (written.left, written.right))
        match written.connective:
            case "AND":
                return algebra.And(left, right)
            case "OR":
                return algebra.Or(left, right)
            case "IMPLIES":
                return algebra.Or(algebra.Not(left), right)
            case "EQUIV":
                return self.equivalent(left, right)

    def equivalent(self, left: Formula, right: Formula) -> Formula:
        """Return EQUIV of two formulas."""
        return algebra.And(algebra.Or(algebra.Not(left), right), algebra.Or(left, algebra.Not(right)))

    def quantified(self, written: syntax_tree.Quantified, scope: Scope) -> Formula:
        """Translate a quantifier.  FORALL becomes NOT EXISTS NOT."""
        bound = {name: self.bound_type(written) for name in written.names}
        inner = self.formula(written.formula, {**scope, **bound})
        if written.quantifier == "FORALL":
            return algebra.Not(self.exists(bound, algebra.Not(inner)))
        return self.exists(bound, inner)

    def bound_type(self, written: syntax_tree.Quantified) -> DataType:
        """Return the type of a quantified variable.  The default is a new type variable."""
        return self.types.new()

    def exists(self, bound: Scope, inner: Formula) -> Formula:
        """Return EXISTS over those bound variables that the body uses, or the body alone if it uses none."""
        free = free_variables(inner)
        used = tuple(variable for name, kind in bound.items() if (variable := Variable(name, kind)) in free)
        return algebra.Exists(used, inner) if used else inner

    def _temporal(self, written: syntax_tree.Once | syntax_tree.Since, scope: Scope) -> Formula:
        interval = self._interval(written.bounds)
        if written.counting == "second" and not interval.everything:
            raise self.refused(written.bounds.at, "SINCE2 and ONCE2 count time points, and take no interval")
        if isinstance(written, syntax_tree.Since):
            left, right = of_each(lambda part: self.formula(part, scope), (written.left, written.right))
            return algebra.Since(interval, left, right, written.counting, written.strict)
        inner = self.formula(written.formula, scope)
        match written.operator:
            case "PREVIOUS":
                return algebra.Previous(interval, inner)
            case "ONCE":
                return algebra.Once(interval, inner, written.counting)
            case "PAST_ALWAYS":
                return algebra.Not(algebra.Once(interval, algebra.Not(inner)))

    def _interval(self, bounds: Bounds) -> Interval:
        """Return the interval in microseconds with inclusive ends."""
        low, high = bounds.low, bounds.high
        strict = bounds.low_open or bounds.high_open
        if low < 0 or (high is not None and (high <= low if strict else high < low)):
            raise self.refused(
                bounds.at,
                "the interval is negative or empty",
                "Write the lengths of time to go back: 0 <= lower end <= upper end.",
            )
        if max(low, high or 0) > _LONGEST:
            raise self.refused(bounds.at, "the interval is too long: the limit is 2^62 microseconds")
        return Interval(low + bounds.low_open, None if high is None else high - bounds.high_open)

    def _aggregated(self, written: syntax_tree.Aggregated, scope: Scope) -> Formula:
        """An aggregation binds all variables of its body except the groups."""
        groups = {name: self.type_of(name, scope) for name in written.groups}
        own = {**groups, **{name: self.types.new() for name in free_names(written.formula) if name not in groups}}
        inner = self.formula(written.formula, own)
        item_type = own.get(written.item, STRING)
        free = free_variables(inner)
        if Variable(written.item, item_type) not in free:
            raise self.refused(written.at, f"{written.item} is aggregated but is not free in the aggregation's formula")
        if written.output in groups:
            message = f"{written.output} is the result of the aggregation, so it cannot also be a grouping variable"
            raise self.refused(written.at, message)
        for group, kind in groups.items():
            if Variable(group, kind) not in free:
                raise self.refused(
                    written.at, f"{group} is a grouping variable but is not free in the aggregation's formula"
                )
        output = Variable(written.output, self.type_of(written.output, scope))
        if written.function in ("SUM", "AVG", "MED"):
            self.join(item_type, self.types.new(number=True), written.at, f"{written.function} of {written.item}")
        result = {"CNT": BIGINT, "AVG": DOUBLE, "MED": DOUBLE}.get(written.function, item_type)
        self.join(output.type, result, written.at, written.output)
        by = tuple(Variable(name, kind) for name, kind in groups.items())
        return algebra.Aggregate(output, written.function, Variable(written.item, item_type), by, inner)

    def _least(self, written: syntax_tree.Least, scope: Scope) -> Formula:
        """Mutually recursive relations get unique names."""
        outside = dict(self.rules)
        known = {}
        for rule in written.rules:
            unique = self._unique(rule.name)
            known[rule.name] = (unique, tuple(self.types.new() for _ in rule.parameters))
            self.rules[rule.name] = (*known[rule.name], None)
        definitions = []
        for rule in written.rules:
            unique, types = known[rule.name]
            parameters = dict(zip(rule.parameters, types, strict=True))
            body = self.formula(rule.body, parameters)
            self._check_rule(rule, body, parameters)
            variables = tuple(Variable(name, kind) for name, kind in parameters.items())
            definitions.append(algebra.Definition(unique, variables, body))
        whole = tuple(definitions)
        for rule in written.rules:
            unique, types = known[rule.name]
            self.rules[rule.name] = (unique, types, algebra.Fixpoint(whole, unique, ()))
        within = self.formula(written.within, scope)
        self.rules = outside
        return within

    def _unique(self, name: str) -> str:
        """Return ``name``.  If another fixpoint relation has this name, append a number."""
        numbered = (f"{name}_{number}" for number in count(2))
        unique = next(each for each in chain((name,), numbered) if each not in self.taken)
        self.taken.add(unique)
        return unique

    def _check_rule(self, rule: syntax_tree.Rule, body: Formula, parameters: Scope) -> None:
        expected = {Variable(name, kind) for name, kind in parameters.items()}
        free = set(free_variables(body))
        if free != expected:
            given = ", ".join(sorted(variable.name for variable in free))
            raise self.refused(
                rule.at,
                f"the parameters of {rule.name} are ({', '.join(parameters)}), but the free variables of the "
                f"rule's body are ({given})",
                "Name each free variable of the body as a parameter, and no other.",
            )
        if not _guarded(body, {name for name, _, fixpoint in self.rules.values() if fixpoint is None}):
            raise self.refused(
                rule.at,
                f"{rule.name} is used in its own definition at the same time point",
                f"Put PREVIOUS before {rule.name}: a fixpoint may refer to itself only at an earlier time point.",
            )

    def _atom(self, written: Written, scope: Scope) -> Formula:
        match written:
            case syntax_tree.Applied(name=name) if name in self.rules:
                return self._of_rule(written, scope)
            case syntax_tree.Applied():
                return self.of_signature(written, scope)
            case syntax_tree.Compared():
                return self.compared(written, scope)
            case syntax_tree.Matched():
                return self._matched(written, scope)
            case _:
                raise self.refused(written.at, "this is not a formula")

    def compared(self, written: syntax_tree.Compared, scope: Scope) -> Formula:
        """Translate a comparison.  Both sides have the same type."""
        left, right = self.term(written.left, scope), self.term(written.right, scope)
        self.join(left.type, right.type, written.at, "the left side of the comparison")
        if written.operator == "substring":
            self.join(left.type, STRING, written.at, "the argument of SUBSTRING")
        return algebra.Comparison(written.operator, left, right)

    def of_signature(self, written: syntax_tree.Applied, scope: Scope) -> Formula:
        """Translate an atom.  Raise FormulaError if the signature does not contain the predicate of the atom."""
        predicate = self.signature.get(written.name)
        if predicate is None:
            known = ", ".join(sorted(self.signature)) or "none"
            raise self.refused(written.at, f"{written.name} is not a predicate of the signature, which has {known}")
        return algebra.Atom(written.name, self.of_predicate(written, predicate, predicate.types, scope))

    def of_predicate(
        self, written: syntax_tree.Applied, predicate: Predicate, types: tuple[DataType, ...], scope: Scope
    ) -> tuple[Term, ...]:
        """Translate the terms of a predicate.  The columns in ``predicate.unnamed`` permit only the term ``_``."""
        if len(types) == len(written.terms):
            names = [term.name if isinstance(term, syntax_tree.Name) else "" for term in written.terms]
            reasons = Reasons()
            for place, type_ in predicate.unnamed.items():
                if not names[place].startswith("_") or names.count(names[place]) > 1:
                    column = predicate.columns[place]
                    refused = self.refused(
                        written.terms[place].at,
                        f"a formula cannot use the column {column} of {predicate.name}: it is {type_}",
                        _unnamed_hint(column, type_),
                    )
                    reasons.add(refused)
            reasons.check()
        return self.arguments(written, types, scope)

    def _of_rule(self, written: syntax_tree.Applied, scope: Scope) -> Formula:
        unique, types, fixpoint = self.rules[written.name]
        terms = self.arguments(written, types, scope)
        if fixpoint is None:
            return algebra.Defined(unique, terms)
        return algebra.Fixpoint(fixpoint.definitions, unique, terms)

    def arguments(self, written: syntax_tree.Applied, types: tuple[DataType, ...], scope: Scope) -> tuple[Term, ...]:
        """Translate the terms of a predicate with the column types ``types``."""
        if len(types) != len(written.terms):
            raise self.refused(
                written.at,
                f"{written.name} has {counted(len(types), 'column')}, but {len(written.terms)} terms are given",
            )
        terms = []
        for place, (term, expected) in enumerate(zip(written.terms, types, strict=True), 1):
            argument = self.term(term, scope)
            self.join(argument.type, expected, term.at, f"column {place} of {written.name}")
            terms.append(argument)
        return tuple(terms)

    def _matched(self, written: syntax_tree.Matched, scope: Scope) -> Formula:
        if not (isinstance(written.pattern, syntax_tree.Value) and written.pattern.regular):
            raise self.refused(
                written.pattern.at, 'a regular expression must be a literal r"…"; it cannot come from a variable'
            )
        try:
            given = str(written.pattern.value)
            pattern = given if written.pattern.translated else translated(given)
        except ValueError as reason:
            raise self.refused(written.pattern.at, f"the regular expression is not supported: {reason}") from None
        text = self.term(written.text, scope)
        self.join(text.type, STRING, written.text.at, "the argument of MATCHES")
        groups = tuple(None if group is None else self.term(group, scope) for group in written.groups)
        for group, term in zip(written.groups, groups, strict=True):
            if group is not None and term is not None:
                self.join(term.type, STRING, group.at, "a captured group")
        if len(groups) > groups_in(pattern):
            raise self.refused(
                written.at,
                f"the formula names {counted(len(groups), 'group')}, but the regular expression has "
                f"{groups_in(pattern)}",
            )
        return algebra.Matches(text, pattern, groups)

    def term(self, written: WrittenTerm, scope: Scope) -> Term:
        """Translate a term.  An operation on constants becomes its value."""
        match written:
            case syntax_tree.Name(name=name):
                return Variable(name, self.type_of(name, scope))
            case syntax_tree.Value(value=value, regular=regular):
                if regular:
                    raise self.refused(written.at, "a regular expression may stand only after MATCHES")
                if beyond_64_bits(value):
                    raise self.refused(
                        written.at, f"{value} does not fit into 64 bits", "Write a double, with a point."
                    )
                return algebra.Constant(value, _type_of_value(value))
            case syntax_tree.Call():
                return self.call(written, scope)

    def call(self, written: syntax_tree.Call, scope: Scope) -> Term:
        """Translate an operation on terms."""
        arguments = tuple(self.term(argument, scope) for argument in written.arguments)
        takes, gives = self._operation_types(written.operation)
        for argument, given in zip(written.arguments, arguments, strict=True):
            self.join(given.type, takes, argument.at, f"the argument of {written.operation}")
        try:
            return worked_out(written.operation, arguments, self.types.known(gives))
        except ArithmeticError as reason:
            raise self.refused(written.at, f"the term has no value: {reason}") from None

    def _operation_types(self, operation: str) -> tuple[DataType, DataType]:
        if operation in ("i2f", "f2i"):
            return (BIGINT, DOUBLE) if operation == "i2f" else (DOUBLE, BIGINT)
        number = BIGINT if operation == "MOD" else self.types.new(number=True)
        return number, number

    def type_of(self, name: str, scope: Scope) -> DataType:
        """Return the type of a variable.  A variable that is not in ``scope`` is free in the whole formula."""
        type = scope.get(name)
        if type is None:
            type = self.free.setdefault(name, self.types.new())
        return type

    def join(self, given: DataType, wanted: DataType, at: int, what: str) -> None:
        """Unify two types.  Raise FormulaError with the position ``at`` if the types clash."""
        try:
            self.types.join(given, wanted)
        except Clash:
            raise self.refused(
                at, f"types clash: {what} is {self.types.words(wanted)}, but this term is {self.types.words(given)}"
            ) from None


def _unnamed_hint(column: str, type_: str) -> str:
    hint = f"Write _ instead of {column}: formulas use integers, doubles and strings."
    if type_ != "TIMESTAMP":
        return hint
    return (
        f"{hint} An interval, as in ONCE[0,10m], refers to the time of the rows; `weft ingest file --ts-from {column}` "
        "takes that time from this column."
    )


def _guarded(formula: Formula, names: set[str]) -> bool:
    match formula:
        case algebra.Previous():
            return True
        case algebra.Defined(name=name):
            return name not in names
        case _:
            return all(_guarded(part, names) for part in algebra.parts(formula))


def _type_of_value(value: int | float | str) -> DataType:
    return STRING if isinstance(value, str) else DOUBLE if isinstance(value, float) else BIGINT


def worked_out(operation: str, arguments: tuple[Term, ...], result: DataType) -> Term:
    """Apply an operation to terms.  If all terms are constants, return the value or raise ArithmeticError."""
    named: Operation = operation  # type: ignore[assignment]
    values = [argument.value for argument in arguments if isinstance(argument, Constant)]
    if len(values) < len(arguments):
        return Computed(named, arguments, result)
    value = _value(operation, [value for value in values if not isinstance(value, str)])
    if beyond_64_bits(value):
        raise ArithmeticError(f"{value} is outside the range of BIGINT (64 bits)")
    return Constant(value, DOUBLE if isinstance(value, float) else BIGINT)


def beyond_64_bits(value: int | float | str) -> bool:
    """Return whether a value is an integer outside the range of BIGINT."""
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _value(operation: str, values: list[int | float]) -> int | float:
    first = values[0]
    match operation:
        case "negate":
            return -first
        case "i2f":
            return float(first)
        case "f2i":
            return int(first) if math.isfinite(first) else 0
        case _:
            return _binary(operation, first, values[1])


def _binary(operation: str, first: int | float, second: int | float) -> int | float:
    match operation:
        case "+":
            return first + second
        case "-":
            return first - second
        case "*":
            return first * second
        case _:
            return _quotient(operation, first, second)


def _quotient(operation: str, first: int | float, second: int | float) -> int | float:
    """Integer division rounds towards zero, as in C."""
    if second == 0:
        raise ArithmeticError("the divisor is zero")
    if isinstance(first, float) or isinstance(second, float):
        return first / second
    quotient = abs(first) // abs(second) * (1 if (first < 0) == (second < 0) else -1)
    return quotient if operation == "/" else first - second * quotient
