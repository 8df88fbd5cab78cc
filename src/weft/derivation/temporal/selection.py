"""σ_p(R).

    (c.9), (c.13)  σ_p(R − ∇R) = σ_p(R) − σ_p(∇R)
    (c.10), (c.14) σ_p(R ∪ ΔR) = σ_p(R) ∪ σ_p(ΔR)

If p mentions NOW or a period set, (c.13) and (c.14) require pure deltas (Theorem 4.3) and return pure ones; (c.9) and
(c.10) return a pure delta if the input delta is pure.  As time passes:

    (r.6) σ_p(ψ(E)) = ψ(σ_p(E)) − σ_{[p]_t ∧ [¬p]_now}(E) ∪ σ_{[p]_now ∧ [¬p]_t}(E)

>>> from weft.algebra.temporal import Deleted
>>> from shown_temporal import R, ENDED, words
>>> from weft.derivation.temporal.delta import Delta
>>> log = Log()
>>> words(changed(Selection(R, ENDED), (Delta(Deleted(R), None),), log).deleted)
'σ_{PERIOD_END(r) < NOW()}(r ⋉ ∇r)'
>>> [step.rule for step in log.steps]
['4.3', 'c.13', 'c.14']
"""

from __future__ import annotations

from dataclasses import replace

from weft.algebra.temporal import Selection, Temporal, mentions_time
from weft.derivation.temporal.delta import NOTHING, Delta
from weft.derivation.temporal.purity import purified
from weft.derivation.temporal.refresh_terms import turned
from weft.derivation.temporal.rules import Log, changed, passed, stepwise


def c9(node: Selection, deleted: Temporal) -> Delta:
    """∇ = σ_p(∇R); (c.13) if p mentions time."""
    return Delta(replace(node, input=deleted), None)


def c10(node: Selection, inserted: Temporal) -> Delta:
    """Δ = σ_p(ΔR); (c.14) if p mentions time."""
    return Delta(None, replace(node, input=inserted))


def changed_selection(node: Selection, deltas: tuple[Delta, ...], log: Log) -> Delta:
    """(c.9) and (c.10); if p mentions time, (c.13) and (c.14) after Theorem 4.3."""
    timely = mentions_time(node.predicate)
    given = purified(node, deltas, log) if timely else deltas
    numbers = ("c.13", "c.14") if timely else ("c.9", "c.10")
    return stepwise(node, given, ((numbers[0], _without), (numbers[1], _with)), log, pure=given[0].pure)


def passed_selection(node: Selection, log: Log) -> Delta:
    """(r.4) σ_p(ψ(E)) = ψ(σ_p(E)), or (r.6) if p mentions time."""
    if not mentions_time(node.predicate):
        return log.note("r.4", node, None, NOTHING)
    left, came = turned("r.6", node, node.predicate, log)
    delta = Delta(
        None if left is None else replace(node, predicate=left),
        None if came is None else replace(node, predicate=came),
        pure=True,
    )
    return log.note("r.6", node, None, delta)


def _without(node: Selection, position: int, part: Temporal, current: Temporal) -> Delta:
    return c9(node, part)


def _with(node: Selection, position: int, part: Temporal, current: Temporal) -> Delta:
    return c10(node, part)


changed.register(Selection, changed_selection)
passed.register(Selection, passed_selection)
