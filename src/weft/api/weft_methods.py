"""The base class of the parts of ``Weft``."""

from __future__ import annotations

from threading import Event

from weft.catalog.database import home_closed
from weft.execution.home import OpenHome


class WeftMethods:
    """An object with an open home.  After ``close``, any use of the home raises HomeClosed, also for the objects that
    act on behalf of other principals.
    """

    def __init__(self, opened: OpenHome) -> None:
        self._home = opened
        self._closed = Event()

    @property
    def opened(self) -> OpenHome:
        """The open home.  Raises HomeClosed after ``close``."""
        if self._closed.is_set():
            raise home_closed(self._home.folder)
        return self._home

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed.is_set()

    def close(self) -> None:
        """Close the catalog and the Spark session of the home.  The JVM continues.  A second call has no effect."""
        if not self._closed.is_set():
            self._closed.set()
            self._home.close()
