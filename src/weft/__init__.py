"""Weft: standing SQL queries on Spark and Delta Lake.

from weft import Weft

with Weft.open("my-home") as weft:
    weft.ingest_mail(["archive.mbox"], ts_from="date")
    weft.install("databases", "SELECT msgid FROM msgs WHERE newsgroup = 'comp.databases'")
    weft.tick()
    for row in weft.results("databases"):
        print(row.ordinal, row.values)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.api import Weft

__all__ = ["Weft", "WeftError"]


def __getattr__(name: str) -> Any:
    if name == "Weft":  # loaded when it is asked for: much of Weft needs neither the catalog nor Spark
        from weft.api import Weft

        return Weft
    raise AttributeError(f"module 'weft' has no attribute {name!r}")
