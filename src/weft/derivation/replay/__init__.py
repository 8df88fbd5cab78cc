"""Define the replay of a query: ``at``, ``starts`` and ``ends``, with one file per operator (design section 2).

| file | operator | starts, in a line |
| --- | --- | --- |
| scan | a table | its rows, at their start |
| values | constant rows | all, when time begins |
| join | A ⋈ B | starts(A) ⋈ at(B, s) ∪ at(A, s) ⋈ starts(B) |
| select | σp A | σ at(p, s) starts(A) ∪ at(A, s) ⋈ starts(p) |
| project | π A | starts(A), the instant as a column |
| unnest | the elements of an array | none |
| union | A ∪ B | starts(A) ∪ starts(B) |
| distinct | δ A | starts(A) |
| plain | a condition without time | none |
| connectives | p ∧ q, p ∨ q | starts(p) ∧ at(q, s) ∪ at(p, s) ∧ starts(q); starts(p) ∪ starts(q) |
| thresholds | NOW >= c, NOW < d | c; none |
| exists | A ⋉ B | starts(B) |
| not_exists | A ▷ B | ends(B) ▷ at(B, s) |
"""

from __future__ import annotations

from weft.derivation.replay import (
    connectives,
    distinct,
    exists,
    join,
    not_exists,
    plain,
    project,
    scan,
    select,
    thresholds,
    union,
    unnest,
    values,
)
from weft.derivation.replay.rules import at, ends, starts

__all__ = ["at", "ends", "starts"]

OPERATORS = (
    scan, values, unnest, join, select, project, union, distinct,
    plain, connectives, thresholds, exists, not_exists,
)  # fmt: skip
"""The modules with the rules.  The import of a module registers the three functions of its operator."""
