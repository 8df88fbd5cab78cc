"""Decide whether the size of a synopsis is bounded, log-bounded or unbounded, with the reason (Toman 2007, sections 2.2
and 4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from typing import Literal as OneOf

from weft.algebra import formula as algebra
from weft.derivation.synopsis.construct import Stored, Synopsis
from weft.derivation.synopsis.multiplicity import accumulates, multiplied
from weft.derivation.synopsis.value_invention import endless, origins

Kind: TypeAlias = OneOf["bounded", "log-bounded", "unbounded"]
_WORST: Final[tuple[Kind, ...]] = ("bounded", "log-bounded", "unbounded")
_MANY: Final = 1_000
"""For this number of runs or more, the verdict says "w".  No row has more runs than states."""
DOUBLING: Final = (
    "its counts can grow by a factor at each time point, so they need as many bits as there are time points: "
    "Ω(|T|), Theorem 3.4"
)
ENDLESS: Final = (
    "it computes new values from values that it computed before, so their number grows without bound, even if the "
    "rows repeat the same values (section 5)"
)


@dataclass(frozen=True)
class RelationSize:
    """The size of one stored relation, and the kind of its growth with the number of states.

    ``tuples`` and ``counters`` are bounds, as formulas over |D|, |T|, dupl(S) and w.  Here w is the number of states in
    the window of the interval.  ``counters`` is empty if the relation has no counts.
    """

    stored: Stored
    kind: Kind
    tuples: str
    counters: str = ""


@dataclass(frozen=True)
class Fault:
    """An unbounded subformula, the reason, and a similar bounded formula if the module knows one."""

    formula: algebra.Formula
    reason: str
    bounded: algebra.Formula | None = None


@dataclass(frozen=True)
class SizeVerdict:
    """The sizes of a synopsis's stored relations.  If there are ``faults``, the synopsis is unbounded."""

    parts: tuple[RelationSize, ...]
    faults: tuple[Fault, ...] = ()

    @property
    def kind(self) -> Kind:
        """The worst kind among the stored relations, or "unbounded" if the synopsis has faults."""
        kinds: list[Kind] = [part.kind for part in self.parts]
        return "unbounded" if self.faults else max(kinds, key=_WORST.index, default="bounded")


def size_verdict(synopsis: Synopsis) -> SizeVerdict:
    """Return bounds on the size of a synopsis.  The bounds hold for any data."""
    faults = dict.fromkeys(fault for formula in synopsis.formulas for fault in _faults(formula, synopsis))
    return SizeVerdict(tuple(map(_relation_size, synopsis.stored)), tuple(faults))


def _faults(formula: algebra.Formula, synopsis: Synopsis) -> Iterator[Fault]:
    for part in algebra.subformulas(formula):
        if not isinstance(part, algebra.Fixpoint):
            continue
        if endless(part):
            yield Fault(part, ENDLESS)
        elif synopsis.semantics == "bag" and (growth := multiplied(part)) is not None:
            yield Fault(part, f"{growth.why}; {DOUBLING}", _once_each(part))


def _once_each(formula: algebra.Fixpoint) -> algebra.Fixpoint:
    definitions = (replace(each, body=algebra.Distinct(each.body)) for each in formula.definitions)
    return replace(formula, definitions=tuple(definitions))


def _relation_size(stored: Stored) -> RelationSize:
    formula = stored.formula
    width = len([origin for origin in origins(formula).values() if not origin.computed])
    new = len(stored.variables) - width
    tuples = "1" if width == 0 else "|D|" if width == 1 else f"|D|^{width}"
    if new:
        tuples += f" · the values computed for {new} of its columns"
    times = _times(stored)
    if times:
        tuples = times if tuples == "1" else f"{times} · {tuples}"
    fixpoints = [part for part in algebra.subformulas(formula) if isinstance(part, algebra.Fixpoint)]
    if any(map(endless, fixpoints)):
        return RelationSize(stored, "unbounded", "as many as there are time points")
    if not stored.counted:
        return RelationSize(stored, "bounded", tuples)
    doubles = stored.semantics == "bag" and any(multiplied(part) is not None for part in fixpoints)
    counters, kind = _counters(formula, None if doubles else _power(formula, stored))
    return RelationSize(stored, kind, tuples, counters)


def _times(stored: Stored) -> str:
    """Return a text that says how often one row may be stored.  If a row is stored at most once, the text is empty."""
    if not stored.several:
        return ""
    interval = stored.formula.interval
    most = most_runs(interval) if stored.runs else _MANY
    return "w" if most >= _MANY else str(most) if most > 1 else ""


def most_runs(interval: algebra.Interval) -> int:
    """Return the greatest number of runs of one row that end within the window [low, high].

    Times of a row that are at most high - low + 1 microseconds apart belong to the same run.  The gap between two runs
    is therefore longer.
    """
    assert interval.high is not None
    return interval.high // (interval.high - interval.low + 2) + 1


def _counters(formula: algebra.Formula, power: int | None) -> tuple[str, Kind]:
    """If ``power`` is None, no power of |T| bounds the counter."""
    if power is None:
        return "|T| bits", "unbounded"
    rows = any(isinstance(part, algebra.Atom) for part in algebra.subformulas(formula))
    of = ["|T|" if power == 1 else f"|T|^{power}"] * (power > 0) + ["dupl(S)"] * rows
    return f"log({' · '.join(of) or '1'}) bits", "log-bounded" if power else "bounded"


def _power(formula: algebra.Formula, stored: Stored) -> int:
    """Return the exponent p such that the greatest count of the formula grows as |T|^p."""
    if stored.semantics != "bag":
        return 0
    match formula:
        case algebra.And(left=left, right=algebra.Not()):
            return _power(left, stored)
        case algebra.And(left=left, right=right):
            return _power(left, stored) + _power(right, stored)
        case algebra.Or(left=left, right=right):
            return max(_power(left, stored), _power(right, stored))
        case algebra.Exists(formula=inner) | algebra.Previous(formula=inner):
            return _power(inner, stored)
        case algebra.Once(counting="first", formula=counted) | algebra.Since(counting="first", right=counted):
            return 1 + _power(counted, stored)
        case algebra.Since(counting="second", left=counted):
            return 1 + _power(counted, stored)
        case algebra.Once(counting="second"):
            return 1
        case algebra.Fixpoint(definitions=definitions):
            return accumulates(formula) + sum(_power(definition.body, stored) for definition in definitions)
        case _:
            return 0
