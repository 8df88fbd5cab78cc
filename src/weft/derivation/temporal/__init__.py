"""Maintain temporal views (Yang and Widom 1998) by rules for change propagation and refresh, with one file per
operator.

| file | operator | change propagation | refresh |
| --- | --- | --- | --- |
| difference | R − S | (c.1)–(c.4) | (r.1) |
| union | R ∪ S | (c.5), (c.6) | (r.2) |
| projection | π | (c.7), (c.8) | (r.3) |
| join | σ | (c.9), (c.10); of time (c.13), (c.14) | (r.4), (r.6) |
| join | ⋈ | (c.11), (c.12); of time (c.15), (c.16) | (r.5), (r.7) |
| extension | EX_w | its two (section 5.2) | what ended |
| aggregation | Π | (c.17), (c.18); moving (c.19), (c.20) | (r.8), (r.9) |
"""

from __future__ import annotations

from weft.derivation.temporal import aggregation, difference, extension, join, projection, union
from weft.derivation.temporal.delta_propagation import change_delta, refresh_delta

__all__ = ["change_delta", "refresh_delta"]

OPERATORS = (difference, union, projection, join, extension, aggregation)
"""The modules with the rules.  The import of a module registers its operator with ``propagate`` and ``refresh``."""
