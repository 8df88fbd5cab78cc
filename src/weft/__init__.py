"""Weft: standing SQL queries on Spark and Delta Lake.

from weft import Weft

with Weft.open("my-home", create=True) as home:
    home.ingest_mail(["archive.mbox"], ts_from="date")
    home.install("databases", "SELECT msgid FROM msgs WHERE newsgroup = 'comp.databases'")
    home.tick()
    print(home.results("databases").to_pandas())
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.api import Weft
    from weft.api.data_source import register
    from weft.api.standing import NewQuery
    from weft.schedule.runner import Stop

__all__ = ["NewQuery", "Stop", "Weft", "WeftError", "register"]


def __getattr__(name: str) -> Any:
    # Import on first use, because most of Weft needs neither the catalog nor Spark.
    if name == "Weft":
        from weft.api import Weft

        return Weft
    if name == "NewQuery":
        from weft.api.standing import NewQuery

        return NewQuery
    if name == "Stop":
        from weft.schedule.runner import Stop

        return Stop
    if name == "register":
        from weft.api.data_source import register

        return register
    raise AttributeError(f"module 'weft' has no attribute {name!r}")
