"""Write a predicate as alternatives: a disjunction of conjunctions of atoms.  Each atom has a judgement.

SQL's logic has three values, so there are four judgements: true, false, not true (false or unknown), and not false.  De
Morgan's laws are valid in Kleene's logic, and resolve NOT, AND and OR:

    NOT a is not true  iff  a is not false            a AND b is not true  iff  a is not true or b is not true

A comparison is false if the opposite comparison is true.  A comparison is not true if the opposite comparison is true
or a side is NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias
from typing import Literal as OneOf

from weft.algebra.scalar import Call, Literal, Scalar, call

MOST: Final = 512
"""A predicate has at most this number of alternatives."""
OPPOSITE: Final = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
Judgement: TypeAlias = 'OneOf["true", "false", "not true", "not false"]'
_OF_NOT: Final[dict[Judgement, Judgement]] = {
    "true": "false", "false": "true", "not true": "not false", "not false": "not true",
}  # fmt: skip


@dataclass(frozen=True)
class Atom:
    """A scalar without AND, OR and NOT, with its judgement."""

    scalar: Scalar
    is_: Judgement = "true"


Conjunction: TypeAlias = "frozenset[Atom]"


class TooMany(Exception):
    """The error for a predicate with more than ``MOST`` alternatives."""


def alternatives(scalar: Scalar, is_: Judgement = "true") -> tuple[Conjunction, ...]:
    """Return the alternatives under which a scalar has the judgement ``is_``.

    Each alternative is a conjunction of atoms.  If the scalar has the judgement, at least one alternative holds.

    Raise TooMany if the scalar has more than ``MOST`` alternatives.

    >>> from weft.algebra.scalar import Param
    >>> from weft.algebra.schema import BOOLEAN
    >>> a, b = Param("a", BOOLEAN), Param("b", BOOLEAN)
    >>> len(alternatives(call("and", a, b))), len(alternatives(call("not", call("and", a, b))))
    (1, 2)
    """
    match scalar:
        case Literal(value=bool() | None as known):
            right = {
                "true": known is True,
                "false": known is False,
                "not true": not known,
                "not false": known is not False,
            }
            return (frozenset(),) if right[is_] else ()
        case Call(name="not", args=(inner,)):
            return alternatives(inner, _OF_NOT[is_])
        case Call(name="and" | "or", args=args):
            parts = [alternatives(part, is_) for part in args]
            every = (scalar.name == "and") == (is_ in ("true", "not false"))
            return _all(parts) if every else _bounded(tuple(each for part in parts for each in part))
        case Call(name="<=>", args=(inner, Literal(value=bool(known)))):
            return alternatives(inner, _of_truth(known, positive=is_ in ("true", "not false")))
        case Call(name=name, args=args) if name in OPPOSITE:
            return _of_comparison(scalar, call(OPPOSITE[name], *args), is_)
        case _:
            return (frozenset((Atom(scalar, is_),)),)


def _of_truth(known: bool, *, positive: bool) -> Judgement:
    """``known`` is false for ``x IS FALSE``.  ``positive`` is false under a NOT."""
    if positive:
        return "true" if known else "false"
    return "not true" if known else "not false"


def _of_comparison(scalar: Call, opposite: Call, is_: Judgement) -> tuple[Conjunction, ...]:
    wanted = scalar if is_ in ("true", "not false") else opposite
    if wanted.name == "<>":
        holds = tuple(frozenset((Atom(call(name, *wanted.args)),)) for name in ("<", ">"))
    else:
        holds = (frozenset((Atom(wanted),)),)
    if is_ in ("true", "false"):
        return holds
    return (*holds, *(frozenset((Atom(call("is null", side)),)) for side in wanted.args))


def _all(parts: list[tuple[Conjunction, ...]]) -> tuple[Conjunction, ...]:
    made: tuple[Conjunction, ...] = (frozenset(),)
    for part in parts:
        made = _bounded(tuple(dict.fromkeys(one | other for one in made for other in part)))
    return made


def _bounded(made: tuple[Conjunction, ...]) -> tuple[Conjunction, ...]:
    if len(made) > MOST:
        raise TooMany
    return made
