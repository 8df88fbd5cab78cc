"""Arrangements: indexes of tables. The cost of a look-up in an arrangement does not grow with the table.

An arrangement contains rows of a table in the order of a hash of key columns. It is derived data on this machine's
disk: it is not part of a backup, and is built again if it is lost or damaged. The term and the idea are from McSherry,
Lattuada, Schwarzkopf, Roscoe: *Shared Arrangements* (VLDB 2020); runs are merged as in O'Neil, Cheng, Gawlick, O'Neil:
*The Log-Structured Merge-Tree* (1996).
"""

from __future__ import annotations

from weft.arrangement.arrangement import Arrangement
from weft.arrangement.manifest import remove
from weft.arrangement.run import ArrangementDamaged, ArrangementError

__all__ = ["Arrangement", "ArrangementDamaged", "ArrangementError", "remove"]
