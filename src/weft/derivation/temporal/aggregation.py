"""Define the rules of Π_{A',w}(R): aggregates at an instant (w = 0) and over a moving window.

The aggregate over a moving window is Π_{A',0} over EX_w (section 5).  Let J be ⋈_{$1.GB = $2.GB}(Π(∇R), Π(R)), or the
same with ΔR in place of ∇R.  Then:

    (c.17) Π(R − ∇R) = Π(R) − π_{$2.A}(J) ∪ π_g(σ_{$2.count > $1.count}(J))
    (c.18) Π(R ∪ ΔR) = Π(R) − π_{$2.A}(J) ∪ π_f(J) ∪ (Π(ΔR) − π_{$1.A}(J))
    (c.19), (c.20)   the same for Π_w(R), with ∇R' = EX_w(∇R) − EX_w(R − ∇R) and ΔR' = EX_w(ΔR) − EX_w(R)

Without groups, the aggregate has a row at every instant, even with count 0, and the equations omit σ and the last term.

If f or g is undefined (``measures``), the rules recompute each touched group at the touched instants.  The
recomputation is correct because Π is τ-reducible.  With J = ⋈_{GB}(π_GB(∇R), Π(R)) and J' = ⋈_{GB}(π_GB(∇R), Π(R −
∇R)), the delta deletes π_{$2.A}(J) and inserts π_{$2.A}(J').

As time passes:

    (r.8) Π_0(ψ(E)) = ψ(Π_0(E))
    (r.9) Π_w(ψ(E)) = ψ(Π_w(E)) − FR_[t+1, NOW](σ_{NOW ∈ T}(ψ(Π_w(E)))) ∪ FR_[t+1, NOW](Π_w(FR_[t+1−w, NOW](ψ(E))))

Equation (r.9) ends and recomputes every group that holds now.  A group changes only if it lost a row after t.  This
module therefore uses a smaller, equivalent delta: (c.17) with ∇R' = FR_[t+1, NOW](ψ(EX_w(E))) − EX_w(E).

Proof: proofs/TemporalViews.v: aggregation_recomputed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.algebra.relation import Grouped, Join, Output, Project, Select
from weft.algebra.scalar import REFRESHED, ColumnRef, Literal, Scalar, call
from weft.algebra.schema import BIGINT
from weft.algebra.temporal import Difference, Extension, Temporal, union
from weft.derivation.temporal.delta import NOTHING, Delta, minus, plus
from weft.derivation.temporal.extension import expired, extension_deleted, extension_inserted
from weft.derivation.temporal.judging import conjunction
from weft.derivation.temporal.measures import combined, incremental, row_count
from weft.derivation.temporal.rules import DerivationTrace, propagate, refresh, stepwise

_ALL = Output("_all", Literal(1, BIGINT, fixed=True))
"""One group for all rows.  With this group, an aggregate without groups has no row if its input has none."""


def c17(node: Grouped[Temporal], deleted: Temporal, current: Temporal) -> Delta:
    """Return ∇ = π_{$2.A}(J) and Δ = π_g(σ(J)), the delta of (c.17).

    ``current`` is Π(R), with the aggregation's own range variable.
    """
    if not all(incremental(each, deleting=True) for each in node.measures):
        return _again(node, deleted, current, Difference(node.input, deleted))
    joined = _joined(node, _of_change(node, deleted), current)
    rest: Temporal = joined
    if node.groups:
        count = row_count(node)
        rest = Select(joined, call(">", count, replace(count, scan=_change(node))))
    return Delta(_old(node, joined), _new(node, rest, deleting=True))


def c18(node: Grouped[Temporal], inserted: Temporal, current: Temporal) -> Delta:
    """Return ∇ = π_{$2.A}(J) and Δ = π_f(J) ∪ (Π(ΔR) − π_{$1.A}(J)), the delta of (c.18)."""
    if not all(incremental(each, deleting=False) for each in node.measures):
        return _again(node, inserted, current, union(node.input, inserted))
    change = _of_change(node, inserted)
    joined = _joined(node, change, current)
    fresh = None
    if node.groups:
        fresh = minus(_values(node, change, _change(node)), _values(node, joined, _change(node)))
    return Delta(_old(node, joined), plus(_new(node, joined, deleting=False), fresh))


def c19(node: Grouped[Temporal], deleted: Temporal, current: Temporal) -> Delta:
    """Return (c.19), which is (c.17) for the rows that leave the window."""
    lost = extension_deleted(_window(node), deleted).deleted
    assert lost is not None
    return c17(node, lost, current)


def c20(node: Grouped[Temporal], inserted: Temporal, current: Temporal) -> Delta:
    """Return (c.20), which is (c.18) for the rows that enter the window."""
    gained = extension_inserted(_window(node), inserted).inserted
    assert gained is not None
    return c18(node, gained, current)


def r9(node: Grouped[Temporal]) -> Delta:
    """Return (c.17) for the rows that ended after t, with the window as of t.  This delta is equivalent to (r.9)."""
    window = _window(node)
    old = replace(node, input=replace(window, at=REFRESHED))
    return c17(old, expired(window), old)


def propagate_aggregation(node: Grouped[Temporal], deltas: tuple[Delta, ...], trace: DerivationTrace) -> Delta:
    """Apply (c.17) and (c.18), or (c.19) and (c.20) for an aggregation over a moving window."""
    if isinstance(node.input, Extension):
        return stepwise(node, deltas, (("c.19", _rule(c19)), ("c.20", _rule(c20))), trace)
    return stepwise(node, deltas, (("c.17", _rule(c17)), ("c.18", _rule(c18))), trace)


def refresh_aggregation(node: Grouped[Temporal], trace: DerivationTrace) -> Delta:
    """Apply (r.8), or (r.9) for an aggregation over a moving window."""
    if isinstance(node.input, Extension):
        return trace.record("r.9", node, None, r9(node))
    return trace.record("r.8", node, None, NOTHING)


def _rule(
    rule: Callable[[Grouped[Temporal], Temporal, Temporal], Delta],
) -> Callable[[Grouped[Temporal], int, Temporal, Temporal], Delta]:
    return lambda node, position, part, current: rule(node, part, current)


def _window(node: Grouped[Temporal]) -> Extension:
    assert isinstance(node.input, Extension)
    return node.input


def _change(node: Grouped[Temporal]) -> str:
    return f"{node.alias}_change"


def _of_change(node: Grouped[Temporal], part: Temporal) -> Grouped[Temporal]:
    """Without groups, the result has a row only while the change has rows."""
    alias = _change(node)
    measures = tuple(replace(each, output=replace(each.output, scan=alias)) for each in node.measures)
    return Grouped(part, alias, node.groups or (_ALL,), measures)


def _joined(node: Grouped[Temporal], change: Temporal, current: Temporal) -> Temporal:
    return Select(Join((change, current)), _same_group(node))


def _same_group(node: Grouped[Temporal]) -> Scalar:
    pairs = ((ColumnRef(_change(node), out.name, out.value.type), _group(node, out)) for out in node.groups)
    return conjunction(*(call("<=>", *pair) for pair in pairs))


def _group(node: Grouped[Temporal], out: Output) -> ColumnRef:
    return ColumnRef(node.alias, out.name, out.value.type)


def _values(node: Grouped[Temporal], over: Temporal, scan: str) -> Temporal:
    names = (*(_group(node, out) for out in node.groups), *(each.output for each in node.measures))
    outputs = tuple(Output(ref.column, replace(ref, scan=scan)) for ref in names)
    return Project(over, node.alias, outputs)


def _old(node: Grouped[Temporal], joined: Temporal) -> Temporal:
    return _values(node, joined, node.alias)


def _new(node: Grouped[Temporal], joined: Temporal, *, deleting: bool) -> Temporal:
    groups = tuple(Output(out.name, _group(node, out)) for out in node.groups)
    measures = tuple(
        Output(each.output.column, combined(node, each, node.alias, _change(node), deleting=deleting))
        for each in node.measures
    )
    return Project(joined, node.alias, (*groups, *measures))


def _again(node: Grouped[Temporal], part: Temporal, current: Temporal, new_input: Temporal) -> Delta:
    """Recompute each touched group at the instants of the change."""
    touched = Project(part, _change(node), node.groups or (_ALL,))
    new = _joined(node, touched, replace(node, input=new_input))
    return Delta(_old(node, _joined(node, touched, current)), _old(node, new))


propagate.register(Grouped, propagate_aggregation)
refresh.register(Grouped, refresh_aggregation)
