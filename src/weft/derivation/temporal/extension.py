"""Define the rules of EX_w(R).  The operator extends the periods of each tuple by w (section 5.2).

An instant is neither deleted nor inserted if another period of the same row covers it:

    EX_w(R − ∇R) = EX_w(R) − (EX_w(∇R) − EX_w(R − ∇R))
    EX_w(R ∪ ΔR) = EX_w(R) ∪ (EX_w(ΔR) − EX_w(R))

As time passes, extended periods end.  A period with the end e has an extension with the end e + w.  If e + w is after
t, the extended period is open at t but may end before t_now.  Let the EX_w under ψ be evaluated as of t
(``Extension.at``).  Then:

    EX_w(ψ(E)) = ψ(EX_w(E)) − (FR_[t+1, NOW](ψ(EX_w(E))) − EX_w(E))

The refresh inserts nothing.  Suppose EX_w(E) contains a row at an instant v after t.  If E contains the row at v, E
contained the row at t.  Otherwise, E contained the row at an instant u with v − w <= u <= t.  In both cases, EX_w(E)
contained the row at t.  Up to t, both sides of the equation are equal.

Proof: proofs/TemporalViews.v: extension_deleted, extension_inserted.

>>> from weft.algebra.temporal import Inserted
>>> from shown_temporal import R, WEEK, words
>>> words(extension_inserted(Extension(R, WEEK), Inserted(R)).inserted)
"EX_{INTERVAL '7' DAY}(Δr) − EX_{INTERVAL '7' DAY}(r)"
"""

from __future__ import annotations

from dataclasses import replace

from weft.algebra.scalar import MICROSECOND, REFRESHED, plus
from weft.algebra.temporal import Difference, Extension, Fragment, Temporal
from weft.derivation.temporal.delta import Delta
from weft.derivation.temporal.rules import DerivationTrace, propagate, refresh, stepwise

AFTER_REFRESH = plus(REFRESHED, MICROSECOND)
"""The instant t + 1, the first instant after the last refresh."""


def extension_deleted(node: Extension, deleted: Temporal) -> Delta:
    """Return ∇ = EX_w(∇R) − EX_w(R − ∇R), the delta for deletions."""
    rest = replace(node, input=Difference(node.input, deleted))
    return Delta(Difference(replace(node, input=deleted), rest), None)


def extension_inserted(node: Extension, inserted: Temporal) -> Delta:
    """Return Δ = EX_w(ΔR) − EX_w(R), the delta for insertions."""
    return Delta(None, Difference(replace(node, input=inserted), node))


def expired(node: Extension) -> Temporal:
    """Return FR_[t+1, NOW](ψ(EX_w(E))) − EX_w(E), the rows whose extended period ended after t."""
    return Difference(Fragment(replace(node, at=REFRESHED), AFTER_REFRESH), node)


def propagate_extension(node: Extension, deltas: tuple[Delta, ...], trace: DerivationTrace) -> Delta:
    """Apply the rule for deletions, then the rule for insertions."""
    return stepwise(node, deltas, (("EX −", _without), ("EX ∪", _with)), trace)


def refresh_extension(node: Extension, trace: DerivationTrace) -> Delta:
    """Return a delta that deletes the rows whose extended period ended after t."""
    return trace.record("r.EX", node, None, Delta(expired(node), None))


def _without(node: Extension, position: int, part: Temporal, current: Temporal) -> Delta:
    return extension_deleted(node, part)


def _with(node: Extension, position: int, part: Temporal, current: Temporal) -> Delta:
    return extension_inserted(node, part)


propagate.register(Extension, propagate_extension)
refresh.register(Extension, refresh_extension)
