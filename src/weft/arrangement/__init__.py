"""Arrangements: rows of a table in the order of a hash of key columns, for look-ups that do not grow with the table.

Derived state on this machine's disk: never the truth, never in a backup, rebuilt wherever it is lost or damaged.  The
word and the idea are from McSherry, Lattuada, Schwarzkopf, Roscoe: *Shared Arrangements* (VLDB 2020); the runs are
merged as in O'Neil, Cheng, Gawlick, O'Neil: *The Log-Structured Merge-Tree* (1996).
"""

from __future__ import annotations

from weft.arrangement.arrangement import Arrangement
from weft.arrangement.removal import remove
from weft.arrangement.run import ArrangementDamaged, ArrangementError

__all__ = ["Arrangement", "ArrangementDamaged", "ArrangementError", "remove"]
