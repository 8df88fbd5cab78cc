"""The rules of EX_w(R), by which each tuple holds for w longer (section 5.2).

If another period of the same row covers an instant, that instant is neither deleted nor inserted:

    EX_w(R − ∇R) = EX_w(R) − (EX_w(∇R) − EX_w(R − ∇R))
    EX_w(R ∪ ΔR) = EX_w(R) ∪ (EX_w(ΔR) − EX_w(R))

As time passes, extended periods end.  A period that ends at e is extended to e + w.  If e + w is after t, the extended
period is open at t but may end before t_now.  With EX_w as of t (``Extension.at``) for ψ_t of the old state:

    EX_w(ψ(E)) = ψ(EX_w(E)) − (FR_[t+1, NOW](ψ(EX_w(E))) − EX_w(E))

Nothing is inserted: a row that holds at an instant after t also held at t.  Either the row holds in E from t on, or it
holds because of an instant u <= t within the last w; then the row held at t because of u.  Up to t both sides are
equal.

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
    """Return FR_[t+1, NOW](ψ(EX_w(E))) − EX_w(E), the rows that ended since t and held then because of the
    extension.
    """
    return Difference(Fragment(replace(node, at=REFRESHED), AFTER_REFRESH), node)


def propagate_extension(node: Extension, deltas: tuple[Delta, ...], trace: DerivationTrace) -> Delta:
    """Apply the rule for deletions, then the rule for insertions."""
    return stepwise(node, deltas, (("EX −", _without), ("EX ∪", _with)), trace)


def refresh_extension(node: Extension, trace: DerivationTrace) -> Delta:
    """Return the delta that deletes the rows that ended since t."""
    return trace.record("r.EX", node, None, Delta(expired(node), None))


def _without(node: Extension, position: int, part: Temporal, current: Temporal) -> Delta:
    return extension_deleted(node, part)


def _with(node: Extension, position: int, part: Temporal, current: Temporal) -> Delta:
    return extension_inserted(node, part)


propagate.register(Extension, propagate_extension)
refresh.register(Extension, refresh_extension)
