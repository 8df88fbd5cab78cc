"""Arrangements: indexes of tables. The cost of a look-up does not grow with the size of the table.

An arrangement stores rows of a table, sorted by a hash of key columns. Arrangements are derived data on the local disk.
Backups omit arrangements, and a lost or damaged arrangement is built again. The term is from McSherry, Lattuada,
Schwarzkopf, Roscoe: *Shared Arrangements* (VLDB 2020). Runs are merged as in O'Neil, Cheng, Gawlick, O'Neil: *The
Log-Structured Merge-Tree* (1996).
"""

from __future__ import annotations

from weft.arrangement.arrangement import Arrangement
from weft.arrangement.manifest import remove
from weft.arrangement.run import ArrangementDamaged, ArrangementError

__all__ = ["Arrangement", "ArrangementDamaged", "ArrangementError", "remove"]
