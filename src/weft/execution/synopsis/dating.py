"""Derive the events of dated predicates and of time points (``algebra.two_sorted``) from those of a batch."""

from __future__ import annotations

import pyarrow as pa

from weft.algebra.formula import POINTS, undated
from weft.derivation.synopsis.construct import Synopsis
from weft.execution.synopsis.batch import Batch


def with_dates(synopsis: Synopsis, batch: Batch) -> Batch:
    """Return the batch with the events that the synopsis needs: dated rows with their time point, and the time
    points.
    """
    events = dict(batch.events)
    for predicate, arity in synopsis.predicates:
        if predicate == POINTS:
            tp, at = batch.points.column("tp"), batch.points.column("at")
            events[predicate] = pa.table({"tp": tp, "c1": tp, "c2": at})
        elif (plain := undated(predicate)) in events and plain is not None:
            rows = events[plain]
            events[predicate] = rows.append_column(f"c{arity}", rows.column("tp"))
    return Batch(batch.points, events)
