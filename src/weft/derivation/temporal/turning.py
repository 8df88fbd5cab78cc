"""What a predicate takes out and puts in as time passes from t to t_now: [p]_t ∧ [¬p]_now and [p]_now ∧ [¬p]_t.

Of a conjunction, the parts that cannot change with time (no NOW, nothing that the open end of a period decides) hold
at both instants or at neither, and are said once.  The others turn one by one:

    [p]_t ∧ [¬p]_now = s ∧ [v]_t ∧ ([¬v1]_now ∨ … ∨ [¬vn]_now)        p = s ∧ v1 ∧ … ∧ vn, s steady

A part of that disjunction which is unsatisfiable for t < t_now is left out; where none is left, the term is empty
whatever the data and is dropped (section 4.3.2).
"""

from __future__ import annotations

from weft.algebra.scalar import Scalar
from weft.algebra.temporal import Temporal
from weft.derivation.temporal.judging import as_of_refresh, conjunction, conjuncts, disjunction, not_true
from weft.derivation.temporal.rules import Dropped, Log
from weft.derivation.temporal.satisfiable import contradiction

LEAVING = "[p]_t ∧ [¬p]_now"
COMING = "[p]_now ∧ [¬p]_t"


def turned(rule: str, operator: Temporal, predicate: Scalar, log: Log) -> tuple[Scalar | None, Scalar | None]:
    """The predicates of what is taken out and of what is put in; None for what is dropped, which is noted."""
    return (
        _turn(rule, operator, predicate, log, leaving=True),
        _turn(rule, operator, predicate, log, leaving=False),
    )


def _turn(rule: str, operator: Temporal, predicate: Scalar, log: Log, *, leaving: bool) -> Scalar | None:
    """s ∧ [v]_before ∧ ∨ [¬vi]_after, the parts that can be; None where there are none."""
    parts = conjuncts(predicate)
    steady = tuple(part for part in parts if as_of_refresh(part) == part)
    varying = tuple(part for part in parts if as_of_refresh(part) != part)
    then = tuple(map(as_of_refresh, varying))
    before, after = (then, varying) if leaving else (varying, then)
    name = LEAVING if leaving else COMING
    if not varying:
        never = conjunction(predicate, not_true(predicate))
        log.dropped.append(
            Dropped(rule, operator, name, predicate, never, ("it does not change as time passes",), True)
        )
        return None
    cases = [
        (part, conjunction(*steady, *before, not_true(judged))) for part, judged in zip(varying, after, strict=True)
    ]
    refuted = {part: why for part, case in cases if (why := contradiction(case)) is not None}
    whole = len(refuted) == len(cases)
    for part, case in cases:
        if part in refuted:
            log.dropped.append(Dropped(rule, operator, name, part, case, refuted[part], whole))
    kept = tuple(not_true(each) for part, each in zip(varying, after, strict=True) if part not in refuted)
    return conjunction(*steady, *before, disjunction(kept)) if kept else None
